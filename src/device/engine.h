/* engine.h - the seam to a platform: one rank
 *
 * A transport implements one table: memory, streams, collectives, events, GEMMs
 * and the other arithmetic of a multilayer perceptron, of one rank.  Training
 * (src/train) calls the table itself; measuring loops call device/device.h,
 * which is one loop over the ranks of a process on every platform.
 *
 * One instance is one rank, used by one thread.  All ranks make the same calls
 * in the same order with the same numbers, but for addresses.
 *
 * Work is noted: a call with a stream returns at once, and its work may run at
 * any time from then until synchronise() returns.  Work in one stream runs in
 * order, the streams run side by side; wait() orders them.  So an engine may
 * launch at once (CUDA), or note all and run it in synchronise() (CPUs, virtual
 * time). The structs of arguments are copied.  synchronise() returns its
 * first failure; the engine can then only be closed.
 *
 * Addresses are of this engine, and mean nothing to anybody else: not to be
 * read, but byte offsets may be added to them. Operands begin at multiples of
 * their type's size; matrices and vectors that begin at multiples of
 * STP_ENGINE_ALIGN are faster on GPUs.
 *
 * Matrices are row-major without gaps.  Types are enum stp_type: F32, F64, F16
 * and BF16, unless an operation says less.  Arithmetic is in F32 or better, and
 * results are rounded to nearest, ties to even.  F64 is for tests: an
 * engine may lack it (STP_ERR_RANGE), and only a cast mixes it with others. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/status.h"
#include "device/device.h"
#include "device/pattern.h"
#include "device/program.h"
#include "device/span.h"
#include "device/transport.h"
#include "launch/world.h"

enum { STP_ENGINE_ALIGN = 256 }; /* bytes; alloc() gives multiples of it */

/* Memory of measured collectives, GEMMs (A, B and C) and elementwise kernels,
 * and the float of a small all-reduce by which ranks meet. */
enum stp_room {
    STP_ROOM_SEND,
    STP_ROOM_RECV,
    STP_ROOM_A,
    STP_ROOM_B,
    STP_ROOM_C,
    STP_ROOM_X,
    STP_ROOM_Y,
    STP_ROOM_MEETING,
    STP_N_ROOMS,
};

struct stp_engine_ops {
    void (*info)(const void *self, struct stp_device_info *info_ret);

    /* ---- at once, while no noted work is yet to run ---- */

    /* 'nbytes' of zeros, which no setup registers.  STP_ERR_NOMEM says for
     * which 'purpose', such as "gradients", how much was asked and how much
     * there is. Freed by release(). */
    enum stp_status (*alloc)(void *self, uint64_t nbytes, const char *purpose,
                             void **address_ret, struct stp_error *err);

    /* Frees all that alloc() gave, so that the next run begins with all memory;
     * close() does, too. */
    void (*release)(void *self);

    enum stp_status (*upload)(void *self, void *to, const void *from,
                              uint64_t nbytes, struct stp_error *err);
    enum stp_status (*download)(void *self, void *to, const void *from,
                                uint64_t nbytes, struct stp_error *err);

    /* stp_world_agree() of all ranks on a step that each did by itself. */
    enum stp_status (*agree)(void *self, enum stp_status status,
                             struct stp_error *err);

    /* Collectives from now on run as this arm says, in the same communicator;
     * AUTO to begin with; a setup gets a communicator when it is first
     * selected, by all processes alike.  The arm is the process's: no rank of
     * it may still run earlier work.  STP_ERR_RANGE for the plugin arm if the
     * engine was opened without a plugin, for a forced one if nothing can be
     * forced, and for a setup that this NCCL or a recorded machine lacks. */
    enum stp_status (*select_arm)(void *self, const struct stp_arm *arm,
                                  struct stp_error *err);

    /* ---- work ---- */

