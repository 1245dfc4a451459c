#include "report/training/train_chart_parts.h"

#include <math.h>
#include <string.h>

enum {
    SOURCE = 190, /* letters that are shown */
    SOURCES = SOURCE + 340,
};

/* ---- words ---- */

/* How the times came about, according to the file; NULL: measured. */
static const char *train_origin(const struct stp_train_run *r)
{
    static const char *const words[STP_N_SOURCES] = {
        [STP_SOURCE_RECORDED] = "recorded, not measured",
        [STP_SOURCE_INTERPOLATED] = "interpolated, not measured",
        [STP_SOURCE_VIRTUAL] = "virtual, not measured",
        [STP_SOURCE_MODELLED] = "modelled, not measured",
    };

    return words[r->source];
}

/* How the times of the view came about; "" if all were measured. */
static void train_view_origin(const struct stp_train_view *view,
                              char text[STP_TRAIN_LABEL])
{
    const char *origin = NULL;
    bool partly = false;

    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        const char *its = train_origin(r);

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

/* "A", "A and B", "A, B and C": the models of GPU of the view. */
static void train_view_models(const struct stp_train_view *view,
                              char text[2 * STP_TRAIN_LABEL])
{
    const struct stp_train_levels models =
        stp_train_levels_of(view, STP_DIM_MODEL);
    size_t len = 0;

    text[0] = '\0';
    for (size_t i = 0; i < models.n && len < 2 * STP_TRAIN_LABEL; i++)
        len += (size_t)snprintf(text + len, 2 * STP_TRAIN_LABEL - len, "%s%s",
                                i == 0              ? ""
                                : i + 1 == models.n ? " and "
                                                    : ", ",
                                models.like[i]->gpu);
}

/* "TITLE: HEADING, GPU (ORIGIN)". */
static void train_page_set_title(struct stp_train_page *page)
{
    char models[2 * STP_TRAIN_LABEL], origin[STP_TRAIN_LABEL];
    char text[6 * STP_TRAIN_LABEL];

    train_view_models(&page->view, models);
    train_view_origin(&page->view, origin);
    snprintf(text, sizeof(text), "%s%s%s, %s%s",
             page->title != NULL ? page->title : "",
             page->title != NULL ? ": " : "", page->heading, models, origin);
    stp_chart_text(page->chart, "title", text);
}

/* ", 4096 samples an epoch"; "" if they are unknown. */
static void train_page_samples(const struct stp_train_run *run,
                               char text[STP_TRAIN_LABEL])
{
    text[0] = '\0';
    if (run->n_samples > 0)
        snprintf(text, STP_TRAIN_LABEL, ", %u samples an epoch",
                 run->n_samples);
}

/* "bucketed, GA 1, batch 64 (64 steps), 4096 samples an epoch;
 * ...". */
static void train_page_set_how(struct stp_train_page *page, bool compares_modes,
                               bool compares_ga, const char *notes)
{
    const struct stp_train_view *view = &page->view;
    char step[STP_TRAIN_LABEL] = "";
    char samples[STP_TRAIN_LABEL];
    char text[5 * STP_TRAIN_LABEL];

    if (!compares_ga)
        stp_train_level_label(STP_DIM_GA, view->step, step);
    train_page_samples(view->step, samples);
    snprintf(text, sizeof(text), "%s%s%s%s%s", compares_modes ? "" : view->mode,
             compares_modes || compares_ga ? "" : ", ", step, samples, notes);
    stp_chart_text(page->chart, "how", text);
}

/* Whether the run has the most GPUs of its model, and is the first of these. */
static bool train_is_widest(const struct stp_train_view *view,
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

/* The origin of the runs of each model on the most GPUs; on fewer GPUs it is
 * much the same. */
static void train_view_source(const struct stp_train_view *view,
                              char text[SOURCES])
{
    text[0] = '\0';
    for (size_t i = 0; i < view->runs->n; i++) {
        const struct stp_train_run *r = &view->runs->runs[i];
        const size_t len = strlen(text);

        if (!stp_train_in_view(view, r) || !train_is_widest(view, r) ||
            len >= SOURCE)
            continue;
        snprintf(text + len, SOURCES - len, "%s%s", len > 0 ? " | " : "",
                 r->made_by);
        if (strlen(text) > SOURCE)
            memcpy(text + SOURCE - 3, "...", 4);
    }
}

/* ---- settings ---- */

enum stp_status stp_train_page_begin(struct stp_train_page *page,
                                     const char *template, const char *columns,
                                     bool compares_modes, bool compares_ga,
                                     const char *notes, struct stp_error *err)
{
    const char *const templates[] = {stp_train_page_gp, template};
    enum stp_status status =
        stp_chart_begin(templates, 2, columns, page->chart, err);
    char source[SOURCES];

    if (status != STP_OK)
        return status;
    page->n_panels = page->n_keys = 0;
    train_view_source(&page->view, source);
    stp_chart_text(page->chart, "source", source);
    train_page_set_title(page);
    train_page_set_how(page, compares_modes, compares_ga, notes);
    stp_chart_arrays(page->chart, page->max_keys, "keys key_hues key_points");
    stp_chart_arrays(page->chart, page->max_panels, "titles rows columns");
    return STP_OK;
}

void stp_train_page_panel(struct stp_train_page *page, size_t row,
                          size_t column, const char *title)
{
    const size_t p = page->n_panels++;

    stp_chart_text_at(page->chart, "titles", p, title);
    stp_chart_set(page->chart, "rows[%zu] = %zu\ncolumns[%zu] = %zu", p + 1,
                  row, p + 1, column);
}

void stp_train_page_key(struct stp_train_page *page, const char *label, int hue,
                        int point)
{
    const size_t k = page->n_keys++;

    stp_chart_text_at(page->chart, "keys", k, label);
    stp_chart_set(page->chart, "key_hues[%zu] = %d\nkey_points[%zu] = %d",
                  k + 1, hue, k + 1, point);
}

void stp_train_page_end(struct stp_train_page *page, size_t n_rows,
                        size_t n_columns, const char *y_title,
                        const char *x_title)
{
    stp_chart_set(page->chart,
                  "n_panels = %zu\nn_keys = %zu\nn_rows = %zu\nn_columns = %zu",
                  page->n_panels, page->n_keys, n_rows, n_columns);
    stp_chart_text(page->chart, "y_title", y_title);
    stp_chart_text(page->chart, "x_title", x_title);
}
