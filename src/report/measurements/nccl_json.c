#include "report/measurements/nccl_json.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/text.h"
#include "report/json.h"
#include "report/measurements/nccl_run.h"

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

/* ---- results ---- */

/* A number from 'min' under the key; 'missing' if there is no such key, or
 * null. */
static bool nccl_json_get_number(const cJSON *object, const char *key,
                                 double min, double missing, double *number_ret)
{
    const cJSON *value = nccl_json_get(object, key);

    *number_ret = value == NULL || cJSON_IsNull(value)
                      ? missing
                      : cJSON_GetNumberValue(value);
    return *number_ret >= min && isfinite(*number_ret);
}

static bool nccl_json_get_word(const cJSON *object, const char *key,
                               int (*from_name)(const char *, size_t),
                               int *number_ret)
{
    const char *word = cJSON_GetStringValue(nccl_json_get(object, key));

    return word != NULL && (*number_ret = from_name(word, strlen(word))) >= 0;
}

/* A place that is missing or null was not measured. */
static bool nccl_json_read_place(const cJSON *result, const char *key,
                                 struct stp_nccl_place *p)
{
    const cJSON *place = nccl_json_get(result, key);
    const cJSON *iters;
    char per_iter[32];

    snprintf(per_iter, sizeof(per_iter), "%s_per_iter", key);
    iters = nccl_json_get(result, per_iter);
    *p = (struct stp_nccl_place){.error = -1};
    return nccl_json_get_number(place, "cpu_time", 0, 0, &p->us) &&
           nccl_json_get_number(place, "time", 0, p->us, &p->us) &&
           nccl_json_get_number(place, "nwrong", -1, -1, &p->n_wrong) &&
           nccl_json_get_number(iters, "min_us", 0, 0, &p->min_us) &&
           nccl_json_get_number(iters, "p50_us", 0, 0, &p->median_us) &&
           nccl_json_get_number(iters, "p95_us", 0, 0, &p->p95_us) &&
           nccl_json_get_number(iters, "p99_us", 0, 0, &p->p99_us);
}

/* The root is a text with blanks before the number, -1 where there is none. */
static bool nccl_json_read_root(const cJSON *result, unsigned *root_ret)
{
    const char *s = cJSON_GetStringValue(nccl_json_get(result, "root"));
    int root;

    if (s == NULL || sscanf(s, "%d", &root) != 1 || root < -1)
        return false;
    *root_ret = root < 0 ? 0 : (unsigned)root;
    return true;
}

static enum stp_status nccl_json_read_result(const cJSON *result, size_t n,
                                             struct stp_nccl_row *row,
                                             struct stp_error *err)
{
    double n_bytes = 0;
    const char *wrong = NULL;

    if (!nccl_json_get_number(result, "size", 0, -1, &n_bytes))
        wrong = "size, expected a number of bytes";
    else if (!nccl_json_get_word(result, "type", stp_type_from_name,
                                 &row->type))
        wrong = "type, expected " STP_TYPE_WORDS ", or nccl-tests' word for it";
    else if (!nccl_json_get_word(result, "redop", stp_nccl_op, &row->op))
        wrong = "redop, expected " STP_OP_WORDS ", or none";
    else if (!nccl_json_read_root(result, &row->root))
        wrong = "root, expected a rank, or -1";
    else if (!nccl_json_read_place(result, "out_of_place", &row->places[0]))
        wrong = "out_of_place, expected times and a number of elements";
    else if (!nccl_json_read_place(result, "in_place", &row->places[1]))
        wrong = "in_place, expected times and a number of elements";
    if (wrong != NULL)
        return stp_fail(err, STP_ERR_SYNTAX, "results[%zu] without a valid %s",
                        n, wrong);
    row->n_bytes = (uint64_t)n_bytes;
    return STP_OK;
}

static enum stp_status nccl_json_read_results(const cJSON *results,
                                              struct stp_nccl_run *run,
                                              struct stp_dataset *data,
                                              struct stp_error *err)
{
    const unsigned iters = run->iters;
    const cJSON *result;
    size_t n = 0;
    enum stp_status status = STP_OK;

    cJSON_ArrayForEach(result, results)
    {
        struct stp_nccl_row row = {.n_bytes = 0};
        double actual;

        if (status == STP_OK)
            status = nccl_json_read_result(result, n++, &row, err);
        if (status == STP_OK) {
            run->iters = nccl_json_get_number(result, "actual_iterations", 1,
                                              iters, &actual)
                             ? (unsigned)actual
                             : iters;
            status = stp_nccl_run_add(run, &row, data, err);
        }
    }
    if (status == STP_OK && data->n_rows == 0)
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "no \"results\", expected what nccl-tests write");
    return status;
}

/* ---- the run ---- */