    /* Notes work of the kinds that are an engine's, an event that is recorded
     * or awaited, or does it.  Collectives are of all ranks, or of a group:
     * all-reduce, reduce-scatter, all-gather or broadcast, a sum or maximum, as
     * struct stp_transfer has them. */
    enum stp_status (*note)(void *self, const struct stp_work *work,
                            struct stp_error *err);

    /* At once, on all ranks: makes the communicators of these groups, which
     * run as the arm says and stay until close().  The first call makes split 1
     * of stp_transfer, the next one split 2; one that fails makes none.  NULL:
     * there are no groups. */
    enum stp_status (*split)(void *self, const struct stp_rank_groups *groups,
                             struct stp_error *err);

    /* ---- order and time ---- */

    /* Returns when all noted work is done on this rank.  STP_ERR_DEVICE
     * names a rank that died. */
    enum stp_status (*synchronise)(void *self, struct stp_error *err);

    /* Microseconds between two events recorded before the last synchronise(),
     * on this rank. */
    enum stp_status (*elapsed_us)(const void *self, unsigned from, unsigned to,
                                  double *us_ret, struct stp_error *err);

    /* Microseconds since some moment in the past, by the host's clock; in
     * virtual time, by the clock of the work that ran so far. */
    double (*now_us)(const void *self);

    /* ---- tracing: all three NULL where nothing can be traced ---- */

    /* Traces work noted from now on; no noted work is yet to run.
     * STP_ERR_NOTHING says which library is missing for it, STP_ERR_NOMEM. */
    enum stp_status (*trace_begin)(void *self, struct stp_error *err);

    /* Ends the trace after a synchronise(), and appends the spans of this rank
     * since it began; after a failure some of them.  'spans' is not sorted. */
    enum stp_status (*trace_end)(void *self, struct stp_spans *spans,
                                 struct stp_error *err);

    /* Work noted from now on is in this range (static storage) of a step,
     * within the ranges that are open; NULL ends the innermost. */
    void (*range)(void *self, const char *name);

    /* ---- measuring, for device/device.c: NULL of an engine for training ----
     */

    /* As stp_device_rank_line(). */
    void (*rank_line)(const void *self, unsigned rank, char *line, size_t size);

    /* As stp_device_sizes() and stp_device_begin_round(); NULL: any size is as
     * good as any other, and a round needs no preparation. */
    size_t (*sizes)(const void *self, int coll, uint64_t *sizes, size_t max);
    /* As stp_device_overlaps(); NULL: there are none. */
    size_t (*overlaps)(const void *self, int coll,
                       struct stp_device_overlap *overlaps, size_t max);

    enum stp_status (*begin_round)(void *self, unsigned round,
                                   unsigned n_rounds, struct stp_error *err);

    /* STP_ERR_RANGE for a collective, GEMM or kernel that this rank lacks. */
    enum stp_status (*check)(void *self, const struct stp_work *work,
                             struct stp_error *err);

    /* At once: at least 'nbytes' for measuring in this stream, which hold
     * numbers of 'type', and stay until close().  The same address unless it
     * was of fewer bytes. */
    enum stp_status (*room)(void *self, enum stp_room room, unsigned stream,
                            int type, uint64_t nbytes, void **address_ret,
                            struct stp_error *err);

    /* At once: makes ready for 'n_events' events, and for a product unless that
     * is NULL, so that the first one takes no longer.  Or NULL. */
    enum stp_status (*prepare)(void *self, unsigned n_events,
                               const struct stp_product *product,
                               struct stp_error *err);

    /* Before the work noted next: 'n' elements that pattern->rank gives to a
     * collective, or poison, which is wrong as its result.  No stream waits. */
    enum stp_status (*fill)(void *self, const struct stp_pattern *pattern,
                            bool poison, void *data, uint64_t n,
                            struct stp_error *err);

    /* At once: what is found in 'n' elements of pattern->rank's result. */
    enum stp_status (*examine)(void *self, const struct stp_pattern *pattern,
                               const void *data, uint64_t n,
                               struct stp_found *found_ret,
                               struct stp_error *err);

