/* nccl_text_read.c - the reader: the header line names the columns of rows */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "core/csv.h"
#include "core/dtype.h"
#include "core/names.h"
#include "core/room.h"
#include "core/utf8.h"
#include "report/measurements/measurements_row.h"
#include "report/measurements/nccl_log.h"
#include "report/measurements/nccl_text.h"

enum { MAX_COLUMNS = 32 };

/* One place of a row. */
struct place {
    double us;                                /* 0: not measured */
    double min_us, median_us, p95_us, p99_us; /* 0: not said */
    double algbw, busbw;                      /* GB/s; -1: not said */
    double n_wrong;                           /* -1: not checked */
    double error; /* largest difference, until 2.12; -1: not checked */
};

struct row {
    uint64_t n_bytes;
    uint64_t count; /* UINT64_MAX: not said */
    int type;
    int op;
    unsigned root;
    struct place places[2]; /* out of place, in place */
};

struct reader {
    struct stp_dataset *data;
    struct stp_error *err;
    unsigned line;
    int coll; /* -1: not known */
    int said; /* by the caller, of text that does not say; -1: nothing */
    struct stp_arm arm;
    unsigned iters;
    enum stp_source source;
    bool single_pass;
    bool names_arms;                /* text of ours */
    unsigned n_ranks;               /* of a communicator; 0: not known */
    unsigned n_listed;              /* ranks of all communicators */
    uint64_t last_rank;             /* the highest number of them */
    double least_ranks, most_ranks; /* that bandwidths so far agree with */
    size_t begin;                   /* the first row of the run */
    unsigned round;
    uint64_t last_size;     /* of the row before; UINT64_MAX: none */
    unsigned n_nodes;       /* that our own text says; 0: as many as hosts */
    struct stp_field group; /* of the first rank */
    struct stp_field *hosts;
    size_t n_hosts, hosts_capacity;
    const struct stp_csv_column *columns[MAX_COLUMNS];
    bool in_place[MAX_COLUMNS]; /* of the column */
    size_t n_columns;           /* 0: not named yet */
    bool ended;                 /* after the run's totals */
    const struct stp_nccl_log *log;
    unsigned row_line; /* of the row before */
};

static bool text_same_field(const struct stp_field *a,
                            const struct stp_field *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->s, b->s, a->len) == 0);
}

/* Splits at blanks; returns how many words there are, at most 'max'. */
static size_t text_split(const char *line, size_t len, struct stp_field *words,
                         size_t max)
{
    size_t n = 0;

    for (size_t i = 0; i < len && n < max;) {
        size_t begin;

        while (i < len && (line[i] == ' ' || line[i] == '\t'))
            i++;
        begin = i;
        while (i < len && line[i] != ' ' && line[i] != '\t')
            i++;
        if (i > begin)
            words[n++] = (struct stp_field){line + begin, i - begin,
                                            (unsigned)begin + 1};
    }
    return n;
}

/* ---- columns ---- */

static int text_find_op(const char *word, size_t len)
{
    const struct stp_field f = {word, len, 0};

    return stp_field_is(&f, "none")     ? STP_OP_SUM
           : stp_field_is(&f, "mulsum") ? STP_OP_PREMULSUM
                                        : stp_op_from_name(word, len);
}

/* A result that is no number is as far from right as can be. */
static bool text_read_error(const struct stp_field *f, void *place)
{
    double *error = &((struct place *)place)->error;

    *error = stp_field_is(f, "N/A") ? -1 : (double)INFINITY;
    return isfinite(*error) || stp_field_is(f, "nan") ||
           stp_field_is(f, "-nan") || stp_field_is(f, "inf") ||
           stp_parse_double(f->s, f->len, error);
}

#define ROW(member)   STP_CSV_INTO(row, member)
#define PLACE(member) STP_CSV_INTO(place, member)

#define TIME                                                                   \
    "a time above 0 out of place and one in place", .kind = STP_CSV_POSITIVE,  \
                                                    PLACE(us), .none = "N/A"
