/* cpu.h - CPUs as engines: shared by the parts of an engine
 *
 * Work is noted in a program.  synchronise() runs it on a thread per stream,
 * from a barrier of all ranks on. */
#pragma once

#include "device/cpu/cpu_host.h"
#include "device/cpu/cpu_math.h"
#include "device/engine.h"
#include "device/transport.h"

/* A buffer for measuring, grown to the most that was asked for. */
struct stp_cpu_room {
    void *at;
    uint64_t nbytes;
    int type; /* of the numbers in it */
};

/* The spans of the work since a trace was begun. */
struct stp_cpu_trace {
    bool on;
    struct stp_ranges ranges;
    struct stp_spans spans;
    size_t begun; /* the first span of the run under way */
};

/* A rank. */
struct stp_cpu {
    const struct stp_transport_ops *transport;
    void *link; /* NULL: not open, or one rank */
    const struct stp_world *world;
    struct stp_cpu_host *hosts; /* by rank */
    unsigned n_threads;         /* of a product */
    struct stp_splits splits;
    unsigned time_limit_s;
    uint64_t budget; /* bytes that this rank may take */
    uint64_t taken;
    void **memory; /* given by alloc() */
    size_t n_memory;
    struct stp_program program;
    struct stp_cpu_scratch scratch[STP_N_STREAMS];
    struct stp_cpu_trace trace;
    double *us; /* of the events of the last run */
    bool failed;
    uint64_t max_bytes; /* of a collective that is measured */
    struct stp_cpu_room rooms[STP_N_STREAMS][STP_N_ROOMS];
};

/* ---- cpu_streams.c ---- */

/* Runs the program on this rank, a thread for each stream that has work; the
 * caller's thread waits for them and watches whether the other ranks are alive.
 * us[e] becomes the time of event 'e' by stp_host_now_us(), or 0 for an event
 * that is not recorded.  After a failure no thread of it runs any more, and
 * *err is the first reason. */
enum stp_status stp_cpu_run(struct stp_cpu *cpu, struct stp_error *err);
