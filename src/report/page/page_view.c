#include "report/page/page_view.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/steadiness.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/charts/plot_parts.h"
#include "report/iterations/iteration_files.h"
#include "report/iterations/iteration_parts.h"
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

static void view_gain(cJSON *object, const struct stp_gain *gain)
{
    char interval[STP_INTERVAL];

    stp_interval_text(gain, interval);
    stp_json_number(object, "gain", gain->gain);
    stp_json_number(object, "low", gain->low);
    stp_json_number(object, "high", gain->high);
    cJSON_AddStringToObject(object, "interval", interval);
}

/* ---- summary, machine and policies ---- */

static void view_lead(cJSON *leads, const char *sentence, bool is_warning)
{
    cJSON *lead = stp_json_row(leads);

    cJSON_AddStringToObject(lead, "text", sentence);
    cJSON_AddStringToObject(lead, "warn", is_warning ? " warn" : "");
}

/* Neither without a text nor with an empty one. */
static void view_term(cJSON *list, const char *term, const char *text)
{
    cJSON *entry;

    if (text == NULL || text[0] == '\0')
        return;
    entry = stp_json_row(list);
    cJSON_AddStringToObject(entry, "term", term);
    cJSON_AddStringToObject(entry, "text", text);
}

static void view_summary(const struct stp_page_data *data,
                         const struct stp_page_summary *summary, cJSON *view)
{
    const struct stp_page_set *sets = data->sets;
    const char *usual = data->policies[STP_PAGE_POLICY].name != NULL
                            ? "What a policy for NCCL is worth"
                            : "NCCL, measured";
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
    view_term(notes, "Collectives",
              stp_page_source_sentence(&sets[STP_PAGE_SWEEP], 2));
    view_term(notes, "Training steps",
              stp_page_source_sentence(&sets[STP_PAGE_ITERATIONS], 2));
}

/* "steptune.sweep.csv: 1164 rows, 1068 recorded, 96 single_pass" */
static void view_file(const struct stp_page_set *set, char text[STP_PAGE_TEXT])
{
    text[0] = '\0';
    if (set->name == NULL)
        return;
    stp_page_say(text, "%s: %zu rows", set->name, set->data.n_rows);
    for (int source = 0; source < STP_N_SOURCES; source++) {
        size_t n = 0;

        for (size_t i = 0; i < set->data.n_rows; i++)
            n += set->data.rows[i].source == (enum stp_source)source;
        if (n > 0)
            stp_page_say(text, ", %zu %s", n,
                         stp_source_name((enum stp_source)source));
    }
}

static void view_machine(const struct stp_page_data *data, cJSON *facts)
{
    static const char *const terms[STP_PAGE_N_SOURCES] = {
        [STP_PAGE_SWEEP] = "Sweep of all arms",
        [STP_PAGE_VERIFY] = "Verification of the policy",
        [STP_PAGE_ITERATIONS] = "Training steps, all arms",
        [STP_PAGE_OVERLAP_VERIFY] = "Verification of the overlap policy",
    };
    const struct stp_dataset *first = &stp_page_first_set(data)->data;
    const struct stp_measurement *row = first->rows;
    char ranks[64], type[64], text[STP_PAGE_TEXT];

    snprintf(ranks, sizeof(ranks), "%u on %u node%s", row->n_ranks,
             row->n_nodes, row->n_nodes == 1 ? "" : "s");
    snprintf(type, sizeof(type), "%s, %s", stp_type_name(row->type),
             stp_op_name(row->op));
    view_term(facts, "Machine", first->machine);
    view_term(facts, "GPU", first->gpu);
    view_term(facts, "Ranks", ranks);
    view_term(facts, "NCCL", first->nccl);
    view_term(facts, "Transport", first->backend);
    view_term(facts, "Data", type);
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES; s++) {
        view_file(&data->sets[s], text);
        view_term(facts, terms[s], text);
    }
}

static void view_policy(const struct stp_page_policy *policy, cJSON *policies)
{
    cJSON *object;

    if (policy->name == NULL)
        return;
    object = stp_json_row(policies);
    cJSON_AddStringToObject(object, "name", policy->name);
    cJSON_AddStringToObject(object, "text", policy->text);
}

/* ---- rules ---- */

