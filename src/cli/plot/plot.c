/* plot.c - `steptune plot` */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot/plot.h"
#include "report/charts/plot.h"
#include "report/charts/study.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/learning/plot_journal.h"
#include "report/measurements/measurements_any.h"
#include "report/training/train_charts.h"

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

static int plot_find_path(const struct stp_plot_job *job, const char *name,
                          const char *ending, char path[STP_TRAIN_CHART_PATH])
{
    if (stp_train_chart_path(job->folder, name, ending, path))
        return STP_EXIT_OK;
    return stp_complain(job->command, "--out is longer than a path can be");
}

static int plot_finish(const struct stp_plot_job *job, const char *path,
                       enum stp_status status, const struct stp_error *err)
{
    if (status != STP_OK)
        stp_complain_error(job->command, NULL, err);
    else if (!job->json)
        puts(path);
    return stp_exit_status(status);
}

int stp_plot_draw(const struct stp_plot_job *job, const char *name,
                  stp_plot_draw_fn *save, const void *plot)
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

int stp_plot_save_text(const struct stp_plot_job *job, const char *name,
                       const char *ending, stp_plot_text_fn *write,
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

int stp_plot_make_folder(const struct stp_plot_job *job)
{
    struct stp_error err;

    if (job->folder != NULL && stp_folder_make(job->folder, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    return STP_EXIT_OK;
}

/* ---- collectives ---- */

struct plot_of_curves {
    const struct stp_curves *curves;
    struct stp_plot plot;
};

static enum stp_status plot_save_curves(const struct stp_plot_job *job,
                                        const void *plot,
                                        enum stp_plot_format format,
                                        const char *path, struct stp_error *err)
{
    const struct plot_of_curves *p = plot;

    return stp_plot_save(p->curves, &p->plot, format, job->gnuplot, path, err);
}

static int plot_draw_curves(const struct stp_plot_job *job,
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
    return stp_plot_draw(job, name, plot_save_curves, &p);
}

static enum stp_status plot_write_results(const void *curves, FILE *fp,
                                          struct stp_error *err)
{
    return stp_study_write_results(curves, fp, err);
}

static enum stp_status plot_write_configs(const void *curves, FILE *fp,
                                          struct stp_error *err)
{
    return stp_study_write_summary(curves, fp, err);
}

static enum stp_status plot_write_analysis(const void *curves, FILE *fp,
                                           struct stp_error *err)
{
    return stp_study_write_analysis(curves, fp, err);
}

static int plot_write_study(const struct stp_plot_job *job,
                            const struct stp_curves *curves)
{
    int exit_status = stp_plot_save_text(job, "full_results", "md",
                                         plot_write_results, curves);

    if (exit_status == STP_EXIT_OK)
        exit_status = stp_plot_save_text(job, "summary_by_config", "md",
                                         plot_write_configs, curves);
    if (exit_status == STP_EXIT_OK)
        exit_status = stp_plot_save_text(job, "analysis", "txt",
                                         plot_write_analysis, curves);
    for (int kind = STP_PLOT_STUDY_TIME;
         kind <= STP_PLOT_STUDY_BARS && exit_status == STP_EXIT_OK; kind++)
        exit_status = plot_draw_curves(job, curves, kind, ncclFuncAllReduce);
    return exit_status;
}

static int plot_write_all(const struct stp_plot_job *job,
                          const struct stp_curves *curves)
{
    int exit_status = stp_plot_make_folder(job);

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

static int plot_load(const struct stp_plot_job *job, int coll,
                     struct stp_dataset *sets)
{
    for (int i = 0; i < job->n_files; i++) {
        const char *path = job->files[i];
        struct stp_error err;

        if (stp_measurements_load_any(path, coll, &sets[i], &err) != STP_OK)
            return stp_complain_error(job->command, path, &err);
        if (stp_dataset_n_iterations(&sets[i]) > 0)
            return stp_complain(job->command,
                                "%s: times of iterations, expected those of "
                                "collectives alone: `steptune iterate -o DIR` "
                                "plots iterations as it measures them",
                                path);
    }
    return STP_EXIT_OK;
}

static int plot_measurements(const struct stp_plot_job *job, int coll)
{
    struct stp_dataset *sets = calloc((size_t)job->n_files, sizeof(*sets));
    struct stp_curves curves;
    struct stp_error err;
    int exit_status;

    if (sets == NULL)
        return stp_complain(job->command, "out of memory");
    exit_status = plot_load(job, coll, sets);
    if (exit_status == STP_EXIT_OK &&
        stp_curves_make(sets, (const char *const *)job->files,
                        (size_t)job->n_files, &curves, &err) != STP_OK)
        exit_status = stp_complain_error(job->command, NULL, &err);
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

static enum stp_status plot_save_journal(const struct stp_plot_job *job,
                                         const void *plot,
                                         enum stp_plot_format format,
                                         const char *path,
                                         struct stp_error *err)
{
    const struct plot_of_journal *p = plot;

    return stp_journal_plot_save(&p->plot, p->kind, format, job->gnuplot, path,
                                 err);
}

static int plot_draw_journal(const struct stp_plot_job *job, const char *file,
                             const struct stp_journal_lines *lines)
{
    struct stp_learning learning;
    struct plot_of_journal p = {.plot = {lines, &learning, job->title, file}};
    struct stp_error err;
    int exit_status;

    if (stp_learning_sum(lines, &learning, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    if (stp_journal_plot_has(&p.plot))
        exit_status = stp_plot_make_folder(job);
    else
        exit_status = stp_complain(job->command,
                                   "%s: a journal without times: nothing was "
                                   "learned",
                                   file);
    for (int k = 0; k < STP_N_JOURNAL_PLOTS && exit_status == STP_EXIT_OK;
         k++) {
        p.kind = k;
        exit_status = stp_plot_draw(job, stp_journal_plot_name(p.kind),
                                    plot_save_journal, &p);
    }
    stp_learning_free(&learning);
    return exit_status;
}

static int plot_journal(const struct stp_plot_job *job, const char *file)
{
    struct stp_journal_lines lines;
    struct stp_error err;
    int exit_status;

    if (job->n_files > 1)
        return stp_complain(job->command,
                            "%s: a journal, expected no other file beside it",
                            file);
    if (stp_journal_load(file, 0, &lines, &err) != STP_OK)
        return stp_complain_error(job->command, file, &err);
    exit_status = plot_draw_journal(job, file, &lines);
    stp_journal_free(&lines);
    return exit_status;
}

/* ---- the command ---- */

/* The first of the files that begins so, or NULL. */
static const char *plot_find_file(const struct stp_plot_job *job,
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
    struct stp_plot_job job;
    const char *journal;

    stp_options_read(&plot_line, argc, argv, &o);
    job = (struct stp_plot_job){.command = argv[0],
                                .gnuplot = getenv("STEPTUNE_GNUPLOT"),
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
        return stp_plot_training(&job);
    job.json = false;
    if (journal != NULL)
        return plot_journal(&job, journal);
    if (o.json)
        return stp_complain(argv[0], "--json, expected results of `steptune "
                                     "train`");
    return plot_measurements(&job, o.coll);
}
