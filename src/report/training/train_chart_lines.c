/* train_chart_lines.c - charts of training with lines: scaling and loss */
#include <math.h>
#include <string.h>

#include "report/training/train_chart_parts.h"

extern const char stp_train_scaling_gp[];
extern const char stp_train_loss_gp[];

enum { COLUMNS = 3, MAX_LINES = 24 };

/* gnuplot's types of the points, as the templates have them. */
static const int point_types[] = {7, 5, 9, 13, 11, 15};

/* Sets the arrays of a chart that has a panel per precision and at most
 * 'n_lines' lines in each. */
static void lines_set_arrays(struct stp_train_page *page, size_t n_lines)
{
    stp_chart_arrays(page->chart, page->max_panels, "first count");
    stp_chart_arrays(page->chart, page->max_panels * n_lines, "hues shapes");
    stp_chart_set(page->chart, "lined = 1");
}

/* Adds the panel of precision 'p', whose 'n' lines are the last blocks. */
static void lines_add_panel(struct stp_train_page *page, size_t p,
                            const char *title, size_t first, size_t n)
{
    stp_chart_set(page->chart, "first[%zu] = %zu\ncount[%zu] = %zu", p + 1,
                  first, p + 1, n);
    stp_train_page_panel(page, p / COLUMNS, p % COLUMNS, title);
}

static void lines_end(struct stp_train_page *page, const char *y_title,
                      const char *x_title)
{
    const size_t n = page->n_panels;

    stp_train_page_end(page, (n + COLUMNS - 1) / COLUMNS,
                       n < COLUMNS ? n : COLUMNS, y_title, x_title);
}

/* ---- scaling ---- */

/* The speed-up over one GPU and its 95 percent interval, for small errors of
 * both means. */
struct scaling_point {
    unsigned n_gpus;
    double times, low, high;
};

static size_t scaling_find_speed_ups(const struct stp_train_view *view,
                                     const struct stp_train_run *precision,
                                     const struct stp_train_run *size,
                                     struct scaling_point all[STP_TRAIN_LEVELS])
{
    const struct stp_train_levels gpus =
        stp_train_levels_of(view, STP_DIM_GPUS);
    struct stp_train_where where = {{NULL}};
    struct stp_train_cell one = {.n = 0}, cell;
    size_t n = 0;

    where.like[STP_DIM_PRECISION] = precision;
    where.like[STP_DIM_SIZE] = size;
    for (size_t i = 0; i < gpus.n; i++) {
        double error;

        where.like[STP_DIM_GPUS] = gpus.like[i];
        if (!stp_train_find_cell(view, &where, &cell))
            continue;
        if (cell.run->n_gpus == 1)
            one = cell;
        if (one.n == 0)
            return 0;
        error = hypot(cell.high / cell.mean - 1, one.high / one.mean - 1);
        if (cell.run->n_gpus == 1) /* by definition */
            error = 0;
        all[n].n_gpus = cell.run->n_gpus;
        all[n].times = one.mean / cell.mean;
        all[n].low = all[n].times * fmax(0, 1 - error);
        all[n].high = all[n].times * (1 + error);
        n++;
    }
    return n > 1 ? n : 0;
}

/* The precisions of which a model ran on one GPU and on several. */
static struct stp_train_levels
scaling_find_precisions(const struct stp_train_view *view,
                        const struct stp_train_levels *sizes)
{
    struct stp_train_levels levels =
        stp_train_levels_of(view, STP_DIM_PRECISION);
    struct scaling_point all[STP_TRAIN_LEVELS];

    for (size_t p = levels.n; p-- > 0;) {
        size_t n = 0;

        for (size_t s = 0; s < sizes->n; s++)
            n += scaling_find_speed_ups(view, levels.like[p], sizes->like[s],
                                        all);
        if (n == 0)
            stp_train_level_drop(&levels, p);
    }
    return levels;
}

