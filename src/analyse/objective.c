#include "analyse/objective.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "analyse/verify.h"
#include "nccl_tuner_abi.h"

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
    for (int i = 0; i < STP_N_OBJECTIVES; i++)
        if (strlen(names[i]) == len && memcmp(names[i], word, len) == 0)
            return i;
    return -1;
}

/* ---- selecting ---- */

/* Makes a forced arm the pair that NCCL ran with it.  False if nobody knows
 * it. */
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

static enum stp_status objective_refuse(const struct stp_dataset *data,
                                        enum stp_objective objective,
                                        struct stp_error *err)
{
    if (objective == STP_OBJECTIVE_ITERATION)
        return stp_fail(err, STP_ERR_RANGE,
                        "no times of iterations, expected those of `steptune "
                        "iterate`: all %zu are of collectives alone",
                        data->n_rows);
    return stp_fail(
        err, STP_ERR_RANGE,
        "no times of collectives alone, expected those of `steptune sweep`: "
        "all %zu are of iterations, which are for the objective iteration",
        data->n_rows);
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
        return stp_fail(err, STP_ERR_RANGE,
                        "all %zu times of iterations are of traces, whose "
                        "steps have messages of several kinds, expected those "
                        "of `steptune iterate` without --trace",
                        n_traces);
    if (n_iterations == (wants_alone ? data->n_rows : 0))
        return objective_refuse(data, objective, err);
    out.rows = NULL;
    out.n_rows = out.capacity = 0;
    for (size_t i = 0; i < data->n_rows; i++) {
        struct stp_measurement m = data->rows[i];
        bool is_alone = m.work.mode == STP_MODE_ALONE;

        if (is_alone != wants_alone || m.work.mode == STP_MODE_TRACE ||
            !objective_name_pair(&m))
            continue;
        if (stp_dataset_add(&out, &m) != STP_OK) {
            stp_dataset_free(&out);
            return stp_nomem(err);
        }
    }
    *selected_ret = out;
    return STP_OK;
}

/* ---- pooling workloads ---- */

/* Rows of iterations on their way to one comparison a size. */
struct pooling {
    struct stp_dataset each;         /* of one collective a row */
    struct stp_dataset pooled;       /* the same, as if of one workload */
    struct stp_comparisons verdicts; /* of each workload */
};

static enum stp_status objective_add_row(struct stp_dataset *data,
                                         const struct stp_measurement *m,
                                         struct stp_error *err)
{
    return stp_dataset_add(data, m) == STP_OK ? STP_OK : stp_nomem(err);
}

/* A row of fsdp becomes one of each of its collectives.  It says what NCCL ran
 * as an all-gather; as a reduce-scatter nobody knows. */
static enum stp_status
objective_split_collectives(const struct stp_dataset *selected,
                            struct stp_dataset *each, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < selected->n_rows && status == STP_OK; i++) {
        struct stp_measurement m = selected->rows[i];

        if (m.work.mode == STP_MODE_FSDP) {
            m.coll = ncclFuncAllGather;
            status = objective_add_row(each, &m, err);
            m.coll = ncclFuncReduceScatter;
            m.ran_algo = m.ran_proto = m.ran_channels = -1;
        }
        STP_THEN(status, objective_add_row(each, &m, err));
    }
    return status;
}

static int objective_order_rounds(const void *pa, const void *pb)
{
    const struct stp_measurement *a = *(struct stp_measurement *const *)pa;
    const struct stp_measurement *b = *(struct stp_measurement *const *)pb;

    STP_RETURN_ORDER(stp_workload_order(&a->work, &b->work));
    return STP_ORDER(a->round, b->round);
}

/* Numbers the rounds of all workloads through, so that each row stays with the
 * AUTO of its own. */
static enum stp_status objective_number_rounds(struct pooling *p,
                                               struct stp_error *err)
{
    size_t n = p->each.n_rows;
    struct stp_measurement **sorted =
        calloc(n + 1, sizeof(struct stp_measurement *));
    enum stp_status status = STP_OK;
    unsigned round = 0;

