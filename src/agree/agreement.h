/* agreement.h - how the ranks of a communicator reach one decision
 *
 * NCCL gives a tuner no channel to other ranks, and hangs if ranks choose
 * differently.  So each rank joins an agreement when its communicator is made,
 * and leaves its fingerprint there: hashes that are equal for two ranks only if
 * they answer every query alike.  NCCL keeps all ranks in a barrier between
 * that and the first decision.  By then all ranks of the host must have joined
 * with one fingerprint, or all step aside: a rank that did not join (another
 * plugin or none, another /dev/shm, no memory) decides nothing either.  The
 * first rank that knows the outcome writes it down, and the others read it, so
 * that no two ranks see different ones.
 *
 * Ranks that learn decide more while the job runs, in epochs.  All ranks count
 * their calls alike and come to the same epoch at different times; whichever
 * comes first decides it, by taking the pending proposal or by changing
 * nothing.  No rank waits and there is no leader: a rank that is stopped or
 * killed stops no other.  Where a rank is so far behind that its epochs would
 * be overwritten, the agreement freezes: the ranks keep what they have.
 *
 * One rank, the first that joined, is the observer.  It alone learns and
 * proposes.  Each proposal is taken once, in the order in which they were made,
 * unless the agreement freezes before.
 *
 * Over several hosts there must be a store.  The first rank that joined on each
 * host speaks for the host there (hosts.h), in a thread of its own, and the
 * host's ranks await the outcome.  Nothing is said between hosts after it, so
 * their ranks do not learn.
 *
 * An implementation is a table of functions.  There is one: memory that the
 * ranks of a host share (shm.c). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"
#include "store/store_address.h"

enum { STP_AGREE_RANKS = 1024 }; /* at most, with proposals */

/* All that enters a decision, and two hashes that tell why it differs. */
enum stp_fingerprint_part {
    STP_FINGERPRINT_BUILD,    /* plugin, release, version of the interface */
    STP_FINGERPRINT_LOWER,    /* the tuner that ours asks first; 0: none */
    STP_FINGERPRINT_POLICY,   /* stp_compiled_hash(); 0: inactive */
    STP_FINGERPRINT_SETTINGS, /* other than files */
    STP_FINGERPRINT_FILE,     /* stp_policy_hash() of the whole file */
    STP_N_FINGERPRINT,
    STP_N_FINGERPRINT_DECIDES = STP_FINGERPRINT_FILE, /* the parts before it */
};

struct stp_fingerprint {
    uint64_t part[STP_N_FINGERPRINT];
};

/* Where hosts meet. */
struct stp_agreement_store {
    struct stp_store_address address;
    unsigned timeout_ms; /* for all hosts to come, from the first join here */
    char run[96];        /* jobs of different runs do not meet */
    char host[60];       /* this host's name, for messages */
};

/* One rank of a communicator. */
struct stp_agreement_rank {
    uint64_t comm_id; /* not 0 */
    uint64_t host_id; /* tells apart hosts that share memory; else 0 */
    size_t n_ranks;   /* of the communicator, not 0 */
    size_t n_needed;  /* of them: with fewer, all step aside; 1 to n_ranks */
    int number;       /* among them if the launcher tells, else -1 */
    struct stp_fingerprint fingerprint;
    bool proposes; /* takes part in proposals, beside comparing fingerprints;
                      not where there is a store */
    struct stp_agreement_store store; /* where hosts are compared, too */
};

/* A rank's handle, which an implementation's own begins with. */
struct stp_agreement {
    const struct stp_agreement_ops *ops;
    bool proposes;       /* this rank takes part in proposals */
    bool observes;       /* it is the observer */
    bool compares_hosts; /* a thread must call compare_hosts() */
    bool is_apart;       /* compare() refused, since the ranks are known to have
                            different tuners below ours; the same on all */
    int n_shares;        /* further threads that hold it, and leave it */
};

/* Callable from any thread, but for one handle's next_epoch(), which one thread
 * at a time may call.  join(), compare(), compare_hosts() and leave() may
 * block, allocate and do I/O; none of the others does any of that. */
struct stp_agreement_ops {
    /* Joins.  STP_OK and *agreement_ret, for leave(); else *agreement_ret is
     * untouched: STP_ERR_IO or STP_ERR_NOMEM if the ranks cannot meet,
     * STP_ERR_LIMIT if there are none, or too many for proposals. */
    enum stp_status (*join)(const struct stp_agreement_rank *rank,
                            struct stp_agreement **agreement_ret,
                            struct stp_error *err);

    /* Whether the ranks may decide: at least 'n_needed' have joined, and the
     * fingerprints of all that have are equal.  Waits up to 'wait_ms' for ranks
     * that have not joined.  The same on all ranks from the first call on any
     * of them that returns.  With a store: all ranks of all hosts; it waits for
     * the outcome until the store's 'timeout_ms' is over, and a few seconds
     * longer only if this host has told the store that it is ready. */
    bool (*compare)(struct stp_agreement *agreement, unsigned wait_ms);

    /* Writes why the ranks may not decide, as this rank sees it: the ranks that
     * are missing or differ, and in what. */
    void (*explain)(const struct stp_agreement *agreement, char *text,
                    size_t size);

    /* Compares this host with the others at the store, where all must do so;
     * returns with the outcome, or soon after cancel_hosts(), but may hang as
     * long as a name or a file server does.  At most once. */
    void (*compare_hosts)(struct stp_agreement *agreement);
    void (*cancel_hosts)(struct stp_agreement *agreement);

    /* ---- proposals ---- */

    /* Whether all ranks of the communicator take part in proposals; the same on
     * all once NCCL's barrier is passed.  Only then ranks may act on them. */
    bool (*is_complete)(struct stp_agreement *agreement);

    /* Proposes a number, 1 to 2^31 - 1, for the next epoch that is decided.
     * False, and nothing done, if the last proposal is pending, the agreement
     * is frozen, or it is another number. */
    bool (*propose)(struct stp_agreement *agreement, uint32_t proposal);

    /* Whether the last proposal has not been taken yet; true for ever in a
     * frozen agreement. */
    bool (*is_pending)(struct stp_agreement *agreement);

    /* The proposal of this rank's next epoch: 1 at the first call, then 2 and
     * so on.  The same on all ranks; 0 if nothing changes.  False from the
     * epoch on with which the agreement is frozen, the same one for all: no
     * later epoch changes anything, either. */
    bool (*next_epoch)(struct stp_agreement *agreement, uint32_t *proposal_ret);

    /* Leaves. To the ranks that stay it is as a rank that was stopped. */
    void (*leave)(struct stp_agreement *agreement);
};

/* The agreement of the ranks of a host that share /dev/shm and a user. */
extern const struct stp_agreement_ops stp_agreement_shm;

/* Joins, without proposals where there is no room for them; else as the
 * implementation's join(). */
enum stp_status stp_agreement_join(const struct stp_agreement_rank *rank,
                                   struct stp_agreement **agreement_ret,
                                   struct stp_error *err);

/* NULL is allowed and does nothing. */
void stp_agreement_leave(struct stp_agreement *agreement);
