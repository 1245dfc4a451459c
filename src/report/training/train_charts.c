/* train_charts.c - the charts of training, and drawing them */
#include "report/training/train_charts.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "report/json.h"
#include "report/training/train_chart_parts.h"
#include "report/training/train_json.h"

#define ENDS      "ends: 95% intervals over epochs"
#define SPEED_UPS "; above: speed-up over the first bar; " ENDS

/* Bars of a series side by side, in groups by GPUs, in panels by size and
 * precision. */
#define BARS(compared, minimum)                                                \
    .row = STP_DIM_PRECISION, .column = STP_DIM_SIZE, .group = STP_DIM_GPUS,   \
    .series = compared, .least = minimum

// clang-format off
static const struct {
    const char *name;
    const char *heading;
    const char *without; /* why there is none */
    struct stp_train_bars bars;
    bool (*has)(const struct stp_train_view *view); /* NULL: bars */
    enum stp_status (*make)(struct stp_train_page *page, struct stp_error *err);
    bool each_size, largest, all_models;
} kinds[STP_N_TRAIN_CHARTS] = {
    [STP_TRAIN_BY_PRECISION] = {
        "train_precision", "Training: epoch time by precision",
        "no two precisions of one model on as many GPUs",
        .bars = {STP_DIM_NONE, STP_DIM_SIZE, STP_DIM_GPUS, STP_DIM_PRECISION,
                 .least = 2, .notes = SPEED_UPS}},
    [STP_TRAIN_SCALING] = {
        "train_scaling", "Training: scaling",
        "no run on one GPU beside one on several of the same model and "
        "precision",
        .has = stp_train_has_scaling, .make = stp_train_make_scaling},
    [STP_TRAIN_ACCUMULATION] = {
        "train_accumulation",
        "Training: epoch time by micro-batches of a step (GA)",
        "no two numbers of micro-batches (--ga) of one model, precision, mode "
        "and number of GPUs",
        .bars = {BARS(STP_DIM_GA, 2),
                 .notes = "; gradients are sent once a step" SPEED_UPS}},
    [STP_TRAIN_OVERHEAD] = {
        "train_overhead", "Training: what an epoch's time is made of",
        "no run on several GPUs whose time of communication is known",
        .bars = {STP_DIM_PRECISION, STP_DIM_GPUS, STP_DIM_MODE, STP_DIM_NONE,
                 .least = 1, .several = true, .stacked = true,
                 .notes = "; hidden: computing meanwhile; above: all "
                          "communication, and the share of the epoch exposed"},
        .each_size = true},
    [STP_TRAIN_LOSS] = {
        "train_loss", "Training: loss",
        "no run of two epochs or more with losses",
        .has = stp_train_has_loss, .make = stp_train_make_loss,
        .largest = true},
    [STP_TRAIN_BY_MODE] = {
        "train_modes", "Training: epoch time by mode",
        "no two modes of one model, precision and number of GPUs",
        .bars = {BARS(STP_DIM_MODE, 2), .several = true, .notes = SPEED_UPS}},
    [STP_TRAIN_THROUGHPUT] = {
        "train_throughput", "Training: throughput",
        "no run whose number of samples is known",
        .bars = {BARS(STP_DIM_MODE, 1), .throughput = true,
                 .notes = "; " ENDS}},
    [STP_TRAIN_HARDWARE] = {
        "train_hardware", "Training: epoch time by hardware",
        "no two models of GPU that ran the same (give the files of each)",
        .bars = {BARS(STP_DIM_MODEL, 2), .notes = SPEED_UPS},
        .all_models = true},
};
// clang-format on

/* ---- which there are ---- */

static bool train_chart_has(enum stp_train_chart_kind kind,
                            const struct stp_train_view *view)
{
    return kinds[kind].has != NULL
               ? kinds[kind].has(view)
               : stp_train_has_bars(view, &kinds[kind].bars);
}

static enum stp_status train_chart_add(struct stp_train_charts *charts,
                                       const struct stp_train_runs *runs,
                                       struct stp_train_chart chart,
                                       struct stp_error *err)
{
    const struct stp_train_view view =
        stp_train_view_of(runs, chart.gpu, chart.size);
    struct stp_train_chart *all =
        realloc(charts->all, (charts->n + 1) * sizeof(*all));