bool stp_train_has_scaling(const struct stp_train_view *view)
{
    const struct stp_train_levels sizes =
        stp_train_levels_of(view, STP_DIM_SIZE);

    return scaling_find_precisions(view, &sizes).n > 0;
}

/* Sets the numbers of GPUs, and writes the line of the ideal, up to the most;
 * returns them. */
static unsigned scaling_write_ideal(struct stp_train_page *page)
{
    const struct stp_train_levels gpus =
        stp_train_levels_of(&page->view, STP_DIM_GPUS);
    const unsigned most = gpus.like[gpus.n - 1]->n_gpus;

    stp_chart_arrays(page->chart, gpus.n, "gpus");
    for (size_t i = 0; i < gpus.n; i++)
        stp_chart_set(page->chart, "gpus[%zu] = %u", i + 1,
                      gpus.like[i]->n_gpus);
    stp_chart_block(page->chart);
    fprintf(page->chart->data,
            "0\tideal\t1\t1\t1\t1\n0\tideal\t%u\t%u\t%u\t%u\n", most, most,
            most, most);
    return most;
}

/* Adds a panel with a line per size; raises *highest to its highest end. */
static void scaling_write_panel(struct stp_train_page *page, size_t p,
                                const struct stp_train_run *precision,
                                const struct stp_train_levels *sizes,
                                double *highest)
{
    const size_t first = page->chart->n_blocks;
    struct scaling_point all[STP_TRAIN_LEVELS];

    for (size_t i = 0; i < sizes->n; i++) {
        const size_t line = page->chart->n_blocks - 1;
        const size_t n =
            scaling_find_speed_ups(&page->view, precision, sizes->like[i], all);

        if (n == 0)
            continue;
        stp_chart_set(page->chart, "hues[%zu] = %zu\nshapes[%zu] = %zu",
                      line + 1, i + 1, line + 1, i);
        stp_chart_block(page->chart);
        for (size_t k = 0; k < n; k++) {
            fprintf(page->chart->data, "%zu\t%s\t%u\t%.6g\t%.6g\t%.6g\n", p + 1,
                    sizes->like[i]->size, all[k].n_gpus, all[k].times,
                    all[k].low, all[k].high);
            *highest = fmax(*highest, fmin(all[k].high, all[k].times * 1.3));
        }
    }
    lines_add_panel(page, p, precision->precision, first,
                    page->chart->n_blocks - first);
}

enum stp_status stp_train_make_scaling(struct stp_train_page *page,
                                       struct stp_error *err)
{
    const struct stp_train_levels sizes =
        stp_train_levels_of(&page->view, STP_DIM_SIZE);
    const struct stp_train_levels precisions =
        scaling_find_precisions(&page->view, &sizes);
    const bool cpus = stp_train_on_cpus(sizes.like[0]);
    enum stp_status status;
    double highest;

    page->max_panels = precisions.n;
    page->max_keys = sizes.n + 1;
    status = stp_train_page_begin(
        page, stp_train_scaling_gp, "panel\tsize\tgpus\tspeed_up\tlow\thigh",
        false, false, "; ends: 95% intervals over epochs", err);
    if (status != STP_OK)
        return status;
    lines_set_arrays(page, sizes.n);
    for (size_t i = 0; i < sizes.n; i++) {
        char label[STP_TRAIN_LABEL];

        stp_train_level_label(STP_DIM_SIZE, sizes.like[i], label);
        stp_train_page_key(page, label, (int)i + 1, point_types[i % 6]);
    }
    stp_train_page_key(page, "ideal", 7, 0);
    highest = scaling_write_ideal(page);
    for (size_t p = 0; p < precisions.n; p++)
        scaling_write_panel(page, p, precisions.like[p], &sizes, &highest);
    stp_chart_set(page->chart, "highest = %.10g", highest);
    lines_end(page,
              cpus ? "Speed-up over one process" : "Speed-up over one GPU",
              cpus ? "Processes" : "GPUs");
    return STP_OK;
}

