// All ranks of a communicator under random schedules: who disagrees is named.
#include <gmock/gmock.h>

#include <set>

#include "mock_script.h"

using namespace mock_test;
using testing::SizeIs;
using testing::StrEq;

namespace
{

struct FreeRanks {
    void operator()(mock_ranks *ranks) const
    {
        mock_ranks_destroy(ranks);
    }
};
using Ranks = std::unique_ptr<mock_ranks, FreeRanks>;

// A tuner whose context is the number of the rank, by order of init.
int n_inits = 0;
std::vector<int> order; // of the ranks that asked
std::function<void(int rank, size_t n_bytes, int reg_buff, Table, int *)>
    decide;

ncclResult_t InitRank(void **context, uint64_t, size_t, size_t,
                      ncclDebugLogger_t, ncclNvlDomainInfo_v5_t *,
                      ncclTunerConstants_v5_t *)
{
    *context = reinterpret_cast<void *>(static_cast<intptr_t>(n_inits++));
    return ncclSuccess;
}

ncclResult_t AskRank(void *context, ncclFunc_t, size_t n_bytes, int,
                     float **table, int, int, int reg_buff, int *n_channels)
{
    int rank = static_cast<int>(reinterpret_cast<intptr_t>(context));

    order.push_back(rank);
    if (decide)
        decide(rank, n_bytes, reg_buff, reinterpret_cast<Table>(table),
               n_channels);
    return ncclSuccess;
}

const ncclTuner_v5_t kByRank{"by-rank", InitRank, AskRank, Finalize};

class AllRanks : public testing::Test
{
  protected:
    AllRanks()
    {
        n_inits = 0;
        order.clear();
        decide = nullptr;
        mock_ranks *ranks = nullptr;
        EXPECT_EQ(ncclSuccess, mock_ranks_create(nccl_.get(), machine_.get(), 1,
                                                 nullptr, nullptr, &ranks));
        ranks_.reset(ranks);
        steps_ = {{&one_, 1}, {group_, 2}, {&one_, 1}};
        script_ = {steps_.data(), steps_.size(), nullptr, nullptr, nullptr};
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl({nullptr, nullptr, &kByRank, 5});
    Ranks ranks_;
    mock_call one_ = Call(ncclFuncAllReduce, 4096);
    mock_call group_[2] = {Call(ncclFuncAllReduce, 1 << 20),
                           Call(ncclFuncAllGather, 64)};
    std::vector<mock_step> steps_;
    mock_script script_{};
};

TEST_F(AllRanks, AreAsManyAsTheMachinesGpus)
{
    EXPECT_EQ(4, mock_ranks_count(ranks_.get()));
    EXPECT_EQ(4, n_inits);
}

TEST_F(AllRanks, AgreeIfTheTunerDecidesNothing)
{
    for (uint64_t seed = 0; seed < 100; seed++)
        ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, seed))
            << mock_last_error();
}

TEST_F(AllRanks, PlayInAnOrderThatTheSeedDecides)
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

    EXPECT_GT(orders.size(), 45u);
}

TEST_F(AllRanks, AreCaughtIfTheTunerKnowsItsRank)
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

    // Whoever comes first is named first.
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

TEST_F(AllRanks, AreCaughtIfChannelsAloneDiffer)
{
    one_.n_bytes = 64 << 20;
    decide = [](int rank, size_t, int, Table, int *n_channels) {
        *n_channels = rank == 3 ? 8 : 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(AllRanks, AreCaughtIfTheTunerCountsCallsOfTheProcess)
{
    // A fault that a single rank never shows.
    int n = 0;
    decide = [&n](int, size_t, int, Table table, int *) {
        if (n++ % 3 == 0)
            table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(AllRanks, AreCaughtIfTheTunerTrustsRegBuff)
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

TEST_F(AllRanks, StopAtACollectiveThatFails)
{
    decide = [](int, size_t, int, Table table, int *) {
        table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

TEST_F(AllRanks, HaveNothingToDoInAnEmptyScript)
{
    script_.n_steps = 0;

    EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, 1));
    EXPECT_TRUE(order.empty());
}

} // namespace
