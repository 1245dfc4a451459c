#include "report/measurements/measurements_json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "core/dtype.h"
#include "core/names.h"
#include "report/json.h"

/* One key of a row.  read() returns false if the value means nothing. */
struct key {
    const char *name;
    bool (*read)(const cJSON *value, struct stp_measurement *m);
    const char *expected;
};

/* Whole numbers above this are not exact in JSON. */
#define WHOLE_MAX 9007199254740992.0

static bool whole(const cJSON *value, double min, double max, double *n_ret)
{
    double n = cJSON_GetNumberValue(value);

    if (!(n >= min && n <= max) || n != floor(n))
        return false;
    *n_ret = n;
    return true;
}

static bool whole_unsigned(const cJSON *value, double min, unsigned *n_ret)
{
    double n;

    if (!whole(value, min, UINT32_MAX, &n))
        return false;
    *n_ret = (unsigned)n;
    return true;
}

/* The number of a word in one of our lists, or -1. */
static int word(const cJSON *value, int (*from_name)(const char *, size_t))
{
    const char *s = cJSON_GetStringValue(value);

    return s != NULL ? from_name(s, strlen(s)) : -1;
}

static bool read_coll(const cJSON *value, struct stp_measurement *m)
{
    return (m->coll = word(value, stp_coll_from_name)) >= 0;
}

static bool read_bytes(const cJSON *value, struct stp_measurement *m)
{
    double n;

    if (!whole(value, 0, WHOLE_MAX, &n))
        return false;
    m->n_bytes = (uint64_t)n;
    return true;
}

static bool read_round(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 0, &m->round);
}

static bool read_arm(const cJSON *value, struct stp_measurement *m)
{
    const char *s = cJSON_GetStringValue(value);

    return s != NULL && stp_arm_from_name(s, strlen(s), &m->arm);
}

static bool read_nodes(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 1, &m->n_nodes);
}

static bool read_ranks(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 1, &m->n_ranks);
}

static bool read_iters(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 1, &m->iters);
}

static bool read_us(const cJSON *value, double *us_ret)
{
    *us_ret = cJSON_GetNumberValue(value);
    return isfinite(*us_ret) && *us_ret > 0;
}

static bool read_mean(const cJSON *value, struct stp_measurement *m)
{
    return read_us(value, &m->us.mean);
}

static bool read_median(const cJSON *value, struct stp_measurement *m)
{
    return read_us(value, &m->us.median);
}

static bool read_p95(const cJSON *value, struct stp_measurement *m)
{
    return read_us(value, &m->us.p95);
}

static bool read_p99(const cJSON *value, struct stp_measurement *m)
{
    return read_us(value, &m->us.p99);
}

static bool read_min(const cJSON *value, struct stp_measurement *m)
{
    return read_us(value, &m->us.min);
}

static bool read_source(const cJSON *value, struct stp_measurement *m)
{
    int source = word(value, stp_source_from_name);

    m->source = source < 0 ? STP_SOURCE_MODELLED : (enum stp_source)source;
    return source >= 0;
}

/* null for what nobody knows. */
static bool read_ran(const cJSON *value, struct stp_measurement *m)
{
    const cJSON *algo = cJSON_GetObjectItemCaseSensitive(value, "algorithm");
    const cJSON *proto = cJSON_GetObjectItemCaseSensitive(value, "protocol");
    const cJSON *channels = cJSON_GetObjectItemCaseSensitive(value, "channels");
    double n;

    m->ran_algo = word(algo, stp_algo_from_name);
    m->ran_proto = word(proto, stp_proto_from_name);
    if (!whole(channels, 0, STP_MAX_CHANNELS, &n))
        return false;
    m->ran_channels = (int)n;
    return (m->ran_algo >= 0 || cJSON_IsNull(algo)) &&
           (m->ran_proto >= 0 || cJSON_IsNull(proto));
}

static bool read_type(const cJSON *value, struct stp_measurement *m)
{
    return (m->type = word(value, stp_type_from_name)) >= 0;
}

static bool read_op(const cJSON *value, struct stp_measurement *m)
{
    m->op = cJSON_IsNull(value) ? STP_OP_SUM : word(value, stp_op_from_name);
    return m->op >= 0;
}

static bool read_root(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 0, &m->root);
}

static bool read_in_place(const cJSON *value, struct stp_measurement *m)
{
    m->in_place = cJSON_IsTrue(value);
    return cJSON_IsBool(value);
}

static bool read_wrong(const cJSON *value, struct stp_measurement *m)
{
    double n = -1;

    if (!cJSON_IsNull(value) && !whole(value, 0, WHOLE_MAX, &n))
        return false;
    m->n_wrong = (int64_t)n;
    return true;
}

static bool read_mode(const cJSON *value, struct stp_measurement *m)
{
    return (m->work.mode = word(value, stp_mode_from_name)) > STP_MODE_ALONE;
}

static bool read_compute(const cJSON *value, struct stp_measurement *m)
{
    return (m->work.compute = word(value, stp_compute_from_name)) >= 0;
}

static bool read_layers(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 1, &m->work.layers);
}

static bool read_from_0(const cJSON *value, double *value_ret)
{
    *value_ret = cJSON_GetNumberValue(value);
    return isfinite(*value_ret) && *value_ret >= 0;
}

