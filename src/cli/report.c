/* report.c - `steptune report` */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "report/file.h"
#include "report/page/page.h"

struct report_options {
    struct stp_arguments paths;
    const char *output;
    const char *title;
    bool json;
};

#define AT(member) offsetof(struct report_options, member)

static const struct stp_option report_table[] = {
    {"output", 'o', "FILE", stp_option_text, AT(output), .value = "report.html",
     .path = STP_PATH_WRITE, .help = "File of the page"},
    {"title", 0, "TEXT", stp_option_text, AT(title),
     .help = "Title of the page"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Print the figures of the summary as JSON"},
    {0},
};

static const struct stp_command_line report_line = {
    .groups = (const struct stp_option_group[]){{.options = report_table}, {0}},
    .args_doc = "PATH...",
    .arguments = AT(paths),
    .reads = true,
    .none = "nothing to report, expected a policy, measurements or a folder of "
            "them",
    .doc =
        "Makes one HTML page that says how much a policy gains: summary, "
        "rules, plots, every size, and how it was measured. PATH is a policy, "
        "beside which STEM.sweep.csv, STEM.verify.csv, STEM.graph.csv, "
        "STEM.iterations.csv, POLICY.overlap, POLICY.memory, POLICY.stage and "
        "STEM.overlap-verify.csv are found; "
        "a folder of `steptune tune` or `steptune iterate`; or files of "
        "measurements.\v"
        "Files of another run or of another policy are left out, or refused "
        "if they were named, and a sentence says so.  The page needs no "
        "network, and the same files give the same page.",
};

int stp_cmd_report(int argc, char **argv)
{
    struct report_options o = {0};
    struct stp_page_found *found = malloc(sizeof(*found));
    bool auto_is_wrong = false;
    struct stp_error err;
    enum stp_status status;

    if (found == NULL)
        return stp_complain("out of memory");
    stp_options_read(&report_line, argc, argv, &o);
    status = stp_page_find((const char *const *)o.paths.v, (size_t)o.paths.n,
                           found, &err);
    found->sources.title = o.title;
    /* the measurements that lie beside a policy are no options or arguments */
    for (int i = 0; i < STP_PAGE_N_SOURCES && status == STP_OK; i++)
        if (found->path[i][0] != '\0' &&
            stp_path_is_same(o.output, found->path[i]))
            status = stp_fail(&err, STP_ERR_RANGE,
                              "-o '%.160s' is a file that is read, expected "
                              "another one to write",
                              o.output);
    STP_THEN(status, stp_page_save(&found->sources, o.output, o.json, stdout,
                                   &auto_is_wrong, &err));
    free(found);
    if (status != STP_OK)
        return stp_complain_error(NULL, &err);
    if (!o.json)
        printf("Wrote %s.\n", o.output);
    return auto_is_wrong ? STP_EXIT_FAILED : STP_EXIT_OK;
}
