/* page.c - the page as a whole: what it says, and what page.html shows */
#include "report/page/page.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/steadiness.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/file.h"
#include "report/iterations/iteration_files.h"
#include "report/json.h"
#include "report/page/page_data.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/words.h"

/* page.html, page.css and page.js */
extern const char stp_page_html[];
extern const char stp_page_css[];
extern const char stp_page_js[];

/* ---- figures ---- */

/* Keeps the largest gain at a size that was measured round by round. */
static void page_keep_best(const struct stp_point *p,
                           const struct stp_comparison *arm,
                           struct stp_page_extreme *best)
{
    if (!stp_source_is_estimate(arm->source) &&
        arm->gain.gain > best->gain.gain)
        *best = (struct stp_page_extreme){arm->gain, p->coll, p->n_bytes,
                                          p->n_ranks};
}

static void page_count_row(const struct stp_page_row *row,
                           struct stp_page_summary *s)
{
    const struct stp_point *p = row->point;
    const bool changed = row->verdict != STP_VERDICT_SAME;
    const bool slower = row->verdict == STP_VERDICT_SLOWER;
    struct stp_gain gain = {.gain = 1, .low = 1, .high = 1};
    bool below;

    if (row->policy == NULL && row->line > 0) {
        s->n_unknown++;
        return;
    }
    if (row->policy != NULL)
        gain = row->policy->gain;
    s->n_changed += changed;
    s->no_interval |= changed && isinf(gain.high);
    s->mean_gain += changed ? log(gain.gain) : 0;

    /* The smallest gain is kept; a loss within noise only as long as there is
     * no other. */
    below = row->verdict == STP_VERDICT_UNSURE && gain.high < 1;
    if ((slower && s->n_slower == 0) ||
        ((slower || (below && s->n_slower == 0)) &&
         gain.gain < s->worst.gain.gain))
        s->worst =
            (struct stp_page_extreme){gain, p->coll, p->n_bytes, p->n_ranks};
    s->n_slower += slower;
    s->n_below += below;
    if (row->verdict == STP_VERDICT_FASTER) {
        s->n_faster++;
        page_keep_best(p, row->policy, &s->best);
    }
}

static void page_sum_up(const struct stp_page_data *data,
                        struct stp_page_summary *s)
{
    const struct stp_policy *rules = data->files[STP_PAGE_POLICY].rules;
    const struct stp_range ranks = stp_page_ranks(data);
    const struct stp_dataset *first = &stp_page_first_set(data)->data;
    unsigned min = UINT32_MAX, max = 0, nodes = 0;

    *s = (struct stp_page_summary){
        .tried = data->files[STP_PAGE_VERIFY].name != NULL,
        .n_rules = rules != NULL ? stp_policy_size(rules) : 0,
        .n_sizes = data->n_rows,
        .is_captured = first->n_rows > 0 && first->rows[0].graph &&
                       first->rows[0].work.mode == STP_MODE_ALONE,
        .has_ranks = ranks.min < ranks.max,
        .best.gain.gain = 1,
        .worst.gain.gain = 1,
    };
    for (size_t i = 0; i < first->n_rows; i++) {
        const struct stp_measurement *m = &first->rows[i];

        min = m->n_ranks < min ? m->n_ranks : min;
        max = m->n_ranks > max ? m->n_ranks : max;
        nodes = m->n_nodes > nodes ? m->n_nodes : nodes;
        s->is_captured &= m->graph;
    }
    if (min < max)
        STP_PAGE_ADD(s->machine, "%u to ", min);
    /* several nodes may be containers of one host, with one GPU */
    if (first->gpu[0] != '\0' && nodes == 1)
        STP_PAGE_ADD(s->machine, "%u x %s", max, first->gpu);
    else
        STP_PAGE_ADD(s->machine, "%u rank%s", max, STP_S(max));
    if (nodes > 1)
        STP_PAGE_ADD(s->machine, " on %u nodes%s%s", nodes,
                     first->gpu[0] != '\0' ? " of " : "", first->gpu);
    if (first->nccl[0] != '\0')
        STP_PAGE_ADD(s->machine, " with NCCL %s", first->nccl);
    stp_auto_words(first->tuner, s->own);
    s->has_policy = rules != NULL || s->tried;
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_page_row *row = &data->rows[i];

