/* train_charts.c - the charts of training */
#include "report/training/train_charts.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "core/room.h"
#include "core/text.h"
#include "report/training/train_points.h"
#include "report/words.h"

extern const char stp_train_page_gp[];
extern const char stp_train_bars_gp[];
extern const char stp_train_scaling_gp[];
extern const char stp_train_loss_gp[];

enum {
    COLUMNS = 3,                    /* of panels with lines */
    SOURCE = 210,                   /* letters of a machine that are shown */
    SOURCES = 3 * (SOURCE + 3) + 1, /* of three */
};

/* The end of an interval over its value, from which on axes cut it off. */
#define MOST_INTERVAL 1.6

#define ENDS      "; ends: 95% intervals over epochs"
#define SPEED_UPS "; above: speed-up over the first bar" ENDS

#define BARS "panel\tgroup\tseries\tx\tvalue\tlow\thigh\thue\tnote"

/* Bars of a series side by side, by GPUs, in panels by size and precision. */
#define BY(series)                                                             \
    {                                                                          \
        STP_DIM_PRECISION, STP_DIM_SIZE, STP_DIM_GPUS, series                  \
    }

// clang-format off
static const struct train_kind {
    const char *name, *heading;
    const char *without; /* why there is none */
    struct stp_train_points_of points;
    const char *template, *columns;
    const char *notes; /* explain the texts above bars, and their ends */
    bool each_size, largest, of_models;
} kinds[] = {
    {"train_precision", "Training: epoch time by precision",
        "no two precisions of one model on as many GPUs",
        {{STP_DIM_NONE, STP_DIM_SIZE, STP_DIM_GPUS, STP_DIM_PRECISION},
         STP_VALUE_TIME, .least = 2},
        stp_train_bars_gp, BARS, .notes = SPEED_UPS},
    {"train_scaling", "Training: scaling",
        "no run on one GPU beside one on several of the same model and "
        "precision",
        {{STP_DIM_NONE, STP_DIM_PRECISION, STP_DIM_GPUS, STP_DIM_SIZE},
         STP_VALUE_SPEED_UP, .least = 1},
        stp_train_scaling_gp, "panel\tsize\tgpus\tspeed_up\tlow\thigh",
        .notes = ENDS},
    {"train_accumulation",
        "Training: epoch time by micro-batches of a step (GA)",
        "no two numbers of micro-batches (`steptune train --ga`) of one model, "
        "precision, mode and number of GPUs",
        {BY(STP_DIM_GA), STP_VALUE_TIME, .least = 2},
        stp_train_bars_gp, BARS,
        .notes = "; gradients are sent once a step" SPEED_UPS},
    {"train_overhead", "Training: what an epoch's time is made of",
        "no run on several GPUs whose time of communication is known",
        {{STP_DIM_PRECISION, STP_DIM_GPUS, STP_DIM_MODE, STP_DIM_NONE},
         STP_VALUE_PARTS, .least = 1, .several = true},
        stp_train_bars_gp, BARS "\twithout_exposed\tcompute_alone\tcomm",
        "; hidden: computing meanwhile; above: all communication, and the "
        "share of the epoch exposed", .each_size = true},
    {"train_loss", "Training: loss",
        "no run of two epochs or more with losses",
        {{STP_DIM_NONE, STP_DIM_PRECISION, STP_DIM_NONE,
          STP_DIM_MODE_AND_GPUS}, STP_VALUE_LOSS, .least = 1},
        stp_train_loss_gp, "panel\tmode, gpus\tepoch\tloss", "",
        .largest = true},
    {"train_modes", "Training: epoch time by mode",
        "no two modes of one model, precision and number of GPUs",
        {BY(STP_DIM_MODE), STP_VALUE_TIME, .least = 2, .several = true},
        stp_train_bars_gp, BARS, .notes = SPEED_UPS},
    {"train_throughput", "Training: throughput",
        "no run whose number of samples is known",
        {BY(STP_DIM_MODE), STP_VALUE_THROUGHPUT, .least = 1},
        stp_train_bars_gp, BARS, .notes = ENDS},
    {"train_hardware", "Training: epoch time by hardware",
        "no two models of GPU that ran the same (give the files of each)",
        {BY(STP_DIM_MODEL), STP_VALUE_TIME, .least = 2},
        stp_train_bars_gp, BARS, .notes = SPEED_UPS, .of_models = true},
};
// clang-format on

