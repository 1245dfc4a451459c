/* open.c - from options to a device */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/names.h"
#include "device/mock/engine_mock.h"
#include "device/module.h"
#include "report/words.h"

/* Sizes are rounded up to an element of every rank, whose number only the
 * opened device knows. */
enum { LEAST_BYTES = 1 << 20 };

/* Looks for the device files of Linux and WSL; asking CUDA takes a second, and
 * does not survive a fork. */
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

/* Chooses the first transport that fits; NULL: a recorded machine. */
static const struct stp_transport *open_choose(const char *on,
                                               const char *backend)
{
    for (const struct stp_transport *t = stp_transports; t->backend != NULL;
         t++)
        if ((backend == NULL || strcmp(backend, t->backend) == 0) &&
            (on == NULL ? backend != NULL || open_has_gpu()
                        : strcmp(on, t->on) == 0))
            return t;
    return NULL;
}

bool stp_is_on_cpus(const char *on, const char *backend)
{
    return (on != NULL && strcmp(on, "cpu") == 0) ||
           (backend != NULL && strcmp(backend, "nccl") != 0);
}

bool stp_is_live(const char *on, const char *backend)
{
    return open_choose(on, backend) != NULL;
}

bool stp_check_gnuplot(void)
{
    const char *set = getenv("STEPTUNE_GNUPLOT");
    const char *name = set != NULL ? set : "gnuplot";

    if (stp_has_program(name))
        return true;
    stp_complain("no plots will be drawn: there is no '%s', expected gnuplot "
                 "(Debian: gnuplot-nox), or its path in STEPTUNE_GNUPLOT",
                 name);
    return false;
}

int stp_check_needs(const char *on, const char *backend, const char *example,
                    bool takes_plugin)
{
    const struct stp_transport *transport = open_choose(on, backend);
    struct stp_found_tuner lower;
    char path[STP_CLI_PATH];
    struct stp_error err;
    int exit_status = STP_EXIT_OK;

    if (on == NULL && transport == NULL) {
        stp_complain(
            "no GPU here, expected --on with one of the recorded "
            "machines in %s, such as `steptune %s --on " STP_DEFAULT_MACHINE
            "`",
            stp_machines_folder(path), example);
        return STP_EXIT_NOTHING;
    }
    if (on == NULL && takes_plugin && strcmp(transport->backend, "nccl") == 0) {
        stp_find_lower(stp_chain_setting(), STP_NEWEST_TUNER, &lower);
        if (lower.version > 0)
            stp_complain("AUTO is with the tuner that jobs here have, '%s' of "
                         "%s, and arm nccl is NCCL alone",
                         lower.name, lower.path);
        else if (lower.why[0] != '\0')
            stp_complain("%s", lower.why);
    }
    if (transport != NULL &&
        stp_find_module(transport->module, path, &err) != STP_OK) {
        stp_complain_error(NULL, &err);
        exit_status = STP_EXIT_NOTHING;
    }
    if (takes_plugin && stp_find_plugin("steptune", path, &err) != STP_OK) {
        stp_complain("%s, where `cmake --install` puts it", err.text);
        exit_status = STP_EXIT_NOTHING;
    }
    return exit_status;
}

/* The ranks of this process, on the machine and over the transport of 'o'. */
static enum stp_status open_ranks(const struct stp_open_options *o,
                                  const struct stp_device_options *options,
                                  struct stp_engines *engines_ret,
                                  struct stp_error *err)
{
    const char *on = o->machine->on;
    const char *backend = o->run != NULL ? o->run->backend : NULL;
    const struct stp_transport *transport = open_choose(on, backend);
    const struct stp_module *opened;
    char path[STP_CLI_PATH];
    enum stp_status status;

    if (transport == NULL && backend != NULL)
        return STP_REFUSE(err,
                          "--backend %s does not run on '%s', expected --on "
                          "cuda for nccl, and --on cpu for gloo",
                          backend, on);
    if (transport == NULL) {
        if (stp_find_machine(on, path, err) != STP_OK)
            return STP_ERR_NOTHING;
        stp_print_plugin_warnings();
        stp_print_unplayed();
        return stp_mock_open(path, o->n_ranks, o->machine->seed, options,
                             engines_ret, err);
    }
    status = stp_find_module(transport->module, path, err);
    STP_THEN(status, stp_module_open(path, &opened, err));
    status = stp_world_agree(options->world, status, err);
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    return status == STP_OK ? opened->open(options, engines_ret, err) : status;
}

enum stp_status stp_open(const struct stp_open_options *o,
                         struct stp_device *device_ret, struct stp_error *err)
{
    struct stp_device_options options = {
        .world = o->world != NULL ? o->world : &stp_world_of_one,
        .plugin = o->plugin,
        .measures = true,
        .stalls = o->machine->stalls,
        .max_bytes = o->max_bytes > LEAST_BYTES ? o->max_bytes : LEAST_BYTES,
        .graphs_file = o->graphs_file};
    struct stp_engines engines;

    if (o->run != NULL) {
        options.n_threads = o->run->n_threads;
        options.n_gpus = o->run->n_gpus;
        options.graph = o->run->graph > 0;
        options.time_limit_s = o->run->time_limit_s;
    }
    STP_TRY(open_ranks(o, &options, &engines, err));
    return stp_device_open(&options, &engines, device_ret, err);
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
                                                   o->run->time_limit_s};

    return open_ranks(o, &options, engines_ret, err);
}

int stp_check_sizes(const struct stp_measure_options *measure)
{
    if (measure->begin <= stp_max_bytes(measure))
        return STP_EXIT_OK;
    if (measure->end > 0)
        return STP_MISUSE("-b %" PRIu64 " is above -e %" PRIu64, measure->begin,
                          measure->end);
    return STP_MISUSE("-b %" PRIu64 " is above the largest message, which is "
                      "1G without -e",
                      measure->begin);
}

void stp_report_begin(const struct stp_device_info *info,
                      const struct stp_measure_options *measure,
                      const struct stp_measure_plan *plan)
{
    const struct stp_sweep_plan *p = &plan->plan;

    for (size_t c = 0; c < p->n_colls; c++)
        if (measure->begin > 0 && p->sizes[c].size[0] != measure->begin)
            stp_complain("-b %" PRIu64 ": %s begins at %" PRIu64
                         " bytes, as its sizes are multiples of %" PRIu64
                         ", whole elements for every rank",
                         measure->begin, stp_coll_name(p->colls[c]),
                         p->sizes[c].size[0],
                         stp_size_grain(info, p->colls[c], p->type));
}

void stp_report_again(const struct stp_dataset *data)
{
    char text[STP_SOURCES_TEXT];

    if (stp_again_text(data->n_again, data->n_disturbed, text))
        stp_complain("%s", text);
}

int stp_choose_type(struct stp_measure_options *measure)
{
    if (measure->n_types == 0)
        measure->types[measure->n_types++] = STP_TYPE_BF16;
    if (measure->n_types == 1)
        return STP_EXIT_OK;
    return STP_MISUSE("-d with several types, expected one type");
}

int stp_exit_status(enum stp_status status)
{
    return status == STP_OK            ? STP_EXIT_OK
           : status == STP_ERR_NOTHING ? STP_EXIT_NOTHING
                                       : STP_EXIT_FAILED;
}
