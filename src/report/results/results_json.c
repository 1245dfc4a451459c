#include <math.h>

#include "analyse/bandwidth.h"
#include "analyse/objective.h"
#include "analyse/replay/replay.h"
#include "analyse/verify.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/json.h"
#include "report/results/results.h"
#include "report/results/tune_report.h"
#include "report/words.h"

/* ---- sweep ---- */

/* Of collectives alone; iterations have other work in them. */
static void add_bandwidth(cJSON *row, const struct stp_measurement *m)
{
    if (m->work.mode != STP_MODE_ALONE)
        return;
    stp_json_number(row, "algbw_gbps", stp_algbw(m->n_bytes, m->us.mean));
    stp_json_number(row, "busbw_gbps",
                    stp_busbw(m->coll, m->n_ranks, m->n_bytes, m->us.mean));
}

static void add_data(cJSON *row, const struct stp_measurement *m)
{
    cJSON_AddStringToObject(row, "type", stp_type_name(m->type));
    stp_json_word(row, "op",
                  stp_coll_reduces(m->coll) ? stp_op_name(m->op) : NULL);
    stp_json_number(row, "root", m->root);
    cJSON_AddBoolToObject(row, "in_place", m->in_place);
    stp_json_number(row, "n_wrong", m->n_wrong < 0 ? NAN : (double)m->n_wrong);
}

static void add_work(cJSON *row, const struct stp_workload *work)
{
    cJSON_AddStringToObject(row, "mode", stp_mode_name(work->mode));
    cJSON_AddStringToObject(row, "compute", stp_compute_name(work->compute));
    stp_json_number(row, "layers", work->layers);
    stp_json_number(row, "ratio", work->ratio);
}

static void add_gemm(cJSON *row, const struct stp_gemm *gemm)
{
    stp_json_number(row, "m", gemm->m);
    stp_json_number(row, "n", gemm->n);
    stp_json_number(row, "k", gemm->k);
}

static void add_measurement(cJSON *row, const struct stp_measurement *m)
{
    char arm[STP_ARM_NAME];

    stp_arm_name(&m->arm, arm);
    cJSON_AddStringToObject(row, "collective", stp_coll_name(m->coll));
    stp_json_number(row, "bytes", (double)m->n_bytes);
    stp_json_number(row, "round", m->round);
    cJSON_AddStringToObject(row, "arm", arm);
    stp_json_number(row, "nNodes", m->n_nodes);
    stp_json_number(row, "nRanks", m->n_ranks);
    stp_json_number(row, "iters", m->iters);
    stp_json_number(row, "mean_us", m->us.mean);
    stp_json_number(row, "median_us", m->us.median);
    stp_json_number(row, "p95_us", m->us.p95);
    stp_json_number(row, "p99_us", m->us.p99);
    stp_json_number(row, "min_us", m->us.min);
    add_bandwidth(row, m);
    stp_json_pair(row, "ran", m->ran_algo, m->ran_proto, m->ran_channels);
    cJSON_AddStringToObject(row, "source", stp_source_name(m->source));
    add_data(row, m);
    if (m->work.mode == STP_MODE_ALONE)
        return;
    add_work(row, &m->work);
    add_gemm(row, &m->work.gemm);
    stp_json_number(row, "compute_us", m->work.compute_us);
    stp_json_number(row, "alone_us", m->alone_us);
}

enum stp_status stp_print_sweep_json(const struct stp_dataset *data, FILE *fp,
                                     struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    cJSON_AddStringToObject(root, "machine", data->machine);
    cJSON_AddStringToObject(root, "gpu", data->gpu);
    cJSON_AddStringToObject(root, "nccl", data->nccl);
    cJSON_AddStringToObject(root, "backend", data->backend);
    rows = cJSON_AddArrayToObject(root, "measurements");
    for (size_t i = 0; i < data->n_rows; i++)
        add_measurement(stp_json_row(rows), &data->rows[i]);
    return stp_json_finish(root, fp, err);
}

/* ---- verdicts ---- */

