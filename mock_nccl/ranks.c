/*
 * ranks.c - all ranks of a communicator, playing one script
 *
 * NCCL compares nothing between ranks, and hangs if they choose differently.
 * Here every step of every rank is compared with that of the rank that came to
 * it first.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "error.h"
#include "machine.h"
#include "names.h"

/* What must be the same on all ranks, of one collective. */
struct decision {
    int rank; /* that came first; -1 if none has yet */
    int algo;
    int proto;
    int n_channels;
    size_t chunk_bytes;
};

struct mock_ranks {
    struct mock_comm **comms;
    int n;
};

/* One play. */
struct play {
    const struct mock_ranks *ranks;
    const struct mock_script *script;
    size_t *at;                 /* each rank's next step */
    struct decision *decisions; /* by collective of the script */
    size_t *first;              /* collective of each step */
    struct mock_call *calls;    /* scratch: the largest group */
    struct mock_outcome *outcomes;
    unsigned short random[3];
};

/* ---- life ---- */

ncclResult_t mock_ranks_create(struct mock_nccl *nccl,
                               const struct mock_machine *machine,
                               uint64_t comm_id,
                               void (*before_init)(void *user, int rank),
                               void *user, struct mock_ranks **ranks_ret)
{
    struct mock_ranks *ranks = calloc(1, sizeof(*ranks));
    int n = machine->info.n_ranks;
    ncclResult_t rc = ncclSuccess;

    if (ranks == NULL)
        return mock_fail_memory();
    ranks->comms = calloc((size_t)n, sizeof(*ranks->comms));
    if (ranks->comms == NULL) {
        free(ranks);
        return mock_fail_memory();
    }
    while (ranks->n < n && rc == ncclSuccess) {
        if (before_init != NULL)
            before_init(user, ranks->n);
        rc = mock_comm_create(nccl, machine, comm_id, &ranks->comms[ranks->n]);
        ranks->n += rc == ncclSuccess;
    }
    if (rc == ncclSuccess)
        *ranks_ret = ranks;
    else
        mock_ranks_destroy(ranks);
    return rc;
}

void mock_ranks_destroy(struct mock_ranks *ranks)
{
    if (ranks == NULL)
        return;
    while (ranks->n > 0)
        mock_comm_destroy(ranks->comms[--ranks->n]);
    free(ranks->comms);
    free(ranks);
}

int mock_ranks_count(const struct mock_ranks *ranks)
{
    return ranks->n;
}

/* ---- comparing ---- */

static void describe(const struct decision *d, char text[96])
{
    int n = snprintf(text, 96, "%s/%s on %d channels",
                     mock_word(&mock_algos, d->algo),
                     mock_word(&mock_protos, d->proto), d->n_channels);

    if (d->chunk_bytes != 0 && n > 0 && n < 96)
        snprintf(text + n, (size_t)(96 - n), " in chunks of %zu",
                 d->chunk_bytes);
}

static ncclResult_t disagree(const struct mock_call *call, size_t step,
                             const struct decision *first,
                             const struct decision *other)
{
    char a[96], b[96];

    describe(first, a);
    describe(other, b);
    return mock_fail(ncclInternalError,
                     "step %zu, %s of %zu bytes: rank %d runs %s, rank %d %s; "
                     "NCCL would hang or corrupt data",
                     step, mock_word(&mock_colls, call->coll), call->n_bytes,
                     first->rank, a, other->rank, b);
}

static ncclResult_t compare(struct play *p, size_t step, size_t i, int rank)
{
    const struct mock_outcome *out = &p->outcomes[i];
    struct decision *first = &p->decisions[p->first[step] + i];
    const struct decision mine = {.rank = rank,
                                  .algo = out->algo,
                                  .proto = out->proto,
                                  .n_channels = out->n_channels,
                                  .chunk_bytes = out->chunk_bytes};

    if (first->rank < 0) {
        *first = mine;
        if (p->script->decided != NULL)
            p->script->decided(p->script->user, step, i, out);
    }
    if (first->algo == mine.algo && first->proto == mine.proto &&
        first->n_channels == mine.n_channels &&
        first->chunk_bytes == mine.chunk_bytes)
        return ncclSuccess;
    return disagree(&p->calls[i], step, first, &mine);
}

/* ---- playing ---- */

static ncclResult_t play_step(struct play *p, int rank)
{
    size_t number = p->at[rank];
    const struct mock_step *step = &p->script->steps[number];
    ncclResult_t rc;

    memcpy(p->calls, step->calls, step->n * sizeof(*p->calls));
    if (p->script->vary != NULL)
        for (size_t i = 0; i < step->n; i++)
            p->script->vary(p->script->user, rank, number, &p->calls[i]);
    rc = mock_comm_group(p->ranks->comms[rank], p->calls, step->n, p->outcomes);
    for (size_t i = 0; i < step->n && rc == ncclSuccess; i++)
        rc = compare(p, number, i, rank);
    p->at[rank]++;
    return rc;
}

/* A rank that has steps left, any of them; -1 if none has. */
static int next_rank(struct play *p)
{
    int n_left = 0;
    int pick = -1;

    for (int r = 0; r < p->ranks->n; r++)
        if (p->at[r] < p->script->n_steps && erand48(p->random) * ++n_left < 1)
            pick = r;
    return pick;
}

static ncclResult_t play_all(struct play *p)
{
    ncclResult_t rc = ncclSuccess;
    int rank;

    while (rc == ncclSuccess && (rank = next_rank(p)) >= 0)
        rc = play_step(p, rank);
    return rc;
}

static bool prepare(struct play *p)
{
    size_t n_calls = 0;
    size_t largest = 1;

    p->first = calloc(p->script->n_steps + 1, sizeof(*p->first));
    for (size_t s = 0; p->first != NULL && s < p->script->n_steps; s++) {
        p->first[s] = n_calls;
        n_calls += p->script->steps[s].n;
        if (p->script->steps[s].n > largest)
            largest = p->script->steps[s].n;
    }
    p->at = calloc((size_t)p->ranks->n, sizeof(*p->at));
    p->decisions = calloc(n_calls + 1, sizeof(*p->decisions));
    p->calls = calloc(largest, sizeof(*p->calls));
    p->outcomes = calloc(largest, sizeof(*p->outcomes));
    for (size_t i = 0; p->decisions != NULL && i < n_calls; i++)
        p->decisions[i].rank = -1;
    return p->first != NULL && p->at != NULL && p->decisions != NULL &&
           p->calls != NULL && p->outcomes != NULL;
}

ncclResult_t mock_ranks_play(struct mock_ranks *ranks,
                             const struct mock_script *script, uint64_t seed)
{
    struct play p = {.ranks = ranks,
                     .script = script,
                     .random = {(unsigned short)seed,
                                (unsigned short)(seed >> 16),
                                (unsigned short)(seed >> 32)}};
    ncclResult_t rc = prepare(&p) ? play_all(&p) : mock_fail_memory();

    free(p.first);
    free(p.at);
    free(p.decisions);
    free(p.calls);
    free(p.outcomes);
    return rc;
}
