/* tune.c - `steptune tune` */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/derive.h"
#include "analyse/steadiness.h"
#include "analyse/verify.h"
#include "cli/cli.h"
#include "cli/trial.h"
#include "report/measurements_csv.h"
#include "report/policy_file.h"
#include "report/results.h"
#include "report/tune_report.h"

struct options {
    struct stp_machine_options machine;
    struct stp_measure_options measure;
    struct stp_derive_options derive;
    const char *output;
};

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0,
     "Where the policy goes (default steptune.conf); report and measurements "
     "go beside it",
     0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->measure;
        state->child_inputs[1] = &o->derive;
        state->child_inputs[2] = &o->machine;
        return 0;
    case 'o':
        o->output = arg;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_measure_argp, 0, NULL, 0},
    {&stp_derive_argp, 0, NULL, 0},
    {&stp_machine_argp, 0, NULL, 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc = "Measures every arm, derives a policy, loads it with the tuner "
           "plugin and verifies it against NCCL's own choice, at the sizes "
           "measured and between them.",
};

/* One run of tune. */
struct tune {
    const struct options *o;
    const char *command;
    struct stp_device_info info;
    struct stp_cli_plan plan; /* of the sweep */
    struct stp_dataset swept;
    struct stp_comparisons sweep;
    struct stp_derived derived;
    struct stp_steadiness steadiness; /* of the sweep */
    size_t n_dropped;
    struct stp_dataset tried;
    struct stp_comparisons verdicts;
    char trial_path[STP_CLI_PATH]; /* the policy, until it is verified */
    char csv_path[STP_CLI_PATH];
    char report_path[STP_CLI_PATH];
    struct stp_error err;
};

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

static enum stp_status save_policy(struct tune *t)
{
    const struct stp_policy_origin origin = {.data = &t->swept,
                                             .made_by = "steptune tune",
                                             .min_gain = t->o->derive.min_gain,
                                             .portable = t->o->derive.portable,
                                             .steadiness = &t->steadiness};

    return stp_policy_file_save(&t->derived, &origin, t->trial_path, &t->err);
}

static enum stp_status sweep(struct tune *t, const struct stp_device *device)
{
    struct stp_arms arms;
    enum stp_status status = stp_arms_parse("all", &arms, &t->err);

    device->ops->info(device->self, &t->info);
    if (status == STP_OK)
        status =
            stp_make_plan(device, &t->o->measure, &arms, &t->plan, &t->err);
    stp_progress_begin();
    if (status == STP_OK)
        status = stp_sweep_run(device, &t->plan.plan, stp_progress, NULL,
                               &t->swept, &t->err);
    /* Kept even if the sweep was interrupted. */
    if (t->swept.n_rows > 0) {
        struct stp_error err;
        enum stp_status saved =
            stp_measurements_save(&t->swept, t->info.what, t->csv_path, &err);

        if (status == STP_OK && saved != STP_OK) {
            t->err = err;
            status = saved;
        }
    }
    return status;
}

static enum stp_status derive(struct tune *t)
{
    enum stp_status status = stp_compare(&t->swept, &t->sweep, &t->err);

    if (status == STP_OK)
        status =
            stp_derive(&t->sweep, t->o->derive.min_gain, &t->derived, &t->err);
    if (status == STP_OK)
        status =
            stp_steadiness_of(&t->sweep, &t->sweep, &t->steadiness, &t->err);
    if (status == STP_OK)
        status = save_policy(t);
    if (status == STP_OK)
        stp_warn_of_noise(t->command, &t->steadiness, t->o->derive.min_gain);
    return status;
}

/* The policy against AUTO, at the sizes swept and between them. */
static int verify(struct tune *t)
{
    struct stp_cli_plan plan = t->plan;
    struct stp_device device;
    enum stp_status status;
    int exit_status =
        stp_trial_open(t->command, t->trial_path, &t->o->machine, &device);

    if (exit_status != STP_EXIT_OK)
        return exit_status;
    plan.plan.colls = plan.colls;
    plan.plan.sizes = plan.sizes;
    stp_comparisons_free(&t->verdicts);
    stp_dataset_free(&t->tried);
    status = stp_trial_add_unseen(&device, t->trial_path, &plan, &t->err);
    if (status == STP_OK)
        status = stp_trial_run(&device, &plan.plan, &t->tried, &t->verdicts,
                               &t->err);
    device.ops->close(device.self);
    return status == STP_OK ? STP_EXIT_OK
                            : stp_complain_error(t->command, NULL, &t->err);
}

static bool is_slower(const struct stp_comparisons *verdicts,
                      const struct stp_derived_rule *rule)
{
    for (size_t i = 0; i < verdicts->n_points; i++) {
        const struct stp_point *p = &verdicts->points[i];

        if (p->coll == rule->coll && p->n_bytes >= rule->min_bytes &&
            p->n_bytes <= rule->max_bytes &&
            stp_verify_point(p) == STP_VERDICT_SLOWER)
            return true;
    }
    return false;
}

/* Takes away the rules that lost somewhere.  Returns how many. */
static size_t drop_slower(struct tune *t)
{
    size_t kept = 0;
    size_t n = t->derived.n_rules;

    for (size_t i = 0; i < n; i++)
        if (!is_slower(&t->verdicts, &t->derived.rules[i]))
            t->derived.rules[kept++] = t->derived.rules[i];
    t->derived.n_rules = kept;
    return n - kept;
}

