/* page_view.c - joins the rows that commands print as JSON to what page.html
 * shows */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/steadiness.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/iterations/iteration_words.h"
#include "report/json.h"
#include "report/page/page_data.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/take.h"
#include "report/words.h"

/* Adds "4 ranks", "2 to 4 ranks" or, for any number, "". */
static void view_count(cJSON *object, const char *key, uint64_t min,
                       uint64_t max, const char *noun)
{
    char text[STP_PAGE_TEXT] = "";

    if (min == max)
        stp_page_format(text, "%" PRIu64 " %s%s", min, noun,
                        min == 1 ? "" : "s");
    else if (max != UINT64_MAX)
        stp_page_format(text, "%" PRIu64 " to %" PRIu64 " %ss", min, max, noun);
    else if (min > 1)
        stp_page_format(text, "%" PRIu64 " %ss or more", min, noun);
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

/* Adds the calls that a rule is of. */
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

    cJSON_AddStringToObject(view, "title",
                            data->title != NULL ? data->title : usual);
    stp_page_sentence(summary, sentence);
    view_lead(leads, sentence, summary->n_slower > 0);
    stp_page_sum_up_overlap(&data->files[STP_PAGE_OVERLAP_VERIFY].iterations,
                            &overlap);
    if (stp_page_overlap_sentence(&overlap, sentence))
        view_lead(leads, sentence, overlap.n_slower > 0);
    if (stp_page_memory_sentence(&data->memory.table, sentence))
        view_lead(leads, sentence, false);
    if (stp_page_memory_sentence(&data->stage.table, sentence))
        view_lead(leads, sentence, false);
    for (size_t i = 0; i < data->n_warnings; i++)
        view_lead(leads, data->warnings[i], true);
    for (size_t i = 0; i < 2; i++)
        if (stp_page_source_sentence(&data->files[kinds[i].first], kinds[i].n,
                                     sentence)) {
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
        char name[STP_ARM_NAME];

        stp_arm_name(&c->arm, name);
        if (c->arm.kind == STP_ARM_FORCED)
            stp_json_number(arms, name, c->us);
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

    bool ranks = false, data_type = false, place = false;
    char name[STP_PAGE_TEXT] = "";

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_point *q = data->rows[i].point;

        ranks |= q->n_ranks != first->n_ranks || q->n_nodes != first->n_nodes;
        data_type |= q->type != first->type || q->op != first->op;
        place |= q->in_place != first->in_place;
    }
    stp_page_format(name, "%s", stp_coll_title(first->coll));
    if (ranks)
        stp_page_format(name, ", %u ranks", first->n_ranks);
    if (ranks && first->n_nodes > 1)
        stp_page_format(name, " on %u nodes", first->n_nodes);
    if (data_type)
        stp_page_format(name, ", %s %s", stp_type_name(first->type),
                        stp_op_name(first->op));
    if (place)
        stp_page_format(name,
                        first->in_place ? ", in place" : ", out of place");
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
    double low = INFINITY, high = 0;
    size_t n_same = 0, n_changed = 0, n = 0;
    cJSON *panel, *row;

    cJSON_ArrayForEach(panel, panels)
        cJSON_ArrayForEach(row, cJSON_GetObjectItem(panel, "rows"))
    {
        const struct stp_page_row *page_row = &data->rows[n++];
        const struct stp_point *p = page_row->point;
        char name[STP_RAN_NAME];

        if (page_row->line != r->line)
            continue;
        stp_ran_name(p->auto_algo, p->auto_proto, 0, name);
        if (strstr(from, name) == NULL)
            stp_page_format(from, "%s%s", from[0] != '\0' ? ", " : "", name);
        if (page_row->policy == NULL)
            continue;
        if (page_row->verdict == STP_VERDICT_SAME) {
            n_same++;
            continue;
        }
        n_changed++;
        low = fmin(low, page_row->policy->gain.gain);
        high = fmax(high, page_row->policy->gain.gain);
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
    stp_json_number(rule, "low", low);
    stp_json_number(rule, "high", high);
    stp_json_number(rule, "n_changed", (double)n_changed);
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
        cJSON_AddBoolToObject(rule, "overlaps", m->rule.overlap != 0);
        cJSON_AddStringToObject(
            rule, "register_as",
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
    char size[32], text[STP_ITERATION_TEXT], name[STP_PAGE_TEXT] = "";

    stp_size_text(s->like.n_bytes, size);
    stp_iteration_what(s, size, text);
    stp_page_format(name, "%s", text);
    if (has_ranks)
        stp_page_format(name, ", %u ranks", s->like.n_ranks);
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
            cJSON_AddStringToObject(source, "name",
                                    stp_source_name((enum stp_source)i));
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
    if (stp_steadiness_of(&set->comparisons, &set->comparisons, &s, NULL) !=
        STP_OK)
        stp_end_without_memory();
    if (s.max_rounds == 1)
        s.spread = NAN; /* one round has none */
    view_count(file, "n_rounds", s.min_rounds, s.max_rounds, "round");
    stp_put_steadiness(&s, file);
}

cJSON *stp_page_view(const struct stp_page_data *data,
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
        stp_page_format(ranks, "%" PRIu64 " to ", n_ranks.min);
    stp_page_format(ranks, "%" PRIu64, n_ranks.max);
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
