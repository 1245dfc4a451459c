/* iteration_plots.c - times of iterations, and gains over the size, as plots */
#include "report/iterations/iteration_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "core/stats.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/charts/chart.h"
#include "report/charts/plot.h"
#include "report/folder.h"
#include "report/words.h"

extern const char stp_times_gp[];
extern const char stp_gains_gp[];

enum {
    MIN_BINS = 20,
    MAX_BINS = 150,
    LONG_US = 1000, /* from where on times are told in milliseconds */
};

/* Begins the chart of 'n' settings that differ in their size alone, which the
 * title names ('size') or does not (NULL). */
static void iteration_begin_chart(const struct stp_iteration_report *report,
                                  const struct stp_iteration_setting *settings,
                                  size_t n, const char *heading,
                                  const char *size, const char *template,
                                  const char *columns,
                                  struct stp_chart *chart_ret)
{
    const unsigned n_ranks = settings[0].like.n_ranks;
    char title[STP_ITERATION_TEXT + 64];
    char text[STP_ITERATION_TEXT];

    stp_chart_begin(template, NULL, columns, chart_ret);
    stp_iteration_what(&settings[0], size, text);
    snprintf(title, sizeof(title), "%s, %s; %u rank%s", heading, text, n_ranks,
             STP_S(n_ranks));
    stp_iteration_origin(&report->iterations->data, settings, n, text);
    stp_chart_text(chart_ret, "title", title);
    stp_chart_text(chart_ret, "source", text);
}

/* ---- which arms are drawn ---- */

/* An arm of settings that differ in their size alone, by its gains. */
struct iteration_gains {
    struct stp_arm arm;
    size_t n;   /* sizes */
    double log; /* sum */
};

/* The arms other than AUTO that a plot has. */
struct iteration_gain_set {
    struct iteration_gains of[STP_MAX_ARMS];
    size_t n;
};

/* How many settings from the i-th on differ in their size alone. */
static size_t iteration_count_alike(const struct stp_iteration_summary *all,
                                    size_t i)
{
    size_t n = 1;

    while (i + n < all->n_settings &&
           stp_order_kinds(&all->settings[i].like,
                           &all->settings[i + n].like) == 0)
        n++;
    return n;
}

/* The arm among those of the set; 'n' if it is none. */
static size_t iteration_find(const struct iteration_gain_set *set,
                             const struct stp_arm *arm)
{
    size_t i = 0;

    while (i < set->n && !stp_arm_equal(&set->of[i].arm, arm))
        i++;
    return i;
}

/* Picks the arms with the largest mean gain over all sizes, of arms that have a
 * round with AUTO, or of any ('all'). */
static struct iteration_gain_set
iteration_pick_arms(const struct stp_iteration_setting *settings, size_t n,
                    bool all)
{
    struct iteration_gain_set set = {.n = 0};

    for (size_t i = 0; i < n; i++)
        for (size_t a = 0; a < settings[i].n_arms; a++) {
            const struct stp_iteration_arm *arm = &settings[i].arms[a];
            const size_t at = iteration_find(&set, &arm->arm);

            if (arm->arm.kind == STP_ARM_AUTO || at == STP_MAX_ARMS ||
                (arm->gain.n_pairs == 0 && !all))
                continue;
            if (at == set.n)
                set.of[set.n++] = (struct iteration_gains){.arm = arm->arm};
            set.of[at].n++;
            set.of[at].log += log(arm->gain.gain);
        }
    while (set.n > STP_PLOT_CURVES - 1) {
        size_t worst = 0;

        for (size_t i = 1; i < set.n; i++)
            if (set.of[i].log / (double)set.of[i].n <=
                set.of[worst].log / (double)set.of[worst].n)
                worst = i;
        set.n--;
        memmove(&set.of[worst], &set.of[worst + 1],
                (set.n - worst) * sizeof(set.of[0]));
    }
    return set;
}

/* ---- times of an arm ---- */

