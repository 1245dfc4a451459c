#include "core/learn/learner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/headroom.h"
#include "core/learn/schedule.h"
#include "core/text.h"

enum {
    FIND_CALLS = 64, /* calls before the first search for a sequence, and in
                        which it must repeat; both grow with each failure */
    FIND_MAX = 1 << 20,
    SAMPLE_CALLS = 256,    /* that are timed to choose a window, at least */
    SAMPLE_SEQUENCES = 10, /* likewise, of a long sequence */
    MORE_SAMPLES = 5,      /* times as many, where other calls come between */
    FIND_BLOCKS = 5,       /* of windows of a sequence, in uncut runs */
    CHECK_CALLS = 256,     /* between two looks at whether it still repeats */
    BROKEN_CHECKS = 8,     /* that failed in a row: the job has changed */
    LATE_CALLS = 1280,     /* by which a time may be late */
    ALONE_CALLS = 4096,    /* without a sequence, which is told */
};

enum learner_phase {
    FIND,   /* the sequence */
    SAMPLE, /* times, to choose a window */
    TRY,
};

static const double long_us = 300000; /* of a sequence, to look for a shorter */

/* The noise of a block by a schedule, until its first blocks are known. */
static const double unknown_noise = 0.05;

/* One key. */
struct learner_key {
    bool is_known;
    uint8_t in_force; /* arm */
    bool was_settled; /* reported so */
    uint8_t found;    /* the arm that a schedule found, as reported */
    uint8_t untried;  /* arms, as reported */
};

struct stp_learner {
    struct stp_learner_rules rules;
    const struct stp_history *history;
    stp_learn_sink sink;
    void *user;
    struct stp_bandit *bandit;
    struct stp_windows *windows;

    enum learner_phase phase;
    uint64_t find_at;    /* calls at the next search */
    uint64_t find_wait;  /* and from that to the one after it */
    size_t find_least;   /* calls in which a sequence must repeat */
    size_t sequence;     /* calls */
    bool is_long;        /* one repeats that is longer than long_us */
    bool is_interrupted; /* no sequence repeats without calls between */
    uint64_t sample_from;
    size_t n_samples;   /* asked for */
    uint64_t *begin_ns; /* of the samples; owned; NULL: none */
    uint64_t *end_ns;   /* likewise, behind them */
    struct stp_delays delays;
    struct stp_window_choice window;
    uint8_t shares[STP_BANDIT_KEYS];   /* of the sequence; at most 255 */
    uint8_t keys_of[STP_SEQUENCE_MAX]; /* the sequence that was sampled */
    size_t expected;                   /* place in it of the next call */
    uint64_t seen;                     /* calls that were compared with it */
    uint64_t odd_at; /* calls up to and with the last that was not expected */
    uint64_t check_at;
    unsigned n_broken;
    bool is_alone;     /* reported so */
    bool is_ended;     /* the schedule is, and what it tells was not reported */
    bool has_headroom; /* reported */

    unsigned set_reported;         /* the last report of a set; 0: none was */
    struct stp_proposal proposed;  /* last */
    struct stp_bandit_want wanted; /* likewise, if it is a trial */
    bool is_waiting;               /* until that is taken, or refused */
    bool needs_window;             /* one was refused */
    bool is_settled;               /* as proposed last: epochs are long */
    struct learner_key keys[STP_BANDIT_KEYS];
};

/* ---- names ---- */

static const char *const objectives[STP_N_LEARN_OBJECTIVES] = {"auto", "gpu",
                                                               "file"};

/* in the order of enum stp_learn_kind */
static const char *const kinds[STP_N_LEARN_KINDS] = {
    "message", "window", "trial", "block",     "incumbent", "reward",
    "settled", "alone",  "set",   "confirmed", "dropped",   "step",
    "busy",    "host",   "bound", "untried",   "plan",      "graphs"};

const char *stp_learn_objective_name(enum stp_learn_objective objective)
{
    return objectives[objective];
}

int stp_learn_objective_from_name(const char *word, size_t len)
{
    return stp_find_word(objectives, STP_N_LEARN_OBJECTIVES, word, len);
}

