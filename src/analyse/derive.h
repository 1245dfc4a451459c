/* derive.h - from comparisons to a policy that is not slower than NCCL
 *
 * An arm takes NCCL's place at a size only where the 95 percent interval of its
 * gain over the AUTO of the same rounds lies at or above 1 + min_gain, and only
 * by times of interleaved rounds: models decide nothing, and single passes only
 * if the terms trust them.  An arm that is NCCL's own choice gains nothing.
 * Which times: objective.h.  A rule goes on at neighbouring sizes without one
 * where the interval of its arm lies above 1, unless it stages.  No rule for
 * buffers stands where AUTO, launched call by call, takes about as long for
 * four times the bytes: that time is the host's, and of such sizes others seem
 * to gain in each run.
 *
 * A rule for tuners reaches halfway (geometrically) to the neighbouring
 * measured size on either side: less far if the lower end of its gain's
 * interval, interpolated, comes down to 1 before, and up to it where no other
 * rule stands and NCCL itself runs the arm.  One for buffers begins and ends at
 * sizes where it was measured to gain, and is of several only where the gain is
 * certain between them, as NCCL's own choice may change there, and where they
 * fill whole rounds of its kernels, if its memory is symmetric: of such a rule
 * only messages that do are decided (memory_policy.h).  Rules do not reach
 * beyond the sizes measured unless the terms say so.  Neighbouring sizes with
 * the same arm become one rule where it stands at all sizes between.
 *
 * Where bits must stay NCCL's own, a rule of a collective that reduces stands
 * at the measured sizes alone: between two of them an element may lie in
 * another part of a ring or on another channel, and be summed in another order.
 * Sums of two ranks have no order, and are interpolated where the arm is the
 * same to the bit at both sizes. */
#pragma once

#include <stdio.h>

#include "analyse/compare.h"

/* Two arms count as equally good within this share: among arms that qualify,
 * the one of the size before is kept if it is within it of the best. */
#define STP_DERIVE_SAME 0.005

/* The least number of passes of an arm with a useful interval: two passes have
 * one of twelve standard errors. */
enum { STP_DERIVE_PASSES = 3 };

/* The end of a rule that reaches beyond all sizes. */
#define STP_DERIVE_NO_END UINT64_MAX

/* How many times as long AUTO takes, at most, for four times the bytes, where
 * launches take the time.  Up to 128 KiB hosts of 2 and 4 x H200 took 7.5 us in
 * some processes, 12 in others, and changed between them from size to size;
 * from 512 KiB on AUTO took 1.6 to 2.4 times as long. */
#define STP_DERIVE_LAUNCH 1.25

/* The least gain of a rule, unless the user says otherwise. */
#define STP_DERIVE_MIN_GAIN 0.02

/* Microseconds that a staged collective of a CUDA graph must save, as between
 * the other kernels of a job's graph it may save less.  Each of a Llama's 24
 * all-reduces of 1, 2, 4 and 8 MiB, among 2,000 nodes, saved 1.8, 16.2, 11.9
 * and 7.9 (2 x H200, NCCL 2.28.9): up to 1.8 less than in captured iterations,
 * up to 5.8 more than back to back, and those of 512 KiB lost 0.4.  On 4 x H200
 * those of 2, 4 and 8 MiB saved 7.2, 10.4 and 3.9: up to 1.8 less than back to
 * back. */
#define STP_DERIVE_GRAPH_US 5

/* The least gain back to back of another protocol over all-reduces of LL, where
 * no captured iterations are to follow.  Such
 * rules of 1.034x (4 x H100, 2 MiB) and 1.049x (4 x H200) made a
 * tensor-parallel step in a CUDA graph 0.962 and 0.975 times as fast, one
 * of 1.3x (2 x H200) 1.1 times.  Why is not known: with the gap before it,
 * ring/ll took 31.2 us back to back and 29.4 between a model's kernels,
 * ring/ll128 29.5 and 31.0. */
#define STP_DERIVE_OVER_LL 0.12

