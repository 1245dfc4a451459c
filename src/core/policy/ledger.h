/* ledger.h - what a tuner decided for one communicator, in a file that outlives
 * the job
 *
 * The plugin maps such a file and counts in it, so that what was decided is
 * known however the job ended.  A file is this struct as it lies in memory: it
 * is read on the machine that wrote it. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/policy/policy.h"

#define STP_LEDGER_MAGIC "stpldgr2" /* without its NUL */
/* begins the text of a plugin that cannot learn; why, ';' and what it does */
#define STP_NOT_LEARNED "nothing is learned: "

enum {
    STP_LEDGER_ENTRIES = 512, /* a power of two */
    STP_LEDGER_TEXT = 512,
    STP_LEDGER_GPU = 96,
};

/* Calls of a collective in a power of two of bytes with the same answer. */
struct stp_ledger_entry {
    uint64_t n_calls; /* 0: unused */
    uint64_t min_bytes;
    uint64_t max_bytes;
    uint32_t line;      /* of the policy; 0: NCCL decided */
    int8_t coll;        /* ncclFunc_t */
    int8_t algo;        /* NCCL_ALGO_*; -1: NCCL decided, and so is the next */
    int8_t proto;       /* NCCL_PROTO_* */
    uint8_t n_channels; /* 0: NCCL's own */
};

struct stp_ledger {
    char magic[8];
    uint32_t size; /* of this struct */
    uint32_t pid;
    uint64_t comm_id; /* 0: NCCL did not tell */
    uint64_t n_ranks;
    uint64_t n_nodes;
    uint32_t is_aside;   /* decides nothing: 'what' says why */
    uint32_t n_entries;  /* in use */
    uint64_t n_lost;     /* calls that found no room */
    uint64_t n_previews; /* calls by whose answer no collective runs: NCCL looks
                            for a kernel for symmetric windows */
    char gpu[STP_LEDGER_GPU];   /* model; "": not known */
    char what[STP_LEDGER_TEXT]; /* the policy, and how much of it applies */
    struct stp_ledger_entry entries[STP_LEDGER_ENTRIES]; /* a hash table */
};

/* The power of two at or below, as its exponent: 0 for 0 and 1. */
unsigned stp_ledger_class(uint64_t n_bytes);

/* Makes '*ledger', whose bytes are all 0, an empty one. */
void stp_ledger_begin(struct stp_ledger *ledger, uint32_t pid, uint64_t comm_id,
                      const struct stp_shape *shape);

/* Whether the 'size' bytes at 'ledger' are one. */
bool stp_ledger_is_valid(const struct stp_ledger *ledger, size_t size);

/* Counts a call; 'choice' is NULL if NCCL decided.  Allocates nothing. */
void stp_ledger_count(struct stp_ledger *ledger, int coll, uint64_t n_bytes,
                      const struct stp_choice *choice);
