/* explain.c - `steptune explain` */
#include <stdio.h>
#include <stdlib.h>

#define MAX_SIZE 0x1p44

#include "analyse/explain/explain.h"
#include "cli/cli.h"
#include "cli/explain/explain.h"
#include "report/results/results.h"

#define AT(member) offsetof(struct stp_explain_command, member)

static const struct stp_option explain_table[] = {
    {"plugin", 0, "SO", stp_option_text, AT(plugin),
     .help =
         "Tuner plugin of any vendor, as NCCL_TUNER_PLUGIN (default: ours)"},
    {"policy", 0, "FILE", stp_option_text, AT(policy),
     .help = "Policy for the plugin, as NCCL_TUNER_CONFIG_FILE (default: the "
             "value of that variable)"},
    {"maxbytes", 'e', "SIZE", stp_option_size, AT(max_bytes), .min = 1024,
     .max = MAX_SIZE, .expected = "a size from 1K to 16384G", .value = "16G",
     .help = "Largest message"},
    {"collective", 0, "WORD", stp_option_coll, AT(coll), .absent = -1,
     .help = "Only this collective (default: all; with --why: allreduce)"},
    {"why", 0, "BYTES", stp_option_size, AT(why), .max = MAX_SIZE,
     .expected = "a size from 1 to 16384G",
     .help = "Why a message of this size runs as it does: NCCL's costs and how "
             "the plugin changes them, who decided, how long it takes, and "
             "which variables override it"},
    {"diff", 0, "OTHER", stp_option_text, AT(diff),
     .help = "Where another policy, or another plugin's .so, decides "
             "differently; exit status 1 if it does"},
    {"golden", 0, "FILE", stp_option_text, AT(golden),
     .help = "Write the decisions to FILE or, if FILE exists, compare them "
             "with it; exit status 1 if they differ"},
    {"update", 0, NULL, stp_option_flag, AT(update),
     .help = "Write --golden's FILE again"},
    {0},
};

static void explain_check_options(void *options, struct argp_state *state)
{
    const struct stp_explain_command *o = options;
    int n_modes = (o->why != 0) + (o->diff != NULL) + (o->golden != NULL);

    if (o->plugin == NULL && o->policy == NULL)
        argp_error(state, "nothing to explain, expected --plugin or --policy");
    if (n_modes > 1)
        argp_error(state, "expected one of --why, --diff and --golden");
    if (o->update && o->golden == NULL)
        argp_error(state, "--update alone, expected --golden FILE with it");
}

static const struct stp_command_line explain_line = {
    .groups = (const struct stp_option_group[]){{.options = explain_table},
                                                {.options = stp_machine_table,
                                                 .at = AT(machine)},
                                                {0}},
    .check = explain_check_options,
    .doc =
        "Prints the decisions of a tuner plugin on a machine, from size to "
        "size, beside what NCCL would have chosen, and the line of the policy "
        "that decided; or the output of --why, --diff or --golden.",
};

/* ---- all ranges ---- */

static enum stp_status explain_report(const struct stp_explain_command *o,
                                      const struct stp_explanation *explanation,
                                      const char *machine,
                                      struct stp_error *err)
{
    if (o->machine.json)
        return stp_print_explanation_json(explanation, o->policy, stdout, err);
    printf("%s on %s, one collective at a time\n\n", o->plugin, machine);
    return stp_print_explanation(explanation, o->policy, stdout, err);
}

static int explain_all(const struct stp_explain_command *o,
                       const struct stp_explain_options *options,
                       struct stp_error *err)
{
    struct stp_explanation explanation;
    enum stp_status status = stp_explain(options, &explanation, err);

    if (status != STP_OK)
        return STP_EXIT_FAILED;
    status = explain_report(o, &explanation,
                            stp_machine_name(options->machine_path), err);
    stp_explanation_free(&explanation);
    return status == STP_OK ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* ---- which of them ---- */

static int explain_run_mode(const struct stp_explain_command *o,
                            const struct stp_explain_options *options,
                            struct stp_error *err)
{
    if (o->why != 0)
        return stp_explain_why(o, options, err);
    if (o->diff != NULL)
        return stp_explain_diff(o, options, err);
    if (o->golden != NULL)
        return stp_explain_golden(o, options, err);
    return explain_all(o, options, err);
}

static int explain_command(const struct stp_explain_command *o,
                           const struct stp_policy *policy,
                           const char *machine_path)
{
    const struct stp_explain_options options = {.machine_path = machine_path,
                                                .plugin = o->plugin,
                                                .policy = policy,
                                                .coll = o->coll,
                                                .max_bytes = o->max_bytes};
    struct stp_error err = {0};
    int exit_status = STP_EXIT_FAILED;

    if (stp_set_plugin_environment(machine_path, o->policy, &err) == STP_OK)
        exit_status = explain_run_mode(o, &options, &err);
    if (err.text[0] != '\0')
        stp_complain_error(o->command, NULL, &err);
    return exit_status;
}

static int explain_run(struct stp_explain_command *o)
{
    char plugin[STP_CLI_PATH];
    char machine[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    struct stp_error err;
    int exit_status;

    o->ours = o->plugin == NULL;
    if (stp_choose_machine(o->command, o->machine.on, machine) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    if (o->ours && stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(o->command, NULL, &err);
    if (o->ours)
        o->plugin = plugin;
    if (o->policy == NULL)
        o->policy = getenv("NCCL_TUNER_CONFIG_FILE");
    exit_status =
        stp_load_plugin_policy(o->command, o->policy, o->ours, &policy);
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_command(o, policy, machine);
    stp_policy_free(policy);
    return exit_status;
}

static int explain_run_options(void *user, const char *command)
{
    struct stp_explain_command *o = user;

    o->command = command;
    return explain_run(o);
}

/* The plugin of another vendor that is to run, or NULL. */
static const char *explain_find_foreign(const struct stp_explain_command *o)
{
    if (o->plugin == NULL && o->diff != NULL && stp_is_plugin(o->diff))
        return o->diff;
    return o->plugin;
}

int stp_cmd_explain(int argc, char **argv)
{
    struct stp_explain_command o = {0};

    stp_options_read(&explain_line, argc, argv, &o);
    return stp_run_plugin(argv[0], explain_find_foreign(&o),
                          explain_run_options, &o);
}
