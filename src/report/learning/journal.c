#include "report/learning/journal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/text.h"

/* What the plugin's journal begins with. */
static const char head[] = "t_us,comm,nNodes,nRanks,event,call,";

/* ---- fields ---- */

static bool is_empty(const struct stp_field *f)
{
    return f->len == 0;
}

static bool read_t(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return stp_parse_double(f->s, f->len, &line->t_us);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

static bool read_comm(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    for (size_t i = 0; i < f->len; i++) {
        if (digit_of(f->s[i]) < 0)
            return false;
        line->comm = line->comm << 4 | (uint64_t)digit_of(f->s[i]);
    }
    return f->len > 0 && f->len <= 16;
}

static bool read_nodes(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return stp_parse_u64(f->s, f->len, &line->n_nodes) && line->n_nodes > 0;
}

static bool read_ranks(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return stp_parse_u64(f->s, f->len, &line->n_ranks) && line->n_ranks > 0;
}

static bool read_event(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    for (int kind = 0; kind < STP_N_LEARN_KINDS; kind++)
        if (stp_field_is(f, stp_learn_kind_name(kind))) {
            line->kind = kind;
            return true;
        }
    return false;
}

static bool read_call(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return stp_parse_u64(f->s, f->len, &line->call);
}

static bool read_coll(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    if (is_empty(f))
        return true;
    line->coll = stp_coll_from_name(f->s, f->len);
    return line->coll >= 0;
}

static bool read_min(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return is_empty(f) || stp_parse_u64(f->s, f->len, &line->bytes.min);
}

static bool read_max(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return is_empty(f) || stp_parse_u64(f->s, f->len, &line->bytes.max);
}

static bool read_algo(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    if (is_empty(f) || stp_field_is(f, "auto"))
        return true;
    line->arm.algo = (int8_t)stp_algo_from_name(f->s, f->len);
    return line->arm.algo >= 0;
}

static bool read_proto(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    if (is_empty(f) || stp_field_is(f, "auto"))
        return true;
    line->arm.proto = (int8_t)stp_proto_from_name(f->s, f->len);
    return line->arm.proto >= 0;
}

static bool read_channels(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;
    uint64_t n;

    if (is_empty(f))
        return true;
    if (!stp_parse_u64(f->s, f->len, &n) || n > STP_MAX_CHANNELS)
        return false;
    line->arm.n_channels = (uint8_t)n;
    return true;
}

static bool read_number(const struct stp_field *f, double *value)
{
    if (stp_field_is(f, "inf")) {
        *value = INFINITY;
        return true;
    }
    return is_empty(f) || stp_parse_double(f->s, f->len, value);
}

static bool read_value(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return read_number(f, &line->value);
}

static bool read_gain(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return read_number(f, &line->gain);
}

static bool read_low(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return read_number(f, &line->gain_low);
}

static bool read_high(const struct stp_field *f, void *row)
{
    struct stp_journal_line *line = row;

    return read_number(f, &line->gain_high);
}

/* Times of a reward file are in ms. */
static bool read_unit(const struct stp_field *f, void *row)
{
    static const char *const others[] = {"", "us", "calls", "steps"};
    struct stp_journal_line *line = row;

    if (stp_field_is(f, "ms")) {
        line->scale = 1e3;
        return true;
    }
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
        if (stp_field_is(f, others[i]))
            return true;
    return false;
}

static const struct stp_csv_column columns[] = {
    {"t_us", "microseconds", .required = true, .read = read_t},
    {"comm", "up to 16 hexadecimal digits", .required = true,
     .read = read_comm},
    {"nNodes", "a number from 1", .required = true, .read = read_nodes},
    {"nRanks", "a number from 1", .required = true, .read = read_ranks},
    {"event", "trial, back, reward, step, period, settled, confirmed, ",
     .required = true, .read = read_event},
    {"call", "a number", .required = true, .read = read_call},
    {"collective", "a collective", .required = true, .read = read_coll},
    {"min_bytes", "a number of bytes", .required = true, .read = read_min},
    {"max_bytes", "a number of bytes", .required = true, .read = read_max},
    {"algorithm", "auto or an algorithm", .required = true, .read = read_algo},
    {"protocol", "auto or a protocol", .required = true, .read = read_proto},
    {"channels", "a number of channels, up to 64", .required = true,
     .read = read_channels},
    {"value", "a number", .required = true, .read = read_value},
    {"gain", "a number", .required = true, .read = read_gain},
    {"gain_low", "a number", .required = true, .read = read_low},
    {"gain_high", "a number", .required = true, .read = read_high},
    {"unit", "us, ms, calls or steps", .read = read_unit},
};

/* ---- lines ---- */

struct reading {
    struct stp_journal_lines lines;
    size_t room;
    unsigned first; /* line of the text that counts */
    unsigned line;  /* being read */
};

static void *begin_row(void *user, unsigned line)
{
    struct reading *r = user;

    if (r->lines.n == r->room) {
        size_t room = r->room > 0 ? 2 * r->room : 1024;
        struct stp_journal_line *more =
            realloc(r->lines.all, room * sizeof(*more));

        if (more == NULL)
            return NULL;
        r->lines.all = more;
        r->room = room;
    }
    r->line = line;
    r->lines.all[r->lines.n] = (struct stp_journal_line){
        .coll = -1, .arm = {.algo = -1, .proto = -1}, .scale = 1};
    return &r->lines.all[r->lines.n];
}

/* What each event is nothing without. */
static enum stp_status end_row(void *user, void *row, struct stp_error *err)
{
    static const bool of_job[STP_N_LEARN_KINDS] = {
        [STP_LEARN_STEPPED] = true, [STP_LEARN_PERIOD] = true};
    struct reading *r = user;
    struct stp_journal_line *line = row;

    line->value *= line->scale;
    if (!of_job[line->kind] && line->coll < 0)
        return stp_fail_at(err, STP_ERR_SYNTAX, r->line, 0,
                           "a '%s' without a collective",
                           stp_learn_kind_name(line->kind));
    if ((line->arm.algo < 0) != (line->arm.proto < 0))
        return stp_fail_at(err, STP_ERR_SYNTAX, r->line, 0,
                           "an algorithm without a protocol, or a protocol "
                           "without an algorithm");
    r->lines.n += r->line >= r->first;
    return STP_OK;
}

static const struct stp_csv_format format = {
    .what = "journal",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = begin_row,
    .end_row = end_row,
};

/* ---- texts ---- */

static bool is_journal(const char *text, size_t len)
{
    return len >= strlen(head) && memcmp(text, head, strlen(head)) == 0;
}

bool stp_journal_begins(const char *path)
{
    char text[sizeof(head)];
    FILE *fp = fopen(path, "rb");
    size_t len;

    if (fp == NULL)
        return false;
    len = fread(text, 1, sizeof(text), fp);
    fclose(fp);
    return is_journal(text, len);
}

/* The length without a last line that has no end. */
static size_t whole_lines(const char *text, size_t len)
{
    while (len > 0 && text[len - 1] != '\n')
        len--;
    return len;
}

static unsigned line_at(const char *text, size_t at)
{
    unsigned line = 1;

    for (size_t i = 0; i < at; i++)
        line += text[i] == '\n';
    return line;
}

static bool has_rows(const char *text, size_t len)
{
    const char *end = memchr(text, '\n', len);

    return end == NULL || end + 1 < text + len;
}

enum stp_status stp_journal_read(const char *text, size_t len, size_t from,
                                 struct stp_journal_lines *lines_ret,
                                 struct stp_error *err)
{
    struct reading r = {.first = 0};
    enum stp_status status = STP_OK;

    len = whole_lines(text, len);
    if (len > 0 && !is_journal(text, len))
        return stp_fail_at(err, STP_ERR_SYNTAX, 1, 0,
                           "no journal, expected the header %s...", head);
    r.first = line_at(text, from < len ? from : len);
    if (len > 0 && has_rows(text, len))
        status = stp_csv_read(&format, &r, text, len, err);
    if (status == STP_OK)
        *lines_ret = r.lines;
    else
        stp_journal_free(&r.lines);
    return status;
}

enum stp_status stp_journal_load(const char *path, size_t from,
                                 struct stp_journal_lines *lines_ret,
                                 struct stp_error *err)
{
    enum stp_status status;
    struct stat st;
    char *text;
    size_t len;

    if (stat(path, &st) != 0) { /* nothing was written */
        *lines_ret = (struct stp_journal_lines){0};
        return STP_OK;
    }
    if (!S_ISREG(st.st_mode))
        return stp_fail(err, STP_ERR_IO,
                        "no regular file, so it cannot be read again");
    status = stp_read_file(path, STP_JOURNAL_MAX, &text, &len, err);
    if (status != STP_OK)
        return status;
    status = stp_journal_read(text, len, from, lines_ret, err);
    free(text);
    return status;
}

void stp_journal_free(struct stp_journal_lines *lines)
{
    free(lines->all);
    *lines = (struct stp_journal_lines){0};
}
