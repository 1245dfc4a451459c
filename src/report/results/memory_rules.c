#include "report/results/memory_rules.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/objective.h"
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "launch/take.h"
#include "report/table.h"
#include "report/words.h"

static bool rules_have_kind(const struct stp_point *p,
                            enum stp_policy_kind kind)
{
    for (size_t a = 0; a < p->n_arms; a++)
        if (stp_arm_is_of(&p->arms[a].arm, kind))
            return true;
    return false;
}

/* ---- situations ---- */

/* Adds the rows with or without graphs: collectives alone, iterations or both
 * as far as buffers were staged in some of them. */
static void situations_select(const struct stp_dataset *data, bool graph,
                              struct stp_dataset *rows)
{
    const size_t n = data != NULL ? data->n_rows : 0;
    bool are_staged[2] = {false, false}; /* alone, in iterations */

    for (size_t i = 0; i < n; i++) {
        const struct stp_measurement *m = &data->rows[i];

        are_staged[m->work.mode != STP_MODE_ALONE] |=
            m->graph == graph && m->arm.setup.memory == STP_MEMORY_STAGE;
    }
    for (size_t i = 0; i < n; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->graph == graph && are_staged[m->work.mode != STP_MODE_ALONE])
            stp_dataset_take(rows, m);
    }
}

/* Compares launched or captured collectives for a stage policy.  Where compute
 * goes on, a captured one is as slow as a launched one. */
static enum stp_status
situations_compare_staged(const struct stp_memory_data *data, int graph,
                          struct stp_memory_situations *out,
                          struct stp_error *err)
{
    struct stp_dataset rows = {0}, again = {0}, launched = {0};
    enum stp_status status;

    situations_select(data->alone, graph, &rows);
    if (data->alone != data->iterations)
        situations_select(data->iterations, graph, &rows);
    situations_select(data->again[graph], graph, &again);
    situations_select(data->iterations, false, &launched);
    for (size_t i = 0; i < rows.n_rows && graph == 1; i++)
        stp_dataset_take(&launched, &rows.rows[i]);
    status =
        stp_compare_registered(&rows, &rows, false, &out->compared[graph], err);
    STP_THEN(status, stp_compare_registered(&again, &again, false,
                                            &out->trials[graph], err));
    STP_THEN(status, stp_compare_registered(&rows, &launched, true,
                                            &out->beside[graph], err));
    stp_dataset_free(&rows);
    stp_dataset_free(&again);
    stp_dataset_free(&launched);
    return status;
}

enum stp_status stp_memory_situations_compare(
    const struct stp_memory_data *data, const struct stp_derive_terms *terms,
    struct stp_memory_situations *out, struct stp_error *err)
{
    const bool is_staged = terms->kind == STP_POLICY_OF_STAGE;

    *out = (struct stp_memory_situations){0};
    for (int i = 0; i < 2; i++) {
        const struct stp_dataset *again = data->again[i];

        out->all[i] =
            (struct stp_memory_situation){.overlaps = !is_staged && i == 1,
                                          .graph = is_staged && i == 1,
                                          .comparisons = &out->compared[i],
                                          .terms = *terms};
        out->all[i].terms.trials = &out->trials[i];
        out->all[i].terms.beside = &out->beside[i];
        STP_TRY(is_staged
                    ? situations_compare_staged(data, i, out, err)
                    : stp_compare_registered(data->alone, data->iterations,
                                             i == 1, &out->compared[i], err));
        if (!is_staged && again != NULL)
            STP_TRY(stp_compare_registered(again, again, i == 1,
                                           &out->trials[i], err));
        for (size_t k = 0; k < out->compared[i].n_points; k++)
            out->are_measured |=
                rules_have_kind(&out->compared[i].points[k], terms->kind);
        if (terms->same_bits)
            stp_keep_same_bits(&out->compared[i]);
    }
    return STP_OK;
}

void stp_memory_situations_free(struct stp_memory_situations *situations)
{
    for (int i = 0; i < 2; i++) {
        stp_comparisons_free(&situations->compared[i]);
        stp_comparisons_free(&situations->trials[i]);
        stp_comparisons_free(&situations->beside[i]);
    }
}

/* ---- deriving ---- */

/* Where the rules of several situations are gathered. */
struct gathering {
    struct stp_memory_rules out;
    size_t n_evidence;
    const char *gpu;
};

static void rules_add_evidence(const struct stp_point *p,
                               const struct stp_comparison *c,
                               const struct stp_memory_situation *s,
                               struct stp_memory_evidence *e)
{
    const struct stp_comparison *rule;

