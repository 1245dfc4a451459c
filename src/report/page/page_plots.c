/* page_plots.c - bus bandwidth and latency against size */
#include <math.h>
#include <stdlib.h>

#include "analyse/bandwidth.h"
#include "report/charts/labels.h"
#include "report/html.h"
#include "report/page/page_parts.h"
#include "report/words.h"

enum { BOTTOM = 300, HEIGHT = 330, OTHERS = 32, LABEL_STEP = 15 };

/* What a plot has on its upright axis. */
struct kind {
    const char *caption;
    const char *unit;
    bool is_time;
};

static const struct kind kinds[] = {
    {"Bus bandwidth, GB/s", "GB/s", false},
    {"Latency, us", "us", true},
};

static const struct stp_page_legend legend[] = {
    {"auto", "NCCL's own choice"}, {"policy", "policy"},
    {"changed", "changed by it"},  {"best", "fastest arm"},
    {"other", "other arms"},       {NULL, NULL},
};

struct plot {
    const struct stp_page_panel *panel;
    const struct kind *kind;
    struct stp_page_axis x, y;
    struct stp_arm others[OTHERS];
    size_t n_others;
};

/* The time of a curve at a row; 0 where it has none. */
typedef double time_of(const struct plot *plot, const struct stp_page_row *row,
                       size_t other);

static double auto_us(const struct plot *plot, const struct stp_page_row *row,
                      size_t other)
{
    (void)plot;
    (void)other;
    return row->point->auto_us;
}

static double policy_us(const struct plot *plot, const struct stp_page_row *row,
                        size_t other)
{
    (void)plot;
    (void)other;
    return stp_page_policy_us(row);
}

static double best_us(const struct plot *plot, const struct stp_page_row *row,
                      size_t other)
{
    (void)plot;
    (void)other;
    if (row->swept == NULL)
        return 0;
    return row->best != NULL ? row->best->us : row->swept->auto_us;
}

static double other_us(const struct plot *plot, const struct stp_page_row *row,
                       size_t other)
{
    const struct stp_comparison *c =
        row->swept != NULL ? stp_point_arm(row->swept, &plot->others[other])
                           : NULL;

    return c != NULL ? c->us : 0;
}

static double value_of(const struct plot *plot, const struct stp_page_row *row,
                       double us)
{
    const struct stp_point *p = row->point;

    return plot->kind->is_time ? us
                               : stp_busbw(p->coll, p->n_ranks, p->n_bytes, us);
}

static double x_of(const struct plot *plot, const struct stp_page_row *row)
{
    return stp_page_at(&plot->x, fmax(1, (double)row->point->n_bytes));
}

static double y_of(const struct plot *plot, const struct stp_page_row *row,
                   double us)
{
    return stp_page_at(&plot->y, value_of(plot, row, us));
}

static void write_curve(const struct plot *plot, const char *style,
                        time_of *time, size_t other, FILE *fp)
{
    char move = 'M';

    fprintf(fp, "<path class=\"%s\" d=\"", style);
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        double us = time(plot, row, other);

        if (!(us > 0))
            continue;
        fprintf(fp, "%c%.1f %.1f", move, x_of(plot, row), y_of(plot, row, us));
        move = 'L';
    }
    fputs("\"/>\n", fp);
}

/* ---- the other arms ---- */

static bool has_other(const struct plot *plot, const struct stp_arm *arm)
{
    for (size_t i = 0; i < plot->n_others; i++)
        if (stp_arm_equal(&plot->others[i], arm))
            return true;
    return false;
}

static void find_others(struct plot *plot)
{
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_point *p = plot->panel->rows[i].swept;

        for (size_t a = 0; p != NULL && a < p->n_arms; a++)
            if (p->arms[a].arm.kind == STP_ARM_FORCED &&
                plot->n_others < OTHERS && !has_other(plot, &p->arms[a].arm))
                plot->others[plot->n_others++] = p->arms[a].arm;
    }
}

struct label {
    double y;
    struct stp_arm arm;
};

static int order_labels(const void *a, const void *b)
{
    const struct label *x = a, *y = b;

    return (x->y > y->y) - (x->y < y->y);
}

/* Where the curve of an arm leaves the plot at the right; outside of it if it
 * does not. */
static double end_of(const struct plot *plot, size_t other)
{
    double y = -1;

    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        double us = other_us(plot, &plot->panel->rows[i], other);

        if (us > 0)
            y = y_of(plot, &plot->panel->rows[i], us);
    }
    return y;
}

