/* refine.h - where further measurements would change what is decided
 *
 * A coarse grid shows between which sizes the decision (derive.h) changes;
 * there, and only there, sizes in between are worth measuring, with the arms
 * that are still in the running. */
#pragma once

#include "analyse/compare.h"

struct stp_refine_terms {
    double min_gain;   /* as in struct stp_derive_terms */
    double resolution; /* > 1: the factor between sizes that is fine enough;
                          its square root where NCCL's own choice changes */
    struct stp_range captured; /* as in struct stp_derive_terms */
};

/* An arm that takes more than this of the fastest arm's time is out. */
#define STP_REFINE_NEAR 1.5

/* Sizes are round numbers: so much beyond the resolution is as good. */
#define STP_REFINE_SLACK 1.08

/* Whether something can be learnt between two neighbouring sizes, 'a' the
 * smaller: they are further apart than the resolution, and another arm is
 * decided on at one than at the other, or NCCL's own choice is another, or some
 * arm's interval at either holds 1 + min_gain while it may be the best.  If so
 * *size_ret is about halfway between them, a round number and a multiple of
 * 'grain', and *arms_ret AUTO and what is in the running at either. */
bool stp_refine_between(const struct stp_point *a, const struct stp_point *b,
                        const struct stp_refine_terms *terms, uint64_t grain,
                        uint64_t *size_ret, struct stp_arms *arms_ret);

/* At most so many pairs, and so many channel counts of the best two. */
enum { STP_REFINE_PAIRS = 3, STP_REFINE_COUNTS = 2 };

/* Lists the arms worth measuring in iterations, by the times of collectives
 * alone: AUTO, AUTO once more, the best pairs in the running at all of the 'n'
 * points other than NCCL's own choice, and the best two, it included, with 8
 * and 16 channels. */
void stp_refine_contenders(const struct stp_point *const *points, size_t n,
                           struct stp_arms *arms_ret);
