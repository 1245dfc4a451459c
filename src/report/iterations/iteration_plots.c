/* iteration_plots.c - which plots there are, and gains over the size */
#include "report/iterations/iteration_plots.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "analyse/order.h"
#include "report/charts/plot_parts.h"
#include "report/folder.h"
#include "report/iterations/iteration_times_plots.h"

enum { LONG_TITLE = 100 }; /* that a picture's width is hardly enough for */

/* From where on a linear axis would hide what is near 1. */
#define LINEAR_RATIO 4

/* Settings that differ in their size alone. */
struct group {
    const struct stp_iteration_setting *settings;
    size_t n;
};

/* An arm of a group, by its gains. */
struct gains {
    struct stp_arm arm;
    size_t n;   /* sizes */
    double log; /* sum */
};

struct gain_set {
    struct gains of[STP_MAX_ARMS];
    size_t n;
};

void stp_iteration_write_frame(const struct stp_iteration_report *report,
                               const struct stp_iteration_setting *settings,
                               size_t n, const char *what, const char *size,
                               FILE *fp)
{
    unsigned n_ranks = settings[0].like.n_ranks;
    char title[STP_ITERATION_TEXT + 64];
    char text[STP_ITERATION_TEXT];

    stp_iteration_what(&settings[0], size, text);
    snprintf(title, sizeof(title), "%s, %s; %u rank%s", what, text, n_ranks,
             n_ranks == 1 ? "" : "s");
    stp_iteration_origin(&report->iterations->data, settings, n, text);
    stp_plot_write_rules(text, fp);
    fputs("set tmargin 3\nset label 2 ", fp);
    stp_gnuplot_quote(title, fp); /* too long for one above the axes */
    fprintf(fp, " at screen 0.01,0.965 left font ',%d'\n",
            strlen(title) > LONG_TITLE ? 12 : 15);
}

/* ---- groups ---- */

static bool is_alike(const struct stp_measurement *a,
                     const struct stp_measurement *b)
{
    return stp_order_kinds(a, b) == 0 &&
           stp_workload_order(&a->work, &b->work) == 0;
}

/* The group that begins with the i-th setting. */
static struct group group_at(const struct stp_iteration_summary *all, size_t i)
{
    struct group g = {&all->settings[i], 1};

    while (i + g.n < all->n_settings &&
           is_alike(&g.settings[0].like, &g.settings[g.n].like))
        g.n++;
    return g;
}

static bool has_gains(const struct group *g)
{
    for (size_t i = 0; i < g->n; i++)
        for (size_t a = 0; a < g->settings[i].n_arms; a++)
            if (g->settings[i].arms[a].gain.n_pairs > 0)
                return g->n > 1;
    return false;
}

static size_t count_groups(const struct stp_iteration_summary *all)
{
    size_t n = 0;

    for (size_t i = 0; i < all->n_settings;) {
        struct group g = group_at(all, i);

        n += has_gains(&g);
        i += g.n;
    }
    return n;
}

/* ---- gains ---- */

/* NULL if it is not there, or in no round with AUTO. */
static const struct stp_iteration_arm *
find_arm(const struct stp_iteration_setting *s, const struct stp_arm *arm)
{
    for (size_t a = 0; a < s->n_arms; a++)
        if (stp_arm_equal(&s->arms[a].arm, arm) && s->arms[a].gain.n_pairs > 0)
            return &s->arms[a];
    return NULL;
}

static void add_gain(struct gain_set *set, const struct stp_iteration_arm *arm)
{
    size_t i = 0;

    while (i < set->n && !stp_arm_equal(&set->of[i].arm, &arm->arm))
        i++;
    if (i == STP_MAX_ARMS)
        return;
    if (i == set->n)
        set->of[set->n++] = (struct gains){.arm = arm->arm};
    set->of[i].n++;
    set->of[i].log += log(arm->gain.gain);
}

static double mean_gain(const struct gains *g)
{
    return g->log / (double)g->n;
}

/* Takes away the worst until no more are left than a plot can have. */
static void pick_gains(struct gain_set *set)
{
    while (set->n > STP_PLOT_CURVES - 1) {
        size_t worst = 0;

        for (size_t i = 1; i < set->n; i++)
            if (mean_gain(&set->of[i]) <= mean_gain(&set->of[worst]))
                worst = i;
        set->n--;
        memmove(&set->of[worst], &set->of[worst + 1],
                (set->n - worst) * sizeof(set->of[0]));
    }
}

static void find_gains(const struct group *g, struct gain_set *set)
{
    set->n = 0;
    for (size_t i = 0; i < g->n; i++)
        for (size_t a = 0; a < g->settings[i].n_arms; a++)
            if (g->settings[i].arms[a].gain.n_pairs > 0) /* AUTO has none */
                add_gain(set, &g->settings[i].arms[a]);
    pick_gains(set);
}

/* ---- scripts of gains ---- */

