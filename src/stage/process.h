/*
 * process.h - what all communicators of a process share: a library in front of
 * NCCL has no other place for it than one global
 *
 * steptune-plugins(7), src/cli/man/steptune-plugins.7, lists the environment.
 */
#ifndef STP_STAGE_PROCESS_H
#define STP_STAGE_PROCESS_H

#include <pthread.h>
#include <stdint.h>

#include "core/policy/policy.h"
#include "plugin/gpu.h"
#include "stage/meeting.h"
#include "stage/real.h"
#include "stage/why.h"

enum { STP_STAGE_N_BUCKETS = 256, STP_STAGE_N_ROWS = 512 };

/* Calls of one kind. */
struct stp_stage_row {
    int coll, type; /* ncclFunc_t, enum stp_type */
    int log2_bytes; /* the class of sizes from 2^n on; 0: none, too */
    int ctas;       /* of the rule; 0: NCCL's own */
    enum stp_stage_why why;
    uint64_t n_calls, n_captured;
};

struct stp_stage_process {
    _Atomic bool is_open;
    struct stp_stage_nccl nccl;
    struct stp_stage_cuda cuda;
    int version;            /* NCCL's */
    bool is_on;             /* there is a file of rules */
    enum stp_stage_why why; /* nothing is staged, but for STP_STAGE_STAGED */
    struct stp_policy *rules;
    char gpu[STP_GPU_SIZE];
    size_t max_bytes;     /* STEPTUNE_STAGE_MEMORY, of all communicators */
    unsigned patience_ms; /* STEPTUNE_STAGE_WAIT: for a vote */
    uint64_t part[STP_STAGE_N_PARTS];
    const char *report; /* STEPTUNE_STAGE_REPORT: a folder; NULL: none */

    pthread_mutex_t lock; /* of all that follows; held across no call of NCCL */
    struct stp_stage_comm *buckets[STP_STAGE_N_BUCKETS];
    struct stp_stage_memory
        *leaving;   /* to be freed when no operation uses it */
    size_t n_bytes; /* of memory */
    size_t n_comms;
    bool was_lonely;      /* a rank was missing: do not wait so long again */
    bool has_warned;      /* that ranks differ */
    unsigned n_told;      /* sentences in the log, of other reasons */
    int pid;              /* that made communicators */
    char aside_text[400]; /* why a communicator stepped aside */
    struct stp_stage_row rows[STP_STAGE_N_ROWS];
    size_t n_rows;
};

/* Opened at the first call of NCCL; never NULL. */
struct stp_stage_process *stp_stage_process_open(void);

/* Prints a sentence to standard error if NCCL_DEBUG is INFO, or WARN and it is
 * a warning. */
void stp_stage_say(bool is_warning, const char *fmt, ...) STP_PRINTF(2, 3);

#endif /* STP_STAGE_PROCESS_H */