#define ITERATION "a time above 0", .kind = STP_CSV_POSITIVE, .none = "N/A"
#define BANDWIDTH                                                              \
    "a number of GB/s, or N/A", .kind = STP_CSV_FROM_0, .none = "N/A",         \
                                .none_value = -1

// clang-format off
static const struct stp_csv_column known_columns[] = {
    {"size", "a number of bytes", .kind = STP_CSV_WHOLE, ROW(n_bytes),
     .max = UINT64_MAX},
    {"count", "a number of elements", .kind = STP_CSV_WHOLE, ROW(count),
     .max = UINT64_MAX},
    {"type", STP_TYPE_WORDS ", or nccl-tests' word for it",
     .kind = STP_CSV_WORD, ROW(type), .from_name = stp_type_from_name},
    {"redop", STP_OP_WORDS ", or none", .kind = STP_CSV_WORD, ROW(op),
     .from_name = text_find_op},
    {"root", "a rank, or -1", .kind = STP_CSV_WHOLE, ROW(root),
     .max = UINT32_MAX, .none = "-1"},
    {"time", TIME},
    {"cputime", TIME},
    {"algbw", BANDWIDTH, PLACE(algbw)},
    {"busbw", BANDWIDTH, PLACE(busbw)},
    {"#wrong", "a number of elements, or N/A", .kind = STP_CSV_FROM_0,
     PLACE(n_wrong), .none = "N/A", .none_value = -1},
    {"error", "a number, nan, inf or N/A", .read = text_read_error,
     PLACE(error)},
    {"i_min", ITERATION, PLACE(min_us)},
    {"i_max", .kind = STP_CSV_SKIP},
    {"i_p50", ITERATION, PLACE(median_us)}, /* out of JSON */
    {"i_p95", ITERATION, PLACE(p95_us)},    /* likewise */
    {"i_p99", ITERATION, PLACE(p99_us)},
    {"i_cv%", .kind = STP_CSV_SKIP},
    {"timestamp", .kind = STP_CSV_SKIP},
};
// clang-format on

enum { N_KNOWN = sizeof(known_columns) / sizeof(known_columns[0]) };

static enum stp_status text_read_header(struct reader *r,
                                        const struct stp_field *words, size_t n)
{
    unsigned n_times = 0;

    if (n == MAX_COLUMNS)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[n - 1].column,
                           "more columns than nccl-tests have");
    r->ended = false;
    r->last_size = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct stp_csv_column *column =
            stp_csv_find(known_columns, N_KNOWN, &words[i]);

        n_times += column != NULL && column->kind == STP_CSV_POSITIVE &&
                   column->offset == offsetof(struct place, us);
        if (column == NULL || n_times > 2)
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[i].column,
                               "column '%.*s', expected those of nccl-tests, "
                               "such as size, time, algbw, busbw and #wrong",
                               STP_SHOWN(&words[i]));
        r->columns[i] = column;
        r->in_place[i] = n_times == 2;
    }
    r->n_columns = n;
    return STP_OK;
}

/* ---- other comments ---- */

/* If the word begins with 'key', the rest of it. */
static bool text_value(const struct stp_field *word, const char *key,
                       struct stp_field *value_ret)
{
    size_t n = strlen(key);

    if (word->len < n || memcmp(word->s, key, n) != 0)
        return false;
    *value_ret = (struct stp_field){word->s + n, word->len - n,
                                    word->column + (unsigned)n};
    return true;
}

/* Sets a name that all runs of a dataset have in common. */
static enum stp_status text_set_name(const struct reader *r,
                                     const struct stp_field *word,
                                     const char *title, char *name, size_t size)
{
    char shown[STP_ERROR_TEXT];

    stp_printable(word->s, word->len, shown, size);
    if (name[0] != '\0' && strcmp(name, shown) != 0)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, word->column,
                           "%s '%.*s', expected '%s' as in the run before",
                           title, STP_SHOWN(word), name);
    strcpy(name, shown);
    return STP_OK;
}

