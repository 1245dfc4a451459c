/* recorder.c - a tuner that writes down the questions of NCCL
 *
 * It is in the test program itself (NCCL_TUNER_PLUGIN=STATIC_PLUGIN).  One rank
 * writes, a line a question, to the file that STEPTUNE_TEST_QUESTIONS names:
 * collective, bytes, nodes, ranks, numPipeOps, regBuff, the cost table and what
 * it forced.  It forces nothing, unless STEPTUNE_TEST_FORCE is set: then each
 * question gets a random pair that NCCL allows, and mostly a random number of
 * channels, the same on all ranks. */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl_tuner_abi.h"

enum { MAX_ASKED_CHANNELS = 40 };

struct recorder {
    FILE *file; /* NULL: another rank writes */
    size_t n_ranks;
    size_t n_nodes;
    bool forces;
    unsigned short random[3];
};

struct forced {
    int entry; /* of the table; -1: none */
    int n_channels;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int taken;

static ncclResult_t init(void **context, uint64_t comm_id, size_t n_ranks,
                         size_t n_nodes, ncclDebugLogger_t log,
                         ncclNvlDomainInfo_v5_t *domains,
                         ncclTunerConstants_v5_t *constants)
{
    const char *path = getenv("STEPTUNE_TEST_QUESTIONS");
    struct recorder *r = calloc(1, sizeof(*r));

    if (r == NULL || path == NULL)
        return ncclInternalError;
    pthread_mutex_lock(&lock);
    if (!taken)
        r->file = fopen(path, "w");
    taken = 1;
    pthread_mutex_unlock(&lock);
    r->n_ranks = n_ranks;
    r->n_nodes = n_nodes;
    r->forces = getenv("STEPTUNE_TEST_FORCE") != NULL;
    *context = r;
    return ncclSuccess;
}

/* Any of the entries that NCCL allows, each as likely as another. */
static struct forced draw(struct recorder *r, const float *cost, int n)
{
    struct forced forced = {.entry = -1};
    int n_allowed = 0;

    for (int i = 0; i < n; i++)
        if (cost[i] >= 0 && erand48(r->random) * ++n_allowed < 1)
            forced.entry = i;
    if (erand48(r->random) * 4 >= 1)
        forced.n_channels = 1 + (int)(erand48(r->random) * MAX_ASKED_CHANNELS);
    return forced;
}

static void write_question(const struct recorder *r, ncclFunc_t coll,
                           size_t n_bytes, int n_pipe_ops, int reg_buff,
                           const float *cost, int n, const struct forced *f)
{
    fprintf(r->file, "%d,%zu,%zu,%zu,%d,%d", (int)coll, n_bytes, r->n_nodes,
            r->n_ranks, n_pipe_ops, reg_buff);
    for (int i = 0; i < n; i++)
        fprintf(r->file, ",%.9g", (double)cost[i]);
    fprintf(r->file, ",%d,%d\n", f->entry, f->n_channels);
    fflush(r->file);
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    struct recorder *r = context;
    float *cost = (float *)table;
    struct forced forced = {.entry = -1};

    if (r->forces)
        forced = draw(r, cost, n_algos * n_protos);
    if (r->file != NULL)
        write_question(r, coll, n_bytes, n_pipe_ops, reg_buff, cost,
                       n_algos * n_protos, &forced);
    if (forced.entry >= 0)
        cost[forced.entry] = 0;
    if (forced.n_channels != 0)
        *n_channels = forced.n_channels;
    return ncclSuccess;
}

static ncclResult_t finalize(void *context)
{
    struct recorder *r = context;

    if (r->file != NULL)
        fclose(r->file);
    free(r);
    return ncclSuccess;
}

__attribute__((visibility("default")))
const ncclTuner_v5_t ncclTunerPlugin_v5 = {"recorder", init, ask, finalize};
