#include "analyse/derive.h"

#include <stdlib.h>
#include <string.h>

#include "bench/sizes.h"
#include "core/names.h"

bool stp_arm_is_pair(const struct stp_arm *arm)
{
    return arm->kind == STP_ARM_FORCED && arm->algo != STP_ANY &&
           arm->proto != STP_ANY;
}

bool stp_is_evidence(const struct stp_comparison *c, bool trust_passes)
{
    if (!stp_source_decides(c->source))
        return false;
    return !c->single_pass ||
           (trust_passes && c->gain.n_pairs >= STP_DERIVE_PASSES);
}

static bool derive_qualifies(const struct stp_comparison *c,
                             const struct stp_derive_terms *terms)
{
    return stp_arm_is_pair(&c->arm) && c->gain.low >= 1 + terms->min_gain &&
           stp_is_evidence(c, terms->trust_passes);
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
        if (derive_qualifies(&p->arms[i], terms) &&
            (best == NULL || p->arms[i].gain.gain > best->gain.gain))
            best = &p->arms[i];
    if (best != NULL && before != NULL)
        same = stp_point_arm(p, before);
    if (same != NULL && derive_qualifies(same, terms) &&
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

/* Whether a rule from the one would match the calls of the other. */
static bool derive_shares_rules(const struct stp_point *a,
                                const struct stp_point *b)
{
    return a->coll == b->coll && a->n_nodes == b->n_nodes &&
           a->n_ranks == b->n_ranks;
}

/* Tuners are not told of types, operations and roots, so that there is no
 * saying whose rule it is. */
static enum stp_status derive_refuse_mixture(const struct stp_comparisons *all,
                                             struct stp_error *err)
{
    for (size_t i = 1; i < all->n_points; i++) {
        struct stp_point p = all->points[i - 1];

        p.in_place = all->points[i].in_place;
        if (derive_shares_rules(&p, &all->points[i]) &&
            !stp_point_alike(&p, &all->points[i]))
            return stp_fail(
                err, STP_ERR_RANGE,
                "%s was measured with several types, operations or roots, "
                "expected one of each: no rule can tell them apart",
                stp_coll_name(p.coll));
    }
    return STP_OK;
}

static void derive_begin_rule(struct stp_derived_rule *rule,
                              const struct stp_point *p, bool first,
                              const struct stp_arm *arm)
{
    rule->coll = p->coll;
    rule->n_nodes = p->n_nodes;
    rule->n_ranks = p->n_ranks;
    rule->arm = *arm;
    rule->points = p;
    rule->n_points = 1;
    rule->min_bytes =
        first ? p->n_bytes : stp_size_between(p[-1].n_bytes, p->n_bytes) + 1;
}

/* Nor are they told of places: what was measured in place decides only where
 * nothing was measured out of place, which stands first. */
static bool derive_uses_point(const struct stp_point *p,
                              const struct stp_point **outside)
{
    if (!p->in_place)
        *outside = p;
    return !p->in_place || *outside == NULL ||
           !derive_shares_rules(*outside, p);
}

/* Walks the points; 'rule' is the one being extended, NULL between rules. */
static void derive_all_points(const struct stp_comparisons *all,
                              const struct stp_derive_terms *terms,
                              struct stp_derived *out)
{
    struct stp_derived_rule *rule = NULL;
    const struct stp_point *outside = NULL;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        bool first = i == 0 || !stp_point_alike(p - 1, p);
        bool last = i + 1 == all->n_points || !stp_point_alike(p, p + 1);
        const struct stp_comparison *choice = NULL;

        if (derive_uses_point(p, &outside))
            choice = derive_decide(p, first || rule == NULL ? NULL : &rule->arm,
                                   terms);
        if (choice == NULL) {
            rule = NULL;
            continue;
        }
        if (rule != NULL && !first && stp_arm_equal(&rule->arm, &choice->arm)) {
            rule->n_points++;
        } else {
            rule = &out->rules[out->n_rules++];
            derive_begin_rule(rule, p, first, &choice->arm);
        }
        rule->max_bytes =
            last ? p->n_bytes : stp_size_between(p->n_bytes, p[1].n_bytes);
    }
}

/* Two sizes at an end say that it goes on like this; one does not. */
static void derive_extrapolate(const struct stp_comparisons *all,
                               struct stp_derived *out)
{
    const struct stp_point *end = all->points + all->n_points;

    for (size_t i = 0; i < out->n_rules; i++) {
        struct stp_derived_rule *rule = &out->rules[i];
        const struct stp_point *first = rule->points;
        const struct stp_point *last = first + rule->n_points - 1;

        if (rule->n_points < 2)
            continue;
        if (first == all->points || !stp_point_alike(first - 1, first))
            rule->min_bytes = 0;
        if (last + 1 == end || !stp_point_alike(last, last + 1))
            rule->max_bytes = STP_DERIVE_NO_END;
    }
}

enum stp_status stp_derive(const struct stp_comparisons *comparisons,
                           double min_gain, struct stp_derived *derived_ret,
                           struct stp_error *err)
{
    const struct stp_derive_terms terms = {.min_gain = min_gain};

    return stp_derive_on(comparisons, &terms, derived_ret, err);
}

enum stp_status stp_derive_on(const struct stp_comparisons *comparisons,
                              const struct stp_derive_terms *terms,
                              struct stp_derived *derived_ret,
                              struct stp_error *err)
{
    struct stp_derived out = {0};
    enum stp_status status = derive_refuse_mixture(comparisons, err);

    if (status != STP_OK)
        return status;
    out.rules = calloc(comparisons->n_points + 1, sizeof(*out.rules));
    if (out.rules == NULL)
        return stp_nomem(err);
    derive_all_points(comparisons, terms, &out);
    if (terms->extrapolate)
        derive_extrapolate(comparisons, &out);
    *derived_ret = out;
    return STP_OK;
}

void stp_derived_free(struct stp_derived *derived)
{
    free(derived->rules);
    memset(derived, 0, sizeof(*derived));
}

const struct stp_comparison *
stp_derived_evidence(const struct stp_derived_rule *rule,
                     const struct stp_point *point)
{
    return stp_point_arm(point, &rule->arm);
}