    /* As stp_device_probe(), where no collective need run for it; else NULL:
     * then listen() and heard(), or NULL, are around a collective that runs. */
    enum stp_status (*probe)(void *self,
                             const struct stp_collective *collective,
                             struct stp_device_run *run_ret,
                             struct stp_question *question_ret,
                             struct stp_error *err);
    void (*listen)(void *self);
    void (*heard)(void *self, struct stp_device_run *run_ret,
                  struct stp_question *question_ret);

    /* Collectives of a group, of one rank or several of one thread; NULL: they
     * run one by one. */
    enum stp_status (*group)(void *self, bool begin, struct stp_error *err);

    /* Work noted between the first two does not run but becomes a graph, which
     * launch() notes.  NULL: there are no graphs. */
    enum stp_status (*begin_capture)(void *self, struct stp_error *err);
    enum stp_status (*end_capture)(void *self, struct stp_error *err);
    enum stp_status (*launch)(void *self, struct stp_error *err);
    /* Names the kernel in the graph of one collective, as
     * stp_device_run.kernel; NULL: nobody knows. */
    void (*captured)(const void *self, char kernel[STP_KERNEL_NAME]);

    /* In virtual time: work noted from now on takes what it takes in graphs, or
     * no longer, and is launched as ever.  Returns stp_device_info.max_rounds
     * of it.  NULL: begin_capture() is there, or there are no graphs. */
    unsigned (*use_graphs)(void *self, bool uses);

    /* As stp_device_reload_plugin(), on the first rank of the process; NULL:
     * there are no plugins. */
    enum stp_status (*reload_plugin)(void *self, struct stp_error *err);

    /* How long the last synchronise() took from where all ranks began; NULL: as
     * now_us() counts. */
    double (*ran_us)(const void *self);

    /* As stp_device_source(); NULL: all times are measured. */
    enum stp_source (*source)(const void *self, bool *single_pass_ret);

    /* From any thread: while it is true, synchronise() of this process's ranks
     * returns soon, with STP_ERR_STOPPED: another one failed.  Or NULL. */
    void (*abandon)(void *self, bool is_abandoned);

    void (*close)(void *self);
};

/* An open engine; close with engine.ops->close(engine.self). */
struct stp_engine {
    const struct stp_engine_ops *ops;
    void *self;
};

/* How the ranks of this process are to be opened. */
struct stp_device_options {
    const struct stp_world *world; /* outlives the ranks */
    unsigned n_threads; /* of this process, each with its own ranks */
    unsigned n_gpus;    /* ranks of a thread; 0 for both: threads for all GPUs
                           that are this process's */
    unsigned time_limit_s; /* for one synchronise(); 0: none.  Not for a call of
                              a library: NCCL connects there */
    const char *plugin; /* of the plugin arm, as NCCL_TUNER_PLUGIN; or NULL */

    /* ---- measuring ---- */
    bool measures;           /* for stp_device_open(), not for training */
    double stalls;           /* share of the rounds of a recorded machine that
                                something disturbs */
    bool endless;            /* its rounds are drawn from the recorded ones, as
                                many as are asked for, as if it were live */
    uint64_t max_bytes;      /* of the largest collective */
    bool graph;              /* noted work runs as CUDA graphs */
    const char *graphs_file; /* where NCCL is to write its search graphs, or
                                NULL */
};

enum { STP_MAX_ENGINES = 64 }; /* ranks of a process */

/* The open ranks of this process. */
struct stp_engines {
    struct stp_engine all[STP_MAX_ENGINES];
    unsigned n_threads;    /* that they need; 0: the caller's alone */
    unsigned n_per_thread; /* ranks of each */
};

/* Makes a device of this process's ranks, which were opened by 'options' for
 * measuring.  They are the device's, and closed if it cannot be made.  All
 * processes of options->world call it. */
enum stp_status stp_device_open(const struct stp_device_options *options,
                                const struct stp_engines *engines,
                                struct stp_device *device_ret,
                                struct stp_error *err);
