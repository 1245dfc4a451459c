#include <stdlib.h>

#include "core/learn/learner_parts.h"

/* A key that was not called for so many calls is no longer part of the job. */
enum { FORGOTTEN_CALLS = 4096 };

/* Steps of another kind in a row that make it the job's own. */
enum { MANY_STEPS = 32 };

/* Calls of a key by which its lines in a file may be late; and early, where
 * they are heard of before the calls are. */
enum { LATE_LINES = 256, EARLY_LINES = 16 };

/* What counts at most between two calls with a time. */
#define PAUSE_NS UINT64_C(1000000000)

/* ---- life ---- */

enum stp_status stp_learner_open(const struct stp_learner_rules *rules,
                                 stp_learn_sink sink, void *user,
                                 struct stp_learner **learner_ret,
                                 struct stp_error *err)
{
    struct stp_learner *l = calloc(1, sizeof(*l));
    enum stp_status status;

    if (l == NULL)
        return stp_nomem(err);
    l->rules = *rules;
    l->sink = sink;
    l->user = user;
    l->trial_key = -1;
    l->confirm_key = -1;
    status = stp_bandit_open(&rules->bandit, &l->bandit, err);
    if (status == STP_OK)
        status = stp_steps_open(&l->steps, err);
    if (status != STP_OK) {
        stp_learner_close(l);
        return status;
    }
    *learner_ret = l;
    return STP_OK;
}

void stp_learner_close(struct stp_learner *learner)
{
    if (learner == NULL)
        return;
    stp_bandit_close(learner->bandit);
    stp_steps_close(learner->steps);
    free(learner);
}

void stp_learner_add_key(struct stp_learner *learner, unsigned key,
                         const struct stp_cost_view *view,
                         unsigned max_channels)
{
    if (key >= STP_BANDIT_KEYS || learner->keys[key].is_known)
        return;
    learner->keys[key].is_known = true;
    learner->keys[key].last_call = learner->n_calls;
    stp_bandit_add_key(learner->bandit, key, view, max_channels);
}

/* ---- what is seen ---- */

void stp_learner_heard(struct stp_learner *learner)
{
    learner->heard.n_calls = learner->n_calls;
    learner->heard.n_timed = learner->n_timed;
}

bool stp_learner_is_live(const struct stp_learner *learner, unsigned key)
{
    const struct stp_learner_state *state = &learner->keys[key];

    return state->is_known &&
           learner->n_calls - state->last_call <= FORGOTTEN_CALLS;
}

/* In the step objective a step is the reward of each key in it, but while one
 * is on trial only of that. */
static void reward_with_step(struct stp_learner *l, double us)
{
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        if ((l->trial_key < 0 || l->trial_key == (int)k) &&
            l->keys[k].is_known && stp_steps_share(l->steps, k) > 0) {
            stp_learner_tell(l, STP_LEARN_REWARD, (int)k, l->keys[k].in_force,
                             us);
            stp_bandit_reward(l->bandit, k, l->keys[k].in_force, us);
        }
}

/* Steps of an evaluation, say, are others than those of the training: which are
 * the job's own is a matter of how many there are. */
static bool is_of_job(struct stp_learner *l, const struct stp_step *step)
{
    if (l->has_steps && step->sequence == l->sequence) {
        l->n_others = 0;
        return true;
    }
    if (l->has_steps && ++l->n_others < MANY_STEPS)
        return false;
    l->has_steps = true;
    l->sequence = step->sequence;
    l->n_others = 0;
    l->confirm_key = -1; /* with other steps it begins anew */
    l->step_us = step->us;
    stp_learner_tell(l, STP_LEARN_PERIOD, -1, 0, step->n_calls);
    return true;
}

bool stp_learner_is_run(const struct stp_learner *learner)
{
    const struct stp_learner_state *key;

    if (learner->confirm_key < 0 || !stp_learner_is_by_gpu(learner))
        return true;
    key = &learner->keys[learner->confirm_key];
    return key->ran == key->in_force;
}

