/*
 * shm.c - an agreement in memory that the ranks of a host share
 *
 * One segment a communicator: the outcome of the comparison, how many ranks
 * joined to propose, each rank's identity, then, for ranks that asked for it,
 * the board of proposals; over several hosts, that of plans.
 *
 * With a store the outcome is what the rank that speaks finds there.  Until it
 * has told the store that this host is ready (COMMITTED) the others may lose
 * patience with it, and then it does not.  After the outcome it goes on with
 * plans.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agree/agreement.h"
#include "agree/board.h"
#include "agree/identity.h"
#include "agree/plans.h"
#include "agree/segment.h"
#include "core/rng.h"
#include "store/clock.h"

_Static_assert((int)STP_AGREE_RANKS == (int)STP_BOARD_RANKS,
               "a board has room for all ranks");

enum shm_outcome { OPEN, COMMITTED, AGREED, REFUSED };

enum {
    PATIENCE_MS = 5000, /* with a rank that speaks, after its time limit */
    WHY_TEXT = 496,
};

struct shm_state {
    _Atomic uint32_t outcome;     /* enum shm_outcome */
    _Atomic uint32_t n_proposing; /* ranks that take part in proposals */
    _Atomic uint32_t has_why;     /* 'why' is written */
    _Atomic uint32_t leads;       /* this host; known with the outcome */
    char why[WHY_TEXT];           /* the hosts do not agree, or no more */
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
    int64_t patience_ms; /* with the rank that speaks, on stp_now_ms() */

    /* Over several hosts. */
    struct stp_plan_board *plan_board; /* in place of 'board' */
    struct stp_plan_step plan_step;
    bool is_lost;           /* an epoch of this rank's */
    struct stp_plans plans; /* of the rank that speaks */
};

static struct shm_agreement *shm_of(const struct stp_agreement *agreement)
{
    return (struct shm_agreement *)agreement;
}

static bool shm_has_store(const struct stp_agreement_store *store)
{
    return store->address.engine != STP_STORE_NOWHERE;
}

static size_t shm_bytes(const struct stp_agreement_rank *rank)
{
    size_t n_bytes =
        sizeof(struct shm_state) + rank->n_ranks * sizeof(struct stp_identity);

    if (rank->proposes && shm_has_store(&rank->store))
        n_bytes += stp_plan_board_bytes(STP_AGREE_RANKS);
    else if (rank->proposes)
        n_bytes += stp_board_bytes(rank->n_ranks);
    return n_bytes;
}

static void shm_lay_out(struct shm_agreement *shm,
                        const struct stp_agreement_rank *rank)
{
    const bool has_store = shm_has_store(&rank->store);

    shm->base = (struct stp_agreement){
        .ops = &stp_agreement_shm,
        .proposes = rank->proposes && shm->step.rank < STP_AGREE_RANKS,
        .speaks = has_store && shm->step.rank == 0,
        .may_observe = shm->step.rank == 0,
        .max_proposals = has_store ? STP_PLAN_WORDS : 1};
    shm->state = stp_segment_memory(shm->segment);
    shm->identities = (struct stp_identity *)(shm->state + 1);
    shm->board = (struct stp_board *)(shm->identities + rank->n_ranks);
    shm->plan_board = (struct stp_plan_board *)shm->board;
    shm->plan_step.rank = shm->step.rank;
    shm->step.n_ranks = (uint32_t)rank->n_ranks;
    shm->step.n_slots = STP_BOARD_SLOTS;
    shm->n_needed = rank->n_needed;
    shm->store = rank->store;
    shm->comm_id = rank->comm_id;
    shm->patience_ms = stp_now_ms() + rank->store.timeout_ms + PATIENCE_MS;
    if (shm->base.speaks)
        stp_plans_open(&shm->plans);
    if (shm->base.proposes)
        atomic_fetch_add(&shm->state->n_proposing, 1);
    stp_identity_write(&shm->identities[shm->step.rank], rank);
}

static enum stp_status shm_join(const struct stp_agreement_rank *rank,
                                struct stp_agreement **agreement_ret,
                                struct stp_error *err)
{
    const struct stp_segment_key key = {
        rank->host_id == 0 ? rank->comm_id
                           : stp_hash(rank->comm_id, rank->host_id),
        rank->n_ranks, shm_bytes(rank)};
    struct shm_agreement *shm;
    enum stp_status status;

    if (rank->n_ranks < 1 || (rank->proposes && !shm_has_store(&rank->store) &&
                              rank->n_ranks > STP_AGREE_RANKS))
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
    shm_lay_out(shm, rank);
    stp_segment_enter(shm->segment);
    *agreement_ret = &shm->base;
    return STP_OK;
}

/* ---- comparing ---- */

static uint32_t shm_read_outcome(const struct shm_agreement *shm)
{
    return atomic_load(&shm->state->outcome);
}

/* All that have joined by now count; a rank that joins later reads what these
 * have written. */
