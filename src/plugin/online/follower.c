#include "plugin/online/follower.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/rng.h"
#include "plugin/online/proposal.h"
#include "plugin/shared_policy.h"

/* ---- epochs ---- */

static void follower_take_proposal(struct stp_follower *f, uint32_t word)
{
    const struct stp_proposal p = stp_proposal_unpack(word);
    struct stp_in_force *in_force = &f->in_force[p.key];

    f->proposed_key = p.key;
    if (in_force->n_left == 0) {
        in_force->incumbent = in_force->arm;
        in_force->incumbent_index = in_force->index;
    }
    in_force->arm = p.arm;
    in_force->index = (uint8_t)p.index;
    in_force->n_left = (uint8_t)p.n_calls;
    f->is_searching = !p.is_settled;
    f->epoch_calls = p.is_settled ? STP_EPOCH_SETTLED : f->short_epoch;
    if (f->observer != NULL)
        stp_observer_began(f->observer, p.key, p.index);
}

/* No later epoch changes anything, which all ranks read in the same epoch.  The
 * last proposal may be a trial, which must not stay. */
static void follower_freeze(struct stp_follower *f)
{
    if (f->epoch_calls == f->short_epoch)
        f->in_force[f->proposed_key] = (struct stp_in_force){.arm.algo = -1};
    f->is_searching = false;
    if (f->observer != NULL)
        stp_observer_stop(f->observer);
}

static void follower_enter_epoch(struct stp_follower *f)
{
    bool is_frozen;
    uint32_t word = f->agreement->ops->next_epoch(f->agreement, &is_frozen);

    if (word != 0)
        follower_take_proposal(f, word);
    if (is_frozen)
        follower_freeze(f);
    f->countdown = is_frozen ? UINT32_MAX : f->epoch_calls;
}

/* ---- calls ---- */

static bool follower_all_have(const struct stp_follower *f, unsigned part)
{
    return f->agreement != NULL &&
           f->agreement->ops->is_complete(f->agreement, part);
}

/* Before the first decision, when all ranks have joined. */
static void follower_check(struct stp_follower *f)
{
    bool is_blind = f->by_gpu && !follower_all_have(f, STP_AGREE_TIMES);

    f->is_checked = true;
    f->takes_part = follower_all_have(f, STP_AGREE_PROPOSALS);
    f->is_searching = f->takes_part;
    f->by_gpu = f->by_gpu && !is_blind;
    f->by_host |= is_blind;
    if (f->observer == NULL)
        return;
    if (!f->takes_part)
        stp_observer_stop(f->observer);
    else if (is_blind)
        stp_observer_go_blind(f->observer);
}

static bool follower_ask_policy(const struct stp_follower *f,
                                const struct stp_query *query,
                                const struct stp_cost_view *view,
                                struct stp_choice *choice_ret)
{
    return f->policy != NULL &&
           stp_compiled_lookup(stp_shared_policy_compiled(f->policy), query,
                               view, choice_ret);
}

static void follower_end_trial_call(struct stp_follower *f, unsigned key)
{
    struct stp_in_force *in_force = &f->in_force[key];

    if (--in_force->n_left > 0)
        return;
    in_force->arm = in_force->incumbent;
    in_force->index = in_force->incumbent_index;
    if (f->observer != NULL)
        stp_observer_began(f->observer, key, in_force->index);
}

static void follower_report_call(const struct stp_follower *f, unsigned key,
                                 bool is_new, const struct stp_query *query,
                                 const struct stp_cost_view *view)
{
    struct stp_observed_call call = {
        .key = key, .policy_arm.algo = -1, .is_new = is_new, .t_ns = f->t_ns};
    struct stp_choice choice;

    if (is_new && follower_ask_policy(f, query, view, &choice)) {
        call.policy_arm.algo = (int8_t)choice.algo;
        call.policy_arm.proto = (int8_t)choice.proto;
    }
    if (key < STP_BANDIT_KEYS) {
        call.index = f->in_force[key].index;
        call.arm = f->in_force[key].arm;
    }
    stp_observer_call(f->observer, &call, query, view);
}

