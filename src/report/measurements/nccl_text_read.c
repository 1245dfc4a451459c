#define _GNU_SOURCE /* memmem() */
/* nccl_text_read.c - the reader: one scanner of lines, which takes what is
 * nccl-tests' out of whatever stands around it
 *
 * A comment begins with words that are known, a row with words that its columns
 * can read; both stand anywhere in a line, so that no launcher's prefix needs
 * to be known.  NCCL's log is taken off a line first.  A row that log or other
 * text interrupted goes on in later lines. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/order.h"
#include "core/looks.h"
#include "core/names.h"
#include "core/text.h"
#include "core/utf8.h"
#include "launch/take.h"
#include "report/measurements/measurements_csv.h"
#include "report/measurements/measurements_row.h"
#include "report/measurements/nccl_text.h"
#include "report/measurements/nccl_text_row.h"
#include "report/plain.h"

struct reader {
    struct stp_dataset *data;
    struct stp_error *err;
    unsigned line;
    int said;                 /* by the caller; -1: nothing */
    bool is_json;             /* that was: lines behind columns are rows */
    unsigned columns_line;    /* 0: none yet */
    bool is_told;             /* m.coll is of a line that names the test */
    bool is_other;            /* a test that is not read */
    bool names_arms;          /* text of ours */
    struct stp_measurement m; /* what rows to come share; coll -1: not known */
    uint64_t last_bytes;      /* of the row before; UINT64_MAX: none */
    size_t begin;             /* the first row of the run */
    struct stp_nccl_figures figures; /* of the run */
    bool ended;                      /* after the run's totals */

    unsigned n_told;            /* ranks that the caller says; 0: none */
    unsigned n_listed, n_group; /* ranks, and those of the first group */
    size_t listed_at;           /* rows before the list */
    uint64_t last_rank;         /* the highest number of them */
    struct stp_field group;     /* of the first */
    struct stp_field *hosts;
    size_t n_hosts, hosts_capacity;

    struct stp_field prefix; /* of a launcher; "": none */
    struct stp_nccl_columns columns;
    bool first_in_place;      /* the next columns begin in place */
    struct stp_nccl_row row;  /* the row that was begun */
    size_t n_read;            /* columns of it; 0: none */
    struct stp_nccl_row last; /* that was read */

    struct stp_error cut;          /* the first row not read; line 0: none */
    unsigned n_cut, n_foreign;     /* such rows, and lines of other programs */
    unsigned n_inferred, n_pooled; /* runs named by figures; like one before */
    bool is_alone;                 /* one of one rank */
    char others[64];               /* tests that are not read */
    unsigned failure_line;         /* of log.failure */
    struct stp_nccl_log log;
};

static bool text_same(const struct stp_field *a, const struct stp_field *b)
{
    return a->len == b->len && (a->len == 0 || memcmp(a->s, b->s, a->len) == 0);
}

/* A whole number from 'least'. */
static bool text_parse(const struct stp_field *word, unsigned least,
                       unsigned *n_ret)
{
    uint64_t n;

    if (!stp_parse_u64(word->s, word->len, &n) || n < least || n > UINT32_MAX)
        return false;
    *n_ret = (unsigned)n;
    return true;
}

/* ---- what figures say ---- */

static enum stp_status text_add_row(struct reader *r);

/* Adds a test to the names of those that are not read. */
static void text_add_other(struct reader *r, const struct stp_field *name)
{
    const size_t used = strlen(r->others);

    if (used + name->len + 3 < sizeof(r->others) &&
        memmem(r->others, used, name->s, name->len) == NULL)
        snprintf(r->others + used, sizeof(r->others) - used, "%s%.*s",
                 used > 0 ? ", " : "", (int)name->len, name->s);
}

/* Gives up the row that was begun, but for a first place that is whole. */
static enum stp_status text_drop_row(struct reader *r)
{
    if (r->n_read > 0 && r->n_read == r->columns.half)
        return text_add_row(r);
    if (r->n_read > 0 && r->n_cut++ == 0 && r->cut.line == 0)
        stp_fail_at(&r->cut, STP_ERR_SYNTAX, r->line, 0,
                    "%zu fields, expected %zu as there are columns", r->n_read,
                    r->columns.n);
    r->n_read = 0;
    return STP_OK;
}

/* Sets what rows of a run do not say: the test, by their figures, and the one
 * number of ranks with which all bandwidths agree.  A list of ranks that is
 * shorter than they say was cut. */
