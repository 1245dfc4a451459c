#include "report/measurements_csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/file.h"

/* ---- writing ---- */

static void write_arm(const struct stp_arm *arm, FILE *fp)
{
    if (arm->kind == STP_ARM_FORCED)
        fprintf(fp, "%s,%s,%d", stp_algo_name(arm->algo),
                stp_proto_name(arm->proto), arm->n_channels);
    else if (arm->kind == STP_ARM_PLUGIN)
        fprintf(fp, "plugin,plugin,0");
    else
        fprintf(fp, "auto,auto,0");
}

/* "-" is for what nobody knows. */
static void write_ran(const struct stp_measurement *m, FILE *fp)
{
    fprintf(fp, ",%s,%s,%d", m->ran_algo < 0 ? "-" : stp_algo_name(m->ran_algo),
            m->ran_proto < 0 ? "-" : stp_proto_name(m->ran_proto),
            m->ran_channels);
}

/* What of, and whether it was right. */
static void write_data(const struct stp_measurement *m, FILE *fp)
{
    fprintf(fp, ",%s,%s,%u,%d,", stp_type_name(m->type),
            stp_coll_reduces(m->coll) ? stp_op_name(m->op) : "none", m->root,
            m->in_place);
    if (m->n_wrong >= 0)
        fprintf(fp, "%" PRId64, m->n_wrong);
}

static void write_row(const struct stp_measurement *m, FILE *fp)
{
    fprintf(fp, "%s,%" PRIu64 ",%u,", stp_coll_name(m->coll), m->n_bytes,
            m->round);
    write_arm(&m->arm, fp);
    fprintf(fp, ",%u,%u,%u,%.3f,%.3f,%.3f,%.3f,%.3f", m->n_nodes, m->n_ranks,
            m->iters, m->us.mean, m->us.median, m->us.p95, m->us.p99,
            m->us.min);
    write_ran(m, fp);
    write_data(m, fp);
    fprintf(fp, ",%s\n", stp_source_name(m->source));
}

void stp_measurements_write(const struct stp_dataset *data, const char *made_by,
                            FILE *fp)
{
    fprintf(fp, "# %s\n# machine: %s\n# gpu: %s\n# nccl: %s\n# backend: %s\n",
            made_by, data->machine, data->gpu, data->nccl, data->backend);
    fputs("collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,"
          "iters,mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,"
          "ran_protocol,ran_channels,type,op,root,in_place,wrong,source\n",
          fp);
    for (size_t i = 0; i < data->n_rows; i++)
        write_row(&data->rows[i], fp);
}

enum stp_status stp_measurements_save(const struct stp_dataset *data,
                                      const char *made_by, const char *path,
                                      struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    stp_measurements_write(data, made_by, file.fp);
    return stp_file_commit(&file, err);
}

/* ---- reading ---- */

/* What the row being read lacks until its line is whole. */
struct parsed {
    struct stp_measurement m;
    bool has_mean, has_p95, has_p99, has_min, has_ran;
};

static bool parse_count(const struct stp_field *f, uint64_t min, uint64_t max,
                        uint64_t *value_ret)
{
    return stp_parse_u64(f->s, f->len, value_ret) && *value_ret >= min &&
           *value_ret <= max;
}

static bool parse_unsigned(const struct stp_field *f, unsigned min,
                           unsigned *value_ret)
{
    uint64_t v;

    if (!parse_count(f, min, UINT32_MAX, &v))
        return false;
    *value_ret = (unsigned)v;
    return true;
}

static bool parse_us(const struct stp_field *f, double *us_ret)
{
    return stp_parse_double(f->s, f->len, us_ret) && *us_ret > 0;
}

static bool read_coll(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.coll = stp_coll_from_name(f->s, f->len);
    return p->m.coll >= 0;
}

static bool read_bytes(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return stp_parse_u64(f->s, f->len, &p->m.n_bytes);
}

static bool read_round(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_unsigned(f, 0, &p->m.round);
}

/* auto and plugin stand in both columns; one is enough to set the kind. */
static bool read_special(const struct stp_field *f, struct parsed *p)
{
    if (stp_field_is(f, "auto"))
        p->m.arm.kind = STP_ARM_AUTO;
    else if (stp_field_is(f, "plugin"))
        p->m.arm.kind = STP_ARM_PLUGIN;
    else
        return false;
    return true;
}

