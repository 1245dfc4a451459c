/* study.c - tables and sentences of the study */
#include "report/charts/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/charts/labels.h"
#include "report/table.h"
#include "report/words.h"

/* The share of its peak from which on bandwidth is said to be saturated. */
#define SATURATED 0.9

/* The highest bus bandwidth of a curve. */
struct study_peak {
    double gbps;
    uint64_t n_bytes;
    uint64_t saturated; /* the first size at which it is nearly reached */
};

static double study_busbw(const struct stp_curve *c,
                          const struct stp_curve_point *p)
{
    return stp_busbw(c->like.coll, c->like.n_ranks, p->n_bytes, p->us.mean);
}

static struct study_peak study_find_peak(const struct stp_curve *c)
{
    struct study_peak peak = {0};
    size_t i = 0;

    for (size_t k = 0; k < c->n_points; k++)
        if (study_busbw(c, &c->points[k]) > peak.gbps || k == 0) {
            peak.gbps = study_busbw(c, &c->points[k]);
            peak.n_bytes = c->points[k].n_bytes;
        }
    while (study_busbw(c, &c->points[i]) < SATURATED * peak.gbps)
        i++;
    peak.saturated = c->points[i].n_bytes;
    return peak;
}

/* ---- every size ---- */

/* A number with so many decimals in text, and all of it in CSV. */
static void study_put_number(struct stp_table *t, const char *key,
                             const char *heading, double value, int digits)
{
    stp_table_number(t, key, NULL, value, STP_TABLE_SHORT);
    stp_table_number(t, NULL, heading, value, digits);
}

/* A word that may be unknown, which is empty. */
static void study_put_word(struct stp_table *t, const char *key,
                           const char *heading, const char *word)
{
    stp_table_word(t, key, heading, word[0] != '\0' ? word : NULL);
}

static void study_put_curve(struct stp_table *t, const struct stp_labelled *l)
{
    const struct stp_measurement *m = &l->curve->like;
    const struct stp_dataset *data = l->curve->data;

    stp_table_row(t);
    stp_table_word(t, "file", "<file", stp_base_name(l->curve->file));
    stp_table_word(t, "collective", "<collective", stp_coll_name(m->coll));
    stp_table_word(t, "backend", "<backend", data->backend);
    study_put_word(t, "machine", "<machine", data->machine);
    study_put_word(t, "gpu", "<GPU", data->gpu);
    study_put_word(t, "nccl", "<NCCL", data->nccl);
    stp_table_count(t, "nRanks", "processes", m->n_ranks);
    stp_table_count(t, "graph", "in graphs", m->graph);
}

static void study_put_point(struct stp_table *t, const struct stp_labelled *l,
                            const struct stp_curve_point *p)
{
    const struct stp_measurement *m = &l->curve->like;

    study_put_curve(t, l);
    stp_table_count(t, "nNodes", "nodes", m->n_nodes);
    stp_table_word(t, "type", "<type", stp_type_name(m->type));
    stp_table_word(t, "op", "<op",
                   stp_coll_reduces(m->coll) ? stp_op_name(m->op) : NULL);
    stp_table_count(t, "in_place", NULL, m->in_place);
    stp_table_word(t, NULL, "<place", m->in_place ? "in" : "out of");
    stp_table_count(t, "bytes", "bytes", p->n_bytes);
    study_put_number(t, "mean_us", "mean us", p->us.mean, 2);
    study_put_number(t, "median_us", "median us", p->us.median, 2);
    study_put_number(t, "p95_us", "p95 us", p->us.p95, 2);
    study_put_number(t, "p99_us", "p99 us", p->us.p99, 2);
    study_put_number(t, "min_us", "min us", p->us.min, 2);
    study_put_number(t, "algbw_gbps", "algbw GB/s",
                     stp_algbw(p->n_bytes, p->us.mean), 3);
    study_put_number(t, "busbw_gbps", "busbw GB/s", study_busbw(l->curve, p),
                     3);
    stp_table_count(t, "rounds", "rounds", p->n_rounds);
    stp_table_count(t, "iterations", "iterations", p->n_iterations);
    stp_table_number(t, "wrong", "wrong",
                     p->n_wrong >= 0 ? (double)p->n_wrong : (double)NAN, 0);
    stp_table_word(t, "source", NULL, stp_source_name(p->source));
    stp_table_count(t, "single_pass", NULL, p->single_pass);
    stp_table_word(t, NULL, "<times",
                   stp_source_words(p->source, p->single_pass));
}