const char *stp_learn_kind_name(enum stp_learn_kind kind)
{
    return kinds[kind];
}

/* ---- opening ---- */

static bool learner_is_scheduled(const struct stp_learner *l)
{
    return l->rules.bandit.n_passes > 0;
}

static bool learner_is_by_file(const struct stp_learner *l)
{
    return l->rules.objective == STP_LEARN_FILE;
}

enum stp_status stp_learner_open(const struct stp_learner_rules *rules,
                                 const struct stp_history *history,
                                 stp_learn_sink sink, void *user,
                                 struct stp_learner **learner_ret,
                                 struct stp_error *err)
{
    struct stp_learner *l = calloc(1, sizeof(*l));
    enum stp_status status;

    if (l == NULL)
        return stp_nomem(err);
    l->rules = *rules;
    l->history = history;
    l->sink = sink;
    l->user = user;
    l->find_at = l->find_wait = l->find_least = FIND_CALLS;
    status = stp_bandit_open(&rules->bandit, &l->bandit, err);
    if (status == STP_OK && !learner_is_by_file(l) &&
        (l->windows = stp_windows_new()) == NULL)
        status = stp_nomem(err);
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
    stp_windows_free(learner->windows);
    free(learner->begin_ns);
    free(learner);
}

/* ---- events ---- */

static uint64_t learner_calls(const struct stp_learner *l)
{
    return l->history != NULL ? stp_history_calls(l->history) : 0;
}

/* Key -1: of no key. */
static void learner_report_gain(const struct stp_learner *l,
                                enum stp_learn_kind kind, int key, unsigned arm,
                                double value, double gain, double low,
                                double high)
{
    const struct stp_learn_event event = {
        kind, learner_calls(l), key, arm, value, gain, low, high};

    if (l->sink != NULL)
        l->sink(l->user, &event);
}

static void learner_report(const struct stp_learner *l,
                           enum stp_learn_kind kind, int key, unsigned arm,
                           double value)
{
    learner_report_gain(l, kind, key, arm, value, 0, 0, 0);
}

void stp_learner_add_key(struct stp_learner *learner, unsigned key,
                         const struct stp_cost_view *view,
                         unsigned max_channels)
{
    if (key >= STP_BANDIT_KEYS)
        return;
    learner->keys[key].is_known = true;
    stp_bandit_add_key(learner->bandit, key, view, max_channels);
    learner_report(learner, STP_LEARN_MESSAGE, (int)key, 0, 0);
    if (learner->has_headroom) /* it is not in the sequence */
        learner_report(learner, STP_LEARN_BUSY, (int)key, 0, 0);
}

static void learner_report_results(struct stp_learner *l)
{
    struct stp_bandit_set_state set;
    unsigned report;

    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        struct stp_bandit_key_state state;

        if (!l->keys[k].is_known)
            continue;
        state = stp_bandit_get_key(l->bandit, k);
        if (learner_is_scheduled(l) && state.is_settled &&
            state.best != l->keys[k].found) {
            /* it is in force from the next run on */
            learner_report(l, STP_LEARN_INCUMBENT, (int)k, state.best, 0);
            l->keys[k].found = (uint8_t)state.best;
            l->keys[k].was_settled = false;
        }
        if (state.is_settled && !l->keys[k].was_settled)
            learner_report_gain(l, STP_LEARN_SETTLED, (int)k, state.best, 0,
                                state.gain, state.gain_low, state.gain_high);
        l->keys[k].was_settled = state.is_settled;
    }
    if (learner_is_by_file(l))
        return;
    set = stp_bandit_get_set(l->bandit);
    report = 2 * set.number + 1 + set.is_dropped;
    if (!set.is_confirmed || l->set_reported == report)
        return;
    l->set_reported = report;
    learner_report_gain(
        l, set.is_dropped ? STP_LEARN_DROPPED : STP_LEARN_CONFIRMED, -1, 0,
        set.n_blocks, set.gain, set.gain_low, set.gain_high);
}

/* ---- the sequence ---- */