/* ncclGetVersion()'s number: 2804 was 2.8.4, and 22809 is 2.28.9. */
static enum stp_status text_set_nccl(const struct reader *r,
                                     const struct stp_field *code)
{
    char version[16];
    uint64_t n;

    if (!stp_parse_u64(code->s, code->len, &n) || n > 999999)
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, code->column,
            "NCCL version '%.*s', expected a number such as 22809",
            STP_SHOWN(code));
    if (n == 0)
        return STP_OK; /* without NCCL */
    snprintf(version, sizeof(version), "%u.%u.%u",
             (unsigned)(n / (n < 10000 ? 1000 : 10000)),
             (unsigned)(n / 100 % (n < 10000 ? 10 : 100)), (unsigned)(n % 100));
    return text_set_name(
        r, &(struct stp_field){version, strlen(version), code->column},
        "NCCL version", r->data->nccl, sizeof(r->data->nccl));
}

/* Nobody knows better of our own text until it says so. */
static enum stp_status
text_read_version(struct reader *r, const struct stp_field *words, size_t n)
{
    enum stp_status status = STP_OK;
    struct stp_field value;
    uint64_t nodes;

    r->names_arms |= stp_field_is(&words[0], "steptune");
    r->source = stp_field_is(&words[0], "steptune") ? STP_SOURCE_MODELLED
                                                    : STP_SOURCE_MEASURED;
    r->single_pass = false;

    for (size_t i = 0; i < n && status == STP_OK; i++)
        if (text_value(&words[i], "nccl-library=", &value))
            status = text_set_nccl(r, &value);
        else if (text_value(&words[i], "backend=", &value))
            status = text_set_name(r, &value, "backend", r->data->backend,
                                   sizeof(r->data->backend));
        else if (text_value(&words[i], "nodes=", &value) &&
                 stp_parse_u64(value.s, value.len, &nodes) &&
                 nodes <= UINT32_MAX)
            r->n_nodes = (unsigned)nodes;
    return status;
}

/* ---- what bandwidths say ---- */

/* The least and the most ranks of which the printed bandwidths can be. */
static void text_narrow_ranks(struct reader *r, const struct place *p)
{
    const double of_many = 2 * stp_bus_factor(r->coll, 2);
    const double digits = 0.0051;
    const double low = (p->busbw - digits) / (p->algbw + digits) / of_many;
    const double high = (p->busbw + digits) / (p->algbw - digits) / of_many;

    if (!(p->algbw > digits) || !(p->busbw >= 0) ||
        stp_bus_factor(r->coll, 2) == stp_bus_factor(r->coll, 3))
        return;
    r->least_ranks = fmax(r->least_ranks, ceil(1 / (1 - fmin(low, 1))));
    if (high < 1)
        r->most_ranks = fmin(r->most_ranks, floor(1 / (1 - high)));
}

/* Keeps the first figure that contradicts the others.  Bandwidths, and the time
 * that they are of, have two digits after the point; of long times our text has
 * two digits.  Old tests print busbw as algbw, too. */
static void text_check_place(struct reader *r, const struct row *row,
                             const struct place *p)
{
    const unsigned n = r->n_ranks;
    const bool is_split =
        r->coll == ncclFuncAllGather || r->coll == ncclFuncReduceScatter;
    const double elements = (double)row->n_bytes / stp_type_size(row->type);
    const struct {
        const char *name;
        double said, ours; /* < 0: not said; not finite: not known */
    } figures[] = {
        {"busbw", p->busbw,
         n > 0 ? stp_busbw(r->coll, n, row->n_bytes, p->us) : (double)NAN},
        {"algbw", p->algbw != p->busbw ? p->algbw : -1,
         stp_algbw(row->n_bytes, p->us)},
        {"count", row->count != UINT64_MAX ? (double)row->count : -1,
         is_split ? elements / n : elements},
    };
    const double slack = p->us < 1e7 ? 2e-3 + 0.006 / p->us : 0.06;

    for (int i = 0; i < 3 && r->data->doubt[0] == '\0'; i++)
        if (figures[i].said >= 0 && fabs(figures[i].said - figures[i].ours) >
                                        slack * figures[i].ours + 0.0055)
            snprintf(r->data->doubt, sizeof(r->data->doubt),
                     "%s %g, but %" PRIu64
                     " bytes in %g us among %u ranks, as the text lists, are "
                     "%.6g",
                     figures[i].name, figures[i].said, row->n_bytes, p->us, n,
                     figures[i].ours);
}

