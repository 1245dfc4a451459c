/* page_gain.c - the policy's gain against size, and what was chosen */
#include <math.h>
#include <string.h>

#include "report/charts/labels.h"
#include "report/html.h"
#include "report/page/page_parts.h"
#include "report/words.h"

enum { BOTTOM = 250, RIBBON = 281, STRIP = 22, GAP = 4, HEIGHT = 338 };

static const struct stp_page_legend legend[] = {
    {"policy", "policy"}, {"band", "95 percent interval"},
    {"slower", "slower"}, {"best", "fastest arm"},
    {NULL, NULL},
};

struct plot {
    const struct stp_page_panel *panel;
    struct stp_page_axis x, y;
};

static double x_of(const struct plot *plot, size_t i)
{
    return stp_page_at(&plot->x,
                       fmax(1, (double)plot->panel->rows[i].point->n_bytes));
}

/* One that is infinite ends where the plot does. */
static double y_of(const struct plot *plot, double gain)
{
    return stp_page_at(&plot->y, fmin(plot->y.max, fmax(plot->y.min, gain)));
}

static void fit(struct plot *plot)
{
    double min = 0.98, max = 1.05;

    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        struct stp_gain gain;

        if (row->best != NULL)
            max = fmax(max, row->best->gain.gain);
        if (!stp_page_gain(row, &gain))
            continue;
        min = fmin(min, gain.low > 0 ? gain.low : gain.gain);
        max = fmax(max, isfinite(gain.high) ? gain.high : gain.gain);
    }
    plot->y = (struct stp_page_axis){min - 0.01, max + 0.02, BOTTOM,
                                     STP_PAGE_TOP, false};
}

/* ---- curves ---- */

/* Along the upper ends and back along the lower ones. */
static void write_band(const struct plot *plot, FILE *fp)
{
    size_t n = plot->panel->n_rows;
    struct stp_gain gain;
    char move = 'M';

    fputs("<path class=\"band\" d=\"", fp);
    for (size_t i = 0; i < n; i++)
        if (stp_page_gain(&plot->panel->rows[i], &gain)) {
            fprintf(fp, "%c%.1f %.1f", move, x_of(plot, i),
                    y_of(plot, gain.high));
            move = 'L';
        }
    for (size_t i = n; i-- > 0;)
        if (stp_page_gain(&plot->panel->rows[i], &gain))
            fprintf(fp, "L%.1f %.1f", x_of(plot, i), y_of(plot, gain.low));
    fputs(move == 'L' ? "Z\"/>\n" : "\"/>\n", fp);
}

static void write_line(const struct plot *plot, const char *style, FILE *fp)
{
    bool best = strcmp(style, "best") == 0;
    char move = 'M';

    fprintf(fp, "<path class=\"%s\" d=\"", style);
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        struct stp_gain gain = {.gain = 1};

        if (best && row->best != NULL)
            gain = row->best->gain;
        if (best ? row->swept == NULL : !stp_page_gain(row, &gain))
            continue;
        fprintf(fp, "%c%.1f %.1f", move, x_of(plot, i), y_of(plot, gain.gain));
        move = 'L';
    }
    fputs("\"/>\n", fp);
}

static void write_changes(const struct plot *plot, FILE *fp)
{
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        const struct stp_page_row *row = &plot->panel->rows[i];
        bool slower = row->verdict == STP_VERDICT_SLOWER;

        if (row->verdict != STP_VERDICT_SAME)
            fprintf(fp,
                    "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" "
                    "r=\"%d\"/>\n",
                    slower ? "slower" : "changed", x_of(plot, i),
                    y_of(plot, row->policy->gain.gain), slower ? 5 : 3);
    }
}

/* ---- what was chosen ---- */

static void name_choice(const struct stp_page_row *row, bool by_policy,
                        char name[STP_RAN_NAME])
{
    const struct stp_comparison *c = by_policy ? row->policy : NULL;

    if (by_policy && row->policy == NULL && row->line > 0)
        stp_ran_name(-1, -1, 0, name); /* nobody knows */
    else if (c != NULL)
        stp_ran_name(c->ran_algo, c->ran_proto, 0, name);
    else
        stp_ran_name(row->point->auto_algo, row->point->auto_proto, 0, name);
}

/* In all panels the same: a ring's protocols apart, other algorithms by
 * name. */
static unsigned tint_of(const char *name)
{
    static const char *const starts[] = {"ring/ll128", "ring/ll", "ring/simple",
                                         "tree", "nvls"};
    unsigned i = 0;

    while (i < sizeof(starts) / sizeof(starts[0]) &&
           strncmp(name, starts[i], strlen(starts[i])) != 0)
        i++;
    return i;
}

