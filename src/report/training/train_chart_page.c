/* train_chart_page.c - pictures with panels, of which one key is enough */
#include <math.h>
#include <string.h>

#include "report/charts/plot_parts.h"
#include "report/training/train_chart_parts.h"

/* In pixels. */
enum {
    HEAD = 78,
    FOOT = 34,
    LABEL_LEFT = 34, /* the first column's */
    PANEL_LEFT = 62, /* of its axis */
    LINES_LEFT = 80, /* where numbers are longer */
    PANEL_RIGHT = 8,
    PANEL_TOP = 30,
    PANEL_BOTTOM = 66,
    PANEL_HEIGHT = 330, /* of several rows */
    KEY_LINE = 28,
    KEY_LETTER = 10,
    TITLE_LETTER = 8,
    LONG_TITLE = 110, /* letters that the width is hardly enough for */
    SOURCE = 200,     /* letters that are shown */
    SOURCES = SOURCE + 340,
};

static unsigned page_height(const struct stp_train_page *page)
{
    const unsigned height = HEAD + FOOT + PANEL_HEIGHT * (unsigned)page->n_rows;

    return height > STP_PLOT_HEIGHT ? height : STP_PLOT_HEIGHT;
}

static double key_width(const struct stp_train_page *page)
{
    size_t longest = 0;

    for (size_t i = 0; i < page->n_keys; i++)
        if (strlen(page->keys[i].label) > longest)
            longest = strlen(page->keys[i].label);
    return 52 + KEY_LETTER * (double)longest;
}

static double column_width(const struct stp_train_page *page)
{
    return (STP_PLOT_WIDTH - LABEL_LEFT - key_width(page)) /
           (double)page->n_columns;
}

static double panel_left(const struct stp_train_page *page)
{
    return page->lines ? LINES_LEFT : PANEL_LEFT;
}

double stp_train_panel_width(const struct stp_train_page *page)
{
    return column_width(page) - panel_left(page) - PANEL_RIGHT;
}

/* ---- words ---- */

/* What the times are, going by who made them; NULL: measured. */
static const char *origin_of(const struct stp_train_run *r)
{
    const bool recorded = strstr(r->made_by, "recorded") != NULL;

    if (strstr(r->made_by, "modelled") != NULL)
        return recorded ? "recorded collectives, modelled compute"
                        : "modelled, not measured";
    if (recorded)
        return "recorded, not measured";
    return isnan(r->accuracy) ? "in virtual time" : NULL;
}

/* What the times of the view are if they were not all measured. */
static void say_origin(const struct stp_train_view *view,
                       char text[STP_TRAIN_LABEL])
{
    const char *origin = NULL;
    bool partly = false;

    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        const char *its = origin_of(r);

        if (!stp_train_in_view(view, r))
            continue;
        partly |= its == NULL;
        if (its != NULL && origin != NULL && strcmp(its, origin) != 0)
            its = "recorded or modelled, not measured";
        origin = its != NULL ? its : origin;
    }
    text[0] = '\0';
    if (origin != NULL)
        snprintf(text, STP_TRAIN_LABEL, " (%s%s)", partly ? "partly " : "",
                 origin);
}

static void write_title(const struct stp_train_page *page, double height,
                        FILE *fp)
{
    char origin[STP_TRAIN_LABEL];
    char text[4 * STP_TRAIN_LABEL];

    say_origin(page->view, origin);
    snprintf(text, sizeof(text), "%s%s%s%s%s%s",
             page->title != NULL ? page->title : "",
             page->title != NULL ? ": " : "", page->what,
             page->view->gpu != NULL ? ", " : "",
             page->view->gpu != NULL ? page->view->gpu : "", origin);
    fputs("set label 2 ", fp);
    stp_gnuplot_quote(text, fp);
    fprintf(fp, " at screen 0.01,%.4f left font ',%d'\n", 1 - 24 / height,
            strlen(text) > LONG_TITLE ? 12 : 15);
}

static void write_how(const struct stp_train_page *page, double height,
                      FILE *fp)
{
    const struct stp_train_view *view = page->view;
    const struct stp_train_run *work = view->typical[1];
    char tuner[STP_TRAIN_LABEL] = "";
    char text[4 * STP_TRAIN_LABEL];

    if (strcmp(view->typical[0]->tuner, STP_TRAIN_NCCL) != 0)
        snprintf(tuner, sizeof(tuner), "tuned by %s, ",
                 view->typical[0]->tuner);
    snprintf(text, sizeof(text), "%s%sbatch %u, %u samples an epoch%s", tuner,
             page->how, work->batch, work->n_samples, page->bars);
    fputs("set label 3 ", fp);
    stp_gnuplot_quote(text, fp);
    fprintf(fp,
            " at screen 0.01,%.4f left font ',11' textcolor rgb '#444444'\n",
            1 - 52 / height);
}

