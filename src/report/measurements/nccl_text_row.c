/* nccl_text_row.c - rows of nccl-tests, by the line that names their columns */
#include "report/measurements/nccl_text_row.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "analyse/bandwidth.h"
#include "core/names.h"
#include "core/dtype.h"
#include "core/policy/policy.h"
#include "core/room.h"

/* Bytes of what separates words here, in a line from 'begin' on or within a
 * word of it; 0 for one of the word.  MPICH puts "[0]" behind what is written
 * in parts. */
static size_t text_measure_gap(const char *begin, const char *s,
                               const char *end, const struct stp_field *prefix)
{
    size_t n = 1;

    if (memchr(" \t,\"|", *s, 5) != NULL)
        return 1;
    if (prefix != NULL && prefix->len > 0 && prefix->len <= (size_t)(end - s) &&
        memcmp(s, prefix->s, prefix->len) == 0)
        return prefix->len;
    if (*s != '[' || s == begin || s[-1] < '0' || s[-1] > '9')
        return 0;
    while (s + n < end && s[n] >= '0' && s[n] <= '9')
        n++;
    if (n == 1 || s + n == end || s[n] != ']')
        return 0;
    return n + 1 + (s + n + 1 < end && s[n + 1] == ':');
}

size_t stp_nccl_split(const char *line, size_t len,
                      const struct stp_field *prefix, struct stp_field *words)
{
    /* pages have units behind the names of columns */
    static const char *const units[] = {"(B)", "(elements)", "(us)", "(GB/s)"};
    const char *const line_end = line + len;
    size_t n = 0, end, gap;

    for (size_t i = 0; i < len && n < STP_NCCL_WORDS; i = end + gap) {
        gap = 1;
        for (end = i;
             end < len && (gap = text_measure_gap(line + i, line + end,
                                                  line_end, prefix)) == 0;)
            end++;
        words[n] = (struct stp_field){line + i, end - i, (unsigned)i + 1};
        n += end > i && stp_find_word(units, 4, line + i, end - i) < 0;
    }
    return n;
}

/* A result that is no number is as far from right as can be. */
static bool text_read_error(const struct stp_field *f, void *place)
{
    double *error = &((struct stp_nccl_place *)place)->error;

    if (stp_parse_double(f->s, f->len, error))
        return true;
    *error = stp_field_is(f, "N/A") ? -1 : (double)INFINITY;
    return isfinite(*error) || stp_field_is(f, "nan") ||
           stp_field_is(f, "-nan") || stp_field_is(f, "inf");
}

#define ROW(member)   STP_CSV_INTO(stp_nccl_row, member)
#define PLACE(member) STP_CSV_INTO(stp_nccl_place, member)
#define COUNT(member)                                                          \
    .kind = STP_CSV_WHOLE, ROW(member), .min = 1, .max = UINT16_MAX
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
     .from_name = stp_op_from_name, .none = "none", .none_value = -1},
    {"root", "a rank, or -1", .kind = STP_CSV_WHOLE, ROW(root),
     .max = UINT32_MAX - 1, .none = "-1", .none_value = -1},
    {"time", TIME},
    {"cputime", TIME},
    {"algbw", BANDWIDTH, PLACE(algbw)},
    {"busbw", BANDWIDTH, PLACE(busbw)},
    {"#wrong", "a number of elements, or N/A", .kind = STP_CSV_FROM_0,
     PLACE(n_wrong), .none = "N/A", .none_value = -1},
    {"error", "a number, nan, inf or N/A", .read = text_read_error,
     .offset = offsetof(struct stp_nccl_place, error), .size = sizeof(int64_t)},
    {"i_min", ITERATION, PLACE(min_us)},
    {"i_p50", ITERATION, PLACE(median_us)}, /* out of JSON */
    {"i_p95", ITERATION, PLACE(p95_us)},    /* likewise */
    {"i_p99", ITERATION, PLACE(p99_us)},
    {"algo", "a word", .kind = STP_CSV_FIELD, ROW(algo)},
    {"proto", "a word", .kind = STP_CSV_FIELD, ROW(proto)},
    {"nchannels", "0 to 64", .kind = STP_CSV_WHOLE, ROW(n_channels),
     .max = STP_MAX_CHANNELS, .none = "N/A"},
    /* RCCL's tables */
    {"collective", "a collective", .kind = STP_CSV_FIELD, ROW(test)},
    {"name", "a collective", .kind = STP_CSV_FIELD, ROW(test)},
    {"ranks", "a number of processes", COUNT(n_procs)},
    {"gpusperrank", "a number of GPUs", COUNT(n_gpus)},
    {"gpus", "a number of GPUs", COUNT(n_gpus)},
    {"inplace", "0 or 1", .kind = STP_CSV_FLAG, ROW(in_place)},
    {"wrong", "a number of elements, or N/A", .kind = STP_CSV_FROM_0,
     PLACE(n_wrong), .none = "N/A", .none_value = -1},
};
// clang-format on