static void shm_write_outcome(struct shm_agreement *shm)
{
    size_t n_joined = stp_segment_n_joined(shm->segment);
    bool is_agreed =
        n_joined >= shm->n_needed &&
        stp_identities_are_equal(shm->identities, shm->step.n_ranks);
    uint32_t open = OPEN;

    atomic_compare_exchange_strong(&shm->state->outcome, &open,
                                   is_agreed ? AGREED : REFUSED);
}

static void shm_nap(void)
{
    const struct timespec nap = {.tv_nsec = 1000000};

    nanosleep(&nap, NULL);
}

static bool shm_move_outcome(struct shm_agreement *shm, enum shm_outcome from,
                             enum shm_outcome to)
{
    uint32_t outcome = from;

    return atomic_compare_exchange_strong(&shm->state->outcome, &outcome, to);
}

/* A rank that speaks and was stopped for long is given up. */
static bool shm_await_hosts(struct shm_agreement *shm)
{
    while (shm_read_outcome(shm) <= COMMITTED &&
           stp_now_ms() < shm->patience_ms)
        shm_nap();
    if (!shm_move_outcome(shm, OPEN, REFUSED))
        shm_move_outcome(shm, COMMITTED, REFUSED);
    return shm_read_outcome(shm) == AGREED;
}

static bool shm_compare(struct stp_agreement *agreement, unsigned wait_ms)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(&shm->store))
        return shm_await_hosts(shm);
    for (unsigned i = 0; i < wait_ms && shm_read_outcome(shm) == OPEN &&
                         stp_segment_n_joined(shm->segment) < shm->n_needed;
         i++)
        shm_nap();
    if (shm_read_outcome(shm) == OPEN)
        shm_write_outcome(shm);
    return shm_read_outcome(shm) == AGREED;
}

static bool shm_is_hushed(void *user)
{
    return stp_plans_are_hushed(&((struct shm_agreement *)user)->plans);
}

static bool shm_commit(void *user)
{
    return shm_move_outcome(user, OPEN, COMMITTED);
}

static size_t shm_count_learning(void *user)
{
    const struct shm_agreement *shm = user;

    return atomic_load(&shm->state->n_proposing);
}

/* All ranks of all hosts have joined: also those of this host. */
static bool shm_all_propose(const struct shm_agreement *shm)
{
    return atomic_load(&shm->state->n_proposing) ==
           stp_segment_n_joined(shm->segment);
}

static void shm_begin_plans(struct shm_agreement *shm)
{
    struct stp_plans *plans = &shm->plans;

    plans->host = (struct stp_planner_host){
        .board = shm->plan_board,
        .n_own = stp_segment_n_joined(shm->segment),
        .n_ranks = shm->step.n_ranks,
        .leads = plans->line.leads,
        .acknowledges = shm_all_propose(shm) && plans->line.all_learn,
        .timeout_ms = shm->store.timeout_ms,
        .margin_ms = shm->store.lead,
        .margin_calls = shm->store.lead,
    };
    snprintf(plans->host.name, sizeof(plans->host.name), "%s", shm->store.host);
    atomic_store(&shm->state->leads, plans->line.leads);
    stp_plans_begin(plans, &shm->store);
}

static void shm_go_on(struct shm_agreement *shm)
{
    char why[STP_PLANNER_WHY];

    stp_plans_run(&shm->plans, why);
    if (why[0] == '\0')
        return;
    snprintf(shm->state->why, sizeof(shm->state->why), "%s", why);
    atomic_store(&shm->state->has_why, 1);
}

static void shm_speak(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);
    const struct stp_hosts hosts = {.store = &shm->store,
                                    .comm_id = shm->comm_id,
                                    .n_ranks = shm->step.n_ranks,
                                    .identities = shm->identities,
                                    .is_hushed = shm_is_hushed,
                                    .commit = shm_commit,
                                    .count_learning = shm_count_learning,
                                    .user = shm};
    bool is_agreed = stp_hosts_compare(
        &hosts, &shm->plans.line, shm->state->why, sizeof(shm->state->why));

    atomic_store(&shm->state->has_why, !is_agreed);
    if (is_agreed && agreement->proposes)
        shm_begin_plans(shm);
    if (!shm_move_outcome(shm, COMMITTED, is_agreed ? AGREED : REFUSED))
        shm_move_outcome(shm, OPEN, REFUSED);
    if (is_agreed && agreement->proposes)
        shm_go_on(shm);
    else if (is_agreed)
        stp_client_close(&shm->plans.line.client);
}

static void shm_hush(struct stp_agreement *agreement)
{
    if (agreement->speaks)
        stp_plans_hush(&shm_of(agreement)->plans);
}

/* Nobody can know what the ranks of other hosts do. */
static void shm_explain_lost(const struct shm_agreement *shm, char *text,
                             size_t size)
{
    char place[STP_STORE_PLACE];

    stp_store_describe(&shm->store.address, place);
    snprintf(text, size,
             "host %s took part in plan %llu of what to try, and cannot learn "
             "from %s whether the others follow it: %s",
             shm->store.host, (unsigned long long)shm->plan_step.next + 1,
             place,
             atomic_load(&shm->state->has_why)
                 ? shm->state->why
                 : "it did not answer in time, or the process that asks it was "
                   "stopped");
}