        s->n_compared += row->is_compared;
        s->n_told += row->is_told;
        if (s->has_policy)
            page_count_row(row, s);
        else if (row->best != NULL && row->best->gain.low > 1) {
            s->n_faster++;
            page_keep_best(row->swept, row->best, &s->best);
        }
        for (size_t a = 0;
             !s->has_policy && row->swept != NULL && a < row->swept->n_arms;
             a++) {
            const struct stp_comparison *c = &row->swept->arms[a];

            if (c->arm.kind == STP_ARM_SETUP && c->gain.low > 1)
                page_keep_best(
                    row->swept, c,
                    &s->setups[c->arm.setup.memory == STP_MEMORY_STAGE]);
        }
    }
    s->mean_gain = s->n_sizes > s->n_unknown
                       ? exp(s->mean_gain / (double)(s->n_sizes - s->n_unknown))
                       : 1;
}

static void page_sum_up_overlap(const struct stp_iteration_summary *iterations,
                                struct stp_page_overlap *o)
{
    *o = (struct stp_page_overlap){.best = 1, .worst = 1};
    for (size_t i = 0; i < iterations->n_settings; i++) {
        const struct stp_iteration_setting *setting = &iterations->settings[i];

        for (size_t a = 1; a < setting->n_arms; a++) {
            const struct stp_gain *gain = &setting->arms[a].gain;
            const bool slower = gain->high < 1;
            const bool beyond_noise = 1 - gain->gain > 2 * setting->noise;

            if (setting->arms[a].arm.kind != STP_ARM_PLUGIN)
                continue;
            o->n++;
            o->n_faster += gain->low > 1;
            o->n_slower += slower && beyond_noise;
            o->n_below += slower && !beyond_noise;
            if (gain->low > 1)
                o->best = fmax(o->best, gain->gain);
            if (slower)
                o->worst = fmin(o->worst, gain->gain);
        }
    }
}

/* ---- sentences ---- */

/* The gains count that are measured and beyond doubt, of collectives alone and
 * of training steps. */
static bool page_memory_sentence(const struct stp_memory_table *memory,
                                 char text[STP_PAGE_TEXT])
{
    const bool is_staged = memory->kind == STP_POLICY_OF_STAGE;
    const struct stp_memory_evidence *best[2] = {NULL, NULL};
    const char *colls[2] = {NULL, NULL};

    text[0] = '\0';
    for (size_t r = 0; r < memory->n_rules; r++)
        for (size_t i = 0; i < memory->rules[r].n_evidence; i++) {
            const struct stp_memory_evidence *e = &memory->rules[r].evidence[i];
            const bool step = e->overlaps;

            if (!(e->gain.low > 1) || stp_source_is_estimate(e->source) ||
                (best[step] != NULL && best[step]->gain.gain >= e->gain.gain))
                continue;
            best[step] = e;
            colls[step] = stp_coll_name(memory->rules[r].rule.coll);
        }
    if (best[0] == NULL && best[1] == NULL)
        return false;
    STP_PAGE_ADD(text, is_staged ? "Staging buffers makes "
                                 : "Registering buffers makes ");
    for (int step = 0; step < 2; step++)
        if (best[step] != NULL)
            STP_PAGE_ADD(text, "%s%s up to %.2fx as fast (%s%s %s)",
                         step && best[0] != NULL ? ", and " : "",
                         step ? "training steps" : colls[0],
                         best[step]->gain.gain, step ? colls[1] : "",
                         step ? " of" : "at",
                         STP_SIZE_TEXT(best[step]->n_bytes));
    STP_PAGE_ADD(text, is_staged ? "; a job as it is can have that, by "
                                   "`steptune run --stage`."
                                 : "; only an application can do that, and "
                                   "no tuner.");
    return true;
}

/* ---- sources ---- */

