#include "report/training/train_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"
#include "report/words.h"

/* ---- one run ---- */

/* In virtual time there is no loss. */
static bool summary_has_data(const struct stp_train_run *r)
{
    return !isnan(r->accuracy);
}

static void summary_print_loss(const struct stp_train_run *r,
                               const char *before, int digits, double value,
                               FILE *fp)
{
    if (summary_has_data(r))
        fprintf(fp, "%s%*.*f", before, digits + 2, digits, value);
}

/* "communication 12.3 ms a step, 87 % hidden behind compute" */
static void summary_print_hidden(const struct stp_train_run *r, FILE *fp)
{
    if (isnan(r->traced_comm_ms))
        return;
    if (isnan(r->hidden_share))
        fprintf(fp, "no communication in a step\n");
    else
        fprintf(fp,
                "communication %.3g ms a step, %.0f %% hidden behind compute\n",
                r->traced_comm_ms, 100 * r->hidden_share);
}

void stp_train_print_run(const struct stp_train_run *r, FILE *fp)
{
    fprintf(fp, "%s\n\n", r->made_by);
    fprintf(fp,
            "%s, %ju parameters, %s, %s, %u rank%s, a step of %u samples in %u "
            "micro-batch%s\n\n",
            r->size, (uintmax_t)r->n_params, r->mode, r->precision, r->n_gpus,
            r->n_gpus == 1 ? "" : "s", r->batch, r->ga, r->ga == 1 ? "" : "es");
    fprintf(fp, "%5s  %9s  %9s  %9s%s\n", "epoch", "s", "comm s", "exposed s",
            summary_has_data(r) ? "       loss" : "");
    for (unsigned e = 0; e < r->n_epochs; e++) {
        fprintf(fp, "%5u  %9.4f  %9.4f  %9.4f", e + 1, r->epoch_s[e],
                r->comm_s[e], r->exposed_s[e]);
        summary_print_loss(r, "   ", 6, r->losses[e], fp);
        fputc('\n', fp);
    }
    fprintf(fp, "\ntimes %s, %.0f samples/s", stp_source_name(r->source),
            r->throughput);
    summary_print_loss(r, ", accuracy ", 4, r->accuracy, fp);
    fputc('\n', fp);
    summary_print_hidden(r, fp);
    if (strcmp(r->precision, "fp16") == 0 && summary_has_data(r))
        fprintf(fp,
                "%u steps skipped for an overflow, the last loss scale is %g\n",
                r->n_skipped, r->loss_scale);
}

/* ---- many ---- */

static bool summary_is_first(const struct stp_train_runs *runs, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (stp_train_alike(&runs->runs[j], &runs->runs[i]))
            return false;
    return true;
}

/* Means over the repeats. */
struct summary_row {
    const struct stp_train_run *first;
    unsigned n;
    double epoch_s, comm_s, throughput, speed_up, efficiency, exposed_share;
    double loss; /* of the last epoch */
    double accuracy;
};

static struct summary_row summary_row_of(const struct stp_train_runs *runs,
                                         size_t first)
{
    struct summary_row row = {.first = &runs->runs[first]};

    for (size_t i = first; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];

        if (!stp_train_alike(r, row.first))
            continue;
        row.n++;
        row.epoch_s += stp_train_total_s(r) / r->n_epochs;
        row.comm_s += stp_train_comm_s(r) / r->n_epochs;
        row.throughput += r->throughput;
        row.speed_up += r->speed_up;
        row.efficiency += r->efficiency;
        row.exposed_share += r->exposed_share;
        row.loss += r->losses[r->n_epochs - 1];
        row.accuracy += r->accuracy;
    }
    row.epoch_s /= row.n;
    row.comm_s /= row.n;
    row.throughput /= row.n;
    row.speed_up /= row.n;
    row.efficiency /= row.n;
    row.exposed_share /= row.n;
    row.loss /= row.n;
    row.accuracy /= row.n;
    return row;
}