static enum stp_status text_end_rows(struct reader *r,
                                     struct stp_measurement *m, size_t n_rows)
{
    struct stp_nccl_figures *f = &r->figures;
    int coll =
        m->coll >= 0 ? m->coll : stp_nccl_figures_test(f, &r->last, m->n_ranks);
    const bool is_of_others = coll == -2 && m->n_ranks > 1;
    double least, most;

    if (is_of_others) /* a test that more or fewer ranks had */
        coll = stp_nccl_figures_test(f, &r->last, 0);
    stp_nccl_figures_ranks(f, coll, &least, &most);
    const unsigned n =
        m->n_ranks > 0 || least != most ? m->n_ranks : (unsigned)least;
    if (coll == -2)
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, 1,
            "a row without what collective it is of (%s, busbw over algbw "
            "%.4g), expected \"# Collective test starting\", or --collective "
            "of derive and plot",
            r->last.op < 0 ? "no operation" : stp_op_name(r->last.op),
            (f->low + f->high) / 2);
    if (coll < 0) {
        text_add_other(r, &(struct stp_field){"a test without a name", 21, 0});
        r->data->n_rows -= n_rows;
        return STP_OK;
    }
    if (n == 0)
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, 1,
            "a run without the lines that list the ranks (# Using devices), "
            "expected them, or --ranks of derive and plot: busbw and algbw do "
            "not tell how many there were");
    if (is_of_others ||
        (n > 1 && least > n && stp_bus_factor(coll, n) < 0.999 * f->low))
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, 1,
            "%u ranks, but busbw over algbw is that of %s%.0f, expected the "
            "whole list of ranks, or --ranks of derive and plot",
            n, least == most ? "" : "about ", least);
    r->n_inferred += m->coll < 0;
    r->is_alone |= n == 1;
    for (size_t i = 0; i < n_rows; i++) {
        m[i].n_ranks = n;
        m[i].coll = coll;
    }
    return STP_OK;
}

/* Numbers the rounds of a table after those of tables before with its sizes,
 * and refuses times that are no further rounds: at half of the sizes or more
 * they differ by more than half. */
static enum stp_status text_number_rounds(struct reader *r)
{
    struct stp_measurement *rows = r->data->rows;
    const size_t n_rows = r->data->n_rows;
    double worst = 1;
    unsigned n = 0, n_differ = 0, first = 0;

    for (size_t i = r->begin; i < n_rows && i < r->begin + 1000; i++) {
        const struct stp_measurement *a = &rows[i], *b;
        size_t j = r->begin;

        do
            b = j > 0 ? &rows[--j] : NULL;
        while (b != NULL &&
               (a->n_bytes != b->n_bytes || stp_order_kinds(a, b) != 0 ||
                !stp_arm_equal(&a->arm, &b->arm)));
        if (b == NULL)
            continue;
        const double ratio =
            fmax(a->us.mean, b->us.mean) / fmin(a->us.mean, b->us.mean);
        first = first > b->round ? first : b->round + 1;
        n++;
        n_differ += ratio > 1.5;
        worst = fmax(worst, ratio);
    }
    for (; r->begin < n_rows; r->begin++)
        rows[r->begin].round += first;
    r->n_pooled += first > 0 && !r->names_arms;
    if (n == 0 || 2 * n_differ < n || r->names_arms)
        return STP_OK;
    return stp_fail_at(r->err, STP_ERR_SYNTAX,
                       r->columns_line > 0 ? r->columns_line : r->line, 0,
                       "a table of the same test whose times differ from one "
                       "before by up to %.1f times, expected rounds of one "
                       "run: cut the file before other machines and settings",
                       worst);
}

static enum stp_status text_end_run(struct reader *r)
{
    STP_TRY(text_drop_row(r));
    if (r->data->n_rows > r->begin)
        STP_TRY(text_end_rows(r, &r->data->rows[r->begin],
                              r->data->n_rows - r->begin));
    STP_TRY(text_number_rounds(r));
    r->m.round = 0;
    r->last_bytes = UINT64_MAX;
    r->figures = (struct stp_nccl_figures){.high = STP_NCCL_ANY_RATIO};
    return STP_OK;
}

