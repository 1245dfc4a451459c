#include "report/page/page_summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/steadiness.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/labels.h"
#include "report/iterations/iteration_files.h"
#include "report/iterations/iteration_words.h"
#include "report/json.h"
#include "report/words.h"

static void view_size(cJSON *object, uint64_t n_bytes)
{
    char size[32];

    stp_size_name(n_bytes, size);
    cJSON_AddStringToObject(object, "size", size);
}

static void view_arm(cJSON *object, const char *key, const struct stp_arm *arm)
{
    char name[STP_ARM_NAME];

    stp_arm_name(arm, name);
    cJSON_AddStringToObject(object, key, name);
}

static void view_ran(cJSON *object, const char *key, int algo, int proto,
                     int n_channels)
{
    char name[STP_RAN_NAME];

    stp_ran_name(algo, proto, n_channels, name);
    cJSON_AddStringToObject(object, key, name);
}

/* Adds the kernel that NCCL ran, which may belong to no algorithm. */
static void view_ran_kernel(cJSON *object, const char *key, const char *kernel,
                            int algo, int proto, int n_channels)
{
    if (kernel[0] != '\0')
        cJSON_AddStringToObject(object, key, kernel);
    else
        view_ran(object, key, algo, proto, n_channels);
}

static void view_gain(cJSON *object, const struct stp_gain *gain)
{
    char interval[STP_INTERVAL];

    stp_interval_text(gain, interval);
    stp_json_number(object, "gain", gain->gain);
    stp_json_number(object, "low", gain->low);
    stp_json_number(object, "high", gain->high);
    cJSON_AddStringToObject(object, "interval", interval);
}

/* Adds the minimum only if it differs from the maximum. */
static void view_span(cJSON *object, const char *min_key, const char *max_key,
                      double min, double max)
{
    if (min < max)
        stp_json_number(object, min_key, min);
    stp_json_number(object, max_key, max);
}

/* ---- summary, machine and policies ---- */

static void view_lead(cJSON *leads, const char *sentence, bool is_warning)
{
    cJSON *lead = stp_json_row(leads);

    cJSON_AddStringToObject(lead, "text", sentence);
    cJSON_AddStringToObject(lead, "warn", is_warning ? " warn" : "");
}

static void view_note(cJSON *notes, const char *times,
                      const struct stp_page_set *sets)
{
    char sentence[STP_PAGE_TEXT];
    cJSON *note;

    if (!stp_page_source_sentence(sets, 2, sentence))
        return;
    note = stp_json_row(notes);
    cJSON_AddStringToObject(note, "times", times);
    cJSON_AddStringToObject(note, "text", sentence);
}

static void view_summary(const struct stp_page_data *data,
                         const struct stp_page_summary *summary, cJSON *view)
{
    const struct stp_page_set *sets = data->sets;
    const char *usual = data->policies[STP_PAGE_POLICY].name != NULL
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
    stp_page_sum_up_overlap(&sets[STP_PAGE_OVERLAP_VERIFY].iterations,
                            &overlap);
    if (stp_page_overlap_sentence(&overlap, sentence))
        view_lead(leads, sentence, overlap.n_slower > 0);
    if (stp_page_memory_sentence(&data->memory.table, sentence))
        view_lead(leads, sentence, false);
    for (size_t i = 0; i < data->n_warnings; i++)
        view_lead(leads, data->warnings[i], true);
    view_note(notes, "Collectives", &sets[STP_PAGE_SWEEP]);
    view_note(notes, "Training steps", &sets[STP_PAGE_ITERATIONS]);
}

/* ---- rules ---- */

/* Adds "2M to 19M"; a range without ends adds nothing. */
static void view_range(cJSON *rule, const char *key,
                       const struct stp_range *range)
{
    char from[32], to[32] = "no end", text[80];

    if (range->min == 0 && range->max == UINT64_MAX)
        return;
    stp_size_name(range->min, from);
    if (range->max != UINT64_MAX)
        stp_size_name(range->max, to);
    snprintf(text, sizeof(text), "%s to %s", from, to);
    cJSON_AddStringToObject(rule, key, text);
}