    if (all == NULL)
        return stp_nomem(err);
    if (!train_chart_has(chart.kind, &view))
        chart.why = kinds[chart.kind].without;
    all[charts->n++] = chart;
    charts->all = all;
    return STP_OK;
}

/* A chart per size, or one of all sizes. */
static enum stp_status train_chart_add_kind(struct stp_train_charts *charts,
                                            const struct stp_train_runs *runs,
                                            struct stp_train_chart chart,
                                            struct stp_error *err)
{
    const struct stp_train_view view = stp_train_view_of(runs, chart.gpu, NULL);
    const struct stp_train_levels sizes =
        stp_train_levels_of(&view, STP_DIM_SIZE);
    enum stp_status status = STP_OK;

    if (!train_chart_has(chart.kind, &view))
        return train_chart_add(charts, runs, chart, err);
    if (kinds[chart.kind].largest) {
        for (size_t i = 0; i < sizes.n; i++) { /* that has some */
            const struct stp_train_view one =
                stp_train_view_of(runs, chart.gpu, sizes.like[i]->size);

            if (train_chart_has(chart.kind, &one))
                chart.size = sizes.like[i]->size;
        }
    }
    if (!kinds[chart.kind].each_size)
        return train_chart_add(charts, runs, chart, err);
    for (size_t i = 0; i < sizes.n && status == STP_OK; i++) {
        chart.size = sizes.like[i]->size;
        status = train_chart_add(charts, runs, chart, err);
    }
    return status;
}

static bool train_chart_is_new_model(const struct stp_train_runs *runs,
                                     size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (strcmp(runs->runs[k].gpu, runs->runs[i].gpu) == 0)
            return false;
    return true;
}

static size_t train_chart_count_aside(const struct stp_train_runs *runs,
                                      const char *gpu)
{
    const struct stp_train_view view = stp_train_view_of(runs, gpu, NULL);
    size_t n = 0;

    for (size_t i = 0; i < runs->n; i++)
        n += strcmp(runs->runs[i].gpu, gpu) == 0 &&
             !stp_train_in_view(&view, &runs->runs[i]);
    return n;
}

/* Adds the charts of one model of GPU. */
static enum stp_status train_chart_add_model(struct stp_train_charts *charts,
                                             const struct stp_train_runs *runs,
                                             const char *gpu, bool several,
                                             struct stp_error *err)
{
    enum stp_status status = STP_OK;

    charts->n_runs_aside += train_chart_count_aside(runs, gpu);
    for (int k = 0; k < STP_N_TRAIN_CHARTS && status == STP_OK; k++)
        if (!kinds[k].all_models)
            status = train_chart_add_kind(
                charts, runs,
                (struct stp_train_chart){
                    .kind = k, .gpu = gpu, .several = several},
                err);
    return status;
}

enum stp_status stp_train_charts_find(const struct stp_train_runs *runs,
                                      struct stp_train_charts *charts_ret,
                                      struct stp_error *err)
{
    struct stp_train_charts charts = {.all = NULL};
    enum stp_status status = STP_OK;
    bool several = false;

    for (size_t i = 1; i < runs->n; i++)
        several |= train_chart_is_new_model(runs, i);
    for (size_t i = 0; i < runs->n && status == STP_OK; i++)
        if (train_chart_is_new_model(runs, i))
            status = train_chart_add_model(&charts, runs, runs->runs[i].gpu,
                                           several, err);
    if (status == STP_OK && runs->n > 0)
        status = train_chart_add(
            &charts, runs, (struct stp_train_chart){.kind = STP_TRAIN_HARDWARE},
            err);
    if (status == STP_OK)
        *charts_ret = charts;
    else
        stp_train_charts_free(&charts);
    return status;
}

void stp_train_charts_free(struct stp_train_charts *charts)
{
    free(charts->all);
    *charts = (struct stp_train_charts){.all = NULL};
}

/* ---- names ---- */

/* Adds letters and digits, with an underscore for all between them. */
static size_t train_chart_add_tag(char *name, size_t len, const char *word)
{
    bool gap = true;

    for (; *word != '\0' && len + 3 < STP_TRAIN_CHART_NAME; word++) {
        const bool plain = isalnum((unsigned char)*word) != 0;

        if (plain && gap)
            name[len++] = '_';
        if (plain)
            name[len++] = *word;
        gap = !plain;
    }
    name[len] = '\0';
    return len;
}

