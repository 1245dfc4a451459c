/* contract_threads.c - checks of inits and calls in several threads at once */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "analyse/contract/contract_suite.h"

enum { N_THREADS = 8, N_ROUNDS = 10, N_LOOPS = 5 };

/* One rank, in its own thread. */
struct rank {
    struct stp_contract_run *run;
    struct mock_nccl *nccl;
    const struct mock_machine *machine;
    uint64_t comm_id;
    pthread_barrier_t *barrier;
    struct mock_comm *comm;
    ncclResult_t rc;
    char why[STP_CONTRACT_TEXT];         /* of a failure */
    struct stp_decisions before;         /* in turn */
    struct stp_decisions loops[N_LOOPS]; /* at once */
};

/* The ranks of one communicator; a check has one set of them at a time. */
static struct rank ranks[N_THREADS];

/* Runs 'body' for all ranks at the same time. */
static void threads_run(struct stp_contract_run *run, void *(*body)(void *rank))
{
    pthread_t threads[N_THREADS];
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, NULL, N_THREADS);
    for (int i = 0; i < N_THREADS; i++) {
        ranks[i].barrier = &barrier;
        /* those that there are wait for it until the process ends */
        if (pthread_create(&threads[i], NULL, body, &ranks[i]) != 0)
            stp_contract_skip(run, "no %d threads to be had", N_THREADS);
    }
    for (int i = 0; i < N_THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
}

static void threads_set_up(struct stp_contract_run *run, struct mock_nccl *nccl)
{
    uint64_t comm_id = mock_new_comm_id();

    for (int i = 0; i < N_THREADS; i++) {
        ranks[i].run = run;
        ranks[i].nccl = nccl;
        ranks[i].machine = run->world->shapes[STP_SHAPE_NVLS];
        ranks[i].comm_id = comm_id;
    }
}

static void threads_destroy_all(struct stp_contract_run *run)
{
    for (int i = 0; i < N_THREADS; i++)
        stp_contract_destroy(run, ranks[i].comm);
}

/* Makes all ranks in turn. */
static void threads_init_in_turn(struct stp_contract_run *run,
                                 struct mock_nccl *nccl)
{
    threads_set_up(run, nccl);
    for (int i = 0; i < N_THREADS; i++)
        ranks[i].comm =
            stp_contract_comm(run, nccl, ranks[i].machine, ranks[i].comm_id);
}

static void threads_ask_in_turn(struct stp_contract_run *run)
{
    for (int i = 0; i < N_THREADS; i++)
        stp_contract_ask(run, ranks[i].comm, false, &ranks[i].before);
}

/* ---- state of libc ---- */

/*
 * Functions of libc that keep what they go on with in memory that all threads
 * share. A tuner that calls one races with inits and calls of other
 * communicators and with the application, which may be between two calls of
 * it; how often that shows is chance. So the application's part is played here:
 * what it was told must still hold after the tuner had its turn.
 */
static char words[] = "first second";
static const char *told_text; /* of ctime() */
static char first_text[32];
static const struct tm *told;

static void threads_begin_shared(void)
{
    static const time_t some_day = 86400;

    words[sizeof("first") - 1] = ' ';
    (void)strtok(words, " ");
    told_text = ctime(&some_day);
    snprintf(first_text, sizeof(first_text), "%s", told_text);
    told = gmtime(&some_day); /* after ctime(), which calls it */
}

static void threads_check_shared(struct stp_contract_run *run, const char *who)
{
    const char *word = strtok(NULL, " ");
    const char *changed = NULL;

    if (word == NULL || strcmp(word, "second") != 0)
        changed = "strtok()";
    else if (strcmp(told_text, first_text) != 0)
        changed = "ctime() or asctime()";
    else if (told->tm_year != 70 || told->tm_yday != 1 || told->tm_hour != 0)
        changed = "gmtime() or localtime()";
    if (changed != NULL)
        stp_contract_fail(run,
                          "%s calls %s of libc, whose memory all threads of "
                          "the process share",
                          who, changed);
}

/* ---- init ---- */

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

void stp_check_threads_init(struct stp_contract_run *run)
{
    struct mock_nccl *nccl = stp_contract_open(run);
    struct stp_decisions in_turn, later;

    threads_begin_shared();
    threads_init_in_turn(run, nccl);
    threads_check_shared(run, "init");
    threads_ask_in_turn(run);
    in_turn = ranks[0].before;
    threads_destroy_all(run);
    stp_contract_unload(run, nccl);
    for (int round = 0; round < N_ROUNDS; round++) {
        nccl = stp_contract_open(run); /* loaded anew */
        threads_set_up(run, nccl);
        stp_contract_at(run, "%d inits at once", N_THREADS);
        threads_run(run, threads_create);
        for (int i = 0; i < N_THREADS; i++)
            if (ranks[i].rc == ncclSuccess)
                stp_contract_adopt(run, ranks[i].comm);
        for (int i = 0; i < N_THREADS; i++) {
            if (ranks[i].rc != ncclSuccess)
                stp_contract_fail(run, "with %d inits at once: %s", N_THREADS,
                                  ranks[i].why);
            stp_contract_ask(run, ranks[i].comm, false, &later);
            stp_contract_same(run, &in_turn, "after inits in turn", &later,
                              "after inits at once");
        }
        threads_destroy_all(run);
        stp_contract_unload(run, nccl);
    }
}

/* ---- calls ---- */

static void *threads_ask(void *opaque)
{
    struct rank *rank = opaque;

    pthread_barrier_wait(rank->barrier);
    for (int i = 0; i < N_LOOPS; i++)
        stp_contract_ask(rank->run, rank->comm, true, &rank->loops[i]);
    return NULL;
}

/* A tuner that learns may decide otherwise from some call on, which is the same
 * call on all ranks: only where ranks differ is another decision than before a
 * fault. */
void stp_check_threads_ask(struct stp_contract_run *run)
{
    threads_init_in_turn(run, stp_contract_open(run));
    threads_begin_shared();
    threads_ask_in_turn(run);
    threads_check_shared(run, "getCollInfo");
    stp_contract_at(run, "getCollInfo on %d communicators at once", N_THREADS);
    threads_run(run, threads_ask);
    for (int i = 1; i < N_THREADS; i++)
        for (int l = 0; l < N_LOOPS; l++) {
            const struct stp_decisions *first = &ranks[0].loops[l];
            const struct stp_decisions *other = &ranks[i].loops[l];

            if (memcmp(first, other, sizeof(*first)) == 0)
                continue;
            stp_contract_same(run, &ranks[i].before, "one after the other",
                              other, "all at once");
            stp_contract_same(run, &ranks[0].before, "one after the other",
                              first, "all at once");
        }
}
