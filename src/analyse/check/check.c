#include "analyse/check/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/check/check_machine.h"
#include "analyse/check/check_text.h"
#include "analyse/check/findings.h"
#include "core/names.h"
#include "core/policy/policy_columns.h"
#include "nccl_tuner_abi.h"

/* Comparisons of two rules: some seconds. */
#define MAX_COMPARISONS (UINT64_C(1) << 30)

/* Where NVIDIA's catch-all ends. */
#define UINT32_END UINT64_C(4294967295)

struct list {
    char text[64];
};

/* "line 3", "lines 3 and 5", "lines 3, 5 and 9", "lines 1, 2, 3, 4 and 5 more"
 */
static const char *rules_list_lines(const struct stp_finding *f,
                                    struct list *list)
{
    size_t n = f->n_others < STP_FINDING_LINES ? f->n_others
                                               : (size_t)STP_FINDING_LINES;
    size_t size = sizeof(list->text);
    size_t len = (size_t)snprintf(list->text, size, "line%s %u",
                                  f->n_others > 1 ? "s" : "", f->others[0]);

    for (size_t i = 1; i < n; i++)
        len += (size_t)snprintf(list->text + len, size - len, "%s%u",
                                i + 1 == f->n_others ? " and " : ", ",
                                f->others[i]);
    if (f->n_others > n)
        snprintf(list->text + len, size - len, " and %zu more",
                 f->n_others - n);
    return list->text;
}

/* ---- rules that never decide ---- */

static void rules_add_no_kernel(struct stp_check_state *c, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    bool wrong_algo =
        !stp_pair_exists(rule->coll, rule->algo, NCCL_PROTO_SIMPLE);

    c->idle[i] = true;
    stp_check_add(c, i, STP_CHECK_NO_KERNEL,
                  wrong_algo ? "algorithm" : "protocol",
                  "no NCCL has %s/%s for %s, so that this rule never decides",
                  stp_algo_name(rule->algo), stp_proto_name(rule->proto),
                  stp_coll_name(rule->coll))
        ->fix = STP_FIX_DROP;
}

static void rules_add_empty(struct stp_check_state *c, size_t i)
{
    c->idle[i] = true;
    stp_check_add(c, i, STP_CHECK_DEAD, NULL,
                  "this rule is dead: no message has its bytes and also its "
                  "bytes per rank")
        ->fix = STP_FIX_DROP;
}

/* ---- shadows ---- */

static bool rules_same_pair(const struct stp_rule *earlier,
                            const struct stp_rule *rule)
{
    return earlier->algo == rule->algo && earlier->proto == rule->proto;
}

/* NCCL rules these out for nobody but who forbids them. */
static bool rules_always_decides(const struct stp_rule *earlier,
                                 const struct stp_rule *rule)
{
    return rules_same_pair(earlier, rule) ||
           (earlier->algo == NCCL_ALGO_RING &&
            earlier->proto != NCCL_PROTO_LL128);
}

static bool rules_may_decide(const struct stp_rule *earlier,
                             const struct stp_rule *rule)
{
    (void)earlier;
    (void)rule;
    return true;
}

/* From strict to lax: the first that covers a rule says what it is. */
static const struct shadow {
    bool (*counts)(const struct stp_rule *earlier, const struct stp_rule *rule);
    enum stp_check_kind kind;
    enum stp_fix fix;
    const char *before, *after; /* "line 3 matches" */
} shadows[] = {
    {rules_same_pair, STP_CHECK_DEAD, STP_FIX_DROP, "this rule is dead: ",
     "all that it matches, with the same algorithm and protocol"},
    {rules_always_decides, STP_CHECK_SHADOWED, STP_FIX_NONE, "",
     "all that this rule matches, so that it only decides if NCCL_ALGO or "
     "NCCL_PROTO forbids what NCCL always has"},
    {rules_may_decide, STP_CHECK_FALLBACK, STP_FIX_NONE, "",
     "all that this rule matches, so that it only decides where NCCL cannot "
     "run what stands there"},
};

enum { N_SHADOWS = sizeof(shadows) / sizeof(shadows[0]) };

