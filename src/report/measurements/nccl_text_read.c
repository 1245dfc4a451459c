/* nccl_text_read.c - the reader */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"
#include "report/measurements/nccl_log.h"
#include "report/measurements/nccl_text.h"
#include "report/measurements/nccl_text_parts.h"

enum {
    MAX_COLUMNS = 32,
    MAX_HOSTS = 256,
    SHOWN = 40, /* bytes of an offending word */
};

struct reader {
    struct stp_dataset *data;
    struct stp_error *err;
    unsigned line;
    int coll; /* -1: not known */
    struct stp_arm arm;
    unsigned iters;
    struct stp_field group; /* of the first rank */
    unsigned n_ranks;
    unsigned n_nodes; /* 0: as many as hosts */
    struct stp_field hosts[MAX_HOSTS];
    size_t n_hosts;
    const struct stp_nccl_text_column *columns[MAX_COLUMNS];
    size_t n_columns;   /* 0: not named yet */
    uint64_t last_size; /* of the row before */
    unsigned round;
    bool ended; /* behind what a run comes to */
    const struct stp_nccl_log *log;
    unsigned row_line; /* of the row before */
};

static int shown(const struct stp_field *f)
{
    return f->len < SHOWN ? (int)f->len : SHOWN;
}

static bool same_field(const struct stp_field *a, const struct stp_field *b)
{
    return a->len == b->len && memcmp(a->s, b->s, a->len) == 0;
}

/* If the word begins with 'key', what follows. */
static bool value_of(const struct stp_field *word, const char *key,
                     struct stp_field *value_ret)
{
    size_t n = strlen(key);

    if (word->len < n || memcmp(word->s, key, n) != 0)
        return false;
    *value_ret = (struct stp_field){word->s + n, word->len - n,
                                    word->column + (unsigned)n};
    return true;
}

/* ---- comments ---- */

static enum stp_status read_header(struct reader *r,
                                   const struct stp_field *words, size_t n)
{
    r->n_columns = 0;
    r->ended = false;
    r->last_size = UINT64_MAX;
    for (size_t i = 0; i < n; i++) {
        const struct stp_nccl_text_column *column =
            stp_nccl_text_find_column(&words[i]);

        if (column == NULL)
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[i].column,
                               "column '%.*s', expected those of nccl-tests, "
                               "such as size, time, algbw, busbw and #wrong",
                               shown(&words[i]), words[i].s);
        r->columns[r->n_columns++] = column;
    }
    return STP_OK;
}

/* Sets what all of a dataset has in common. */
static enum stp_status set_name(const struct reader *r,
                                const struct stp_field *word, const char *what,
                                char *name, size_t size)
{
    size_t len = word->len < size ? word->len : size - 1;

    if (name[0] != '\0' &&
        (strlen(name) != len || memcmp(name, word->s, len) != 0))
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, word->column,
                           "%s '%.*s', expected '%s' as in the run before",
                           what, shown(word), word->s, name);
    snprintf(name, size, "%.*s", (int)word->len, word->s);
    return STP_OK;
}

/* ncclGetVersion()'s number: 2804 was 2.8.4, and 22809 is 2.28.9. */
static enum stp_status set_nccl(const struct reader *r,
                                const struct stp_field *code)
{
    char version[16];
    uint64_t n;

    if (!stp_parse_u64(code->s, code->len, &n) || n > 999999)
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, code->column,
            "NCCL version '%.*s', expected a number such as 22809", shown(code),
            code->s);
    if (n == 0)
        return STP_OK; /* without NCCL */
    snprintf(version, sizeof(version), "%u.%u.%u",
             (unsigned)(n / (n < 10000 ? 1000 : 10000)),
             (unsigned)(n / 100 % (n < 10000 ? 10 : 100)), (unsigned)(n % 100));
    return set_name(r,
                    &(struct stp_field){version, strlen(version), code->column},
                    "NCCL version", r->data->nccl, sizeof(r->data->nccl));
}