/* Stretches of the same choice. */
static void write_ribbon(const struct plot *plot, bool by_policy, int y,
                         FILE *fp)
{
    size_t n = plot->panel->n_rows;

    fprintf(fp, "<text class=\"side\" x=\"%d\" y=\"%d\">%s</text>",
            STP_PAGE_LEFT - 8, y + 15, by_policy ? "policy" : "NCCL");
    for (size_t i = 0; i < n;) {
        char name[STP_RAN_NAME], next[STP_RAN_NAME];
        double from, to, end;
        size_t k = i;

        name_choice(&plot->panel->rows[i], by_policy, name);
        stp_page_column(plot->panel, &plot->x, i, &from, &to);
        for (; k < n; k++) {
            name_choice(&plot->panel->rows[k], by_policy, next);
            if (strcmp(name, next) != 0)
                break;
            stp_page_column(plot->panel, &plot->x, k, &end, &to);
        }
        fprintf(fp,
                "<g class=\"strip\"><rect class=\"t%u\" x=\"%.1f\" y=\"%d\" "
                "width=\"%.1f\" height=\"%d\"/><title>",
                tint_of(name), from, y, to - from, STRIP);
        stp_html_printf(fp, "%s: %s", by_policy ? "policy" : "NCCL", name);
        fputs("</title>", fp);
        if (to - from > 6.5 * (double)strlen(name)) {
            fprintf(fp, "<text x=\"%.1f\" y=\"%d\">", (from + to) / 2, y + 15);
            stp_html_text(name, fp);
            fputs("</text>", fp);
        }
        fputs("</g>\n", fp);
        i = k;
    }
}

/* ---- all of it ---- */

static void write_title(const struct stp_page_row *row, FILE *fp)
{
    char size[32], ran[STP_RAN_NAME], interval[STP_INTERVAL];
    const struct stp_point *p = row->point;

    stp_size_name(p->n_bytes, size);
    stp_ran_name(p->auto_algo, p->auto_proto, p->auto_channels, ran);
    stp_html_printf(fp, "%s: NCCL %s %.2f us", size, ran, p->auto_us);
    if (row->verdict != STP_VERDICT_SAME) {
        const struct stp_comparison *c = row->policy;

        stp_ran_name(c->ran_algo, c->ran_proto, c->ran_channels, ran);
        stp_interval_text(&c->gain, interval);
        stp_html_printf(fp, "; policy %s %.2f us, gain %.3f (%s)", ran, c->us,
                        c->gain.gain, interval);
    } else if (row->policy == NULL && row->line > 0) {
        stp_html_text("; what the policy chooses was not measured", fp);
    } else {
        stp_html_text("; policy: the same", fp);
    }
    if (row->best != NULL) {
        char arm[STP_ARM_NAME];

        stp_arm_name(&row->best->arm, arm);
        stp_html_printf(fp, "; fastest %s %.3f", arm, row->best->gain.gain);
    }
}

static void write_hits(const struct plot *plot, FILE *fp)
{
    fputs("<path class=\"cursor\" d=\"\"/>\n", fp);
    for (size_t i = 0; i < plot->panel->n_rows; i++) {
        double from, to;

        stp_page_column(plot->panel, &plot->x, i, &from, &to);
        fprintf(fp,
                "<g class=\"hit\" data-x=\"%.1f\"><rect x=\"%.1f\" y=\"%d\" "
                "width=\"%.1f\" height=\"%d\"/><title>",
                x_of(plot, i), from, STP_PAGE_TOP, to - from,
                BOTTOM - STP_PAGE_TOP);
        write_title(&plot->panel->rows[i], fp);
        fputs("</title></g>\n", fp);
    }
}

void stp_page_write_gain(const struct stp_page_panel *panel, const char *name,
                         FILE *fp)
{
    struct plot plot = {.panel = panel, .x = stp_page_size_axis(panel)};
    char label[STP_PAGE_TEXT];

    fit(&plot);
    snprintf(label, sizeof(label),
             "%s: gain over NCCL's own choice against "
             "size",
             name);
    stp_page_begin_plot("Gain over NCCL's own choice, times as fast", label,
                        legend, HEIGHT, fp);
    stp_page_write_sizes(&plot.x, STP_PAGE_TOP, BOTTOM, fp);
    stp_page_write_values(&plot.y, 2, fp);
    fprintf(fp, "<path class=\"one\" d=\"M%d %.1fH%d\"/>\n", STP_PAGE_LEFT,
            stp_page_at(&plot.y, 1), STP_PAGE_RIGHT);
    write_band(&plot, fp);
    write_line(&plot, "best", fp);
    write_line(&plot, "policy", fp);
    write_changes(&plot, fp);
    write_ribbon(&plot, false, RIBBON, fp);
    write_ribbon(&plot, true, RIBBON + STRIP + GAP, fp);
    write_hits(&plot, fp);
    stp_page_end_plot(fp);
}
