/* call.h - the collectives, GEMMs and smaller kernels that ranks run */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "core/dtype.h"
#include "core/status.h"

/* Groups of ranks, each rank in one: 'size' ranks that are 'stride' apart, as
 * {0,2} and {1,3} of four with 2 and 2.  Their product divides the number of
 * all ranks.  Size 0: all ranks are one group. */
struct stp_rank_groups {
    unsigned size;
    unsigned stride;
};

/* The number of a rank within its group, and that of the group. */
static inline unsigned stp_rank_in_group(const struct stp_rank_groups *groups,
                                         unsigned rank)
{
    return groups->size == 0 ? rank : rank / groups->stride % groups->size;
}
static inline unsigned
stp_rank_groups_color(const struct stp_rank_groups *groups, unsigned rank)
{
    return groups->size == 0
               ? 0
               : rank / (groups->size * groups->stride) * groups->stride +
                     rank % groups->stride;
}

/* One collective on every rank. */
struct stp_collective {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as a tuner counts them: a multiple of the type's size,
                         and of it times the ranks for allgather,
                         reducescatter */
    int type;         /* enum stp_type */
    int op;           /* enum stp_op; means nothing if none reduces */
    unsigned root;    /* rank; means nothing if there is none */
    bool in_place;
    struct stp_rank_groups groups; /* that run it, all at the same time; bytes
                                      and root are those of each */
};

/* The ranks of each group that runs it, of 'n_ranks' in all. */
static inline unsigned stp_collective_ranks(const struct stp_collective *c,
                                            unsigned n_ranks)
{
    return c->groups.size != 0 ? c->groups.size : n_ranks;
}

/* A collective as a rank sees it. */
struct stp_transfer {
    int coll;   /* ncclFunc_t */
    int type;   /* enum stp_type; of eight bits only if nothing is reduced */
    int op;     /* STP_OP_SUM, PROD, MAX or MIN */
    int root;   /* of broadcast and reduce */
    uint64_t n; /* elements, not 0: of the whole buffer; those a rank gives to
                   an allgather and gets from a reducescatter */
    const void *in;
    void *out; /* as NCCL has it, in place too: then it is 'in', for an
                  allgather begins 'in' within 'out', and for a reducescatter
                  'out' within 'in', in the place of this rank.  Bytes outside
                  the result may be overwritten: on all ranks of a reduce, and
                  as many bytes as 'in' has of a reducescatter out of place. */
    bool in_place;
    unsigned split; /* number of the engine's split() whose group runs it, from
                       1; 0: all ranks.  The root is a rank of the group */
};

/* STP_ERR_RANGE for groups that do not divide 'n_ranks'. */
enum stp_status stp_rank_groups_check(const struct stp_rank_groups *groups,
                                      unsigned n_ranks, struct stp_error *err);

/* STP_ERR_RANGE, and why, for no collective, root, datatype or groups of
 * 'n_ranks', and for sizes that are no multiple of an element of each rank, or
 * above 'max_bytes'. */
enum stp_status stp_collective_check(const struct stp_collective *c,
                                     unsigned n_ranks, uint64_t max_bytes,
                                     struct stp_error *err);

/* The part of 'rank' of 'n_ranks' in a collective, with buffers of c->n_bytes;
 * the split is the caller's to say. */
struct stp_transfer stp_collective_of_rank(const struct stp_collective *c,
                                           unsigned rank, unsigned n_ranks,
                                           char *send, char *recv);

/* How an iteration orders its compute and its collectives: bench/workload.h. */
enum stp_mode {
    STP_MODE_ALONE, /* collectives back to back: no iteration */
    STP_MODE_SEQUENTIAL,
    STP_MODE_OVERLAP,
    STP_MODE_FSDP,
    STP_MODE_TRACE,
    STP_N_MODES,
};

/* A GEMM: C of m x n is A of m x k times B of k x n. */
struct stp_gemm {
    unsigned m, n, k;
    int type; /* STP_TYPE_F32, F64, F16 or BF16; a type that a device
                 lacks is STP_ERR_RANGE */
};