/* ---- comments ---- */

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
    unsigned n;

    if (!text_parse(code, 0, &n) || n > 999999)
        return stp_fail_at(
            r->err, STP_ERR_SYNTAX, r->line, code->column,
            "NCCL version '%.*s', expected a number such as 22809",
            STP_SHOWN(code));
    if (n == 0)
        return STP_OK; /* without NCCL */
    snprintf(version, sizeof(version), "%u.%u.%u",
             n / (n < 10000 ? 1000 : 10000), n / 100 % (n < 10000 ? 10 : 100),
             n % 100);
    return text_set_name(
        r, &(struct stp_field){version, strlen(version), code->column},
        "NCCL version", r->data->nccl, sizeof(r->data->nccl));
}

/* Nobody knows better of our own text until it says so. */
static enum stp_status
text_read_version(struct reader *r, const struct stp_field *words, size_t n)
{
    const bool is_ours = stp_field_is(&words[0], "steptune");

    r->names_arms |= is_ours;
    r->m.source = is_ours ? STP_SOURCE_MODELLED : STP_SOURCE_MEASURED;
    r->m.single_pass = false;
    for (size_t i = 0; i < n; i++) {
        const char *is = memchr(words[i].s, '=', words[i].len);
        const size_t key = is != NULL ? (size_t)(is + 1 - words[i].s) : 0;
        const struct stp_field name = {words[i].s, key, 0};
        const struct stp_field value = {words[i].s + key, words[i].len - key,
                                        words[i].column + (unsigned)key};

        if (stp_field_is(&name, "nccl-library=") ||
            stp_field_is(&name, "rccl-library="))
            STP_TRY(text_set_nccl(r, &value));
        else if (stp_field_is(&name, "backend="))
            STP_TRY(text_set_name(r, &value, "backend", r->data->backend,
                                  sizeof(r->data->backend)));
        else if (stp_field_is(&name, "nodes="))
            text_parse(&value, 1, &r->m.n_nodes);
    }
    return STP_OK;
}

static void text_forget_ranks(struct reader *r)
{
    r->n_listed = r->n_group = 0;
    r->last_rank = r->n_hosts = 0;
}

/* Begins a run. */
static enum stp_status
text_read_options(struct reader *r, const struct stp_field *words, size_t n)
{
    STP_TRY(text_end_run(r));
    text_forget_ranks(r);
    r->first_in_place = r->ended = false;
    stp_nccl_columns_name(NULL, 0, false, &r->columns);
    r->m.iters = 1;
    r->m.arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    for (size_t i = n; --i > 1;)
        if (stp_field_is(&words[i - 1], "iters:") &&
            !stp_field_is(&words[i - 2], "warmup") &&
            !stp_field_is(&words[i - 2], "agg"))
            text_parse(&words[i], 1, &r->m.iters);
    return STP_OK;
}

/* "Rank 0 Group 0 Pid 930 on HOST device 0 [0000:00:06] NVIDIA H200"; groups
 * are communicators of their own, and of the same size. */
static enum stp_status text_read_rank(struct reader *r,
                                      const struct stp_field *words, size_t n)
{
    const struct stp_field *last = &words[n - 1];
    struct stp_field group = {"", 0, 1}, host = group, gpu = group;
    struct stp_dataset *data = r->data;
    uint64_t rank;
    size_t known = 0;

    r->n_listed++;
    r->listed_at = data->n_rows;
    if (stp_parse_u64(words[1].s, words[1].len, &rank) && rank > r->last_rank)
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
    if (r->n_group == 0)
        r->group = group;
    if (!text_same(&group, &r->group))
        return STP_OK;
    r->n_group++;
    while (known < r->n_hosts && !text_same(&r->hosts[known], &host))
        known++;
    if (host.len > 0 && known == r->n_hosts) {
        STP_TAKE_ROOM(r->hosts, r->n_hosts, r->hosts_capacity);
        r->hosts[r->n_hosts++] = host;
    }
    if (r->n_hosts == 1)
        r->log.host = r->hosts[0]; /* of rank 0, whose rows NCCL cuts */
    if (r->n_hosts == 1 && data->machine[0] == '\0')
        stp_printable(r->hosts[0].s, r->hosts[0].len, data->machine,
                      sizeof(data->machine));
    if (last->s[last->len - 1] == '.' || (gpu.len == 0 && data->gpu[0] == '\0'))
        return STP_OK; /* nccl-tests cut long lists by "..." */
    if (gpu.len == 0)
        gpu = (struct stp_field){"(no name)", 9, 1};
    return text_set_name(r, &gpu, "GPU", data->gpu, sizeof(data->gpu));
}

/* Takes the test of a program's name, which may follow a path and may have an
 * ending such as "_mpi"; of a word that 'must' be one, any other name, too. */