    *e = (struct stp_memory_evidence){
        .n_bytes = p->n_bytes,
        .overlaps = s->overlaps,
        .auto_us = p->auto_us,
        .us = c->us,
        .gain = c->gain,
        .gain_over_best = stp_gain_over_rule(p, c, s->terms.min_gain, &rule),
        .source = c->source,
        .single_pass = c->single_pass};
    if (rule != NULL)
        stp_arm_name(&rule->arm, e->best);
}

/* Sizes at which only arms of tuners were measured say nothing, and break no
 * range; but where bits are to stay, those of memory may have been left out. */
static enum stp_status rules_gather(struct gathering *g,
                                    const struct stp_memory_situation *s,
                                    struct stp_error *err)
{
    struct stp_comparisons with = *s->comparisons;
    struct stp_derived derived = {0};
    enum stp_status status;

    STP_TAKE(with.points, with.n_points);
    with.n_points = 0;
    for (size_t i = 0; i < s->comparisons->n_points; i++)
        if (s->terms.same_bits ||
            rules_have_kind(&s->comparisons->points[i], s->terms.kind))
            with.points[with.n_points++] = s->comparisons->points[i];
    status = stp_derive_on(&with, &s->terms, &derived, err);
    for (size_t i = 0; i < derived.n_rules; i++) {
        const struct stp_derived_rule *rule = &derived.rules[i];
        const bool is_staged = s->terms.kind == STP_POLICY_OF_STAGE;
        struct stp_memory_evidence *evidence = &g->out.evidence[g->n_evidence];
        struct stp_memory_rule *same = g->out.rules;
        struct stp_memory_rule *end = same + g->out.table.n_rules;

        while (same < end &&
               (same->rule.graph != (int)s->graph ||
                same->rule.coll != rule->coll ||
                same->rule.bytes.min != rule->min_bytes ||
                same->rule.bytes.max != rule->max_bytes ||
                same->rule.nodes.min != rule->n_nodes ||
                same->rule.ranks.min != rule->n_ranks ||
                same->rule.memory != (int)rule->arm.setup.memory ||
                same->rule.min_ctas != rule->arm.setup.min_ctas))
            same++;
        if (same < end) { /* whether compute waits or not */
            same->rule.overlap = -1;
            continue;
        }
        for (size_t k = 0; k < rule->n_points; k++)
            rules_add_evidence(&rule->points[k],
                               stp_point_arm(&rule->points[k], &rule->arm), s,
                               &evidence[k]);
        g->n_evidence += rule->n_points;
        g->out.rules[g->out.table.n_rules++] = (struct stp_memory_rule){
            .rule = {.coll = rule->coll,
                     .memory = (int)rule->arm.setup.memory,
                     .min_ctas = rule->arm.setup.min_ctas,
                     .bytes = {rule->min_bytes, rule->max_bytes},
                     .nodes = {rule->n_nodes, rule->n_nodes},
                     .ranks = {rule->n_ranks, rule->n_ranks},
                     .overlap = !is_staged                ? s->overlaps
                                : s->terms.beside != NULL ? -1
                                                          : 0,
                     .graph = is_staged ? s->graph : -1,
                     .gpu = g->gpu[0] != '\0' ? g->gpu : NULL},
            .evidence = evidence,
            .n_evidence = rule->n_points};
    }
    for (size_t i = 0; i < with.n_points && status == STP_OK; i++) {
        /* Adds what would be registered at a point, had it held. */
        const struct stp_point *p = &with.points[i];
        struct stp_memory_drop *drop = &g->out.drops[g->out.table.n_drops];
        double again, policy;
        const struct stp_comparison *c =
            stp_derive_refuted(p, &s->terms, &again, &policy);

        if (c != NULL && s->terms.beside != NULL) {
            *drop = (struct stp_memory_drop){.coll = p->coll,
                                             .n_ranks = p->n_ranks,
                                             .overlaps = s->overlaps,
                                             .n_bytes = p->n_bytes,
                                             .setup = c->arm.setup,
                                             .gain = c->gain.gain,
                                             .again = again,
                                             .policy = policy};
            g->out.table.n_drops++;
        }
    }
    stp_derived_free(&derived);
    free(with.points);
    return status;
}

static void rules_begin(struct gathering *g, size_t n_rules, size_t n_evidence)
{
    g->out.table.rules = STP_TAKE(g->out.rules, n_rules);
    STP_TAKE(g->out.evidence, n_evidence);
    g->out.table.drops = STP_TAKE(g->out.drops, n_evidence);
}