/* Ends a run: rows under no list of ranks are of the one number of ranks with
 * which all bandwidths agree. */
static enum stp_status text_end_run(struct reader *r)
{
    struct stp_dataset *data = r->data;
    const bool is_one = r->least_ranks == r->most_ranks;

    for (size_t i = r->begin; i < data->n_rows; i++) {
        if (data->rows[i].n_ranks > 0)
            continue;
        if (!is_one)
            return stp_fail_at(
                r->err, STP_ERR_SYNTAX, r->line, 1,
                "a run without the lines that list the ranks (# Using "
                "devices), expected them: busbw and algbw do not tell how many "
                "there were");
        data->rows[i].n_ranks = (unsigned)r->least_ranks;
    }
    r->begin = data->n_rows;
    r->least_ranks = 2;
    r->most_ranks = UINT32_MAX;
    return STP_OK;
}

/* ---- runs ---- */

/* Begins a run. */
static enum stp_status
text_read_options(struct reader *r, const struct stp_field *words, size_t n)
{
    uint64_t iters;

    enum stp_status status = text_end_run(r);

    r->n_ranks = r->n_listed = 0;
    r->last_rank = 0;
    r->n_hosts = 0;
    r->n_columns = 0;
    r->iters = 1;
    r->arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    for (size_t i = n; --i > 1;)
        if (stp_field_is(&words[i - 1], "iters:") &&
            !stp_field_is(&words[i - 2], "warmup") &&
            !stp_field_is(&words[i - 2], "agg") &&
            stp_parse_u64(words[i].s, words[i].len, &iters) && iters > 0 &&
            iters <= UINT32_MAX)
            r->iters = (unsigned)iters;
    return status;
}

static enum stp_status text_add_host(struct reader *r,
                                     const struct stp_field *host)
{
    for (size_t i = r->n_hosts; i-- > 0;) /* ranks of a host are neighbours */
        if (text_same_field(&r->hosts[i], host))
            return STP_OK;
    if (!STP_ROOM(r->hosts, r->n_hosts, r->hosts_capacity))
        return stp_nomem(r->err);
    r->hosts[r->n_hosts++] = *host;
    return STP_OK;
}

/* "Rank 0 Group 0 Pid 930 on HOST device 0 [0000:00:06] NVIDIA H200"; groups
 * are communicators of their own, and of the same size. */
static enum stp_status text_read_rank(struct reader *r,
                                      const struct stp_field *words, size_t n)
{
    const struct stp_field none = {"", 0, 1};
    const struct stp_field *last = &words[n - 1];
    struct stp_field group = none, host = none, gpu = none;
    struct stp_dataset *data = r->data;
    enum stp_status status = STP_OK;
    uint64_t rank;

    r->n_listed++;
    if (n > 1 && stp_parse_u64(words[1].s, words[1].len, &rank) &&
        rank > r->last_rank)
        r->last_rank = rank;
    for (size_t i = 2; i + 1 < n; i++)
        if (stp_field_is(&words[i], "Group"))
            group = words[i + 1];
        else if (stp_field_is(&words[i], "on"))
            host = words[i + 1];
        else if (words[i].s[0] == '[' && words[i].s[words[i].len - 1] == ']')
            gpu = (struct stp_field){
                words[i + 1].s, (size_t)(last->s + last->len - words[i + 1].s),
                words[i + 1].column};
    if (r->n_ranks == 0)
        r->group = group;
    if (!text_same_field(&group, &r->group))
        return STP_OK;
    r->n_ranks++;
    if (host.len > 0)
        status = text_add_host(r, &host);
    if (r->n_hosts == 1 && data->machine[0] == '\0')
        stp_printable(r->hosts[0].s, r->hosts[0].len, data->machine,
                      sizeof(data->machine));
    if (status != STP_OK || gpu.len == 0)
        return status;
    return text_set_name(r, &gpu, "GPU", data->gpu, sizeof(data->gpu));
}

