#include "launch/launch.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"

#define TORCHRUN_NAMES                                                         \
    "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"

static const struct stp_launcher
    by_hand = {STP_LAUNCHED_BY_HAND, TORCHRUN_NAMES},
    torchrun = {STP_LAUNCHED_BY_TORCHRUN, TORCHRUN_NAMES},
    srun = {STP_LAUNCHED_BY_SRUN,   "srun",          "SLURM_PROCID",
            "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL},
    open_mpi = {STP_LAUNCHED_BY_MPI,          "mpirun",
                "OMPI_COMM_WORLD_RANK",       "OMPI_COMM_WORLD_SIZE",
                "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    mpich = {STP_LAUNCHED_BY_MPI, "mpirun",          "PMI_RANK",
             "PMI_SIZE",          "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

/* The first whose variables are set holds. */
static const struct {
    const struct stp_launcher *launcher;
    const char *set;    /* this variable is set */
    const char *number; /* and this one, unless NULL, to a number ... */
    uint64_t min;       /* ... of at least this, if it is not 0 */
} signs[] = {
    {&torchrun, "RANK", "WORLD_SIZE", 0},
    {&open_mpi, "OMPI_COMM_WORLD_SIZE", NULL, 0},
    {&mpich, "MPI_LOCALRANKID", NULL, 0},
    /* mpirun starts its daemons by srun, whose variables its ranks have, too;
     * srun sets those of PMI and PMIx.  The shell of a job is one task. */
    {&srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 2},
    {&mpich, "PMI_SIZE", NULL, 0},
    {&open_mpi, "PMIX_RANK", NULL, 0},
};

static bool launch_read(const char *name, uint64_t *number_ret)
{
    const char *text = getenv(name);

    return text != NULL && stp_parse_u64(text, strlen(text), number_ret) &&
           *number_ret <= UINT_MAX;
}

const struct stp_launcher *stp_find_launcher(void)
{
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++) {
        const char *number = signs[i].number;
        uint64_t n;

        if (getenv(signs[i].set) != NULL &&
            (number == NULL || (getenv(number) != NULL && signs[i].min == 0) ||
             (launch_read(number, &n) && n >= signs[i].min)))
            return signs[i].launcher;
    }
    return &by_hand;
}

enum stp_launched stp_launched_by(void)
{
    return stp_find_launcher()->launched;
}

bool stp_launched_as(unsigned *rank_ret, unsigned *size_ret)
{
    const struct stp_launcher *launcher = stp_find_launcher();
    uint64_t rank, size;

    if (launcher == &by_hand || !launch_read(launcher->rank, &rank) ||
        !launch_read(launcher->size, &size))
        return false;
    *rank_ret = (unsigned)rank;
    *size_ret = (unsigned)size;
    return true;
}