static void learner_find_again(struct stp_learner *l)
{
    const uint64_t n_calls = learner_calls(l);

    if (l->phase != TRY && n_calls >= ALONE_CALLS && !l->is_alone) {
        l->is_alone = true;
        learner_report(l, STP_LEARN_ALONE, -1, 0, (double)n_calls);
    }
    l->phase = FIND;
    l->find_at = n_calls + l->find_wait;
    if (l->find_wait < FIND_MAX)
        l->find_wait *= 2;
}

static void learner_begin_samples(struct stp_learner *l)
{
    /* The history must still hold the sampled calls when their times have
     * arrived, or it cannot tell whether they repeat. */
    const size_t most_samples = STP_HISTORY_CALLS - 2 * LATE_CALLS;

    l->n_samples = SAMPLE_SEQUENCES * l->sequence;
    if (l->n_samples < SAMPLE_CALLS)
        l->n_samples = SAMPLE_CALLS;
    if (l->is_interrupted && !l->is_long)
        l->n_samples *= MORE_SAMPLES;
    if (l->n_samples > most_samples)
        l->n_samples = most_samples;
    free(l->begin_ns);
    l->begin_ns = calloc(2 * l->n_samples, sizeof(*l->begin_ns));
    if (l->begin_ns == NULL) {
        learner_find_again(l);
        return;
    }
    l->end_ns = l->begin_ns + l->n_samples;
    stp_delays_restart(&l->delays);
    /* NCCL may have asked the profiler about the next calls already. */
    l->sample_from = learner_calls(l) + STP_TRIAL_LEAD;
    l->phase = SAMPLE;
}

/* Fills the calls up to and with each that repeat the sequence, as others may
 * come between; returns the blocks of windows of a sequence in them, which
 * overlap.  *last_ret: the last call of the longest run. */
static size_t learner_count_runs(const uint8_t *keys, size_t n, size_t sequence,
                                 uint16_t runs[STP_HISTORY_CALLS],
                                 size_t *last_ret)
{
    size_t from = 0, last = 0, n_blocks = 0;

    for (size_t i = 0; i < n; i++) {
        if (i >= sequence && keys[i] != keys[i - sequence])
            from = i + 1 - sequence;
        runs[i] = (uint16_t)(i + 1 - from);
        n_blocks += i - from >= STP_BLOCK_WINDOWS * sequence &&
                    (i - from) % sequence == 0;
        if (runs[i] > runs[last])
            last = i;
    }
    *last_ret = last;
    return n_blocks;
}

/* The sequence that repeats often enough between other calls, in the longest
 * runs; 0: none.  In shorter runs than others one of equal calls is no step,
 * but a part of it.  'whole': the sequence that it is to be a part of, with
 * most calls in blocks of it; 0: none holds all. */
static size_t learner_find_interrupted(const uint8_t *keys, size_t n,
                                       size_t whole)
{
    uint16_t runs[STP_HISTORY_CALLS];
    size_t last, n_blocks, before = 0; /* the sequence looked at before */

    for (size_t least = n / 2; least >= FIND_CALLS; least /= 2)
        for (size_t end = n; end >= least; end -= FIND_CALLS / 2) {
            const size_t sequence = stp_sequence_find(keys, end, least);

            if (sequence == 0 || sequence == before ||
                (sequence == 1 && before != 0))
                continue;
            n_blocks = learner_count_runs(keys, n, sequence, runs, &last);
            if (n_blocks >= FIND_BLOCKS &&
                (whole == 0 ||
                 (sequence < whole && 3 * n_blocks * sequence > 2 * n)))
                return sequence;
            before = sequence;
        }
    return 0;
}

static void learner_find(struct stp_learner *l)
{
    uint8_t keys[STP_HISTORY_CALLS / 2];
    uint64_t n_calls = learner_calls(l);
    size_t n = n_calls < sizeof(keys) ? (size_t)n_calls : sizeof(keys);
    size_t shorter = 0;

    if (n_calls < l->find_at ||
        !stp_history_copy(l->history, n_calls - n, n, keys))
        return;
    l->sequence = stp_sequence_find(keys, n, l->find_least);
    /* it may be many steps and a log or an evaluation */
    l->is_long = (double)l->sequence * l->window.call_us > long_us;
    if (l->is_long || (l->sequence == 0 && n == sizeof(keys)))
        shorter = learner_find_interrupted(keys, n, l->sequence);
    l->is_interrupted = shorter != 0;
    if (l->is_interrupted)
        l->sequence = shorter;
    if (l->sequence == 0) {
        learner_find_again(l);
        return;
    }
    learner_begin_samples(l);
}

