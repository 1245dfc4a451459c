#include "report/measurements/nccl_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

enum { MAX_ROW = 512 };

struct taker {
    struct stp_nccl_log log;
    struct stp_error *err;
    unsigned line;
    struct stp_field host; /* of lines that are nothing but log */
    char row[MAX_ROW];     /* the pieces so far of one that is interrupted */
    size_t row_len;
    char *rest;
    size_t rest_len;
};

/* ---- where a log begins ---- */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Moves back over digits, of which there must be one, and 'before' them. */
static bool back_over(const char *line, size_t *i, char before)
{
    size_t end = *i;

    while (*i > 0 && is_digit(line[*i - 1]))
        --*i;
    if (*i == end || *i == 0 || line[*i - 1] != before)
        return false;
    --*i;
    return true;
}

/* In "HOST:PID:TID [DEVICE] NCCL ", where "] NCCL " stands at 'i', the place
 * behind HOST; false if it is something else. */
static bool find_host_end(const char *line, size_t i, size_t *end_ret)
{
    if (!back_over(line, &i, '[') || i == 0 || line[i - 1] != ' ')
        return false;
    i--;
    if (!back_over(line, &i, ':') || !back_over(line, &i, ':'))
        return false;
    *end_ret = i;
    return i > 0;
}

/* The last bytes of a row may stand against the host: "-1vm", "0vm", "N/Avm".
 */
static size_t number_len(const char *word, size_t len)
{
    size_t n = len > 0 && word[0] == '-';

    if (len >= 3 && memcmp(word, "N/A", 3) == 0)
        return 3;
    while (n < len && is_digit(word[n]))
        n++;
    return n;
}

/* Where the host begins that ends at 'end'. */
static size_t host_begin(struct taker *t, const char *line, size_t end)
{
    struct stp_field *known = &t->host;
    size_t begin = end;
    bool is_first;

    while (begin > 0 && line[begin - 1] != ' ' && line[begin - 1] != '\t')
        begin--;
    is_first = begin == 0;
    if (known->len > 0 && end - begin >= known->len &&
        memcmp(line + end - known->len, known->s, known->len) == 0)
        return end - known->len;
    if (!is_first)
        return begin + number_len(line + begin, end - begin);
    if (known->len == 0)
        *known = (struct stp_field){line, end, 1};
    return begin;
}

/* Where in the line a log begins; 'len' if nowhere. */
static size_t find_log(struct taker *t, const char *line, size_t len)
{
    static const char mark[] = "] NCCL ";
    const size_t n = sizeof(mark) - 1;
    size_t end;

    for (size_t i = 0; i + n <= len; i++)
        if (memcmp(line + i, mark, n) == 0 && find_host_end(line, i, &end))
            return host_begin(t, line, end);
    return len;
}

/* ---- what a log says ---- */

/* The word behind 'key' in the line; empty if there is none. */
static struct stp_field word_behind(const char *line, size_t len,
                                    const char *key)
{
    struct stp_field word = {"", 0, 0};
    size_t n = strlen(key);

    for (size_t i = 0; i + n < len; i++)
        if (memcmp(line + i, key, n) == 0) {
            word.s = line + i + n;
            while (i + n + word.len < len && word.s[word.len] != ' ')
                word.len++;
            break;
        }
    return word;
}

/* A name of NCCL's, in capitals, or a number. */
static int parse_word(const struct stp_field *f, int n,
                      int (*from_name)(const char *, size_t))
{
    uint64_t number;

    if (stp_parse_u64(f->s, f->len, &number))
        return number < (uint64_t)n ? (int)number : -1;
    return stp_from_any_case(f->s, f->len, from_name);
}

/* "AllReduce" in front of a colon. */
static int find_coll(const char *line, size_t len)
{
    static const char *const names[NCCL_NUM_TUNED_FUNCS] = {
        [ncclFuncBroadcast] = " Broadcast: ",
        [ncclFuncReduce] = " Reduce: ",
        [ncclFuncAllGather] = " AllGather: ",
        [ncclFuncReduceScatter] = " ReduceScatter: ",
        [ncclFuncAllReduce] = " AllReduce: ",
    };

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (word_behind(line, len, names[c]).len > 0)
            return c;
    return -1;
}

/* The number in front of " Bytes -> ". */
static bool find_bytes(const char *line, size_t len, uint64_t *bytes_ret)
{
    static const char mark[] = " Bytes -> ";
    struct stp_field arrow = word_behind(line, len, mark);
    size_t begin;
    size_t end;

    if (arrow.len == 0)
        return false;
    end = (size_t)(arrow.s - line) - (sizeof(mark) - 1);
    begin = end;
    while (begin > 0 && is_digit(line[begin - 1]))
        begin--;
    return stp_parse_u64(line + begin, end - begin, bytes_ret);
}

