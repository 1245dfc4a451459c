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
    fprintf(
        fp,
        "%s, %ju parameters, %s, %s, %u rank%s, %u micro-batch%s a step\n\n",
        r->size, (uintmax_t)r->n_params, r->mode, r->precision, r->n_gpus,
        r->n_gpus == 1 ? "" : "s", r->ga, r->ga == 1 ? "" : "es");
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
    double epoch_s, throughput, speed_up, efficiency, exposed_share;
    double loss; /* of the last epoch */
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
        row.throughput += r->throughput;
        row.speed_up += r->speed_up;
        row.efficiency += r->efficiency;
        row.exposed_share += r->exposed_share;
        row.loss += r->losses[r->n_epochs - 1];
    }
    row.epoch_s /= row.n;
    row.throughput /= row.n;
    row.speed_up /= row.n;
    row.efficiency /= row.n;
    row.exposed_share /= row.n;
    row.loss /= row.n;
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

/* The columns that only some runs have. */
struct summary_columns {
    bool hidden, gains;
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

    stp_table_row(t);
    stp_table_word(t, NULL, "<size", r->size);
    stp_table_count(t, NULL, "ranks", r->n_gpus);
    stp_table_word(t, NULL, "<mode", r->mode);
    stp_table_word(t, NULL, "<prec", r->precision);
    stp_table_count(t, NULL, "ga", r->ga);
    stp_table_number(t, NULL, "s/epoch", row->epoch_s, 4);
    stp_table_number(t, NULL, "samples/s", row->throughput, 0);
    stp_table_number(t, NULL, "speed-up", row->speed_up, 2);
    summary_put_share(t, "efficiency", row->efficiency);
    summary_put_share(t, "exposed", row->exposed_share);
    stp_table_number(t, NULL, "loss", row->loss, 4);
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
    struct summary_columns shown = {false, false};

    for (size_t i = 0; i < runs->n; i++) {
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

enum stp_status stp_train_print_models(const struct stp_train_runs *runs,
                                       FILE *fp, struct stp_error *err)
{
    struct stp_train_runs some = {.runs = calloc(runs->n, sizeof(*some.runs))};
    enum stp_status status = some.runs != NULL ? STP_OK : stp_nomem(err);

    for (size_t i = 0; i < runs->n && status == STP_OK; i++) {
        const char *gpu = runs->runs[i].gpu;
        bool seen = false;

        some.n = 0;
        for (size_t k = 0; k < runs->n; k++) {
            if (strcmp(runs->runs[k].gpu, gpu) != 0)
                continue;
            seen |= k < i;
            some.runs[some.n++] = runs->runs[k]; /* whose data stays theirs */
        }
        if (seen)
            continue;
        fprintf(fp, "%s%s\n%s\n\n", i > 0 ? "\n" : "", gpu,
                some.runs[0].made_by);
        status = stp_train_print_summary(&some, fp, err);
    }
    free(some.runs);
    return status;
}