static enum stp_status read_version(struct reader *r,
                                    const struct stp_field *words, size_t n)
{
    enum stp_status status = STP_OK;
    struct stp_field value;
    uint64_t nodes;

    for (size_t i = 0; i < n && status == STP_OK; i++)
        if (value_of(&words[i], "nccl-library=", &value))
            status = set_nccl(r, &value);
        else if (value_of(&words[i], "backend=", &value))
            status = set_name(r, &value, "backend", r->data->backend,
                              sizeof(r->data->backend));
        else if (value_of(&words[i], "nodes=", &value) &&
                 stp_parse_u64(value.s, value.len, &nodes) &&
                 nodes <= UINT32_MAX)
            r->n_nodes = (unsigned)nodes;
    return status;
}

/* A new run begins. */
static enum stp_status read_options(struct reader *r,
                                    const struct stp_field *words, size_t n)
{
    r->n_ranks = 0;
    r->n_hosts = 0;
    r->n_columns = 0;
    r->iters = 1;
    r->arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    for (size_t i = 1; i + 1 < n; i++) {
        uint64_t iters;

        if (stp_field_is(&words[i], "iters:") &&
            !stp_field_is(&words[i - 1], "warmup") &&
            !stp_field_is(&words[i - 1], "agg") &&
            stp_parse_u64(words[i + 1].s, words[i + 1].len, &iters) &&
            iters > 0 && iters <= UINT32_MAX) {
            r->iters = (unsigned)iters;
            break;
        }
    }
    return STP_OK;
}

static void add_host(struct reader *r, const struct stp_field *host)
{
    for (size_t i = 0; i < r->n_hosts; i++)
        if (same_field(&r->hosts[i], host))
            return;
    if (r->n_hosts < MAX_HOSTS)
        r->hosts[r->n_hosts++] = *host;
}

/* "Rank 0 Group 0 Pid 930 on HOST device 0 [0000:00:06] NVIDIA H200"; groups
 * are communicators of their own, and of the same size. */
static enum stp_status read_rank(struct reader *r,
                                 const struct stp_field *words, size_t n)
{
    const struct stp_field none = {"", 0, 1};
    const struct stp_field *last = &words[n - 1];
    struct stp_field group = none;
    struct stp_field gpu = none;

    for (size_t i = 2; i + 1 < n; i++) {
        if (stp_field_is(&words[i], "Group"))
            group = words[i + 1];
        if (stp_field_is(&words[i], "on") && r->n_ranks > 0 &&
            same_field(&group, &r->group))
            add_host(r, &words[i + 1]);
        if (stp_field_is(&words[i], "on") && r->n_ranks == 0) {
            r->group = group;
            add_host(r, &words[i + 1]);
        }
        if (words[i].s[0] == '[' && words[i].s[words[i].len - 1] == ']')
            gpu = (struct stp_field){
                words[i + 1].s, (size_t)(last->s + last->len - words[i + 1].s),
                words[i + 1].column};
    }
    if (r->n_ranks > 0 && !same_field(&group, &r->group))
        return STP_OK;
    r->n_ranks++;
    if (r->n_hosts == 1 && r->data->machine[0] == '\0')
        snprintf(r->data->machine, sizeof(r->data->machine), "%.*s",
                 (int)r->hosts[0].len, r->hosts[0].s);
    return gpu.len == 0
               ? STP_OK
               : set_name(r, &gpu, "GPU", r->data->gpu, sizeof(r->data->gpu));
}

static enum stp_status read_starting(struct reader *r,
                                     const struct stp_field *words, size_t n)
{
    const struct stp_field *name = &words[n - 1];

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (stp_field_is(name, stp_nccl_text_program(c))) {
            r->coll = c;
            r->arm = (struct stp_arm){.kind = STP_ARM_AUTO};
            return STP_OK;
        }
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, name->column,
        "test '%.*s', expected all_reduce_perf, all_gather_perf, "
        "reduce_scatter_perf, broadcast_perf or reduce_perf",
        shown(name), name->s);
}

