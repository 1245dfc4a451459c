/* tune.c - `steptune tune` */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/tune/tune.h"
#include "launch/clock.h"
#include "launch/stop.h"

/* ---- where it runs ---- */

size_t stp_tune_passes(const struct stp_tune *t)
{
    return t->o->n_passes > 0 ? t->o->n_passes : 1;
}

/* "h200x2" for 2 ranks of "h200x4". */
static enum stp_status name_sibling(struct stp_tune *t, const char *on,
                                    unsigned n_ranks, char name[STP_CLI_PATH])
{
    size_t len = strlen(on);
    int n;

    while (len > 0 && isdigit((unsigned char)on[len - 1]))
        len--;
    n = snprintf(name, STP_CLI_PATH, "%.*s%u", (int)len, on, n_ranks);
    if (len > 0 && on[len - 1] == 'x' && on[len] != '\0' && n < STP_CLI_PATH)
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_NOTHING,
                    "--ranks on the recorded machine '%.120s', expected one "
                    "whose name ends in its number of ranks, such as h200x4",
                    on);
}

static enum stp_status check_ranks(struct stp_tune *t, unsigned n_ranks,
                                   const struct stp_device *device)
{
    struct stp_device_info info;

    device->ops->info(device->self, &info);
    if (n_ranks == 0 || info.n_ranks == n_ranks)
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_NOTHING, "--ranks %u, but '%s' has %u",
                    n_ranks, info.machine, info.n_ranks);
}

enum stp_status stp_tune_open(struct stp_tune *t, size_t pass,
                              const char *plugin, struct stp_device *device_ret)
{
    unsigned n_ranks = t->o->n_passes > 0 ? t->o->ranks[pass] : 0;
    struct stp_machine_options machine = t->o->machine;
    struct stp_run_options run = {0};
    const struct stp_open_options open = {.machine = &machine,
                                          .run = &run,
                                          .max_bytes = machine.max_bytes,
                                          .plugin = plugin};
    char name[STP_CLI_PATH];
    enum stp_status status = STP_OK;

    if (stp_is_live(machine.on, NULL)) {
        run.n_threads = n_ranks;
    } else if (n_ranks > 0) {
        status = name_sibling(
            t, machine.on != NULL ? machine.on : STP_DEFAULT_MACHINE, n_ranks,
            name);
        machine.on = name;
    }
    if (status == STP_OK)
        status = stp_open(&open, device_ret, &t->err);
    if (status != STP_OK)
        return status;
    status = check_ranks(t, n_ranks, device_ret);
    if (status != STP_OK)
        device_ret->ops->close(device_ret->self);
    return status;
}

/* ---- progress ---- */

enum stp_status stp_tune_progress(struct stp_tune *t, enum stp_tune_stage stage,
                                  size_t done, size_t total)
{
    static char words[STP_TUNE_N_STAGES][20] = {
        [STP_TUNE_SWEEP] = "sizes swept",
        [STP_TUNE_REFINE] = "points refined",
        [STP_TUNE_ITERATE] = "settings iterated",
        [STP_TUNE_VERIFY] = "verified"};

    if (stp_progress(words[stage], done, total))
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_STOPPED, "stopped");
}

void stp_tune_clock(struct stp_tune *t, enum stp_tune_stage stage,
                    int64_t *since_ms)
{
    int64_t now = stp_now_ms();

    t->stage_ms[stage] += now - *since_ms;
    *since_ms = now;
}

/* ---- all of it ---- */

static enum stp_status check_machine(struct stp_tune *t)
{
    if (t->info.max_rounds != 1)
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_NOTHING,
                    "machine '%s' was never timed in interleaved rounds; a "
                    "model is no ground for a policy",
                    t->info.machine);
}

/* The first pass knows the machine, without which nothing can go on. */
static enum stp_status measure_pass(struct stp_tune *t, size_t pass)
{
    struct stp_device device;
    enum stp_status status = stp_tune_open(t, pass, NULL, &device);

    if (status != STP_OK)
        return status;
    device.ops->info(device.self, &t->info);
    status = check_machine(t);
    if (status == STP_OK && pass == 0)
        status = stp_tune_resume(t);
    if (status == STP_OK)
        status = stp_tune_sweep(t, &device);
    if (status == STP_OK)
        status = stp_tune_iterate(t, &device);
    device.ops->close(device.self);
    return status;
}

static enum stp_status measure(struct stp_tune *t)
{
    enum stp_status status = STP_OK;
    size_t n_rows;

    for (size_t i = 0; i < stp_tune_passes(t) && status == STP_OK; i++)
        status = measure_pass(t, i);
    n_rows = t->alone.data.n_rows + t->iterated.data.n_rows;
    if (n_rows > 0 && t->is_begun) {
        struct stp_error err = t->err;
        enum stp_status kept = stp_tune_keep(t, true);

        if (status != STP_OK)
            t->err = err;
        else
            status = kept;
    }
    return status;
}

/* Now that it is verified it may have its name. */
static enum stp_status publish(struct stp_tune *t, struct stp_tune_policy *p)
{
    if (!p->exists || rename(p->trial_path, p->path) == 0)
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_IO, "cannot write '%.160s': %s", p->path,
                    strerror(errno));
}

