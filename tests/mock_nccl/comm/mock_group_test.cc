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

    // Of another version, with a tuner of this one.
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

mock_call WithoutNvls(mock_call call)
{
    call.no_nvls = true;
    return call;
}

mock_call Windows(mock_windows windows, mock_call call)
{
    call.windows = windows;
    return call;
}

// What no symmetric kernel reduces.
mock_call Other(mock_call call)
{
    call.reduction = MOCK_REDUCTION_OTHER;
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

    EXPECT_THAT(WhetherAsked(), testing::ElementsAre(false, true, false, true));
}

struct BinCase {
    size_t first, second; // bytes, twice which travel
    bool asks_second;
};

// Of a run NCCL asks about the smallest, and of those in a bin about the
// application's first. Bins are a quarter of an octave wide, but for the lowest
// and those below 4 KiB, which are 1 KiB, and the one from 1 GiB on.
TEST_F(Group, AsksAboutTheFirstOfTheSmallestBin)
{
    const size_t k = 1 << 10, m = 1 << 20;
    const BinCase cases[] = {
        {510, 510, false},
        {510, 200, false},
        {512, 510, true},
        {510, 512, false},
        {k - 2, k / 2, false},
        {k, k - 2, true},
        {3 * k / 2, 3 * k / 2 - 2, true},
        {2 * k - 2, 3 * k / 2, false},
        {2 * k, 2 * k - 2, true},
        {5 * k / 2 - 2, 2 * k, false},
        {5 * k / 2, 5 * k / 2 - 2, true},
        {3 * k, 3 * k - 2, true},
        {7 * k / 2, 7 * k / 2 - 2, true},
        {4 * k, 4 * k - 2, true},
        {5 * k - 2, 4 * k, false},
        {5 * k, 5 * k - 2, true},
        {6 * k, 6 * k - 2, true},
        {8 * k, 8 * k - 2, true},
        {10 * k - 2, 8 * k, false},
        {10 * k, 10 * k - 2, true},
        {5 * m / 2 - 2, 2 * m, false},
        {5 * m / 2, 5 * m / 2 - 2, true},
        {448 * m, 448 * m - 2, true},
        {512 * m - 2, 448 * m, false},
        {512 * m, 512 * m - 2, true},
        {640 * m, 512 * m, false},
        {2000 * m, 512 * m, false},
    };

    for (auto [version, tuner] : {std::pair{"2.22", 3}, {"2.28", 5}}) {
        Use(version, tuner);
        for (const BinCase &c : cases) {
            SCOPED_TRACE(std::string(version) + " " + std::to_string(c.first) +
                         " and " + std::to_string(c.second));
            questions.clear();
            ASSERT_EQ(ncclSuccess,
                      Run({Call(kAr, c.first), Call(kAr, c.second)}));
            EXPECT_THAT(questions, testing::ElementsAre(Question{
                                       kAr, c.first + c.second, 1, 0}));
            EXPECT_THAT(WhetherAsked(),
                        testing::ElementsAre(!c.asks_second, c.asks_second));
        }
    }
}

