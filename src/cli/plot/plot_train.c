/* plot_train.c - `steptune plot` of what `steptune train` wrote */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot/plot.h"
#include "report/training/train_summary.h"

/* ---- reading ---- */

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

static int training_load(const struct stp_plot_job *job,
                         struct stp_train_runs *runs)
{
    for (int i = 0; i < job->n_files; i++) {
        struct stp_train_runs some;
        struct stp_error err;

        if (stp_train_read(job->files[i], &some, &err) != STP_OK ||
            training_move_runs(&some, runs, &err) != STP_OK)
            return stp_complain_error(job->command, job->files[i], &err);
    }
    if (runs->n == 0)
        return stp_complain(job->command,
                            "%s: no runs, expected those of "
                            "`steptune train`",
                            job->files[0]);
    stp_train_derive(runs);
    return STP_EXIT_OK;
}

/* ---- the table ---- */

/* The runs of one model; no more than pointers to what 'all' owns. */
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

static enum stp_status training_print_summary(const struct stp_train_runs *runs,
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
        status = training_print_model(runs, runs->runs[i].gpu, fp, err);
    }
    return status;
}

static enum stp_status training_write_summary(const void *data, FILE *fp,
                                              struct stp_error *err)
{
    return training_print_summary(data, fp, err);
}

/* ---- charts ---- */

struct training_chart {
    const struct stp_train_runs *runs;
    const struct stp_train_chart *chart;
};

static enum stp_status training_save_chart(const struct stp_plot_job *job,
                                           const void *plot,
                                           enum stp_plot_format format,
                                           const char *path,
                                           struct stp_error *err)
{
    const struct training_chart *p = plot;

    return stp_train_chart_save(p->runs, p->chart, job->title, format,
                                job->gnuplot, path, err);
}

static int training_draw(const struct stp_plot_job *job,
                         const struct stp_train_runs *runs,
                         const struct stp_train_chart *chart)
{
    const struct training_chart p = {runs, chart};
    char name[STP_TRAIN_CHART_NAME];

    stp_train_chart_name(chart, name);
    return stp_plot_draw(job, name, training_save_chart, &p);
}

/* On standard error, since it is no file. */
static void training_tell_left_out(const struct stp_plot_job *job,
                                   const struct stp_train_charts *charts)
{
    for (size_t i = 0; i < charts->n; i++) {
        char name[STP_TRAIN_CHART_NAME];

        stp_train_chart_name(&charts->all[i], name);
        if (charts->all[i].why != NULL)
            stp_complain(job->command, "no %s: %s", name, charts->all[i].why);
    }
    if (charts->n_runs_aside > 0)
        stp_complain(job->command,
                     "%zu run%s in no chart: tuner, batch, samples, gradients, "
                     "buckets, learning rate or seed is not that of most",
                     charts->n_runs_aside,
                     charts->n_runs_aside == 1 ? " is" : "s are");
}

static int training_write_all(const struct stp_plot_job *job,
                              const struct stp_train_runs *runs,
                              const struct stp_train_charts *charts)
{
    int exit_status = stp_plot_make_folder(job);

    if (exit_status == STP_EXIT_OK)
        exit_status = stp_plot_save_text(job, "train_summary", "txt",
                                         training_write_summary, runs);
    for (size_t i = 0; i < charts->n && exit_status == STP_EXIT_OK; i++)
        if (charts->all[i].why == NULL)
            exit_status = training_draw(job, runs, &charts->all[i]);
    return exit_status;
}

static int training_print_json(const struct stp_plot_job *job,
                               const struct stp_train_runs *runs,
                               const struct stp_train_charts *charts)
{
    struct stp_train_drawn drawn = {.charts = charts, .folder = job->folder};
    struct stp_error err;

    memcpy(drawn.formats, job->formats, sizeof(drawn.formats));
    if (stp_train_charts_print_json(runs, &drawn, stdout, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    return STP_EXIT_OK;
}

static int training_plot(const struct stp_plot_job *job,
                         const struct stp_train_runs *runs)
{
    struct stp_train_charts charts;
    struct stp_error err;
    int exit_status;

    if (stp_train_charts_find(runs, &charts, &err) != STP_OK)
        return stp_complain_error(job->command, NULL, &err);
    exit_status = training_write_all(job, runs, &charts);
    if (exit_status == STP_EXIT_OK && job->json)
        exit_status = training_print_json(job, runs, &charts);
    else if (exit_status == STP_EXIT_OK)
        training_tell_left_out(job, &charts);
    stp_train_charts_free(&charts);
    return exit_status;
}

int stp_plot_training(const struct stp_plot_job *job)
{
    struct stp_train_runs runs = {.n = 0};
    int exit_status = training_load(job, &runs);

    if (exit_status == STP_EXIT_OK)
        exit_status = training_plot(job, &runs);
    stp_train_runs_free(&runs);
    return exit_status;
}