/* NCCL rules out nothing that a buffer is registered as. */
static const struct shadow memory_shadow = {
    rules_may_decide, STP_CHECK_DEAD, STP_FIX_DROP,
    "this rule is dead: ", "all that it matches"};

/* Covers rule 'i' by those at 'counted', as few as one if that is enough, and
 * marks in 'used' which it took. */
static enum stp_cover rules_cover(struct stp_check_state *c, size_t i,
                                  size_t n_counted)
{
    for (size_t k = 0; k < n_counted; k++) {
        c->by[k] = &c->boxes[c->counted[k]];
        c->used[k] = false;
    }
    for (size_t k = 0; k < n_counted; k++) {
        bool used;

        if (stp_box_cover(&c->boxes[i], &c->by[k], 1, &used, &c->budget) !=
            STP_COVERED)
            continue;
        c->used[k] = true;
        return STP_COVERED;
    }
    return stp_box_cover(&c->boxes[i], c->by, n_counted, c->used, &c->budget);
}

static void rules_add_shadow(struct stp_check_state *c, size_t i,
                             const struct shadow *shadow, size_t n_counted)
{
    struct stp_finding *f = stp_check_add(c, i, shadow->kind, NULL, NULL);
    struct list lines;

    for (size_t k = 0; k < n_counted; k++)
        if (c->used[k])
            stp_finding_other(f,
                              stp_policy_rule(c->policy, c->counted[k])->line);
    f->fix = shadow->fix;
    c->idle[i] = shadow->kind == STP_CHECK_DEAD;
    snprintf(f->text, sizeof(f->text), "%s%s match%s %s", shadow->before,
             rules_list_lines(f, &lines), f->n_others == 1 ? "es" : "",
             shadow->after);
}

/* Whether the earlier rules of this kind cover rule 'i', which is said. */
static bool rules_try_shadow(struct stp_check_state *c, size_t i,
                             const struct shadow *shadow, size_t n_met)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    enum stp_cover covered;
    size_t n = 0;

    for (size_t k = 0; k < n_met; k++)
        if (shadow->counts(stp_policy_rule(c->policy, c->met[k]), rule))
            c->counted[n++] = c->met[k];
    covered = rules_cover(c, i, n);
    if (covered == STP_COVER_UNKNOWN)
        stp_check_spend(c, UINT64_MAX);
    if (covered == STP_COVERED)
        rules_add_shadow(c, i, shadow, n);
    return covered == STP_COVERED;
}

/* ---- overlaps ---- */

static const char *const side_names[STP_N_SIDES] = {
    [STP_SIDE_BYTES] = "bytes",
    [STP_SIDE_BYTES_PER_RANK] = "bytes per rank",
    [STP_SIDE_NODES] = "nNodes",
    [STP_SIDE_RANKS] = "nRanks",
    [STP_SIDE_PIPE_OPS] = "numPipeOps",
    [STP_SIDE_REG_BUFF] = "regBuff",
    [STP_SIDE_OVERLAP] = "overlap",
};

struct part {
    char text[128];
};

static size_t rules_add_side(char *text, size_t size, const char *name,
                             const struct stp_range *side)
{
    if (side->min == side->max)
        return (size_t)snprintf(text, size, ", %s %" PRIu64, name, side->min);
    if (side->max == UINT64_MAX)
        return (size_t)snprintf(text, size, ", %s from %" PRIu64, name,
                                side->min);
    return (size_t)snprintf(text, size, ", %s %" PRIu64 " to %" PRIu64, name,
                            side->min, side->max);
}

/* The sides by which 'both' is less than 'box', such as "bytes 0 to 4095". */
static const char *rules_describe_part(const struct stp_box *both,
                                       const struct stp_box *box,
                                       struct part *part)
{
    size_t size = sizeof(part->text), len = 0;

    part->text[2] = '\0';
    for (int s = 0; s < STP_N_SIDES; s++)
        if (len < size && memcmp(&both->side[s], &box->side[s],
                                 sizeof(struct stp_range)) != 0)
            len += rules_add_side(part->text + len, size - len, side_names[s],
                                  &both->side[s]);
    if (len < size && both->gpu != NULL && box->gpu == NULL)
        snprintf(part->text + len, size - len, ", gpu %s", both->gpu);
    return part->text + strlen(", ");
}

