/* iteration_json.c - summaries of iterations as JSON */
#include "core/dtype.h"
#include "core/names.h"
#include "report/iterations/iteration_parts.h"
#include "report/json.h"

/* Those of the setting, or the others. */
static void add_numbers(cJSON *object,
                        const struct stp_iteration_number *numbers, size_t n,
                        bool of_setting)
{
    for (size_t i = 0; i < n; i++)
        if (numbers[i].of_setting == of_setting)
            stp_json_number(object, numbers[i].name, numbers[i].value);
}

static void add_arm_name(cJSON *object, const char *key,
                         const struct stp_iteration_arm *arm)
{
    char name[STP_ARM_NAME];

    stp_arm_name(&arm->arm, name);
    cJSON_AddStringToObject(object, key, name);
}

static void add_arm(cJSON *row, const struct stp_iteration_setting *setting,
                    const struct stp_iteration_arm *arm)
{
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];

    add_arm_name(row, "arm", arm);
    stp_json_pair(row, "ran", arm->ran_algo, arm->ran_proto, arm->ran_channels);
    cJSON_AddStringToObject(row, "source", stp_source_name(arm->source));
    add_numbers(row, numbers, stp_iteration_results(setting, arm, numbers),
                false);
}

static void add_place(cJSON *row, const struct stp_iteration_setting *setting)
{
    const struct stp_measurement *m = &setting->like;
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(setting, name);
    cJSON_AddStringToObject(row, "setting", name);
    cJSON_AddStringToObject(row, "mode", stp_mode_name(m->work.mode));
    cJSON_AddStringToObject(row, "compute", stp_compute_name(m->work.compute));
    cJSON_AddStringToObject(row, "collective", stp_coll_name(m->coll));
    add_numbers(row, numbers, stp_iteration_place(setting, numbers), true);
    cJSON_AddStringToObject(row, "type", stp_type_name(m->type));
    cJSON_AddStringToObject(row, "op", stp_op_name(m->op));
}

static void add_setting(cJSON *row, const struct stp_iteration_setting *setting)
{
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
    char text[STP_ITERATION_TEXT];
    cJSON *arms;

    add_place(row, setting);
    add_numbers(row, numbers,
                stp_iteration_results(setting, setting->arms, numbers), true);
    stp_iteration_verdict(setting, " ", text);
    cJSON_AddStringToObject(row, "verdict", text);
    arms = cJSON_AddArrayToObject(row, "arms");
    for (size_t a = 0; a < setting->n_arms; a++)
        add_arm(stp_json_row(arms), setting, &setting->arms[a]);
}

static void add_regimes(cJSON *root, const struct stp_iteration_report *report)
{
    cJSON *list;

    stp_json_number(root, "min_gain", report->min_gain);
    list = cJSON_AddArrayToObject(root, "regimes");
    for (size_t i = 0; i < report->n_regimes; i++) {
        const struct stp_regime *r = &report->regimes[i];
        struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
        cJSON *row = stp_json_row(list);

        add_place(row, r->setting);
        add_arm_name(row, "fastest_alone", r->alone);
        add_arm_name(row, "best_iteration", r->best);
        add_numbers(row, numbers, stp_iteration_regime_results(r, numbers),
                    false);
    }
}

enum stp_status
stp_print_iterations_json(const struct stp_iteration_report *report, FILE *fp,
                          struct stp_error *err)
{
    const struct stp_dataset *data = &report->iterations->data;
    cJSON *root = cJSON_CreateObject();
    cJSON *settings;

    cJSON_AddStringToObject(root, "made_by", report->made_by);
    cJSON_AddStringToObject(root, "machine", data->machine);
    cJSON_AddStringToObject(root, "gpu", data->gpu);
    cJSON_AddStringToObject(root, "nccl", data->nccl);
    cJSON_AddStringToObject(root, "backend", data->backend);
    settings = cJSON_AddArrayToObject(root, "settings");
    for (size_t i = 0; i < report->summary->n_settings; i++)
        add_setting(stp_json_row(settings), &report->summary->settings[i]);
    if (report->looked_for_regimes)
        add_regimes(root, report);
    return stp_json_finish(root, fp, err);
}
