/* policy.h - a tuning policy: an ordered list of rules read from CSV, and the
 * form in which one communicator looks them up
 *
 * A rule says "for this collective, these message sizes and this kind of
 * communicator, use this algorithm, protocol and channel count".  The first
 * rule that matches and whose pair NCCL has not ruled out wins.
 *
 * steptune-policy(5), src/cli/man/steptune-policy.5, defines the format.  A
 * line that does not parse refuses the whole file with its line and column: no
 * line is ever guessed at or dropped. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/status.h"

enum {
    STP_MAX_CHANNELS = 64,    /* NCCL's MAXCHANNELS */
    STP_MAX_LINE = 4096,      /* bytes in a line, without the line end */
    STP_MAX_RULES = 1000000,  /* rules in a policy */
    STP_MAX_FILE = 256 << 20, /* bytes in a policy file */
    STP_MIN_CHUNK = 4 << 10,  /* NCCL rounds a chunk down to a grain; less */
    STP_MAX_CHUNK = 16 << 20, /* than one grain would hang it */
};

/* Both ends included. */
struct stp_range {
    uint64_t min;
    uint64_t max; /* UINT64_MAX: no upper end */
};

static inline bool stp_range_has(const struct stp_range *range, uint64_t value)
{
    return range->min <= value && value <= range->max;
}

/* One line of a policy file. Members that only other kinds of policy have are
 * at their defaults. */
struct stp_rule {
    int coll;       /* ncclFunc_t */
    int algo;       /* NCCL_ALGO_* */
    int proto;      /* NCCL_PROTO_* */
    int n_channels; /* 1 to 64; 0: NCCL's own count */
    int memory;     /* enum stp_memory, of a memory or stage policy */
    int min_ctas;   /* likewise: 1 to 64; 0: NCCL's own count */
    struct stp_range bytes;
    struct stp_range bytes_per_rank;
    struct stp_range nodes; /* of the communicator; from 1 */
    struct stp_range ranks;
    int n_pipe_ops;       /* from 1; -1: any */
    int reg_buff;         /* 0 or 1; -1: any */
    int overlap;          /* of both of these: 0 or 1; -1: any */
    int graph;            /* of a stage policy: 0 or 1; -1: any */
    uint32_t chunk_bytes; /* 0: NCCL's own */
    const char *gpu;      /* NULL: any.  Owned by the policy. */
    unsigned line;        /* where it stands in the file, from 1 */
};

/* Whether a rule can name a GPU of that name of 'len' bytes. */
bool stp_gpu_is_plain(const char *gpu, size_t len);

struct stp_policy; /* opaque; made by stp_policy_parse() */

/* Each has columns of its own. */
enum stp_policy_kind {
    STP_POLICY_OF_ARMS,   /* for tuners */
    STP_POLICY_OF_MEMORY, /* for applications: what to register */
    STP_POLICY_OF_STAGE,  /* for the staging library */
    STP_N_POLICY_KINDS,
};

/* Reads a policy of that kind from the 'len' bytes of CSV at 'csv', which need
 * not end in NUL and is not kept.  No rules at all is legal.
 *
 * Returns STP_OK and a policy in *policy_ret, to be freed with
 * stp_policy_free(); or STP_ERR_SYNTAX, STP_ERR_LIMIT or STP_ERR_NOMEM, with
 * *policy_ret untouched and the place and reason in *err (NULL is allowed).
 * The text names the offending word and what was expected.
 *
 * Safe to call from several threads at once. */
enum stp_status stp_policy_parse(enum stp_policy_kind kind, const char *csv,
                                 size_t len, struct stp_policy **policy_ret,
                                 struct stp_error *err);

/* Like stp_policy_parse(), but reads the file at 'path'; STP_ERR_IO, without a
 * line, if it cannot be read. */
enum stp_status stp_policy_load(enum stp_policy_kind kind, const char *path,
                                struct stp_policy **policy_ret,
                                struct stp_error *err);

/* Frees a policy.  NULL is allowed and does nothing. */
void stp_policy_free(struct stp_policy *policy);

/* The number of rules, and rule 'i' below that number, in file order.  The rule
 * lives as long as the policy. */