/* ---- the window ---- */

/* Counts the calls of each key in a sequence. */
static bool learner_count_shares(struct stp_learner *l, uint64_t from)
{
    uint8_t keys[STP_SEQUENCE_MAX];

    memset(l->shares, 0, sizeof(l->shares));
    if (!stp_history_copy(l->history, from, l->sequence, keys))
        return false;
    for (size_t i = 0; i < l->sequence; i++)
        if (keys[i] < STP_BANDIT_KEYS && l->shares[keys[i]] < UINT8_MAX)
            l->shares[keys[i]]++;
    return true;
}

/* Reports what the 'n' samples from 'first' on, which repeat the sequence,
 * spend in collectives, which bounds all gains. */
static void learner_tell_headroom(struct stp_learner *l, const uint8_t *keys,
                                  size_t first, size_t n)
{
    const double at_once = stp_delays_short(&l->delays);
    struct stp_headroom h;
    double bound;

    if (!stp_headroom_measure(keys + first, l->begin_ns + first,
                              l->end_ns + first, n, l->sequence, &h) ||
        h.busy_us >= h.step_us) /* no bound but all of it */
        return;
    l->has_headroom = true;
    bound = h.step_us / (h.step_us - h.busy_us);
    learner_report_gain(l, STP_LEARN_STEP, -1, 0, h.step_us, bound, bound,
                        bound);
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        if (!l->keys[k].is_known)
            continue;
        stp_bandit_set_busy(l->bandit, k, h.key_us[k] / h.step_us);
        learner_report(l, STP_LEARN_BUSY, (int)k, 0, h.key_us[k]);
    }
    if (at_once >= 0)
        learner_report(l, STP_LEARN_HOST, -1, 0, at_once);
}

/* Hands the window to the bandit, as calls of each key. */
static void learner_set_window(struct stp_learner *l)
{
    const unsigned n_sequences = (unsigned)(l->window.n_calls / l->sequence);
    unsigned shares[STP_BANDIT_KEYS];

    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        shares[k] = l->shares[k] * n_sequences;
    stp_bandit_set_window(l->bandit, shares, l->window.n_calls);
}

/* The mean time from call to call of the samples; 0: not known. */
static double learner_pace(const struct stp_learner *l)
{
    size_t first = 0, last = l->n_samples - 1;

    while (first < last && l->begin_ns[first] == 0)
        first++;
    while (first < last && l->begin_ns[last] == 0)
        last--;
    return l->begin_ns[last] <= l->begin_ns[first]
               ? 0
               : (double)(l->begin_ns[last] - l->begin_ns[first]) / 1e3 /
                     (double)(last - first);
}

/* Reports what the schedule is expected to cost, at the pace of the samples. */
static void learner_tell_plan(const struct stp_learner *l)
{
    const struct stp_bandit_plan plan = stp_bandit_get_plan(l->bandit);
    const unsigned n_windows = STP_TRIAL_BLOCKS * STP_BLOCK_WINDOWS;
    unsigned n_rounds =
        (plan.n_trials + STP_SCHEDULE_MATES - 1) / STP_SCHEDULE_MATES;
    const double pace = learner_pace(l);
    double us;

    if (!(pace > 0))
        return;
    if (n_rounds < plan.n_most)
        n_rounds = plan.n_most;
    us = pace * l->window.n_calls * n_windows * n_rounds;
    learner_report_gain(l, STP_LEARN_PLAN, -1, 0, us,
                        us > 0 ? us / (us + plan.loss_us * n_windows / 2) : 1,
                        0, 0);
}