    if (sorted == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &p->each.rows[i];
    qsort(sorted, n, sizeof(struct stp_measurement *), objective_order_rounds);
    for (size_t i = 0; i < n && status == STP_OK; i++) {
        struct stp_measurement m = *sorted[i];

        round +=
            i > 0 && objective_order_rounds(&sorted[i - 1], &sorted[i]) != 0;
        m.round = round;
        m.work = (struct stp_workload){0};
        m.alone_us = 0;
        status = objective_add_row(&p->pooled, &m, err);
    }
    free(sorted);
    return status;
}

/* Whether some workload at this size shows the arm slower than AUTO. */
static bool objective_is_slower(const struct stp_comparisons *verdicts,
                                const struct stp_point *pooled,
                                const struct stp_arm *arm)
{
    for (size_t i = 0; i < verdicts->n_points; i++) {
        struct stp_point p = verdicts->points[i];
        const struct stp_comparison *c = stp_point_arm(&p, arm);

        p.work = pooled->work;
        if (p.n_bytes == pooled->n_bytes && stp_point_alike(&p, pooled) &&
            c != NULL && stp_is_slower(&p, c))
            return true;
    }
    return false;
}

/* Leaves only arms that no workload is against. */
static void objective_drop_slower(const struct stp_comparisons *verdicts,
                                  struct stp_comparisons *all)
{
    struct stp_comparison *arms = all->arms;

    for (size_t i = 0; i < all->n_points; i++) {
        struct stp_point *p = &all->points[i];
        size_t n = p->n_arms;
        size_t kept = 0;

        for (size_t a = 0; a < n; a++)
            if (!objective_is_slower(verdicts, p, &arms[a].arm))
                arms[kept++] = arms[a];
        p->n_arms = kept;
        arms += n;
    }
}

static enum stp_status objective_pool(struct pooling *p,
                                      const struct stp_dataset *selected,
                                      struct stp_comparisons *comparisons_ret,
                                      struct stp_error *err)
{
    enum stp_status status =
        objective_split_collectives(selected, &p->each, err);

    STP_THEN(status, stp_compare(&p->each, &p->verdicts, err));
    STP_THEN(status, objective_number_rounds(p, err));
    STP_THEN(status, stp_compare(&p->pooled, comparisons_ret, err));
    if (status == STP_OK)
        objective_drop_slower(&p->verdicts, comparisons_ret);
    return status;
}

static void objective_free(struct pooling *p)
{
    stp_dataset_free(&p->each);
    stp_dataset_free(&p->pooled);
    stp_comparisons_free(&p->verdicts);
}

enum stp_status stp_objective_compare(const struct stp_dataset *selected,
                                      enum stp_objective objective,
                                      struct stp_comparisons *comparisons_ret,
                                      struct stp_error *err)
{
    struct pooling p = {0};
    enum stp_status status;

    if (objective == STP_OBJECTIVE_TIME)
        return stp_compare(selected, comparisons_ret, err);
    status = objective_pool(&p, selected, comparisons_ret, err);
    objective_free(&p);
    return status;
}

/* ---- what to register ---- */

/* Whether both are of the same kind of message, whatever their bytes. */
static bool registered_is_like(const struct stp_measurement *a,
                               const struct stp_measurement *b)
{
    return a->coll == b->coll && a->n_ranks == b->n_ranks &&
           a->n_nodes == b->n_nodes && a->type == b->type;
}

/* A collective's time, of an iteration of as many layers. */
static double registered_behind(double us, const struct stp_workload *work)
{
    return us / work->layers - work->compute_us;
}

/* Makes a row of sequential iterations one of the collective behind the
 * compute; false if it says nothing of it. */
static bool registered_leave_compute(struct stp_measurement *m)
{
    const struct stp_workload *work = &m->work;
    struct stp_summary *us = &m->us;

    if (work->mode != STP_MODE_SEQUENTIAL || !(work->compute_us > 0) ||
        !stp_source_decides(m->source))
        return false;
    us->mean = registered_behind(us->mean, work);
    us->median = registered_behind(us->median, work);
    us->p95 = registered_behind(us->p95, work);
    us->p99 = registered_behind(us->p99, work);
    us->min = registered_behind(us->min, work);
    m->in_place = false; /* as those alone, of which they are a part */
    return us->median > 0 && objective_name_pair(m);
}

/* Whether collectives alone were measured, of another type only. */
static bool registered_is_other_type(const struct stp_dataset *data,
                                     const struct stp_measurement *sequential)
{
    bool any = false;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->work.mode != STP_MODE_ALONE || m->coll != sequential->coll)
            continue;
        if (m->type == sequential->type)
            return false;
        any = true;
    }
    return any;
}