static void view_range(const struct stp_range *range, char text[STP_PAGE_TEXT])
{
    char from[32], to[32] = "no end";

    stp_size_name(range->min, from);
    if (range->max != UINT64_MAX)
        stp_size_name(range->max, to);
    if (range->min > 0 || range->max != UINT64_MAX)
        stp_page_say(text, "%s to %s", from, to);
    else
        stp_page_say(text, "any");
}

/* "4 ranks, ", "2 to 4 ranks, " or nothing. */
static void view_count(const struct stp_range *range, const char *of,
                       char text[STP_PAGE_TEXT])
{
    if (range->min == range->max)
        stp_page_say(text, "%" PRIu64 " %s%s, ", range->min, of,
                     range->min == 1 ? "" : "s");
    else if (range->max != UINT64_MAX)
        stp_page_say(text, "%" PRIu64 " to %" PRIu64 " %ss, ", range->min,
                     range->max, of);
    else if (range->min > 1)
        stp_page_say(text, "%" PRIu64 " %ss or more, ", range->min, of);
}

static void view_conditions(const struct stp_rule *r, cJSON *rule)
{
    char text[STP_PAGE_TEXT] = "";

    view_range(&r->bytes, text);
    cJSON_AddStringToObject(rule, "range", text);
    text[0] = '\0';
    if (r->bytes_per_rank.min > 0 || r->bytes_per_rank.max != UINT64_MAX) {
        view_range(&r->bytes_per_rank, text);
        stp_page_say(text, " per rank, ");
    }
    view_count(&r->nodes, "node", text);
    view_count(&r->ranks, "rank", text);
    if (r->chunk_bytes > 0)
        stp_page_say(text, "chunks of %u bytes, ", r->chunk_bytes);
    stp_page_say(text, "%s", r->gpu != NULL ? r->gpu : "any GPU");
    cJSON_AddStringToObject(rule, "conditions", text);
}

/* The sizes that a rule decides. */
struct view_evidence {
    size_t n_same;            /* where it is NCCL's own choice */
    size_t n_changed;         /* other sizes that were measured */
    double low, high;         /* gains there */
    char from[STP_PAGE_TEXT]; /* NCCL's own choices, each once */
};

static void view_add_choice(const struct stp_point *p, char from[STP_PAGE_TEXT])
{
    char name[STP_RAN_NAME];

    stp_ran_name(p->auto_algo, p->auto_proto, 0, name);
    if (strstr(from, name) == NULL)
        stp_page_say(from, "%s%s", from[0] != '\0' ? ", " : "", name);
}

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
        view_add_choice(row->point, e.from);
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

static void view_rule(const struct stp_page_data *data,
                      const struct stp_rule *r, cJSON *rules)
{
    cJSON *rule = stp_json_row(rules);
    cJSON *gains = cJSON_AddArrayToObject(rule, "gains");
    struct view_evidence e = view_collect_evidence(data, r->line, gains);
    char text[STP_PAGE_TEXT] = "";

    stp_json_number(rule, "line", r->line);
    cJSON_AddStringToObject(rule, "collective", stp_coll_name(r->coll));
    view_conditions(r, rule);
    cJSON_AddStringToObject(rule, "from", e.from[0] != '\0' ? e.from : "-");
    view_ran(rule, "to", r->algo, r->proto, r->n_channels);
    if (e.n_changed > 0)
        stp_page_say(text, "%.3f to %.3f at %zu size%s", e.low, e.high,
                     e.n_changed, e.n_changed == 1 ? "" : "s");
    if (e.n_changed > 0 && e.n_same > 0)
        stp_page_say(text, ", NCCL's own choice at %zu", e.n_same);
    else if (e.n_same > 0)
        stp_page_say(text, "NCCL's own choice at every measured size");
    else if (e.n_changed == 0)
        stp_page_say(text, "not measured at any size in its range");
    cJSON_AddStringToObject(rule, "evidence", text);
}

