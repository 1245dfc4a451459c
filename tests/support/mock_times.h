// Queries of a machine's times.
#pragma once

#include "support/mock_test.h"

namespace mock_test
{

constexpr size_t kMiB = 1 << 20;

inline mock_run RingOf(size_t n_bytes, int proto, int n_channels = 0)
{
    return {ncclFuncAllReduce, n_bytes, NCCL_ALGO_RING, proto, n_channels};
}
inline mock_run Ll(size_t n_bytes, int n_channels = 0)
{
    return RingOf(n_bytes, NCCL_PROTO_LL, n_channels);
}
inline mock_run Simple(size_t n_bytes, int n_channels = 0)
{
    return RingOf(n_bytes, NCCL_PROTO_SIMPLE, n_channels);
}

inline mock_time Mean(const Machine &machine, const mock_run &run)
{
    mock_time time{-1, MOCK_TIME_MODELLED, false, ""};
    EXPECT_EQ(ncclSuccess, mock_machine_mean_time(machine.get(), &run, &time))
        << mock_last_error();
    return time;
}

inline mock_time At(const Machine &machine, const mock_run &run, double round,
                    double iteration = .5)
{
    mock_time time{-1, MOCK_TIME_MODELLED, false, ""};
    EXPECT_EQ(ncclSuccess,
              mock_machine_time(machine.get(), &run, round, iteration, &time))
        << mock_last_error();
    return time;
}

} // namespace mock_test
