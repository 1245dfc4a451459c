#include "analyse/objective.h"

#include <stdlib.h>

#include "analyse/derive.h"
#include "analyse/order.h"
#include "analyse/verify.h"
#include "analyse/wrong.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

static const double max_loss = STP_DERIVE_MIN_GAIN;

static const char *const names[STP_N_OBJECTIVES] = {
    [STP_OBJECTIVE_TIME] = "time",
    [STP_OBJECTIVE_ITERATION] = "iteration",
};

const char *stp_objective_name(enum stp_objective objective)
{
    return names[objective];
}

int stp_objective_from_name(const char *word, size_t len)
{
    return stp_find_word(names, STP_N_OBJECTIVES, word, len);
}

/* ---- selecting ---- */

/* Makes a forced arm the pair that NCCL ran with it.  False if not known. */
static bool objective_name_pair(struct stp_measurement *m)
{
    struct stp_arm *arm = &m->arm;

    if (arm->kind != STP_ARM_FORCED)
        return true;
    if (arm->algo == STP_ANY)
        arm->algo = m->ran_algo;
    if (arm->proto == STP_ANY)
        arm->proto = m->ran_proto;
    return arm->algo >= 0 && arm->proto >= 0;
}

enum stp_status stp_objective_select(const struct stp_dataset *data,
                                     enum stp_objective objective,
                                     struct stp_dataset *selected_ret,
                                     struct stp_error *err)
{
    bool wants_alone = objective == STP_OBJECTIVE_TIME;
    size_t n_iterations = stp_dataset_n_iterations(data);
    size_t n_traces = 0;
    struct stp_dataset out = *data;

    for (size_t i = 0; i < data->n_rows; i++)
        n_traces += data->rows[i].work.mode == STP_MODE_TRACE;
    if (n_traces > 0 && n_traces == n_iterations && !wants_alone)
        return STP_REFUSE(
            err,
            "all %zu times of iterations are of traces, whose "
            "steps have messages of several kinds, expected those "
            "of `steptune iterate` without --trace",
            n_traces);
    if (n_iterations == 0 && !wants_alone)
        return STP_REFUSE(err,
                          "no times of iterations, expected those of `steptune "
                          "iterate`: all %zu are of collectives alone",
                          data->n_rows);
    if (n_iterations == data->n_rows && wants_alone)
        return STP_REFUSE(err,
                          "no times of collectives alone, expected those of "
                          "`steptune sweep`: all %zu are of iterations, which "
                          "are for the objective iteration",
                          data->n_rows);
    out.rows = NULL;
    out.n_rows = out.capacity = 0;
    for (size_t i = 0; i < data->n_rows; i++) {
        struct stp_measurement m = data->rows[i];
        bool is_alone = m.work.mode == STP_MODE_ALONE;

        if (!is_alone)
            stp_take_wrong(data, &m);
        if (is_alone == wants_alone && m.work.mode != STP_MODE_TRACE &&
            objective_name_pair(&m))
            stp_dataset_take(&out, &m);
    }
    *selected_ret = out;
    return STP_OK;
}

/* ---- pooling workloads ---- */

/* Rows of iterations on their way to one comparison a size. */
struct pooling {
    struct stp_dataset each;   /* of one collective a row */
    struct stp_dataset pooled; /* the same, as if of one workload */
};

static int objective_order_rounds(const void *pa, const void *pb)
{
    const struct stp_measurement *a = *(struct stp_measurement *const *)pa;
    const struct stp_measurement *b = *(struct stp_measurement *const *)pb;

    STP_RETURN_ORDER(stp_workload_order(&a->work, &b->work));
    return STP_ORDER(a->round, b->round);
}

/* Numbers the rounds of all workloads through, so that each row stays with the
 * AUTO of its own. */
