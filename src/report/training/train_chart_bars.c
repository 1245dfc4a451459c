/* train_chart_bars.c - charts of training with a bar for each setting */
#include <math.h>
#include <string.h>

#include "report/training/train_chart_parts.h"

extern const char stp_train_bars_gp[];

/* The end of an interval over its value, from which on axes cut it off. */
#define MOST_INTERVAL 1.6

/* Panels in rows and columns, groups of bars in each, a bar a series. */
struct bars_grid {
    const struct stp_train_view *view;
    const struct stp_train_bars *b;
    struct stp_train_levels rows, columns, groups, series;
    bool drawn[STP_TRAIN_LEVELS]; /* series that have a bar */
    double unit;                  /* divides all values */
    const char *unit_name;
};

/* A panel's place and its groups. */
struct bars_panel {
    size_t row, column;
    size_t groups[STP_TRAIN_LEVELS]; /* drawn groups */
    size_t n;
    size_t most;    /* bars in a group */
    double highest; /* with its interval */
};

struct bars_bar {
    struct stp_train_cell cell;
    double value, low, high; /* before the unit */
};

/* ---- data ---- */

static bool bars_find_bar(const struct bars_grid *g, const struct bars_panel *p,
                          size_t group, size_t series, struct bars_bar *bar_ret)
{
    const struct stp_train_bars *b = g->b;
    struct stp_train_where where = {{NULL}};
    struct bars_bar bar;

    where.like[b->row] = g->rows.like[p->row];
    where.like[b->column] = g->columns.like[p->column];
    where.like[b->group] = g->groups.like[group];
    where.like[b->series] = g->series.like[series];
    if (!stp_train_find_cell(g->view, &where, &bar.cell))
        return false;
    if (b->several && bar.cell.run->n_gpus == 1)
        return false;
    if ((b->stacked && !isfinite(bar.cell.exposed)) ||
        (b->throughput && bar.cell.run->n_samples == 0))
        return false; /* unknown */
    bar.value = bar.cell.mean;
    bar.low = bar.cell.low;
    bar.high = bar.cell.high;
    if (b->throughput) {
        const double samples = bar.cell.run->n_samples;

        bar.value = samples / bar.cell.mean;
        bar.low = samples / bar.cell.high;
        bar.high =
            bar.cell.low > 0 ? samples / bar.cell.low : samples / bar.cell.mean;
    }
    *bar_ret = bar;
    return true;
}

/* The end of the interval; an axis does not reach the end of a long one. */
static double bars_top(const struct bars_bar *bar)
{
    return fmin(bar->high, bar->value * MOST_INTERVAL);
}

static struct bars_panel bars_find_panel(const struct bars_grid *g, size_t row,
                                         size_t column)
{
    struct bars_panel p = {.row = row, .column = column};

    for (size_t k = 0; k < g->groups.n; k++) {
        double highest = 0;
        size_t n = 0;

        for (size_t s = 0; s < g->series.n; s++) {
            struct bars_bar bar;

            if (!bars_find_bar(g, &p, k, s, &bar))
                continue;
            highest = fmax(highest, bars_top(&bar));
            n++;
        }
        if (n < g->b->least)
            continue;
        p.groups[p.n++] = k;
        p.most = n > p.most ? n : p.most;
        p.highest = fmax(p.highest, highest);
    }
    return p;
}

/* Drops rows or columns without bars. */
static void bars_drop_empty(struct bars_grid *g,
                            struct stp_train_levels *levels)
{
    const bool rows = levels == &g->rows;
    const struct stp_train_levels *others = rows ? &g->columns : &g->rows;

    for (size_t i = levels->n; i-- > 0;) {
        bool empty = true;

        for (size_t k = 0; k < others->n && empty; k++)
            empty = bars_find_panel(g, rows ? i : k, rows ? k : i).n == 0;
        if (empty)
            stp_train_level_drop(levels, i);
    }
}