// From 2.29 on what could use symmetric windows follows the others, kind by
// kind, in lists of the same windows, and the last and largest of a kind's
// lists is asked about for all of it.
TEST_F(Group, TakesWhatCouldUseWindowsLastAndLargestFirst)
{
    const mock_windows send = MOCK_WINDOWS_SEND;
    const size_t m = 1 << 20;
    const GroupCase cases[] = {
        {"of_any_size",
         {Call(kAr, m), Registered(Call(kAr, 64 * m)), Call(kAr, 8 * m)},
         {{kAr, 73 * m, 1, 1}}},
        {"the_last_of_equals",
         {Registered(Call(kAr, m)), Call(kAr, m)},
         {{kAr, 2 * m, 1, 0}}},
        {"the_last_of_equals_again",
         {Call(kAr, m), Registered(Call(kAr, m))},
         {{kAr, 2 * m, 1, 1}}},
        {"kinds_largest_first",
         {Of(4, Call(kAr, m)), Call(kAr, 4 * m), Call(kRs, m)},
         {{kAr, 4 * m, 1, 0}, {kAr, m, 1, 0}, {kRs, m, 1, 0}}},
        {"behind_the_others",
         {Call(kAg, 64 * m), Other(OfKind(1, Call(kAr, m))), Call(kAr, m),
          Call(kRe, 16 * m), Call(kAg, m)},
         {{kRe, 16 * m, 1, 0},
          {kAr, m, 1, 0},
          {kAg, 65 * m, 1, 0},
          {kAr, m, 1, 0}}},
        {"below_64_gib",
         {Call(kAg, (size_t{64} << 30) - 4), Call(kRe, m)},
         {{kRe, m, 1, 0}, {kAg, (size_t{64} << 30) - 4, 1, 0}}},
        {"not_from_64_gib_on",
         {Call(kAg, size_t{64} << 30), Call(kRe, m)},
         {{kAg, size_t{64} << 30, 1, 0}, {kRe, m, 1, 0}}},
        {"of_other_windows_in_another_list",
         {Call(kAr, 4 * m), Windows(send, Registered(Call(kAr, 2 * m))),
          Call(kAr, m)},
         {{kAr, 2 * m, 1, 1}, {kAr, 7 * m, 1, 1}}},
        {"of_other_windows_behind_the_largest",
         {Registered(Call(kAr, 4 * m)), Windows(send, Call(kAr, 2 * m)),
          Call(kAr, m)},
         {{kAr, 2 * m, 1, 0}, {kAr, 7 * m, 1, 0}}},
        {"of_other_windows_before_the_smaller",
         {Registered(Call(kAr, 2 * m)), Windows(send, Call(kAr, 4 * m)),
          Call(kAr, m), Windows(send, Call(kAr, m))},
         {{kAr, 8 * m, 1, 1}}},
    };
    forced_algo = NCCL_ALGO_RING;
    forced_proto = NCCL_PROTO_SIMPLE;

    for (const char *version : {"2.29", "2.30"}) {
        Use(version, 4);
        for (const GroupCase &c : cases) {
            SCOPED_TRACE(std::string(version) + " " + c.name);
            questions.clear();
            EXPECT_EQ(ncclSuccess, Run(c.calls)) << mock_last_error();
            EXPECT_THAT(questions, ElementsAreArray(c.want));
        }
    }
}

// Without operations, twice, from 2.31 on.
TEST_F(Group, AsksOnceAboutEachKindThatCouldUseWindowsBeforeTheGroup)
{
    const size_t m = 1 << 20;
    forced_algo = NCCL_ALGO_RING;
    forced_proto = NCCL_PROTO_SIMPLE;
    Use("2.31", 4);

    ASSERT_EQ(ncclSuccess,
              Run({Call(kAr, m), Of(4, Call(kAr, 64 * m)), Call(kAr, 16 * m),
                   Registered(Call(kAr, m / 2))}));

    EXPECT_THAT(questions, ElementsAreArray(std::vector<Question>{
                               {kAr, 64 * m, 0, 0},
                               {kAr, 64 * m, 0, 0},
                               {kAr, 17 * m + m / 2, 0, 1},
                               {kAr, 17 * m + m / 2, 0, 1},
                               {kAr, 64 * m, 1, 0},
                               {kAr, 17 * m + m / 2, 1, 0}}));
}

// One buffer in a window is enough for a kernel with LL if the answer is LL.
TEST_F(Group, SaysWhetherItAskedAboutWhatAKernelRuns)
{
    const size_t m = 1 << 20;
    Use("2.30", 4);

    for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_SIMPLE})
        for (mock_windows windows : {MOCK_WINDOWS_SEND, MOCK_WINDOWS_BOTH}) {
            const bool is_taken =
                windows == MOCK_WINDOWS_BOTH || proto == NCCL_PROTO_LL;
            forced_algo = NCCL_ALGO_RING;
            forced_proto = proto;
            ASSERT_EQ(ncclSuccess, Run({Windows(windows, Call(kAr, m))}));
            EXPECT_EQ(is_taken, outcomes_[0].kernel != nullptr);
            EXPECT_EQ(windows == MOCK_WINDOWS_SEND, outcomes_[0].asked);
        }
}

TEST_F(Group, AsksAboutHugeOnesInWindowsIn2_28)
{
    const size_t huge = size_t{64} << 30;
    const mock_windows both = MOCK_WINDOWS_BOTH;

    ASSERT_EQ(ncclSuccess, Run({Windows(both, Call(kAg, huge)),
                                Windows(both, Call(kAg, huge - 4)),
                                Windows(both, Call(kAr, huge))}));

    EXPECT_THAT(questions,
                testing::UnorderedElementsAre(Question{kAg, huge, 1, 0},
                                              Question{kAr, huge, 1, 0}));
}

