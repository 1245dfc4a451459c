#include "analyse/derive.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/sizes.h"
#include "core/memory.h"
#include "core/names.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

/* The arm that is decided on at a point; NULL: NCCL's own choice stands. */
typedef const struct stp_comparison *choice;

bool stp_arm_is_pair(const struct stp_arm *arm)
{
    return arm->kind == STP_ARM_FORCED && arm->algo != STP_ANY &&
           arm->proto != STP_ANY && arm->chunk_bytes == 0;
}

bool stp_is_evidence(const struct stp_comparison *c, bool trust_passes)
{
    if (!stp_source_decides(c->source))
        return false;
    return !c->single_pass ||
           (trust_passes && c->gain.n_pairs >= STP_DERIVE_PASSES);
}

bool stp_arm_registers(const struct stp_arm *arm)
{
    const struct stp_setup of_rule =
        stp_setup_of(arm->setup.memory, arm->setup.min_ctas);

    return arm->kind == STP_ARM_SETUP &&
           arm->setup.memory != STP_MEMORY_PLAIN &&
           stp_setup_equal(&arm->setup, &of_rule);
}

bool stp_arm_is_of(const struct stp_arm *arm, enum stp_policy_kind kind)
{
    const bool is_staged = arm->setup.memory == STP_MEMORY_STAGE;

    return kind == STP_POLICY_OF_ARMS
               ? stp_arm_is_pair(arm)
               : stp_arm_registers(arm) &&
                     is_staged == (kind == STP_POLICY_OF_STAGE);
}

struct stp_gain stp_gain_over_rule(const struct stp_point *point,
                                   const struct stp_comparison *registered,
                                   double min_gain,
                                   const struct stp_comparison **rule_ret)
{
    const struct stp_derive_terms terms = {.min_gain = min_gain};

    *rule_ret = stp_derive_choice(point, &terms);
    return *rule_ret != NULL ? stp_gain_over_arm(registered, *rule_ret)
                             : registered->gain;
}

/* Whether registered buffers were faster than the policy in the second
 * measurement of this size, if there was one; and the gains of both in it. An
 * arm that is not there was slower in some workload, as objective.h drops
 * those. */
static bool derive_holds(const struct stp_point *p, const struct stp_arm *arm,
                         const struct stp_comparisons *trials,
                         double *again_ret, double *policy_ret)
{
    static const struct stp_arm by_policy = {.kind = STP_ARM_PLUGIN};

    for (size_t i = 0; trials != NULL && i < trials->n_points; i++) {
        const struct stp_point *again = &trials->points[i];
        const struct stp_comparison *it, *policy;

        if (!stp_point_alike(p, again) || again->n_bytes != p->n_bytes)
            continue;
        it = stp_point_arm(again, arm);
        policy = stp_point_arm(again, &by_policy);
        *again_ret = it != NULL ? it->gain.gain : (double)NAN;
        *policy_ret = policy != NULL ? policy->gain.gain : 1;
        return *again_ret > *policy_ret;
    }
    return true;
}

/* Whether a rule from the one would match the calls of the other. */
static bool derive_shares_rules(const struct stp_point *a,
                                const struct stp_point *b)
{
    return a->coll == b->coll && a->n_nodes == b->n_nodes &&
           a->n_ranks == b->n_ranks;
}

/* Whether no iteration of the size in which compute goes on was slower: arms
 * that are not there were.  Where other collectives had such iterations and
 * this one none, nobody looked. */
static bool derive_bears_compute(const struct stp_point *p,
                                 const struct stp_arm *arm,
                                 const struct stp_comparisons *beside)
{
    bool is_there = beside == NULL || beside->n_points == 0;

    for (size_t i = 0; beside != NULL && i < beside->n_points; i++) {
        const struct stp_point *q = &beside->points[i];

        if (!derive_shares_rules(q, p))
            continue;
        is_there = true;
        if (q->n_bytes == p->n_bytes && stp_point_arm(q, arm) == NULL)
            return false;
    }
    return is_there;
}

