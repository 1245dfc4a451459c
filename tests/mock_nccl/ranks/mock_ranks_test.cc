// All ranks of a communicator under random schedules: the error names the rank
// that differs.
#include <gmock/gmock.h>

#include <set>

#include "mock_nccl/ranks/mock_by_rank.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::SizeIs;

namespace
{

class InOneThread : public AllRanks
{
  protected:
    Ranks ranks_ = Join();
};

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

// A seed that a report names is the same schedule on every machine.
TEST_F(InOneThread, ScheduleOfASeedNeverChanges)
{
    const struct {
        uint64_t seed;
        const char *ranks;
    } schedules[] = {
        {0, "120020220010332233311311"}, {1, "012222033223333111000011"},
        {2, "223333332220000002111111"}, {3, "000000111111222222333333"},
        {4, "220000102322131321303131"}, {5, "000230003322221333211111"},
        {6, "111122222211003333330000"}, {1000003, "111111000000333333222222"},
    };
    steps_.assign(6, {&one_, 1});
    script_.steps = steps_.data();
    script_.n_steps = steps_.size();

    for (const auto &schedule : schedules) {
        order.clear();
        ASSERT_EQ(ncclSuccess,
                  mock_ranks_play(ranks_.get(), &script_, schedule.seed));
        std::string ranks;
        for (int rank : order)
            ranks += std::to_string(rank);
        EXPECT_EQ(schedule.ranks, ranks) << schedule.seed;
    }
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

// ---- ranks that die ----

TEST_F(InOneThread, DieBeforeTheirStepAndForAllLaterScripts)
{
    const struct {
        mock_death death;
        std::vector<int> asks; // of each rank
    } scripts[] = {
        {{7, 0}, {4, 4, 4, 4}}, {{1, 3}, {4, 4, 4, 4}}, {{1, 2}, {4, 3, 4, 4}},
        {{1, 0}, {4, 0, 4, 4}}, {{3, 0}, {4, 0, 4, 0}}, {{0, 1}, {1, 0, 4, 0}},
        {{2, 1}, {0, 0, 1, 0}}, {{2, 1}, {0, 0, 0, 0}},
    };

    for (const auto &c : scripts) {
        std::vector<int> asks(4, 0);
        order.clear();
        script_.death = &c.death;
        ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, 4))
            << mock_last_error();
        for (int rank : order)
            asks[static_cast<size_t>(rank)]++;
        EXPECT_EQ(c.asks, asks) << c.death.rank << " " << c.death.step;
    }
}

// ---- collectives that follow one another ----

TEST_F(InOneThread, AskForEachCollectiveOfAStepThatIsNoGroup)
{
    static std::vector<size_t> before;
    std::vector<size_t> asked;
    mock_call calls[] = {Call(ncclFuncAllReduce, 1 << 20),
                         Call(ncclFuncAllReduce, 2 << 20)};
    steps_ = {{calls, 2}, {calls, 2}};
    script_.steps = steps_.data();
    script_.n_steps = 2;
    script_.n_apart = 1;
    script_.before_call = [](void *, int, const mock_call *call) {
        before.push_back(call->n_bytes);
    };
    before.clear();
    decide = [&](int, size_t n_bytes, int, Table, int *) {
        asked.push_back(n_bytes);
    };

    ASSERT_EQ(ncclSuccess, mock_ranks_play(ranks_.get(), &script_, 3));

    // rank after rank; those of the group become one
    std::vector<size_t> of_all, of_group;
    for (int rank = 0; rank < 4; rank++) {
        of_all.insert(of_all.end(), {1 << 20, 2 << 20, 3 << 20});
        of_group.insert(of_group.end(), {1 << 20, 2 << 20, 1 << 20});
    }
    EXPECT_EQ(of_all, asked);
    EXPECT_EQ(of_group, before);
}

TEST_F(InOneThread, StopAtTheFirstOfThemThatDiffers)
{
    mock_call calls[] = {Call(ncclFuncAllReduce, 1 << 20),
                         Call(ncclFuncAllReduce, 4096),
                         Call(ncclFuncAllReduce, 1 << 20)};
    steps_ = {{calls, 3}};
    script_.steps = steps_.data();
    script_.n_steps = script_.n_apart = 1;
    decide = [](int rank, size_t n_bytes, int, Table table, int *) {
        if (rank == 1 && n_bytes == 4096)
            table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 3));

    EXPECT_THAT(mock_last_error(),
                testing::StartsWith("step 0, allreduce of 4096 bytes: "));
}

// ---- clocks ----

TEST_F(InOneThread, ShiftTheirClocksForOneInitOrStepOnly)
{
    constexpr int64_t kHour = 3600 * INT64_C(1000000000);
    mock_ranks_options options{};
    options.before_init = [](void *, int) { mock_clock_shift(kHour); };
    script_.before_step = [](void *, int, size_t) { mock_clock_shift(kHour); };
    static std::vector<long> asked_s;
    asked_s.clear();
    auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_REALTIME, &time);
        return time;
    };
    decide = [&](int, size_t, int, Table, int *) {
        asked_s.push_back(now().tv_sec);
    };
    script_.n_steps = 1;
    mock_clock_set(kHour + 5);

    const Ranks ranks = Join(options);
    const timespec after_init = now();
    mock_ranks_play(ranks_.get(), &script_, 1);
    const timespec after_play = now();
    mock_clock_set(-1);

    EXPECT_THAT(asked_s, ElementsAre(7200, 7200, 7200, 7200));
    for (const timespec &time : {after_init, after_play}) {
        EXPECT_EQ(3600, time.tv_sec);
        EXPECT_EQ(5, time.tv_nsec);
    }
}

TEST_F(InOneThread, StopAtACollectiveThatFails)
{
    decide = [](int, size_t, int, Table table, int *) {
        table[NCCL_ALGO_PAT][NCCL_PROTO_SIMPLE] = 0;
    };

    EXPECT_EQ(ncclInternalError, mock_ranks_play(ranks_.get(), &script_, 1));
}

} // namespace
