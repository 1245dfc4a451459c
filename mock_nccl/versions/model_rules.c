#include "versions/model_rules.h"

#include "nccl_tuner_abi.h"

/* ---- constants ---- */

#define AT(field)    (offsetof(ncclTunerConstants_v5_t, field) / sizeof(double))
#define HW(hw, algo) AT(hwLatencies[hw][algo][NCCL_PROTO_SIMPLE])
#define HOPPER       NCCL_HOPPER_COMPCAP_IDX
#define BLACKWELL    NCCL_BLACKWELL_COMPCAP_IDX

#define OLD_NVLS_TREE                                                          \
    {                                                                          \
        HW(NCCL_HW_NET, NCCL_ALGO_NVLS_TREE), 14                               \
    }

static const struct mock_constant constants_2_21[] = {
    OLD_NVLS_TREE,
    {AT(baseLatencies[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE]), 0},
    {HW(NCCL_HW_NVLINK, NCCL_ALGO_TREE), 28},
    {HW(NCCL_HW_PCI, NCCL_ALGO_TREE), 28},
    {HW(NCCL_HW_NET, NCCL_ALGO_TREE), 28},
};
static const struct mock_constant constants_2_23[] = {
    OLD_NVLS_TREE,
};
static const struct mock_constant constants_2_25[] = {
    OLD_NVLS_TREE,
    {AT(perChMaxRingLL128Bws[BLACKWELL][1]), 73.4},
    {AT(perChMaxTreeLL128Bws[BLACKWELL][0]), 73.4},
    {AT(perChMaxTreeLL128Bws[BLACKWELL][1]), 73.4},
    {AT(perChMaxTreeLL128Bws[BLACKWELL][2]), 58},
    {AT(perChMaxTreeBws[BLACKWELL][0]), 77.4},
    {AT(perChMaxTreeBws[BLACKWELL][1]), 82.8},
    {AT(perChMaxTreeBws[BLACKWELL][2]), 72},
};
#define CONSTANTS_2_29                                                         \
    {AT(perChMaxRingLL128Bws[BLACKWELL][0]), 40},                              \
        {AT(perChMaxRingLL128Bws[BLACKWELL][1]), 40},                          \
    {                                                                          \
        AT(perChMaxRingLL128Bws[BLACKWELL][2]), 40                             \
    }
static const struct mock_constant constants_2_29[] = {CONSTANTS_2_29};
static const struct mock_constant constants_2_30[] = {
    CONSTANTS_2_29,
    {AT(perChMaxNVLSTreeBws[BLACKWELL][2]), 80},
};
#define CONSTANTS(table)                                                       \
    .constants = (table), .n_constants = sizeof(table) / sizeof((table)[0])

static const int ll128_2_21[] = {70, 80, 90, 0};
static const int ll128_2_25[] = {70, 80, 90, 100, 120, 0};

/* Ranks of a node. */
enum { MAX_NVLS_RANKS = 32, MAX_COLLNET_RANKS = 8 };

enum { NVLS_TREE_CORRECTIONS = 24 };

/* ---- models ---- */

/* 2.21 and 2.22. */
#define MODEL_2_21                                                             \
    CONSTANTS(constants_2_21),                                                 \
        .newest_compcap = HOPPER, .ll128_on = ll128_2_21, .ring_backup = true, \
        .needs_collnet = true, .nvls = MOCK_NVLS_SLOWEST,                      \
        .ring_ll128_alone = .7, .scales_nvls_gathers = true,                   \
        .direct_by_ranks = true, .crosses_twice = true,                        \
        .nvls_gathers_one_node = true, .max_collnet_ranks = MAX_COLLNET_RANKS, \
        .fine_cells = true, .min_traffic = 512

const struct mock_model_rules mock_model_2_21 = {
    MODEL_2_21, .ring_keeps_protocols = true, .corrects_tiny = true,
    .batch = 9, .allgather_by_type = true,
};

const struct mock_model_rules mock_model_2_22 = {
    MODEL_2_21,
    .batch = 16,
    .accepts_negative = true,
};