/* NULL: there are no times. */
static const char *page_source_sentence(const struct stp_page_file *sets,
                                        size_t n, char text[STP_PAGE_TEXT])
{
    struct stp_source_count count = {0};
    size_t n_all = 0;

    text[0] = '\0';
    for (size_t s = 0; s < n; s++) {
        stp_count_sources(&sets[s].data, &count);
        n_all += sets[s].data.n_rows;
    }
    if (n_all == 0)
        return NULL;
    if (count.n[STP_SOURCE_MEASURED] == n_all && count.n_single_pass == 0) {
        STP_PAGE_ADD(text, "Times were measured live.");
        return text;
    }

    /* "Of 960 times 88 were ..., 872 were ...", or "All 960 times were ...". */
    static const char *const words[STP_N_SOURCES] = {
        [STP_SOURCE_MEASURED] = "measured live",
        [STP_SOURCE_RECORDED] = "recorded on that machine and are replayed",
        [STP_SOURCE_INTERPOLATED] = "interpolated between recorded sizes",
        [STP_SOURCE_VIRTUAL] =
            "simulated in virtual time, out of recorded times",
        [STP_SOURCE_MODELLED] = "modelled and measured by nobody",
    };

    for (int s = 0; s < STP_N_SOURCES; s++) {
        if (count.n[s] == 0)
            continue;
        if (stp_source_of_all(&count) == s)
            STP_PAGE_ADD(text, "All %zu times were %s", n_all, words[s]);
        else if (text[0] == '\0')
            STP_PAGE_ADD(text, "Of %zu times %zu were %s", n_all, count.n[s],
                         words[s]);
        else
            STP_PAGE_ADD(text, ", %zu were %s", count.n[s], words[s]);
    }
    if (count.n_single_pass > 0)
        STP_PAGE_ADD(text,
                     "; %zu of them were taken in single passes, and decide "
                     "nothing unless they are trusted",
                     count.n_single_pass);

    if (count.n[STP_SOURCE_MEASURED] < n_all)
        STP_PAGE_ADD(text, ": this is not a live measurement");
    STP_PAGE_ADD(text, ".");
    if (count.n[STP_SOURCE_MODELLED] > 0)
        STP_PAGE_ADD(text, " " STP_MODEL_WORDS ".");
    return text;
}

/* ---- what page.html shows: rows that commands print as JSON ---- */

/* Adds "4 ranks", "2 to 4 ranks" or, for any number, "". */
static void view_count(cJSON *object, const char *key, uint64_t min,
                       uint64_t max, const char *noun)
{
    char text[STP_PAGE_TEXT] = "";

    if (min == max)
        STP_PAGE_ADD(text, "%" PRIu64 " %s%s", min, noun, STP_S(min));
    else if (max != UINT64_MAX)
        STP_PAGE_ADD(text, "%" PRIu64 " to %" PRIu64 " %ss", min, max, noun);
    else if (min > 1)
        STP_PAGE_ADD(text, "%" PRIu64 " %ss or more", min, noun);
    cJSON_AddStringToObject(object, key, text);
}

/* Adds "2M to 19M"; a range without ends adds nothing. */
static void view_range(cJSON *rule, const char *key,
                       const struct stp_range *range)
{
    char from[32], to[32], text[80];

    if (range->min == 0 && range->max == UINT64_MAX)
        return;
    stp_range_names(range, from, to);
    snprintf(text, sizeof(text), "%s to %s", from, to);
    cJSON_AddStringToObject(rule, key, text);
}

static void view_calls(cJSON *rule, const struct stp_rule *r)
{
    view_range(rule, "bytes", &r->bytes);
    view_count(rule, "nodes", r->nodes.min, r->nodes.max, "node");
    view_count(rule, "ranks", r->ranks.min, r->ranks.max, "rank");
    stp_json_word(rule, "gpu", r->gpu);
}

static void view_lead(cJSON *leads, const char *sentence, bool is_warning)
{
    cJSON *lead = stp_json_row(leads);

    cJSON_AddStringToObject(lead, "text", sentence);
    cJSON_AddStringToObject(lead, "warn", is_warning ? " warn" : "");
}

