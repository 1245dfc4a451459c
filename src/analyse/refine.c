#include "analyse/refine.h"

#include <math.h>

#include "analyse/derive.h"
#include "bench/sizes.h"

static void refine_add_arm(struct stp_arms *arms, const struct stp_arm *arm)
{
    for (size_t i = 0; i < arms->n; i++)
        if (stp_arm_equal(&arms->arm[i], arm))
            return;
    if (arms->n < STP_MAX_ARMS)
        arms->arm[arms->n++] = *arm;
}

static void refine_begin_arms(struct stp_arms *arms)
{
    arms->n = 0;
    refine_add_arm(arms, &(struct stp_arm){.kind = STP_ARM_AUTO});
}

static const struct stp_comparison *
refine_get_choice(const struct stp_point *p,
                  const struct stp_refine_terms *terms)
{
    return stp_derive_choice(
        p, &(struct stp_derive_terms){.min_gain = terms->min_gain,
                                      .captured = terms->captured});
}

/* Whether more rounds could make an arm win that a rule could name: it does not
 * qualify yet, but might, and be the best then. One round has no interval. */
static bool refine_has_open(const struct stp_point *p,
                            const struct stp_comparison *choice,
                            double min_gain)
{
    const double best = choice != NULL ? choice->gain.gain : 1 + min_gain;
    bool is_open = false;

    for (size_t i = 0; i < p->n_arms && !is_open; i++) {
        const struct stp_comparison *c = &p->arms[i];

        is_open = stp_arm_is_pair(&c->arm) && stp_is_evidence(c, false) &&
                  !stp_ran_as_auto(p, c) && c->gain.low < 1 + min_gain &&
                  c->gain.high >= fmax(best, 1 + min_gain) &&
                  isfinite(c->gain.high) && c->gain.gain > 1;
    }
    return is_open;
}

/* Returns the time of the fastest arm that a tuner can choose. */
static double refine_find_fastest(const struct stp_point *p)
{
    double us = p->auto_us;

    for (size_t i = 0; i < p->n_arms; i++)
        if (p->arms[i].arm.kind != STP_ARM_SETUP)
            us = fmin(us, p->arms[i].us);
    return us;
}

static void refine_add_near(const struct stp_point *p, struct stp_arms *arms)
{
    double limit = refine_find_fastest(p) * STP_REFINE_NEAR;

    for (size_t i = 0; i < p->n_arms; i++)
        if (p->arms[i].arm.kind == STP_ARM_FORCED && p->arms[i].us <= limit)
            refine_add_arm(arms, &p->arms[i].arm);
}

/* Whether NCCL's own choice changes between the points: it may do so at the
 * wrong size. */
static bool refine_auto_differs(const struct stp_point *a,
                                const struct stp_point *b)
{
    return a->auto_algo >= 0 && b->auto_algo >= 0 &&
           (a->auto_algo != b->auto_algo || a->auto_proto != b->auto_proto) &&
           stp_source_decides(a->source) && !a->single_pass &&
           stp_source_decides(b->source) && !b->single_pass;
}

/* The roundest number in the middle third between the sizes: the multiple of
 * the largest power of two steps, and of those the one next to the middle.
 * Messages of jobs are round, and kernels of symmetric memory are at their best
 * where whole rounds are.  0: there is none. */
static uint64_t refine_find_size(uint64_t a, uint64_t b, uint64_t grain)
{
    const double third = cbrt((double)b / (double)a);
    const double first = (double)a * third, last = (double)b / third;
    const uint64_t middle = stp_size_between(a, b);
    uint64_t unit = stp_size_step(middle, grain), size = 0;

    for (; unit <= middle; unit *= 2) {
        const uint64_t below = middle - middle % unit;
        const bool is_below = (double)below >= first;

        if (is_below && ((double)(below + unit) > last ||
                         (double)middle * (double)middle <=
                             (double)below * (double)(below + unit)))
            size = below;
        else if ((double)(below + unit) <= last)
            size = below + unit;
        else
            break;
    }
    return size;
}

