/* MPI as a transport, and the module of it. */
#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cpu/engine_cpu.h"
#include "device/cpu/mpi_world.h"
#include "device/module.h"
#include "device/cpu/reduce.h"
#include "nccl_tuner_abi.h"

enum { N_OPS = STP_OP_AVG }; /* sum, prod, max and min */

struct link {
    MPI_Comm comm[STP_N_STREAMS]; /* calls of two threads may not share one */
    MPI_Op op[STP_N_TYPES][N_OPS];
    int rank;
    struct link *parts[STP_MAX_SPLITS]; /* of this rank's groups; NULL: none */
};

/* ---- arithmetic that is not MPI's ----
 *
 * MPI lacks sixteen-bit floating point.  Open MPI's vectorised integers are not
 * all right: sums of eight bits saturate (its issue 8045), unsigned minima and
 * maxima are wrong on CPUs without AVX-512 (10648). */

#define OPERATION(name, type, op)                                              \
    static void name(void *in, void *inout, int *n, MPI_Datatype *unused)      \
    {                                                                          \
        (void)unused;                                                          \
        stp_reduce_function(type, op)(inout, inout, in, (size_t)*n);           \
    }
#define OPERATIONS(name, type)                                                 \
    OPERATION(name##_sum, type, STP_OP_SUM)                                    \
    OPERATION(name##_prod, type, STP_OP_PROD)                                  \
    OPERATION(name##_max, type, STP_OP_MAX)                                    \
    OPERATION(name##_min, type, STP_OP_MIN)

OPERATIONS(i8, STP_TYPE_I8)
OPERATIONS(u8, STP_TYPE_U8)
OPERATIONS(u32, STP_TYPE_U32)
OPERATIONS(u64, STP_TYPE_U64)
OPERATIONS(f16, STP_TYPE_F16)
OPERATIONS(bf16, STP_TYPE_BF16)

/* By type and operation; NULL where MPI's own is used. */
static MPI_User_function *const arithmetic[STP_N_TYPES][N_OPS] = {
    [STP_TYPE_I8] = {i8_sum, i8_prod, i8_max, i8_min},
    [STP_TYPE_U8] = {u8_sum, u8_prod, u8_max, u8_min},
    [STP_TYPE_U32] = {u32_sum, u32_prod, u32_max, u32_min},
    [STP_TYPE_U64] = {u64_sum, u64_prod, u64_max, u64_min},
    [STP_TYPE_F16] = {f16_sum, f16_prod, f16_max, f16_min},
    [STP_TYPE_BF16] = {bf16_sum, bf16_prod, bf16_max, bf16_min},
};

static void mpi_make_operations(struct link *link)
{
    const MPI_Op own[N_OPS] = {[STP_OP_SUM] = MPI_SUM,
                               [STP_OP_PROD] = MPI_PROD,
                               [STP_OP_MAX] = MPI_MAX,
                               [STP_OP_MIN] = MPI_MIN};
    const int commutes = 1;

    for (int type = 0; type < STP_N_TYPES; type++)
        for (int op = 0; op < N_OPS; op++) {
            link->op[type][op] = own[op];
            if (arithmetic[type][op] != NULL)
                MPI_Op_create(arithmetic[type][op], commutes,
                              &link->op[type][op]);
        }
}

static void mpi_free_operations(struct link *link)
{
    for (int type = 0; type < STP_N_TYPES; type++)
        for (int op = 0; op < N_OPS; op++)
            if (arithmetic[type][op] != NULL)
                MPI_Op_free(&link->op[type][op]);
}

static MPI_Datatype mpi_datatype(int type)
{
    const MPI_Datatype types[STP_N_TYPES] = {
        [STP_TYPE_I8] = MPI_INT8_T,        [STP_TYPE_U8] = MPI_UINT8_T,
        [STP_TYPE_I32] = MPI_INT32_T,      [STP_TYPE_U32] = MPI_UINT32_T,
        [STP_TYPE_I64] = MPI_INT64_T,      [STP_TYPE_U64] = MPI_UINT64_T,
        [STP_TYPE_F16] = MPI_UINT16_T,     [STP_TYPE_F32] = MPI_FLOAT,
        [STP_TYPE_F64] = MPI_DOUBLE,       [STP_TYPE_BF16] = MPI_UINT16_T,
        [STP_TYPE_FP8_E4M3] = MPI_UINT8_T, [STP_TYPE_FP8_E5M2] = MPI_UINT8_T};

    return types[type];
}

/* ---- collectives ---- */

static int mpi_broadcast(const struct link *link, MPI_Comm comm,
                         const struct stp_transfer *t)
{
    if (!t->in_place && link->rank == t->root)
        memcpy(t->out, t->in, t->n * stp_type_size(t->type));
    return MPI_Bcast(t->out, (int)t->n, mpi_datatype(t->type), t->root, comm);
}

static int mpi_reduce(const struct link *link, MPI_Comm comm,
                      const struct stp_transfer *t)
{
    const void *in =
        t->in_place && link->rank == t->root ? MPI_IN_PLACE : t->in;

    return MPI_Reduce(in, t->out, (int)t->n, mpi_datatype(t->type),
                      link->op[t->type][t->op], t->root, comm);
}

static int mpi_all_gather(const struct link *link, MPI_Comm comm,
                          const struct stp_transfer *t)
{
    const MPI_Datatype type = mpi_datatype(t->type);

    (void)link;
    return MPI_Allgather(t->in_place ? MPI_IN_PLACE : t->in, (int)t->n, type,
                         t->out, (int)t->n, type, comm);
}

/* MPI's in place has every rank's block at the beginning. */
static int mpi_reduce_scatter(const struct link *link, MPI_Comm comm,
                              const struct stp_transfer *t)
{
    void *out = t->in_place ? (void *)t->in : t->out;
    int code = MPI_Reduce_scatter_block(t->in_place ? MPI_IN_PLACE : t->in, out,
                                        (int)t->n, mpi_datatype(t->type),
                                        link->op[t->type][t->op], comm);

    if (out != t->out && code == MPI_SUCCESS)
        memmove(t->out, out, t->n * stp_type_size(t->type));
    return code;
}

static int mpi_all_reduce(const struct link *link, MPI_Comm comm,
                          const struct stp_transfer *t)
{
    return MPI_Allreduce(t->in_place ? MPI_IN_PLACE : t->in, t->out, (int)t->n,
                         mpi_datatype(t->type), link->op[t->type][t->op], comm);
}

static enum stp_status mpi_collective(void *self, unsigned stream,
                                      const struct stp_transfer *transfer,
                                      struct stp_error *err)
{
    static int (*const run[])(const struct link *, MPI_Comm,
                              const struct stp_transfer *) = {
        [ncclFuncBroadcast] = mpi_broadcast,
        [ncclFuncReduce] = mpi_reduce,
        [ncclFuncAllGather] = mpi_all_gather,
        [ncclFuncReduceScatter] = mpi_reduce_scatter,
        [ncclFuncAllReduce] = mpi_all_reduce,
    };
    const struct link *whole = self;
    const struct link *link =
        transfer->split > 0 ? whole->parts[transfer->split - 1] : whole;
    int code = run[transfer->coll](link, link->comm[stream], transfer);

    return code == MPI_SUCCESS ? STP_OK : stp_mpi_fail(code, err);
}

static enum stp_status mpi_barrier(void *self, unsigned stream,
                                   struct stp_error *err)
{
    const struct link *link = self;
    int code = MPI_Barrier(link->comm[stream]);

    return code == MPI_SUCCESS ? STP_OK : stp_mpi_fail(code, err);
}

/* The part has the operations of the whole. */
static enum stp_status mpi_split(void *self, unsigned number,
                                 const struct stp_rank_groups *groups,
                                 struct stp_error *err)
{
    struct link *link = self;
    struct link *part = malloc(sizeof(*part));
    const int color = (int)stp_rank_groups_color(groups, (unsigned)link->rank);
    int code = MPI_SUCCESS;

    if (part == NULL)
        return stp_nomem(err);
    *part = *link;
    part->rank = (int)stp_rank_in_group(groups, (unsigned)link->rank);
    link->parts[number - 1] = part;
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        part->comm[s] = MPI_COMM_NULL;
    for (unsigned s = 0; s < STP_N_STREAMS && code == MPI_SUCCESS; s++)
        code = MPI_Comm_split(link->comm[s], color, part->rank, &part->comm[s]);
    return code == MPI_SUCCESS ? STP_OK : stp_mpi_fail(code, err);
}

/* ---- life ---- */

/* No call of MPI can be ended from outside. */
static void mpi_abort(void *self, const char *why)
{
    (void)self;
    fprintf(stderr, "steptune: %s\n", why);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void mpi_close_part(struct link *part)
{
    for (unsigned s = 0; part != NULL && s < STP_N_STREAMS; s++)
        if (part->comm[s] != MPI_COMM_NULL)
            MPI_Comm_free(&part->comm[s]);
    free(part);
}

static void mpi_close(void *self)
{
    struct link *link = self;

    for (unsigned i = 0; i < STP_MAX_SPLITS; i++)
        mpi_close_part(link->parts[i]);
    mpi_free_operations(link);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        MPI_Comm_free(&link->comm[s]);
    free(link);
}

static enum stp_status mpi_open(const struct stp_world *world, unsigned n_nodes,
                                unsigned time_limit_s, void **self_ret,
                                struct stp_error *err)
{
    const MPI_Comm *comm = stp_mpi_world_comm(world);
    struct link *link;

    (void)n_nodes;
    (void)time_limit_s;
    if (comm == NULL)
        return stp_fail(
            err, STP_ERR_RANGE,
            "ranks of MPI are started by mpirun or srun, these by '%s'",
            world->ops->name);
    link = calloc(1, sizeof(*link));
    if (link == NULL)
        return stp_nomem(err);
    link->rank = (int)world->rank;
    for (unsigned s = 0; s < STP_N_STREAMS; s++) {
        int code = MPI_Comm_dup(*comm, &link->comm[s]);

        if (code != MPI_SUCCESS) {
            free(link);
            return stp_mpi_fail(code, err);
        }
    }
    mpi_make_operations(link);
    *self_ret = link;
    return STP_OK;
}

#define TEXT_OF(x)                 #x
#define VERSION_TEXT(major, minor) TEXT_OF(major) "." TEXT_OF(minor)
#ifdef OMPI_MAJOR_VERSION
#define LIBRARY "Open MPI " VERSION_TEXT(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION)
#else
#define LIBRARY "MPI " VERSION_TEXT(MPI_VERSION, MPI_SUBVERSION)
#endif

static const struct stp_transport_ops mpi_ops = {
    .name = "mpi",
    .what = LIBRARY,
    .max_elements = INT_MAX,
    .open = mpi_open,
    .split = mpi_split,
    .collective = mpi_collective,
    .barrier = mpi_barrier,
    .abort = mpi_abort,
    .close = mpi_close,
};

static enum stp_status mpi_open_rank(const struct stp_device_options *options,
                                     struct stp_engines *engines_ret,
                                     struct stp_error *err)
{
    return stp_cpu_open(&mpi_ops, options, engines_ret, err);
}

extern const struct stp_module stp_steptune_module;

__attribute__((visibility("default")))
const struct stp_module stp_steptune_module = {
    .abi = STP_MODULE_ABI,
    .name = "mpi",
    .open = mpi_open_rank,
    .world = stp_mpi_world_open,
};
