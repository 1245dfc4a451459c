#define _GNU_SOURCE /* memmem() */
#include "report/measurements/nccl_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/room.h"
#include "core/text.h"
#include "nccl_tuner_abi.h"

static bool log_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* ---- where a log line begins ---- */

/* The end of HOST in "HOST:PID:TID [DEVICE] NCCL ", or with "FILE:LINE " before
 * "NCCL", which stands at 'i'; 0 if the line is something else. */
static size_t log_find_host_end(const char *line, size_t i)
{
    if (i > 1 && line[i - 2] != ']') /* "FILE:LINE " */
        for (i--; i > 0 && line[i - 1] != ' ';)
            i--;
    for (const char *before = " ]#[ #:#:"; *before != '\0'; before++) {
        const size_t end = i;

        if (*before != '#' && (i == 0 || line[--i] != *before))
            return 0;
        while (*before == '#' && i > 0 && log_is_digit(line[i - 1]))
            i--;
        if (i == end)
            return 0;
    }
    return i;
}

size_t stp_nccl_log_find(struct stp_nccl_log *log, const char *line, size_t len)
{
    static const char mark[] = " NCCL ";
    struct stp_field *known = &log->host;
    const char *at = line;

    for (; (at = memmem(at, (size_t)(line + len - at), mark,
                        sizeof(mark) - 1)) != NULL;
         at++) {
        size_t end = log_find_host_end(line, (size_t)(at + 1 - line));
        size_t begin = end;

        if (end == 0)
            continue;
        while (begin > 0 && line[begin - 1] != ' ' && line[begin - 1] != '\t')
            begin--;
        if (known->len > 0 && end - begin >= known->len &&
            memcmp(line + end - known->len, known->s, known->len) == 0)
            return end - known->len;
        if (begin > 0) {
            /* A row may end against the host: "-1vm", "0vm", "N/Avm". */
            if (end - begin >= 3 && memcmp(line + begin, "N/A", 3) == 0)
                return begin + 3;
            begin += line[begin] == '-';
            while (begin < end && log_is_digit(line[begin]))
                begin++;
            return begin;
        }
        if (known->len == 0)
            *known = (struct stp_field){line, end, 1};
        return 0;
    }
    return len;
}

/* ---- what a log line says ---- */

/* The word after 'key' in the line; empty if there is none. */
static struct stp_field log_word_after(const char *line, size_t len,
                                       const char *key)
{
    struct stp_field word = {"", 0, 0};
    const char *at = memmem(line, len, key, strlen(key));

    if (at == NULL)
        return word;
    word.s = at + strlen(key);
    while (word.s + word.len < line + len && word.s[word.len] != ' ')
        word.len++;
    return word;
}

/* The number of a name of NCCL's, in capitals, or of a number. */
static int log_parse_word(const struct stp_field *f, int n,
                          int (*from_name)(const char *, size_t))
{
    uint64_t number;

    if (stp_parse_u64(f->s, f->len, &number))
        return number < (uint64_t)n ? (int)number : -1;
    return stp_from_any_case(f->s, f->len, from_name);
}

static int log_find_coll(const char *line, size_t len)
{
    static const char *const names[NCCL_NUM_TUNED_FUNCS] = {
        [ncclFuncBroadcast] = " Broadcast: ",
        [ncclFuncReduce] = " Reduce: ",
        [ncclFuncAllGather] = " AllGather: ",
        [ncclFuncReduceScatter] = " ReduceScatter: ",
        [ncclFuncAllReduce] = " AllReduce: ",
    };

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (memmem(line, len, names[c], strlen(names[c])) != NULL)
            return c;
    return -1;
}

