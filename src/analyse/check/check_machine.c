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

static enum stp_status machine_fail(const struct there *t)
{
    return stp_fail(t->c->err, STP_ERR_DEVICE, "%s", mock_last_error());
}

/* ---- rules for other machines ---- */

static bool machine_has_side(const struct stp_box *box, enum stp_side side,
                             int value)
{
    const struct stp_range *range = &box->side[side];

    return range->min <= (uint64_t)value && (uint64_t)value <= range->max;
}

/* Says what of the machine a rule excludes. */
static enum stp_status machine_check_elsewhere(const struct there *t, size_t i)
{
    static const char fmt[] = "this rule does not apply on %s, which has %s%s";
    const struct stp_box *box = &t->c->boxes[i];
    const struct mock_machine_info *info = t->info;
    enum stp_status status = STP_OK;
    char text[96];

    if (box->gpu != NULL && strcmp(box->gpu, info->gpu) != 0)
        status = stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "gpu", NULL, fmt,
                               info->name, "the GPU ", info->gpu);
    if (status == STP_OK &&
        !machine_has_side(box, STP_SIDE_NODES, info->n_nodes)) {
        snprintf(text, sizeof(text), "%d", info->n_nodes);
        status = stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "nNodes", NULL,
                               fmt, info->name, text,
                               info->n_nodes == 1 ? " node" : " nodes");
    }
    if (status == STP_OK &&
        !machine_has_side(box, STP_SIDE_RANKS, info->n_ranks)) {
        snprintf(text, sizeof(text), "%d", info->n_ranks);
        status = stp_check_add(t->c, i, STP_CHECK_ELSEWHERE, "nRanks", NULL,
                               fmt, info->name, text, " ranks");
    }
    return status;
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

static enum stp_status machine_check_channels(const struct there *t, size_t i)
{
    const struct stp_rule *rule = stp_policy_rule(t->c->policy, i);
    int limit = machine_get_channels(t, rule->algo);
    struct stp_finding *f = NULL;
    enum stp_status status;

    if (rule->n_channels <= limit || limit == 0)
        return STP_OK;
    status = stp_check_add(
        t->c, i, STP_CHECK_CHANNELS, "channels", &f,
        "%d channels, but %s has %d for %s: %s", rule->n_channels,
        t->info->name, limit, stp_algo_name(rule->algo),
        machine_takes_channels(t, rule->algo) ? "NCCL would fail"
                                              : "NCCL cuts what is more");
    if (status == STP_OK) {
        f->fix = STP_FIX_CHANNELS;
        f->n_channels = limit;
    }
    return status;
}

/* ---- what NCCL makes of it ---- */

static enum stp_status machine_ask(const struct there *t,
                                   struct mock_comm *comm,
                                   const struct stp_rule *rule,
                                   uint64_t n_bytes, struct mock_outcome *out)
{
    const struct mock_call call = {
        .coll = (ncclFunc_t)rule->coll,
        .n_bytes = n_bytes,
        .element_size = ELEMENT_SIZE,
        .n_pipe_ops = rule->n_pipe_ops > 0 ? rule->n_pipe_ops : 1,
        .reg_buff = rule->reg_buff > 0,
    };

    if (mock_comm_collective(comm, &call, out) == ncclSuccess)
        return STP_OK;
    return stp_fail(t->c->err, STP_ERR_DEVICE,
                    "%s of %" PRIu64 " bytes fails: %s",
                    stp_coll_name(rule->coll), n_bytes, mock_last_error());
}

/* Whether the rule changes what NCCL runs at this size. */
static enum stp_status machine_compare(const struct there *t, struct probe *p,
                                       uint64_t n_bytes)
{
    const struct stp_arm nccls_own = {.kind = STP_ARM_AUTO};
    const struct stp_arm forced = {.kind = STP_ARM_FORCED,
                                   .algo = p->rule->algo,
                                   .proto = p->rule->proto,
                                   .n_channels = p->rule->n_channels};
    struct mock_outcome alone, with;
    enum stp_status status;

    stp_arm_tuner_set(&nccls_own);
    status = machine_ask(t, t->comm, p->rule, n_bytes, &alone);
    if (status != STP_OK)
        return status;
    p->differs = alone.algo != p->rule->algo || alone.proto != p->rule->proto;
    if (p->differs)
        return STP_OK;
    stp_arm_tuner_set(&forced);
    status = machine_ask(t, t->comm, p->rule, n_bytes, &with);
    stp_arm_tuner_set(&nccls_own);
    p->differs = status == STP_OK && alone.n_channels != with.n_channels;
    return status;
}

static enum stp_status machine_probe_size(const struct there *t,
                                          struct probe *p, uint64_t n_bytes)
{
    struct mock_outcome out;
    enum stp_status status = STP_OK;

