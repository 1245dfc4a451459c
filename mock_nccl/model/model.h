/*
 * model.h - NCCL's cost model of one communicator, as mock_model_build() fills
 * it (cost_model.h)
 */
#ifndef MOCK_MODEL_H
#define MOCK_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "nccl_tuner_abi.h"
#include "versions/model_rules.h"

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

#endif /* MOCK_MODEL_H */
