#include "analyse/replay/trace.h"

#include <stdlib.h>
#include <string.h>

#include "analyse/replay/trace_build.h"
#include "core/csv.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/room.h"
#include "core/text.h"
#include "device/mock/operation.h"

enum { COMPUTE = 100 }; /* in place of a collective */

static const char *const streams[] = {"main", "comm"};

/* A row as its fields say it. */
struct raw {
    struct stp_trace_row row;
    struct stp_trace_compute compute;
    int coll, type, op;
    uint64_t n_bytes;
    int reg_buff; /* -1: not said */
    int step;     /* -1: not said */
    int wait;
    int *color; /* of 'ranks'; NULL: not said */
    int n_listed;
    int n_together; /* ranks of each color */
    char comm[STP_COMM_NAME];
    char parent[STP_COMM_NAME];
    bool created; /* 'create' is not empty */
    enum stp_creation creation;
    int n_ranks; /* 0: not said */

    /* columns of fields, for messages */
    unsigned creation_column;
    unsigned n_ranks_column;
    unsigned capture_column;
    unsigned ranks_column;
    unsigned us_column;
    unsigned bytes_column;
    unsigned step_column;
};

struct reader {
    struct stp_trace_build build;
    struct raw raw;
    unsigned step;    /* of the row before; 1 if there is none */
    bool has_step;    /* there is one */
    uint64_t last_ns; /* when it ended on the GPU; 0: not known */
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

static bool trace_read_expect(const struct stp_field *f, void *opaque)
{
    struct stp_expect *expect = &((struct raw *)opaque)->row.expect;
    const char *end = f->s + f->len;
    const char *a = memchr(f->s, '/', f->len);
    const char *b;
    uint64_t n = 0;

    if (f->len == 0)
        return true;
    if (stp_field_is(f, "auto")) {
        expect->kind = STP_EXPECT_AUTO;
        return true;
    }
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

static int trace_stream_from_name(const char *word, size_t len)
{
    return stp_find_word(streams, STP_N_OF(streams), word, len);
}

static int trace_row_from_name(const char *word, size_t len)
{
    return len == 7 && memcmp(word, "compute", 7) == 0
               ? COMPUTE
               : stp_coll_from_name(word, len);
}

/* ---- ranks of several colors ---- */

/* "N", "N-M" or "N-M:S": returns how many ranks; 0 if it is none of them. */
static int trace_color_range(struct raw *raw, const char *s, size_t len,
                             int color)
{
    const char *dash = memchr(s, '-', len);
    const char *colon = memchr(s, ':', len);
    const char *end = s + len;
    uint64_t first, last, every = 1;
    int n = 0;

    if (colon != NULL &&
        (dash == NULL || dash > colon ||
         !stp_parse_u64(colon + 1, (size_t)(end - colon - 1), &every)))
        return 0;
    if (colon != NULL)
        end = colon;
    if (!stp_parse_u64(s, (size_t)((dash != NULL ? dash : end) - s), &first))
        return 0;
    last = first;
    if (dash != NULL &&
        !stp_parse_u64(dash + 1, (size_t)(end - dash - 1), &last))
        return 0;
    if (every == 0 || every > MOCK_MAX_RANKS || last < first ||
        last >= MOCK_MAX_RANKS)
        return 0;
    last -= (last - first) % every;
    if ((int)last >= raw->n_listed) {
        int *more = realloc(raw->color, (size_t)(last + 1) * sizeof(*more));

        if (more == NULL)
            return 0;
        raw->color = more;
        while (raw->n_listed <= (int)last)
            more[raw->n_listed++] = -1;
    }
    for (uint64_t r = first; r <= last; r += every, n++) {
        if (raw->color[r] >= 0) /* listed before */
            return 0;
        raw->color[r] = color;
    }
    return n;
}

static bool trace_read_ranks(const struct stp_field *f, void *opaque)
{
    struct raw *raw = opaque;
    const char *end = f->s + f->len;
    const char *s = f->s;
    int color = 0, n = 0; /* the color's ranks so far */

    while (f->len > 0) {
        size_t part = 0;
        int more;

        while (s + part < end && s[part] != '+' && s[part] != '/')
            part++;
        more = trace_color_range(raw, s, part, color);
        n += more;
        s += part;
        if (more == 0)
            return false;
        if (s == end || *s == '/') {
            if (color++ > 0 && n != raw->n_together)
                return false;
            raw->n_together = n;
            n = 0;
        }
        if (s == end)
            break;
        s++;
    }
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
    {"collective", "the name of a collective, or compute", .required = true,
     WORD(coll, trace_row_from_name)},
    {"bytes", "a number of bytes", .required = true, .kind = STP_CSV_SIZE,
     INTO(n_bytes), .none = "", .none_value = -1, PLACE(bytes_column)},
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
    {"ranks", "ranks of one or more colors such as 0-3, 0-6:2 or 0+2/1+3, as "
              "many of each, and each rank once",
     .read = trace_read_ranks, PLACE(ranks_column)},
    {"m", "nothing or a side of a GEMM", COUNT(compute.gemm.m, 1, MANY)},
    {"n", "nothing or a side of a GEMM", COUNT(compute.gemm.n, 1, MANY)},
    {"k", "nothing or a side of a GEMM", COUNT(compute.gemm.k, 1, MANY)},
    {"us", "nothing or a number of microseconds above 0",
     .kind = STP_CSV_POSITIVE, INTO(compute.us), .none = "",
     PLACE(us_column)},
    {"stream", "nothing, main or comm", WORD(row.place.stream,
     trace_stream_from_name), .none = ""},
    {"wait", "nothing, 0 or 1", COUNT(wait, 0, 1)},
    {"step", "nothing or a number from 0", COUNT(step, 0, MANY),
     .none_value = -1, PLACE(step_column)},
    {"begin_ns", "nothing or a time from 1", COUNT(row.begin_ns, 1, UINT64_MAX)},
    {"end_ns", "nothing or a time from 1", COUNT(row.end_ns, 1, UINT64_MAX)},
    {"t_ns", "", .kind = STP_CSV_SKIP},
    {"process", "nothing or a number", COUNT(row.process, 0, UINT64_MAX)},
    {"graph", "", .kind = STP_CSV_SKIP},
};
// clang-format on

/* ---- communicators ---- */

#define TRACE_FAIL(raw, column, err, ...)                                      \
    stp_fail_at(err, STP_ERR_SYNTAX, (raw)->row.place.line, column, __VA_ARGS__)

/* Ranks of colors, which only a split has. */
static enum stp_status trace_set_colors(const struct raw *raw,
                                        struct stp_trace_comm *comm,
                                        struct stp_error *err)
{
    if (raw->color == NULL)
        return STP_OK;
    if (!raw->created || raw->creation != STP_SPLIT)
        return TRACE_FAIL(raw, raw->ranks_column, err,
                          "ranks without a split, expected create with "
                          "split COMM in this row");
    if (raw->n_ranks != 0 && raw->n_ranks != raw->n_together)
        return TRACE_FAIL(raw, raw->n_ranks_column, err,
                          "nRanks %d, expected the %d of each color in ranks",
                          raw->n_ranks, raw->n_together);
    comm->n_ranks = raw->n_together;
    comm->color = raw->color;
    comm->n_listed = raw->n_listed;
    return STP_OK;
}

static enum stp_status trace_add_comm(struct reader *r, size_t *place_ret,
                                      struct stp_error *err)
{
    struct raw *raw = &r->raw;
    struct stp_trace_comm comm = {.creation = raw->creation,
                                  .n_ranks = raw->n_ranks,
                                  .line = raw->row.place.line};
    const struct stp_trace *t = &r->build.trace;

    STP_TRY(trace_set_colors(raw, &comm, err));
    if (comm.creation != STP_INIT) {
        comm.parent = stp_trace_find_comm(&r->build, raw->parent);
        if (comm.parent == t->n_comms)
            return TRACE_FAIL(raw, raw->creation_column, err,
                              "create from '%s', expected the communicator "
                              "of an earlier row",
                              raw->parent);
        if (t->comms[comm.parent].color != NULL)
            return TRACE_FAIL(raw, raw->creation_column, err,
                              "create from '%s', which has several colors, "
                              "expected a communicator of one",
                              raw->parent);
        if (raw->creation == STP_SHRINK && raw->n_ranks == 0)
            return TRACE_FAIL(raw, raw->creation_column, err,
                              "shrink of '%s', expected the nRanks that are "
                              "left",
                              raw->parent);
    }
    memcpy(comm.name, raw->comm, sizeof(comm.name));
    *place_ret = stp_trace_add_comm(&r->build, &comm);
    raw->color = NULL; /* the trace's */
    return STP_OK;
}

/* Sets the communicator of the row. */
static enum stp_status trace_set_comm(struct reader *r, struct stp_error *err)
{
    struct raw *raw = &r->raw;
    const struct stp_trace *t = &r->build.trace;
    const struct stp_trace_comm *comm;
    size_t found = stp_trace_find_comm(&r->build, raw->comm);

    if (raw->created || found == t->n_comms)
        STP_TRY(trace_add_comm(r, &found, err));
    else
        STP_TRY(trace_set_colors(raw, NULL, err)); /* no colors here */
    raw->row.comm = found;
    comm = &t->comms[found];
    if (raw->n_ranks != 0 && raw->n_ranks != comm->n_ranks)
        return TRACE_FAIL(raw, raw->n_ranks_column, err,
                          "nRanks %d, expected what line %u says of "
                          "communicator '%s'",
                          raw->n_ranks, comm->line, comm->name);
    return STP_OK;
}

/* ---- rows ---- */

static void *trace_begin_row(void *user, unsigned line)
{
    struct raw *raw = &((struct reader *)user)->raw;

    free(raw->color);
    *raw = (struct raw){.row = {.place = {.line = line}},
                        .type = STP_TYPE_BF16,
                        .op = STP_OP_SUM,
                        .reg_buff = -1,
                        .step = -1};
    return raw;
}

static enum stp_status trace_end_collective(struct reader *r,
                                            struct stp_error *err)
{
    struct raw *raw = &r->raw;
    struct stp_trace_row *row = &raw->row;
    const struct stp_trace_row *rows = r->build.trace.rows;
    const size_t n_rows = r->build.trace.n_rows;

    if (raw->n_bytes == UINT64_MAX)
        return TRACE_FAIL(raw, raw->bytes_column, err,
                          "bytes '', expected a number of bytes");
    if (raw->compute.us != 0 || raw->compute.gemm.m != 0 ||
        raw->compute.gemm.n != 0 || raw->compute.gemm.k != 0)
        return TRACE_FAIL(raw, raw->us_column, err,
                          "a collective with m, n, k or us, expected them "
                          "of compute only");
    STP_TRY(trace_set_comm(r, err));
    if (n_rows > 0 && row->group != 0 && row->group == rows[n_rows - 1].group &&
        row->n_launches != rows[n_rows - 1].n_launches)
        return TRACE_FAIL(raw, raw->capture_column, err,
                          "capture %u, expected the %u of the row before in "
                          "its group",
                          row->n_launches, rows[n_rows - 1].n_launches);
    row->type = raw->type;
    row->op = raw->op;
    row->call.coll = (ncclFunc_t)raw->coll;
    row->call.n_bytes = raw->n_bytes;
    stp_set_operation(&row->call, raw->type, raw->op);
    row->call.reg_buff =
        raw->reg_buff >= 0 ? raw->reg_buff : row->n_launches > 0;
    if (row->n_launches > 0)
        row->call.reg_buff *= 2; /* NCCL registers all that is captured */
    /* Between two recorded collectives is compute.  Each process has a clock of
     * its own. */
    if (n_rows == 0 || row->process == rows[0].process) {
        if (r->last_ns != 0 && row->begin_ns > r->last_ns)
            STP_TRY(stp_trace_add_time(
                &r->build, (double)(row->begin_ns - r->last_ns) / 1e3,
                &row->place, err));
        r->last_ns = row->end_ns;
    }
    stp_trace_add_row(&r->build, row);
    return STP_OK;
}

static enum stp_status trace_end_row(void *user, void *opaque,
                                     struct stp_error *err)
{
    struct reader *r = user;
    struct raw *raw = opaque;
    struct stp_gemm *gemm = &raw->compute.gemm;
    const int n_sides = (gemm->m > 0) + (gemm->n > 0) + (gemm->k > 0);

    if (raw->step >= 0 && (unsigned)raw->step < r->step && r->has_step)
        return TRACE_FAIL(raw, raw->step_column, err,
                          "step %d after step %u, expected steps in order",
                          raw->step, r->step);
    if (raw->step >= 0)
        r->step = (unsigned)raw->step;
    r->build.trace.has_steps |= raw->step >= 0;
    r->has_step = true;
    raw->row.place.step = r->step;
    raw->row.place.waits = raw->wait != 0;
    if (raw->coll != COMPUTE)
        return trace_end_collective(r, err);
    if (n_sides != 3 * (raw->compute.us == 0))
        return TRACE_FAIL(raw, raw->us_column, err,
                          "compute, expected either m, n and k, or us");
    if (raw->row.place.stream != STP_STREAM_MAIN)
        return TRACE_FAIL(raw, 1, err, "compute in stream comm, expected main");
    if (n_sides == 0)
        return stp_trace_add_time(&r->build, raw->compute.us, &raw->row.place,
                                  err);
    gemm->type = raw->type;
    raw->compute.place = raw->row.place;
    stp_trace_add_compute(&r->build, &raw->compute);
    return STP_OK;
}

static void trace_read_comment(void *user, const char *line, size_t len)
{
    struct stp_trace *t = &((struct reader *)user)->build.trace;

    stp_csv_value(line, len, "# machine: ", t->machine, sizeof(t->machine));
    stp_csv_value(line, len, "# policy: ", t->policy, sizeof(t->policy));
    stp_csv_value(line, len, "# nccl: ", t->nccl, sizeof(t->nccl));
}

static const struct stp_csv_format format = {
    .what = "collectives",
    .columns = columns,
    .n_columns = STP_N_OF(columns),
    .begin_row = trace_begin_row,
    .end_row = trace_end_row,
    .comment = trace_read_comment,
};

enum stp_status stp_trace_read_csv(const char *text, size_t len,
                                   struct stp_trace *trace_ret,
                                   struct stp_error *err)
{
    struct reader r = {.step = 1};
    enum stp_status status;

    strcpy(r.build.trace.format, "steptune CSV");
    status = stp_csv_read(&format, &r, text, len, err);
    free(r.raw.color);
    return stp_trace_finish(&r.build, status, trace_ret, err);
}