static enum stp_status tune(struct stp_tune *t)
{
    char plugin[STP_CLI_PATH];
    enum stp_status status = stp_find_plugin("steptune", plugin, &t->err);

    stp_stop_begin();
    if (status == STP_OK)
        status = measure(t);
    if (status == STP_OK)
        status = stp_tune_derive_alone(t);
    if (status == STP_OK)
        status = stp_tune_derive_overlap(t);
    if (status == STP_OK)
        status = stp_tune_verify(t);
    if (status == STP_OK)
        status = publish(t, &t->alone);
    if (status == STP_OK)
        status = publish(t, &t->overlap);
    if (status == STP_OK)
        status = stp_tune_report(t);
    if (status == STP_OK)
        stp_tune_finish(t);
    return status;
}

/* ---- the command ---- */

/* steptune.conf has steptune.report.txt and steptune.sweep.csv beside it. */
static bool name_beside(const char *policy, const char *suffix,
                        char path[STP_CLI_PATH])
{
    const char *dot = strrchr(policy, '.');
    const char *slash = strrchr(policy, '/');
    size_t stem = dot != NULL && dot > (slash != NULL ? slash + 1 : policy)
                      ? (size_t)(dot - policy)
                      : strlen(policy);
    int n = snprintf(path, STP_CLI_PATH, "%.*s%s", (int)stem, policy, suffix);

    return n > 0 && n < STP_CLI_PATH;
}

static bool name_behind(const char *policy, const char *suffix,
                        char path[STP_CLI_PATH])
{
    int n = snprintf(path, STP_CLI_PATH, "%s%s", policy, suffix);

    return n > 0 && n < STP_CLI_PATH;
}

static bool name_files(struct stp_tune *t)
{
    const char *o = t->o->output;

    return name_behind(o, "", t->alone.path) &&
           name_behind(o, ".overlap", t->overlap.path) &&
           name_behind(o, ".unverified", t->alone.trial_path) &&
           name_behind(o, ".overlap.unverified", t->overlap.trial_path) &&
           name_beside(o, ".verify.csv", t->alone.verify_path) &&
           name_beside(o, ".overlap-verify.csv", t->overlap.verify_path) &&
           name_beside(o, ".sweep.csv", t->sweep_path) &&
           name_beside(o, ".iterations.csv", t->iterations_path) &&
           name_beside(o, ".unfinished", t->state_path) &&
           name_beside(o, ".report.txt", t->report_path) &&
           name_beside(o, ".report.html", t->page_path);
}

/* Before anything is measured or written. */
static int check_output(struct stp_tune *t)
{
    const char *slash = strrchr(t->o->output, '/');
    const char *name = slash != NULL ? slash + 1 : t->o->output;
    struct stat st;

    if (*name == '\0' ||
        (stat(t->o->output, &st) == 0 && !S_ISREG(st.st_mode))) {
        stp_complain(t->command,
                     "-o '%s' is a folder or a device, expected a "
                     "file",
                     t->o->output);
        return STP_EXIT_USAGE;
    }
    if (name_files(t))
        return STP_EXIT_OK;
    stp_complain(t->command, "-o: the path is too long");
    return STP_EXIT_USAGE;
}

static int run(struct stp_tune *t)
{
    enum stp_status status = tune(t);

    if (status == STP_OK)
        return STP_EXIT_OK;
    stp_progress_clear();
    unlink(t->alone.trial_path);
    unlink(t->overlap.trial_path);
    if (status == STP_ERR_STOPPED && t->is_begun)
        stp_complain(t->command,
                     "stopped; started again with the same options it "
                     "continues with what %s holds",
                     t->sweep_path);
    else
        stp_complain_error(t->command, NULL, &t->err);
    return stp_exit_status(status);
}

static void release_policy(struct stp_tune_policy *p)
{
    stp_comparisons_free(&p->verdicts);
    stp_dataset_free(&p->tried);
    stp_derived_free(&p->derived);
    stp_comparisons_free(&p->comparisons);
    stp_dataset_free(&p->data);
}

/* As training has it, and once. */
static int choose_type(const char *command, struct stp_measure_options *m)
{
    if (m->type < 0)
        m->type = STP_TYPE_BF16;
    if (m->n_types <= 1)
        return STP_EXIT_OK;
    stp_complain(command, "-d all, expected one type");
    return STP_EXIT_USAGE;
}

int stp_cmd_tune(int argc, char **argv)
{
    struct stp_tune_options o = {.output = "steptune.conf", .resolution = 1.4};
    struct stp_tune *t = calloc(1, sizeof(*t));
    int exit_status;

    if (t == NULL)
        return stp_complain(argv[0], "out of memory");
    stp_options_default(&o.machine, &o.measure, &o.derive);
    argp_parse(&stp_tune_argp, argc, argv, 0, NULL, &o);
    o.machine.max_bytes = stp_max_bytes(&o.measure);
    t->o = &o;
    t->command = argv[0];
    exit_status = choose_type(argv[0], &o.measure);
    if (exit_status == STP_EXIT_OK)
        exit_status = check_output(t);
    if (exit_status == STP_EXIT_OK)
        exit_status = run(t);
    release_policy(&t->overlap);
    release_policy(&t->alone);
    stp_iterations_free(&t->iterated);
    free(t->plan_text);
    free(t);
    return exit_status;
}
