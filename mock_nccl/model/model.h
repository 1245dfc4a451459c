/*
 * model.h - NCCL's cost model of one communicator, filled by mock_model_build()
 * (cost_model.h)
 */
#ifndef MOCK_MODEL_H
#define MOCK_MODEL_H

#include <stdbool.h>
#include <stddef.h>

#include "nccl_tuner_abi.h"
#include "versions/versions.h"

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
    /* NCCL_ALGO rules symmetric kernels out (from 2.31 on) */
    bool no_symmetric[NCCL_NUM_TUNED_FUNCS];
    int n_channels;
    int n_nvls_channels;
    float nvls_network;  /* GB/s between nodes of an NVLS channel */
    int n_nvls_heads;    /* number of GPUs that are heads of NVLS channels */
    int n_collnet_heads; /* number of GPUs that are heads of CollNet Direct
                            channels */
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