/* Times of one arm's iterations, ascending, in the unit of the plot. */
struct iteration_times {
    const struct stp_iteration_arm *arm;
    double *time;
    size_t n;
    double median;
    double reach; /* later iterations are outliers */
};

/* The arms of a setting that are drawn, and their axis. */
struct iteration_spread {
    struct iteration_times of[STP_PLOT_CURVES]; /* AUTO and the best others */
    size_t n;
    const char *unit;
    double low, high; /* of the axis */
    size_t n_times, n_beyond;
    double longest;
};

static void iteration_add_times(struct iteration_spread *s,
                                const struct stp_iterations *iterations,
                                const struct stp_iteration_setting *setting,
                                const struct stp_iteration_arm *arm,
                                double unit_us)
{
    const size_t total = arm->n_iterations;
    struct iteration_times *t = &s->of[s->n];
    struct stp_iteration_cursor at = {0};
    struct stp_summary sum;
    const double *us;
    size_t n;

    if (total == 0)
        return;
    *t = (struct iteration_times){.arm = arm,
                                  .time = stp_take(total, sizeof(double))};
    s->n++;
    while ((us = stp_iteration_next(iterations, setting, arm, &at, &n)) != NULL)
        for (size_t i = 0; i < n && t->n < total; i++)
            t->time[t->n++] = us[i] / unit_us;
    stp_summarise(t->time, t->n, &sum); /* sorts */
    t->median = sum.median;
    t->reach = sum.median + 4 * (sum.p95 - sum.median);
}

/* The number of the arm's iterations that are on the axis. */
static size_t iteration_count_shown(const struct iteration_spread *s,
                                    const struct iteration_times *t)
{
    size_t n = t->n;

    while (n > 0 && t->time[n - 1] > s->high)
        n--;
    return n;
}

static void iteration_find_spread(const struct stp_iterations *iterations,
                                  const struct stp_iteration_setting *setting,
                                  struct iteration_spread *s)
{
    const struct iteration_gain_set picked =
        iteration_pick_arms(setting, 1, true);
    bool is_long = setting->arms[0].us.median >= LONG_US;

    *s = (struct iteration_spread){.unit = is_long ? "ms" : "us"};
    for (size_t a = 0; a < setting->n_arms; a++)
        if (setting->arms[a].arm.kind == STP_ARM_AUTO ||
            iteration_find(&picked, &setting->arms[a].arm) < picked.n)
            iteration_add_times(s, iterations, setting, &setting->arms[a],
                                is_long ? 1000 : 1);
    /* Few late iterations must not press all others into one pixel: the axis
     * ends with the last iteration of any arm that is no outlier. */
    s->low = INFINITY;
    for (size_t i = 0; i < s->n; i++) {
        const struct iteration_times *t = &s->of[i];
        size_t n = t->n;

        while (t->time[n - 1] > t->reach)
            n--;
        s->low = fmin(s->low, t->time[0]);
        s->high = fmax(s->high, t->time[n - 1]);
        s->longest = fmax(s->longest, t->time[t->n - 1]);
        s->n_times += t->n;
    }
    for (size_t i = 0; i < s->n; i++)
        s->n_beyond += s->of[i].n - iteration_count_shown(s, &s->of[i]);
    if (s->high <= s->low) /* all alike */
        s->high = s->low * 1.001;
}

/* ---- charts of times ---- */

/* A share of the arm's iterations, at or from a time. */
static void iteration_write_time(const struct iteration_times *t, double time,
                                 double share, struct stp_chart *chart)
{
    fprintf(chart->data, "%s\t%.8g\t%.6g\n", STP_ARM_TEXT(&t->arm->arm), time,
            share);
}

/* Shares in percent, each from its bin's beginning on, without the empty bins
 * on either side. */
