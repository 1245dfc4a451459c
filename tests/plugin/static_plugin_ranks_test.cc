// libnccl-tuner-steptune.so on all ranks at once, under random schedules.
#include <gmock/gmock.h>

#include "support/static_plugin_ranks.h"

namespace
{

using namespace static_plugin;
using testing::HasSubstr;

TEST_F(OnAllRanks, NoRanksDisagreeInAnySchedule)
{
    Policy(kPolicy);

    for (const char *machine : {"h200x4", "h100x8"})
        for (const NcclVersion &v : kVersions) {
            SCOPED_TRACE(std::string(machine) + " " + v.nccl);
            machine_ = LoadMachine(machine);
            Nccl nccl = Start(v.nccl);
            Ranks ranks = JoinAll(nccl);
            for (uint64_t seed = 0; seed < 200; seed++) {
                RandomScript random(seed, 8);
                random.script.vary = [](void *, int rank, size_t step,
                                        mock_call *call) {
                    call->reg_buff = (rank + static_cast<int>(step)) % 2;
                };
                ASSERT_EQ(ncclSuccess,
                          mock_ranks_play(ranks.get(), &random.script, seed))
                    << mock_last_error();
            }
        }
}

TEST_F(OnAllRanks, RanksWithDifferentFilesAllStepAside)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "a");
    Policy("allreduce,0,inf,ring,simple,-1,-1,-1\n", "b");
    Nccl nccl = Start();
    Ranks ranks = JoinAll(nccl, OddFileOnRank2);

    for (uint64_t seed = 0; seed < 200; seed++) {
        RandomScript random(seed, 8);
        ASSERT_EQ(ncclSuccess,
                  mock_ranks_play(ranks.get(), &random.script, seed))
            << mock_last_error();
    }
}

// NCCL before 2.28 passes no commId, so ranks cannot compare their policies.
TEST_F(OnAllRanks, RanksWithDifferentFilesAreCaughtHereWhereTheyCannotCompare)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "a");
    Policy("allreduce,0,inf,ring,simple,-1,-1,-1\n", "b");
    Nccl nccl = Start("2.27");
    Ranks ranks = JoinAll(nccl, OddFileOnRank2);
    RandomScript random(1, 8);

    EXPECT_EQ(ncclInternalError,
              mock_ranks_play(ranks.get(), &random.script, 1));

    EXPECT_THAT(mock_last_error(), HasSubstr("tree/ll"));
    EXPECT_THAT(mock_last_error(), HasSubstr("ring/simple"));
}

} // namespace
