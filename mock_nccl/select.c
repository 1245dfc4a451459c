#include "select.h"

bool mock_select(const mock_table table, int n_algos, float ceiling,
                 int *algo_ret, int *proto_ret)
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
    return found;
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
