// Collectives in CUDA graphs: the tuner's calls, and the outcome of launches.
#include <gmock/gmock.h>

#include "support/mock_profiler.h"
#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::HasSubstr;

namespace
{

struct FreeGraph {
    void operator()(mock_cuda_graph *graph) const
    {
        mock_graph_destroy(graph);
    }
};
using Graph = std::unique_ptr<mock_cuda_graph, FreeGraph>;

std::vector<int> reg_buffs; // of every question
ncclResult_t answer;

ncclResult_t Count(const Asked &asked)
{
    reg_buffs.push_back(asked.reg_buff);
    // later answers differ, and must not affect a replay
    asked.table[NCCL_ALGO_TREE][NCCL_PROTO_LL] = 0;
    *asked.n_channels = static_cast<int>(reg_buffs.size());
    return answer;
}

class Capture : public testing::Test
{
  protected:
    Capture()
    {
        reg_buffs.clear();
        answer = ncclSuccess;
        on_ask = Count;
    }

    ncclResult_t Take(const std::vector<mock_call> &calls)
    {
        mock_cuda_graph *graph = nullptr;
        ncclResult_t rc =
            mock_comm_capture(comm_.get(), calls.data(), calls.size(), &graph);
        graph_.reset(graph);
        outcomes_.resize(calls.size());
        return rc;
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl(WithScript());
    Comm comm_ = MakeComm(nccl_, machine_);
    Graph graph_;
    std::vector<mock_outcome> outcomes_;
};

const mock_call kCall = Call(ncclFuncAllReduce, 1 << 20);

TEST_F(Capture, AsksOnceWithRegisteredBuffersAndNeverInAReplay)
{
    ASSERT_EQ(ncclSuccess, Take({kCall})) << mock_last_error();
    EXPECT_THAT(reg_buffs, ElementsAre(1));

    for (int i = 0; i < 3; i++) {
        mock_graph_launch(graph_.get(), outcomes_.data());
        EXPECT_EQ(NCCL_ALGO_TREE, outcomes_[0].algo);
        EXPECT_EQ(NCCL_PROTO_LL, outcomes_[0].proto);
        EXPECT_EQ(1, outcomes_[0].n_channels);
        EXPECT_FALSE(outcomes_[0].asked);
    }

    EXPECT_THAT(reg_buffs, ElementsAre(1));
}

TEST_F(Capture, FailsAsTheTunerDoes)
{
    answer = ncclInternalError;

    EXPECT_EQ(ncclInternalError, Take({kCall}));

    EXPECT_EQ(nullptr, graph_);
    EXPECT_THAT(mock_last_error(), HasSubstr("getCollInfo returned 3"));
}

// ---- with a profiler ----

// Returns the profiler's lines of a launch and its call back.
Lines Replay(mock_cuda_graph *graph, std::vector<mock_outcome> &outcomes)
{
    Log log;

    mock_graph_launch(graph, outcomes.data());
    mock_graph_call_back(graph, outcomes.data());
    return ProfilerLines(log);
}

TEST(CaptureProfiled, ReportsItsLaunchesWhereChannelsWereRequested)
{
    Profiled p(kListener, kKernels);
    const std::vector<mock_call> calls = {Call(ncclFuncReduceScatter, 0),
                                          Call(ncclFuncReduceScatter, 16384),
                                          Call(ncclFuncReduceScatter, 32768)};
    std::vector<mock_outcome> outcomes(3);
    mock_cuda_graph *taken = nullptr;
    ASSERT_EQ(ncclSuccess,
              mock_comm_capture(p.comm.get(), calls.data(), 3, &taken));
    const Graph graph(taken);

    const Lines lines = Replay(taken, outcomes);

    EXPECT_FALSE(outcomes[0].is_timed);
    EXPECT_EQ(nullptr, outcomes[0].event);
    EXPECT_THAT(lines,
                ElementsAre("1000 start 4 Group of 0 rank 0",
                            "1000 start 5 Coll of 2 rank 0 ReduceScatter 2048 "
                            "ncclBfloat16 root 0 RING/LL on 2 number 0 in 4",
                            "1000 start 6 Coll of 3 rank 0 ReduceScatter 4096 "
                            "ncclBfloat16 root 0 RING/LL on 4 number 1 in 4",
                            "stop 5", "stop 6", "stop 4"));
    for (size_t i : {1, 2}) {
        EXPECT_TRUE(outcomes[i].is_timed);
        EXPECT_EQ(reinterpret_cast<void *>(4 + i), outcomes[i].event);
    }
    const Lines again = Replay(taken, outcomes); // its numbers go on
    ASSERT_EQ(6u, again.size());
    EXPECT_NE(std::string::npos, again[1].find(" number 2 ")) << again[1];
    EXPECT_NE(std::string::npos, again[2].find(" number 3 ")) << again[2];
}

TEST(CaptureProfiled, ReportsNothingWhereTheyWereNotRequested)
{
    Profiled p(kListener, NCCL_PROFILE_COLL);
    const mock_call call = Call(ncclFuncReduceScatter, 16384);
    std::vector<mock_outcome> outcomes(1);
    mock_cuda_graph *taken = nullptr;
    ASSERT_EQ(ncclSuccess, mock_comm_capture(p.comm.get(), &call, 1, &taken));
    const Graph graph(taken);
    *p.profiler->nccl_mask = kKernels; // too late

    EXPECT_THAT(Replay(taken, outcomes), testing::IsEmpty());
    EXPECT_FALSE(outcomes[0].is_timed);
}

// Without handles of their group or their call, some ranks could report them
// and some not.
TEST(CaptureProfiled, CountsLaunchesThatAllRanksReport)
{
    const struct {
        int followed;
        const char *second; // number of the second launch
    } cases[] = {
        {kAll, " number 1 "},
        {NCCL_PROFILE_COLL, " number 0 "},
        {NCCL_PROFILE_COLL | NCCL_PROFILE_GROUP, " number 1 "},
        {NCCL_PROFILE_COLL | NCCL_PROFILE_COLL_API, " number 1 "},
    };
    const mock_call call = Call(ncclFuncReduceScatter, 16384);

    for (const auto &c : cases) {
        Profiled p(kListener, kKernels, c.followed);
        std::vector<mock_outcome> outcomes(1);
        mock_cuda_graph *taken = nullptr;
        ASSERT_EQ(ncclSuccess,
                  mock_comm_capture(p.comm.get(), &call, 1, &taken));
        const Graph graph(taken);
        for (const char *number : {" number 0 ", c.second}) {
            const Lines lines = Replay(taken, outcomes);
            ASSERT_LE(2u, lines.size());
            EXPECT_NE(std::string::npos, lines[1].find(number))
                << c.followed << ": " << lines[1];
        }
    }
}

TEST(CaptureProfiled, OfAnInvalidCallIsNoGraph)
{
    Profiled p(kListener, kKernels);
    mock_call calls[] = {Call(ncclFuncReduceScatter, 16384),
                         Call(ncclFuncReduceScatter, 16384)};
    mock_cuda_graph *taken = nullptr;
    calls[1].element_size = 3;
    Log log;

    EXPECT_EQ(ncclInvalidArgument,
              mock_comm_capture(p.comm.get(), calls, 2, &taken));

    EXPECT_EQ(nullptr, taken);
    EXPECT_EQ("stop 1", ProfilerLines(log).back()); // of the group
    mock_graph_destroy(nullptr);
}

} // namespace
