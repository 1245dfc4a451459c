#include "model/select.h"

#include <stddef.h>

bool mock_select_first(const mock_table table, int n_algos, float ceiling,
                       int *algo_ret, int *proto_ret, float *time_ret)
{
    bool found = false;

    for (int a = 0; a < n_algos; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            if (table[a][p] >= 0 && table[a][p] < ceiling) {
                ceiling = table[a][p];
                *algo_ret = a;
                *proto_ret = p;
                found = true;
            }
    if (found && time_ret != NULL)
        *time_ret = ceiling;
    return found;
}

bool mock_select(const struct mock_choice_rules *rules, int n_algos,
                 struct mock_outcome *outcome, float *time)
{
    outcome->algo = NCCL_ALGO_UNDEF;
    outcome->proto = NCCL_PROTO_UNDEF;
    *time = rules->ceiling;
    if (rules->selection != MOCK_SELECT_VALID)
        return mock_select_first(outcome->cost_after, n_algos, rules->ceiling,
                                 &outcome->algo, &outcome->proto, time);
    /* from 2.31 on: the last smallest entry, below zero or not, that NCCL
     * itself supports */
    for (int a = n_algos - 1; a >= 0; a--)
        for (int p = NCCL_NUM_PROTOCOLS - 1; p >= 0; p--)
            if (outcome->cost[a][p] > 0 && outcome->cost_after[a][p] < *time) {
                *time = outcome->cost_after[a][p];
                outcome->algo = a;
                outcome->proto = p;
            }
    return outcome->algo != NCCL_ALGO_UNDEF;
}

bool mock_kernel_exists(int coll, int algo, int proto)
{
    if (proto != NCCL_PROTO_SIMPLE && algo != NCCL_ALGO_RING &&
        algo != NCCL_ALGO_TREE)
        return false;
    switch (coll) {
    case ncclFuncAllReduce:
        return algo != NCCL_ALGO_PAT;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return algo == NCCL_ALGO_RING || algo == NCCL_ALGO_COLLNET_DIRECT ||
               algo == NCCL_ALGO_NVLS || algo == NCCL_ALGO_PAT;
    default:
        return algo == NCCL_ALGO_RING;
    }
}