static void rules_add_overlap(struct stp_check_state *c, size_t i, size_t n_met)
{
    struct stp_finding *f = stp_check_add(c, i, STP_CHECK_OVERLAP, NULL, NULL);
    struct stp_box both;
    struct part part;
    char more[64] = "";

    for (size_t k = 0; k < n_met; k++)
        stp_finding_other(f, stp_policy_rule(c->policy, c->met[k])->line);
    if (n_met > 1)
        snprintf(more, sizeof(more), ", and %zu more line%s for more of it",
                 n_met - 1, n_met == 2 ? "" : "s");
    stp_boxes_meet(&c->boxes[c->met[0]], &c->boxes[i], &both);
    snprintf(f->text, sizeof(f->text),
             "line %u comes before this rule for %s%s, so that it decides only "
             "what is left",
             f->others[0], rules_describe_part(&both, &c->boxes[i], &part),
             more);
}

/* ---- a rule and those before it ---- */

static size_t rules_find_met(struct stp_check_state *c, size_t i)
{
    int coll = stp_policy_rule(c->policy, i)->coll;
    struct stp_box both;
    size_t n = 0;

    for (size_t j = 0; j < i; j++)
        if (!c->idle[j] && stp_policy_rule(c->policy, j)->coll == coll &&
            stp_boxes_meet(&c->boxes[j], &c->boxes[i], &both))
            c->met[n++] = j;
    return n;
}

static bool rules_is_shadowed(struct stp_check_state *c, size_t i, size_t n_met)
{
    if (stp_policy_get_kind(c->policy) == STP_POLICY_OF_MEMORY)
        return rules_try_shadow(c, i, &memory_shadow, n_met);
    for (size_t s = 0; s < N_SHADOWS && c->status == STP_OK; s++)
        if (rules_try_shadow(c, i, &shadows[s], n_met))
            return true;
    return false;
}

static void rules_check_shadows(struct stp_check_state *c, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    size_t n_met;

    stp_check_spend(c, i);
    if (c->status != STP_OK)
        return;
    if (stp_policy_get_kind(c->policy) == STP_POLICY_OF_ARMS &&
        !stp_pair_exists(rule->coll, rule->algo, rule->proto)) {
        rules_add_no_kernel(c, i);
        return;
    }
    if (!stp_box_exists(&c->boxes[i])) {
        rules_add_empty(c, i);
        return;
    }
    n_met = rules_find_met(c, i);
    if (!rules_is_shadowed(c, i, n_met) && n_met > 0)
        rules_add_overlap(c, i, n_met);
}

/* ---- gaps ---- */

static void rules_add_gap(struct stp_check_state *c, size_t i, size_t next)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    struct stp_finding *f =
        stp_check_add(c, i, STP_CHECK_GAP, "max_bytes", NULL);
    const char *coll = stp_coll_name(rule->coll);
    const char *otherwise =
        stp_policy_get_kind(c->policy) == STP_POLICY_OF_MEMORY
            ? "buffers stay plain"
            : "NCCL's own choice holds";

    if (next == c->n) {
        f->fix = rule->bytes.max == UINT32_END ? STP_FIX_END : STP_FIX_NONE;
        snprintf(f->text, sizeof(f->text),
                 "no rule decides %s above %" PRIu64 " bytes, so that %s "
                 "there; inf would have no end",
                 coll, rule->bytes.max, otherwise);
        return;
    }
    stp_finding_other(f, stp_policy_rule(c->policy, next)->line);
    snprintf(f->text, sizeof(f->text),
             "no rule decides %s from %" PRIu64 " to %" PRIu64
             " bytes, between this rule and line %u, so that %s there",
             coll, rule->bytes.max + 1,
             c->boxes[next].side[STP_SIDE_BYTES].min - 1, f->others[0],
             otherwise);
}

/* Whether rule 'i' would match sizes from where it ends to below 'limit', were
 * it not for its end. */