static void take_step(struct stp_learner *l, const struct stp_step *step)
{
    if (!is_of_job(l, step))
        return;
    l->step_us += (step->us - l->step_us) / 16.0;
    stp_learner_tell(l, STP_LEARN_STEPPED, -1, 0, step->us);
    if (step->first_call < l->last_change || l->is_pending ||
        !stp_learner_is_run(l))
        return;
    stp_learner_heard(l);
    if (l->confirm_key >= 0)
        l->must_switch = stp_confirm_step(&l->confirm, step->us);
    else if (l->rules.objective == STP_LEARN_STEP)
        reward_with_step(l, step->us);
}

/* By one clock alone: the GPU's where that is known, on which two collectives
 * may end in another order than they came.  A long pause is not the job's, or
 * nobody looked; a long way back is another clock. */
static void take_time(struct stp_learner *l, uint64_t t_ns)
{
    uint64_t ns = t_ns - l->last_ns;

    if (t_ns <= l->last_ns && l->last_ns - t_ns < PAUSE_NS)
        return;
    if (l->last_ns != 0 && t_ns > l->last_ns)
        l->elapsed_us += (double)(ns < PAUSE_NS ? ns : PAUSE_NS) / 1e3;
    l->last_ns = t_ns;
}

/* A call of a step, timed by whatever clock there is. */
static void take_time_of_step(struct stp_learner *l,
                              const struct stp_note *note)
{
    struct stp_step step;

    l->n_timed++;
    if (stp_steps_call(l->steps, note->key, note->t_ns, &step))
        take_step(l, &step);
}

static void take_call(struct stp_learner *l, const struct stp_note *note)
{
    if (note->key < STP_BANDIT_KEYS) {
        l->keys[note->key].last_call = l->n_calls;
        l->keys[note->key].n_calls++;
        stp_bandit_call(l->bandit, note->key);
    }
    l->n_calls++;
    if (note->t_ns == 0 || stp_learner_is_by_gpu(l))
        return;
    take_time(l, note->t_ns);
    if (l->rules.objective == STP_LEARN_STEP)
        take_time_of_step(l, note);
}

static void take_run(struct stp_learner *l, const struct stp_note *note)
{
    struct stp_learner_state *key;

    if (note->key >= STP_BANDIT_KEYS || !stp_learner_is_by_gpu(l))
        return;
    key = &l->keys[note->key];
    if (key->ran != note->arm) {
        l->last_change = l->n_timed;
        stp_learner_heard(l);
    }
    key->ran = note->arm;
    take_time(l, note->t_ns);
    take_time_of_step(l, note);
}

static void begin_wanted(struct stp_learner *l)
{
    const struct stp_bandit_want *want = &l->pending;

    stp_bandit_began(l->bandit, want);
    l->trial_key = want->is_trial ? (int)want->key : -1;
    stp_learner_tell(l, want->is_trial ? STP_LEARN_TRIAL : STP_LEARN_BACK,
                     (int)want->key, want->arm, 0.0);
}

/* All ranks went back by themselves, after the calls that a trial needs. */
static void end_trial(struct stp_learner *l, unsigned key, unsigned arm)
{
    const struct stp_bandit_want home = {.key = key, .arm = arm};

    stp_bandit_began(l->bandit, &home);
    l->trial_key = -1;
    stp_learner_tell(l, STP_LEARN_BACK, (int)key, arm, 0.0);
}

/* The other arm of a confirmation, or what waits for one. */
static void begin_block(struct stp_learner *l, unsigned key, unsigned arm)
{
    bool confirms = l->confirm_key == (int)key;

    if (confirms)
        stp_confirm_switch(&l->confirm, arm != 0);
    stp_learner_tell(l, confirms ? STP_LEARN_BLOCK : STP_LEARN_BACK, (int)key,
                     arm, 0.0);
}

static void take_change(struct stp_learner *l, unsigned key, unsigned arm)
{
    if (key >= STP_BANDIT_KEYS)
        return;
    l->keys[key].before = l->keys[key].in_force;
    l->keys[key].n_before = l->keys[key].n_calls;
    l->keys[key].in_force = (uint8_t)arm;
    l->last_change = l->n_timed;
    stp_learner_heard(l);
    if (!l->is_pending || l->pending.key != key || l->pending.arm != arm) {
        if (l->trial_key == (int)key)
            end_trial(l, key, arm);
        return;
    }
    l->is_pending = false;
    if (l->of_bandit)
        begin_wanted(l);
    else
        begin_block(l, key, arm);
}