static void objective_number_rounds(struct pooling *p)
{
    size_t n = p->each.n_rows;
    struct stp_measurement **sorted = stp_take(n, sizeof(*sorted));
    unsigned round = 0;

    for (size_t i = 0; i < n; i++)
        sorted[i] = &p->each.rows[i];
    qsort(sorted, n, sizeof(*sorted), objective_order_rounds);
    for (size_t i = 0; i < n; i++) {
        struct stp_measurement m = *sorted[i];

        round +=
            i > 0 && objective_order_rounds(&sorted[i - 1], &sorted[i]) != 0;
        m.round = round;
        m.work = (struct stp_workload){0};
        m.alone_us = 0;
        stp_dataset_take(&p->pooled, &m);
    }
    free(sorted);
}

/* Whether some workload at this size shows the arm slower than AUTO, or leaves
 * open that it is by more than 'max_loss': an arm that promises no gain has few
 * rounds. */
static bool objective_is_slower(const struct stp_comparisons *verdicts,
                                const struct stp_point *pooled,
                                const struct stp_arm *arm)
{
    for (size_t i = 0; i < verdicts->n_points; i++) {
        struct stp_point p = verdicts->points[i];
        const struct stp_comparison *c = stp_point_arm(&p, arm);

        p.work = pooled->work;
        if (p.n_bytes == pooled->n_bytes && stp_point_alike(&p, pooled) &&
            c != NULL &&
            (stp_is_slower(&p, c) ||
             (0 < c->gain.low && c->gain.low < 1 - max_loss &&
              1 - c->gain.gain > 2 * p.noise)))
            return true;
    }
    return false;
}

/* Compares rows of iterations, of all workloads in one, and leaves only arms
 * that no workload is against. */
static enum stp_status objective_pool(const struct stp_dataset *selected,
                                      struct stp_comparisons *comparisons_ret,
                                      struct stp_error *err)
{
    struct pooling p = {0};
    struct stp_comparisons verdicts = {0}; /* of each workload */
    enum stp_status status;

    /* A row of fsdp becomes one of each of its collectives.  It says what NCCL
     * ran as an all-gather; as a reduce-scatter nobody knows. */
    for (size_t i = 0; i < selected->n_rows; i++) {
        struct stp_measurement m = selected->rows[i];

        if (m.work.mode == STP_MODE_FSDP) {
            m.coll = ncclFuncAllGather;
            stp_dataset_take(&p.each, &m);
            m.coll = ncclFuncReduceScatter;
            m.ran_algo = m.ran_proto = m.ran_channels = -1;
        }
        stp_dataset_take(&p.each, &m);
    }
    objective_number_rounds(&p);
    status = stp_compare(&p.each, &verdicts, err);
    STP_THEN(status, stp_compare(&p.pooled, comparisons_ret, err));
    if (status == STP_OK) {
        struct stp_comparison *arms = comparisons_ret->arms;

        for (size_t i = 0; i < comparisons_ret->n_points; i++) {
            struct stp_point *point = &comparisons_ret->points[i];
            const size_t n = point->n_arms;

            point->n_arms = 0;
            for (size_t a = 0; a < n; a++)
                if (!objective_is_slower(&verdicts, point, &arms[a].arm))
                    arms[point->n_arms++] = arms[a];
            arms += n;
        }
    }
    stp_comparisons_free(&verdicts);
    stp_dataset_free(&p.each);
    stp_dataset_free(&p.pooled);
    return status;
}

enum stp_status stp_objective_compare(const struct stp_dataset *selected,
                                      enum stp_objective objective,
                                      struct stp_comparisons *comparisons_ret,
                                      struct stp_error *err)
{
    return objective == STP_OBJECTIVE_TIME
               ? stp_compare(selected, comparisons_ret, err)
               : objective_pool(selected, comparisons_ret, err);
}

/* ---- what to register ---- */

/* The time of a collective in a sequential iteration, less the compute. */
static double registered_behind(double us, const struct stp_workload *work)
{
    return us / work->layers - work->compute_us;
}

/* Compares collectives alone, and those of sequential iterations, which ran
 * behind compute and count within their sizes. */
