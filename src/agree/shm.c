/* shm.c - an agreement in memory that the ranks of a host share
 *
 * One segment a communicator: the outcome of the comparison, how many ranks
 * joined to propose, each rank's identity, then, for ranks that asked for it,
 * the board of proposals.
 *
 * With a store, the outcome is the decision that the rank that compares hosts
 * finds there. The other ranks may give up waiting for it until it has told the
 * store that this host is ready (COMMITTED). */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agree/agreement.h"
#include "agree/board.h"
#include "agree/hosts.h"
#include "agree/identity.h"
#include "agree/segment.h"
#include "core/rng.h"
#include "store/clock.h"

_Static_assert((int)STP_AGREE_RANKS == (int)STP_BOARD_RANKS,
               "a board has room for all ranks");

enum shm_outcome { OPEN, COMMITTED, AGREED, REFUSED, APART };

enum {
    /* beyond the time limit of the rank that compares: for it to say why, and
     * once it is COMMITTED */
    MARGIN_MS = 1500,
    PATIENCE_MS = 5000,
    WHY_TEXT = 500,
};

struct shm_state {
    _Atomic uint32_t outcome;     /* enum shm_outcome */
    _Atomic uint32_t n_proposing; /* ranks that take part in proposals */
    _Atomic uint32_t has_why;     /* 'why' is written */
    char why[WHY_TEXT];           /* the hosts do not agree */
};

_Static_assert(sizeof(struct shm_state) % 64 == 0, "rows are cache lines");

struct shm_agreement {
    struct stp_agreement base;
    struct stp_segment *segment;
    struct shm_state *state;
    struct stp_identity *identities; /* after the state */
    size_t n_needed;
    struct stp_board *board;    /* after the identities */
    struct stp_board_step step; /* this rank's */
    struct stp_agreement_store store;
    uint64_t comm_id;
    int64_t limit_ms; /* of the comparison of hosts (stp_now_ms()) */
    _Atomic bool is_cancelled;
};

static struct shm_agreement *shm_of(const struct stp_agreement *agreement)
{
    return (struct shm_agreement *)agreement;
}

static bool shm_has_store(const struct shm_agreement *shm)
{
    return shm->store.address.engine != STP_STORE_NOWHERE;
}

static enum stp_status shm_join(const struct stp_agreement_rank *rank,
                                struct stp_agreement **agreement_ret,
                                struct stp_error *err)
{
    const struct stp_segment_key key = {
        .comm_id = rank->host_id == 0 ? rank->comm_id
                                      : stp_hash(rank->comm_id, rank->host_id),
        .n_ranks = rank->n_ranks,
        .n_bytes = sizeof(struct shm_state) +
                   rank->n_ranks * sizeof(struct stp_identity) +
                   (rank->proposes ? stp_board_bytes(rank->n_ranks) : 0)};
    struct shm_agreement *shm;
    enum stp_status status;

    if (rank->n_ranks < 1 ||
        (rank->proposes && rank->n_ranks > STP_AGREE_RANKS))
        return stp_fail(err, STP_ERR_LIMIT,
                        "%zu ranks cannot agree on a host: expected 1 to %d",
                        rank->n_ranks, STP_AGREE_RANKS);
    shm = calloc(1, sizeof(*shm));
    if (shm == NULL)
        return stp_nomem(err);
    status = stp_segment_join(&key, &shm->segment, &shm->step.rank, err);
    if (status != STP_OK) {
        free(shm);
        return status;
    }
    shm->store = rank->store;
    shm->base = (struct stp_agreement){.ops = &stp_agreement_shm,
                                       .proposes = rank->proposes,
                                       .observes = shm->step.rank == 0,
                                       .compares_hosts = shm_has_store(shm) &&
                                                         shm->step.rank == 0};
    shm->state = stp_segment_memory(shm->segment);
    shm->identities = (struct stp_identity *)(shm->state + 1);
    shm->board = (struct stp_board *)(shm->identities + rank->n_ranks);
    shm->step.n_ranks = (uint32_t)rank->n_ranks;
    shm->step.n_slots = STP_BOARD_SLOTS;
    shm->n_needed = rank->n_needed;
    shm->comm_id = rank->comm_id;
    shm->limit_ms = stp_now_ms() + rank->store.timeout_ms;
    if (rank->proposes)
        atomic_fetch_add(&shm->state->n_proposing, 1);
    stp_identity_write(&shm->identities[shm->step.rank], rank);
    stp_segment_enter(shm->segment);
    *agreement_ret = &shm->base;
    return STP_OK;
}

/* ---- comparing ---- */

static uint32_t shm_read_outcome(const struct shm_agreement *shm)
{
    return atomic_load(&shm->state->outcome);
}

static bool shm_move_outcome(struct shm_agreement *shm, enum shm_outcome from,
                             enum shm_outcome to)
{
    uint32_t outcome = from;

    return atomic_compare_exchange_strong(&shm->state->outcome, &outcome, to);
}

