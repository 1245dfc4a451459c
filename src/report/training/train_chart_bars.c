/* train_chart_bars.c - charts of training with a bar for each setting */
#include <math.h>
#include <string.h>

#include "report/charts/plot_parts.h"
#include "report/training/train_chart_parts.h"

enum {
    PARTS = 3,
    FEW = 5 /* bars of a panel */,
    NARROW = 44,
    THIN = 13 /* pixels of a bar */
};

/* Of an interval, above which an axis does not go, over its value. */
#define MOST_INTERVAL 1.6

/* What an epoch's time is made of, from the bottom. */
static const struct stp_train_key parts[PARTS] = {
    {"compute alone", "#0072b2", 0},
    {"hidden comm.", "#56b4e9", 0},
    {"exposed comm.", "#d55e00", 0},
};

/* Panels in rows and columns, groups of bars in each, a bar a series. */
struct grid {
    const struct stp_train_drawing *d;
    const struct stp_train_bars *b;
    struct stp_train_levels rows, columns, groups, series;
    double unit; /* what values are divided by */
    const char *unit_name;
};

/* A panel's place and what is in it. */
struct panel {
    size_t row, column;
    size_t groups[STP_TRAIN_LEVELS]; /* that are drawn */
    size_t n;
    size_t most;    /* bars in one of them */
    double highest; /* with its interval */
};

struct bar {
    struct stp_train_cell cell;
    double value, low, high; /* before the unit */
};

/* ---- data ---- */

static void set_like(struct stp_train_where *where, enum stp_train_dim dim,
                     const struct stp_train_run *like)
{
    if (dim != STP_DIM_NONE)
        where->like[dim] = like;
}

