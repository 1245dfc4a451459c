#include "core/learn/learner_parts.h"

/* Calls to wait for steps that confirm something: if there are none by then,
 * there will be none. */
enum { PATIENCE_CALLS = 8192 };

/* Lines of a file, and steps, within which there is word of what is tried. */
enum { UNHEARD_CALLS = 4096, UNHEARD_STEPS = 8 };

/* By which a host is ahead of its GPU at most: CUDA's queue. */
enum { AHEAD_CALLS = 1024 };

/* A step is longer by this share at least, or it is not worth confirming. */
static const double least_gain = 1e-4;

static double elapsed(const struct stp_learner *l)
{
    return l->rules.objective == STP_LEARN_FILE ? l->elapsed_us / 1e3
                                                : l->elapsed_us;
}

static bool must_confirm(const struct stp_learner *l,
                         const struct stp_bandit_want *want)
{
    return l->rules.objective == STP_LEARN_AUTO &&
           l->rules.bandit.strategy == STP_STRATEGY_HALVING &&
           !want->is_trial && want->arm != 0 &&
           l->keys[want->key].confirmed != want->arm;
}

/* What the arm would save of a step, by the GPU's times, as a gain less 1. */
static double expected_gain(const struct stp_learner *l,
                            const struct stp_bandit_want *want)
{
    double per_call = stp_bandit_get_arm(l->bandit, want->key, 0).mean -
                      stp_bandit_get_arm(l->bandit, want->key, want->arm).mean;
    double saved = per_call * stp_steps_share(l->steps, want->key);

    return l->step_us > saved ? saved / (l->step_us - saved) : 0.0;
}

/* False while no step is known: nothing can be confirmed yet. */
static bool begin_confirming(struct stp_learner *l,
                             const struct stp_bandit_want *want)
{
    double expected;

    if (stp_steps_share(l->steps, want->key) == 0)
        return false;
    expected = expected_gain(l, want);
    l->confirm_key = (int)want->key;
    l->confirm_arm = want->arm;
    l->must_switch = false;
    stp_confirm_begin(&l->confirm,
                      expected > least_gain ? expected : least_gain);
    return true;
}

/* The verdict is there. */
static void end_confirming(struct stp_learner *l)
{
    static const enum stp_learn_kind verdicts[] = {
        [STP_CONFIRM_SHORTER] = STP_LEARN_CONFIRMED,
        [STP_CONFIRM_LONGER] = STP_LEARN_LONGER,
        [STP_CONFIRM_NOISY] = STP_LEARN_NOISY,
    };

    stp_learner_tell_verdict(l, verdicts[l->confirm.state]);
    if (l->confirm.state == STP_CONFIRM_SHORTER)
        l->keys[l->confirm_key].confirmed = (uint8_t)l->confirm_arm;
    else
        stp_bandit_veto(l->bandit, (unsigned)l->confirm_key, l->confirm_arm);
    l->confirm_key = -1;
}

/* What the confirmation wants to be in force. */
static bool want_to_confirm(struct stp_learner *l,
                            struct stp_bandit_want *want_ret)
{
    bool is_arm = l->must_switch ? !l->confirm.is_arm : l->confirm.is_arm;

    *want_ret = (struct stp_bandit_want){
        .key = (unsigned)l->confirm_key,
        .arm = is_arm ? l->confirm_arm : 0,
        .is_trial = is_arm,
    };
    l->must_switch = false;
    return l->keys[want_ret->key].in_force != want_ret->arm;
}

/* Of a key that the job no longer has, nothing will come any more. */
static void drop_forgotten(struct stp_learner *l)
{
    if (l->confirm_key >= 0 &&
        !stp_learner_is_live(l, (unsigned)l->confirm_key))
        l->confirm_key = -1;
}

/* Whether there is no word of what is tried any more. */
static bool is_unheard(const struct stp_learner *l)
{
    uint64_t n = l->n_calls - l->heard.n_calls;
    uint64_t steps = UNHEARD_STEPS * ((uint64_t)stp_steps_calls(l->steps) + 1);

    if (l->rules.objective == STP_LEARN_FILE)
        return n > UNHEARD_CALLS;
    if (stp_learner_is_by_gpu(l) && n <= steps + AHEAD_CALLS)
        n = stp_learner_is_run(l) ? l->n_timed - l->heard.n_timed : 0;
    return n > steps;
}

