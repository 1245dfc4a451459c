/* iteration_times_plots.c - how the iterations of a setting's arms spread */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "core/stats.h"
#include "report/charts/plot_parts.h"
#include "report/iterations/iteration_times_plots.h"

enum {
    MIN_BINS = 20,
    MAX_BINS = 150,
    MAX_STEPS = 1000 /* of one distribution function: a pixel each */
};

/* From where on times are told in milliseconds. */
#define LONG_US 1000

/* The times of one arm, ascending, in the unit of the plot. */
struct times {
    const struct stp_iteration_arm *arm;
    double *time;
    size_t n;
    double median;
    double reach; /* what is further out is not of the bulk */
};

/* What is drawn of a setting. */
struct spread {
    struct times of[STP_PLOT_CURVES]; /* AUTO and the best others */
    size_t n;
    const char *unit;
    double low, high; /* of the axis */
    size_t n_times, n_beyond;
    double longest;
};

/* ---- times ---- */

static bool is_drawn(const struct stp_iteration_setting *s, size_t arm)
{
    size_t n_better = 0;

    for (size_t a = 0; a < s->n_arms; a++) {
        double gain = s->arms[a].gain.gain;

        if (a != arm && s->arms[a].arm.kind != STP_ARM_AUTO &&
            (gain > s->arms[arm].gain.gain ||
             (gain == s->arms[arm].gain.gain && a < arm)))
            n_better++;
    }
    return s->arms[arm].arm.kind == STP_ARM_AUTO ||
           n_better < STP_PLOT_CURVES - 1;
}

static size_t count_times(const struct stp_iterations *iterations,
                          const struct stp_iteration_setting *setting,
                          const struct stp_iteration_arm *arm)
{
    struct stp_iteration_cursor at = {0};
    size_t total = 0;
    size_t n;

    while (stp_iteration_next(iterations, setting, arm, &at, &n) != NULL)
        total += n;
    return total;
}

/* False without memory. */
static bool add_times(struct spread *s, const struct stp_iterations *iterations,
                      const struct stp_iteration_setting *setting,
                      const struct stp_iteration_arm *arm, double unit_us)
{
    size_t total = count_times(iterations, setting, arm);
    struct times *t = &s->of[s->n];
    struct stp_iteration_cursor at = {0};
    struct stp_summary sum;
    const double *us;
    size_t n;

    if (total == 0)
        return true;
    *t = (struct times){.arm = arm, .time = calloc(total, sizeof(double))};
    if (t->time == NULL)
        return false;
    s->n++;
    while ((us = stp_iteration_next(iterations, setting, arm, &at, &n)) != NULL)
        for (size_t i = 0; i < n; i++)
            t->time[t->n++] = us[i] / unit_us;
    stp_summarise(t->time, t->n, &sum); /* sorts */
    t->median = sum.median;
    t->reach = sum.median + 4 * (sum.p95 - sum.median);
    return true;
}

/* How many are on the axis. */
static size_t within(const struct spread *s, const struct times *t)
{
    size_t n = t->n;

    while (n > 0 && t->time[n - 1] > s->high)
        n--;
    return n;
}

/* Few late iterations must not press all others into one pixel: the axis ends
 * with the last of the bulk of any arm. */
static void find_axis(struct spread *s)
{
    s->low = INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        const struct times *t = &s->of[i];
        size_t n = t->n;

        while (t->time[n - 1] > t->reach)
            n--;
        s->low = fmin(s->low, t->time[0]);
        s->high = fmax(s->high, t->time[n - 1]);
        s->longest = fmax(s->longest, t->time[t->n - 1]);
        s->n_times += t->n;
    }
    for (size_t i = 0; i < s->n; i++)
        s->n_beyond += s->of[i].n - within(s, &s->of[i]);
    if (s->high <= s->low) /* all alike */
        s->high = s->low * 1.001;
}

static void free_spread(struct spread *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->of[i].time);
}

static enum stp_status find_spread(const struct stp_iterations *iterations,
                                   const struct stp_iteration_setting *setting,
                                   struct spread *s, struct stp_error *err)
{
    bool is_long = setting->arms[0].us.median >= LONG_US;
    bool ok = true;

    *s = (struct spread){.unit = is_long ? "ms" : "us"};
    for (size_t a = 0; a < setting->n_arms && ok; a++)
        if (is_drawn(setting, a))
            ok = add_times(s, iterations, setting, &setting->arms[a],
                           is_long ? 1000 : 1);
    if (ok) {
        find_axis(s);
        return STP_OK;
    }
    free_spread(s);
    return stp_nomem(err);
}

/* ---- what both plots have ---- */

static void write_frame(const struct stp_iteration_report *report,
                        const struct stp_iteration_setting *setting,
                        const struct spread *s, const char *what, FILE *fp)
{
    double margin = (s->high - s->low) * 0.02;
    char size[32];

    stp_size_text(setting->like.n_bytes, size);
    stp_iteration_write_frame(report, setting, 1, what, size, fp);
    fprintf(fp, "set key title 'Arm, median'\nset xlabel 'Iteration time (%s)",
            s->unit);
    if (s->n_beyond > 0)
        fprintf(fp, "; %zu of %zu iterations, up to %.4g %s, are further right",
                s->n_beyond, s->n_times, s->longest, s->unit);
    fprintf(fp, "'\nset xrange [%.8g:%.8g]\n", s->low - margin,
            s->high + margin);
}