enum stp_status
stp_memory_rules_derive(const struct stp_memory_situations *situations,
                        const char *gpu, struct stp_memory_rules *rules_ret,
                        struct stp_error *err)
{
    const struct stp_memory_situation *s = situations->all;
    struct gathering g = {.gpu = gpu, .out.table.kind = s->terms.kind};
    const size_t n_captured = s[1].comparisons->n_points;
    const size_t n_points = s[0].comparisons->n_points + 2 * n_captured;
    struct stp_memory_situation waits = s[1]; /* compute does, in the job */
    enum stp_status status;

    waits.terms.beside = NULL;
    rules_begin(&g, n_points, n_points);
    status = rules_gather(&g, &s[0], err);
    if (waits.graph)
        STP_THEN(status, rules_gather(&g, &waits, err));
    STP_THEN(status, rules_gather(&g, &s[1], err));
    if (status == STP_OK)
        *rules_ret = g.out;
    else
        stp_memory_rules_free(&g.out);
    return status;
}

/* ---- measuring rules that are there ---- */

/* Adds what the rule's arm did at the sizes of a situation that it decides. */
static void rules_measure(struct gathering *g, const struct stp_policy *policy,
                          const struct stp_memory_situation *s,
                          struct stp_memory_rule *rule)
{
    const struct stp_arm arm = {
        .kind = STP_ARM_SETUP,
        .setup = stp_setup_of((enum stp_memory)rule->rule.memory,
                              rule->rule.min_ctas)};
    const bool is_staged = g->out.table.kind == STP_POLICY_OF_STAGE;

    for (size_t i = 0; i < s->comparisons->n_points; i++) {
        const struct stp_point *p = &s->comparisons->points[i];
        const struct stp_memory_query query = {
            .coll = p->coll,
            .n_bytes = p->n_bytes,
            .n_ranks = p->n_ranks,
            .n_nodes = p->n_nodes,
            .overlaps = is_staged ? rule->rule.overlap != 0 : s->overlaps,
            .gpu = g->gpu,
            .captured = s->graph};
        const struct stp_rule *match = stp_memory_policy_match(policy, &query);
        const struct stp_comparison *c = stp_point_arm(p, &arm);

        bool is_twin = false; /* of a point out of place, which decides */

        for (size_t k = 0; k < s->comparisons->n_points && p->in_place; k++) {
            const struct stp_point *q = &s->comparisons->points[k];

            is_twin |=
                !q->in_place && q->coll == p->coll &&
                q->n_nodes == p->n_nodes && q->n_ranks == p->n_ranks &&
                (s->terms.same_bits || rules_have_kind(q, g->out.table.kind));
        }
        if (match == NULL || match->line != rule->rule.line || c == NULL ||
            is_twin)
            continue;
        rules_add_evidence(p, c, s, &g->out.evidence[g->n_evidence++]);
        rule->n_evidence++;
    }
}

struct stp_memory_rules
stp_memory_rules_measure(const struct stp_policy *policy,
                         const struct stp_memory_situations *situations,
                         const char *gpu)
{
    const struct stp_memory_situation *s = situations->all;
    struct gathering g = {.gpu = gpu,
                          .out.table.kind = stp_policy_get_kind(policy)};
    const size_t n_rules = stp_policy_size(policy);

    /* Two rules decide a size, if what runs beside tells them apart. */
    rules_begin(&g, n_rules,
                2 * (s[0].comparisons->n_points + s[1].comparisons->n_points));
    for (size_t i = 0; i < n_rules; i++) {
        struct stp_memory_rule *rule = &g.out.rules[g.out.table.n_rules++];

        rule->rule = *stp_policy_rule(policy, i);
        rule->evidence = &g.out.evidence[g.n_evidence];
        for (int k = 0; k < 2; k++)
            rules_measure(&g, policy, &s[k], rule);
    }
    return g.out;
}

void stp_memory_rules_free(struct stp_memory_rules *rules)
{
    free(rules->rules);
    free(rules->evidence);
    free(rules->drops);
    memset(rules, 0, sizeof(*rules));
}

/* ---- printing ---- */

static void rules_put_calls(const struct stp_rule *rule,
                            enum stp_policy_kind kind, struct stp_table *t)
{
    /* both situations, the first alone, the second alone */
    static const char *const words[STP_N_POLICY_KINDS][3] = {
        [STP_POLICY_OF_MEMORY] = {"alone, overlapped", "alone", "overlapped"},
        [STP_POLICY_OF_STAGE] = {"launched, captured", "launched", "captured"},
    };
    const bool is_staged = kind == STP_POLICY_OF_STAGE;
    char text[STP_MEMORY_TEXT];