static void view_summary(const struct stp_page_data *data,
                         const struct stp_page_summary *summary, cJSON *view)
{
    static const struct {
        const char *times;
        int first; /* of the sets */
        size_t n;
    } kinds[] = {
        {"Collectives", STP_PAGE_SWEEP, STP_PAGE_ITERATIONS - STP_PAGE_SWEEP},
        {"Training steps", STP_PAGE_ITERATIONS, 2}};
    const char *usual = data->files[STP_PAGE_POLICY].name != NULL
                            ? "What a policy for NCCL is worth"
                            : "NCCL, timed";
    cJSON *leads = cJSON_AddArrayToObject(view, "leads");
    cJSON *notes = cJSON_AddArrayToObject(view, "notes");
    struct stp_page_overlap overlap;
    char sentence[STP_PAGE_TEXT];

    stp_json_word(view, "title", data->title != NULL ? data->title : usual);
    stp_page_sentence(summary, sentence);
    view_lead(leads, sentence, summary->n_slower > 0);
    page_sum_up_overlap(&data->files[STP_PAGE_OVERLAP_VERIFY].iterations,
                        &overlap);
    if (stp_page_overlap_sentence(&overlap, sentence))
        view_lead(leads, sentence, overlap.n_slower > 0);
    if (page_memory_sentence(&data->memory.table, sentence))
        view_lead(leads, sentence, false);
    if (page_memory_sentence(&data->stage.table, sentence))
        view_lead(leads, sentence, false);
    for (size_t i = 0; i < data->n_warnings; i++)
        view_lead(leads, data->warnings[i], true);
    for (size_t i = 0; i < 2; i++)
        if (page_source_sentence(&data->files[kinds[i].first], kinds[i].n,
                                 sentence) != NULL) {
            cJSON *note = stp_json_row(notes);

            cJSON_AddStringToObject(note, "times", kinds[i].times);
            cJSON_AddStringToObject(note, "text", sentence);
        }
}

/* Adds the row of a verdict, the sweep's times, and the fastest arms: one that
 * a tuner can choose, and a setup. */
static void view_row(const struct stp_page_row *r, struct stp_table *rows)
{
    const struct stp_point *p = r->point;
    const struct {
        const char *key;
        const struct stp_comparison *arm;
    } shown[] = {{NULL, r->policy}, {"best", r->best}, {"setup", r->setup}};
    enum stp_source source = p->source;
    bool single_pass = p->single_pass;
    cJSON *arms;

    stp_put_verdict(p, r->policy, "", true, rows);
    stp_table_flag(rows, "changed", NULL, r->verdict != STP_VERDICT_SAME);
    stp_table_flag(rows, "faster", NULL, r->verdict == STP_VERDICT_FASTER);
    stp_table_flag(rows, "slower", NULL, r->verdict == STP_VERDICT_SLOWER);
    stp_table_flag(rows, "swept", NULL, r->swept != NULL);
    stp_table_flag(rows, "compared", NULL, r->is_compared);
    stp_table_flag(rows, "unmeasured", NULL, r->policy == NULL && r->line > 0);
    stp_table_number(rows, "auto_gbps", NULL,
                     stp_busbw(p->coll, p->n_ranks, p->n_bytes, p->auto_us), 2);
    if (r->policy != NULL)
        stp_table_number(
            rows, "tuned_gbps", NULL,
            stp_busbw(p->coll, p->n_ranks, p->n_bytes, r->policy->us), 2);
    for (size_t i = 0; i < 3; i++) {
        struct stp_table member;

        if (shown[i].arm == NULL)
            continue;
        source = stp_source_worst(source, shown[i].arm->source);
        single_pass |= shown[i].arm->single_pass;
        if (shown[i].key == NULL)
            continue;
        member = stp_table_member(rows->row, shown[i].key);
        stp_put_arm(shown[i].arm, p->n_bytes, &member);
    }
    if (r->swept != NULL)
        stp_json_number(rows->row, "best_us",
                        r->best != NULL ? r->best->us : r->swept->auto_us);
    stp_table_word(rows, "times", NULL, stp_source_words(source, single_pass));
    arms = cJSON_AddObjectToObject(rows->row, "arms");
    for (size_t a = 0; r->swept != NULL && a < r->swept->n_arms; a++) {
        const struct stp_comparison *c = &r->swept->arms[a];

        if (c->arm.kind == STP_ARM_FORCED)
            stp_json_number(arms, STP_ARM_TEXT(&c->arm), c->us);
    }
}

