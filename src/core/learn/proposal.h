/* proposal.h - what the observer proposes to all ranks, in 31 bits */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/learn/bandit.h"

enum {
    /* Calls of an epoch: few in trials, as one of EPSILON lasts an epoch. */
    STP_EPOCH_HALVING = 4,
    STP_EPOCH_EPSILON = 8,
    STP_EPOCH_SETTLED = 256,
    STP_CONFIRM_MAX = (1 << 28) - 1,
};

enum stp_proposal_kind {
    STP_PROPOSE_ARM = 1, /* is in force from now on */
    STP_PROPOSE_TRIAL,   /* of an arm against the one in force */
    STP_PROPOSE_WINDOW,  /* later trials have windows of so many calls */
    STP_PROPOSE_CONFIRM, /* a twofold trial of arm 0 of all keys against those
                            in force, of one block */
    STP_PROPOSE_ROUND,   /* a trial of arms of some keys that were tried
                            before, in the same windows: of STP_TRIAL_BLOCKS */
};

struct stp_proposal {
    enum stp_proposal_kind kind;
    unsigned key;              /* below STP_BANDIT_KEYS; else unused */
    unsigned index;            /* of the arm, below STP_BANDIT_ARMS */
    struct stp_bandit_arm arm; /* with this index */
    unsigned n_blocks;         /* of a trial, 1 to STP_TRIAL_BLOCKS */
    bool is_settled;           /* of an arm: epochs are long from now on */
    unsigned n_calls;          /* of a window, 1 to STP_WINDOW_MAX; of CONFIRM
                                  1 to STP_CONFIRM_MAX */
    unsigned n_mates;          /* of a round, 2 to STP_TRIAL_MATES */
    struct {
        uint8_t key;   /* below STP_SHARED_KEYS */
        uint8_t index; /* of its arm, 1 to STP_SHARED_ARMS - 1 */
    } mates[STP_TRIAL_MATES];
};

/* Never 0, and below 1 << 31. */
static inline uint32_t stp_proposal_pack(const struct stp_proposal *p)
{
    uint32_t word = (uint32_t)p->kind << 28;
    uint32_t last =
        p->kind == STP_PROPOSE_TRIAL ? p->n_blocks : (uint32_t)p->is_settled;

    if (p->kind == STP_PROPOSE_ROUND) {
        for (unsigned i = 0; i < p->n_mates; i++)
            word |= (uint32_t)(p->mates[i].key << 4 | p->mates[i].index)
                    << 9 * i;
        return word;
    }
    if (p->kind == STP_PROPOSE_WINDOW || p->kind == STP_PROPOSE_CONFIRM)
        return word | (uint32_t)p->n_calls;
    return word | (uint32_t)p->key << 21 | (uint32_t)p->index << 16 |
           (uint32_t)(p->arm.algo + 1) << 13 |
           ((uint32_t)p->arm.proto & 3) << 11 |
           (uint32_t)p->arm.n_channels << 4 | last;
}

static inline struct stp_proposal stp_proposal_unpack(uint32_t word)
{
    struct stp_proposal p;

    memset(&p, 0, sizeof(p));
    p.kind = (enum stp_proposal_kind)(word >> 28);
    if (p.kind == STP_PROPOSE_WINDOW) {
        p.n_calls = word & STP_WINDOW_MAX;
        return p;
    }
    if (p.kind == STP_PROPOSE_ROUND) {
        p.n_blocks = STP_TRIAL_BLOCKS;
        for (; p.n_mates < STP_TRIAL_MATES; p.n_mates++) {
            p.mates[p.n_mates].key = word >> (9 * p.n_mates + 4) & 31;
            p.mates[p.n_mates].index = word >> 9 * p.n_mates & 15;
            if (p.mates[p.n_mates].index == 0)
                break; /* it has no more */
        }
        return p;
    }
    if (p.kind == STP_PROPOSE_CONFIRM) {
        p.arm.algo = -1;
        p.n_blocks = 1;
        p.n_calls = word & STP_CONFIRM_MAX;
        return p;
    }
    p.key = word >> 21 & 0x7f;
    p.index = word >> 16 & 0x1f;
    p.arm.algo = (int8_t)((int)(word >> 13 & 7) - 1);
    p.arm.proto = (int8_t)(word >> 11 & 3);
    p.arm.n_channels = (uint8_t)(word >> 4 & 0x7f);
    p.n_blocks = p.kind == STP_PROPOSE_TRIAL ? word & 15 : 0;
    p.is_settled = p.kind == STP_PROPOSE_ARM && (word & 1) != 0;
    return p;
}
