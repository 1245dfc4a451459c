// Collectives that do not join runs: broadcasts of several roots, buffers in
// symmetric windows.
#include <gmock/gmock.h>

#include "mock_ranks.h"
#include "support/mock_folder.h"
#include "support/mock_script.h"

extern "C" {
#include "core/dtype.h"
#include "device/mock/operation.h"
}

using namespace mock_test;
using testing::ElementsAre;

namespace
{

// ---- a tuner that records its calls ----

std::vector<std::string> asked; // "4 1048576 x1": collective, bytes, pipe ops
std::function<ncclResult_t(Table, int *)> answer;
std::vector<int> reg_buffs; // of these calls

bool HasChoice(Table table)
{
    bool any = false;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            any |= table[a][p] >= 0;
    return any;
}

ncclResult_t RecordAsk(const Asked &question)
{
    reg_buffs.push_back(question.reg_buff);
    asked.push_back(std::to_string(question.coll) + " " +
                    std::to_string(question.n_bytes) + " x" +
                    std::to_string(question.n_pipe_ops) +
                    (HasChoice(question.table) ? "" : " of none"));
    return answer ? answer(question.table, question.n_channels) : ncclSuccess;
}

mock_call Broadcast(int root, size_t n_bytes)
{
    mock_call call = Call(ncclFuncBroadcast, n_bytes);
    call.root = root;
    return call;
}

mock_call Windows(ncclFunc_t coll, size_t n_bytes, mock_windows windows)
{
    mock_call call = Call(coll, n_bytes);
    call.windows = windows;
    return call;
}

constexpr size_t K = 1 << 10;
constexpr size_t M = 1 << 20;

class Apart : public testing::Test
{
  protected:
    void SetUp() override
    {
        asked.clear();
        reg_buffs.clear();
        answer = nullptr;
        on_ask = RecordAsk;
    }
    ncclResult_t Run(const std::string &version,
                     const std::vector<mock_call> &calls)
    {
        nccl_ = MakeNccl(WithScript(version.c_str(), 4));
        Comm comm = MakeComm(nccl_, machine_);
        outcomes_.resize(calls.size());
        return mock_comm_group(comm.get(), calls.data(), calls.size(),
                               outcomes_.data());
    }
    std::vector<std::string> Asks(const std::string &version,
                                  const std::vector<mock_call> &calls)
    {
        asked.clear();
        EXPECT_EQ(ncclSuccess, Run(version, calls)) << mock_last_error();
        return asked;
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_;
    std::vector<mock_outcome> outcomes_;
};

struct ApartCase {
    const char *name;
    std::vector<const char *> versions;
    std::vector<mock_call> calls;
    std::vector<std::string> asked;
    const char *machine = "h200x4";
};

class ApartTable : public Apart, public testing::WithParamInterface<ApartCase>
{
};

TEST_P(ApartTable, AsksAsThatVersionDoes)
{
    machine_ = LoadMachine(GetParam().machine);
    answer = [](Table table, int *) { // as every version does without LL
        table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
        return ncclSuccess;
    };

    for (const char *version : GetParam().versions)
        EXPECT_EQ(GetParam().asked, Asks(version, GetParam().calls)) << version;
}

mock_call OfRun(int n_pipe_ops, mock_call call)
{
    call.n_pipe_ops = n_pipe_ops;
    return call;
}

constexpr ncclFunc_t kAr = ncclFuncAllReduce;
constexpr ncclFunc_t kAg = ncclFuncAllGather;
constexpr ncclFunc_t kRs = ncclFuncReduceScatter;
const std::vector<const char *> kNew = {"2.29", "2.30"};
const std::vector<const char *> kNewest = {"2.31", "2.32.3", "2.32"};
// The calls of a preview: one without anything to choose, one with all.
#define PREVIEW(call) call " x0 of none", call " x0"
const std::vector<mock_call> kRoots = {Broadcast(2, K), Broadcast(0, 3 * K),
                                       Broadcast(1, 2 * K)};
const std::vector<mock_call> kRootAndReduce = {Broadcast(0, K),
                                               Call(ncclFuncReduce, K)};
const std::vector<mock_call> kSizes = {Call(kAr, K), Call(kAr, 4 * K),
                                       Call(kAr, M)};
const std::vector<mock_call> kTwo = {Call(kAr, M), Call(ncclFuncReduce, K)};
const mock_call kBoth = Windows(kAr, M, MOCK_WINDOWS_BOTH);
const std::vector<mock_call> kBothAndOther = {kBoth, Call(ncclFuncReduce, K)};

// clang-format off
const ApartCase kApartCases[] = {
    {"broadcasts_of_roots_in_2_28", {"2.28"}, kRoots, {"0 6144 x1"}},
    {"broadcasts_of_roots_are_an_allgather_of_the_largest", kNew, kRoots, {"2 12288 x1"}},
    {"broadcasts_of_one_root", {"2.30"}, {Broadcast(3, K), Broadcast(3, 3 * K)}, {"0 4096 x1"}},
    {"a_root_without_bytes_is_none", {"2.30"}, {Broadcast(3, K), Broadcast(1, 0)}, {"0 1024 x1"}},
    {"broadcasts_of_one_root_in_2_28", {"2.28"}, kRootAndReduce, {"1 1024 x1", "0 1024 x1"}},
    {"broadcasts_of_one_root_queue_behind_the_others", {"2.29"}, kRootAndReduce, {"0 1024 x1", "1 1024 x1"}},
    {"runs_in_2_28", {"2.28"}, kSizes, {"4 1024 x1", "4 4096 x1", "4 1048576 x1"}},
    {"calls_that_could_use_windows_are_one_run", kNew, kSizes, {"4 1053696 x1"}},
    {"not_over_several_nodes", {"2.30"}, kSizes, {"4 1024 x1", "4 4096 x1", "4 1048576 x1"}, "h100n2x8"},
    {"order_in_2_28", {"2.28"}, kTwo, {"4 1048576 x1", "1 1024 x1"}},
    {"calls_that_could_use_windows_follow_the_others", {"2.29"}, kTwo, {"1 1024 x1", "4 1048576 x1"}},
    {"both_windows_before_2_27", {"2.26"}, {kBoth}, {"4 1048576 x1"}},
    {"both_windows_by_pass_the_tuner", {"2.27"}, {kBoth}, {}},
    {"both_windows_in_a_group_in_2_27", {"2.27"}, kBothAndOther, {"4 1048576 x1", "1 1024 x1"}},
    {"both_windows_in_a_group", {"2.28"}, kBothAndOther, {"1 1024 x1"}},
    {"both_windows_in_a_large_group", {"2.28"}, std::vector<mock_call>(30, kBoth), {}},
    {"both_windows_over_several_nodes", {"2.28"}, {kBoth}, {"4 1048576 x1"}, "h100n2x8"},
    {"a_gather_needs_the_received", {"2.30"}, {Windows(kAg, M, MOCK_WINDOWS_RECV)}, {}},
    {"a_scatter_needs_the_sent", {"2.30"}, {Windows(kRs, M, MOCK_WINDOWS_SEND)}, {}},
    {"a_gather_of_the_sent_needs_ll", {"2.30"}, {Windows(kAg, M, MOCK_WINDOWS_SEND)},
     {"2 1048576 x1", "2 1048576 x1"}},
    {"a_small_gather_is_one_of_ll", {"2.30"}, {Windows(kAg, K, MOCK_WINDOWS_RECV)}, {"2 1024 x1", "2 1024 x1"}},
    {"broadcasts_of_roots_in_2_31", kNewest, kRoots, {"2 12288 x1"}},
    {"previews_of_each_kind", kNewest, kSizes, {PREVIEW("4 1053696"), "4 1053696 x1"}},
    {"previews_come_first", kNewest, kTwo, {PREVIEW("4 1048576"), "1 1024 x1", "4 1048576 x1"}},
    {"previews_count_bytes_of_one_rank", kNewest, {Call(kAg, 4 * M + 4)}, {PREVIEW("2 1049600"), "2 4194308 x1"}},
    {"a_preview_of_both_windows", kNewest, {kBoth}, {"4 1048576 x0 of none"}},
    {"previews_of_one_window", kNewest, {Windows(kAr, M, MOCK_WINDOWS_SEND)}, {PREVIEW("4 1048576"), "4 1048576 x1"}},
    {"a_preview_of_the_received", kNewest, {Windows(kAg, M, MOCK_WINDOWS_RECV)}, {"2 262144 x0 of none"}},
    {"no_preview_of_other_kinds", kNewest, {Call(ncclFuncReduce, K)}, {"1 1024 x1"}},
    {"no_preview_over_several_nodes", kNewest, {Call(kAr, K)}, {"4 1024 x1"}, "h100n2x8"},
    {"a_scatter_of_the_received_needs_ll", {"2.30"}, {Windows(kRs, M, MOCK_WINDOWS_RECV)},
     {"3 1048576 x1", "3 1048576 x1"}},
    {"the_question_of_ll_counts_one_of_a_run", kNew, {OfRun(3, Windows(kAr, M, MOCK_WINDOWS_SEND))},
     {"4 1048576 x1", "4 1048576 x3"}},
};
// clang-format on
INSTANTIATE_TEST_SUITE_P(Table, ApartTable, testing::ValuesIn(kApartCases),
                         CaseName());

// ---- AllGatherV ----

TEST_F(Apart, OneOfEachRootAtATime)
{
    EXPECT_THAT(Asks("2.30", {Broadcast(1, K), Broadcast(1, 5 * K),
                              Broadcast(0, 2 * K), Broadcast(1, 3 * K)}),
                ElementsAre("2 8192 x1", "2 20480 x1", "2 12288 x1"));
    EXPECT_TRUE(outcomes_[2].asked); // root 0 comes first
    EXPECT_FALSE(outcomes_[0].asked);
    EXPECT_TRUE(outcomes_[1].asked);
}

TEST_F(Apart, AllGatherVIsAsLongAsItsLongestPart)
{
    const std::vector<size_t> parts[] = {
        {5 * K, K, 2 * K}, {K, 5 * K, 2 * K}, {K, 2 * K, 5 * K}};

    for (const auto &part : parts)
        EXPECT_THAT(Asks("2.30", {Broadcast(0, part[0]), Broadcast(1, part[1]),
                                  Broadcast(2, part[2])}),
                    ElementsAre("2 20480 x1"));
}

// What is left of 1, 8 and 16 KiB in parts of 48 bytes.
TEST_F(Apart, AllGatherVTakesAsManyRootsAsTheGpuHasRoomFor)
{
    const struct {
        int compute_capability;
        size_t most;
    } cases[] = {{70, 20}, {80, 169}, {89, 169}, {90, 340}};

    for (const auto &c : cases) {
        Folder folder;
        folder.WriteAs("a100n2x8", "2.28.9");
        folder.Write("machine.csv",
                     "gpu,compute_capability,ranks,nodes,cpu_vendor,channels,"
                     "nvls_channels,nccl\nG," +
                         std::to_string(c.compute_capability) +
                         ",16,2,amd,16,0,2.28.9\n");
        machine_ = Resized(LoadFolder(folder.Path()), 512);
        for (size_t n : {c.most, c.most + 1}) {
            std::vector<mock_call> calls;
            for (size_t root = 0; root < n; root++)
                calls.push_back(Broadcast(static_cast<int>(root), K));
            EXPECT_EQ(n - c.most + 1, Asks("2.30", calls).size())
                << c.compute_capability;
        }
    }
}

TEST_F(Apart, ComesLastAndDoesNotCountAsPipelined)
{
    std::vector<mock_call> calls(20, Call(ncclFuncReduce, K));
    calls.insert(calls.begin(), 10, Broadcast(0, M));
    calls.insert(calls.begin(), 10, Broadcast(1, M));

    EXPECT_THAT(Asks("2.28", calls),
                ElementsAre("0 20971520 x2", "1 20480 x2"));
    EXPECT_EQ("1 20480 x1", Asks("2.30", calls).front());
    EXPECT_EQ(11u, asked.size());
    EXPECT_EQ("2 4194304 x1", asked.back());
}

TEST_F(Apart, OnlyProtocolAndChannelsOfTheAnswerCount)
{
    answer = [](Table table, int *n_channels) {
        table[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = 0; // no such allgather
        *n_channels = 3;
        return ncclSuccess;
    };

    Asks("2.30", {Broadcast(0, M), Broadcast(1, 512)});

    for (const mock_outcome &outcome : outcomes_) {
        EXPECT_EQ(NCCL_ALGO_RING, outcome.algo);
        EXPECT_EQ(NCCL_PROTO_LL128, outcome.proto);
    }
    EXPECT_EQ(3, outcomes_[0].n_channels);
    EXPECT_EQ(2, outcomes_[1].n_channels); // parts of 256 bytes
}

TEST_F(Apart, ChannelsThatAreNotThereFailAnAllGatherV)
{
    answer = [](Table, int *n_channels) {
        *n_channels = 25;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError,
              Run("2.30", {Broadcast(0, M), Broadcast(1, M)}));
    EXPECT_STREQ("25 channels were chosen for an AllGatherV, and NCCL would "
                 "use those of its 24",
                 mock_last_error());
}

TEST_F(Apart, NvlsIsNotForAllGatherV)
{
    machine_ = LoadMachine("h100x8");

    Asks("2.30", {Broadcast(0, M), Broadcast(1, M)});
    EXPECT_EQ(-1, outcomes_[0].cost[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE]);
    Asks("2.30", {Call(ncclFuncAllGather, 8 * M)});
    EXPECT_LT(0, outcomes_[0].cost[NCCL_ALGO_NVLS][NCCL_PROTO_SIMPLE]);
}

// ---- symmetric windows ----

TEST_F(Apart, ItsRegBuffIsThatOfTheLargest)
{
    mock_call small = Call(ncclFuncAllGather, K);
    small.reg_buff = 1;

    Asks("2.30", {small, Call(ncclFuncAllGather, M)});

    EXPECT_THAT(reg_buffs, ElementsAre(0));
    EXPECT_TRUE(outcomes_[1].asked);
    EXPECT_FALSE(outcomes_[0].asked);
}

// ncclMakeSymmetricTaskList() takes the head of a list, the smallest.
TEST_F(Apart, WhatIsAskedFirstHasTheRegBuffOfTheSmallest)
{
    mock_call small = Call(ncclFuncAllGather, K);
    small.reg_buff = 1;

    Asks("2.31", {small, Call(ncclFuncAllGather, M)});

    EXPECT_THAT(reg_buffs, ElementsAre(1, 1, 0));
}

struct KernelCase {
    ncclFunc_t coll;
    int type, op;
    bool in_2_28, in_2_30, in_2_32_6;
};

// ncclSymkAvailable() of 2.28.9, 2.29.7, 2.30.7 and 2.32.6.
TEST_F(Apart, KernelsAreForSumsOfSmallFloatsAndAnyAllGather)
{
    const KernelCase cases[] = {
        {kAg, STP_TYPE_F64, STP_OP_PROD, true, true, true},
        {kAr, STP_TYPE_F16, STP_OP_SUM, true, true, true},
        {kAr, STP_TYPE_F32, STP_OP_SUM, true, true, true},
        {kRs, STP_TYPE_FP8_E5M2, STP_OP_SUM, true, true, true},
        {kRs, STP_TYPE_BF16, STP_OP_AVG, false, true, true},
        {kAr, STP_TYPE_FP8_E4M3, STP_OP_AVG, false, true, false},
        {kAr, STP_TYPE_F32, STP_OP_PREMULSUM, false, false, false},
        {kAr, STP_TYPE_F16, STP_OP_PREMULSUM, false, false, false},
        {kAr, STP_TYPE_F16, STP_OP_MIN, false, false, false},
        {kAr, STP_TYPE_BF16, STP_OP_MAX, false, false, false},
        {kAr, STP_TYPE_F32, STP_OP_MAX, false, false, false},
        {kAr, STP_TYPE_F16, STP_OP_PROD, false, false, false},
        {kAr, STP_TYPE_FP8_E4M3, STP_OP_MAX, false, false, false},
        {kAr, STP_TYPE_I32, STP_OP_SUM, false, false, false},
        {kAr, STP_TYPE_U32, STP_OP_SUM, false, false, false},
        {kAr, STP_TYPE_I32, STP_OP_AVG, false, false, false},
        {kAr, STP_TYPE_I8, STP_OP_SUM, false, false, false},
        {kAr, STP_TYPE_F64, STP_OP_SUM, false, false, false},
        {kAr, STP_TYPE_F64, STP_OP_AVG, false, false, false},
        {ncclFuncReduce, STP_TYPE_F16, STP_OP_SUM, false, false, false},
    };

    for (const KernelCase &c : cases) {
        mock_call call = Windows(c.coll, M, MOCK_WINDOWS_BOTH);
        stp_set_operation(&call, c.type, c.op);
        const auto i = &c - cases;
        EXPECT_EQ(c.in_2_28, Asks("2.28", {call}).empty()) << i;
        EXPECT_EQ(c.in_2_28, Asks("2.29", {call}).empty()) << i;
        EXPECT_EQ(c.in_2_30, Asks("2.30", {call}).empty()) << i;
        EXPECT_EQ(c.in_2_30 ? -1 : NCCL_ALGO_RING, outcomes_[0].algo) << i;
        Asks("2.32.3", {call});
        EXPECT_EQ(c.in_2_30, outcomes_[0].kernel != nullptr) << i;
        Asks("2.32.6", {call});
        EXPECT_EQ(c.in_2_32_6, outcomes_[0].kernel != nullptr) << i;
    }
    const mock_call huge = Windows(kAg, size_t{64} << 30, MOCK_WINDOWS_BOTH);
    EXPECT_EQ(1u, Asks("2.30", {huge}).size());
}

TEST_F(Apart, KindsThatCouldUseWindowsAreOneQuestionAndOthersByThree)
{
    const struct {
        int type, op;
        bool in_2_29, in_2_30;
    } kinds[] = {
        {STP_TYPE_BF16, STP_OP_SUM, true, true},
        {STP_TYPE_FP8_E4M3, STP_OP_SUM, true, true},
        {STP_TYPE_F16, STP_OP_AVG, false, true},
        {STP_TYPE_I32, STP_OP_SUM, false, false},
        {STP_TYPE_U32, STP_OP_SUM, false, false},
        {STP_TYPE_F16, STP_OP_MIN, false, false},
        {STP_TYPE_FP8_E4M3, STP_OP_MAX, false, false},
        {STP_TYPE_F32, STP_OP_PREMULSUM, false, false},
    };
    machine_ = LoadMachine("h100x8");

    for (const auto &kind : kinds) {
        std::vector<mock_call> calls = {Call(kAr, K), Call(kAr, 64 * K),
                                        Call(kAr, 4 * M)};
        for (mock_call &call : calls)
            stp_set_operation(&call, kind.type, kind.op);
        const auto i = &kind - kinds;
        EXPECT_EQ(kind.in_2_29 ? 1u : 3u, Asks("2.29", calls).size()) << i;
        EXPECT_EQ(kind.in_2_30 ? 1u : 3u, Asks("2.30", calls).size()) << i;
    }
}

void AnswerProtocol(int proto)
{
    answer = [proto](Table table, int *) {
        table[NCCL_ALGO_RING][proto] = 0;
        return ncclSuccess;
    };
}

// Scaled sums and averages of f16 are one kind, but no kernel scales.
TEST_F(Apart, ListsBeginWithCallsThatCouldUseWindows)
{
    mock_call scaled = Call(kAr, 4 * M), plain = Call(kAr, K),
              in_window = Windows(kAr, 256 * K, MOCK_WINDOWS_SEND);
    stp_set_operation(&scaled, STP_TYPE_F16, STP_OP_PREMULSUM);
    stp_set_operation(&plain, STP_TYPE_F16, STP_OP_AVG);
    stp_set_operation(&in_window, STP_TYPE_F16, STP_OP_AVG);
    AnswerProtocol(NCCL_PROTO_SIMPLE);

    EXPECT_THAT(
        Asks("2.30", {scaled, in_window, plain}),
        ElementsAre("4 262144 x1", "4 1024 x1", "4 262144 x1", "4 4194304 x1"));
}

TEST_F(Apart, OneWindowIsEnoughFrom2_29IfTheAnswerIsLl)
{
    const mock_call call = Windows(ncclFuncAllReduce, M, MOCK_WINDOWS_SEND);

    AnswerProtocol(NCCL_PROTO_LL);
    EXPECT_THAT(Asks("2.28", {call}), ElementsAre("4 1048576 x1"));
    EXPECT_EQ(NCCL_ALGO_RING, outcomes_[0].algo);
    EXPECT_THAT(Asks("2.29", {call}), ElementsAre("4 1048576 x1"));
    EXPECT_EQ(-1, outcomes_[0].algo);
    AnswerProtocol(NCCL_PROTO_SIMPLE);
    EXPECT_THAT(Asks("2.29", {call}),
                ElementsAre("4 1048576 x1", "4 1048576 x1"));
    EXPECT_EQ(NCCL_PROTO_SIMPLE, outcomes_[0].proto);
    // LL kernels take one collective, of less than 2 GiB
    EXPECT_THAT(Asks("2.29", {call, call}), ElementsAre("4 2097152 x1"));
    EXPECT_THAT(Asks("2.29", {Windows(ncclFuncAllReduce, size_t{2} << 30,
                                      MOCK_WINDOWS_SEND)}),
                ElementsAre("4 2147483648 x1"));
}

TEST_F(Apart, FailureOfThatQuestionFailsTheCollectiveIn2_29Only)
{
    const mock_call call = Windows(ncclFuncAllReduce, M, MOCK_WINDOWS_RECV);
    answer = [](Table, int *) {
        return asked.size() == 1 ? ncclSystemError : ncclSuccess;
    };

    EXPECT_EQ(ncclSystemError, Run("2.29", {call}));
    asked.clear();
    EXPECT_EQ(ncclSuccess, Run("2.30", {call}));
    EXPECT_EQ(2u, asked.size());
}

TEST_F(Apart, FailureOfAPreviewFailsTheCollective)
{
    answer = [](Table table, int *) {
        return HasChoice(table) ? ncclSuccess : ncclSystemError;
    };
    EXPECT_EQ(ncclSystemError, Run("2.31", {kBoth}));
    answer = [](Table, int *) {
        return asked.back().find(" x0") != std::string::npos &&
                       asked.back().find("none") == std::string::npos
                   ? ncclSystemError
                   : ncclSuccess;
    };
    EXPECT_EQ(ncclSuccess, Run("2.31", {Call(kAr, M)}));
}

// ---- all ranks ----

TEST_F(Apart, OnlyRank0LogsWhatWasDecided)
{
    const mock_call call = Call(ncclFuncAllReduce, M);
    const mock_step step{&call, 1};
    mock_script played{};
    played.steps = &step;
    played.n_steps = 1;
    const mock_ranks_options options{};
    Nccl nccl = MakeNccl(WithScript("2.28", 4));
    mock_ranks *ranks = nullptr;
    ASSERT_EQ(ncclSuccess,
              mock_ranks_create(nccl.get(), machine_.get(), &options, &ranks));
    Log log;

    EXPECT_EQ(ncclSuccess, mock_ranks_play(ranks, &played, 1));

    EXPECT_EQ(4u, asked.size());
    EXPECT_EQ(1u, log.lines.size());
    mock_ranks_destroy(ranks);
}

} // namespace
