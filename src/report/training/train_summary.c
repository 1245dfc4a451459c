#include "report/training/train_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"
#include "report/take.h"

/* In virtual time there is no loss. */
static bool summary_has_data(const struct stp_train_run *r)
{
    return !isnan(r->accuracy);
}

void stp_train_print_run(const struct stp_train_run *r, FILE *fp)
{
    const bool has_data = summary_has_data(r);

    fprintf(fp, "%s\n\n", r->made_by);
    fprintf(fp,
            "%s, %ju parameters, %s, %s, %u rank%s, a step of %u samples in %u "
            "micro-batch%s\n\n",
            r->size, (uintmax_t)r->n_params, r->mode, r->precision, r->n_gpus,
            r->n_gpus == 1 ? "" : "s", r->batch, r->ga, r->ga == 1 ? "" : "es");
    fprintf(fp, "%5s  %9s  %9s  %9s%s\n", "epoch", "s", "comm s", "exposed s",
            has_data ? "       loss" : "");
    for (unsigned e = 0; e < r->n_epochs; e++) {
        fprintf(fp, "%5u  %9.4f  %9.4f  %9.4f", e + 1, r->epoch_s[e],
                r->comm_s[e], r->exposed_s[e]);
        if (has_data)
            fprintf(fp, "   %8.6f", r->losses[e]);
        fputc('\n', fp);
    }
    fprintf(fp, "\ntimes %s, %.0f samples/s", stp_source_name(r->source),
            r->throughput);
    if (has_data)
        fprintf(fp, ", accuracy %6.4f", r->accuracy);
    fputc('\n', fp);
    if (!isnan(r->traced_comm_ms) && isnan(r->hidden_share))
        fprintf(fp, "no communication in a step\n");
    else if (!isnan(r->traced_comm_ms))
        fprintf(fp,
                "communication %.3g ms a step, %.0f %% hidden behind compute\n",
                r->traced_comm_ms, 100 * r->hidden_share);
    if (strcmp(r->precision, "fp16") == 0 && has_data)
        fprintf(fp,
                "%u steps skipped for an overflow, the last loss scale is %g\n",
                r->n_skipped, r->loss_scale);
}

/* Numbers of a run, of which the repeats have a mean. */
enum summary_mean {
    EPOCH_S,
    COMM_S,
    THROUGHPUT,
    SPEED_UP,
    EFFICIENCY,
    EXPOSED_SHARE,
    LOSS, /* of the last epoch */
    ACCURACY,
    N_MEANS,
};

/* Finds the means of the repeats of run 'first'; false if an earlier one is. */
static bool summary_find_means(const struct stp_train_runs *runs, size_t first,
                               double means[N_MEANS])
{
    unsigned n = 0;

    memset(means, 0, N_MEANS * sizeof(*means));
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];
        const double numbers[N_MEANS] = {
            [EPOCH_S] = stp_train_total_s(r) / r->n_epochs,
            [COMM_S] = stp_train_comm_s(r) / r->n_epochs,
            [THROUGHPUT] = r->throughput,
            [SPEED_UP] = r->speed_up,
            [EFFICIENCY] = r->efficiency,
            [EXPOSED_SHARE] = r->exposed_share,
            [LOSS] = r->losses[r->n_epochs - 1],
            [ACCURACY] = r->accuracy,
        };

        if (!stp_train_alike(r, &runs->runs[first]))
            continue;
        if (i < first)
            return false;
        n++;
        for (int k = 0; k < N_MEANS; k++)
            means[k] += numbers[k];
    }
    for (int k = 0; k < N_MEANS; k++)
        means[k] /= n;
    return true;
}

static void summary_put_share(struct stp_table *t, const char *heading,
                              double share)
{
    if (isfinite(share))
        stp_table_text(t, heading, "%.1f%%", 100 * share);
    else
        stp_table_word(t, NULL, heading, NULL);
}

void stp_train_print_summary(const struct stp_train_runs *runs, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    /* The heading names the machine of the most ranks; fewer use a part. */
    const struct stp_train_run *widest = &runs->runs[0];
    bool data = false, hidden = false; /* columns that only some runs have */

    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];

        data |= summary_has_data(r);
        hidden |= !isnan(r->traced_comm_ms);
        if (r->n_gpus > widest->n_gpus)
            widest = r;
    }
    fprintf(fp, "%s\n\n", widest->made_by);
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];
        double means[N_MEANS];

        if (!summary_find_means(runs, i, means))
            continue;
        stp_table_row(&t);
        stp_table_word(&t, NULL, "<size", r->size);
        if (r->n_params >= 1000000)
            stp_table_text(&t, "params", "%.1f M", (double)r->n_params / 1e6);
        else
            stp_table_count(&t, NULL, "params", r->n_params);
        stp_table_count(&t, NULL, "ranks", r->n_gpus);
        stp_table_word(&t, NULL, "<mode", r->mode);
        stp_table_word(&t, NULL, "<prec", r->precision);
        stp_table_count(&t, NULL, "ga", r->ga);
        stp_table_number(&t, NULL, "batch",
                         r->batch > 0 ? r->batch : (double)NAN, 0);
        stp_table_number(&t, NULL, "s/epoch", means[EPOCH_S], 4);
        stp_table_number(&t, NULL, "comm s", means[COMM_S], 4);
        stp_table_number(&t, NULL, "samples/s", means[THROUGHPUT], 0);
        stp_table_number(&t, NULL, "speed-up", means[SPEED_UP], 2);
        summary_put_share(&t, "efficiency", means[EFFICIENCY]);
        summary_put_share(&t, "exposed", means[EXPOSED_SHARE]);
        if (data) {
            stp_table_number(&t, NULL, "loss", means[LOSS], 4);
            stp_table_number(&t, NULL, "accuracy", means[ACCURACY], 4);
        }
        if (hidden)
            summary_put_share(&t, "hidden", r->hidden_share);
        stp_table_word(&t, NULL, "<times", stp_source_name(r->source));
    }
    stp_table_end(&t, fp);
}

void stp_train_print_models(const struct stp_train_runs *runs, FILE *fp)
{
    struct stp_train_runs some = {.runs =
                                      stp_take(runs->n, sizeof(*some.runs))};

    for (size_t i = 0; i < runs->n; i++) {
        const char *gpu = runs->runs[i].gpu;
        size_t first = 0;

        while (strcmp(runs->runs[first].gpu, gpu) != 0)
            first++;
        if (first < i)
            continue;
        some.n = 0;
        for (size_t k = i; k < runs->n; k++)
            if (strcmp(runs->runs[k].gpu, gpu) == 0)
                some.runs[some.n++] = runs->runs[k]; /* its data stays theirs */
        fprintf(fp, "%s%s\n", i > 0 ? "\n" : "", gpu);
        stp_train_print_summary(&some, fp);
    }
    free(some.runs);
}
