/* verify.h - a policy against NCCL's own choice, size by size */
#pragma once

#include <stdbool.h>

#include "analyse/compare.h"
#include "analyse/derive.h"
#include "bench/sweep.h"

enum stp_verdict {
    STP_VERDICT_SAME,   /* the policy leaves NCCL's choice, or equals it */
    STP_VERDICT_FASTER, /* the whole interval of its gain is above 1 */
    STP_VERDICT_UNSURE, /* the interval holds 1, or the loss is within noise */
    STP_VERDICT_SLOWER, /* the whole interval is below 1, and the loss is more
                           than twice the standard deviation of AUTO's rounds */
    STP_VERDICT_EQUAL,  /* by the model, another choice takes the same time */
};

/* Whether the verdict of an arm rests on the cost model alone: on one modelled
 * round, which has no interval and needs none, because it has no noise. */
bool stp_is_by_model(const struct stp_point *point,
                     const struct stp_comparison *arm);

/* The verdict of an arm of a point (NULL: no arm, "same"): "same", "faster",
 * "unsure" or "SLOWER", and "faster", "equal" or "SLOWER by the model". */
const char *stp_verdict_words(const struct stp_point *point,
                              const struct stp_comparison *arm);

/* Whether an arm is slower than AUTO, as STP_VERDICT_SLOWER has it. */
bool stp_is_slower(const struct stp_point *point,
                   const struct stp_comparison *arm);

/* Judges an arm at a point. */
enum stp_verdict stp_verify_comparison(const struct stp_point *point,
                                       const struct stp_comparison *arm);

/* Judges the plugin arm of a point; SAME if it has none. */
enum stp_verdict stp_verify_point(const struct stp_point *point);

/* The least gain that any plugin arm that did not run as AUTO may have, with 95
 * percent confidence in all of them together: it is above the lower end of its
 * own interval, and so is not below the least of all lower ends.  Not of those
 * by the model; 1 if there are none.  A choice that may be slower, with an
 * interval wider than a fourth, or of a single round, says nothing of how much:
 * these do not count; *wide_ret is the one of the least lower end, or NULL. */
double stp_verify_least_gain(const struct stp_comparisons *verdicts,
                             const struct stp_point **wide_ret,
                             size_t *n_wide_ret);

/* The plugin arm of a point, or NULL. */
const struct stp_comparison *stp_verify_arm(const struct stp_point *point);

/* Whether some verdict at this size refutes the rule. */
bool stp_verify_refutes(const struct stp_comparisons *verdicts,
                        const struct stp_derived_rule *rule, uint64_t n_bytes);

/* Trims a rule to the sizes that hold: leaves out every size within its range
 * where, on as many ranks, the policy was slower, by less than AUTO's noise or
 * more, or, beyond the sizes that the rule rests on, gained less than nothing,
 * up to the next size on either side where it was tried and held.  In
 * sequential iterations it holds only where it made them shorter, launched or
 * captured, and not longer in the mean the other way: a collective back to back
 * with itself finds its data and kernels warm, and waits for flags, as in no
 * step.  Into 'parts' what is left, ascending, the rule itself if it holds
 * everywhere; one at most for each size that it rests on. Returns how many.  A
 * point of fsdp counts for both of its collectives. */
size_t stp_verify_trim(const struct stp_comparisons *verdicts,
                       const struct stp_derived_rule *rule,
                       struct stp_derived_rule *parts);

/* Sizes at which a policy derived from measurements at 'seen' has not been
 * tried: halfway between neighbours, and either side of every range end in
 * 'ends' that lies within them.  Multiples of 'grain'; none of 'seen'. */
enum stp_status stp_verify_sizes(const struct stp_sizes *seen,
                                 const uint64_t *ends, size_t n_ends,
                                 uint64_t grain, struct stp_sizes *sizes_ret,
                                 struct stp_error *err);
