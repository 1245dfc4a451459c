/* headroom.h - what a job spends in collectives, which no arm can exceed
 *
 * A step without its collectives is shorter by at most the time that they were
 * under way, whatever else ran beside them: no work was undone in that time.
 * Collectives wait in it for ranks that are late, so arms gain less. What other
 * kernels did beside a collective, and when a GPU idled, NCCL does not tell.
 *
 * A job is bound by its host where GPUs begin collectives as soon as these are
 * launched. The two clocks differ by an unknown amount: it is the least delay
 * that was seen, so at some launch the GPU must have waited, as it does in a
 * job's first steps.
 *
 * Pure: no clock, no environment, no I/O.  One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/learn/bandit.h"

struct stp_headroom {
    double step_us;                 /* of a sequence of calls, with all else */
    double busy_us;                 /* of it in any collective */
    double key_us[STP_BANDIT_KEYS]; /* in those of a key */
};

/* Sums up 'n' calls that repeat a sequence: the key of each, and when it began
 * and ended on the GPU, 0 if that is not known.  A sequence of which a time is
 * missing does not count; false with fewer than STP_HEADROOM_LEAST others. */
enum { STP_HEADROOM_LEAST = 3 };
bool stp_headroom_measure(const uint8_t *keys, const uint64_t *begin_ns,
                          const uint64_t *end_ns, size_t n, size_t sequence,
                          struct stp_headroom *headroom_ret);

/* How long launches wait for the GPU; all 0 at first. */
struct stp_delays {
    uint64_t first_ns; /* the first launch */
    int64_t least_ns;  /* delay, with the difference of the clocks */
    unsigned n;        /* launches since the last stp_delays_restart() */
    unsigned n_short;  /* that the GPU began at once */
};

/* Takes a launch by the host's clock, and when the GPU began it by its own. */
void stp_delays_add(struct stp_delays *delays, uint64_t host_ns,
                    uint64_t begin_ns);
void stp_delays_restart(struct stp_delays *delays);

/* The share of launches that the GPU began at once; -1: not known. */
double stp_delays_short(const struct stp_delays *delays);
