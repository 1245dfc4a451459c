/* windows.h - GPU times of windows of equal work, paired
 *
 * A window lasts from when its first collective begins on the GPU to when the
 * first one of the next window begins: the job's compute and all that waits are
 * in it.  So only one call a window is timed, and the host may be ahead of the
 * GPU by any number of calls.  Times are of one rank's GPU, by its own clock;
 * collectives keep the ranks in step.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/learn/trial.h"

enum {
    STP_WINDOWS_TRIALS = 32, /* that wait for times, at most */
};

/* Four windows of a trial. */
struct stp_block {
    struct stp_trial trial;
    uint64_t first_call; /* of the block */
    bool is_complete;    /* all of its times arrived: else those below are 0 */
    bool is_last;        /* of the trial */
    double own_us;       /* of a window, under the incumbent and the arm */
    double arm_us;
    double gain;      /* logarithm of own_us / arm_us */
    double spread[2]; /* logarithms of the ratios of the incumbent's windows and
                         of the arm's: noise */
};

struct stp_windows; /* opaque */

struct stp_windows *stp_windows_new(void); /* NULL: out of memory */
void stp_windows_free(struct stp_windows *windows);

/* Trials that wait for times. */
size_t stp_windows_pending(const struct stp_windows *windows);

/* Begins a trial, after all trials before it. False if it is dropped, as
 * STP_WINDOWS_TRIALS wait already. */
bool stp_windows_begin(struct stp_windows *windows,
                       const struct stp_trial *trial);

/* Takes the time 'ns', above 0, at which call 'call' began on the GPU. */
void stp_windows_time(struct stp_windows *windows, uint64_t call, uint64_t ns);

/* Call number 'call' was not the one that the windows' equal work has, but an
 * evaluation's, say.  The block that it is in is not complete; a twofold
 * trial's is told without the time of such calls, which windows of the same arm
 * with unlike numbers of them show. */
void stp_windows_break(struct stp_windows *windows, uint64_t call);

/* Nobody knows what the last calls were: no block under way is complete. */
void stp_windows_break_all(struct stp_windows *windows);

/* Takes the next block in order, once its times have arrived or are no longer
 * expected. Times are no longer expected once times of later windows have
 * arrived, or for calls before call 'too_late'. False if there is no such block
 * yet.  Trials that share their windows have the same 'first_call': their
 * blocks are told once all of those are there, each without what the others
 * gained (least squares over the blocks), and with its noise. */
bool stp_windows_next(struct stp_windows *windows, uint64_t too_late,
                      struct stp_block *block_ret);

/* ---- how long a window should be ---- */

/* The worth of windows of 'n_calls'. */
struct stp_window_choice {
    unsigned n_calls;
    double call_us;   /* mean time from call to call */
    double noise;     /* of a block's gain: standard deviation of its logarithm
                         without the stalls of GPUs */
    double all_noise; /* the same with them */
};

/* Chooses the window, a multiple of 'sequence' calls, by which a gain is found
 * in the least time: begin_ns[i] is when the i-th of 'n' calls began on the
 * GPU, 0 if it is not known, and runs[i] the calls up to and with it that
 * repeat the sequence and ran alike: others may come between, and no block is
 * of two such runs.  A job may have a longer rhythm than its calls show, as a
 * pause after each 24 equal calls: windows of that many calls have less noise.
 * False if too few are known for any. */
bool stp_windows_choose(const uint64_t *begin_ns, const uint16_t *runs,
                        size_t n, size_t sequence,
                        struct stp_window_choice *choice_ret);
