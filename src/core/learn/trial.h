/* trial.h - when an arm on trial is in force: the same on all ranks
 *
 * A trial is blocks of four windows of equal work: the arm runs in two of them,
 * the incumbent in the other two, in the order ABBA or BAAB.  A linear drift
 * cancels in either; which of the two it is looks random, so that nothing else
 * that repeats with the calls favours an arm.  Trials of several keys may share
 * their windows: from block to block each is turned around in a pattern of its
 * own, and over 8 blocks any two patterns are orthogonal.
 *
 * A GPU at its power limit runs at a lower clock when steps are shorter, and
 * takes some 100 ms to find it: on 2 x H200 an arm made windows of 2 to 24 ms
 * 1.05 times as fast, those of 480 ms 1.02, and whole runs 1.016.  So the trial
 * that says what steps gain has two windows in place of each, of which the
 * second counts. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/rng.h"

enum {
    STP_BLOCK_WINDOWS = 4,
    STP_TRIAL_BLOCKS = 8,  /* of a trial, at most */
    STP_TRIAL_MATES = 3,   /* arms that share its windows, at most: */
    STP_SHARED_KEYS = 32,  /* of the first keys, */
    STP_SHARED_ARMS = 16,  /* each one of its first arms */
    STP_WINDOW_MAX = 4095, /* calls of a window */
    STP_SHARED_MAX = 200,  /* likewise, of trials that share it: the history
                              still has the first when the last has times */
    STP_TRIAL_LEAD = 8,    /* calls between the epoch and the first window, in
                              which the profiler is switched on: NCCL asks it
                              before it asks the tuner */
};

struct stp_trial {
    unsigned key;  /* below STP_BANDIT_KEYS; STP_BANDIT_SET: of all keys */
    unsigned arm;  /* of the key; 0 of all keys */
    unsigned base; /* the incumbent: an arm, or of all keys the set's number */
    unsigned n_blocks;
    unsigned n_calls;    /* of a window */
    unsigned pattern;    /* below STP_TRIAL_BLOCKS; 0 of a trial alone */
    uint64_t first_call; /* calls of the communicator before its first window */
    bool is_twofold;     /* two windows in place of each: the second counts */
};

/* Windows in a row of which one counts. */
static inline unsigned stp_trial_turn(const struct stp_trial *trial)
{
    return trial->is_twofold ? 2 : 1;
}

/* The pattern of the i-th trial that shares windows: 0, 1, 2 and 4 can be told
 * apart in any 6 of 8 blocks. */
static inline unsigned stp_trial_pattern(unsigned i)
{
    return 1U << i >> 1;
}

/* Whether the arm runs in the window, from 0, and not the incumbent; of a
 * twofold trial, in both windows with this number. */
static inline bool stp_trial_is_arm(uint64_t first_call, unsigned pattern,
                                    unsigned window)
{
    const unsigned block = window / STP_BLOCK_WINDOWS;
    const unsigned is_inner = (window + 1) >> 1 & 1;
    const unsigned is_turned = (unsigned)stp_hash(first_call, block) & 1;

    return ((is_inner ^ is_turned ^
             (unsigned)__builtin_popcount(pattern & block)) &
            1) != 0;
}

/* Windows of a trial. */
static inline unsigned stp_trial_windows(const struct stp_trial *trial)
{
    return trial->n_blocks * STP_BLOCK_WINDOWS * stp_trial_turn(trial);
}
