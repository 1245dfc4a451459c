/* plot.c - `steptune plot` */
#include "report/charts/plot.h"
#include "report/folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot/plot.h"
#include "core/names.h"
#include "core/text.h"
#include "report/charts/study.h"
#include "report/file.h"
#include "report/learning/plot_journal.h"
#include "report/measurements/measurements_any.h"
#include "report/training/train_charts.h"

struct options {
    char **files;
    int n_files;
    const char *out;
    bool formats[STP_N_PLOT_FORMATS];
    const char *title;
    int coll; /* -1: as the files say */
    unsigned n_curves;
    bool json;
};

enum {
    OPT_FORMAT = 0x500,
    OPT_TITLE,
    OPT_COLLECTIVE,
    OPT_CURVES,
    OPT_JSON,
};

static const struct argp_option options[] = {
    {"out", 'o', "DIR", 0,
     "Where to write, made if need be (default: the working directory)", 0},
    {"format", OPT_FORMAT, "FORMAT", 0, "png (default), svg or both", 0},
    {"title", OPT_TITLE, "TEXT", 0, "What every title begins with", 0},
    {"curves", OPT_CURVES, "N", 0,
     "At most so many in one plot, 1 to 32 (default 8): AUTO, then those that "
     "are the fastest at most sizes",
     0},
    {"collective", OPT_COLLECTIVE, "NAME", 0,
     "What nccl-tests' text before version 2.17 is of, which does not say it",
     0},
    {"json", OPT_JSON, NULL, 0,
     "Of training: print what was drawn, what was not and the runs as JSON", 0},
    {0},
};

static void parse_format(const char *arg, struct options *o,
                         struct argp_state *state)
{
    bool both = strcmp(arg, "both") == 0;
    bool known = both;

    for (int f = 0; f < STP_N_PLOT_FORMATS; f++) {
        bool this = strcmp(arg, stp_plot_format_name(f)) == 0;

        o->formats[f] = both || this;
        known |= this;
    }
    if (!known)
        argp_error(state, "--format '%s', expected png, svg or both", arg);
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct options *o = state->input;
    uint64_t n;

