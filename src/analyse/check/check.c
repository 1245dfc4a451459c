#include "analyse/check/check.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/names.h"
#include "core/policy/memory_policy.h"
#include "core/policy/policy_columns.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

/* Each rule is compared with those before it: some seconds. */
enum { MAX_RULES = 1 << 15 };

/* Where NVIDIA's catch-all ends. */
#define UINT32_END UINT64_C(4294967295)

enum side {
    SIDE_BYTES,
    SIDE_BYTES_PER_RANK,
    SIDE_NODES,
    SIDE_RANKS,
    SIDE_PIPE_OPS,
    SIDE_REG_BUFF,
    SIDE_OVERLAP,
    SIDE_GRAPH,
    N_SIDES,
};

/* The calls that a rule matches: those whose numbers are within the sides. */
struct box {
    struct stp_range side[N_SIDES];
    const char *gpu; /* NULL: any */
};

struct check {
    const struct stp_policy *policy;
    size_t n; /* rules */
    struct box *boxes;
    bool *idle;  /* by rule: it never decides, and hides none */
    size_t *met; /* earlier rules that match calls of the checked rule */

    struct stp_findings out;
};

/* ---- boxes ---- */

static uint64_t box_max(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t box_min(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* -1 is any. */
static struct stp_range box_side(int value, uint64_t min, uint64_t max)
{
    if (value == -1)
        return (struct stp_range){min, max};
    return (struct stp_range){(uint64_t)value, (uint64_t)value};
}

/* Whether some message is in it: bytes over ranks are its bytes per rank.  For
 * r ranks the bytes are share.min * r to share.max * r + r - 1.  That they meet
 * the box's bytes bounds r from above by the first, and from below by the
 * second. */
static bool box_exists(const struct box *box)
{
    const struct stp_range *bytes = &box->side[SIDE_BYTES];
    const struct stp_range *share = &box->side[SIDE_BYTES_PER_RANK];
    struct stp_range ranks = box->side[SIDE_RANKS];

    for (int s = 0; s < N_SIDES; s++)
        if (box->side[s].min > box->side[s].max)
            return false;
    if (share->min > 0)
        ranks.max = box_min(ranks.max, bytes->max / share->min);
    if (share->max < UINT64_MAX)
        ranks.min = box_max(ranks.min, bytes->min / (share->max + 1) + 1);
    return ranks.min <= ranks.max;
}

/* Whether both boxes have something in common on all sides from 'first' on. */
static bool box_meets(const struct box *a, const struct box *b, int first)
{
    for (int s = first; s < N_SIDES; s++)
        if (a->side[s].min > b->side[s].max || b->side[s].min > a->side[s].max)
            return false;
    return a->gpu == NULL || b->gpu == NULL || strcmp(a->gpu, b->gpu) == 0;
}

/* Stores what is in both; false if nothing is. */
static bool box_intersect(const struct box *a, const struct box *b,
                          struct box *both_ret)
{
    for (int s = 0; s < N_SIDES; s++)
        both_ret->side[s] =
            (struct stp_range){box_max(a->side[s].min, b->side[s].min),
                               box_min(a->side[s].max, b->side[s].max)};
    both_ret->gpu = a->gpu != NULL ? a->gpu : b->gpu;
    return box_meets(a, b, 0) && box_exists(both_ret);
}

/* Whether no message of 'inner', which meets 'outer', is beyond any side of
 * that. */
static bool box_contains(const struct box *outer, const struct box *inner)
{
    bool is_beyond = outer->gpu != NULL && inner->gpu == NULL;

    for (int s = 0; s < N_SIDES && !is_beyond; s++) {
        struct box below = *inner, above = *inner;

        below.side[s].max = outer->side[s].min - 1;
        above.side[s].min = outer->side[s].max + 1;
        is_beyond =
            (inner->side[s].min < outer->side[s].min && box_exists(&below)) ||
            (inner->side[s].max > outer->side[s].max && box_exists(&above));
    }
    return !is_beyond;
}

/* ---- findings ---- */

static const struct {
    const char *name;
    bool is_warning;
} kinds[STP_N_CHECK_KINDS] = {
    [STP_CHECK_DEAD] = {"dead", true},
    [STP_CHECK_SHADOWED] = {"shadowed", true},
    [STP_CHECK_NO_KERNEL] = {"no_kernel", true},
    [STP_CHECK_FALLBACK] = {"fallback", false},
    [STP_CHECK_OVERLAP] = {"overlap", false},
    [STP_CHECK_GAP] = {"gap", false},
    [STP_CHECK_BITS] = {"bits", true},
};

const char *stp_check_kind_name(enum stp_check_kind kind)
{
    return kinds[kind].name;
}

bool stp_check_is_warning(enum stp_check_kind kind)
{
    return kinds[kind].is_warning;
}

/* A new finding about rule 'i', in whose text one sentence is formatted unless
 * 'fmt' is NULL.  Valid until the next. */
static struct stp_finding *check_add(struct check *c, size_t i,
                                     enum stp_check_kind kind,
                                     const char *field, const char *fmt, ...)
    STP_PRINTF(5, 6);
static struct stp_finding *check_add(struct check *c, size_t i,
                                     enum stp_check_kind kind,
                                     const char *field, const char *fmt, ...)
{
    struct stp_findings *out = &c->out;
    struct stp_finding *finding;
    va_list args;

    STP_TAKE_ROOM(out->at, out->n, out->capacity);
    finding = &out->at[out->n++];
    *finding = (struct stp_finding){
        .kind = kind,
        .line = stp_policy_rule(c->policy, i)->line,
        .field = field,
    };
    va_start(args, fmt);
    if (fmt != NULL)
        vsnprintf(finding->text, sizeof(finding->text), fmt, args);
    va_end(args);
    return finding;
}

/* Adds the line of rule 'i', which the finding has to do with. */
static void check_add_other(const struct check *c, size_t i,
                            struct stp_finding *finding)
{
    if (finding->n_others < STP_FINDING_LINES)
        finding->others[finding->n_others] =
            stp_policy_rule(c->policy, i)->line;
    finding->n_others++;
}

void stp_findings_free(struct stp_findings *findings)
{
    free(findings->at);
    memset(findings, 0, sizeof(*findings));
}

/* ---- shadows ---- */

static bool rules_same_pair(const struct stp_rule *earlier,
                            const struct stp_rule *rule)
{
    return earlier->algo == rule->algo && earlier->proto == rule->proto;
}

/* Whether NCCL always runs the rule's pair: it rules out these pairs only for a
 * user who forbids them. */
static bool rules_always_decides(const struct stp_rule *earlier,
                                 const struct stp_rule *rule)
{
    return rules_same_pair(earlier, rule) ||
           (earlier->algo == NCCL_ALGO_RING &&
            earlier->proto != NCCL_PROTO_LL128);
}

/* Whether the earlier rule decides all messages of the rule that it matches:
 * each round of those has a number of its own. */
static bool rules_decides_rounds(const struct stp_rule *earlier,
                                 const struct stp_rule *rule)
{
    return !stp_memory_rule_takes_rounds(earlier) ||
           (stp_memory_rule_takes_rounds(rule) &&
            stp_memory_round(rule->coll, 1, rule->min_ctas) %
                    stp_memory_round(rule->coll, 1, earlier->min_ctas) ==
                0);
}

/* From strict to lax: the first by which an earlier rule has all that a rule
 * matches says what that is.  NCCL rules out nothing that a buffer is
 * registered as. */
static const struct shadow {
    bool of_arms;
    bool (*counts)(const struct stp_rule *earlier,
                   const struct stp_rule *rule); /* NULL: any does */
    enum stp_check_kind kind;
    enum stp_fix fix;
    const char *before, *after; /* "line 3 matches" */
} shadows[] = {
    {true, rules_same_pair, STP_CHECK_DEAD, STP_FIX_DROP, "this rule is dead: ",
     "all that it matches, with the same algorithm and protocol"},
    {true, rules_always_decides, STP_CHECK_SHADOWED, STP_FIX_NONE, "",
     "all that this rule matches, so that it only decides if NCCL_ALGO or "
     "NCCL_PROTO forbids what NCCL always has"},
    {true, NULL, STP_CHECK_FALLBACK, STP_FIX_NONE, "",
     "all that this rule matches, so that it only decides where NCCL cannot "
     "run what stands there"},
    {false, rules_decides_rounds, STP_CHECK_DEAD, STP_FIX_DROP,
     "this rule is dead: ", "all that it matches"},
};

/* Whether an earlier rule of this kind has all that rule 'i' matches; then adds
 * a finding. */
static bool rules_try_shadow(struct check *c, size_t i,
                             const struct shadow *shadow, size_t n_met)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);

    for (size_t k = 0; k < n_met; k++) {
        const size_t j = c->met[k];
        const struct stp_rule *earlier = stp_policy_rule(c->policy, j);
        struct stp_finding *f;

        if ((shadow->counts != NULL && !shadow->counts(earlier, rule)) ||
            !box_contains(&c->boxes[j], &c->boxes[i]))
            continue;
        f = check_add(c, i, shadow->kind, NULL, "%sline %u matches %s",
                      shadow->before, earlier->line, shadow->after);
        f->fix = shadow->fix;
        check_add_other(c, j, f);
        c->idle[i] = shadow->kind == STP_CHECK_DEAD;
        return true;
    }
    return false;
}

