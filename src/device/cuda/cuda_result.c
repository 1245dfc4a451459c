/* cuda_result.c - what CUDA and NCCL returned, as a status */
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