static enum stp_status
text_read_program(struct reader *r, const struct stp_field *word, bool must)
{
    const char *slash = memrchr(word->s, '/', word->len);
    const size_t begin = slash != NULL ? (size_t)(slash + 1 - word->s) : 0;
    const struct stp_field name = {word->s + begin, word->len - begin, 0};
    const int c = stp_nccl_text_find_program(name.s, name.len);

    if (c < 0 && !must)
        return STP_OK;
    STP_TRY(text_end_run(r));
    r->is_other = c < 0 || c >= NCCL_NUM_TUNED_FUNCS;
    r->m.coll = r->is_other ? -1 : c;
    if (r->is_other)
        text_add_other(r, &name);
    return STP_OK;
}

static enum stp_status
text_read_starting(struct reader *r, const struct stp_field *words, size_t n)
{
    const struct stp_field *name = &words[n > 3 ? 3 : n - 1];

    STP_TRY(text_read_program(r, name, true));
    r->is_told = true;
    r->m.arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    if (!r->is_other && r->said >= 0 && r->said != r->m.coll)
        return stp_fail_at(r->err, STP_ERR_RANGE, r->line, name->column,
                           "times of %s, but --collective says %s",
                           stp_coll_name(r->m.coll), stp_coll_name(r->said));
    return STP_OK;
}

static enum stp_status text_read_arm(struct reader *r,
                                     const struct stp_field *words, size_t n)
{
    const struct stp_field *name = &words[n > 1 ? 1 : 0];

    STP_TRY(text_end_run(r)); /* another arm's rounds are the same ones */
    if (stp_arm_from_name(name->s, name->len, &r->m.arm))
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
    const struct stp_field *name = &words[n > 1 ? 1 : 0];
    const int source = stp_source_from_name(name->s, name->len);

    if (source < 0)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, name->column,
                           "source '%.*s', expected " STP_SOURCE_WORDS,
                           STP_SHOWN(name));
    r->m.source = (enum stp_source)source;
    r->m.single_pass = n > 2 && stp_field_is(&words[2], "single");
    const size_t next = r->m.single_pass ? 4 : 2;
    if (n > next)
        text_parse(&words[next], 1, &r->m.iters);
    return STP_OK;
}

/* The line of the columns, or of the places above them. */
static enum stp_status text_read_header(struct reader *r,
                                        const struct stp_field *words, size_t n)
{
    if (stp_nccl_columns_name(words, n, r->first_in_place, &r->columns)) {
        STP_TRY(text_end_run(r));
        if (!r->names_arms && r->data->n_rows > r->listed_at)
            text_forget_ranks(r); /* a list is of one table */
        r->ended = r->first_in_place = false;
        r->columns_line = r->line;
    } else {
        r->first_in_place = stp_field_is(&words[0], "in-place");
    }
    return STP_OK;
}

/* "Out of bounds values : 3 FAILED".  The rows that follow are not the run's: a
 * table of ours, or mpirun's; but those behind "Avg bus bandwidth" alone are of
 * a text that a shell cut to rows and means. */
static enum stp_status text_read_foot(struct reader *r,
                                      const struct stp_field *words, size_t n)
{
    bool is_wrong = n > 6 && stp_field_is(&words[6], "FAILED");

    STP_TRY(text_drop_row(r));
    for (size_t i = r->begin; i < r->data->n_rows; i++) /* or ours, or told */
        is_wrong &= !r->names_arms && r->data->rows[i].n_wrong <= 0;
    for (size_t i = r->begin; i < r->data->n_rows && is_wrong; i++)
        r->data->rows[i].n_wrong = 1;
    r->ended |= words[0].s[0] == 'O';
    return text_end_run(r);
}

/* Comments that are read, by the words that they begin with: '*' is a number.
 * What is ours, or common words, stands behind a '#'. */
static const struct comment {
    const char *begin;
    enum stp_status (*read)(struct reader *r, const struct stp_field *words,
                            size_t n);
} comments[] = {
    {"nccl-tests version", text_read_version},
    {"rccl-tests version", text_read_version},
    {"#steptune version", text_read_version},
    {"Collective test starting:", text_read_starting},
    {"#Arm:", text_read_arm},
    {"#Source:", text_read_source},
    {"nThread *", text_read_options},
    {"Rank * Group", text_read_rank},
    {"Rank * Pid", text_read_rank},
    {"Rank * on", text_read_rank},
    {"#out-of-place", text_read_header},
    {"#in-place", text_read_header},
    {"size count", text_read_header},
    {"size type", text_read_header},
    {"bytes N", text_read_header},
    {"numCycle", text_read_header},
    {"collective ranks", text_read_header},
    {"collective gpus", text_read_header},
    {"Out of bounds values", text_read_foot},
    {"#Avg bus bandwidth", text_read_foot},
};

