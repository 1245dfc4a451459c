/* cuda_check.c - whether a collective's results are right */
#include <stdlib.h>

#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"
#include "nccl_tuner_abi.h"

struct check {
    struct stp_cuda *d;
    const struct stp_collective *what;
    struct stp_pattern pattern;
    struct stp_program program;
    uint64_t n_wrong[]; /* of every rank here */
};

static bool gives(const struct check *c, const struct stp_cuda_rank *r)
{
    return c->what->coll != ncclFuncBroadcast || r->rank == c->what->root;
}

static bool gets(const struct check *c, const struct stp_cuda_rank *r)
{
    return c->what->coll != ncclFuncReduce || r->rank == c->what->root;
}

/* Poison first: in place the input lies within the output. */
static enum stp_status fill_rank(const struct check *c,
                                 const struct stp_cuda_rank *r,
                                 struct stp_error *err)
{
    cudaStream_t s = r->stream[STP_STREAM_MAIN];
    struct stp_cuda_place p;
    cudaError_t result;

    stp_cuda_place(c->d, r, c->what, 0, &p);
    result = cudaSetDevice(r->gpu);
    if (result == cudaSuccess)
        result = stp_kernel_poison(&c->pattern, r->rank, p.recv, p.n_recv, s);
    if (result == cudaSuccess && gives(c, r))
        result = stp_kernel_fill(&c->pattern, r->rank, p.send, p.n_send, s);
    if (result == cudaSuccess)
        result = cudaMemsetAsync(r->n_wrong, 0, sizeof(*r->n_wrong), s);
    return stp_cuda_result(r, result, "filling buffers", err);
}

static enum stp_status fill(void *user, unsigned thread, struct stp_error *err)
{
    const struct check *c = user;
    const struct stp_cuda *d = c->d;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < d->n_gpus && status == STP_OK; i++)
        status = fill_rank(c, &d->ranks[thread * d->n_gpus + i], err);
    return status;
}

static enum stp_status count_rank(struct check *c,
                                  const struct stp_cuda_rank *r,
                                  uint64_t *n_wrong_ret, struct stp_error *err)
{
    cudaStream_t s = r->stream[STP_STREAM_MAIN];
    unsigned long long n_wrong = 0;
    struct stp_cuda_place p;
    cudaError_t result = cudaSetDevice(r->gpu);

    stp_cuda_place(c->d, r, c->what, 0, &p);
    if (result == cudaSuccess && gets(c, r))
        result = stp_kernel_count_wrong(&c->pattern, r->rank, p.recv, p.n_recv,
                                        r->n_wrong, s);
    if (result == cudaSuccess)
        result = cudaMemcpyAsync(&n_wrong, r->n_wrong, sizeof(n_wrong),
                                 cudaMemcpyDeviceToHost, s);
    if (result == cudaSuccess)
        result = cudaStreamSynchronize(s);
    *n_wrong_ret = n_wrong;
    return stp_cuda_result(r, result, "checking results", err);
}

static enum stp_status count(void *user, unsigned thread, struct stp_error *err)
{
    struct check *c = user;
    const struct stp_cuda *d = c->d;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < d->n_gpus && status == STP_OK; i++) {
        unsigned at = thread * d->n_gpus + i;

        status = count_rank(c, &d->ranks[at], &c->n_wrong[at], err);
    }
    return status;
}

/* Over all processes. */
static enum stp_status add_up(const struct check *c, uint64_t *n_wrong_ret,
                              struct stp_error *err)
{
    const struct stp_world *world = c->d->world;
    uint64_t all[STP_MAX_PROCESSES];
    uint64_t mine = 0;
    uint64_t sum = 0;
    enum stp_status status;

    for (unsigned i = 0; i < c->d->n_local; i++)
        mine += c->n_wrong[i];
    status = world->ops->exchange(world->self, &mine, sizeof(mine), all, err);
    for (unsigned i = 0; i < world->size && status == STP_OK; i++)
        sum += all[i];
    if (status == STP_OK)
        *n_wrong_ret = sum;
    return status;
}

static enum stp_status run_check(struct check *c, uint64_t *n_wrong_ret,
                                 struct stp_error *err)
{
    struct stp_cuda *d = c->d;
    const struct stp_work note = {.kind = STP_WORK_COLLECTIVE,
                                  .what = *c->what};
    enum stp_status status = stp_program_add(&c->program, &note, err);

    if (status == STP_OK)
        status = stp_crew_run(d->crew, fill, c, d->world, d->time_limit_s, err);
    if (status == STP_OK)
        status = stp_cuda_run(d, &c->program, false, false, err);
    if (status == STP_OK)
        status =
            stp_crew_run(d->crew, count, c, d->world, d->time_limit_s, err);
    return status == STP_OK ? add_up(c, n_wrong_ret, err) : status;
}

enum stp_status stp_cuda_check(struct stp_cuda *d,
                               const struct stp_collective *what, uint64_t seed,
                               uint64_t *n_wrong_ret, struct stp_error *err)
{
    struct check *c =
        calloc(1, sizeof(*c) + d->n_local * sizeof(c->n_wrong[0]));
    uint64_t n_send, n_recv;
    enum stp_status status;

    if (c == NULL)
        return stp_nomem(err);
    c->d = d;
    c->what = what;
    c->pattern = (struct stp_pattern){.coll = what->coll,
                                      .type = what->type,
                                      .op = what->op,
                                      .root = what->root,
                                      .ranks = d->n_ranks,
                                      .seed = seed};
    stp_pattern_sizes(&c->pattern, what->n_bytes, &n_send, &n_recv);
    status = run_check(c, n_wrong_ret, err);
    stp_program_free(&c->program);
    free(c);
    return status;
}