/* gnuplot's types of the points, as the templates have them. */
static const int point_types[] = {7, 5, 9, 13, 11, 15};

/* ---- which there are ---- */

/* Adds a chart, or the reason why it is left out if it has no points. */
static void train_chart_add(struct stp_train_charts *charts,
                            const struct stp_train_runs *runs, int kind,
                            const char *size)
{
    const struct stp_train_view view = stp_train_view_of(runs, size);
    struct stp_train_points points =
        stp_train_points_find(&view, &kinds[kind].points);

    charts->all[charts->n++] = (struct stp_train_chart){
        kind, size, points.n > 0 ? NULL : kinds[kind].without};
    stp_train_points_free(&points);
}

struct stp_train_charts stp_train_charts_find(const struct stp_train_runs *runs)
{
    const struct stp_train_view view = stp_train_view_of(runs, NULL);
    const struct stp_train_levels sizes =
        stp_train_levels_of(&view, STP_DIM_SIZE);
    const bool several = stp_train_levels_of(&view, STP_DIM_MODEL).n > 1;
    struct stp_train_charts charts = {.n = 0};

    for (size_t i = 0; i < runs->n; i++)
        charts.n_runs_aside += !stp_train_in_view(&view, &runs->runs[i]);
    for (int k = 0; k < (int)STP_N_OF(kinds); k++) {
        const size_t before = charts.n;
        struct stp_train_chart *whole = &charts.all[before], largest;

        train_chart_add(&charts, runs, k, NULL);
        if (several && !kinds[k].of_models)
            whole->why = "results of several models of GPU, expected one";
        if (whole->why != NULL || !(kinds[k].each_size || kinds[k].largest))
            continue;
        /* A chart of each size, or one of the largest size that has points. */
        charts.n = before;
        largest = *whole;
        for (size_t i = 0; i < sizes.n; i++) {
            train_chart_add(&charts, runs, k, sizes.like[i]->size);
            if (!kinds[k].largest)
                continue;
            if (charts.all[before].why == NULL)
                largest = charts.all[before];
            charts.n = before;
        }
        if (kinds[k].largest)
            charts.all[charts.n++] = largest;
    }
    return charts;
}

/* ---- names ---- */

void stp_train_chart_name(const struct stp_train_chart *chart,
                          char name[STP_TRAIN_CHART_NAME])
{
    const char *size = kinds[chart->kind].each_size ? chart->size : NULL;
    size_t len = (size_t)snprintf(name, STP_TRAIN_CHART_NAME, "%s",
                                  kinds[chart->kind].name);
    bool gap = true;

    /* letters and digits, with an underscore for all between them */
    for (; size != NULL && *size != '\0' && len + 3 < STP_TRAIN_CHART_NAME;
         size++) {
        const bool plain = isalnum((unsigned char)*size) != 0;

        if (plain && gap)
            name[len++] = '_';
        if (plain)
            name[len++] = *size;
        gap = !plain;
    }
    name[len] = '\0';
}

bool stp_train_results_begin(const char *path)
{
    char text[4096];
    FILE *fp = fopen(path, "r");
    size_t n = 0;

    if (fp == NULL)
        return false;
    n = fread(text, 1, sizeof(text) - 1, fp);
    fclose(fp);
    text[n] = '\0';
    return text[strspn(text, " \t\r\n")] == '[' &&
           strstr(text, "\"n_gpus\"") != NULL &&
           strstr(text, "\"mode\"") != NULL;
}

/* Names the machine of each model of GPU by its run on the most GPUs, as runs
 * on fewer use a part of it. */