/* ---- overlaps ---- */

static const char *const side_names[N_SIDES] = {
    [SIDE_BYTES] = "bytes",         [SIDE_BYTES_PER_RANK] = "bytes per rank",
    [SIDE_NODES] = "nNodes",        [SIDE_RANKS] = "nRanks",
    [SIDE_PIPE_OPS] = "numPipeOps", [SIDE_REG_BUFF] = "regBuff",
    [SIDE_OVERLAP] = "overlap",     [SIDE_GRAPH] = "graph",
};

enum { PART = 128 };

/* The sides by which 'both' is less than 'box', and whether the earlier rule
 * decides only some of it, such as "bytes 0 to 4095". */
static const char *rules_describe_part(const struct box *both,
                                       const struct box *box,
                                       const struct stp_rule *earlier,
                                       char text[PART])
{
    text[0] = '\0';
    for (int s = 0; s < N_SIDES; s++) {
        const struct stp_range *side = &both->side[s];
        const bool is_one = side->min == side->max;
        const bool has_end = side->max != UINT64_MAX;

        if (memcmp(side, &box->side[s], sizeof(*side)) == 0)
            continue;
        stp_append(text, PART, ", %s %s%" PRIu64, side_names[s],
                   is_one || has_end ? "" : "from ", side->min);
        if (!is_one && has_end)
            stp_append(text, PART, " to %" PRIu64, side->max);
    }
    if (both->gpu != NULL && box->gpu == NULL)
        stp_append(text, PART, ", gpu %s", both->gpu);
    if (stp_memory_rule_takes_rounds(earlier))
        stp_append(text, PART, ", whole rounds of its CTAs");
    return text + strspn(text, ", ");
}