/* Why the hosts that agreed agree on no more. */
static void shm_explain_end(struct shm_agreement *shm, char *text, size_t size)
{
    if (shm->is_lost)
        shm_explain_lost(shm, text, size);
    else if (shm->base.speaks)
        stp_plans_explain(&shm->plans, text, size);
    else
        snprintf(text, size, "%s",
                 atomic_load(&shm->state->has_why) ? shm->state->why : "");
}

static void shm_explain(const struct stp_agreement *agreement, char *text,
                        size_t size)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(&shm->store) && shm_read_outcome(shm) == AGREED)
        shm_explain_end(shm, text, size);
    else if (!shm_has_store(&shm->store) ||
             !stp_identities_are_equal(shm->identities, shm->step.n_ranks))
        stp_identities_explain(shm->identities, shm->step.n_ranks,
                               shm->n_needed, shm->step.rank, text, size);
    else if (atomic_load(&shm->state->has_why))
        snprintf(text, size, "%s", shm->state->why);
    else
        snprintf(text, size,
                 "process %d, which speaks for this host at the store, was "
                 "stopped or gone for %d s",
                 (int)shm->identities[0].pid,
                 (int)(shm->store.timeout_ms + PATIENCE_MS) / 1000);
}

static bool shm_is_complete(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(&shm->store))
        return shm_read_outcome(shm) == AGREED && shm_all_propose(shm);
    return stp_segment_is_full(shm->segment) &&
           atomic_load(&shm->state->n_proposing) == shm->step.n_ranks;
}

/* ---- proposals ---- */

static bool shm_is_observer(const struct stp_agreement *agreement)
{
    const struct shm_agreement *shm = shm_of(agreement);

    return agreement->may_observe && (!shm_has_store(&shm->store) ||
                                      atomic_load(&shm->state->leads) != 0);
}

static bool shm_propose(struct stp_agreement *agreement,
                        const uint32_t *proposals, size_t n,
                        unsigned epoch_calls)
{
    struct shm_agreement *shm = shm_of(agreement);
    struct stp_board_step step = {0};

    for (size_t i = 0; i < n; i++)
        if (proposals[i] == 0 || proposals[i] > STP_BOARD_DECISION)
            return false;
    if (n < 1 || n > agreement->max_proposals)
        return false;
    if (shm_has_store(&shm->store))
        return stp_plans_propose(&shm->plans, proposals, n, epoch_calls);
    stp_board_begin_proposal(&step, proposals[0]);
    while (stp_board_access(&step, shm->board))
        ;
    return step.is_put;
}

static enum stp_proposed shm_proposed(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(&shm->store))
        return stp_plans_proposed(&shm->plans);
    return stp_board_is_pending(shm->board) ? STP_PROPOSED_PENDING
                                            : STP_PROPOSED_TAKEN;
}

/* A rank that waited too long gives up for its host. */
static void shm_doubt(struct shm_agreement *shm, unsigned *n_naps)
{
    if ((*n_naps)++ < shm->store.timeout_ms + PATIENCE_MS)
        shm_nap();
    else
        stp_plan_lose(&shm->plan_step, shm->plan_board);
}

static enum stp_epoch shm_next_planned_epoch(struct shm_agreement *shm,
                                             uint32_t *proposal_ret)
{
    unsigned n_naps = 0;

    *proposal_ret = 0;
    if (shm->is_lost)
        return STP_EPOCH_LOST;
    stp_plan_begin_epoch(&shm->plan_step);
    for (;;) {
        switch (stp_plan_access(&shm->plan_step, shm->plan_board)) {
        case STP_PLAN_MORE:
            break;
        case STP_PLAN_DONE:
            *proposal_ret = shm->plan_step.word;
            return STP_EPOCH_KNOWN;
        case STP_PLAN_DOUBT:
            shm_doubt(shm, &n_naps);
            break;
        case STP_PLAN_FAILED:
            shm->is_lost = true;
            return STP_EPOCH_LOST;
        }
    }
}

static enum stp_epoch shm_next_epoch(struct stp_agreement *agreement,
                                     uint32_t *proposal_ret)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (shm_has_store(&shm->store))
        return shm_next_planned_epoch(shm, proposal_ret);
    if (!shm->step.is_frozen) {
        stp_board_begin_epoch(&shm->step);
        while (stp_board_access(&shm->step, shm->board))
            ;
    }
    *proposal_ret = shm->step.decision;
    return shm->step.is_frozen ? STP_EPOCH_FROZEN : STP_EPOCH_KNOWN;
}

static void shm_leave(struct stp_agreement *agreement)
{
    struct shm_agreement *shm = shm_of(agreement);

    if (agreement->speaks)
        stp_plans_close(&shm->plans);
    stp_segment_leave(shm->segment);
    free(shm);
}

const struct stp_agreement_ops stp_agreement_shm = {
    .join = shm_join,
    .compare = shm_compare,
    .explain = shm_explain,
    .speak = shm_speak,
    .hush = shm_hush,
    .is_complete = shm_is_complete,
    .is_observer = shm_is_observer,
    .propose = shm_propose,
    .proposed = shm_proposed,
    .next_epoch = shm_next_epoch,
    .leave = shm_leave,
};
