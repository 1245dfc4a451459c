/* plot_lines.c - plots of lines over the size */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "report/charts/plot_parts.h"

enum {
    X_TICS = 15,  /* at most about as many */
    MAX_BANDS = 2 /* more shades than that are mud */
};

/* From where on a linear axis would hide the lower curves. */
#define LINEAR_RATIO 20

static double bus_bandwidth(const struct stp_curve *c,
                            const struct stp_curve_point *p)
{
    return stp_busbw(c->like.coll, c->like.n_ranks, p->n_bytes, p->us.mean);
}

static double median_us(const struct stp_curve *c,
                        const struct stp_curve_point *p)
{
    (void)c;
    return p->us.median;
}

static double mean_ms(const struct stp_curve *c,
                      const struct stp_curve_point *p)
{
    (void)c;
    return p->us.mean / 1e3;
}

/* What is over the size. */
static const struct {
    double (*value)(const struct stp_curve *c, const struct stp_curve_point *p);
    const char *label;
    bool always_log;
    bool bands; /* from the median to p99, of AUTO */
    bool study;
} axes[STP_N_PLOT_KINDS] = {
    [STP_PLOT_BUSBW] = {bus_bandwidth, "Bus bandwidth (GB/s)", false, false,
                        false},
    [STP_PLOT_LATENCY] = {median_us, "Time (us)", true, true, false},
    [STP_PLOT_STUDY_TIME] = {mean_ms, "Time (ms)", true, false, true},
    [STP_PLOT_STUDY_BANDWIDTH] = {bus_bandwidth, "Bus bandwidth (GB/s)", false,
                                  false, true},
};

/* ---- ranges ---- */

struct range {
    double min_x, max_x;
    double min_y, max_y;
    double min_peak; /* the lowest of the curves' largest values */
};

static struct range find_range(const struct stp_labelled_set *set,
                               enum stp_plot_kind kind)
{
    struct range r = {INFINITY, 0, INFINITY, 0, INFINITY};

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        double peak = 0;

