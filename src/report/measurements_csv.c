#include "report/measurements_csv.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
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

static void write_row(const struct stp_measurement *m, FILE *fp)
{
    fprintf(fp, "%s,%" PRIu64 ",%u,", stp_coll_name(m->coll), m->n_bytes,
            m->round);
    write_arm(&m->arm, fp);
    fprintf(fp, ",%u,%u,%u,%.3f,%.3f,%.3f,%.3f,%.3f,%s,%s,%d,%s\n", m->n_nodes,
            m->n_ranks, m->iters, m->us.mean, m->us.median, m->us.p95,
            m->us.p99, m->us.min, stp_algo_name(m->ran_algo),
            stp_proto_name(m->ran_proto), m->ran_channels,
            stp_source_name(m->source));
}

void stp_measurements_write(const struct stp_dataset *data, const char *made_by,
                            FILE *fp)
{
    fprintf(fp, "# %s\n# machine: %s\n# gpu: %s\n# nccl: %s\n", made_by,
            data->machine, data->gpu, data->nccl);
    fputs("collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,"
          "iters,mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,"
          "ran_protocol,ran_channels,source\n",
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

static bool read_coll(const struct stp_field *f, struct parsed *p)
{
    p->m.coll = stp_coll_from_name(f->s, f->len);
    return p->m.coll >= 0;
}

static bool read_bytes(const struct stp_field *f, struct parsed *p)
{
    return stp_parse_u64(f->s, f->len, &p->m.n_bytes);
}

static bool read_round(const struct stp_field *f, struct parsed *p)
{
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

static bool read_algo(const struct stp_field *f, struct parsed *p)
{
    p->m.arm.algo = 0;
    if (read_special(f, p))
        return true;
    p->m.arm.kind = STP_ARM_FORCED;
    p->m.arm.algo = stp_algo_from_name(f->s, f->len);
    return p->m.arm.algo >= 0;
}

static bool read_proto(const struct stp_field *f, struct parsed *p)
{
    p->m.arm.proto = 0;
    if (stp_field_is(f, "auto") || stp_field_is(f, "plugin"))
        return true;
    p->m.arm.proto = stp_proto_from_name(f->s, f->len);
    return p->m.arm.proto >= 0;
}

static bool read_channels(const struct stp_field *f, struct parsed *p)
{
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.arm.n_channels = (int)n;
    return true;
}

static bool read_nodes(const struct stp_field *f, struct parsed *p)
{
    return parse_unsigned(f, 1, &p->m.n_nodes);
}

static bool read_ranks(const struct stp_field *f, struct parsed *p)
{
    return parse_unsigned(f, 1, &p->m.n_ranks);
}

static bool read_iters(const struct stp_field *f, struct parsed *p)
{
    return parse_unsigned(f, 1, &p->m.iters);
}

static bool read_mean(const struct stp_field *f, struct parsed *p)
{
    return p->has_mean = parse_us(f, &p->m.us.mean);
}

static bool read_median(const struct stp_field *f, struct parsed *p)
{
    return parse_us(f, &p->m.us.median);
}

static bool read_p95(const struct stp_field *f, struct parsed *p)
{
    return p->has_p95 = parse_us(f, &p->m.us.p95);
}

static bool read_p99(const struct stp_field *f, struct parsed *p)
{
    return p->has_p99 = parse_us(f, &p->m.us.p99);
}

static bool read_min(const struct stp_field *f, struct parsed *p)
{
    return p->has_min = parse_us(f, &p->m.us.min);
}

static bool read_ran_algo(const struct stp_field *f, struct parsed *p)
{
    p->m.ran_algo = stp_algo_from_name(f->s, f->len);
    return p->has_ran = p->m.ran_algo >= 0;
}

static bool read_ran_proto(const struct stp_field *f, struct parsed *p)
{
    p->m.ran_proto = stp_proto_from_name(f->s, f->len);
    return p->m.ran_proto >= 0;
}

static bool read_ran_channels(const struct stp_field *f, struct parsed *p)
{
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.ran_channels = (int)n;
    return true;
}

static bool read_source(const struct stp_field *f, struct parsed *p)
{
    int source = stp_source_from_name(f->s, f->len);

    p->m.source = source < 0 ? STP_SOURCE_MODELLED : (enum stp_source)source;
    return source >= 0;
}

static const struct column {
    const char *name;
    bool (*read)(const struct stp_field *field, struct parsed *p);
    bool required;
    const char *expected;
} columns[] = {
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
    {"ran_algorithm", read_ran_algo, false, "an algorithm"},
    {"ran_protocol", read_ran_proto, false, "a protocol"},
    {"ran_channels", read_ran_channels, false, "0 to 64"},
    {"source", read_source, false,
     "measured, recorded, interpolated, "
     "single_pass or modelled"},
};

enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

/* A file being read. */
struct reader {
    const struct column *order[N_COLUMNS]; /* as in its header */
    size_t n_order;                        /* 0: no header yet */
    unsigned line;
    struct stp_dataset data; /* what is in the file */
    struct stp_error *err;
};

static const struct column *find_column(const struct stp_field *f)
{
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (stp_field_is(f, columns[i].name))
            return &columns[i];
    return NULL;
}

static bool has_column(const struct reader *r, const struct column *column)
{
    for (size_t i = 0; i < r->n_order; i++)
        if (r->order[i] == column)
            return true;
    return false;
}

static enum stp_status read_header(struct reader *r, const struct stp_field *f,
                                   size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct column *column = i < N_COLUMNS ? find_column(&f[i]) : NULL;

        if (column == NULL || has_column(r, column))
            return stp_fail(r->err, STP_ERR_SYNTAX, r->line,
                            i < N_COLUMNS ? f[i].column : 1,
                            "header with '%.*s', expected each column of "
                            "`steptune sweep` at most once",
                            i < N_COLUMNS ? (int)f[i].len : 0,
                            i < N_COLUMNS ? f[i].s : "");
        r->order[r->n_order++] = column;
    }
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (columns[i].required && !has_column(r, &columns[i]))
            return stp_fail(r->err, STP_ERR_SYNTAX, r->line, 1,
                            "header without the column %s", columns[i].name);
    return STP_OK;
}

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

static enum stp_status read_row(struct reader *r, const struct stp_field *f,
                                size_t n)
{
    struct parsed p = {.m = {.iters = 1, .source = STP_SOURCE_MEASURED}};

    if (n != r->n_order)
        return stp_fail(r->err, STP_ERR_SYNTAX, r->line, 1,
                        "%zu fields, expected %zu as in the header", n,
                        r->n_order);
    for (size_t i = 0; i < n; i++)
        if (!r->order[i]->read(&f[i], &p))
            return stp_fail(r->err, STP_ERR_SYNTAX, r->line, f[i].column,
                            "%s '%.*s', expected %s", r->order[i]->name,
                            f[i].len < 60 ? (int)f[i].len : 60, f[i].s,
                            r->order[i]->expected);
    fill_in(&p);
    if (stp_dataset_add(&r->data, &p.m) != STP_OK)
        return stp_fail(r->err, STP_ERR_NOMEM, 0, 0, "out of memory");
    return STP_OK;
}

static void take_value(const char *line, size_t len, const char *key,
                       char *value, size_t size)
{
    size_t n = strlen(key);

    if (len > n && memcmp(line, key, n) == 0)
        snprintf(value, size, "%.*s", (int)(len - n), line + n);
}

static enum stp_status read_line(struct reader *r, const char *line, size_t len)
{
    struct stp_field fields[N_COLUMNS];
    size_t n;

    if (len > 0 && line[0] == '#') {
        struct stp_dataset *d = &r->data;

        take_value(line, len, "# machine: ", d->machine, sizeof(d->machine));
        take_value(line, len, "# gpu: ", d->gpu, sizeof(d->gpu));
        take_value(line, len, "# nccl: ", d->nccl, sizeof(d->nccl));
        return STP_OK;
    }
    n = stp_split(line, len, fields, N_COLUMNS);
    if (n == 1 && fields[0].len == 0)
        return STP_OK;
    return r->n_order == 0 ? read_header(r, fields, n) : read_row(r, fields, n);
}

static enum stp_status read_text(struct reader *r, const char *text, size_t len)
{
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        r->line++;
        status = read_line(r, line, n);
    }
    if (status == STP_OK && r->data.n_rows == 0)
        status = stp_fail(r->err, STP_ERR_SYNTAX, r->line, 0,
                          "no measurements, expected a header line and rows");
    return status;
}

static unsigned rounds_so_far(const struct stp_dataset *data)
{
    unsigned n = 0;

    for (size_t i = 0; i < data->n_rows; i++)
        if (data->rows[i].round >= n)
            n = data->rows[i].round + 1;
    return n;
}

/* Times of different GPUs or NCCL versions say nothing of each other.  Rounds
 * of different files are different rounds. */
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
    return STP_OK;
}

enum stp_status stp_measurements_load(const char *path,
                                      struct stp_dataset *data,
                                      struct stp_error *err)
{
    struct reader r = {.err = err};
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(path, (size_t)1 << 30, &text, &len, err);

    if (status != STP_OK)
        return status;
    status = read_text(&r, text, len);
    if (status == STP_OK)
        status = merge(data, &r.data, err);
    stp_dataset_free(&r.data);
    free(text);
    return status;
}