    if (!p->exists) {
        status = machine_ask(t, t->most, p->rule, n_bytes, &out);
        p->exists =
            status == STP_OK && out.cost[p->rule->algo][p->rule->proto] >= 0;
    }
    if (status == STP_OK && p->exists && !p->differs)
        status = machine_compare(t, p, n_bytes);
    return status;
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

static enum stp_status machine_add_probed(const struct there *t,
                                          const struct probe *p, size_t i)
{
    const struct stp_rule *rule = p->rule;

    if (p->exists)
        return stp_check_add(
            t->c, i, STP_CHECK_AS_NCCL, NULL, NULL,
            "NCCL %s chooses the same by itself on %s for all that this rule "
            "matches, so that it changes nothing there",
            t->info->nccl, t->info->name);
    return stp_check_add(
        t->c, i, STP_CHECK_NOT_THERE, "algorithm", NULL,
        "NCCL %s never runs %s/%s for %s on %s, so that this rule decides "
        "nothing there",
        t->info->nccl, stp_algo_name(rule->algo), stp_proto_name(rule->proto),
        stp_coll_name(rule->coll), t->info->name);
}

/* What depends on NCCL's choices.  A rule that changes the chunks, wants more
 * channels than there are, or keeps off a later one, is not what NCCL does
 * anyway. */
static enum stp_status machine_check_choices(const struct there *t, size_t i,
                                             bool *exists_ret)
{
    struct probe p = {.rule = stp_policy_rule(t->c->policy, i)};
    struct stp_range sizes = machine_get_sizes(t, i);
    enum stp_status status = stp_check_spend(t->c, t->c->n - i);

    *exists_ret = true;
    if (status != STP_OK || sizes.min > sizes.max)
        return status;
    p.differs = p.rule->chunk_bytes != 0 ||
                p.rule->n_channels > machine_get_channels(t, p.rule->algo) ||
                machine_guards(t, i);
    for (uint64_t at = sizes.min;
         at <= sizes.max && status == STP_OK && !(p.exists && p.differs);
         at = machine_get_next_size(t, at, sizes.max))
        status = machine_probe_size(t, &p, at);
    *exists_ret = p.exists;
    if (status == STP_OK && !(p.exists && p.differs))
        status = machine_add_probed(t, &p, i);
    return status;
}

static enum stp_status machine_check_rule(const struct there *t, size_t i)
{
    bool exists;
    enum stp_status status;

    if (t->c->idle[i])
        return STP_OK;
    if (!t->applies[i])
        return machine_check_elsewhere(t, i);
    status = machine_check_choices(t, i, &exists);
    if (status == STP_OK && exists)
        status = machine_check_channels(t, i);
    return status;
}

/* ---- the machine ---- */

static enum stp_status
machine_open_nccl(const struct there *t,
                  const struct mock_nccl_options *options,
                  struct mock_nccl **nccl, struct mock_comm **comm)
{
    if (mock_nccl_create(options, nccl) != ncclSuccess ||
        mock_comm_create(*nccl, t->machine, mock_new_comm_id(), comm) !=
            ncclSuccess)
        return machine_fail(t);
    return STP_OK;
}

static enum stp_status machine_match_rules(struct there *t)
{
    struct stp_check_state *c = t->c;

    t->applies = calloc(c->n + 1, sizeof(*t->applies));
    t->boxes = calloc(c->n + 1, sizeof(*t->boxes));
    if (t->applies == NULL || t->boxes == NULL)
        return stp_nomem(c->err);
    for (size_t i = 0; i < c->n; i++)
        t->applies[i] =
            !c->idle[i] && stp_boxes_meet(&c->boxes[i], &t->box, &t->boxes[i]);
    return STP_OK;
}

static enum stp_status machine_open(struct there *t, const char *machine_path)
{
    struct mock_nccl_options tuned = {.static_tuner = &stp_arm_tuner,
                                      .static_tuner_version = 5};
    struct mock_nccl_options most = {.tuner_plugin = "none", .collnet = true};
    static const struct stp_rule any = {.bytes = {0, UINT64_MAX},
                                        .bytes_per_rank = {0, UINT64_MAX},
                                        .n_pipe_ops = -1,
                                        .reg_buff = -1};
    enum stp_status status;

    if (mock_machine_load(machine_path, &t->machine) != ncclSuccess)
        return machine_fail(t);
    t->info = mock_machine_get_info(t->machine);
    tuned.version = most.version = t->info->nccl;
    t->grain = (uint64_t)t->info->n_ranks * ELEMENT_SIZE;
    t->box = stp_box_of(&any);
    t->box.gpu = t->info->gpu;
    t->box.side[STP_SIDE_NODES].min = t->box.side[STP_SIDE_NODES].max =
        (uint64_t)t->info->n_nodes;
    t->box.side[STP_SIDE_RANKS].min = t->box.side[STP_SIDE_RANKS].max =
        (uint64_t)t->info->n_ranks;
    status = machine_match_rules(t);
    if (status == STP_OK)
        status = machine_open_nccl(t, &tuned, &t->nccl, &t->comm);
    if (status == STP_OK)
        status = machine_open_nccl(t, &most, &t->nccl_most, &t->most);
    return status;
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

enum stp_status stp_check_machine(struct stp_check_state *c,
                                  const char *machine_path)
{
    struct there t = {.c = c};
    enum stp_status status = machine_open(&t, machine_path);

    for (size_t i = 0; i < c->n && status == STP_OK; i++)
        status = machine_check_rule(&t, i);
    machine_close(&t);
    return status;
}