        for (size_t k = 0; k < c->n_points; k++) {
            double y = axes[kind].value(c, &c->points[k]);

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

void stp_plot_write_sizes(double min, double max, FILE *fp)
{
    int first = (int)floor(log2(min));
    int last = (int)ceil(log2(max));
    int step = last - first < X_TICS ? 1 : last - first < 2 * X_TICS ? 2 : 5;

    fprintf(fp,
            "set xlabel 'Size (bytes)'\nset logscale x 2\n"
            "set xrange [%.6g:%.6g]\nset xtics (",
            min / 1.25, max * 1.25);
    for (int e = first; e <= last; e++) {
        char name[32];

        if (e != first && e % step != 0)
            continue;
        stp_size_name((uint64_t)1 << e, name);
        fprintf(fp, "%s'%s' %.6g", e != first ? ", " : "", name, pow(2, e));
    }
    fputs(")\n", fp);
}

static void write_y(const struct range *r, enum stp_plot_kind kind, FILE *fp)
{
    bool low = r->min_peak * LINEAR_RATIO < r->max_y;

    if (r->min_y <= r->max_y && (axes[kind].always_log || low))
        stp_plot_write_log_y(r->min_y / 1.3, r->max_y * 1.3, fp);
    else
        fprintf(fp, "set yrange [0:%.6g]\n",
                r->max_y > 0 ? r->max_y * 1.06 : 1);
}

/* ---- curves ---- */

static bool has_spread(const struct stp_curve *c)
{
    for (size_t i = 0; i < c->n_points; i++)
        if (c->points[i].us.p95 > c->points[i].us.median)
            return true;
    return false;
}

static bool has_band(const struct stp_curve *c)
{
    return c->like.arm.kind == STP_ARM_AUTO && has_spread(c);
}

static unsigned count_bands(const struct stp_labelled_set *set)
{
    unsigned n = 0;

    for (size_t i = 0; i < set->n; i++)
        n += has_band(set->all[i].curve);
    return n;
}

static void write_data(const struct stp_labelled_set *set,
                       enum stp_plot_kind kind, FILE *fp)
{
    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;

        fprintf(fp, "$d%zu << EOD\n", i);
        for (size_t k = 0; k < c->n_points; k++) {
            const struct stp_curve_point *p = &c->points[k];

            fprintf(fp, "%" PRIu64 " %.6g", p->n_bytes, axes[kind].value(c, p));
            if (axes[kind].bands)
                fprintf(fp, " %.6g %.6g", p->us.p95, p->us.p99);
            fputc('\n', fp);
        }
        fputs("EOD\n", fp);
    }
}

/* How the i-th curve is drawn.  In a study the colour tells the series, and the
 * rest the number of processes. */
struct style {
    size_t colour;
    size_t dash;
    size_t point;
};

static bool same_series(const struct stp_labelled *a,
                        const struct stp_labelled *b)
{
    return strcmp(a->series, b->series) == 0;
}

static bool same_ranks(const struct stp_labelled *a,
                       const struct stp_labelled *b)
{
    return a->curve->like.n_ranks == b->curve->like.n_ranks;
}

/* How many others came up before what the i-th is the same as. */
static size_t number_of(const struct stp_labelled_set *set, size_t i,
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

static struct style find_style(const struct stp_labelled_set *set, size_t i,
                               bool study)
{
    size_t n_ranks;

    if (!study)
        return (struct style){i, i / 8, i};
    n_ranks = number_of(set, i, same_ranks);
    return (struct style){number_of(set, i, same_series) + 1, n_ranks, n_ranks};
}

static void write_band(size_t i, const char *colour, FILE *fp)
{
    fprintf(fp,
            "$d%zu using 1:2:3 with filledcurves linecolor rgb '%s' "
            "fillstyle transparent solid 0.25 noborder notitle, \\\n"
            "     $d%zu using 1:3:4 with filledcurves linecolor rgb '%s' "
            "fillstyle transparent solid 0.12 noborder notitle, \\\n     ",
            i, colour, i, colour);
}

static void write_line(const struct stp_labelled_set *set, size_t i,
                       const struct style *s, FILE *fp)
{
    static const char *const dashes[] = {"1", "(8,3)", "(2,3)", "(8,3,2,3)",
                                         "(14,4)"};
    static const int points[] = {7, 5, 9, 13, 11, 6, 4, 8};
    bool is_auto = set->all[i].curve->like.arm.kind == STP_ARM_AUTO;

    fprintf(fp,
            "$d%zu using 1:2 with linespoints linecolor rgb '%s' linewidth %s "
            "dashtype %s pointtype %d pointsize 0.9 title ",
            i, stp_plot_colour(s->colour), is_auto ? "3" : "1.5",
            dashes[s->dash % 5], points[s->point % 8]);
    stp_gnuplot_quote(set->all[i].label, fp);
}

void stp_plot_write_lines(const struct stp_labelled_set *set,
                          const struct stp_plot *plot, FILE *fp)
{
    struct range r = find_range(set, plot->kind);
    unsigned n_bands = axes[plot->kind].bands ? count_bands(set) : 0;
    bool bands = n_bands > 0 && n_bands <= MAX_BANDS;

    stp_plot_write_frame(set, plot, "", fp);
    fprintf(fp, "set ylabel '%s%s'\n",
            n_bands > 0 ? "Median time (us)" : axes[plot->kind].label,
            bands ? "; shaded to p95 and p99 of auto" : "");
    stp_plot_write_sizes(r.min_x, r.max_x, fp);
    write_y(&r, plot->kind, fp);
    write_data(set, plot->kind, fp);
    fputs("plot ", fp);
    for (size_t i = 0; i < set->n; i++) {
        struct style s = find_style(set, i, axes[plot->kind].study);

        if (bands && has_band(set->all[i].curve))
            write_band(i, stp_plot_colour(s.colour), fp);
        write_line(set, i, &s, fp);
        fputs(i + 1 < set->n ? ", \\\n     " : "\n", fp);
    }
}
