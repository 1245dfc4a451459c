/* check.c - `steptune check` */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/check/check.h"
#include "cli/cli.h"
#include "core/policy/baseline.h"
#include "core/policy/memory_policy.h"
#include "core/policy/policy_columns.h"
#include "core/text.h"
#include "report/file.h"
#include "report/results/results.h"

struct check_options {
    struct stp_arguments policy;
    bool fix;
    bool json;
};

#define AT(member) offsetof(struct check_options, member)

static const struct stp_option check_table[] = {
    {"fix", 0, NULL, stp_option_flag, .at = AT(fix)},
    {"json", 0, NULL, stp_option_flag, .at = AT(json)},
    {0},
};

static const struct stp_command_line check_line = {
    .groups = (const struct stp_option_group[]){{.options = check_table}, {0}},
    .args_doc = "POLICY",
    .arguments = AT(policy),
    .one = "policy",
    .none = STP_NO_POLICY,
};

/* Replaces the policy by the fixed text, with its permissions. The old file is
 * kept under .orig, and one of both is there at any time. */
static enum stp_status check_fix(const struct check_options *o, const char *csv,
                                 size_t len,
                                 const struct stp_findings *findings,
                                 struct stp_error *err)
{
    char path[STP_CLI_PATH]; /* is no link */
    char kept[STP_CLI_PATH + sizeof(".orig")];
    char *fixed;
    size_t fixed_len;
    struct stp_file file;
    struct stat st;
    enum stp_status status;

    if (stp_count_findings(findings, true).n_fixed == 0)
        return STP_OK;
    if (!stp_absolute_path(o->policy.v[0], path))
        return stp_fail(err, STP_ERR_IO, "is not there any more");
    fixed = stp_check_fix(csv, len, findings, &fixed_len);
    snprintf(kept, sizeof(kept), "%s.orig", path);
    if (stp_file_keep(path, kept) != 0) {
        free(fixed);
        return stp_fail(err, STP_ERR_IO,
                        "cannot keep the original as '%.160s': %s", kept,
                        strerror(errno));
    }
    status = stp_file_begin(path, &file, err);
    if (status == STP_OK) {
        if (stat(path, &st) == 0)
            fchmod(fileno(file.fp), st.st_mode & 07777);
        fwrite(fixed, 1, fixed_len, file.fp);
        status = stp_file_commit(&file, err);
    }
    if (status != STP_OK)
        unlink(kept);
    free(fixed);
    return status;
}

/* Says what is wrong of a policy that cannot be read: each line that is no
 * rule, or the first alone where it is a header, or the file has no rule. */
static int check_complain(const char *path, enum stp_policy_kind kind,
                          char *csv, size_t len, const struct stp_error *first)
{
    struct stp_error errors[16] = {*first};
    struct stp_policy *policy = NULL;
    struct stp_field field;
    size_t n = 1, n_shown = 1;

    while (n < 16 && policy == NULL && stp_policy_formats[kind].max_plain > 0) {
        const char *s = csv, *line = NULL;
        size_t n_line = 0;

        for (unsigned i = 0; i < errors[n - 1].line; i++)
            line = stp_next_line(&s, csv + len, &n_line);
        if (line == NULL || n_line == 0)
            break;
        stp_split(line, n_line, &field, 1);
        if (stp_column_find(kind, &field) != NULL)
            break;
        csv[line - csv] = '#'; /* passed over from now on */
        stp_policy_parse(kind, csv, len, &policy, &errors[n]);
        if (policy == NULL && errors[n].line == errors[n - 1].line)
            break; /* of another kind than a rule */
        n += policy == NULL;
    }
    if (policy == NULL || stp_policy_size(policy) > 0)
        n_shown = n;
    stp_policy_free(policy);
    for (size_t i = 0; i < n_shown; i++)
        stp_complain_error(path, &errors[i]);
    return STP_EXIT_FAILED;
}

static int check_run(const struct check_options *o, char *csv, size_t len)
{
    const char *path = o->policy.v[0];
    const struct stp_check_options options = {
        .csv = csv, .len = len, .kind = stp_policy_kind_of_file(path)};
    struct stp_policy *policy = NULL;
    struct stp_found_tuner lower;
    char why[STP_BASELINE_TEXT];
    struct stp_findings findings;
    struct stp_error err;
    size_t n_warnings;
    int exit_status = STP_EXIT_OK;

    if (stp_check(&options, &findings, &err) != STP_OK)
        return check_complain(path, options.kind, csv, len, &err);
    /* Rules may be derived against another tuner than the one that jobs here
     * have; one that is not found here may be in the job. */
    if (stp_policy_parse(options.kind, csv, len, &policy, NULL) == STP_OK &&
        stp_policy_baseline(policy)[0] != '\0') {
        stp_find_lower(stp_chain_setting(), STP_NEWEST_TUNER, &lower);
        if (lower.version > 0 && stp_baseline_differs(policy, lower.name, why))
            stp_complain("%s: %s", path, why);
    }
    stp_policy_free(policy);
    n_warnings = stp_count_findings(&findings, o->fix).n_warnings;
    if (o->fix && check_fix(o, csv, len, &findings, &err) != STP_OK)
        exit_status = stp_complain_error(path, &err);
    else
        stp_print_findings(&findings, path, o->fix, o->json, stdout);
    if (n_warnings > 0)
        exit_status = STP_EXIT_FAILED;
    stp_findings_free(&findings);
    return exit_status;
}

int stp_cmd_check(int argc, char **argv)
{
    struct check_options o = {0};
    struct stp_error err;
    char *text;
    size_t len;
    int exit_status;

    stp_options_read(&check_line, argc, argv, &o);
    if (stp_read_file(o.policy.v[0], STP_MAX_FILE, &text, &len, &err) != STP_OK)
        return stp_complain_error(o.policy.v[0], &err);
    exit_status = check_run(&o, text, len);
    free(text);
    return exit_status;
}