/* Octaves by which an arm stands beside the one before, so that their bars do
 * not hide each other. */
static double find_dodge(const struct group *g, size_t n_arms)
{
    double first = log2((double)g->settings[0].like.n_bytes);
    double last = log2((double)g->settings[g->n - 1].like.n_bytes);
    double least = INFINITY;

    for (size_t i = 1; i < g->n; i++)
        least = fmin(least, log2((double)g->settings[i].like.n_bytes /
                                 (double)g->settings[i - 1].like.n_bytes));
    return fmin((last - first + 0.7) * 0.008, 0.5 * least / (double)n_arms);
}

/* How far the arm is from its size on the axis, as a factor. */
static double dodge(const struct group *g, size_t c, size_t n_arms)
{
    return exp2(find_dodge(g, n_arms) *
                ((double)c - 0.5 * (double)(n_arms - 1)));
}

/* Names of sizes, and room for all arms beside the first and the last. */
static void write_size_axis(const struct group *g, size_t n_arms, FILE *fp)
{
    double first = (double)g->settings[0].like.n_bytes;
    double last = (double)g->settings[g->n - 1].like.n_bytes;
    double room = 1.25 * dodge(g, n_arms - 1, n_arms);

    stp_plot_write_sizes(first, last, fp);
    fprintf(fp, "set xrange [%.6g:%.6g]\n", first / room, last * room);
}

/* An axis for all points, and for bars unless they dwarf those. */
static void write_gain_axis(const struct group *g, const struct gain_set *set,
                            FILE *fp)
{
    double low = 1, high = 1;
    double bar_low = 1, bar_high = 1;

    for (size_t i = 0; i < g->n; i++)
        for (size_t c = 0; c < set->n; c++) {
            const struct stp_iteration_arm *arm =
                find_arm(&g->settings[i], &set->of[c].arm);

            if (arm == NULL)
                continue;
            low = fmin(low, arm->gain.gain);
            high = fmax(high, arm->gain.gain);
            if (arm->alone_gain.n_pairs > 0) {
                low = fmin(low, arm->alone_gain.gain);
                high = fmax(high, arm->alone_gain.gain);
            }
            if (stp_iteration_interval(arm, &arm->gain)) {
                bar_low = fmin(bar_low, arm->gain.low);
                bar_high = fmax(bar_high, arm->gain.high);
            }
        }
    low = fmin(low, fmax(bar_low, low * 0.8));
    high = fmax(high, fmin(bar_high, high * 1.25));
    if (high > low * LINEAR_RATIO)
        stp_plot_write_log_y(low / 1.1, high * 1.1, fp);
    else
        fprintf(fp, "set yrange [%.6g:%.6g]\n",
                low - fmax((high - low) * 0.06, 0.005),
                high + fmax((high - low) * 0.06, 0.005));
}

/* Size, gain, its interval, and the gain alone; '?' is for what is not. */
static void write_gain_data(const struct group *g, const struct gain_set *set,
                            size_t c, FILE *fp)
{
    double beside = dodge(g, c, set->n);

    fprintf(fp, "$d%zu << EOD\n", c);
    for (size_t i = 0; i < g->n; i++) {
        const struct stp_iteration_arm *arm =
            find_arm(&g->settings[i], &set->of[c].arm);

        if (arm == NULL)
            continue;
        fprintf(fp, "%.8g %.6g ", (double)g->settings[i].like.n_bytes * beside,
                arm->gain.gain);
        if (stp_iteration_interval(arm, &arm->gain))
            fprintf(fp, "%.6g %.6g", arm->gain.low, arm->gain.high);
        else
            fprintf(fp, "%.6g %.6g", arm->gain.gain, arm->gain.gain);
        if (arm->alone_gain.n_pairs > 0)
            fprintf(fp, " %.6g\n", arm->alone_gain.gain);
        else
            fputs(" ?\n", fp);
    }
    fputs("EOD\n", fp);
}

static void write_gain_curve(const struct gain_set *set, size_t c,
                             bool has_alone, FILE *fp)
{
    static const int full[] = {7, 5, 9, 13, 11, 15, 7};
    static const int hollow[] = {6, 4, 8, 12, 10, 14, 6};
    const char *colour = stp_plot_colour(c + 1);
    char name[STP_ARM_NAME];

    stp_arm_name(&set->of[c].arm, name);
    if (has_alone)
        fprintf(fp,
                ", \\\n     $d%zu using 1:5 with linespoints linecolor rgb "
                "'%s' linewidth 1 dashtype (12,8) pointtype %d pointsize 1.1 "
                "notitle",
                c, colour, hollow[c % 7]);
    fprintf(fp,
            ", \\\n     $d%zu using 1:2:3:4 with yerrorlines linecolor rgb "
            "'%s' linewidth 2 pointtype %d pointsize 1.1 title ",
            c, colour, full[c % 7]);
    stp_gnuplot_quote(name, fp);
}