/* Whether the gain has to be STP_DERIVE_OVER_LL. */
static bool derive_doubts(const struct stp_point *point,
                          const struct stp_comparison *c,
                          const struct stp_derive_terms *terms)
{
    return terms->kind == STP_POLICY_OF_ARMS &&
           point->coll == ncclFuncAllReduce &&
           point->auto_proto == NCCL_PROTO_LL &&
           c->ran_proto != NCCL_PROTO_LL &&
           point->work.mode == STP_MODE_ALONE &&
           (point->n_bytes < terms->captured.min ||
            point->n_bytes > terms->captured.max);
}

/* Whether the arm wins; an arm that NCCL chose by itself gains nothing,
 * whatever its times say. */
static bool derive_is_faster(const struct stp_point *p,
                             const struct stp_comparison *c,
                             const struct stp_derive_terms *terms)
{
    const struct stp_setup *setup = &c->arm.setup;
    const struct stp_arm without = {.kind = STP_ARM_SETUP,
                                    .setup = stp_setup_of(setup->memory, 0)};
    const struct stp_comparison *other, *rule;
    double again, policy;

    if (!(c->gain.low > 1) || !stp_is_evidence(c, terms->trust_passes))
        return false;
    if (!stp_arm_is_of(&c->arm, terms->kind))
        return false;
    if (terms->kind == STP_POLICY_OF_ARMS)
        return !stp_ran_as_auto(p, c) &&
               (!derive_doubts(p, c, terms) ||
                c->gain.low >= 1 + STP_DERIVE_OVER_LL);
    if (terms->kind == STP_POLICY_OF_STAGE &&
        (c->ran_kernel[0] == '\0' ||
         !derive_bears_compute(p, &c->arm, terms->beside) ||
         (p->graph &&
          p->auto_us - p->auto_us / c->gain.low < STP_DERIVE_GRAPH_US)))
        return false;
    /* Copy engines must have run if they are what the arm is for.  NCCL runs
     * reductions under ce by the symmetric kernels of sym, and sym needs no
     * communicator of its own: such a gain is sym's. */
    if (setup->memory == STP_MEMORY_CE && c->ran_kernel[0] != '\0' &&
        strcmp(c->ran_kernel, STP_COPY_ENGINES) != 0)
        return false;
    /* It must be worth a communicator of its own, if needed: as much faster
     * than the same memory without as a rule is than NCCL's own choice. */
    other = setup->min_ctas != 0 && terms->kind == STP_POLICY_OF_MEMORY
                ? stp_point_arm(p, &without)
                : NULL;
    if (other != NULL &&
        !(stp_gain_over_arm(c, other).low >= 1 + terms->min_gain))
        return false;
    return stp_gain_over_rule(p, c, terms->min_gain, &rule).low > 1 &&
           derive_holds(p, &c->arm, terms->trials, &again, &policy);
}

static bool derive_qualifies(const struct stp_point *p,
                             const struct stp_comparison *c,
                             const struct stp_derive_terms *terms)
{
    return derive_is_faster(p, c, terms) && c->gain.low >= 1 + terms->min_gain;
}

/* The arm that takes NCCL's place at this size, or NULL.  'before' is the arm
 * of the size before, or NULL. */
static const struct stp_comparison *
derive_decide(const struct stp_point *p, const struct stp_arm *before,
              const struct stp_derive_terms *terms)
{
    const struct stp_comparison *best = NULL;
    const struct stp_comparison *same = NULL;

    for (size_t i = 0; i < p->n_arms; i++)
        if (derive_qualifies(p, &p->arms[i], terms) &&
            (best == NULL || p->arms[i].gain.gain > best->gain.gain))
            best = &p->arms[i];
    if (best != NULL && before != NULL)
        same = stp_point_arm(p, before);
    if (same != NULL && derive_qualifies(p, same, terms) &&
        same->gain.gain >= best->gain.gain * (1 - STP_DERIVE_SAME))
        return same;
    return best;
}

const struct stp_comparison *
stp_derive_choice(const struct stp_point *point,
                  const struct stp_derive_terms *terms)
{
    return derive_decide(point, NULL, terms);
}

