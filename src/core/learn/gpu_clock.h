/*
 * gpu_clock.h - a GPU's time as the host's, and a collective's duration from
 * when it began and ended on each rank
 *
 * The host learns of an instant of the GPU's after it, never before, and at
 * times soon: the least of many delays is about the same on all ranks of a
 * host, some 1 us.  So the least distance of the two clocks over some calls is
 * their offset, up to a constant that is the same on all ranks.  Clocks drift
 * against each other by a few millionths (2 to 5 measured on H200), so it is a
 * line below all of the last windows' least distances.
 *
 * Pure: no clock, no environment, no I/O.
 */
#ifndef STP_GPU_CLOCK_H
#define STP_GPU_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STP_CLOCK_WINDOW = 32, /* calls of a window */
    STP_CLOCK_WINDOWS = 8, /* that determine the offset */
    STP_CLOCK_READY = 8,   /* calls before an offset is known */
};

/* An instant on the GPU, and when the host learned of it. */
struct stp_instant {
    uint64_t gpu_ns;
    uint64_t heard_ns; /* on the host's clock */
};

/* One GPU's; all 0 at first. */
struct stp_gpu_clock {
    struct stp_instant least[STP_CLOCK_WINDOWS]; /* of the windows, a ring */
    unsigned n_calls;
};

/* The instant of a call with the least delay; roughly in the order of calls. */
void stp_gpu_clock_heard(struct stp_gpu_clock *clock,
                         const struct stp_instant *instant);

/* False until STP_CLOCK_READY calls are known.  Else *offset_ret is to be added
 * to the GPU's time, modulo 2^64, around 'gpu_ns'. */
bool stp_gpu_clock_offset(const struct stp_gpu_clock *clock, uint64_t gpu_ns,
                          uint64_t *offset_ret);

/* ---- a collective, of all ranks ---- */

/* On the host's clock. */
struct stp_rank_time {
    uint64_t begin_ns;
    uint64_t end_ns; /* not before */
};

/* All 0 at first. */
struct stp_rank_times {
    size_t n;
    uint64_t last_begin_ns;
    uint64_t first_end_ns;
    uint64_t last_end_ns;
};
static inline void stp_rank_times_add(struct stp_rank_times *all,
                                      const struct stp_rank_time *one)
{
    if (all->n++ == 0 || one->end_ns < all->first_end_ns)
        all->first_end_ns = one->end_ns;
    if (one->begin_ns > all->last_begin_ns)
        all->last_begin_ns = one->begin_ns;
    if (one->end_ns > all->last_end_ns)
        all->last_end_ns = one->end_ns;
}

/*
 * Microseconds from when the last rank enters the collective to when the last
 * rank finishes: waiting for late ranks is excluded.  However far apart the
 * clocks are, it is neither less than the least of the ranks' own times nor
 * more than the most: the rank that entered last ended no later than the last
 * end, and the rank that ended last entered no later than the last to enter.
 *
 * Of a tree, NCCL (2.27 to 2.30) sees the end of a rank's reduction, by the
 * block's thread 0, not that of the broadcast back to it: 55 to 177 us on 4
 * ranks of a 16 MiB all-reduce that took 256.  'at_most' adds an upper
 * bound of the broadcast's time, the time in which the reductions ended: 299.
 */
double stp_rank_times_us(const struct stp_rank_times *all, bool at_most);

#endif /* STP_GPU_CLOCK_H */