static void add_verdict(cJSON *row, const struct stp_point *p,
                        const struct stp_comparison *c)
{
    cJSON_AddStringToObject(row, "collective", stp_coll_name(p->coll));
    stp_json_number(row, "bytes", (double)p->n_bytes);
    stp_json_number(row, "nRanks", p->n_ranks);
    if (p->work.mode != STP_MODE_ALONE)
        add_work(row, &p->work);
    stp_json_number(row, "auto_us", p->auto_us);
    stp_json_number(row, "tuned_us", c->us);
    stp_json_gain(row, &c->gain);
    stp_json_number(row, "auto_noise", p->noise);
    stp_json_pair(row, "auto", p->auto_algo, p->auto_proto, p->auto_channels);
    stp_json_pair(row, "choice", c->ran_algo, c->ran_proto, c->ran_channels);
    cJSON_AddStringToObject(row, "verdict",
                            stp_verdict_name(stp_verify_point(p)));
    cJSON_AddStringToObject(row, "source", stp_source_name(c->source));
}

static void add_verdicts(cJSON *rows, const struct stp_comparisons *comparisons)
{
    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison *c = stp_verify_arm(p);

        if (c != NULL)
            add_verdict(stp_json_row(rows), p, c);
    }
}

enum stp_status
stp_print_verdicts_json(const struct stp_device_info *info,
                        const struct stp_comparisons *comparisons, FILE *fp,
                        struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();

    cJSON_AddStringToObject(root, "machine", info->what);
    add_verdicts(cJSON_AddArrayToObject(root, "sizes"), comparisons);
    return stp_json_finish(root, fp, err);
}

enum stp_status stp_print_tuning_json(const struct stp_tune_report *report,
                                      FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *overlap;

    cJSON_AddStringToObject(root, "machine", report->info->what);
    cJSON_AddStringToObject(root, "policy", report->policy_path);
    stp_json_number(root, "n_rules", (double)report->derived->n_rules);
    add_verdicts(cJSON_AddArrayToObject(root, "sizes"), report->verdicts);
    if (report->overlap != NULL) {
        overlap = cJSON_AddObjectToObject(root, "overlap");
        cJSON_AddStringToObject(overlap, "policy",
                                report->overlap->policy_path);
        stp_json_number(overlap, "n_rules",
                        (double)report->overlap->derived->n_rules);
        add_verdicts(cJSON_AddArrayToObject(overlap, "iterations"),
                     report->overlap->verdicts);
    }
    return stp_json_finish(root, fp, err);
}

/* ---- rules ---- */

static void add_evidence(cJSON *list, const struct stp_derived_rule *rule)
{
    for (size_t i = 0; i < rule->n_points; i++) {
        const struct stp_comparison *c =
            stp_derived_evidence(rule, &rule->points[i]);
        cJSON *row = stp_json_row(list);

        stp_json_number(row, "bytes", (double)rule->points[i].n_bytes);
        stp_json_number(row, "auto_us", rule->points[i].auto_us);
        stp_json_number(row, "us", c->us);
        stp_json_gain(row, &c->gain);
        cJSON_AddStringToObject(row, "source", stp_source_name(c->source));
    }
}

/* What iterations rules rest on; nothing of those of collectives alone. */
static void add_workloads(cJSON *root, const struct stp_dataset *data)
{
    bool is_time = stp_dataset_n_iterations(data) == 0;
    struct stp_workload work;
    cJSON *list;

    cJSON_AddStringToObject(root, "objective",
                            stp_objective_name(is_time
                                                   ? STP_OBJECTIVE_TIME
                                                   : STP_OBJECTIVE_ITERATION));
    if (is_time)
        return;
    list = cJSON_AddArrayToObject(root, "workloads");
    for (bool any = stp_next_workload(data, NULL, &work); any;
         any = stp_next_workload(data, &work, &work)) {
        cJSON *row = stp_json_row(list);

        add_work(row, &work);
        if (work.ratio == 0) /* else it is another one at each size */
            add_gemm(row, &work.gemm);
    }
}