const struct stp_comparison *
stp_derive_unsure(const struct stp_point *point,
                  const struct stp_derive_terms *terms)
{
    const struct stp_comparison *decided = stp_derive_choice(point, terms);
    const struct stp_comparison *best = NULL;
    double least =
        (1 + terms->min_gain) * (decided != NULL ? decided->gain.gain : 1);

    for (size_t i = 0; i < point->n_arms; i++) {
        const struct stp_comparison *c = &point->arms[i];

        if (!stp_arm_is_of(&c->arm, terms->kind) ||
            !stp_is_evidence(c, terms->trust_passes) ||
            stp_ran_as_auto(point, c) || c->gain.gain < least ||
            (c->gain.low >= 1 + terms->min_gain &&
             !(derive_doubts(point, c, terms) &&
               c->gain.low < 1 + STP_DERIVE_OVER_LL)))
            continue;
        best = c;
        least = c->gain.gain;
    }
    return best;
}

const struct stp_comparison *
stp_derive_refuted(const struct stp_point *point,
                   const struct stp_derive_terms *terms, double *again_ret,
                   double *policy_ret)
{
    struct stp_derive_terms first = *terms;
    const struct stp_comparison *chosen;

    first.trials = NULL;
    chosen = stp_derive_choice(point, &first);
    return chosen != NULL && !derive_holds(point, &chosen->arm, terms->trials,
                                           again_ret, policy_ret)
               ? chosen
               : NULL;
}

/* Extends a rule to the next point, which has none, if its arm is faster there,
 * be it by less than the least gain; a rule that stages, which costs memory and
 * launches, is never of less. */
static void derive_go_on(const struct stp_comparisons *all,
                         const struct stp_derive_terms *terms, choice *choices,
                         size_t from, size_t to)
{
    const struct stp_point *p = &all->points[to];
    choice same;

    if (choices[from] == NULL || choices[to] != NULL ||
        terms->kind == STP_POLICY_OF_STAGE ||
        !stp_point_alike(&all->points[from], p))
        return;
    same = stp_point_arm(p, &choices[from]->arm);
    if (same != NULL && derive_is_faster(p, same, terms))
        choices[to] = same;
}

/* Whether NCCL itself runs the arm there. */
static bool derive_runs_arm(const struct stp_point *p,
                            const struct stp_arm *arm)
{
    return arm->kind == STP_ARM_FORCED && p->auto_algo == arm->algo &&
           p->auto_proto == arm->proto &&
           (arm->n_channels == 0 || arm->n_channels == p->auto_channels);
}

/* How far a rule of 'p' reaches towards a neighbour without one: halfway, or
 * less far if the lower end of its gain's interval, interpolated in logarithms,
 * comes down to 1 before. */
static uint64_t derive_find_reach(const struct stp_point *p, choice at_p,
                                  const struct stp_point *neighbour)
{
    choice beyond = stp_point_arm(neighbour, &at_p->arm);
    double factor = (double)neighbour->n_bytes / (double)p->n_bytes;
    double here = log(at_p->gain.low);
    double there = beyond != NULL ? log(beyond->gain.low) : 0;
    double share = here / (here - there);

    if (!isfinite(there) || -there <= here)
        share = 0.5;
    return (uint64_t)((double)p->n_bytes * pow(factor, share));
}

/* The border between two neighbours: the last size of the rule of the one, and
 * the first of the rule of the other. */
struct border {
    uint64_t last, first;
};

/* Where NCCL itself runs the rule's arm at the other, which has no rule, the
 * rule reaches up to that one: it changes nothing there. */
static struct border derive_find_border(const struct stp_point *a, choice at_a,
                                        const struct stp_point *b, choice at_b)
{
    uint64_t last;

    if (at_a != NULL && at_b != NULL)
        last = stp_size_between(a->n_bytes, b->n_bytes);
    else if (at_b == NULL)
        last = derive_runs_arm(b, &at_a->arm) ? b->n_bytes - 1
                                              : derive_find_reach(a, at_a, b);
    else
        last = derive_runs_arm(a, &at_b->arm) ? a->n_bytes
                                              : derive_find_reach(b, at_b, a);
    return (struct border){last, last + 1};
}

/* Whether a message of the point's size fills whole rounds of the arm, if it is
 * of symmetric memory. */