/* 2.23 to 2.27. */
#define MODEL_2_23                                                             \
    .pat = true, .ring_ll128_alone = .92, .alone_like_tree = true,             \
    .pat_base_first = true, .batch = 10,                                       \
    .max_direct_ranks = MAX_COLLNET_RANKS, .accepts_negative = true,           \
    .min_traffic = 16 << 10

const struct mock_model_rules mock_model_2_23 = {
    MODEL_2_23,
    CONSTANTS(constants_2_23),
    .newest_compcap = HOPPER,
    .ll128_on = ll128_2_21,
    .ring_backup = true,
    .needs_collnet = true,
    .nvls = MOCK_NVLS_SLOWEST,
    .pat_share = .85,
    .direct_by_ranks = true,
    .nvls_gathers_one_node = true,
};

/* 2.24 to 2.26. */
#define MODEL_2_24                                                             \
    MODEL_2_23, .mixed_like_amd = true, .nvls = MOCK_NVLS_SLOWEST,             \
                .pat_share = .75, .direct_by_ranks = true,                     \
                .fp8_penalty = true, .nvls_gathers_one_node = true

const struct mock_model_rules mock_model_2_24 = {
    MODEL_2_24,
    CONSTANTS(constants_2_23),
    .newest_compcap = HOPPER,
    .ll128_on = ll128_2_21,
};

#define MODEL_2_25                                                             \
    MODEL_2_24, CONSTANTS(constants_2_25),                                     \
        .newest_compcap = BLACKWELL, .ll128_on = ll128_2_25,                   \
        .max_nvls_gather_ranks = MAX_NVLS_RANKS

const struct mock_model_rules mock_model_2_25 = {MODEL_2_25};

const struct mock_model_rules mock_model_2_26 = {
    MODEL_2_25,
    .weighs_ll = true,
};

const struct mock_model_rules mock_model_2_27 = {
    MODEL_2_23,
    CONSTANTS(constants_2_25),
    .newest_compcap = BLACKWELL,
    .mixed_like_amd = true,
    .heads_for_nvls = true,
    .nvls = MOCK_NVLS_GATHERS,
    .pat_share = .75,
    .fp8_penalty = true,
    .max_nvls_gather_ranks = MAX_NVLS_RANKS,
    .weighs_ll = true,
};

/* 2.28 and later. */
#define MODEL_2_28                                                             \
    .newest_compcap = BLACKWELL, .pat = true, .mixed_like_amd = true,          \
    .nvls_heads = true, .heads_for_nvls = true, .nvls = MOCK_NVLS_EFFICIENCY,  \
    .ring_ll128_alone = .92, .pat_share = .75, .alone_like_tree = true,        \
    .max_nvls_gather_ranks = MAX_NVLS_RANKS,                                   \
    .max_direct_ranks = MAX_COLLNET_RANKS,                                     \
    .max_chain_ranks = MAX_COLLNET_RANKS, .weighs_ll = true

const struct mock_model_rules mock_model_2_28 = {
    MODEL_2_28,
    .batch = 10,
    .fp8_penalty = true,
    .accepts_negative = true,
    .min_traffic = 16 << 10,
};

/* 2.29 and later. */
#define MODEL_2_29                                                             \
    MODEL_2_28, .n_nvls_tree_corrections = NVLS_TREE_CORRECTIONS,              \
                .fills_channels = true, .min_traffic = 32 << 10

const struct mock_model_rules mock_model_2_29 = {
    MODEL_2_29,
    CONSTANTS(constants_2_29),
    .batch = 10,
    .fp8_penalty = true,
};

#define MODEL_2_30                                                             \
    MODEL_2_29, CONSTANTS(constants_2_30), .batch = 8, .chain_on_heads = true

const struct mock_model_rules mock_model_2_30 = {
    MODEL_2_30,
    .fp8_penalty = true,
};

const struct mock_model_rules mock_model_2_31 = {MODEL_2_30};