/* Whole seconds, milliseconds of short epochs, thousands of many samples. */
static void bars_find_unit(struct bars_grid *g)
{
    double highest = 0;

    for (size_t r = 0; r < g->rows.n; r++)
        for (size_t c = 0; c < g->columns.n; c++)
            highest = fmax(highest, bars_find_panel(g, r, c).highest);
    g->unit = 1;
    g->unit_name = g->b->throughput ? "Samples/s" : "Epoch time (s)";
    if (g->b->throughput && highest >= 1e4) {
        g->unit = 1e3;
        g->unit_name = "Thousand samples/s";
    } else if (!g->b->throughput && highest < 1) {
        g->unit = 1e-3;
        g->unit_name = "Epoch time (ms)";
    }
}

static struct bars_grid bars_find_grid(const struct stp_train_view *view,
                                       const struct stp_train_bars *b)
{
    struct bars_grid g = {.view = view,
                          .b = b,
                          .rows = stp_train_levels_of(view, b->row),
                          .columns = stp_train_levels_of(view, b->column),
                          .groups = stp_train_levels_of(view, b->group),
                          .series = stp_train_levels_of(view, b->series)};

    bars_drop_empty(&g, &g.rows);
    bars_drop_empty(&g, &g.columns);
    bars_find_unit(&g);
    return g;
}

bool stp_train_has_bars(const struct stp_train_view *view,
                        const struct stp_train_bars *bars)
{
    return bars_find_grid(view, bars).rows.n > 0;
}

/* ---- notes above bars ---- */

/* The text above a bar: its share, its value, or its speed-up over the first
 * bar of the group (NULL: it is that). */
static void bars_find_note(const struct bars_grid *g,
                           const struct bars_bar *first,
                           const struct bars_bar *bar, char text[32])
{
    const double value = bar->value / g->unit;

    text[0] = '\0';
    if (g->b->stacked)
        snprintf(text, 32, "%.0f%%", 100 * bar->cell.exposed / bar->cell.mean);
    else if (g->b->throughput) /* three digits */
        snprintf(text, 32, "%.*f",
                 value >= 100  ? 0
                 : value >= 10 ? 1
                               : 2,
                 value);
    else if (first != NULL)
        snprintf(text, 32, "%.2fx", first->cell.mean / bar->cell.mean);
}

/* ---- the chart ---- */

/* Heights without exposed and without any communication, for the lower parts,
 * and the communication. */
static void bars_write_parts(const struct bars_grid *g,
                             const struct bars_bar *bar, FILE *fp)
{
    const double total = bar->cell.mean;
    const double exposed = fmin(bar->cell.exposed, total);
    const double hidden =
        fmin(fmax(0, bar->cell.comm - exposed), total - exposed);

    fprintf(fp, "\t%.6g\t%.6g\t%.6g", (total - exposed) / g->unit,
            (total - exposed - hidden) / g->unit, bar->cell.comm / g->unit);
}

/* The bars of a group stand together, whichever series it has. */
static void bars_write_group(struct bars_grid *g, const struct bars_panel *p,
                             size_t at, struct stp_train_page *page)
{
    const size_t group = p->groups[at];
    const double width = 0.84 / (double)p->most;
    FILE *fp = page->chart->data;
    struct bars_bar bars[STP_TRAIN_LEVELS];
    size_t series[STP_TRAIN_LEVELS];
    size_t n = 0;

    for (size_t s = 0; s < g->series.n; s++)
        if (bars_find_bar(g, p, group, s, &bars[n]))
            series[n++] = s;
    for (size_t i = 0; i < n; i++) {
        const struct bars_bar *bar = &bars[i];
        const size_t s = series[i];
        char label[STP_TRAIN_LABEL], note[32];

        g->drawn[s] = true;
        fprintf(fp, "%zu\t", page->n_panels);
        stp_train_level_label(g->b->group, g->groups.like[group], label);
        stp_chart_field(page->chart, label);
        stp_train_level_label(g->b->series, g->series.like[s], label);
        stp_chart_field(page->chart, label);
        bars_find_note(g, i > 0 ? bars : NULL, bar, note);
        fprintf(fp, "%.4g\t%.6g\t%.6g\t%.6g\t%zu\t%s",
                (double)at + width * ((double)i - 0.5 * (double)(n - 1)),
                bar->value / g->unit, bar->low / g->unit, bar->high / g->unit,
                s + 1, note);
        if (g->b->stacked)
            bars_write_parts(g, bar, fp);
        fputc('\n', fp);
    }
}