static void train_view_source(const struct stp_train_view *view,
                              char text[SOURCES])
{
    const struct stp_train_levels models =
        stp_train_levels_of(view, STP_DIM_MODEL);

    text[0] = '\0';
    for (size_t m = 0; m < models.n; m++) {
        const struct stp_train_run *widest = models.like[m];
        const char *end;

        for (size_t i = 0; i < view->runs->n; i++) {
            const struct stp_train_run *r = &view->runs->runs[i];

            if (stp_train_in_view(view, r) && r->n_gpus > widest->n_gpus &&
                strcmp(r->gpu, widest->gpu) == 0)
                widest = r;
        }
        /* what follows a sentence is of all modelled machines */
        end = strstr(widest->made_by, ". ");
        stp_append(text, SOURCES, "%s%.*s", m > 0 ? " | " : "",
                   end != NULL && end - widest->made_by < SOURCE
                       ? (int)(end - widest->made_by)
                       : SOURCE,
                   widest->made_by);
    }
}

/* ---- the page ---- */

/* A chart of panels that is being put together. */
struct train_page {
    const struct train_kind *kind;
    struct stp_train_view view;
    struct stp_train_points points;
    bool drawn[STP_TRAIN_LEVELS]; /* series that have a point */
    size_t n_drawn;
    struct stp_chart *chart;
    double unit; /* divides all values */
    size_t n_panels, n_keys, n_lines;
};

/* Sets the source, the title, and its second line, which names the mode and the
 * micro-batches unless they are compared. */
static void page_set_words(struct train_page *page)
{
    const struct stp_train_view *view = &page->view;
    const struct stp_train_levels models =
        stp_train_levels_of(view, STP_DIM_MODEL);
    char text[SOURCES + 6 * STP_TRAIN_LABEL], label[STP_TRAIN_LABEL] = "";
    const char *origin = NULL, *partly = ""; /* of times, unless measured */
    bool compares_ga = false, compares_modes = false;

    train_view_source(view, text);
    stp_chart_text(page->chart, "source", text);
    if (view->size != NULL)
        stp_train_level_label(STP_DIM_SIZE, view->step, label);
    snprintf(text, sizeof(text), "%s%s%.50s, ", page->kind->heading,
             label[0] ? ", " : "", label);
    for (size_t i = 0; i < models.n; i++)
        stp_append(text, sizeof(text), "%s%s", stp_list_sign(i, models.n),
                   models.like[i]->gpu);
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        const char *its = stp_source_name(r->source);

        if (!stp_train_in_view(view, r))
            continue;
        if (r->source == STP_SOURCE_MEASURED)
            partly = "partly ";
        else if (origin == NULL || strcmp(its, origin) == 0)
            origin = its;
        else
            origin = "recorded or modelled";
    }
    if (origin != NULL)
        stp_append(text, sizeof(text), " (%s%s, not measured)", partly, origin);
    stp_chart_text(page->chart, "title", text);
    for (int i = 0; i < STP_TRAIN_PLACES; i++) {
        const enum stp_train_dim dim = page->kind->points.dims[i];

        compares_ga |= dim == STP_DIM_GA;
        compares_modes |= dim == STP_DIM_MODE || dim == STP_DIM_MODE_AND_GPUS;
    }
    stp_train_level_label(STP_DIM_GA, compares_ga ? NULL : view->step, label);
    snprintf(text, sizeof(text), "%s%s%s", compares_modes ? "" : view->mode,
             compares_modes || compares_ga ? "" : ", ", label);
    if (view->step->n_samples > 0)
        stp_append(text, sizeof(text), ", %u samples an epoch",
                   view->step->n_samples);
    stp_append(text, sizeof(text), "%s", page->kind->notes);
    stp_chart_text(page->chart, "how", text);
}

/* Adds an entry of the key: a hue, with points of gnuplot's type (0: none). */
static void page_add_key(struct train_page *page, const char *label, size_t hue,
                         int point)
{
    const size_t k = page->n_keys++;

    stp_chart_text_at(page->chart, "keys", k, label);
    stp_chart_set(page->chart, "key_hues[%zu] = %zu\nkey_points[%zu] = %d",
                  k + 1, hue, k + 1, point);
}

