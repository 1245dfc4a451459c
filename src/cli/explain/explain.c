/* explain.c - `steptune explain` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/explain/explain.h"
#include "cli/cli.h"
#include "cli/explain/explain.h"
#include "core/names.h"
#include "core/text.h"
#include "report/results/results.h"

enum {
    OPT_PLUGIN = 0x300,
    OPT_POLICY,
    OPT_COLLECTIVE,
    OPT_WHY,
    OPT_DIFF,
    OPT_GOLDEN,
    OPT_UPDATE,
};

static const struct argp_option options[] = {
    {"plugin", OPT_PLUGIN, "SO", 0,
     "Tuner plugin of any vendor, as NCCL_TUNER_PLUGIN (default: ours)", 0},
    {"policy", OPT_POLICY, "FILE", 0,
     "Policy for the plugin, as NCCL_TUNER_CONFIG_FILE (default: what that "
     "variable says)",
     0},
    {"maxbytes", 'e', "SIZE", 0, "How far to look (default 16G)", 0},
    {"collective", OPT_COLLECTIVE, "WORD", 0,
     "Only this one (default: all; with --why: allreduce)", 0},
    {"why", OPT_WHY, "BYTES", 0,
     "Why a message of this size runs as it does: NCCL's costs and what the "
     "plugin makes of them, who decided, how long it takes, and what the "
     "environment overrides",
     0},
    {"diff", OPT_DIFF, "OTHER", 0,
     "Where another policy, or another plugin's .so, decides differently; exit "
     "status 1 if it does",
     0},
    {"golden", OPT_GOLDEN, "FILE", 0,
     "Write the decisions to FILE, or, if there is one, compare them with it; "
     "exit status 1 if they differ",
     0},
    {"update", OPT_UPDATE, NULL, 0, "Write --golden's FILE anew", 0},
    {0},
};

static uint64_t parse_size(struct argp_state *state, const char *option,
                           const char *arg, uint64_t min)
{
    uint64_t size;

    if (!stp_parse_size(arg, strlen(arg), &size) || size < min ||
        size > (uint64_t)1 << 44)
        argp_error(state, "%s '%s', expected a size from %s to 16384G", option,
                   arg, min == 1 ? "1" : "1K");
    return size;
}

static int parse_coll(struct argp_state *state, const char *arg)
{
    int coll = stp_coll_from_name(arg, strlen(arg));

    if (coll < 0)
        argp_error(state, "--collective '%s', expected one of %s", arg,
                   stp_coll_names());
    return coll;
}

static void check(const struct stp_explain_command *o, struct argp_state *state)
{
    int n_modes = (o->why != 0) + (o->diff != NULL) + (o->golden != NULL);

    if (o->plugin == NULL && o->policy == NULL)
        argp_error(state, "nothing to explain, expected --plugin or --policy");
    if (n_modes > 1)
        argp_error(state, "expected one of --why, --diff and --golden");
    if (o->update && o->golden == NULL)
        argp_error(state, "--update alone, expected --golden FILE with it");
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct stp_explain_command *o = state->input;

    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &o->machine;
        return 0;
    case OPT_PLUGIN:
        o->plugin = arg;
        return 0;
    case OPT_POLICY:
        o->policy = arg;
        return 0;
    case 'e':
        o->max_bytes = parse_size(state, "-e", arg, 1024);
        return 0;
    case OPT_COLLECTIVE:
        o->coll = parse_coll(state, arg);
        return 0;
    case OPT_WHY:
        o->why = parse_size(state, "--why", arg, 1);
        return 0;
    case OPT_DIFF:
        o->diff = arg;
        return 0;
    case OPT_GOLDEN:
        o->golden = arg;
        return 0;
    case OPT_UPDATE:
        o->update = true;
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    case ARGP_KEY_END:
        check(o, state);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_child children[] = {
    {&stp_machine_argp, 0, NULL, 0},
    {0},
};

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .children = children,
    .doc =
        "Prints what a tuner plugin decides on a machine, from size to size, "
        "beside what NCCL would have chosen, and the line of the policy "
        "that decided; or one of the options --why, --diff and --golden.",
};

/* ---- all ranges ---- */

