/* cost_model.h - NCCL's prediction of a collective's duration */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "mock_nccl.h"
#include "model/graphs.h"
#include "versions/versions.h"

/* ---- the algorithms and protocols that NCCL_ALGO and NCCL_PROTO allow ---- */

enum mock_use {
    MOCK_USE_NO,
    MOCK_USE_YES,     /* for LL128 also where NCCL considers it unsafe */
    MOCK_USE_IF_SAFE, /* for LL128 without a setting of the user */
};

struct mock_user_choice {
    enum mock_use algo[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_ALGORITHMS];
    enum mock_use proto[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_PROTOCOLS];

    /* CollNet is in use: the user has enabled it, the machine has graphs for it
     * and several nodes, and the network reduces and gathers. */
    bool collnet;

    /* NCCL_ALGO rules symmetric kernels out */
    bool no_symmetric[NCCL_NUM_TUNED_FUNCS];

    struct mock_limits limits;
    const char *variables[MOCK_N_VARIABLES];
};

/* The number that NCCL reads from a variable: 'unset' if it has no value, or
 * one out of range. */
long long mock_variable_number(const char *value, long long unset);

/* Parses the values of the two variables, NULL for unset, as NCCL does from
 * 2.24 on:
 *
 *   value:      entry[;entry...]
 *   entry:      [collective:]list
 *   list:       [^]word[,word...]    '^' allows all but these
 *
 * Only the first entry can omit the collective; it then applies to all. If
 * several entries name the same collective, the last one applies. Case does not
 * matter, but spaces do; separators may be doubled. An empty value and an empty
 * list of exceptions differ: "" has no effect, "^" allows everything, LL128
 * included.
 *
 * From 2.31 on a collective has the choice of all that it would have without
 * either variable, until a list of either has a word for it.  Then NCCL_ALGO,
 * unless empty, leaves it no more algorithms than its own list says: none, if
 * only NCCL_PROTO names the collective.
 *
 * Before 2.24 a value is one list for all collectives, in which NCCL skips
 * unknown words, PAT before 2.23 among them; an empty value is an empty list,
 * which allows nothing.
 *
 * On failure (ncclInvalidUsage) *choice_ret is untouched and the error names
 * the variable and the word. */
ncclResult_t mock_user_choice_parse(const struct mock_version *version,
                                    const char *algo, const char *proto,
                                    struct mock_user_choice *choice_ret);

/* ---- the model ---- */

/* The cost model of a communicator, and the input of NCCL's channel counts. */
struct mock_model {
    const struct mock_model_rules *rules;
    int n_ranks;
    int n_nodes;
    int compute_capability;
    bool is_x86; /* the CPU is an x86 */
    bool is_arm;
    bool all_nvlink; /* one node, whose GPUs are all joined by NVLink, or are
                        one that ranks share */
    bool ring_leaves_gpu; /* rings have links between GPUs: ranks share none */
    bool no_symmetric[NCCL_NUM_TUNED_FUNCS]; /* see above */
    int n_channels;
    int n_nvls_channels;
    int min_ctas; /* of the communicator: the blocks that symmetric kernels */
    int max_ctas; /* may have */
    float nvls_network;  /* GB/s between nodes of an NVLS channel */
    int n_nvls_heads;    /* number of GPUs that are heads of NVLS channels */
    int n_collnet_heads; /* number of GPUs that are heads of CollNet Direct
                            channels */
    bool collnet;        /* see above */
    int buffers[NCCL_NUM_PROTOCOLS]; /* bytes of a channel's */
    size_t nvls_chunk;               /* see channels.h */
    size_t nvls_tree_chunk;
    float latency[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_ALGORITHMS]
                 [NCCL_NUM_PROTOCOLS]; /* us */
    float bandwidth[NCCL_NUM_TUNED_FUNCS][NCCL_NUM_ALGORITHMS]
                   [NCCL_NUM_PROTOCOLS]; /* GB/s; 0: ruled out */
    float ring_backup[NCCL_NUM_TUNED_FUNCS]
                     [NCCL_NUM_PROTOCOLS]; /* bandwidth of rings that the user
                                              has forbidden; 0 from 2.24 on */
    int max_threads[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    int thread_threshold[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
};

/* The default constants of NCCL 2.28, which the init of a v5 tuner can edit. */
extern const ncclTunerConstants_v7_t mock_default_constants;

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v7_t *constants,
                      const struct mock_user_choice *choice);

/* Whether NVLS and CollNet have the collective, which 2.21 tells a tuner. */
bool mock_model_nvls(const struct mock_model *model,
                     const struct mock_call *call);
bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_call *call);

/* Like mock_model_table(), but for rings that the user has forbidden; all other
 * entries are ruled out. */
void mock_model_backup(const struct mock_model *model,
                       const struct mock_call *call, mock_table table);

/* NCCL's cost table of a call whose n_pipe_ops is set: microseconds, below 0
 * for entries that NCCL has ruled out. */
void mock_model_table(const struct mock_model *model,
                      const struct mock_call *call, mock_table table);

/* ---- the entry of a cost table that NCCL selects ---- */

/* Selects the first smallest entry that is not below zero and is below
 * 'ceiling', among NCCL's 'n_algos' first algorithms. *time_ret, unless NULL,
 * receives that entry. Returns false and touches nothing if there is none. */
bool mock_select_first(const mock_table table, int n_algos, float ceiling,
                       int *algo_ret, int *proto_ret, float *time_ret);

/* Selects an entry of 'cost_after' by a version's rule; *time receives it.
 * False, with algorithm and protocol UNDEF, if there is none. */
bool mock_select(const struct mock_choice_rules *rules, int n_algos,
                 struct mock_outcome *outcome, float *time);

/* Whether NCCL has a kernel for the triple on any machine. */
bool mock_kernel_exists(int coll, int algo, int proto);
