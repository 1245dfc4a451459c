/* cuda_stage.c - collectives of plain buffers by way of registered windows, as
 * the staging library runs them in a job */
#include "device/cuda/cuda.h"
#include "nccl_tuner_abi.h"

/* Calls of one group have places of their own in the windows. */
enum { PLACE_ALIGN = 4096 };

static enum stp_status stage_copy(struct stp_cuda_rank *r,
                                  const struct stp_cuda_copy *c,
                                  struct stp_error *err)
{
    return stp_cuda_result(r,
                           cudaMemcpyAsync(c->to, c->from, c->n_bytes,
                                           cudaMemcpyDeviceToDevice,
                                           r->stream[c->stream]),
                           "cudaMemcpyAsync", err);
}

enum stp_status stp_cuda_stage_call(struct stp_cuda_rank *r, unsigned stream,
                                    const struct stp_transfer *t,
                                    struct stp_error *err)
{
    struct stp_cuda_staging *staging = &r->staging;
    const struct stp_cuda_room *window = &r->memories[0];
    const uint64_t share = t->n * stp_type_size(t->type);
    const uint64_t n_parts =
        t->coll == ncclFuncAllReduce ? 1 : r->cuda->n_ranks;
    const uint64_t n_in = t->coll == ncclFuncAllGather ? 1 : n_parts;
    const uint64_t n_out = t->coll == ncclFuncReduceScatter ? 1 : n_parts;
    char *const place = (char *)window->at + staging->n_bytes;
    char *const own = n_parts > 1 ? place + r->rank * share : place;
    /* NCCL has symmetric kernels of it: no other is staged. */
    const bool has_kernel =
        t->coll == ncclFuncAllGather ||
        ((t->coll == ncclFuncAllReduce || t->coll == ncclFuncReduceScatter) &&
         t->op == STP_OP_SUM);
    struct stp_transfer staged = *t;
    enum stp_status status;

    /* All ranks make the same calls, and run out of places at the same. */
    if (!has_kernel || share % STP_STAGE_UNIT != 0 ||
        staging->n_due == STP_CUDA_STAGED ||
        staging->n_bytes > window->nbytes ||
        share * n_parts > window->nbytes - staging->n_bytes)
        return stp_cuda_collective(r, stream, t, r->comm, err);
    staged.in = n_in < n_parts ? own : place;
    staged.out = n_out < n_parts ? own : place;
    staged.in_place = true;
    status = stage_copy(
        r,
        &(struct stp_cuda_copy){(char *)staged.in, t->in, share * n_in, stream},
        err);
    STP_THEN(status, stp_cuda_collective(r, stream, &staged,
                                         stp_cuda_setup_comm(r), err));
    if (status != STP_OK)
        return status;
    staging->due[staging->n_due++] =
        (struct stp_cuda_copy){t->out, staged.out, share * n_out, stream};
    staging->n_bytes +=
        (share * n_parts + PLACE_ALIGN - 1) / PLACE_ALIGN * PLACE_ALIGN;
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
