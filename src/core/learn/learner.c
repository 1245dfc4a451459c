#include "core/learn/learner.h"

#include <stdlib.h>
#include <string.h>

#include "core/learn/steps.h"

/* A key that was not called for so many calls is no longer part of the job. */
enum { FORGOTTEN_CALLS = 4096 };

/* Steps of another sequence in a row that make it the job's own. */
enum { MANY_STEPS = 32 };

/* Calls of a key by which its lines in a file may be late; and early, where
 * they are read before the calls' notes. */
enum { LATE_LINES = 256, EARLY_LINES = 16 };

/* The most that counts between two calls with a time. */
#define PAUSE_NS UINT64_C(1000000000)

/* Calls to wait for steps that confirm an arm: if there are none by then,
 * there will be none. */
enum { PATIENCE_CALLS = 8192 };

/* Calls, and steps, within which times of the arm on trial must arrive. */
enum { UNHEARD_CALLS = 4096, UNHEARD_STEPS = 8 };

/* Calls that a host is ahead of its GPU at most: CUDA's queue. */
enum { AHEAD_CALLS = 1024 };

/* The least share of a step that is worth confirming. */
static const double least_gain = 1e-4;

/* One key. */
struct learner_key_state {
    bool is_known;
    uint8_t in_force;   /* arm */
    uint8_t ran;        /* arm of its last run on the GPU */
    uint8_t confirmed;  /* arm that made steps shorter; 0: none */
    bool was_settled;   /* reported so */
    uint64_t last_call; /* number of its last call */

    uint64_t n_calls;
    uint64_t n_lines;    /* of a file: the last is of this call, from 1 */
    uint64_t n_before;   /* calls before those of the arm in force */
    uint8_t before;      /* arm before it */
    bool lines_are_some; /* lines do not match calls: they are of in_force */
};

struct stp_learner {
    struct stp_learner_rules rules;
    stp_learn_sink sink;
    void *user;
    struct stp_bandit *bandit;
    struct stp_steps *steps;

    uint64_t n_calls;
    uint64_t n_timed;     /* calls by which steps are found */
    uint64_t last_change; /* n_timed when an arm changed last */
    uint64_t last_ns;     /* of the last call that has a time */
    double elapsed_us;
    bool has_steps;
    unsigned sequence; /* of the steps that count (period.h) */
    unsigned n_others; /* steps of another one since */
    double step_us;    /* running mean */

    bool is_pending; /* a proposal was not taken yet */
    bool of_bandit;  /* it is the bandit's, not a confirmation's */
    struct stp_bandit_want pending;
    int trial_key; /* of a trial in force; -1: none */
    struct {
        uint64_t n_calls;
        uint64_t n_timed;
    } heard; /* counts when a time of the arm on trial arrived last */

    int confirm_key; /* -1: nothing is being confirmed */
    unsigned confirm_arm;
    bool must_switch;
    struct stp_confirm confirm;
    uint64_t blocked_since; /* call since which an arm waits to be confirmed;
                               0: none does */

    struct learner_key_state keys[STP_BANDIT_KEYS];
};

/* ---- names ---- */

static const char *const objectives[STP_N_LEARN_OBJECTIVES] = {
    [STP_LEARN_AUTO] = "auto",
    [STP_LEARN_STEP] = "step",
    [STP_LEARN_GPU] = "gpu",
    [STP_LEARN_FILE] = "file",
};

static const char *const kinds[STP_N_LEARN_KINDS] = {
    [STP_LEARN_TRIAL] = "trial",     [STP_LEARN_BACK] = "back",
    [STP_LEARN_BLOCK] = "block",     [STP_LEARN_REWARD] = "reward",
    [STP_LEARN_STEPPED] = "step",    [STP_LEARN_PERIOD] = "period",
    [STP_LEARN_SETTLED] = "settled", [STP_LEARN_CONFIRMED] = "confirmed",
    [STP_LEARN_LONGER] = "longer",   [STP_LEARN_NOISY] = "noisy",
};

const char *stp_learn_objective_name(enum stp_learn_objective objective)
{
    return objectives[objective];
}

int stp_learn_objective_from_name(const char *word, size_t len)
{
    for (int i = 0; i < STP_N_LEARN_OBJECTIVES; i++)
        if (strlen(objectives[i]) == len &&
            memcmp(objectives[i], word, len) == 0)
            return i;
    return -1;
}

