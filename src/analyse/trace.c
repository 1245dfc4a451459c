#include "analyse/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/names.h"

static bool read_coll(const struct stp_field *f, void *opaque)
{
    struct stp_trace_row *row = opaque;
    int coll = stp_coll_from_name(f->s, f->len);

    row->call.coll = coll < 0 ? ncclFuncBroadcast : (ncclFunc_t)coll;
    return coll >= 0;
}

static bool read_bytes(const struct stp_field *f, void *opaque)
{
    struct stp_trace_row *row = opaque;
    uint64_t n;

    if (!stp_parse_size(f->s, f->len, &n))
        return false;
    row->call.n_bytes = n;
    return true;
}

static bool read_group(const struct stp_field *f, void *opaque)
{
    struct stp_trace_row *row = opaque;
    return f->len == 0 ||
           (stp_parse_u64(f->s, f->len, &row->group) && row->group > 0);
}

static bool read_reg_buff(const struct stp_field *f, void *opaque)
{
    struct stp_trace_row *row = opaque;
    row->call.reg_buff = stp_field_is(f, "1");
    return stp_field_is(f, "0") || stp_field_is(f, "1");
}

static bool read_pair(const struct stp_field *f, struct stp_expect *expect)
{
    const char *end = f->s + f->len;
    const char *a = memchr(f->s, '/', f->len);
    const char *b;
    uint64_t n = 0;

    if (a == NULL)
        return false;
    b = memchr(a + 1, '/', (size_t)(end - a - 1));
    expect->kind = STP_EXPECT_PAIR;
    expect->algo = stp_algo_from_name(f->s, (size_t)(a - f->s));
    expect->proto =
        stp_proto_from_name(a + 1, (size_t)((b != NULL ? b : end) - a - 1));
    if (b != NULL &&
        (!stp_parse_u64(b + 1, (size_t)(end - b - 1), &n) || n < 1 || n > 64))
        return false;
    expect->n_channels = (int)n;
    return expect->algo >= 0 && expect->proto >= 0;
}

static bool read_expect(const struct stp_field *f, void *opaque)
{
    struct stp_trace_row *row = opaque;
    if (f->len == 0)
        return true;
    if (!stp_field_is(f, "auto"))
        return read_pair(f, &row->expect);
    row->expect.kind = STP_EXPECT_AUTO;
    return true;
}

static bool skip(const struct stp_field *f, void *opaque)
{
    (void)f;
    (void)opaque;
    return true;
}

static const struct stp_csv_column columns[] = {
    {"collective", read_coll, true, "the name of a collective"},
    {"bytes", read_bytes, true, "a number of bytes"},
    {"group", read_group, false, "nothing or a number from 1"},
    {"regBuff", read_reg_buff, false, "0 or 1"},
    {"expect", read_expect, false,
     "nothing, auto, ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS"},
    {"t_ns", skip, false, ""},
    {"comm", skip, false, ""},
    {"nRanks", skip, false, ""},
    {"numPipeOps", skip, false, ""},
};

static void *begin_row(void *user, unsigned line)
{
    struct stp_trace *trace = user;
    struct stp_trace_row *row;

    if (trace->n_rows == trace->capacity) {
        size_t capacity = trace->capacity ? 2 * trace->capacity : 256;
        struct stp_trace_row *rows =
            realloc(trace->rows, capacity * sizeof(*rows));

        if (rows == NULL)
            return NULL;
        trace->rows = rows;
        trace->capacity = capacity;
    }
    row = memset(&trace->rows[trace->n_rows++], 0, sizeof(*row));
    row->line = line;
    return row;
}

static void comment(void *user, const char *line, size_t len)
{
    struct stp_trace *t = user;

    stp_csv_value(line, len, "# machine: ", t->machine, sizeof(t->machine));
    stp_csv_value(line, len, "# policy: ", t->policy, sizeof(t->policy));
    stp_csv_value(line, len, "# nccl: ", t->nccl, sizeof(t->nccl));
}

static const struct stp_csv_format format = {
    .what = "collectives",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = begin_row,
    .comment = comment,
};

enum stp_status stp_trace_load(const char *path, struct stp_trace *trace_ret,
                               struct stp_error *err)
{
    struct stp_trace trace = {0};
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(path, (size_t)1 << 30, &text, &len, err);

    if (status != STP_OK)
        return status;
    status = stp_csv_read(&format, &trace, text, len, err);
    free(text);
    if (status == STP_OK)
        *trace_ret = trace;
    else
        stp_trace_free(&trace);
    return status;
}

void stp_trace_free(struct stp_trace *trace)
{
    free(trace->rows);
    memset(trace, 0, sizeof(*trace));
}
