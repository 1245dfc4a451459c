#include "analyse/replay/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/dtype.h"
#include "core/names.h"
#include "device/mock/operation.h"

/* A row as its fields say it. */
struct raw {
    struct stp_trace_row row;
    char comm[STP_COMM_NAME];
    char parent[STP_COMM_NAME];
    bool created; /* a field says how */
    enum stp_creation creation;
    uint64_t n_ranks; /* 0: not said */
    bool reg_buff_said;
    int type;
    int op;

    /* where they stand, for messages */
    unsigned creation_column;
    unsigned n_ranks_column;
    unsigned capture_column;
};

struct reader {
    struct stp_trace trace;
    size_t capacity;      /* of rows */
    size_t comm_capacity; /* of comms */
    struct raw raw;
};

/* ---- fields ---- */

static bool read_coll(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;
    int coll = stp_coll_from_name(f->s, f->len);

    raw->row.call.coll = coll < 0 ? ncclFuncBroadcast : (ncclFunc_t)coll;
    return coll >= 0;
}

static bool read_bytes(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;
    uint64_t n;

    if (!stp_parse_size(f->s, f->len, &n))
        return false;
    raw->row.call.n_bytes = n;
    return true;
}

/* A number from 'min' to 'max'; nothing leaves it as it is. */
static bool read_number(const struct stp_field *f, uint64_t min, uint64_t max,
                        uint64_t *number)
{
    return f->len == 0 || (stp_parse_u64(f->s, f->len, number) &&
                           *number >= min && *number <= max);
}

static bool read_group(const struct stp_field *f, void *opaque)
{
    return read_number(f, 1, UINT64_MAX, &((struct raw *)opaque)->row.group);
}

static bool read_reg_buff(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    raw->row.call.reg_buff = stp_field_is(f, "1");
    raw->reg_buff_said = f->len > 0;
    return f->len == 0 || stp_field_is(f, "0") || stp_field_is(f, "1");
}

static bool copy_name(const char *s, size_t len, char name[STP_COMM_NAME])
{
    if (len >= STP_COMM_NAME)
        return false;
    memcpy(name, s, len);
    name[len] = '\0';
    return true;
}

static bool read_comm(const struct stp_field *f, void *opaque)
{
    return copy_name(f->s, f->len, ((struct raw *)opaque)->comm);
}

static bool read_n_ranks(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    raw->n_ranks_column = f->column;
    return read_number(f, 1, MOCK_MAX_RANKS, &raw->n_ranks);
}

/* "VERB COMM" */
static bool read_child(const struct stp_field *f, const char *verb,
                       enum stp_creation creation, struct raw *raw)
{
    size_t n = strlen(verb);

    if (f->len <= n || memcmp(f->s, verb, n) != 0 || f->s[n] != ' ')
        return false;
    while (n < f->len && f->s[n] == ' ')
        n++;
    raw->creation = creation;
    return copy_name(f->s + n, f->len - n, raw->parent);
}

static bool read_create(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    raw->creation_column = f->column;
    raw->created = f->len > 0;
    return f->len == 0 || stp_field_is(f, "init") ||
           read_child(f, "split", STP_SPLIT, raw) ||
           read_child(f, "shrink", STP_SHRINK, raw);
}

static bool read_capture(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;
    uint64_t n = 0;

    raw->capture_column = f->column;
    if (!read_number(f, 0, 1000000000, &n))
        return false;
    raw->row.n_launches = (unsigned)n;
    return true;
}

static bool read_type(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    if (f->len > 0)
        raw->type = stp_type_from_name(f->s, f->len);
    return raw->type >= 0;
}

static bool read_op(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    if (f->len > 0)
        raw->op = stp_op_from_name(f->s, f->len);
    return raw->op >= 0;
}

static bool read_pipe_ops(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;
    uint64_t n = 0;

    if (!read_number(f, 1, 1000000000, &n))
        return false;
    raw->row.call.n_pipe_ops = (int)n;
    return true;
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
    struct raw *raw = opaque;

    if (f->len == 0)
        return true;
    if (!stp_field_is(f, "auto"))
        return read_pair(f, &raw->row.expect);
    raw->row.expect.kind = STP_EXPECT_AUTO;
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
    {"regBuff", read_reg_buff, false, "nothing, 0 or 1"},
    {"expect", read_expect, false,
     "nothing, auto, ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS"},
    {"comm", read_comm, false, "a word of at most 31 bytes"},
    {"nRanks", read_n_ranks, false, "nothing or a number from 1 to 1000000"},
    {"create", read_create, false, "nothing, init, split COMM or shrink COMM"},
    {"capture", read_capture, false, "nothing or a number of launches"},
    {"type", read_type, false, "nothing, " STP_TYPE_WORDS},
    {"op", read_op, false, "nothing, " STP_OP_WORDS},
    {"numPipeOps", read_pipe_ops, false, "nothing or a number from 1"},
    {"t_ns", skip, false, ""},
};

/* ---- communicators ---- */

/* The communicator that a name means now; n_comms if none. */
static size_t find_comm(const struct stp_trace *t, const char *name)
{
    if (t->n_rows > 0) { /* mostly that of the row before */
        size_t last = t->rows[t->n_rows - 1].comm;

        if (strcmp(t->comms[last].name, name) == 0)
            return last;
    }
    for (size_t i = t->n_comms; i-- > 0;)
        if (strcmp(t->comms[i].name, name) == 0)
            return i;
    return t->n_comms;
}