static bool derive_fills_rounds(const struct stp_point *p,
                                const struct stp_setup *setup)
{
    return !stp_memory_is_symmetric(setup->memory) ||
           p->n_bytes %
                   stp_memory_round(p->coll, p->n_ranks, setup->min_ctas) ==
               0;
}

/* Whether one rule of buffers may stand at both sizes and between them: its arm
 * is certain to gain 'least' everywhere there.  On lines between the points
 * that is so if it is at both; where NCCL's own choice changes between them,
 * its shortest time has to be so much more than the arm's longest. */
static bool derive_is_certain(const struct stp_point *a, choice at_a,
                              const struct stp_point *b, choice at_b,
                              double least)
{
    const bool chose_alike =
        a->auto_algo >= 0 && a->auto_algo == b->auto_algo &&
        a->auto_proto == b->auto_proto && a->auto_channels == b->auto_channels;

    return at_a != NULL && at_b != NULL &&
           stp_arm_equal(&at_a->arm, &at_b->arm) &&
           derive_fills_rounds(a, &at_a->arm.setup) &&
           derive_fills_rounds(b, &at_a->arm.setup) &&
           (chose_alike || fmin(a->auto_us, b->auto_us) >=
                               least * fmax(a->auto_us / at_a->gain.low,
                                            b->auto_us / at_b->gain.low));
}

/* Whether a rule of the arm at 'p' may reach towards a neighbour. */
static bool derive_may_reach(const struct stp_point *p,
                             const struct stp_arm *arm,
                             const struct stp_point *neighbour,
                             const struct stp_derive_terms *terms)
{
    return !terms->same_bits || !stp_coll_reduces(p->coll) ||
           (p->n_ranks == 2 && stp_point_arm(neighbour, arm) != NULL);
}

/* Whether buffers cannot be judged there: launched one by one, AUTO alone takes
 * about as long for a message of four times as many bytes. */
static bool derive_is_launch(const struct stp_comparisons *all,
                             const struct stp_point *p)
{
    bool is_launch = false;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *q = &all->points[i];

        is_launch |= stp_point_alike(p, q) && q->n_bytes / 4 >= p->n_bytes &&
                     q->auto_us <= STP_DERIVE_LAUNCH * p->auto_us;
    }
    return is_launch && !p->graph && p->work.mode == STP_MODE_ALONE;
}

static void derive_make_rules(const struct stp_comparisons *all,
                              const struct stp_derive_terms *terms,
                              const choice *choices, struct stp_derived *out)
{
    const double least =
        terms->kind == STP_POLICY_OF_STAGE ? 1 + terms->min_gain : 1;
    struct stp_derived_rule *rule = NULL;
    struct border border = {0};
    bool is_certain = true; /* of buffers: at the size before and between */

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        const bool first = i == 0 || !stp_point_alike(p - 1, p);
        const bool last = i + 1 == all->n_points || !stp_point_alike(p, p + 1);

        if (first)
            border = (struct border){p->n_bytes, p->n_bytes};
        if (choices[i] != NULL &&
            (first || choices[i - 1] == NULL ||
             !stp_arm_equal(&choices[i - 1]->arm, &choices[i]->arm) ||
             border.first > border.last + 1 || !is_certain))
            out->rules[out->n_rules++] =
                (struct stp_derived_rule){.coll = p->coll,
                                          .n_nodes = p->n_nodes,
                                          .n_ranks = p->n_ranks,
                                          .min_bytes = border.first,
                                          .arm = choices[i]->arm,
                                          .points = p};
        if (last)
            border.last = p->n_bytes;
        else if (terms->kind != STP_POLICY_OF_ARMS) {
            is_certain =
                derive_is_certain(p, choices[i], p + 1, choices[i + 1], least);
            border = (struct border){is_certain ? p[1].n_bytes - 1 : p->n_bytes,
                                     p[1].n_bytes};
        } else if (choices[i] != NULL || choices[i + 1] != NULL)
            border = derive_find_border(p, choices[i], p + 1, choices[i + 1]);
        if (!last && choices[i + 1] != NULL &&
            !derive_may_reach(p + 1, &choices[i + 1]->arm, p, terms))
            border.first = p[1].n_bytes;
        if (choices[i] == NULL)
            continue;
        if (!last && !derive_may_reach(p, &choices[i]->arm, p + 1, terms))
            border.last = p->n_bytes;
        rule = &out->rules[out->n_rules - 1];
        rule->n_points++;
        rule->max_bytes = border.last;
    }
}