/* Whether the words begin so; the first of them is behind a '#' or not. */
static bool text_begins(const struct stp_field *words, size_t n, bool is_hash,
                        const char *begin)
{
    const bool wants_hash = *begin == '#';
    uint64_t number;

    begin += wants_hash;
    for (size_t len, i = 0; *begin != '\0'; i++, begin += len) {
        len = strcspn(begin, " ");
        if (i == n ||
            (*begin == '*'
                 ? !stp_parse_u64(words[i].s, words[i].len, &number)
                 : words[i].len != len || memcmp(words[i].s, begin, len) != 0))
            return false;
        len += begin[len] == ' ';
    }
    return is_hash || !wants_hash;
}

/* The comment in the line, and in *at its first word, which loses the '#' that
 * stands against it; NULL if there is none. */
static const struct comment *text_find_comment(struct stp_field *words,
                                               size_t n, size_t *at)
{
    bool is_hash = false;

    for (*at = 0; *at < n; ++*at) {
        struct stp_field *word = &words[*at];
        const char *hash = memrchr(word->s, '#', word->len);

        if (hash != NULL) {
            const size_t cut = (size_t)(hash + 1 - word->s);

            is_hash = true;
            *word = (struct stp_field){hash + 1, word->len - cut,
                                       word->column + (unsigned)cut};
            if (word->len == 0)
                continue;
        }
        for (size_t i = 0; i < STP_N_OF(comments); i++)
            if (text_begins(word, n - *at, is_hash, comments[i].begin))
                return &comments[i];
        is_hash = false;
    }
    return NULL;
}

/* ---- rows ---- */

/* The ranks of a communicator: of a list that is whole as many as it has; of
 * one that was cut what the caller says, or NCCL, or as many as its highest
 * number tells; 0 if bandwidths must tell. */
static unsigned text_count_ranks(const struct reader *r)
{
    const struct stp_nccl_comm *comm = stp_nccl_log_comm(&r->log, 0);
    const bool is_one_group = r->n_group == r->n_listed;

    if (r->row.n_procs > 0 || r->row.n_gpus > 0)
        return (r->row.n_procs > 0 ? r->row.n_procs : 1) *
               (r->row.n_gpus > 0 ? r->row.n_gpus : 1);
    if (r->n_listed > r->last_rank)
        return is_one_group ? (unsigned)r->last_rank + 1 : r->n_group;
    if (r->n_told > 0 || comm != NULL)
        return r->n_told > 0 ? r->n_told : comm->n_ranks;
    return r->n_listed > 0 && is_one_group && r->last_rank < UINT32_MAX
               ? (unsigned)r->last_rank + 1
               : 0;
}

/* The nodes are what the text says, or NCCL; else they may be hosts. */
static unsigned text_count_nodes(const struct reader *r)
{
    const struct stp_nccl_comm *comm = stp_nccl_log_comm(&r->log, r->m.n_ranks);
    const bool is_whole = r->n_listed > r->last_rank && r->n_hosts > 0;
    const enum stp_nodes nodes = !is_whole        ? STP_NODES_UNKNOWN
                                 : r->n_hosts > 1 ? STP_NODES_HOSTS
                                                  : STP_NODES_TOLD;

    if (r->m.n_nodes > 0 || comm != NULL)
        return r->m.n_nodes > 0 ? r->m.n_nodes : comm->n_nodes;
    if (nodes > r->data->nodes)
        r->data->nodes = nodes;
    return is_whole ? (unsigned)r->n_hosts : 1;
}