/* Finds the hue and the points of a series. A series of modes and GPUs has the
 * hue of its mode and the points of its GPUs. */
static size_t page_find_hue(const struct train_page *page, size_t series,
                            size_t *shape_ret)
{
    const struct stp_train_run *like =
        page->points.levels[STP_AT_SERIES].like[series];
    const struct stp_train_levels modes =
        stp_train_levels_of(&page->view, STP_DIM_MODE);
    const struct stp_train_levels gpus =
        stp_train_levels_of(&page->view, STP_DIM_GPUS);

    *shape_ret = series;
    if (page->kind->points.dims[STP_AT_SERIES] != STP_DIM_MODE_AND_GPUS)
        return series + 1;
    *shape_ret = stp_train_level_of(&gpus, STP_DIM_GPUS, like);
    return stp_train_level_of(&modes, STP_DIM_MODE, like) + 1;
}

/* The end of a bar's interval; an axis does not reach the end of a long one. */
static double page_top(const struct stp_train_point *p)
{
    return fmin(p->high, p->value * MOST_INTERVAL);
}

/* ---- bars ---- */

/* Writes the text above a bar. A bar of parts also gets its heights without
 * exposed and without any communication, and the communication. */
static void bars_write_note(const struct train_page *page,
                            const struct stp_train_point *first,
                            const struct stp_train_point *bar)
{
    const double value = bar->value / page->unit;
    const double exposed = fmin(bar->exposed, bar->total);
    const double hidden =
        fmin(fmax(0, bar->comm - exposed), bar->total - exposed);
    FILE *fp = page->chart->data;

    if (page->kind->points.value == STP_VALUE_PARTS)
        fprintf(fp, "%.0f%%\t%.6g\t%.6g\t%.6g", 100 * bar->exposed / bar->total,
                (bar->total - exposed) / page->unit,
                (bar->total - exposed - hidden) / page->unit,
                bar->comm / page->unit);
    else if (page->kind->points.value == STP_VALUE_THROUGHPUT)
        fprintf(fp, "%.*f", value >= 100 ? 0 : value >= 10 ? 1 : 2, value);
    else if (first != bar)
        fprintf(fp, "%.2fx", first->total / bar->total);
    fputc('\n', fp);
}

/* Writes the panel at a row and column of levels.  The bars of a group stand
 * together, whichever series it has. */
static void bars_write_panel(struct train_page *page, size_t row, size_t column)
{
    const struct stp_train_points *points = &page->points;
    const enum stp_train_dim *dims = page->kind->points.dims;
    const struct stp_train_levels *series = &points->levels[STP_AT_SERIES];
    FILE *fp = page->chart->data;
    size_t n_bars[STP_TRAIN_LEVELS] = {0}, most = 0, group = 0;
    char label[STP_TRAIN_LABEL], words[512] = "";
    double highest = 0;

    for (size_t x = 0; x < points->n_x; x++)
        for (size_t s = 0; s < series->n; s++) {
            const struct stp_train_point *bar =
                stp_train_point_at(points, row, column, x, s);

            if (bar->run == NULL)
                continue;
            most = ++n_bars[x] > most ? n_bars[x] : most;
            highest = fmax(highest, page_top(bar));
        }
    stp_chart_block(page->chart);
    for (size_t x = 0; x < points->n_x; x++) {
        const struct stp_train_point *first = NULL;
        const double width = 0.84 / (double)most;
        double i = -0.5 * (double)(n_bars[x] - 1); /* widths off the middle */

        for (size_t s = 0; s < series->n; s++) {
            const struct stp_train_point *bar =
                stp_train_point_at(points, row, column, x, s);

            if (bar->run == NULL)
                continue;
            first = first != NULL ? first : bar;
            fprintf(fp, "%zu\t", page->n_panels);
            stp_train_level_label(dims[STP_AT_X], bar->run, label);
            stp_chart_field(page->chart, label);
            stp_train_level_label(dims[STP_AT_SERIES], series->like[s], label);
            stp_chart_field(page->chart, label);
            fprintf(fp, "%.4g\t%.6g\t%.6g\t%.6g\t%zu\t",
                    (double)group + width * i++, bar->value / page->unit,
                    bar->low / page->unit, bar->high / page->unit, s + 1);
            bars_write_note(page, first, bar);
        }
        if (first == NULL)
            continue;
        snprintf(label, sizeof(label), "%u", first->run->n_gpus);
        stp_append(words, sizeof(words), "%s%s", group++ > 0 ? " " : "",
                   dims[STP_AT_X] == STP_DIM_GPUS ? label : first->run->mode);
    }
    stp_chart_text_at(page->chart, "groups", page->n_panels - 1, words);
    stp_chart_set(page->chart, "most[%zu] = %zu\ntops[%zu] = %.10g",
                  page->n_panels, most, page->n_panels, highest / page->unit);
}

