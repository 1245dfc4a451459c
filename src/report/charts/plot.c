/* plot.c - the kinds of plots of curves, and drawing them */
#include "report/charts/plot.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "core/names.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"
#include "report/charts/chart.h"
#include "report/charts/labels.h"

extern const char stp_lines_gp[];
extern const char stp_bars_gp[];

/* Columns of the data, counted as gnuplot does. */
enum { BUSBW = 3, MEDIAN_US, MEAN_MS };

static const struct {
    const char *name;    /* of the file; %s is the collective */
    const char *heading; /* in the title */
    int column;          /* of the values */
    const char *label;   /* of their axis */
    bool study;
    bool always_log;
    bool bars;
} kinds[STP_N_PLOT_KINDS] = {
    [STP_PLOT_BUSBW] = {.name = "%s_busbw_vs_size",
                        .heading = "bus bandwidth",
                        .column = BUSBW,
                        .label = "Bus bandwidth (GB/s)"},
    [STP_PLOT_LATENCY] = {.name = "%s_latency_vs_size",
                          .heading = "latency",
                          .column = MEDIAN_US,
                          .label = "Median time (us)",
                          .always_log = true},
    [STP_PLOT_STUDY_TIME] = {.name = "%s_time_vs_datasize",
                             .heading = "time",
                             .column = MEAN_MS,
                             .label = "Time (ms)",
                             .study = true,
                             .always_log = true},
    [STP_PLOT_STUDY_BANDWIDTH] = {.name = "%s_bandwidth_vs_datasize",
                                  .heading = "bus bandwidth",
                                  .column = BUSBW,
                                  .label = "Bus bandwidth (GB/s)",
                                  .study = true},
    [STP_PLOT_STUDY_BARS] = {.name = "%s_backend_comparison_100mb",
                             .heading = "time",
                             .column = MEAN_MS,
                             .study = true,
                             .bars = true},
};

static int plot_coll(const struct stp_plot *plot)
{
    return kinds[plot->kind].study ? ncclFuncAllReduce : plot->coll;
}

void stp_plot_name(const struct stp_plot *plot, char name[STP_PLOT_NAME])
{
    snprintf(name, STP_PLOT_NAME, kinds[plot->kind].name,
             stp_coll_name(plot_coll(plot)));
}

bool stp_plot_has(const struct stp_curves *curves, const struct stp_plot *plot)
{
    const bool bars = kinds[plot->kind].bars;
    const struct stp_curve *first = NULL;

    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (c->like.coll != plot_coll(plot) ||
            (kinds[plot->kind].study && !stp_in_study(curves, c)) ||
            (bars && stp_study_100mb(c) == NULL))
            continue;
        if (!bars || (first != NULL && first->data != c->data))
            return true; /* bars compare transports, or machines */
        first = c;
    }
    return false;
}

bool stp_plot_is_study(const struct stp_curves *curves)
{
    const struct stp_curve *first[NCCL_NUM_TUNED_FUNCS] = {NULL};

    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];
        const struct stp_curve **of = &first[c->like.coll];

        if (!stp_in_study(curves, c))
            continue;
        if (*of == NULL)
            *of = c;
        if (c->data != (*of)->data || c->like.n_ranks != (*of)->like.n_ranks)
            return true;
    }
    return false;
}

/* ---- settings of all kinds ---- */

/* The title, where the times are from, and the curves' labels. */
static void plot_set_words(const struct stp_labelled_set *set,
                           const struct stp_plot *plot, const char *of,
                           struct stp_chart *chart)
{
    char common[STP_LABEL * 2];
    char title[STP_LABEL * 4];
    char source[STP_LABEL * 4];

    stp_common_title(set, common, sizeof(common));
    snprintf(title, sizeof(title), "%s %s%s%s%s",
             stp_coll_title(plot_coll(plot)), kinds[plot->kind].heading, of,
             common[0] ? ", " : "", common);
    stp_source_line(set, source, sizeof(source));
    stp_chart_text(chart, "title", title);
    stp_chart_text(chart, "source", source);
}

/* ---- lines ---- */

static bool plot_same(const struct stp_labelled *a,
                      const struct stp_labelled *b, bool series)
{
    return series ? strcmp(a->series, b->series) == 0
                  : a->curve->like.n_ranks == b->curve->like.n_ranks;
}

/* Counts the series, or numbers of processes, before that of curve 'i'. */
static size_t plot_rank_of(const struct stp_labelled_set *set, size_t i,
                           bool series)
{
    size_t n = 0;

    for (size_t k = 0; !plot_same(&set->all[k], &set->all[i], series); k++) {
        size_t m = 0;

        while (!plot_same(&set->all[m], &set->all[k], series))
            m++;
        n += m == k; /* the first of its kind */
    }
    return n;
}

/* Numbers the labels of all collectives up to the plot's, in the order of their
 * curves: a label has the same colour in every plot. */