static bool has_alone(const struct group *g)
{
    for (size_t i = 0; i < g->n; i++)
        for (size_t a = 0; a < g->settings[i].n_arms; a++)
            if (g->settings[i].arms[a].alone_gain.n_pairs > 0)
                return true;
    return false;
}

static void write_gains(const struct stp_iteration_report *report,
                        const struct group *g, FILE *fp)
{
    bool alone = has_alone(g);
    struct gain_set set;

    find_gains(g, &set);
    stp_iteration_write_frame(report, g->settings, g->n, "Gain over AUTO", NULL,
                              fp);
    fprintf(fp, "set ylabel 'Gain, with its 95%% interval%s'\n",
            alone ? "; hollow: collectives alone" : "");
    write_size_axis(g, set.n, fp);
    write_gain_axis(g, &set, fp);
    fputs("set datafile missing '?'\n", fp);
    for (size_t c = 0; c < set.n; c++)
        write_gain_data(g, &set, c, fp);
    fprintf(fp, "plot 1 with lines linecolor rgb '%s' linewidth 2 title 'auto'",
            stp_plot_colour(0));
    for (size_t c = 0; c < set.n; c++)
        write_gain_curve(&set, c, alone, fp);
    fputc('\n', fp);
}

/* ---- all plots ---- */

/* What is to be drawn, and how often it was. */
struct drawing {
    const struct stp_iteration_report *report;
    const char *folder;
    enum stp_plot_format format;
    const char *gnuplot;
    size_t n;
};

/* Draws the script into the file "NAME_SETTING.png", and closes it. */
static enum stp_status draw(struct drawing *d, const char *name,
                            const char *setting, FILE *script,
                            struct stp_error *err)
{
    char path[STP_FOLDER_PATH];
    enum stp_status status;

    if ((size_t)snprintf(path, sizeof(path), "%s/%s%s%s.%s", d->folder, name,
                         setting[0] ? "_" : "", setting,
                         stp_plot_format_name(d->format)) >= sizeof(path))
        status = stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                          d->folder);
    else
        status = stp_gnuplot_run(d->gnuplot, script, path, err);
    fclose(script);
    d->n += status == STP_OK;
    return status;
}

static enum stp_status begin(const struct drawing *d, FILE **script_ret,
                             struct stp_error *err)
{
    enum stp_status status = stp_gnuplot_script(script_ret, err);

    if (status == STP_OK)
        stp_gnuplot_begin(d->format, STP_PLOT_WIDTH, STP_PLOT_HEIGHT,
                          *script_ret);
    return status;
}

static enum stp_status draw_times(struct drawing *d,
                                  const struct stp_iteration_setting *setting,
                                  struct stp_error *err)
{
    static const struct {
        const char *name;
        enum stp_status (*write)(const struct stp_iteration_report *report,
                                 const struct stp_iteration_setting *setting,
                                 FILE *fp, struct stp_error *err);
    } kinds[] = {
        {"iteration_times_histogram", stp_iteration_write_histogram},
        {"iteration_times_ecdf", stp_iteration_write_ecdf},
    };
    enum stp_status status = STP_OK;
    char name[STP_SETTING_NAME] = "";

    if (stp_iteration_several(d->report))
        stp_iteration_setting_name(setting, name);
    for (size_t i = 0; i < 2 && status == STP_OK; i++) {
        FILE *script = NULL;

        status = begin(d, &script, err);
        if (status != STP_OK)
            return status;
        status = kinds[i].write(d->report, setting, script, err);
        if (status == STP_OK)
            status = draw(d, kinds[i].name, name, script, err);
        else
            fclose(script);
    }
    return status;
}

static enum stp_status draw_gains(struct drawing *d, const struct group *g,
                                  bool several, struct stp_error *err)
{
    char name[STP_SETTING_NAME] = "";
    FILE *script = NULL;
    enum stp_status status = begin(d, &script, err);

    if (status != STP_OK)
        return status;
    if (several)
        stp_iteration_group_name(g->settings, name);
    write_gains(d->report, g, script);
    return draw(d, "gain_vs_size", name, script, err);
}

enum stp_status
stp_iteration_plots_save(const struct stp_iteration_report *report,
                         const char *folder, enum stp_plot_format format,
                         const char *gnuplot, size_t *n_ret,
                         struct stp_error *err)
{
    const struct stp_iteration_summary *all = report->summary;
    struct drawing d = {report, folder, format, gnuplot, 0};
    bool several = count_groups(all) > 1;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < all->n_settings && status == STP_OK; i++)
        status = draw_times(&d, &all->settings[i], err);
    for (size_t i = 0; i < all->n_settings && status == STP_OK;) {
        struct group g = group_at(all, i);

        if (has_gains(&g))
            status = draw_gains(&d, &g, several, err);
        i += g.n;
    }
    if (status == STP_OK)
        *n_ret = d.n;
    return status;
}
