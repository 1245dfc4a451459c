/* best_csv.c - the reader */
#include "report/measurements/best_csv.h"

#include <string.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/policy/policy.h"

/* The number from 'min' to 'max', or -1. */
static bool parse_or_any(const struct stp_field *f, uint64_t min, uint64_t max,
                         int *value_ret)
{
    uint64_t n;

    if (stp_field_is(f, "-1")) {
        *value_ret = -1;
        return true;
    }
    if (!stp_parse_u64(f->s, f->len, &n) || n < min || n > max)
        return false;
    *value_ret = (int)n;
    return true;
}

static bool read_coll(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return (r->calls.coll = stp_coll_from_name(f->s, f->len)) >= 0;
}

static bool read_size(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return stp_parse_u64(f->s, f->len, &r->n_bytes) && r->n_bytes > 0;
}

static bool read_algo(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return (r->algo = stp_algo_from_name(f->s, f->len)) >= 0;
}

static bool read_proto(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return (r->proto = stp_proto_from_name(f->s, f->len)) >= 0;
}

static bool read_channels(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return parse_or_any(f, 1, STP_MAX_CHANNELS, &r->n_channels);
}

static bool read_nodes(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return parse_or_any(f, 1, INT32_MAX, &r->calls.n_nodes);
}

static bool read_ranks(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return parse_or_any(f, 1, INT32_MAX, &r->calls.n_ranks);
}

static bool read_pipe_ops(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return parse_or_any(f, 1, INT32_MAX, &r->calls.n_pipe_ops);
}

static bool read_reg_buff(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return parse_or_any(f, 0, 1, &r->calls.reg_buff);
}

static bool read_latency(const struct stp_field *f, void *row)
{
    struct stp_best_row *r = row;
    return stp_parse_double(f->s, f->len, &r->us) && r->us > 0;
}

static bool read_number(const struct stp_field *f, void *row)
{
    double ignored;

    (void)row;
    return stp_parse_double(f->s, f->len, &ignored);
}

#define COLLS "broadcast, reduce, allgather, reducescatter or allreduce"
#define ALGOS                                                                  \
    "tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree or pat"
#define OR_ANY "a number from 1, or -1 for any"

static const struct stp_csv_column columns[] = {
    {"collective", read_coll, true, COLLS},
    {"size_bytes", read_size, true, "a number of bytes from 1"},
    {"algorithm", read_algo, true, ALGOS},
    {"protocol", read_proto, true, "ll, ll128 or simple"},
    {"channels", read_channels, true, "1 to 64, or -1 for NCCL's own count"},
    {"nodes", read_nodes, true, OR_ANY},
    {"ranks", read_ranks, true, OR_ANY},
    {"pipeOps", read_pipe_ops, false, OR_ANY},
    {"regBuff", read_reg_buff, false, "0, 1, or -1 for any"},
    {"cost_metric", read_number, false, "a number"},
    {"bandwidth_gbps", read_number, false, "a number"},
    {"latency_us", read_latency, true, "microseconds above 0"},
};

struct reader {
    struct stp_best_rows *rows;
    struct stp_best_row row;
};

static void *begin_row(void *user, unsigned line)
{
    struct reader *r = user;

    r->row = (struct stp_best_row){.line = line,
                                   .calls = {.n_pipe_ops = -1, .reg_buff = -1}};
    return &r->row;
}

static enum stp_status end_row(void *user, void *row, struct stp_error *err)
{
    struct reader *r = user;
    const struct stp_best_row *b = row;

    /* NVIDIA's own sample has such rows. */
    if (!stp_pair_exists(b->calls.coll, b->algo, b->proto)) {
        if (r->rows->n_impossible++ == 0)
            r->rows->impossible = *b;
        return STP_OK;
    }
    if (stp_best_add(r->rows, b) != STP_OK)
        return stp_nomem(err);
    return STP_OK;
}

static const struct stp_csv_format format = {
    .what = "NVIDIA's performance data",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = begin_row,
    .end_row = end_row,
};

bool stp_best_csv_is(const char *text, size_t len)
{
    struct stp_field fields[STP_CSV_COLUMNS];
    const char *s = text;
    const char *line;
    size_t n_fields;
    size_t n;

    while ((line = stp_next_line(&s, text + len, &n)) != NULL)
        if (n > 0 && line[0] != '#')
            break;
    if (line == NULL)
        return false;
    n_fields = stp_split(line, n, fields, STP_CSV_COLUMNS);
    for (size_t i = 0; i < n_fields && i < STP_CSV_COLUMNS; i++)
        if (stp_field_is(&fields[i], "size_bytes"))
            return true;
    return false;
}

enum stp_status stp_best_csv_read(const char *text, size_t len,
                                  struct stp_best_rows *rows,
                                  struct stp_error *err)
{
    struct reader r = {.rows = rows};
    enum stp_status status = stp_csv_read(&format, &r, text, len, err);

    return status == STP_OK ? stp_best_check(rows, err) : status;
}