    switch (key) {
    case 'o':
        o->out = arg;
        return 0;
    case OPT_FORMAT:
        parse_format(arg, o, state);
        return 0;
    case OPT_TITLE:
        o->title = arg;
        return 0;
    case OPT_CURVES:
        if (!stp_parse_u64(arg, strlen(arg), &n) || n < 1 ||
            n > STP_PLOT_MAX_CURVES)
            argp_error(state, "--curves '%s', expected a number from 1 to %d",
                       arg, STP_PLOT_MAX_CURVES);
        o->n_curves = (unsigned)n;
        return 0;
    case OPT_COLLECTIVE:
        o->coll = stp_coll_from_name(arg, strlen(arg));
        if (o->coll < 0)
            argp_error(state, "--collective '%s', expected one of %s", arg,
                       stp_coll_names());
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case ARGP_KEY_ARGS:
        o->files = state->argv + state->next;
        o->n_files = state->argc - state->next;
        return 0;
    case ARGP_KEY_NO_ARGS:
        argp_error(state, "no measurements, expected files of `steptune sweep` "
                          "or of nccl-tests, or a journal");
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp argp = {
    .options = options,
    .parser = parse,
    .args_doc = "FILE...",
    .doc =
        "Plots measurements of `steptune sweep` (CSV or JSON) or the text of "
        "nccl-tests: bus bandwidth and latency against size, for every "
        "collective. Several files, backends or numbers of processes of "
        "all-reduce are also compared with each other, in plots, tables and "
        "sentences. Of the journal of a job that learned (STEPTUNE_JOURNAL): "
        "the time lost while learning, and what ran meanwhile. Of the results "
        "of `steptune train`, of one model of GPU or several: precisions, "
        "scaling, accumulation, exposed communication, loss, modes, throughput "
        "and hardware, as far as there are runs to compare, and a "
        "table.\vgnuplot draws "
        "them; STEPTUNE_GNUPLOT names another.",
};

/* ---- writing ---- */

/* What is written where, and by whom. */
struct job {
    const struct options *o;
    const char *command;
    const char *gnuplot;
    const struct stp_curves *curves;
};

static int path_of(const struct job *job, const char *name,
                   char path[STP_CLI_PATH])
{
    const char *out = job->o->out;

    if ((size_t)snprintf(path, STP_CLI_PATH, "%s%s%s", out != NULL ? out : "",
                         out != NULL ? "/" : "", name) < STP_CLI_PATH)
        return STP_EXIT_OK;
    return stp_complain(job->command, "--out is longer than a path can be");
}

static int finish(const struct job *job, const char *path,
                  enum stp_status status, const struct stp_error *err)
{
    if (status != STP_OK) {
        stp_complain_error(job->command, NULL, err);
        return status == STP_ERR_NOTHING ? STP_EXIT_NOTHING : STP_EXIT_FAILED;
    }
    puts(path);
    return STP_EXIT_OK;
}

static int draw(const struct job *job, enum stp_plot_kind kind, int coll)
{
    const struct stp_plot plot = {kind, coll, job->o->title, job->o->n_curves};
    int exit_status = STP_EXIT_OK;

    if (!stp_plot_has(job->curves, &plot))
        return STP_EXIT_OK;
    for (int f = 0; f < STP_N_PLOT_FORMATS && exit_status == STP_EXIT_OK; f++) {
        char name[STP_PLOT_NAME];
        char path[STP_CLI_PATH];
        struct stp_error err;

        if (!job->o->formats[f])
            continue;
        stp_plot_name(&plot, f, name);
        exit_status = path_of(job, name, path);
        if (exit_status == STP_EXIT_OK)
            exit_status = finish(
                job, path,
                stp_plot_save(job->curves, &plot, f, job->gnuplot, path, &err),
                &err);
    }
    return exit_status;
}

typedef enum stp_status write_fn(const struct stp_curves *curves, FILE *fp,
                                 struct stp_error *err);

static enum stp_status save_text(const struct job *job, write_fn *write,
                                 const char *path, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    status = write(job->curves, file.fp, err);
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}

static int write_study(const struct job *job)
{
    static const struct {
        const char *name;
        write_fn *write;
    } texts[] = {
        {"full_results.md", stp_study_write_results},
        {"summary_by_config.md", stp_study_write_summary},
        {"analysis.txt", stp_study_write_analysis},
    };
    int exit_status = STP_EXIT_OK;

    for (size_t i = 0; i < 3 && exit_status == STP_EXIT_OK; i++) {
        char path[STP_CLI_PATH];
        struct stp_error err;

        exit_status = path_of(job, texts[i].name, path);
        if (exit_status == STP_EXIT_OK)
            exit_status = finish(
                job, path, save_text(job, texts[i].write, path, &err), &err);
    }
    for (int kind = STP_PLOT_STUDY_TIME;
         kind <= STP_PLOT_STUDY_BARS && exit_status == STP_EXIT_OK; kind++)
        exit_status = draw(job, kind, ncclFuncAllReduce);
    return exit_status;
}

static int make_folder(const struct job *job)
{
    const char *out = job->o->out;

    struct stp_error err;

    if (out != NULL && stp_folder_make(out, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    return STP_EXIT_OK;
}

static int write_all(const struct job *job)
{
    int exit_status = make_folder(job);

    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (stp_plot_is_study(job->curves))
        exit_status = write_study(job);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        if (exit_status == STP_EXIT_OK)
            exit_status = draw(job, STP_PLOT_BUSBW, c);
        if (exit_status == STP_EXIT_OK)
            exit_status = draw(job, STP_PLOT_LATENCY, c);
    }
    return exit_status;
}

/* ---- journals ---- */

static int draw_learning(const struct job *job,
                         const struct stp_journal_plot *plot,
                         enum stp_journal_plot_kind kind)
{
    int exit_status = STP_EXIT_OK;

    for (int f = 0; f < STP_N_PLOT_FORMATS && exit_status == STP_EXIT_OK; f++) {
        char name[STP_PLOT_NAME];
        char path[STP_CLI_PATH];
        struct stp_error err;

        if (!job->o->formats[f])
            continue;
        snprintf(name, sizeof(name), "%s.%s", stp_journal_plot_name(kind),
                 stp_plot_format_name(f));
        exit_status = path_of(job, name, path);
        if (exit_status == STP_EXIT_OK)
            exit_status = finish(
                job, path,
                stp_journal_plot_save(plot, kind, f, job->gnuplot, path, &err),
                &err);
    }
    return exit_status;
}

static int draw_journal(const struct job *job, const char *file,
                        const struct stp_journal_lines *lines)
{
    struct stp_learning learning;
    struct stp_journal_plot plot = {lines, &learning, job->o->title, file};
    struct stp_error err;
    int exit_status;

    if (stp_learning_sum(lines, &learning, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    if (stp_journal_plot_has(&plot))
        exit_status = make_folder(job);
    else
        exit_status = stp_complain(job->command,
                                   "%s: a journal without times: nothing was "
                                   "learned",
                                   file);
    for (int k = 0; k < STP_N_JOURNAL_PLOTS && exit_status == STP_EXIT_OK; k++)
        exit_status = draw_learning(job, &plot, k);
    stp_learning_free(&learning);
    return exit_status;
}

/* NULL if none of the files is one. */
static const char *find_journal(const struct options *o)
{
    for (int i = 0; i < o->n_files; i++)
        if (stp_journal_begins(o->files[i]))
            return o->files[i];
    return NULL;
}

static int plot_journal(const struct job *job, const char *file)
{
    struct stp_journal_lines lines;
    struct stp_error err;
    int exit_status;

    if (job->o->n_files > 1)
        return stp_complain(job->command,
                            "%s: a journal, expected no other file beside it",
                            file);
    if (stp_journal_load(file, 0, &lines, &err) != STP_OK)
        return stp_complain_error(job->command, file, &err);
    exit_status = draw_journal(job, file, &lines);
    stp_journal_free(&lines);
    return exit_status;
}

/* ---- training ---- */

static bool has_training(const struct options *o)
{
    for (int i = 0; i < o->n_files; i++)
        if (stp_train_results_begin(o->files[i]))
            return true;
    return false;
}

static int plot_training(const struct job *job)
{
    const struct options *o = job->o;
    struct stp_plot_training what = {.command = job->command,
                                     .gnuplot = job->gnuplot,
                                     .files = o->files,
                                     .n_files = o->n_files,
                                     .folder = o->out,
                                     .title = o->title,
                                     .json = o->json};

    memcpy(what.formats, o->formats, sizeof(what.formats));
    return stp_plot_training(&what);
}

/* ---- reading ---- */

/* Their sizes are no curve of a collective. */
static int refuse_iterations(const char *command, const char *path)
{
    return stp_complain(command,
                        "%s: times of iterations, expected those of "
                        "collectives alone: `steptune iterate -o DIR` plots "
                        "iterations as it measures them",
                        path);
}

static int load(const char *command, const struct options *o,
                struct stp_dataset *sets)
{
    for (int i = 0; i < o->n_files; i++) {
        struct stp_error err;

        if (stp_measurements_load_any(o->files[i], o->coll, &sets[i], &err) !=
            STP_OK)
            return stp_complain_error(command, o->files[i], &err);
        if (stp_dataset_n_iterations(&sets[i]) > 0)
            return refuse_iterations(command, o->files[i]);
    }
    return STP_EXIT_OK;
}

static int plot(const char *command, const struct options *o,
                struct stp_dataset *sets)
{
    struct stp_curves curves;
    struct job job = {o, command, getenv("STEPTUNE_GNUPLOT"), &curves};
    struct stp_error err;
    int exit_status = load(command, o, sets);

    if (exit_status != STP_EXIT_OK)
        return exit_status;
    if (stp_curves_make(sets, (const char *const *)o->files, (size_t)o->n_files,
                        &curves, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    exit_status = write_all(&job);
    stp_curves_free(&curves);
    return exit_status;
}

int stp_cmd_plot(int argc, char **argv)
{
    struct options o = {.formats = {[STP_PLOT_PNG] = true},
                        .coll = -1,
                        .n_curves = STP_PLOT_CURVES};
    const struct job other = {&o, argv[0], getenv("STEPTUNE_GNUPLOT"), NULL};
    struct stp_dataset *sets;
    int exit_status;

    argp_parse(&argp, argc, argv, 0, NULL, &o);
    if (find_journal(&o) != NULL)
        return plot_journal(&other, find_journal(&o));
    if (has_training(&o))
        return plot_training(&other);
    if (o.json)
        return stp_complain(argv[0], "--json, expected results of `steptune "
                                     "train`");
    sets = calloc((size_t)o.n_files, sizeof(*sets));
    if (sets == NULL)
        return stp_complain(argv[0], "out of memory");
    exit_status = plot(argv[0], &o, sets);
    for (int i = 0; i < o.n_files; i++)
        stp_dataset_free(&sets[i]);
    free(sets);
    return exit_status;
}