static bool read_algo(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.arm.algo = 0;
    if (read_special(f, p))
        return true;
    p->m.arm.kind = STP_ARM_FORCED;
    p->m.arm.algo = stp_algo_from_name(f->s, f->len);
    return p->m.arm.algo >= 0;
}

static bool read_proto(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.arm.proto = 0;
    if (stp_field_is(f, "auto") || stp_field_is(f, "plugin"))
        return true;
    p->m.arm.proto = stp_proto_from_name(f->s, f->len);
    return p->m.arm.proto >= 0;
}

static bool read_channels(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.arm.n_channels = (int)n;
    return true;
}

static bool read_nodes(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_unsigned(f, 1, &p->m.n_nodes);
}

static bool read_ranks(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_unsigned(f, 1, &p->m.n_ranks);
}

static bool read_iters(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_unsigned(f, 1, &p->m.iters);
}

static bool read_mean(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return p->has_mean = parse_us(f, &p->m.us.mean);
}

static bool read_median(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_us(f, &p->m.us.median);
}

static bool read_p95(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return p->has_p95 = parse_us(f, &p->m.us.p95);
}

static bool read_p99(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return p->has_p99 = parse_us(f, &p->m.us.p99);
}

static bool read_min(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return p->has_min = parse_us(f, &p->m.us.min);
}

static bool read_ran_algo(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.ran_algo = stp_algo_from_name(f->s, f->len);
    return p->has_ran = p->m.ran_algo >= 0 || stp_field_is(f, "-");
}

static bool read_ran_proto(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.ran_proto = stp_proto_from_name(f->s, f->len);
    return p->m.ran_proto >= 0 || stp_field_is(f, "-");
}

static bool read_ran_channels(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.ran_channels = (int)n;
    return true;
}

static bool read_source(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    int source = stp_source_from_name(f->s, f->len);

    p->m.source = source < 0 ? STP_SOURCE_MODELLED : (enum stp_source)source;
    return source >= 0;
}

static bool read_type(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.type = stp_type_from_name(f->s, f->len);
    return p->m.type >= 0;
}

/* nccl-tests, too, writes "none" where nothing is reduced. */
static bool read_op(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.op =
        stp_field_is(f, "none") ? STP_OP_SUM : stp_op_from_name(f->s, f->len);
    return p->m.op >= 0;
}

static bool read_root(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    return parse_unsigned(f, 0, &p->m.root);
}

static bool read_in_place(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    p->m.in_place = stp_field_is(f, "1");
    return p->m.in_place || stp_field_is(f, "0");
}

static bool read_wrong(const struct stp_field *f, void *row)
{
    struct parsed *p = row;
    uint64_t n;

    if (f->len == 0)
        return true;
    if (!parse_count(f, 0, INT64_MAX, &n))
        return false;
    p->m.n_wrong = (int64_t)n;
    return true;
}

static const struct stp_csv_column columns[] = {
    {"collective", read_coll, true, "the name of a collective"},
    {"bytes", read_bytes, true, "a number of bytes"},
    {"round", read_round, true, "a number from 0"},
    {"algorithm", read_algo, true, "an algorithm, auto or plugin"},
    {"protocol", read_proto, true, "a protocol, auto or plugin"},
    {"channels", read_channels, false, "0 to 64"},
    {"nNodes", read_nodes, true, "a number from 1"},
    {"nRanks", read_ranks, true, "a number from 1"},
    {"iters", read_iters, false, "a number from 1"},
    {"mean_us", read_mean, false, "a time above 0"},
    {"median_us", read_median, true, "a time above 0"},
    {"p95_us", read_p95, false, "a time above 0"},
    {"p99_us", read_p99, false, "a time above 0"},
    {"min_us", read_min, false, "a time above 0"},
    {"ran_algorithm", read_ran_algo, false, "an algorithm or -"},
    {"ran_protocol", read_ran_proto, false, "a protocol or -"},
    {"ran_channels", read_ran_channels, false, "0 to 64"},
    {"source", read_source, false,
     "measured, recorded, interpolated, "
     "single_pass or modelled"},
    {"type", read_type, false, STP_TYPE_WORDS},
    {"op", read_op, false, STP_OP_WORDS ", or none"},
    {"root", read_root, false, "a rank from 0"},
    {"in_place", read_in_place, false, "0 or 1"},
    {"wrong", read_wrong, false, "a number of elements, or nothing"},
};

