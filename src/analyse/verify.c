#include "analyse/verify.h"

#include "nccl_tuner_abi.h"

/* Modelled times that differ by less than this part differ in rounding. */
static const double equal_times = 1e-6;

bool stp_is_by_model(const struct stp_point *point,
                     const struct stp_comparison *arm)
{
    return point->source == STP_SOURCE_MODELLED &&
           arm->source == STP_SOURCE_MODELLED && point->n_rounds == 1 &&
           arm->gain.n_pairs == 1;
}

const char *stp_verdict_words(const struct stp_point *point,
                              const struct stp_comparison *arm)
{
    static const char *const words[][2] = {
        [STP_VERDICT_SAME] = {"same", "same"},
        [STP_VERDICT_FASTER] = {"faster", "faster by the model"},
        [STP_VERDICT_UNSURE] = {"unsure", "unsure"},
        [STP_VERDICT_SLOWER] = {"SLOWER", "SLOWER by the model"},
        [STP_VERDICT_EQUAL] = {"equal", "equal by the model"},
    };

    if (arm == NULL)
        return words[STP_VERDICT_SAME][0];
    return words[stp_verify_comparison(point, arm)]
                [stp_is_by_model(point, arm)];
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
    if (stp_is_by_model(point, arm))
        return arm->gain.gain < 1 - equal_times;
    return arm->gain.high < 1 && 1 - arm->gain.gain > 2 * point->noise;
}

enum stp_verdict stp_verify_comparison(const struct stp_point *point,
                                       const struct stp_comparison *arm)
{
    if (stp_ran_as_auto(point, arm))
        return STP_VERDICT_SAME;
    if (stp_is_slower(point, arm))
        return STP_VERDICT_SLOWER;
    if (stp_is_by_model(point, arm))
        return arm->gain.gain > 1 + equal_times ? STP_VERDICT_FASTER
                                                : STP_VERDICT_EQUAL;
    if (arm->gain.low > 1)
        return STP_VERDICT_FASTER;
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