static enum stp_status report(const struct stp_explain_command *o,
                              const struct stp_explanation *explanation,
                              const char *machine, struct stp_error *err)
{
    if (o->machine.json)
        return stp_print_explanation_json(explanation, o->policy, stdout, err);
    printf("%s on %s, one collective at a time\n\n", o->plugin, machine);
    return stp_print_explanation(explanation, o->policy, stdout, err);
}

static int explain_all(const struct stp_explain_command *o,
                       const struct stp_explain_options *what,
                       struct stp_error *err)
{
    struct stp_explanation explanation;
    enum stp_status status = stp_explain(what, &explanation, err);

    if (status != STP_OK)
        return STP_EXIT_FAILED;
    status = report(o, &explanation, stp_machine_name(what->machine_path), err);
    stp_explanation_free(&explanation);
    return status == STP_OK ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* ---- which of them ---- */

const char *stp_machine_name(const char *path)
{
    return strrchr(path, '/') + 1;
}

static int run_mode(const struct stp_explain_command *o,
                    const struct stp_explain_options *what,
                    struct stp_error *err)
{
    if (o->why != 0)
        return stp_explain_why(o, what, err);
    if (o->diff != NULL)
        return stp_explain_diff(o, what, err);
    if (o->golden != NULL)
        return stp_explain_golden(o, what, err);
    return explain_all(o, what, err);
}

static int explain(const struct stp_explain_command *o,
                   const struct stp_policy *policy, const char *machine_path)
{
    const struct stp_explain_options what = {.machine_path = machine_path,
                                             .plugin = o->plugin,
                                             .policy = policy,
                                             .coll = o->coll,
                                             .max_bytes = o->max_bytes};
    struct stp_error err = {0};
    int exit_status = STP_EXIT_FAILED;

    if (stp_set_plugin_environment(machine_path, o->policy, &err) == STP_OK)
        exit_status = run_mode(o, &what, &err);
    if (err.text[0] != '\0')
        stp_complain_error(o->command, NULL, &err);
    return exit_status;
}

static int run(struct stp_explain_command *o)
{
    char plugin[STP_CLI_PATH];
    char machine[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    struct stp_error err;
    int exit_status;

    o->ours = o->plugin == NULL;
    if (stp_find_machine(o->machine.on ? o->machine.on : STP_DEFAULT_MACHINE,
                         machine, &err) != STP_OK) {
        stp_complain_error(o->command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    if (o->ours && stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(o->command, NULL, &err);
    if (o->ours)
        o->plugin = plugin;
    if (o->policy == NULL)
        o->policy = getenv("NCCL_TUNER_CONFIG_FILE");
    exit_status =
        stp_load_plugin_policy(o->command, o->policy, o->ours, &policy);
    if (exit_status == STP_EXIT_OK)
        exit_status = explain(o, policy, machine);
    stp_policy_free(policy);
    return exit_status;
}

static int run_options(void *user, const char *command)
{
    struct stp_explain_command *o = user;

    o->command = command;
    return run(o);
}

/* The plugin of another vendor that is to run, or NULL. */
static const char *foreign_plugin(const struct stp_explain_command *o)
{
    if (o->plugin == NULL && o->diff != NULL && stp_is_plugin(o->diff))
        return o->diff;
    return o->plugin;
}

int stp_cmd_explain(int argc, char **argv)
{
    struct stp_explain_command o = {.coll = -1,
                                    .max_bytes = (uint64_t)16 << 30};

    stp_options_default(&o.machine, NULL, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return stp_run_plugin(argv[0], foreign_plugin(&o), run_options, &o);
}
