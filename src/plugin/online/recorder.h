/* recorder.h - a trace of the collectives of a job, by NCCL's profiler
 *
 * The file is a trace as analyse/replay/trace.h reads it, to which all
 * processes of a job append whole lines: it can be read at any time.  Rank 0 of
 * each communicator is recorded.  The launch path and NCCL's own threads leave
 * what they know in a ring of the process; the service's thread writes it, in
 * the order of launches. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nccl_tuner_abi.h"

/* The columns: t_ns of the host's clock at the launch, times of the GPU's clock
 * empty where NCCL did not tell them; graph 1 if a CUDA graph launched it. */
#define STP_TRACE_HEAD                                                         \
    "t_ns,process,comm,nRanks,group,graph,collective,bytes,type,begin_ns,"     \
    "end_ns\n"

/* A collective that is launched. */
struct stp_traced_launch {
    uint64_t comm_id;
    size_t n_ranks;
    uint64_t group; /* number of its ncclGroup in the process; 0: by itself */
    bool is_graph;
    int coll;
    uint64_t n_bytes; /* as a tuner counts */
    int type;         /* -1: not known */
    unsigned n_channels;
};

/* Whether the environment asks for a trace, and this communicator's rank is in
 * it: then stp_recorder_close() has to follow.  'log' is told why not, and once
 * that the trace has as many collectives as it may. */
bool stp_recorder_open(uint64_t comm_id, int rank, ncclDebugLogger_t log);

/* Leaves the trace; the last communicator writes the rest of it. */
void stp_recorder_close(void);

/* Whether a trace is being recorded that has room for more. */
bool stp_recorder_wants(void);

/* Notes a launch in any thread, without waiting. Returns its number for the
 * next two functions; 0 if there is no room. */
uint64_t stp_recorder_launched(const struct stp_traced_launch *launched);

/* Notes that a channel of the launch began or ended at 'ns' of the GPU. */
void stp_recorder_began(uint64_t number, uint64_t ns);
void stp_recorder_ended(uint64_t number, uint64_t ns);

/* The number of a new ncclGroup. */
uint64_t stp_recorder_new_group(void);