/* The column of that name, in any case; NULL: not known. */
static const struct stp_csv_column *text_find_column(const struct stp_field *f)
{
    static const struct stp_field before_2019[][2] = {
        {{"bytes", 5, 1}, {"size", 4, 1}},
        {{"N", 1, 1}, {"count", 5, 1}},
        {{"op", 2, 1}, {"redop", 5, 1}},
        {{"res", 3, 1}, {"error", 5, 1}},
    };

    for (size_t i = 0; i < STP_N_OF(before_2019); i++)
        if (stp_field_is(f, before_2019[i][0].s))
            f = &before_2019[i][1];
    for (size_t i = 0; i < STP_N_OF(known_columns); i++)
        if (strlen(known_columns[i].name) == f->len &&
            strncasecmp(known_columns[i].name, f->s, f->len) == 0)
            return &known_columns[i];
    return NULL;
}

bool stp_nccl_columns_name(const struct stp_field *words, size_t n,
                           bool first_in_place,
                           struct stp_nccl_columns *columns)
{
    static const struct stp_csv_column skipped = {.name = "",
                                                  .kind = STP_CSV_SKIP};
    static const char usual[] = "size count type redop root time algbw busbw "
                                "#wrong time algbw busbw #wrong";
    struct stp_field usual_words[STP_NCCL_WORDS];
    struct stp_nccl_columns found = {.n = 0};
    unsigned n_times = 0;

    if (n == 0) {
        n = stp_nccl_split(usual, sizeof(usual) - 1, NULL, usual_words);
        words = usual_words;
    }
    for (size_t i = 0; i < n && found.n + 1 < STP_NCCL_WORDS; i++) {
        const struct stp_csv_column *c = text_find_column(&words[i]);

        /* RCCL's tests write the number of nodes, and do not name it. */
        if (stp_field_is(&words[i], "ranks") && i > 0 &&
            stp_field_is(&words[i - 1], "collective"))
            found.of[found.n++] = &skipped;
        n_times += c != NULL && c->kind == STP_CSV_POSITIVE &&
                   c->offset == offsetof(struct stp_nccl_place, us);
        found.of[found.n] = c != NULL ? c : &skipped;
        found.half = n_times < 2 ? found.n + 1 : found.half;
        found.in_place[found.n++] = n_times + first_in_place >= 2;
        if (stp_field_is(&words[i], "type"))
            found.least = found.n;
        found.has_op |=
            stp_field_is(&words[i], "redop") || stp_field_is(&words[i], "op");
        found.is_ms |= stp_field_is(&words[i], "res");
    }
    if (n_times == 0 || n_times > 2)
        return false;
    found.least = found.least > 2 ? found.least : found.n;
    *columns = found;
    return true;
}

