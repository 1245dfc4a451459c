/* launch.c - processes of a run, by options or a launcher such as mpirun */
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

/* The death of a process is reported by its parent or by rank 0, and the death
 * of rank 0 by all others; all ranks know of a stop and of options out of
 * range. */
int stp_complain_in(const struct stp_world *world, enum stp_status status,
                    const struct stp_error *err)
{
    const bool is_fork = strcmp(world->ops->name, "fork") == 0;
    struct stp_error death;
    bool tells;

    if (status == STP_ERR_STOPPED || status == STP_ERR_RANGE ||
        (world->rank == 0 && !is_fork))
        tells = world->rank == 0;
    else
        tells =
            status != STP_OK && (world->ops->alive(world->self, &death) ||
                                 (!is_fork && launch_names_rank(&death, 0)));
    if (status != STP_OK && tells)
        stp_complain_error(NULL, err);
    return stp_exit_status(status);
}

bool stp_progress_in(const struct stp_world *world, const char *counted,
                     size_t done, size_t total)
{
    struct stp_error err;
    bool stops = world->rank == 0 ? !stp_progress((void *)counted, done, total)
                                  : stp_stop_requested();

    return stp_world_any(world, stops, &stops, &err) == STP_OK && !stops;
}

static unsigned launch_count_processes(const struct stp_run_options *run)
{
    unsigned most = 0;

    for (unsigned i = 0; i < run->n_procs; i++)
        if (run->procs[i] > most)
            most = run->procs[i];
    return most;
}

static void launch_warn(const char *text)
{
    stp_complain("%s", text);
}

/* Joins the world of torchrun, srun or mpirun, of which --procs can only name
 * parts. A rank finds out by itself, or is told by rank 0, why it could not
 * join; rank 0 tells it all other news. */
static int launch_in_store(const struct stp_run_options *run, body_fn body,
                           void *user)
{
    const unsigned n_procs = launch_count_processes(run);
    struct stp_torchrun settings = {0};
    struct stp_world world;
    struct stp_error err;
    int exit_status = STP_EXIT_USAGE;
    enum stp_status status = stp_torchrun_read(&settings, &err);
    bool tells = status != STP_OK;

    settings.warn = launch_warn;
    STP_THEN(status, stp_torchrun_join(&settings, &world, &err));
    if (status != STP_OK) {
        if (tells || settings.rank == 0 || launch_names_rank(&err, 0) ||
            launch_names_rank(&err, settings.rank))
            stp_complain_error(NULL, &err);
        return stp_exit_status(status);
    }
    if (n_procs <= world.size)
        exit_status = body(user, &world);
    else if (world.rank == 0)
        stp_complain("--procs %u, but %s started %u", n_procs, world.ops->name,
                     world.size);
    world.ops->close(world.self);
    return exit_status;
}

bool stp_runs_command(const char *what)
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
    struct stp_fork plan = {.body = body, .user = user};
    struct stp_error err;
    int exit_status = STP_EXIT_FAILED;
    enum stp_status status;

    /* it has all its ranks in one process */
    if (!stp_is_live(machine->on, run->backend))
        return stp_runs_command("a recorded machine")
                   ? body(user, &stp_world_of_one)
                   : STP_EXIT_OK;
    /* Completes the options: one rank a process where there are several, unless
     * the user says more. */
    if (stp_is_on_cpus(machine->on, run->backend) && run->n_procs == 0 &&
        by == STP_LAUNCHED_BY_HAND) {
        run->n_procs = 1;
        run->procs[0] = 2;
    }
    if (!(run->n_procs == 0 && by == STP_LAUNCHED_BY_HAND &&
          run->n_gpus == 0)) {
        if (run->n_threads == 0)
            run->n_threads = 1;
        if (run->n_gpus == 0)
            run->n_gpus = 1;
    }
    if (by != STP_LAUNCHED_BY_HAND)
        return launch_in_store(run, body, user);
    plan.n = launch_count_processes(run);
    if (plan.n == 0)
        return body(user, &stp_world_of_one);
    status = stp_fork_run(&plan, &exit_status, &err);
    if (status == STP_OK)
        return exit_status;
    stp_complain_error(NULL, &err);
    return stp_exit_status(status);
}