/* ---- loss ---- */

/* Lines of each panel: a colour per mode, points per number of GPUs. */
struct loss_lines {
    const struct stp_train_run *of[MAX_LINES]; /* a run of each line */
    size_t colour[MAX_LINES], shape[MAX_LINES];
    size_t n;
    unsigned n_epochs;
};

static bool loss_has(const struct stp_train_view *view,
                     const struct stp_train_run *r)
{
    if (!stp_train_in_view(view, r) || !stp_train_same_step(r, view->step) ||
        r->n_epochs < 2)
        return false;
    for (unsigned e = 0; e < r->n_epochs; e++)
        if (!isfinite(r->losses[e]))
            return false;
    return true;
}

/* The first run with losses of a precision (NULL: any), and of a mode (NULL:
 * any) on that many GPUs; NULL if there is none. */
static const struct stp_train_run *loss_find(const struct stp_train_view *view,
                                             const char *precision,
                                             const char *mode, unsigned n_gpus)
{
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];

        if (loss_has(view, r) &&
            (precision == NULL || strcmp(r->precision, precision) == 0) &&
            (mode == NULL ||
             (strcmp(r->mode, mode) == 0 && r->n_gpus == n_gpus)))
            return r;
    }
    return NULL;
}

static struct stp_train_levels
loss_find_precisions(const struct stp_train_view *view)
{
    struct stp_train_levels levels =
        stp_train_levels_of(view, STP_DIM_PRECISION);

    for (size_t p = levels.n; p-- > 0;)
        if (loss_find(view, levels.like[p]->precision, NULL, 0) == NULL)
            stp_train_level_drop(&levels, p);
    return levels;
}

bool stp_train_has_loss(const struct stp_train_view *view)
{
    return loss_find_precisions(view).n > 0;
}

/* By mode, then by GPUs. */
static void loss_find_lines(const struct stp_train_view *view,
                            struct loss_lines *l)
{
    const struct stp_train_levels modes =
        stp_train_levels_of(view, STP_DIM_MODE);
    const struct stp_train_levels gpus =
        stp_train_levels_of(view, STP_DIM_GPUS);

    *l = (struct loss_lines){.n = 0};
    for (size_t m = 0; m < modes.n; m++)
        for (size_t g = 0; g < gpus.n; g++) {
            const struct stp_train_run *r = loss_find(
                view, NULL, modes.like[m]->mode, gpus.like[g]->n_gpus);

            if (r == NULL || l->n == MAX_LINES)
                continue;
            l->of[l->n] = r;
            l->colour[l->n] = m + 1;
            l->shape[l->n++] = g;
            if (r->n_epochs > l->n_epochs)
                l->n_epochs = r->n_epochs;
        }
}

/* Each mode's colour, then the points of each number of GPUs. */
static void loss_write_keys(const struct loss_lines *l,
                            struct stp_train_page *page)
{
    char label[STP_TRAIN_LABEL];

    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || l->colour[i] != l->colour[i - 1])
            stp_train_page_key(page, l->of[i]->mode, (int)l->colour[i], 0);
    for (size_t shape = 0; shape < STP_TRAIN_LEVELS; shape++)
        for (size_t i = 0; i < l->n; i++)
            if (l->shape[i] == shape && page->n_keys < page->max_keys) {
                stp_train_level_label(STP_DIM_GPUS, l->of[i], label);
                stp_train_page_key(page, label, -1, point_types[shape % 6]);
                break;
            }
}