/* Names beside the ends of the curves, apart from each other. */
static void write_names(const struct plot *plot, FILE *fp)
{
    struct label labels[OTHERS];
    size_t n = 0;
    double free_from = STP_PAGE_TOP;

    for (size_t i = 0; i < plot->n_others; i++) {
        double y = end_of(plot, i);

        if (y >= STP_PAGE_TOP && y <= BOTTOM)
            labels[n++] = (struct label){y, plot->others[i]};
    }
    qsort(labels, n, sizeof(*labels), order_labels);
    fputs("<g class=\"names\">", fp);
    for (size_t i = 0; i < n; i++) {
        char name[STP_ARM_NAME];

        free_from = fmax(free_from, labels[i].y);
        /* leave room for those that are still to come */
        free_from = fmin(free_from, BOTTOM - (double)(n - 1 - i) * LABEL_STEP);
        stp_arm_name(&labels[i].arm, name);
        fprintf(fp, "<text x=\"%d\" y=\"%.1f\">", STP_PAGE_RIGHT + 6,
                free_from + 4);
        stp_html_text(name, fp);
        fputs("</text>", fp);
        free_from += LABEL_STEP;
    }
    fputs("</g>\n", fp);
}

/* ---- all of it ---- */

/* From what matters: arms that are far off are cut. */
static void fit(struct plot *plot)
{
    double min = INFINITY, max = 0;

    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        const double us[] = {row->point->auto_us, stp_page_policy_us(row),
                             best_us(plot, row, 0)};

        for (size_t k = 0; k < 3; k++)
            if (us[k] > 0) {
                min = fmin(min, value_of(plot, row, us[k]));
                max = fmax(max, value_of(plot, row, us[k]));
            }
    }
    if (plot->kind->is_time)
        plot->y = (struct stp_page_axis){min / 1.15, max * 1.4, BOTTOM,
                                         STP_PAGE_TOP, true};
    else
        plot->y =
            (struct stp_page_axis){0, max * 1.04, BOTTOM, STP_PAGE_TOP, false};
}

static void write_hits(const struct plot *plot, FILE *fp)
{
    fputs("<path class=\"cursor\" d=\"\"/>\n", fp);
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        double from, to, best = best_us(plot, row, 0);
        char size[32];

        stp_page_column(plot->panel, &plot->x, i, &from, &to);
        stp_size_name(row->point->n_bytes, size);
        fprintf(fp,
                "<g class=\"hit\" data-x=\"%.1f\"><rect x=\"%.1f\" y=\"%d\" "
                "width=\"%.1f\" height=\"%d\"/><title>%s: NCCL %.4g",
                x_of(plot, row), from, STP_PAGE_TOP, to - from,
                BOTTOM - STP_PAGE_TOP, size,
                value_of(plot, row, row->point->auto_us));
        if (row->policy != NULL)
            fprintf(fp, ", policy %.4g", value_of(plot, row, row->policy->us));
        if (best > 0)
            fprintf(fp, ", fastest %.4g", value_of(plot, row, best));
        fprintf(fp, " %s</title></g>\n", plot->kind->unit);
    }
}

/* Where the policy is not NCCL's own choice. */
static void write_changes(const struct plot *plot, FILE *fp)
{
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];

        if (row->verdict == STP_VERDICT_SAME)
            continue;
        fprintf(fp, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/>\n",
                row->verdict == STP_VERDICT_SLOWER ? "slower" : "changed",
                x_of(plot, row), y_of(plot, row, row->policy->us));
    }
}

static void write_plot(const struct stp_page_panel *panel,
                       const struct kind *kind, const char *name, FILE *fp)
{
    struct plot plot = {
        .panel = panel, .kind = kind, .x = stp_page_size_axis(panel)};
    char label[STP_PAGE_TEXT];

    find_others(&plot);
    fit(&plot);
    snprintf(label, sizeof(label), "%s: %s against size", name, kind->caption);
    stp_page_begin_plot(kind->caption, label, legend, HEIGHT, fp);
    stp_page_write_sizes(&plot.x, STP_PAGE_TOP, BOTTOM, fp);
    stp_page_write_values(&plot.y, -1, fp);
    /* an SVG of its own cuts what is outside */
    fprintf(fp,
            "<svg x=\"%1$d\" y=\"%2$d\" width=\"%3$d\" height=\"%4$d\" "
            "viewBox=\"%1$d %2$d %3$d %4$d\">\n",
            STP_PAGE_LEFT, STP_PAGE_TOP - 4, STP_PAGE_RIGHT - STP_PAGE_LEFT,
            BOTTOM - STP_PAGE_TOP + 8);
    for (size_t i = 0; i < plot.n_others; i++)
        write_curve(&plot, "other", other_us, i, fp);
    write_curve(&plot, "auto", auto_us, 0, fp);
    write_curve(&plot, "best", best_us, 0, fp);
    write_curve(&plot, "policy", policy_us, 0, fp);
    write_changes(&plot, fp);
    fputs("</svg>\n", fp);
    write_names(&plot, fp);
    write_hits(&plot, fp);
    stp_page_end_plot(fp);
}

void stp_page_write_plots(const struct stp_page_panel *panel, const char *name,
                          FILE *fp)
{
    stp_page_write_gain(panel, name, fp);
    write_plot(panel, &kinds[0], name, fp);
    write_plot(panel, &kinds[1], name, fp);
}