static enum stp_status
text_read_starting(struct reader *r, const struct stp_field *words, size_t n)
{
    const struct stp_field *name = &words[n - 1];

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (stp_field_is(name, stp_nccl_text_program(c))) {
            if (r->said >= 0 && r->said != c)
                return stp_fail_at(r->err, STP_ERR_RANGE, r->line, name->column,
                                   "times of %s, but --collective says %s",
                                   stp_coll_name(c), stp_coll_name(r->said));
            r->coll = c;
            r->arm = (struct stp_arm){.kind = STP_ARM_AUTO};
            return STP_OK;
        }
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, name->column,
        "test '%.*s', expected all_reduce_perf, all_gather_perf, "
        "reduce_scatter_perf, broadcast_perf or reduce_perf",
        STP_SHOWN(name));
}

static enum stp_status text_read_arm(struct reader *r,
                                     const struct stp_field *words, size_t n)
{
    const struct stp_field *name = &words[n - 1];

    if (stp_arm_from_name(name->s, name->len, &r->arm))
        return STP_OK;
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, name->column,
        "arm '%.*s', expected auto, plugin or ALGORITHM/PROTOCOL[/CHANNELS]",
        STP_SHOWN(name));
}

/* "Source: recorded, 600 iterations in 12 rounds", and after the source "single
 * pass," where it is of one. */
static enum stp_status text_read_source(struct reader *r,
                                        const struct stp_field *words, size_t n)
{
    struct stp_field name = n > 1 ? words[1] : words[0];
    size_t next = 2;
    uint64_t iters;
    int source;

    name.len -= name.s[name.len - 1] == ',';
    source = stp_source_from_name(name.s, name.len);
    if (source < 0)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, name.column,
                           "source '%.*s', expected " STP_SOURCE_WORDS,
                           STP_SHOWN(&name));
    r->source = (enum stp_source)source;
    r->single_pass = n > next && stp_field_is(&words[next], "single");
    next += r->single_pass ? 2 : 0;
    if (n > next && stp_parse_u64(words[next].s, words[next].len, &iters) &&
        iters > 0 && iters <= UINT32_MAX)
        r->iters = (unsigned)iters;
    return STP_OK;
}

/* "Out of bounds values : 3 FAILED".  The lines that follow are not the run's:
 * a table of ours, or mpirun's. */
static enum stp_status text_read_foot(struct reader *r,
                                      const struct stp_field *words, size_t n)
{
    const bool is_wrong = stp_field_is(&words[n - 1], "FAILED");
    bool is_told = false; /* which */

    for (size_t i = r->begin; i < r->data->n_rows; i++)
        is_told |= r->data->rows[i].n_wrong > 0;
    for (size_t i = r->begin; i < r->data->n_rows && is_wrong && !is_told; i++)
        r->data->rows[i].n_wrong = 1;
    r->ended = true;
    return text_end_run(r);
}

/* Comments that are read, by how they begin after "# ". */
static const struct comment {
    const char *begin;
    enum stp_status (*read)(struct reader *r, const struct stp_field *words,
                            size_t n);
} comments[] = {
    {"nccl-tests version ", text_read_version},
    {"steptune version ", text_read_version},
    {STP_NCCL_TEXT_STARTING, text_read_starting},
    {STP_NCCL_TEXT_ARM, text_read_arm},
    {STP_NCCL_TEXT_SOURCE, text_read_source},
    {"nThread ", text_read_options},
    {"Rank ", text_read_rank},
    {"size ", text_read_header},
    {"Out of bounds values ", text_read_foot},
};