/* What is tried must not stay where its times do not come, as while a job does
 * something else than its steps. */
static void drop_unheard(struct stp_learner *l)
{
    if (!is_unheard(l))
        return;
    stp_learner_heard(l);
    if (l->confirm_key >= 0)
        l->must_switch = l->confirm.is_arm; /* and goes on from there */
    else if (l->trial_key >= 0 && !stp_learner_is_by_gpu(l))
        stp_bandit_give_up(l->bandit, (unsigned)l->trial_key);
}

static void note_settled(struct stp_learner *l)
{
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        struct stp_bandit_key_state state;

        if (!l->keys[k].is_known)
            continue;
        state = stp_learner_key(l, k);
        if (state.is_settled && !l->keys[k].was_settled)
            stp_learner_tell_settled(l, (int)k, state.best);
        l->keys[k].was_settled = state.is_settled;
    }
}

/* What the bandit would settle with, while there are no steps of it to look at.
 * Until then NCCL's own choice is in force, and nothing else is tried. */
static bool want_to_wait(struct stp_learner *l,
                         struct stp_bandit_want *want_ret)
{
    const struct stp_learn_event event = {.kind = STP_LEARN_NOISY,
                                          .call = l->n_calls,
                                          .key = (int)want_ret->key,
                                          .arm = want_ret->arm};

    if (l->blocked_since == 0)
        l->blocked_since = l->n_calls;
    if (l->n_calls - l->blocked_since > PATIENCE_CALLS ||
        !stp_learner_is_live(l, want_ret->key)) {
        if (l->sink != NULL)
            l->sink(l->user, &event);
        stp_bandit_veto(l->bandit, want_ret->key, want_ret->arm);
        l->blocked_since = 0;
    }
    l->of_bandit = false;
    want_ret->arm = 0;
    return l->keys[want_ret->key].in_force != 0;
}

/* An arm that was found worse while it was in force goes first: the bandit does
 * not know that it is. */
static bool want_rid(const struct stp_learner *l,
                     struct stp_bandit_want *want_ret)
{
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        unsigned arm = l->keys[k].in_force;
        unsigned running;

        if (arm == 0 || !stp_bandit_get_arm(l->bandit, k, arm).is_out)
            continue;
        running = stp_bandit_get_key(l->bandit, k).running;
        if (arm == running)
            continue;
        *want_ret = (struct stp_bandit_want){.key = k, .arm = running};
        return true;
    }
    return false;
}

static bool want_by_bandit(struct stp_learner *l,
                           struct stp_bandit_want *want_ret)
{
    if (want_rid(l, want_ret))
        return true;
    if (!stp_bandit_wants(l->bandit, elapsed(l), want_ret))
        return false;
    if (!must_confirm(l, want_ret))
        return true;
    if (!begin_confirming(l, want_ret))
        return want_to_wait(l, want_ret);
    l->blocked_since = 0;
    l->of_bandit = false;
    return want_to_confirm(l, want_ret);
}

bool stp_learner_wants(struct stp_learner *learner,
                       struct stp_bandit_want *want_ret,
                       struct stp_bandit_arm *arm_ret)
{
    struct stp_learner *l = learner;
    bool wants;

    if (l->is_pending)
        return false;
    drop_forgotten(l);
    drop_unheard(l);
    if (l->confirm_key >= 0 && l->confirm.state != STP_CONFIRM_OPEN)
        end_confirming(l);
    l->of_bandit = l->confirm_key < 0;
    wants = l->of_bandit ? want_by_bandit(l, want_ret)
                         : want_to_confirm(l, want_ret);
    note_settled(l);
    if (!wants)
        return false;
    /* Steps and files are slower than calls: who began a trial ends it. */
    if (!l->of_bandit || !stp_learner_is_by_gpu(l))
        want_ret->n_calls = 0;
    l->pending = *want_ret;
    l->is_pending = true;
    *arm_ret = stp_bandit_get_arm(l->bandit, want_ret->key, want_ret->arm).arm;
    return true;
}
