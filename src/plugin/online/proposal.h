/*
 * proposal.h - what the observer proposes: an arm for a key, in 31 bits
 */
#ifndef STP_PROPOSAL_H
#define STP_PROPOSAL_H

#include <stdint.h>

#include "core/learn/bandit.h"

enum {
    /* Calls of an epoch: few while arms are tried, which with HALVING takes a
     * call or two, and with EPSILON the epoch. */
    STP_EPOCH_HALVING = 4,
    STP_EPOCH_EPSILON = 8,
    STP_EPOCH_SETTLED = 256,
    STP_PROPOSAL_CALLS = 31, /* at most */
};

struct stp_proposal {
    unsigned key;   /* below STP_BANDIT_KEYS */
    unsigned index; /* of the arm, below STP_BANDIT_ARMS */
    struct stp_bandit_arm arm;
    unsigned n_calls; /* of the key, after which every rank returns to the
                         incumbent; 0: the arm stays */
    bool is_settled;  /* epochs are long from now on */
};

/* Never 0, and below 1 << 31. */
static inline uint32_t stp_proposal_pack(const struct stp_proposal *p)
{
    return UINT32_C(1) << 30 | (uint32_t)(p->arm.algo + 1) << 27 |
           ((uint32_t)p->arm.proto & 3) << 25 |
           (uint32_t)p->arm.n_channels << 18 | (uint32_t)p->key << 11 |
           (uint32_t)p->index << 6 | (uint32_t)p->n_calls << 1 |
           (uint32_t)p->is_settled;
}

static inline struct stp_proposal stp_proposal_unpack(uint32_t word)
{
    return (struct stp_proposal){
        .key = word >> 11 & 0x7f,
        .index = word >> 6 & 0x1f,
        .arm = {.algo = (int8_t)((int)(word >> 27 & 7) - 1),
                .proto = (int8_t)(word >> 25 & 3),
                .n_channels = (uint8_t)(word >> 18 & 0x7f)},
        .n_calls = word >> 1 & 0x1f,
        .is_settled = (word & 1) != 0,
    };
}

#endif /* STP_PROPOSAL_H */