static enum stp_status read_arm(struct reader *r, const struct stp_field *words,
                                size_t n)
{
    const struct stp_field *name = &words[n - 1];

    if (stp_arm_from_name(name->s, name->len, &r->arm))
        return STP_OK;
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, name->column,
        "arm '%.*s', expected auto, plugin or ALGORITHM/PROTOCOL[/CHANNELS]",
        shown(name), name->s);
}

/* What follows is no longer of that run: a table of ours, what mpirun says. */
static enum stp_status read_foot(struct reader *r,
                                 const struct stp_field *words, size_t n)
{
    (void)words;
    (void)n;
    r->ended = true;
    return STP_OK;
}

/* Comments that say something, by how they begin behind "# ". */
static const struct {
    const char *begin;
    enum stp_status (*read)(struct reader *r, const struct stp_field *words,
                            size_t n);
} comments[] = {
    {"nccl-tests version ", read_version},
    {"steptune version ", read_version},
    {STP_NCCL_TEXT_STARTING, read_starting},
    {STP_NCCL_TEXT_ARM, read_arm},
    {"nThread ", read_options},
    {"Rank ", read_rank},
    {"size ", read_header},
    {"Out of bounds values ", read_foot},
};

enum { N_COMMENTS = sizeof(comments) / sizeof(comments[0]) };

/* Which of them the line is; N_COMMENTS if it is another. */
static size_t which_comment(const char *line, size_t len)
{
    size_t begin = 1;
    size_t i = 0;

    while (begin < len && line[begin] == ' ')
        begin++;
    for (; i < N_COMMENTS; i++) {
        size_t n = strlen(comments[i].begin);

        if (len - begin >= n && memcmp(line + begin, comments[i].begin, n) == 0)
            break;
    }
    return i;
}

static enum stp_status read_comment(struct reader *r, const char *line,
                                    size_t len)
{
    struct stp_field words[MAX_COLUMNS];
    size_t i = which_comment(line, len);
    size_t n;

    if (i == N_COMMENTS)
        return STP_OK;
    /* Behind the '#', which may stand against the first word. */
    n = stp_nccl_text_split(line + 1, len - 1, words, MAX_COLUMNS);
    for (size_t w = 0; w < n; w++)
        words[w].column++;
    return comments[i].read(r, words, n);
}

/* ---- rows ---- */

static enum stp_status add_place(struct reader *r,
                                 const struct stp_nccl_text_fields *row,
                                 bool in_place)
{
    const struct stp_nccl_text_time *p = &row->places[in_place];
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
        .n_wrong = p->n_wrong,
        .n_ranks = r->n_ranks,
        .n_nodes = r->n_nodes > 0 ? r->n_nodes : (unsigned)r->n_hosts,
        .iters = r->iters,
        .source = STP_SOURCE_MEASURED,
        .us = {p->us, p->us, p->us, p->p99_us > 0 ? p->p99_us : p->us,
               p->min_us > 0 ? p->min_us : p->us},
    };

    if (!(p->us > 0) || row->n_bytes == 0)
        return STP_OK;
    m.n_nodes = m.n_nodes > 0 ? m.n_nodes : 1;
    stp_nccl_log_pair(r->log, r->row_line, r->line, m.coll, m.n_bytes,
                      m.n_ranks, &m.ran_algo, &m.ran_proto);
    return stp_dataset_add(r->data, &m) == STP_OK ? STP_OK : stp_nomem(r->err);
}

/* What a row needs from the lines before it. */
static enum stp_status check_context(const struct reader *r)
{
    const char *lacks = NULL;

    if (r->n_columns == 0)
        lacks = "the line that names its columns";
    else if (r->n_ranks == 0)
        lacks = "the lines that list the ranks (# Using devices)";
    else if (r->coll < 0)
        lacks = "what collective it is of (\"# Collective test starting\", or "
                "--collective)";
    if (lacks == NULL)
        return STP_OK;
    return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1, "a row without %s",
                       lacks);
}

static enum stp_status read_fields(struct reader *r,
                                   const struct stp_field *words, size_t n,
                                   struct stp_nccl_text_fields *row)
{
    bool skip_op = stp_nccl_text_lacks_op(r->columns, r->n_columns, words, n);
    size_t w = 0;