/* "4 ranks", "2 to 4 ranks" or nothing. */
static void view_count(cJSON *rule, const char *key,
                       const struct stp_range *range, const char *noun)
{
    char text[STP_PAGE_TEXT] = "";

    if (range->min == range->max)
        stp_page_say(text, "%" PRIu64 " %s%s", range->min, noun,
                     range->min == 1 ? "" : "s");
    else if (range->max != UINT64_MAX)
        stp_page_say(text, "%" PRIu64 " to %" PRIu64 " %ss", range->min,
                     range->max, noun);
    else if (range->min > 1)
        stp_page_say(text, "%" PRIu64 " %ss or more", range->min, noun);
    cJSON_AddStringToObject(rule, key, text);
}

/* The sizes that a rule decides. */
struct view_evidence {
    size_t n_same;            /* where it is NCCL's own choice */
    size_t n_changed;         /* other sizes that were measured */
    double low, high;         /* gains there */
    char from[STP_PAGE_TEXT]; /* NCCL's own choices, each once */
};

/* Adds the gain at each changed size to 'gains'. */
static struct view_evidence
view_collect_evidence(const struct stp_page_data *data, unsigned line,
                      cJSON *gains)
{
    struct view_evidence e = {.low = INFINITY};

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_page_row *row = &data->rows[i];
        bool changed = row->verdict != STP_VERDICT_SAME;
        cJSON *gain;

        if (row->line != line)
            continue;

        char name[STP_RAN_NAME];

        stp_ran_name(row->point->auto_algo, row->point->auto_proto, 0, name);
        if (strstr(e.from, name) == NULL)
            stp_page_say(e.from, "%s%s", e.from[0] != '\0' ? ", " : "", name);

        if (row->policy == NULL)
            continue;
        e.n_same += !changed;
        e.n_changed += changed;
        if (!changed)
            continue;
        e.low = fmin(e.low, row->policy->gain.gain);
        e.high = fmax(e.high, row->policy->gain.gain);
        gain = stp_json_row(gains);
        view_size(gain, row->point->n_bytes);
        view_gain(gain, &row->policy->gain);
        cJSON_AddBoolToObject(gain, "slower",
                              row->verdict == STP_VERDICT_SLOWER);
    }
    return e;
}

static void view_rules(const struct stp_page_data *data, cJSON *view)
{
    const struct stp_policy *policy = data->policies[STP_PAGE_POLICY].rules;
    size_t n = policy != NULL ? stp_policy_size(policy) : 0;
    cJSON *rules = cJSON_AddArrayToObject(view, "rules");

    cJSON_AddBoolToObject(view, "no_policy", policy == NULL);
    for (size_t i = 0; i < n; i++) {
        const struct stp_rule *r = stp_policy_rule(policy, i);
        cJSON *rule = stp_json_row(rules);
        cJSON *gains = cJSON_AddArrayToObject(rule, "gains");
        struct view_evidence e = view_collect_evidence(data, r->line, gains);

        stp_json_number(rule, "line", r->line);
        cJSON_AddStringToObject(rule, "collective", stp_coll_name(r->coll));
        view_range(rule, "bytes", &r->bytes);
        view_range(rule, "bytes_per_rank", &r->bytes_per_rank);
        view_count(rule, "nodes", &r->nodes, "node");
        view_count(rule, "ranks", &r->ranks, "rank");
        stp_json_word(rule, "gpu", r->gpu);
        if (r->chunk_bytes > 0)
            stp_json_number(rule, "chunk_bytes", r->chunk_bytes);
        cJSON_AddStringToObject(rule, "from", e.from);
        view_ran(rule, "to", r->algo, r->proto, r->n_channels);
        stp_json_number(rule, "low", e.low);
        stp_json_number(rule, "high", e.high);
        stp_json_number(rule, "n_changed", (double)e.n_changed);
        if (e.n_same > 0)
            stp_json_number(rule, "n_same", (double)e.n_same);
    }
}

/* ---- what to register ---- */