static enum stp_status
text_add_place(struct reader *r, const struct stp_nccl_row *row, bool in_place)
{
    /* nccl-tests' DeltaMaxValue(): of a sum of two; integers are equal */
    static const double max_error[STP_N_TYPES] = {[STP_TYPE_F16] = 1e-2,
                                                  [STP_TYPE_BF16] = 1e-2,
                                                  [STP_TYPE_F32] = 1e-5,
                                                  [STP_TYPE_F64] = 1e-12};
    const struct stp_nccl_place *p = &row->places[in_place];
    struct stp_measurement m = r->m;

    if (!(p->us > 0) || row->n_bytes == 0)
        return STP_OK;
    m.n_bytes = row->n_bytes;
    m.ran_algo =
        stp_from_any_case(row->algo.s, row->algo.len, stp_algo_from_name);
    m.ran_proto =
        stp_from_any_case(row->proto.s, row->proto.len, stp_proto_from_name);
    m.ran_channels = (int)row->n_channels;
    m.type = row->type;
    m.op = row->op >= 0 ? row->op : STP_OP_SUM;
    m.root = row->root != UINT32_MAX ? row->root : 0;
    m.in_place = in_place || row->in_place;
    m.n_nodes = text_count_nodes(r);
    m.n_wrong = (int64_t)fmin(p->n_wrong, 1e18);
    if (p->error >= 0) /* printed with one digit */
        m.n_wrong = p->error > 1.0001 * max_error[row->type] *
                                   (m.n_ranks > 1 ? m.n_ranks - 1 : 1);
    m.us =
        (struct stp_summary){.mean = p->us,
                             .median = p->median_us > 0 ? p->median_us : p->us,
                             .p95 = p->p95_us,
                             .p99 = p->p99_us,
                             .min = p->min_us};
    stp_measurement_row_forget(&m);
    stp_nccl_figures_add(&r->figures, row, &m, r->data->doubt,
                         sizeof(r->data->doubt));
    stp_nccl_log_pair(&r->log, m.coll, m.n_bytes, m.n_ranks, &m.ran_algo,
                      &m.ran_proto);
    stp_dataset_take(r->data, &m);
    return STP_OK;
}

static enum stp_status text_add_row(struct reader *r)
{
    const struct stp_nccl_row *row = &r->row;
    const int coll =
        stp_from_any_case(row->test.s, row->test.len, stp_coll_from_name);
    const bool is_alike = row->type == r->last.type && row->op == r->last.op &&
                          row->root == r->last.root;

    r->n_read = 0;
    r->last = r->row;
    if (row->test.len > 0 && coll < 0) {
        text_add_other(r, &row->test);
        return STP_OK;
    }
    if (row->test.len > 0 && coll != r->m.coll) {
        STP_TRY(text_end_run(r));
        r->m.coll = coll;
    }
    r->m.n_ranks = text_count_ranks(r);
    if (r->n_told > 0 && r->n_told != r->m.n_ranks)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                           "%u ranks, but --ranks says %u", r->m.n_ranks,
                           r->n_told);
    /* sizes ascend within a round; RCCL's tables have two rows of each */
    r->m.round *= is_alike;
    r->m.round += is_alike && r->last_bytes != UINT64_MAX && row->n_bytes > 0 &&
                  row->n_bytes <= r->last_bytes - row->in_place;
    r->last_bytes = row->n_bytes;
    STP_TRY(text_add_place(r, row, false));
    STP_TRY(text_add_place(r, row, true));
    r->log.n_ran = 0;
    return STP_OK;
}

/* Takes what stands before the first word that is nccl-tests' for a launcher's
 * prefix, which mpirun also puts in the middle of lines; false if it is none,
 * or known. */
static bool text_learn_prefix(struct reader *r, const char *line,
                              const char *first)
{
    const char *end = first;

    while (end > line && (end[-1] == ' ' || end[-1] == '#'))
        end--;
    const struct stp_field prefix = {line, (size_t)(end - line), 1};

    if (prefix.len < 6 || end[-1] != ':' || text_same(&prefix, &r->prefix))
        return false;
    r->prefix = prefix;
    return true;
}

/* Whether the line has a row, or a part of one: the first words that the
 * columns up to the type take, or else those that go on with the row that was
 * begun. */