size_t stp_nccl_columns_take(const struct stp_nccl_columns *columns,
                             struct stp_nccl_row *row, size_t *n_read,
                             const struct stp_field *words, size_t n)
{
    static const char no_place[] = "                                  ";
    enum { NO_PLACE = sizeof(no_place) - 1 }; /* blanks where none is timed */
    size_t w = 0;
    double number;

    row->is_ms = columns->is_ms;
    for (; *n_read < columns->n && w < n; ++*n_read) {
        const struct stp_csv_column *c = columns->of[*n_read];
        const bool is_of_place = c->kind >= STP_CSV_NUMBER || c->read != NULL;
        void *into = is_of_place
                         ? (void *)&row->places[columns->in_place[*n_read]]
                         : (void *)row;
        struct stp_field word = words[w];

        if (w > 0 && *n_read < columns->half && columns->half < columns->n &&
            is_of_place && c->offset == offsetof(struct stp_nccl_place, us) &&
            word.s - words[w - 1].s > NO_PLACE &&
            memcmp(word.s - NO_PLACE, no_place, NO_PLACE) == 0) {
            *n_read = columns->half - 1;
            continue;
        }
        /* Until 2.18 the redop of collectives that reduce nothing is blank: the
         * root, or the time, stands where the operation would. */
        if (strcmp(c->name, "redop") == 0 &&
            stp_parse_double(word.s, word.len, &number))
            continue;
        if (!stp_csv_read_field(c, &word, into)) {
            for (word.len = 0; word.len < words[w].len &&
                               memchr("-.0123456789N/A", word.s[word.len], 15);)
                word.len++;
            if (*n_read < 4 || word.len == 0 || word.len >= words[w].len ||
                !stp_csv_read_field(c, &word, into))
                break;
            ++*n_read;
            return w + 1;
        }
        if (columns->is_ms && c->kind == STP_CSV_POSITIVE)
            ((struct stp_nccl_place *)into)->us *= 1e3;
        w++;
    }
    return w;
}

/* ---- what sizes, times and bandwidths say of each other, of the test and of
 * its ranks ---- */

/* Whether the bandwidth is that of the time, as far as both have digits: two
 * after the point, or five in all; of long times our text has two.  Old tests
 * print busbw as algbw, older ones whole microseconds. */
static bool figures_are_near(const struct stp_nccl_row *row, double said,
                             double ours, double us)
{
    const double digit = row->is_ms ? 0.6 : 0.006;
    const double slack = us < 1e7 ? 2e-3 + digit / us : 0.06;

    return said < 0 || fabs(said - ours) <= slack * ours + 0.0055;
}

bool stp_nccl_row_agrees(const struct stp_nccl_row *row)
{
    bool agrees = true;

    for (int i = 0; i < 2; i++)
        if (row->places[i].us > 0 && row->places[i].algbw > 0)
            agrees &= figures_are_near(
                row, row->places[i].algbw,
                stp_algbw(row->n_bytes, row->places[i].us), row->places[i].us);
    return agrees;
}

void stp_nccl_figures_add(struct stp_nccl_figures *f,
                          const struct stp_nccl_row *row,
                          const struct stp_measurement *m, char *doubt,
                          size_t size)
{
    const int coll = m->coll;
    const unsigned n = coll >= 0 ? m->n_ranks : 0;
    const struct stp_nccl_place *p =
        &row->places[m->in_place && !row->in_place];
    const bool is_split =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const double most = fmax(p->algbw, p->busbw);
    const double digits = most < 1000 ? 0.0051 : 6e-5 * most;
    const struct {
        const char *name;
        double said, ours; /* said < 0: not said, not known, or by one digit */
    } figures[] = {
        {"busbw", n > 0 && p->busbw < 1e6 ? p->busbw : -1,
         n > 0 ? stp_busbw(coll, n, row->n_bytes, p->us) : 0},
        {"algbw", p->algbw != p->busbw && p->algbw < 1e6 ? p->algbw : -1,
         stp_algbw(row->n_bytes, p->us)},
        {"count", n > 0 && row->count != UINT64_MAX ? (double)row->count : -1,
         (double)row->n_bytes / stp_type_size(row->type) / (is_split ? n : 1)},
    };

    f->n_parts =
        row->count == UINT64_MAX || row->count == 0
            ? 0
            : row->n_bytes / row->count / (uint64_t)stp_type_size(row->type);
    f->is_timed[m->in_place] = true;
    f->is_checked[m->in_place] |= m->n_wrong >= 0;
    for (int i = 0; i < 3 && *doubt == '\0' && (p->algbw != 0 || p->busbw != 0);
         i++)
        if (!figures_are_near(row, figures[i].said, figures[i].ours, p->us))
            snprintf(doubt, size,
                     "%s %g, but %s of %" PRIu64
                     " bytes in %g us among %u ranks comes to %.6g",
                     figures[i].name, figures[i].said,
                     coll >= 0 ? stp_coll_name(coll) : "a collective",
                     row->n_bytes, p->us, m->n_ranks, figures[i].ours);
    if (!(p->algbw > digits) || !(p->busbw > 0))
        return;
    f->tells_ranks |= p->algbw != p->busbw;
    f->low = fmax(f->low, (p->busbw - digits) / (p->algbw + digits));
    f->high = fmin(f->high, (p->busbw + digits) / (p->algbw - digits));
}

