#include "report/training/train_summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "report/table.h"
#include "report/words.h"

/* ---- one run ---- */

/* In virtual time there is no loss. */
static bool has_data(const struct stp_train_run *r)
{
    return !isnan(r->accuracy);
}

static void print_loss(const struct stp_train_run *r, const char *before,
                       int digits, double value, FILE *fp)
{
    if (has_data(r))
        fprintf(fp, "%s%*.*f", before, digits + 2, digits, value);
}

/* "communication 12.3 ms a step, 87 % hidden behind compute" */
static void print_hidden(const struct stp_train_run *r, FILE *fp)
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
            has_data(r) ? "       loss" : "");
    for (unsigned e = 0; e < r->n_epochs; e++) {
        fprintf(fp, "%5u  %9.4f  %9.4f  %9.4f", e + 1, r->epoch_s[e],
                r->comm_s[e], r->exposed_s[e]);
        print_loss(r, "   ", 6, r->losses[e], fp);
        fputc('\n', fp);
    }
    fprintf(fp, "\n%.0f samples/s", r->throughput);
    print_loss(r, ", accuracy ", 4, r->accuracy, fp);
    fputc('\n', fp);
    print_hidden(r, fp);
    if (strcmp(r->precision, "fp16") == 0 && has_data(r))
        fprintf(fp,
                "%u steps skipped for an overflow, the last loss scale is %g\n",
                r->n_skipped, r->loss_scale);
}

/* ---- many ---- */

static bool is_first(const struct stp_train_runs *runs, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (stp_train_alike(&runs->runs[j], &runs->runs[i]))
            return false;
    return true;
}

/* Means over the repeats, and the gain of all their rounds. */
struct line {
    const struct stp_train_run *first;
    unsigned n;
    double epoch_s, throughput, speed_up, efficiency, exposed_share;
    double loss; /* of the last epoch */
    struct stp_gain gain;
};

static void add(struct line *l, const struct stp_train_run *r)
{
    l->n++;
    l->epoch_s += stp_train_total_s(r) / r->n_epochs;
    l->throughput += r->throughput;
    l->speed_up += r->speed_up;
    l->efficiency += r->efficiency;
    l->exposed_share += r->exposed_share;
    l->loss += r->losses[r->n_epochs - 1];
}

static struct line line_of(const struct stp_train_runs *runs, size_t first)
{
    struct line l = {.first = &runs->runs[first]};

    for (size_t i = first; i < runs->n; i++)
        if (stp_train_alike(&runs->runs[i], l.first))
            add(&l, &runs->runs[i]);
    l.epoch_s /= l.n;
    l.throughput /= l.n;
    l.speed_up /= l.n;
    l.efficiency /= l.n;
    l.exposed_share /= l.n;
    l.loss /= l.n;
    return l;
}

/* "-" for what is not finite. */
static void add_number(struct stp_table *table, const char *unit, double factor,
                       int digits, double value)
{
    if (isfinite(value))
        stp_table_add(table, "%.*f%s", digits, factor * value, unit);
    else
        stp_table_add(table, "-");
}

static void add_gain(struct stp_table *table, const struct stp_gain *gain)
{
    char interval[STP_INTERVAL];

    if (gain->n_pairs == 0) {
        stp_table_add(table, "-");
        stp_table_add(table, "-");
        return;
    }
    stp_interval_text(gain, interval);
    stp_table_add(table, "%.3f", gain->gain);
    stp_table_add(table, "%s", interval);
}

/* Those that only some runs have. */
struct columns {
    bool hidden;
    bool gains;
};

static void columns_of(const struct stp_train_run *r, struct columns *columns)
{
    columns->hidden |= !isnan(r->traced_comm_ms);
    columns->gains |= r->rounds > 0;
}

static void add_line(struct stp_table *table, const struct line *l,
                     const struct columns *columns)
{
    const struct stp_train_run *r = l->first;

    stp_table_add(table, "%s", r->size);
    stp_table_add(table, "%u", r->n_gpus);
    stp_table_add(table, "%s", r->mode);
    stp_table_add(table, "%s", r->precision);
    stp_table_add(table, "%u", r->ga);
    add_number(table, "", 1, 4, l->epoch_s);
    add_number(table, "", 1, 0, l->throughput);
    add_number(table, "", 1, 2, l->speed_up);
    add_number(table, "%", 100, 1, l->efficiency);
    add_number(table, "%", 100, 1, l->exposed_share);
    add_number(table, "", 1, 4, l->loss);
    if (columns->hidden)
        add_number(table, "%", 100, 1, r->hidden_share);
    if (!columns->gains)
        return;
    stp_table_add(table, "%s", r->tuner);
    add_gain(table, &l->gain);
}

static struct stp_table *create(const struct columns *columns)
{
    char headings[160];

    snprintf(headings, sizeof(headings),
             "<size|ranks|<mode|<prec|ga|s/epoch|samples/s|speed-up|efficiency|"
             "exposed|loss%s%s",
             columns->hidden ? "|hidden" : "",
             columns->gains ? "|<tuner|gain|<95% interval" : "");
    return stp_table_create(headings);
}

/* Made by what the run of the most ranks was: fewer are a part of it. */
static const char *made_by(const struct stp_train_runs *runs)
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
    struct columns columns = {false, false};
    enum stp_status status = STP_OK;
    struct stp_table *table;

    for (size_t i = 0; i < runs->n; i++)
        columns_of(&runs->runs[i], &columns);
    fprintf(fp, "%s\n\n", made_by(runs));
    table = create(&columns);
    for (size_t i = 0; i < runs->n && table != NULL; i++)
        if (is_first(runs, i)) {
            struct line l = line_of(runs, i);

            status = stp_train_gain(runs, l.first, true, &l.gain, err);
            if (status != STP_OK)
                break;
            add_line(table, &l, &columns);
        }
    if (status == STP_OK)
        return stp_table_finish(table, fp, err);
    stp_table_free(table);
    return status;
}