static void plot_number_labels(const struct stp_curves *curves,
                               const struct stp_plot *plot,
                               size_t hues[STP_PLOT_MAX_CURVES])
{
    const size_t size = (size_t)NCCL_NUM_TUNED_FUNCS * STP_PLOT_MAX_CURVES;
    char(*seen)[STP_LABEL] = stp_take(size, sizeof(*seen));
    size_t n = 0;

    for (int coll = 0; coll <= plot->coll; coll++) {
        struct stp_labelled_set set =
            stp_pick_curves(curves, coll, plot->n_curves);

        for (size_t i = 0; i < set.n && i < STP_PLOT_MAX_CURVES; i++) {
            for (hues[i] = 0; hues[i] < n; hues[i]++)
                if (strcmp(seen[hues[i]], set.all[i].label) == 0)
                    break;
            if (hues[i] == n)
                strcpy(seen[n++], set.all[i].label);
        }
        stp_labelled_free(&set);
    }
    free(seen);
}

static void plot_write_lines(const struct stp_curves *curves,
                             const struct stp_labelled_set *set,
                             const struct stp_plot *plot,
                             struct stp_chart *chart)
{
    size_t hues[STP_PLOT_MAX_CURVES] = {0};
    const bool study = kinds[plot->kind].study;

    if (!study)
        plot_number_labels(curves, plot, hues);
    plot_set_words(set, plot, "", chart);
    stp_chart_set(chart, "y_column = %d\nalways_log = %d",
                  kinds[plot->kind].column, kinds[plot->kind].always_log);
    stp_chart_text(chart, "ylabel", kinds[plot->kind].label);
    stp_chart_set(chart, "n = %zu", set->n);
    stp_chart_arrays(chart, set->n, "titles hues widths dashes shapes");
    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        const bool is_auto = c->like.arm.kind == STP_ARM_AUTO;
        /* In a study the colour is that of the series, and the dash and the
         * points tell the number of processes. */
        const size_t ranks = study ? plot_rank_of(set, i, false) : 0;
        const size_t hue = study ? plot_rank_of(set, i, true) + 1 : hues[i];
        /* AUTO's is no other's */
        const size_t turn = study || hue == 0 ? 0 : (hue - 1) / 7;

        stp_chart_text_at(chart, "titles", i, set->all[i].label);
        stp_chart_set(chart,
                      "hues[%zu] = %zu\nwidths[%zu] = %g\n"
                      "dashes[%zu] = %zu\nshapes[%zu] = %zu",
                      i + 1, hue - 7 * turn, i + 1, is_auto ? 3 : 1.5, i + 1,
                      study ? ranks : turn, i + 1, study ? ranks : hue);
        stp_chart_block(chart);
        for (size_t k = 0; k < c->n_points; k++) {
            const struct stp_curve_point *p = &c->points[k];

            stp_chart_field(chart, set->all[i].label);
            fprintf(chart->data, "%" PRIu64 "\t%.6g\t%.6g\t%.6g\t%s\n",
                    p->n_bytes,
                    stp_busbw(c->like.coll, c->like.n_ranks, p->n_bytes,
                              p->us.mean),
                    p->us.median, p->us.mean / 1e3, stp_source_name(p->source));
        }
    }
}

/* ---- bars ---- */

static void plot_write_bars(const struct stp_labelled_set *set,
                            const struct stp_plot *plot,
                            struct stp_chart *chart)
{
    double min_mb = INFINITY, max_mb = 0;
    size_t n = 0;
    char of[64];

    stp_chart_arrays(chart, set->n, "titles");
    for (size_t i = 0; i < set->n; i++) {
        const char *series = set->all[i].series;
        bool has_bars = false;

        for (size_t k = i; stp_is_new_series(set, i) && k < set->n; k++) {
            const struct stp_curve *c = set->all[k].curve;
            const struct stp_curve_point *p = stp_study_100mb(c);

            if (p == NULL || strcmp(set->all[k].series, series) != 0)
                continue;
            if (!has_bars) {
                stp_chart_block(chart);
                stp_chart_text_at(chart, "titles", n++, series);
            }
            has_bars = true;
            stp_chart_field(chart, series);
            fprintf(chart->data, "%u\t%" PRIu64 "\t%.6g\t%s\n", c->like.n_ranks,
                    p->n_bytes, p->us.mean / 1e3, stp_source_name(p->source));
            min_mb = fmin(min_mb, (double)p->n_bytes / 1e6);
            max_mb = fmax(max_mb, (double)p->n_bytes / 1e6);
        }
    }
    if (min_mb == max_mb)
        snprintf(of, sizeof(of), " of %.4g MB", min_mb);
    else
        snprintf(of, sizeof(of), " of %.4g to %.4g MB", min_mb, max_mb);
    plot_set_words(set, plot, of, chart);
    stp_chart_set(chart, "n = %zu", n);
}

/* ---- whole charts ---- */

void stp_plot_make(const struct stp_curves *curves, const struct stp_plot *plot,
                   struct stp_chart *chart_ret)
{
    const bool bars = kinds[plot->kind].bars;
    struct stp_labelled_set set =
        kinds[plot->kind].study
            ? stp_pick_study(curves, ncclFuncAllReduce)
            : stp_pick_curves(curves, plot->coll, plot->n_curves);

    stp_chart_begin(
        bars ? stp_bars_gp : stp_lines_gp, NULL,
        bars ? "backend\tprocesses\tbytes\tms\tsource"
             : "curve\tbytes\tbusbw_gbps\tmedian_us\tmean_ms\tsource",
        chart_ret);
    if (bars)
        plot_write_bars(&set, plot, chart_ret);
    else
        plot_write_lines(curves, &set, plot, chart_ret);
    stp_labelled_free(&set);
}