static void view_memory_rule(const struct stp_memory_rule *m, cJSON *rules)
{
    static const char *const whens[] = {"alone", "overlapped"};
    const struct stp_memory_gains gains = stp_memory_rule_gains(m, false);
    const struct stp_memory_gains over = stp_memory_rule_gains(m, true);
    const struct stp_rule *r = &m->rule;
    char text[STP_MEMORY_TEXT];
    cJSON *rule = stp_json_row(rules);
    cJSON *sizes = cJSON_AddArrayToObject(rule, "sizes");

    cJSON_AddStringToObject(rule, "collective", stp_coll_name(r->coll));
    view_range(rule, "bytes", &r->bytes);
    view_count(rule, "nodes", &r->nodes, "node");
    view_count(rule, "ranks", &r->ranks, "rank");
    stp_json_word(rule, "gpu", r->gpu);
    cJSON_AddStringToObject(
        rule, "when", r->overlap < 0 ? "alone, overlapped" : whens[r->overlap]);
    cJSON_AddBoolToObject(rule, "overlaps", r->overlap != 0);
    cJSON_AddStringToObject(rule, "memory",
                            stp_memory_text(r->memory, r->min_ctas, text));
    stp_json_number(rule, "n_sizes", (double)m->n_evidence);
    stp_json_number(rule, "low", gains.low);
    stp_json_number(rule, "high", gains.high);
    stp_json_number(rule, "over_low", over.low);
    stp_json_number(rule, "over_high", over.high);
    for (size_t i = 0; i < m->n_evidence; i++) {
        const struct stp_memory_evidence *e = &m->evidence[i];
        cJSON *size = stp_json_row(sizes);

        view_size(size, e->n_bytes);
        view_gain(size, &e->gain);
        if (e->best[0] != '\0') {
            cJSON *best = cJSON_AddObjectToObject(size, "best");

            cJSON_AddStringToObject(best, "arm", e->best);
            view_gain(best, &e->gain_over_best);
        }
    }
}

/* Nothing without a memory policy. */
static void view_memory(const struct stp_page_data *data, cJSON *view)
{
    const struct stp_page_policy *policy =
        &data->policies[STP_PAGE_MEMORY_POLICY];
    cJSON *memory, *rules;

    if (policy->name == NULL)
        return;
    memory = cJSON_AddObjectToObject(view, "memory");
    cJSON_AddStringToObject(memory, "name", policy->name);
    rules = cJSON_AddArrayToObject(memory, "rules");
    for (size_t i = 0; i < data->memory.table.n_rules; i++)
        view_memory_rule(&data->memory.table.rules[i], rules);
}

/* ---- collectives, size by size ---- */

static void view_panel_name(const struct stp_page_data *data,
                            const struct stp_point *p, cJSON *panel)
{
    bool ranks = false, data_type = false, place = false;
    char name[STP_PAGE_TEXT] = "";

    for (size_t i = 0; i < data->n_panels; i++) {
        const struct stp_point *q = data->panels[i].rows->point;

        ranks |= q->n_ranks != p->n_ranks || q->n_nodes != p->n_nodes;
        data_type |= q->type != p->type || q->op != p->op;
        place |= q->in_place != p->in_place;
    }
    stp_page_say(name, "%s", stp_coll_title(p->coll));
    if (ranks)
        stp_page_say(name, ", %u ranks", p->n_ranks);
    if (ranks && p->n_nodes > 1)
        stp_page_say(name, " on %u nodes", p->n_nodes);
    if (data_type)
        stp_page_say(name, ", %s %s", stp_type_name(p->type),
                     stp_op_name(p->op));
    if (place)
        stp_page_say(name, p->in_place ? ", in place" : ", out of place");
    cJSON_AddStringToObject(panel, "name", name);
}

/* Adds what NCCL ran at a point, its time and its bus bandwidth. */
static cJSON *view_time(cJSON *row, const char *key, const struct stp_point *p,
                        int algo, int proto, int n_channels, double us)
{
    cJSON *time = cJSON_AddObjectToObject(row, key);

    view_ran(time, "ran", algo, proto, n_channels);
    view_ran(time, "pair", algo, proto, 0);
    stp_json_number(time, "us", us);
    stp_json_number(time, "gbps",
                    stp_busbw(p->coll, p->n_ranks, p->n_bytes, us));
    return time;
}