void stp_train_chart_name(const struct stp_train_chart *chart,
                          char name[STP_TRAIN_CHART_NAME])
{
    size_t len = (size_t)snprintf(name, STP_TRAIN_CHART_NAME, "%s",
                                  kinds[chart->kind].name);

    if (chart->size != NULL && kinds[chart->kind].each_size)
        len = train_chart_add_tag(name, len, chart->size);
    if (chart->gpu != NULL && chart->several)
        train_chart_add_tag(name, len, chart->gpu);
}

bool stp_train_chart_path(const char *folder, const char *name,
                          const char *ending, char path[STP_TRAIN_CHART_PATH])
{
    return (size_t)snprintf(path, STP_TRAIN_CHART_PATH, "%s%s%s.%s",
                            folder != NULL ? folder : "",
                            folder != NULL ? "/" : "", name,
                            ending) < STP_TRAIN_CHART_PATH;
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

/* ---- drawing ---- */

enum stp_status stp_train_chart_make(const struct stp_train_runs *runs,
                                     const struct stp_train_chart *chart,
                                     const char *title,
                                     struct stp_chart *chart_ret,
                                     struct stp_error *err)
{
    char heading[STP_TRAIN_LABEL];
    char size[STP_TRAIN_LABEL] = "";
    struct stp_train_page page = {
        .view = stp_train_view_of(runs, chart->gpu, chart->size),
        .title = title,
        .heading = heading,
        .chart = chart_ret,
    };

    if (chart->size != NULL)
        stp_train_level_label(
            STP_DIM_SIZE, stp_train_levels_of(&page.view, STP_DIM_SIZE).like[0],
            size);
    snprintf(heading, sizeof(heading), "%s%s%.50s", kinds[chart->kind].heading,
             size[0] ? ", " : "", size);
    return kinds[chart->kind].make != NULL
               ? kinds[chart->kind].make(&page, err)
               : stp_train_make_bars(&page, &kinds[chart->kind].bars, err);
}

/* ---- JSON ---- */

static void train_charts_add_files(cJSON *row,
                                   const struct stp_train_drawn *drawn,
                                   const char *name)
{
    cJSON *files = cJSON_AddArrayToObject(row, "files");

    for (int f = 0; f < STP_N_PLOT_FORMATS; f++) {
        char path[STP_TRAIN_CHART_PATH];

        if (!drawn->formats[f])
            continue;
        stp_train_chart_path(drawn->folder, name, stp_plot_format_name(f),
                             path);
        cJSON_AddItemToArray(files, cJSON_CreateString(path));
    }
}

static void train_charts_add_charts(cJSON *root,
                                    const struct stp_train_drawn *drawn,
                                    bool left_out)
{
    cJSON *list =
        cJSON_AddArrayToObject(root, left_out ? "left_out" : "charts");

    for (size_t i = 0; i < drawn->charts->n; i++) {
        const struct stp_train_chart *c = &drawn->charts->all[i];
        char name[STP_TRAIN_CHART_NAME];
        cJSON *row;

        if ((c->why != NULL) != left_out)
            continue;
        row = stp_json_row(list);
        stp_train_chart_name(c, name);
        cJSON_AddStringToObject(row, "chart", name);
        stp_json_word(row, "gpu_name", c->gpu);
        stp_json_word(row, "model_size", c->size);
        if (left_out)
            cJSON_AddStringToObject(row, "why", c->why);
        else
            train_charts_add_files(row, drawn, name);
    }
}

enum stp_status stp_train_charts_print_json(const struct stp_train_runs *runs,
                                            const struct stp_train_drawn *drawn,
                                            FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *list;

    train_charts_add_charts(root, drawn, false);
    train_charts_add_charts(root, drawn, true);
    stp_json_number(root, "runs_in_no_chart",
                    (double)drawn->charts->n_runs_aside);
    list = cJSON_AddArrayToObject(root, "summary");
    for (size_t i = 0; i < runs->n; i++)
        stp_train_write_row(stp_json_row(list), &runs->runs[i]);
    return stp_json_finish(root, fp, err);
}