void stp_train_say_how(const struct stp_train_view *view, bool has_modes,
                       bool has_ga, char text[STP_TRAIN_LABEL])
{
    char ga[32] = "";

    if (!has_ga)
        snprintf(ga, sizeof(ga), "GA %u, ", view->ga);
    snprintf(text, STP_TRAIN_LABEL, "%s%s%s", has_modes ? "" : view->mode,
             has_modes ? "" : ", ", ga);
}

/* Whether none of the same model has more GPUs, nor as many before it. */
static bool is_widest(const struct stp_train_view *view,
                      const struct stp_train_run *r)
{
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *other = &view->runs->runs[i];

        if (stp_train_in_view(view, other) && strcmp(other->gpu, r->gpu) == 0 &&
            (other->n_gpus > r->n_gpus ||
             (other->n_gpus == r->n_gpus && other < r)))
            return false;
    }
    return true;
}

/* Who made the runs of each model; those on fewer GPUs say much the same. */
static void say_source(const struct stp_train_view *view, char text[SOURCES])
{
    text[0] = '\0';
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        const size_t len = strlen(text);

        if (!stp_train_in_view(view, r) || !is_widest(view, r) || len >= SOURCE)
            continue;
        snprintf(text + len, SOURCES - len, "%s%s", len > 0 ? " | " : "",
                 r->made_by);
        if (strlen(text) > SOURCE)
            memcpy(text + SOURCE - 3, "...", 4);
    }
}

/* ---- scripts ---- */

/* A box or a line, with or without a point. */
static void write_sign(const struct stp_train_key *key, size_t i, bool line,
                       double left, double y, double height, FILE *fp)
{
    const double half = (line ? 1.5 : 8) / height;

    if (key->colour != NULL)
        fprintf(fp,
                "set object %zu rectangle from screen %.4f,%.4f to screen "
                "%.4f,%.4f fillcolor rgb '%s' fillstyle solid noborder\n",
                i + 1, left / STP_PLOT_WIDTH, y - half,
                (left + 20) / STP_PLOT_WIDTH, y + half, key->colour);
    if (key->point > 0)
        fprintf(fp,
                "set label %zu '' at screen %.4f,%.4f point pointtype %d "
                "pointsize 1.2 linecolor rgb '%s'\n",
                100 + i, (left + 10) / STP_PLOT_WIDTH, y, key->point,
                key->colour != NULL ? key->colour : "#666666");
}

static void write_keys(const struct stp_train_page *page, double height,
                       FILE *fp)
{
    const double left = STP_PLOT_WIDTH - key_width(page) + 14;

    for (size_t i = 0; i < page->n_keys; i++) {
        const double y =
            1 - (HEAD + PANEL_TOP + 8 + KEY_LINE * (double)i) / height;

        write_sign(&page->keys[i], i, page->lines, left, y, height, fp);
        fprintf(fp, "set label %zu ", i + 4);
        stp_gnuplot_quote(page->keys[i].label, fp);
        fprintf(fp, " at screen %.4f,%.4f left font ',12'\n",
                (left + 28) / STP_PLOT_WIDTH, y);
    }
}

void stp_train_page_begin(const struct stp_train_page *page, FILE *fp)
{
    const double height = page_height(page);
    char source[SOURCES];

    say_source(page->view, source);
    stp_gnuplot_begin(page->format, STP_PLOT_WIDTH, page_height(page), fp);
    stp_plot_write_rules(source, fp);
    write_title(page, height, fp);
    write_how(page, height, fp);
    write_keys(page, height, fp);
    fputs("unset key\nset style fill solid 0.9 noborder\n"
          "set ytics font ',11'\nset multiplot\n",
          fp);
}

void stp_train_page_panel(const struct stp_train_page *page, size_t row,
                          size_t column, const char *title, FILE *fp)
{
    const double height = page_height(page);
    const double each = (height - HEAD - FOOT) / (double)page->n_rows;
    const double top = height - HEAD - each * (double)row;
    const double left =
        LABEL_LEFT + column_width(page) * (double)column + panel_left(page);

    if (row + column > 0)
        fputs("unset label\nunset object\n", fp);
    if (column == 0) /* beside numbers of any width */
        fprintf(fp,
                "set label 99 '%s' at screen 0.012,%.4f center rotate by 90\n",
                page->y, (top - each / 2) / height);
    fprintf(fp,
            "set lmargin at screen %.4f\nset rmargin at screen %.4f\n"
            "set tmargin at screen %.4f\nset bmargin at screen %.4f\n"
            "set title ",
            left / STP_PLOT_WIDTH,
            (left + stp_train_panel_width(page)) / STP_PLOT_WIDTH,
            (top - PANEL_TOP) / height, (top - each + PANEL_BOTTOM) / height);
    stp_gnuplot_quote(title, fp);
    fprintf(fp, " font ',%d' offset 0,-0.5\n",
            TITLE_LETTER * (double)strlen(title) > column_width(page) ? 9 : 11);
}
