/* train_charts_json.c - charts of training and their runs, as JSON */
#include "report/json.h"
#include "report/training/train_charts.h"
#include "report/training/train_keys.h"

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
