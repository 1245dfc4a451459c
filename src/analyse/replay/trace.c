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
    int coll, type, op;
    uint64_t n_bytes;
    int reg_buff; /* -1: not said */
    char comm[STP_COMM_NAME];
    char parent[STP_COMM_NAME];
    bool created; /* 'create' is not empty */
    enum stp_creation creation;
    int n_ranks; /* 0: not said */

    /* columns of fields, for messages */
    unsigned creation_column;
    unsigned n_ranks_column;
    unsigned capture_column;
};

struct reader {
    struct stp_trace trace;
    size_t capacity;      /* of rows */
    size_t comm_capacity; /* of comms, a power of 2 */
    size_t *slots; /* twice as many: a hash table of names, with the place of
                      the newest communicator of each, plus 1 */
    struct raw raw;
};

/* ---- fields ---- */

/* "VERB COMM" */
static bool trace_read_child(const struct stp_field *f, const char *verb,
                             enum stp_creation creation, struct raw *raw)
{
    size_t n = strlen(verb);

    if (f->len <= n || memcmp(f->s, verb, n) != 0 || f->s[n] != ' ')
        return false;
    while (n < f->len && f->s[n] == ' ')
        n++;
    raw->creation = creation;
    if (f->len - n >= sizeof(raw->parent))
        return false;
    memcpy(raw->parent, f->s + n, f->len - n);
    raw->parent[f->len - n] = '\0';
    return true;
}

static bool trace_read_create(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    raw->created = f->len > 0;
    return f->len == 0 || stp_field_is(f, "init") ||
           trace_read_child(f, "split", STP_SPLIT, raw) ||
           trace_read_child(f, "shrink", STP_SHRINK, raw);
}

static bool trace_read_pair(const struct stp_field *f,
                            struct stp_expect *expect)
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

static bool trace_read_expect(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;

    if (f->len == 0)
        return true;
    if (!stp_field_is(f, "auto"))
        return trace_read_pair(f, &raw->row.expect);
    raw->row.expect.kind = STP_EXPECT_AUTO;
    return true;
}

#define INTO(member) STP_CSV_INTO(raw, member)
#define COUNT(member, least, most)                                             \
    .kind = STP_CSV_WHOLE, INTO(member), .min = (least), .max = (most),        \
    .none = ""
#define WORD(member, from)                                                     \
    .kind = STP_CSV_WORD, INTO(member), .from_name = (from)
#define PLACE(member) .column_into = offsetof(struct raw, member)
#define MANY          1000000000

// clang-format off
static const struct stp_csv_column columns[] = {
    {"collective", "the name of a collective", .required = true,
     WORD(coll, stp_coll_from_name)},
    {"bytes", "a number of bytes", .required = true, .kind = STP_CSV_SIZE,
     INTO(n_bytes)},
    {"group", "nothing or a number from 1", COUNT(row.group, 1, UINT64_MAX)},
    {"regBuff", "nothing, 0 or 1", COUNT(reg_buff, 0, 1), .none_value = -1},
    {"expect",
     "nothing, auto, ALGORITHM/PROTOCOL or ALGORITHM/PROTOCOL/CHANNELS",
     .read = trace_read_expect},
    {"comm", "a word of at most 31 bytes", .kind = STP_CSV_TEXT, INTO(comm)},
    {"nRanks", "nothing or a number from 1 to 1000000",
     COUNT(n_ranks, 1, MOCK_MAX_RANKS), PLACE(n_ranks_column)},
    {"create", "nothing, init, split COMM or shrink COMM",
     .read = trace_read_create, PLACE(creation_column)},
    {"capture", "nothing or a number of launches",
     COUNT(row.n_launches, 0, MANY), PLACE(capture_column)},
    {"type", "nothing, " STP_TYPE_WORDS, WORD(type, stp_type_from_name),
     .none = "", .none_value = STP_TYPE_BF16},
    {"op", "nothing, " STP_OP_WORDS, WORD(op, stp_op_from_name),
     .none = "", .none_value = STP_OP_SUM},
    {"numPipeOps", "nothing or a number from 1",
     COUNT(row.call.n_pipe_ops, 1, MANY)},
    {"begin_ns", "nothing or a time from 1", COUNT(row.begin_ns, 1, UINT64_MAX)},
    {"end_ns", "nothing or a time from 1", COUNT(row.end_ns, 1, UINT64_MAX)},
    {"t_ns", "", .kind = STP_CSV_SKIP},
    {"process", "", .kind = STP_CSV_SKIP},
    {"graph", "", .kind = STP_CSV_SKIP},
};
// clang-format on

/* ---- communicators ---- */

/* The slot of that name; 0 if there is no such communicator.  There must be
 * slots. */
static size_t *trace_find_slot(const struct reader *r, const char *name)
{
    size_t mask = 2 * r->comm_capacity - 1;
    uint64_t hash = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    size_t at;

    for (const char *s = name; *s != '\0'; s++)
        hash = (hash ^ (unsigned char)*s) * UINT64_C(0x100000001b3);
    for (at = hash & mask; r->slots[at] != 0; at = (at + 1) & mask)
        if (strcmp(r->trace.comms[r->slots[at] - 1].name, name) == 0)
            break;
    return &r->slots[at];
}

