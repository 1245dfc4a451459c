#define _GNU_SOURCE /* memmem() */
/* nccl_json.c - JSON of nccl-tests, as text that says the same */
#include <ctype.h>
#include <string.h>

#include "core/text.h"
#include "launch/take.h"
#include "report/json.h"
#include "report/measurements/nccl_text.h"

static const cJSON *json_get(const cJSON *object, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(object, key);
}

bool stp_nccl_json_is(const char *text, size_t len)
{
    static const char begin[] = "{\"version\":", rccl[] = "\"busBw\"";
    char start[sizeof(begin)] = "";
    size_t n = 0;

    for (size_t i = 0; i < len && n < sizeof(begin) - 1; i++)
        if (!isspace((unsigned char)text[i]))
            start[n++] = text[i];
    return strcmp(start, begin) == 0 ||
           (stp_json_looks(text, len) &&
            memmem(text, len, rccl, sizeof(rccl) - 1) != NULL);
}

/* Prints the format, and for each "{PATHS|MISSING}" in it a number with all
 * digits or a text: that at the first of the paths, of keys between slashes,
 * with commas between them, which has one. */
static void json_format(const cJSON *object, const char *format, FILE *fp)
{
    for (; *format != '\0'; format++) {
        const cJSON *value = NULL, *at = object;
        char key[32], end = *format;

        if (end != '{')
            fputc(end, fp);
        if (end != '{')
            continue;
        for (format++; end != '|';) {
            const int n = (int)strcspn(format, "/,|");

            snprintf(key, sizeof(key), "%.*s", n, format);
            at = json_get(at, key);
            end = format[n];
            format += n + 1;
            if (end == '/')
                continue;
            if (value == NULL && (cJSON_IsNumber(at) || cJSON_IsString(at)))
                value = at;
            at = object;
        }
        if (value == NULL)
            fprintf(fp, "%.*s", (int)strcspn(format, "}"), format);
        else if (cJSON_IsNumber(value))
            fprintf(fp, "%.17g", cJSON_GetNumberValue(value));
        else
            fputs(cJSON_GetStringValue(value), fp);
        format += strcspn(format, "}");
    }
}

#define PLACE(key)                                                             \
    " {" key "/cpu_time," key "/time|N/A} {" key "/alg_bw|N/A} {" key          \
    "/bus_bw|N/A} {" key "/nwrong|N/A} {" key "_per_iter/min_us|N/A} {" key    \
    "_per_iter/p50_us|N/A} {" key "_per_iter/p95_us|N/A} {" key                \
    "_per_iter/p99_us|N/A}"

/* NVIDIA's: an object of a run. */
static void json_write_run(const cJSON *root, unsigned per_process, FILE *fp)
{
    const char *program =
        cJSON_GetStringValue(cJSON_GetArrayItem(json_get(root, "args"), 0));
    const cJSON *item, *config = json_get(root, "config");
    unsigned n_ranks = 0;

    fprintf(fp, "# " STP_NCCL_TEXT_STARTING "%s\n",
            program != NULL ? stp_base_name(program) : "?");
    json_format(
        root,
        "# nThread 1 iters: {config/iterations|1}\n# nccl-tests version "
        "? nccl-library={rccl_version,nccl_version|0}\n",
        fp);
    /* A process has an entry for the first of its ranks only. */
    cJSON_ArrayForEach(item, json_get(config, "devices"))
    {
        for (unsigned i = 0; i < per_process; i++) {
            fprintf(fp, "# Rank %u ", n_ranks++);
            json_format(item,
                        "Group {group|0} on {hostname|-} device 0 [] "
                        "{device_info|}\n",
                        fp);
        }
    }
    fputs("# size type redop root time algbw busbw #wrong i_min i_p50 i_p95 "
          "i_p99 time algbw busbw #wrong i_min i_p50 i_p95 i_p99\n",
          fp);
    cJSON_ArrayForEach(item, json_get(root, "results"))
    {
        json_format(item,
                    "{size|?} {type|?} {redop|?} {root|?}" PLACE("out_of_place")
                        PLACE("in_place") "\n",
                    fp);
    }
    if (cJSON_GetNumberValue(
            json_get(json_get(root, "out_of_bounds"), "count")) > 0)
        fputs("# Out of bounds values : ? FAILED\n", fp);
}

static enum stp_status json_write_text(const cJSON *item,
                                       struct stp_nccl_settings *settings,
                                       FILE *fp, struct stp_error *err)
{
    bool is_first = true;

    for (; item != NULL; item = item->next) {
        const cJSON *variable, *config = json_get(item, "config");
        const cJSON *threads = json_get(config, "nthreads");
        const cJSON *gpus = json_get(config, "ngpus");
        const double n = (threads != NULL ? cJSON_GetNumberValue(threads) : 1) *
                         (gpus != NULL ? cJSON_GetNumberValue(gpus) : 1);

        if (!(n >= 1 && n <= 1024))
            return stp_fail(err, STP_ERR_SYNTAX,
                            "config whose nthreads times ngpus is no number of "
                            "ranks of a process, expected 1 to 1024");
        const bool is_place = json_get(item, "busBw") != NULL; /* RCCL's */

        if (is_place && is_first)
            fputs("collective ranks gpusperrank size type redop inplace time "
                  "algbw busbw #wrong\n",
                  fp);
        if (is_place)
            json_format(item,
                        "{name|?} {nodes|?} {ranks|1} {gpusPerRank,gpus|1} "
                        "{size|?} {type|?} {redop|?} {inPlace|?} {time|?} "
                        "{algBw|N/A} {busBw|N/A} {wrong|N/A}\n",
                        fp);
        else
            json_write_run(item, (unsigned)n, fp);
        is_first = !is_place;
        cJSON_ArrayForEach(variable, json_get(item, "env"))
        {
            const char *s = cJSON_GetStringValue(variable);

            if (s == NULL)
                continue;
            sscanf(s, "NCCL_ALGO=%15s", settings->algo);
            sscanf(s, "NCCL_PROTO=%15s", settings->proto);
            settings->has_tuner |= strncmp(s, "NCCL_TUNER_PLUGIN=", 18) == 0;
        }
    }
    return STP_OK;
}

/* Parses a list, or values in a row as one; NULL if there is none. */
static cJSON *json_parse(const char *json, size_t len, const char **end)
{
    cJSON *root = cJSON_ParseWithLengthOpts(json, len, end, false), *list;
    const char *rest = *end;

    if (root == NULL || cJSON_IsArray(root))
        return root;
    list = cJSON_CreateArray();
    while (cJSON_AddItemToArray(list, root))
        root = cJSON_ParseWithLengthOpts(rest, (size_t)(json + len - rest),
                                         &rest, false);
    return list;
}

enum stp_status stp_nccl_json_to_text(const char *json, size_t json_len,
                                      char **text_ret, size_t *len_ret,
                                      struct stp_nccl_settings *settings_ret,
                                      struct stp_error *err)
{
    const char *end = NULL;
    cJSON *root = json_parse(json, json_len, &end);
    FILE *fp;
    enum stp_status status;

    if (root == NULL)
        return stp_json_refuse(json, end, "nccl-tests write", err);
    fp = stp_take_text(text_ret, len_ret);
    status = json_write_text(root->child, settings_ret, fp, err);
    cJSON_Delete(root);
    stp_end_text(fp);
    return status;
}