/* Ends the samples of a schedule, which has its window. */
static void learner_end_scheduled_sample(struct stp_learner *l)
{
    uint8_t keys[STP_HISTORY_CALLS];
    uint16_t runs[STP_HISTORY_CALLS];
    struct stp_window_choice choice;
    size_t last;

    if (l->begin_ns[l->n_samples - 1] == 0 &&
        learner_calls(l) <= l->sample_from + l->n_samples + LATE_CALLS)
        return;
    l->phase = TRY;
    learner_tell_plan(l);
    if (!stp_history_copy(l->history, l->sample_from, l->n_samples, keys))
        return;
    learner_count_runs(keys, l->n_samples, l->sequence, runs, &last);
    if (stp_windows_choose(l->begin_ns, runs, l->n_samples, l->window.n_calls,
                           &choice))
        stp_bandit_set_noise(l->bandit, choice.noise);
    learner_tell_headroom(l, keys, last + 1 - runs[last], runs[last]);
}

/* Finds a window to propose; false if there is none yet, calls do not repeat,
 * or no times arrive. */
static bool learner_end_sample(struct stp_learner *l,
                               struct stp_proposal *proposal_ret)
{
    uint8_t keys[STP_HISTORY_CALLS];
    uint16_t runs[STP_HISTORY_CALLS];
    size_t n = 0, last = 0;

    /* The last sample's time must have arrived, or be overdue. */
    if (l->begin_ns[l->n_samples - 1] == 0 &&
        learner_calls(l) <= l->sample_from + l->n_samples + LATE_CALLS)
        return false;
    if (stp_history_copy(l->history, l->sample_from, l->n_samples, keys)) {
        learner_count_runs(keys, l->n_samples, l->sequence, runs, &last);
        n = runs[last];
    }
    if (n < l->n_samples && (!l->is_interrupted || n < FIND_CALLS)) {
        if (l->find_least < STP_HISTORY_CALLS / 4)
            l->find_least *= 2;
        l->window.call_us = learner_pace(l);
        learner_find_again(l);
        return false;
    }
    if (!stp_windows_choose(l->begin_ns, runs, l->n_samples, l->sequence,
                            &l->window) ||
        !learner_count_shares(l, l->sample_from + last + 1 - n)) {
        learner_find_again(l);
        return false;
    }
    learner_set_window(l);
    stp_bandit_set_noise(l->bandit, l->window.noise);
    learner_tell_headroom(l, keys, last + 1 - n, n);
    l->phase = TRY;
    l->needs_window = false;
    memcpy(l->keys_of, keys + last + 1 - l->sequence, l->sequence);
    l->seen = l->sample_from + last + 1;
    l->expected = 0;
    l->odd_at = 0;
    l->n_broken = 0;
    l->check_at = learner_calls(l) + CHECK_CALLS;
    *proposal_ret = (struct stp_proposal){.kind = STP_PROPOSE_WINDOW,
                                          .n_calls = l->window.n_calls};
    return true;
}

/* Compares the new calls with the sequence, which resumes after calls of
 * another kind, an evaluation's, say.  Now and then it is judged whether the
 * job still makes the calls of the sequence. */
static void learner_follow_sequence(struct stp_learner *l)
{
    const uint64_t n_calls = learner_calls(l);
    uint8_t keys[STP_HISTORY_CALLS];
    size_t n = (size_t)(n_calls - l->seen);

    if (n > sizeof(keys) || !stp_history_copy(l->history, l->seen, n, keys)) {
        stp_windows_break_all(l->windows);
        l->seen = l->odd_at = n_calls;
        n = 0;
    }
    for (size_t i = 0; i < n; i++, l->seen++) {
        if (keys[i] == l->keys_of[l->expected]) {
            l->expected = (l->expected + 1) % l->sequence;
            continue;
        }
        stp_windows_break(l->windows, l->seen);
        l->odd_at = l->seen + 1;
    }
    if (n_calls < l->check_at)
        return;
    l->check_at = n_calls + CHECK_CALLS;
    if (n_calls >= l->odd_at + 2 * l->sequence)
        l->n_broken = 0;
    else if (++l->n_broken == BROKEN_CHECKS)
        learner_find_again(l);
}