static void view_panel(const struct stp_page_data *data,
                       const struct stp_page_row *rows, cJSON *panels)
{
    const struct stp_point *first = rows->point;
    cJSON *panel = stp_json_row(panels);
    struct stp_table table = stp_table_array(panel, "rows");
    bool has_setups = false;

    for (size_t i = 0; i < rows->n_panel; i++) {
        has_setups |= rows[i].setup != NULL;
        view_row(&rows[i], &table);
    }

    bool ranks = false, data_type = false, place = false, graph = false;
    char name[STP_PAGE_TEXT] = "";

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_point *q = data->rows[i].point;

        ranks |= q->n_ranks != first->n_ranks || q->n_nodes != first->n_nodes;
        data_type |= q->type != first->type || q->op != first->op;
        place |= q->in_place != first->in_place;
        graph |= q->graph != first->graph;
    }
    STP_PAGE_ADD(name, "%s", stp_coll_title(first->coll));
    if (ranks)
        STP_PAGE_ADD(name, ", %u ranks", first->n_ranks);
    if (ranks && first->n_nodes > 1)
        STP_PAGE_ADD(name, " on %u nodes", first->n_nodes);
    if (data_type)
        STP_PAGE_ADD(name, ", %s %s", stp_type_name(first->type),
                     stp_op_name(first->op));
    if (place)
        STP_PAGE_ADD(name, first->in_place ? ", in place" : ", out of place");
    if (graph || first->graph)
        STP_PAGE_ADD(name, first->graph ? ", in CUDA graphs"
                                        : ", launched one by one");
    cJSON_AddStringToObject(panel, "name", name);

    stp_json_number(panel, "n_rows", (double)rows->n_panel);
    cJSON_AddBoolToObject(panel, "has_setups", has_setups);
    stp_json_number(panel, "bus_factor",
                    stp_bus_factor(first->coll, first->n_ranks));
}

/* Adds a rule with the rows of 'panels' that it changes. */
static void view_rule(const struct stp_page_data *data, cJSON *panels,
                      const struct stp_rule *r, cJSON *rule)
{
    cJSON *gains = cJSON_AddArrayToObject(rule, "gains");
    char from[STP_PAGE_TEXT] = ""; /* AUTO's choices, each once */
    struct {
        char sources[STP_PAGE_TEXT]; /* likewise, of the gains */
        double low, high;
        size_t n;
    } of[2] = {{.low = INFINITY},
               {.low = INFINITY}}; /* the second: estimates */
    size_t n_same = 0, n = 0, k;
    uint64_t named = 0; /* bits of the pairs in 'from' */
    cJSON *panel, *row;

    cJSON_ArrayForEach(panel, panels)
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(panel, "rows"))
    {
        const struct stp_page_row *page_row = &data->rows[n++];
        const struct stp_point *p = page_row->point;
        const int pair = 4 * (p->auto_algo + 1) + p->auto_proto + 1;
        const char *name = STP_RAN_TEXT(p->auto_algo, p->auto_proto, 0);

        if (page_row->line != r->line)
            continue;
        if ((named >> pair & 1) == 0)
            STP_PAGE_ADD(from, "%s%s", from[0] != '\0' ? ", " : "", name);
        named |= UINT64_C(1) << pair;
        if (page_row->policy == NULL || page_row->verdict == STP_VERDICT_SAME) {
            n_same += page_row->policy != NULL;
            continue;
        }
        k = stp_source_is_estimate(page_row->policy->source);
        of[k].n++;
        name = stp_source_name(page_row->policy->source);
        if (strstr(of[k].sources, name) == NULL)
            STP_PAGE_ADD(of[k].sources, ", %s", name);
        of[k].low = fmin(of[k].low, page_row->policy->gain.gain);
        of[k].high = fmax(of[k].high, page_row->policy->gain.gain);
        cJSON_AddItemReferenceToArray(gains, row);
    }
    stp_json_number(rule, "line", r->line);
    cJSON_AddStringToObject(rule, "collective", stp_coll_name(r->coll));
    view_calls(rule, r);
    view_range(rule, "bytes_per_rank", &r->bytes_per_rank);
    if (r->chunk_bytes > 0)
        stp_json_number(rule, "chunk_bytes", r->chunk_bytes);
    cJSON_AddStringToObject(rule, "from", from);
    stp_json_pair(rule, "to", r->algo, r->proto, r->n_channels);
    /* Estimates speak for a rule where nothing else does. */
    k = of[0].n == 0;
    cJSON_AddStringToObject(rule, "sources", of[k].sources);
    stp_json_number(rule, "low", of[k].low);
    if (of[k].n > 1)
        stp_json_number(rule, "high", of[k].high);
    stp_json_number(rule, "n_changed", (double)of[k].n);
    if (k == 0 && of[1].n > 0)
        stp_json_number(rule, "n_estimates", (double)of[1].n);
    if (n_same > 0)
        stp_json_number(rule, "n_same", (double)n_same);
}

