/* plot.c - kinds of plots of curves, and drawing them */
#include "report/charts/plot.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "core/names.h"
#include "nccl_tuner_abi.h"
#include "report/charts/chart.h"
#include "report/charts/curve_sets.h"

extern const char stp_lines_gp[];
extern const char stp_bars_gp[];

enum {
    MAX_BANDS = 2, /* more shades than that are mud */
    MAX_GROUPS = 64,
};

/* A ratio of values from which on a linear axis would hide the lower ones. */
#define LINEAR_RATIO 20

static double plot_bus_bandwidth(const struct stp_curve *c,
                                 const struct stp_curve_point *p)
{
    return stp_busbw(c->like.coll, c->like.n_ranks, p->n_bytes, p->us.mean);
}

static double plot_median_us(const struct stp_curve *c,
                             const struct stp_curve_point *p)
{
    (void)c;
    return p->us.median;
}

static double plot_mean_ms(const struct stp_curve *c,
                           const struct stp_curve_point *p)
{
    (void)c;
    return p->us.mean / 1e3;
}

static const struct {
    const char *name;    /* of the file; %s is the collective */
    const char *heading; /* in the title */
    double (*value)(const struct stp_curve *c, const struct stp_curve_point *p);
    const char *label; /* of the values' axis */
    bool study;
    bool always_log;
    bool bands; /* from the median to p99, of AUTO */
    bool bars;
} kinds[STP_N_PLOT_KINDS] = {
    [STP_PLOT_BUSBW] = {.name = "%s_busbw_vs_size",
                        .heading = "bus bandwidth",
                        .value = plot_bus_bandwidth,
                        .label = "Bus bandwidth (GB/s)"},
    [STP_PLOT_LATENCY] = {.name = "%s_latency_vs_size",
                          .heading = "latency",
                          .value = plot_median_us,
                          .label = "Time (us)",
                          .always_log = true,
                          .bands = true},
    [STP_PLOT_STUDY_TIME] = {.name = "%s_time_vs_datasize",
                             .heading = "time",
                             .value = plot_mean_ms,
                             .label = "Time (ms)",
                             .study = true,
                             .always_log = true},
    [STP_PLOT_STUDY_BANDWIDTH] = {.name = "%s_bandwidth_vs_datasize",
                                  .heading = "bus bandwidth",
                                  .value = plot_bus_bandwidth,
                                  .label = "Bus bandwidth (GB/s)",
                                  .study = true},
    [STP_PLOT_STUDY_BARS] = {.name = "%s_backend_comparison_100mb",
                             .heading = "time",
                             .value = plot_mean_ms,
                             .study = true,
                             .bars = true},
};

static int plot_coll(const struct stp_plot *plot)
{
    return kinds[plot->kind].study ? ncclFuncAllReduce : plot->coll;
}

void stp_plot_name(const struct stp_plot *plot, enum stp_plot_format format,
                   char name[STP_PLOT_NAME])
{
    int len = snprintf(name, STP_PLOT_NAME, kinds[plot->kind].name,
                       stp_coll_name(plot_coll(plot)));

    snprintf(name + len, STP_PLOT_NAME - (size_t)len, ".%s",
             stp_plot_format_name(format));
}

bool stp_plot_has(const struct stp_curves *curves, const struct stp_plot *plot)
{
    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (kinds[plot->kind].study
                ? stp_in_study(curves, c) &&
                      (!kinds[plot->kind].bars || stp_study_100mb(c) != NULL)
                : c->like.coll == plot->coll)
            return true;
    }
    return false;
}