static bool rules_has_more(const struct stp_check_state *c, size_t i,
                           uint64_t limit)
{
    struct stp_box above = c->boxes[i];

    above.side[STP_SIDE_BYTES].min = above.side[STP_SIDE_BYTES].max + 1;
    above.side[STP_SIDE_BYTES].max = limit - 1;
    return stp_box_exists(&above);
}

/* Whether rule 'j' of the collective may be asked about what rule 'i' is. */
static bool rules_share_calls(const struct stp_check_state *c, size_t i,
                              size_t j)
{
    return !c->idle[j] &&
           stp_policy_rule(c->policy, j)->coll ==
               stp_policy_rule(c->policy, i)->coll &&
           stp_boxes_share_calls(&c->boxes[i], &c->boxes[j]);
}

/* Derived policies end where nobody measured, and mean it; an end of 32 bits is
 * one that somebody took for the largest number. */
static void rules_check_gap(struct stp_check_state *c, size_t i)
{
    uint64_t end = c->boxes[i].side[STP_SIDE_BYTES].max;
    uint64_t limit = 0; /* 2^64: where 'next' begins */
    size_t next = c->n;
    bool told = false; /* by an earlier rule with the same end */

    if (c->idle[i] || end == UINT64_MAX)
        return;
    stp_check_spend(c, c->n);
    if (c->status != STP_OK)
        return;
    for (size_t j = 0; j < c->n; j++) {
        const struct stp_range *bytes = &c->boxes[j].side[STP_SIDE_BYTES];

        if (bytes->max < end || j == i || !rules_share_calls(c, i, j))
            continue;
        if (bytes->min <= end + 1 && bytes->max > end)
            return;
        told |= j < i && bytes->max == end;
        if (bytes->min > end && (next == c->n || bytes->min < limit)) {
            next = j;
            limit = bytes->min;
        }
    }
    if ((next == c->n ? end >= UINT32_END : !told) &&
        rules_has_more(c, i, limit))
        rules_add_gap(c, i, next);
}

/* ---- the check ---- */

static void check_allocate(struct stp_check_state *c)
{
    size_t n = c->n + 1; /* none may be legal, and is no failure */

    c->boxes = malloc(n * sizeof(*c->boxes));
    c->idle = calloc(n, sizeof(*c->idle));
    c->met = malloc(n * sizeof(*c->met));
    c->counted = malloc(n * sizeof(*c->counted));
    c->by = malloc(n * sizeof(*c->by));
    c->used = malloc(n * sizeof(*c->used));
    if (c->boxes == NULL || c->idle == NULL || c->met == NULL ||
        c->counted == NULL || c->by == NULL || c->used == NULL) {
        c->status = stp_nomem(c->err);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        c->boxes[i] = stp_box_of(stp_policy_rule(c->policy, i));
}

static void check_release(struct stp_check_state *c)
{
    free(c->boxes);
    free(c->idle);
    free(c->met);
    free(c->counted);
    free(c->by);
    free(c->used);
}

enum stp_status stp_check(const struct stp_check_options *options,
                          struct stp_findings *findings_ret,
                          struct stp_error *err)
{
    struct stp_check_state c = {.budget = MAX_COMPARISONS, .err = err};
    struct stp_policy *policy;

    c.out.policy_kind = options->kind;
    c.status = stp_policy_parse_kind(options->kind, options->csv, options->len,
                                     &policy, err);
    if (c.status != STP_OK)
        return c.status;
    c.policy = policy;
    c.n = stp_policy_size(policy);
    check_allocate(&c);
    for (size_t i = 0; i < c.n && c.status == STP_OK; i++)
        rules_check_shadows(&c, i);
    for (size_t i = 0; i < c.n && c.status == STP_OK; i++)
        rules_check_gap(&c, i);
    if (c.status == STP_OK && options->machine_path != NULL)
        stp_check_machine(&c, options->machine_path);
    check_release(&c);
    stp_policy_free(policy);
    if (c.status != STP_OK) {
        stp_findings_free(&c.out);
        return c.status;
    }
    stp_findings_place(&c.out, options->csv, options->len);
    *findings_ret = c.out;
    return STP_OK;
}