const char *stp_learn_kind_name(enum stp_learn_kind kind)
{
    return kinds[kind];
}

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

/* ---- reporting ---- */

static void learner_report(const struct stp_learner *l,
                           struct stp_learn_event event)
{
    event.call = l->n_calls;
    if (l->sink != NULL)
        l->sink(l->user, &event);
}

static void learner_report_arm(const struct stp_learner *l,
                               enum stp_learn_kind kind, int key, unsigned arm,
                               double value)
{
    learner_report(l,
                   (struct stp_learn_event){
                       .kind = kind, .key = key, .arm = arm, .value = value});
}

/* ---- state ---- */

bool stp_learn_objective_is_gpu(enum stp_learn_objective objective)
{
    return objective == STP_LEARN_GPU || objective == STP_LEARN_AUTO;
}

/* Whether times are those of collectives on the GPU. */
static bool learner_is_by_gpu(const struct stp_learner *learner)
{
    return stp_learn_objective_is_gpu(learner->rules.objective);
}

/* Whether the job still has the key. */
static bool learner_is_live(const struct stp_learner *learner, unsigned key)
{
    const struct learner_key_state *state = &learner->keys[key];

    return state->is_known &&
           learner->n_calls - state->last_call <= FORGOTTEN_CALLS;
}

/* Whether the arm being confirmed runs: a GPU is behind its host. */
static bool learner_is_run(const struct stp_learner *learner)
{
    const struct learner_key_state *key;

    if (learner->confirm_key < 0 || !learner_is_by_gpu(learner))
        return true;
    key = &learner->keys[learner->confirm_key];
    return key->ran == key->in_force;
}

/* Times of the arm on trial arrive, or the arm changes. */
static void learner_note_heard(struct stp_learner *learner)
{
    learner->heard.n_calls = learner->n_calls;
    learner->heard.n_timed = learner->n_timed;
}

/* ---- notes ---- */

/* In the step objective a step is the reward of each key in it, but while one
 * is on trial only of that. */
static void learner_reward_step(struct stp_learner *l, double us)
{
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        if ((l->trial_key < 0 || l->trial_key == (int)k) &&
            l->keys[k].is_known && stp_steps_share(l->steps, k) > 0) {
            learner_report_arm(l, STP_LEARN_REWARD, (int)k, l->keys[k].in_force,
                               us);
            stp_bandit_reward(l->bandit, k, l->keys[k].in_force, us);
        }
}

/* Steps of an evaluation, say, differ from those of the training: the more
 * frequent are the job's own. */
static bool learner_is_job_step(struct stp_learner *l,
                                const struct stp_step *step)
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
    l->confirm_key = -1; /* with other steps it restarts */
    l->step_us = step->us;
    learner_report_arm(l, STP_LEARN_PERIOD, -1, 0, step->n_calls);
    return true;
}

static void learner_take_step(struct stp_learner *l,
                              const struct stp_step *step)
{
    if (!learner_is_job_step(l, step))
        return;
    l->step_us += (step->us - l->step_us) / 16.0;
    learner_report_arm(l, STP_LEARN_STEPPED, -1, 0, step->us);
    if (step->first_call < l->last_change || l->is_pending ||
        !learner_is_run(l))
        return;
    learner_note_heard(l);
    if (l->confirm_key >= 0)
        l->must_switch = stp_confirm_step(&l->confirm, step->us);
    else if (l->rules.objective == STP_LEARN_STEP)
        learner_reward_step(l, step->us);
}

/* By one clock alone: the GPU's where that is known, on which two collectives
 * may end in another order than they began.  A long pause is not the job's, or
 * the observer did not run; a long way back is another clock. */
static void learner_take_time(struct stp_learner *l, uint64_t t_ns)
{
    uint64_t ns = t_ns - l->last_ns;

    if (t_ns <= l->last_ns && l->last_ns - t_ns < PAUSE_NS)
        return;
    if (l->last_ns != 0 && t_ns > l->last_ns)
        l->elapsed_us += (double)(ns < PAUSE_NS ? ns : PAUSE_NS) / 1e3;
    l->last_ns = t_ns;
}

/* A call of a step, timed by the host's or the GPU's clock. */
static void learner_take_step_call(struct stp_learner *l,
                                   const struct stp_note *note)
{
    struct stp_step step;

    l->n_timed++;
    if (stp_steps_call(l->steps, note->key, note->t_ns, &step))
        learner_take_step(l, &step);
}