/* The comment that the line is; NULL for any other line. */
static const struct comment *text_find_comment(const char *line, size_t len)
{
    size_t begin = 1;

    if (len == 0 || line[0] != '#')
        return NULL;
    while (begin < len && line[begin] == ' ')
        begin++;
    for (size_t i = 0; i < sizeof(comments) / sizeof(comments[0]); i++) {
        size_t n = strlen(comments[i].begin);

        if (len - begin >= n && memcmp(line + begin, comments[i].begin, n) == 0)
            return &comments[i];
    }
    return NULL;
}

/* ---- rows ---- */

static enum stp_status text_add_place(struct reader *r, const struct row *row,
                                      bool in_place)
{
    /* nccl-tests' DeltaMaxValue(): of a sum of two; integers are equal */
    static const double max_error[STP_N_TYPES] = {[STP_TYPE_F16] = 1e-2,
                                                  [STP_TYPE_BF16] = 1e-2,
                                                  [STP_TYPE_F32] = 1e-5,
                                                  [STP_TYPE_F64] = 1e-12};
    const struct place *p = &row->places[in_place];
    const struct stp_nccl_comm *comm =
        stp_nccl_log_comm(r->log, r->line, r->n_ranks);
    unsigned n_nodes = r->n_nodes;
    struct stp_measurement m = {
        .coll = r->coll,
        .n_bytes = row->n_bytes,
        .round = r->round,
        .arm = r->arm,
        .ran_algo = -1,
        .ran_proto = -1,
        .type = row->type,
        .op = row->op,
        .root = row->root,
        .in_place = in_place,
        .n_wrong = (int64_t)fmin(p->n_wrong, 1e18),
        .n_ranks = r->n_ranks,
        .iters = r->iters,
        .source = r->source,
        .single_pass = r->single_pass,
        .us = {.mean = p->us,
               .median = p->median_us > 0 ? p->median_us : p->us,
               .p95 = p->p95_us,
               .p99 = p->p99_us,
               .min = p->min_us},
    };

    if (!(p->us > 0) || row->n_bytes == 0)
        return STP_OK;
    stp_measurement_row_forget(&m);
    if (p->algbw != 0 || p->busbw != 0) /* no digits, or of nobody */
        text_check_place(r, row, p);
    if (r->n_ranks == 0)
        text_narrow_ranks(r, p);
    if (p->error >= 0) /* printed with one digit */
        m.n_wrong = p->error > 1.0001 * max_error[row->type] *
                                   (r->n_ranks > 1 ? r->n_ranks - 1 : 1);
    /* NCCL's nodes are what the text says, or NCCL; else they may be hosts. */
    if (n_nodes == 0 && comm != NULL)
        n_nodes = comm->n_nodes;
    if (n_nodes == 0) {
        const bool is_whole = r->n_listed > r->last_rank && r->n_hosts > 0;
        const enum stp_nodes nodes = !is_whole        ? STP_NODES_UNKNOWN
                                     : r->n_hosts > 1 ? STP_NODES_HOSTS
                                                      : STP_NODES_TOLD;

        n_nodes = is_whole ? (unsigned)r->n_hosts : 1;
        if (nodes > r->data->nodes)
            r->data->nodes = nodes;
    }
    m.n_nodes = n_nodes;
    stp_nccl_log_pair(r->log, r->row_line, r->line, m.coll, m.n_bytes,
                      m.n_ranks, &m.ran_algo, &m.ran_proto);
    return stp_dataset_add(r->data, &m) == STP_OK ? STP_OK : stp_nomem(r->err);
}

/* The lines before a row that it needs. */
static enum stp_status text_check_context(struct reader *r)
{
    const struct stp_nccl_comm *comm = stp_nccl_log_comm(r->log, r->line, 0);
    const char *lacks = NULL;