/* ---- lines ---- */

/* ", at most 5.3% apart, accuracy 0.11 to 0.12": how far the losses of all
 * lines are apart in an epoch, and the accuracy after the last. */
static void lines_print_spread(const struct stp_train_points *points,
                               size_t column, char text[STP_TRAIN_LABEL])
{
    double least = INFINITY, greatest = -INFINITY, spread = 0;
    char from[16], to[16];

    for (size_t x = 0; x < points->n_x; x++) {
        double low = INFINITY, high = -INFINITY;

        for (size_t s = 0; s < points->levels[STP_AT_SERIES].n; s++) {
            const struct stp_train_point *p =
                stp_train_point_at(points, 0, column, x, s);

            if (p->run == NULL)
                continue;
            low = fmin(low, p->value);
            high = fmax(high, p->value);
            least = fmin(least, p->run->accuracy);
            greatest = fmax(greatest, p->run->accuracy);
        }
        if (low <= high)
            spread = fmax(spread, 100 * (high / low - 1));
    }
    snprintf(text, STP_TRAIN_LABEL, ", at most %.2g%% apart", spread);
    snprintf(from, sizeof(from), "%.3f", least);
    snprintf(to, sizeof(to), "%.3f", greatest);
    if (least <= greatest)
        stp_append(text, STP_TRAIN_LABEL, ", accuracy %s%s%s", from,
                   strcmp(from, to) != 0 ? " to " : "",
                   strcmp(from, to) != 0 ? to : "");
}

/* Writes the lines of a column, a block each; raises *highest to their end. */
static void lines_write_panel(struct train_page *page, size_t column,
                              double *highest)
{
    const struct stp_train_points *points = &page->points;
    const bool losses = page->kind->points.value == STP_VALUE_LOSS;
    const size_t before = page->n_lines, n = points->levels[STP_AT_SERIES].n;
    size_t rank = 0, shape; /* of the drawn series */

    for (size_t s = 0; s < n; s++) {
        bool begun = false;

        rank += s > 0 && page->drawn[s - 1];
        for (size_t x = 0; x < points->n_x; x++) {
            const struct stp_train_point *p =
                stp_train_point_at(points, 0, column, x, s);
            const struct stp_train_run *r = p->run;

            if (r == NULL)
                continue;
            if (!begun) {
                const size_t line = ++page->n_lines;

                stp_chart_set(page->chart, "hues[%zu] = %zu", line,
                              page_find_hue(page, s, &shape));
                stp_chart_set(page->chart, "shapes[%zu] = %zu", line, shape);
                stp_chart_set(page->chart, "thickness[%zu] = %.10g", line,
                              (double)(page->n_drawn - 1 - rank) /
                                  (double)page->n_drawn);
                stp_chart_block(page->chart);
                begun = true;
            }
            fprintf(page->chart->data, "%zu\t", page->n_panels);
            if (losses)
                fprintf(page->chart->data, "%s, %u\t%zu\t%.8g\n", r->mode,
                        r->n_gpus, x + 1, p->value);
            else
                fprintf(page->chart->data, "%s\t%u\t%.6g\t%.6g\t%.6g\n",
                        r->size, r->n_gpus, p->value, p->low, p->high);
            *highest = fmax(*highest, fmin(p->high, p->value * 1.3));
        }
    }
    stp_chart_set(page->chart, "first[%zu] = %zu\ncount[%zu] = %zu",
                  page->n_panels, before + 1, page->n_panels,
                  page->n_lines - before);
}

