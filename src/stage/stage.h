/* stage.h - what all communicators of a process share: a library in front of
 * NCCL has no other place for it than one global
 *
 * steptune-plugins(7), src/cli/man/steptune-plugins.7, lists the environment.
 */
#pragma once

#include <pthread.h>
#include <stdint.h>

#include "core/policy/policy.h"
#include "plugin/settings.h"
#include "stage/meeting.h"
#include "stage/real.h"

enum { STP_N_BUCKETS = 256, STP_N_ROWS = 512 };

/* A call is staged, or why it is handed on unchanged. */
enum stp_plain {
    STP_STAGED,
    STP_PLAIN_RULE,    /* no rule names the message */
    STP_PLAIN_ROUNDS,  /* one does but for whole rounds of its CTAs */
    STP_PLAIN_OVERLAP, /* one does where nothing runs beside collectives */
    STP_PLAIN_TYPE,    /* NCCL has no symmetric kernel for type and operation */
    STP_PLAIN_PLACES,  /* a group's messages are more than the window holds */
    STP_PLAIN_OWN_WINDOWS, /* the application registers windows of its own */
    STP_PLAIN_ENDED,       /* the communicator was revoked or suspended */
    STP_PLAIN_ASIDE,       /* its ranks did not agree to stage, or cannot */
    STP_N_PLAINS,
};

/* Calls of one kind. */
struct stp_tally {
    int coll, type; /* ncclFunc_t, enum stp_type */
    int log2_bytes; /* the class of sizes from 2^n on; 0: none, too */
    int ctas;       /* of the rule; 0: NCCL's own */
    enum stp_plain why;
    uint64_t n_calls, n_captured;
};

struct stp_stage {
    _Atomic bool is_open;
    struct stp_real_nccl nccl;
    struct stp_real_cuda cuda;
    int version;       /* NCCL's */
    bool is_on;        /* there is a file of rules */
    bool overlaps;     /* unless NCCL_WORKLOAD_OVERLAP is 0 */
    const char *aside; /* why nothing is staged; NULL: it may be */
    struct stp_policy *rules;
    char gpu[STP_GPU_SIZE];
    size_t max_bytes;     /* STEPTUNE_STAGE_MEMORY, of all communicators */
    unsigned patience_ms; /* STEPTUNE_STAGE_WAIT: for a vote */
    uint64_t part[STP_N_PARTS];
    char report[STP_PATH_SIZE];  /* STEPTUNE_STAGE_REPORT: a folder; "": none */
    pthread_mutex_t report_lock; /* held while a report is written */
    bool is_unwritten;           /* and that was said; under that lock */
    struct stp_thread *writer;   /* of reports */

    pthread_mutex_t lock; /* of all that follows; held across no call of NCCL */
    struct stp_comm *buckets[STP_N_BUCKETS];
    struct stp_comm *staged; /* all that have twins, and those that left any */
    size_t n_bytes;          /* of memory */
    size_t n_comms;
    _Atomic bool was_lonely; /* a rank was missing: do not wait so long again */
    bool has_warned;         /* that ranks differ */
    _Atomic bool has_left;   /* operations, and warned of it */
    unsigned n_told;         /* sentences in the log, of other reasons */
    _Atomic int pid;         /* that made communicators */
    char aside_text[400];    /* why a communicator stepped aside */
    struct stp_tally rows[STP_N_ROWS];
    size_t n_rows;
    _Atomic bool has_news; /* calls that no report has */
};

/* Each call of an application begins with it, with an address of its code: the
 * first call opens the library, for the NCCL that is its caller's.  Returns the
 * NCCL that gets the call unchanged, where the caller's is another one; NULL
 * where it is that of the first call. */
const struct stp_real_nccl *stp_stage_enter(const void *caller);

/* Opened already; never NULL. */
struct stp_stage *stp_stage(void);

/* Counts a call, for the report; what there is no row for is not counted. */
void stp_tally_count(int coll, int type, uint64_t n_bytes, int ctas,
                     enum stp_plain why, bool is_captured);

/* Begins with a communicator: reports are written each second that has calls,
 * so that a process that is killed leaves one, too. */
void stp_tally_begin(void);
void stp_tally_end(void); /* at exit */

/* Writes the report, if a folder is set for it and communicators were made:
 * PID.csv, also at the end of the last communicator.  Its columns are
 * collective, type, bytes_from, bytes_to (a power of two, and the bytes below
 * the next), ctas, calls_staged, calls_plain, captured (of both, in graphs) and
 * why; a comment says why a communicator stepped aside, another one that
 * nothing runs beside collectives. */
void stp_tally_write(void);

/* Notes why a communicator is not staged, and says so.  A process warns once:
 * of the first of those whose ranks differ. */
void stp_step_aside(bool is_warning, const char *text);

/* Prints a sentence to standard error if NCCL_DEBUG is INFO, or WARN and it is
 * a warning. */
void stp_say(bool is_warning, const char *fmt, ...) STP_PRINTF(2, 3);
