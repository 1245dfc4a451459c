// Several collectives in one group: the tuner's calls, and the channels of
// each.
#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAreArray;
using testing::HasSubstr;

namespace
{

// ---- what is asked ----

struct Question {
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;

    bool operator==(const Question &o) const
    {
        return coll == o.coll && n_bytes == o.n_bytes &&
               n_pipe_ops == o.n_pipe_ops && reg_buff == o.reg_buff;
    }
};

void PrintTo(const Question &q, std::ostream *out)
{
    *out << kColls[q.coll] << " " << q.n_bytes << " pipe " << q.n_pipe_ops
         << " reg " << q.reg_buff;
}

std::vector<Question> questions;
int forced_algo = -1; // for every question; -1: left to NCCL

ncclResult_t Note(const Asked &asked)
{
    questions.push_back(
        {asked.coll, asked.n_bytes, asked.n_pipe_ops, asked.reg_buff});
    if (forced_algo >= 0)
        asked.table[forced_algo][NCCL_PROTO_LL] = 0;
    return ncclSuccess;
}

class Group : public testing::Test
{
  protected:
    Group()
    {
        questions.clear();
        forced_algo = -1;
        on_ask = Note;
    }

    ncclResult_t Run(const std::vector<mock_call> &calls)
    {
        outcomes_.resize(calls.size());
        return mock_comm_group(comm_.get(), calls.data(), calls.size(),
                               outcomes_.data());
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl(WithScript());
    Comm comm_ = MakeComm(nccl_, machine_);
    std::vector<mock_outcome> outcomes_;
};

constexpr ncclFunc_t kAr = ncclFuncAllReduce;
constexpr ncclFunc_t kAg = ncclFuncAllGather;
constexpr ncclFunc_t kBc = ncclFuncBroadcast;

mock_call Of(size_t element_size, mock_call call)
{
    call.element_size = element_size;
    return call;
}

mock_call Fp8(mock_call call)
{
    call.element_size = 1;
    call.fp8 = true;
    return call;
}

mock_call Registered(mock_call call)
{
    call.reg_buff = 1;
    return call;
}

mock_call OfKind(unsigned kind, mock_call call)
{
    call.kind = kind;
    return call;
}

mock_call OfRun(int n_pipe_ops, mock_call call)
{
    call.n_pipe_ops = n_pipe_ops;
    return call;
}

struct GroupCase {
    const char *name;
    std::vector<mock_call> calls;
    std::vector<Question> want;
};

TEST_F(Group, AsksOnceForEachRunWithinAFactorOfFour)
{
    const size_t m = 1 << 20;
    const GroupCase cases[] = {
        {"one", {Call(kAr, m)}, {{kAr, m, 1, 0}}},
        {"equal", {Call(kAr, m), Call(kAr, m)}, {{kAr, 2 * m, 1, 0}}},
        {"just_within",
         {Call(kAr, m), Call(kAr, 4 * m - 2)},
         {{kAr, 5 * m - 2, 1, 0}}},
        {"four_times",
         {Call(kAr, 4 * m), Call(kAr, m)},
         {{kAr, m, 1, 0}, {kAr, 4 * m, 1, 0}}},
        {"counted_from_the_smallest",
         {Call(kAr, m), Call(kAr, 5 * m), Call(kAr, 3 * m)},
         {{kAr, 4 * m, 1, 0}, {kAr, 5 * m, 1, 0}}},
        {"two_collectives",
         {Call(kAg, m), Call(kAr, m), Call(kAg, m)},
         {{kAr, m, 1, 0}, {kAg, 2 * m, 1, 0}}},
        {"two_types",
         {Call(kAr, m), Of(4, Call(kAr, m)), Call(kAr, m)},
         {{kAr, 2 * m, 1, 0}, {kAr, m, 1, 0}}},
        {"types_of_what_moves_as_bytes",
         {Call(kBc, m), Of(4, Call(kBc, m)), Of(8, Call(kBc, m))},
         {{kBc, 3 * m, 1, 0}}},
        {"fp8_and_another_byte_type",
         {Fp8(Call(kAr, m)), Of(1, Call(kAr, m)), Fp8(Call(kAr, m))},
         {{kAr, 2 * m, 1, 0}, {kAr, m, 1, 0}}},
        {"two_operations",
         {OfKind(1, Call(kAr, m)), OfKind(2, Call(kAr, m)),
          OfKind(1, Call(kAr, m))},
         {{kAr, 2 * m, 1, 0}, {kAr, m, 1, 0}}},
        {"one_that_stands_for_a_run",
         {OfRun(3, Call(kAr, m))},
         {{kAr, m, 3, 0}}},
        {"two_that_do_not",
         {OfRun(3, Call(kAr, m)), OfRun(3, Call(kAr, m))},
         {{kAr, 2 * m, 1, 0}}},
        {"nothing_to_move", {Call(kAr, 0), Call(kAr, m)}, {{kAr, m, 1, 0}}},
        {"more_than_channels",
         std::vector<mock_call>(25, Call(kAr, 1024)),
         {{kAr, 25 * 1024, 2, 0}}},
        {"as_many_as_channels",
         std::vector<mock_call>(24, Call(kAr, 1024)),
         {{kAr, 24 * 1024, 1, 0}}},
        {"registered_as_the_smallest",
         {Call(kAr, 3 * m), Registered(Call(kAr, m))},
         {{kAr, 4 * m, 1, 1}}},
        {"empty", {}, {}},
    };

    for (const GroupCase &c : cases) {
        SCOPED_TRACE(c.name);
        questions.clear();
        EXPECT_EQ(ncclSuccess, Run(c.calls)) << mock_last_error();
        EXPECT_THAT(questions, ElementsAreArray(c.want));
    }
}

TEST_F(Group, MarksTheCollectivesThatNcclAskedAbout)
{
    const size_t m = 1 << 20;

    ASSERT_EQ(ncclSuccess, Run({Call(kAr, 2 * m), Call(kAr, m), Call(kAr, 0),
                                Call(kAr, 16 * m)}));

    std::vector<bool> asked;
    for (const mock_outcome &outcome : outcomes_)
        asked.push_back(outcome.asked);
    EXPECT_THAT(asked, testing::ElementsAre(false, true, false, true));
}

TEST_F(Group, RunsAllOfARunAsItWasDecided)
{
    forced_algo = NCCL_ALGO_TREE; // with LL

    ASSERT_EQ(ncclSuccess, Run({Call(kAr, 1 << 20), Call(kAr, 2 << 20)}));

    EXPECT_EQ(NCCL_ALGO_TREE, outcomes_[0].algo);
    EXPECT_EQ(NCCL_ALGO_TREE, outcomes_[1].algo);
}

TEST_F(Group, OfOneIsACollectiveByItself)
{
    for (size_t n_bytes = 8; n_bytes < (1u << 28);
         n_bytes = n_bytes * 3 / 8 * 8)
        for (ncclFunc_t coll : {kAr, kAg, kBc, ncclFuncReduceScatter}) {
            mock_call call = Call(coll, n_bytes / 8 * 8);
            mock_outcome alone{};
            ASSERT_EQ(ncclSuccess,
                      mock_comm_collective(comm_.get(), &call, &alone));

            ASSERT_EQ(ncclSuccess, Run({call}));

            EXPECT_EQ(alone.algo, outcomes_[0].algo);
            EXPECT_EQ(alone.proto, outcomes_[0].proto);
            EXPECT_EQ(alone.n_channels, outcomes_[0].n_channels) << n_bytes;
        }
}

// Channels stay within the communicator's, for any mix of collectives.
TEST_F(Group, SharesTheChannelsThereAre)
{
    ASSERT_EQ(ncclSuccess,
              Run({Call(kAr, 64 << 20), Call(kAr, 8), Call(kAr, 20 << 20),
                   Call(kAg, 1 << 20), Call(kAr, 64 << 20)}));

    for (const mock_outcome &out : outcomes_) {
        EXPECT_GE(out.n_channels, 1);
        EXPECT_LE(out.n_channels, 24);
    }
}

// PAT moves data within nodes by NVLS, whose channels are others than a ring's.
TEST_F(Group, PatOfManyRanksHasTheChannelsOfNvls)
{
    machine_ = LoadMachine("h100n2x8");
    comm_ = nullptr; // before its libnccl
    nccl_ = MakeNccl(WithScript("2.31"));
    comm_ = MakeComm(nccl_, machine_);
    on_ask = [](const Asked &asked) {
        bool gathers = asked.coll == ncclFuncAllGather;
        asked.table[gathers ? NCCL_ALGO_PAT : NCCL_ALGO_RING]
                   [NCCL_PROTO_SIMPLE] = 0;
        return ncclSuccess;
    };

    ASSERT_EQ(ncclSuccess, Run({Call(kAr, 1 << 30), Call(kAg, 1 << 20)}));

    EXPECT_EQ(NCCL_ALGO_PAT, outcomes_[1].algo);
    for (const mock_outcome &outcome : outcomes_) {
        EXPECT_EQ(0, outcome.first_channel);
        EXPECT_EQ(16, outcome.n_channels);
    }
}

TEST_F(Group, EndsAtTheFirstInvalidCall)
{
    EXPECT_EQ(ncclInvalidArgument,
              Run({Call(kAr, 1024), Of(3, Call(kAr, 1024))}));

    EXPECT_THAT(mock_last_error(), HasSubstr("no type of 3 bytes"));
    EXPECT_TRUE(questions.empty());
}

} // namespace
