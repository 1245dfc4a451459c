#include "core/learn/windows.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/stats.h"

enum {
    N_TIMES = STP_TRIAL_BLOCKS * STP_BLOCK_WINDOWS + 1, /* of a trial */
    SPARE_BLOCKS = 2,  /* beside as many as trials that share them */
    N_TURNS = 100,     /* of least squares */
    LEAST_BLOCKS = 6,  /* by which the noise of a window's length is known */
    MOST_BLOCKS = 256, /* that are looked at */
};

/* The cost of a window in addition to its calls: an event of the profiler, and
 * a share of the time between trials. */
static const double window_cost_us = 500;

/* A block of trials that share it is left out where two windows that ran alike
 * differ by so many times the median, or the upper quartile where that leaves
 * too few, as pauses of a rhythm do; and by this logarithm, or by one that is
 * no noise. */
static const double disturbed_spreads = 4;
static const double least_spread = 0.01;
static const double most_spread = 0.3;
static const double odd_rest = 1.5; /* over the next largest */

struct pending {
    struct stp_trial trial;
    unsigned next_block;
    unsigned broken; /* a bit a block */
    bool is_shared;  /* its gains are known, as others share its windows */
    double gains[STP_TRIAL_BLOCKS];
    uint64_t begin_ns[N_TIMES]; /* of windows, and of what follows the last; 0:
                                   not known */
    unsigned n_odd[N_TIMES];    /* calls that are not the window's */
};

/* A ring; the oldest trial is at 'first'. */
struct stp_windows {
    size_t first;
    size_t n;
    uint64_t last_call; /* the latest whose time arrived */
    /* Least squares over pairs of windows with the same arm, of which one has
     * more odd calls than the other: sums of more * time, and of more squared.
     */
    double odd_us;
    double odd_squares;
    struct pending trials[STP_WINDOWS_TRIALS];
};

struct stp_windows *stp_windows_new(void)
{
    return calloc(1, sizeof(struct stp_windows));
}

void stp_windows_free(struct stp_windows *windows)
{
    free(windows);
}

size_t stp_windows_pending(const struct stp_windows *windows)
{
    return windows->n;
}

static uint64_t block_calls(const struct stp_trial *trial)
{
    return (uint64_t)STP_BLOCK_WINDOWS * stp_trial_turn(trial) * trial->n_calls;
}

static struct pending *windows_at(struct stp_windows *w, size_t i)
{
    return &w->trials[(w->first + i) % STP_WINDOWS_TRIALS];
}

bool stp_windows_begin(struct stp_windows *windows,
                       const struct stp_trial *trial)
{
    if (windows->n == STP_WINDOWS_TRIALS ||
        stp_trial_windows(trial) >= N_TIMES || trial->n_calls == 0)
        return false;
    *windows_at(windows, windows->n++) = (struct pending){.trial = *trial};
    return true;
}

void stp_windows_time(struct stp_windows *windows, uint64_t call, uint64_t ns)
{
    if (call > windows->last_call)
        windows->last_call = call;
    for (size_t i = 0; i < windows->n; i++) {
        struct pending *p = windows_at(windows, i);
        uint64_t at = call - p->trial.first_call;

        if (call >= p->trial.first_call && at % p->trial.n_calls == 0 &&
            at / p->trial.n_calls <= stp_trial_windows(&p->trial))
            p->begin_ns[at / p->trial.n_calls] = ns;
    }
}

void stp_windows_break(struct stp_windows *windows, uint64_t call)
{
    for (size_t i = 0; i < windows->n; i++) {
        struct pending *p = windows_at(windows, i);
        const uint64_t at = call - p->trial.first_call;
        const uint64_t window = at / p->trial.n_calls;

        if (call < p->trial.first_call ||
            window >= stp_trial_windows(&p->trial))
            continue;
        if (p->trial.is_twofold)
            p->n_odd[window]++;
        else
            p->broken |= 1U << at / block_calls(&p->trial);
    }
}

void stp_windows_break_all(struct stp_windows *windows)
{
    for (size_t i = 0; i < windows->n; i++)
        windows_at(windows, i)->broken = ~0U;
}

/* ---- blocks ---- */

/* The last window of each turn. */
static bool block_read(const struct pending *p, unsigned block,
                       double us[STP_BLOCK_WINDOWS])
{
    unsigned turn = stp_trial_turn(&p->trial);
    const uint64_t *ns =
        p->begin_ns + (size_t)block * STP_BLOCK_WINDOWS * turn + turn - 1;

    if ((p->broken >> block & 1) != 0)
        return false;
    for (int i = 0; i < STP_BLOCK_WINDOWS; i++, ns += turn) {
        if (ns[0] == 0 || ns[1] <= ns[0])
            return false;
        us[i] = (double)(ns[1] - ns[0]) / 1e3;
    }
    return true;
}