bool stp_plot_is_study(const struct stp_curves *curves)
{
    const struct stp_curve *first = NULL;

    for (size_t i = 0; i < curves->n_curves; i++) {
        const struct stp_curve *c = &curves->curves[i];

        if (!stp_in_study(curves, c))
            continue;
        if (first == NULL)
            first = c;
        if (c->data != first->data || c->like.n_ranks != first->like.n_ranks)
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
    char source[STP_LABEL];

    stp_common_title(set, common, sizeof(common));
    snprintf(title, sizeof(title), "%s%s%s %s%s%s%s",
             plot->title != NULL ? plot->title : "",
             plot->title != NULL ? ": " : "", stp_coll_title(plot_coll(plot)),
             kinds[plot->kind].heading, of, common[0] ? ", " : "", common);
    stp_source_line(set, source, sizeof(source));
    stp_chart_text(chart, "title", title);
    stp_chart_text(chart, "source", source);
}

static void plot_set_y(double low, double high, bool log_axis,
                       struct stp_chart *chart)
{
    stp_chart_number(chart, "y_low", log_axis ? low : 0);
    stp_chart_number(chart, "y_high", high);
    if (log_axis)
        stp_chart_number(chart, "y_log", 1);
}

/* ---- lines ---- */

struct plot_range {
    double min_x, max_x;
    double min_y, max_y; /* min_y: of the values above 0 */
    double min_peak;     /* the lowest of the curves' largest values */
};

static struct plot_range plot_find_range(const struct stp_labelled_set *set,
                                         enum stp_plot_kind kind)
{
    struct plot_range r = {INFINITY, 0, INFINITY, 0, INFINITY};

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        double peak = 0;

        for (size_t k = 0; k < c->n_points; k++) {
            double y = kinds[kind].value(c, &c->points[k]);

            if (y > 0)
                r.min_y = fmin(r.min_y, y);
            peak = fmax(peak, y);
        }
        r.min_x = fmin(r.min_x, (double)c->points[0].n_bytes);
        r.max_x = fmax(r.max_x, (double)c->points[c->n_points - 1].n_bytes);
        r.max_y = fmax(r.max_y, peak);
        r.min_peak = fmin(r.min_peak, peak);
    }
    return r;
}

static void plot_set_range(const struct plot_range *r, enum stp_plot_kind kind,
                           struct stp_chart *chart)
{
    const bool far_apart = r->min_peak * LINEAR_RATIO < r->max_y;

    stp_chart_number(chart, "first_bytes", r->min_x);
    stp_chart_number(chart, "last_bytes", r->max_x);
    if (r->min_y <= r->max_y && (kinds[kind].always_log || far_apart))
        plot_set_y(r->min_y / 1.3, r->max_y * 1.3, true, chart);
    else
        plot_set_y(0, r->max_y > 0 ? r->max_y * 1.06 : 1, false, chart);
}

static bool plot_has_band(const struct stp_curve *c)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].us.p95 > c->points[i].us.median)
            return c->like.arm.kind == STP_ARM_AUTO;
    return false;
}

/* Sets which curves are shaded, and the label that says so. */
static void plot_set_bands(const struct stp_labelled_set *set,
                           enum stp_plot_kind kind, struct stp_chart *chart)
{
    size_t n = 0;
    char label[80];

    stp_chart_array(chart, "bands", set->n);
    stp_chart_number_at(chart, "bands", 0, 1);
    for (size_t i = 0; i < set->n; i++)
        if (kinds[kind].bands && plot_has_band(set->all[i].curve))
            stp_chart_number_at(chart, "bands", n++, (double)(i + 1));
    stp_chart_number(chart, "n_bands", n <= MAX_BANDS ? (double)n : 0);
    snprintf(label, sizeof(label), "%s%s",
             n > 0 ? "Median time (us)" : kinds[kind].label,
             n > 0 && n <= MAX_BANDS ? "; shaded to p95 and p99 of auto" : "");
    stp_chart_text(chart, "ylabel", label);
}

static bool plot_same_series(const struct stp_labelled *a,
                             const struct stp_labelled *b)
{
    return strcmp(a->series, b->series) == 0;
}

static bool plot_same_ranks(const struct stp_labelled *a,
                            const struct stp_labelled *b)
{
    return a->curve->like.n_ranks == b->curve->like.n_ranks;
}