/* Adds the times of the sweep's arms, and the fastest arm. */
static void view_arms(const struct stp_page_row *r, cJSON *row)
{
    cJSON *arms = cJSON_AddObjectToObject(row, "arms");

    cJSON_AddBoolToObject(row, "swept", r->swept != NULL);
    if (r->swept == NULL)
        return;
    stp_json_number(row, "best_us",
                    r->best != NULL ? r->best->us : r->swept->auto_us);
    for (size_t a = 0; a < r->swept->n_arms; a++) {
        const struct stp_comparison *c = &r->swept->arms[a];
        char name[STP_ARM_NAME];

        stp_arm_name(&c->arm, name);
        if (c->arm.kind == STP_ARM_FORCED)
            stp_json_number(arms, name, c->us);
    }
    if (r->best != NULL) {
        cJSON *best = cJSON_AddObjectToObject(row, "best");

        view_arm(best, "arm", &r->best->arm);
        view_gain(best, &r->best->gain);
    }
}

static void view_row(const struct stp_page_row *r, cJSON *rows)
{
    static const char *const tones[] = {
        [STP_VERDICT_SAME] = "",   [STP_VERDICT_FASTER] = "good",
        [STP_VERDICT_UNSURE] = "", [STP_VERDICT_SLOWER] = "bad",
        [STP_VERDICT_EQUAL] = "",
    };
    const struct stp_point *p = r->point;
    const struct stp_comparison *c = r->policy;
    cJSON *row = stp_json_row(rows);

    stp_json_number(row, "bytes", (double)p->n_bytes);
    view_size(row, p->n_bytes);
    cJSON_AddStringToObject(row, "verdict", stp_verdict_words(p, c));
    cJSON_AddStringToObject(row, "tone", tones[r->verdict]);

    /* The worst of all times in the row. */
    enum stp_source source = r->point->source;
    bool single_pass = r->point->single_pass;

    if (r->policy != NULL) {
        source = stp_source_worst(source, r->policy->source);
        single_pass |= r->policy->single_pass;
    }
    if (r->best != NULL) {
        source = stp_source_worst(source, r->best->source);
        single_pass |= r->best->single_pass;
    }
    if (r->setup != NULL) {
        source = stp_source_worst(source, r->setup->source);
        single_pass |= r->setup->single_pass;
    }
    cJSON_AddStringToObject(row, "source",
                            stp_source_words(source, single_pass));

    cJSON_AddBoolToObject(row, "changed", r->verdict != STP_VERDICT_SAME);
    cJSON_AddBoolToObject(row, "unmeasured", c == NULL && r->line > 0);
    view_time(row, "auto", p, p->auto_algo, p->auto_proto, p->auto_channels,
              p->auto_us);
    if (c != NULL)
        view_gain(view_time(row, "policy", p, c->ran_algo, c->ran_proto,
                            c->ran_channels, c->us),
                  &c->gain);
    view_arms(r, row);

    /* Adds the fastest setup, which no tuner can choose. */
    cJSON *setup;

    if (r->setup == NULL)
        return;
    setup = cJSON_AddObjectToObject(row, "setup");
    view_arm(setup, "arm", &r->setup->arm);
    view_ran_kernel(setup, "ran", r->setup->ran_kernel, r->setup->ran_algo,
                    r->setup->ran_proto, r->setup->ran_channels);
    stp_json_number(setup, "us", r->setup->us);
    view_gain(setup, &r->setup->gain);
}

static void view_panel(const struct stp_page_data *data,
                       const struct stp_page_panel *p, cJSON *panels)
{
    const struct stp_point *first = p->rows->point;
    cJSON *panel = stp_json_row(panels);
    bool has_setups = false;
    cJSON *rows;

    for (size_t i = 0; i < p->n_rows; i++)
        has_setups |= p->rows[i].setup != NULL;
    view_panel_name(data, first, panel);
    stp_json_number(panel, "n_rows", (double)p->n_rows);
    cJSON_AddBoolToObject(panel, "has_setups", has_setups);
    stp_json_number(panel, "bus_factor",
                    stp_bus_factor(first->coll, first->n_ranks));
    rows = cJSON_AddArrayToObject(panel, "rows");
    for (size_t i = 0; i < p->n_rows; i++)
        view_row(&p->rows[i], rows);
}

/* ---- training steps ---- */

