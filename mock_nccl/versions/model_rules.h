/*
 * model_rules.h - how each version of NCCL predicts times, and what it gives
 * out channels by
 *
 * Read from src/graph/tuning.cc, and from updateCollCostTable() (2.21:
 * topoGetAlgoInfo()) and the scheduler in src/enqueue.cc.
 */
#ifndef MOCK_MODEL_RULES_H
#define MOCK_MODEL_RULES_H

#include <stdbool.h>
#include <stddef.h>

/* One number of the tuner constants, by its place among the doubles. */
struct mock_constant {
    size_t at;
    double value;
};

/* What NVLS and NVLS_TREE reach of the links' bandwidth. */
enum mock_nvls_model {
    MOCK_NVLS_SLOWEST, /* that of the slower links */
    MOCK_NVLS_GATHERS, /* the same, but less of it where nothing is reduced */
    MOCK_NVLS_EFFICIENCY, /* a share by GPU, channels and collective */
};

/* A version's model. */
struct mock_model_rules {
    /* what there is */
    const struct mock_constant *constants; /* that differ from 2.28's */
    size_t n_constants;
    int newest_compcap;  /* NCCL_*_COMPCAP_IDX of the last row of constants */
    const int *ll128_on; /* compute capabilities on which LL128 is safe, 0 at
                            the end; NULL: from 70 on */
    bool pat;
    bool mixed_like_amd; /* CPUs of several vendors */
    bool ring_backup;    /* what forbids all algorithms does not forbid rings */
    bool ring_keeps_protocols; /* nor does what forbids protocols */
    bool needs_collnet;  /* NCCL_ALGO counts only if it names more than what
                            there is not without CollNet */
    bool nvls_heads;     /* with NVLS the heads of CollNet are those of NVLS */
    bool heads_for_nvls; /* NVLS gathers between nodes if all GPUs are heads */
    bool chain_on_heads; /* CollNet Chain needs the heads of CollNet */

    /* bandwidths */
    enum mock_nvls_model nvls;
    double ring_ll128_alone;  /* what LL128 reaches with one rank a node */
    double pat_share;         /* what PAT reaches */
    bool scales_nvls_gathers; /* as if they reduced */
    bool direct_by_ranks;     /* gathers by CollNet Direct: less with more ranks
                                 a node; else as the network allows */
    int n_nvls_tree_corrections; /* powers of two from 64 B up for which
                                    NVLS_TREE is corrected as Tree is, on
                                    Blackwell behind an x86 CPU */
    bool corrects_tiny;          /* Tree below 64 B as at 64 B */

    /* latencies */
    bool alone_like_tree; /* one rank a node waits as long as in a tree */
    bool crosses_twice;   /* a ring's all-reduce crosses to another node twice
                             for each, not twice for each but one */
    bool pat_base_first;  /* in the sum, which rounds differently */
    int batch;            /* collectives that share a latency off rings */
    bool fp8_penalty;     /* long rings times 1024 for fp8 */

    /* what is ruled out for a collective; 0 ranks: no limit */
    bool allgather_by_type; /* NVLS, by the type, which is always int8 */
    bool nvls_gathers_one_node;
    int max_nvls_gather_ranks; /* of a node */
    int max_collnet_ranks;     /* of a node, for any CollNet */
    int max_direct_ranks;      /* of a node */
    int max_chain_ranks;       /* of a node */

    /* channels */
    bool fine_cells;     /* channels get 16 bytes at a time, not min_traffic */
    bool weighs_ll;      /* LL's traffic counts four times */
    bool fills_channels; /* even if one gets less than min_traffic */
    bool accepts_negative; /* channel counts; others divide by 0 */
    size_t min_traffic;    /* bytes over the links that are worth a channel */
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