/* Takes odd calls out of a twofold trial's windows, which have so many fewer of
 * the others: windows of the same arm with unlike numbers tell what an odd one
 * takes on average.  False if that is not known yet. */
static bool block_take_odd_out(struct stp_windows *windows,
                               const struct pending *p, unsigned block,
                               double us[STP_BLOCK_WINDOWS])
{
    const double n = p->trial.n_calls;
    double odd[STP_BLOCK_WINDOWS];
    bool is_right = true;

    if (!p->trial.is_twofold)
        return true;
    for (unsigned i = 0; i < STP_BLOCK_WINDOWS; i++)
        odd[i] = p->n_odd[2 * (STP_BLOCK_WINDOWS * block + i) + 1];
    for (unsigned i = 0; i < STP_BLOCK_WINDOWS / 2; i++) {
        const unsigned mate = STP_BLOCK_WINDOWS - 1 - i;
        const double more = odd[i] - odd[mate];

        windows->odd_us +=
            more * (us[i] * (n - odd[mate]) - us[mate] * (n - odd[i])) / n;
        windows->odd_squares += more * more;
    }
    if (!(windows->odd_squares > 0))
        return odd[0] + odd[1] + odd[2] + odd[3] == 0;
    for (unsigned i = 0; i < STP_BLOCK_WINDOWS; i++) {
        us[i] -= odd[i] * windows->odd_us / windows->odd_squares;
        us[i] *= n / (n - odd[i]);
        is_right &= us[i] > 0 && 2 * odd[i] <= n;
    }
    return is_right;
}

/* The call before which block 'i' begins. */
static uint64_t block_begin(const struct stp_trial *trial, unsigned i)
{
    return trial->first_call + i * block_calls(trial);
}

/* The gain of the two inner windows over the two outer ones. */
static double block_gain(const double us[STP_BLOCK_WINDOWS])
{
    return log((us[0] + us[3]) / (us[1] + us[2]));
}

/* Whether a block is broken, or times that it lacks never arrive. */
static bool block_is_late(const struct stp_windows *windows,
                          const struct pending *p, unsigned block,
                          uint64_t too_late)
{
    const uint64_t end = block_begin(&p->trial, block + 1);

    return (p->broken >> block & 1) != 0 ||
           windows->last_call > end + block_calls(&p->trial) || too_late > end;
}

/* ---- trials that share their windows ---- */

/* The blocks of such trials: their gains add up, with a sign each. */
struct shared {
    size_t n; /* trials */
    struct pending *trials[STP_TRIAL_BLOCKS];
    unsigned n_blocks; /* that are whole */
    unsigned blocks[STP_TRIAL_BLOCKS];
    double rests[STP_TRIAL_BLOCKS];   /* of each one's gain, unexplained yet */
    double spreads[STP_TRIAL_BLOCKS]; /* the larger one */
};

static double shared_sign(const struct pending *p, unsigned block)
{
    return stp_trial_is_arm(p->trial.first_call, p->trial.pattern,
                            block * STP_BLOCK_WINDOWS)
               ? -1
               : 1;
}

/* Reads the blocks; false if times are to come.  One that a stall has hit would
 * be in the gains of all: it is left out. */
static bool shared_read(const struct stp_windows *windows, uint64_t too_late,
                        struct shared *s)
{
    const struct pending *p = s->trials[0];
    double us[STP_BLOCK_WINDOWS], sorted[STP_TRIAL_BLOCKS];
    struct stp_summary all;
    unsigned kept[STP_TRIAL_BLOCKS], n = 0;
    double most;

    for (unsigned b = 0; b < p->trial.n_blocks; b++) {
        if (block_read(p, b, us)) {
            s->blocks[s->n_blocks] = b;
            s->rests[s->n_blocks] = block_gain(us);
            s->spreads[s->n_blocks++] =
                fmax(fabs(log(us[0] / us[3])), fabs(log(us[1] / us[2])));
        } else if (!block_is_late(windows, p, b, too_late))
            return false;
    }
    if (s->n_blocks == 0)
        return true;
    memcpy(sorted, s->spreads, sizeof(sorted));
    stp_summarise(sorted, s->n_blocks, &all); /* which sorts */
    for (unsigned q = 2; q < 4 && n < s->n + SPARE_BLOCKS; q++) {
        most = disturbed_spreads * sorted[q * s->n_blocks / 4];
        most = fmin(fmax(most, least_spread), most_spread);
        n = 0;
        for (unsigned i = 0; i < s->n_blocks; i++)
            if (s->spreads[i] <= most)
                kept[n++] = i;
    }
    for (unsigned i = 0; i < n; i++) {
        s->blocks[i] = s->blocks[kept[i]];
        s->rests[i] = s->rests[kept[i]];
    }
    s->n_blocks = n;
    return true;
}

