/* cuda_call.c - NCCL and CUDA called for one rank, and what they returned */
#include <stdlib.h>

#include "device/cuda/cuda.h"
#include "nccl_tuner_abi.h"

enum stp_status stp_cuda_result(const struct stp_cuda_rank *rank,
                                cudaError_t result, const char *call,
                                struct stp_error *err)
{
    if (result == cudaSuccess)
        return STP_OK;
    return stp_fail(err, STP_ERR_DEVICE, "rank %u, GPU %d: %s: %s", rank->rank,
                    rank->gpu, call, cudaGetErrorString(result));
}

enum stp_status stp_cuda_nccl_result(const struct stp_cuda_rank *rank,
                                     int result, const char *call,
                                     struct stp_error *err)
{
    const struct stp_nccl_api *nccl = &rank->cuda->nccl;
    const char *last;

    if (result == ncclSuccess || result == ncclInProgress)
        return STP_OK;
    last = nccl->ncclGetLastError(rank->comm);
    /* invalid: such as fp8 on a GPU that has none */
    return stp_fail(
        err, result == ncclInvalidArgument ? STP_ERR_RANGE : STP_ERR_DEVICE,
        "rank %u, GPU %d: %s: %s%s%s", rank->rank, rank->gpu, call,
        nccl->ncclGetErrorString((ncclResult_t)result),
        last != NULL && last[0] != '\0' ? ": " : "", last != NULL ? last : "");
}

enum stp_status stp_cuda_collective(const struct stp_cuda_rank *r,
                                    unsigned stream,
                                    const struct stp_transfer *t,
                                    ncclComm_t whole, struct stp_error *err)
{
    const struct stp_nccl_api *nccl = &r->cuda->nccl;
    const ncclComm_t comm = t->split > 0 ? r->parts[t->split - 1] : whole;
    cudaStream_t s = r->stream[stream];
    const char *call;
    int result;

    switch (t->coll) {
    case ncclFuncBroadcast:
        call = "ncclBroadcast";
        result =
            nccl->ncclBroadcast(t->in, t->out, t->n, t->type, t->root, comm, s);
        break;
    case ncclFuncReduce:
        call = "ncclReduce";
        result = nccl->ncclReduce(t->in, t->out, t->n, t->type, t->op, t->root,
                                  comm, s);
        break;
    case ncclFuncAllGather:
        call = "ncclAllGather";
        result = nccl->ncclAllGather(t->in, t->out, t->n, t->type, comm, s);
        break;
    case ncclFuncReduceScatter:
        call = "ncclReduceScatter";
        result = nccl->ncclReduceScatter(t->in, t->out, t->n, t->type, t->op,
                                         comm, s);
        break;
    case ncclFuncAllReduce:
        call = "ncclAllReduce";
        result =
            nccl->ncclAllReduce(t->in, t->out, t->n, t->type, t->op, comm, s);
        break;
    default:
        return STP_REFUSE(err, "no collective %d", t->coll);
    }
    return stp_cuda_nccl_result(r, result, call, err);
}

enum stp_status stp_cuda_events(struct stp_cuda_rank *r, unsigned number,
                                struct stp_error *err)
{
    const unsigned n = number < STP_CUDA_EVENTS ? STP_CUDA_EVENTS : 2 * number;
    cudaEvent_t *events, *joins;
    unsigned *recorded;

    if (number < r->n_events)
        return STP_OK;
    if ((events = realloc(r->events, n * sizeof(*events))) != NULL)
        r->events = events;
    if ((joins = realloc(r->joins, n * sizeof(*joins))) != NULL)
        r->joins = joins;
    if ((recorded = realloc(r->recorded, n * sizeof(*recorded))) != NULL)
        r->recorded = recorded;
    if (events == NULL || joins == NULL || recorded == NULL)
        return stp_nomem(err);
    for (; r->n_events < n; r->n_events++) {
        const unsigned i = r->n_events;
        cudaError_t result = cudaEventCreate(&r->events[i]);

        STP_CUDA_THEN(result, cudaEventCreateWithFlags(&r->joins[i],
                                                       cudaEventDisableTiming));
        if (result != cudaSuccess)
            return stp_cuda_result(r, result, "cudaEventCreate", err);
        r->recorded[i] = 0;
    }
    return STP_OK;
}
