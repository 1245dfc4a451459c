/* check.c - `steptune check` */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "analyse/check/check.h"
#include "cli/cli.h"
#include "core/text.h"
#include "report/file.h"
#include "report/results/check.h"

struct options {
    const char *policy;
    const char *on; /* NULL: only what needs no machine */
    bool fix;
    bool json;
};

enum { OPT_ON = 0x300, OPT_FIX, OPT_JSON };

static const struct argp_option options[] = {
    {"on", OPT_ON, "MACHINE", 0,
     "Check for this machine, too: a recorded one by its name or folder", 0},
    {"fix", OPT_FIX, NULL, 0,
     "Write the policy anew, without dead rules, with channels that the "
     "machine has, and with ends at 4294967295 made inf if no rule decides "
     "above; the old one stays beside it as POLICY.orig",
     0},
    {"json", OPT_JSON, NULL, 0, "Print JSON instead of lines", 0},
    {0},
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case OPT_ON:
        o->on = arg;
        return 0;
    case OPT_FIX:
        o->fix = true;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARG:
        if (o->policy != NULL)
            argp_error(state, "'%s', expected one policy", arg);
        o->policy = arg;
        return 0;
    case ARGP_KEY_END:
        if (o->policy == NULL)
            argp_error(state, "no policy, expected a file such as "
                              "steptune.conf");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "POLICY",
    .doc =
        "Says what is odd about a policy that NCCL would take: rules that "
        "never decide or hide others, sizes that none decides, and with --on "
        "what does not fit a machine.  Exit status: 0 without warnings, also "
        "if there are notes, 1 with any that is left.",
};

/* A policy, read. */
struct text {
    char *csv;
    size_t len;
};

/* Puts the new file where the old one was, with its permissions. */
static enum stp_status replace(const char *path, const struct text *text,
                               struct stp_error *err)
{
    struct stp_file file;
    struct stat st;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    if (stat(path, &st) == 0)
        fchmod(fileno(file.fp), st.st_mode & 07777);
    fwrite(text->csv, 1, text->len, file.fp);
    return stp_file_commit(&file, err);
}

/* 'path' is no link.  The old file keeps a name at any time. */
static enum stp_status save(const char *path, const struct text *text,
                            struct stp_error *err)
{
    char kept[STP_CLI_PATH + sizeof(".orig")];
    enum stp_status status;

    snprintf(kept, sizeof(kept), "%s.orig", path);
    if (link(path, kept) != 0)
        return stp_fail(err, STP_ERR_IO,
                        "cannot keep the original as '%.160s': %s", kept,
                        strerror(errno));
    status = replace(path, text, err);
    if (status != STP_OK)
        unlink(kept);
    return status;
}

static enum stp_status fix(const struct options *o, const struct text *text,
                           const struct stp_findings *findings,
                           struct stp_error *err)
{
    char path[STP_CLI_PATH];
    enum stp_status status;
    struct text fixed;

    if (stp_count_findings(findings, true).n_fixed == 0)
        return STP_OK;
    if (!stp_absolute_path(o->policy, path))
        return stp_fail(err, STP_ERR_IO, "is not there any more");
    status = stp_check_fix(text->csv, text->len, findings, &fixed.csv,
                           &fixed.len, err);
    if (status != STP_OK)
        return status;
    status = save(path, &fixed, err);
    free(fixed.csv);
    return status;
}

/* Returns the exit status. */
static int report(const char *command, const struct options *o,
                  const struct stp_findings *findings)
{
    struct stp_error err;

    if (!o->json)
        stp_print_findings(findings, o->policy, o->fix, stdout);
    else if (stp_print_findings_json(findings, o->policy, o->fix, stdout,
                                     &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    return stp_count_findings(findings, o->fix).n_warnings > 0 ? STP_EXIT_FAILED
                                                               : STP_EXIT_OK;
}

static int check(const char *command, const struct options *o,
                 const char *machine, const struct text *text)
{
    const struct stp_check_options what = {
        .csv = text->csv, .len = text->len, .machine_path = machine};
    struct stp_findings findings;
    struct stp_error err;
    enum stp_status status = stp_check(&what, &findings, &err);
    int exit_status;

    if (status != STP_OK)
        return stp_complain_error(
            command, status == STP_ERR_DEVICE ? NULL : o->policy, &err);
    if (o->fix && fix(o, text, &findings, &err) != STP_OK)
        exit_status = stp_complain_error(command, o->policy, &err);
    else
        exit_status = report(command, o, &findings);
    stp_findings_free(&findings);
    return exit_status;
}

int stp_cmd_check(int argc, char **argv)
{
    char machine[STP_CLI_PATH];
    struct options o = {0};
    struct stp_error err;
    struct text text;
    int exit_status;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (o.on != NULL && stp_find_machine(o.on, machine, &err) != STP_OK) {
        stp_complain_error(argv[0], NULL, &err);
        return STP_EXIT_NOTHING;
    }
    if (stp_read_file(o.policy, STP_MAX_FILE, &text.csv, &text.len, &err) !=
        STP_OK)
        return stp_complain_error(argv[0], o.policy, &err);
    exit_status = check(argv[0], &o, o.on != NULL ? machine : NULL, &text);
    free(text.csv);
    return exit_status;
}
