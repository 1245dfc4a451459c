/*
 * mock_round.h - which recorded round plays, and what is disturbed in it
 */
#ifndef STP_MOCK_ROUND_H
#define STP_MOCK_ROUND_H

#include <stdbool.h>

#include "device/mock/mock_program.h"

/* The round that plays; 0 but for 'stalls' to begin with. */
struct stp_mock_round {
    double stalls;   /* share of rounds */
    uint64_t number; /* of rounds that began */
    unsigned n_arms; /* selected in it so far */
    unsigned arm;    /* that alone is disturbed, as it was selected */
    bool is_disturbed;
    bool all;       /* its arms */
    uint64_t place; /* a hash of which one it is, however often it runs */
};

/* Begins round 'round' of 'n_rounds', or again from there on; of 0 any recorded
 * one. */
void stp_mock_round_begin(struct stp_mock_round *r, unsigned round,
                          unsigned n_rounds, struct stp_virtual_time *time);

/* Begins the next arm of the round. */
void stp_mock_round_select(struct stp_mock_round *r, const struct stp_arm *arm,
                           struct stp_virtual_time *time);

#endif /* STP_MOCK_ROUND_H */
