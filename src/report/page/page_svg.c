/* page_svg.c - axes of the page's plots */
#include <inttypes.h>
#include <math.h>

#include "report/charts/labels.h"
#include "report/html.h"
#include "report/page/page_parts.h"

double stp_page_at(const struct stp_page_axis *a, double value)
{
    double share = a->log ? log(value / a->min) / log(a->max / a->min)
                          : (value - a->min) / (a->max - a->min);

    return a->from + share * (a->to - a->from);
}

/* ---- ticks ---- */

/* Ticks that binary fractions put a hair outside belong to the axis. */
static bool is_within(double value, double min, double max)
{
    double hair = 1e-9 * fmax(fabs(min), fabs(max));

    return value >= min - hair && value <= max + hair;
}

/* The step of 1, 2 or 5 times a power of ten that makes at most 6 parts. */
static double linear_step(double span)
{
    static const double steps[] = {1, 2, 5, 10};
    double unit = pow(10, floor(log10(span / 6)));

    for (size_t i = 0; i < 3; i++)
        if (span / (steps[i] * unit) <= 6)
            return steps[i] * unit;
    return 10 * unit;
}

size_t stp_page_ticks(double min, double max, double ticks[STP_PAGE_TICKS])
{
    double step = linear_step(max - min);
    double first = ceil(min / step - 1e-9);
    size_t n = 0;

    for (;
         n < STP_PAGE_TICKS && is_within((first + (double)n) * step, min, max);
         n++)
        ticks[n] = (first + (double)n) * step;
    return n;
}

size_t stp_page_log_ticks(double min, double max, double ticks[STP_PAGE_TICKS])
{
    static const double marks[] = {1, 2, 5};
    size_t n_marks = max / min <= 1000 ? 3 : 1;
    size_t n = 0;

    for (double unit = pow(10, floor(log10(min))); unit <= max; unit *= 10)
        for (size_t i = 0; i < n_marks && n < STP_PAGE_TICKS; i++)
            if (is_within(marks[i] * unit, min, max))
                ticks[n++] = marks[i] * unit;
    return n;
}

size_t stp_page_size_ticks(double min, double max, double ticks[STP_PAGE_TICKS])
{
    int first = (int)ceil(log2(min) - 1e-9);
    int last = (int)floor(log2(max) + 1e-9);
    int step = (last - first) / 8 + 1;
    size_t n = 0;

    while (first % step != 0)
        first++;
    for (int i = first; i <= last && n < STP_PAGE_TICKS; i += step)
        ticks[n++] = ldexp(1, i);
    return n;
}

/* ---- one figure ---- */

void stp_page_begin_plot(const char *caption, const char *label,
                         const struct stp_page_legend *legend, int height,
                         FILE *fp)
{
    fputs("<figure class=\"plot\"><figcaption><b>", fp);
    stp_html_text(caption, fp);
    fputs("</b><span class=\"legend\">", fp);
    for (; legend->style != NULL; legend++) {
        fprintf(fp, "<span class=\"key\"><i class=\"%s\"></i>", legend->style);
        stp_html_text(legend->text, fp);
        fputs("</span> ", fp);
    }
    fprintf(fp,
            "</span></figcaption>\n<svg viewBox=\"0 0 %d %d\" role=\"img\" "
            "aria-label=\"",
            STP_PAGE_WIDTH, height);
    stp_html_text(label, fp);
    fputs("\">\n", fp);
}

void stp_page_end_plot(FILE *fp)
{
    fputs("</svg>\n<p class=\"readout\"></p></figure>\n", fp);
}

void stp_page_write_sizes(const struct stp_page_axis *x, double top,
                          double bottom, FILE *fp)
{
    double ticks[STP_PAGE_TICKS];
    size_t n = stp_page_size_ticks(x->min, x->max, ticks);

    fputs("<g class=\"axis x\">", fp);
    for (size_t i = 0; i < n; i++) {
        double at = stp_page_at(x, ticks[i]);
        char name[32];

        stp_size_name((uint64_t)ticks[i], name);
        fprintf(fp,
                "<path d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" "
                "y=\"%.1f\">%s</text>",
                at, top, bottom, at, bottom + 19, name);
    }
    fprintf(fp, "</g><text class=\"unit\" x=\"%d\" y=\"%.1f\">bytes</text>\n",
            STP_PAGE_RIGHT + 12, bottom + 19);
}

void stp_page_write_values(const struct stp_page_axis *y, int decimals,
                           FILE *fp)
{
    double ticks[STP_PAGE_TICKS];
    size_t n = y->log ? stp_page_log_ticks(y->min, y->max, ticks)
                      : stp_page_ticks(y->min, y->max, ticks);

    fputs("<g class=\"axis y\">", fp);
    for (size_t i = 0; i < n; i++) {
        double at = stp_page_at(y, ticks[i]);

        fprintf(fp, "<path d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\">",
                STP_PAGE_LEFT, at, STP_PAGE_RIGHT, STP_PAGE_LEFT - 8, at + 4);
        if (decimals < 0)
            fprintf(fp, "%g</text>", ticks[i]);
        else
            fprintf(fp, "%.*f</text>", decimals, ticks[i]);
    }
    fputs("</g>\n", fp);
}

struct stp_page_axis stp_page_size_axis(const struct stp_page_panel *panel)
{
    double min = fmax(1, (double)panel->rows[0].point->n_bytes);
    double max = (double)panel->rows[panel->n_rows - 1].point->n_bytes;
    struct stp_page_axis axis = {min, max, STP_PAGE_LEFT + 6,
                                 STP_PAGE_RIGHT - 6, true};

    if (!(max > min)) { /* one size, in the middle */
        axis.min = min / 2;
        axis.max = min * 2;
    }
    return axis;
}

static double at_row(const struct stp_page_panel *panel,
                     const struct stp_page_axis *x, size_t i)
{
    return stp_page_at(x, fmax(1, (double)panel->rows[i].point->n_bytes));
}

void stp_page_column(const struct stp_page_panel *panel,
                     const struct stp_page_axis *x, size_t i, double *from_ret,
                     double *to_ret)
{
    double at = at_row(panel, x, i);

    *from_ret = i == 0 ? STP_PAGE_LEFT : (at_row(panel, x, i - 1) + at) / 2;
    *to_ret = i + 1 == panel->n_rows ? STP_PAGE_RIGHT
                                     : (at + at_row(panel, x, i + 1)) / 2;
}