static void view_rules(const struct stp_page_data *data, cJSON *view)
{
    const struct stp_policy *policy = data->policies[STP_PAGE_POLICY].rules;
    size_t n = policy != NULL ? stp_policy_size(policy) : 0;
    cJSON *rules = cJSON_AddArrayToObject(view, "rules");

    if (n == 0)
        cJSON_AddStringToObject(
            view, "no_rules",
            policy == NULL
                ? "This page was made without a policy file."
                : "The policy has no rules: NCCL's own choice stands "
                  "at every size.");
    for (size_t i = 0; i < n; i++)
        view_rule(data, stp_policy_rule(policy, i), rules);
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

/* The time of what NCCL ran at a point. */
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

/* The arms of the sweep, and the fastest of them. */
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
        [STP_VERDICT_SAME] = "",
        [STP_VERDICT_FASTER] = "good",
        [STP_VERDICT_UNSURE] = "",
        [STP_VERDICT_SLOWER] = "bad",
    };
    const struct stp_point *p = r->point;
    const struct stp_comparison *c = r->policy;
    cJSON *row = stp_json_row(rows);

    stp_json_number(row, "bytes", (double)p->n_bytes);
    view_size(row, p->n_bytes);
    cJSON_AddStringToObject(row, "verdict", stp_verdict_name(r->verdict));
    cJSON_AddStringToObject(row, "tone", tones[r->verdict]);
    cJSON_AddStringToObject(row, "source", stp_source_name(p->source));
    cJSON_AddBoolToObject(row, "changed", r->verdict != STP_VERDICT_SAME);
    cJSON_AddBoolToObject(row, "unmeasured", c == NULL && r->line > 0);
    view_time(row, "auto", p, p->auto_algo, p->auto_proto, p->auto_channels,
              p->auto_us);
    if (c != NULL)
        view_gain(view_time(row, "policy", p, c->ran_algo, c->ran_proto,
                            c->ran_channels, c->us),
                  &c->gain);
    view_arms(r, row);
}

static void view_panel(const struct stp_page_data *data,
                       const struct stp_page_panel *p, cJSON *panels)
{
    const struct stp_point *first = p->rows->point;
    cJSON *panel = stp_json_row(panels);
    cJSON *rows;

    view_panel_name(data, first, panel);
    stp_json_number(panel, "n_rows", (double)p->n_rows);
    cJSON_AddStringToObject(panel, "plural", p->n_rows == 1 ? "" : "s");
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
    view_ran(arm, "ran", a->ran_algo, a->ran_proto, a->ran_channels);
    stp_json_number(arm, "us", a->us.mean);
    view_gain(arm, &a->gain);
    stp_json_number(arm, "pairs", (double)a->gain.n_pairs);
    cJSON_AddBoolToObject(arm, "is_auto", is_auto);
    cJSON_AddBoolToObject(arm, "by_policy", a->arm.kind == STP_ARM_PLUGIN);
    if (a->alone_us > 0) {
        cJSON *alone = cJSON_AddObjectToObject(arm, "alone");

        stp_json_number(alone, "us", a->alone_us);
        stp_json_number(alone, "gain", a->alone_gain.gain);
    }
}

/* "overlap: allreduce of 8 MiB, 8 layers of gemm, ratio 1" */
static void view_workload(const struct stp_iteration_setting *s, cJSON *object)
{
    char size[32], text[STP_ITERATION_TEXT];

    stp_size_text(s->like.n_bytes, size);
    stp_iteration_what(s, size, text);
    cJSON_AddStringToObject(object, "workload", text);
}

static void view_setting(const struct stp_iteration_setting *s, cJSON *settings)
{
    cJSON *setting = stp_json_row(settings);
    cJSON *arms;
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(s, name);
    for (char *c = name; *c != '\0'; c++)
        *c = *c == '_' ? ' ' : *c;
    cJSON_AddStringToObject(setting, "name", name);
    view_workload(s, setting);
    arms = cJSON_AddArrayToObject(setting, "arms");
    for (size_t a = 0; a < s->n_arms; a++)
        view_step(&s->arms[a], a == 0, arms);
}

static void view_regime(const struct stp_regime *r, cJSON *regimes)
{
    cJSON *regime = stp_json_row(regimes);

    view_workload(r->setting, regime);
    view_arm(regime, "fastest", &r->alone->arm);
    view_arm(regime, "shortest", &r->best->arm);
    view_gain(regime, &r->gain);
}

