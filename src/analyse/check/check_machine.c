#include "analyse/check/check_machine.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "device/arm_tuner.h"
#include "mock_nccl.h"

enum { ELEMENT_SIZE = 2, PROBES_PER_OCTAVE = 16 };

/* Sizes above this are not asked about. */
#define MAX_BYTES (UINT64_C(1) << 44)

/* What one rule would do on the machine. */
struct probe {
    const struct stp_rule *rule;
    bool exists; /* NCCL does not rule the pair out */
    bool differs;
};

struct there {
    struct stp_check_state *c;
    struct mock_machine *machine;
    const struct mock_machine_info *info;
    struct mock_nccl *nccl, *nccl_most;
    struct mock_comm *comm; /* with stp_arm_tuner */
    struct mock_comm *most; /* with CollNet, which users may enable */
    struct stp_box box;     /* what is asked on the machine */
    struct stp_box *boxes;  /* of each rule, what it matches there */
    bool *applies;          /* by rule */
    uint64_t grain;         /* one element a rank */
};

static void machine_fail(const struct there *t)
{
    t->c->status = stp_fail(t->c->err, STP_ERR_DEVICE, "%s", mock_last_error());
}

/* ---- rules for other machines ---- */

static bool machine_has_side(const struct stp_box *box, enum stp_side side,
                             int value)
{
    const struct stp_range *range = &box->side[side];

    return range->min <= (uint64_t)value && (uint64_t)value <= range->max;
}

/* Says what of the machine a rule excludes. */
static void machine_check_elsewhere(const struct there *t, size_t i)
{
    static const char fmt[] = "this rule does not apply on %s, which has %s%s";
    const struct stp_box *box = &t->c->boxes[i];
    const struct mock_machine_info *info = t->info;
    char text[96];

    if (box->gpu != NULL && strcmp(box->gpu, info->gpu) != 0)
        stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "gpu", fmt, info->name,
                      "the GPU ", info->gpu);
    if (!machine_has_side(box, STP_SIDE_NODES, info->n_nodes)) {
        snprintf(text, sizeof(text), "%d", info->n_nodes);
        stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "nNodes", fmt, info->name,
                      text, info->n_nodes == 1 ? " node" : " nodes");
    }
    if (!machine_has_side(box, STP_SIDE_RANKS, info->n_ranks)) {
        snprintf(text, sizeof(text), "%d", info->n_ranks);
        stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "nRanks", fmt, info->name,
                      text, " ranks");
    }
}

/* ---- channels ---- */

static bool machine_takes_channels(const struct there *t, int algo)
{
    return algo == NCCL_ALGO_COLLNET_DIRECT ||
           algo == NCCL_ALGO_COLLNET_CHAIN ||
           (algo == NCCL_ALGO_NVLS && t->info->n_nodes > 1);
}

static int machine_get_channels(const struct there *t, int algo)
{
    bool nvls = algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_NVLS_TREE;

    return nvls && !machine_takes_channels(t, algo) ? t->info->n_nvls_channels
                                                    : t->info->n_channels;
}

/* ---- what NCCL makes of it ---- */

/* False after failing the check. */
static bool machine_ask(const struct there *t, struct mock_comm *comm,
                        const struct stp_rule *rule, uint64_t n_bytes,
                        struct mock_outcome *out)
{
    const struct mock_call call = {
        .coll = (ncclFunc_t)rule->coll,
        .n_bytes = n_bytes,
        .element_size = ELEMENT_SIZE,
        .n_pipe_ops = rule->n_pipe_ops > 0 ? rule->n_pipe_ops : 1,
        .reg_buff = rule->reg_buff > 0,
    };

    if (mock_comm_collective(comm, &call, out) == ncclSuccess)
        return true;
    t->c->status =
        stp_fail(t->c->err, STP_ERR_DEVICE, "%s of %" PRIu64 " bytes fails: %s",
                 stp_coll_name(rule->coll), n_bytes, mock_last_error());
    return false;
}

/* What runs with the rule; false after failing the check. */
static bool machine_force(const struct there *t, const struct stp_rule *rule,
                          uint64_t n_bytes, struct mock_outcome *out)
{
    const struct stp_arm nccls_own = {.kind = STP_ARM_AUTO};
    const struct stp_arm forced = {.kind = STP_ARM_FORCED,
                                   .algo = rule->algo,
                                   .proto = rule->proto,
                                   .n_channels = rule->n_channels};
    bool asked;

    stp_arm_tuner_set(&forced);
    asked = machine_ask(t, t->comm, rule, n_bytes, out);
    stp_arm_tuner_set(&nccls_own);
    return asked;
}

/* Whether the rule changes what NCCL runs at this size. */
static bool machine_differs(const struct there *t, const struct stp_rule *rule,
                            uint64_t n_bytes)
{
    struct mock_outcome alone, with;

    if (!machine_ask(t, t->comm, rule, n_bytes, &alone))
        return false;
    if (alone.algo != rule->algo || alone.proto != rule->proto)
        return true;
    return machine_force(t, rule, n_bytes, &with) &&
           alone.n_channels != with.n_channels;
}

