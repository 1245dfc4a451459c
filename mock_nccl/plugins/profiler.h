/* profiler.h - the profiler of a process, and its events of a communicator
 *
 * Follows NCCL's src/plugin/profiler.cc, interface 4 to 7. */
#pragma once

#include "mock_kernels.h"
#include "model/channels.h"
#include "nccl_profiler_abi.h"
#include "versions/versions.h"

/* ---- the process ---- */

struct mock_profiler; /* opaque */

/* 'plugin' and 'net' are the values of NCCL_PROFILER_PLUGIN and
 * NCCL_NET_PLUGIN, which must outlive the profiler. */
ncclResult_t mock_profiler_create(const struct mock_version *version,
                                  const char *plugin, const char *net,
                                  struct mock_profiler **profiler_ret);
void mock_profiler_destroy(struct mock_profiler *profiler);

/* ---- a communicator ---- */

/* The profiler state of a rank of a communicator; all 0 before it joins. */
struct mock_listener {
    struct mock_profiler *profiler; /* NULL: no profiler */
    void *context;
    int rank;
    uint64_t n_done[NCCL_NUM_TUNED_FUNCS];
    uint64_t n_copied;

    /* NCCL has these members per thread, rather than per communicator. */
    int mask;          /* mask at the last call */
    bool in_group_api; /* the GroupApi event was started, with or without a
                          handle */
    void *group_api;
    void *coll_api;
};

/* Loads the profiler for the first communicator, and calls its init; NCCL
 * ignores its failure. */
void mock_listener_join(struct mock_listener *l, struct mock_profiler *profiler,
                        uint64_t comm_id, int n_ranks, int n_nodes, int rank);

/* Calls the profiler's finalize, and closes the library when NCCL would. */
void mock_listener_leave(struct mock_listener *l);

/* ---- events ---- */

/* The profiler state of a call until its launch. */
struct mock_profiled_call {
    int mask;
    void *coll_api;
    void *coll; /* handle of the Coll event */
};

/* Reports a call of the API, in a group of several or alone. */
void mock_profile_call(struct mock_listener *l, const struct mock_call *call,
                       size_t share_bytes, bool in_group, bool captured,
                       struct mock_profiled_call *profiled_ret);

/* Whether the profiler requested the times of the call's channels, and whether
 * NCCL reports kernels for symmetric windows. */
bool mock_profile_is_timed(const struct mock_profiled_call *profiled);
bool mock_profile_has_symmetric(const struct mock_listener *l);

/* Report the begin and the end of ncclGroupEnd. */
void mock_profile_group_end(const struct mock_listener *l);
void mock_profile_group_stop(struct mock_listener *l);

/* A collective that is launched. */
struct mock_launched {
    struct mock_call call;
    size_t number; /* index in the group */
    size_t share_bytes;
    bool counts_channels; /* false with CollNet */
    bool is_replay;       /* a CUDA graph launches it */
    const char *kernel;   /* for symmetric windows; NULL: a general one */
    struct mock_profiled_call profiled;
};

/* Reports the launches of one group, in the order of their kernels. Sets the
 * event members of their outcomes, which are by number. */
void mock_profile_launch(struct mock_listener *l,
                         struct mock_launched *launched, size_t n,
                         struct mock_outcome *outcomes);

/* Reports what copy engines run. */
void mock_profile_copy(struct mock_listener *l,
                       const struct mock_launched *launched);

/* Report the begin and the end of a kernel; see mock_kernels.h. */
void mock_profile_kernel_start(const struct mock_listener *l,
                               const struct mock_outcome *outcome,
                               const struct mock_channel_time *times,
                               void **handles_ret);
void mock_profile_kernel_stop(const struct mock_listener *l,
                              const struct mock_outcome *outcome,
                              const struct mock_channel_time *times,
                              void *const *handles);
