/* plot_train.c - `steptune plot` of what `steptune train` wrote */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot/plot.h"
#include "report/folder.h"
#include "report/file.h"
#include "report/training/train_charts.h"
#include "report/training/train_keys.h"
#include "report/training/train_summary.h"

static const char summary_name[] = "train_summary";

/* ---- reading ---- */

/* Moves the runs of 'from' to the others. */
static enum stp_status move_runs(struct stp_train_runs *from,
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

static int load(const struct stp_plot_training *what,
                struct stp_train_runs *runs)
{
    for (int i = 0; i < what->n_files; i++) {
        struct stp_train_runs some;
        struct stp_error err;

        if (stp_train_read(what->files[i], &some, &err) != STP_OK ||
            move_runs(&some, runs, &err) != STP_OK)
            return stp_complain_error(what->command, what->files[i], &err);
    }
    if (runs->n == 0)
        return stp_complain(what->command,
                            "%s: no runs, expected those of "
                            "`steptune train`",
                            what->files[0]);
    stp_train_derive(runs);
    return STP_EXIT_OK;
}

/* ---- the table ---- */

/* The runs of one model; no more than pointers to what 'all' owns. */
static enum stp_status print_model(const struct stp_train_runs *all,
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

static enum stp_status print_summary(const struct stp_train_runs *runs,
                                     FILE *fp, struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < runs->n && status == STP_OK; i++) {
        bool seen = false;

        for (size_t k = 0; k < i && !seen; k++)
            seen = strcmp(runs->runs[k].gpu, runs->runs[i].gpu) == 0;
        if (seen)
            continue;
        fputs(i > 0 ? "\n" : "", fp);
        status = print_model(runs, runs->runs[i].gpu, fp, err);
    }
    return status;
}

static enum stp_status save_summary(const struct stp_train_runs *runs,
                                    const char *path, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    status = print_summary(runs, file.fp, err);
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}

/* ---- writing ---- */

static int say(const struct stp_plot_training *what, const char *path,
               enum stp_status status, const struct stp_error *err)
{
    if (status != STP_OK) {
        stp_complain_error(what->command, NULL, err);
        return status == STP_ERR_NOTHING ? STP_EXIT_NOTHING : STP_EXIT_FAILED;
    }
    if (!what->json)
        puts(path);
    return STP_EXIT_OK;
}

static int path_of(const struct stp_plot_training *what, const char *name,
                   const char *ending, char path[STP_TRAIN_CHART_PATH])
{
    if (stp_train_chart_path(what->folder, name, ending, path))
        return STP_EXIT_OK;
    return stp_complain(what->command, "--out is longer than a path can be");
}

static int draw(const struct stp_plot_training *what,
                const struct stp_train_runs *runs,
                const struct stp_train_chart *chart)
{
    int exit_status = STP_EXIT_OK;
    char name[STP_TRAIN_CHART_NAME];

    stp_train_chart_name(chart, name);
    for (int f = 0; f < STP_N_PLOT_FORMATS && exit_status == STP_EXIT_OK; f++) {
        char path[STP_TRAIN_CHART_PATH];
        struct stp_error err;

        if (!what->formats[f])
            continue;
        exit_status = path_of(what, name, stp_plot_format_name(f), path);
        if (exit_status == STP_EXIT_OK)
            exit_status = say(what, path,
                              stp_train_chart_save(runs, chart, what->title, f,
                                                   what->gnuplot, path, &err),
                              &err);
    }
    return exit_status;
}

/* On standard error, since it is no file. */
static void say_left_out(const struct stp_plot_training *what,
                         const struct stp_train_charts *charts)
{
    for (size_t i = 0; i < charts->n; i++) {
        char name[STP_TRAIN_CHART_NAME];

        stp_train_chart_name(&charts->all[i], name);
        if (charts->all[i].why != NULL)
            stp_complain(what->command, "no %s: %s", name, charts->all[i].why);
    }
    if (charts->n_runs_aside > 0)
        stp_complain(what->command,
                     "%zu run%s in no chart: tuner, batch, samples, gradients, "
                     "buckets, learning rate or seed is not that of most",
                     charts->n_runs_aside,
                     charts->n_runs_aside == 1 ? " is" : "s are");
}

static int write_all(const struct stp_plot_training *what,
                     const struct stp_train_runs *runs,
                     const struct stp_train_charts *charts)
{
    char path[STP_TRAIN_CHART_PATH];
    struct stp_error err;
    int exit_status;

    if (what->folder != NULL && stp_folder_make(what->folder, &err) != STP_OK)
        return stp_complain_error(what->command, NULL, &err);
    exit_status = path_of(what, summary_name, "txt", path);
    if (exit_status == STP_EXIT_OK)
        exit_status = say(what, path, save_summary(runs, path, &err), &err);
    for (size_t i = 0; i < charts->n && exit_status == STP_EXIT_OK; i++)
        if (charts->all[i].why == NULL)
            exit_status = draw(what, runs, &charts->all[i]);
    return exit_status;
}

static int print_json(const struct stp_plot_training *what,
                      const struct stp_train_runs *runs,
                      const struct stp_train_charts *charts)
{
    struct stp_train_drawn drawn = {.charts = charts, .folder = what->folder};
    struct stp_error err;

    memcpy(drawn.formats, what->formats, sizeof(drawn.formats));
    if (stp_train_charts_print_json(runs, &drawn, stdout, &err) != STP_OK)
        return stp_complain_error(what->command, NULL, &err);
    return STP_EXIT_OK;
}

static int plot(const struct stp_plot_training *what,
                const struct stp_train_runs *runs)
{
    struct stp_train_charts charts;
    struct stp_error err;
    int exit_status;

    if (stp_train_charts_find(runs, &charts, &err) != STP_OK)
        return stp_complain_error(what->command, NULL, &err);
    exit_status = write_all(what, runs, &charts);
    if (exit_status == STP_EXIT_OK && what->json)
        exit_status = print_json(what, runs, &charts);
    else if (exit_status == STP_EXIT_OK)
        say_left_out(what, &charts);
    stp_train_charts_free(&charts);
    return exit_status;
}

int stp_plot_training(const struct stp_plot_training *what)
{
    struct stp_train_runs runs = {.n = 0};
    int exit_status = load(what, &runs);

    if (exit_status == STP_EXIT_OK)
        exit_status = plot(what, &runs);
    stp_train_runs_free(&runs);
    return exit_status;
}