/* ---- times ---- */

static void learner_tell_bound(struct stp_learner *l, unsigned key)
{
    const struct stp_bandit_bound bound = stp_bandit_get_bound(l->bandit, key);

    if (bound.n_tried == 0)
        return;
    learner_report_gain(l, STP_LEARN_BOUND, (int)key, bound.arm, bound.n_tried,
                        bound.gain, bound.gain_low, bound.gain_high);
    if (bound.n_untried != l->keys[key].untried)
        learner_report(l, STP_LEARN_UNTRIED, (int)key, 0, bound.n_untried);
    l->keys[key].untried = (uint8_t)bound.n_untried;
}

static void learner_take_blocks(struct stp_learner *l)
{
    uint64_t n_calls = learner_calls(l);
    uint64_t too_late = n_calls < LATE_CALLS ? 0 : n_calls - LATE_CALLS;
    uint8_t keys[STP_HISTORY_CALLS];
    struct stp_block block;

    while (stp_windows_next(l->windows, too_late, &block)) {
        const size_t n = (size_t)STP_BLOCK_WINDOWS * block.trial.n_calls;
        const bool is_set = block.trial.key == STP_BANDIT_SET;
        double gain = is_set ? 1 / exp(block.gain) : exp(block.gain);

        /* A block counts only if its windows made the same calls; those of a
         * set are told without what came between. */
        block.is_complete &=
            learner_is_scheduled(l) || is_set ||
            (n <= sizeof(keys) &&
             stp_history_copy(l->history, block.first_call, n, keys) &&
             stp_sequence_holds(keys, n, block.trial.n_calls));
        if (block.is_complete) {
            l->window.call_us +=
                (block.own_us / block.trial.n_calls - l->window.call_us) / 16;
            if (!is_set)
                learner_report(l, STP_LEARN_BLOCK, (int)block.trial.key,
                               block.trial.base, block.own_us);
            learner_report_gain(
                l, is_set ? STP_LEARN_SET : STP_LEARN_BLOCK,
                is_set ? -1 : (int)block.trial.key, block.trial.arm,
                is_set ? block.own_us : block.arm_us, gain, gain, gain);
        }
        if (is_set && !block.is_complete)
            learner_report(l, STP_LEARN_SET, -1, block.trial.arm, 0);
        stp_bandit_block(l->bandit, &block, n_calls);
        if (block.is_complete && !is_set)
            learner_tell_bound(l, block.trial.key);
    }
}

/* ---- notes ---- */

void stp_learner_note(struct stp_learner *l, const struct stp_note *note)
{
    const struct stp_bandit_want now = {
        .key = note->key, .arm = note->arm, .call = note->call};
    uint64_t at = note->call - l->sample_from;
    const bool is_sample =
        l->phase == SAMPLE && note->call >= l->sample_from && at < l->n_samples;

    if (note->kind == STP_NOTE_END) {
        if (is_sample)
            l->end_ns[at] = note->t_ns;
        return;
    }
    if (note->kind == STP_NOTE_TIME) {
        if (learner_is_by_file(l))
            return;
        if (note->host_ns != 0 && (is_sample || l->phase == FIND))
            stp_delays_add(&l->delays, note->host_ns, note->t_ns);
        if (note->key < STP_BANDIT_KEYS && note->n_channels > 0)
            stp_bandit_set_channels(l->bandit, note->key, note->arm,
                                    note->n_channels);
        stp_windows_time(l->windows, note->call, note->t_ns);
        if (is_sample)
            l->begin_ns[at] = note->t_ns;
        return;
    }
    l->is_waiting = false;
    if (note->kind == STP_NOTE_WINDOW && learner_is_scheduled(l)) {
        l->sequence = note->sequence;
        l->window.n_calls = note->n_calls;
        learner_count_shares(l, note->call - note->sequence);
        learner_set_window(l);
        stp_bandit_set_noise(l->bandit, unknown_noise);
        learner_begin_samples(l);
    }
    if (note->kind == STP_NOTE_WINDOW) {
        learner_report(l, STP_LEARN_WINDOW, -1, 0, note->n_calls);
    } else if (note->kind == STP_NOTE_TRIAL && note->key <= STP_BANDIT_SET) {
        const bool is_set = note->key == STP_BANDIT_SET;
        const struct stp_trial trial = {
            .key = note->key,
            .arm = note->arm,
            .base = is_set ? stp_bandit_get_set(l->bandit).number
                           : l->keys[note->key].in_force,
            .n_blocks = note->n_blocks,
            .n_calls = note->n_calls,
            .pattern = note->pattern,
            .first_call = note->call,
            .is_twofold = is_set};

        if (stp_windows_begin(l->windows, &trial) && !is_set)
            learner_report(l, STP_LEARN_TRIAL, (int)note->key, note->arm,
                           (double)stp_trial_windows(&trial) * note->n_calls);
    } else if (note->kind == STP_NOTE_BROKE) {
        stp_windows_break(l->windows, note->call);
    } else if (note->kind == STP_NOTE_ENDED) {
        l->is_ended = true;
    } else if (note->kind == STP_NOTE_SET && note->key < STP_BANDIT_KEYS) {
        stp_bandit_began(l->bandit, &now);
        if (l->keys[note->key].in_force != note->arm)
            learner_report(l, STP_LEARN_INCUMBENT, (int)note->key, note->arm,
                           0);
        l->keys[note->key].in_force = note->arm;
    }
}

