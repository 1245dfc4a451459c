#include "plugins/tuner.h"

#include "base/log.h"

/* v2, v3 and v4 share their init, v5 and v6 theirs. */
ncclResult_t mock_tuner_init(struct mock_tuner *tuner,
                             struct mock_init_args *args, void **context)
{
    const ncclTuner_v2_t *v2 = tuner->symbol;
    const ncclTuner_v5_t *v5 = tuner->symbol;
    const ncclTuner_v7_t *v7 = tuner->symbol;
    ncclTunerConstants_v5_t constants;
    ncclResult_t rc;

    if (tuner->version < 5) {
        rc = v2->init(args->n_ranks, args->n_nodes, mock_log, context);
    } else if (tuner->version < 7) {
        nccl_constants_to_v5(args->constants, &constants);
        rc = v5->init(context, args->comm_id, args->n_ranks, args->n_nodes,
                      mock_log, &args->domains, &constants);
        nccl_constants_to_v7(&constants, args->constants);
    } else {
        rc = v7->init(context, args->comm_id, args->n_ranks, args->n_nodes,
                      mock_log, &args->domains, args->constants);
    }
    if (rc == ncclSuccess)
        mock_tuner_set_finalize(tuner, true);
    return rc;
}

static bool tuner_is_open(const struct mock_ask_args *args, int algo)
{
    const float *row = args->table + algo * NCCL_NUM_PROTOCOLS;

    return row[NCCL_PROTO_SIMPLE] != NCCL_ALGO_PROTO_IGNORE;
}

/* A v2 tuner returns a pair; NCCL makes it the cheapest unless ruled out. */
static ncclResult_t tuner_ask_v2(const ncclTuner_v2_t *tuner, void *context,
                                 const struct mock_ask_args *args,
                                 int *n_channels)
{
    int algo = NCCL_ALGO_UNDEF;
    int proto = NCCL_PROTO_UNDEF;
    ncclResult_t rc;
    float *entry;

    rc = tuner->getCollInfo(context, args->coll, args->n_bytes,
                            tuner_is_open(args, NCCL_ALGO_COLLNET_CHAIN),
                            tuner_is_open(args, NCCL_ALGO_NVLS) ||
                                tuner_is_open(args, NCCL_ALGO_NVLS_TREE),
                            args->n_pipe_ops, &algo, &proto, n_channels);
    if (rc != ncclSuccess || algo < 0 || algo >= args->n_algos || proto < 0 ||
        proto >= NCCL_NUM_PROTOCOLS)
        return rc;
    entry = args->table + algo * NCCL_NUM_PROTOCOLS + proto;
    if (*entry != NCCL_ALGO_PROTO_IGNORE)
        *entry = 0;
    return ncclSuccess;
}

/* v4 to v7 share their getCollInfo. */
ncclResult_t mock_tuner_ask(const struct mock_tuner *tuner, void *context,
                            const struct mock_ask_args *args, int *n_channels)
{
    const ncclTuner_v3_t *v3 = tuner->symbol;
    const ncclTuner_v4_t *v4 = tuner->symbol;

    if (tuner->version == 2)
        return tuner_ask_v2(tuner->symbol, context, args, n_channels);
    if (tuner->version == 3)
        return v3->getCollInfo(context, args->coll, args->n_bytes,
                               args->n_pipe_ops, (float **)args->table,
                               args->n_algos, NCCL_NUM_PROTOCOLS, n_channels);
    return v4->getCollInfo(context, args->coll, args->n_bytes, args->n_pipe_ops,
                           (float **)args->table, args->n_algos,
                           NCCL_NUM_PROTOCOLS, args->reg_buff, n_channels);
}

ncclResult_t mock_tuner_ask_pair(const struct mock_tuner *tuner, void *context,
                                 const struct mock_ask_args *args, int *algo,
                                 int *proto, int *n_channels)
{
    const ncclTuner_v2_t *v2 = tuner->symbol;

    return v2->getCollInfo(context, args->coll, args->n_bytes, args->collnet,
                           args->nvls, args->n_pipe_ops, algo, proto,
                           n_channels);
}

/* ---- chunks, which v7 has as v6 ---- */

bool mock_tuner_has_chunks(const struct mock_tuner *tuner)
{
    const ncclTuner_v6_t *v6 = tuner->symbol;

    return tuner->version >= 6 && v6->getChunkSize != NULL;
}

ncclResult_t mock_tuner_chunk(const struct mock_tuner *tuner, void *context,
                              ncclFunc_t coll, size_t n_bytes, int algo,
                              int proto, int n_channels, size_t *chunk)
{
    const ncclTuner_v6_t *v6 = tuner->symbol;

    return v6->getChunkSize(context, coll, n_bytes, algo, proto, n_channels,
                            chunk);
}

/* All tuners begin with a name and three functions, as a v2 tuner does. */
const char *mock_tuner_name(const struct mock_tuner *tuner)
{
    const ncclTuner_v2_t *any = tuner->symbol;

    return any->name != NULL ? any->name : "(null)";
}

bool mock_tuner_is_complete(const struct mock_tuner *tuner)
{
    const ncclTuner_v2_t *any = tuner->symbol;

    return any->init != NULL && any->getCollInfo != NULL &&
           any->destroy != NULL;
}

ncclResult_t mock_tuner_finalize(const struct mock_tuner *tuner, void *context)
{
    const ncclTuner_v2_t *any = tuner->symbol; /* finalize since v5 */

    return any->destroy(context);
}