/* A file being read. */
struct reader {
    struct parsed row;
    struct stp_dataset data; /* what is in the file */
};

static void *begin_row(void *user, unsigned line)
{
    struct reader *r = user;

    (void)line;
    memset(&r->row, 0, sizeof(r->row));
    r->row.m.iters = 1;
    r->row.m.type = STP_TYPE_BF16; /* as all were before there was a column */
    r->row.m.n_wrong = -1;
    r->row.m.source = STP_SOURCE_MEASURED;
    return &r->row;
}

/* What the columns that are missing would have said. */
static void fill_in(struct parsed *p)
{
    struct stp_summary *us = &p->m.us;

    us->mean = p->has_mean ? us->mean : us->median;
    us->p95 = p->has_p95 ? us->p95 : us->median;
    us->p99 = p->has_p99 ? us->p99 : us->p95;
    us->min = p->has_min ? us->min : us->median;
    if (!p->has_ran) {
        p->m.ran_algo = p->m.arm.algo;
        p->m.ran_proto = p->m.arm.proto;
    }
}

static enum stp_status end_row(void *user, void *row, struct stp_error *err)
{
    struct reader *r = user;

    (void)row;
    fill_in(&r->row);
    if (stp_dataset_add(&r->data, &r->row.m) != STP_OK)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    return STP_OK;
}

static void comment(void *user, const char *line, size_t len)
{
    struct stp_dataset *d = &((struct reader *)user)->data;

    stp_csv_value(line, len, "# machine: ", d->machine, sizeof(d->machine));
    stp_csv_value(line, len, "# gpu: ", d->gpu, sizeof(d->gpu));
    stp_csv_value(line, len, "# nccl: ", d->nccl, sizeof(d->nccl));
    stp_csv_value(line, len, "# backend: ", d->backend, sizeof(d->backend));
}

static const struct stp_csv_format format = {
    .what = "measurements",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = begin_row,
    .end_row = end_row,
    .comment = comment,
};

static unsigned rounds_so_far(const struct stp_dataset *data)
{
    unsigned n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].round >= n)
            n = data->rows[i].round + 1;
    return n;
}

/* Times of different GPUs, NCCL versions or backends say nothing of each other.
 * Rounds of different files are different rounds. */
static enum stp_status merge(struct stp_dataset *data,
                             const struct stp_dataset *more,
                             struct stp_error *err)
{
    unsigned n_rounds = rounds_so_far(data);
    size_t n_rows = data->n_rows;

    if (n_rows > 0 && (strcmp(data->gpu, more->gpu) != 0 ||
                       strcmp(data->nccl, more->nccl) != 0))
        return stp_fail(err, STP_ERR_SYNTAX, 1, 0,
                        "measured on '%s' with NCCL %s, expected '%s' with "
                        "NCCL %s as in the file before",
                        more->gpu, more->nccl, data->gpu, data->nccl);
    if (n_rows > 0 && strcmp(data->backend, more->backend) != 0)
        return stp_fail(err, STP_ERR_SYNTAX, 1, 0,
                        "measured with backend %s, expected %s as in the file "
                        "before",
                        more->backend, data->backend);
    for (size_t i = 0; i < more->n_rows; i++) {
        if (stp_dataset_add(data, &more->rows[i]) != STP_OK) {
            data->n_rows = n_rows;
            return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
        }
        data->rows[data->n_rows - 1].round += n_rounds;
    }
    memcpy(data->machine, more->machine, sizeof(data->machine));
    memcpy(data->gpu, more->gpu, sizeof(data->gpu));
    memcpy(data->nccl, more->nccl, sizeof(data->nccl));
    memcpy(data->backend, more->backend, sizeof(data->backend));
    return STP_OK;
}

enum stp_status stp_measurements_read(const char *text, size_t len,
                                      struct stp_dataset *data,
                                      struct stp_error *err)
{
    struct reader r = {.data.backend = "nccl"}; /* the only one at first */
    enum stp_status status = stp_csv_read(&format, &r, text, len, err);

    if (status == STP_OK)
        status = merge(data, &r.data, err);
    stp_dataset_free(&r.data);
    return status;
}

enum stp_status stp_measurements_load(const char *path,
                                      struct stp_dataset *data,
                                      struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(path, STP_MEASUREMENTS_MAX, &text, &len, err);

    if (status != STP_OK)
        return status;
    status = stp_measurements_read(text, len, data, err);
    free(text);
    return status;
}