static void learner_take_call(struct stp_learner *l,
                              const struct stp_note *note)
{
    if (note->key < STP_BANDIT_KEYS) {
        l->keys[note->key].last_call = l->n_calls;
        l->keys[note->key].n_calls++;
        stp_bandit_call(l->bandit, note->key);
    }
    l->n_calls++;
    if (note->t_ns == 0 || learner_is_by_gpu(l))
        return;
    learner_take_time(l, note->t_ns);
    if (l->rules.objective == STP_LEARN_STEP)
        learner_take_step_call(l, note);
}

static void learner_take_run(struct stp_learner *l, const struct stp_note *note)
{
    struct learner_key_state *key;

    if (note->key >= STP_BANDIT_KEYS || !learner_is_by_gpu(l))
        return;
    key = &l->keys[note->key];
    if (key->ran != note->arm) {
        l->last_change = l->n_timed;
        learner_note_heard(l);
    }
    key->ran = note->arm;
    learner_take_time(l, note->t_ns);
    learner_take_step_call(l, note);
}

static void learner_begin_wanted(struct stp_learner *l)
{
    const struct stp_bandit_want *want = &l->pending;

    stp_bandit_began(l->bandit, want);
    l->trial_key = want->is_trial ? (int)want->key : -1;
    learner_report_arm(l, want->is_trial ? STP_LEARN_TRIAL : STP_LEARN_BACK,
                       (int)want->key, want->arm, 0.0);
}

/* All ranks returned to the incumbent after the calls that a trial needs. */
static void learner_end_trial(struct stp_learner *l, unsigned key, unsigned arm)
{
    const struct stp_bandit_want incumbent = {.key = key, .arm = arm};

    stp_bandit_began(l->bandit, &incumbent);
    l->trial_key = -1;
    learner_report_arm(l, STP_LEARN_BACK, (int)key, arm, 0.0);
}

/* The other arm of a confirmation, or an arm that waits for one. */
static void learner_begin_block(struct stp_learner *l, unsigned key,
                                unsigned arm)
{
    bool confirms = l->confirm_key == (int)key;

    if (confirms)
        stp_confirm_switch(&l->confirm, arm != 0);
    learner_report_arm(l, confirms ? STP_LEARN_BLOCK : STP_LEARN_BACK, (int)key,
                       arm, 0.0);
}

static void learner_take_change(struct stp_learner *l, unsigned key,
                                unsigned arm)
{
    if (key >= STP_BANDIT_KEYS)
        return;
    l->keys[key].before = l->keys[key].in_force;
    l->keys[key].n_before = l->keys[key].n_calls;
    l->keys[key].in_force = (uint8_t)arm;
    l->last_change = l->n_timed;
    learner_note_heard(l);
    if (!l->is_pending || l->pending.key != key || l->pending.arm != arm) {
        if (l->trial_key == (int)key)
            learner_end_trial(l, key, arm);
        return;
    }
    l->is_pending = false;
    if (l->of_bandit)
        learner_begin_wanted(l);
    else
        learner_begin_block(l, key, arm);
}

static void learner_take_gpu_time(struct stp_learner *l,
                                  const struct stp_note *note)
{
    if (note->key >= STP_BANDIT_KEYS || !learner_is_by_gpu(l) ||
        !(note->us > 0.0))
        return;
    stp_bandit_saw_channels(l->bandit, note->key, note->arm, note->n_channels);
    learner_report_arm(l, STP_LEARN_REWARD, note->key, note->arm, note->us);
    stp_bandit_reward(l->bandit, note->key, note->arm, note->us);
}

void stp_learner_note(struct stp_learner *learner, const struct stp_note *note)
{
    switch (note->kind) {
    case STP_NOTE_CALL:
        learner_take_call(learner, note);
        break;
    case STP_NOTE_BEGAN:
        learner_take_change(learner, note->key, note->arm);
        break;
    case STP_NOTE_RAN:
        learner_take_run(learner, note);
        break;
    case STP_NOTE_TOOK:
        learner_take_gpu_time(learner, note);
        break;
    default:
        break;
    }
}

