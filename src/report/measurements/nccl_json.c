#include "report/measurements/nccl_text.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/text.h"
#include "report/json.h"

bool stp_nccl_json_is(const char *text, size_t len)
{
    static const char begin[] = "{\"version\":";
    size_t n = 0;

    for (size_t i = 0; i < len && begin[n] != '\0'; i++)
        if (!isspace((unsigned char)text[i]) && text[i] != begin[n++])
            return false;
    return begin[n] == '\0';
}

static const cJSON *nccl_json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

/* The value under the key, after a blank: a number with all digits, or a text;
 * 'missing' if there is none, or null. */
static void nccl_json_put(const cJSON *object, const char *key,
                          const char *missing, FILE *fp)
{
    const cJSON *value = nccl_json_get(object, key);

    if (cJSON_IsNumber(value))
        fprintf(fp, " %.17g", value->valuedouble);
    else if (cJSON_IsString(value))
        fprintf(fp, " %s", value->valuestring);
    else
        fprintf(fp, " %s", missing);
}

static double nccl_json_get_count(const cJSON *object, const char *key)
{
    const cJSON *value = nccl_json_get(object, key);

    return value != NULL ? cJSON_GetNumberValue(value) : 1;
}

static void nccl_json_put_place(const cJSON *result, const char *place_key,
                                const char *iters_key, FILE *fp)
{
    const cJSON *place = nccl_json_get(result, place_key);
    const cJSON *iters = nccl_json_get(result, iters_key);
    bool is_cpu = nccl_json_get(place, "cpu_time") != NULL;

    nccl_json_put(place, is_cpu ? "cpu_time" : "time", "N/A", fp);
    nccl_json_put(place, "alg_bw", "N/A", fp);
    nccl_json_put(place, "bus_bw", "N/A", fp);
    nccl_json_put(place, "nwrong", "N/A", fp);
    nccl_json_put(iters, "min_us", "N/A", fp);
    nccl_json_put(iters, "p50_us", "N/A", fp);
    nccl_json_put(iters, "p95_us", "N/A", fp);
    nccl_json_put(iters, "p99_us", "N/A", fp);
}

enum stp_status stp_nccl_json_to_text(const char *json, size_t json_len,
                                      char **text_ret, size_t *len_ret,
                                      unsigned *n_rows_ret,
                                      struct stp_nccl_settings *settings_ret,
                                      struct stp_error *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(json, json_len, &end, false);
    const cJSON *config = nccl_json_get(root, "config");
    const cJSON *version = nccl_json_get(root, "nccl_version");
    const cJSON *item;
    /* A process has an entry for the first of its ranks only. */
    const double n = nccl_json_get_count(config, "nthreads") *
                     nccl_json_get_count(config, "ngpus");
    const char *program;
    FILE *fp;

    if (root == NULL)
        return stp_json_refuse(json, end, "nccl-tests write with -J", err);
    if (!(n >= 1 && n <= 1024)) {
        cJSON_Delete(root);
        return stp_fail(err, STP_ERR_SYNTAX,
                        "config with nthreads times ngpus %g, expected 1 to "
                        "1024 ranks a process",
                        n);
    }
    fp = open_memstream(text_ret, len_ret);
    if (fp == NULL) {
        cJSON_Delete(root);
        return stp_nomem(err);
    }
    program = cJSON_GetStringValue(
        cJSON_GetArrayItem(nccl_json_get(root, "args"), 0));
    fprintf(fp, "# " STP_NCCL_TEXT_STARTING "%s\n# nThread 1 iters:",
            program != NULL ? stp_base_name(program) : "?");
    nccl_json_put(config, "iterations", "1", fp);
    fprintf(fp, "\n# nccl-tests version ? nccl-library=%.0f\n",
            cJSON_IsNumber(version) ? version->valuedouble : 0);

    cJSON_ArrayForEach(item, nccl_json_get(config, "devices"))
    {
        for (unsigned i = 0; i < (unsigned)n; i++) {
            fputs("# Rank 0 Group", fp);
            nccl_json_put(item, "group", "0", fp);
            fputs(" on", fp);
            nccl_json_put(item, "hostname", "-", fp);
            fputs(" device 0 []", fp);
            nccl_json_put(item, "device_info", "", fp);
            fputc('\n', fp);
        }
    }

    fputs("# size type redop root time algbw busbw #wrong i_min i_p50 i_p95 "
          "i_p99 time algbw busbw #wrong i_min i_p50 i_p95 i_p99\n",
          fp);
    *n_rows_ret = 0;
    cJSON_ArrayForEach(item, nccl_json_get(root, "results"))
    {
        nccl_json_put(item, "size", "?", fp);
        nccl_json_put(item, "type", "?", fp);
        nccl_json_put(item, "redop", "?", fp);
        nccl_json_put(item, "root", "?", fp);
        nccl_json_put_place(item, "out_of_place", "out_of_place_per_iter", fp);
        nccl_json_put_place(item, "in_place", "in_place_per_iter", fp);
        fputc('\n', fp);
        ++*n_rows_ret;
    }

    if (cJSON_GetNumberValue(
            nccl_json_get(nccl_json_get(root, "out_of_bounds"), "count")) > 0) {
        fputs("# Out of bounds values : ? FAILED\n", fp);
        ++*n_rows_ret;
    }

    *settings_ret = (struct stp_nccl_settings){.has_tuner = false};
    cJSON_ArrayForEach(item, nccl_json_get(root, "env"))
    {
        const char *s = cJSON_GetStringValue(item);

        if (s == NULL)
            continue;
        sscanf(s, "NCCL_ALGO=%15s", settings_ret->algo);
        sscanf(s, "NCCL_PROTO=%15s", settings_ret->proto);
        settings_ret->has_tuner |= strncmp(s, "NCCL_TUNER_PLUGIN=", 18) == 0;
    }

    cJSON_Delete(root);
    if (fclose(fp) == 0)
        return STP_OK;
    free(*text_ret);
    return stp_nomem(err);
}