/* Adds what a policy registers or stages, with the sizes that speak for it. */
static void view_memory(const struct stp_page_file *file,
                        const struct stp_memory_table *table, cJSON *list)
{
    cJSON *memory = file->name != NULL ? stp_json_row(list) : NULL;
    struct stp_table rules;

    if (file->name == NULL)
        return;
    cJSON_AddStringToObject(memory, "name", file->name);
    cJSON_AddBoolToObject(memory, "stages", table->kind == STP_POLICY_OF_STAGE);
    rules = stp_table_array(memory, "rules");
    stp_put_memory_rules(table, &rules);
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct stp_memory_rule *m = &table->rules[i];
        cJSON *rule = cJSON_GetArrayItem(rules.list, (int)i);
        struct stp_table evidence = stp_table_array(rule, "evidence");
        char text[STP_MEMORY_TEXT];

        view_calls(rule, &m->rule);
        if (m->n_evidence == 1) {
            cJSON_DeleteItemFromObject(rule, "gain_most");
            cJSON_DeleteItemFromObject(rule, "gain_over_best_most");
        }
        cJSON_AddBoolToObject(rule, "overlaps", m->rule.overlap != 0);
        stp_json_word(rule, "register_as",
                      stp_memory_text(m->rule.memory, m->rule.min_ctas, text));
        for (size_t k = 0; k < m->n_evidence; k++)
            stp_put_memory_size(table, i, k, &evidence);
    }
}

/* Adds "overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1", and the ranks
 * if not all rows of the page are of as many. */
static void view_workload(const struct stp_iteration_setting *s, bool has_ranks,
                          cJSON *object)
{
    char text[STP_ITERATION_TEXT], name[STP_PAGE_TEXT] = "";

    stp_iteration_what(s, STP_SIZE_TEXT(s->like.n_bytes), text);
    STP_PAGE_ADD(name, "%s", text);
    if (has_ranks)
        STP_PAGE_ADD(name, ", %u ranks", s->like.n_ranks);
    cJSON_AddStringToObject(object, "workload", name);
}

static void view_steps(const struct stp_page_data *data, int source,
                       cJSON *sets)
{
    const struct stp_page_file *s = &data->files[source];
    const struct stp_range ranks = stp_page_ranks(data);
    const bool has_ranks = ranks.min < ranks.max;
    /* Neither the template nor the script shows these, a third of a page. */
    static const char *const hidden[] = {
        "iterations",     "p50_us",         "p95_us",      "p99_us",
        "min_us",         "exposed_us",     "alone_algbw", "alone_busbw",
        "alone_gain_low", "alone_gain_high"};
    cJSON *set, *settings, *regimes, *arm;

    if (s->name == NULL)
        return;
    set = stp_json_row(sets);
    cJSON_AddBoolToObject(set, "by_policy", source == STP_PAGE_OVERLAP_VERIFY);
    cJSON_AddBoolToObject(set, "has_ranks", has_ranks);
    stp_put_iterations(&s->iterations, set);
    stp_put_regimes(s->regimes, s->n_regimes, set);
    settings = cJSON_GetObjectItem(set, "settings");
    for (size_t i = 0; i < s->iterations.n_settings; i++) {
        cJSON *setting = cJSON_GetArrayItem(settings, (int)i);
        cJSON *arms = cJSON_GetObjectItem(setting, "arms");

        view_workload(&s->iterations.settings[i], has_ranks, setting);
        cJSON_AddTrueToObject(cJSON_GetArrayItem(arms, 0), "is_auto");
        cJSON_ArrayForEach(arm, arms)
        {
            for (size_t k = 0; k < sizeof(hidden) / sizeof(hidden[0]); k++)
                cJSON_DeleteItemFromObject(arm, hidden[k]);
        }
    }
    regimes = cJSON_GetObjectItem(set, "regimes");
    for (size_t i = 0; i < s->n_regimes; i++)
        view_workload(s->regimes[i].setting, has_ranks,
                      cJSON_GetArrayItem(regimes, (int)i));
}

/* ---- files of measurements, and how they were measured ---- */