/* ", accuracy 0.11 to 0.12": of all lines, after the last epoch. */
static void loss_print_accuracy(const struct stp_train_view *view,
                                const char *precision,
                                const struct loss_lines *l,
                                char text[STP_TRAIN_LABEL])
{
    char from[16], to[16];
    double low = INFINITY, high = -INFINITY;

    for (size_t i = 0; i < l->n; i++) {
        const struct stp_train_run *r =
            loss_find(view, precision, l->of[i]->mode, l->of[i]->n_gpus);

        if (r != NULL) {
            low = fmin(low, r->accuracy);
            high = fmax(high, r->accuracy);
        }
    }
    text[0] = '\0';
    if (low > high)
        return;
    snprintf(from, sizeof(from), "%.3f", low);
    snprintf(to, sizeof(to), "%.3f", high);
    snprintf(text, STP_TRAIN_LABEL, ", accuracy %s%s%s", from,
             strcmp(from, to) != 0 ? " to " : "",
             strcmp(from, to) != 0 ? to : "");
}

/* The largest spread of all lines in one epoch, in percent. */
static double loss_find_spread(const struct stp_train_view *view,
                               const char *precision,
                               const struct loss_lines *l)
{
    double most = 0;

    for (unsigned e = 0;; e++) {
        double low = INFINITY, high = -INFINITY;

        for (size_t i = 0; i < l->n; i++) {
            const struct stp_train_run *r =
                loss_find(view, precision, l->of[i]->mode, l->of[i]->n_gpus);

            if (r == NULL || e >= r->n_epochs)
                continue;
            low = fmin(low, r->losses[e]);
            high = fmax(high, r->losses[e]);
        }
        if (low > high)
            return most;
        most = fmax(most, 100 * (high / low - 1));
    }
}

static void loss_write_panel(struct stp_train_page *page, size_t p,
                             const char *precision, const struct loss_lines *l)
{
    const size_t first = page->chart->n_blocks;
    char title[2 * STP_TRAIN_LABEL], accuracy[STP_TRAIN_LABEL];

    for (size_t i = 0; i < l->n; i++) {
        const struct stp_train_run *r =
            loss_find(&page->view, precision, l->of[i]->mode, l->of[i]->n_gpus);
        const size_t line = page->chart->n_blocks;

        if (r == NULL)
            continue;
        stp_chart_set(
            page->chart,
            "hues[%zu] = %zu\nshapes[%zu] = %zu\nthickness[%zu] = %.10g",
            line + 1, l->colour[i], line + 1, l->shape[i], line + 1,
            (double)(l->n - 1 - i) / (double)l->n);
        stp_chart_block(page->chart);
        for (unsigned e = 0; e < r->n_epochs; e++)
            fprintf(page->chart->data, "%zu\t%s, %u\t%u\t%.8g\n", p + 1,
                    r->mode, r->n_gpus, e + 1, r->losses[e]);
    }
    loss_print_accuracy(&page->view, precision, l, accuracy);
    snprintf(title, sizeof(title), "%s, at most %.2g%% apart%s", precision,
             loss_find_spread(&page->view, precision, l), accuracy);
    lines_add_panel(page, p, title, first + 1, page->chart->n_blocks - first);
}

enum stp_status stp_train_make_loss(struct stp_train_page *page,
                                    struct stp_error *err)
{
    const struct stp_train_levels precisions =
        loss_find_precisions(&page->view);
    enum stp_status status;
    struct loss_lines l;

    loss_find_lines(&page->view, &l);
    page->max_panels = precisions.n;
    page->max_keys = MAX_LINES;
    status = stp_train_page_begin(page, stp_train_loss_gp,
                                  "panel\tmode, gpus\tepoch\tloss", true, false,
                                  "", err);
    if (status != STP_OK)
        return status;
    lines_set_arrays(page, l.n);
    stp_chart_arrays(page->chart, precisions.n * l.n, "thickness");
    loss_write_keys(&l, page);
    for (size_t p = 0; p < precisions.n; p++)
        loss_write_panel(page, p, precisions.like[p]->precision, &l);
    stp_chart_set(page->chart, "n_epochs = %u", l.n_epochs);
    lines_end(page, "Training loss, mean of all ranks", "Epoch");
    return STP_OK;
}
