/* cpu.h - CPUs as engines: shared by the parts of an engine
 *
 * Work is noted in a program, and its arguments in tasks.  synchronise() runs
 * the program on a thread per stream, from a barrier of all ranks on. */
#pragma once

#include "device/cpu/cpu_host.h"
#include "device/cpu/cpu_math.h"
#include "device/engine.h"
#include "device/splits.h"
#include "device/transport.h"

enum stp_cpu_task_kind {
    STP_CPU_PRODUCT,
    STP_CPU_CROSS_ENTROPY,
    STP_CPU_UPDATE,
    STP_CPU_KERNEL,
    STP_CPU_COLLECTIVE,
};

/* An operation of the engine that a CPU is yet to run. */
struct stp_cpu_task {
    enum stp_cpu_task_kind kind;
    struct stp_part range; /* of a trace */
    union {
        struct stp_product product;
        struct stp_cross_entropy cross_entropy;
        struct stp_update update;
        struct stp_transfer transfer;
        struct stp_kernel kernel;
    } as;
};

/* A buffer for measuring, grown to the most that was asked for. */
struct stp_cpu_room {
    void *at;
    uint64_t nbytes;
    int type; /* of the numbers in it */
};

/* The spans of the tasks since a trace was begun. */
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
    struct stp_cpu_task *tasks;
    size_t n_tasks;
    size_t capacity;
    struct stp_program program;
    struct stp_cpu_scratch scratch[STP_N_STREAMS];
    struct stp_cpu_trace trace;
    double *us; /* of the events of the last run */
    bool failed;
    uint64_t max_bytes; /* of a collective that is measured */
    struct stp_cpu_room rooms[STP_N_STREAMS][STP_N_ROOMS];
};

/* ---- cpu_streams.c ---- */

/* Microseconds of CLOCK_MONOTONIC. */
double stp_cpu_now_us(void);

/* Runs the program on this rank, a thread for each stream that has work; the
 * caller's thread waits for them and watches whether the other ranks are alive.
 * us[e] becomes the time of event 'e' by stp_cpu_now_us(), or 0 for an event
 * that is not recorded.  After a failure no thread of it runs any more, and
 * *err is the first reason. */
enum stp_status stp_cpu_run(struct stp_cpu *cpu, struct stp_error *err);

/* ---- cpu_trace.c ---- */

/* Makes room for the spans of the tasks, before they run. */
enum stp_status stp_cpu_trace_reserve(struct stp_cpu *cpu,
                                      struct stp_error *err);

/* Ends the trace: moves the spans of tasks that ran to the end of 'spans'. */
enum stp_status stp_cpu_trace_end(struct stp_cpu_trace *trace,
                                  struct stp_spans *spans,
                                  struct stp_error *err);
