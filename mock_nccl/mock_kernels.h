/*
 * mock_kernels.h - what NCCL learns from the GPU, and tells its profiler
 */
#ifndef MOCK_KERNELS_H
#define MOCK_KERNELS_H

#include "mock_nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOCK_MAX_CHANNELS = 64 }; /* that a collective can run on */

/* When a channel's block began and ended, ns of the GPU's clock; 'stop_ns' is 0
 * if NCCL loses the event. */
struct mock_channel_time {
    uint64_t start_ns;
    uint64_t stop_ns;
};

/*
 * Tells the profiler how long a collective took on the GPU, as NCCL's proxy
 * thread does some time after the launch: the start of each channel, then the
 * end of each.  'times' has the outcome's n_channels.  Does nothing unless the
 * outcome 'is_timed'.  Unlike all else, this can be called from another thread
 * than the communicator's; at the same time, too.
 */
void mock_comm_kernel_ran(struct mock_comm *comm,
                          const struct mock_outcome *outcome,
                          const struct mock_channel_time *times);

/*
 * Like mock_comm_kernel_ran(), but tells of the starts and of the ends apart,
 * with the same 'outcome' and 'times'.  handles_ret has room for the outcome's
 * n_channels; it gets the profiler's handles, NULL where there is none, which
 * the ends need.
 */
void mock_comm_kernel_began(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void **handles_ret);
void mock_comm_kernel_ended(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void *const *handles);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_KERNELS_H */