/* Of the i-th arm; its title has the median. */
static void write_curve(const struct spread *s, size_t i, FILE *fp)
{
    char name[STP_ARM_NAME];
    char title[STP_ARM_NAME + 32];

    stp_arm_name(&s->of[i].arm->arm, name);
    snprintf(title, sizeof(title), "%s, %.4g %s", name, s->of[i].median,
             s->unit);
    fprintf(fp,
            "$d%zu using 1:2 with steps linecolor rgb '%s' linewidth %s "
            "title ",
            i, stp_plot_colour(i), i == 0 ? "3" : "2");
    stp_gnuplot_quote(title, fp);
    fputs(i + 1 < s->n ? ", \\\n     " : "\n", fp);
}

/* ---- histogram ---- */

/* Freedman and Diaconis' width for the arm that spreads the least. */
static unsigned count_bins(const struct spread *s)
{
    double width = INFINITY;

    for (size_t i = 0; i < s->n; i++) {
        const struct times *t = &s->of[i];
        double quarter = t->time[t->n / 4];
        double three = t->time[t->n - 1 - t->n / 4];

        if (three > quarter)
            width = fmin(width, 2 * (three - quarter) / cbrt((double)t->n));
    }
    if (isinf(width)) /* no arm spreads */
        return MAX_BINS;
    return (unsigned)fmin(MAX_BINS, fmax(MIN_BINS, (s->high - s->low) / width));
}

/* Shares in percent, each from its bin's beginning on, without what is empty on
 * either side. */
static void write_bins(const struct spread *s, size_t i, unsigned n_bins,
                       FILE *fp)
{
    const struct times *t = &s->of[i];
    double width = (s->high - s->low) / n_bins;
    size_t n = within(s, t);
    size_t at = 0;
    unsigned b = (unsigned)fmin((t->time[0] - s->low) / width, n_bins - 1);

    fprintf(fp, "$d%zu << EOD\n%.8g 0\n", i, s->low + width * b);
    for (; b < n_bins && at < n; b++) {
        double end = b + 1 < n_bins ? s->low + width * (b + 1) : INFINITY;
        size_t first = at;

        while (at < n && t->time[at] < end)
            at++;
        fprintf(fp, "%.8g %.6g\n", s->low + width * b,
                100.0 * (double)(at - first) / (double)t->n);
    }
    fprintf(fp, "%.8g 0\nEOD\n", s->low + width * b);
}

enum stp_status
stp_iteration_write_histogram(const struct stp_iteration_report *report,
                              const struct stp_iteration_setting *setting,
                              FILE *fp, struct stp_error *err)
{
    struct spread s;
    unsigned n_bins;
    enum stp_status status = find_spread(report->iterations, setting, &s, err);

    if (status != STP_OK)
        return status;
    n_bins = count_bins(&s);
    write_frame(report, setting, &s, "Iteration times", fp);
    fprintf(fp,
            "set ylabel 'Share of iterations (%%), in bins of %.3g %s'\n"
            "set yrange [0:*]\n",
            (s.high - s.low) / n_bins, s.unit);
    for (size_t i = 0; i < s.n; i++)
        write_bins(&s, i, n_bins, fp);
    fputs("plot $d0 using 1:2 with fillsteps linecolor rgb '#000000' fillstyle "
          "transparent solid 0.12 noborder notitle, \\\n     ",
          fp);
    for (size_t i = 0; i < s.n; i++)
        write_curve(&s, i, fp);
    free_spread(&s);
    return STP_OK;
}

/* ---- distribution functions ---- */

static void write_steps(const struct spread *s, size_t i, FILE *fp)
{
    const struct times *t = &s->of[i];
    size_t n = within(s, t);
    size_t step = n / MAX_STEPS + 1;

    fprintf(fp, "$d%zu << EOD\n%.8g 0\n", i, t->time[0]);
    for (size_t at = 0; at < n;) {
        at = at + step < n ? at + step : n;
        fprintf(fp, "%.8g %.6g\n", t->time[at - 1], (double)at / (double)t->n);
    }
    if (n < t->n)
        fprintf(fp, "%.8g %.6g\n", s->high, (double)n / (double)t->n);
    fputs("EOD\n", fp);
}

enum stp_status
stp_iteration_write_ecdf(const struct stp_iteration_report *report,
                         const struct stp_iteration_setting *setting, FILE *fp,
                         struct stp_error *err)
{
    struct spread s;
    enum stp_status status = find_spread(report->iterations, setting, &s, err);

    if (status != STP_OK)
        return status;
    write_frame(report, setting, &s, "Iteration times (ECDF)", fp);
    fputs("set ylabel 'Share of iterations that took no longer'\n"
          "set yrange [0:1.02]\n",
          fp);
    for (size_t i = 0; i < s.n; i++)
        write_steps(&s, i, fp);
    fputs("plot ", fp);
    for (size_t i = 0; i < s.n; i++)
        write_curve(&s, i, fp);
    free_spread(&s);
    return STP_OK;
}
