/* train_chart_lines.c - charts of training with lines: scaling and loss */
#include <math.h>
#include <string.h>

#include "report/charts/plot_parts.h"
#include "report/training/train_chart_parts.h"

enum {
    COLUMNS = 3,
    MAX_LINES = 24,
    LINEAR_GPUS = 16, /* more are on a logarithmic axis */
};

static const int point_types[] = {7, 5, 9, 13, 11, 15};

/* What both have: a panel a precision, of those with something to draw. */
struct sheet {
    const struct stp_train_drawing *d;
    struct stp_train_levels precisions;
    struct stp_train_page page;
    struct stp_train_key keys[MAX_LINES];
};

static void place_sheet(struct sheet *s)
{
    s->page.n_columns = s->precisions.n < COLUMNS ? s->precisions.n : COLUMNS;
    s->page.n_rows = (s->precisions.n + COLUMNS - 1) / COLUMNS;
    s->page.view = &s->d->view;
    s->page.title = s->d->title;
    s->page.what = s->d->what;
    s->page.format = s->d->format;
    s->page.keys = s->keys;
    s->page.lines = true;
}

static void begin_panel(const struct sheet *s, size_t p, const char *behind,
                        FILE *fp)
{
    char title[2 * STP_TRAIN_LABEL];

    snprintf(title, sizeof(title), "%s%s", s->precisions.like[p]->precision,
             behind);
    stp_train_page_panel(&s->page, p / COLUMNS, p % COLUMNS, title, fp);
}

static void drop_precision(struct stp_train_levels *levels, size_t i)
{
    levels->n--;
    memmove(&levels->like[i], &levels->like[i + 1],
            (levels->n - i) * sizeof(levels->like[0]));
}

/* ---- scaling ---- */

/* How much faster than one GPU, and the 95 percent interval of that, both
 * means having errors that are small. */
struct speed_up {
    unsigned n_gpus;
    double times, low, high;
};

static size_t find_speed_ups(const struct stp_train_view *view,
                             const struct stp_train_run *precision,
                             const struct stp_train_run *size,
                             struct speed_up all[STP_TRAIN_LEVELS])
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

static bool scales(const struct stp_train_view *view,
                   const struct stp_train_run *precision)
{
    const struct stp_train_levels sizes =
        stp_train_levels_of(view, STP_DIM_SIZE);
    struct speed_up all[STP_TRAIN_LEVELS];

    for (size_t s = 0; s < sizes.n; s++)
        if (find_speed_ups(view, precision, sizes.like[s], all) > 0)
            return true;
    return false;
}

static struct stp_train_levels find_scaling(const struct stp_train_view *view)
{
    struct stp_train_levels levels =
        stp_train_levels_of(view, STP_DIM_PRECISION);

    for (size_t p = levels.n; p-- > 0;)
        if (!scales(view, levels.like[p]))
            drop_precision(&levels, p);
    return levels;
}

bool stp_train_has_scaling(const struct stp_train_view *view)
{
    return find_scaling(view).n > 0;
}

/* The largest of all lines, and of the ideal. */
static double find_highest(const struct sheet *s,
                           const struct stp_train_levels *sizes, double ideal)
{
    struct speed_up all[STP_TRAIN_LEVELS];

    for (size_t p = 0; p < s->precisions.n; p++)
        for (size_t i = 0; i < sizes->n; i++) {
            const size_t n = find_speed_ups(&s->d->view, s->precisions.like[p],
                                            sizes->like[i], all);

            for (size_t k = 0; k < n; k++)
                ideal = fmax(ideal, fmin(all[k].high, all[k].times * 1.3));
        }
    return ideal;
}