static enum stp_status registered_compare_alone(
    const struct stp_dataset *alone, const struct stp_dataset *iterations,
    struct stp_comparisons *comparisons_ret, struct stp_error *err)
{
    struct pooling p = {0};
    enum stp_status status;
    size_t n_sequential;

    for (size_t i = 0; i < iterations->n_rows; i++) {
        struct stp_measurement m = iterations->rows[i];
        const struct stp_workload *work = &m.work;
        bool is_other_type = false; /* than all of those alone */

        if (work->mode != STP_MODE_SEQUENTIAL || !(work->compute_us > 0) ||
            !stp_source_decides(m.source))
            continue;
        for (size_t k = 0; k < alone->n_rows; k++) {
            const struct stp_measurement *other = &alone->rows[k];

            if (other->work.mode != STP_MODE_ALONE || other->coll != m.coll)
                continue;
            is_other_type = other->type != m.type;
            if (!is_other_type)
                break;
        }
        m.us.mean = registered_behind(m.us.mean, work);
        m.us.median = registered_behind(m.us.median, work);
        m.us.p95 = registered_behind(m.us.p95, work);
        m.us.p99 = registered_behind(m.us.p99, work);
        m.us.min = registered_behind(m.us.min, work);
        m.in_place = false; /* as those alone, of which they are a part */
        stp_take_wrong(alone, &m);
        if (m.us.median > 0 && objective_name_pair(&m) && !is_other_type)
            stp_dataset_take(&p.each, &m);
    }
    objective_number_rounds(&p);
    n_sequential = p.pooled.n_rows;
    for (size_t i = 0; i < alone->n_rows; i++) {
        struct stp_measurement m = alone->rows[i];
        bool below = false, above = false;

        if (m.work.mode != STP_MODE_ALONE || !objective_name_pair(&m))
            continue;
        for (size_t k = 0; k < n_sequential && !(below && above); k++) {
            const struct stp_measurement *s = &p.pooled.rows[k];
            const bool is_like = s->coll == m.coll && s->n_ranks == m.n_ranks &&
                                 s->n_nodes == m.n_nodes && s->type == m.type &&
                                 s->graph == m.graph;

            below |= is_like && s->n_bytes <= m.n_bytes;
            above |= is_like && s->n_bytes >= m.n_bytes;
        }
        if (!(below && above))
            stp_dataset_take(&p.pooled, &m);
    }
    status = stp_compare(&p.pooled, comparisons_ret, err);
    stp_dataset_free(&p.each);
    stp_dataset_free(&p.pooled);
    return status;
}

enum stp_status stp_compare_registered(const struct stp_dataset *alone,
                                       const struct stp_dataset *iterations,
                                       bool overlaps,
                                       struct stp_comparisons *comparisons_ret,
                                       struct stp_error *err)
{
    struct stp_dataset selected = {0};
    enum stp_status status;

    if (!overlaps)
        return registered_compare_alone(alone, iterations, comparisons_ret,
                                        err);
    for (size_t i = 0; i < iterations->n_rows; i++) {
        struct stp_measurement m = iterations->rows[i];

        stp_take_wrong(alone, &m);
        if ((m.work.mode == STP_MODE_OVERLAP || m.work.mode == STP_MODE_FSDP) &&
            objective_name_pair(&m))
            stp_dataset_take(&selected, &m);
    }
    status = objective_pool(&selected, comparisons_ret, err);
    stp_dataset_free(&selected);
    return status;
}

bool stp_next_workload(const struct stp_dataset *data,
                       const struct stp_workload *after,
                       struct stp_workload *next_ret)
{
    const struct stp_workload *next = NULL;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_workload *work = &data->rows[i].work;

        if (work->mode != STP_MODE_ALONE &&
            (after == NULL || stp_workload_order(work, after) > 0) &&
            (next == NULL || stp_workload_order(work, next) < 0))
            next = work;
    }
    if (next != NULL)
        *next_ret = *next;
    return next != NULL;
}