    stp_table_word(t, "collective", "<collective", stp_coll_name(rule->coll));
    stp_table_count(t, "nRanks", "ranks", rule->ranks.min);
    snprintf(text, sizeof(text), "%s%s",
             words[kind][(is_staged ? rule->graph : rule->overlap) + 1],
             is_staged && rule->overlap == 0 ? ", nothing beside" : "");
    stp_table_word(t, "when", "<when", text);
    stp_table_word(t, "memory", NULL, stp_memory_name(rule->memory));
    stp_table_count(t, "min_ctas", NULL, (uint64_t)rule->min_ctas);
    stp_table_text(t, is_staged ? "<stage as" : "<register as", "%s",
                   stp_memory_text(rule->memory, rule->min_ctas, text));
}

void stp_put_memory_size(const struct stp_memory_table *table, size_t rule,
                         size_t i, struct stp_table *t)
{
    const struct stp_memory_evidence *e = &table->rules[rule].evidence[i];
    const bool has_best = e->best[0] != '\0';
    char gain[32] = "";

    if (has_best)
        snprintf(gain, sizeof(gain), "%.3f", e->gain_over_best.gain);
    stp_table_row(t);
    rules_put_calls(&table->rules[rule].rule, table->kind, t);
    stp_table_count(t, "bytes", "bytes", e->n_bytes);
    stp_table_number(t, "plain_us", "plain us", e->auto_us, 2);
    stp_table_number(t, "us", "us", e->us, 2);
    stp_table_gain(t, &e->gain);
    stp_table_word(t, "best", "?<best rule", e->best);
    stp_table_number(t, "gain_over_best", NULL,
                     has_best ? e->gain_over_best.gain : NAN, 3);
    stp_table_text(t, "?gain over it", "%s", gain);
    stp_table_word(t, NULL, "?95% interval of that",
                   has_best ? STP_INTERVAL_TEXT(&e->gain_over_best) : "");
    stp_table_word(t, "source", "<times",
                   stp_source_words(e->source, e->single_pass));
}

void stp_print_memory_sizes(const struct stp_memory_table *table, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    for (size_t i = 0; i < table->n_rules; i++)
        for (size_t k = 0; k < table->rules[i].n_evidence; k++)
            stp_put_memory_size(table, i, k, &t);
    stp_table_end(&t, fp);
}

/* The least and the greatest gain, once where they are one. */
static void rules_put_gains(struct stp_table *t, const char *heading,
                            double low, double high)
{
    if (low < high)
        stp_table_text(t, heading, "%.3f to %.3f", low, high);
    else
        stp_table_text(t, heading, "%.3f", low);
}

void stp_put_memory_rules(const struct stp_memory_table *table,
                          struct stp_table *t)
{
    for (size_t i = 0; i < table->n_rules; i++) {
        const struct stp_memory_rule *rule = &table->rules[i];
        double low = INFINITY, high = 0, over_low = INFINITY, over_high = 0;

        for (size_t k = 0; k < rule->n_evidence; k++) {
            const struct stp_memory_evidence *e = &rule->evidence[k];

            low = fmin(low, e->gain.gain);
            high = fmax(high, e->gain.gain);
            over_low = fmin(over_low, e->gain_over_best.gain);
            over_high = fmax(over_high, e->gain_over_best.gain);
        }
        stp_table_row(t);
        rules_put_calls(&rule->rule, table->kind, t);
        stp_table_count(t, "min_bytes", "min bytes", rule->rule.bytes.min);
        stp_table_count(t, "max_bytes", "max bytes", rule->rule.bytes.max);
        stp_table_count(t, "sizes", "sizes", rule->n_evidence);
        stp_table_number(t, "gain_least", NULL, low, 4);
        stp_table_number(t, "gain_most", NULL, high, 4);
        rules_put_gains(t, "gains", low, high);
        stp_table_number(t, "gain_over_best_least", NULL, over_low, 4);
        stp_table_number(t, "gain_over_best_most", NULL, over_high, 4);
        rules_put_gains(t, "over the best rule", over_low, over_high);
    }
}

void stp_print_memory_rules(const struct stp_memory_table *table, bool is_json,
                            FILE *fp)
{
    struct stp_table t = stp_table_result(is_json);

    if (table->n_rules == 0 && !is_json)
        fputs("Nothing: no other buffers gain enough beyond doubt at any size "
              "timed.\n",
              fp);
    stp_table_rows(&t, "rules");
    stp_put_memory_rules(table, &t);
    stp_table_end(&t, fp);
}