static void bars_write_panel(struct bars_grid *g, const struct bars_panel *p,
                             struct stp_train_page *page)
{
    const size_t i = page->n_panels;
    char title[2 * STP_TRAIN_LABEL + 2], groups[512] = "";
    char column[STP_TRAIN_LABEL], row[STP_TRAIN_LABEL];

    stp_train_level_label(g->b->column, g->columns.like[p->column], column);
    stp_train_level_label(g->b->row, g->rows.like[p->row], row);
    snprintf(title, sizeof(title), "%s%s%s", column,
             column[0] && row[0] ? ", " : "", row);
    stp_train_page_panel(page, p->row, p->column, title);
    stp_chart_block(page->chart);
    for (size_t k = 0; k < p->n; k++) {
        const struct stp_train_run *like = g->groups.like[p->groups[k]];
        const size_t len = strlen(groups);

        if (g->b->group == STP_DIM_GPUS)
            snprintf(groups + len, sizeof(groups) - len, " %u", like->n_gpus);
        else
            snprintf(groups + len, sizeof(groups) - len, " %s", like->mode);
        bars_write_group(g, p, k, page);
    }
    stp_chart_text_at(page->chart, "groups", i, groups + 1);
    stp_chart_set(page->chart, "most[%zu] = %zu\ntops[%zu] = %.10g", i + 1,
                  p->most, i + 1, p->highest / g->unit);
}

static void bars_write_keys(const struct bars_grid *g,
                            struct stp_train_page *page)
{
    if (g->b->stacked) { /* the top part first */
        stp_train_page_key(page, "exposed comm.", 1, 0);
        stp_train_page_key(page, "hidden comm.", 6, 0);
        stp_train_page_key(page, "compute alone", 2, 0);
        return;
    }
    for (size_t s = 0; s < g->series.n; s++) {
        char label[STP_TRAIN_LABEL];

        if (!g->drawn[s])
            continue;
        stp_train_level_label(g->b->series, g->series.like[s], label);
        stp_train_page_key(page, label, (int)s + 1, 0);
    }
}

enum stp_status stp_train_make_bars(struct stp_train_page *page,
                                    const struct stp_train_bars *bars,
                                    struct stp_error *err)
{
    struct bars_grid g = bars_find_grid(&page->view, bars);
    const bool cpus = stp_train_on_cpus(g.groups.like[0]);
    enum stp_status status;

    page->max_panels = g.rows.n * g.columns.n;
    page->max_keys = STP_TRAIN_LEVELS;
    status = stp_train_page_begin(
        page, stp_train_bars_gp,
        bars->stacked ? "panel\tgroup\tseries\tx\tvalue\tlow\thigh\thue\tnote"
                        "\twithout_exposed\tcompute_alone\tcomm"
                      : "panel\tgroup\tseries\tx\tvalue\tlow\thigh\thue\tnote",
        bars->series == STP_DIM_MODE || bars->group == STP_DIM_MODE,
        bars->series == STP_DIM_GA, bars->notes, err);

    if (status != STP_OK)
        return status;
    stp_chart_arrays(page->chart, page->max_panels, "groups most tops");
    for (size_t r = 0; r < g.rows.n; r++)
        for (size_t c = 0; c < g.columns.n; c++) {
            const struct bars_panel p = bars_find_panel(&g, r, c);

            if (p.n > 0)
                bars_write_panel(&g, &p, page);
        }
    bars_write_keys(&g, page);
    stp_chart_set(page->chart, "stacked = %d\nslanted = %d\nlined = 0",
                  bars->stacked, bars->group == STP_DIM_MODE);
    stp_chart_text(page->chart, "unit", g.unit < 1 ? "ms" : "s");
    stp_train_page_end(page, g.rows.n, g.columns.n, g.unit_name,
                       bars->group != STP_DIM_GPUS ? ""
                       : cpus                      ? "Processes"
                                                   : "GPUs");
    return STP_OK;
}
