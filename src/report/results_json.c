#include <math.h>

#include <cjson/cJSON.h>

#include "analyse/bandwidth.h"
#include "analyse/objective.h"
#include "analyse/replay.h"
#include "analyse/verify.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/results.h"

/* Prints and frees 'root', which is NULL if memory ran out. */
static enum stp_status finish(cJSON *root, FILE *fp, struct stp_error *err)
{
    char *text = root != NULL ? cJSON_Print(root) : NULL;

    cJSON_Delete(root);
    if (text == NULL)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    fprintf(fp, "%s\n", text);
    cJSON_free(text);
    return STP_OK;
}

static void add_number(cJSON *object, const char *key, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

/* An object that is already in 'list'. */
static cJSON *new_object(cJSON *list)
{
    cJSON *object = cJSON_CreateObject();

    if (object != NULL)
        cJSON_AddItemToArray(list, object);
    return object;
}

/* null for what nobody knows. */
static void add_word(cJSON *object, const char *key, const char *word)
{
    if (word != NULL)
        cJSON_AddStringToObject(object, key, word);
    else
        cJSON_AddNullToObject(object, key);
}

static void add_pair(cJSON *object, const char *key, int algo, int proto,
                     int channels)
{
    cJSON *pair = cJSON_AddObjectToObject(object, key);

    add_word(pair, "algorithm", algo < 0 ? NULL : stp_algo_name(algo));
    add_word(pair, "protocol", proto < 0 ? NULL : stp_proto_name(proto));
    add_number(pair, "channels", channels);
}

static void add_gain(cJSON *object, const struct stp_gain *g)
{
    add_number(object, "gain", g->gain);
    add_number(object, "gain_low", g->low);
    add_number(object, "gain_high", g->high);
    add_number(object, "rounds", (double)g->n_pairs);
}

/* ---- sweep ---- */

/* Of collectives alone; iterations have other work in them. */
static void add_bandwidth(cJSON *row, const struct stp_measurement *m)
{
    if (m->work.mode != STP_MODE_ALONE)
        return;
    add_number(row, "algbw_gbps", stp_algbw(m->n_bytes, m->us.mean));
    add_number(row, "busbw_gbps",
               stp_busbw(m->coll, m->n_ranks, m->n_bytes, m->us.mean));
}

static void add_data(cJSON *row, const struct stp_measurement *m)
{
    cJSON_AddStringToObject(row, "type", stp_type_name(m->type));
    add_word(row, "op", stp_coll_reduces(m->coll) ? stp_op_name(m->op) : NULL);
    add_number(row, "root", m->root);
    cJSON_AddBoolToObject(row, "in_place", m->in_place);
    add_number(row, "n_wrong", m->n_wrong < 0 ? NAN : (double)m->n_wrong);
}

static void add_work(cJSON *row, const struct stp_workload *work)
{
    cJSON_AddStringToObject(row, "mode", stp_mode_name(work->mode));
    cJSON_AddStringToObject(row, "compute", stp_compute_name(work->compute));
    add_number(row, "layers", work->layers);
    add_number(row, "ratio", work->ratio);
}

static void add_gemm(cJSON *row, const struct stp_gemm *gemm)
{
    add_number(row, "m", gemm->m);
    add_number(row, "n", gemm->n);
    add_number(row, "k", gemm->k);
}

static void add_measurement(cJSON *row, const struct stp_measurement *m)
{
    char arm[STP_ARM_NAME];

    stp_arm_name(&m->arm, arm);
    cJSON_AddStringToObject(row, "collective", stp_coll_name(m->coll));
    add_number(row, "bytes", (double)m->n_bytes);
    add_number(row, "round", m->round);
    cJSON_AddStringToObject(row, "arm", arm);
    add_number(row, "nNodes", m->n_nodes);
    add_number(row, "nRanks", m->n_ranks);
    add_number(row, "iters", m->iters);
    add_number(row, "mean_us", m->us.mean);
    add_number(row, "median_us", m->us.median);
    add_number(row, "p95_us", m->us.p95);
    add_number(row, "p99_us", m->us.p99);
    add_number(row, "min_us", m->us.min);
    add_bandwidth(row, m);
    add_pair(row, "ran", m->ran_algo, m->ran_proto, m->ran_channels);
    cJSON_AddStringToObject(row, "source", stp_source_name(m->source));
    add_data(row, m);
    if (m->work.mode == STP_MODE_ALONE)
        return;
    add_work(row, &m->work);
    add_gemm(row, &m->work.gemm);
    add_number(row, "compute_us", m->work.compute_us);
    add_number(row, "alone_us", m->alone_us);
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
        add_measurement(new_object(rows), &data->rows[i]);
    return finish(root, fp, err);
}

/* ---- verdicts ---- */

static void add_verdict(cJSON *row, const struct stp_point *p,
                        const struct stp_comparison *c)
{
    cJSON_AddStringToObject(row, "collective", stp_coll_name(p->coll));
    add_number(row, "bytes", (double)p->n_bytes);
    add_number(row, "auto_us", p->auto_us);
    add_number(row, "tuned_us", c->us);
    add_gain(row, &c->gain);
    add_number(row, "auto_noise", p->noise);
    add_pair(row, "auto", p->auto_algo, p->auto_proto, p->auto_channels);
    add_pair(row, "choice", c->ran_algo, c->ran_proto, c->ran_channels);
    cJSON_AddStringToObject(row, "verdict",
                            stp_verdict_name(stp_verify_point(p)));
    cJSON_AddStringToObject(row, "source", stp_source_name(c->source));
}

enum stp_status
stp_print_verdicts_json(const struct stp_device_info *info,
                        const struct stp_comparisons *comparisons, FILE *fp,
                        struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    cJSON_AddStringToObject(root, "machine", info->what);
    rows = cJSON_AddArrayToObject(root, "sizes");
    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison *c = stp_verify_arm(p);

        if (c != NULL)
            add_verdict(new_object(rows), p, c);
    }
    return finish(root, fp, err);
}

