/* cuda_call.c - NCCL and CUDA called for one rank */
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

enum stp_status stp_cuda_nccl_result(const struct stp_cuda *d,
                                     const struct stp_cuda_rank *rank,
                                     int result, const char *call,
                                     struct stp_error *err)
{
    const char *last;

    if (result == ncclSuccess || result == ncclInProgress)
        return STP_OK;
    last = d->nccl.get_last_error(rank->comm);
    /* invalid: such as fp8 on a GPU that has none */
    return stp_fail(
        err, result == ncclInvalidArgument ? STP_ERR_RANGE : STP_ERR_DEVICE,
        "rank %u, GPU %d: %s: %s%s%s", rank->rank, rank->gpu, call,
        d->nccl.get_error_string(result),
        last != NULL && last[0] != '\0' ? ": " : "", last != NULL ? last : "");
}

/* ---- one collective of one rank ---- */

enum { ALIGNMENT = 128 };

static uint64_t offset_of(const struct stp_cuda *d, uint64_t n_bytes,
                          unsigned k)
{
    uint64_t stride = (n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    uint64_t n_places = stride > 0 ? d->max_bytes / stride : 0;

    return n_places > 0 ? k % n_places * stride : 0;
}

void stp_cuda_place(const struct stp_cuda *d, const struct stp_cuda_rank *rank,
                    const struct stp_collective *what, unsigned k,
                    struct stp_cuda_place *place_ret)
{
    unsigned size = stp_type_size(what->type);
    uint64_t n = what->n_bytes / size;
    uint64_t part = n / d->n_ranks;
    uint64_t offset = offset_of(d, what->n_bytes, k);
    struct stp_cuda_place p = {rank->send + offset, rank->recv + offset, n, n};

    if (what->coll == ncclFuncAllGather)
        p.n_send = part;
    if (what->coll == ncclFuncReduceScatter)
        p.n_recv = part;
    if (what->in_place) {
        p.send = p.recv;
        if (what->coll == ncclFuncAllGather)
            p.send += rank->rank * part * size;
        if (what->coll == ncclFuncReduceScatter)
            p.recv += rank->rank * part * size;
    }
    *place_ret = p;
}

enum stp_status stp_cuda_collective(const struct stp_cuda *d,
                                    const struct stp_cuda_rank *rank,
                                    unsigned stream,
                                    const struct stp_collective *what,
                                    unsigned k, struct stp_error *err)
{
    const struct stp_nccl_api *nccl = &d->nccl;
    cudaStream_t s = rank->stream[stream];
    int root = (int)what->root;
    struct stp_cuda_place p;

    stp_cuda_place(d, rank, what, k, &p);
    switch (what->coll) {
    case ncclFuncBroadcast:
        return stp_cuda_nccl_result(d, rank,
                                    nccl->broadcast(p.send, p.recv, p.n_send,
                                                    what->type, root,
                                                    rank->comm, s),
                                    "ncclBroadcast", err);
    case ncclFuncReduce:
        return stp_cuda_nccl_result(d, rank,
                                    nccl->reduce(p.send, p.recv, p.n_send,
                                                 what->type, what->op, root,
                                                 rank->comm, s),
                                    "ncclReduce", err);
    case ncclFuncAllGather:
        return stp_cuda_nccl_result(d, rank,
                                    nccl->all_gather(p.send, p.recv, p.n_send,
                                                     what->type, rank->comm, s),
                                    "ncclAllGather", err);
    case ncclFuncReduceScatter:
        return stp_cuda_nccl_result(
            d, rank,
            nccl->reduce_scatter(p.send, p.recv, p.n_recv, what->type, what->op,
                                 rank->comm, s),
            "ncclReduceScatter", err);
    default:
        return stp_cuda_nccl_result(d, rank,
                                    nccl->all_reduce(p.send, p.recv, p.n_send,
                                                     what->type, what->op,
                                                     rank->comm, s),
                                    "ncclAllReduce", err);
    }
}
