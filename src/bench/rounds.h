/* rounds.h - which round comes next, and which of its arms: rounds that were
 * disturbed run again, arms that are beyond doubt stop, and arms that promise a
 * gain go on
 *
 * A machine that pauses for a moment stretches one arm of a round, or all of
 * them by different factors, and a mean over rounds then hides what the other
 * rounds agree on.  So such a round runs again instead of being averaged.
 *
 * A time is compared with the median of its arm over the rounds, and what all
 * arms of a round have in common is taken off first.  A round is disturbed if
 * that leaves an arm, AUTO's second run among them, further out than six times
 * the spread, and by more than STP_ROUNDS_FAR, or than STP_ROUNDS_SURE whatever
 * the spread; or if the whole round is longer or shorter than the others by
 * STP_ROUNDS_SHIFT.  The rule knows neither the sign of a deviation nor which
 * arm is AUTO, and a round goes with all of its arms: it favours nobody.  An
 * arm far out by itself in over a third of the rounds is so by nature, and none
 * runs again.
 *
 * Where more than half of the rounds are disturbed, no median tells; but
 * nothing makes a machine faster.  So while a round is shorter as a whole than
 * the others by STP_ROUNDS_SHIFT, rounds are added, too.
 *
 * A recorded round that has the same times when it runs again was recorded so,
 * and is not disturbed; no recorded round counts twice.
 *
 * At most stp_rounds_spare() further rounds run for those that were disturbed,
 * and of recorded ones as many more as are planned.  The first that are not
 * disturbed then count, as many as are planned: half of them, and two, will do.
 * Where the machine has fewer, all stay. */
#pragma once

#include "bench/measurement.h"

/* Logarithms of times. */
#define STP_ROUNDS_FAR   0.1
#define STP_ROUNDS_SURE  0.35
#define STP_ROUNDS_SHIFT 0.25

/* For devices of unlimited rounds; others run those planned. */
struct stp_rounds_terms {
    /* An arm with so many rounds stops if its whole interval lies below the
     * gain of a rule, and a plugin that ran as AUTO, with nothing else to
     * measure, after the first.  One of whose rounds fewer than two prove to be
     * undisturbed, or fewer than planned, and too few for what it promises,
     * resumes, for stp_rounds_spare() at most.  0: all arms have all. */
    unsigned few;
    /* An arm that is unsure after the rounds planned has so many, in one go, as
     * looking after each would find gains that are none; and twice as many
     * where their spread says that these will settle it.  So have the two
     * tuners' arms that gain most while it is open which is faster, and twice
     * as many if that may be worth 'min_gain'.  0: none has more. */
    unsigned most;
    double min_gain; /* of a rule: arms are unsure about it */
    bool is_exact; /* as many rounds as are planned count, if need be disturbed
                      ones: a recording has the same number everywhere */
};

enum { STP_ROUNDS_MOST = 4096, STP_ROUNDS_LANES = 2 * STP_MAX_ARMS };

/* An arm, in place or not, launched or captured. */
struct stp_rounds_lane {
    size_t row; /* its first */
    bool in_place;
    bool graph;
    bool is_stopped;
    bool is_resumed; /* it stopped, but has too few rounds */
};

/* The rounds of one setting. */
struct stp_rounds {
    struct stp_rounds_terms terms;
    unsigned rounds;          /* that are planned */
    unsigned n_spare;         /* further ones */
    bool repeats;             /* the device can run a round again */
    bool is_recorded;         /* it then has its times again */
    struct stp_dataset *data; /* rows of the setting are those from 'first' */
    size_t first;
    size_t n_seen; /* rows of which the lanes are known */
    struct stp_rounds_lane lanes[STP_ROUNDS_LANES]; /* that have rows */
    size_t n_lanes;
    unsigned n_run;               /* rounds so far */
    unsigned n_until;             /* undisturbed ones that are wanted */
    unsigned n_more;              /* and so many for arms that resumed */
    unsigned at[STP_ROUNDS_MOST]; /* of each round, its place in the plan */
    bool is_disturbed[STP_ROUNDS_MOST];
};

/* Begins the 'rounds' >= 1 of a setting whose rows will follow those that are
 * there.  Of more than about 1600 none runs again, and no arm stops. */
void stp_rounds_begin(unsigned rounds, const struct stp_rounds_terms *terms,
                      const struct stp_device_info *info,
                      struct stp_dataset *data, struct stp_rounds *rounds_ret);

/* Further rounds that may run for those that are disturbed. */
unsigned stp_rounds_spare(unsigned rounds);

/* Whether a round is to run: *round_ret is its number, from 0 without a gap,
 * and *at_ret its place among those planned, from their number on if a round
 * was there already, as stp_device_begin_round() takes it. */
bool stp_rounds_next(struct stp_rounds *rounds, unsigned *round_ret,
                     unsigned *at_ret);

/* Whether the arm, in place or not, launched or captured, runs in the round
 * that stp_rounds_next() named. */
bool stp_rounds_has(const struct stp_rounds *rounds, const struct stp_arm *arm,
                    bool in_place, bool graph);

/* Ends the setting: leaves out rounds that do not count, numbers the others
 * from 0 without a gap, and counts in the data what ran again.  'samples', of
 * 'iters' a row from the setting's first row on, go with their rows; NULL if
 * there are none. */
void stp_rounds_end(struct stp_rounds *rounds, double *samples,
                    size_t *n_samples);