/* Drops a block that the gains explain far worse than the others: stalls may
 * have hit both windows alike. */
static bool shared_drop(struct shared *s)
{
    unsigned worst = 0;
    double next = least_spread;

    for (unsigned i = 1; i < s->n_blocks; i++)
        if (fabs(s->rests[i]) > fabs(s->rests[worst]))
            worst = i;
    for (unsigned i = 0; i < s->n_blocks; i++)
        if (i != worst)
            next = fmax(next, odd_rest * fabs(s->rests[i]));
    if (s->n_blocks <= s->n + SPARE_BLOCKS || fabs(s->rests[worst]) <= next)
        return false;
    s->n_blocks--;
    s->blocks[worst] = s->blocks[s->n_blocks];
    s->rests[worst] = s->rests[s->n_blocks];
    return true;
}

/* Whether no two trials took the same turns in all blocks that are left. */
static bool shared_is_apart(const struct shared *s)
{
    for (size_t i = 1; i < s->n; i++)
        for (size_t j = 0; j < i; j++) {
            double sum = 0;

            for (unsigned b = 0; b < s->n_blocks; b++)
                sum += shared_sign(s->trials[i], s->blocks[b]) *
                       shared_sign(s->trials[j], s->blocks[b]);
            if (fabs(sum) >= s->n_blocks)
                return false;
        }
    return true;
}

/* Fills the gains of all trials that share the oldest's windows: least squares,
 * one gain after the other until all agree.  False if times are to come.  What
 * is left of a block when all gains are taken out is noise, and larger by the
 * number of gains than it looks. */
static bool windows_solve(struct stp_windows *w, uint64_t too_late)
{
    struct shared s = {.n = 0};
    double gain[STP_TRIAL_BLOCKS] = {0};
    unsigned whole = 0;
    double by;

    for (; s.n < w->n && s.n < STP_TRIAL_BLOCKS; s.n++) {
        s.trials[s.n] = windows_at(w, s.n);
        if (s.trials[s.n]->trial.first_call != s.trials[0]->trial.first_call)
            break;
    }
    if (s.n < 2)
        return true;
    if (!shared_read(w, too_late, &s))
        return false;
    if (s.n_blocks < s.n + SPARE_BLOCKS)
        s.n_blocks = 0;
    do {
        for (size_t i = 0; s.n_blocks > 0 && i < N_TURNS * s.n; i++) {
            const struct pending *p = s.trials[i % s.n];
            double sum = 0;

            for (unsigned b = 0; b < s.n_blocks; b++)
                sum += shared_sign(p, s.blocks[b]) * s.rests[b];
            gain[i % s.n] += sum / s.n_blocks;
            for (unsigned b = 0; b < s.n_blocks; b++)
                s.rests[b] -= shared_sign(p, s.blocks[b]) * sum / s.n_blocks;
        }
    } while (shared_drop(&s));
    if (!shared_is_apart(&s))
        s.n_blocks = 0;
    by = sqrt(((double)s.n_blocks - 1) / ((double)s.n_blocks - (double)s.n));
    for (unsigned b = 0; b < s.n_blocks; b++)
        whole |= 1U << s.blocks[b];
    for (size_t i = 0; i < s.n; i++) {
        struct pending *p = s.trials[i];

        p->is_shared = true;
        p->broken |= ~whole;
        for (unsigned b = 0; b < s.n_blocks; b++)
            p->gains[s.blocks[b]] =
                gain[i] + by * s.rests[b] * shared_sign(p, s.blocks[b]);
    }
    return true;
}

bool stp_windows_next(struct stp_windows *windows, uint64_t too_late,
                      struct stp_block *block_ret)
{
    struct pending *p = windows_at(windows, 0);
    struct stp_block block = {.is_complete = true};
    double us[STP_BLOCK_WINDOWS];
    unsigned i = p->next_block;

