/* cuda_setup.c - communicators of other configurations, registered memory */
#include "device/cuda/cuda.h"
#include "device/cuda/kernels.h"
#include "nccl_tuner_abi.h"

/* ---- what NCCL is asked for ---- */

/* The first version of NCCL, and what earlier ones lack. */
static const struct {
    int version;
    const char *lacks;
} needs[STP_N_MEMORIES] = {
    [STP_MEMORY_SYM] = {NCCL_WITH_WINDOWS, "symmetric memory, expected 2.27"},
    [STP_MEMORY_CE] = {STP_NCCL_WITH_COPY_ENGINES,
                       "collectives by copy engines, expected 2.28"},
    [STP_MEMORY_STAGE] = {NCCL_WITH_WINDOWS, "symmetric memory, expected 2.27"},
};

/* A single rank has no peer to register for; hosts stage nothing. */
unsigned stp_cuda_find_setups(const struct stp_cuda *d)
{
    unsigned setups = 0;

    for (int i = 0; i < STP_N_SETUPS; i++)
        if (i == STP_MEMORY_PLAIN ||
            (d->n_ranks > 1 &&
             d->nccl.version >= needs[stp_setups[i].memory].version &&
             (stp_setups[i].memory != STP_MEMORY_STAGE ||
              d->info.n_nodes == 1)))
            setups |= 1u << i;
    return setups;
}

/* ---- a rank ---- */

/* Makes buffers and fills them with random data, as in the rooms. */
static enum stp_status setup_make_memories(struct stp_cuda_rank *r,
                                           struct stp_error *err)
{
    const uint64_t nbytes = r->cuda->max_bytes;
    const struct stp_pattern pattern = {
        .type = STP_TYPE_U64, .ranks = r->cuda->n_ranks, .block = 1};
    enum stp_status status = STP_OK;

    for (int i = 0;
         i < STP_CUDA_N_MEMORIES && r->cuda->measures && status == STP_OK;
         i++) {
        struct stp_cuda_room *memory = &r->memories[i];

        if (memory->at != NULL)
            continue;
        memory->nbytes = nbytes > 16 ? nbytes : 16;
        status = stp_cuda_nccl_result(
            r, r->cuda->nccl.ncclMemAlloc(&memory->at, memory->nbytes),
            "ncclMemAlloc", err);
        STP_THEN(status,
                 stp_cuda_result(r,
                                 stp_kernel_fill(&pattern, r->rank, false,
                                                 memory->at, nbytes / 8, 0),
                                 "filling memory", err));
    }
    return status == STP_OK ? stp_cuda_result(r, cudaDeviceSynchronize(),
                                              "cudaDeviceSynchronize", err)
                            : status;
}

static int setup_connect(struct stp_cuda_rank *r)
{
    struct stp_cuda_setup *s = &r->setups[r->n_setups];
    ncclConfig_t config = NCCL_CONFIG_DEFAULT(r->cuda->nccl.version);

    if (s->setup.min_ctas != 0)
        config.minCTAs = s->setup.min_ctas;
    if (s->setup.max_ctas != 0)
        config.maxCTAs = s->setup.max_ctas;
    if (s->setup.cga != 0)
        config.cgaClusterSize = s->setup.cga - 1;
    if (s->setup.memory == STP_MEMORY_CE)
        config.CTAPolicy = NCCL_CTA_POLICY_ZERO_BIT;
    return r->cuda->nccl.ncclCommSplit(r->comm, 0, (int)r->rank, &s->comm,
                                       &config);
}

static int setup_register(struct stp_cuda_rank *r)
{
    const struct stp_nccl_api *nccl = &r->cuda->nccl;
    struct stp_cuda_setup *s = &r->setups[r->n_setups];
    int result = ncclSuccess;

    for (int i = 0; i < STP_CUDA_N_MEMORIES && result == ncclSuccess; i++) {
        const struct stp_cuda_room *memory = &r->memories[i];

        if (memory->at == NULL)
            continue;
        result = s->setup.memory == STP_MEMORY_REG
                     ? nccl->ncclCommRegister(s->comm, memory->at,
                                              memory->nbytes, &s->handles[i])
                     : nccl->ncclCommWindowRegister(
                           s->comm, memory->at, memory->nbytes,
                           (ncclWindow_t *)&s->handles[i], NCCL_WIN_SYMMETRIC);
    }
    return result;
}

/* A call of NCCL on the ranks of a thread, which must be one group. */
static enum stp_status setup_call(struct stp_cuda_rank *first,
                                  int (*call)(struct stp_cuda_rank *rank),
                                  const char *name, struct stp_error *err)
{
    const struct stp_nccl_api *nccl = &first->cuda->nccl;
    int result = nccl->ncclGroupStart();
    int ended;

    for (unsigned i = 0; i < first->cuda->n_gpus && result == ncclSuccess;
         i++) {
        cudaSetDevice(first[i].gpu);
        result = call(&first[i]);
    }
    ended = nccl->ncclGroupEnd();
    cudaSetDevice(first->gpu);
    return stp_cuda_nccl_result(first, result != ncclSuccess ? result : ended,
                                name, err);
}