static void view_step(const struct stp_iteration_arm *a, bool is_auto,
                      cJSON *arms)
{
    cJSON *arm = stp_json_row(arms);

    view_arm(arm, "arm", &a->arm);
    view_ran_kernel(arm, "ran", a->ran_kernel, a->ran_algo, a->ran_proto,
                    a->ran_channels);
    stp_json_number(arm, "us", a->us.mean);
    view_gain(arm, &a->gain);
    stp_json_number(arm, "pairs", (double)a->gain.n_pairs);
    cJSON_AddStringToObject(arm, "source", stp_source_name(a->source));
    cJSON_AddBoolToObject(arm, "is_auto", is_auto);
    cJSON_AddBoolToObject(arm, "by_policy", a->arm.kind == STP_ARM_PLUGIN);
    if (a->alone_us > 0) {
        cJSON *alone = cJSON_AddObjectToObject(arm, "alone");

        stp_json_number(alone, "us", a->alone_us);
        stp_json_number(alone, "gain", a->alone_gain.gain);
    }
}

/* Adds a text, and the ranks if not all rows of the page are of as many. */
static void view_of_ranks(cJSON *object, const char *key, const char *text,
                          const struct stp_iteration_setting *s, bool has_ranks)
{
    char name[STP_PAGE_TEXT] = "";

    stp_page_say(name, "%s", text);
    if (has_ranks)
        stp_page_say(name, ", %u ranks", s->like.n_ranks);
    cJSON_AddStringToObject(object, key, name);
}

/* "overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1" */
static void view_workload(const struct stp_iteration_setting *s, bool has_ranks,
                          cJSON *object)
{
    char size[32], text[STP_ITERATION_TEXT];

    stp_size_text(s->like.n_bytes, size);
    stp_iteration_what(s, size, text);
    view_of_ranks(object, "workload", text, s, has_ranks);
}

static void view_setting(const struct stp_iteration_setting *s, bool has_ranks,
                         cJSON *settings)
{
    cJSON *setting = stp_json_row(settings);
    cJSON *arms;
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(s, name);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    view_of_ranks(setting, "name", name, s, has_ranks);
    view_workload(s, has_ranks, setting);
    arms = cJSON_AddArrayToObject(setting, "arms");
    for (size_t a = 0; a < s->n_arms; a++)
        view_step(&s->arms[a], a == 0, arms);
}

static void view_steps(const struct stp_page_data *data, int source,
                       bool by_policy, cJSON *sets)
{
    const struct stp_page_set *s = &data->sets[source];
    const struct stp_range ranks = stp_page_ranks(data);
    const bool has_ranks = ranks.min < ranks.max;
    cJSON *set, *settings, *regimes;

    if (s->name == NULL)
        return;
    set = stp_json_row(sets);
    cJSON_AddBoolToObject(set, "by_policy", by_policy);
    settings = cJSON_AddArrayToObject(set, "settings");
    for (size_t i = 0; i < s->iterations.n_settings; i++)
        view_setting(&s->iterations.settings[i], has_ranks, settings);
    regimes = cJSON_AddArrayToObject(set, "regimes");
    for (size_t i = 0; i < s->n_regimes; i++) {
        const struct stp_regime *r = &s->regimes[i];
        cJSON *regime = stp_json_row(regimes);

        view_workload(r->setting, has_ranks, regime);
        view_arm(regime, "fastest", &r->alone->arm);
        view_arm(regime, "shortest", &r->best->arm);
        view_gain(regime, &r->gain);
    }
}

/* ---- files of measurements, and how they were measured ---- */

static void view_counts(const struct stp_dataset *data, cJSON *file)
{
    cJSON *sources = cJSON_AddArrayToObject(file, "sources");
    unsigned min = UINT32_MAX, max = 0;
    struct stp_source_count count = {0};

    stp_count_sources(data, &count);
    for (size_t i = 0; i < data->n_rows; i++) {
        min = data->rows[i].iters < min ? data->rows[i].iters : min;
        max = data->rows[i].iters > max ? data->rows[i].iters : max;
    }
    view_span(file, "min_iters", "max_iters", min, max);
    for (int s = 0; s < STP_N_SOURCES; s++)
        if (count.n[s] > 0) {
            cJSON *source = stp_json_row(sources);

            stp_json_number(source, "n", (double)count.n[s]);
            cJSON_AddStringToObject(source, "name",
                                    stp_source_name((enum stp_source)s));
        }
}