struct stp_derive_terms {
    double min_gain;   /* >= 0; 0.02 is 2 percent */
    bool trust_passes; /* single passes decide, too, of STP_DERIVE_PASSES or
                          more each: drift between them may be the gain */
    bool same_bits;    /* of comparisons that stp_keep_same_bits() left: no rule
                          reaches to where bits may be others */
    bool extrapolate;  /* a rule of the two smallest sizes reaches down to 0, of
                          the two largest up to STP_DERIVE_NO_END */
    enum stp_policy_kind kind; /* whose rules these are.  Of memory: an
                          arm of registered buffers takes the place of plain
                          ones where it is as much faster than AUTO, and faster
                          than the arm that tuners would be given there; one of
                          more CTAs also as much faster than the same memory
                          without, as it takes a communicator of its own.  Of
                          stages: likewise an arm of staged buffers, where a
                          symmetric kernel ran; each has such a communicator */
    const struct stp_comparisons *trials; /* but for arms of tuners: AUTO, the
                          policy and these buffers, measured again, alone or in
                          iterations as the comparisons are; where these are
                          not faster than the policy, there is no rule.  NULL:
                          they were not */
    const struct stp_comparisons *beside; /* of stages: iterations in which
                          compute goes on, which the staging library cannot
                          tell from others; where some of a size were slower
                          with an arm, or only other collectives had any, there
                          is no rule for it.  NULL: none counts */
    struct stp_range captured; /* bytes at which rules will be tried in captured
                          iterations, so that STP_DERIVE_OVER_LL is not wanted;
                          {0, 0}: none */
};

struct stp_derived_rule {
    int coll;
    unsigned n_nodes;
    unsigned n_ranks;
    uint64_t min_bytes;
    uint64_t max_bytes;
    struct stp_arm arm;
    const struct stp_point *points; /* the sizes it rests on, ascending */
    size_t n_points;
    bool is_trimmed; /* verification shortened its range: verify.h */
};

/* The rules that comparisons support.  Points into the comparisons, which must
 * live as long. */
struct stp_derived {
    struct stp_derived_rule *rules; /* in the order of the comparisons */
    size_t n_rules;
};

/* The rule that decides a size, or NULL. */
const struct stp_derived_rule *
stp_derived_find(const struct stp_derived *derived, int coll, unsigned n_ranks,
                 uint64_t n_bytes);

/* Derives rules from the rows out of place, if there are any, else from those
 * in place. STP_ERR_RANGE if a collective was measured with several types,
 * operations or roots, which tuners are not told. Free with
 * stp_derived_free(). */
enum stp_status stp_derive_on(const struct stp_comparisons *comparisons,
                              const struct stp_derive_terms *terms,
                              struct stp_derived *derived_ret,
                              struct stp_error *err);

/* Whether rules of the kind can name the arm. */
bool stp_arm_is_of(const struct stp_arm *arm, enum stp_policy_kind kind);

/* Whether the arm names both an algorithm and a protocol, as rules do. */
bool stp_arm_is_pair(const struct stp_arm *arm);

/* Whether times of this source, of so many rounds, may decide. */
bool stp_is_evidence(const struct stp_comparison *c, bool trust_passes);

/* The arm that takes NCCL's place at this size by itself, or NULL: among those
 * that qualify the one with the largest gain. */
const struct stp_comparison *
stp_derive_choice(const struct stp_point *point,
                  const struct stp_derive_terms *terms);

/* The arm that would take NCCL's place there if its gain were its mean, which
 * its interval does not say, or were between other kernels what it is back to
 * back, which STP_DERIVE_OVER_LL doubts; and be more than 'min_gain' faster
 * than the arm that is decided on.  NULL: there is none. */
const struct stp_comparison *
stp_derive_unsure(const struct stp_point *point,
                  const struct stp_derive_terms *terms);

/* Whether the arm is of registered or staged buffers, and else NCCL's own. */
bool stp_arm_registers(const struct stp_arm *arm);

/* Finds an arm of registered buffers that would take the place of plain ones at
 * this point, if the terms' trials confirm it; NULL: there is none. *again_ret
 * is then its gain in these trials, NaN if it was slower in some workload, and
 * *policy_ret that of the policy. */
const struct stp_comparison *
stp_derive_refuted(const struct stp_point *point,
                   const struct stp_derive_terms *terms, double *again_ret,
                   double *policy_ret);

/* The gain of an arm of registered buffers over the arm that a policy of
 * 'min_gain' runs at that point: '*rule_ret', or NULL for AUTO. */
struct stp_gain stp_gain_over_rule(const struct stp_point *point,
                                   const struct stp_comparison *registered,
                                   double min_gain,
                                   const struct stp_comparison **rule_ret);

void stp_derived_free(struct stp_derived *derived);