    /* The number of ranks is NCCL's, or that of bandwidths, if the list was
     * cut. */
    if (r->n_listed <= r->last_rank)
        r->n_ranks = comm != NULL ? comm->n_ranks : 0;
    if (r->n_columns == 0)
        lacks = "the line that names its columns";
    else if (r->coll < 0)
        lacks = "what collective it is of (\"# Collective test starting\", or "
                "--collective)";
    if (lacks == NULL)
        return STP_OK;
    return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1, "a row without %s",
                       lacks);
}

static bool text_read_field(const struct reader *r, size_t column,
                            const struct stp_field *word, struct row *row)
{
    const struct stp_csv_column *c = r->columns[column];
    bool is_of_place = c->kind >= STP_CSV_NUMBER || c->read != NULL;

    return stp_csv_read_field(
        c, word,
        is_of_place ? (void *)&row->places[r->in_place[column]] : (void *)row);
}

static enum stp_status text_read_fields(const struct reader *r,
                                        const struct stp_field *words, size_t n,
                                        struct row *row)
{
    bool lacks_op = false;
    uint64_t root;
    size_t w = 0;

    /* Until 2.18 the redop of collectives that reduce nothing is blank: the
     * root stands where the operation would. */
    for (size_t c = 0; c < r->n_columns && c < n; c++)
        lacks_op |= strcmp(r->columns[c]->name, "redop") == 0 &&
                    (stp_field_is(&words[c], "-1") ||
                     stp_parse_u64(words[c].s, words[c].len, &root));
    for (size_t c = 0; c < r->n_columns; c++) {
        if (lacks_op && strcmp(r->columns[c]->name, "redop") == 0)
            continue;
        if (w == n)
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                               "%zu fields, expected %zu as there are columns",
                               n, r->n_columns - lacks_op);
        if (!text_read_field(r, c, &words[w], row))
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[w].column,
                               "%s '%.*s', expected %s", r->columns[c]->name,
                               STP_SHOWN(&words[w]), r->columns[c]->expected);
        w++;
    }
    if (w == n || strcmp(r->columns[r->n_columns - 1]->name, "timestamp") == 0)
        return STP_OK; /* a timestamp has a blank in it */
    return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[w].column,
                       "'%.*s', expected nothing behind the last column",
                       STP_SHOWN(&words[w]));
}

static enum stp_status text_read_row(struct reader *r, const char *line,
                                     size_t len)
{
    const struct place unchecked = {
        .algbw = -1, .busbw = -1, .n_wrong = -1, .error = -1};
    struct row row = {.count = UINT64_MAX, .places = {unchecked, unchecked}};
    struct stp_field words[MAX_COLUMNS];
    size_t n = text_split(line, len, words, MAX_COLUMNS);
    enum stp_status status = text_check_context(r);

    STP_THEN(status, text_read_fields(r, words, n, &row));
    if (status != STP_OK)
        return status;
    /* sizes ascend within a round */
    r->round += r->last_size != UINT64_MAX && row.n_bytes <= r->last_size &&
                row.n_bytes > 0;
    r->last_size = row.n_bytes;
    status = text_add_place(r, &row, false);
    STP_THEN(status, text_add_place(r, &row, true));
    r->row_line = r->line;
    return status;
}

static enum stp_status text_read_line(struct reader *r, const char *line,
                                      size_t len)
{
    const struct comment *comment = text_find_comment(line, len);
    struct stp_field words[MAX_COLUMNS];
    size_t n;

    if (comment != NULL) {
        /* the '#' may stand against the first word */
        n = text_split(line + 1, len - 1, words, MAX_COLUMNS);
        for (size_t w = 0; w < n; w++)
            words[w].column++;
        return comment->read(r, words, n);
    }
    if ((len > 0 && line[0] == '#') || r->ended ||
        text_split(line, len, words, 1) == 0)
        return STP_OK;
    if (words[0].s[0] >= '0' && words[0].s[0] <= '9')
        return text_read_row(r, line, len);
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, words[0].column,
        "'%.*s', expected '#', a row, or a line that NCCL logged",
        STP_SHOWN(&words[0]));
}

