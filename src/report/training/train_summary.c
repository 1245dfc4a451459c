#include "report/training/train_results.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "launch/take.h"
#include "report/table.h"

void stp_train_print_run(const struct stp_train_run *r, FILE *fp)
{
    const bool has_data = !isnan(r->accuracy); /* not in virtual time */

    fprintf(fp, "%s\n\n", r->made_by);
    fprintf(fp,
            "%s, %ju parameters, %s, %s, %u rank%s, a step of %u samples in %u "
            "micro-batch%s\n\n",
            r->size, (uintmax_t)r->n_params, r->mode, r->precision, r->n_gpus,
            STP_S(r->n_gpus), r->batch, r->ga, r->ga == 1 ? "" : "es");
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

        data |= !isnan(r->accuracy);
        hidden |= !isnan(r->traced_comm_ms);
        if (r->n_gpus > widest->n_gpus)
            widest = r;
    }
    fprintf(fp, "%s\n\n", widest->made_by);
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_train_run *r = &runs->runs[i];

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
        stp_table_number(&t, NULL, "s/epoch",
                         stp_train_sum(r, r->epoch_s) / r->n_epochs, 4);
        stp_table_number(&t, NULL, "comm s",
                         stp_train_sum(r, r->comm_s) / r->n_epochs, 4);
        stp_table_number(&t, NULL, "samples/s", r->throughput, 0);
        stp_table_number(&t, NULL, "speed-up", r->speed_up, 2);
        summary_put_share(&t, "efficiency", r->efficiency);
        summary_put_share(&t, "exposed", r->exposed_share);
        if (data) {
            stp_table_number(&t, NULL, "loss", r->losses[r->n_epochs - 1], 4);
            stp_table_number(&t, NULL, "accuracy", r->accuracy, 4);
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
