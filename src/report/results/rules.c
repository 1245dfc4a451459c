/* rules.c - derived rules and their evidence */
#include <inttypes.h>
#include <math.h>

#include "analyse/objective.h"
#include "core/names.h"
#include "report/json.h"
#include "report/results/results.h"
#include "report/table.h"

static void rule_put(const struct stp_derived_rule *rule, struct stp_table *t)
{
    double low = INFINITY;
    double high = 0;
    char end[24] = "inf";

    for (size_t i = 0; i < rule->n_points; i++) {
        double gain = stp_point_arm(&rule->points[i], &rule->arm)->gain.gain;

        low = fmin(low, gain);
        high = fmax(high, gain);
    }
    if (rule->max_bytes != STP_DERIVE_NO_END)
        snprintf(end, sizeof(end), "%" PRIu64, rule->max_bytes);
    stp_table_row(t);
    stp_table_word(t, "collective", "<collective", stp_coll_name(rule->coll));
    stp_table_count(t, "min_bytes", "min bytes", rule->min_bytes);
    stp_table_count(t, "max_bytes", NULL, rule->max_bytes);
    stp_table_word(t, NULL, "max bytes", end);
    stp_table_count(t, "nNodes", "?nodes", rule->n_nodes);
    stp_table_count(t, "nRanks", "ranks", rule->n_ranks);
    stp_table_ran(t, "choice", NULL, rule->arm.algo, rule->arm.proto,
                  rule->arm.n_channels);
    stp_table_word(t, NULL, "<choice", STP_ARM_TEXT(&rule->arm));
    stp_table_count(t, NULL, "sizes", rule->n_points);
    stp_table_text(t, "gains", "%.3f to %.3f", low, high);
}

static void rule_put_all(const struct stp_derived *derived, struct stp_table *t)
{
    static const struct stp_derived_rule no_rule;

    if (stp_table_headings(t))
        rule_put(&no_rule, t);
    for (size_t i = 0; i < derived->n_rules; i++) {
        rule_put(&derived->rules[i], t);
        if (t->format != STP_TABLE_JSON)
            continue;

        const struct stp_derived_rule *rule = &derived->rules[i];
        struct stp_table evidence = stp_table_array(t->row, "evidence");

        for (size_t k = 0; k < rule->n_points; k++) {
            const struct stp_point *p = &rule->points[k];
            const struct stp_comparison *c = stp_point_arm(p, &rule->arm);

            stp_table_row(&evidence);
            stp_table_count(&evidence, "bytes", NULL, p->n_bytes);
            stp_table_number(&evidence, "auto_us", NULL, p->auto_us, 3);
            stp_table_number(&evidence, "us", NULL, c->us, 3);
            stp_table_gain(&evidence, &c->gain);
            stp_table_word(&evidence, "source", NULL,
                           stp_source_name(c->source));
            stp_table_flag(&evidence, "single_pass", NULL, c->single_pass);
        }
    }
}

void stp_put_steadiness(const struct stp_steadiness *s, cJSON *object)
{
    stp_json_number(object, "min_rounds", (double)s->min_rounds);
    stp_json_number(object, "max_rounds", (double)s->max_rounds);
    stp_json_number(object, "spread", s->spread);
    stp_json_number(object, "worst_spread", s->worst_spread);
    stp_json_number(object, "drift", s->drift);
    stp_json_number(object, "worst_drift", s->worst_drift);
    stp_json_number(object, "resolved_gain", s->resolved);
}

void stp_print_rules(const struct stp_derived *derived, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    rule_put_all(derived, &t);
    stp_table_end(&t, fp);
}

void stp_print_rules_json(const struct stp_derived *derived,
                          const struct stp_dataset *data,
                          const struct stp_steadiness *steadiness, FILE *fp)
{
    enum stp_objective objective = stp_dataset_n_iterations(data) == 0
                                       ? STP_OBJECTIVE_TIME
                                       : STP_OBJECTIVE_ITERATION;
    struct stp_table t = stp_table_result(true);

    stp_table_word(&t, "objective", NULL, stp_objective_name(objective));
    if (objective == STP_OBJECTIVE_ITERATION) {
        struct stp_table rows = stp_table_array(t.root, "workloads");
        struct stp_workload work;

        /* With a ratio, each size has a GEMM of its own. */
        for (bool any = stp_next_workload(data, NULL, &work); any;
             any = stp_next_workload(data, &work, &work)) {
            stp_table_row(&rows);
            stp_put_workload(&work, work.ratio == 0, &rows);
        }
    }

    /* How many times are from where. */
    cJSON *object = cJSON_AddObjectToObject(t.root, "times");
    struct stp_source_count count = {0};

    stp_count_sources(data, &count);
    for (int s = 0; s < STP_N_SOURCES; s++)
        if (count.n[s] > 0)
            stp_json_number(object, stp_source_name((enum stp_source)s),
                            (double)count.n[s]);
    stp_json_number(object, "single_pass", (double)count.n_single_pass);

    if (steadiness != NULL)
        stp_put_steadiness(steadiness,
                           cJSON_AddObjectToObject(t.root, "statistics"));
    stp_table_rows(&t, "rules");
    rule_put_all(derived, &t);
    stp_table_end(&t, fp);
}