static void view_steps(const struct stp_page_set *s, const char *heading,
                       bool by_policy, cJSON *sets)
{
    cJSON *set, *settings, *regimes;

    if (s->name == NULL)
        return;
    set = stp_json_row(sets);
    cJSON_AddStringToObject(set, "heading", heading);
    cJSON_AddBoolToObject(set, "by_policy", by_policy);
    settings = cJSON_AddArrayToObject(set, "settings");
    for (size_t i = 0; i < s->iterations.n_settings; i++)
        view_setting(&s->iterations.settings[i], settings);
    regimes = cJSON_AddArrayToObject(set, "regimes");
    for (size_t i = 0; i < s->n_regimes; i++)
        view_regime(&s->regimes[i], regimes);
}

/* ---- method ---- */

static void view_steadiness(const struct stp_steadiness *s,
                            char text[STP_PAGE_TEXT])
{
    if (s->min_rounds < s->max_rounds)
        stp_page_say(text, "%zu to ", s->min_rounds);
    stp_page_say(text, "%zu round%s", s->max_rounds,
                 s->max_rounds == 1 ? "" : "s");
    if (s->max_rounds > 1)
        stp_page_say(text,
                     "; the standard deviation of AUTO between rounds is %.2f "
                     "percent (worst size %.2f)",
                     s->spread * 100, s->worst_spread * 100);
    if (isfinite(s->drift))
        stp_page_say(text,
                     "; AUTO drifts by %+.2f percent from the first third of "
                     "the rounds to the last (worst size %+.2f)",
                     s->drift * 100, s->worst_drift * 100);
    if (isfinite(s->resolved))
        stp_page_say(text, "; gains of %.2f percent or more exceed the noise",
                     s->resolved * 100);
    stp_page_say(text, ".");
}

static enum stp_status view_method(const struct stp_page_set *set,
                                   cJSON *method, struct stp_error *err)
{
    struct stp_steadiness s;
    char text[STP_PAGE_TEXT] = "";
    unsigned min = UINT32_MAX, max = 0;
    enum stp_status status = STP_OK;

    if (set->name == NULL)
        return STP_OK;
    for (size_t i = 0; i < set->data.n_rows; i++) {
        unsigned iters = set->data.rows[i].iters;

        min = iters < min ? iters : min;
        max = iters > max ? iters : max;
    }
    if (min < max)
        stp_page_say(text, "%u to ", min);
    stp_page_say(text, "%u iteration%s per arm and round; ", max,
                 max == 1 ? "" : "s");
    if (set->comparisons.n_points == 0)
        stp_page_say(text, "%u rounds, %zu workloads.",
                     set->iterations.settings[0].arms[0].n_rounds,
                     set->iterations.n_settings);
    else
        status =
            stp_steadiness_of(&set->comparisons, &set->comparisons, &s, err);
    if (status == STP_OK && set->comparisons.n_points > 0)
        view_steadiness(&s, text);
    view_term(method, set->name, text);
    return status;
}

/* ---- all of it ---- */

static void view_plots(const struct stp_page_data *data, cJSON *plots)
{
    cJSON *panels = cJSON_AddArrayToObject(plots, "panels");
    cJSON *sets = cJSON_AddArrayToObject(plots, "sets");

    for (size_t i = 0; i < data->n_panels; i++)
        view_panel(data, &data->panels[i], panels);
    view_steps(&data->sets[STP_PAGE_ITERATIONS], "Training steps, arm by arm",
               false, sets);
    view_steps(&data->sets[STP_PAGE_OVERLAP_VERIFY],
               "Training steps with the overlap policy", true, sets);
}

enum stp_status stp_page_view(const struct stp_page_data *data,
                              const struct stp_page_summary *summary,
                              cJSON **view_ret, struct stp_error *err)
{
    cJSON *view = cJSON_CreateObject();
    cJSON *policies = cJSON_AddArrayToObject(view, "policies");
    cJSON *method = cJSON_AddArrayToObject(view, "method");
    enum stp_status status = view != NULL ? STP_OK : stp_nomem(err);

    view_summary(data, summary, view);
    view_machine(data, cJSON_AddArrayToObject(view, "facts"));
    view_rules(data, view);
    view_plots(data, cJSON_AddObjectToObject(view, "plots"));
    for (int s = 0; s < STP_PAGE_SWEEP; s++)
        view_policy(&data->policies[s], policies);
    for (int s = STP_PAGE_SWEEP; s < STP_PAGE_N_SOURCES && status == STP_OK;
         s++)
        status = view_method(&data->sets[s], method, err);
    if (status != STP_OK)
        cJSON_Delete(view);
    else
        *view_ret = view;
    return status;
}
