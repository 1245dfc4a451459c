// All ranks of a communicator under random schedules: the error names the rank
// that differs.
#include <gmock/gmock.h>

#include <set>

#include "mock_nccl/ranks/mock_by_rank.h"

using namespace mock_test;
using testing::SizeIs;

namespace
{

class InOneThread : public AllRanks
{
  protected:
    Ranks ranks_ = Join();
};

TEST_F(InOneThread, AreAsManyAsTheMachinesGpus)
{
    EXPECT_THAT(inits, SizeIs(4));
}

TEST_F(InOneThread, AgreeIfTheTunerDecidesNothing)
{
    for (uint64_t seed = 0; seed < 100; seed++)
        ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, seed))
            << mock_last_error();
}

TEST_F(InOneThread, PlayInAnOrderThatTheSeedDecides)
{
    std::set<std::vector<int>> orders;

    for (uint64_t seed = 0; seed < 50; seed++) {
        std::vector<int> twice[2];
        for (auto &once : twice) {
            order.clear();
            ASSERT_EQ(ncclSuccess,
                      mock_ranks_play(ranks_.get(), &script_, seed));
            once = order;
        }
        EXPECT_EQ(twice[0], twice[1]);
        EXPECT_THAT(twice[0], SizeIs(16)); // four questions on four ranks
        orders.insert(order);
    }

    EXPECT_GT(orders.size(), 40u);
}

TEST_F(InOneThread, AreCaughtIfTheTunerKnowsItsRank)
{
    decide = [](int rank, size_t, int, Table table, int *n_channels) {
        if (rank != 2)
            return;
        table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
        *n_channels = 1;
    };
    for (uint64_t seed = 0; seed < 50; seed++)
        EXPECT_EQ(ncclInternalError,
                  mock_ranks_play(ranks_.get(), &script_, seed));

    // The error names the rank first that reached the collective first.
    steps_ = {{&one_, 1}};
    script_.n_steps = 1;
    std::set<std::string> errors;
    for (uint64_t seed = 0; seed < 200; seed++) {
        EXPECT_EQ(ncclInternalError,
                  mock_ranks_play(ranks_.get(), &script_, seed));
        errors.insert(mock_last_error());
    }
    EXPECT_EQ(1u, errors.count(
                      "step 0, allreduce of 4096 bytes: rank 0 runs ring/ll on "
                      "1 channels, rank 2 tree/ll on 1 channels; NCCL would "
                      "hang or corrupt data"));
    EXPECT_EQ(1u, errors.count(
                      "step 0, allreduce of 4096 bytes: rank 2 runs tree/ll on "
                      "1 channels, rank 3 ring/ll on 1 channels; NCCL would "
                      "hang or corrupt data"));
}

TEST_F(InOneThread, AreCaughtIfChannelsAloneDiffer)
{
    one_.n_bytes = 64 << 20;
    decide = [](int rank, size_t, int, Table, int *n_channels) {
        *n_channels = rank == 3 ? 8 : 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(InOneThread, AreCaughtIfTheTunerCountsCallsOfTheProcess)
{
    // A fault that a single rank never shows.
    int n = 0;
    decide = [&n](int, size_t, int, Table table, int *) {
        if (n++ % 3 == 0)
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(InOneThread, AreCaughtIfTheTunerTrustsRegBuff)
{
    decide = [](int, size_t, int reg_buff, Table table, int *) {
        if (reg_buff)
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
    };
    script_.vary = [](void *, int rank, size_t step, mock_call *call) {
        call->reg_buff = rank == 1 && step == 2;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));

    EXPECT_EQ(0u, std::string(mock_last_error())
                      .rfind("step 2, allreduce of 4096 bytes: rank ", 0))
        << mock_last_error();
}

TEST_F(InOneThread, StopAtACollectiveThatFails)
{
    decide = [](int, size_t, int, Table table, int *) {
        table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(InOneThread, HaveNothingToDoInAnEmptyScript)
{
    script_.n_steps = 0;

    EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, 1));
    EXPECT_TRUE(order.empty());
}

} // namespace
