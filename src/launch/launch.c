#include "launch/launch.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/text.h"

/* ---- the launcher of this process ---- */

/* The first that holds. */
static const struct sign {
    enum stp_launched launched;
    const char *set;    /* this variable is set */
    const char *number; /* and this one, to a number ... */
    uint64_t min;       /* ... of at least this */
} signs[] = {
    {STP_LAUNCHED_BY_TORCHRUN, "RANK", "WORLD_SIZE", 0},
    {STP_LAUNCHED_BY_MPI, "OMPI_COMM_WORLD_SIZE", NULL, 0},
    {STP_LAUNCHED_BY_MPI, "MPI_LOCALRANKID", NULL, 0}, /* MPICH's mpiexec */
    /* mpirun starts its daemons by srun, whose variables its ranks have, too;
     * srun sets those of PMI and PMIx.  The shell of a job is one task. */
    {STP_LAUNCHED_BY_SRUN, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", 2},
    {STP_LAUNCHED_BY_MPI, "PMI_SIZE", NULL, 0},
    {STP_LAUNCHED_BY_MPI, "PMIX_RANK", NULL, 0},
};

static bool launch_sign_holds(const struct sign *sign)
{
    const char *text;
    uint64_t number;

    if (getenv(sign->set) == NULL)
        return false;
    if (sign->number == NULL)
        return true;
    text = getenv(sign->number);
    if (text == NULL)
        return false;
    return sign->min == 0 ||
           (stp_parse_u64(text, strlen(text), &number) && number >= sign->min);
}

enum stp_launched stp_launched_by(void)
{
    for (size_t i = 0; i < sizeof(signs) / sizeof(signs[0]); i++)
        if (launch_sign_holds(&signs[i]))
            return signs[i].launched;
    return STP_LAUNCHED_BY_HAND;
}

static bool launch_read(const char *name, unsigned *number_ret)
{
    const char *text = getenv(name);
    uint64_t number;

    if (text == NULL || !stp_parse_u64(text, strlen(text), &number) ||
        number > UINT_MAX)
        return false;
    *number_ret = (unsigned)number;
    return true;
}

bool stp_launched_as(unsigned *rank_ret, unsigned *size_ret)
{
    static const struct {
        const char *rank, *size;
    } names[] = {{"RANK", "WORLD_SIZE"},
                 {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                 {"PMI_RANK", "PMI_SIZE"},
                 {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (launch_read(names[i].rank, rank_ret) &&
            launch_read(names[i].size, size_ret))
            return stp_launched_by() != STP_LAUNCHED_BY_HAND;
    return false;
}

/* ---- again, under mpirun ---- */

/* Set for the processes that mpirun starts. */
#define UNDER_MPIRUN "STEPTUNE_UNDER_MPIRUN"

enum { MAX_ARGUMENTS = 1 << 21 /* bytes; as much as Linux takes */ };

/* Open MPI's.  --map-by is one that Open MPI 4 and 5, MPICH and Intel MPI have;
 * --oversubscribe Open MPI alone. */
static const char *const mpirun_options[] = {"--map-by", ":OVERSUBSCRIBE"};
static const char *const mpirun_as_root[] = {"OMPI_ALLOW_RUN_AS_ROOT",
                                             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"};

enum {
    N_OPTIONS = sizeof(mpirun_options) / sizeof(mpirun_options[0]),
    N_AS_ROOT = sizeof(mpirun_as_root) / sizeof(mpirun_as_root[0]),
};

static void launch_prepare_environment(void)
{
    for (size_t i = 0; i < N_AS_ROOT && geteuid() == 0; i++)
        setenv(mpirun_as_root[i], "1", 1);
    setenv(UNDER_MPIRUN, "1", 1);
}

/* mpirun, its options, and the 'size' bytes of terminated arguments at 'own',
 * of which the first is the program.  NULL without memory. */
static const char **launch_make_arguments(const char *mpirun, const char *n,
                                          const char *program, const char *own,
                                          size_t size)
{
    const char **args;
    size_t n_args = 0;
    size_t n_own = 0;

    for (size_t i = 0; i < size; i++)
        n_own += own[i] == '\0';
    args = calloc(n_own + N_OPTIONS + 5, sizeof(*args));
    if (args == NULL)
        return NULL;
    args[n_args++] = mpirun;
    args[n_args++] = "-np";
    args[n_args++] = n;
    for (size_t i = 0; i < N_OPTIONS; i++)
        args[n_args++] = mpirun_options[i];
    args[n_args++] = program;
    for (const char *s = own + strlen(own) + 1; s < own + size;
         s += strlen(s) + 1)
        args[n_args++] = s;
    return args;
}

static enum stp_status launch_replace(const char *mpirun, const char *n,
                                      const char *program, const char *own,
                                      size_t size, struct stp_error *err)
{
    const char **args = launch_make_arguments(mpirun, n, program, own, size);
    int error;

    if (args == NULL)
        return stp_nomem(err);
    fflush(NULL);
    launch_prepare_environment();
    execvp(mpirun, (char *const *)args);
    error = errno;
    unsetenv(UNDER_MPIRUN);
    free(args);
    return stp_fail(err, error == ENOENT ? STP_ERR_NOTHING : STP_ERR_DEVICE,
                    "cannot run %.80s: %s; install an MPI, or name its mpirun "
                    "in STEPTUNE_MPIRUN",
                    mpirun, strerror(error));
}

enum stp_status stp_launch_mpirun(unsigned n, struct stp_error *err)
{
    const char *mpirun = getenv("STEPTUNE_MPIRUN");
    char program[4096] = "";
    char number[16];
    char *own;
    size_t size;
    enum stp_status status;

    if (mpirun == NULL || mpirun[0] == '\0')
        mpirun = "mpirun";
    if (getenv(UNDER_MPIRUN) != NULL)
        return stp_fail(err, STP_ERR_DEVICE,
                        "%.80s started this process, but left no sign of MPI "
                        "in its environment, such as PMI_SIZE",
                        mpirun);
    if (readlink("/proc/self/exe", program, sizeof(program) - 1) < 0)
        return stp_fail(err, STP_ERR_IO, "/proc/self/exe: %s", strerror(errno));
    /* Not argv, which the option parser may have changed. */
    status =
        stp_read_file("/proc/self/cmdline", MAX_ARGUMENTS, &own, &size, err);
    if (status != STP_OK)
        return status;
    snprintf(number, sizeof(number), "%u", n);
    status = launch_replace(mpirun, number, program, own, size, err);
    free(own);
    return status;
}
