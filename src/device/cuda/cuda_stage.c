/* cuda_stage.c - collectives of plain buffers by way of registered windows, as
 * the staging library runs them in a job */
#include "device/cuda/cuda.h"
#include "nccl_tuner_abi.h"

/* Calls of one group have places of their own in the windows. */
enum { PLACE_ALIGN = 4096 };

/* Whether NCCL has symmetric kernels of the collective: no other is staged. */
static bool stage_has_kernel(const struct stp_transfer *t)
{
    return t->coll == ncclFuncAllGather ||
           ((t->coll == ncclFuncAllReduce ||
             t->coll == ncclFuncReduceScatter) &&
            t->op == STP_OP_SUM);
}

static enum stp_status stage_copy(struct stp_cuda_rank *r,
                                  const struct stp_cuda_copy *copy,
                                  struct stp_error *err)
{
    return stp_cuda_result(r,
                           cudaMemcpyAsync(copy->to, copy->from, copy->nbytes,
                                           cudaMemcpyDeviceToDevice,
                                           r->stream[copy->stream]),
                           "cudaMemcpyAsync", err);
}

enum stp_status stp_cuda_stage_call(struct stp_cuda_rank *r, unsigned stream,
                                    const struct stp_transfer *t,
                                    struct stp_error *err)
{
    struct stp_cuda_staging *staging = &r->staging;
    const uint64_t share = t->n * stp_type_size(t->type);
    const uint64_t all = share * r->cuda->n_ranks;
    const uint64_t n_in = t->coll == ncclFuncReduceScatter ? all : share;
    const uint64_t n_out = t->coll == ncclFuncAllGather ? all : share;
    const uint64_t n_most = n_in > n_out ? n_in : n_out;
    char *const send = r->memories[0].at, *const recv = r->memories[1].at;
    struct stp_transfer staged = *t;
    struct stp_cuda_copy in;
    enum stp_status status;

    /* All ranks make the same calls, and so run out of places at the same one.
     */
    if (!stage_has_kernel(t) || staging->n_due == STP_CUDA_STAGED ||
        staging->n_bytes > r->memories[0].nbytes ||
        n_most > r->memories[0].nbytes - staging->n_bytes)
        return stp_cuda_collective(r, stream, t, r->comm, err);
    in = (struct stp_cuda_copy){send + staging->n_bytes, t->in, n_in, stream};
    staged.in = in.to;
    staged.out = recv + staging->n_bytes;
    staged.in_place = false;
    status = stage_copy(r, &in, err);
    STP_THEN(status, stp_cuda_collective(r, stream, &staged,
                                         stp_cuda_setup_comm(r), err));
    if (status != STP_OK)
        return status;
    staging->due[staging->n_due++] =
        (struct stp_cuda_copy){t->out, staged.out, n_out, stream};
    staging->n_bytes += (n_most + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
    return staging->in_group ? STP_OK : stp_cuda_stage_end(r, err);
}

enum stp_status stp_cuda_stage_end(struct stp_cuda_rank *r,
                                   struct stp_error *err)
{
    struct stp_cuda_staging *staging = &r->staging;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < staging->n_due; i++)
        STP_THEN(status, stage_copy(r, &staging->due[i], err));
    staging->n_due = 0;
    staging->n_bytes = 0;
    return status;
}