static enum stp_status log_add_comm(struct stp_nccl_log *log, const char *line,
                                    size_t len, struct stp_error *err)
{
    const struct stp_field ranks = log_word_after(line, len, " nRanks ");
    const struct stp_field nodes = log_word_after(line, len, " nNodes ");
    const struct stp_nccl_comm *last =
        log->n_comms > 0 ? &log->comms[log->n_comms - 1] : NULL;
    uint64_t n_ranks, n_nodes;

    if (!stp_parse_u64(ranks.s, ranks.len, &n_ranks) ||
        !stp_parse_u64(nodes.s, nodes.len, &n_nodes) || n_nodes == 0 ||
        n_nodes > n_ranks || n_ranks > UINT32_MAX ||
        (last != NULL && last->n_ranks == n_ranks && last->n_nodes == n_nodes))
        return STP_OK;
    if (!STP_ROOM(log->comms, log->n_comms, log->comms_capacity))
        return stp_nomem(err);
    log->comms[log->n_comms++] =
        (struct stp_nccl_comm){(unsigned)n_ranks, (unsigned)n_nodes};
    return STP_OK;
}

static void log_read_setting(const char *line, size_t len, const char *key,
                             char value[16])
{
    const struct stp_field word = log_word_after(line, len, key);

    if (word.len > 0)
        snprintf(value, 16, "%.*s", (int)(word.len < 16 ? word.len : 15),
                 word.s);
}

enum stp_status stp_nccl_log_read(struct stp_nccl_log *log, const char *line,
                                  size_t len, struct stp_error *err)
{
    static const char mark[] = " Bytes -> Algo ";
    const struct stp_field algo = log_word_after(line, len, mark);
    const struct stp_field proto = log_word_after(line, len, " proto ");
    struct stp_nccl_ran ran;
    const char *begin, *end;

    log_read_setting(line, len, "NCCL_ALGO set by environment to ",
                     log->settings.algo);
    log_read_setting(line, len, "NCCL_PROTO set by environment to ",
                     log->settings.proto);
    if (log_word_after(line, len, "TUNER/Plugin: Using ").len > 0)
        log->settings.has_tuner = true;
    if (algo.len == 0)
        return log_add_comm(log, line, len, err);
    begin = end = algo.s - (sizeof(mark) - 1);
    while (begin > line && log_is_digit(begin[-1]))
        begin--;
    if (!stp_parse_u64(begin, (size_t)(end - begin), &ran.n_bytes))
        return STP_OK;
    ran.coll = log_find_coll(line, len);
    ran.algo = log_parse_word(&algo, NCCL_NUM_ALGORITHMS, stp_algo_from_name);
    ran.proto = log_parse_word(&proto, NCCL_NUM_PROTOCOLS, stp_proto_from_name);
    if (ran.algo < 0 || ran.proto < 0)
        return STP_OK;
    if (!STP_ROOM(log->ran, log->n_ran, log->capacity))
        return stp_nomem(err);
    log->ran[log->n_ran++] = ran;
    return STP_OK;
}

void stp_nccl_log_free(struct stp_nccl_log *log)
{
    free(log->ran);
    free(log->comms);
    memset(log, 0, sizeof(*log));
}

bool stp_nccl_log_pair(const struct stp_nccl_log *log, int coll,
                       uint64_t n_bytes, unsigned n_ranks, int *algo_ret,
                       int *proto_ret)
{
    bool is_split = coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
    const struct stp_nccl_ran *found = NULL;

    for (size_t i = 0; i < log->n_ran; i++) {
        const struct stp_nccl_ran *r = &log->ran[i];
        uint64_t parts = r->coll >= 0 && is_split ? n_ranks : 1;

        if ((r->coll >= 0 && r->coll != coll) || r->n_bytes * parts != n_bytes)
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

const struct stp_nccl_comm *stp_nccl_log_comm(const struct stp_nccl_log *log,
                                              unsigned n_ranks)
{
    for (size_t i = log->n_comms; i-- > 0;)
        if (n_ranks == 0 || log->comms[i].n_ranks == n_ranks)
            return &log->comms[i];
    return NULL;
}