static void add_steadiness(cJSON *root, const struct stp_steadiness *s)
{
    cJSON *object = cJSON_AddObjectToObject(root, "statistics");

    stp_json_number(object, "min_rounds", (double)s->min_rounds);
    stp_json_number(object, "max_rounds", (double)s->max_rounds);
    stp_json_number(object, "spread", s->spread);
    stp_json_number(object, "worst_spread", s->worst_spread);
    stp_json_number(object, "drift", s->drift);
    stp_json_number(object, "worst_drift", s->worst_drift);
    stp_json_number(object, "resolved_gain", s->resolved);
}

enum stp_status stp_print_rules_json(const struct stp_derived *derived,
                                     const struct stp_dataset *data,
                                     const struct stp_steadiness *steadiness,
                                     FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rules;

    add_workloads(root, data);
    if (steadiness != NULL)
        add_steadiness(root, steadiness);
    rules = cJSON_AddArrayToObject(root, "rules");
    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];
        cJSON *row = stp_json_row(rules);

        cJSON_AddStringToObject(row, "collective", stp_coll_name(rule->coll));
        stp_json_number(row, "min_bytes", (double)rule->min_bytes);
        stp_json_number(row, "max_bytes", (double)rule->max_bytes);
        stp_json_number(row, "nNodes", rule->n_nodes);
        stp_json_number(row, "nRanks", rule->n_ranks);
        stp_json_pair(row, "choice", rule->arm.algo, rule->arm.proto,
                      rule->arm.n_channels);
        add_evidence(cJSON_AddArrayToObject(row, "evidence"), rule);
    }
    return stp_json_finish(root, fp, err);
}

/* ---- explanation ---- */

static void add_range(cJSON *row, const struct stp_explained *x,
                      const char *policy)
{
    cJSON_AddStringToObject(row, "collective", stp_coll_name(x->coll));
    stp_json_number(row, "min_bytes", (double)x->min_bytes);
    stp_json_number(row, "max_bytes", (double)x->max_bytes);
    stp_json_pair(row, "auto", x->auto_pick.algo, x->auto_pick.proto, 0);
    stp_json_pair(row, "choice", x->pick.algo, x->pick.proto,
                  x->asked_channels);
    stp_json_number(row, "min_channels", x->min_channels);
    stp_json_number(row, "max_channels", x->max_channels);
    cJSON_AddStringToObject(row, "decided_by", stp_decider_name(x->decider));
    if (x->decider == STP_DECIDER_RULE) {
        cJSON_AddStringToObject(row, "policy", policy);
        stp_json_number(row, "line", x->line);
    }
}

enum stp_status
stp_print_explanation_json(const struct stp_explanation *explanation,
                           const char *policy, FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *ranges = cJSON_AddArrayToObject(root, "ranges");

    for (size_t i = 0; i < explanation->n_ranges; i++)
        add_range(stp_json_row(ranges), &explanation->ranges[i], policy);
    return stp_json_finish(root, fp, err);
}

/* ---- replay ---- */

enum stp_status stp_print_replay_json(const struct stp_trace *trace,
                                      const struct stp_replay *replay, FILE *fp,
                                      struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    stp_json_number(root, "ranks", replay->n_ranks);
    stp_json_number(root, "steps", (double)replay->n_steps);
    cJSON_AddBoolToObject(root, "modelled", replay->resized);
    stp_json_number(root, "asked", (double)replay->n_asked);
    stp_json_number(root, "run", (double)replay->n_run);
    rows = cJSON_AddArrayToObject(root, "collectives");
    for (size_t i = 0; i < trace->n_rows; i++) {
        const struct stp_replayed *got = &replay->rows[i];
        cJSON *row = stp_json_row(rows);

        cJSON_AddStringToObject(row, "collective",
                                stp_coll_name((int)trace->rows[i].call.coll));
        stp_json_number(row, "bytes", (double)trace->rows[i].call.n_bytes);
        stp_json_number(row, "line", trace->rows[i].line);
        cJSON_AddStringToObject(row, "comm",
                                trace->comms[trace->rows[i].comm].name);
        stp_json_number(row, "ranks", got->n_ranks);
        stp_json_pair(row, "auto", got->auto_algo, got->auto_proto, 0);
        stp_json_pair(row, "choice", got->algo, got->proto, got->n_channels);
    }
    return stp_json_finish(root, fp, err);
}
