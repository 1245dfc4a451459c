/* plot.c - `steptune plot` */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"
#include "launch/take.h"
#include "report/charts/plot.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/measurements/measurements_csv.h"
#include "report/training/train_charts.h"
#include "report/training/train_json.h"
#include "report/training/train_results.h"

struct plot_options {
    struct stp_arguments files;
    const char *out;
    unsigned format;        /* STP_N_PLOT_FORMATS: all */
    int coll;               /* -1: as the files say */
    unsigned n_ranks;       /* 0: likewise */
    unsigned n_curves;      /* 0: not given */
    const char *gnuplot;    /* NULL: as it is found */
    const char *error_path; /* the file that an error is about; NULL: none */
    struct stp_error err;
    int exit_status; /* without an error: STP_EXIT_FAILED if NCCL was wrong */
};

#define AT(member) offsetof(struct plot_options, member)

static const char *const formats[] = {[STP_PLOT_PNG] = "png",
                                      [STP_PLOT_SVG] = "svg",
                                      [STP_N_PLOT_FORMATS] = "both",
                                      [STP_N_PLOT_FORMATS + 1] = NULL};

static const struct stp_option plot_table[] = {
    {"out", 'o', "DIR", stp_option_text, AT(out), .path = STP_PATH_FOLDER},
    {"format", 0, "FORMAT", stp_option_word, AT(format), .words = formats,
     .value = "png"},
    {"curves", 0, "N", stp_option_count, AT(n_curves), .min = 1,
     .max = STP_PLOT_MAX_CURVES},
    {"collective", 0, "NAME", stp_option_coll, AT(coll), .absent = -1},
    {"ranks", 0, "N", stp_option_count, AT(n_ranks), .min = 2,
     .max = UINT32_MAX},
    {0},
};

static const struct stp_command_line plot_line = {
    .groups = (const struct stp_option_group[]){{.options = plot_table}, {0}},
    .args_doc = "FILE...",
    .arguments = AT(files),
    .reads = true,
    .none = "no measurements, expected files of `steptune sweep`, of "
            "nccl-tests or of `steptune train`",
};

/* ---- writing ---- */

/* Names a file in the folder, which is made if need be. */
static enum stp_status plot_find_path(struct plot_options *o, const char *name,
                                      const char *ending,
                                      char path[STP_CLI_PATH])
{
    const bool has_folder = o->out != NULL;

    if (has_folder)
        STP_TRY(stp_folder_make(o->out, &o->err));
    if (snprintf(path, STP_CLI_PATH, "%s%s%s.%s", has_folder ? o->out : "",
                 has_folder ? "/" : "", name, ending) < STP_CLI_PATH)
        return STP_OK;
    return STP_REFUSE(&o->err, "--out is longer than a path can be");
}

/* Draws a chart in each format, and frees it. */
static enum stp_status plot_draw(struct plot_options *o, const char *name,
                                 struct stp_chart *chart)
{
    enum stp_status status = STP_OK;

    for (unsigned f = 0; f < STP_N_PLOT_FORMATS && status == STP_OK; f++) {
        char path[STP_CLI_PATH];

        if (o->format != STP_N_PLOT_FORMATS && o->format != f)
            continue;
        status = plot_find_path(o, name, stp_plot_format_name(f), path);
        STP_THEN(status, stp_chart_save(chart, f, o->gnuplot, path, &o->err));
        if (status == STP_OK)
            puts(path);
    }
    stp_chart_free(chart);
    return status;
}

/* A text file that is being written. */
struct plot_text {
    struct stp_file file;
    char path[STP_CLI_PATH];
};

static enum stp_status plot_begin_text(struct plot_options *o, const char *name,
                                       const char *ending,
                                       struct plot_text *text)
{
    STP_TRY(plot_find_path(o, name, ending, text->path));
    return stp_file_begin(text->path, &text->file, &o->err);
}

static enum stp_status plot_end_text(struct plot_options *o,
                                     struct plot_text *text)
{
    STP_TRY(stp_file_commit(&text->file, &o->err));
    puts(text->path);
    return STP_OK;
}

/* ---- collectives ---- */

static enum stp_status plot_draw_curves(struct plot_options *o,
                                        const struct stp_curves *curves,
                                        enum stp_plot_kind kind, int coll)
{
    const struct stp_plot plot = {kind, coll, o->n_curves};
    char name[STP_PLOT_NAME];
    struct stp_chart chart;

    if (!stp_plot_has(curves, &plot))
        return STP_OK;
    stp_plot_name(&plot, name);
    stp_plot_make(curves, &plot, &chart);
    return plot_draw(o, name, &chart);
}

static enum stp_status plot_write_all(struct plot_options *o,
                                      const struct stp_curves *curves)
{
    const bool is_study = stp_plot_is_study(curves);

    for (int t = 0; t < STP_N_STUDY_TEXTS && is_study; t++) {
        struct plot_text text;
        const char *ending;
        const char *name = stp_study_name(t, &ending);

        STP_TRY(plot_begin_text(o, name, ending, &text));
        stp_study_write(curves, t, text.file.fp);
        STP_TRY(plot_end_text(o, &text));
    }
    for (int kind = STP_PLOT_STUDY_TIME;
         kind <= STP_PLOT_STUDY_BARS && is_study; kind++)
        STP_TRY(plot_draw_curves(o, curves, kind, ncclFuncAllReduce));
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        STP_TRY(plot_draw_curves(o, curves, STP_PLOT_BUSBW, c));
        STP_TRY(plot_draw_curves(o, curves, STP_PLOT_LATENCY, c));
    }
    return STP_OK;
}