/* ---- every configuration ---- */

static void study_put_config(struct stp_table *t, const struct stp_labelled *l)
{
    const struct stp_curve *c = l->curve;
    const struct stp_curve_point *near_100mb = stp_study_100mb(c);
    struct study_peak peak = study_find_peak(c);
    double worst = NAN, fastest = INFINITY;
    bool single_pass = false;

    for (size_t i = 0; i < c->n_points; i++) {
        if (c->points[i].n_rounds > 1)
            worst = fmax(worst, c->points[i].noise);
        fastest = fmin(fastest, c->points[i].us.mean);
        single_pass |= c->points[i].single_pass;
    }
    study_put_curve(t, l);
    stp_table_text(t, "<sizes", "%zu (%s to %s)", c->n_points,
                   STP_SIZE_TEXT(c->points[0].n_bytes),
                   STP_SIZE_TEXT(c->points[c->n_points - 1].n_bytes));
    stp_table_number(t, NULL, "shortest us", fastest, 2);
    stp_table_number(
        t, NULL, "about 100 MB, ms",
        near_100mb != NULL ? near_100mb->us.mean / 1e3 : (double)NAN, 3);
    stp_table_text(t, "peak busbw GB/s (at)", "%.3f (%s)", peak.gbps,
                   STP_SIZE_TEXT(peak.n_bytes));
    stp_table_number(t, NULL, "noisiest size, %", worst * 100, 1);
    stp_table_word(t, NULL, "<times",
                   stp_source_words(c->like.source, single_pass));
}

/* The decimals with which the value has three digits: 1200, 1.25. */
static int study_decimals(double value)
{
    return value >= 100 ? 0 : value >= 10 ? 1 : 2;
}

/* ---- the fastest transport ---- */

/* How one series compares with another at their common points. */
struct study_match {
    double log_ratio; /* sum of log(the other's time / its time) */
    size_t n;
    size_t n_faster;
};

static struct study_match study_match_series(const struct stp_labelled_set *set,
                                             const char *series,
                                             const char *other)
{
    struct study_match m = {0};

    for (size_t i = 0; i < set->n; i++)
        for (size_t j = 0; j < set->n; j++) {
            const struct stp_labelled *a = &set->all[i];
            const struct stp_labelled *b = &set->all[j];

            if (strcmp(a->series, series) != 0 ||
                strcmp(b->series, other) != 0 ||
                a->curve->like.n_ranks != b->curve->like.n_ranks)
                continue;
            for (size_t k = 0; k < a->curve->n_points; k++) {
                const struct stp_curve_point *p = &a->curve->points[k];
                const struct stp_curve_point *q =
                    stp_curve_at(b->curve, p->n_bytes);

                if (q == NULL)
                    continue;
                m.log_ratio += log(q->us.mean / p->us.mean);
                m.n_faster += q->us.mean > p->us.mean;
                m.n++;
            }
        }
    return m;
}

