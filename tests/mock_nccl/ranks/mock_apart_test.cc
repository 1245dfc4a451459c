// Collectives that do not join runs: broadcasts of several roots, buffers in
// symmetric windows.
#include <gmock/gmock.h>

#include "mock_ranks.h"
#include "support/mock_folder.h"
#include "support/mock_script.h"
#include "support/with_param.h"

extern "C" {
#include "core/dtype.h"
#include "device/mock/operation.h"
}

using namespace mock_test;

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

using ApartTable = WithParam<Apart, ApartCase>;

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

// ---- symmetric windows ----

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
