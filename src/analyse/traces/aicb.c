/* aicb.c - AICB's workloads: workload/physical of aliyun/aicb */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/traces/formats.h"
#include "core/csv.h"
#include "nccl_tuner_abi.h"

enum { MAX_FIELDS = STP_CSV_COLUMNS, MAX_DIMS = 8 };

struct aicb_row {
    struct stp_field type; /* CommType.NAME */
    struct stp_field group;
    int group_size; /* 0: none */
    struct stp_field size;
    struct stp_field stage;
    struct stp_field additional;
};

struct aicb {
    struct stp_trace_build *b;
    const struct stp_csv_column *order[MAX_FIELDS];
    size_t n_order; /* 0: no header yet */
    unsigned line;
    unsigned n_stages; /* of the pipeline that began so far */
    int world;         /* 0: not known */
    int tp;            /* ranks of a tensor-parallel group */
    bool has_sizes;    /* of groups: micro_test has none, but all ranks */
    unsigned n_ends;   /* epochs that ended */
    bool began;        /* a row of a step came before the first of them */
    struct stp_error *err;
};

static const struct stp_trace_word words[] = {
    {"all_reduce", ncclFuncAllReduce},
    {"all_gather", ncclFuncAllGather},
    {"all_gather_into_tensor", ncclFuncAllGather},
    {"reduce_scatter", ncclFuncReduceScatter},
    {"reduce_scatter_tensor", ncclFuncReduceScatter},
    {"broadcast", ncclFuncBroadcast},
    {"reduce", ncclFuncReduce},
    {NULL, 0},
};

#define FIELD(member)                                                          \
    .kind = STP_CSV_FIELD, STP_CSV_INTO(aicb_row, member), .required = true

static const struct stp_csv_column columns[] = {
    {"comm_type", "CommType.NAME", FIELD(type)},
    {"comm_group", "CommGroup.NAME", FIELD(group)},
    {"comm_group_size", "None or a number of ranks", .kind = STP_CSV_WHOLE,
     STP_CSV_INTO(aicb_row, group_size), .min = 1, .max = MOCK_MAX_RANKS,
     .none = "None"},
    {"msg_size", "a number of bytes", FIELD(size)},
    {"stage", "the part of the job", FIELD(stage)},
    {"additional", "more about the row", .kind = STP_CSV_FIELD,
     STP_CSV_INTO(aicb_row, additional)},
};

enum { N_COLUMNS = sizeof(columns) / sizeof(columns[0]) };

static const struct stp_csv_column ignored = {.kind = STP_CSV_SKIP};

static bool aicb_begins(const struct stp_field *f, const char *word)
{
    const size_t n = strlen(word);

    return f->len >= n && memcmp(f->s, word, n) == 0;
}

/* The field without the word before it. */
static bool aicb_drop(struct stp_field *f, const char *word)
{
    const size_t n = strlen(word);

    if (!aicb_begins(f, word))
        return false;
    f->s += n;
    f->len -= n;
    f->column += (unsigned)n;
    return true;
}

/* ---- the ranks ---- */

/* The number behind the next "rank" in the line, MOCK_MAX_RANKS for those that
 * are no rank; false if there is none. */
static bool aicb_next_rank(const char **s, const char *end, long *rank_ret)
{
    for (; end - *s > 4; ++*s)
        if (memcmp(*s, "rank", 4) == 0) {
            *s += 4;
            *rank_ret = strtol(*s, NULL, 10);
            if (*rank_ret < 0 || *rank_ret > MOCK_MAX_RANKS)
                *rank_ret = MOCK_MAX_RANKS;
            return true;
        }
    return false;
}

/* The ranks of the first line of ranks, times the lines. */
static void aicb_count_world(struct aicb *a, const char *text, size_t len)
{
    const char *s = text;
    const char *line;
    size_t n;
    long first = 0, last = 0, n_ranks = 0, n_lines = 0;

    while ((line = stp_next_line(&s, text + len, &n)) != NULL) {
        const char *at = line;

        if (n == 0 || line[0] != '[' || n_lines++ > 0)
            continue;
        while (aicb_next_rank(&at, line + n, &last))
            first = n_ranks++ == 0 ? last : first;
        if (memchr(line, '~', n) != NULL)
            n_ranks = last - first + 1;
    }
    if (n_ranks > 0 && last < MOCK_MAX_RANKS &&
        n_ranks * n_lines <= MOCK_MAX_RANKS)
        a->world = (int)(n_ranks * n_lines);
}

/* ---- groups ---- */

/* How far the ranks of a group are apart in Megatron's order: tensor, expert,
 * data, pipeline. */