static void study_write_fastest(const struct stp_labelled_set *set, FILE *fp)
{
    const char *name = set->all[0].series; /* faster than every other */
    bool any = false;

    for (size_t i = 1; i < set->n; i++)
        if (study_match_series(set, set->all[i].series, name).log_ratio > 0)
            name = set->all[i].series;
    for (size_t i = 0; i < set->n; i++) {
        struct study_match m =
            study_match_series(set, name, set->all[i].series);

        if (!stp_is_new_series(set, i) ||
            strcmp(set->all[i].series, name) == 0 || m.n == 0)
            continue;
        if (any)
            fputs(", and ", fp);
        else
            fprintf(fp, "%s is the fastest: ", name);
        fprintf(
            fp,
            "%.*f times as fast as %s (geometric mean; faster at %zu of %zu "
            "common points)",
            study_decimals(exp(m.log_ratio / (double)m.n)),
            exp(m.log_ratio / (double)m.n), set->all[i].series, m.n_faster,
            m.n);
        any = true;
    }
    if (any)
        fputs(".  The runs were not taken in turn: no interval says how sure "
              "that is.\n",
              fp);
}

/* ---- size ---- */

/* Three digits in us, ms or s. */
static void study_time_text(double us, char text[32])
{
    if (us < 1e3)
        snprintf(text, 32, "%.3g us", us);
    else if (us < 1e6)
        snprintf(text, 32, "%.3g ms", us / 1e3);
    else
        snprintf(text, 32, "%.3g s", us / 1e6);
}

static void study_write_size(const struct stp_labelled_set *set, FILE *fp)
{
    const struct stp_labelled *l = &set->all[0]; /* of the widest range */
    const struct stp_curve_point *first, *last;
    const char *to;
    char from_us[32], to_us[32];
    double widest = 0;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        const double span = log((double)c->points[c->n_points - 1].n_bytes /
                                (double)c->points[0].n_bytes);

        if (span > widest) {
            widest = span;
            l = &set->all[i];
        }
    }
    first = &l->curve->points[0];
    last = &l->curve->points[l->curve->n_points - 1];
    to = STP_SIZE_TEXT(last->n_bytes);
    study_time_text(first->us.mean, from_us);
    study_time_text(last->us.mean, to_us);
    if (first == last)
        fprintf(fp, "%s with %u processes takes %s for %s.\n", l->series,
                l->curve->like.n_ranks, to_us, to);
    else
        fprintf(fp,
                "From %s to %s the time of %s with %u processes grows from %s "
                "to %s, %.*f times for %.0f times the data.\n",
                STP_SIZE_TEXT(first->n_bytes), to, l->series,
                l->curve->like.n_ranks, from_us, to_us,
                study_decimals(last->us.mean / first->us.mean),
                last->us.mean / first->us.mean,
                (double)last->n_bytes / (double)first->n_bytes);
}

/* ---- processes ---- */

/* The curve of the series with the fewest or the most processes. */
static const struct stp_curve *
study_find_extreme(const struct stp_labelled_set *set, const char *series,
                   bool most)
{
    const struct stp_curve *best = NULL;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;

        if (strcmp(set->all[i].series, series) == 0 &&
            (best == NULL || (most ? c->like.n_ranks > best->like.n_ranks
                                   : c->like.n_ranks < best->like.n_ranks)))
            best = c;
    }
    return best;
}

static void study_write_processes(const struct stp_labelled_set *set, FILE *fp)
{
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        const char *series = set->all[i].series;
        const struct stp_curve *few = study_find_extreme(set, series, false);
        const struct stp_curve *many = study_find_extreme(set, series, true);
        uint64_t size = 0; /* the largest of both */
        double ratio;

        for (size_t k = 0; k < few->n_points; k++)
            if (stp_curve_at(many, few->points[k].n_bytes) != NULL)
                size = few->points[k].n_bytes;
        if (!stp_is_new_series(set, i) ||
            few->like.n_ranks == many->like.n_ranks || size == 0)
            continue;
        ratio = stp_curve_at(many, size)->us.mean /
                stp_curve_at(few, size)->us.mean;
        fprintf(fp, "%s%u to %u processes, %s takes %.*f times as long for %s",
                any ? "; from " : "From ", few->like.n_ranks,
                many->like.n_ranks, series, study_decimals(ratio), ratio,
                STP_SIZE_TEXT(size));
        any = true;
    }
    if (any)
        fputs(".\n", fp);
}

/* ---- saturation ---- */