/* The arm to which the next line of a file belongs.  To epsilon-greedy it is
 * the last arm, as in the seeds; but an application writes a call's time some
 * calls later, and a trial is short: its n-th line is of the n-th call, unless
 * it has more lines than calls, or falls far behind. */
static unsigned learner_line_arm(const struct stp_learner *l,
                                 struct learner_key_state *key)
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
        learner_note_heard(learner);
    arm = learner_line_arm(learner, &learner->keys[key]);
    learner_report_arm(learner, STP_LEARN_REWARD, (int)key, arm, ms);
    stp_bandit_reward(learner->bandit, key, arm, ms);
}

/* ---- wants ---- */

static double learner_elapsed(const struct stp_learner *l)
{
    return l->rules.objective == STP_LEARN_FILE ? l->elapsed_us / 1e3
                                                : l->elapsed_us;
}

static bool learner_must_confirm(const struct stp_learner *l,
                                 const struct stp_bandit_want *want)
{
    return l->rules.objective == STP_LEARN_AUTO &&
           l->rules.bandit.strategy == STP_STRATEGY_HALVING &&
           !want->is_trial && want->arm != 0 &&
           l->keys[want->key].confirmed != want->arm;
}

/* How much of a step the arm would save by the GPU's times, as a gain less 1.
 */
static double learner_expected_gain(const struct stp_learner *l,
                                    const struct stp_bandit_want *want)
{
    double per_call = stp_bandit_get_arm(l->bandit, want->key, 0).mean -
                      stp_bandit_get_arm(l->bandit, want->key, want->arm).mean;
    double saved = per_call * stp_steps_share(l->steps, want->key);

    return l->step_us > saved ? saved / (l->step_us - saved) : 0.0;
}

/* False while no step is known: nothing can be confirmed yet. */
static bool learner_begin_confirming(struct stp_learner *l,
                                     const struct stp_bandit_want *want)
{
    double expected;

    if (stp_steps_share(l->steps, want->key) == 0)
        return false;
    expected = learner_expected_gain(l, want);
    l->confirm_key = (int)want->key;
    l->confirm_arm = want->arm;
    l->must_switch = false;
    stp_confirm_begin(&l->confirm,
                      expected > least_gain ? expected : least_gain);
    return true;
}

static void learner_end_confirming(struct stp_learner *l)
{
    static const enum stp_learn_kind verdicts[] = {
        [STP_CONFIRM_SHORTER] = STP_LEARN_CONFIRMED,
        [STP_CONFIRM_LONGER] = STP_LEARN_LONGER,
        [STP_CONFIRM_NOISY] = STP_LEARN_NOISY,
    };
    struct stp_learn_event event = {
        .kind = verdicts[l->confirm.state],
        .key = l->confirm_key,
        .arm = l->confirm_arm,
        .value = (double)stp_confirm_needed(&l->confirm)};

    stp_confirm_gain(&l->confirm, &event.gain, &event.gain_low,
                     &event.gain_high);
    learner_report(l, event);
    if (l->confirm.state == STP_CONFIRM_SHORTER)
        l->keys[l->confirm_key].confirmed = (uint8_t)l->confirm_arm;
    else
        stp_bandit_veto(l->bandit, (unsigned)l->confirm_key, l->confirm_arm);
    l->confirm_key = -1;
}

/* The arm that the confirmation needs in force. */
static bool learner_want_confirmation(struct stp_learner *l,
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

/* Whether no more times of the arm on trial arrive. */
static bool learner_is_unheard(const struct stp_learner *l)
{
    uint64_t n = l->n_calls - l->heard.n_calls;
    uint64_t steps = UNHEARD_STEPS * ((uint64_t)stp_steps_calls(l->steps) + 1);

    if (l->rules.objective == STP_LEARN_FILE)
        return n > UNHEARD_CALLS;
    if (learner_is_by_gpu(l) && n <= steps + AHEAD_CALLS)
        n = learner_is_run(l) ? l->n_timed - l->heard.n_timed : 0;
    return n > steps;
}

/* An arm must not stay on trial while its times do not arrive, as while a job
 * does something else than its steps. */
static void learner_drop_unheard(struct stp_learner *l)
{
    if (!learner_is_unheard(l))
        return;
    learner_note_heard(l);
    if (l->confirm_key >= 0)
        l->must_switch = l->confirm.is_arm; /* and goes on from there */
    else if (l->trial_key >= 0 && !learner_is_by_gpu(l))
        stp_bandit_give_up(l->bandit, (unsigned)l->trial_key);
}

static void learner_report_newly_settled(struct stp_learner *l)
{
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        struct stp_bandit_key_state state;

        if (!l->keys[k].is_known)
            continue;
        state = stp_learner_key(l, k);
        if (state.is_settled && !l->keys[k].was_settled)
            learner_report(
                l, (struct stp_learn_event){.kind = STP_LEARN_SETTLED,
                                            .key = (int)k,
                                            .arm = state.best,
                                            .gain = state.gain,
                                            .gain_low = state.gain_low,
                                            .gain_high = state.gain_high});
        l->keys[k].was_settled = state.is_settled;
    }
}

