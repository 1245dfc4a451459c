/* plot_bars.c - backends beside each other at about 100 MB */
#include <math.h>
#include <string.h>

#include "report/charts/plot_parts.h"

enum { MAX_GROUPS = 64 };

/* From where on a linear axis would hide the lower bars. */
#define LINEAR_RATIO 20

/* The groups are numbers of processes, the bars in them series. */
struct bars {
    const struct stp_labelled_set *set;
    unsigned ranks[MAX_GROUPS]; /* ascending */
    size_t n_groups;
    size_t series[MAX_GROUPS]; /* the first curve of each */
    size_t n_series;
    double min_ms, max_ms;
    double min_bytes, max_bytes;
};

static void add_group(struct bars *b, unsigned n_ranks)
{
    size_t at = 0;

    while (at < b->n_groups && b->ranks[at] < n_ranks)
        at++;
    if ((at < b->n_groups && b->ranks[at] == n_ranks) ||
        b->n_groups == MAX_GROUPS)
        return;
    memmove(&b->ranks[at + 1], &b->ranks[at],
            (b->n_groups - at) * sizeof(b->ranks[0]));
    b->ranks[at] = n_ranks;
    b->n_groups++;
}

static void add_series(struct bars *b, size_t i)
{
    for (size_t s = 0; s < b->n_series; s++)
        if (strcmp(b->set->all[b->series[s]].series, b->set->all[i].series) ==
            0)
            return;
    if (b->n_series < MAX_GROUPS)
        b->series[b->n_series++] = i;
}

static struct bars find_bars(const struct stp_labelled_set *set)
{
    struct bars b = {.set = set, .min_ms = INFINITY, .min_bytes = INFINITY};

    for (size_t i = 0; i < set->n; i++) {
        const struct stp_curve *c = set->all[i].curve;
        const struct stp_curve_point *p = stp_study_100mb(c);

        if (p == NULL)
            continue;
        add_group(&b, c->like.n_ranks);
        add_series(&b, i);
        b.min_ms = fmin(b.min_ms, p->us.mean / 1e3);
        b.max_ms = fmax(b.max_ms, p->us.mean / 1e3);
        b.min_bytes = fmin(b.min_bytes, (double)p->n_bytes);
        b.max_bytes = fmax(b.max_bytes, (double)p->n_bytes);
    }
    return b;
}

static size_t group_of(const struct bars *b, unsigned n_ranks)
{
    size_t g = 0;

    while (g < b->n_groups && b->ranks[g] != n_ranks)
        g++;
    return g;
}

/* Three digits that count. */
static void write_ms(double ms, FILE *fp)
{
    int decimals = ms >= 100 ? 0 : ms >= 10 ? 1 : ms >= 1 ? 2 : 3;

    fprintf(fp, "\"%.*f ms\"", decimals, ms);
}

/* The bars of a series: place, height, and what stands above. */
static void write_series(const struct bars *b, size_t s, FILE *fp)
{
    const char *series = b->set->all[b->series[s]].series;
    double width = 0.8 / (double)b->n_series;

    fprintf(fp, "$d%zu << EOD\n", s);
    for (size_t i = 0; i < b->set->n; i++) {
        const struct stp_curve *c = b->set->all[i].curve;
        const struct stp_curve_point *p = stp_study_100mb(c);

        if (p == NULL || strcmp(b->set->all[i].series, series) != 0)
            continue;
        fprintf(fp, "%.6g %.6g ",
                (double)group_of(b, c->like.n_ranks) - 0.4 +
                    width * ((double)s + 0.5),
                p->us.mean / 1e3);
        write_ms(p->us.mean / 1e3, fp);
        fputc('\n', fp);
    }
    fputs("EOD\n", fp);
}

static void write_axes(const struct bars *b, FILE *fp)
{
    fputs("set ylabel 'Time (ms)'\nset grid noxtics\nset xtics scale 0 (", fp);
    for (size_t g = 0; g < b->n_groups; g++)
        fprintf(fp, "%s'%u processes' %zu", g > 0 ? ", " : "", b->ranks[g], g);
    fprintf(fp, ")\nset xrange [-0.6:%.6g]\n", (double)b->n_groups - 0.4);
    if (b->min_ms * LINEAR_RATIO < b->max_ms)
        stp_plot_write_log_y(b->min_ms / 3, b->max_ms * 2, fp);
    else
        fprintf(fp, "set yrange [0:%.6g]\n", b->max_ms * 1.1);
    fprintf(fp,
            "set boxwidth %.6g absolute\nset style fill solid 0.9 "
            "noborder\n",
            0.74 / (double)b->n_series);
}

void stp_plot_write_bars(const struct stp_labelled_set *set,
                         const struct stp_plot *plot, FILE *fp)
{
    struct bars b = find_bars(set);
    char what[64];

    if (b.min_bytes == b.max_bytes)
        snprintf(what, sizeof(what), " of %.4g MB", b.min_bytes / 1e6);
    else
        snprintf(what, sizeof(what), " of %.4g to %.4g MB", b.min_bytes / 1e6,
                 b.max_bytes / 1e6);
    stp_plot_write_frame(set, plot, what, fp);
    write_axes(&b, fp);
    for (size_t s = 0; s < b.n_series; s++)
        write_series(&b, s, fp);
    fputs("plot ", fp);
    for (size_t s = 0; s < b.n_series; s++) {
        fprintf(fp, "$d%zu using 1:2 with boxes linecolor rgb '%s' title ", s,
                stp_plot_colour(s + 1));
        stp_gnuplot_quote(set->all[b.series[s]].series, fp);
        fprintf(fp,
                ", \\\n     $d%zu using 1:2:3 with labels offset 0,0.6 font "
                "',11' notitle%s",
                s, s + 1 < b.n_series ? ", \\\n     " : "\n");
    }
}