/* The message's key; STP_BANDIT_KEYS if there is no room for another. */
static unsigned follower_find_key(struct stp_keys *keys, int coll,
                                  uint64_t n_bytes, bool *is_new_ret)
{
    unsigned band = stp_bandit_band(keys->strategy, n_bytes);
    uint16_t tag = (uint16_t)((unsigned)(coll + 1) << 10 | band);
    uint32_t at = tag * UINT32_C(0x9e3779b1) >> 16;

    *is_new_ret = false;
    for (uint32_t i = 0; i < STP_KEYS_SLOTS; i++) {
        uint32_t slot = (at + i) % STP_KEYS_SLOTS;

        if (keys->slots[slot].tag == tag)
            return keys->slots[slot].key;
        if (keys->slots[slot].tag != 0)
            continue;
        if (keys->n == STP_BANDIT_KEYS)
            return STP_BANDIT_KEYS;
        *is_new_ret = true;
        keys->slots[slot].tag = tag;
        keys->slots[slot].key = (uint8_t)keys->n;
        return keys->n++;
    }
    return STP_BANDIT_KEYS;
}

/* The arm in force for the query; algo -1: NCCL's own choice. */
static struct stp_bandit_arm follower_find_arm(struct stp_follower *f,
                                               const struct stp_query *query,
                                               const struct stp_cost_view *view)
{
    struct stp_bandit_arm arm = {.algo = -1};
    bool is_new;
    unsigned key;

    if (--f->countdown == 0)
        follower_enter_epoch(f);
    key = follower_find_key(&f->keys, query->coll, query->n_bytes, &is_new);
    if (key < STP_BANDIT_KEYS)
        arm = f->in_force[key].arm;
    if (f->observer != NULL)
        follower_report_call(f, key, is_new, query, view);
    if (key < STP_BANDIT_KEYS && f->in_force[key].n_left > 0)
        follower_end_trial_call(f, key);
    return arm;
}

bool stp_follower_choose(struct stp_follower *follower,
                         const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice_ret)
{
    struct stp_bandit_arm arm = {.algo = -1};

    if (!follower->is_checked)
        follower_check(follower);
    if (follower->takes_part)
        arm = follower_find_arm(follower, query, view);
    if (arm.algo < 0 || arm.algo >= view->n_algo ||
        arm.proto >= view->n_proto ||
        !(view->cost[arm.algo * view->n_proto + arm.proto] >= 0.0f))
        return follower_ask_policy(follower, query, view, choice_ret);
    *choice_ret = (struct stp_choice){
        .algo = arm.algo, .proto = arm.proto, .n_channels = arm.n_channels};
    return true;
}

bool stp_follower_wants_time(const struct stp_follower *follower)
{
    /* But for steps, only the job's run time is of interest: once an epoch is
     * enough, and times on the GPU tell it anyway. */
    return follower->observer != NULL &&
           (follower->by_host ||
            (!follower->by_gpu && follower->countdown == 1)) &&
           stp_observer_wants_time(follower->observer);
}

bool stp_follower_wants_gpu_times(const struct stp_follower *follower)
{
    return follower->by_gpu &&
           (follower->is_searching || !follower->is_checked);
}

/* ---- life ---- */

/* Only what selects keys and epochs: the observer's other settings reach the
 * ranks as proposals. */
void stp_follower_fingerprint(const struct stp_follower *f,
                              struct stp_fingerprint *fingerprint)
{
    fingerprint->part[STP_FINGERPRINT_SETTINGS] =
        stp_hash(f->keys.strategy, f->short_epoch);
    fingerprint->part[STP_FINGERPRINT_POLICY] = 1;
    if (f->policy == NULL)
        return;
    fingerprint->part[STP_FINGERPRINT_POLICY] =
        stp_compiled_hash(stp_shared_policy_compiled(f->policy));
    fingerprint->part[STP_FINGERPRINT_FILE] = stp_shared_policy_hash(f->policy);
}