static enum stp_status plot_measurements(struct plot_options *o)
{
    const size_t n = (unsigned)o->files.n;
    struct stp_dataset *sets = stp_take(n, sizeof(*sets));
    struct stp_curves curves;
    enum stp_status status = STP_OK;

    for (int i = 0; i < o->files.n && status == STP_OK; i++) {
        o->error_path = o->files.v[i];
        for (int k = 0; k < i && status == STP_OK; k++)
            if (stp_path_is_same(o->files.v[k], o->error_path))
                status = STP_REFUSE(
                    &o->err,
                    "given twice, expected different files to compare");
        STP_THEN(status,
                 stp_measurements_load_any(o->error_path, o->coll, o->n_ranks,
                                           &sets[i], &o->err));
        if (status == STP_OK && stp_dataset_n_iterations(&sets[i]) > 0)
            status = stp_fail(&o->err, STP_ERR_SYNTAX,
                              "times of iterations, expected those of "
                              "collectives alone: `steptune iterate -o DIR` "
                              "plots iterations as it measures them");
        if (status == STP_OK) {
            stp_report_text(o->error_path, &sets[i]);
            o->exit_status |= stp_report_wrong(o->error_path, &sets[i], false);
        }
    }
    if (status == STP_OK) {
        o->error_path = NULL;
        curves = stp_curves_make(sets, (const char *const *)o->files.v, n);
        status = plot_write_all(o, &curves);
        stp_curves_free(&curves);
    }
    for (size_t i = 0; i < n; i++)
        stp_dataset_free(&sets[i]);
    free(sets);
    return status;
}

/* ---- training ---- */

/* Reads the runs of all files, but for runs of an earlier file, such as those
 * that benchmark_results.json repeats. */
static enum stp_status plot_load_runs(struct plot_options *o,
                                      struct stp_train_runs *runs)
{
    enum stp_status status = STP_OK;

    for (int i = 0; i < o->files.n && status == STP_OK; i++) {
        struct stp_train_runs some = {.n = 0};

        o->error_path = o->files.v[i];
        status = stp_train_read(o->error_path, &some, &o->err);
        for (size_t k = 0; k < some.n && status == STP_OK; k++) {
            if (stp_train_runs_have(runs, &some.runs[k]))
                continue;
            stp_train_runs_add(runs, &some.runs[k]);
            some.runs[k] = (struct stp_train_run){.n_epochs = 0};
        }
        stp_train_runs_free(&some);
    }
    if (status != STP_OK)
        return status;
    o->error_path = runs->n == 0 ? o->files.v[0] : NULL;
    if (runs->n == 0)
        return stp_fail(&o->err, STP_ERR_SYNTAX,
                        "no runs, expected those of `steptune train`");
    stp_train_derive(runs);
    return STP_OK;
}

static enum stp_status plot_training(struct plot_options *o)
{
    struct stp_train_runs runs = {.n = 0};
    struct stp_train_charts charts = {.n = 0};
    struct plot_text text;
    char name[STP_TRAIN_CHART_NAME];
    enum stp_status status = plot_load_runs(o, &runs);

    if (status == STP_OK)
        charts = stp_train_charts_find(&runs);
    STP_THEN(status, plot_begin_text(o, "train_summary", "txt", &text));
    if (status == STP_OK) {
        stp_train_print_models(&runs, text.file.fp);
        status = plot_end_text(o, &text);
    }
    for (size_t i = 0; i < charts.n && status == STP_OK; i++) {
        struct stp_chart chart;

        if (charts.all[i].why != NULL)
            continue;
        stp_train_chart_name(&charts.all[i], name);
        stp_train_chart_make(&runs, &charts.all[i], &chart);
        status = plot_draw(o, name, &chart);
    }
    /* on standard error, since it is no file */
    for (size_t i = 0; i < charts.n && status == STP_OK; i++) {
        stp_train_chart_name(&charts.all[i], name);
        if (charts.all[i].why != NULL)
            stp_complain("no %s: %s", name, charts.all[i].why);
    }
    if (charts.n_runs_aside > 0 && status == STP_OK)
        stp_complain("%zu run%s in no chart: batch, samples, gradients, "
                     "buckets, learning rate or seed is not that of most",
                     charts.n_runs_aside,
                     charts.n_runs_aside == 1 ? " is" : "s are");
    stp_train_runs_free(&runs);
    return status;
}

/* ---- the command ---- */

int stp_cmd_plot(int argc, char **argv)
{
    struct plot_options o = {.gnuplot = getenv("STEPTUNE_GNUPLOT")};
    const char *idle;
    bool is_training = false;
    enum stp_status status;

    stp_options_read(&plot_line, argc, argv, &o);
    idle = o.n_curves > 0 ? "--curves" : o.coll >= 0 ? "--collective" : NULL;
    for (int i = 0; i < o.files.n; i++)
        is_training |= stp_train_results_begin(o.files.v[i]);
    if (o.n_curves == 0)
        o.n_curves = STP_PLOT_CURVES;
    if (is_training && idle != NULL)
        status = STP_REFUSE(
            &o.err, "%s has no effect on results of `steptune train`", idle);
    else
        status = is_training ? plot_training(&o) : plot_measurements(&o);
    if (status == STP_OK)
        return o.exit_status;
    stp_complain_error(o.error_path, &o.err);
    return stp_exit_status(status);
}