static enum stp_status add_ran(struct taker *t, const struct stp_nccl_ran *ran)
{
    struct stp_nccl_log *log = &t->log;

    if (log->n_ran == log->capacity) {
        size_t capacity = log->capacity ? 2 * log->capacity : 256;
        struct stp_nccl_ran *more = realloc(log->ran, capacity * sizeof(*more));

        if (more == NULL)
            return stp_nomem(t->err);
        log->ran = more;
        log->capacity = capacity;
    }
    log->ran[log->n_ran++] = *ran;
    return STP_OK;
}

static void keep_setting(char kept[16], const struct stp_field *value)
{
    if (value->len > 0)
        snprintf(kept, 16, "%.*s", (int)(value->len < 16 ? value->len : 15),
                 value->s);
}

static enum stp_status read_log(struct taker *t, const char *line, size_t len)
{
    struct stp_field algo = word_behind(line, len, " Bytes -> Algo ");
    struct stp_field proto = word_behind(line, len, " proto ");
    struct stp_field algo_set =
        word_behind(line, len, "NCCL_ALGO set by environment to ");
    struct stp_field proto_set =
        word_behind(line, len, "NCCL_PROTO set by environment to ");
    struct stp_nccl_ran ran = {.line = t->line};

    keep_setting(t->log.algo, &algo_set);
    keep_setting(t->log.proto, &proto_set);
    if (word_behind(line, len, "TUNER/Plugin: Using ").len > 0)
        t->log.has_tuner = true;
    if (!find_bytes(line, len, &ran.n_bytes))
        return STP_OK;
    ran.coll = find_coll(line, len);
    ran.algo = parse_word(&algo, NCCL_NUM_ALGORITHMS, stp_algo_from_name);
    ran.proto = parse_word(&proto, NCCL_NUM_PROTOCOLS, stp_proto_from_name);
    return ran.algo < 0 || ran.proto < 0 ? STP_OK : add_ran(t, &ran);
}

/* ---- what is left ---- */

static void put(struct taker *t, const char *s, size_t len)
{
    memcpy(t->rest + t->rest_len, s, len);
    t->rest_len += len;
}

/* What stands in front of a log: a piece of a row waits for the others.  One
 * too long for any version stays in pieces, which the reader refuses. */
static void keep_piece(struct taker *t, const char *line, size_t len)
{
    size_t blank = strspn(line, " \t");

    if (blank >= len)
        return;
    if (!is_digit(line[blank]) || t->row_len + len > MAX_ROW) {
        put(t, line, len);
        return;
    }
    memcpy(t->row + t->row_len, line, len);
    t->row_len += len;
}

static enum stp_status take_line(struct taker *t, const char *line, size_t len)
{
    size_t begin = find_log(t, line, len);

    if (begin < len) {
        keep_piece(t, line, begin);
        put(t, "\n", 1);
        return read_log(t, line + begin, len - begin);
    }
    if (len > 0 && line[0] != '#' && t->row_len > 0) {
        put(t, t->row, t->row_len);
        t->row_len = 0;
    }
    put(t, line, len);
    put(t, "\n", 1);
    return STP_OK;
}

enum stp_status stp_nccl_log_take(const char *text, size_t len, char **rest_ret,
                                  size_t *rest_len_ret,
                                  struct stp_nccl_log *log_ret,
                                  struct stp_error *err)
{
    struct taker t = {.err = err, .rest = malloc(len + 2)};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    if (t.rest == NULL)
        return stp_nomem(err);
    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        t.line++;
        status = take_line(&t, line, n);
    }
    put(&t, t.row, t.row_len);
    if (status != STP_OK) {
        free(t.rest);
        stp_nccl_log_free(&t.log);
        return status;
    }
    *rest_ret = t.rest;
    *rest_len_ret = t.rest_len;
    *log_ret = t.log;
    return STP_OK;
}

void stp_nccl_log_free(struct stp_nccl_log *log)
{
    free(log->ran);
    memset(log, 0, sizeof(*log));
}

bool stp_nccl_log_pair(const struct stp_nccl_log *log, unsigned after,
                       unsigned line, int coll, uint64_t n_bytes,
                       unsigned n_ranks, int *algo_ret, int *proto_ret)
{
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const struct stp_nccl_ran *found = NULL;

    for (size_t i = 0; i < log->n_ran; i++) {
        const struct stp_nccl_ran *r = &log->ran[i];
        uint64_t parts = r->coll >= 0 && is_split ? n_ranks : 1;

        if (r->line <= after || r->line > line ||
            (r->coll >= 0 && r->coll != coll) || r->n_bytes * parts != n_bytes)
            continue;
        if (found != NULL &&
            (r->algo != found->algo || r->proto != found->proto))
            return false;
        found = r;
    }
    if (found == NULL)
        return false;
    *algo_ret = found->algo;
    *proto_ret = found->proto;
    return true;
}