/* Follows a GEMM, before C is rounded and stored. */
enum stp_epilogue {
    STP_EPILOGUE_NONE,
    STP_EPILOGUE_BIAS,      /* + bias[j] to column j */
    STP_EPILOGUE_BIAS_RELU, /* max(0, that); NaN stays NaN */
    STP_N_EPILOGUES,
};

/* C = epilogue(op(A) op(B) + beta C).  op(A) is m x k, op(B) k x n, C m x n;
 * A is stored as k x m if a_transposed, B as n x k if b_transposed.  C is of
 * the type of A and B or, to add up gradients, of F32. */
struct stp_product {
    struct stp_gemm gemm; /* its shape, and the type of A, B and bias */
    bool a_transposed, b_transposed;
    bool tf32; /* F32 may be rounded to TF32 for the product */
    int type_c;
    double beta; /* 0 (C is not read) or 1 */
    enum stp_epilogue epilogue;
    const void *a, *b;
    void *c;
    const void *bias; /* n; NULL without one */
};

/* STP_ERR_RANGE, and why, for an empty GEMM, and for types that no engine
 * multiplies or that do not go together. */
enum stp_status stp_product_check(const struct stp_product *product,
                                  struct stp_error *err);

enum stp_kernel_kind {
    STP_KERNEL_ZERO,          /* 'n' bytes of 'to' become 0 */
    STP_KERNEL_RELU_BACKWARD, /* to[i] = 0 where from[i] is 0 or less: back
                                 through a ReLU, 'from' its output and 'to' the
                                 gradient */
    STP_KERNEL_COLUMN_SUM,    /* to[j] = factor * to[j] + the sum of column j of
                                 'from', 'rows' x 'columns': the gradient of a
                                 bias.    'type_to' is 'type' or F32; factor is 0
                                 or 1
                               */
    STP_KERNEL_FIND_NONFINITE, /* *to (F32) = 1 if an element of 'from' is
                                  infinite or NaN, else it stays as it is */
    STP_KERNEL_CAST,           /* 'to', of 'type_to', becomes 'from' */
    STP_KERNEL_SCALE,          /* to *= factor, of 'type' */
    STP_KERNEL_SUBTRACT, /* to = from - to, of floats: as much work as their
                            sum, but done twice it is undone, so that data stay
                            the same however often it runs */
    STP_N_KERNELS,
};

/* A kernel over 'n' elements of 'type'; members that its kind does not name are
 * 0. */
struct stp_kernel {
    enum stp_kernel_kind kind;
    int type;
    int type_to;
    uint64_t n;
    unsigned rows, columns;
    double factor;
    const void *from;
    void *to;
};

/* Softmax and cross-entropy of 'n' rows of 'classes' logits, with the mean over
 * a batch that is larger: for each row with label y and probabilities p,
 *
 *     *loss    += loss_scale * -log p[y]     (F64, not NULL)
 *     *correct += 1 if the first largest logit is at y   (F64; or NULL)
 *     gradient  = gradient_scale * (p - [j = y])          (type; or NULL)
 *
 * with the largest logit subtracted first.  The sums run in any order.  Both
 * scales are 1 / (global batch) for its mean, the latter times the scale
 * of gradients. */
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

/* w -= rate * scale * gradient for 'n' elements, and a copy of w in another
 * type.  Nothing of it happens if *skip (F32) is not 0. */
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

/* "zero", "ReLU backward", ...: of traces and messages.  Static storage. */
const char *stp_kernel_name(enum stp_kernel_kind kind);

/* The ways in which ranks were divided into groups, by number, all zero to
 * begin with. */
enum { STP_MAX_SPLITS = 8 };

struct stp_splits {
    struct stp_rank_groups all[STP_MAX_SPLITS];
    unsigned n;
};

/* The number of these groups, from 1; 0 for all ranks in one, and for groups
 * that were not added. */
unsigned stp_splits_find(const struct stp_splits *splits,
                         const struct stp_rank_groups *groups);

/* Adds groups, which become number 'n'.  STP_ERR_RANGE if there is no room. */
enum stp_status stp_splits_add(struct stp_splits *splits,
                               const struct stp_rank_groups *groups,
                               struct stp_error *err);
