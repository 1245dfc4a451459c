/*
 * confirm.h - whether an arm makes steps shorter: it and the baseline run in
 * turn, in blocks of steps
 *
 * Steps of a real job vary by a fifth and drift, so that neighbouring blocks
 * are compared: the means of a block of each arm, without its shortest and its
 * longest step, make a pair, and the pairs' mean gain has an interval by
 * Student's t.  The interval is judged after 5 pairs, 10, 20 and so on:
 * several verdicts at 95 percent would find a gain between equal arms too
 * often, so each is at 99.5.
 *
 * Pure.  One thread at a time.
 */
#ifndef STP_CONFIRM_H
#define STP_CONFIRM_H

#include <stdbool.h>
#include <stdint.h>

enum {
    STP_CONFIRM_BLOCK = 8,   /* steps */
    STP_CONFIRM_PAIRS = 640, /* at most */
    STP_CONFIRM_FIRST = 5,   /* pairs before the first verdict */
};

enum stp_confirm_state {
    STP_CONFIRM_OPEN,
    STP_CONFIRM_SHORTER, /* beyond doubt */
    STP_CONFIRM_LONGER,
    STP_CONFIRM_NOISY, /* a verdict takes too many steps */
};

struct stp_confirm {
    double expected;  /* gain of a step less 1, by the GPU's times */
    bool is_arm;      /* the arm under test is in force, not the baseline */
    unsigned n_steps; /* of the block so far */
    double steps[STP_CONFIRM_BLOCK];
    double baseline; /* of the last baseline block; 0: none yet */
    unsigned n_pairs;
    double mean; /* of the pairs' logarithms: above 0 is shorter */
    double m2;   /* sum of their squared distances from it */
    enum stp_confirm_state state;
};

/* Begins, with the baseline in force.  'expected' above 0. */
void stp_confirm_begin(struct stp_confirm *confirm, double expected);

/* A step with the arm in force took 'us'.  Returns true if the other arm is to
 * run now, or there is a verdict. */
bool stp_confirm_step(struct stp_confirm *confirm, double us);

/* The other arm is in force from now on, after all steps given so far. */
void stp_confirm_switch(struct stp_confirm *confirm, bool is_arm);

/* Gain of a step, with its 99.5 percent interval; 1, from 0 to infinity before
 * there are two pairs. */
void stp_confirm_gain(const struct stp_confirm *confirm, double *gain_ret,
                      double *low_ret, double *high_ret);

/* Steps of each arm that it takes to tell the expected gain from none, by the
 * pairs' deviation; UINT64_MAX before there are two pairs. */
uint64_t stp_confirm_needed(const struct stp_confirm *confirm);

#endif /* STP_CONFIRM_H */