bool stp_nccl_text_is(const char *text, size_t len)
{
    const char *s = text;
    const char *line;
    size_t n;

    while ((line = stp_next_line(&s, text + len, &n)) != NULL)
        if (text_find_comment(line, n) != NULL)
            return true;
    return stp_nccl_json_is(text, len);
}

/* Reads the rest of a text without 'log'. */
static enum stp_status text_read_rest(const char *text, size_t len, int coll,
                                      const struct stp_nccl_log *log,
                                      struct stp_dataset *data,
                                      bool *names_arms_ret,
                                      struct stp_error *err)
{
    struct reader r = {.data = data,
                       .err = err,
                       .coll = coll,
                       .said = coll,
                       .iters = 1,
                       .last_size = UINT64_MAX,
                       .least_ranks = 2,
                       .most_ranks = UINT32_MAX,
                       .log = log};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        r.line++;
        status = text_read_line(&r, line, n);
    }
    STP_THEN(status, text_end_run(&r));
    free(r.hosts);
    *names_arms_ret = r.names_arms;
    if (status == STP_OK && data->n_rows == 0)
        status = stp_fail_at(err, STP_ERR_SYNTAX, r.line, 0,
                             "no rows, expected what nccl-tests print");
    return status;
}

/* The same, of JSON: errors in its text are of results. */
static enum stp_status text_read_json(const char *json, size_t json_len,
                                      int coll, struct stp_dataset *data,
                                      struct stp_nccl_settings *settings_ret,
                                      struct stp_error *err)
{
    const struct stp_nccl_log log = {.n_ran = 0};
    struct stp_error reason = {.line = 0};
    unsigned n_lines = 0, n_rows;
    char *text;
    size_t len;
    enum stp_status status;

    STP_TRY(stp_nccl_json_to_text(json, json_len, &text, &len, &n_rows,
                                  settings_ret, err));
    status = text_read_rest(text, len, coll, &log, data,
                            &settings_ret->names_arms, &reason);
    for (size_t i = 0; i < len; i++)
        n_lines += text[i] == '\n';
    free(text);
    if (status == STP_OK)
        return STP_OK;
    if (reason.line > n_lines - n_rows)
        return stp_fail(err, status, "results[%u]: %s",
                        reason.line - (n_lines - n_rows) - 1, reason.text);
    return stp_fail(err, status, "%s", reason.text);
}

static enum stp_status text_read_text(const char *text, size_t len, int coll,
                                      struct stp_dataset *data,
                                      struct stp_nccl_settings *settings_ret,
                                      struct stp_error *err)
{
    struct stp_nccl_log log;
    char *rest;
    size_t rest_len;
    enum stp_status status;

    STP_TRY(stp_nccl_log_take(text, len, &rest, &rest_len, &log, err));
    *settings_ret = log.settings;
    status = text_read_rest(rest, rest_len, coll, &log, data,
                            &settings_ret->names_arms, err);
    free(rest);
    stp_nccl_log_free(&log);
    return status;
}

enum stp_status stp_nccl_text_read(const char *text, size_t len, int coll,
                                   struct stp_dataset *data,
                                   struct stp_nccl_settings *settings_ret,
                                   struct stp_error *err)
{
    struct stp_nccl_settings settings;
    enum stp_status status =
        stp_nccl_json_is(text, len)
            ? text_read_json(text, len, coll, data, &settings, err)
            : text_read_text(text, len, coll, data, &settings, err);

    if (status != STP_OK) {
        stp_dataset_free(data);
        return status;
    }
    if (settings_ret != NULL)
        *settings_ret = settings;
    if (data->backend[0] == '\0')
        strcpy(data->backend, "nccl");
    return STP_OK;
}
