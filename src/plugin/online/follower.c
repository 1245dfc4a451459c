#include "plugin/online/follower.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "core/policy/ledger.h"
#include "core/rng.h"
#include "plugin/shared_policy.h"

/* ---- trials ---- */

/* Counts a call.  True if a window begins with it, or the last has ended. */
static bool follower_count_trial_call(struct stp_follower *f)
{
    struct stp_follower_trial *trial = &f->trial;

    if (!trial->is_on || trial->n_left-- != 0)
        return false;
    trial->n_left = trial->n_calls - 1;
    trial->is_on = trial->window < trial->n_windows;
    trial->running = 0;
    for (unsigned i = 0; trial->is_on && i < STP_TRIAL_MATES; i++)
        trial->running |=
            (unsigned)stp_trial_is_arm(trial->first_call, stp_trial_pattern(i),
                                       trial->window / trial->turn)
            << i;
    trial->window++;
    return true;
}

/* The arm of a key in the window under way. */
static const struct stp_in_force *
follower_find_in_force(const struct stp_follower *f, unsigned key)
{
    static const struct stp_in_force none = {.arm.algo = -1};
    const struct stp_follower_trial *trial = &f->trial;

    if (key >= STP_BANDIT_KEYS)
        return &none;
    if (trial->running == 0)
        return &f->in_force[key];
    if (trial->n_keys == 0)
        return (trial->running & 1) != 0 ? &none : &f->in_force[key];
    for (unsigned i = 0; i < trial->n_keys; i++)
        if (trial->mates[i].key == key && (trial->running >> i & 1) != 0)
            return &trial->mates[i].tried;
    return &f->in_force[key];
}

/* ---- epochs ---- */

static void follower_begin_trial(struct stp_follower *f,
                                 const struct stp_proposal *p)
{
    const bool is_set = p->kind == STP_PROPOSE_CONFIRM;
    struct stp_follower_trial trial = {
        .is_on = f->window_calls != 0,
        .n_keys = p->n_mates,
        .n_left = STP_TRIAL_LEAD,
        .n_calls = is_set ? p->n_calls : f->window_calls,
        .turn = is_set ? 2 : 1,
        .first_call = f->n_calls + STP_TRIAL_LEAD,
    };

    trial.n_windows = p->n_blocks * STP_BLOCK_WINDOWS * trial.turn;
    for (unsigned i = 0; i < p->n_mates; i++) {
        const unsigned key = p->mates[i].key, index = p->mates[i].index;

        trial.mates[i].key = key;
        trial.mates[i].tried =
            (struct stp_in_force){f->tried[key][index], (uint8_t)index};
    }
    if (p->kind == STP_PROPOSE_TRIAL) {
        trial.n_keys = 1;
        trial.mates[0].key = p->key;
        trial.mates[0].tried = (struct stp_in_force){p->arm, (uint8_t)p->index};
        if (p->key < STP_SHARED_KEYS && p->index < STP_SHARED_ARMS)
            f->tried[p->key][p->index] = p->arm;
    }
    f->trial = trial;
    for (unsigned i = 0; f->learns && i < (is_set ? 1 : trial.n_keys); i++) {
        struct stp_proposal one = *p;

        one.key = trial.mates[i].key;
        one.index = trial.mates[i].tried.index;
        stp_observer_began(f->observer, &one, stp_trial_pattern(i),
                           trial.first_call, trial.n_calls);
    }
}

static void follower_take_proposal(struct stp_follower *f, uint32_t word)
{
    const struct stp_proposal p = stp_proposal_unpack(word);
    const bool is_window = p.kind == STP_PROPOSE_WINDOW;

    f->proposed_key = p.key;
    f->epoch_calls = p.is_settled ? STP_EPOCH_SETTLED : f->short_epoch;
    if (!is_window && p.kind != STP_PROPOSE_ARM) {
        follower_begin_trial(f, &p);
        return;
    }
    if (is_window)
        f->window_calls = p.n_calls;
    else
        f->in_force[p.key] = (struct stp_in_force){p.arm, (uint8_t)p.index};
    if (f->learns)
        stp_observer_began(f->observer, &p, 0, f->n_calls, f->window_calls);
}

static void follower_enter_epoch(struct stp_follower *f)
{
    uint32_t word;
    bool goes_on = f->agreement->ops->next_epoch(f->agreement, &word);

    if (word != 0)
        follower_take_proposal(f, word);
    f->countdown = goes_on ? f->epoch_calls : UINT32_MAX;
    if (goes_on)
        return;
    /* The agreement is frozen, for all ranks from the same epoch on. No trial
     * is under way, as epochs wait for its end; but the last proposal of
     * epsilon-greedy may be a trial, which must not stay in force. */
    if (f->keys.strategy == STP_STRATEGY_EPSILON &&
        f->epoch_calls == f->short_epoch)
        f->in_force[f->proposed_key] = (struct stp_in_force){.arm.algo = -1};
    if (f->observer != NULL)
        stp_observer_stop(f->observer, "a rank was thousands of calls behind");
}

