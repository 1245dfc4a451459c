/* explain.c - `steptune explain` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/explain.h"
#include "cli/cli.h"
#include "core/text.h"
#include "report/results.h"

struct options {
    struct stp_machine_options machine;
    const char *plugin;
    const char *policy;
    uint64_t max_bytes;
};

enum { OPT_PLUGIN = 0x300, OPT_POLICY };

static const struct argp_option options[] = {
    {"plugin", OPT_PLUGIN, "SO", 0,
     "Tuner plugin of any vendor, as NCCL_TUNER_PLUGIN (default: ours)", 0},
    {"policy", OPT_POLICY, "FILE", 0,
     "Policy for the plugin, as NCCL_TUNER_CONFIG_FILE (default: what that "
     "variable says)",
     0},
    {"maxbytes", 'e', "SIZE", 0, "How far to look (default 16G)", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

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
        if (!stp_parse_size(arg, strlen(arg), &o->max_bytes) ||
            o->max_bytes < 1024 || o->max_bytes > (uint64_t)1 << 44)
            argp_error(state, "-e '%s', expected a size from 1K to 16384G",
                       arg);
        return 0;
    case ARGP_KEY_ARG:
        argp_error(state, "'%s', expected options only", arg);
        return 0;
    case ARGP_KEY_END:
        if (o->plugin == NULL && o->policy == NULL)
            argp_error(state, "nothing to explain, expected --plugin or "
                              "--policy");
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
        "that decided.",
};

static enum stp_status report(const struct options *o,
                              const struct stp_explanation *explanation,
                              const char *machine_path, struct stp_error *err)
{
    if (o->machine.json)
        return stp_print_explanation_json(explanation, o->policy, stdout, err);
    printf("%s on %s, one collective at a time\n\n", o->plugin,
           strrchr(machine_path, '/') + 1);
    return stp_print_explanation(explanation, o->policy, stdout, err);
}

static enum stp_status explain(const struct options *o,
                               const struct stp_policy *policy,
                               const char *machine_path, struct stp_error *err)
{
    const struct stp_explain_options what = {.machine_path = machine_path,
                                             .plugin = o->plugin,
                                             .policy = policy,
                                             .coll = -1,
                                             .max_bytes = o->max_bytes};
    struct stp_explanation explanation;
    enum stp_status status = stp_explain(&what, &explanation, err);

    if (status != STP_OK)
        return status;
    status = report(o, &explanation, machine_path, err);
    stp_explanation_free(&explanation);
    return status;
}

static int run(struct options *o, const char *command)
{
    char plugin[STP_CLI_PATH];
    char machine[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    struct stp_error err;
    bool ours = o->plugin == NULL;
    int exit_status;

    if (stp_find_machine(o->machine.on ? o->machine.on : STP_DEFAULT_MACHINE,
                         machine, &err) != STP_OK) {
        stp_complain_error(command, NULL, &err);
        return STP_EXIT_NOTHING;
    }
    if (ours && stp_find_plugin(plugin, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    if (ours)
        o->plugin = plugin;
    if (o->policy == NULL)
        o->policy = getenv("NCCL_TUNER_CONFIG_FILE");
    exit_status = stp_load_plugin_policy(command, o->policy, ours, &policy);
    if (exit_status == STP_EXIT_OK &&
        (stp_set_plugin_environment(machine, o->policy, &err) != STP_OK ||
         explain(o, policy, machine, &err) != STP_OK))
        exit_status = stp_complain_error(command, NULL, &err);
    stp_policy_free(policy);
    return exit_status;
}

static int run_options(void *o, const char *command)
{
    return run(o, command);
}

int stp_cmd_explain(int argc, char **argv)
{
    struct options o = {.max_bytes = (uint64_t)16 << 30};

    stp_options_default(&o.machine, NULL, NULL);
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    return stp_run_plugin(argv[0], o.plugin, run_options, &o);
}