static void summary_put_share(struct stp_table *t, const char *heading,
                              double share)
{
    if (isfinite(share))
        stp_table_text(t, heading, "%.1f%%", 100 * share);
    else
        stp_table_word(t, NULL, heading, NULL);
}

/* "64.1 M" or "52650". */
static void summary_put_params(struct stp_table *t, uint64_t n)
{
    if (n >= 1000000)
        stp_table_text(t, "params", "%.1f M", (double)n / 1e6);
    else
        stp_table_count(t, NULL, "params", n);
}

/* What defines a run of a summary. */
static void summary_put_run(const struct stp_train_run *r, struct stp_table *t)
{
    stp_table_row(t);
    stp_table_word(t, NULL, "<size", r->size);
    summary_put_params(t, r->n_params);
    stp_table_count(t, NULL, "ranks", r->n_gpus);
    stp_table_word(t, NULL, "<mode", r->mode);
    stp_table_word(t, NULL, "<prec", r->precision);
    stp_table_count(t, NULL, "ga", r->ga);
    stp_table_number(t, NULL, "batch", r->batch > 0 ? r->batch : (double)NAN,
                     0);
}

/* The columns that only some runs have. */
struct summary_columns {
    bool data, hidden, gains;
};

/* 'gain' is of the rounds of all repeats. */
static void summary_put(const struct summary_row *row,
                        const struct stp_gain *gain,
                        const struct summary_columns *shown,
                        struct stp_table *t)
{
    const struct stp_train_run *r = row->first;
    bool has_gain = gain->n_pairs > 0;
    char interval[STP_INTERVAL];

    summary_put_run(r, t);
    stp_table_number(t, NULL, "s/epoch", row->epoch_s, 4);
    stp_table_number(t, NULL, "comm s", row->comm_s, 4);
    stp_table_number(t, NULL, "samples/s", row->throughput, 0);
    stp_table_number(t, NULL, "speed-up", row->speed_up, 2);
    summary_put_share(t, "efficiency", row->efficiency);
    summary_put_share(t, "exposed", row->exposed_share);
    if (shown->data) {
        stp_table_number(t, NULL, "loss", row->loss, 4);
        stp_table_number(t, NULL, "accuracy", row->accuracy, 4);
    }
    if (shown->hidden)
        summary_put_share(t, "hidden", r->hidden_share);
    stp_table_word(t, NULL, "<times", stp_source_name(r->source));
    if (!shown->gains)
        return;
    stp_interval_text(gain, interval);
    stp_table_word(t, NULL, "<tuner", r->tuner);
    stp_table_number(t, NULL, "gain", has_gain ? gain->gain : NAN, 3);
    stp_table_word(t, NULL, "<95% interval", has_gain ? interval : NULL);
}

/* The machine of the run of the most ranks, of which fewer are a part. */
static const char *summary_made_by(const struct stp_train_runs *runs)
{
    const struct stp_train_run *most = &runs->runs[0];

    for (size_t i = 1; i < runs->n; i++)
        if (runs->runs[i].n_gpus > most->n_gpus)
            most = &runs->runs[i];
    return most->made_by;
}

enum stp_status stp_train_print_summary(const struct stp_train_runs *runs,
                                        FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    struct summary_columns shown = {false, false, false};

    for (size_t i = 0; i < runs->n; i++) {
        shown.data |= summary_has_data(&runs->runs[i]);
        shown.hidden |= !isnan(runs->runs[i].traced_comm_ms);
        shown.gains |= runs->runs[i].rounds > 0;
    }
    fprintf(fp, "%s\n\n", summary_made_by(runs));
    for (size_t i = 0; i < runs->n; i++) {
        struct summary_row row;
        struct stp_gain gain;
        enum stp_status status;

        if (!summary_is_first(runs, i))
            continue;
        row = summary_row_of(runs, i);
        status = stp_train_gain(runs, row.first, true, &gain, err);
        if (status != STP_OK) {
            stp_table_free(&t);
            return status;
        }
        summary_put(&row, &gain, &shown, &t);
    }
    return stp_table_end(&t, fp, err);
}

