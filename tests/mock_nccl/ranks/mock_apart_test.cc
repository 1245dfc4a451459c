// Collectives that do not join runs: broadcasts of several roots, buffers in
// symmetric windows.
#include <gmock/gmock.h>

#include "mock_ranks.h"
#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::IsEmpty;

namespace
{

// ---- a tuner that records its calls ----

std::vector<std::string> asked; // "4 1048576 x1": collective, bytes, pipe ops
std::function<ncclResult_t(Table, int *)> answer;
int last_reg_buff;

ncclResult_t InitV4(size_t, size_t, ncclDebugLogger_t, void **)
{
    return ncclSuccess;
}
ncclResult_t RecordAsk(void *, ncclFunc_t coll, size_t n_bytes, int n_pipe_ops,
                       float **table, int, int, int reg_buff, int *n_channels)
{
    last_reg_buff = reg_buff;
    asked.push_back(std::to_string(coll) + " " + std::to_string(n_bytes) +
                    " x" + std::to_string(n_pipe_ops));
    return answer ? answer(reinterpret_cast<Table>(table), n_channels)
                  : ncclSuccess;
}
const ncclTuner_v4_t kV4{"notes", InitV4, RecordAsk, Finalize};

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
        answer = nullptr;
    }
    ncclResult_t Run(const std::string &version,
                     const std::vector<mock_call> &calls)
    {
        nccl_ = MakeNccl({version.c_str(), nullptr, &kV4, 4});
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

// ---- AllGatherV ----

TEST_F(Apart, BroadcastsOfSeveralRootsAreAnAllGatherOfTheLargestFrom2_29)
{
    const std::vector<mock_call> calls = {Broadcast(2, K), Broadcast(0, 3 * K),
                                          Broadcast(1, 2 * K)};

    EXPECT_THAT(Asks("2.28", calls), ElementsAre("0 6144 x1"));
    for (const char *version : {"2.29", "2.30", "2.31dev"})
        EXPECT_THAT(Asks(version, calls), ElementsAre("2 12288 x1")) << version;
}

TEST_F(Apart, BroadcastsOfOneRootAreBroadcasts)
{
    EXPECT_THAT(Asks("2.30", {Broadcast(3, K), Broadcast(3, 3 * K)}),
                ElementsAre("0 4096 x1"));
    // nothing moves, so there is no second root
    EXPECT_THAT(Asks("2.30", {Broadcast(3, K), Broadcast(1, 0)}),
                ElementsAre("0 1024 x1"));
}

TEST_F(Apart, BroadcastsOfOneRootQueueBehindTheOthers)
{
    const std::vector<mock_call> calls = {Broadcast(0, K),
                                          Call(ncclFuncReduce, K)};

    EXPECT_THAT(Asks("2.28", calls), ElementsAre("1 1024 x1", "0 1024 x1"));
    EXPECT_THAT(Asks("2.29", calls), ElementsAre("0 1024 x1", "1 1024 x1"));
}

TEST_F(Apart, OneOfEachRootAtATime)
{
    EXPECT_THAT(Asks("2.30", {Broadcast(1, K), Broadcast(1, 5 * K),
                              Broadcast(0, 2 * K), Broadcast(1, 3 * K)}),
                ElementsAre("2 8192 x1", "2 20480 x1", "2 12288 x1"));
    EXPECT_TRUE(outcomes_[2].asked); // root 0 comes first
    EXPECT_FALSE(outcomes_[0].asked);
    EXPECT_TRUE(outcomes_[1].asked);
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

TEST_F(Apart, CallsThatCouldUseWindowsAreOneRunFrom2_29)
{
    const std::vector<mock_call> calls = {Call(ncclFuncAllReduce, K),
                                          Call(ncclFuncAllReduce, 4 * K),
                                          Call(ncclFuncAllReduce, M)};

    EXPECT_THAT(Asks("2.28", calls),
                ElementsAre("4 1024 x1", "4 4096 x1", "4 1048576 x1"));
    for (const char *version : {"2.29", "2.30", "2.31dev"})
        EXPECT_THAT(Asks(version, calls), ElementsAre("4 1053696 x1"))
            << version;
    machine_ = LoadMachine("h100n2x8");
    EXPECT_EQ(3u, Asks("2.30", calls).size());
}

TEST_F(Apart, ItsRegBuffIsThatOfTheLargest)
{
    mock_call small = Call(ncclFuncAllGather, K);
    small.reg_buff = 1;

    Asks("2.30", {small, Call(ncclFuncAllGather, M)});

    EXPECT_EQ(0, last_reg_buff);
    EXPECT_TRUE(outcomes_[1].asked);
    EXPECT_FALSE(outcomes_[0].asked);
}

struct KernelCase {
    ncclFunc_t coll;
    size_t element_size;
    bool no_nvls, fp8, no_pat;
    bool in_2_29, in_2_30;
};

TEST_F(Apart, CallsThatCouldUseWindowsFollowTheOthers)
{
    const std::vector<mock_call> calls = {Call(ncclFuncAllReduce, M),
                                          Call(ncclFuncReduce, K)};

    EXPECT_THAT(Asks("2.28", calls), ElementsAre("4 1048576 x1", "1 1024 x1"));
    EXPECT_THAT(Asks("2.29", calls), ElementsAre("1 1024 x1", "4 1048576 x1"));
}

TEST_F(Apart, KernelsAreForSumsOfSmallFloatsAndAnyAllGather)
{
    const KernelCase cases[] = {
        {ncclFuncAllGather, 8, false, false, false, true, true},
        {ncclFuncAllReduce, 2, false, false, false, true, true},
        {ncclFuncAllReduce, 4, false, false, false, true, true},
        {ncclFuncReduceScatter, 1, true, true, false, true, true},
        {ncclFuncReduceScatter, 2, true, false, true, false, true}, // avg
        {ncclFuncAllReduce, 4, true, false, false, false, false},   // max
        {ncclFuncAllReduce, 8, false, false, false, false, false},
        {ncclFuncAllReduce, 1, false, false, false, false, false},
        {ncclFuncReduce, 2, false, false, false, false, false},
    };

    for (const KernelCase &c : cases) {
        mock_call call = Windows(c.coll, M, MOCK_WINDOWS_BOTH);
        call.element_size = c.element_size;
        call.no_nvls = c.no_nvls;
        call.fp8 = c.fp8;
        call.no_pat = c.no_pat;
        size_t i = static_cast<size_t>(&c - cases);
        EXPECT_EQ(c.in_2_29 ? 0u : 1u, Asks("2.28", {call}).size()) << i;
        EXPECT_EQ(c.in_2_29 ? 0u : 1u, Asks("2.29", {call}).size()) << i;
        EXPECT_EQ(c.in_2_30 ? 0u : 1u, Asks("2.30", {call}).size()) << i;
        EXPECT_EQ(c.in_2_30 ? -1 : NCCL_ALGO_RING, outcomes_[0].algo) << i;
    }
}

TEST_F(Apart, BothWindowsByPassTheTunerAloneIn2_27AndInGroupsFrom2_28)
{
    const mock_call call = Windows(ncclFuncAllReduce, M, MOCK_WINDOWS_BOTH);
    const mock_call other = Call(ncclFuncReduce, K);

    EXPECT_THAT(Asks("2.26", {call}), ElementsAre("4 1048576 x1"));
    EXPECT_THAT(Asks("2.27", {call}), IsEmpty());
    EXPECT_THAT(Asks("2.27", {call, other}),
                ElementsAre("4 1048576 x1", "1 1024 x1"));
    EXPECT_THAT(Asks("2.28", {call, other}), ElementsAre("1 1024 x1"));
    EXPECT_THAT(Asks("2.28", std::vector<mock_call>(30, call)), IsEmpty());
    machine_ = LoadMachine("h100n2x8");
    EXPECT_THAT(Asks("2.28", {call}), ElementsAre("4 1048576 x1"));
}

void AnswerProtocol(int proto)
{
    answer = [proto](Table table, int *) {
        table[NCCL_ALGO_RING][proto] = 0;
        return ncclSuccess;
    };
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

TEST_F(Apart, OneWindowIsEnoughWhereItIsTheRightOne)
{
    EXPECT_THAT(
        Asks("2.30", {Windows(ncclFuncAllGather, M, MOCK_WINDOWS_RECV)}),
        IsEmpty());
    EXPECT_THAT(
        Asks("2.30", {Windows(ncclFuncReduceScatter, M, MOCK_WINDOWS_SEND)}),
        IsEmpty());
    AnswerProtocol(NCCL_PROTO_SIMPLE);
    EXPECT_EQ(2u,
              Asks("2.30", {Windows(ncclFuncAllGather, M, MOCK_WINDOWS_SEND)})
                  .size());
    EXPECT_EQ(
        2u, Asks("2.30", {Windows(ncclFuncReduceScatter, M, MOCK_WINDOWS_RECV)})
                .size());
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

// ---- all ranks ----

TEST_F(Apart, OnlyRank0LogsWhatWasDecided)
{
    const mock_call call = Call(ncclFuncAllReduce, M);
    const mock_step step{&call, 1};
    mock_script played{};
    played.steps = &step;
    played.n_steps = 1;
    const mock_ranks_options options{};
    Nccl nccl = MakeNccl({"2.28", nullptr, &kV4, 4});
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