/* Whether the rule's arm gains enough at both points. */
static bool derive_is_sure(const struct stp_derived_rule *rule,
                           const struct stp_point *p,
                           const struct stp_derive_terms *terms)
{
    return derive_qualifies(p, stp_point_arm(p, &rule->arm), terms) &&
           derive_qualifies(p + 1, stp_point_arm(p + 1, &rule->arm), terms);
}

enum stp_status stp_derive_on(const struct stp_comparisons *comparisons,
                              const struct stp_derive_terms *terms,
                              struct stp_derived *derived_ret,
                              struct stp_error *err)
{
    struct stp_derived out = {0};
    const struct stp_point *points = comparisons->points;
    const struct stp_point *outside = NULL;
    const size_t n = comparisons->n_points;
    choice *choices;

    /* Tuners are not told of types, operations and roots, so that there is no
     * saying whose rule it is. */
    for (size_t i = 1; i < n; i++) {
        struct stp_point p = points[i - 1];

        p.in_place = points[i].in_place;
        if (derive_shares_rules(&p, &points[i]) &&
            !stp_point_alike(&p, &points[i]))
            return STP_REFUSE(
                err,
                "%s was measured with several types, operations or roots, or "
                "both in and without CUDA graphs, expected one of each: no "
                "rule can tell them apart",
                stp_coll_name(p.coll));
    }
    STP_TAKE(out.rules, n);
    STP_TAKE(choices, n);
    /* Tuners are not told of places, either: rows in place decide only where
     * there are none out of place, which stand first. */
    for (size_t i = 0; i < n; i++) {
        const struct stp_point *p = &points[i];
        const bool goes_on =
            i > 0 && stp_point_alike(p - 1, p) && choices[i - 1] != NULL;

        if (!p->in_place)
            outside = p;
        if (!p->in_place || outside == NULL || !derive_shares_rules(outside, p))
            choices[i] =
                derive_decide(p, goes_on ? &choices[i - 1]->arm : NULL, terms);
    }
    for (size_t i = 1; i < n; i++)
        derive_go_on(comparisons, terms, choices, i - 1, i);
    for (size_t i = n; i-- > 1;)
        derive_go_on(comparisons, terms, choices, i, i - 1);
    for (size_t i = 0; i < n && terms->kind != STP_POLICY_OF_ARMS; i++)
        if (derive_is_launch(comparisons, &points[i]))
            choices[i] = NULL;
    derive_make_rules(comparisons, terms, choices, &out);
    free(choices);
    /* Two sizes at an end say that it goes on like this; one does not. */
    for (size_t i = 0; i < out.n_rules && terms->extrapolate; i++) {
        struct stp_derived_rule *rule = &out.rules[i];
        const struct stp_point *first = rule->points;
        const struct stp_point *last = first + rule->n_points - 1;

        if (rule->n_points < 2 ||
            (terms->same_bits && stp_coll_reduces(rule->coll)))
            continue;
        if ((first == points || !stp_point_alike(first - 1, first)) &&
            derive_is_sure(rule, first, terms))
            rule->min_bytes = 0;
        if ((last + 1 == points + n || !stp_point_alike(last, last + 1)) &&
            derive_is_sure(rule, last - 1, terms))
            rule->max_bytes = STP_DERIVE_NO_END;
    }
    *derived_ret = out;
    return STP_OK;
}

const struct stp_derived_rule *
stp_derived_find(const struct stp_derived *derived, int coll, unsigned n_ranks,
                 uint64_t n_bytes)
{
    for (size_t i = 0; i < derived->n_rules; i++) {
        const struct stp_derived_rule *rule = &derived->rules[i];

        if (rule->coll == coll && rule->n_ranks == n_ranks &&
            rule->min_bytes <= n_bytes && n_bytes <= rule->max_bytes)
            return rule;
    }
    return NULL;
}

void stp_derived_free(struct stp_derived *derived)
{
    free(derived->rules);
    memset(derived, 0, sizeof(*derived));
}