static unsigned aicb_stride(const struct aicb *a, const struct stp_field *group,
                            int size)
{
    if (stp_field_is(group, "pp_group") ||
        stp_field_is(group, "embedding_group"))
        return a->world > size ? (unsigned)(a->world / size) : 1;
    return stp_field_is(group, "dp_group") || stp_field_is(group, "ep_group") ||
                   stp_field_is(group, "ep_dp_group")
               ? (unsigned)a->tp
               : 1;
}

static enum stp_status aicb_find_comm(const struct aicb *a,
                                      const struct aicb_row *row,
                                      size_t *comm_ret)
{
    char name[STP_COMM_NAME];
    struct stp_rank_groups groups = {(unsigned)row->group_size, 1};
    const struct stp_trace_comm *comm;
    enum stp_status status;

    if (row->group_size == 0 && a->has_sizes)
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, 0,
                           "comm_group_size 'None', expected the ranks of the "
                           "group");
    if (row->group_size != 0)
        groups.stride = aicb_stride(a, &row->group, row->group_size);
    snprintf(name, sizeof(name), "%.*s",
             (int)(row->group.len < sizeof(name) ? row->group.len
                                                 : sizeof(name) - 1),
             row->group.s);
    status = stp_trace_need_groups(a->b, name, &groups, a->world, a->line,
                                   comm_ret, a->err);
    if (status != STP_OK)
        return status;
    comm = &a->b->trace.comms[*comm_ret];
    if (a->has_sizes && comm->n_ranks != row->group_size)
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, 0,
                           "comm_group_size %d, expected the %d that line %u "
                           "says of '%s'",
                           row->group_size, comm->n_ranks, comm->line, name);
    return STP_OK;
}

/* ---- rows ---- */

/* "(A B ...)": the numbers, and where they end; 0 if it is no such list. */
static size_t aicb_read_shape(const char **s, const char *end,
                              uint64_t dims[MAX_DIMS])
{
    size_t n = 0;

    while (*s < end && **s == ' ')
        ++*s;
    if (*s == end || *(*s)++ != '(')
        return 0;
    while (n < MAX_DIMS) {
        const char *from = *s;

        while (*s < end && **s >= '0' && **s <= '9')
            ++*s;
        if (!stp_parse_u64(from, (size_t)(*s - from), &dims[n++]) || *s == end)
            return 0;
        if (*(*s)++ == ')')
            return n;
    }
    return 0;
}

/* "((A) (B))", as torch.matmul() multiplies. */
static enum stp_status aicb_add_product(const struct aicb *a,
                                        const struct aicb_row *row,
                                        const struct stp_trace_place *place)
{
    const char *s = row->size.s + 1;
    const char *end = row->size.s + row->size.len;
    uint64_t left[MAX_DIMS], right[MAX_DIMS];
    const size_t n_left = row->size.len > 0 && row->size.s[0] == '('
                              ? aicb_read_shape(&s, end, left)
                              : 0;
    const size_t n_right = n_left > 0 ? aicb_read_shape(&s, end, right) : 0;
    uint64_t sides[3] = {1, 0, 0};

    if (n_left < 1 || n_right < 2 || left[n_left - 1] != right[n_right - 2])
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, row->size.column,
                           "msg_size '%.*s' of a computation, expected the "
                           "shapes of two matrices as ((M K) (K N))",
                           STP_SHOWN(&row->size));
    for (size_t i = 0; i + 1 < n_left && sides[0] <= UINT32_MAX; i++)
        sides[0] *= left[i] <= UINT32_MAX ? left[i] : UINT32_MAX;
    sides[1] = right[n_right - 1];
    sides[2] = left[n_left - 1];
    return stp_trace_add_gemm(a->b, sides, STP_TYPE_BF16, place, a->err);
}

static enum stp_status aicb_skip(const struct aicb *a, const char *fmt,
                                 const struct stp_field *word)
{
    char name[64];

    snprintf(name, sizeof(name), fmt, STP_SHOWN(word));
    return stp_trace_add_skip(a->b, name, strlen(name), a->line, a->err);
}

static enum stp_status aicb_add_collective(const struct aicb *a,
                                           const struct aicb_row *row, int coll,
                                           const struct stp_trace_place *place)
{
    struct stp_trace_message m = {
        .coll = coll, .type = STP_TYPE_BF16, .op = STP_OP_SUM, .place = *place};
    enum stp_status status;

    if (!stp_parse_u64(row->size.s, row->size.len, &m.n_bytes))
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, row->size.column,
                           "msg_size '%.*s', expected a number of bytes",
                           STP_SHOWN(&row->size));
    if (m.n_bytes == 0)
        return aicb_skip(a, "%.*s of 0 bytes", &row->type);
    status = aicb_find_comm(a, row, &m.comm);
    if (status == STP_ERR_NOTHING)
        return aicb_skip(a, "%.*s of one rank", &row->type);
    return status == STP_OK ? stp_trace_add_message(a->b, &m, a->err) : status;
}