/* How many different curves, as 'same' has it, are before the first curve that
 * is the same as curve 'i'. */
static size_t plot_rank_of(const struct stp_labelled_set *set, size_t i,
                           bool (*same)(const struct stp_labelled *a,
                                        const struct stp_labelled *b))
{
    size_t n = 0;

    for (size_t k = 0; !same(&set->all[k], &set->all[i]); k++) {
        size_t m = 0;

        while (!same(&set->all[m], &set->all[k]))
            m++;
        n += m == k; /* the first of its kind */
    }
    return n;
}

/* Sets how each curve is drawn.  In a study the colour is that of the series,
 * and the dash and the points tell the number of processes. */
static void plot_set_styles(const struct stp_labelled_set *set, bool study,
                            struct stp_chart *chart)
{
    static const char *const arrays[] = {"titles", "hues", "widths", "dashes",
                                         "shapes"};

    stp_chart_number(chart, "n", (double)set->n);
    for (size_t a = 0; a < sizeof(arrays) / sizeof(arrays[0]); a++)
        stp_chart_array(chart, arrays[a], set->n);
    for (size_t i = 0; i < set->n; i++) {
        const struct stp_labelled *l = &set->all[i];
        const bool is_auto = l->curve->like.arm.kind == STP_ARM_AUTO;
        const size_t ranks = study ? plot_rank_of(set, i, plot_same_ranks) : 0;
        const size_t hue =
            study ? plot_rank_of(set, i, plot_same_series) + 1 : i;

        stp_chart_text_at(chart, "titles", i, l->label);
        stp_chart_number_at(chart, "hues", i, (double)hue);
        stp_chart_number_at(chart, "widths", i, is_auto ? 3 : 1.5);
        stp_chart_number_at(chart, "dashes", i,
                            (double)(study ? ranks : i / 8));
        stp_chart_number_at(chart, "shapes", i, (double)(study ? ranks : i));
    }
}

static void plot_write_lines(const struct stp_labelled_set *set,
                             const struct stp_plot *plot,
                             struct stp_chart *chart)
{
    const struct plot_range r = plot_find_range(set, plot->kind);

    plot_set_words(set, plot, "", chart);
    plot_set_range(&r, plot->kind, chart);
    plot_set_bands(set, plot->kind, chart);
    plot_set_styles(set, kinds[plot->kind].study, chart);
    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;

        stp_chart_block(chart);
        for (size_t k = 0; k < c->n_points; k++) {
            const struct stp_curve_point *p = &c->points[k];

            stp_chart_field(chart, set->all[i].label);
            fprintf(chart->data, "%" PRIu64 "\t%.6g\t%.6g\t%.6g\n", p->n_bytes,
                    kinds[plot->kind].value(c, p), p->us.p95, p->us.p99);
        }
    }
}

/* ---- bars ---- */

/* The numbers of processes, ascending; returns how many, at most MAX_GROUPS. */
static size_t plot_find_groups(const struct stp_labelled_set *set,
                               unsigned groups[MAX_GROUPS])
{
    size_t n = 0;

    for (size_t i = 0; i < set->n; i++) {
        const unsigned n_ranks = set->all[i].curve->like.n_ranks;
        size_t at = 0;

        if (stp_study_100mb(set->all[i].curve) == NULL)
            continue;
        while (at < n && groups[at] < n_ranks)
            at++;
        if ((at < n && groups[at] == n_ranks) || n == MAX_GROUPS)
            continue;
        memmove(&groups[at + 1], &groups[at], (n - at) * sizeof(groups[0]));
        groups[at] = n_ranks;
        n++;
    }
    return n;
}