static void view_file(const struct stp_page_file *set, const char *contents,
                      cJSON *files)
{
    const struct stp_iteration_summary *steps = &set->iterations;
    cJSON *file = stp_json_row(files);
    cJSON *sources = cJSON_AddArrayToObject(file, "sources");
    unsigned min = UINT32_MAX, max = 0;
    struct stp_source_count count = {0};
    struct stp_steadiness s;

    cJSON_AddStringToObject(file, "contents", contents);
    cJSON_AddStringToObject(file, "file", set->name);
    stp_json_number(file, "n_rows", (double)set->data.n_rows);
    stp_count_sources(&set->data, &count);
    for (int i = 0; i < STP_N_SOURCES; i++)
        if (count.n[i] > 0) {
            cJSON *source = stp_json_row(sources);

            stp_json_number(source, "n", (double)count.n[i]);
            stp_json_word(source, "name", stp_source_name((enum stp_source)i));
        }
    for (size_t i = 0; i < set->data.n_rows; i++) {
        const unsigned n = set->data.rows[i].iters;

        min = n < min ? n : min;
        max = n > max ? n : max;
    }
    view_count(file, "iters", min, max, "iteration");
    if (set->comparisons.n_points == 0) {
        const unsigned n = steps->settings[0].arms[0].n_rounds;

        view_count(file, "n_rounds", n, n, "round");
        stp_json_number(file, "n_workloads", (double)steps->n_settings);
        return;
    }
    s = stp_steadiness_of(&set->comparisons, &set->comparisons);
    if (s.max_rounds == 1)
        s.spread = NAN; /* one round has none */
    view_count(file, "n_rounds", s.min_rounds, s.max_rounds, "round");
    stp_put_steadiness(&s, file);
}

static cJSON *page_view(const struct stp_page_data *data,
                        const struct stp_page_summary *summary)
{
    static const char *const contents[STP_PAGE_N_SOURCES] = {
        [STP_PAGE_SWEEP] = "Sweep of all arms",
        [STP_PAGE_VERIFY] = "Verification of the policy",
        [STP_PAGE_GRAPH] = "Staged buffers in CUDA graphs",
        [STP_PAGE_ITERATIONS] = "Training steps, all arms",
        [STP_PAGE_OVERLAP_VERIFY] = "Verification of the overlap policy",
    };
    const struct stp_policy *rules = data->files[STP_PAGE_POLICY].rules;
    cJSON *view = cJSON_CreateObject();
    cJSON *plots = cJSON_AddObjectToObject(view, "plots");
    cJSON *panels = cJSON_AddArrayToObject(plots, "panels");
    cJSON *sets = cJSON_AddArrayToObject(plots, "sets");
    cJSON *rule_list = cJSON_AddArrayToObject(view, "rules");
    cJSON *memories = cJSON_AddArrayToObject(view, "memory");
    cJSON *policies = cJSON_AddArrayToObject(view, "policies");
    cJSON *files = cJSON_AddArrayToObject(view, "files");

    view_summary(data, summary, view);
    cJSON_AddStringToObject(view, "own", summary->own);

    cJSON *machine = cJSON_AddObjectToObject(view, "machine");
    const struct stp_dataset *first = &stp_page_first_set(data)->data;
    const struct stp_range n_ranks = stp_page_ranks(data);
    char ranks[STP_PAGE_TEXT] = "";

    if (n_ranks.min < n_ranks.max)
        STP_PAGE_ADD(ranks, "%" PRIu64 " to ", n_ranks.min);
    STP_PAGE_ADD(ranks, "%" PRIu64, n_ranks.max);
    cJSON_AddStringToObject(machine, "run", data->run);
    stp_json_origin(machine, first);
    cJSON_AddStringToObject(machine, "type", stp_type_name(first->rows->type));
    cJSON_AddStringToObject(machine, "op", stp_op_name(first->rows->op));
    cJSON_AddStringToObject(machine, "ranks", ranks);
    stp_json_number(machine, "nodes", first->rows->n_nodes);

    for (size_t i = 0; i < data->n_rows; i += data->rows[i].n_panel)
        view_panel(data, &data->rows[i], panels);
    view_steps(data, STP_PAGE_ITERATIONS, sets);
    view_steps(data, STP_PAGE_OVERLAP_VERIFY, sets);
    cJSON_AddBoolToObject(view, "no_policy", rules == NULL);
    for (size_t i = 0; rules != NULL && i < stp_policy_size(rules); i++)
        view_rule(data, panels, stp_policy_rule(rules, i),
                  stp_json_row(rule_list));
    view_memory(&data->files[STP_PAGE_MEMORY_POLICY], &data->memory.table,
                memories);
    view_memory(&data->files[STP_PAGE_STAGE_POLICY], &data->stage.table,
                memories);
    for (int s = 0; s < STP_PAGE_SWEEP; s++) {
        const struct stp_page_file *policy = &data->files[s];
        cJSON *object;

        if (policy->name == NULL)
            continue;
        object = stp_json_row(policies);
        cJSON_AddStringToObject(object, "name", policy->name);
        cJSON_AddStringToObject(object, "hash", policy->hash);
        cJSON_AddStringToObject(object, "text", policy->text);
    }
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++)
        if (data->files[s].name != NULL)
            view_file(&data->files[s], contents[s], files);
    return view;
}

