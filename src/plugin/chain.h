/* chain.h - the tuner below ours, in one communicator
 *
 * NCCL would have loaded it (lower.h) and asked it alone.  Ours asks it first,
 * with NCCL's own arguments: where no rule of ours decides, NCCL sees the
 * table, the channels, the chunk and the error that it gave, to the bit; where
 * one does, ours decides on its table.  A job has what it had, or what our
 * rules say.
 *
 * How ranks stay alike, though no message passes between them while they run:
 *
 * - What differs before the first decision is compared.  A fingerprint has the
 *   identity of the tuner below and whether its init failed.  If that differs,
 *   all ranks leave it out, and ours steps aside: NCCL tunes alone.  If all are
 *   alike in a tuner that failed, all go on without it.
 *   NCCL reads the constants that an init changed before ranks can compare:
 *   where only some ranks have a tuner that changes them, they stay different,
 *   as they are without us.
 * - Where ours steps aside for another reason (policies differ, a rank did not
 *   join), the tuner below decides as it would have without us.  A rank without
 *   our plugin has the same one.
 * - Ranks that cannot be compared (NCCL before 2.28, no shared memory) cannot
 *   leave it out together.  There an error of its init is NCCL's to see, which
 *   ends the communicator as it does without us, where others would hang.
 * - While the job runs, one rank's tuner may fail alone: by regBuff, memory, a
 *   file.  A rank that then left it out would choose otherwise than those that
 *   ask it, in every later call.  So an answer has no consequence for a later
 *   one: an error goes to NCCL as it is, which fails the collective on that
 *   rank, as without us.
 * - A table that cannot be given to NCCL would crash it or make it run what is
 *   not there: an entry that NCCL had ruled out has a time, an entry is not a
 *   number, the channels are below 0 or above a byte's 127, or a chunk is
 *   smaller than what NCCL rounds it down to.  That answer,
 *   and no other, is replaced by NCCL's own table.  A tuner whose answers are
 *   alike on all ranks, which NCCL needs, breaks the same ones on all.  It
 *   gets a copy of the table with a margin, since some write beside theirs.
 *
 * Both are told once a communicator. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner_abi.h"
#include "plugin/lower.h"

enum {
    STP_CHAIN_ENTRIES = 64, /* of a table; larger ones are not checked */
    STP_CHAIN_MARGIN = 16,  /* entries before and behind it */
};

/* Arguments that NCCL gives to init. */
struct stp_chain_init {
    int version; /* of the interface */
    uint64_t comm_id;
    size_t n_ranks;
    size_t n_nodes;
    ncclDebugLogger_t log;
    ncclNvlDomainInfo_v5_t *nvl; /* NULL before version 5, as the next */
    void *constants;             /* of the version */
};

/* All zero: there is none. */
struct stp_chain {
    struct stp_lower lower;
    ncclTunerGetCollInfo_v4_t *ask; /* NULL, also later: it is left out */
    void *context;
    ncclDebugLogger_t log;
    bool is_open;      /* and to be closed */
    bool has_told;     /* a fault of it */
    bool rules_out;    /* entries of the last table that NCCL had not */
    uint64_t identity; /* what ranks must have alike; 0: there is none */
    float own[STP_CHAIN_ENTRIES]; /* NCCL's table, if 'rules_out' */
    float table[STP_CHAIN_ENTRIES + 2 * STP_CHAIN_MARGIN]; /* that it gets */
};

/* Whether there is one: a rank without memory to ask it has to fail. */
bool stp_chain_exists(const struct stp_chain_init *init);

/* Finds the tuner as the environment says, and calls its init.  Returns that
 * one's error, and the tuner is not asked; the job may go on without it where
 * ranks are compared. */
ncclResult_t stp_chain_open(struct stp_chain *chain,
                            const struct stp_chain_init *init);

/* Asks it, as NCCL of versions 3 and later would; 'cost' has n_algo x n_proto
 * entries.  Its error, or ncclSuccess. */
ncclResult_t stp_chain_ask(struct stp_chain *chain, ncclFunc_t coll,
                           size_t n_bytes, int n_pipe_ops, float *cost,
                           int n_algo, int n_proto, int reg_buff,
                           int *n_channels);

/* Before ours decides on the table of that call: entries that the tuner below
 * ruled out by a negative time, which from 2.31 on is less than any time,
 * become an hour. */
void stp_chain_settle(const struct stp_chain *chain, float *cost, int n);

/* stp_chain_ask() for NCCL 2.21, of version 2, which takes a pair. */
ncclResult_t stp_chain_ask_pair(struct stp_chain *chain, ncclFunc_t coll,
                                size_t n_bytes, int collnet, int nvls,
                                int n_pipe_ops, int *algo, int *proto,
                                int *n_channels);

/* Asks its getChunkSize, if it has one. */
ncclResult_t stp_chain_ask_chunk(struct stp_chain *chain, ncclFunc_t coll,
                                 size_t n_bytes, int algo, int proto,
                                 int n_channels, size_t *chunk);

/* Ends it; its error, or ncclSuccess. */
ncclResult_t stp_chain_close(struct stp_chain *chain);
