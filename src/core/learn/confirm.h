/*
 * confirm.h - whether steps got shorter: one arm against another in turn, in
 * blocks of steps
 *
 * Steps of a real job vary by a fifth and drift, so that neighbouring blocks
 * are compared: the means of a block of each arm, without its shortest and its
 * longest step, make a pair, and the pairs' mean gain has an interval by
 * Student's t.  It is looked at after 5 pairs, 10, 20 and so on: several looks
 * at 95 percent would find a gain in nothing too often, so each is at 99.5.
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
    STP_CONFIRM_FIRST = 5,   /* pairs before the first look */
};

enum stp_confirm_state {
    STP_CONFIRM_OPEN,
    STP_CONFIRM_SHORTER, /* beyond doubt */
    STP_CONFIRM_LONGER,
    STP_CONFIRM_NOISY, /* more steps than it takes cannot be had */
};

struct stp_confirm {
    double expected;  /* gain of a step less 1, by what proposed the arm */
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

/* A step of what is in force took 'us'.  Returns true if the other is to be
 * run now, or the verdict is there. */
bool stp_confirm_step(struct stp_confirm *confirm, double us);

/* The other is in force from now on; steps before were given already. */
void stp_confirm_switch(struct stp_confirm *confirm, bool is_arm);

/* Gain of a step, with its 99.5 percent interval; 1, from 0 to infinity before
 * there are two pairs. */
void stp_confirm_gain(const struct stp_confirm *confirm, double *gain_ret,
                      double *low_ret, double *high_ret);

/* Steps of each arm that it takes to tell the expected gain from nothing, by
 * what the pairs vary; UINT64_MAX before there are two. */
uint64_t stp_confirm_needed(const struct stp_confirm *confirm);

#endif /* STP_CONFIRM_H */