static void rules_add_overlap(struct check *c, size_t i, size_t n_met)
{
    struct stp_finding *f = check_add(c, i, STP_CHECK_OVERLAP, NULL, NULL);
    struct box both;
    char more[64] = "", part[PART];

    for (size_t k = 0; k < n_met; k++)
        check_add_other(c, c->met[k], f);
    if (n_met > 1)
        snprintf(more, sizeof(more), ", and %zu more line%s for more of it",
                 n_met - 1, n_met == 2 ? "" : "s");
    box_intersect(&c->boxes[c->met[0]], &c->boxes[i], &both);
    snprintf(f->text, sizeof(f->text),
             "line %u comes first for %s%s, so that this rule decides at most "
             "what is left",
             f->others[0],
             rules_describe_part(&both, &c->boxes[i],
                                 stp_policy_rule(c->policy, c->met[0]), part),
             more);
}

/* Why no communicator has what the rule asks for; NULL: one may. */
static const char *rules_find_idle(const struct stp_rule *rule, bool is_of_arms)
{
    return rule->ranks.max == 1 ? "a communicator of one rank exchanges nothing"
           : rule->ranks.max < rule->nodes.min
               ? "no communicator has fewer ranks than hosts"
           : is_of_arms && rule->algo == NCCL_ALGO_NVLS_TREE &&
                   rule->nodes.max == 1
               ? "NCCL has nvls_tree only over several hosts"
           : is_of_arms ? NULL
                        : stp_memory_rule_is_idle(rule);
}