static bool shm_compare(struct stp_agreement *agreement, unsigned wait_ms)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(shm)) {
        uint32_t outcome;

        while ((outcome = shm_read_outcome(shm)) <= COMMITTED) {
            const int64_t late_ms = stp_now_ms() - shm->limit_ms;

            /* Gives up the rank that compares hosts, which hangs. */
            if (late_ms >= (outcome == OPEN ? MARGIN_MS : PATIENCE_MS))
                shm_move_outcome(shm, outcome, REFUSED);
            else
                nanosleep(&pause, NULL);
        }
        agreement->is_apart = outcome == APART;
        return outcome == AGREED;
    }
    for (unsigned i = 0; i < wait_ms && shm_read_outcome(shm) == OPEN &&
                         stp_segment_n_joined(shm->segment) < shm->n_needed;
         i++)
        nanosleep(&pause, NULL);
    if (shm_read_outcome(shm) == OPEN) {
        /* All ranks that have joined by now count; a rank that joins later
         * reads their outcome. */
        const size_t n_joined = stp_segment_n_joined(shm->segment);
        const bool is_agreed =
            n_joined >= shm->n_needed &&
            stp_identities_are_equal(shm->identities, shm->step.n_ranks);

        shm_move_outcome(
            shm, OPEN,
            is_agreed ? AGREED
            : stp_identities_are_apart(shm->identities, shm->step.n_ranks)
                ? APART
                : REFUSED);
    }
    agreement->is_apart = shm_read_outcome(shm) == APART;
    return shm_read_outcome(shm) == AGREED;
}

static bool shm_is_cancelled(void *user)
{
    return atomic_load(&((struct shm_agreement *)user)->is_cancelled);
}

static bool shm_commit(void *user)
{
    return shm_move_outcome(user, OPEN, COMMITTED);
}

static void shm_compare_hosts(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);
    const struct stp_hosts hosts = {.store = &shm->store,
                                    .comm_id = shm->comm_id,
                                    .n_ranks = shm->step.n_ranks,
                                    .identities = shm->identities,
                                    .is_cancelled = shm_is_cancelled,
                                    .commit = shm_commit,
                                    .user = shm};
    static const enum shm_outcome outcomes[] = {
        [STP_HOSTS_ASIDE] = REFUSED,
        [STP_HOSTS_FOLLOW] = AGREED,
        [STP_HOSTS_APART] = APART,
    };
    const enum shm_outcome outcome = outcomes[stp_hosts_compare(
        &hosts, shm->state->why, sizeof(shm->state->why))];

    atomic_store(&shm->state->has_why, outcome != AGREED);
    if (!shm_move_outcome(shm, COMMITTED, outcome))
        shm_move_outcome(shm, OPEN, outcome == AGREED ? REFUSED : outcome);
}

static void shm_cancel_hosts(struct stp_agreement *agreement)
{
    atomic_store(&shm_of(agreement)->is_cancelled, true);
}

static void shm_explain(const struct stp_agreement *agreement, char *text,
                        size_t size)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (!shm_has_store(shm) ||
        !stp_identities_are_equal(shm->identities, shm->step.n_ranks))
        stp_identities_explain(shm->identities, shm->step.n_ranks,
                               shm->n_needed, shm->step.rank, text, size);
    else if (atomic_load(&shm->state->has_why))
        snprintf(text, size, "%s", shm->state->why);
    else
        snprintf(text, size,
                 "process %d, which speaks for this host at the store, did "
                 "not hear from it in time, or was stopped (STEPTUNE_AGREE_"
                 "TIMEOUT is %.1f s)",
                 (int)shm->identities[0].pid, shm->store.timeout_ms / 1e3);
}

static bool shm_is_complete(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);

    return stp_segment_is_full(shm->segment) &&
           atomic_load(&shm->state->n_proposing) == shm->step.n_ranks;
}

/* ---- proposals ---- */

static bool shm_propose(struct stp_agreement *agreement, uint32_t proposal)
{
    struct stp_board_step step = {0};

    if (proposal == 0 || proposal > STP_BOARD_DECISION)
        return false;
    stp_board_begin_proposal(&step, proposal);
    while (stp_board_access(&step, shm_of(agreement)->board))
        ;
    return step.is_put;
}

static bool shm_is_pending(struct stp_agreement *agreement)
{
    return stp_board_is_pending(shm_of(agreement)->board);
}

static bool shm_next_epoch(struct stp_agreement *agreement,
                           uint32_t *proposal_ret)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (!shm->step.is_frozen) {
        stp_board_begin_epoch(&shm->step);
        while (stp_board_access(&shm->step, shm->board))
            ;
    }
    *proposal_ret = shm->step.decision;
    return !shm->step.is_frozen;
}

static void shm_leave(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);

    stp_segment_leave(shm->segment);
    free(shm);
}

const struct stp_agreement_ops stp_agreement_shm = {
    .join = shm_join,
    .compare = shm_compare,
    .explain = shm_explain,
    .compare_hosts = shm_compare_hosts,
    .cancel_hosts = shm_cancel_hosts,
    .is_complete = shm_is_complete,
    .propose = shm_propose,
    .is_pending = shm_is_pending,
    .next_epoch = shm_next_epoch,
    .leave = shm_leave,
};

enum stp_status stp_agreement_join(const struct stp_agreement_rank *rank,
                                   struct stp_agreement **agreement_ret,
                                   struct stp_error *err)
{
    struct stp_agreement_rank with = *rank;
    enum stp_status status = shm_join(&with, agreement_ret, err);

    if (status == STP_OK || !with.proposes)
        return status;
    with.proposes = false;
    return shm_join(&with, agreement_ret, err);
}

void stp_agreement_leave(struct stp_agreement *agreement)
{
    if (agreement != NULL &&
        __atomic_fetch_sub(&agreement->n_shares, 1, __ATOMIC_ACQ_REL) == 0)
        agreement->ops->leave(agreement);
}