static void machine_probe_size(const struct there *t, struct probe *p,
                               uint64_t n_bytes)
{
    struct mock_outcome out;

    if (!p->exists)
        p->exists = machine_ask(t, t->most, p->rule, n_bytes, &out) &&
                    out.cost[p->rule->algo][p->rule->proto] >= 0;
    if (p->exists && !p->differs)
        p->differs = machine_differs(t, p->rule, n_bytes);
}

/* The sizes that NCCL can be asked about, of those that the rule matches. */
static struct stp_range machine_get_sizes(const struct there *t, size_t i)
{
    struct stp_range bytes = t->boxes[i].side[STP_SIDE_BYTES];
    const struct stp_range *share = &t->boxes[i].side[STP_SIDE_BYTES_PER_RANK];
    uint64_t n = (uint64_t)t->info->n_ranks;

    if (share->min * n > bytes.min)
        bytes.min = share->min * n;
    if (share->max < UINT64_MAX / n && share->max * n + n - 1 < bytes.max)
        bytes.max = share->max * n + n - 1;
    if (bytes.max > MAX_BYTES)
        bytes.max = MAX_BYTES;
    if (bytes.min == 0)
        bytes.min = 1;
    if (bytes.min > MAX_BYTES)
        bytes.min = MAX_BYTES + t->grain;
    bytes.min = (bytes.min + t->grain - 1) / t->grain * t->grain;
    bytes.max = bytes.max / t->grain * t->grain;
    return bytes;
}

static uint64_t machine_get_next_size(const struct there *t, uint64_t n_bytes,
                                      uint64_t max)
{
    double step = exp2(1.0 / PROBES_PER_OCTAVE);
    uint64_t next = (uint64_t)((double)n_bytes * step) / t->grain * t->grain;

    if (next <= n_bytes)
        next = n_bytes + t->grain;
    return n_bytes < max && next > max ? max : next;
}

/* A later rule would decide instead, were this one not there. */
static bool machine_guards(const struct there *t, size_t i)
{
    const struct stp_check_state *c = t->c;
    struct stp_box both;

    for (size_t j = i + 1; j < c->n; j++)
        if (t->applies[j] &&
            stp_policy_rule(c->policy, j)->coll ==
                stp_policy_rule(c->policy, i)->coll &&
            stp_boxes_meet(&t->boxes[i], &t->boxes[j], &both))
            return true;
    return false;
}

static void machine_add_probed(const struct there *t, const struct probe *p,
                               size_t i)
{
    const struct stp_rule *rule = p->rule;

    if (p->exists)
        stp_check_add(
            t->c, i, STP_CHECK_AS_NCCL, NULL,
            "NCCL %s chooses the same by itself on %s for all that this rule "
            "matches, so that it changes nothing there",
            t->info->nccl, t->info->name);
    else
        stp_check_add(t->c, i, STP_CHECK_NOT_THERE, "algorithm",
                      "NCCL %s never runs %s/%s for %s on %s, so that this "
                      "rule decides nothing there",
                      t->info->nccl, stp_algo_name(rule->algo),
                      stp_proto_name(rule->proto), stp_coll_name(rule->coll),
                      t->info->name);
}

/* What depends on NCCL's choices.  A rule that changes the chunks, wants more
 * channels than there are, or keeps off a later one, is not what NCCL does
 * anyway.  Returns whether NCCL ever has the rule's pair. */
static bool machine_check_choices(const struct there *t, size_t i)
{
    struct probe p = {.rule = stp_policy_rule(t->c->policy, i)};
    struct stp_range sizes = machine_get_sizes(t, i);

    stp_check_spend(t->c, t->c->n - i);
    if (sizes.min > sizes.max)
        return true;
    p.differs = p.rule->chunk_bytes != 0 ||
                p.rule->n_channels > machine_get_channels(t, p.rule->algo) ||
                machine_guards(t, i);
    for (uint64_t at = sizes.min;
         at <= sizes.max && t->c->status == STP_OK && !(p.exists && p.differs);
         at = machine_get_next_size(t, at, sizes.max))
        machine_probe_size(t, &p, at);
    if (t->c->status == STP_OK && !(p.exists && p.differs))
        machine_add_probed(t, &p, i);
    return p.exists;
}

/* ---- channels ---- */

/* NCCL's own count for the rule, at the size with the largest, if that is less
 * than the rule's; 0 if not. */
static int machine_find_limit(const struct there *t, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(t->c->policy, i);
    const struct stp_range sizes = machine_get_sizes(t, i);
    struct mock_outcome out;

    return sizes.min <= sizes.max && machine_force(t, rule, sizes.max, &out) &&
                   out.algo == rule->algo
               ? mock_outcome_limit(&out)
               : 0;
}

