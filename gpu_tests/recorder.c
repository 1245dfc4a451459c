/*
 * recorder.c - a tuner that decides nothing and writes down what it is asked
 *
 * It is in the test program itself (NCCL_TUNER_PLUGIN=STATIC_PLUGIN).  One rank
 * writes, a line a question, to the file that STEPTUNE_TEST_QUESTIONS names:
 * collective, bytes, nodes, ranks, numPipeOps, regBuff and the cost table.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "nccl_tuner_abi.h"

struct recorder {
    FILE *file; /* NULL: another rank writes */
    size_t n_ranks;
    size_t n_nodes;
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

    (void)comm_id;
    (void)log;
    (void)domains;
    (void)constants;
    if (r == NULL || path == NULL)
        return ncclInternalError;
    pthread_mutex_lock(&lock);
    if (!taken)
        r->file = fopen(path, "w");
    taken = 1;
    pthread_mutex_unlock(&lock);
    r->n_ranks = n_ranks;
    r->n_nodes = n_nodes;
    *context = r;
    return ncclSuccess;
}

static ncclResult_t ask(void *context, ncclFunc_t coll, size_t n_bytes,
                        int n_pipe_ops, float **table, int n_algos,
                        int n_protos, int reg_buff, int *n_channels)
{
    const struct recorder *r = context;
    const float *cost = (const float *)table;

    (void)n_channels;
    if (r->file == NULL)
        return ncclSuccess;
    fprintf(r->file, "%d,%zu,%zu,%zu,%d,%d", (int)coll, n_bytes, r->n_nodes,
            r->n_ranks, n_pipe_ops, reg_buff);
    for (int i = 0; i < n_algos * n_protos; i++)
        fprintf(r->file, ",%.9g", (double)cost[i]);
    fprintf(r->file, "\n");
    fflush(r->file);
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
