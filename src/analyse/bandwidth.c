#include "analyse/bandwidth.h"

#include "nccl_tuner_abi.h"

double stp_bus_factor(int coll, unsigned n_ranks)
{
    double share = (double)(n_ranks - 1) / n_ranks;

    switch (coll) {
    case ncclFuncAllReduce:
        return 2 * share;
    case ncclFuncAllGather:
    case ncclFuncReduceScatter:
        return share;
    default:
        return 1;
    }
}

double stp_algbw(uint64_t n_bytes, double us)
{
    return (double)n_bytes / us / 1e3;
}

double stp_busbw(int coll, unsigned n_ranks, uint64_t n_bytes, double us)
{
    return stp_algbw(n_bytes, us) * stp_bus_factor(coll, n_ranks);
}