static enum stp_status view_file(const struct stp_page_data *data, int source,
                                 cJSON *files, struct stp_error *err)
{
    static const char *const contents[STP_PAGE_N_SOURCES] = {
        [STP_PAGE_SWEEP] = "Sweep of all arms",
        [STP_PAGE_VERIFY] = "Verification of the policy",
        [STP_PAGE_ITERATIONS] = "Training steps, all arms",
        [STP_PAGE_OVERLAP_VERIFY] = "Verification of the overlap policy",
    };
    const struct stp_page_set *set = &data->sets[source];
    const struct stp_iteration_summary *steps = &set->iterations;
    cJSON *file;

    if (set->name == NULL)
        return STP_OK;
    file = stp_json_row(files);
    cJSON_AddStringToObject(file, "contents", contents[source]);
    cJSON_AddStringToObject(file, "file", set->name);
    stp_json_number(file, "n_rows", (double)set->data.n_rows);
    view_counts(&set->data, file);
    if (set->comparisons.n_points > 0) {
        /* Adds the steadiness of AUTO in percent. */
        struct stp_steadiness s;
        enum stp_status status =
            stp_steadiness_of(&set->comparisons, &set->comparisons, &s, err);

        if (status != STP_OK)
            return status;
        view_span(file, "min_rounds", "max_rounds", (double)s.min_rounds,
                  (double)s.max_rounds);
        if (s.max_rounds > 1) {
            stp_json_number(file, "spread", s.spread * 100);
            stp_json_number(file, "worst_spread", s.worst_spread * 100);
        }
        stp_json_number(file, "drift", s.drift * 100);
        stp_json_number(file, "worst_drift", s.worst_drift * 100);
        stp_json_number(file, "resolved", s.resolved * 100);
        return STP_OK;
    }
    stp_json_number(file, "max_rounds", steps->settings[0].arms[0].n_rounds);
    stp_json_number(file, "n_workloads", (double)steps->n_settings);
    return STP_OK;
}

/* ---- all of it ---- */

enum stp_status stp_page_view(const struct stp_page_data *data,
                              const struct stp_page_summary *summary,
                              cJSON **view_ret, struct stp_error *err)
{
    cJSON *view = cJSON_CreateObject();
    cJSON *policies = cJSON_AddArrayToObject(view, "policies");
    cJSON *files = cJSON_AddArrayToObject(view, "files");
    enum stp_status status = view != NULL ? STP_OK : stp_nomem(err);

    view_summary(data, summary, view);

    cJSON *machine = cJSON_AddObjectToObject(view, "machine");
    const struct stp_dataset *first = &stp_page_first_set(data)->data;
    const struct stp_measurement *row = first->rows;
    const struct stp_range ranks = stp_page_ranks(data);

    cJSON_AddStringToObject(machine, "run", data->run);
    cJSON_AddStringToObject(machine, "name", first->machine);
    cJSON_AddStringToObject(machine, "gpu", first->gpu);
    cJSON_AddStringToObject(machine, "nccl", first->nccl);
    cJSON_AddStringToObject(machine, "transport", first->backend);
    cJSON_AddStringToObject(machine, "type", stp_type_name(row->type));
    cJSON_AddStringToObject(machine, "op", stp_op_name(row->op));
    view_span(machine, "min_ranks", "max_ranks", (double)ranks.min,
              (double)ranks.max);
    stp_json_number(machine, "nodes", row->n_nodes);

    view_rules(data, view);
    view_memory(data, view);

    cJSON *plots = cJSON_AddObjectToObject(view, "plots");

    cJSON *panels = cJSON_AddArrayToObject(plots, "panels");
    cJSON *sets = cJSON_AddArrayToObject(plots, "sets");

    for (size_t i = 0; i < data->n_panels; i++)
        view_panel(data, &data->panels[i], panels);
    view_steps(data, STP_PAGE_ITERATIONS, false, sets);
    view_steps(data, STP_PAGE_OVERLAP_VERIFY, true, sets);

    for (int s = 0; s < STP_PAGE_SWEEP; s++) {
        const struct stp_page_policy *policy = &data->policies[s];
        cJSON *object;

        if (policy->name != NULL) {
            object = stp_json_row(policies);
            cJSON_AddStringToObject(object, "name", policy->name);
            cJSON_AddStringToObject(object, "hash", policy->hash);
            cJSON_AddStringToObject(object, "text", policy->text);
        }
    }
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES && status == STP_OK;
         s++)
        status = view_file(data, s, files, err);
    if (status != STP_OK)
        cJSON_Delete(view);
    else
        *view_ret = view;
    return status;
}