static bool read_ratio(const cJSON *value, struct stp_measurement *m)
{
    return read_from_0(value, &m->work.ratio);
}

static bool read_m(const cJSON *value, struct stp_measurement *m)
{
    m->work.gemm.type = m->type;
    return whole_unsigned(value, 0, &m->work.gemm.m);
}

static bool read_n(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 0, &m->work.gemm.n);
}

static bool read_k(const cJSON *value, struct stp_measurement *m)
{
    return whole_unsigned(value, 0, &m->work.gemm.k);
}

static bool read_compute_us(const cJSON *value, struct stp_measurement *m)
{
    return read_from_0(value, &m->work.compute_us);
}

static bool read_alone_us(const cJSON *value, struct stp_measurement *m)
{
    return read_from_0(value, &m->alone_us);
}

static const struct key keys[] = {
    {"collective", read_coll, "the name of a collective"},
    {"bytes", read_bytes, "a number of bytes"},
    {"round", read_round, "a number from 0"},
    {"arm", read_arm,
     "auto, auto2, plugin or ALGORITHM/PROTOCOL/CHANNELS or a part of it"},
    {"nNodes", read_nodes, "a number from 1"},
    {"nRanks", read_ranks, "a number from 1"},
    {"iters", read_iters, "a number from 1"},
    {"mean_us", read_mean, "a time above 0"},
    {"median_us", read_median, "a time above 0"},
    {"p95_us", read_p95, "a time above 0"},
    {"p99_us", read_p99, "a time above 0"},
    {"min_us", read_min, "a time above 0"},
    {"source", read_source,
     "measured, recorded, interpolated, single_pass or modelled"},
    {"ran", read_ran, "an object of algorithm, protocol and channels"},
    {"type", read_type, STP_TYPE_WORDS},
    {"op", read_op, STP_OP_WORDS ", or null"},
    {"root", read_root, "a rank from 0"},
    {"in_place", read_in_place, "true or false"},
    {"n_wrong", read_wrong, "a number of elements, or null"},
};

/* Of iterations: all of them, or none. */
static const struct key work_keys[] = {
    {"mode", read_mode, "sequential, overlap or fsdp"},
    {"compute", read_compute, "gemm or training"},
    {"layers", read_layers, "a number from 1"},
    {"ratio", read_ratio, "a number from 0"},
    {"m", read_m, "a number from 0"},
    {"n", read_n, "a number from 0"},
    {"k", read_k, "a number from 0"},
    {"compute_us", read_compute_us, "a time from 0"},
    {"alone_us", read_alone_us, "a time from 0"},
};

static enum stp_status read_key(const cJSON *row, size_t n,
                                const struct key *key,
                                struct stp_measurement *m,
                                struct stp_error *err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(row, key->name);

    if (value == NULL)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "measurements[%zu] without %s, expected %s", n,
                        key->name, key->expected);
    if (!key->read(value, m))
        return stp_fail(
            err, STP_ERR_SYNTAX,
            "measurements[%zu] with a %s that means nothing, expected %s", n,
            key->name, key->expected);
    return STP_OK;
}

static enum stp_status read_row(const cJSON *row, size_t n,
                                struct stp_measurement *m,
                                struct stp_error *err)
{
    size_t n_work = cJSON_GetObjectItemCaseSensitive(row, "mode") != NULL
                        ? sizeof(work_keys) / sizeof(work_keys[0])
                        : 0;
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (status == STP_OK)
            status = read_key(row, n, &keys[i], m, err);
    for (size_t i = 0; i < n_work && status == STP_OK; i++)
        status = read_key(row, n, &work_keys[i], m, err);
    return status;
}

static enum stp_status read_rows(const cJSON *rows, struct stp_dataset *data,
                                 struct stp_error *err)
{
    const cJSON *row;
    size_t n = 0;

    cJSON_ArrayForEach(row, rows)
    {
        struct stp_measurement m = {0};
        enum stp_status status = read_row(row, n++, &m, err);

        if (status != STP_OK)
            return status;
        if (stp_dataset_add(data, &m) != STP_OK)
            return stp_nomem(err);
    }
    if (n == 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "no measurements, expected an array of them under "
                        "\"measurements\"");
    return STP_OK;
}

static void read_name(const cJSON *root, const char *key, char *value,
                      size_t size)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(root, key));

    snprintf(value, size, "%s", s != NULL ? s : "");
}

enum stp_status stp_measurements_read_json(const char *text, size_t len,
                                           struct stp_dataset *data,
                                           struct stp_error *err)
{
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    enum stp_status status;

    if (root == NULL)
        return stp_json_refuse(text, end, "steptune sweep --json prints", err);
    read_name(root, "machine", data->machine, sizeof(data->machine));
    read_name(root, "gpu", data->gpu, sizeof(data->gpu));
    read_name(root, "nccl", data->nccl, sizeof(data->nccl));
    read_name(root, "backend", data->backend, sizeof(data->backend));
    status = read_rows(cJSON_GetObjectItemCaseSensitive(root, "measurements"),
                       data, err);
    cJSON_Delete(root);
    if (status != STP_OK)
        stp_dataset_free(data);
    return status;
}
