/* measurements_json.c - the reader of the JSON of a sweep */
#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "core/utf8.h"
#include "report/json.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/measurements_row.h"

/* One key of a row. */
struct key {
    const char *name;
    const char *column;   /* with the same meaning; NULL: of the same name */
    const char *expected; /* NULL: as of the column */
    const char *refused;  /* a text that the column takes and JSON does not */
    bool optional;
    bool (*read)(const cJSON *value, struct stp_measurement_row *row);
};

static bool json_read_arm(const cJSON *value, struct stp_measurement_row *row)
{
    const char *s = cJSON_GetStringValue(value);

    return s != NULL && stp_arm_from_name(s, strlen(s), &row->m.arm);
}

static bool json_read_ran(const cJSON *value, struct stp_measurement_row *row);

static const struct key keys[] = {
    {.name = "collective"},
    {.name = "bytes"},
    {.name = "round"},
    {.name = "arm",
     .read = json_read_arm,
     .expected = "an arm such as auto, auto2, plugin, ring/ll128/16 or sym"},
    {.name = "nNodes"},
    {.name = "nRanks"},
    {.name = "iters"},
    {.name = "mean_us"},
    {.name = "median_us"},
    {.name = "p95_us"},
    {.name = "p99_us"},
    {.name = "min_us"},
    {.name = "source"},
    {.name = "single_pass", .expected = "true or false", .optional = true},
    {.name = "ran",
     .read = json_read_ran,
     .expected = "an object of algorithm, protocol and channels"},
    {.name = "type"},
    {.name = "op", .expected = STP_OP_WORDS ", or null"},
    {.name = "root"},
    {.name = "in_place", .expected = "true or false"},
    {.name = "graph", .expected = "true or false", .optional = true},
    {.name = "n_wrong",
     .column = "wrong",
     .expected = "a number of elements, or null"},
    {.name = "bits", .expected = "same, other or null", .optional = true},
};

/* The keys of iterations: a row has all of them, or none. */
static const struct key work_keys[] = {
    {.name = "mode",
     .refused = "alone",
     .expected = "sequential, overlap, fsdp or trace"},
    {.name = "compute"},
    {.name = "layers", .refused = "0", .expected = "a number from 1"},
    {.name = "ratio"},
    {.name = "m"},
    {.name = "n"},
    {.name = "k"},
    {.name = "compute_us"},
    {.name = "alone_us"},
};

/* The value as a CSV file has it; false if its type is not the column's.  Whole
 * numbers of more than 16 digits, which are not exact in JSON, get an exponent,
 * which the column refuses. */
static bool json_get_field(const cJSON *value,
                           const struct stp_csv_column *column, char number[32],
                           struct stp_field *field)
{
    const char *s = NULL;

    if (cJSON_IsNull(value))
        s = column->none;
    else if (cJSON_IsBool(value) && column->kind == STP_CSV_FLAG)
        s = cJSON_IsTrue(value) ? "1" : "0";
    else if (cJSON_IsString(value) &&
             (column->kind == STP_CSV_WORD || column->kind == STP_CSV_TEXT))
        // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
        s = value->valuestring;
    else if (cJSON_IsNumber(value) && column->kind >= STP_CSV_WHOLE) {
        snprintf(number, 32, column->kind == STP_CSV_WHOLE ? "%.16g" : "%.17g",
                 // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
                 value->valuedouble);
        s = number;
    }
    if (s != NULL)
        *field = (struct stp_field){s, strlen(s), 0};
    return s != NULL;
}

static const struct stp_csv_column *json_find_column(const char *name)
{
    const struct stp_field field = {name, strlen(name), 0};

    return stp_csv_find(stp_measurement_columns, STP_N_MEASUREMENT_COLUMNS,
                        &field);
}

static bool json_read_column(const cJSON *value, const char *name,
                             const char *refused,
                             struct stp_measurement_row *row)
{
    const struct stp_csv_column *column = json_find_column(name);
    struct stp_field field;
    char number[32];

    return json_get_field(value, column, number, &field) &&
           !(refused != NULL && stp_field_is(&field, refused)) &&
           stp_csv_read_field(column, &field, row);
}

/* null stands for an unknown algorithm or protocol. */
static bool json_read_ran(const cJSON *value, struct stp_measurement_row *row)
{
    static const char *const names[] = {"algorithm", "protocol", "channels",
                                        "kernel"};
    enum { N_REQUIRED = 3, N = sizeof(names) / sizeof(names[0]) };
    char column[24];

    for (size_t i = 0; i < N; i++) {
        const cJSON *part = cJSON_GetObjectItemCaseSensitive(value, names[i]);

        snprintf(column, sizeof(column), "ran_%s", names[i]);
        if ((part != NULL || i < N_REQUIRED) &&
            !json_read_column(part, column, NULL, row))
            return false;
    }
    return true;
}

static enum stp_status json_read_key(const cJSON *object, size_t n,
                                     const struct key *key,
                                     struct stp_measurement_row *row,
                                     struct stp_error *err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key->name);
    const char *column = key->column != NULL ? key->column : key->name;
    const char *expected = key->expected != NULL
                               ? key->expected
                               : json_find_column(column)->expected;

    if (value == NULL && key->optional)
        return STP_OK;
    if (value == NULL)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "measurements[%zu] without %s, expected %s", n,
                        key->name, expected);
    if (key->read != NULL ? !key->read(value, row)
                          : !json_read_column(value, column, key->refused, row))
        return stp_fail(
            err, STP_ERR_SYNTAX,
            "measurements[%zu] with a %s that means nothing, expected %s", n,
            key->name, expected);
    return STP_OK;
}

static void json_read_name(const cJSON *root, const char *key, char *value,
                           size_t size)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));

    stp_printable(s, s != NULL ? strlen(s) : 0, value, size);
}

enum stp_status stp_measurements_read_json(const char *text, size_t len,
                                           struct stp_dataset *data,
                                           struct stp_error *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    enum stp_status status = STP_OK;
    const cJSON *object;
    size_t n = 0;

    if (root == NULL)
        return stp_json_refuse(text, end, "steptune sweep --json prints", err);
    json_read_name(root, "machine", data->machine, sizeof(data->machine));
    json_read_name(root, "gpu", data->gpu, sizeof(data->gpu));
    json_read_name(root, "nccl", data->nccl, sizeof(data->nccl));
    json_read_name(root, "backend", data->backend, sizeof(data->backend));
    cJSON_ArrayForEach(object,
                       cJSON_GetObjectItemCaseSensitive(root, "measurements"))
    {
        struct stp_measurement_row row = {.line = 0};
        size_t n_work = cJSON_GetObjectItemCaseSensitive(object, "mode") != NULL
                            ? sizeof(work_keys) / sizeof(work_keys[0])
                            : 0;

        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
            STP_THEN(status, json_read_key(object, n, &keys[i], &row, err));
        for (size_t i = 0; i < n_work; i++)
            STP_THEN(status,
                     json_read_key(object, n, &work_keys[i], &row, err));
        stp_measurement_row_forget(&row.m);
        if (n_work > 0)
            row.m.work.gemm.type = row.m.type;
        if (status == STP_OK && stp_dataset_add(data, &row.m) != STP_OK)
            status = stp_nomem(err);
        if (status != STP_OK)
            break;
        n++;
    }
    cJSON_Delete(root);
    if (status == STP_OK && n == 0)
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "no measurements, expected an array of them under "
                          "\"measurements\"");
    if (status != STP_OK)
        stp_dataset_free(data);
    return status;
}