bool stp_learn_objective_is_gpu(enum stp_learn_objective objective)
{
    return objective == STP_LEARN_GPU || objective == STP_LEARN_AUTO;
}

bool stp_learner_is_by_gpu(const struct stp_learner *learner)
{
    return stp_learn_objective_is_gpu(learner->rules.objective);
}

static void take_gpu_time(struct stp_learner *l, const struct stp_note *note)
{
    if (note->key >= STP_BANDIT_KEYS || !stp_learner_is_by_gpu(l) ||
        !(note->us > 0.0))
        return;
    stp_bandit_saw_channels(l->bandit, note->key, note->arm, note->n_channels);
    stp_learner_tell(l, STP_LEARN_REWARD, note->key, note->arm, note->us);
    stp_bandit_reward(l->bandit, note->key, note->arm, note->us);
}

void stp_learner_note(struct stp_learner *learner, const struct stp_note *note)
{
    switch (note->kind) {
    case STP_NOTE_CALL:
        take_call(learner, note);
        break;
    case STP_NOTE_BEGAN:
        take_change(learner, note->key, note->arm);
        break;
    case STP_NOTE_RAN:
        take_run(learner, note);
        break;
    case STP_NOTE_TOOK:
        take_gpu_time(learner, note);
        break;
    default:
        break;
    }
}

/* The arm that the next line of a file is of.  To epsilon-greedy it is the last
 * one, as the seeds have it; but an application writes what a call took when it
 * knows it, some calls later, and a trial is short: its n-th line is of the
 * n-th call, unless it has more lines than calls, or falls far behind. */
static unsigned arm_of_line(const struct stp_learner *l,
                            struct stp_learner_state *key)
{
    if (l->rules.bandit.strategy == STP_STRATEGY_EPSILON)
        return key->in_force;
    key->n_lines++;
    if (key->n_lines > key->n_calls + EARLY_LINES ||
        key->n_lines + LATE_LINES < key->n_calls)
        key->lines_are_some = true;
    return key->lines_are_some || key->n_lines > key->n_before ? key->in_force
                                                               : key->before;
}

void stp_learner_reward(struct stp_learner *learner, unsigned key, double ms)
{
    unsigned arm;

    if (key >= STP_BANDIT_KEYS || learner->rules.objective != STP_LEARN_FILE ||
        !learner->keys[key].is_known)
        return;
    if (learner->trial_key == (int)key)
        stp_learner_heard(learner);
    arm = arm_of_line(learner, &learner->keys[key]);
    stp_learner_tell(learner, STP_LEARN_REWARD, (int)key, arm, ms);
    stp_bandit_reward(learner->bandit, key, arm, ms);
}

/* ---- asking ---- */

bool stp_learner_is_exploring(const struct stp_learner *learner)
{
    const struct stp_learner *l = learner;
    const bool is_greedy = l->rules.bandit.strategy == STP_STRATEGY_EPSILON;

    /* What epsilon-greedy tried may be what it stays with, but a share of its
     * epochs explores for ever. */
    if (l->is_pending || l->confirm_key >= 0 ||
        (is_greedy ? l->rules.bandit.epsilon > 0 : l->trial_key >= 0))
        return true;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        if (stp_learner_is_live(l, k) && !stp_learner_key(l, k).is_settled)
            return true;
    return false;
}

void stp_learner_do_without_gpu(struct stp_learner *learner)
{
    if (stp_learner_is_by_gpu(learner))
        learner->rules.objective = STP_LEARN_STEP;
}

struct stp_bandit_key_state stp_learner_key(const struct stp_learner *learner,
                                            unsigned key)
{
    struct stp_bandit_key_state state =
        stp_bandit_get_key(learner->bandit, key);

    if (learner->rules.objective == STP_LEARN_AUTO && state.best != 0 &&
        learner->rules.bandit.strategy == STP_STRATEGY_HALVING &&
        learner->keys[key].confirmed != state.best)
        state.is_settled = false;
    return state;
}

const struct stp_bandit *stp_learner_bandit(const struct stp_learner *learner)
{
    return learner->bandit;
}
