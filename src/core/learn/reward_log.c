#include "core/learn/reward_log.h"

#include <string.h>

#include "core/names.h"
#include "core/text.h"

enum { FIELDS = 5 };

static void reward_count_bad(struct stp_reward_log *log)
{
    size_t i = 0;

    log->n_bad++;
    if (log->n_bad > 1)
        return;
    for (; i < log->length && i < sizeof(log->first_bad) - 1; i++) {
        char c = log->line[i];

        log->first_bad[i] = ' ' <= c && c <= '~' ? c : '?';
    }
    log->first_bad[i] = '\0';
}

static void reward_read_line(struct stp_reward_log *log, stp_reward_sink sink,
                             void *user)
{
    struct stp_field f[FIELDS];
    struct stp_reward reward;
    size_t n;

    if (log->length > 0 && log->line[log->length - 1] == '\r')
        log->length--;
    n = stp_split(log->line, log->length, f, FIELDS);
    if ((n == 1 && f[0].len == 0) || log->line[0] == '#')
        return;
    reward.coll = stp_coll_from_name(f[0].s, f[0].len);
    if (n != FIELDS || reward.coll < 0 ||
        !stp_parse_u64(f[1].s, f[1].len, &reward.n_bytes) ||
        !stp_parse_u64(f[2].s, f[2].len, &reward.n_nodes) ||
        !stp_parse_u64(f[3].s, f[3].len, &reward.n_ranks) ||
        !stp_parse_double(f[4].s, f[4].len, &reward.latency_ms) ||
        !(reward.latency_ms > 0)) {
        reward_count_bad(log);
        return;
    }
    log->n_good++;
    sink(user, &reward);
}

/* Takes a part of a line. */
static void reward_keep(struct stp_reward_log *log, const char *bytes,
                        size_t len)
{
    size_t room = sizeof(log->line) - log->length;
    size_t n = len < room ? len : room;

    if (log->is_too_long)
        return;
    memcpy(log->line + log->length, bytes, n);
    log->length += n;
    if (n == len)
        return;
    log->is_too_long = true;
    reward_count_bad(log);
}

void stp_reward_log_feed(struct stp_reward_log *log, const char *bytes,
                         size_t len, stp_reward_sink sink, void *user)
{
    const char *end = bytes + len;

    while (bytes < end) {
        const char *lf = memchr(bytes, '\n', (size_t)(end - bytes));

        reward_keep(log, bytes, (size_t)((lf != NULL ? lf : end) - bytes));
        if (lf == NULL)
            return;
        if (!log->is_too_long)
            reward_read_line(log, sink, user);
        stp_reward_log_restart(log);
        bytes = lf + 1;
    }
}

void stp_reward_log_restart(struct stp_reward_log *log)
{
    log->length = 0;
    log->is_too_long = false;
}