void stp_learner_reward(struct stp_learner *learner, unsigned key, double ms)
{
    unsigned arm;

    if (key >= STP_BANDIT_KEYS || !learner_is_by_file(learner) ||
        !learner->keys[key].is_known)
        return;
    arm = learner->keys[key].in_force;
    learner_report(learner, STP_LEARN_REWARD, (int)key, arm, ms);
    stp_bandit_reward(learner->bandit, key, arm, ms);
}

/* ---- wants ---- */

static bool learner_is_trial(const struct stp_proposal *p)
{
    return p->kind == STP_PROPOSE_TRIAL || p->kind == STP_PROPOSE_CONFIRM ||
           p->kind == STP_PROPOSE_ROUND;
}

static bool learner_want_by_bandit(struct stp_learner *l,
                                   struct stp_proposal *p)
{
    const struct stp_bandit_clock clock = {learner_calls(l), l->window.call_us};
    struct stp_bandit_want want;

    if ((!learner_is_by_file(l) &&
         stp_windows_pending(l->windows) >= STP_WINDOWS_TRIALS) ||
        !stp_bandit_wants(l->bandit, &clock, &want) ||
        (want.n_mates > 0 &&
         stp_windows_pending(l->windows) + want.n_mates >= STP_WINDOWS_TRIALS))
        return false;
    l->wanted = want;
    if (want.n_mates > 0) {
        *p = (struct stp_proposal){
            .kind = STP_PROPOSE_ROUND,
            .n_blocks = want.n_blocks,
            .n_mates = want.n_mates + 1,
            .mates[0] = {(uint8_t)want.key, (uint8_t)want.arm}};
        for (unsigned i = 0; i < want.n_mates; i++) {
            p->mates[i + 1].key = (uint8_t)want.mates[i].key;
            p->mates[i + 1].index = (uint8_t)want.mates[i].arm;
        }
        return true;
    }
    if (want.key == STP_BANDIT_SET) {
        *p = (struct stp_proposal){.kind = STP_PROPOSE_CONFIRM,
                                   .arm.algo = -1,
                                   .n_blocks = want.n_blocks,
                                   .n_calls = want.n_calls};
        return true;
    }
    *p = (struct stp_proposal){
        .kind = want.n_blocks > 0 ? STP_PROPOSE_TRIAL : STP_PROPOSE_ARM,
        .key = want.key,
        .index = want.arm,
        .arm = stp_bandit_get_arm(l->bandit, want.key, want.arm).arm,
        .n_blocks = want.n_blocks,
    };
    return true;
}

/* Makes epochs long once all keys have settled. Only a proposal can tell the
 * ranks, so the arm in force for key 0 is proposed once more. */