static void study_write_saturation(const struct stp_labelled_set *set, FILE *fp)
{
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c =
            study_find_extreme(set, set->all[i].series, true);
        struct study_peak peak = study_find_peak(c);

        if (!stp_is_new_series(set, i))
            continue;
        fprintf(fp,
                "%s%s with %u processes peaks at %.4g GB/s (%s) and is within "
                "%.0f percent of that from %s on",
                any ? "; " : "Bus bandwidth: ", set->all[i].series,
                c->like.n_ranks, peak.gbps, STP_SIZE_TEXT(peak.n_bytes),
                (1 - SATURATED) * 100, STP_SIZE_TEXT(peak.saturated));
        any = true;
    }
    fputs(".\n", fp);
}

/* Writes a paragraph a collective, with its name where there are several. */
static void study_write_analysis(const struct stp_labelled_set *set, FILE *fp)
{
    struct stp_labelled *room = stp_take(set->n, sizeof(*room));
    char source[STP_LABEL * 4];
    bool any = false;

    stp_source_line(set, source, sizeof(source));
    fprintf(fp, "Times of %s.\n\n", source);

    for (int c = NCCL_NUM_TUNED_FUNCS; c-- > 0;) {
        struct stp_labelled_set some = {.all = room};

        for (size_t i = 0; i < set->n; i++)
            if (set->all[i].curve->like.coll == c)
                room[some.n++] = set->all[i];
        if (some.n == 0)
            continue;
        if (some.n < set->n)
            fprintf(fp, "%s%s:\n", any ? "\n" : "", stp_coll_title(c));
        study_write_fastest(&some, fp);
        study_write_size(&some, fp);
        study_write_processes(&some, fp);
        study_write_saturation(&some, fp);
        any = true;
    }
    free(room);
}

/* ---- all texts ---- */

/* Their names, and what stands above and below a table. */
static const struct {
    const char *name, *ending, *above, *below;
} study_texts[STP_N_STUDY_TEXTS] = {
    [STP_STUDY_RESULTS] =
        {"full_results", "md",
         "# Every file, collective, number of processes and size, under the "
         "library's own choice\n\n"
         "Mean and median are those of a round, averaged over the rounds; p95, "
         "p99 and min are those of the iterations of all rounds, p95 from 20 "
         "iterations on and p99 from 100 on.\n\n",
         ""},
    [STP_STUDY_CSV] = {"combined_benchmark", "csv", "", ""},
    [STP_STUDY_SUMMARY] =
        {"summary_by_config", "md",
         "# Files, collectives and numbers of processes, under the library's "
         "own choice\n\n",
         "\nNoise is the standard deviation of the rounds' means over their "
         "mean.\n"},
    [STP_STUDY_ANALYSIS] = {"analysis", "txt", "", ""},
};

const char *stp_study_name(enum stp_study_text text, const char **ending_ret)
{
    *ending_ret = study_texts[text].ending;
    return study_texts[text].name;
}

void stp_study_write(const struct stp_curves *curves, enum stp_study_text text,
                     FILE *fp)
{
    struct stp_table t = stp_table_begin(
        text == STP_STUDY_CSV ? STP_TABLE_CSV : STP_TABLE_MARKDOWN);
    struct stp_labelled_set set = stp_pick_study(curves, -1);

    fputs(study_texts[text].above, fp);
    for (size_t i = 0; i < set.n && text != STP_STUDY_ANALYSIS; i++) {
        const struct stp_curve *c = set.all[i].curve;

        if (text == STP_STUDY_SUMMARY)
            study_put_config(&t, &set.all[i]);
        for (size_t k = 0; k < c->n_points && text != STP_STUDY_SUMMARY; k++)
            study_put_point(&t, &set.all[i], &c->points[k]);
    }
    if (text == STP_STUDY_ANALYSIS)
        study_write_analysis(&set, fp);
    else
        stp_table_end(&t, fp);
    fputs(study_texts[text].below, fp);
    stp_labelled_free(&set);
}
