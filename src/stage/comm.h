/* comm.h - what the library knows of a communicator: its twins, on which staged
 * calls run, and the memory that they are copied through
 *
 * A twin is ncclCommSplit()'s copy of the application's communicator with as
 * many CTAs as a rule wants.  It is made when the communicator is, never later:
 * a first call may be captured.  Its memory holds the largest message that its
 * rules name, up to STP_STAGE_MAX, is registered with it, and is used from
 * its begin on by each call (several calls of one group follow one another), so
 * that the place of a call is the same on all ranks. */
#pragma once

#include "stage/order.h"
#include "stage/stage.h"

enum {
    STP_N_RULES = 64, /* of a communicator, at most */
    STP_PLACE = 1024, /* a call's place begins at a multiple */
};

struct stp_twin {
    ncclComm_t comm; /* NULL: not yet, or no more */
    int min_ctas;
    char *at; /* NULL: there is no memory */
    size_t n_bytes;
    struct stp_order order;
};

/* It outlives NCCL's communicator if operations are still on their way when
 * that ends. */
struct stp_comm {
    struct stp_comm *next;   /* in its bucket */
    struct stp_comm *staged; /* the next one that has twins */
    ncclComm_t comm;         /* the application's */
    unsigned n_users;        /* under the process's lock */
    uint64_t key;
    int n_ranks, rank;
    int n_here;                   /* ranks of it in this process */
    uint32_t n_splits, n_shrinks; /* children, which these number */
    bool is_limited;              /* by the application, as children are */
    bool shares;        /* twins have its abort flag (splitShare), likewise */
    enum stp_plain why; /* no call is staged, unless STP_STAGED */
    const struct stp_rule *rules[STP_N_RULES]; /* that can match */
    size_t n_rules;
    CUcontext context; /* of its GPU, which NCCL uses: never released */
    struct stp_twin twins[STP_N_TWINS];
    int n_twins;
    size_t n_used; /* bytes of each twin's memory, by the calls of a group */
    bool is_left;  /* ended with operations on their way, and twins */
    bool is_done;  /* nothing uses it on this rank, */
    bool is_over;  /* nor on others of this process: it is to be freed */
};

/* A communicator that an application is about to get. */
struct stp_birth {
    ncclComm_t *slot;  /* where NCCL puts it */
    uint64_t key;      /* the same on all of its ranks; not 0 */
    const char *aside; /* why it cannot be staged; NULL: it may be */
    bool is_limited;   /* the application limits its CTAs */
    bool shares;       /* children have its abort flag (splitShare) */
};

/* The communicator, to be given back with stp_comm_release(); NULL if the
 * library does not know it.  One that is taken is found no more: its twins are
 * the caller's to end, or to leave. */
struct stp_comm *stp_comm_find(ncclComm_t comm, bool takes);
void stp_comm_retain(struct stp_comm *c);

/* Makes the context of the communicator's GPU the thread's, which the caller
 * leaves again, also where CUDA refuses and this is false. */
bool stp_comm_enter(const struct stp_comm *c, bool *is_other);
void stp_comm_leave(bool is_other);

/* The capture that a stream is in, as stp_order_capture().  A default stream is
 * that of a context, which a thread may lack until it first calls CUDA's
 * runtime: NCCL's own question does. */
bool stp_comm_ask_capture(const struct stp_comm *c, cudaStream_t stream,
                          unsigned long long *id);

/* When nobody has a taken one any more its memory is freed, without waiting:
 * later, if an operation uses it. */
void stp_comm_release(struct stp_comm *c);

/* Lets the ranks agree on the new communicators '*births[i].slot', NULL of
 * which is none: those of one call of the application, or of a group of calls.
 * All ranks call it; it takes as long as NCCL takes to split, and with a rank
 * missing STEPTUNE_STAGE_WAIT. */
void stp_comm_open(const struct stp_birth *births, size_t n);

/* Whether no operation of the communicator is on its way, nor a thread but the
 * caller's in a call; NULL: no operation of any that is or was in the process.
 */
bool stp_comm_is_idle(const struct stp_comm *c);