static bool learner_want_long_epochs(struct stp_learner *l,
                                     struct stp_proposal *p)
{
    unsigned arm = stp_bandit_get_key(l->bandit, 0).running;

    if (l->is_settled || !l->keys[0].is_known ||
        (!learner_is_by_file(l) && stp_windows_pending(l->windows) > 0))
        return false;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        if (l->keys[k].is_known &&
            stp_bandit_awaits(l->bandit, k, learner_calls(l)))
            return false;
    *p = (struct stp_proposal){
        .kind = STP_PROPOSE_ARM,
        .index = arm,
        .arm = stp_bandit_get_arm(l->bandit, 0, arm).arm,
        .is_settled = true,
    };
    return true;
}

static bool learner_want(struct stp_learner *l, struct stp_proposal *p)
{
    if (!learner_is_by_file(l) && l->phase == FIND) {
        learner_find(l);
        return false;
    }
    if (!learner_is_by_file(l) && l->phase == SAMPLE)
        return learner_end_sample(l, p);
    if (l->needs_window) {
        l->needs_window = false;
        *p = (struct stp_proposal){.kind = STP_PROPOSE_WINDOW,
                                   .n_calls = l->window.n_calls};
        return true;
    }
    return (learner_calls(l) >= l->odd_at + l->sequence / 2 &&
            learner_want_by_bandit(l, p)) ||
           learner_want_long_epochs(l, p);
}

void stp_learner_conclude(struct stp_learner *l)
{
    learner_take_blocks(l);
    l->is_ended = false;
    stp_bandit_conclude(l->bandit);
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++) {
        learner_tell_bound(l, k);
        l->keys[k].was_settled = false; /* what is final is said again */
    }
    learner_report_results(l);
}

bool stp_learner_wants(struct stp_learner *l, bool may_propose,
                       struct stp_proposal *proposal_ret)
{
    if (l->phase == TRY && !learner_is_scheduled(l))
        learner_follow_sequence(l);
    if (!learner_is_by_file(l))
        learner_take_blocks(l);
    learner_report_results(l);
    if (learner_is_scheduled(l)) {
        if (l->phase == SAMPLE)
            learner_end_scheduled_sample(l);
        if (l->is_ended && stp_windows_pending(l->windows) == 0)
            stp_learner_conclude(l);
        return false;
    }
    if (l->is_waiting || !may_propose || !learner_want(l, proposal_ret))
        return false;
    l->is_waiting = true;
    l->proposed = *proposal_ret;
    l->is_settled = l->proposed.is_settled;
    if (learner_is_trial(&l->proposed)) /* counts as begun */
        stp_bandit_began(l->bandit, &l->wanted);
    return true;
}

void stp_learner_refuse(struct stp_learner *l)
{
    const struct stp_bandit_want *want = &l->wanted;

    if (!l->is_waiting)
        return;
    l->is_waiting = false;
    if (l->proposed.kind == STP_PROPOSE_WINDOW)
        l->needs_window = l->phase == TRY;
    else if (l->proposed.kind == STP_PROPOSE_ARM)
        l->is_settled = false;

    /* A trial that was refused ends with blocks that have no times. */
    for (unsigned m = 0; learner_is_trial(&l->proposed) && m <= want->n_mates;
         m++) {
        struct stp_block block = {
            .trial = {.key = want->key, .arm = want->arm}};

        if (m > 0) {
            block.trial.key = want->mates[m - 1].key;
            block.trial.arm = want->mates[m - 1].arm;
        }
        for (unsigned i = 1; i <= want->n_blocks; i++) {
            block.is_last = i == want->n_blocks;
            stp_bandit_block(l->bandit, &block, learner_calls(l));
        }
    }
}

bool stp_learner_is_sampling(const struct stp_learner *l)
{
    uint64_t n_calls = learner_calls(l);

    if (l->phase == FIND)
        return n_calls < FIND_CALLS && !learner_is_by_file(l);
    return l->phase == SAMPLE && n_calls < l->sample_from + l->n_samples;
}

/* ---- results ---- */

struct stp_bandit *stp_learner_bandit(const struct stp_learner *learner)
{
    return learner->bandit;
}