static enum stp_status text_read_row(struct reader *r, const char *line,
                                     const struct stp_field *words, size_t n,
                                     bool *found_ret)
{
    static const struct stp_nccl_place unchecked = {
        .algbw = -1, .busbw = -1, .n_wrong = -1, .error = -1};
    const struct stp_nccl_row begun = {.count = UINT64_MAX,
                                       .op = r->columns.has_op ? -1 : -2,
                                       .root = UINT32_MAX,
                                       .places = {unchecked, unchecked}};
    const bool is_whole = r->is_json && r->columns_line > 0;
    const size_t least = is_whole ? 0 : r->columns.least;

    for (int goes_on = 0; goes_on < 1 + (r->n_read > 0); goes_on++)
        for (size_t s = 0; s + 1 < n && (s == 0 || !is_whole); s++) {
            struct stp_nccl_row row = goes_on ? r->row : begun;
            size_t n_read = goes_on ? r->n_read : 0;
            const size_t took = stp_nccl_columns_take(
                &r->columns, &row, &n_read, words + s, n - s);
            const struct stp_field *end = &words[s + took];

            if (n_read < r->columns.n &&
                (goes_on ? took < least || s + took < n : took < least))
                continue;
            if (goes_on && !stp_nccl_row_agrees(&row))
                continue;
            *found_ret = true;
            if (!goes_on)
                STP_TRY(text_drop_row(r));
            if (s + took < n && n_read < r->columns.n &&
                text_learn_prefix(r, line, words[s].s)) {
                *found_ret = false;
                return STP_OK;
            }
            r->row = row;
            r->n_read = n_read;
            if (n_read == r->columns.n)
                return text_add_row(r);
            if (s + took < n && n_read != r->columns.half && r->cut.line == 0)
                stp_fail_at(&r->cut, STP_ERR_SYNTAX, r->line, end->column,
                            "%s '%.*s', expected %s",
                            r->columns.of[n_read]->name, STP_SHOWN(end),
                            r->columns.of[n_read]->expected);
            return STP_OK;
        }
    return STP_OK;
}

/* ---- lines ---- */

static enum stp_status text_read_line(struct reader *r, const char *line,
                                      size_t len)
{
    struct stp_log_message m;
    const size_t log = stp_log_find(line, len, &r->log.host, &m);
    const struct stp_field prefix = r->prefix;
    struct stp_field words[STP_NCCL_WORDS];
    size_t n = stp_nccl_split(line, log, &prefix, words), at;
    bool is_comment = false, found = false;
    const struct comment *comment;

    for (size_t i = 0; i < n; i++) /* behind a prefix, too */
        is_comment |=
            words[i].s[0] == '#' || words[i].s[words[i].len - 1] == '#';
    comment = text_find_comment(words, n, &at);
    if (comment != NULL) {
        text_learn_prefix(r, line, words[at].s);
        STP_TRY(comment->read(r, words + at, n - at));
    } else if (!r->is_other && !r->ended) {
        STP_TRY(text_read_row(r, line, words, n, &found));
        if (!text_same(&prefix, &r->prefix))
            return text_read_line(r, line, len);
    }
    if (m.s != NULL)
        stp_nccl_log_read(&r->log, &m, true, m.end);
    if (found || comment != NULL || (n == 0 && log == len))
        return STP_OK;
    r->n_foreign += !is_comment && !r->ended && !r->is_other;
    for (size_t i = 0; i < n && !r->is_told && r->said < 0; i++)
        if (memchr(words[i].s, '/', words[i].len) != NULL ||
            (i + 1 < n && words[i + 1].len > 0 &&
             memchr("-\\", words[i + 1].s[0], 2) != NULL))
            STP_TRY(text_read_program(r, &words[i], false)); /* of a shell */
    m = (struct stp_log_message){.s = line};
    stp_nccl_log_read(&r->log, &m, false, line + len);
    if (r->log.failure.len > 0 && r->failure_line == 0)
        r->failure_line = r->line;
    return STP_OK;
}

/* Says what of the text is no result, what it does not say, and that the run
 * failed, as the line 'failure' says, unless that is "". */
static void text_say(const struct reader *r, const char *failure)
{
    char *said = r->data->said;
    const size_t size = sizeof(r->data->said);
    const struct stp_nccl_settings *s = &r->log.settings;

    if (r->n_foreign > 0)
        stp_append(said, size, "; %u line%s no result%s", r->n_foreign,
                   r->n_foreign == 1 ? " is" : "s are", STP_S(r->n_foreign));
    if (r->n_cut > 0)
        stp_append(
            said, size,
            "; %u row%s cut or cannot be read, the first in line %u: %.90s",
            r->n_cut, r->n_cut == 1 ? " is" : "s are", r->cut.line,
            r->cut.text);
    if (r->others[0] != '\0')
        stp_append(said, size, "; not read: %s", r->others);
    if (r->n_inferred > 0)
        stp_append(said, size,
                   "; the text names no test, and redop, root and busbw over "
                   "algbw are those of %s",
                   stp_coll_name(r->data->rows[0].coll));
    if (r->n_pooled > 0)
        stp_append(said, size,
                   "; %u tables of one test and machine are pooled as rounds",
                   r->n_pooled + 1);
    if (r->is_alone)
        stp_append(said, size,
                   "; 1 rank, which communicates with nobody: nccl-tests "
                   "without MPI, or without a launcher");
    if (!r->names_arms && (s->has_tuner || s->algo[0] || s->proto[0]))
        stp_append(said, size, "; NCCL did not choose alone:%s%s%s%s%s",
                   s->algo[0] != '\0' ? " NCCL_ALGO=" : "", s->algo,
                   s->proto[0] != '\0' ? " NCCL_PROTO=" : "", s->proto,
                   s->has_tuner ? " a tuner plugin was loaded" : "");
    if (failure[0] != '\0')
        stp_append(said, size, "; the run failed, as line %u says: %s",
                   r->failure_line, failure);
    if (*said != '\0')
        memmove(said, said + 2, strlen(said) - 1);
}