static const char *nccl_json_get_text(const cJSON *object, const char *key)
{
    const char *s = cJSON_GetStringValue(nccl_json_get(object, key));

    return s != NULL ? s : "";
}

/* Whether no device before 'device' is on its host. */
static bool nccl_json_is_new_host(const cJSON *devices, const cJSON *device)
{
    const cJSON *other;

    cJSON_ArrayForEach(other, devices)
    {
        if (other == device)
            break;
        if (strcmp(nccl_json_get_text(other, "hostname"),
                   nccl_json_get_text(device, "hostname")) == 0)
            return false;
    }
    return true;
}

/* Counts the ranks and nodes of the first group: groups are communicators of
 * their own, and of the same size. */
static void nccl_json_read_devices(const cJSON *config,
                                   struct stp_nccl_run *run,
                                   struct stp_dataset *data)
{
    const cJSON *devices = nccl_json_get(config, "devices");
    const cJSON *first = cJSON_GetArrayItem(devices, 0);
    const cJSON *device;
    double n_threads, n_gpus;

    cJSON_ArrayForEach(device, devices)
    {
        if (cJSON_GetNumberValue(nccl_json_get(device, "group")) !=
            cJSON_GetNumberValue(nccl_json_get(first, "group")))
            continue;
        run->n_ranks++;
        run->n_nodes += nccl_json_is_new_host(devices, device);
    }
    if (nccl_json_get_number(config, "nthreads", 1, 1, &n_threads) &&
        nccl_json_get_number(config, "ngpus", 1, 1, &n_gpus))
        run->n_ranks *= (unsigned)n_threads * (unsigned)n_gpus;
    snprintf(data->machine, sizeof(data->machine), "%s",
             nccl_json_get_text(first, "hostname"));
    snprintf(data->gpu, sizeof(data->gpu), "%s",
             nccl_json_get_text(first, "device_info"));
}

static enum stp_status nccl_json_read_run(const cJSON *root, int coll,
                                          struct stp_nccl_run *run,
                                          struct stp_dataset *data,
                                          struct stp_error *err)
{
    const char *program = cJSON_GetStringValue(
        cJSON_GetArrayItem(nccl_json_get(root, "args"), 0));
    const cJSON *config = nccl_json_get(root, "config");
    double code, iters;
    int named = -1;

    if (program != NULL) {
        program = stp_base_name(program);
        named = stp_nccl_program_coll(program, strlen(program));
    }
    *run = (struct stp_nccl_run){.coll = named >= 0 ? named : coll,
                                 .arm = {.kind = STP_ARM_AUTO},
                                 .iters = 1,
                                 .ran_algo = -1,
                                 .ran_proto = -1,
                                 .last_size = UINT64_MAX};
    if (run->coll < 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "\"args\" of the program '%.40s', expected "
                        "" STP_NCCL_PROGRAMS ", or --collective",
                        program != NULL ? program : "");
    nccl_json_read_devices(config, run, data);
    if (run->n_ranks == 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "no \"devices\" under \"config\", expected an entry a "
                        "process");
    if (nccl_json_get_number(config, "iterations", 1, 1, &iters))
        run->iters = (unsigned)iters;
    if (nccl_json_get_number(root, "nccl_version", 1, 0, &code) &&
        code <= 999999)
        snprintf(data->nccl, sizeof(data->nccl), "%s",
                 stp_nccl_version((uint64_t)code).text);
    strcpy(data->backend, "nccl");
    return STP_OK;
}

static void nccl_json_read_settings(const cJSON *env,
                                    struct stp_nccl_settings *settings)
{
    const cJSON *item;

    *settings = (struct stp_nccl_settings){.has_tuner = false};
    cJSON_ArrayForEach(item, env)
    {
        const char *s = cJSON_GetStringValue(item);

        if (s == NULL)
            continue;
        sscanf(s, "NCCL_ALGO=%15s", settings->algo);
        sscanf(s, "NCCL_PROTO=%15s", settings->proto);
        settings->has_tuner |= strncmp(s, "NCCL_TUNER_PLUGIN=", 18) == 0;
    }
}

enum stp_status stp_nccl_json_read(const char *text, size_t len, int coll,
                                   struct stp_dataset *data,
                                   struct stp_nccl_settings *settings_ret,
                                   struct stp_error *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    struct stp_nccl_run run;
    enum stp_status status;

    if (root == NULL)
        return stp_json_refuse(text, end, "nccl-tests write with -J", err);
    status = nccl_json_read_run(root, coll, &run, data, err);
    if (status == STP_OK)
        status = nccl_json_read_results(nccl_json_get(root, "results"), &run,
                                        data, err);
    if (settings_ret != NULL)
        nccl_json_read_settings(nccl_json_get(root, "env"), settings_ret);
    cJSON_Delete(root);
    if (status != STP_OK)
        stp_dataset_free(data);
    return status;
}