/* ---- the whole ---- */

static void page_add_extreme(cJSON *root, const char *key,
                             const struct stp_page_extreme *extreme)
{
    cJSON *object;

    if (extreme->gain.n_pairs == 0) {
        cJSON_AddNullToObject(root, key);
        return;
    }
    object = cJSON_AddObjectToObject(root, key);
    cJSON_AddStringToObject(object, "collective", stp_coll_name(extreme->coll));
    stp_json_number(object, "bytes", (double)extreme->n_bytes);
    stp_json_number(object, "nRanks", extreme->n_ranks);
    stp_json_gain(object, &extreme->gain);
}

static void page_print_summary(const struct stp_page_data *data,
                               const struct stp_page_summary *summary,
                               bool as_json, FILE *fp)
{
    struct stp_table t = stp_table_result(as_json);
    char sentence[STP_PAGE_TEXT], source[STP_PAGE_TEXT];
    cJSON *warnings;

    stp_page_sentence(summary, sentence);
    if (!as_json) {
        fprintf(fp, "%s\n", sentence);
        for (size_t i = 0; i < data->n_warnings; i++)
            fprintf(fp, "%s\n", data->warnings[i]);
        return;
    }
    stp_table_word(&t, "summary", NULL, sentence);
    warnings = cJSON_AddArrayToObject(t.root, "warnings");
    for (size_t i = 0; i < data->n_warnings; i++)
        cJSON_AddItemToArray(warnings, cJSON_CreateString(data->warnings[i]));
    stp_table_word(&t, "run", NULL, data->run[0] != '\0' ? data->run : NULL);
    stp_json_tuner(t.root, stp_page_first_set(data)->data.tuner);
    stp_table_word(&t, "source", NULL,
                   page_source_sentence(&data->files[STP_PAGE_SWEEP],
                                        STP_PAGE_N_SOURCES - STP_PAGE_SWEEP,
                                        source));
    stp_table_flag(&t, "policy", NULL, summary->has_policy);
    stp_table_flag(&t, "verified", NULL, summary->tried);
    stp_table_count(&t, "rules", NULL, summary->n_rules);
    stp_table_count(&t, "sizes", NULL, summary->n_sizes);
    stp_table_count(&t, "changed", NULL, summary->n_changed);
    stp_table_count(&t, "faster", NULL, summary->n_faster);
    stp_table_count(&t, "slower", NULL, summary->n_slower);
    stp_table_count(&t, "within_noise", NULL, summary->n_below);
    stp_table_count(&t, "not_measured", NULL, summary->n_unknown);
    stp_table_number(&t, "mean_gain", NULL, summary->mean_gain, 3);
    page_add_extreme(t.root, "best", &summary->best);
    page_add_extreme(t.root, "worst", &summary->worst);
    stp_table_end(&t, fp);
}

enum stp_status stp_page_save(const struct stp_page_sources *sources,
                              const char *path, bool as_json, FILE *said,
                              bool *auto_is_wrong_ret, struct stp_error *err)
{
    struct stp_page_data data;
    struct stp_page_summary summary;
    struct stp_file file;
    cJSON *view;
    enum stp_status status = stp_page_read(sources, &data, err);

    STP_THEN(status, stp_file_begin(path, &file, err));
    if (status == STP_OK) {
        page_sum_up(&data, &summary);
        view = page_view(&data, &summary);
        cJSON_AddStringToObject(view, "css", stp_page_css);
        cJSON_AddStringToObject(view, "js", stp_page_js);
        stp_page_fill(stp_page_html, view, file.fp);
        cJSON_Delete(view);
        status = stp_file_commit(&file, err);
    }
    if (status == STP_OK && said != NULL)
        page_print_summary(&data, &summary, as_json, said);
    if (status == STP_OK && auto_is_wrong_ret != NULL)
        *auto_is_wrong_ret = data.auto_is_wrong;
    stp_page_free(&data);
    return status;
}
