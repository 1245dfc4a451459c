/* plot.c - `steptune plot` */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "report/charts/gnuplot.h"
#include "report/charts/plot.h"
#include "report/charts/study.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/learning/plot_journal.h"
#include "report/measurements/measurements_csv.h"
#include "report/training/train_charts.h"
#include "report/training/train_keys.h"
#include "report/training/train_summary.h"

struct plot_options {
    struct stp_arguments files;
    const char *out;
    unsigned format; /* the first, or STP_N_PLOT_FORMATS for all */
    const char *title;
    int coll; /* -1: as the files say */
    unsigned n_curves;
    bool json;
};

#define AT(member) offsetof(struct plot_options, member)

static const char *const formats[] = {[STP_PLOT_PNG] = "png",
                                      [STP_PLOT_SVG] = "svg",
                                      [STP_N_PLOT_FORMATS] = "both",
                                      [STP_N_PLOT_FORMATS + 1] = NULL};

static const struct stp_option plot_table[] = {
    {"out", 'o', "DIR", stp_option_text, AT(out),
     .help = "Folder of the plots, made if need be (default: the working "
             "directory)"},
    {"format", 0, "FORMAT", stp_option_word, AT(format), .words = formats,
     .value = "png", .help = "png, svg or both"},
    {"title", 0, "TEXT", stp_option_text, AT(title),
     .help = "Text that every title begins with"},
    {"curves", 0, "N", stp_option_count, AT(n_curves), .min = 1,
     .max = STP_PLOT_MAX_CURVES, .value = "8",
     .help = "Curves of a plot, 1 to 32 at most: AUTO, then those that are the "
             "fastest at most sizes"},
    {"collective", 0, "NAME", stp_option_coll, AT(coll), .absent = -1,
     .help = "Collective of nccl-tests' text before version 2.17, which does "
             "not name it"},
    {"json", 0, NULL, stp_option_flag, AT(json),
     .help = "Of training: print what was drawn, what was not and the runs as "
             "JSON"},
    {0},
};

static const struct stp_command_line plot_line = {
    .groups = (const struct stp_option_group[]){{.options = plot_table}, {0}},
    .args_doc = "FILE...",
    .arguments = AT(files),
    .none = "no measurements, expected files of `steptune sweep` or of "
            "nccl-tests, or a journal",
    .doc =
        "Plots measurements of `steptune sweep` (CSV or JSON) or the text of "
        "nccl-tests: bus bandwidth and latency against size, for every "
        "collective. Several files, backends or numbers of processes of "
        "all-reduce are also compared with each other, in plots, tables and "
        "sentences. Of the journal of a job that learned (STEPTUNE_JOURNAL): "
        "the time lost while learning, and what ran meanwhile. Of the results "
        "of `steptune train`, of one model of GPU or several: precisions, "
        "scaling, accumulation, exposed communication, loss, modes, throughput "
        "and hardware, as far as there are runs to compare, and a table.\v"
        "gnuplot draws them; STEPTUNE_GNUPLOT names another.",
};

/* ---- writing ---- */

/* Functions that return an int complain and return the exit status. */
struct plot_job {
    const char *gnuplot; /* NULL: as it is found */
    char **files;
    int n_files;
    const char *folder; /* made if need be; NULL: the working directory */
    bool formats[STP_N_PLOT_FORMATS];
    const char *title; /* NULL: none */
    unsigned n_curves;
    bool json; /* instead of the paths of the files written */
};

/* Draws a plot into the file 'path', as stp_gnuplot_run(). */
typedef enum stp_status plot_draw_fn(const struct plot_job *job,
                                     const void *plot,
                                     enum stp_plot_format format,
                                     const char *path, struct stp_error *err);

typedef enum stp_status plot_text_fn(const void *data, FILE *fp,
                                     struct stp_error *err);