/* From 2.31 on, NCCL takes a rule's channels as a limit. */
static void machine_check_limit(const struct there *t, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(t->c->policy, i);
    int limit = machine_find_limit(t, i);
    struct stp_finding *f;

    if (limit == 0)
        return;
    f = stp_check_add(t->c, i, STP_CHECK_CHANNELS, "channels",
                      "%d channels, but NCCL %s runs %s on %d of %s itself, "
                      "and takes no more from a rule",
                      rule->n_channels, t->info->nccl,
                      stp_algo_name(rule->algo), limit, t->info->name);
    if (rule->n_channels > machine_get_channels(t, rule->algo)) {
        f->fix = STP_FIX_CHANNELS;
        f->n_channels = machine_get_channels(t, rule->algo);
    }
}

static void machine_check_channels(const struct there *t, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(t->c->policy, i);
    int limit = machine_get_channels(t, rule->algo);
    struct stp_finding *f;

    if (mock_release_find(t->info->nccl) >= mock_release_find("2.31")) {
        machine_check_limit(t, i);
        return;
    }
    if (rule->n_channels <= limit || limit == 0)
        return;
    f = stp_check_add(t->c, i, STP_CHECK_CHANNELS, "channels",
                      "%d channels, but %s has %d for %s: %s", rule->n_channels,
                      t->info->name, limit, stp_algo_name(rule->algo),
                      machine_takes_channels(t, rule->algo)
                          ? "NCCL would fail"
                          : "NCCL cuts what is more");
    f->fix = STP_FIX_CHANNELS;
    f->n_channels = limit;
}

/* ---- all of a rule ---- */

static void machine_check_rule(const struct there *t, size_t i)
{
    if (t->c->idle[i])
        return;
    if (!t->applies[i])
        machine_check_elsewhere(t, i);
    else if (stp_policy_get_kind(t->c->policy) == STP_POLICY_OF_ARMS &&
             machine_check_choices(t, i))
        machine_check_channels(t, i);
}

/* ---- the machine ---- */

static void machine_open_nccl(const struct there *t,
                              const struct mock_nccl_options *options,
                              struct mock_nccl **nccl, struct mock_comm **comm)
{
    if (t->c->status == STP_OK &&
        (mock_nccl_create(options, nccl) != ncclSuccess ||
         mock_comm_create(*nccl, t->machine, mock_new_comm_id(), comm) !=
             ncclSuccess))
        machine_fail(t);
}

static void machine_match_rules(struct there *t)
{
    struct stp_check_state *c = t->c;

    t->applies = calloc(c->n + 1, sizeof(*t->applies));
    t->boxes = calloc(c->n + 1, sizeof(*t->boxes));
    if (t->applies == NULL || t->boxes == NULL) {
        c->status = stp_nomem(c->err);
        return;
    }
    for (size_t i = 0; i < c->n; i++)
        t->applies[i] =
            !c->idle[i] && stp_boxes_meet(&c->boxes[i], &t->box, &t->boxes[i]);
}

static void machine_open(struct there *t, const char *machine_path)
{
    struct mock_nccl_options tuned = {.static_tuner = &stp_arm_tuner,
                                      .static_tuner_version = 5};
    struct mock_nccl_options most = {.tuner_plugin = "none", .collnet = true};
    static const struct stp_rule any = {.bytes = {0, UINT64_MAX},
                                        .bytes_per_rank = {0, UINT64_MAX},
                                        .n_pipe_ops = -1,
                                        .reg_buff = -1,
                                        .overlap = -1};

    if (mock_machine_load(machine_path, &t->machine) != ncclSuccess) {
        machine_fail(t);
        return;
    }
    t->info = mock_machine_get_info(t->machine);
    tuned.version = most.version = t->info->nccl;
    t->grain = (uint64_t)t->info->n_ranks * ELEMENT_SIZE;
    t->box = stp_box_of(&any);
    t->box.gpu = t->info->gpu;
    t->box.side[STP_SIDE_NODES].min = t->box.side[STP_SIDE_NODES].max =
        (uint64_t)t->info->n_nodes;
    t->box.side[STP_SIDE_RANKS].min = t->box.side[STP_SIDE_RANKS].max =
        (uint64_t)t->info->n_ranks;
    machine_match_rules(t);
    stp_arm_tuner_set(&(struct stp_arm){.kind = STP_ARM_AUTO});
    machine_open_nccl(t, &tuned, &t->nccl, &t->comm);
    machine_open_nccl(t, &most, &t->nccl_most, &t->most);
}

static void machine_close(struct there *t)
{
    if (t->comm != NULL)
        mock_comm_destroy(t->comm);
    if (t->most != NULL)
        mock_comm_destroy(t->most);
    if (t->nccl != NULL)
        mock_nccl_destroy(t->nccl);
    if (t->nccl_most != NULL)
        mock_nccl_destroy(t->nccl_most);
    free(t->applies);
    free(t->boxes);
    mock_machine_free(t->machine);
}

void stp_check_machine(struct stp_check_state *c, const char *machine_path)
{
    struct there t = {.c = c};

    machine_open(&t, machine_path);
    for (size_t i = 0; i < c->n && c->status == STP_OK; i++)
        machine_check_rule(&t, i);
    machine_close(&t);
}