static void write_gpu_axes(const struct sheet *s,
                           const struct stp_train_levels *sizes, FILE *fp)
{
    const struct stp_train_levels gpus =
        stp_train_levels_of(&s->d->view, STP_DIM_GPUS);
    const struct stp_train_run *last = gpus.like[gpus.n - 1];
    char tics[STP_TRAIN_LEVELS * 24] = "";
    const double most = last->n_gpus;
    const double highest = find_highest(s, sizes, most);

    for (size_t i = 0; i < gpus.n; i++) {
        const size_t len = strlen(tics);

        snprintf(tics + len, sizeof(tics) - len, "%s'%u' %u", i > 0 ? ", " : "",
                 gpus.like[i]->n_gpus, gpus.like[i]->n_gpus);
    }
    fprintf(fp, "set xlabel '%s' offset 0,0.4\n",
            stp_train_on_cpus(last) ? "Processes" : "GPUs");
    fprintf(fp, "set xtics (%s)\nset ytics (%s)\n", tics, tics);
    if (most > LINEAR_GPUS)
        fprintf(fp,
                "set logscale xy 2\nset xrange [0.9:%.4g]\nset yrange "
                "[0.5:%.4g]\n",
                most * 1.1, highest * 1.1);
    else
        fprintf(fp, "set xrange [%.4g:%.4g]\nset yrange [0:%.4g]\n",
                1 - most * 0.06, most * 1.06, highest * 1.06);
}

static void write_ideal(const struct stp_train_view *view, FILE *fp)
{
    const struct stp_train_levels gpus =
        stp_train_levels_of(view, STP_DIM_GPUS);
    const unsigned most = gpus.like[gpus.n - 1]->n_gpus;

    fprintf(fp, "$ideal << EOD\n1 1\n%u %u\nEOD\n", most, most);
}

/* GPUs, speed-up and its interval. */
static void write_scaling_data(const struct sheet *s, size_t p, size_t size,
                               const struct stp_train_levels *sizes, FILE *fp)
{
    struct speed_up all[STP_TRAIN_LEVELS];
    size_t n = find_speed_ups(&s->d->view, s->precisions.like[p],
                              sizes->like[size], all);

    if (n == 0)
        return;
    fprintf(fp, "$d%zu_%zu << EOD\n", p, size);
    for (size_t i = 0; i < n; i++)
        fprintf(fp, "%u %.6g %.6g %.6g\n", all[i].n_gpus, all[i].times,
                all[i].low, all[i].high);
    fputs("EOD\n", fp);
}

static void write_scaling_panel(const struct sheet *s, size_t p,
                                const struct stp_train_levels *sizes, FILE *fp)
{
    struct speed_up all[STP_TRAIN_LEVELS];

    begin_panel(s, p, "", fp);
    write_gpu_axes(s, sizes, fp);
    fputs("plot $ideal using 1:2 with lines linecolor rgb '#888888' linewidth "
          "2 dashtype 2",
          fp);
    for (size_t i = 0; i < sizes->n; i++)
        if (find_speed_ups(&s->d->view, s->precisions.like[p], sizes->like[i],
                           all) > 0)
            fprintf(fp,
                    ", \\\n     $d%zu_%zu using 1:2:3:4 with yerrorlines "
                    "linecolor rgb '%s' linewidth 2 pointtype %d pointsize 1.2",
                    p, i, stp_plot_colour(i + 1), point_types[i % 6]);
    fputc('\n', fp);
}

void stp_train_write_scaling(const struct stp_train_drawing *drawing, FILE *fp)
{
    struct sheet s = {.d = drawing, .precisions = find_scaling(&drawing->view)};
    const struct stp_train_levels sizes =
        stp_train_levels_of(&drawing->view, STP_DIM_SIZE);
    char how[STP_TRAIN_LABEL];

    place_sheet(&s);
    for (size_t i = 0; i < sizes.n; i++) {
        snprintf(s.keys[i].label, STP_TRAIN_LABEL, "%s", sizes.like[i]->size);
        s.keys[i].colour = stp_plot_colour(i + 1);
        s.keys[i].point = point_types[i % 6];
    }
    snprintf(s.keys[sizes.n].label, STP_TRAIN_LABEL, "ideal");
    s.keys[sizes.n].colour = "#888888";
    s.page.n_keys = sizes.n + 1;
    stp_train_say_how(&drawing->view, false, false, how);
    s.page.how = how;
    s.page.bars = "; ends: 95% intervals over epochs";
    s.page.y = stp_train_on_cpus(sizes.like[0]) ? "Speed-up over one process"
                                                : "Speed-up over one GPU";
    stp_train_page_begin(&s.page, fp);
    write_ideal(&drawing->view, fp);
    for (size_t p = 0; p < s.precisions.n; p++)
        for (size_t i = 0; i < sizes.n; i++)
            write_scaling_data(&s, p, i, &sizes, fp);
    for (size_t p = 0; p < s.precisions.n; p++)
        write_scaling_panel(&s, p, &sizes, fp);
    fputs("unset multiplot\n", fp);
}

