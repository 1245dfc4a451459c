#include "analyse/verify.h"

#include "nccl_tuner_abi.h"

static const char *const names[] = {
    [STP_VERDICT_SAME] = "same",
    [STP_VERDICT_FASTER] = "faster",
    [STP_VERDICT_UNSURE] = "unsure",
    [STP_VERDICT_SLOWER] = "SLOWER",
};

const char *stp_verdict_name(enum stp_verdict verdict)
{
    return names[verdict];
}

const struct stp_comparison *stp_verify_arm(const struct stp_point *point)
{
    for (size_t i = 0; i < point->n_arms; i++)
        if (point->arms[i].arm.kind == STP_ARM_PLUGIN)
            return &point->arms[i];
    return NULL;
}

bool stp_is_slower(const struct stp_point *point,
                   const struct stp_comparison *arm)
{
    return arm->gain.high < 1 && 1 - arm->gain.gain > 2 * point->noise;
}

enum stp_verdict stp_verify_comparison(const struct stp_point *point,
                                       const struct stp_comparison *arm)
{
    if (stp_ran_as_auto(point, arm))
        return STP_VERDICT_SAME;
    if (arm->gain.low > 1)
        return STP_VERDICT_FASTER;
    if (stp_is_slower(point, arm))
        return STP_VERDICT_SLOWER;
    return STP_VERDICT_UNSURE;
}

enum stp_verdict stp_verify_point(const struct stp_point *point)
{
    const struct stp_comparison *c = stp_verify_arm(point);

    return c == NULL ? STP_VERDICT_SAME : stp_verify_comparison(point, c);
}

/* In fsdp a point's collective is the all-gather. */
static bool verify_tests_rule(const struct stp_point *p,
                              const struct stp_derived_rule *rule)
{
    bool same = p->coll == rule->coll || (p->work.mode == STP_MODE_FSDP &&
                                          rule->coll == ncclFuncReduceScatter);

    return same && p->n_nodes == rule->n_nodes && p->n_ranks == rule->n_ranks &&
           p->n_bytes >= rule->min_bytes && p->n_bytes <= rule->max_bytes;
}

bool stp_verify_refutes(const struct stp_comparisons *verdicts,
                        const struct stp_derived_rule *rule)
{
    for (size_t i = 0; i < verdicts->n_points; i++)
        if (verify_tests_rule(&verdicts->points[i], rule) &&
            stp_verify_point(&verdicts->points[i]) == STP_VERDICT_SLOWER)
            return true;
    return false;
}

static bool verify_has_size(const struct stp_sizes *sizes, uint64_t size)
{
    for (size_t i = 0; i < sizes->n; i++)
        if (sizes->size[i] == size)
            return true;
    return false;
}

static enum stp_status verify_add_unseen(const struct stp_sizes *seen,
                                         uint64_t size, uint64_t grain,
                                         struct stp_sizes *sizes,
                                         struct stp_error *err)
{
    size -= size % stp_size_step(size, grain);
    if (size < seen->size[0] || size > seen->size[seen->n - 1] ||
        verify_has_size(seen, size))
        return STP_OK;
    return stp_sizes_add(sizes, size, grain, err);
}

enum stp_status stp_verify_sizes(const struct stp_sizes *seen,
                                 const uint64_t *ends, size_t n_ends,
                                 uint64_t grain, struct stp_sizes *sizes_ret,
                                 struct stp_error *err)
{
    enum stp_status status = STP_OK;

    sizes_ret->n = 0;
    for (size_t i = 0; i + 1 < seen->n && status == STP_OK; i++)
        status = verify_add_unseen(
            seen, stp_size_between(seen->size[i], seen->size[i + 1]), grain,
            sizes_ret, err);
    for (size_t i = 0; seen->n > 0 && i < n_ends && status == STP_OK; i++) {
        status = verify_add_unseen(seen, ends[i], grain, sizes_ret, err);
        if (status == STP_OK)
            status =
                verify_add_unseen(seen, ends[i] + stp_size_step(ends[i], grain),
                                  grain, sizes_ret, err);
    }
    return status;
}
