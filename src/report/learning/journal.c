#include "report/learning/journal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/text.h"
#include "launch/take.h"

/* The beginning of the header that the plugin writes. */
static const char journal_head[] = "t_us,comm,nNodes,nRanks,event,call,";

/* Numbers of some events are empty, and then 0. */
static bool journal_number(const struct stp_field *f, double *value)
{
    if (stp_field_is(f, "inf")) {
        *value = INFINITY;
        return true;
    }
    return f->len == 0 || stp_parse_double(f->s, f->len, value);
}

static bool journal_comm(const struct stp_field *f, uint64_t *comm)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < f->len; i++) {
        const char *digit = memchr(digits, f->s[i], 16);

        if (digit == NULL)
            return false;
        *comm = *comm << 4 | (uint64_t)(digit - digits);
    }
    return f->len > 0 && f->len <= 16;
}

static int journal_event_from_name(const char *word, size_t len)
{
    const struct stp_field f = {.s = word, .len = len};
    int kind = STP_N_LEARN_KINDS - 1;

    while (kind >= 0 && !stp_field_is(&f, stp_learn_kind_name(kind)))
        kind--;
    return kind;
}

/* The name of an algorithm or a protocol, or auto. */
static bool journal_name(const struct stp_field *f,
                         int (*from_name)(const char *word, size_t len),
                         int8_t *value)
{
    if (f->len == 0 || stp_field_is(f, "auto"))
        return true;
    *value = (int8_t)from_name(f->s, f->len);
    return *value >= 0;
}

static bool journal_channels(const struct stp_field *f, uint8_t *channels)
{
    uint64_t n = 0;

    if (f->len > 0 && !stp_parse_u64(f->s, f->len, &n))
        return false;
    *channels = (uint8_t)n;
    return n <= STP_MAX_CHANNELS;
}

/* Times of a reward file are in ms. */
static bool journal_unit(const struct stp_field *f, double *scale)
{
    if (stp_field_is(f, "ms"))
        *scale = 1e3;
    return f->len == 0 || stp_field_is(f, "us") || stp_field_is(f, "ms") ||
           stp_field_is(f, "calls");
}

/* Defines journal_read_COLUMN(), which reads the field 'f' into 'line'. */
#define JOURNAL_COLUMN(column, read)                                           \
    static bool journal_read_##column(const struct stp_field *f, void *row)    \
    {                                                                          \
        struct stp_journal_line *line = row;                                   \
                                                                               \
        return read;                                                           \
    }

JOURNAL_COLUMN(comm, journal_comm(f, &line->comm))
JOURNAL_COLUMN(algo, journal_name(f, stp_algo_from_name, &line->arm.algo))
JOURNAL_COLUMN(proto, journal_name(f, stp_proto_from_name, &line->arm.proto))
JOURNAL_COLUMN(channels, journal_channels(f, &line->arm.n_channels))
JOURNAL_COLUMN(value, journal_number(f, &line->value))
JOURNAL_COLUMN(gain, journal_number(f, &line->gain.gain))
JOURNAL_COLUMN(low, journal_number(f, &line->gain.low))
JOURNAL_COLUMN(high, journal_number(f, &line->gain.high))
JOURNAL_COLUMN(unit, journal_unit(f, &line->scale))

#define INTO(member) STP_CSV_INTO(stp_journal_line, member)
#define WHOLE(least) STP_CSV_WHOLE, .min = least, .max = UINT64_MAX

// clang-format off
static const struct stp_csv_column journal_columns[] = {
    {"t_us", "microseconds", true, STP_CSV_NUMBER, INTO(t_us)},
    {"comm", "up to 16 hexadecimal digits", true, .read = journal_read_comm},
    {"nNodes", "a number from 1", true, WHOLE(1), INTO(n_nodes)},
    {"nRanks", "a number from 1", true, WHOLE(1), INTO(n_ranks)},
    {"event",
     "an event such as message, window, trial, block, settled or bound",
     true, STP_CSV_WORD, INTO(kind), .from_name = journal_event_from_name},
    {"call", "a number", true, WHOLE(0), INTO(call)},
    {"collective", "a collective", true, STP_CSV_WORD, INTO(coll),
     .from_name = stp_coll_from_name, .none = "", .none_value = -1},
    {"min_bytes", "a number of bytes", true, WHOLE(0),
     INTO(bytes.min), .none = ""},
    {"max_bytes", "a number of bytes", true, WHOLE(0),
     INTO(bytes.max), .none = ""},
    {"algorithm", "auto or an algorithm", true, .read = journal_read_algo},
    {"protocol", "auto or a protocol", true, .read = journal_read_proto},
    {"channels", "a number of channels, up to 64", true,
     .read = journal_read_channels},
    {"value", "a number", true, .read = journal_read_value},
    {"gain", "a number", true, .read = journal_read_gain},
    {"gain_low", "a number", true, .read = journal_read_low},
    {"gain_high", "a number", true, .read = journal_read_high},
    {"unit", "us, ms or calls", .read = journal_read_unit},
};
// clang-format on