/* Takes the sequential iterations of all workloads. */
static enum stp_status
registered_take_sequential(const struct stp_dataset *alone,
                           const struct stp_dataset *iterations,
                           struct pooling *p, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < iterations->n_rows && status == STP_OK; i++) {
        struct stp_measurement m = iterations->rows[i];

        if (registered_leave_compute(&m) &&
            !registered_is_other_type(alone, &m))
            status = objective_add_row(&p->each, &m, err);
    }
    return status == STP_OK ? objective_number_rounds(p, err) : status;
}

/* Whether the size is within those of sequential iterations of the kind. */
static bool registered_is_within(const struct stp_dataset *sequential,
                                 const struct stp_measurement *alone)
{
    bool below = false, above = false;

    for (size_t i = 0; i < sequential->n_rows && !(below && above); i++) {
        const struct stp_measurement *m = &sequential->rows[i];

        below |= registered_is_like(m, alone) && m->n_bytes <= alone->n_bytes;
        above |= registered_is_like(m, alone) && m->n_bytes >= alone->n_bytes;
    }
    return below && above;
}

static enum stp_status registered_compare_alone(
    const struct stp_dataset *alone, const struct stp_dataset *iterations,
    struct pooling *p, struct stp_comparisons *comparisons_ret,
    struct stp_error *err)
{
    enum stp_status status =
        registered_take_sequential(alone, iterations, p, err);
    const size_t n_sequential = p->pooled.n_rows;

    for (size_t i = 0; i < alone->n_rows && status == STP_OK; i++) {
        struct stp_measurement m = alone->rows[i];
        struct stp_dataset sequential = p->pooled;

        sequential.n_rows = n_sequential;
        if (m.work.mode == STP_MODE_ALONE && objective_name_pair(&m) &&
            !registered_is_within(&sequential, &m))
            status = objective_add_row(&p->pooled, &m, err);
    }
    return status == STP_OK ? stp_compare(&p->pooled, comparisons_ret, err)
                            : status;
}

static enum stp_status registered_compare_overlapped(
    const struct stp_dataset *iterations, struct pooling *p,
    struct stp_comparisons *comparisons_ret, struct stp_error *err)
{
    struct stp_dataset selected = {0};
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < iterations->n_rows && status == STP_OK; i++) {
        struct stp_measurement m = iterations->rows[i];

        if ((m.work.mode == STP_MODE_OVERLAP || m.work.mode == STP_MODE_FSDP) &&
            objective_name_pair(&m))
            status = objective_add_row(&selected, &m, err);
    }
    STP_THEN(status, objective_pool(p, &selected, comparisons_ret, err));
    stp_dataset_free(&selected);
    return status;
}

enum stp_status stp_compare_registered(const struct stp_dataset *alone,
                                       const struct stp_dataset *iterations,
                                       bool overlaps,
                                       struct stp_comparisons *comparisons_ret,
                                       struct stp_error *err)
{
    struct pooling p = {0};
    enum stp_status status =
        overlaps ? registered_compare_overlapped(iterations, &p,
                                                 comparisons_ret, err)
                 : registered_compare_alone(alone, iterations, &p,
                                            comparisons_ret, err);

    objective_free(&p);
    return status;
}

/* ---- workloads ---- */

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

enum stp_status stp_objective_select_and_compare(
    const struct stp_dataset *data, enum stp_objective objective,
    struct stp_comparisons *comparisons_ret, struct stp_error *err)
{
    struct stp_dataset selected = {0};
    enum stp_status status =
        stp_objective_select(data, objective, &selected, err);

    STP_THEN(status,
             stp_objective_compare(&selected, objective, comparisons_ret, err));
    stp_dataset_free(&selected);
    return status;
}