static void iteration_write_bins(const struct iteration_spread *s, size_t i,
                                 unsigned n_bins, struct stp_chart *chart)
{
    const struct iteration_times *t = &s->of[i];
    double width = (s->high - s->low) / n_bins;
    size_t n = iteration_count_shown(s, t);
    size_t at = 0;
    unsigned b = (unsigned)fmin((t->time[0] - s->low) / width, n_bins - 1);

    iteration_write_time(t, s->low + width * b, 0, chart);
    for (; b < n_bins && at < n; b++) {
        double end = b + 1 < n_bins ? s->low + width * (b + 1) : INFINITY;
        size_t first = at;

        while (at < n && t->time[at] < end)
            at++;
        iteration_write_time(t, s->low + width * b,
                             100.0 * (double)(at - first) / (double)t->n,
                             chart);
    }
    iteration_write_time(t, s->low + width * b, 0, chart);
}

/* Sets the axis of times, and how the arms are called: with their medians. */
static void iteration_set_times(const struct iteration_spread *s,
                                struct stp_chart *chart)
{
    const double margin = (s->high - s->low) * 0.02;
    char label[128], beyond[96] = "";

    if (s->n_beyond > 0)
        snprintf(beyond, sizeof(beyond),
                 "; %zu of %zu iterations, up to %.4g %s, are further right",
                 s->n_beyond, s->n_times, s->longest, s->unit);
    snprintf(label, sizeof(label), "Iteration time (%s)%s", s->unit, beyond);
    stp_chart_text(chart, "xlabel", label);
    stp_chart_set(chart, "x_low = %.10g\nx_high = %.10g\nn = %zu",
                  s->low - margin, s->high + margin, s->n);
    stp_chart_arrays(chart, s->n, "titles");
    for (size_t i = 0; i < s->n; i++) {
        snprintf(label, sizeof(label), "%s, %.4g %s",
                 STP_ARM_TEXT(&s->of[i].arm->arm), s->of[i].median, s->unit);
        stp_chart_text_at(chart, "titles", i, label);
    }
}

static void
iteration_make_histogram(const struct stp_iteration_report *report,
                         const struct stp_iteration_setting *setting,
                         struct stp_chart *chart_ret)
{
    struct iteration_spread s;
    char label[80];
    double width = INFINITY;
    unsigned n_bins = MAX_BINS; /* if no arm spreads */

    iteration_find_spread(report->iterations, setting, &s);
    /* Freedman and Diaconis' width for the arm that spreads the least */
    for (size_t i = 0; i < s.n; i++) {
        const struct iteration_times *t = &s.of[i];
        const double quarter = t->time[t->n / 4];
        const double three = t->time[t->n - 1 - t->n / 4];

        if (three > quarter)
            width = fmin(width, 2 * (three - quarter) / cbrt((double)t->n));
    }
    if (!isinf(width))
        n_bins =
            (unsigned)fmin(MAX_BINS, fmax(MIN_BINS, (s.high - s.low) / width));
    iteration_begin_chart(report, setting, 1, "Iteration times",
                          STP_SIZE_TEXT(setting->like.n_bytes), stp_times_gp,
                          "arm\ttime\tshare", chart_ret);
    snprintf(label, sizeof(label),
             "Share of iterations (%%), in bins of %.3g %s",
             (s.high - s.low) / n_bins, s.unit);
    iteration_set_times(&s, chart_ret);
    stp_chart_text(chart_ret, "ylabel", label);
    for (size_t i = 0; i < s.n; i++) {
        stp_chart_block(chart_ret);
        iteration_write_bins(&s, i, n_bins, chart_ret);
        free(s.of[i].time);
    }
}

