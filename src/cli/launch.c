/* launch.c - the processes of a run, by options or by a launcher such as mpirun
 */
#include <stdio.h>
#include <string.h>

#include "cli/cli.h"
#include "launch/fork.h"
#include "launch/launch.h"
#include "launch/stop.h"
#include "launch/torchrun.h"

typedef int (*body_fn)(void *user, const struct stp_world *world);

static bool launch_names_rank(const struct stp_error *err, unsigned rank)
{
    char name[32];
    const int len = snprintf(name, sizeof(name), "rank %u ", rank);

    return strncmp(err->text, name, (size_t)len) == 0;
}

/* The death of a process is reported by its parent or by rank 0, that of rank 0
 * by all others. */
static bool launch_must_tell(const struct stp_world *world,
                             enum stp_status status)
{
    struct stp_error death;

    if (world->rank == 0 && strcmp(world->ops->name, "fork") != 0)
        return true;
    if (status == STP_ERR_STOPPED || status == STP_ERR_RANGE)
        return world->rank == 0; /* all ranks know it */
    if (world->ops->alive(world->self, &death))
        return true;
    return strcmp(world->ops->name, "fork") != 0 &&
           launch_names_rank(&death, 0);
}

int stp_complain_in(const struct stp_world *world, enum stp_status status,
                    const struct stp_error *err)
{
    if (status != STP_OK && launch_must_tell(world, status))
        stp_complain_error(NULL, err);
    return stp_exit_status(status);
}

bool stp_progress_in(const struct stp_world *world, const char *counted,
                     size_t done, size_t total)
{
    struct stp_error err;
    bool stops = world->rank == 0 ? !stp_progress((void *)counted, done, total)
                                  : stp_stop_wished();

    return stp_world_any(world, stops, &stops, &err) == STP_OK && !stops;
}

static int launch_fail(enum stp_status status, const struct stp_error *err)
{
    stp_complain_error(NULL, err);
    return stp_exit_status(status);
}

static unsigned launch_count_processes(const struct stp_run_options *run)
{
    unsigned most = 0;

    for (unsigned i = 0; i < run->n_procs; i++)
        if (run->procs[i] > most)
            most = run->procs[i];
    return most;
}

/* In a world of a launcher --procs can only name parts of it. */
static int launch_in(struct stp_world *world, const struct stp_run_options *run,
                     body_fn body, void *user)
{
    int exit_status = STP_EXIT_USAGE;

    if (launch_count_processes(run) <= world->size)
        exit_status = body(user, world);
    else if (world->rank == 0)
        stp_complain("--procs %u, but %s started %u",
                     launch_count_processes(run), world->ops->name,
                     world->size);
    world->ops->close(world->self);
    return exit_status;
}

static void launch_warn(const char *text)
{
    stp_progress_clear();
    stp_complain("%s", text);
}

/* Why a rank could not join: what it finds out itself is of itself or of rank
 * 0, the rest it has from rank 0, which tells it, too. */
static int launch_fail_to_join(unsigned rank, enum stp_status status,
                               const struct stp_error *err)
{
    if (rank == 0 || launch_names_rank(err, 0) || launch_names_rank(err, rank))
        stp_complain_error(NULL, err);
    return stp_exit_status(status);
}

/* Joins the world of torchrun, srun or mpirun. */
static int launch_in_store(const struct stp_run_options *run, body_fn body,
                           void *user)
{
    struct stp_torchrun settings;
    struct stp_world world;
    struct stp_error err;
    enum stp_status status = stp_torchrun_read(&settings, &err);

    if (status != STP_OK)
        return launch_fail(status, &err);
    settings.warn = launch_warn;
    status = stp_torchrun_join(&settings, &world, &err);
    return status == STP_OK ? launch_in(&world, run, body, user)
                            : launch_fail_to_join(settings.rank, status, &err);
}

static int launch_by_hand(const struct stp_run_options *run, body_fn body,
                          void *user)
{
    const struct stp_fork plan = {
        .n = launch_count_processes(run), .body = body, .user = user};
    struct stp_error err;
    int exit_status = STP_EXIT_FAILED;
    enum stp_status status;

    if (plan.n == 0)
        return body(user, &stp_world_of_one);
    status = stp_fork_run(&plan, &exit_status, &err);
    return status == STP_OK ? exit_status : launch_fail(status, &err);
}

/* One rank a process where there are several, unless the user says more. */
static void launch_complete(const struct stp_machine_options *machine,
                            enum stp_launched by, struct stp_run_options *run)
{
    if (stp_is_on_cpus(machine->on, run->backend) && run->n_procs == 0 &&
        by == STP_LAUNCHED_BY_HAND) {
        run->n_procs = 1;
        run->procs[0] = 2;
    }
    if (run->n_procs == 0 && by == STP_LAUNCHED_BY_HAND && run->n_gpus == 0)
        return;
    if (run->n_threads == 0)
        run->n_threads = 1;
    if (run->n_gpus == 0)
        run->n_gpus = 1;
}

bool stp_does_alone(const char *what)
{
    unsigned rank, size;

    if (!stp_launched_as(&rank, &size) || size < 2)
        return true;
    if (rank == 0)
        stp_complain("%u processes were started, of which %s takes one: the "
                     "others do nothing",
                     size, what);
    return rank == 0;
}

int stp_refuse_launcher(const char *example)
{
    unsigned rank, size;

    if (!stp_launched_as(&rank, &size) || rank == 0)
        stp_complain("one process starts the job, but a launcher started this "
                     "one: put the launcher into the command, as in `%s`",
                     example);
    return STP_EXIT_USAGE;
}

int stp_launch_jobs(const char *example, body_fn body, void *user)
{
    const struct stp_run_options run = {0};

    switch (stp_launched_by()) {
    case STP_LAUNCHED_BY_MPI:
        return stp_refuse_launcher(example);
    case STP_LAUNCHED_BY_HAND:
        return body(user, &stp_world_of_one);
    default:
        return launch_in_store(&run, body, user);
    }
}

int stp_launch(const struct stp_machine_options *machine,
               struct stp_run_options *run, body_fn body, void *user)
{
    enum stp_launched by = stp_launched_by();

    /* it has all its ranks in one process */
    if (!stp_is_live(machine->on, run->backend))
        return stp_does_alone("a recorded machine")
                   ? body(user, &stp_world_of_one)
                   : STP_EXIT_OK;
    launch_complete(machine, by, run);
    return by == STP_LAUNCHED_BY_HAND ? launch_by_hand(run, body, user)
                                      : launch_in_store(run, body, user);
}
