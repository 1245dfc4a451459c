#include "analyse/verify.h"

#include <math.h>

#include "nccl_tuner_abi.h"

/* Modelled times that differ by less than this part differ in rounding. */
static const double equal_times = 1e-6;

/* A gain that is a loss without an interval, as a single pass has. */
static const double far_slower = 0.75;
/* The upper end of an interval over its lower one. */
static const double widest = 1.25;

bool stp_is_by_model(const struct stp_point *point,
                     const struct stp_comparison *arm)
{
    return point->source == STP_SOURCE_MODELLED &&
           arm->source == STP_SOURCE_MODELLED &&
           (arm->gain.n_pairs == 1 || point->noise < equal_times);
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
    return (arm->gain.high < 1 ||
            (isinf(arm->gain.high) && arm->gain.n_pairs > 1 &&
             arm->gain.gain < far_slower)) &&
           1 - arm->gain.gain > 2 * point->noise;
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

double stp_verify_least_gain(const struct stp_comparisons *verdicts,
                             const struct stp_point **wide_ret,
                             size_t *n_wide_ret)
{
    double least = INFINITY;

    *wide_ret = NULL;
    *n_wide_ret = 0;
    for (size_t i = 0; i < verdicts->n_points; i++) {
        const struct stp_point *p = &verdicts->points[i];
        const struct stp_gain *g;

        if (stp_verify_point(p) == STP_VERDICT_SAME ||
            stp_is_by_model(p, stp_verify_arm(p)))
            continue;
        g = &stp_verify_arm(p)->gain;
        if (g->low >= 1 || g->high <= widest * g->low) {
            least = fmin(least, g->low);
            continue;
        }
        ++*n_wide_ret;
        if (*wide_ret == NULL || g->low < stp_verify_arm(*wide_ret)->gain.low)
            *wide_ret = p;
    }
    return isfinite(least) ? least : 1;
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
                        const struct stp_derived_rule *rule, uint64_t n_bytes)
{
    /* beyond the sizes that it rests on a rule's range is a guess */
    const bool is_guess = n_bytes < rule->points[0].n_bytes ||
                          n_bytes > rule->points[rule->n_points - 1].n_bytes;
    bool is_shorter = false, is_open = false; /* steps in which compute waits */

    for (size_t i = 0; i < verdicts->n_points; i++) {
        const struct stp_point *p = &verdicts->points[i];
        const bool is_step = p->work.mode == STP_MODE_SEQUENTIAL;
        const enum stp_verdict verdict = stp_verify_point(p);

        if (p->n_bytes != n_bytes || !verify_tests_rule(p, rule))
            continue;
        if (verdict == STP_VERDICT_SLOWER ||
            (verdict == STP_VERDICT_UNSURE &&
             (is_step || is_guess ? stp_verify_arm(p)->gain.gain
                                  : stp_verify_arm(p)->gain.high) < 1))
            return true;
        is_shorter |= is_step && verdict == STP_VERDICT_FASTER;
        is_open |= is_step && verdict == STP_VERDICT_UNSURE;
    }
    return is_open && !is_shorter;
}

/* The smallest size from 'from' on at which the rule was tried, and refuted or
 * not, as asked for; false if there is none. */
static bool verify_find_next(const struct stp_comparisons *verdicts,
                             const struct stp_derived_rule *rule, uint64_t from,
                             bool refuted, uint64_t *size_ret)
{
    bool found = false;

    for (size_t i = 0; i < verdicts->n_points; i++) {
        const struct stp_point *p = &verdicts->points[i];

        if (p->n_bytes < from || (found && p->n_bytes >= *size_ret) ||
            !verify_tests_rule(p, rule) ||
            stp_verify_refutes(verdicts, rule, p->n_bytes) != refuted)
            continue;
        *size_ret = p->n_bytes;
        found = true;
    }
    return found;
}

/* Limits a rule to a range; false if no size that it rests on is within. */
static bool verify_limit(struct stp_derived_rule *rule, uint64_t min,
                         uint64_t max)
{
    rule->is_trimmed |= min != rule->min_bytes || max != rule->max_bytes;
    rule->min_bytes = min;
    rule->max_bytes = max;
    while (rule->n_points > 0 && rule->points[0].n_bytes < min) {
        rule->points++;
        rule->n_points--;
    }
    while (rule->n_points > 0 && rule->points[rule->n_points - 1].n_bytes > max)
        rule->n_points--;
    return rule->n_points > 0;
}

size_t stp_verify_trim(const struct stp_comparisons *verdicts,
                       const struct stp_derived_rule *rule,
                       struct stp_derived_rule *parts)
{
    uint64_t from = rule->min_bytes;
    uint64_t refuted = 0;
    size_t n = 0;

    while (verify_find_next(verdicts, rule, from, true, &refuted)) {
        /* up to the largest size below at which the rule was tried, if any */
        uint64_t last = from;

        for (size_t i = 0; i < verdicts->n_points; i++) {
            const struct stp_point *p = &verdicts->points[i];

            if (p->n_bytes > last && p->n_bytes < refuted &&
                verify_tests_rule(p, rule))
                last = p->n_bytes;
        }
        parts[n] = *rule;
        if (from < refuted && verify_limit(&parts[n], from, last))
            n++;
        if (!verify_find_next(verdicts, rule, refuted, false, &from))
            return n;
    }
    parts[n] = *rule;
    return n + verify_limit(&parts[n], from, rule->max_bytes);
}

static enum stp_status verify_add_unseen(const struct stp_sizes *seen,
                                         uint64_t size, uint64_t grain,
                                         struct stp_sizes *sizes,
                                         struct stp_error *err)
{
    size -= size % stp_size_step(size, grain);
    if (size < seen->size[0] || size > seen->size[seen->n - 1])
        return STP_OK;
    for (size_t i = 0; i < seen->n; i++)
        if (seen->size[i] == size)
            return STP_OK;
    return stp_sizes_add(sizes, size, grain, err);
}

enum stp_status stp_verify_sizes(const struct stp_sizes *seen,
                                 const uint64_t *ends, size_t n_ends,
                                 uint64_t grain, struct stp_sizes *sizes_ret,
                                 struct stp_error *err)
{
    sizes_ret->n = 0;
    for (size_t i = 0; i + 1 < seen->n; i++)
        STP_TRY(verify_add_unseen(
            seen, stp_size_between(seen->size[i], seen->size[i + 1]), grain,
            sizes_ret, err));
    for (size_t i = 0; seen->n > 0 && i < n_ends; i++) {
        STP_TRY(verify_add_unseen(seen, ends[i], grain, sizes_ret, err));
        STP_TRY(verify_add_unseen(seen, ends[i] + stp_size_step(ends[i], grain),
                                  grain, sizes_ret, err));
    }
    return STP_OK;
}