static void rules_check_earlier(struct check *c, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    const bool is_of_arms =
        stp_policy_get_kind(c->policy) == STP_POLICY_OF_ARMS;
    const char *idle = rules_find_idle(rule, is_of_arms);
    bool is_shadowed = false;
    struct box both;
    size_t n_met = 0;

    if (is_of_arms && !stp_pair_exists(rule->coll, rule->algo, rule->proto))
        check_add(c, i, STP_CHECK_NO_KERNEL,
                  stp_pair_exists(rule->coll, rule->algo, NCCL_PROTO_SIMPLE)
                      ? "protocol"
                      : "algorithm",
                  "no NCCL has %s/%s for %s, so that this rule never decides",
                  stp_algo_name(rule->algo), stp_proto_name(rule->proto),
                  stp_coll_name(rule->coll))
            ->fix = STP_FIX_DROP;
    else if (idle != NULL)
        check_add(c, i, STP_CHECK_NO_KERNEL, NULL,
                  "%s, so that this rule never decides", idle)
            ->fix = STP_FIX_DROP;
    else if (!box_exists(&c->boxes[i]))
        check_add(c, i, STP_CHECK_DEAD, NULL,
                  "this rule is dead: no message has its bytes and also its "
                  "bytes per rank")
            ->fix = STP_FIX_DROP;
    else {
        for (size_t j = 0; j < i; j++)
            if (!c->idle[j] &&
                stp_policy_rule(c->policy, j)->coll == rule->coll &&
                box_intersect(&c->boxes[j], &c->boxes[i], &both))
                c->met[n_met++] = j;
        for (size_t s = 0; s < STP_N_OF(shadows) && !is_shadowed; s++)
            is_shadowed = shadows[s].of_arms == is_of_arms &&
                          rules_try_shadow(c, i, &shadows[s], n_met);
        if (!is_shadowed && n_met > 0)
            rules_add_overlap(c, i, n_met);
        return;
    }
    c->idle[i] = true;
}

/* ---- gaps ---- */

/* 'kind' says whether other calls have a rule there. */
static void rules_add_gap(struct check *c, size_t i, size_t next,
                          const char *kind)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    struct stp_finding *f = check_add(c, i, STP_CHECK_GAP, "max_bytes", NULL);
    const char *coll = stp_coll_name(rule->coll);

    if (next == c->n) {
        f->fix = rule->bytes.max == UINT32_END ? STP_FIX_END : STP_FIX_NONE;
        snprintf(f->text, sizeof(f->text),
                 "no rule decides %s%s above %" PRIu64 " bytes%s; inf would "
                 "have no end",
                 coll, kind, rule->bytes.max,
                 stp_policy_get_kind(c->policy) == STP_POLICY_OF_ARMS
                     ? ""
                     : ", so that buffers stay plain there");
        return;
    }
    check_add_other(c, next, f);
    snprintf(f->text, sizeof(f->text),
             "no rule decides %s%s from %" PRIu64 " to %" PRIu64
             " bytes, between this rule and line %u",
             coll, kind, rule->bytes.max + 1,
             c->boxes[next].side[SIDE_BYTES].min - 1, f->others[0]);
}

/* Derived policies end where nobody measured, and mean it, and those of buffers
 * also between sizes where no gain is certain; an end of 32 bits is one that
 * somebody took for the largest number. */
