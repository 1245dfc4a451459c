/* chunk.h - which chunk size belongs to which collective
 *
 * NCCL 2.30 asks for chunk sizes while it schedules, after it has asked for the
 * choices of a whole group, and does not say which collective it means: it
 * gives the bytes of one channel, not those of the message.  So the choices of
 * a group are noted, and a chunk size is given only if all of that collective's
 * choices in the group have the same: a call that no rule decided is never
 * changed.
 *
 * Every rank sees the same calls in the same order, hence the same answers. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/policy/policy.h"
#include "nccl_tuner_abi.h"

/* All zero to begin with; belongs to one communicator. */
struct stp_chunk_notes {
    bool scheduling; /* NCCL has begun to ask for chunk sizes */
    struct {
        bool noted;
        bool mixed; /* the group's choices differ */
        int8_t algo;
        int8_t proto;
        uint32_t chunk_bytes; /* 0: none */
    } coll[NCCL_NUM_TUNED_FUNCS];
};

/* Notes the answer to a getCollInfo call; NULL if NCCL was left to decide. */
void stp_chunk_note(struct stp_chunk_notes *notes, int coll,
                    const struct stp_choice *choice);

/* The chunk size for a getChunkSize call, or 0 to leave NCCL's. */
size_t stp_chunk_find(struct stp_chunk_notes *notes, int coll, int algo,
                      int proto);