size_t stp_policy_size(const struct stp_policy *policy);
const struct stp_rule *stp_policy_rule(const struct stp_policy *policy,
                                       size_t i);

enum stp_policy_kind stp_policy_get_kind(const struct stp_policy *policy);

/* Whether the policy keeps results as they are under NCCL's own choice, to the
 * bit: it has the line "# bits: same", a comment that has a meaning. */
bool stp_policy_same_bits(const struct stp_policy *policy);

/* A hash of what the rules say, and of whether they keep the same bits.  Equal
 * for files that differ only in other comments, spacing, header and spelling;
 * two ranks whose hashes differ would disagree.  Never 0. */
uint64_t stp_policy_hash(const struct stp_policy *policy);

/* ---- lookup ---- */

/* The communicator that a policy is compiled for. */
struct stp_shape {
    size_t n_ranks;  /* >= 1 */
    size_t n_nodes;  /* >= 1 */
    const char *gpu; /* model, or NULL if unknown: rules that name one do not
                        match then */
};

/* A question to a policy. */
struct stp_query {
    int coll;         /* ncclFunc_t */
    uint64_t n_bytes; /* as NCCL counts them; 0 is legal */
    int n_pipe_ops;   /* >= 1 */
    int reg_buff;     /* 0 or 1; may differ from rank to rank */
};

/* NCCL's cost table, read only: float[n_algo][n_proto] in microseconds. */
struct stp_cost_view {
    const float *cost;
    int n_algo;
    int n_proto;
};

/* A policy's answer. */
struct stp_choice {
    int algo;             /* NCCL_ALGO_* */
    int proto;            /* NCCL_PROTO_* */
    int n_channels;       /* 1 to 64; 0: leave NCCL's own count alone */
    uint32_t chunk_bytes; /* 0: leave NCCL's own chunk size alone */
    unsigned line;        /* of the rule that decided */
};

struct stp_compiled; /* opaque; made by stp_policy_compile() */

/* Sorts the rules of arms that can match '*shape' into disjoint ranges of
 * message sizes, so that a lookup takes the same time for ten rules as for
 * 100,000. Nothing of 'policy' or 'shape' is kept.
 *
 * Returns STP_OK and *compiled_ret, to be freed with stp_compiled_free(); or,
 * with *compiled_ret untouched, STP_ERR_NOMEM, or STP_ERR_LIMIT if rules that
 * differ only in numPipeOps overlap so much that the ranges would need more
 * than 2^22 entries (or 2^27, counting those that can never win). */
enum stp_status stp_policy_compile(const struct stp_policy *policy,
                                   const struct stp_shape *shape,
                                   struct stp_compiled **compiled_ret,
                                   struct stp_error *err);

/* Frees.  NULL is allowed and does nothing. */
void stp_compiled_free(struct stp_compiled *compiled);

/* A hash, never 0, of what decides: equal for two only if they answer every
 * query alike, whatever the files that they were compiled from.  Lines do not
 * count. */
uint64_t stp_compiled_hash(const struct stp_compiled *compiled);

/* The line of the first rule that can win and asks regBuff; 0: none. */
unsigned stp_compiled_reg_buff_line(const struct stp_compiled *compiled);

/* The number of rules that can win for the communicator: those that match its
 * nodes, ranks and GPU and whose pair NCCL has a kernel for. */
size_t stp_compiled_size(const struct stp_compiled *compiled);

/* Finds the first rule, in file order, that matches '*query' and whose pair
 * '*view' allows: inside the table and at least 0.  Fills *choice_ret and
 * returns true, or returns false and leaves it untouched.
 *
 * Allocates nothing, takes no lock: any number of threads may ask at once. */
bool stp_compiled_lookup(const struct stp_compiled *compiled,
                         const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice_ret);

/* The first size above 'n_bytes' at which the answer to some query of this
 * collective may change, or UINT64_MAX if there is none.  Going from 0 to the
 * end by this visits every range. */
uint64_t stp_compiled_next_break(const struct stp_compiled *compiled, int coll,
                                 uint64_t n_bytes);
