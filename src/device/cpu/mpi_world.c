#include "device/cpu/mpi_world.h"

#include <dlfcn.h>
#include <limits.h>
#include <mpi.h>
#include <stdlib.h>

/* The self of a world. */
struct ranks {
    MPI_Comm comm;
    bool ends_mpi;
};

enum stp_status stp_mpi_fail(int code, struct stp_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "";
    int len;

    MPI_Error_string(code, text, &len);
    return stp_fail(err, STP_ERR_DEVICE, "MPI: %s", text);
}

static enum stp_status mpi_exchange(void *self, const void *mine, size_t size,
                                    void *all_ret, struct stp_error *err)
{
    const struct ranks *ranks = self;
    int code;

    if (size > INT_MAX)
        return stp_fail(err, STP_ERR_LIMIT,
                        "%zu bytes in one exchange between ranks", size);
    code = MPI_Allgather(mine, (int)size, MPI_BYTE, all_ret, (int)size,
                         MPI_BYTE, ranks->comm);
    return code == MPI_SUCCESS ? STP_OK : stp_mpi_fail(code, err);
}

/* The launcher ends all ranks if one dies. */
static bool mpi_alive(void *self, struct stp_error *err)
{
    (void)self;
    (void)err;
    return true;
}

static enum stp_status mpi_part(void *self, unsigned n,
                                struct stp_world *part_ret,
                                struct stp_error *err);

static void mpi_world_mpi_close(void *self)
{
    struct ranks *ranks = self;

    if (ranks == NULL)
        return;
    MPI_Comm_free(&ranks->comm);
    if (ranks->ends_mpi)
        MPI_Finalize();
    free(ranks);
}

static const struct stp_world_ops mpi_world_ops = {
    .name = "mpi",
    .exchange = mpi_exchange,
    .alive = mpi_alive,
    .part = mpi_part,
    .close = mpi_world_mpi_close,
};

const void *stp_mpi_world_comm(const struct stp_world *world)
{
    const struct ranks *ranks = world->self;

    return world->ops == &mpi_world_ops ? &ranks->comm : NULL;
}

/* ---- making one ---- */

/* Of 'comm', which is the world's from then on. */
static enum stp_status mpi_make_world(MPI_Comm comm, bool ends_mpi,
                                      struct stp_world *world_ret,
                                      struct stp_error *err)
{
    struct ranks *ranks = malloc(sizeof(*ranks));
    int rank, size, local_rank, local_size;
    MPI_Comm local;
    int code;

    if (ranks == NULL)
        return stp_nomem(err);
    *ranks = (struct ranks){.comm = comm, .ends_mpi = ends_mpi};
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL,
                               &local);
    if (code != MPI_SUCCESS) {
        free(ranks);
        return stp_mpi_fail(code, err);
    }
    MPI_Comm_rank(local, &local_rank);
    MPI_Comm_size(local, &local_size);
    MPI_Comm_free(&local);
    *world_ret = (struct stp_world){.ops = &mpi_world_ops,
                                    .self = ranks,
                                    .rank = (unsigned)rank,
                                    .size = (unsigned)size,
                                    .local_rank = (unsigned)local_rank,
                                    .local_size = (unsigned)local_size};
    return STP_OK;
}

static enum stp_status mpi_part(void *self, unsigned n,
                                struct stp_world *part_ret,
                                struct stp_error *err)
{
    const struct ranks *ranks = self;
    int rank, size, code;
    MPI_Comm comm;

    MPI_Comm_rank(ranks->comm, &rank);
    MPI_Comm_size(ranks->comm, &size);
    if (n < 1 || n > (unsigned)size)
        return stp_fail(err, STP_ERR_RANGE, "%u of %d processes", n, size);
    code = MPI_Comm_split(ranks->comm, (unsigned)rank < n ? 0 : MPI_UNDEFINED,
                          rank, &comm);
    if (code != MPI_SUCCESS)
        return stp_mpi_fail(code, err);
    if (comm != MPI_COMM_NULL)
        return mpi_make_world(comm, false, part_ret, err);
    *part_ret = (struct stp_world){.ops = &mpi_world_ops};
    return STP_OK;
}

/* Open MPI opens plugins that look for its symbols among those that are
 * global, and what a module is linked to is not. */
static void mpi_make_symbols_global(void)
{
    Dl_info info;

    if (dladdr((void *)MPI_Init_thread, &info) != 0)
        dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD | RTLD_GLOBAL);
}

static enum stp_status mpi_start_mpi(int *argc, char ***argv,
                                     struct stp_error *err)
{
    int provided, size, code;

    mpi_make_symbols_global();
    MPI_Initialized(&provided);
    if (provided)
        return stp_fail(err, STP_ERR_RANGE,
                        "MPI was started before in this process");
    code = MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
    if (code != MPI_SUCCESS)
        return stp_mpi_fail(code, err);
    if (provided < MPI_THREAD_MULTIPLE)
        return stp_fail(err, STP_ERR_DEVICE,
                        "this MPI was built without MPI_THREAD_MULTIPLE");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > STP_MAX_PROCESSES)
        return stp_fail(err, STP_ERR_LIMIT, "%d processes, expected at most %d",
                        size, STP_MAX_PROCESSES);
    return STP_OK;
}

enum stp_status stp_mpi_world_open(int *argc, char ***argv,
                                   struct stp_world *world_ret,
                                   struct stp_error *err)
{
    MPI_Comm comm;
    enum stp_status status = mpi_start_mpi(argc, argv, err);
    int code;

    if (status != STP_OK)
        return status;
    code = MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    if (code != MPI_SUCCESS)
        return stp_mpi_fail(code, err);
    return mpi_make_world(comm, true, world_ret, err);
}