// 2.21 asks about all of a kind, and then about each.
TEST_F(Group, IsOrderedByCollectiveTypeAndSizeIn2_21)
{
    const size_t m = 1 << 20;
    const GroupCase cases[] = {
        {"the_last_collective_first",
         {Call(kAg, m), Call(kBc, m), Call(kAr, m), Call(kRe, m), Call(kRs, m)},
         {{kAr, m, 1, 0},
          {kAr, m, 1, 0},
          {kRs, m, 1, 0},
          {kRs, m, 1, 0},
          {kAg, m, 1, 0},
          {kAg, m, 1, 0},
          {kRe, m, 1, 0},
          {kRe, m, 1, 0},
          {kBc, m, 1, 0},
          {kBc, m, 1, 0}}},
        // bf16 is 9, f64 8, f32 7, i8 0
        {"types_by_number",
         {Of(1, Call(kAr, m)), Of(8, Call(kAr, 2 * m)), Of(2, Call(kAr, 3 * m)),
          Of(4, Call(kAr, 4 * m))},
         {{kAr, 3 * m, 1, 0},
          {kAr, 3 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, 4 * m, 1, 0},
          {kAr, 4 * m, 1, 0},
          {kAr, m, 1, 0},
          {kAr, m, 1, 0}}},
        {"a_collective_before_its_type",
         {Of(2, Call(kRs, m)), Of(4, Call(kAr, 2 * m))},
         {{kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kRs, m, 1, 0},
          {kRs, m, 1, 0}}},
        {"a_type_before_nvls",
         {WithoutNvls(Of(4, Call(kAr, m))), Of(2, Call(kAr, 2 * m))},
         {{kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, m, 1, 0},
          {kAr, m, 1, 0}}},
        {"nvls_last_before_operations",
         {OfKind(2, Call(kAr, m)), WithoutNvls(OfKind(1, Call(kAr, 2 * m)))},
         {{kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, m, 1, 0},
          {kAr, m, 1, 0}}},
        {"the_last_operation_first",
         {OfKind(1, Call(kAr, m)), OfKind(2, Call(kAr, 2 * m))},
         {{kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, m, 1, 0},
          {kAr, m, 1, 0}}},
        {"the_largest_of_a_kind_first",
         {Call(kAr, m), OfKind(1, Call(kAr, 2 * m)), Call(kAr, 8 * m),
          Call(kAr, 4 * m)},
         {{kAr, 2 * m, 1, 0},
          {kAr, 2 * m, 1, 0},
          {kAr, 13 * m, 1, 0},
          {kAr, 8 * m, 1, 0},
          {kAr, 4 * m, 1, 0},
          {kAr, m, 1, 0}}},
    };
    Use("2.21", 2);

    for (const GroupCase &c : cases) {
        SCOPED_TRACE(c.name);
        questions.clear();
        EXPECT_EQ(ncclSuccess, Run(c.calls)) << mock_last_error();
        EXPECT_THAT(questions, ElementsAreArray(c.want));
    }
}

TEST_F(Group, AsksAboutTheLastOfEqualsIn2_21)
{
    Use("2.21", 2);

    ASSERT_EQ(ncclSuccess,
              Run({Call(kAr, 1024), Call(kAr, 1024), Call(kAr, 512)}));

    EXPECT_THAT(WhetherAsked(), testing::ElementsAre(false, true, false));
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
    Use("2.31", 5);
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

// Without a size a type is bf16 or fp8.
TEST_F(Group, TypesHaveSizes)
{
    mock_call fp8 = Call(kAr, 64);
    fp8.fp8 = true;

    ASSERT_EQ(ncclSuccess, Run({Call(kAr, 64), Of(2, Call(kAr, 64))}));
    EXPECT_EQ(1u, questions.size());
    ASSERT_EQ(ncclSuccess, Run({fp8, Fp8(Call(kAr, 64))}));
    EXPECT_EQ(2u, questions.size());
    for (size_t size : {1, 2, 4, 8})
        EXPECT_EQ(ncclSuccess, Run({Of(size, Call(kAr, 64))})) << size;
}

TEST_F(Group, EndsAtTheFirstInvalidCall)
{
    EXPECT_EQ(ncclInvalidArgument,
              Run({Call(kAr, 1024), Of(3, Call(kAr, 1024))}));

    EXPECT_THAT(mock_last_error(), HasSubstr("no type of 3 bytes"));
    EXPECT_TRUE(questions.empty());
}

} // namespace
