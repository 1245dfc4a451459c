/* contract_threads.c - checks of inits and calls in several threads at once */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "analyse/contract/contract_suite.h"

enum { N_THREADS = 8, N_ROUNDS = 10, N_LOOPS = 50 };

/* One rank, in its own thread. */
struct rank {
    struct mock_nccl *nccl;
    const struct mock_machine *machine;
    uint64_t comm_id;
    pthread_barrier_t *barrier;
    struct mock_comm *comm;
    ncclResult_t rc;
    char why[STP_CONTRACT_TEXT]; /* of a failure */
    struct stp_decision before[STP_N_QUESTIONS];
    struct stp_decision after[STP_N_QUESTIONS];
};

/* Runs 'body' for all ranks at the same time. */
static bool threads_run(struct stp_contract_run *run, struct rank *ranks,
                        void *(*body)(void *rank))
{
    pthread_t threads[N_THREADS];
    pthread_barrier_t barrier;
    int n = 0;

    pthread_barrier_init(&barrier, NULL, N_THREADS);
    for (; n < N_THREADS; n++) {
        ranks[n].barrier = &barrier;
        if (pthread_create(&threads[n], NULL, body, &ranks[n]) != 0) {
            /* the others wait for it */
            stp_contract_skip(run, "no %d threads to be had", N_THREADS);
            return false;
        }
    }
    for (int i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    return true;
}

static void threads_set_up(struct stp_contract_run *run, struct mock_nccl *nccl,
                           struct rank ranks[N_THREADS])
{
    uint64_t comm_id = mock_new_comm_id();

    memset(ranks, 0, N_THREADS * sizeof(*ranks));
    for (int i = 0; i < N_THREADS; i++) {
        ranks[i].nccl = nccl;
        ranks[i].machine = run->world->shapes[STP_SHAPE_NVLS];
        ranks[i].comm_id = comm_id;
    }
}

static void *threads_create(void *opaque)
{
    struct rank *rank = opaque;

    pthread_barrier_wait(rank->barrier);
    rank->rc =
        mock_comm_create(rank->nccl, rank->machine, rank->comm_id, &rank->comm);
    if (rank->rc != ncclSuccess)
        snprintf(rank->why, sizeof(rank->why), "%s", mock_last_error());
    return NULL;
}

static bool threads_destroy_all(struct stp_contract_run *run,
                                struct rank ranks[N_THREADS])
{
    bool good = true;

    for (int i = 0; i < N_THREADS; i++)
        if (ranks[i].comm != NULL)
            good &= stp_contract_destroy(run, ranks[i].comm);
    return good;
}

/* ---- init ---- */

static bool threads_look_at_inits(struct stp_contract_run *run,
                                  struct rank ranks[N_THREADS],
                                  const struct stp_decision *in_turn)
{
    for (int i = 0; i < N_THREADS; i++) {
        if (ranks[i].rc != ncclSuccess)
            return stp_contract_fail(run, "with %d inits at once: %s",
                                     N_THREADS, ranks[i].why);
        stp_contract_ask(run, ranks[i].comm, ranks[i].after);
        if (!stp_contract_same(run, in_turn, "after inits in turn",
                               ranks[i].after, "after inits at once"))
            return false;
    }
    return true;
}

static bool threads_init_at_once(struct stp_contract_run *run,
                                 const struct stp_decision *in_turn)
{
    struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);
    struct rank ranks[N_THREADS];
    bool good;

    if (nccl == NULL)
        return false;
    threads_set_up(run, nccl, ranks);
    stp_contract_at(run, "%d inits at once", N_THREADS);
    good = threads_run(run, ranks, threads_create) &&
           threads_look_at_inits(run, ranks, in_turn) &&
           threads_destroy_all(run, ranks);
    mock_nccl_destroy(nccl); /* the next round loads it anew */
    return good;
}

/* The ranks of one communicator, one after the other. */
static bool threads_init_in_turn(struct stp_contract_run *run,
                                 struct mock_nccl *nccl,
                                 struct rank ranks[N_THREADS])
{
    threads_set_up(run, nccl, ranks);
    for (int i = 0; i < N_THREADS; i++) {
        ranks[i].comm =
            stp_contract_comm(run, nccl, ranks[i].machine, ranks[i].comm_id);
        if (ranks[i].comm == NULL)
            return false;
    }
    for (int i = 0; i < N_THREADS; i++)
        stp_contract_ask(run, ranks[i].comm, ranks[i].before);
    return true;
}

void stp_check_threads_init(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);
    struct rank in_turn[N_THREADS];

    if (nccl == NULL || !threads_init_in_turn(run, nccl, in_turn) ||
        !threads_destroy_all(run, in_turn))
        return;
    mock_nccl_destroy(nccl);
    for (int round = 0; round < N_ROUNDS; round++)
        if (!threads_init_at_once(run, in_turn[0].before))
            return;
}

/* ---- calls ---- */

/* Stops at the first round that differs. */
static void *threads_ask(void *opaque)
{
    struct rank *rank = opaque;

    pthread_barrier_wait(rank->barrier);
    for (int i = 0; i < N_LOOPS; i++) {
        stp_contract_ask(NULL, rank->comm, rank->after);
        if (memcmp(rank->before, rank->after, sizeof(rank->before)) != 0)
            break;
    }
    return NULL;
}

void stp_check_threads_ask(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_nccl(run, NULL, NULL, NULL);
    struct rank ranks[N_THREADS];

    if (nccl == NULL || !threads_init_in_turn(run, nccl, ranks))
        return;
    stp_contract_at(run, "getCollInfo on %d communicators at once", N_THREADS);
    if (!threads_run(run, ranks, threads_ask))
        return;
    for (int i = 0; i < N_THREADS; i++)
        if (!stp_contract_same(run, ranks[i].before, "one after the other",
                               ranks[i].after, "all at once"))
            return;
    threads_destroy_all(run, ranks);
    mock_nccl_destroy(nccl);
}
