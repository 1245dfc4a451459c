/* constants.c - the default constants of each version's cost model */
#include "model/cost_model.h"

#include <string.h>

// clang-format off
const ncclTunerConstants_v7_t mock_default_constants = {
    .baseLatencies = {
        [NCCL_ALGO_TREE] = {6.8, 14.0, 8.4},
        [NCCL_ALGO_RING] = {6.6, 14.0, 8.4},
        [NCCL_ALGO_PAT] = {8.0, 8.0, 8.0},
    },
    .hwLatencies = {
        [NCCL_HW_NVLINK] = {
            [NCCL_ALGO_TREE] = {.6, 1.25, 4.0},
            [NCCL_ALGO_RING] = {.6, 1.9, 3.4},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [NCCL_ALGO_NVLS] = {0, 0, 25},
            [NCCL_ALGO_NVLS_TREE] = {0, 0, 25},
            [NCCL_ALGO_PAT] = {0, 0, 4.0},
        },
        [NCCL_HW_PCI] = {
            [NCCL_ALGO_TREE] = {1.0, 1.9, 4.0},
            [NCCL_ALGO_RING] = {1.0, 2.5, 5.7},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 3.7},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 2.8},
            [NCCL_ALGO_PAT] = {0, 0, 4.0},
        },
        [NCCL_HW_NET] = {
            [NCCL_ALGO_TREE] = {5.0, 8.5, 14},
            [NCCL_ALGO_RING] = {2.7, 4.0, 14.0},
            [NCCL_ALGO_COLLNET_DIRECT] = {0, 0, 31},
            [NCCL_ALGO_COLLNET_CHAIN] = {0, 0, 30},
            [NCCL_ALGO_NVLS] = {0, 0, 18},
            [NCCL_ALGO_NVLS_TREE] = {0, 0, 20.9},
            [NCCL_ALGO_PAT] = {0, 0, 14},
        },
    },
    /* of Volta, Ampere, Hopper and Blackwell */
    .llMaxBws = {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}},
    .perChMaxRingLL128Bws = {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}},
    .perChMaxTreeLL128Bws = {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}},
    .perChMaxTreeBws = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}},
    .perChMaxNVLSTreeBws = {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 43.8}},
};

/* The constants that differ from those of 2.28, with the first and the last
 * version that have them: 'n' doubles from the one with this index on. */
#define AT(field)        (offsetof(ncclTunerConstants_v7_t, field) / sizeof(double))
#define HW(hw, algo)     AT(hwLatencies[hw][algo][NCCL_PROTO_SIMPLE])
#define BLACKWELL(field) AT(field[NCCL_BLACKWELL_COMPCAP_IDX])
#define RUBIN(field)     AT(field[NCCL_RUBIN_COMPCAP_IDX])

static const struct {
    enum mock_release first;
    enum mock_release last;
    size_t at;
    int n;
    double values[NCCL_NUM_TUNING_SCALES];
} constants_differences[] = {
    {MOCK_2_21, MOCK_2_22, AT(baseLatencies[NCCL_ALGO_TREE][NCCL_PROTO_SIMPLE]), 1, {0}},
    {MOCK_2_21, MOCK_2_22, HW(NCCL_HW_NVLINK, NCCL_ALGO_TREE), 1, {28}},
    {MOCK_2_21, MOCK_2_22, HW(NCCL_HW_PCI, NCCL_ALGO_TREE), 1, {28}},
    {MOCK_2_21, MOCK_2_22, HW(NCCL_HW_NET, NCCL_ALGO_TREE), 1, {28}},
    {MOCK_2_21, MOCK_2_27, HW(NCCL_HW_NET, NCCL_ALGO_NVLS_TREE), 1, {14}},
    {MOCK_2_21, MOCK_2_27, HW(NCCL_HW_NET, NCCL_ALGO_PAT), 1, {0}},
    {MOCK_2_25, MOCK_2_27, BLACKWELL(perChMaxRingLL128Bws) + 1, 1, {73.4}},
    {MOCK_2_25, MOCK_2_27, BLACKWELL(perChMaxTreeLL128Bws), 3, {73.4, 73.4, 58}},
    {MOCK_2_25, MOCK_2_27, BLACKWELL(perChMaxTreeBws), 3, {77.4, 82.8, 72}},
    {MOCK_2_29, MOCK_2_32_6, BLACKWELL(perChMaxRingLL128Bws), 3, {40, 40, 40}},
    {MOCK_2_30, MOCK_2_32_6, BLACKWELL(perChMaxNVLSTreeBws) + 2, 1, {80}},
    {MOCK_2_32_6, MOCK_2_32_6, BLACKWELL(llMaxBws), 1, {282.4}},
    {MOCK_2_32_6, MOCK_2_32_6, BLACKWELL(perChMaxTreeLL128Bws) + 1, 1, {36.7}},
    {MOCK_2_32_6, MOCK_2_32_6, RUBIN(llMaxBws), 3, {2, .6, .46}},
    {MOCK_2_32_6, MOCK_2_32_6, RUBIN(perChMaxRingLL128Bws), 3, {21.6, 17, 14}},
    {MOCK_2_32_6, MOCK_2_32_6, RUBIN(perChMaxTreeLL128Bws), 3, {11.2, 11.91, 11.91}},
    {MOCK_2_32_6, MOCK_2_32_6, RUBIN(perChMaxTreeBws), 3, {-1, -1, -1}},
    {MOCK_2_32_6, MOCK_2_32_6, RUBIN(perChMaxNVLSTreeBws), 3, {-1, -1, -1}},
};
// clang-format on

void mock_release_constants(int release, ncclTunerConstants_v7_t *constants_ret)
{
    double *numbers = (double *)constants_ret;

    *constants_ret = mock_default_constants;
    for (size_t i = 0; i < MOCK_N_OF(constants_differences); i++)
        if ((int)constants_differences[i].first <= release &&
            release <= (int)constants_differences[i].last)
            memcpy(&numbers[constants_differences[i].at],
                   constants_differences[i].values,
                   (size_t)constants_differences[i].n * sizeof(double));
}