/* ---- calls ---- */

static bool follower_ask_policy(const struct stp_follower *f,
                                const struct stp_query *query,
                                const struct stp_cost_view *view,
                                struct stp_choice *choice_ret)
{
    return f->policy != NULL &&
           (!f->same_bits || !stp_coll_reduces(query->coll) ||
            stp_policy_same_bits(stp_shared_policy_rules(f->policy))) &&
           stp_compiled_lookup(stp_shared_policy_compiled(f->policy), query,
                               view, choice_ret);
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

static bool follower_allows(const struct stp_cost_view *view,
                            const struct stp_bandit_arm *arm)
{
    return arm->algo >= 0 && arm->algo < view->n_algo &&
           arm->proto < view->n_proto &&
           view->cost[arm->algo * view->n_proto + arm->proto] >= 0.0f;
}

/* Reports a call to the observer. */
static void follower_observe(struct stp_follower *f,
                             struct stp_observed_call *call,
                             const struct stp_query *query,
                             const struct stp_cost_view *view)
{
    struct stp_choice choice;

    if (call->is_new && follower_ask_policy(f, query, view, &choice)) {
        call->policy_arm.algo = (int8_t)choice.algo;
        call->policy_arm.proto = (int8_t)choice.proto;
    }
    stp_observer_call(f->observer, call, query, view);
}

/* The arm in force for the query; algo -1: NCCL's own choice. */
static struct stp_bandit_arm follower_find_arm(struct stp_follower *f,
                                               const struct stp_query *query,
                                               const struct stp_cost_view *view)
{
    const struct stp_in_force *in_force;
    struct stp_observed_call call = {.policy_arm.algo = -1};

    if (!f->trial.is_on && --f->countdown == 0)
        follower_enter_epoch(f);
    call.is_timed = follower_count_trial_call(f);
    call.key =
        follower_find_key(&f->keys, query->coll, query->n_bytes, &call.is_new);
    in_force = follower_find_in_force(f, call.key);
    call.index = in_force->index;
    if (f->learns)
        follower_observe(f, &call, query, view);
    f->n_calls++;
    return in_force->arm;
}

/* A bit for each arm of the schedule that the table allows. */
static uint32_t follower_find_allowed(const struct stp_follower *f,
                                      const struct stp_cost_view *view)
{
    const struct stp_bandit_rules *rules = stp_schedule_get_rules(f->schedule);
    uint32_t allowed = 0;

    for (size_t i = 0; i < rules->n_arms; i++)
        if (follower_allows(view, &rules->arms[i]))
            allowed |= UINT32_C(1) << i;
    return allowed;
}

/* The arm that the schedule has for the query; algo -1: none. */
static struct stp_bandit_arm
follower_follow_schedule(struct stp_follower *f, const struct stp_query *query,
                         const struct stp_cost_view *view)
{
    struct stp_observed_call call = {.policy_arm.algo = -1};
    struct stp_schedule_turn turn;

    call.key =
        follower_find_key(&f->keys, query->coll, query->n_bytes, &call.is_new);
    turn = stp_schedule_call(f->schedule, call.key, query->coll, query->n_bytes,
                             call.is_new ? follower_find_allowed(f, view) : 0);
    call.index = turn.arm;
    call.is_timed = turn.is_timed;
    if (f->learns) {
        if (turn.news != STP_NOTE_NONE)
            stp_observer_heard(f->observer, turn.news, f->n_calls);
        follower_observe(f, &call, query, view);
    }
    f->n_calls++;
    return turn.arm != 0
               ? stp_schedule_get_rules(f->schedule)->arms[turn.arm - 1]
               : (struct stp_bandit_arm){.algo = -1};
}

bool stp_follower_choose(struct stp_follower *follower,
                         const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice_ret)
{
    struct stp_follower *f = follower;
    struct stp_bandit_arm arm = {.algo = -1};

    /* All ranks have joined before the first decision. */
    if (!f->is_checked) {
        f->is_checked = true;
        f->takes_part = f->schedule != NULL ||
                        (f->agreement != NULL &&
                         f->agreement->ops->is_complete(f->agreement));
        f->learns = f->takes_part && f->observer != NULL;
        if (f->observer != NULL && !f->takes_part)
            stp_observer_stop(f->observer,
                              "a rank has no part in it (its log says why)");
    }
    if (f->takes_part)
        arm = f->schedule != NULL ? follower_follow_schedule(f, query, view)
                                  : follower_find_arm(f, query, view);
    if (!follower_allows(view, &arm))
        return follower_ask_policy(f, query, view, choice_ret);
    *choice_ret = (struct stp_choice){
        .algo = arm.algo, .proto = arm.proto, .n_channels = arm.n_channels};
    return true;
}

bool stp_follower_wants_time(const struct stp_follower *follower)
{
    const uint32_t n_left = follower->schedule != NULL
                                ? stp_schedule_next_timed(follower->schedule)
                            : follower->trial.is_on ? follower->trial.n_left
                                                    : UINT32_MAX;

    return follower->learns &&
           (n_left < stp_observer_lead(follower->observer) ||
            stp_observer_is_sampling(follower->observer));
}

/* ---- life ---- */

/* Hashes only the settings that select keys and epochs, and the schedule: the
 * observer's other settings reach the ranks as proposals. */
void stp_follower_fingerprint(const struct stp_follower *f,
                              struct stp_fingerprint *fingerprint)
{
    fingerprint->part[STP_FINGERPRINT_SETTINGS] = stp_hash(
        f->keys.strategy, f->short_epoch + ((uint64_t)f->same_bits << 32));
    if (f->schedule != NULL)
        fingerprint->part[STP_FINGERPRINT_SETTINGS] =
            stp_hash(fingerprint->part[STP_FINGERPRINT_SETTINGS],
                     stp_schedule_hash(f->schedule));
    fingerprint->part[STP_FINGERPRINT_POLICY] = 1;
    if (f->policy == NULL)
        return;
    fingerprint->part[STP_FINGERPRINT_POLICY] =
        stp_compiled_hash(stp_shared_policy_compiled(f->policy));
    fingerprint->part[STP_FINGERPRINT_FILE] =
        stp_policy_hash(stp_shared_policy_rules(f->policy));
}

enum stp_status stp_follower_open(const struct stp_comm_info *info,
                                  const char *policy_path, bool same_bits,
                                  const struct stp_learner_rules *rules,
                                  const struct stp_schedule_rules *schedule,
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
    if (status == STP_OK) {
        f->same_bits =
            same_bits ||
            (f->policy != NULL &&
             stp_policy_same_bits(stp_shared_policy_rules(f->policy)));
        if (schedule != NULL) {
            struct stp_schedule_rules all = *schedule;

            all.same_bits = f->same_bits;
            status = stp_schedule_open(&all, &f->schedule, err);
        }
    }
    if (status != STP_OK) {
        stp_follower_close(f);
        return status;
    }
    f->countdown = 1;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        f->in_force[k].arm.algo = -1;
    f->why_not =
        rules == NULL        ? "STEPTUNE_FREEZE is set"
        : info->comm_id == 0 ? "this NCCL names no communicator (2.28 does)"
        : info->shape.n_nodes > 1 && schedule == NULL
            ? "hosts that are not compared in a store (STEPTUNE_AGREE), or "
              "have no times on the GPU (NCCL_PROFILER_PLUGIN), follow the "
              "policy alone"
            : NULL;
    if (rules != NULL)
        f->keys.strategy = rules->bandit.strategy;
    f->short_epoch = f->keys.strategy == STP_STRATEGY_EPSILON
                         ? STP_EPOCH_EPSILON
                         : STP_EPOCH_HALVING;
    f->epoch_calls = f->short_epoch;
    *follower_ret = f;
    return STP_OK;
}

void stp_follower_join(struct stp_follower *follower,
                       struct stp_agreement *agreement, bool is_rank_0,
                       const struct stp_learner_rules *rules)
{
    struct stp_learner_rules all = *rules;

    all.same_bits = follower->same_bits;
    if (follower->why_not != NULL)
        return;
    if (follower->schedule != NULL) {
        if (is_rank_0)
            follower->observer =
                stp_observer_new(&all, NULL, follower->schedule);
        return;
    }
    if (agreement == NULL || !agreement->proposes) {
        follower->why_not = "the ranks have no shared memory to agree in";
        return;
    }
    follower->agreement = agreement;
    if (agreement->observes)
        follower->observer = stp_observer_new(&all, agreement, NULL);
}

void stp_follower_describe(const struct stp_follower *follower, char *buf,
                           size_t size)
{
    const struct stp_shared_policy *policy = follower->policy;
    const char *why =
        follower->why_not != NULL ? follower->why_not : follower->why_idle;
    char base[256] = STP_BASE_CHOICE;

    if (policy != NULL)
        snprintf(base, sizeof(base),
                 "%.100s, hash %016" PRIx64 ", %zu of %zu rules",
                 stp_shared_policy_path(policy),
                 stp_policy_hash(stp_shared_policy_rules(policy)),
                 stp_compiled_size(stp_shared_policy_compiled(policy)),
                 stp_policy_size(stp_shared_policy_rules(policy)));
    if (follower->schedule != NULL)
        snprintf(
            buf, size, "tries arms by the schedule of all hosts%s, else %s",
            follower->same_bits ? ", but none for sums, whose bits stay" : "",
            base);
    else if (why != NULL)
        snprintf(buf, size, STP_NOT_LEARNED "%s; %s", why, base);
    else
        snprintf(buf, size, "%s%s, beginning with %s",
                 follower->observer != NULL ? "learns" : "follows",
                 follower->same_bits ? ", but no sums, whose bits stay" : "",
                 base);
}

void stp_follower_close(struct stp_follower *follower)
{
    stp_observer_free(follower->observer);
    stp_schedule_close(follower->schedule);
    if (follower->policy != NULL)
        stp_shared_policy_release(follower->policy);
    free(follower);
}