static enum stp_status find_parent(const struct stp_trace *t,
                                   const struct raw *raw, size_t *parent,
                                   struct stp_error *err)
{
    *parent = find_comm(t, raw->parent);
    if (*parent == t->n_comms)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, raw->row.line, raw->creation_column,
            "create from '%s', expected the communicator of an earlier row",
            raw->parent);
    if (raw->creation == STP_SHRINK && raw->n_ranks == 0)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, raw->row.line, raw->creation_column,
            "shrink of '%s', expected the nRanks that are left", raw->parent);
    return STP_OK;
}

/* Doubles the room when it is full. */
static void *grow(void *items, size_t n, size_t *capacity, size_t size)
{
    size_t more = *capacity ? 2 * *capacity : 64;

    if (n < *capacity)
        return items;
    items = realloc(items, more * size);
    if (items != NULL)
        *capacity = more;
    return items;
}

static enum stp_status no_memory(struct stp_error *err)
{
    return stp_nomem(err);
}

static enum stp_status add_comm(struct reader *r, struct stp_error *err)
{
    struct stp_trace *t = &r->trace;
    struct stp_trace_comm *comms;
    struct stp_trace_comm comm = {.creation = r->raw.creation,
                                  .replaces = find_comm(t, r->raw.comm),
                                  .n_ranks = (int)r->raw.n_ranks,
                                  .line = r->raw.row.line};
    enum stp_status status = STP_OK;

    if (comm.creation != STP_INIT)
        status = find_parent(t, &r->raw, &comm.parent, err);
    if (status != STP_OK)
        return status;
    comms = grow(t->comms, t->n_comms, &r->comm_capacity, sizeof(*comms));
    if (comms == NULL)
        return no_memory(err);
    t->comms = comms;
    memcpy(comm.name, r->raw.comm, sizeof(comm.name));
    comms[t->n_comms++] = comm;
    return STP_OK;
}

/* Whose the row is. */
static enum stp_status set_comm(struct reader *r, struct stp_error *err)
{
    struct raw *raw = &r->raw;
    struct stp_trace *t = &r->trace;
    struct stp_trace_comm *comm;
    size_t found = find_comm(t, raw->comm);
    enum stp_status status = STP_OK;

    if (raw->created || found == t->n_comms) {
        found = t->n_comms;
        status = add_comm(r, err);
    }
    if (status != STP_OK)
        return status;
    raw->row.comm = found;
    comm = &t->comms[found];
    if (raw->n_ranks != 0 && (int)raw->n_ranks != comm->n_ranks)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, raw->row.line, raw->n_ranks_column,
            "nRanks %d, expected what line %u says of communicator '%s'",
            (int)raw->n_ranks, comm->line, comm->name);
    return STP_OK;
}

/* ---- rows ---- */

static void *begin_row(void *user, unsigned line)
{
    struct raw *raw = &((struct reader *)user)->raw;

    memset(raw, 0, sizeof(*raw));
    raw->row.line = line;
    raw->type = STP_TYPE_BF16;
    raw->op = STP_OP_SUM;
    return raw;
}

static enum stp_status check_capture(const struct stp_trace *t,
                                     const struct raw *raw,
                                     struct stp_error *err)
{
    const struct stp_trace_row *last;

    if (t->n_rows == 0 || raw->row.group == 0)
        return STP_OK;
    last = &t->rows[t->n_rows - 1];
    if (raw->row.group != last->group ||
        raw->row.n_launches == last->n_launches)
        return STP_OK;
    return stp_fail_at(
        err, STP_ERR_SYNTAX, raw->row.line, raw->capture_column,
        "capture %u, expected the %u of the row before in its group",
        raw->row.n_launches, last->n_launches);
}

static enum stp_status end_row(void *user, void *opaque, struct stp_error *err)
{
    struct reader *r = user;
    struct raw *raw = opaque;
    struct stp_trace *t = &r->trace;
    struct stp_trace_row *rows;
    enum stp_status status = set_comm(r, err);

    if (status == STP_OK)
        status = check_capture(t, raw, err);
    if (status != STP_OK)
        return status;
    stp_set_operation(&raw->row.call, raw->type, raw->op);
    if (!raw->reg_buff_said)
        raw->row.call.reg_buff = raw->row.n_launches > 0;
    rows = grow(t->rows, t->n_rows, &r->capacity, sizeof(*rows));
    if (rows == NULL)
        return no_memory(err);
    t->rows = rows;
    rows[t->n_rows++] = raw->row;
    return STP_OK;
}

static void comment(void *user, const char *line, size_t len)
{
    struct stp_trace *t = &((struct reader *)user)->trace;

    stp_csv_value(line, len, "# machine: ", t->machine, sizeof(t->machine));
    stp_csv_value(line, len, "# policy: ", t->policy, sizeof(t->policy));
    stp_csv_value(line, len, "# nccl: ", t->nccl, sizeof(t->nccl));
}

static const struct stp_csv_format format = {
    .what = "collectives",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = begin_row,
    .end_row = end_row,
    .comment = comment,
};

enum stp_status stp_trace_load(const char *path, struct stp_trace *trace_ret,
                               struct stp_error *err)
{
    struct reader r = {0};
    char *text;
    size_t len;
    enum stp_status status =
        stp_read_file(path, (size_t)1 << 30, &text, &len, err);

    if (status != STP_OK)
        return status;
    status = stp_csv_read(&format, &r, text, len, err);
    free(text);
    if (status == STP_OK)
        *trace_ret = r.trace;
    else
        stp_trace_free(&r.trace);
    return status;
}

void stp_trace_free(struct stp_trace *trace)
{
    free(trace->rows);
    free(trace->comms);
    memset(trace, 0, sizeof(*trace));
}
