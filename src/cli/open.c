/* open.c - from options to a device */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "device/mock/engine_mock.h"
#include "device/module.h"

/* The module of each transport. */
static const struct {
    const char *backend;
    const char *module;
    const char *on; /* its word of --on */
    const char *needs;
} modules[] = {
    {"nccl", "cuda", "cuda", "CUDA"},
    {"gloo", "gloo", "cpu", "Gloo"},
    {"mpi", "mpi", "cpu", "MPI"},
};

enum {
    N_MODULES = sizeof(modules) / sizeof(modules[0]),
    /* Sizes are rounded up to an element of every rank, of which only the
     * opened device knows how many there are. */
    LEAST_BYTES = 1 << 20,
};

/* Linux's and WSL's; asking CUDA takes a second, and does not survive a
 * fork. */
static bool open_has_gpu(void)
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    char path[STP_CLI_PATH];

    if (visible != NULL && (visible[0] == '\0' || visible[0] == '-'))
        return false; /* CUDA would see none */
    return (access("/dev/nvidiactl", F_OK) == 0 ||
            access("/dev/nvidia0", F_OK) == 0 ||
            access("/dev/dxg", F_OK) == 0) &&
           stp_find_module("cuda", path, NULL) == STP_OK;
}

/* The first that fits; -1: a recorded machine. */
static int open_choose_module(const char *on, const char *backend)
{
    for (int i = 0; i < N_MODULES; i++)
        if ((backend == NULL || strcmp(backend, modules[i].backend) == 0) &&
            (on == NULL ? backend != NULL || open_has_gpu()
                        : strcmp(on, modules[i].on) == 0))
            return i;
    return -1;
}

bool stp_is_on_cpus(const struct stp_machine_options *machine,
                    const struct stp_run_options *run)
{
    return (machine->on != NULL && strcmp(machine->on, "cpu") == 0) ||
           (run->backend != NULL && strcmp(run->backend, "nccl") != 0);
}

bool stp_is_live(const char *on, const char *backend)
{
    return open_choose_module(on, backend) >= 0;
}

int stp_check_has_machine(const char *on, const char *backend,
                          const char *example)
{
    char folder[STP_CLI_PATH];

    if (on != NULL || stp_is_live(NULL, backend))
        return STP_EXIT_OK;
    stp_complain("no GPU here, expected --on with one of the recorded machines "
                 "in %s, such as `steptune %s --on " STP_DEFAULT_MACHINE "`",
                 stp_machines_folder(folder), example);
    return STP_EXIT_NOTHING;
}

static enum stp_status open_recorded(const struct stp_open_options *o,
                                     const struct stp_device_options *options,
                                     struct stp_engines *engines_ret,
                                     struct stp_error *err)
{
    const char *on = o->machine->on;
    char path[STP_CLI_PATH];

    if (o->run != NULL && o->run->backend != NULL)
        return stp_fail(err, STP_ERR_RANGE,
                        "--backend %s does not run on '%s', expected --on cuda "
                        "for nccl, and --on cpu for gloo and mpi",
                        o->run->backend, on);
    if (stp_find_machine(on, path, err) != STP_OK)
        return STP_ERR_NOTHING;
    return stp_mock_open(path, o->n_ranks, o->machine->seed, options,
                         engines_ret, err);
}

/* All processes of the world call it. */
static enum stp_status open_load_module(const struct stp_world *world,
                                        int module,
                                        const struct stp_module **module_ret,
                                        struct stp_error *err)
{
    char path[STP_CLI_PATH];
    enum stp_status status;

    if (stp_find_module(modules[module].module, path, err) == STP_OK)
        status = stp_module_open(path, module_ret, err);
    else
        status = stp_fail(err, STP_ERR_NOTHING,
                          "no steptune-%s.so in lib/steptune beside this "
                          "program: it is built where %s is installed",
                          modules[module].module, modules[module].needs);
    return stp_world_agree(world, status, err);
}

/* The ranks of this process, on the machine and over the transport of 'o'. */
static enum stp_status open_ranks(const struct stp_open_options *o,
                                  const struct stp_device_options *options,
                                  struct stp_engines *engines_ret,
                                  struct stp_error *err)
{
    const int module = open_choose_module(
        o->machine->on, o->run != NULL ? o->run->backend : NULL);
    const struct stp_module *opened;
    enum stp_status status;

    if (module < 0)
        return open_recorded(o, options, engines_ret, err);
    status = open_load_module(options->world, module, &opened, err);
    return status == STP_OK ? opened->open(options, engines_ret, err) : status;
}

enum stp_status stp_open(const struct stp_open_options *o,
                         struct stp_device *device_ret, struct stp_error *err)
{
    struct stp_device_options options = {
        .world = o->world != NULL ? o->world : &stp_world_of_one,
        .plugin = o->plugin,
        .measures = true,
        .max_bytes = o->max_bytes > LEAST_BYTES ? o->max_bytes : LEAST_BYTES,
        .graphs_file = o->graphs_file};
    struct stp_engines engines;
    enum stp_status status;

    if (o->run != NULL) {
        options.n_threads = o->run->n_threads;
        options.n_gpus = o->run->n_gpus;
        options.graph = o->run->graph > 0;
        options.time_limit_s = o->run->time_limit_s;
    }
    status = open_ranks(o, &options, &engines, err);
    return status == STP_OK
               ? stp_device_open(&options, &engines, device_ret, err)
               : status;
}

enum stp_status stp_open_engines(const struct stp_open_options *o,
                                 unsigned n_local,
                                 struct stp_engines *engines_ret,
                                 struct stp_error *err)
{
    const struct stp_device_options options = {.world = o->world,
                                               .n_threads = n_local,
                                               .n_gpus = 1,
                                               .time_limit_s =
                                                   o->run->time_limit_s,
                                               .plugin = o->plugin};

    return open_ranks(o, &options, engines_ret, err);
}

enum stp_status stp_parse_arms(const char *list, const char *channels,
                               struct stp_arms *arms_ret, struct stp_error *err)
{
    enum stp_status status = stp_arms_parse(list, arms_ret, err);

    return status == STP_OK && channels != NULL
               ? stp_arms_add_channels(arms_ret, channels, err)
               : status;
}

int stp_check_arms(const char *list, const char *channels)
{
    struct stp_arms arms;
    struct stp_error err;

    if (stp_parse_arms(list != NULL ? list : "all", channels, &arms, &err) ==
        STP_OK)
        return STP_EXIT_OK;
    stp_complain_error(NULL, &err);
    return STP_EXIT_USAGE;
}

int stp_choose_type(struct stp_measure_options *measure)
{
    if (measure->n_types == 0)
        measure->types[measure->n_types++] = STP_TYPE_BF16;
    if (measure->n_types == 1)
        return STP_EXIT_OK;
    stp_complain("-d with several types, expected one type");
    return STP_EXIT_USAGE;
}

int stp_exit_status(enum stp_status status)
{
    return status == STP_OK            ? STP_EXIT_OK
           : status == STP_ERR_NOTHING ? STP_EXIT_NOTHING
                                       : STP_EXIT_FAILED;
}