/* ---- the chart ---- */

/* Writes the panels that have a point, with their titles, row by row. */
static void page_write_panels(struct train_page *page, bool lined,
                              double *highest)
{
    const struct stp_train_points *points = &page->points;
    const struct stp_train_levels *rows = &points->levels[STP_AT_ROW];
    const struct stp_train_levels *columns = &points->levels[STP_AT_COLUMN];
    const size_t per_panel = points->n_x * points->levels[STP_AT_SERIES].n;
    size_t number[STP_TRAIN_LEVELS] = {0}; /* of each column, from 1 */
    size_t n_rows = 0, n_columns = 0;
    char title[3 * STP_TRAIN_LABEL], label[STP_TRAIN_LABEL];

    for (size_t c = 0; c < columns->n; c++)
        for (size_t i = 0; i < rows->n * per_panel && number[c] == 0; i++)
            if (stp_train_point_at(points, i / per_panel, c, 0,
                                   0)[i % per_panel]
                    .run != NULL)
                number[c] = ++n_columns;
    for (size_t r = 0; r < rows->n; r++) {
        const size_t before = page->n_panels;

        for (size_t c = 0; c < columns->n; c++) {
            const struct stp_train_point *first =
                stp_train_point_at(points, r, c, 0, 0);
            size_t i = 0, p = page->n_panels;

            while (i < per_panel && first[i].run == NULL)
                i++;
            if (i == per_panel)
                continue;
            stp_train_level_label(page->kind->points.dims[STP_AT_ROW],
                                  rows->like[r], label);
            stp_train_level_label(page->kind->points.dims[STP_AT_COLUMN],
                                  columns->like[c], title);
            snprintf(title + strlen(title), 2 * STP_TRAIN_LABEL, "%s%s",
                     title[0] && label[0] ? ", " : "", label);
            if (page->kind->points.value == STP_VALUE_LOSS) {
                lines_print_spread(points, c, label);
                strcat(title, label);
            }
            page->n_panels++;
            stp_chart_text_at(page->chart, "titles", p, title);
            stp_chart_set(page->chart, "rows[%zu] = %zu\ncolumns[%zu] = %zu",
                          p + 1, lined ? p / COLUMNS : n_rows, p + 1,
                          lined ? p % COLUMNS : number[c] - 1);
            if (lined)
                lines_write_panel(page, c, highest);
            else
                bars_write_panel(page, r, c);
        }
        n_rows += page->n_panels > before;
    }
    if (lined) {
        n_rows = (page->n_panels + COLUMNS - 1) / COLUMNS;
        n_columns = page->n_panels < COLUMNS ? page->n_panels : COLUMNS;
    }
    stp_chart_set(page->chart, "n_panels = %zu\nn_rows = %zu\nn_columns = %zu",
                  page->n_panels, n_rows, n_columns);
}

/* Writes the key: the parts of a bar, top one first, or each series drawn. */
static void page_write_keys(struct train_page *page, bool lined)
{
    const enum stp_train_dim dim = page->kind->points.dims[STP_AT_SERIES];
    const struct stp_train_levels *series = &page->points.levels[STP_AT_SERIES];
    char label[STP_TRAIN_LABEL];
    size_t shape;

    stp_chart_arrays(page->chart, series->n + 3, "keys key_hues key_points");
    if (page->kind->points.value == STP_VALUE_PARTS) {
        page_add_key(page, "exposed comm.", 1, 0);
        page_add_key(page, "hidden comm.", 6, 0);
        page_add_key(page, "compute alone", 2, 0);
    }
    for (size_t s = 0; s < series->n && dim != STP_DIM_NONE; s++) {
        const size_t hue = page_find_hue(page, s, &shape);

        if (!page->drawn[s])
            continue;
        stp_train_level_label(dim, series->like[s], label);
        page_add_key(page, label, hue, lined ? point_types[shape % 6] : 0);
    }
    if (page->kind->points.value == STP_VALUE_SPEED_UP)
        page_add_key(page, "ideal", 7, 0);
    stp_chart_set(page->chart, "n_keys = %zu", page->n_keys);
}