int stp_nccl_figures_test(const struct stp_nccl_figures *f,
                          const struct stp_nccl_row *row, unsigned n_ranks)
{
    const bool reduces = row->op >= 0, has_root = row->root != UINT32_MAX;
    const bool is_checked = f->is_checked[0] || f->is_checked[1];
    /* all-to-all, and sends, are checked in one place alone */
    const bool is_exchange =
        f->is_checked[0] && f->is_timed[1] && !f->is_checked[1];
    /* all-to-all has a column of redop in all versions */
    const bool tells = reduces || is_checked || row->op == -2;
    const bool is_once = f->low <= 1 && f->high >= 1;
    const bool is_pair = is_once && f->is_checked[1] && f->n_parts == 1;
    const double part = n_ranks > 0 ? 1 - 1.0 / n_ranks : f->high / 2;
    const bool is_known =
        f->high < STP_NCCL_ANY_RATIO; /* some bandwidth has digits */
    const bool is_twice = f->low <= 2 * part && f->high >= 2 * part &&
                          (n_ranks > 0 || f->low > 1 || is_pair);
    const bool is_part = n_ranks > 0 ? f->low <= part && f->high >= part
                                     : f->low >= 0.49 && f->high < 1;

    if (has_root && f->n_parts < 2 &&
        (is_known ? is_once : n_ranks != 1 && f->n_parts == 1))
        return reduces ? ncclFuncReduce : ncclFuncBroadcast;
    if (reduces && !has_root && (is_known ? is_twice : f->n_parts == 1) &&
        (f->low > 1 || (n_ranks != 1 && f->n_parts < 2 && !is_exchange)))
        return ncclFuncAllReduce;
    if (n_ranks == 1 || !tells || (!is_known && f->n_parts < 2))
        return -2;
    if (!has_root && !is_exchange && f->n_parts != 1 && (is_part || !is_known))
        return reduces ? ncclFuncReduceScatter : ncclFuncAllGather;
    return is_once || is_part ? -1 : -2;
}

void stp_nccl_figures_ranks(const struct stp_nccl_figures *f, int coll,
                            double *least_ret, double *most_ret)
{
    const double of_many = coll >= 0 ? 2 * stp_bus_factor(coll, 2) : 0;
    const bool is_split =
        coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const bool tells = coll >= 0 && f->low <= f->high && f->low < of_many &&
                       (f->tells_ranks || coll == ncclFuncAllReduce) &&
                       stp_bus_factor(coll, 3) != stp_bus_factor(coll, 2);

    *least_ret = tells ? fmax(2, ceil(1 / (1 - f->low / of_many))) : 2;
    *most_ret = tells && f->high < of_many ? floor(1 / (1 - f->high / of_many))
                                           : UINT32_MAX;
    if (is_split && f->n_parts > 1 && f->n_parts < UINT32_MAX)
        *least_ret = *most_ret = (double)f->n_parts;
}