static int plot_find_path(const struct plot_job *job, const char *name,
                          const char *ending, char path[STP_TRAIN_CHART_PATH])
{
    if (stp_train_chart_path(job->folder, name, ending, path))
        return STP_EXIT_OK;
    return stp_complain("--out is longer than a path can be");
}

static int plot_finish(const struct plot_job *job, const char *path,
                       enum stp_status status, const struct stp_error *err)
{
    if (status != STP_OK)
        stp_complain_error(NULL, err);
    else if (!job->json)
        puts(path);
    return stp_exit_status(status);
}

/* Draws a plot in each format of the job. */
static int plot_draw(const struct plot_job *job, const char *name,
                     plot_draw_fn *save, const void *plot)
{
    int exit_status = STP_EXIT_OK;

    for (int f = 0; f < STP_N_PLOT_FORMATS && exit_status == STP_EXIT_OK; f++) {
        char path[STP_TRAIN_CHART_PATH];
        struct stp_error err;

        if (!job->formats[f])
            continue;
        exit_status = plot_find_path(job, name, stp_plot_format_name(f), path);
        if (exit_status == STP_EXIT_OK)
            exit_status =
                plot_finish(job, path, save(job, plot, f, path, &err), &err);
    }
    return exit_status;
}

/* Writes the text file NAME.ENDING. */
static int plot_save_text(const struct plot_job *job, const char *name,
                          const char *ending, plot_text_fn *write,
                          const void *data)
{
    char path[STP_TRAIN_CHART_PATH];
    struct stp_file file;
    struct stp_error err;
    int exit_status = plot_find_path(job, name, ending, path);
    enum stp_status status;

    if (exit_status != STP_EXIT_OK)
        return exit_status;
    status = stp_file_begin(path, &file, &err);
    if (status == STP_OK) {
        status = write(data, file.fp, &err);
        if (status == STP_OK)
            status = stp_file_commit(&file, &err);
        else
            stp_file_abandon(&file);
    }
    return plot_finish(job, path, status, &err);
}

