/* explain_modes.c - `steptune explain --why`, `--diff` and `--golden` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/explain/why.h"
#include "cli/explain/explain.h"
#include "core/text.h"
#include "report/results/differ.h"
#include "report/results/golden.h"
#include "report/results/why.h"

enum { MAX_GOLDEN = 64 << 20 };

static int explain_exit(enum stp_status status)
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

int stp_explain_why(const struct stp_explain_command *o,
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
    return explain_exit(status);
}

/* ---- diff ---- */

bool stp_is_plugin(const char *path)
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

static int explain_report_diff(const struct stp_explain_command *o,
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
static int explain_other(const struct stp_explain_command *o,
                         const struct stp_explain_options *options,
                         struct stp_explanation *out_ret, struct stp_error *err)
{
    bool is_plugin = stp_is_plugin(o->diff);
    struct stp_explain_options other = *options;
    struct stp_policy *policy = NULL;
    char plugin[STP_CLI_PATH];
    int exit_status;

    if (is_plugin && !stp_absolute_path(o->diff, plugin))
        return explain_exit(stp_fail(
            err, STP_ERR_LIMIT, "the path of '%.80s' is too long", o->diff));
    if (!is_plugin) {
        exit_status =
            stp_load_plugin_policy(o->command, o->diff, true, &policy);
        if (exit_status != STP_EXIT_OK)
            return exit_status;
        other.policy = policy;
        exit_status = explain_exit(stp_find_plugin("steptune", plugin, err));
    } else {
        exit_status = STP_EXIT_OK;
    }
    other.plugin = plugin;
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_exit(stp_set_plugin_environment(
            options->machine_path, is_plugin ? o->policy : o->diff, err));
    if (exit_status == STP_EXIT_OK)
        exit_status = explain_exit(stp_explain(&other, out_ret, err));
    stp_policy_free(policy);
    return exit_status;
}

int stp_explain_diff(const struct stp_explain_command *o,
                     const struct stp_explain_options *options,
                     struct stp_error *err)
{
    struct stp_explanation first, second;
    int exit_status;

    if (access(o->diff, R_OK) != 0)
        return explain_exit(stp_fail(
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

static int explain_write_golden(const struct stp_explain_command *o,
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

static int explain_compare_golden(const struct stp_explain_command *o,
                                  const char *text, struct stp_error *err)
{
    struct stp_golden_change change;
    enum stp_status status;
    struct stp_error why;
    char *expected;
    size_t len;
    bool same;

    if (stp_read_file(o->golden, MAX_GOLDEN, &expected, &len, &why) != STP_OK)
        return stp_complain_error(o->command, o->golden, &why);
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

int stp_explain_golden(const struct stp_explain_command *o,
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
