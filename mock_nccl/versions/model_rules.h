/*
 * model_rules.h - the cost model and the channel assignment of each NCCL
 * version
 *
 * Read from src/graph/tuning.cc, and from updateCollCostTable() (2.21:
 * topoGetAlgoInfo()) and the scheduler in src/enqueue.cc.
 */
#ifndef MOCK_MODEL_RULES_H
#define MOCK_MODEL_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* A tuner constant, by its index among the doubles. */
struct mock_constant {
    size_t at;
    double value;
};

/* The share of the links' bandwidth that NVLS and NVLS_TREE reach. */
enum mock_nvls_model {
    MOCK_NVLS_SLOWEST, /* the bandwidth of the slower links */
    MOCK_NVLS_GATHERS, /* the same, but less for collectives without a reduction
                        */
    MOCK_NVLS_EFFICIENCY, /* a share by GPU, channels and collective */
};

/* The model of a version. */
struct mock_model_rules {
    /* hardware and settings */
    const struct mock_constant
        *constants; /* constants that differ from 2.28's */
    size_t n_constants;
    int newest_compcap;  /* NCCL_*_COMPCAP_IDX of the last row of constants */
    const int *ll128_on; /* compute capabilities on which LL128 is safe, 0 at
                            the end; NULL: from 70 on */
    bool pat;
    bool mixed_like_amd; /* CPUs of several vendors count as AMD's */
    bool ring_backup;    /* a setting that forbids all algorithms keeps rings */
    bool ring_keeps_protocols; /* a setting that forbids all protocols keeps
                                  rings */
    bool needs_collnet;  /* NCCL_ALGO takes effect only if it names more than
                            algorithms that need CollNet */
    bool nvls_heads;     /* with NVLS, CollNet has the heads of NVLS */
    bool heads_for_nvls; /* NVLS gathers between nodes if all GPUs are heads */
    bool chain_on_heads; /* CollNet Chain needs the heads of CollNet */

    /* bandwidths */
    enum mock_nvls_model nvls;
    double
        ring_ll128_alone; /* share that LL128 reaches with one rank per node */
    double pat_share;     /* share that PAT reaches */
    bool scales_nvls_gathers; /* NVLS gathers are scaled like reductions */
    bool
        direct_by_ranks; /* gathers by CollNet Direct are slower with more ranks
                            per node; else as fast as the network allows */
    int n_nvls_tree_corrections; /* number of powers of two from 64 B up for
                                    which NVLS_TREE is corrected as Tree is, on
                                    Blackwell with an x86 CPU */
    bool corrects_tiny; /* Tree below 64 B has the correction of 64 B */

    /* latencies */
    bool alone_like_tree; /* rings with one rank per node have the tree's
                             latency */
    bool crosses_twice; /* a ring's all-reduce crosses nodes twice per node, not
                           twice per node except one */
    bool pat_base_first; /* the base latency is the first term of the sum, which
                            changes the rounding */
    int batch; /* number of collectives that share a latency, except on rings */
    bool fp8_penalty; /* entries of long rings are multiplied by 1024 for fp8 */

    /* entries that are ruled out for a collective; 0 ranks: no limit */
    bool allgather_by_type; /* NVLS is ruled out by the type, which is always
                               int8 */
    bool nvls_gathers_one_node;
    int max_nvls_gather_ranks; /* per node */
    int max_collnet_ranks;     /* per node, for CollNet of any kind */
    int max_direct_ranks;      /* per node */
    int max_chain_ranks;       /* per node */

    /* channels */
    bool fine_cells; /* channels receive 16 bytes at a time, not min_traffic */
    bool weighs_ll;  /* the traffic of LL is multiplied by four */
    bool fills_channels;   /* all channels are used, even if one receives less
                              than min_traffic */
    bool accepts_negative; /* negative channel counts work; other versions
                              divide by 0 */
    size_t min_traffic;    /* bytes over the links that justify a channel */
};

extern const struct mock_model_rules mock_model_2_21;
extern const struct mock_model_rules mock_model_2_22;
extern const struct mock_model_rules mock_model_2_23;
extern const struct mock_model_rules mock_model_2_24;
extern const struct mock_model_rules mock_model_2_25;
extern const struct mock_model_rules mock_model_2_26;
extern const struct mock_model_rules mock_model_2_27;
extern const struct mock_model_rules mock_model_2_28;
extern const struct mock_model_rules mock_model_2_29;
extern const struct mock_model_rules mock_model_2_30;
extern const struct mock_model_rules mock_model_2_31;

#endif /* MOCK_MODEL_RULES_H */