struct journal_reading {
    struct stp_journal_lines lines;
    size_t capacity;
    unsigned first; /* line of the text that counts */
    unsigned line;  /* being read */
};

static void *journal_begin_row(void *user, unsigned line)
{
    struct journal_reading *r = user;

    STP_TAKE_ROOM(r->lines.all, r->lines.n, r->capacity);
    r->line = line;
    r->lines.all[r->lines.n] = (struct stp_journal_line){
        .coll = -1, .arm = {.algo = -1, .proto = -1}, .scale = 1};
    return &r->lines.all[r->lines.n];
}

/* Refuses an event without its collective, and half a pair. */
static enum stp_status journal_end_row(void *user, void *row,
                                       struct stp_error *err)
{
    static const bool of_job[STP_N_LEARN_KINDS] = {
        [STP_LEARN_WINDOW] = true,  [STP_LEARN_ALONE] = true,
        [STP_LEARN_SET] = true,     [STP_LEARN_CONFIRMED] = true,
        [STP_LEARN_DROPPED] = true, [STP_LEARN_GRAPHS] = true,
        [STP_LEARN_STEP] = true,    [STP_LEARN_HOST] = true,
        [STP_LEARN_PLAN] = true};
    struct journal_reading *r = user;
    struct stp_journal_line *line = row;

    line->value *= line->scale;
    if (!of_job[line->kind] && line->coll < 0)
        return stp_fail_at(err, STP_ERR_SYNTAX, r->line, 0,
                           "a '%s' without a collective, expected its own",
                           stp_learn_kind_name(line->kind));
    if (line->bytes.min > line->bytes.max)
        return stp_fail_at(err, STP_ERR_SYNTAX, r->line, 0,
                           "min_bytes above max_bytes, expected a range");
    if ((line->arm.algo < 0) != (line->arm.proto < 0))
        return stp_fail_at(err, STP_ERR_SYNTAX, r->line, 0,
                           "an algorithm without a protocol, or a protocol "
                           "without an algorithm");
    r->lines.n += r->line >= r->first;
    return STP_OK;
}

static const struct stp_csv_format journal_format = {
    .what = "journal",
    .columns = journal_columns,
    .n_columns = sizeof(journal_columns) / sizeof(journal_columns[0]),
    .begin_row = journal_begin_row,
    .end_row = journal_end_row,
};

/* The header is the first line that is no comment. */
static size_t journal_find_head(const char *text, size_t len)
{
    const char *s = text, *line;
    size_t n;

    do
        line = stp_next_line(&s, text + len, &n);
    while (line != NULL && n > 0 && line[0] == '#');
    return line != NULL ? (size_t)(line - text) : len;
}

static bool journal_begins(const char *text, size_t len)
{
    const size_t at = journal_find_head(text, len);

    return len - at >= strlen(journal_head) &&
           memcmp(&text[at], journal_head, strlen(journal_head)) == 0;
}

enum stp_status stp_journal_read(const char *text, size_t len, size_t from,
                                 struct stp_journal_lines *lines_ret,
                                 struct stp_error *err)
{
    struct journal_reading r = {.first = 1};
    enum stp_status status = STP_OK;
    const char *head_end;
    size_t at;

    while (len > 0 && text[len - 1] != '\n')
        len--;
    if (len > 0 && !journal_begins(text, len))
        return stp_fail_at(err, STP_ERR_SYNTAX, 1, 0,
                           "no journal, expected the header %s...",
                           journal_head);
    for (size_t i = 0; i < from && i < len; i++)
        r.first += text[i] == '\n';
    at = journal_find_head(text, len);
    head_end = memchr(&text[at], '\n', len - at);
    if (head_end != NULL && head_end + 1 < text + len) /* it has rows */
        status = stp_csv_read(&journal_format, &r, text, len, err);
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
    STP_TRY(stp_read_file(path, STP_JOURNAL_MAX, &text, &len, err));
    status = stp_journal_read(text, len, from, lines_ret, err);
    free(text);
    return status;
}

size_t stp_journal_prepare(const char *path)
{
    struct stat st;
    char *text;
    size_t len, whole;

    if (stat(path, &st) != 0)
        return 0;
    if (!S_ISREG(st.st_mode) ||
        stp_read_file(path, STP_JOURNAL_MAX, &text, &len, NULL) != STP_OK)
        return (size_t)st.st_size;
    for (whole = len; whole > 0 && text[whole - 1] != '\n';)
        whole--;
    if (whole < len && journal_begins(text, len) &&
        truncate(path, (off_t)whole) == 0)
        len = whole;
    free(text);
    return len;
}

void stp_journal_free(struct stp_journal_lines *lines)
{
    free(lines->all);
    *lines = (struct stp_journal_lines){0};
}