/* Writes the bars of a series; returns false if it has none. */
static bool plot_write_series(const struct stp_labelled_set *set,
                              const char *series, struct stp_chart *chart)
{
    bool any = false;

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_labelled *l = &set->all[i];
        const struct stp_curve_point *p = stp_study_100mb(l->curve);

        if (p == NULL || strcmp(l->series, series) != 0)
            continue;
        if (!any)
            stp_chart_block(chart);
        any = true;
        stp_chart_field(chart, series);
        fprintf(chart->data, "%u\t%" PRIu64 "\t%.6g\n", l->curve->like.n_ranks,
                p->n_bytes, p->us.mean / 1e3);
    }
    return any;
}

static void plot_set_groups(const struct stp_labelled_set *set,
                            struct stp_chart *chart)
{
    unsigned groups[MAX_GROUPS];
    const size_t n = plot_find_groups(set, groups);

    stp_chart_number(chart, "n_groups", (double)n);
    stp_chart_array(chart, "groups", n);
    for (size_t i = 0; i < n; i++)
        stp_chart_number_at(chart, "groups", i, groups[i]);
}

static void plot_write_bars(const struct stp_labelled_set *set,
                            const struct stp_plot *plot,
                            struct stp_chart *chart)
{
    double min_mb = INFINITY, max_mb = 0, min_ms = INFINITY, max_ms = 0;
    size_t n = 0;
    char of[64];

    stp_chart_array(chart, "titles", set->n);
    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve_point *p = stp_study_100mb(set->all[i].curve);

        if (stp_is_new_series(set, i) &&
            plot_write_series(set, set->all[i].series, chart))
            stp_chart_text_at(chart, "titles", n++, set->all[i].series);
        if (p == NULL)
            continue;
        min_mb = fmin(min_mb, (double)p->n_bytes / 1e6);
        max_mb = fmax(max_mb, (double)p->n_bytes / 1e6);
        min_ms = fmin(min_ms, p->us.mean / 1e3);
        max_ms = fmax(max_ms, p->us.mean / 1e3);
    }
    if (min_mb == max_mb)
        snprintf(of, sizeof(of), " of %.4g MB", min_mb);
    else
        snprintf(of, sizeof(of), " of %.4g to %.4g MB", min_mb, max_mb);
    plot_set_words(set, plot, of, chart);
    stp_chart_number(chart, "n", (double)n);
    plot_set_groups(set, chart);
    if (min_ms * LINEAR_RATIO < max_ms)
        plot_set_y(min_ms / 3, max_ms * 2, true, chart);
    else
        plot_set_y(0, max_ms * 1.1, false, chart);
}

/* ---- whole charts ---- */

enum stp_status stp_plot_make(const struct stp_curves *curves,
                              const struct stp_plot *plot,
                              struct stp_chart *chart_ret,
                              struct stp_error *err)
{
    const bool bars = kinds[plot->kind].bars;
    const char *const templates[] = {bars ? stp_bars_gp : stp_lines_gp};
    struct stp_labelled_set set;
    enum stp_status status =
        kinds[plot->kind].study
            ? stp_pick_study(curves, &set, err)
            : stp_pick_curves(curves, plot->coll, plot->n_curves, &set, err);

    if (status != STP_OK)
        return status;
    status = stp_chart_begin(templates, 1,
                             bars ? "backend\tprocesses\tbytes\tms"
                                  : "curve\tbytes\tvalue\tp95\tp99",
                             chart_ret, err);
    if (status == STP_OK)
        (bars ? plot_write_bars : plot_write_lines)(&set, plot, chart_ret);
    stp_labelled_free(&set);
    return status;
}

enum stp_status stp_plot_save(const struct stp_curves *curves,
                              const struct stp_plot *plot,
                              enum stp_plot_format format, const char *gnuplot,
                              const char *path, struct stp_error *err)
{
    struct stp_chart chart;
    enum stp_status status = stp_plot_make(curves, plot, &chart, err);

    if (status != STP_OK)
        return status;
    status = stp_chart_save(&chart, format, gnuplot, path, err);
    stp_chart_free(&chart);
    return status;
}