/* Writes the text file NAME.ENDING. */
static int plot_make_folder(const struct plot_job *job)
{
    struct stp_error err;

    if (job->folder != NULL && stp_folder_make(job->folder, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    return STP_EXIT_OK;
}

/* ---- collectives ---- */

struct plot_of_curves {
    const struct stp_curves *curves;
    struct stp_plot plot;
};

static enum stp_status plot_save_curves(const struct plot_job *job,
                                        const void *plot,
                                        enum stp_plot_format format,
                                        const char *path, struct stp_error *err)
{
    const struct plot_of_curves *p = plot;

    return stp_plot_save(p->curves, &p->plot, format, job->gnuplot, path, err);
}

static int plot_draw_curves(const struct plot_job *job,
                            const struct stp_curves *curves,
                            enum stp_plot_kind kind, int coll)
{
    const struct plot_of_curves p = {curves,
                                     {kind, coll, job->title, job->n_curves}};
    char name[STP_PLOT_NAME];

    if (!stp_plot_has(curves, &p.plot))
        return STP_EXIT_OK;
    stp_plot_name(&p.plot, STP_PLOT_PNG, name);
    *strrchr(name, '.') = '\0';
    return plot_draw(job, name, plot_save_curves, &p);
}

/* A text of the study of all-reduces. */
struct plot_text {
    const char *name;
    const char *ending;
    enum stp_status (*write)(const struct stp_curves *curves, FILE *fp,
                             struct stp_error *err);
    const struct stp_curves *curves;
};

static enum stp_status plot_write_text(const void *data, FILE *fp,
                                       struct stp_error *err)
{
    const struct plot_text *text = data;

    return text->write(text->curves, fp, err);
}

static int plot_write_study(const struct plot_job *job,
                            const struct stp_curves *curves)
{
    const struct plot_text texts[] = {
        {"full_results", "md", stp_study_write_results, curves},
        {"summary_by_config", "md", stp_study_write_summary, curves},
        {"analysis", "txt", stp_study_write_analysis, curves},
    };
    int exit_status = STP_EXIT_OK;

    for (size_t i = 0; i < 3 && exit_status == STP_EXIT_OK; i++)
        exit_status = plot_save_text(job, texts[i].name, texts[i].ending,
                                     plot_write_text, &texts[i]);
    for (int kind = STP_PLOT_STUDY_TIME;
         kind <= STP_PLOT_STUDY_BARS && exit_status == STP_EXIT_OK; kind++)
        exit_status = plot_draw_curves(job, curves, kind, ncclFuncAllReduce);
    return exit_status;
}

static int plot_write_all(const struct plot_job *job,
                          const struct stp_curves *curves)
{
    int exit_status = plot_make_folder(job);

    if (exit_status == STP_EXIT_OK && stp_plot_is_study(curves))
        exit_status = plot_write_study(job, curves);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        if (exit_status == STP_EXIT_OK)
            exit_status = plot_draw_curves(job, curves, STP_PLOT_BUSBW, c);
        if (exit_status == STP_EXIT_OK)
            exit_status = plot_draw_curves(job, curves, STP_PLOT_LATENCY, c);
    }
    return exit_status;
}

static int plot_load(const struct plot_job *job, int coll,
                     struct stp_dataset *sets)
{
    for (int i = 0; i < job->n_files; i++) {
        const char *path = job->files[i];
        struct stp_error err;

        if (stp_measurements_load_any(path, coll, &sets[i], &err) != STP_OK)
            return stp_complain_error(path, &err);
        if (stp_dataset_n_iterations(&sets[i]) > 0)
            return stp_complain("%s: times of iterations, expected those of "
                                "collectives alone: `steptune iterate -o DIR` "
                                "plots iterations as it measures them",
                                path);
    }
    return STP_EXIT_OK;
}

static int plot_measurements(const struct plot_job *job, int coll)
{
    struct stp_dataset *sets = calloc((size_t)job->n_files, sizeof(*sets));
    struct stp_curves curves;
    struct stp_error err;
    int exit_status;

    if (sets == NULL)
        return stp_complain("out of memory");
    exit_status = plot_load(job, coll, sets);
    if (exit_status == STP_EXIT_OK &&
        stp_curves_make(sets, (const char *const *)job->files,
                        (size_t)job->n_files, &curves, &err) != STP_OK)
        exit_status = stp_complain_error(NULL, &err);
    if (exit_status == STP_EXIT_OK) {
        exit_status = plot_write_all(job, &curves);
        stp_curves_free(&curves);
    }
    for (int i = 0; i < job->n_files; i++)
        stp_dataset_free(&sets[i]);
    free(sets);
    return exit_status;
}

/* ---- journals ---- */

struct plot_of_journal {
    struct stp_journal_plot plot;
    enum stp_journal_plot_kind kind;
};

static enum stp_status plot_save_journal(const struct plot_job *job,
                                         const void *plot,
                                         enum stp_plot_format format,
                                         const char *path,
                                         struct stp_error *err)
{
    const struct plot_of_journal *p = plot;

    return stp_journal_plot_save(&p->plot, p->kind, format, job->gnuplot, path,
                                 err);
}

static int plot_draw_journal(const struct plot_job *job, const char *file,
                             const struct stp_journal_lines *lines)
{
    struct stp_learning learning;
    struct plot_of_journal p = {.plot = {lines, &learning, job->title, file}};
    struct stp_error err;
    int exit_status;

    if (stp_learning_sum(lines, &learning, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    if (stp_journal_plot_has(&p.plot))
        exit_status = plot_make_folder(job);
    else
        exit_status = stp_complain("%s: a journal without times: nothing was "
                                   "learned",
                                   file);
    for (int k = 0; k < STP_N_JOURNAL_PLOTS && exit_status == STP_EXIT_OK;
         k++) {
        p.kind = k;
        exit_status = plot_draw(job, stp_journal_plot_name(p.kind),
                                plot_save_journal, &p);
    }
    stp_learning_free(&learning);
    return exit_status;
}

static int plot_journal(const struct plot_job *job, const char *file)
{
    struct stp_journal_lines lines;
    struct stp_error err;
    int exit_status;

    if (job->n_files > 1)
        return stp_complain("%s: a journal, expected no other file beside it",
                            file);
    if (stp_journal_load(file, 0, &lines, &err) != STP_OK)
        return stp_complain_error(file, &err);
    exit_status = plot_draw_journal(job, file, &lines);
    stp_journal_free(&lines);
    return exit_status;
}

/* ---- training: reading ---- */

/* Moves the runs of 'from' to the others. */
static enum stp_status training_move_runs(struct stp_train_runs *from,
                                          struct stp_train_runs *to,
                                          struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < from->n && status == STP_OK; i++) {
        status = stp_train_runs_add(to, &from->runs[i], err);
        if (status == STP_OK)
            from->runs[i] = (struct stp_train_run){.n_epochs = 0};
    }
    stp_train_runs_free(from);
    return status;
}

static int training_load(const struct plot_job *job,
                         struct stp_train_runs *runs)
{
    for (int i = 0; i < job->n_files; i++) {
        struct stp_train_runs some;
        struct stp_error err;

        if (stp_train_read(job->files[i], &some, &err) != STP_OK ||
            training_move_runs(&some, runs, &err) != STP_OK)
            return stp_complain_error(job->files[i], &err);
    }
    if (runs->n == 0)
        return stp_complain("%s: no runs, expected those of "
                            "`steptune train`",
                            job->files[0]);
    stp_train_derive(runs);
    return STP_EXIT_OK;
}

/* ---- training: the table ---- */

/* The runs of one model of GPU; 'all' owns their data. */
static enum stp_status training_print_model(const struct stp_train_runs *all,
                                            const char *gpu, FILE *fp,
                                            struct stp_error *err)
{
    struct stp_train_runs some = {.runs = calloc(all->n, sizeof(*some.runs))};
    enum stp_status status;

    if (some.runs == NULL)
        return stp_nomem(err);
    for (size_t i = 0; i < all->n; i++)
        if (strcmp(all->runs[i].gpu, gpu) == 0)
            some.runs[some.n++] = all->runs[i];
    fprintf(fp, "%s\n%s\n\n", gpu, some.runs[0].made_by);
    status = stp_train_print_summary(&some, fp, err);
    free(some.runs);
    return status;
}

static enum stp_status training_write_summary(const void *data, FILE *fp,
                                              struct stp_error *err)
{
    const struct stp_train_runs *runs = data;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < runs->n && status == STP_OK; i++) {
        bool seen = false;

        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(runs->runs[k].gpu, runs->runs[i].gpu) == 0;
        if (seen)
            continue;
        fputs(i > 0 ? "\n" : "", fp);
        status = training_print_model(runs, runs->runs[i].gpu, fp, err);
    }
    return status;
}

/* ---- training: charts ---- */

struct training_chart {
    const struct stp_train_runs *runs;
    const struct stp_train_chart *chart;
};

static enum stp_status training_save_chart(const struct plot_job *job,
                                           const void *plot,
                                           enum stp_plot_format format,
                                           const char *path,
                                           struct stp_error *err)
{
    const struct training_chart *p = plot;

    return stp_train_chart_save(p->runs, p->chart, job->title, format,
                                job->gnuplot, path, err);
}

static int training_draw(const struct plot_job *job,
                         const struct stp_train_runs *runs,
                         const struct stp_train_chart *chart)
{
    const struct training_chart p = {runs, chart};
    char name[STP_TRAIN_CHART_NAME];

    stp_train_chart_name(chart, name);
    return plot_draw(job, name, training_save_chart, &p);
}

/* On standard error, since it is no file. */
static void training_tell_left_out(const struct stp_train_charts *charts)
{
    for (size_t i = 0; i < charts->n; i++) {
        char name[STP_TRAIN_CHART_NAME];

        stp_train_chart_name(&charts->all[i], name);
        if (charts->all[i].why != NULL)
            stp_complain("no %s: %s", name, charts->all[i].why);
    }
    if (charts->n_runs_aside > 0)
        stp_complain("%zu run%s in no chart: tuner, batch, samples, gradients, "
                     "buckets, learning rate or seed is not that of most",
                     charts->n_runs_aside,
                     charts->n_runs_aside == 1 ? " is" : "s are");
}

static int training_write_all(const struct plot_job *job,
                              const struct stp_train_runs *runs,
                              const struct stp_train_charts *charts)
{
    int exit_status = plot_make_folder(job);

    if (exit_status == STP_EXIT_OK)
        exit_status = plot_save_text(job, "train_summary", "txt",
                                     training_write_summary, runs);
    for (size_t i = 0; i < charts->n && exit_status == STP_EXIT_OK; i++)
        if (charts->all[i].why == NULL)
            exit_status = training_draw(job, runs, &charts->all[i]);
    return exit_status;
}

static int training_print_json(const struct plot_job *job,
                               const struct stp_train_runs *runs,
                               const struct stp_train_charts *charts)
{
    struct stp_train_drawn drawn = {.charts = charts, .folder = job->folder};
    struct stp_error err;

    memcpy(drawn.formats, job->formats, sizeof(drawn.formats));
    if (stp_train_charts_print_json(runs, &drawn, stdout, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    return STP_EXIT_OK;
}

static int training_plot(const struct plot_job *job,
                         const struct stp_train_runs *runs)
{
    struct stp_train_charts charts;
    struct stp_error err;
    int exit_status;

    if (stp_train_charts_find(runs, &charts, &err) != STP_OK)
        return stp_complain_error(NULL, &err);
    exit_status = training_write_all(job, runs, &charts);
    if (exit_status == STP_EXIT_OK && job->json)
        exit_status = training_print_json(job, runs, &charts);
    else if (exit_status == STP_EXIT_OK)
        training_tell_left_out(&charts);
    stp_train_charts_free(&charts);
    return exit_status;
}

static int training_plot_files(const struct plot_job *job)
{
    struct stp_train_runs runs = {.n = 0};
    int exit_status = training_load(job, &runs);

    if (exit_status == STP_EXIT_OK)
        exit_status = training_plot(job, &runs);
    stp_train_runs_free(&runs);
    return exit_status;
}

/* ---- the command ---- */

/* The first of the files that begins so, or NULL. */
static const char *plot_find_file(const struct plot_job *job,
                                  bool (*begins)(const char *path))
{
    for (int i = 0; i < job->n_files; i++)
        if (begins(job->files[i]))
            return job->files[i];
    return NULL;
}

int stp_cmd_plot(int argc, char **argv)
{
    struct plot_options o = {0};
    struct plot_job job;
    const char *journal;

    stp_options_read(&plot_line, argc, argv, &o);
    job = (struct plot_job){.gnuplot = getenv("STEPTUNE_GNUPLOT"),
                            .files = o.files.v,
                            .n_files = o.files.n,
                            .folder = o.out,
                            .title = o.title,
                            .n_curves = o.n_curves,
                            .json = o.json};
    for (unsigned f = 0; f < STP_N_PLOT_FORMATS; f++)
        job.formats[f] = o.format == STP_N_PLOT_FORMATS || o.format == f;
    journal = plot_find_file(&job, stp_journal_begins);
    if (plot_find_file(&job, stp_train_results_begin) != NULL &&
        journal == NULL)
        return training_plot_files(&job);
    job.json = false;
    if (journal != NULL)
        return plot_journal(&job, journal);
    if (o.json)
        return stp_complain("--json, expected results of `steptune "
                            "train`");
    return plot_measurements(&job, o.coll);
}