static bool find_bar(const struct grid *g, const struct panel *p, size_t group,
                     size_t series, struct bar *bar_ret)
{
    const struct stp_train_bars *b = g->b;
    struct stp_train_where where = {{NULL}};
    struct bar bar;

    set_like(&where, b->row, g->rows.like[p->row]);
    set_like(&where, b->column, g->columns.like[p->column]);
    set_like(&where, b->group, g->groups.like[group]);
    set_like(&where, b->series, g->series.like[series]);
    if (!stp_train_find_cell(&g->d->view, &where, &bar.cell))
        return false;
    if (b->several && bar.cell.run->n_gpus == 1)
        return false;
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

/* With its interval, but one that is much longer is cut off. */
static double bar_top(const struct bar *bar)
{
    return fmin(bar->high, bar->value * MOST_INTERVAL);
}

static struct panel find_panel(const struct grid *g, size_t row, size_t column)
{
    struct panel p = {.row = row, .column = column};

    for (size_t k = 0; k < g->groups.n; k++) {
        double highest = 0;
        size_t n = 0;

        for (size_t s = 0; s < g->series.n; s++) {
            struct bar bar;

            if (!find_bar(g, &p, k, s, &bar))
                continue;
            highest = fmax(highest, bar_top(&bar));
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

/* Takes away rows or columns in which nothing is drawn. */
static void drop_empty(struct grid *g, struct stp_train_levels *levels)
{
    const bool rows = levels == &g->rows;
    const struct stp_train_levels *others = rows ? &g->columns : &g->rows;

    for (size_t i = levels->n; i-- > 0;) {
        bool empty = true;

        for (size_t k = 0; k < others->n && empty; k++)
            empty = find_panel(g, rows ? i : k, rows ? k : i).n == 0;
        if (!empty)
            continue;
        levels->n--;
        memmove(&levels->like[i], &levels->like[i + 1],
                (levels->n - i) * sizeof(levels->like[0]));
    }
}

/* Whole seconds, milliseconds of short epochs, thousands of many samples. */
static void find_unit(struct grid *g)
{
    double highest = 0;

    for (size_t r = 0; r < g->rows.n; r++)
        for (size_t c = 0; c < g->columns.n; c++)
            highest = fmax(highest, find_panel(g, r, c).highest);
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

static struct grid find_grid(const struct stp_train_drawing *d,
                             const struct stp_train_bars *b)
{
    struct grid g = {.d = d,
                     .b = b,
                     .rows = stp_train_levels_of(&d->view, b->row),
                     .columns = stp_train_levels_of(&d->view, b->column),
                     .groups = stp_train_levels_of(&d->view, b->group),
                     .series = stp_train_levels_of(&d->view, b->series)};

    drop_empty(&g, &g.rows);
    drop_empty(&g, &g.columns);
    find_unit(&g);
    return g;
}

bool stp_train_has_bars(const struct stp_train_view *view,
                        const struct stp_train_bars *bars)
{
    const struct stp_train_drawing d = {.view = *view};

    return find_grid(&d, bars).rows.n > 0;
}

/* ---- what stands above bars ---- */

/* The first of the group. */
static bool find_base(const struct grid *g, const struct panel *p, size_t group,
                      size_t series, struct bar *base)
{
    for (size_t s = 0; s < series; s++)
        if (find_bar(g, p, group, s, base))
            return true;
    return false;
}

/* Three digits that count. */
static void write_value(double value, FILE *fp)
{
    fprintf(fp, "\"%.*f\"", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
}

static void write_note(const struct grid *g, const struct panel *p,
                       size_t group, size_t series, const struct bar *bar,
                       FILE *fp)
{
    struct bar base;

    if (g->b->stacked)
        fprintf(fp, "\"%.0f%%\"", 100 * bar->cell.exposed / bar->cell.mean);
    else if (g->b->throughput)
        write_value(bar->value / g->unit, fp);
    else if (find_base(g, p, group, series, &base))
        fprintf(fp, "\"%.2fx\"", base.cell.mean / bar->cell.mean);
    else
        fputs("\"\"", fp);
}

/* ---- scripts ---- */

/* From the middle of one group to that of the next is 1. */
static double bar_width(const struct panel *p)
{
    return 0.84 / (double)p->most;
}

/* The middle: the bars that there are stand together. */
static double bar_x(const struct grid *g, const struct panel *p, size_t at,
                    size_t series)
{
    size_t before = 0, n = 0;

    for (size_t s = 0; s < g->series.n; s++) {
        struct bar bar;

        if (!find_bar(g, p, p->groups[at], s, &bar))
            continue;
        before += s < series;
        n++;
    }
    return (double)at + bar_width(p) * ((double)before - 0.5 * (double)(n - 1));
}

/* Few bars need not be as wide as the panel: room on either side. */
static double bar_room(const struct panel *p)
{
    const size_t n = p->n * p->most;

    return n < FEW ? 0.5 * (double)(FEW - n) / (double)p->most : 0;
}

/* In pixels. */
static double bar_pixels(const struct panel *p,
                         const struct stp_train_page *page)
{
    return stp_train_panel_width(page) * bar_width(p) /
           ((double)p->n + 0.2 + 2 * bar_room(p));
}

/* Time without the last k parts, of which each hides what is below. */
static void write_stack(const struct grid *g, const struct bar *bar, FILE *fp)
{
    const double total = bar->cell.mean;
    const double exposed = fmin(bar->cell.exposed, total);
    const double hidden =
        fmin(fmax(0, bar->cell.comm - exposed), total - exposed);

    fprintf(fp, "%.6g %.6g ", (total - exposed - hidden) / g->unit,
            (total - exposed) / g->unit);
}

/* Place, heights, interval, and what stands above and where. */
static void write_data(const struct grid *g, const struct panel *p,
                       size_t series, FILE *fp)
{
    fprintf(fp, "$d%zu_%zu_%zu << EOD\n", p->row, p->column, series);
    for (size_t k = 0; k < p->n; k++) {
        struct bar bar;

        if (!find_bar(g, p, p->groups[k], series, &bar))
            continue;
        fprintf(fp, "%.4g ", bar_x(g, p, k, series));
        if (g->b->stacked)
            write_stack(g, &bar, fp);
        fprintf(fp, "%.6g %.6g %.6g %.6g ", bar.value / g->unit,
                bar.low / g->unit, bar.high / g->unit, bar_top(&bar) / g->unit);
        write_note(g, p, p->groups[k], series, &bar, fp);
        fputc('\n', fp);
    }
    fputs("EOD\n", fp);
}

static bool has_series(const struct grid *g, size_t series)
{
    for (size_t r = 0; r < g->rows.n; r++)
        for (size_t c = 0; c < g->columns.n; c++) {
            const struct panel p = find_panel(g, r, c);
            struct bar bar;

            for (size_t k = 0; k < p.n; k++)
                if (find_bar(g, &p, p.groups[k], series, &bar))
                    return true;
        }
    return false;
}

static void write_axes(const struct grid *g, const struct panel *p, FILE *fp)
{
    const bool gpus = g->b->group == STP_DIM_GPUS;

    fprintf(fp, "set grid noxtics\nset xlabel '%s' offset 0,0.4\n",
            !gpus                                             ? ""
            : stp_train_on_cpus(g->groups.like[p->groups[0]]) ? "Processes"
                                                              : "GPUs");
    fprintf(fp, "set xtics scale 0 %s (",
            g->b->group == STP_DIM_MODE ? "rotate by 25 right font ',11'" : "");
    for (size_t k = 0; k < p->n; k++) {
        const struct stp_train_run *like = g->groups.like[p->groups[k]];
        char label[STP_TRAIN_LABEL];

        stp_train_level_label(g->b->group, like, label);
        if (gpus)
            snprintf(label, sizeof(label), "%u", like->n_gpus);
        fputs(k > 0 ? ", " : "", fp);
        stp_gnuplot_quote(label, fp);
        fprintf(fp, " %zu", k);
    }
    fprintf(fp,
            ")\nset xrange [%.6g:%.6g]\nset yrange [0:%.6g]\n"
            "set boxwidth %.6g absolute\n",
            -0.6 - bar_room(p), (double)p->n - 0.4 + bar_room(p),
            p->highest / g->unit * 1.28, bar_width(p) * 0.92);
}

/* The boxes of a series, its intervals and what stands above. */
static void write_series(const struct grid *g, const struct panel *p,
                         size_t series, double pixels, FILE *fp)
{
    const size_t first = g->b->stacked ? 4 : 2; /* column of the value */
    char data[64];

    snprintf(data, sizeof(data), "$d%zu_%zu_%zu", p->row, p->column, series);
    for (size_t k = g->b->stacked ? PARTS : 1; k-- > 0;)
        fprintf(fp, "%s using 1:%zu with boxes linecolor rgb '%s', \\\n     ",
                data, 2 + k,
                g->b->stacked ? parts[k].colour : stp_plot_colour(series + 1));
    fprintf(fp, /* error bars would come with a gap for their point */
            "%s using 1:%zu:(0):($%zu-$%zu) with vectors heads size screen "
            "0.003,90 linecolor rgb '#333333'",
            data, first + 1, first + 2, first + 1);
    if (pixels >= THIN)
        fprintf(fp, ", \\\n     %s using 1:%zu:%zu with labels %s font ',10'",
                data, first + 3, first + 4,
                pixels < NARROW ? "rotate by 90 left offset 0,0.4"
                                : "offset 0,0.7");
}

static void write_panel(const struct grid *g, const struct stp_train_page *page,
                        const struct panel *p, FILE *fp)
{
    const struct stp_train_run *row = g->rows.like[p->row];
    const struct stp_train_run *column = g->columns.like[p->column];
    char title[2 * STP_TRAIN_LABEL + 2];
    char label[2][STP_TRAIN_LABEL];
    const char *comma = "";

    stp_train_level_label(g->b->column, column, label[0]);
    stp_train_level_label(g->b->row, row, label[1]);
    snprintf(title, sizeof(title), "%s%s%s", label[0],
             label[0][0] && label[1][0] ? ", " : "", label[1]);
    stp_train_page_panel(page, p->row, p->column, title, fp);
    write_axes(g, p, fp);
    fputs("plot ", fp);
    for (size_t s = 0; s < g->series.n; s++) {
        struct bar bar;
        bool any = false;

        for (size_t k = 0; k < p->n && !any; k++)
            any = find_bar(g, p, p->groups[k], s, &bar);
        if (!any) /* gnuplot draws no empty block */
            continue;
        fputs(comma, fp);
        write_series(g, p, s, bar_pixels(p, page), fp);
        comma = ", \\\n     ";
    }
    fputc('\n', fp);
}

static size_t find_keys(const struct grid *g,
                        struct stp_train_key keys[STP_TRAIN_LEVELS])
{
    size_t n = 0;

    if (g->b->stacked) {
        for (; n < PARTS; n++) /* as they stand, the top one first */
            keys[n] = parts[PARTS - 1 - n];
        return n;
    }
    for (size_t s = 0; s < g->series.n; s++) {
        if (!has_series(g, s))
            continue;
        stp_train_level_label(g->b->series, g->series.like[s], keys[n].label);
        keys[n].point = 0;
        keys[n++].colour = stp_plot_colour(s + 1);
    }
    return n;
}

static void write_all_data(const struct grid *g, FILE *fp)
{
    for (size_t r = 0; r < g->rows.n; r++)
        for (size_t c = 0; c < g->columns.n; c++) {
            const struct panel p = find_panel(g, r, c);

            for (size_t s = 0; s < g->series.n && p.n > 0; s++)
                write_data(g, &p, s, fp);
        }
}

void stp_train_write_bars(const struct stp_train_drawing *drawing,
                          const struct stp_train_bars *bars, FILE *fp)
{
    const struct grid g = find_grid(drawing, bars);
    struct stp_train_key keys[STP_TRAIN_LEVELS];
    char how[STP_TRAIN_LABEL];
    const struct stp_train_page page = {
        .view = &drawing->view,
        .title = drawing->title,
        .what = drawing->what,
        .how = how,
        .bars = bars->above,
        .y = g.unit_name,
        .n_rows = g.rows.n,
        .n_columns = g.columns.n,
        .keys = keys,
        .n_keys = find_keys(&g, keys),
        .format = drawing->format,
    };

    stp_train_say_how(&drawing->view,
                      bars->series == STP_DIM_MODE ||
                          bars->group == STP_DIM_MODE,
                      bars->series == STP_DIM_GA, how);
    stp_train_page_begin(&page, fp);
    write_all_data(&g, fp);
    for (size_t r = 0; r < g.rows.n; r++)
        for (size_t c = 0; c < g.columns.n; c++) {
            const struct panel p = find_panel(&g, r, c);

            if (p.n > 0)
                write_panel(&g, &page, &p, fp);
        }
    fputs("unset multiplot\n", fp);
}
