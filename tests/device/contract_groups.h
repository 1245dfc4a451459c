// The contract of device/device.h on groups of ranks, as tests of any
// transport.
#pragma once

#include "device/contract_fixtures.h"

// Tensor- and data-parallel groups: {0,1} {2,3}, {0,2} {1,3}, each rank alone,
// and all ranks.  The data of each group are others.
TEST_P(DeviceContract, RunsCollectivesInGroupsOfRanks)
{
    const unsigned n = info_.n_ranks;

    for (unsigned size = 1; size <= n; size++)
        for (unsigned stride = 1; n % size == 0 && stride <= n / size; stride++)
            for (int coll = 0;
                 n / size % stride == 0 && size * stride <= std::min(n, 4u) &&
                 coll <= ncclFuncAllReduce;
                 coll++) {
                SCOPED_TRACE(std::to_string(size) + " that are " +
                             std::to_string(stride) + " apart");
                stp_collective collective = Count(coll, 12);
                collective.groups = {size, stride};
                collective.root = size - 1;
                ExpectRightOrRefused(collective);
            }
    ExpectWorks();
}

TEST_P(DeviceContract, TimesGroupsInEitherStream)
{
    const stp_rank_groups groups{info_.n_ranks, 1};
    stp_collective collective = Count(ncclFuncAllReduce, 1000);
    collective.groups = groups;

    Record(STP_STREAM_MAIN, 0);
    for (unsigned stream : {STP_STREAM_MAIN, STP_STREAM_COMM})
        Note(stream, collective);
    Record(STP_STREAM_MAIN, 1);
    Synchronise();

    EXPECT_GE(Elapsed(0, 1), 0);
}

TEST_P(DeviceContract, RefusesGroupsThatDoNotDivideTheRanks)
{
    const unsigned n = info_.n_ranks;

    for (const stp_rank_groups &groups :
         {stp_rank_groups{n + 1, 1}, stp_rank_groups{n, 2},
          stp_rank_groups{1, 0}, stp_rank_groups{1, n + 1},
          stp_rank_groups{0x10000, 0x10000}}) {
        stp_collective collective = Count(ncclFuncAllReduce, 12);
        collective.groups = groups;
        stp_device_run run{};
        ExpectRefusal(TryNote(0, collective));
        ExpectRefusal(
            stp_device_probe(&device_, &collective, &run, nullptr, &err_));
    }
    ExpectWorks();
}
