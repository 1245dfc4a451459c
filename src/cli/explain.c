/* explain.c - `steptune explain` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/explain/explain.h"
#include "analyse/explain/why.h"
#include "cli/cli.h"
#include "core/text.h"
#include "report/results/differ.h"
#include "report/results/golden.h"
#include "report/results/results.h"
#include "report/results/why.h"

#define MAX_SIZE 0x1p44

enum { MAX_GOLDEN = 64 << 20 };

struct explain_options {
    struct stp_machine_options machine;
    const char *plugin;
    bool ours; /* the plugin is */
    const char *policy;
    int coll; /* ncclFunc_t; -1: not given */
    uint64_t max_bytes;
    uint64_t why;       /* bytes; 0: not given */
    const char *diff;   /* likewise NULL */
    const char *golden; /* likewise NULL */
    bool update;
};

#define AT(member) offsetof(struct explain_options, member)

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
    const struct explain_options *o = options;
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

/* A failure of any kind, to be told by *err. */
static int explain_status(enum stp_status status)
{
    return status == STP_OK ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* ---- why ---- */

/* The text of a line, from 1, to be freed; NULL if the file has changed and
 * there is none. */
static char *explain_read_line(const char *path, unsigned line)
{
    char *text, *copy = NULL;
    const char *s, *found = NULL;
    size_t size, len = 0;

    if (stp_read_file(path, STP_MAX_FILE, &text, &size, NULL) != STP_OK)
        return NULL;
    s = text;
    for (unsigned i = 0; i < line; i++)
        found = stp_next_line(&s, text + size, &len);
    if (found != NULL)
        copy = strndup(found, len);
    free(text);
    return copy;
}

static int explain_why(const struct explain_options *o,
                       const struct stp_explain_options *options,
                       struct stp_error *err)
{
    struct stp_explain_options one = *options;
    struct stp_why why;
    struct stp_why_report report = {.why = &why,
                                    .machine =
                                        stp_machine_name(options->machine_path),
                                    .plugin = o->plugin,
                                    .policy = o->policy};
    char *rule = NULL;
    enum stp_status status;

    if (one.coll < 0)
        one.coll = ncclFuncAllReduce;
    if (stp_ask_why(&one, o->why, getenv, &why, err) != STP_OK)
        return STP_EXIT_FAILED;
    if (why.decider == STP_DECIDER_RULE)
        rule = explain_read_line(o->policy, why.line);
    report.rule = rule;
    status = o->machine.json ? stp_print_why_json(&report, stdout, err)
                             : stp_print_why(&report, stdout, err);
    free(rule);
    return explain_status(status);
}

/* ---- diff ---- */

/* Whether the file is a library, and so no policy. */
static bool explain_is_plugin(const char *path)
{
    static const char magic[] = {0x7f, 'E', 'L', 'F'};
    char begin[sizeof(magic)];
    FILE *fp = fopen(path, "rb");
    bool is = fp != NULL && fread(begin, sizeof(begin), 1, fp) == 1 &&
              memcmp(begin, magic, sizeof(magic)) == 0;

    if (fp != NULL)
        fclose(fp);
    return is;
}

static int explain_report_diff(const struct explain_options *o,
                               const char *machine_path,
                               const struct stp_explanation *first,
                               const struct stp_explanation *second,
                               struct stp_error *err)
{
    struct stp_differences all;
    const struct stp_differences_report report = {
        .differences = &all,
        .first = o->ours ? o->policy : o->plugin,
        .second = o->diff,
        .machine = stp_machine_name(machine_path),
    };
    enum stp_status status;
    bool same;

    if (stp_differ(first, second, machine_path, &all, err) != STP_OK)
        return STP_EXIT_FAILED;
    status = o->machine.json ? stp_print_differences_json(&report, stdout, err)
                             : stp_print_differences(&report, stdout, err);
    same = all.n_ranges == 0;
    stp_differences_free(&all);
    return status == STP_OK && same ? STP_EXIT_OK : STP_EXIT_FAILED;
}

/* Explains OTHER: a plugin with the same policy, or our plugin with another
 * one.  The exit status, which has been explained if *err has no text. */
static int explain_other(const struct explain_options *o,
                         const struct stp_explain_options *options,
                         struct stp_explanation *out_ret, struct stp_error *err)
{
    bool is_plugin = explain_is_plugin(o->diff);
    struct stp_explain_options other = *options;
    struct stp_policy *policy = NULL;
    char plugin[STP_CLI_PATH];
    int exit_status;

    if (is_plugin && !stp_absolute_path(o->diff, plugin))
        return explain_status(stp_fail(
            err, STP_ERR_LIMIT, "the path of '%.80s' is too long", o->diff));
    if (!is_plugin) {
        exit_status = stp_load_plugin_policy(o->diff, true, &policy);
        if (exit_status != STP_EXIT_OK)
            return exit_status;
        other.policy = policy;
        exit_status = explain_status(stp_find_plugin("steptune", plugin, err));
    } else {
        exit_status = STP_EXIT_OK;
    }
    other.plugin = plugin;
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_status(stp_set_plugin_environment(
            options->machine_path, is_plugin ? o->policy : o->diff, err));
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_status(stp_explain(&other, out_ret, err));
    stp_policy_free(policy);
    return exit_status;
}

static int explain_diff(const struct explain_options *o,
                        const struct stp_explain_options *options,
                        struct stp_error *err)
{
    struct stp_explanation first, second;
    int exit_status;

    if (access(o->diff, R_OK) != 0)
        return explain_status(stp_fail(
            err, STP_ERR_IO,
            "cannot read '%.160s', expected a policy or a plugin", o->diff));
    if (stp_explain(options, &first, err) != STP_OK)
        return STP_EXIT_FAILED;
    exit_status = explain_other(o, options, &second, err);
    if (exit_status == STP_EXIT_OK) {
        exit_status =
            explain_report_diff(o, options->machine_path, &first, &second, err);
        stp_explanation_free(&second);
    }
    stp_explanation_free(&first);
    return exit_status;
}

/* ---- golden ---- */

static int explain_write_golden(const struct explain_options *o,
                                const char *text, struct stp_error *err)
{
    if (stp_golden_save(o->golden, text, err) != STP_OK)
        return STP_EXIT_FAILED;
    if (o->machine.json)
        puts("{\"written\": true}");
    else
        printf("%s: written\n", o->golden);
    return STP_EXIT_OK;
}

static int explain_compare_golden(const struct explain_options *o,
                                  const char *text, struct stp_error *err)
{
    struct stp_golden_change change;
    enum stp_status status;
    struct stp_error why;
    char *expected;
    size_t len;
    bool same;

    if (stp_read_file(o->golden, MAX_GOLDEN, &expected, &len, &why) != STP_OK)
        return stp_complain_error(o->golden, &why);
    status = stp_golden_compare(expected, text, &change, err);
    if (status != STP_OK) {
        free(expected);
        return STP_EXIT_FAILED;
    }
    same = change.n == 0;
    if (o->machine.json)
        status = stp_print_golden_change_json(&change, o->golden, stdout, err);
    else
        stp_print_golden_change(&change, o->golden, stdout);
    stp_golden_change_free(&change);
    free(expected);
    return status == STP_OK && same ? STP_EXIT_OK : STP_EXIT_FAILED;
}

static int explain_golden(const struct explain_options *o,
                          const struct stp_explain_options *options,
                          struct stp_error *err)
{
    struct stp_explanation explanation;
    enum stp_status status = stp_explain(options, &explanation, err);
    int exit_status;
    char *text;

    if (status != STP_OK)
        return STP_EXIT_FAILED;
    status =
        stp_golden_text(&explanation, stp_machine_name(options->machine_path),
                        options->max_bytes, &text, err);
    stp_explanation_free(&explanation);
    if (status != STP_OK)
        return STP_EXIT_FAILED;
    if (o->update || access(o->golden, F_OK) != 0)
        exit_status = explain_write_golden(o, text, err);
    else
        exit_status = explain_compare_golden(o, text, err);
    free(text);
    return exit_status;
}

/* ---- all ranges ---- */

static int explain_all(const struct explain_options *o,
                       const struct stp_explain_options *options,
                       struct stp_error *err)
{
    struct stp_explanation explanation;
    enum stp_status status = stp_explain(options, &explanation, err);

    if (status != STP_OK)
        return STP_EXIT_FAILED;
    if (o->machine.json) {
        status =
            stp_print_explanation_json(&explanation, o->policy, stdout, err);
    } else {
        printf("%s on %s, one collective at a time\n\n", o->plugin,
               stp_machine_name(options->machine_path));
        status = stp_print_explanation(&explanation, o->policy, stdout, err);
    }
    stp_explanation_free(&explanation);
    return explain_status(status);
}

/* ---- which of them ---- */

static int explain_run_mode(const struct explain_options *o,
                            const struct stp_explain_options *options,
                            struct stp_error *err)
{
    if (o->why != 0)
        return explain_why(o, options, err);
    if (o->diff != NULL)
        return explain_diff(o, options, err);
    if (o->golden != NULL)
        return explain_golden(o, options, err);
    return explain_all(o, options, err);
}

static int explain_command(const struct explain_options *o,
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
        stp_complain_error(NULL, &err);
    return exit_status;
}

static int explain_run(void *user)
{
    struct explain_options *o = user;
    char plugin[STP_CLI_PATH];
    char machine[STP_CLI_PATH];
    struct stp_policy *policy = NULL;
    struct stp_error err;
    int exit_status;

    o->ours = o->plugin == NULL;
    if (stp_choose_machine(o->machine.on, machine) != STP_EXIT_OK)
        return STP_EXIT_NOTHING;
    if (o->ours && stp_find_plugin("steptune", plugin, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (o->ours)
        o->plugin = plugin;
    if (o->policy == NULL)
        o->policy = getenv("NCCL_TUNER_CONFIG_FILE");
    exit_status = stp_load_plugin_policy(o->policy, o->ours, &policy);
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_command(o, policy, machine);
    stp_policy_free(policy);
    return exit_status;
}

/* The plugin of another vendor that is to run, or NULL. */
static const char *explain_find_foreign(const struct explain_options *o)
{
    if (o->plugin == NULL && o->diff != NULL && explain_is_plugin(o->diff))
        return o->diff;
    return o->plugin;
}

int stp_cmd_explain(int argc, char **argv)
{
    struct explain_options o = {0};

    stp_options_read(&explain_line, argc, argv, &o);
    return stp_run_plugin(explain_find_foreign(&o), explain_run, &o);
}