bool stp_refine_between(const struct stp_point *a, const struct stp_point *b,
                        const struct stp_refine_terms *terms, uint64_t grain,
                        uint64_t *size_ret, struct stp_arms *arms_ret)
{
    const struct stp_comparison *at_a = refine_get_choice(a, terms);
    const struct stp_comparison *at_b = refine_get_choice(b, terms);
    const bool differs = at_a == NULL || at_b == NULL
                             ? at_a != at_b
                             : !stp_arm_equal(&at_a->arm, &at_b->arm);
    const uint64_t size = refine_find_size(a->n_bytes, b->n_bytes, grain);
    double factor = terms->resolution;

    if (refine_auto_differs(a, b))
        factor = sqrt(factor);
    if ((double)b->n_bytes <= (double)a->n_bytes * factor * STP_REFINE_SLACK ||
        size == 0)
        return false;
    if (!differs && !refine_auto_differs(a, b) &&
        !refine_has_open(a, at_a, terms->min_gain) &&
        !refine_has_open(b, at_b, terms->min_gain))
        return false;
    refine_begin_arms(arms_ret);
    refine_add_near(a, arms_ret);
    refine_add_near(b, arms_ret);
    *size_ret = size;
    return arms_ret->n > 1;
}

/* The fastest pair, with NCCL's own channels, that is not taken yet and that
 * all points have in the running: by the product of its times over those of the
 * fastest.  NULL if there is none. */
static const struct stp_arm *
refine_find_next(const struct stp_point *const *points, size_t n,
                 const struct stp_arms *taken)
{
    const struct stp_arm *best = NULL;
    double least = INFINITY;

    for (size_t i = 0; i < points[0]->n_arms; i++) {
        const struct stp_arm *arm = &points[0]->arms[i].arm;
        bool may_be = arm->kind == STP_ARM_FORCED && arm->n_channels == 0;
        double slow = 1;

        for (size_t t = 0; t < taken->n; t++)
            may_be &= !stp_arm_equal(&taken->arm[t], arm);
        for (size_t k = 0; k < n && may_be; k++) {
            const struct stp_comparison *c = stp_point_arm(points[k], arm);
            const double share =
                c != NULL ? c->us / refine_find_fastest(points[k]) : INFINITY;

            may_be = share <= STP_REFINE_NEAR;
            slow *= share;
        }
        if (may_be && slow < least) {
            best = arm;
            least = slow;
        }
    }
    return best;
}

void stp_refine_contenders(const struct stp_point *const *points, size_t n,
                           struct stp_arms *arms_ret)
{
    static const int counts[STP_REFINE_COUNTS] = {8, 16};
    struct stp_arms taken = {.n = 0};
    size_t n_pairs = 0;

    refine_begin_arms(arms_ret);
    refine_add_arm(arms_ret, &(struct stp_arm){.kind = STP_ARM_AUTO_AGAIN});
    while (n > 0 && n_pairs < STP_REFINE_PAIRS) {
        const struct stp_arm *arm = refine_find_next(points, n, &taken);
        bool is_own_choice = true; /* AUTO by another name */

        if (arm == NULL)
            break;
        refine_add_arm(&taken, arm);
        for (size_t i = 0; i < n; i++)
            is_own_choice &= points[i]->auto_algo == arm->algo &&
                             points[i]->auto_proto == arm->proto;
        if (is_own_choice)
            continue;
        refine_add_arm(arms_ret, arm);
        n_pairs++;
    }
    for (size_t i = 0; i < taken.n && i < 2; i++)
        for (int c = 0; c < STP_REFINE_COUNTS; c++) {
            struct stp_arm arm = taken.arm[i];

            arm.n_channels = counts[c];
            refine_add_arm(arms_ret, &arm);
        }
}