static enum stp_status text_read_text(struct reader *r, const char *text,
                                      size_t len)
{
    const char *s = text, *line;
    size_t n;
    char failure[128];
    enum stp_status status = STP_OK;

    stp_nccl_columns_name(NULL, 0, false, &r->columns);
    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        r->line++;
        status = text_read_line(r, line, n);
    }
    STP_THEN(status, text_end_run(r));
    stp_printable(r->log.failure.s, r->log.failure.len, failure,
                  sizeof(failure));
    if (status == STP_OK && r->data->n_rows > 0)
        text_say(r, failure);
    if (status != STP_OK ||
        (r->data->n_rows > 0 && !(r->is_json && r->cut.line > 0)))
        return status;
    stp_fail(r->err, STP_ERR_SYNTAX, "no rows, expected " STP_MEASURED);
    if (r->cut.line > 0)
        *r->err = r->cut;
    else if (failure[0] != '\0')
        stp_fail_at(r->err, STP_ERR_SYNTAX, r->failure_line, 0,
                    "the run failed before its first row, as this line says: "
                    "%s",
                    failure);
    else if (r->others[0] != '\0')
        stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 0,
                    "no rows but of %s, expected those of all_reduce_perf, "
                    "all_gather_perf, reduce_scatter_perf, broadcast_perf or "
                    "reduce_perf",
                    r->others);
    else
        stp_refuse_kind(text, len, STP_MEASURED, r->err);
    return STP_ERR_SYNTAX;
}

enum stp_status stp_nccl_text_read(const char *text, size_t len, int coll,
                                   unsigned n_told, struct stp_dataset *data,
                                   struct stp_nccl_settings *settings_ret,
                                   struct stp_error *err)
{
    struct stp_error reason = {.line = 0};
    struct reader r = {.data = data,
                       .err = &reason,
                       .said = coll,
                       .m = {.coll = coll, .iters = 1},
                       .n_told = n_told,
                       .last_bytes = UINT64_MAX,
                       .figures = {.high = STP_NCCL_ANY_RATIO},
                       .is_json = stp_nccl_json_is(text, len)};
    const char *what = stp_looks_like(text, len);
    char *own = NULL;
    enum stp_status status = STP_OK;

    if (memchr(text, '\0', len < 4096 ? len : 4096) != NULL && what != NULL &&
        strstr(STP_MEASURED, what) == NULL)
        return stp_refuse_kind(text, len, STP_MEASURED, err);
    if (r.is_json) {
        status = stp_nccl_json_to_text(text, len, &own, &len, &r.log.settings,
                                       &reason);
    } else {
        STP_TAKE(own, len + 1);
        len = stp_plain(memcpy(own, text, len), len);
    }
    STP_THEN(status, text_read_text(&r, own, len));
    if (status == STP_OK) {
        if (data->nccl[0] == '\0')
            memcpy(data->nccl, r.log.settings.nccl, sizeof(data->nccl));
        r.log.settings.names_arms = r.names_arms;
        if (settings_ret != NULL)
            *settings_ret = r.log.settings;
        if (data->backend[0] == '\0')
            strcpy(data->backend, "nccl");
    } else {
        stp_dataset_free(data);
        if (!r.is_json)
            stp_fail_at(err, status, reason.line, reason.column, "%s",
                        reason.text);
        else if (r.columns_line > 0 && reason.line > r.columns_line)
            stp_fail(err, status, "results[%u]: %s",
                     reason.line - r.columns_line - 1, reason.text);
        else
            stp_fail(err, status, "%s", reason.text);
    }
    free(own);
    free(r.hosts);
    free(r.log.ran);
    free(r.log.comms);
    return status;
}