/* Rows before the first end of an epoch are the job's beginning. */
static unsigned aicb_step(struct aicb *a, const struct aicb_row *row)
{
    if (a->n_ends == 0 && !a->began && aicb_begins(&row->stage, "init"))
        return 0;
    a->began |= a->n_ends == 0;
    return a->n_ends + a->began;
}

static enum stp_status aicb_read_row(struct aicb *a, struct aicb_row *row)
{
    struct stp_trace_place place = {.line = a->line};
    int coll;

    if (!aicb_drop(&row->type, "CommType."))
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, row->type.column,
                           "comm_type '%.*s', expected CommType.NAME",
                           STP_SHOWN(&row->type));
    if (a->n_stages > 1)
        return aicb_skip(a, "%.*s of another pipeline stage", &row->type);
    if (stp_field_is(&row->type, "epoch_end")) {
        a->n_ends++;
        return STP_OK;
    }
    aicb_drop(&row->group, "CommGroup.");
    place.step = aicb_step(a, row);
    if (stp_field_is(&row->additional, "overlap"))
        place.stream = STP_STREAM_COMM;
    if (stp_field_is(&row->type, "computation"))
        return aicb_add_product(a, row, &place);
    coll = stp_trace_word(words, row->type.s, row->type.len);
    return coll >= 0 ? aicb_add_collective(a, row, coll, &place)
                     : aicb_skip(a, "%.*s", &row->type);
}

/* ---- lines ---- */

static enum stp_status aicb_read_header(struct aicb *a,
                                        const struct stp_field *f, size_t n)
{
    if (n > MAX_FIELDS)
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, 1,
                           "a header of %zu columns, expected at most %d", n,
                           MAX_FIELDS);
    for (size_t i = 0; i < n; i++) {
        const struct stp_csv_column *column =
            stp_csv_find(columns, N_COLUMNS, &f[i]);

        a->order[i] = column != NULL ? column : &ignored;
    }
    a->n_order = n;
    for (size_t c = 0; c < N_COLUMNS; c++) {
        size_t i = 0;

        while (i < n && a->order[i] != &columns[c])
            i++;
        if (i == n && columns[c].required)
            return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, 1,
                               "header without the column %s", columns[c].name);
        if (columns[c].kind == STP_CSV_WHOLE)
            a->has_sizes = i < n;
    }
    return STP_OK;
}

static enum stp_status aicb_read_line(struct aicb *a, const char *line,
                                      size_t len)
{
    struct stp_field f[MAX_FIELDS];
    struct aicb_row row = {.group_size = 0};
    size_t n;

    if (len > 0 && line[0] == '#')
        return STP_OK;
    if (len > 0 && line[0] == '[') {
        a->n_stages++;
        return STP_OK;
    }
    n = stp_split(line, len, f, MAX_FIELDS);
    if (n == 1 && f[0].len == 0)
        return STP_OK;
    if (stp_field_is(&f[0], "comm_type"))
        return aicb_read_header(a, f, n);
    if (n != a->n_order)
        return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, 1,
                           "%zu fields, expected %zu as in the header", n,
                           a->n_order);
    for (size_t i = 0; i < n; i++)
        if (!stp_csv_read_field(a->order[i], &f[i], &row))
            return stp_fail_at(a->err, STP_ERR_SYNTAX, a->line, f[i].column,
                               "%s '%.*s', expected %s", a->order[i]->name,
                               STP_SHOWN(&f[i]), a->order[i]->expected);
    return aicb_read_row(a, &row);
}

/* The ranks of the first tensor-parallel group; 1 if there is none. */
static int aicb_find_tp(const char *text)
{
    static const char key[] = "CommGroup.tp_group,";
    const char *at = strstr(text, key);
    const long n = at != NULL ? strtol(at + strlen(key), NULL, 10) : 1;

    return n >= 1 && n <= MOCK_MAX_RANKS ? (int)n : 1;
}

enum stp_status stp_read_aicb(struct stp_trace_build *b, const char *text,
                              size_t len, struct stp_error *err)
{
    struct aicb a = {.b = b, .tp = aicb_find_tp(text), .err = err};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    b->trace.has_steps = true;
    aicb_count_world(&a, text, len);
    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        a.line++;
        status = aicb_read_line(&a, line, n);
    }
    return status;
}