    if (windows->n == 0 ||
        (i == 0 && !p->is_shared && !windows_solve(windows, too_late)))
        return false;
    if (block_read(p, i, us)) {
        const bool is_even = block_take_odd_out(windows, p, i, us);
        const bool is_baab = stp_trial_is_arm(
            p->trial.first_call, p->trial.pattern, i * STP_BLOCK_WINDOWS);
        double outer = (us[0] + us[3]) / 2, inner = (us[1] + us[2]) / 2;

        block.is_complete = is_even;
        block.own_us = is_baab ? inner : outer;
        block.arm_us = is_baab ? outer : inner;
        block.gain = is_baab ? -block_gain(us) : block_gain(us);
        block.spread[is_baab] = log(us[0] / us[3]);
        block.spread[!is_baab] = log(us[1] / us[2]);
        if (p->is_shared) {
            block.gain = p->gains[i];
            block.arm_us = block.own_us / exp(block.gain);
        }
    } else if (p->is_shared || block_is_late(windows, p, i, too_late)) {
        block.is_complete = false; /* its times never arrive */
    } else {
        return false;
    }
    block.trial = p->trial;
    block.first_call = block_begin(&p->trial, i);
    block.is_last = ++p->next_block == p->trial.n_blocks;
    if (block.is_last) {
        windows->first = (windows->first + 1) % STP_WINDOWS_TRIALS;
        windows->n--;
    }
    *block_ret = block;
    return true;
}

/* ---- how long a window should be ---- */

/* Bounds the noise of a block by blocks whose four windows ran alike: by their
 * gains, or by their spreads, which vary by the root of 2 more and show events
 * that alternate with the windows. Mean squares include the stalls of GPUs, and
 * choose the length of a window; medians do not. Few blocks may be alike by
 * chance. False if there are too few. */
static bool choose_noise(const uint64_t *begin_ns, const uint16_t *runs,
                         size_t n, struct stp_window_choice *choice)
{
    const size_t n_calls = choice->n_calls, block = STP_BLOCK_WINDOWS * n_calls;
    struct pending p = {.trial.n_calls = (unsigned)n_calls};
    double us[STP_BLOCK_WINDOWS], gains[MOST_BLOCKS], spreads[2 * MOST_BLOCKS];
    double squares[2] = {0, 0}, sum_us = 0, bound;
    size_t k = 0;

    for (size_t at = 0; at + block < n && k < MOST_BLOCKS;) {
        if (runs[at + block] <= block) { /* on to where that one begins */
            at += block + 1 - runs[at + block];
            continue;
        }
        for (size_t i = 0; i <= STP_BLOCK_WINDOWS; i++)
            p.begin_ns[i] = begin_ns[at + i * n_calls];
        if (!block_read(&p, 0, us)) {
            at++;
            continue;
        }
        gains[k] = fabs(block_gain(us));
        spreads[2 * k] = fabs(log(us[0] / us[3]));
        spreads[2 * k + 1] = fabs(log(us[1] / us[2]));
        for (int i = 0; i < 2; i++)
            squares[1] += spreads[2 * k + i] * spreads[2 * k + i];
        squares[0] += gains[k] * gains[k];
        sum_us += us[0] + us[1] + us[2] + us[3];
        at += n_calls;
        k++;
    }
    if (k < LEAST_BLOCKS)
        return false;
    bound = 1 + 2 / sqrt((double)k);
    choice->call_us = sum_us / (double)(k * block);
    choice->all_noise =
        sqrt(fmax(squares[0], squares[1] / 4) / (double)k) * bound;
    choice->noise = fmax(stp_robust_stddev(gains, k),
                         stp_robust_stddev(spreads, 2 * k) / sqrt(2)) *
                    bound;
    choice->noise = fmin(choice->noise, choice->all_noise);
    return true;
}

/* Returns the time in which a gain is found, up to a factor: the number of
 * blocks grows with the square of the noise, and a block lasts as long as its
 * windows. One long pause among the calls disturbs all lengths alike. */
static double choose_worth(const struct stp_window_choice *choice)
{
    return choice->all_noise * choice->all_noise *
           (choice->n_calls + window_cost_us / choice->call_us);
}

/* Takes the shortest of the windows of about the best worth, as many blocks
 * tell more about their noise than few. */
bool stp_windows_choose(const uint64_t *begin_ns, const uint16_t *runs,
                        size_t n, size_t sequence,
                        struct stp_window_choice *choice_ret)
{
    struct stp_window_choice choice = {0};
    double least = INFINITY;

    for (bool knows_least = false;; knows_least = true) {
        for (size_t w = sequence;
             w <= STP_WINDOW_MAX && w * STP_BLOCK_WINDOWS < n; w += sequence) {
            choice.n_calls = (unsigned)w;
            if (!choose_noise(begin_ns, runs, n, &choice))
                continue;
            if (knows_least && choose_worth(&choice) <= 1.5 * least) {
                *choice_ret = choice;
                return true;
            }
            least = fmin(least, choose_worth(&choice));
        }
        if (knows_least)
            return false;
    }
}
