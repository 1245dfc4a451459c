/*
 * decision.h - what ranks publish: an arm for a key, in 31 bits
 */
#ifndef STP_DECISION_H
#define STP_DECISION_H

#include <stdint.h>

#include "core/learn/bandit.h"

enum {
    /* Calls of an epoch: few while something is tried, which with HALVING is
     * for a call or two, and with EPSILON for the epoch. */
    STP_EPOCH_HALVING = 4,
    STP_EPOCH_EPSILON = 8,
    STP_EPOCH_SETTLED = 256,
    STP_DECISION_CALLS = 31, /* at most */
};

struct stp_decision {
    unsigned key; /* below STP_BANDIT_KEYS */
    unsigned arm; /* its number, below STP_BANDIT_ARMS */
    struct stp_bandit_arm what;
    unsigned n_calls; /* of the key, after which every rank goes back to what
                         was in force; 0: it stays */
    bool is_settled;  /* epochs are long from now on */
};

/* Never 0, and below 1 << 31. */
static inline uint32_t stp_decision_pack(const struct stp_decision *d)
{
    return UINT32_C(1) << 30 | (uint32_t)(d->what.algo + 1) << 27 |
           ((uint32_t)d->what.proto & 3) << 25 |
           (uint32_t)d->what.n_channels << 18 | (uint32_t)d->key << 11 |
           (uint32_t)d->arm << 6 | (uint32_t)d->n_calls << 1 |
           (uint32_t)d->is_settled;
}

static inline struct stp_decision stp_decision_unpack(uint32_t word)
{
    return (struct stp_decision){
        .key = word >> 11 & 0x7f,
        .arm = word >> 6 & 0x1f,
        .what = {.algo = (int8_t)((int)(word >> 27 & 7) - 1),
                 .proto = (int8_t)(word >> 25 & 3),
                 .n_channels = (uint8_t)(word >> 18 & 0x7f)},
        .n_calls = word >> 1 & 0x1f,
        .is_settled = (word & 1) != 0,
    };
}

#endif /* STP_DECISION_H */
