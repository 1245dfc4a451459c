/* measure.c - from options to a device, a plan and a progress bar */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bench/device_mock.h"
#include "cli/cli.h"

enum { DEFAULT_ROUNDS = 10 };

/* ---- messages ---- */

int stp_complain(const char *command, const char *fmt, ...)
{
    va_list va;

    fprintf(stderr, "%s: ", command);
    va_start(va, fmt);
    vfprintf(stderr, fmt, va);
    va_end(va);
    fputc('\n', stderr);
    return STP_EXIT_FAILED;
}

int stp_complain_error(const char *command, const char *path,
                       const struct stp_error *err)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];

    if (path == NULL)
        return stp_complain(command, "%s", err->text);
    stp_error_string(err, path, text, sizeof(text));
    return stp_complain(command, "%s", text);
}

/* ---- the device ---- */

int stp_open_device(const char *command, const struct stp_machine_options *on,
                    const char *plugin, struct stp_device *device_ret)
{
    struct stp_device_mock_options options = {.plugin = plugin,
                                              .seed = on->seed};
    char path[STP_CLI_PATH];
    struct stp_error err;

    if (on->on != NULL &&
        (strcmp(on->on, "cuda") == 0 || strcmp(on->on, "cpu") == 0)) {
        stp_complain(command,
                     "--on %s: this build measures on recorded machines only, "
                     "such as --on " STP_DEFAULT_MACHINE,
                     on->on);
        return STP_EXIT_NOTHING;
    }
    if (stp_find_machine(on->on != NULL ? on->on : STP_DEFAULT_MACHINE, path,
                         &err) != STP_OK) {
        stp_complain_error(command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    options.machine_path = path;
    if (stp_device_mock_open(&options, device_ret, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return STP_EXIT_OK;
}

/* ---- the plan ---- */

uint64_t stp_size_grain(const struct stp_device *device)
{
    struct stp_device_info info;

    device->ops->info(device->self, &info);
    return (uint64_t)info.n_ranks * STP_ELEMENT_SIZE;
}

static enum stp_status add_known_sizes(const struct stp_device *device,
                                       int coll, struct stp_sizes *sizes,
                                       struct stp_error *err)
{
    uint64_t known[STP_MAX_SIZES];
    size_t n = device->ops->sizes(device->self, coll, known, STP_MAX_SIZES);
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < n && i < STP_MAX_SIZES && status == STP_OK; i++)
        status = stp_sizes_add(sizes, known[i], 1, err);
    return status;
}

static bool sizes_given(const struct stp_measure_options *m)
{
    return m->begin != 0 || m->end != 0 || m->factor != 0;
}

static enum stp_status choose_sizes(const struct stp_device *device,
                                    const struct stp_measure_options *m,
                                    int coll, struct stp_sizes *sizes,
                                    struct stp_error *err)
{
    enum stp_status status = STP_OK;

    sizes->n = 0;
    if (!sizes_given(m))
        status = add_known_sizes(device, coll, sizes, err);
    if (status != STP_OK || sizes->n > 0)
        return status;
    return stp_sizes_add_geometric(
        sizes, m->begin ? m->begin : 8, m->end ? m->end : (uint64_t)1 << 30,
        m->factor > 0 ? m->factor : 2, stp_size_grain(device), err);
}

/* Those asked for; else those with recorded times; else all. */
static size_t choose_colls(const struct stp_device *device,
                           const struct stp_measure_options *m,
                           int colls[NCCL_NUM_TUNED_FUNCS])
{
    size_t n = 0;

    if (m->n_colls > 0) {
        memcpy(colls, m->colls, m->n_colls * sizeof(*colls));
        return m->n_colls;
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (device->ops->sizes(device->self, c, NULL, 0) > 0)
            colls[n++] = c;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && n == 0; c++)
        colls[c] = c;
    return n > 0 ? n : NCCL_NUM_TUNED_FUNCS;
}

enum stp_status stp_make_plan(const struct stp_device *device,
                              const struct stp_measure_options *measure,
                              const struct stp_arms *arms,
                              struct stp_cli_plan *plan_ret,
                              struct stp_error *err)
{
    struct stp_device_info info;
    enum stp_status status = STP_OK;

    device->ops->info(device->self, &info);
    plan_ret->plan = (struct stp_sweep_plan){
        .colls = plan_ret->colls,
        .n_colls = choose_colls(device, measure, plan_ret->colls),
        .sizes = plan_ret->sizes,
        .arms = arms,
        .rounds = measure->rounds,
        .warmup = measure->warmup,
        .iters = measure->iters,
        .type = STP_TYPE_BF16,
        .op = STP_OP_SUM,
        .auto_places = STP_OUT_OF_PLACE,
        .arm_places = STP_OUT_OF_PLACE,
    };
    if (measure->rounds == 0)
        plan_ret->plan.rounds =
            info.max_rounds > 0 ? info.max_rounds : DEFAULT_ROUNDS;
    for (size_t c = 0; c < plan_ret->plan.n_colls && status == STP_OK; c++)
        status = choose_sizes(device, measure, plan_ret->colls[c],
                              &plan_ret->sizes[c], err);
    return status;
}

/* ---- progress ---- */

static volatile sig_atomic_t interrupted;

static void on_signal(int signal)
{
    (void)signal;
    interrupted = 1;
}

void stp_progress_begin(void)
{
    struct sigaction action = {.sa_handler = on_signal};

    interrupted = 0;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESETHAND; /* a second Ctrl-C ends us at once */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool stp_interrupted(void)
{
    return interrupted != 0;
}

bool stp_progress(void *user, size_t done, size_t total)
{
    static const char bar[] = "########################################";
    const int width = (int)sizeof(bar) - 1;
    int filled = (int)((size_t)width * done / total);

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%.*s%*s] %zu of %zu %s%s", filled, bar,
                width - filled, "", done, total,
                user != NULL ? (const char *)user : "sizes",
                done == total ? "\n" : "");
    return !interrupted;
}