static void iteration_make_gains(const struct stp_iteration_report *report,
                                 const struct stp_iteration_setting *settings,
                                 size_t n, struct stp_chart *chart_ret)
{
    const struct iteration_gain_set set =
        iteration_pick_arms(settings, n, false);
    double octaves = INFINITY;
    bool alone = false;

    iteration_begin_chart(report, settings, n, "Gain over AUTO", NULL,
                          stp_gains_gp, "arm\tbytes\tgain\tlow\thigh\talone",
                          chart_ret);
    for (size_t i = 0; i < n; i++) {
        const struct stp_iteration_setting *setting = &settings[i];

        for (size_t a = 0; a < setting->n_arms; a++)
            alone |= setting->arms[a].alone_gain.n_pairs > 0;
        if (i > 0)
            octaves = fmin(octaves, log2((double)setting->like.n_bytes /
                                         (double)setting[-1].like.n_bytes));
    }
    stp_chart_text(chart_ret, "ylabel",
                   alone ? "Gain, with its 95% interval; hollow: collectives "
                           "alone"
                         : "Gain, with its 95% interval");
    stp_chart_set(chart_ret, "has_alone = %d\nleast_octaves = %.10g\nn = %zu",
                  alone, octaves, set.n);
    stp_chart_arrays(chart_ret, set.n, "titles");
    for (size_t c = 0; c < set.n; c++) {
        const char *name = STP_ARM_TEXT(&set.of[c].arm);

        stp_chart_text_at(chart_ret, "titles", c, name);
        stp_chart_block(chart_ret);
        for (size_t i = 0; i < n; i++)
            for (size_t a = 0; a < settings[i].n_arms; a++) {
                const struct stp_iteration_arm *arm = &settings[i].arms[a];
                const bool known = isfinite(arm->gain.high);

                if (!stp_arm_equal(&arm->arm, &set.of[c].arm) ||
                    arm->gain.n_pairs == 0)
                    continue;
                fprintf(chart_ret->data, "%s\t%" PRIu64 "\t%.6g\t%.6g\t%.6g\t",
                        name, settings[i].like.n_bytes, arm->gain.gain,
                        known ? arm->gain.low : arm->gain.gain,
                        known ? arm->gain.high : arm->gain.gain);
                if (arm->alone_gain.n_pairs > 0)
                    fprintf(chart_ret->data, "%.6g\n", arm->alone_gain.gain);
                else
                    fputs("?\n", chart_ret->data);
            }
    }
}

/* ---- all plots ---- */

struct iteration_drawing {
    const char *folder;
    enum stp_plot_format format;
    const char *gnuplot;
};

/* Draws the chart into the file "NAME_SETTING.png", and frees it. */
static enum stp_status iteration_draw(const struct iteration_drawing *d,
                                      const char *name, const char *setting,
                                      struct stp_chart *chart,
                                      struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    enum stp_status status = stp_path_write(
        path, err, "%s/%s%s%s.%s", d->folder, name, setting[0] ? "_" : "",
        setting, stp_plot_format_name(d->format));

    STP_THEN(status, stp_chart_save(chart, d->format, d->gnuplot, path, err));
    stp_chart_free(chart);
    return status;
}

enum stp_status
stp_iteration_plots_save(const struct stp_iteration_report *report,
                         const char *folder, enum stp_plot_format format,
                         const char *gnuplot, struct stp_error *err)
{
    const struct stp_iteration_summary *all = report->summary;
    const struct iteration_drawing d = {folder, format, gnuplot};
    char name[STP_SETTING_NAME] = "";
    struct stp_chart chart;
    size_t n_groups = 0;

    for (size_t i = 0; i < all->n_settings; i++) {
        const size_t n = iteration_count_alike(all, i);
        const bool first = i == 0 || iteration_count_alike(all, i - 1) == 1;

        n_groups += first && n > 1 &&
                    iteration_pick_arms(&all->settings[i], n, false).n > 0;
        if (stp_iteration_several(report))
            stp_iteration_setting_name(&all->settings[i], true, name);
        iteration_make_histogram(report, &all->settings[i], &chart);
        STP_TRY(
            iteration_draw(&d, "iteration_times_histogram", name, &chart, err));
    }
    for (size_t i = 0, n; i < all->n_settings; i += n) {
        const struct stp_iteration_setting *first = &all->settings[i];

        n = iteration_count_alike(all, i);
        name[0] = '\0';
        if (n_groups > 1)
            stp_iteration_setting_name(first, false, name);
        if (n > 1 && iteration_pick_arms(first, n, false).n > 0) {
            iteration_make_gains(report, first, n, &chart);
            STP_TRY(iteration_draw(&d, "gain_vs_size", name, &chart, err));
        }
    }
    return STP_OK;
}