/* While there are no steps to confirm the arm that the bandit would settle
 * with, NCCL's own choice is in force, and no arm is tried. */
static bool learner_want_incumbent(struct stp_learner *l,
                                   struct stp_bandit_want *want_ret)
{
    if (l->blocked_since == 0)
        l->blocked_since = l->n_calls;
    if (l->n_calls - l->blocked_since > PATIENCE_CALLS ||
        !learner_is_live(l, want_ret->key)) {
        learner_report_arm(l, STP_LEARN_NOISY, (int)want_ret->key,
                           want_ret->arm, 0.0);
        stp_bandit_veto(l->bandit, want_ret->key, want_ret->arm);
        l->blocked_since = 0;
    }
    l->of_bandit = false;
    want_ret->arm = 0;
    return l->keys[want_ret->key].in_force != 0;
}

/* An arm in force that was found worse goes first: the bandit does not know
 * that it is in force. */
static bool learner_want_rid_of_worse(const struct stp_learner *l,
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

static bool learner_want_by_bandit(struct stp_learner *l,
                                   struct stp_bandit_want *want_ret)
{
    if (learner_want_rid_of_worse(l, want_ret))
        return true;
    if (!stp_bandit_wants(l->bandit, learner_elapsed(l), want_ret))
        return false;
    if (!learner_must_confirm(l, want_ret))
        return true;
    if (!learner_begin_confirming(l, want_ret))
        return learner_want_incumbent(l, want_ret);
    l->blocked_since = 0;
    l->of_bandit = false;
    return learner_want_confirmation(l, want_ret);
}

bool stp_learner_wants(struct stp_learner *learner,
                       struct stp_bandit_want *want_ret,
                       struct stp_bandit_arm *arm_ret)
{
    struct stp_learner *l = learner;
    bool wants;

    if (l->is_pending)
        return false;
    if (l->confirm_key >= 0 && !learner_is_live(l, (unsigned)l->confirm_key))
        l->confirm_key = -1; /* no more times of the key arrive */
    learner_drop_unheard(l);
    if (l->confirm_key >= 0 && l->confirm.state != STP_CONFIRM_OPEN)
        learner_end_confirming(l);
    l->of_bandit = l->confirm_key < 0;
    wants = l->of_bandit ? learner_want_by_bandit(l, want_ret)
                         : learner_want_confirmation(l, want_ret);
    learner_report_newly_settled(l);
    if (!wants)
        return false;
    /* Steps and files are slower than calls: the observer ends the trial. */
    if (!l->of_bandit || !learner_is_by_gpu(l))
        want_ret->n_calls = 0;
    l->pending = *want_ret;
    l->is_pending = true;
    *arm_ret = stp_bandit_get_arm(l->bandit, want_ret->key, want_ret->arm).arm;
    return true;
}

/* ---- results ---- */

bool stp_learner_is_exploring(const struct stp_learner *learner)
{
    const struct stp_learner *l = learner;
    const bool is_greedy = l->rules.bandit.strategy == STP_STRATEGY_EPSILON;

    /* Epsilon-greedy may keep the arm it tried, but explores in a share of its
     * epochs for ever. */
    if (l->is_pending || l->confirm_key >= 0 ||
        (is_greedy ? l->rules.bandit.epsilon > 0 : l->trial_key >= 0))
        return true;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        if (learner_is_live(l, k) && (!stp_learner_key(l, k).is_settled ||
                                      stp_bandit_awaits(l->bandit, k)))
            return true;
    return false;
}

void stp_learner_do_without_gpu(struct stp_learner *learner)
{
    if (learner_is_by_gpu(learner))
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