/* ---- loss ---- */

/* Lines of each panel: a colour a mode, points of a shape a number of GPUs. */
struct lines {
    const struct stp_train_run *of[MAX_LINES]; /* one of each */
    size_t colour[MAX_LINES], shape[MAX_LINES];
    size_t n;
    unsigned n_epochs;
};

/* Interleaved rounds begin anew, each with its own epochs. */
static unsigned n_epochs(const struct stp_train_run *r)
{
    return r->rounds > 0 ? r->n_epochs / r->rounds : r->n_epochs;
}

static bool has_loss(const struct stp_train_view *view,
                     const struct stp_train_run *r)
{
    if (!stp_train_in_view(view, r) || r->ga != view->ga || n_epochs(r) < 2)
        return false;
    for (unsigned e = 0; e < n_epochs(r); e++)
        if (!isfinite(r->losses[e]))
            return false;
    return true;
}

static bool same_line(const struct stp_train_run *a,
                      const struct stp_train_run *b)
{
    return strcmp(a->mode, b->mode) == 0 && a->n_gpus == b->n_gpus;
}

/* The first run of a line in a precision; NULL if there is none. */
static const struct stp_train_run *find_loss(const struct stp_train_view *view,
                                             const char *precision,
                                             const struct stp_train_run *like)
{
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];

        if (has_loss(view, r) && strcmp(r->precision, precision) == 0 &&
            (like == NULL || same_line(r, like)))
            return r;
    }
    return NULL;
}

static struct stp_train_levels find_losses(const struct stp_train_view *view)
{
    struct stp_train_levels levels =
        stp_train_levels_of(view, STP_DIM_PRECISION);

    for (size_t p = levels.n; p-- > 0;)
        if (find_loss(view, levels.like[p]->precision, NULL) == NULL)
            drop_precision(&levels, p);
    return levels;
}

bool stp_train_has_loss(const struct stp_train_view *view)
{
    return find_losses(view).n > 0;
}

static const struct stp_train_run *find_any(const struct stp_train_view *view,
                                            const char *mode, unsigned n_gpus)
{
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];

        if (has_loss(view, r) && strcmp(r->mode, mode) == 0 &&
            r->n_gpus == n_gpus)
            return r;
    }
    return NULL;
}

/* By mode, then by GPUs. */
static void find_lines(const struct stp_train_view *view, struct lines *l)
{
    const struct stp_train_levels modes =
        stp_train_levels_of(view, STP_DIM_MODE);
    const struct stp_train_levels gpus =
        stp_train_levels_of(view, STP_DIM_GPUS);

    *l = (struct lines){.n = 0};
    for (size_t m = 0; m < modes.n; m++)
        for (size_t g = 0; g < gpus.n; g++) {
            const struct stp_train_run *r =
                find_any(view, modes.like[m]->mode, gpus.like[g]->n_gpus);

            if (r == NULL || l->n == MAX_LINES)
                continue;
            l->of[l->n] = r;
            l->colour[l->n] = m + 1;
            l->shape[l->n++] = g;
            if (n_epochs(r) > l->n_epochs)
                l->n_epochs = n_epochs(r);
        }
}

/* Each mode's colour, then each shape. */
static size_t find_loss_keys(const struct lines *l,
                             struct stp_train_key keys[MAX_LINES])
{
    size_t n = 0;