/* ---- several models of GPU ---- */

static bool summary_is_new_model(const struct stp_train_runs *runs, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(runs->runs[k].gpu, runs->runs[i].gpu) == 0)
            return false;
    return true;
}

/* Of the repeats of run 'like' on another model of GPU (or the same), in any
 * number of epochs, the seconds of one; NaN: there are none. */
static struct summary_row summary_row_on(const struct stp_train_runs *runs,
                                         const struct stp_train_run *like,
                                         const char *gpu)
{
    struct summary_row row = {.first = NULL};

    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];

        if (strcmp(r->gpu, gpu) != 0 || !stp_train_same_work(r, like))
            continue;
        row.first = row.n == 0 ? r : row.first;
        row.n++;
        row.epoch_s += stp_train_total_s(r) / r->n_epochs;
        row.comm_s += stp_train_comm_s(r) / r->n_epochs;
    }
    row.epoch_s /= row.n;
    row.comm_s /= row.n;
    return row;
}

/* The rows of the work of run 'i', if it is the first of this work, on all
 * models of GPU, of which there must be two. */
static void summary_put_models(const struct stp_train_runs *runs, size_t i,
                               struct stp_table *t)
{
    const struct stp_train_run *like = &runs->runs[i];
    size_t n = 0;

    for (size_t k = 0; k < runs->n; k++) {
        if (k < i && stp_train_same_work(&runs->runs[k], like))
            return;
        n += summary_is_new_model(runs, k) &&
             summary_row_on(runs, like, runs->runs[k].gpu).n > 0;
    }
    for (size_t k = 0; k < runs->n && n > 1; k++) {
        const char *gpu = runs->runs[k].gpu;
        const struct summary_row row = summary_row_on(runs, like, gpu);

        if (row.n == 0 || !summary_is_new_model(runs, k))
            continue;
        summary_put_run(like, t);
        stp_table_word(t, NULL, "<GPU", gpu);
        stp_table_number(t, NULL, "s/epoch", row.epoch_s, 4);
        stp_table_number(t, NULL, "comm s", row.comm_s, 4);
        stp_table_number(
            t, NULL, "speed-up",
            summary_row_on(runs, like, like->gpu).epoch_s / row.epoch_s, 2);
    }
}

/* What ran on several models of GPU, each beside the others. */
static enum stp_status summary_print_hardware(const struct stp_train_runs *runs,
                                              FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    for (size_t i = 0; i < runs->n; i++)
        summary_put_models(runs, i, &t);
    if (t.n_cells == 0) {
        stp_table_free(&t);
        return STP_OK;
    }
    fputs("\nThe same training on several models of GPU; speed-up over the "
          "first of them\n\n",
          fp);
    return stp_table_end(&t, fp, err);
}

enum stp_status stp_train_print_models(const struct stp_train_runs *runs,
                                       FILE *fp, struct stp_error *err)
{
    struct stp_train_runs some = {.runs = calloc(runs->n, sizeof(*some.runs))};
    enum stp_status status = some.runs != NULL ? STP_OK : stp_nomem(err);

    for (size_t i = 0; i < runs->n && status == STP_OK; i++) {
        const char *gpu = runs->runs[i].gpu;

        if (!summary_is_new_model(runs, i))
            continue;
        some.n = 0;
        for (size_t k = 0; k < runs->n; k++)
            if (strcmp(runs->runs[k].gpu, gpu) == 0)
                some.runs[some.n++] = runs->runs[k]; /* its data stays theirs */
        fprintf(fp, "%s%s\n", i > 0 ? "\n" : "", gpu);
        status = stp_train_print_summary(&some, fp, err);
    }
    free(some.runs);
    return status == STP_OK ? summary_print_hardware(runs, fp, err) : status;
}