static void rules_check_gap(struct check *c, size_t i)
{
    const int coll = stp_policy_rule(c->policy, i)->coll;
    const bool is_of_arms =
        stp_policy_get_kind(c->policy) == STP_POLICY_OF_ARMS;
    uint64_t end = c->boxes[i].side[SIDE_BYTES].max;
    struct box above = c->boxes[i]; /* what it would match without end */
    uint64_t limit = 0;             /* 2^64: where 'next' begins */
    size_t next = c->n;
    bool told = false;   /* by an earlier rule with the same end */
    bool others = false; /* that match other calls, above */

    if (c->idle[i] || end == UINT64_MAX)
        return;
    for (size_t j = 0; j < c->n; j++) {
        const struct stp_range *bytes = &c->boxes[j].side[SIDE_BYTES];

        if (bytes->max < end || j == i || c->idle[j] ||
            stp_policy_rule(c->policy, j)->coll != coll)
            continue;
        if (!box_meets(&c->boxes[i], &c->boxes[j], SIDE_NODES)) {
            others |= bytes->max > end;
            continue;
        }
        if (bytes->min <= end + 1 && bytes->max > end)
            return;
        told |= j < i && bytes->max == end;
        if (bytes->min > end && (next == c->n || bytes->min < limit)) {
            next = j;
            limit = bytes->min;
        }
    }
    above.side[SIDE_BYTES] = (struct stp_range){end + 1, limit - 1};
    if ((next == c->n ? end >= UINT32_END : is_of_arms && !told) &&
        box_exists(&above))
        rules_add_gap(c, i, next, others ? " of this rule's kind" : "");
}

/* Finds rules of sums that decide about more than a measured size of one
 * collective, where nobody knows in which order they are added. */
static void rules_check_bits(struct check *c, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(c->policy, i);
    const bool is_ordered = rule->ranks.min != 2 || rule->ranks.max != 2;
    const bool is_range = rule->bytes.min != rule->bytes.max;
    const bool is_group =
        c->out.policy_kind == STP_POLICY_OF_ARMS && rule->n_pipe_ops != 1;

    if (stp_policy_same_bits(c->policy) && stp_coll_reduces(rule->coll) &&
        is_ordered && (is_range || is_group))
        check_add(c, i, STP_CHECK_BITS, is_range ? "max_bytes" : "numPipeOps",
                  "sums of more than two ranks keep the bits of AUTO "
                  "at sizes at which they were compared, one collective "
                  "at a time: this rule decides about %s",
                  is_range ? "a range of sizes" : "groups of collectives");
}

enum stp_status stp_check(const struct stp_check_options *options,
                          struct stp_findings *findings_ret,
                          struct stp_error *err)
{
    struct check c = {.out.policy_kind = options->kind};
    struct stp_policy *policy;

    STP_TRY(stp_policy_parse(options->kind, options->csv, options->len, &policy,
                             err));
    c.policy = policy;
    c.n = stp_policy_size(policy);
    c.out.has_rules = c.n > 0;
    if (c.n > MAX_RULES) {
        stp_policy_free(policy);
        return stp_fail(err, STP_ERR_LIMIT,
                        "has %zu rules, expected at most %d: it would take too "
                        "long to compare them",
                        c.n, MAX_RULES);
    }
    STP_TAKE(c.boxes, c.n);
    STP_TAKE(c.idle, c.n);
    STP_TAKE(c.met, c.n);
    for (size_t i = 0; i < c.n; i++) {
        const struct stp_rule *rule = stp_policy_rule(policy, i);
        struct stp_range *side = c.boxes[i].side;

        side[SIDE_BYTES] = rule->bytes;
        side[SIDE_BYTES_PER_RANK] = rule->bytes_per_rank;
        side[SIDE_NODES] = rule->nodes;
        side[SIDE_RANKS] = rule->ranks;
        side[SIDE_PIPE_OPS] = box_side(rule->n_pipe_ops, 1, INT_MAX);
        side[SIDE_REG_BUFF] = box_side(rule->reg_buff, 0, 1);
        side[SIDE_OVERLAP] = box_side(rule->overlap, 0, 1);
        side[SIDE_GRAPH] = box_side(rule->graph, 0, 1);
        c.boxes[i].gpu = rule->gpu;
    }
    for (size_t i = 0; i < c.n; i++)
        rules_check_earlier(&c, i);
    for (size_t i = 0; i < c.n; i++) {
        rules_check_gap(&c, i);
        rules_check_bits(&c, i);
    }
    free(c.boxes);
    free(c.idle);
    free(c.met);
    stp_policy_free(policy);
    stp_findings_place(&c.out, options->csv, options->len);
    *findings_ret = c.out;
    return STP_OK;
}