/* The newest communicator of that name; n_comms if there is none. */
static size_t trace_find_comm(const struct reader *r, const char *name)
{
    size_t found = r->slots != NULL ? *trace_find_slot(r, name) : 0;

    return found != 0 ? found - 1 : r->trace.n_comms;
}

static enum stp_status trace_find_parent(const struct reader *r, size_t *parent,
                                         struct stp_error *err)
{
    const struct raw *raw = &r->raw;

    *parent = trace_find_comm(r, raw->parent);
    if (*parent == r->trace.n_comms)
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
static void *trace_grow(void *items, size_t n, size_t *capacity, size_t size)
{
    size_t more = *capacity ? 2 * *capacity : 64;

    if (n < *capacity)
        return items;
    items = realloc(items, more * size);
    if (items != NULL)
        *capacity = more;
    return items;
}

/* Makes room for another communicator, and for its name. */
static bool trace_grow_comms(struct reader *r)
{
    struct stp_trace *t = &r->trace;
    struct stp_trace_comm *comms =
        trace_grow(t->comms, t->n_comms, &r->comm_capacity, sizeof(*comms));

    if (comms == NULL)
        return false;
    t->comms = comms;
    if (t->n_comms > 0 && 2 * t->n_comms != r->comm_capacity)
        return true; /* it has not grown */
    free(r->slots);
    r->slots = calloc(2 * r->comm_capacity, sizeof(*r->slots));
    for (size_t i = 0; r->slots != NULL && i < t->n_comms; i++)
        *trace_find_slot(r, comms[i].name) = i + 1;
    return r->slots != NULL;
}

static enum stp_status trace_add_comm(struct reader *r, struct stp_error *err)
{
    struct stp_trace *t = &r->trace;
    struct stp_trace_comm comm = {.creation = r->raw.creation,
                                  .replaces = trace_find_comm(r, r->raw.comm),
                                  .n_ranks = r->raw.n_ranks,
                                  .line = r->raw.row.line};
    enum stp_status status = STP_OK;

    if (comm.creation != STP_INIT)
        status = trace_find_parent(r, &comm.parent, err);
    if (status != STP_OK)
        return status;
    if (!trace_grow_comms(r))
        return stp_nomem(err);
    memcpy(comm.name, r->raw.comm, sizeof(comm.name));
    t->comms[t->n_comms++] = comm;
    *trace_find_slot(r, comm.name) = t->n_comms;
    return STP_OK;
}

/* Sets the communicator of the row. */
static enum stp_status trace_set_comm(struct reader *r, struct stp_error *err)
{
    struct raw *raw = &r->raw;
    struct stp_trace *t = &r->trace;
    struct stp_trace_comm *comm;
    size_t found = trace_find_comm(r, raw->comm);
    enum stp_status status = STP_OK;

    if (raw->created || found == t->n_comms) {
        found = t->n_comms;
        status = trace_add_comm(r, err);
    }
    if (status != STP_OK)
        return status;
    raw->row.comm = found;
    comm = &t->comms[found];
    if (raw->n_ranks != 0 && raw->n_ranks != comm->n_ranks)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, raw->row.line, raw->n_ranks_column,
            "nRanks %d, expected what line %u says of communicator '%s'",
            raw->n_ranks, comm->line, comm->name);
    return STP_OK;
}

/* ---- rows ---- */

static void *trace_begin_row(void *user, unsigned line)
{
    struct raw *raw = &((struct reader *)user)->raw;

    *raw = (struct raw){.row = {.line = line},
                        .type = STP_TYPE_BF16,
                        .op = STP_OP_SUM,
                        .reg_buff = -1};
    return raw;
}

static enum stp_status trace_check_capture(const struct stp_trace *t,
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

static enum stp_status trace_end_row(void *user, void *opaque,
                                     struct stp_error *err)
{
    struct reader *r = user;
    struct raw *raw = opaque;
    struct stp_trace *t = &r->trace;
    struct stp_trace_row *rows;
    enum stp_status status = trace_set_comm(r, err);

    if (status == STP_OK)
        status = trace_check_capture(t, raw, err);
    if (status != STP_OK)
        return status;
    raw->row.call.coll = (ncclFunc_t)raw->coll;
    raw->row.call.n_bytes = raw->n_bytes;
    stp_set_operation(&raw->row.call, raw->type, raw->op);
    raw->row.call.reg_buff =
        raw->reg_buff >= 0 ? raw->reg_buff : raw->row.n_launches > 0;
    rows = trace_grow(t->rows, t->n_rows, &r->capacity, sizeof(*rows));
    if (rows == NULL)
        return stp_nomem(err);
    t->rows = rows;
    rows[t->n_rows++] = raw->row;
    return STP_OK;
}

static void trace_read_comment(void *user, const char *line, size_t len)
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
    .begin_row = trace_begin_row,
    .end_row = trace_end_row,
    .comment = trace_read_comment,
};

enum stp_status stp_trace_load(const char *path, struct stp_trace *trace_ret,
                               struct stp_error *err)
{
    struct reader r = {.capacity = 0};
    enum stp_status status =
        stp_csv_load(&format, &r, path, (size_t)1 << 30, err);

    if (status == STP_OK)
        *trace_ret = r.trace;
    else
        stp_trace_free(&r.trace);
    free(r.slots);
    return status;
}

void stp_trace_free(struct stp_trace *trace)
{
    free(trace->rows);
    free(trace->comms);
    memset(trace, 0, sizeof(*trace));
}
