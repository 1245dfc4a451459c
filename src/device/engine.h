/*
 * engine.h - the seam to a platform: one rank, as training and measuring see it
 *
 * An engine has buffers, the arithmetic of a multilayer perceptron, collectives
 * on buffers, streams and events; and what device/ranks.c needs to make of the
 * engines of all ranks the device that measuring loops see (device/device.h).
 * CUDA, CPUs and recorded machines each have one implementation.
 *
 * One instance is one rank, used by one thread.  All ranks make the same calls
 * in the same order with the same numbers, but for addresses.
 *
 * Work is noted: what takes a stream returns at once, and may run at any time
 * from then until synchronise() returns.  Work in one stream runs in order, the
 * streams run side by side; wait() orders them.  So an engine may launch at
 * once (CUDA), or note all and run it in synchronise() (CPUs, virtual time).
 * The structs of arguments are copied.  What failed while it ran is what
 * synchronise() returns; the engine can then only be closed.
 *
 * Addresses are of this engine, and mean nothing to anybody else: not to be
 * read, but byte offsets may be added to them.  Those given to operations are
 * multiples of their type's size; matrices and vectors that begin at multiples
 * of STP_ENGINE_ALIGN are faster on GPUs.
 *
 * Matrices are row-major without gaps.  Types are enum stp_type: F32, F64, F16
 * and BF16, unless an operation says less.  Arithmetic is in F32 or better, and
 * what is stored is rounded to nearest, ties to even.  F64 is for tests: an
 * engine may lack it (STP_ERR_RANGE), and only cast() mixes it with others.
 */
#ifndef STP_ENGINE_H
#define STP_ENGINE_H

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

struct stp_engine_info {
    unsigned rank; /* of all */
    unsigned n_ranks;
    char gpu[96];   /* model of the GPU, or of the CPU */
    char what[320]; /* one line, as that of struct stp_device_info */
    bool has_data;  /* false in virtual time: nothing is computed, and
                       download() gives zeros */
    bool is_late;   /* computes in synchronise(), which may take long, and
                       where nobody can stop it; all ranks begin it together */
    bool rotates;   /* a collective's data should lie elsewhere than those of
                       the collective before, out of the caches */
    bool has_tf32;  /* whether stp_product.tf32 means anything */
    bool fuses;     /* bias and ReLU are in the kernel of the product */
};

/* What follows a GEMM, before C is rounded and stored. */
enum stp_epilogue {
    STP_EPILOGUE_NONE,
    STP_EPILOGUE_BIAS,      /* + bias[j] to column j */
    STP_EPILOGUE_BIAS_RELU, /* max(0, that); NaN stays NaN */
    STP_N_EPILOGUES,
};

/*
 * C = epilogue(op(A) op(B) + beta C).  op(A) is m x k, op(B) k x n, C m x n;
 * A is stored as k x m if a_transposed, B as n x k if b_transposed.  A, B and
 * bias are of 'type'; C is of 'type' or, to add up gradients, of F32.
 */
struct stp_product {
    unsigned m, n, k;
    bool a_transposed, b_transposed;
    bool tf32; /* F32 may be rounded to TF32 for the product */
    int type;
    int type_c;
    double beta; /* 0 (C is not read) or 1 */
    enum stp_epilogue epilogue;
    const void *a, *b;
    void *c;
    const void *bias; /* n; NULL without one */
};

/*
 * Softmax and cross-entropy of 'n' rows of 'classes' logits, with the mean over
 * a batch that is larger: for each row with label y and probabilities p,
 *
 *     *loss    += loss_scale * -log p[y]     (F64, not NULL)
 *     *correct += 1 if the first largest logit is at y   (F64; or NULL)
 *     gradient  = gradient_scale * (p - [j = y])          (type; or NULL)
 *
 * with the largest logit subtracted first.  The sums run in any order.  Both
 * scales are 1 / (global batch) for its mean, the latter times what gradients
 * are scaled by.
 */
struct stp_cross_entropy {
    unsigned n;
    unsigned classes;
    int type;             /* of logits and gradient */
    const void *logits;   /* n x classes */
    const int32_t *label; /* n, each from 0 to classes - 1 */
    double loss_scale;
    double gradient_scale;
    double *loss;
    double *correct;
    void *gradient; /* may be 'logits' */
};

/*
 * w -= rate * scale * gradient for 'n' elements, and a copy of w in another
 * type.  Nothing of it happens if *skip (F32) is not 0.
 */