static void page_write(struct train_page *page)
{
    const enum stp_train_value value = page->kind->points.value;
    const bool losses = value == STP_VALUE_LOSS;
    const bool lined = losses || value == STP_VALUE_SPEED_UP;
    const bool cpus = stp_train_on_cpus(page->view.step);
    const struct stp_train_points *points = &page->points;
    const size_t n_series = points->levels[STP_AT_SERIES].n;
    const size_t n_panels =
        points->levels[STP_AT_ROW].n * points->levels[STP_AT_COLUMN].n;
    const char *y_title = value == STP_VALUE_THROUGHPUT ? "Samples/s"
                          : losses ? "Training loss, mean of all ranks"
                          : !lined ? "Epoch time (s)"
                          : cpus   ? "Speed-up over one process"
                                   : "Speed-up over one GPU";
    double highest = 0;

    for (size_t i = 0; i < n_panels * points->n_x * n_series; i++)
        if (points->all[i].run != NULL) {
            page->drawn[i % n_series] = true;
            highest = fmax(highest, page_top(&points->all[i]));
        }
    for (size_t s = 0; s < n_series; s++)
        page->n_drawn += page->drawn[s];
    if (value == STP_VALUE_THROUGHPUT && highest >= 1e4) {
        page->unit = 1e3;
        y_title = "Thousand samples/s";
    } else if (value != STP_VALUE_THROUGHPUT && !lined && highest < 1) {
        page->unit = 1e-3; /* of short epochs */
        y_title = "Epoch time (ms)";
    }
    page_set_words(page);
    stp_chart_arrays(page->chart, n_panels,
                     "titles rows columns first count groups most tops");
    if (lined)
        stp_chart_arrays(page->chart, n_panels * n_series,
                         "hues shapes thickness");
    highest = 0;
    if (value == STP_VALUE_SPEED_UP) { /* beside the ideal, up to all GPUs */
        const struct stp_train_levels *gpus = &points->levels[STP_AT_X];

        stp_chart_arrays(page->chart, gpus->n, "gpus");
        for (size_t i = 0; i < gpus->n; i++)
            stp_chart_set(page->chart, "gpus[%zu] = %u", i + 1,
                          gpus->like[i]->n_gpus);
        highest = gpus->like[gpus->n - 1]->n_gpus;
        stp_chart_block(page->chart);
        fprintf(page->chart->data,
                "0\tideal\t1\t1\t1\t1\n0\tideal\t%g\t%g\t%g\t%g\n", highest,
                highest, highest, highest);
    }
    page_write_panels(page, lined, &highest);
    page_write_keys(page, lined);
    stp_chart_set(page->chart,
                  "lined = %d\nhighest = %.10g\nn_epochs = %zu\nstacked = %d\n"
                  "slanted = %d",
                  lined, highest, points->n_x, value == STP_VALUE_PARTS,
                  page->kind->points.dims[STP_AT_X] == STP_DIM_MODE);
    stp_chart_text(page->chart, "unit", page->unit < 1 ? "ms" : "s");
    stp_chart_text(page->chart, "y_title", y_title);
    stp_chart_text(page->chart, "x_title",
                   losses                                              ? "Epoch"
                   : page->kind->points.dims[STP_AT_X] != STP_DIM_GPUS ? ""
                   : cpus ? "Processes"
                          : "GPUs");
}

void stp_train_chart_make(const struct stp_train_runs *runs,
                          const struct stp_train_chart *chart,
                          struct stp_chart *chart_ret)
{
    struct train_page page = {.kind = &kinds[chart->kind],
                              .view = stp_train_view_of(runs, chart->size),
                              .chart = chart_ret,
                              .unit = 1};

    page.points = stp_train_points_find(&page.view, &page.kind->points);
    stp_chart_begin(stp_train_page_gp, page.kind->template, page.kind->columns,
                    page.chart);
    page_write(&page);
    stp_train_points_free(&page.points);
}
