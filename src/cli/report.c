/* report.c - `steptune report` */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "report/page/page.h"
#include "report/page/page_find.h"

struct options {
    char **paths;
    int n_paths;
    const char *output;
    const char *title;
    bool json;
};

enum { OPT_TITLE = 0x600, OPT_JSON };

static const struct argp_option options[] = {
    {"output", 'o', "FILE", 0, "Where the page goes (default report.html)", 0},
    {"title", OPT_TITLE, "TEXT", 0, "Title of the page", 0},
    {"json", OPT_JSON, NULL, 0, "Print the figures of the summary as JSON", 0},
    {0},
};

static error_t report_parse_option(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;

    switch (key) {
    case 'o':
        o->output = arg;
        return 0;
    case OPT_TITLE:
        o->title = arg;
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->paths = state->argv + state->next;
        o->n_paths = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "nothing to report, expected a policy, measurements "
                          "or a folder of them");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = report_parse_option,
    .args_doc = "PATH...",
    .doc =
        "Makes one HTML page that says what a policy is worth: summary, rules, "
        "plots, every size, and how it was measured. PATH is a policy, beside "
        "which STEM.sweep.csv, STEM.verify.csv, STEM.iterations.csv, "
        "POLICY.overlap and STEM.overlap-verify.csv are found; a folder of "
        "`steptune tune` or `steptune iterate`; or files of measurements.\vThe "
        "page needs no network, and the same files give the same page.",
};

static enum stp_status report_make_page(const struct options *o,
                                        const struct stp_page_found *found,
                                        struct stp_error *err)
{
    struct stp_page_sources sources;

    stp_page_found_sources(found, &sources);
    sources.title = o->title;
    return stp_page_save_and_say(&sources, o->output, o->json, stdout, err);
}

int stp_cmd_report(int argc, char **argv)
{
    struct options o = {.output = "report.html"};
    struct stp_page_found *found = malloc(sizeof(*found));
    struct stp_error err;
    enum stp_status status;

    if (found == NULL)
        return stp_complain(argv[0], "out of memory");
    argp_parse(&argp, argc, argv, 0, NULL, &o);
    status = stp_page_find((const char *const *)o.paths, (size_t)o.n_paths,
                           found, &err);
    if (status == STP_OK)
        status = report_make_page(&o, found, &err);
    free(found);
    if (status != STP_OK)
        return stp_complain_error(argv[0], NULL, &err);
    if (!o.json)
        printf("Wrote %s.\n", o.output);
    return STP_EXIT_OK;
}