struct stp_update {
    uint64_t n;
    int type; /* of w: F32 or F64 */
    int gradient_type;
    int copy_type;
    void *w;
    const void *gradient;
    void *copy; /* or NULL */
    double rate;
    double scale;      /* undoes that of the loss */
    const float *skip; /* or NULL */
};

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
    /* "cuda", "cpu" or "mock".  Static storage. */
    const char *name;

    void (*info)(const void *self, struct stp_engine_info *info_ret);

    /* ---- at once, with nothing noted that is yet to run ---- */

    /*
     * 'nbytes' of zeros.  STP_ERR_NOMEM says for 'what', such as "gradients",
     * how much was asked and how much there is.  Freed by release().
     */
    enum stp_status (*alloc)(void *self, uint64_t nbytes, const char *what,
                             void **address_ret, struct stp_error *err);

    /* Frees all that alloc() gave, so that the next run begins with all memory;
     * close() does, too. */
    void (*release)(void *self);

    enum stp_status (*upload)(void *self, void *to, const void *from,
                              uint64_t nbytes, struct stp_error *err);
    enum stp_status (*download)(void *self, void *to, const void *from,
                                uint64_t nbytes, struct stp_error *err);

    /* stp_world_agree() of all ranks: how something went that each did by
     * itself. */
    enum stp_status (*agree)(void *self, enum stp_status status,
                             struct stp_error *err);

    /*
     * Collectives from now on run as this arm says, in the same communicator;
     * AUTO to begin with.  The arm is the process's: no rank of it may still
     * run what came before.  STP_ERR_RANGE for the plugin arm if the engine was
     * opened without a plugin, and for a forced one if nothing can be forced.
     */
    enum stp_status (*select_arm)(void *self, const struct stp_arm *arm,
                                  struct stp_error *err);

    /* ---- work ---- */

    /* Every byte becomes 0. */
    enum stp_status (*zero)(void *self, unsigned stream, void *address,
                            uint64_t nbytes, struct stp_error *err);

    enum stp_status (*product)(void *self, unsigned stream,
                               const struct stp_product *product,
                               struct stp_error *err);

    enum stp_status (*cross_entropy)(void *self, unsigned stream,
                                     const struct stp_cross_entropy *what,
                                     struct stp_error *err);

    /* gradient[i] = 0 where output[i] is 0 or less, for 'n' elements: back
     * through a ReLU whose output is known. */
    enum stp_status (*relu_backward)(void *self, unsigned stream, int type,
                                     uint64_t n, const void *output,
                                     void *gradient, struct stp_error *err);

    /* sum[j] = beta * sum[j] + the sum of column j of a 'rows' x 'columns'
     * matrix of 'type': the gradient of a bias.  sum is of 'sum_type', which is
     * 'type' or F32; beta is 0 or 1. */
    enum stp_status (*column_sum)(void *self, unsigned stream, int type,
                                  int sum_type, unsigned rows, unsigned columns,
                                  double beta, const void *matrix, void *sum,
                                  struct stp_error *err);

    enum stp_status (*update)(void *self, unsigned stream,
                              const struct stp_update *update,
                              struct stp_error *err);

    /* *found (F32) = 1 if any of the 'n' elements is infinite or NaN, else it
     * stays as it is. */
    enum stp_status (*find_nonfinite)(void *self, unsigned stream, int type,
                                      uint64_t n, const void *data,
                                      float *found, struct stp_error *err);

    enum stp_status (*cast)(void *self, unsigned stream, uint64_t n,
                            int from_type, const void *from, int to_type,
                            void *to, struct stp_error *err);

    /* x *= factor */
    enum stp_status (*scale)(void *self, unsigned stream, int type, uint64_t n,
                             double factor, void *x, struct stp_error *err);

    /* Of all ranks: all-reduce, reduce-scatter, all-gather and broadcast, of
     * sums and maxima, as struct stp_transfer has them. */
    enum stp_status (*collective)(void *self, unsigned stream,
                                  const struct stp_transfer *transfer,
                                  struct stp_error *err);

    /* ---- order and time ---- */

    /* Event 'event', any number from 0, is when all that was noted before in
     * this stream is done; each once between two synchronise(). */
    enum stp_status (*record)(void *self, unsigned stream, unsigned event,
                              struct stp_error *err);

    /* What is noted later in this stream waits for an event recorded since the
     * last synchronise(). */
    enum stp_status (*wait)(void *self, unsigned stream, unsigned event,
                            struct stp_error *err);

    /* Returns when all that was noted is done on this rank.  STP_ERR_DEVICE
     * names a rank that died. */
    enum stp_status (*synchronise)(void *self, struct stp_error *err);

    /* Microseconds between two events recorded before the last synchronise(),
     * on this rank. */
    double (*elapsed_us)(const void *self, unsigned from, unsigned to);

    /* Microseconds since some moment in the past, by the host's clock; in
     * virtual time, by that of what ran so far. */
    double (*now_us)(const void *self);

    /* ---- tracing: all three NULL where nothing can be traced ---- */

    /* Traces what is noted from now on, with nothing noted that is yet to run.
     * STP_ERR_NOTHING says what is missing for it, STP_ERR_NOMEM. */
    enum stp_status (*trace_begin)(void *self, struct stp_error *err);

    /* Ends it after a synchronise(), and appends what ran on this rank since it
     * began; after a failure some of it.  'spans' is not sorted. */
    enum stp_status (*trace_end)(void *self, struct stp_spans *spans,
                                 struct stp_error *err);

    /* What is noted from now on is in this range (static storage) of a step,
     * within those that are open; NULL ends the innermost. */
    void (*range)(void *self, const char *name);

    /* ---- measuring, for device/ranks.c: NULL of an engine for training ----
     */

    /* The run that this rank is of, and a line on rank 'rank' of it, as struct
     * stp_device_ops has them. */
    void (*describe)(const void *self, struct stp_device_info *info_ret);
    void (*rank_line)(const void *self, unsigned rank, char *line, size_t size);

    /* As struct stp_device_ops has them; NULL: any size is as good as any
     * other, and a round needs nothing. */
    size_t (*sizes)(const void *self, int coll, uint64_t *sizes, size_t max);
    enum stp_status (*begin_round)(void *self, unsigned round,
                                   unsigned n_rounds, struct stp_error *err);

    /* STP_ERR_RANGE for a collective, GEMM or elementwise kernel that this rank
     * cannot run. */
    enum stp_status (*check)(void *self, const struct stp_work *note,
                             struct stp_error *err);

    /*
     * At once: at least 'nbytes' for measuring in this stream, which hold
     * numbers of 'type', and stay until close().  The same address unless it
     * was of fewer bytes.
     */
    enum stp_status (*room)(void *self, enum stp_room room, unsigned stream,
                            int type, uint64_t nbytes, void **address_ret,
                            struct stp_error *err);

    /* At once: makes ready for 'n_events' events, and for a product unless that
     * is NULL, so that the first one takes no longer.  Or NULL. */
    enum stp_status (*prepare)(void *self, unsigned n_events,
                               const struct stp_product *product,
                               struct stp_error *err);

    /* Before what is noted next: 'n' elements that this rank gives in a
     * collective, or that are wrong as what it gets.  No streams wait. */
    enum stp_status (*fill)(void *self, const struct stp_pattern *pattern,
                            bool poison, void *data, uint64_t n,
                            struct stp_error *err);

    /* At once: how many of 'n' elements are wrong as what this rank gets. */
    enum stp_status (*count_wrong)(void *self,
                                   const struct stp_pattern *pattern,
                                   const void *data, uint64_t n,
                                   uint64_t *n_wrong_ret,
                                   struct stp_error *err);

    /* As struct stp_device_ops has it, where nothing need run for it; else
     * NULL: then listen() and heard(), or NULL, are around a collective that
     * runs. */
    enum stp_status (*probe)(void *self, const struct stp_collective *what,
                             struct stp_device_run *run_ret,
                             struct stp_question *question_ret,
                             struct stp_error *err);
    void (*listen)(void *self);
    void (*heard)(void *self, struct stp_device_run *run_ret,
                  struct stp_question *question_ret);

    /* Collectives of a group, of one rank or several that one thread has; NULL:
     * they run one by one. */
    enum stp_status (*group)(void *self, bool begin, struct stp_error *err);

    /* y = x - y, of 'n' floats: as much work as their sum, but done twice it is
     * undone, so that data stay what they are however often it runs. */
    enum stp_status (*elementwise)(void *self, unsigned stream, const float *x,
                                   float *y, uint64_t n, struct stp_error *err);

    /* What is noted between the first two does not run but becomes a graph,
     * which launch() notes.  NULL: there are no graphs. */
    enum stp_status (*begin_capture)(void *self, struct stp_error *err);
    enum stp_status (*end_capture)(void *self, struct stp_error *err);
    enum stp_status (*launch)(void *self, struct stp_error *err);

    /* When an event was, in microseconds since some moment: the same for all
     * events of a run, of which 'first' was the first to be recorded. */
    enum stp_status (*event_us)(const void *self, unsigned first,
                                unsigned event, double *us_ret,
                                struct stp_error *err);

    /* How long the last synchronise() took from where all ranks began; NULL: as
     * now_us() counts. */
    double (*ran_us)(const void *self);

    /* As struct stp_device_ops has it; NULL: all is measured. */
    enum stp_source (*source)(const void *self);

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

struct stp_engine_options {
    const struct stp_world *world; /* outlives the engines */
    unsigned n_local;              /* ranks of this process; 0: 1 */
    unsigned time_limit_s; /* for one synchronise(); 0: none.  Not for what a
                              library does in a call: NCCL connects there */
    const char *plugin;    /* as NCCL_TUNER_PLUGIN, or NULL */
    bool measures;         /* for device/ranks.c, not for training */
    uint64_t max_bytes;    /* of the largest collective to be measured */
};

#endif /* STP_ENGINE_H */