/* ---- rules ---- */

static void add_evidence(cJSON *list, const struct stp_derived_rule *rule)
{
    for (size_t i = 0; i < rule->n_points; i++) {
        const struct stp_comparison *c =
            stp_derived_evidence(rule, &rule->points[i]);
        cJSON *row = new_object(list);

        add_number(row, "bytes", (double)rule->points[i].n_bytes);
        add_number(row, "auto_us", rule->points[i].auto_us);
        add_number(row, "us", c->us);
        add_gain(row, &c->gain);
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
        cJSON *row = new_object(list);

        add_work(row, &work);
        if (work.ratio == 0) /* else it is another one at each size */
            add_gemm(row, &work.gemm);
    }
}

enum stp_status stp_print_rules_json(const struct stp_derived *derived,
                                     const struct stp_dataset *data, FILE *fp,
                                     struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rules;

    add_workloads(root, data);
    rules = cJSON_AddArrayToObject(root, "rules");
    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];
        cJSON *row = new_object(rules);

        cJSON_AddStringToObject(row, "collective", stp_coll_name(rule->coll));
        add_number(row, "min_bytes", (double)rule->min_bytes);
        add_number(row, "max_bytes", (double)rule->max_bytes);
        add_number(row, "nNodes", rule->n_nodes);
        add_number(row, "nRanks", rule->n_ranks);
        add_pair(row, "choice", rule->arm.algo, rule->arm.proto,
                 rule->arm.n_channels);
        add_evidence(cJSON_AddArrayToObject(row, "evidence"), rule);
    }
    return finish(root, fp, err);
}

/* ---- explanation ---- */

static void add_range(cJSON *row, const struct stp_explained *x,
                      const char *policy)
{
    static const char *const deciders[] = {
        [STP_DECIDER_NCCL] = "nccl",
        [STP_DECIDER_RULE] = "rule",
        [STP_DECIDER_PLUGIN] = "plugin",
    };

    cJSON_AddStringToObject(row, "collective", stp_coll_name(x->coll));
    add_number(row, "min_bytes", (double)x->min_bytes);
    add_number(row, "max_bytes", (double)x->max_bytes);
    add_pair(row, "auto", x->auto_pick.algo, x->auto_pick.proto, 0);
    add_pair(row, "choice", x->pick.algo, x->pick.proto, x->asked_channels);
    add_number(row, "min_channels", x->min_channels);
    add_number(row, "max_channels", x->max_channels);
    cJSON_AddStringToObject(row, "decided_by", deciders[x->decider]);
    if (x->decider == STP_DECIDER_RULE) {
        cJSON_AddStringToObject(row, "policy", policy);
        add_number(row, "line", x->line);
    }
}

enum stp_status
stp_print_explanation_json(const struct stp_explanation *explanation,
                           const char *policy, FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *ranges = cJSON_AddArrayToObject(root, "ranges");

    for (size_t i = 0; i < explanation->n_ranges; i++)
        add_range(new_object(ranges), &explanation->ranges[i], policy);
    return finish(root, fp, err);
}

/* ---- replay ---- */

enum stp_status stp_print_replay_json(const struct stp_trace *trace,
                                      const struct stp_replay *replay, FILE *fp,
                                      struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    add_number(root, "ranks", replay->n_ranks);
    add_number(root, "steps", (double)replay->n_steps);
    cJSON_AddBoolToObject(root, "modelled", replay->resized);
    add_number(root, "asked", (double)replay->n_asked);
    add_number(root, "run", (double)replay->n_run);
    rows = cJSON_AddArrayToObject(root, "collectives");
    for (size_t i = 0; i < trace->n_rows; i++) {
        const struct stp_replayed *got = &replay->rows[i];
        cJSON *row = new_object(rows);

        cJSON_AddStringToObject(row, "collective",
                                stp_coll_name((int)trace->rows[i].call.coll));
        add_number(row, "bytes", (double)trace->rows[i].call.n_bytes);
        add_number(row, "line", trace->rows[i].line);
        cJSON_AddStringToObject(row, "comm",
                                trace->comms[trace->rows[i].comm].name);
        add_number(row, "ranks", got->n_ranks);
        add_pair(row, "auto", got->auto_algo, got->auto_proto, 0);
        add_pair(row, "choice", got->algo, got->proto, got->n_channels);
    }
    return finish(root, fp, err);
}