/* Opens the communicators of a thread's GPUs. */
static enum stp_status setup_open_part(void *user, unsigned thread,
                                       struct stp_error *err)
{
    struct stp_cuda *d = user;
    struct stp_cuda_rank *first = &d->ranks[thread * d->n_gpus];
    const enum stp_memory memory = first->setups[first->n_setups].setup.memory;
    enum stp_status status = STP_OK;

    for (unsigned i = 0;
         i < d->n_gpus && memory != STP_MEMORY_PLAIN && status == STP_OK; i++) {
        cudaSetDevice(first[i].gpu);
        status = setup_make_memories(&first[i], err);
    }
    STP_THEN(status, setup_call(first, setup_connect, "ncclCommSplit", err));
    if (status == STP_OK && memory != STP_MEMORY_PLAIN)
        status = setup_call(first, setup_register,
                            memory == STP_MEMORY_REG ? "ncclCommRegister"
                                                     : "ncclCommWindowRegister",
                            err);
    return status;
}

/* ---- all of them ---- */

enum stp_status stp_cuda_setup(struct stp_cuda *d,
                               const struct stp_setup *setup,
                               unsigned *number_ret, struct stp_error *err)
{
    const unsigned n = d->ranks[0].n_setups;
    enum stp_status status;

    for (unsigned i = 0; i < n; i++)
        if (stp_setup_equal(&d->ranks[0].setups[i].setup, setup)) {
            *number_ret = i;
            return STP_OK;
        }
    if (n == STP_CUDA_SETUPS)
        return stp_fail(err, STP_ERR_LIMIT,
                        "more than %d communicators of other configurations",
                        STP_CUDA_SETUPS);
    if (d->nccl.version < needs[setup->memory].version)
        return STP_REFUSE(err, "arm %s: NCCL %s has no %s or later",
                          stp_memory_name(setup->memory), d->info.nccl,
                          needs[setup->memory].lacks);
    if (setup->memory == STP_MEMORY_STAGE && !d->measures)
        return STP_REFUSE(
            err, "arm stage: only measured collectives are staged here, "
                 "expected `steptune run --stage` for a training");
    for (unsigned i = 0; i < d->n_local; i++)
        d->ranks[i].setups[n] = (struct stp_cuda_setup){.setup = *setup};
    status = stp_thread_pool_run(d->pool, setup_open_part, d, d->world, 0, err);
    for (unsigned i = 0; i < d->n_local; i++)
        d->ranks[i].n_setups += status == STP_OK;
    *number_ret = n;
    return status;
}

static const struct stp_cuda_setup *setup_of_arm(const struct stp_cuda_rank *r)
{
    return r->cuda->setup < r->n_setups ? &r->setups[r->cuda->setup] : NULL;
}

void *stp_cuda_setup_memory(const struct stp_cuda_rank *r, unsigned number)
{
    const struct stp_cuda_setup *s = setup_of_arm(r);

    return s != NULL && s->setup.memory != STP_MEMORY_PLAIN &&
                   s->setup.memory != STP_MEMORY_STAGE
               ? r->memories[number].at
               : NULL;
}

bool stp_cuda_setup_stages(const struct stp_cuda_rank *r)
{
    const struct stp_cuda_setup *s = setup_of_arm(r);

    return s != NULL && s->setup.memory == STP_MEMORY_STAGE;
}

ncclComm_t stp_cuda_setup_comm(const struct stp_cuda_rank *r)
{
    const struct stp_cuda_setup *s = setup_of_arm(r);

    return s != NULL ? s->comm : r->comm;
}

void stp_cuda_setup_close(struct stp_cuda_rank *r)
{
    const struct stp_nccl_api *nccl = &r->cuda->nccl;

    if (r->graph != NULL)
        cudaGraphExecDestroy(r->graph);
    r->graph = NULL;
    for (unsigned i = 0; i < r->n_setups; i++) {
        const struct stp_cuda_setup *s = &r->setups[i];

        for (int k = 0; k < STP_CUDA_N_MEMORIES; k++)
            if (s->handles[k] == NULL)
                continue;
            else if (s->setup.memory == STP_MEMORY_REG)
                nccl->ncclCommDeregister(s->comm, s->handles[k]);
            else
                nccl->ncclCommWindowDeregister(s->comm, s->handles[k]);
        nccl->ncclCommDestroy(s->comm);
    }
    r->n_setups = 0;
    for (int i = 0; i < STP_CUDA_N_MEMORIES; i++) {
        if (r->memories[i].at != NULL)
            nccl->ncclMemFree(r->memories[i].at);
        r->memories[i] = (struct stp_cuda_room){0};
    }
}

/* ---- collectives of plain buffers by way of registered windows, as the
 * staging library runs them in a job ---- */

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

    for (unsigned i = 0; i < staging->n_due; i++) {
        const unsigned stream = staging->due[i].stream;

        if (r->captures)
            stp_cuda_graph_ease(r->stream[stream], &staging->records[stream]);
        STP_THEN(status, stage_copy(r, &staging->due[i], err));
    }
    staging->n_due = 0;
    staging->n_bytes = 0;
    return status;
}