static int verify_until_none_is_slower(struct tune *t)
{
    for (;;) {
        int exit_status = verify(t);
        size_t dropped;

        if (exit_status != STP_EXIT_OK)
            return exit_status;
        dropped = drop_slower(t);
        if (dropped == 0)
            return STP_EXIT_OK;
        t->n_dropped += dropped;
        if (save_policy(t) != STP_OK)
            return stp_complain_error(t->command, NULL, &t->err);
    }
}

/* Absolute paths: the job's working directory and library path are others. */
static void print_use(const struct tune *t)
{
    char plugin[STP_CLI_PATH] = "steptune";
    char policy[STP_CLI_PATH] = "";
    struct stp_error err;

    stp_find_plugin(plugin, &err);
    stp_absolute_path(t->o->output, policy);
    printf("\nWrote %s (%zu rules), %s and %s.  To use it in a job:\n\n"
           "  export NCCL_TUNER_PLUGIN=%s\n"
           "  export NCCL_TUNER_CONFIG_FILE=%s\n",
           t->o->output, t->derived.n_rules, t->report_path, t->csv_path,
           plugin, policy);
}

static enum stp_status report(struct tune *t)
{
    const struct stp_tune_report r = {.info = &t->info,
                                      .policy_path = t->o->output,
                                      .min_gain = t->o->derive.min_gain,
                                      .iters = t->plan.plan.iters,
                                      .sweep = &t->sweep,
                                      .derived = &t->derived,
                                      .verdicts = &t->verdicts,
                                      .n_dropped = t->n_dropped};
    struct stp_verdict_count count = stp_count_verdicts(&t->verdicts);
    enum stp_status status = stp_tune_report_save(&r, t->report_path, &t->err);

    if (status != STP_OK)
        return status;
    if (t->o->machine.json)
        return stp_print_verdicts_json(&t->info, &t->verdicts, stdout, &t->err);
    printf("%s\n\n", t->info.what);
    status = stp_print_verdicts(&t->verdicts, stdout, &t->err);
    printf("\n");
    stp_print_verdict_count(&count, stdout);
    print_use(t);
    return status;
}

/* Now that it is verified it may have its name. */
static enum stp_status publish_policy(struct tune *t)
{
    if (rename(t->trial_path, t->o->output) == 0)
        return STP_OK;
    return stp_fail(&t->err, STP_ERR_IO, 0, 0, "cannot write '%.160s': %s",
                    t->o->output, strerror(errno));
}

static int measure_and_derive(struct tune *t, const struct stp_device *device)
{
    enum stp_status status = sweep(t, device);

    if (status == STP_OK)
        status = derive(t);
    return status == STP_OK ? STP_EXIT_OK
                            : stp_complain_error(t->command, NULL, &t->err);
}

static int tune(struct tune *t)
{
    struct stp_device device;
    int exit_status =
        stp_open_device(t->command, &t->o->machine, NULL, &device);

    if (exit_status != STP_EXIT_OK)
        return exit_status;
    device.ops->info(device.self, &t->info);
    if (t->info.max_rounds == 1) {
        stp_complain(t->command,
                     "machine '%s' was never timed in interleaved rounds; a "
                     "model is no ground for a policy",
                     t->info.machine);
        exit_status = STP_EXIT_NOTHING;
    } else {
        exit_status = measure_and_derive(t, &device);
    }
    device.ops->close(device.self);
    if (exit_status == STP_EXIT_OK)
        exit_status = verify_until_none_is_slower(t);
    if (exit_status == STP_EXIT_OK &&
        (publish_policy(t) != STP_OK || report(t) != STP_OK))
        exit_status = stp_complain_error(t->command, NULL, &t->err);
    if (exit_status != STP_EXIT_OK)
        unlink(t->trial_path);
    return exit_status;
}

/* Before anything is measured or written. */
static int check_output(struct tune *t)
{
    const char *slash = strrchr(t->o->output, '/');
    const char *name = slash != NULL ? slash + 1 : t->o->output;
    struct stat st;

    if (*name == '\0' ||
        (stat(t->o->output, &st) == 0 && S_ISDIR(st.st_mode))) {
        stp_complain(t->command, "-o '%s' is a folder, expected a file",
                     t->o->output);
        return STP_EXIT_USAGE;
    }
    if (snprintf(t->trial_path, STP_CLI_PATH, "%s.unverified", t->o->output) >=
            STP_CLI_PATH ||
        !name_beside(t->o->output, ".sweep.csv", t->csv_path) ||
        !name_beside(t->o->output, ".report.txt", t->report_path)) {
        stp_complain(t->command, "-o: the path is too long");
        return STP_EXIT_USAGE;
    }
    return STP_EXIT_OK;
}

int stp_cmd_tune(int argc, char **argv)
{
    struct options o = {.output = "steptune.conf"};
    struct tune *t = calloc(1, sizeof(*t));
    int exit_status;

    if (t == NULL)
        return stp_complain(argv[0], "out of memory");
    stp_options_default(&o.machine, &o.measure, &o.derive);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    o.machine.max_bytes = stp_max_bytes(&o.measure);
    if (o.measure.type < 0)
        o.measure.type = STP_TYPE_BF16; /* as training has it */
    if (o.measure.n_types > 1) {
        stp_complain(argv[0], "-d all, expected one type");
        return STP_EXIT_USAGE;
    }
    t->o = &o;
    t->command = argv[0];
    exit_status = check_output(t);
    if (exit_status == STP_EXIT_OK)
        exit_status = tune(t);
    stp_comparisons_free(&t->verdicts);
    stp_dataset_free(&t->tried);
    stp_derived_free(&t->derived);
    stp_comparisons_free(&t->sweep);
    stp_dataset_free(&t->swept);
    free(t);
    return exit_status;
}