/* Why this communicator cannot learn; NULL: it can. */
static const char *follower_obstacle(const struct stp_comm_info *info,
                                     const struct stp_learner_rules *rules)
{
    if (rules == NULL)
        return "STEPTUNE_FREEZE is set";
    if (info->shape.n_nodes != 1)
        return "the communicator spans several hosts";
    if (info->comm_id == 0)
        return "this NCCL names no communicator, 2.28 does";
    return NULL;
}

static void follower_set_rules(struct stp_follower *f,
                               const struct stp_learner_rules *rules)
{
    static const uint32_t short_epochs[STP_N_STRATEGIES] = {
        [STP_STRATEGY_HALVING] = STP_EPOCH_HALVING,
        [STP_STRATEGY_EPSILON] = STP_EPOCH_EPSILON,
    };

    f->keys.strategy = rules->bandit.strategy;
    f->short_epoch = f->epoch_calls = short_epochs[rules->bandit.strategy];
    if (f->why_not != NULL)
        return;
    f->by_gpu = stp_learn_objective_is_gpu(rules->objective);
    f->by_host = rules->objective == STP_LEARN_STEP;
    f->parts = STP_AGREE_PROPOSALS | (f->by_gpu ? STP_AGREE_TIMES : 0);
}

enum stp_status stp_follower_open(const struct stp_comm_info *info,
                                  const char *policy_path,
                                  const struct stp_learner_rules *rules,
                                  struct stp_follower **follower_ret,
                                  struct stp_error *err)
{
    struct stp_follower *f = calloc(1, sizeof(*f));
    enum stp_status status = STP_OK;

    if (f == NULL)
        return stp_nomem(err);
    if (policy_path != NULL)
        status = stp_shared_policy_acquire(policy_path, &info->shape,
                                           &f->policy, err);
    if (status != STP_OK) {
        free(f);
        return status;
    }
    f->countdown = 1;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        f->in_force[k].arm.algo = -1;
    f->why_not = follower_obstacle(info, rules);
    if (rules != NULL)
        follower_set_rules(f, rules);
    *follower_ret = f;
    return STP_OK;
}

void stp_follower_join(struct stp_follower *follower,
                       struct stp_agreement *agreement,
                       const struct stp_learner_rules *rules)
{
    if (follower->parts == 0)
        return;
    if (agreement == NULL || agreement->parts == 0) {
        follower->why_not = "the ranks have no shared memory to agree in";
        follower->by_gpu = follower->by_host = false;
        return;
    }
    follower->agreement = agreement;
    if (agreement->ops->is_observer(agreement))
        follower->observer = stp_observer_new(rules, agreement);
}

void stp_follower_describe(const struct stp_follower *follower, char *buf,
                           size_t size)
{
    const struct stp_shared_policy *policy = follower->policy;
    char base[256] = "NCCL's own choice";

    if (policy != NULL)
        snprintf(base, sizeof(base),
                 "%.100s, hash %016" PRIx64 ", %zu of %zu rules",
                 stp_shared_policy_path(policy), stp_shared_policy_hash(policy),
                 stp_compiled_size(stp_shared_policy_compiled(policy)),
                 stp_shared_policy_rules(policy));
    if (follower->agreement == NULL)
        snprintf(buf, size, "nothing is learned: %s; %s", follower->why_not,
                 base);
    else
        snprintf(buf, size, "%s, beginning with %s",
                 follower->observer != NULL ? "learns" : "follows", base);
}

void stp_follower_close(struct stp_follower *follower)
{
    stp_observer_free(follower->observer);
    if (follower->policy != NULL)
        stp_shared_policy_release(follower->policy);
    free(follower);
}
