/* reward_log.h - the lines in which an application reports durations
 *
 *   collType,nBytes,nNodes,nRanks,latency_ms      allreduce,4194304,1,8,12.34
 *
 * The application writes the file meanwhile: it is read in pieces, which may
 * end within a line.  Pure; constant memory. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STP_REWARD_LINE = 256 }; /* bytes of a line; longer ones are bad */

struct stp_reward {
    int coll; /* ncclFunc_t */
    uint64_t n_bytes;
    uint64_t n_nodes;
    uint64_t n_ranks;
    double latency_ms; /* finite, above 0 */
};

typedef void (*stp_reward_sink)(void *user, const struct stp_reward *reward);

/* All 0 at first. */
struct stp_reward_log {
    char line[STP_REWARD_LINE]; /* the part of a line that was read */
    size_t length;
    bool is_too_long; /* the rest of the line is dropped */
    uint64_t n_good;
    uint64_t n_bad;     /* lines that are no reward */
    char first_bad[64]; /* printable; "" if none */
};

/* Takes the next 'len' bytes, and gives each complete line to 'sink'.  Empty
 * lines and those that begin with '#' are neither good nor bad. */
void stp_reward_log_feed(struct stp_reward_log *log, const char *bytes,
                         size_t len, stp_reward_sink sink, void *user);

/* Drops the part of a line that was read: the file is read from its start. */
void stp_reward_log_restart(struct stp_reward_log *log);
