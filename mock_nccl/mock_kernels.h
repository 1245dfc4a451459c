/* mock_kernels.h - the kernel times of a collective, as NCCL reports them to
 * its profiler */
#ifndef MOCK_KERNELS_H
#define MOCK_KERNELS_H

#include "mock_nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOCK_MAX_CHANNELS = 64 }; /* channels of a collective at most */

/* Begin and end of a channel's block, ns of the GPU's clock; 'stop_ns' is 0 if
 * NCCL loses the event. */
struct mock_channel_time {
    uint64_t start_ns;
    uint64_t stop_ns;
    /* of a kernel for symmetric windows: when all ranks had begun, and when
     * this one had done its part; 0 for others, which are all one phase */
    uint64_t moves_ns;
    uint64_t moved_ns;
};

/* Report the kernel times of a collective to the profiler, as NCCL's proxy
 * thread does some time after the launch: the start of each channel, then the
 * end of each, with the same 'outcome' and 'times', which holds the outcome's
 * n_channels elements. They do nothing unless the outcome 'is_timed'.
 * handles_ret has room for n_channels; it receives the profiler's handles, NULL
 * for none, which the ends need. Unlike all other functions of a communicator,
 * any thread may call these at any time. */
void mock_comm_kernel_began(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void **handles_ret);
void mock_comm_kernel_ended(struct mock_comm *comm,
                            const struct mock_outcome *outcome,
                            const struct mock_channel_time *times,
                            void *const *handles);

/* Reports a launch of the graph's collectives to the profiler, before their
 * kernels, as NCCL does on one node if the profiler requested channels' times
 * when the graph was captured: CUDA calls NCCL back when the GPU comes to them.
 * Otherwise it does nothing: a replay has no events. 'outcomes' are those of
 * mock_graph_launch(); they receive the launch's events. Calls for one graph
 * must not overlap. */
void mock_graph_call_back(struct mock_cuda_graph *graph,
                          struct mock_outcome *outcomes);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_KERNELS_H */
