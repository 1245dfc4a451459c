/*
 * cost_model.h - NCCL's own prediction of how long a collective takes
 */
#ifndef MOCK_COST_MODEL_H
#define MOCK_COST_MODEL_H

#include <stdbool.h>

#include "mock_nccl.h"
#include "model/graphs.h"
#include "model/user_choice.h"
#include "versions/versions.h"

/* A communicator's model, and what NCCL derives channel counts from. */
struct mock_model {
    const struct mock_model_rules *rules;
    int n_ranks;
    int n_nodes;
    int compute_capability;
    bool is_x86;     /* the CPU */
    bool all_nvlink; /* one node, all GPUs joined by it */
    int n_channels;
    int n_nvls_channels;
    int n_nvls_heads;    /* GPUs that head an NVLS channel */
    int n_collnet_heads; /* GPUs that head a channel of CollNet Direct */
    bool collnet;        /* see user_choice.h */
    size_t nvls_chunk;   /* see chunk.h */
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

/* What NCCL 2.28 starts from, and a v5 tuner's init may edit. */
extern const ncclTunerConstants_v5_t mock_default_constants;

/* What a version starts from. */
void mock_model_constants(const struct mock_model_rules *rules,
                          ncclTunerConstants_v5_t *constants_ret);

void mock_model_build(struct mock_model *model,
                      const struct mock_machine_info *info,
                      const struct mock_graphs *graphs,
                      const struct mock_model_rules *rules,
                      const ncclTunerConstants_v5_t *constants,
                      const struct mock_user_choice *choice);

/* What a table is asked for. */
struct mock_question {
    int coll;
    size_t n_bytes;
    int n_pipe_ops;
    bool no_nvls;
    bool no_pat;
    bool fp8;
    bool no_collnet;
    bool plain_only; /* neither NVLS nor CollNet */
};

/* What 2.21 tells a tuner: whether NVLS and CollNet can do it. */
bool mock_model_nvls(const struct mock_model *model,
                     const struct mock_question *question);
bool mock_model_collnet(const struct mock_model *model,
                        const struct mock_question *question);

/* Like mock_model_table(), but what rings would cost that the user has
 * forbidden; all else is ruled out. */
void mock_model_backup(const struct mock_model *model,
                       const struct mock_question *question, mock_table table);

/* NCCL's table: microseconds, below 0 where NCCL has ruled an entry out. */
void mock_model_table(const struct mock_model *model,
                      const struct mock_question *question, mock_table table);

#endif /* MOCK_COST_MODEL_H */