    for (size_t c = 0; c < r->n_columns; c++) {
        const struct stp_nccl_text_column *column = r->columns[c];

        if (skip_op && strcmp(column->name, "redop") == 0)
            continue;
        if (w == n)
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                               "%zu fields, expected %zu as there are columns",
                               n, r->n_columns - skip_op);
        if (column->read != NULL && !column->read(&words[w], row))
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[w].column,
                               "%s '%.*s', expected %s", column->name,
                               shown(&words[w]), words[w].s, column->expected);
        w++;
    }
    if (w == n || strcmp(r->columns[r->n_columns - 1]->name, "timestamp") == 0)
        return STP_OK; /* a timestamp has a blank in it */
    return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, words[w].column,
                       "'%.*s', expected nothing behind the last column",
                       shown(&words[w]), words[w].s);
}

static enum stp_status read_row(struct reader *r, const char *line, size_t len)
{
    struct stp_nccl_text_fields row = {
        .places = {{.n_wrong = -1}, {.n_wrong = -1}}};
    struct stp_field words[MAX_COLUMNS];
    size_t n = stp_nccl_text_split(line, len, words, MAX_COLUMNS);
    enum stp_status status = check_context(r);

    if (status == STP_OK)
        status = read_fields(r, words, n, &row);
    if (status != STP_OK)
        return status;
    /* Sizes ascend within a pass. */
    r->round += r->last_size != UINT64_MAX && row.n_bytes <= r->last_size &&
                row.n_bytes > 0;
    r->last_size = row.n_bytes;
    status = add_place(r, &row, false);
    if (status == STP_OK)
        status = add_place(r, &row, true);
    r->row_line = r->line;
    return status;
}

static enum stp_status read_line(struct reader *r, const char *line, size_t len)
{
    struct stp_field first;

    if (len > 0 && line[0] == '#')
        return read_comment(r, line, len);
    if (r->ended || stp_nccl_text_split(line, len, &first, 1) == 0)
        return STP_OK;
    if (first.s[0] >= '0' && first.s[0] <= '9')
        return read_row(r, line, len);
    return stp_fail_at(
        r->err, STP_ERR_SYNTAX, r->line, first.column,
        "'%.*s', expected '#', a row, or a line that NCCL logged",
        shown(&first), first.s);
}

bool stp_nccl_text_is(const char *text, size_t len)
{
    const char *s = text;
    const char *line;
    size_t n;

    while ((line = stp_next_line(&s, text + len, &n)) != NULL)
        if (n > 0 && line[0] == '#' && which_comment(line, n) < N_COMMENTS)
            return true;
    return false;
}

/* Reads what is left without 'log'. */
static enum stp_status read_rest(const char *text, size_t len, int coll,
                                 const struct stp_nccl_log *log,
                                 struct stp_dataset *data,
                                 struct stp_error *err)
{
    struct reader r = {.data = data,
                       .err = err,
                       .coll = coll,
                       .iters = 1,
                       .last_size = UINT64_MAX,
                       .log = log};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        r.line++;
        status = read_line(&r, line, n);
    }
    if (status == STP_OK && data->n_rows == 0)
        status = stp_fail_at(err, STP_ERR_SYNTAX, r.line, 0,
                             "no rows, expected what nccl-tests print");
    return status;
}

enum stp_status stp_nccl_text_read(const char *text, size_t len, int coll,
                                   struct stp_dataset *data,
                                   struct stp_error *err)
{
    struct stp_nccl_log log;
    char *rest;
    size_t rest_len;
    enum stp_status status =
        stp_nccl_log_take(text, len, &rest, &rest_len, &log, err);

    if (status != STP_OK)
        return status;
    status = read_rest(rest, rest_len, coll, &log, data, err);
    free(rest);
    stp_nccl_log_free(&log);
    if (status != STP_OK)
        stp_dataset_free(data);
    else if (data->backend[0] == '\0')
        strcpy(data->backend, "nccl");
    return status;
}