    for (size_t i = 0; i < l->n; i++)
        if (i == 0 || l->colour[i] != l->colour[i - 1]) {
            stp_train_level_label(STP_DIM_MODE, l->of[i], keys[n].label);
            keys[n++].colour = stp_plot_colour(l->colour[i]);
        }
    for (size_t shape = 0; shape < STP_TRAIN_LEVELS; shape++)
        for (size_t i = 0; i < l->n; i++)
            if (l->shape[i] == shape && n < MAX_LINES) {
                stp_train_level_label(STP_DIM_GPUS, l->of[i], keys[n].label);
                keys[n++].point = point_types[shape % 6];
                break;
            }
    return n;
}

/* In percent, of all lines in one epoch. */
static double widest(const struct stp_train_view *view, const char *precision,
                     const struct lines *l)
{
    double most = 0;

    for (unsigned e = 0;; e++) {
        double low = INFINITY, high = -INFINITY;

        for (size_t i = 0; i < l->n; i++) {
            const struct stp_train_run *r =
                find_loss(view, precision, l->of[i]);

            if (r == NULL || e >= n_epochs(r))
                continue;
            low = fmin(low, r->losses[e]);
            high = fmax(high, r->losses[e]);
        }
        if (low > high)
            return most;
        most = fmax(most, 100 * (high / low - 1));
    }
}

static void write_loss_data(const struct sheet *s, size_t p,
                            const struct lines *l, FILE *fp)
{
    for (size_t i = 0; i < l->n; i++) {
        const struct stp_train_run *r =
            find_loss(&s->d->view, s->precisions.like[p]->precision, l->of[i]);

        if (r == NULL)
            continue;
        fprintf(fp, "$d%zu_%zu << EOD\n", p, i);
        for (unsigned e = 0; e < n_epochs(r); e++)
            fprintf(fp, "%u %.8g\n", e + 1, r->losses[e]);
        fputs("EOD\n", fp);
    }
}

/* Lines that coincide stay visible: each is thinner than the one before. */
static void write_loss_panel(const struct sheet *s, size_t p,
                             const struct lines *l, FILE *fp)
{
    const char *precision = s->precisions.like[p]->precision;
    char apart[64];
    const char *comma = "plot ";

    snprintf(apart, sizeof(apart), ", at most %.2g%% apart",
             widest(&s->d->view, precision, l));
    begin_panel(s, p, apart, fp);
    fputs("set format y '%.8g'\n", fp); /* steps of losses are small */
    fprintf(fp,
            "set xlabel 'Epoch' offset 0,0.4\nset xtics 1\n"
            "set xrange [0.8:%u.2]\n",
            l->n_epochs);
    for (size_t i = 0; i < l->n; i++) {
        if (find_loss(&s->d->view, precision, l->of[i]) == NULL)
            continue;
        fprintf(fp,
                "%s$d%zu_%zu using 1:2 with linespoints linecolor rgb '%s' "
                "linewidth %.2g pointtype %d pointsize %.2g",
                comma, p, i, stp_plot_colour(l->colour[i]),
                1.5 + 6.5 * (double)(l->n - 1 - i) / (double)l->n,
                point_types[l->shape[i] % 6],
                0.8 + 1.2 * (double)(l->n - 1 - i) / (double)l->n);
        comma = ", \\\n     ";
    }
    fputc('\n', fp);
}

void stp_train_write_loss(const struct stp_train_drawing *drawing, FILE *fp)
{
    struct sheet s = {.d = drawing, .precisions = find_losses(&drawing->view)};
    struct lines l;
    char how[STP_TRAIN_LABEL];

    find_lines(&drawing->view, &l);
    place_sheet(&s);
    s.page.n_keys = find_loss_keys(&l, s.keys);
    stp_train_say_how(&drawing->view, true, false, how);
    s.page.how = how;
    s.page.bars = "";
    s.page.y = "Training loss, mean of all ranks";
    stp_train_page_begin(&s.page, fp);
    for (size_t p = 0; p < s.precisions.n; p++)
        write_loss_data(&s, p, &l, fp);
    for (size_t p = 0; p < s.precisions.n; p++)
        write_loss_panel(&s, p, &l, fp);
    fputs("unset multiplot\n", fp);
}
