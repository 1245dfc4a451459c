/* cuda_trace.h - spans of a GPU, as CUPTI records them, and NVTX ranges
 *
 * CUPTI is the process's; each rank of it has a trace of its own, used by the
 * thread that launches the rank's work, and takes the spans of its GPU in its
 * two streams.  A kernel is in the range in which its thread launched it, so
 * work must be launched where it is noted, not in a CUDA graph.
 *
 * libcupti is opened at run time, when the first trace begins: STEPTUNE_CUPTI
 * may name the file. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"
#include "device/span.h"

/* All zero to begin with. */
struct stp_cuda_trace {
    bool on;
    int gpu;
    uint32_t stream_id[STP_N_STREAMS]; /* CUPTI's */
    uint64_t origin_ns;                /* of CUPTI's clock */
    double origin_us;                  /* of CLOCK_MONOTONIC, at that time */
    struct stp_ranges ranges;
    double begun_us[STP_OPEN_RANGES]; /* of ranges that are open */
    struct stp_spans host;            /* ranges that ended */
};

/* As stp_engine_ops.trace_begin, for GPU 'gpu' and its streams, which do no
 * work.  STP_ERR_NOTHING if this was built without CUPTI or finds no libcupti;
 * STP_ERR_DEVICE if CUPTI refuses, as where another profiler has it. */
enum stp_status stp_cuda_trace_begin(struct stp_cuda_trace *trace, int gpu,
                                     const cudaStream_t stream[STP_N_STREAMS],
                                     struct stp_error *err);

/* As stp_engine_ops.trace_end, after the streams were waited for: kernels,
 * copies and fills, of which NCCL's kernels are communication, and the ranges
 * of the host.  Times are of CLOCK_MONOTONIC. */
enum stp_status stp_cuda_trace_end(struct stp_cuda_trace *trace,
                                   struct stp_spans *spans,
                                   struct stp_error *err);

/* As stp_engine_ops.range: an NVTX range, which other profilers see, and while
 * this trace is on one of its own.  From the thread that launches. */
void stp_cuda_trace_range(struct stp_cuda_trace *trace, const char *name);
