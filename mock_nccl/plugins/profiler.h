/*
 * profiler.h - a process's profiler, and what it is told of a communicator
 *
 * As NCCL's src/plugin/profiler.cc, of versions 4 to 6 of the interface.
 */
#ifndef MOCK_PROFILER_H
#define MOCK_PROFILER_H

#include "mock_kernels.h"
#include "model/channels.h"
#include "nccl_profiler_abi.h"
#include "versions/versions.h"

/* ---- the process ---- */

struct mock_profiler; /* opaque */

/* 'plugin' and 'net' are what NCCL_PROFILER_PLUGIN and NCCL_NET_PLUGIN hold;
 * the profiler needs them no more. */
ncclResult_t mock_profiler_create(const struct mock_version *version,
                                  const char *plugin, const char *net,
                                  struct mock_profiler **profiler_ret);
void mock_profiler_destroy(struct mock_profiler *profiler);

/* ---- a communicator ---- */

/* What a rank of a communicator has of it; all 0 before it is joined. */
struct mock_listener {
    struct mock_profiler *profiler; /* NULL: there is none */
    void *context;
    int rank;
    uint64_t n_done[NCCL_NUM_TUNED_FUNCS];

    /* NCCL has these for each thread, rather than each communicator. */
    int mask;          /* as the last call found it */
    bool in_group_api; /* it was started, whether or not it has a handle */
    void *group_api;
    void *coll_api;
};

struct mock_join {
    uint64_t comm_id;
    int n_ranks;
    int n_nodes;
    int rank;
};

/* Loads the profiler if this communicator is the first, and calls its init,
 * which may fail: NCCL goes on. */
void mock_listener_join(struct mock_listener *l, struct mock_profiler *profiler,
                        const struct mock_join *join);

/* Calls its finalize, and closes the library as NCCL would. */
void mock_listener_leave(struct mock_listener *l);

/* ---- events ---- */

/* What NCCL keeps of a call for when it is launched. */
struct mock_profiled_call {
    int mask;
    void *coll_api;
    void *coll; /* the handle of the launch */
};

/* One call of the API, of a group of several or alone. */
void mock_profile_call(struct mock_listener *l, const struct mock_call *call,
                       size_t share_bytes, bool in_group, bool captured,
                       struct mock_profiled_call *profiled_ret);

/* ncclGroupEnd begins, and ends. */
void mock_profile_group_end(const struct mock_listener *l);
void mock_profile_group_stop(struct mock_listener *l);

/* A collective that is launched. */
struct mock_launched {
    const struct mock_call *call;
    const struct mock_outcome *outcome;
    size_t share_bytes;
    bool counts_channels; /* false with CollNet */
    struct mock_profiled_call *heard;
};

/* Those of one group, in the order of their kernels. */
void mock_profile_launch(struct mock_listener *l,
                         const struct mock_launched *launched, size_t n);

/* The GPU runs it, and has run it; see mock_kernels.h. */
void mock_profile_kernel_start(const struct mock_listener *l,
                               const struct mock_outcome *outcome,
                               const struct mock_channel_time *times,
                               void **handles_ret);
void mock_profile_kernel_stop(const struct mock_listener *l,
                              const struct mock_outcome *outcome,
                              const struct mock_channel_time *times,
                              void *const *handles);

#endif /* MOCK_PROFILER_H */
