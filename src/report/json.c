#include "report/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"

/* cJSON leaves out what it has no memory for, and does not say so. */
static void *json_take(size_t size)
{
    return stp_take(1, size);
}

void stp_json_begin(void)
{
    cJSON_Hooks hooks = {json_take, free};

    cJSON_InitHooks(&hooks);
}

void stp_json_finish(cJSON *root, FILE *fp)
{
    char *text = cJSON_Print(root);

    cJSON_Delete(root);
    fprintf(fp, "%s\n", text);
    cJSON_free(text);
}

void stp_json_number(cJSON *object, const char *key, double value)
{
    if (isfinite(value))
        cJSON_AddNumberToObject(object, key, value);
    else
        cJSON_AddNullToObject(object, key);
}

cJSON *stp_json_row(cJSON *list)
{
    cJSON *object = cJSON_CreateObject();

    cJSON_AddItemToArray(list, object);
    return object;
}

void stp_json_word(cJSON *object, const char *key, const char *word)
{
    if (word != NULL)
        cJSON_AddStringToObject(object, key, word);
    else
        cJSON_AddNullToObject(object, key);
}

void stp_json_tuner(cJSON *object, const char *tuner)
{
    if (tuner[0] != '\0')
        cJSON_AddStringToObject(object, "tuner", tuner);
}

void stp_json_origin(cJSON *object, const struct stp_dataset *data)
{
    cJSON_AddStringToObject(object, "machine", data->machine);
    cJSON_AddStringToObject(object, "gpu", data->gpu);
    cJSON_AddStringToObject(object, "nccl", data->nccl);
    cJSON_AddStringToObject(object, "backend", data->backend);
    stp_json_tuner(object, data->tuner);
}

void stp_json_pair(cJSON *object, const char *key, int algo, int proto,
                   int n_channels)
{
    cJSON *pair = cJSON_AddObjectToObject(object, key);

    stp_json_word(pair, "algorithm", algo < 0 ? NULL : stp_algo_name(algo));
    stp_json_word(pair, "protocol", proto < 0 ? NULL : stp_proto_name(proto));
    stp_json_number(pair, "channels", n_channels);
}

void stp_json_gain(cJSON *object, const struct stp_gain *gain)
{
    stp_json_number(object, "gain", gain->gain);
    stp_json_number(object, "gain_low", gain->low);
    stp_json_number(object, "gain_high", gain->high);
    stp_json_number(object, "rounds", (double)gain->n_pairs);
}

bool stp_json_looks(const char *text, size_t len)
{
    char begin[3] = "";
    size_t n = 0;

    text = stp_past_bom(text, &len);
    for (size_t i = 0; i < len && n < 2; i++)
        if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0')
            begin[n++] = text[i];
    return begin[0] == '{' ? strchr("\"}", begin[1]) != NULL
                           : begin[0] == '[' && begin[1] == '{';
}

enum stp_status stp_json_refuse(const char *text, const char *end,
                                const char *writer, struct stp_error *err)
{
    unsigned line = 1;
    unsigned column = 1;

    for (const char *s = text; end != NULL && s < end; s++) {
        line += *s == '\n';
        column = *s == '\n' ? 1 : column + 1;
    }
    return stp_fail_at(err, STP_ERR_SYNTAX, line, column,
                       "not JSON from here on, expected what %s", writer);
}
