// Several collectives in one group: the tuner's calls, and the channels of
// each.
#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAreArray;

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

std::vector<Question> questions;
int forced_algo = -1; // for every question; -1: left to NCCL
int forced_proto = NCCL_PROTO_LL;

ncclResult_t Note(const Asked &asked)
{
    questions.push_back(
        {asked.coll, asked.n_bytes, asked.n_pipe_ops, asked.reg_buff});
    if (forced_algo >= 0)
        asked.table[forced_algo][forced_proto] = 0;
    return ncclSuccess;
}

class Group : public testing::Test
{
  protected:
    Group()
    {
        questions.clear();
        forced_algo = -1;
        forced_proto = NCCL_PROTO_LL;
        on_ask = Note;
    }

    // Makes a communicator of another NCCL version, whose tuner has the
    // interface 'tuner'.
    void Use(const char *version, int tuner)
    {
        comm_ = nullptr; // before its libnccl
        nccl_ = MakeNccl(WithScript(version, tuner));
        comm_ = MakeComm(nccl_, machine_);
    }
    ncclResult_t Run(const std::vector<mock_call> &calls)
    {
        outcomes_.resize(calls.size());
        return mock_comm_group(comm_.get(), calls.data(), calls.size(),
                               outcomes_.data());
    }
    // Whether NCCL asked about each.
    std::vector<bool> WhetherAsked() const
    {
        std::vector<bool> asked;
        for (const mock_outcome &outcome : outcomes_)
            asked.push_back(outcome.asked);
        return asked;
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl(WithScript());
    Comm comm_ = MakeComm(nccl_, machine_);
    std::vector<mock_outcome> outcomes_;
};

constexpr ncclFunc_t kAr = ncclFuncAllReduce;
constexpr ncclFunc_t kAg = ncclFuncAllGather;
constexpr ncclFunc_t kBc = ncclFuncBroadcast;
constexpr ncclFunc_t kRe = ncclFuncReduce;
constexpr ncclFunc_t kRs = ncclFuncReduceScatter;

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

// Registered by itself, or together with the buffers that follow it.
mock_call Registered(mock_call call, int how = 1)
{
    call.reg_buff = how;
    return call;
}

mock_call OfKind(unsigned kind, mock_call call)
{
    call.kind = kind;
    return call;
}

mock_call WithoutNvls(mock_call call)
{
    call.no_nvls = true;
    return call;
}

TEST_F(Group, AsksOnceForEachRunWithinAFactorOfFour)
{
    const size_t m = 1 << 20;
    const struct {
        const char *name;
        std::vector<mock_call> calls;
        std::vector<Question> want;
    } cases[] = {
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
        {"two_types_for_nvls",
         {Call(kAr, m), WithoutNvls(Call(kAr, m)), Call(kAr, m)},
         {{kAr, 2 * m, 1, 0}, {kAr, m, 1, 0}}},
        {"three_collectives_largest_first",
         {Call(kRe, m / 4), Call(kAr, m), Call(kBc, 4 * m)},
         {{kBc, 4 * m, 1, 0}, {kAr, m, 1, 0}, {kRe, m / 4, 1, 0}}},
        {"of_equal_traffic_the_last_collective_first",
         {Call(kBc, m), Call(kRe, m), Call(kRs, m)},
         {{kRs, m, 1, 0}, {kRe, m, 1, 0}, {kBc, m, 1, 0}}},
        {"runs_of_one_collective_smallest_first",
         {Call(kAr, 64 * m), Call(kAr, m), Call(kAr, 8 * m)},
         {{kAr, m, 1, 0}, {kAr, 8 * m, 1, 0}, {kAr, 64 * m, 1, 0}}},
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
        {"registered_one_by_one",
         std::vector<mock_call>(8, Registered(Call(kAr, m))),
         {{kAr, 8 * m, 1, 0}}},
        {"registered_together",
         std::vector<mock_call>(8, Registered(Call(kAr, m), 2)),
         {{kAr, 8 * m, 1, 1}}},
        {"registered_as_the_smallest",
         {Call(kAr, 3 * m), Registered(Call(kAr, m), 2)},
         {{kAr, 4 * m, 1, 1}}},
        {"registered_alone_in_its_decision",
         {Call(kAr, 4 * m), Registered(Call(kAr, m))},
         {{kAr, m, 1, 1}, {kAr, 4 * m, 1, 0}}},
        {"empty", {}, {}},
    };

    for (const auto &c : cases) {
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

    EXPECT_THAT(WhetherAsked(), testing::ElementsAre(false, true, false, true));
}

TEST_F(Group, WhatDoesNotRunHasNothing)
{
    ASSERT_EQ(ncclSuccess, Run({Call(kAr, 0), Call(kAr, 64)}));

    const mock_outcome &none = outcomes_[0];
    EXPECT_EQ(NCCL_ALGO_UNDEF, none.algo);
    EXPECT_EQ(NCCL_PROTO_UNDEF, none.proto);
    EXPECT_EQ(0, none.n_channels);
    EXPECT_EQ(nullptr, none.kernel);
    EXPECT_FALSE(none.asked);
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            EXPECT_EQ(NCCL_ALGO_PROTO_IGNORE, none.cost[a][p]);
            EXPECT_EQ(NCCL_ALGO_PROTO_IGNORE, none.cost_after[a][p]);
        }
}

TEST_F(Group, RefusesWhatIsNoCall)
{
    const std::pair<mock_call, const char *> cases[] = {
        {Call(static_cast<ncclFunc_t>(5), 64), "no collective 5"},
        {Call(static_cast<ncclFunc_t>(-1), 64), "no collective -1"},
        {Of(3, Call(kAr, 64)), "no type of 3 bytes"},
        {Of(16, Call(kAr, 64)), "no type of 16 bytes"},
        {OfRun(-1, Call(kAr, 64)), "-1 operations in a group"},
    };
    mock_call fp8 = Of(2, Call(kAr, 64));
    fp8.fp8 = true;

    for (const auto &[call, error] : cases) {
        EXPECT_EQ(ncclInvalidArgument, Run({call})) << error;
        EXPECT_STREQ(error, mock_last_error());
    }
    EXPECT_EQ(ncclInvalidArgument, Run({fp8}));
    EXPECT_STREQ("no fp8 type of 2 bytes", mock_last_error());
    EXPECT_TRUE(questions.empty());
}

TEST(GroupBeyondOneKernel, IsSplitWhereALaunchHasNoRoomForMore)
{
    const struct {
        const char *version, *room;
        std::vector<size_t> ends; // of each kernel
    } groups[] = {
        {"2.21", nullptr, {2500}},
        {"2.22", nullptr, {1017, 2034, 2500}},
        {"2.30", nullptr, {1017, 2034, 2500}},
        {"2.30", "3296", {817, 1634, 2451, 2500}},
        {"2.22", "320", {73, 146, 150}}, // 16 a batch
        {"2.30", "320", {69, 138, 150}}, // 8
    };
    const Machine machine = LoadMachine("h200x4");

    for (const auto &group : groups) {
        mock_nccl_options options{.version = group.version};
        options.variables[MOCK_WORK_ARGS_BYTES] = group.room;
        const Nccl nccl = MakeNccl(options);
        const Comm comm = MakeComm(nccl, machine);
        const std::vector<mock_call> calls(group.ends.back(),
                                           Call(ncclFuncReduce, 64));
        std::vector<mock_outcome> out(calls.size());
        std::vector<size_t> ends;
        ASSERT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls.data(),
                                               calls.size(), out.data()));
        for (size_t i = 0; i < out.size(); i++) {
            ends.resize(static_cast<size_t>(out[i].launch) + 1);
            ends[static_cast<size_t>(out[i].launch)] = i + 1;
        }
        EXPECT_THAT(ends, ElementsAreArray(group.ends)) << group.version;
    }
}

TEST_F(Group, IsSimulatedByItsLastDecisionAlone)
{
    const std::vector<mock_call> calls = {Call(ncclFuncAllGather, 1 << 26),
                                          Call(ncclFuncAllReduce, 1 << 10)};
    float us = 0;

    ASSERT_EQ(ncclSuccess, Run(calls));
    ASSERT_EQ(ncclSuccess,
              mock_comm_simulate(comm_.get(), calls.data(), 2, &us));
    EXPECT_EQ(4u, questions.size());
    EXPECT_EQ(outcomes_[1].cost_after[outcomes_[1].algo][outcomes_[1].proto],
              us);
    ASSERT_EQ(ncclSuccess,
              mock_comm_simulate(comm_.get(), calls.data(), 0, &us));
    EXPECT_EQ(-1, us);
    Use("2.21", 2);
    EXPECT_EQ(ncclInvalidUsage,
              mock_comm_simulate(comm_.get(), calls.data(), 2, &us));
}

} // namespace
