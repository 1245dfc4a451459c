/*
 * derive.h - from comparisons to a policy that is not slower than NCCL
 *
 * An arm takes NCCL's place at a size only where the 95 percent interval of its
 * gain over the AUTO of the same rounds lies at or above 1 + min_gain, and only
 * by times of interleaved rounds: single passes and models decide nothing.
 * Which times: objective.h.
 *
 * A rule reaches from halfway (geometrically) to the neighbouring measured size
 * on one side to halfway on the other, and never beyond the sizes measured;
 * neighbouring sizes with the same arm become one rule.
 */
#ifndef STP_DERIVE_H
#define STP_DERIVE_H

#include <stdio.h>

#include "analyse/compare.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Where a rule is as good as the best arm: among arms that qualify, the one of
 * the size before is kept if it is within this of the best. */
#define STP_DERIVE_SAME 0.005

struct stp_derived_rule {
    int coll;
    unsigned n_nodes;
    unsigned n_ranks;
    uint64_t min_bytes;
    uint64_t max_bytes;
    struct stp_arm arm;
    const struct stp_point *points; /* the sizes it rests on, ascending */
    size_t n_points;
};

/* The rules that comparisons support.  Points into the comparisons, which must
 * live as long. */
struct stp_derived {
    struct stp_derived_rule *rules; /* in the order of the comparisons */
    size_t n_rules;
};

/*
 * Derives with 'min_gain' >= 0 (0.02 is 2 percent), from what was measured out
 * of place if anything was.  STP_ERR_RANGE if a collective was measured with
 * several types, operations or roots, of which tuners are told nothing; or
 * STP_ERR_NOMEM.  Free with stp_derived_free().
 */
enum stp_status stp_derive(const struct stp_comparisons *comparisons,
                           double min_gain, struct stp_derived *derived_ret,
                           struct stp_error *err);

void stp_derived_free(struct stp_derived *derived);

/* What the arm of 'rule' gained at 'point', which is one of its points. */
const struct stp_comparison *
stp_derived_evidence(const struct stp_derived_rule *rule,
                     const struct stp_point *point);

#ifdef __cplusplus
}
#endif
#endif /* STP_DERIVE_H */
