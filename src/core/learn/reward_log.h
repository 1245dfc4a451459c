/*
 * reward_log.h - the lines in which an application says how long things took
 *
 *   collType,nBytes,nNodes,nRanks,latency_ms      allreduce,4194304,1,8,12.34
 *
 * A file that somebody else writes meanwhile: it is read in pieces, which end
 * in the middle of lines.  Pure; constant memory.
 */
#ifndef STP_REWARD_LOG_H
#define STP_REWARD_LOG_H

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
    char line[STP_REWARD_LINE]; /* what came of one that has no end yet */
    size_t length;
    int is_too_long; /* what is left of the line is dropped */
    uint64_t n_good;
    uint64_t n_bad;     /* lines that mean nothing */
    char first_bad[64]; /* of those, printable; "" if none */
};

/* Takes the next 'len' bytes, and hands out each line that is complete.  Empty
 * lines and those that begin with '#' are neither good nor bad. */
void stp_reward_log_feed(struct stp_reward_log *log, const char *bytes,
                         size_t len, stp_reward_sink sink, void *user);

/* The file begins anew: what came of a line is dropped. */
void stp_reward_log_restart(struct stp_reward_log *log);

#endif /* STP_REWARD_LOG_H */
