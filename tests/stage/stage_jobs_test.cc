#include <gtest/gtest.h>

#include "stage/jobs.h"

using namespace stage_jobs;

// Aborts leave communicators and memory behind, as the library does by design;
// and each rank has a copy of the library, with all that it points to, only
// until the copy is closed.
extern "C" const char *__asan_default_options()
{
    return "detect_leaks=0";
}

namespace
{

const Libraries &TheLibraries()
{
    static const Libraries libraries; // static TLS is scarce

    return libraries;
}

class StageJobs : public testing::Test
{
  protected:
    // STP_STAGE_JOBS and STP_STAGE_SEED in the environment say otherwise.
    void RunAll(Kind kind, const char *name, uint64_t n)
    {
        const char *jobs = getenv("STP_STAGE_JOBS"),
                   *seed = getenv("STP_STAGE_SEED");

        EXPECT_TRUE(storms::RunAll(
            name, jobs != nullptr ? strtoull(jobs, nullptr, 10) : n,
            seed != nullptr ? strtoull(seed, nullptr, 10) : 1, [&](uint64_t s) {
                return stage_jobs::Run(TheLibraries(), s, kind);
            }));
    }
};

TEST_F(StageJobs, AreRightWithoutTheLibrary)
{
    RunAll(Kind::kPlain, "plain jobs", 100);
}

TEST_F(StageJobs, OfAgreeingRanksAreStagedWithTheSameResults)
{
    const uint64_t before = fake::CountSymmetric();

    RunAll(Kind::kCalm, "calm jobs", 200);
    EXPECT_GT(fake::CountSymmetric() - before, 1000U);
}

TEST_F(StageJobs, OfRanksThatDifferAreNotStaged)
{
    RunAll(Kind::kOdd, "odd jobs", 20);
}

TEST_F(StageJobs, OfWhichARankIsGoneCanBeAborted)
{
    RunAll(Kind::kDeadly, "deadly jobs", 40);
}

// All-reduces of one communicator, and what the library adds to each step: its
// calls of the driver, and nodes of the graph.
const struct Step {
    const char *name;
    int n_calls;
    size_t n_bytes; // 1,536 and 3,072 are staged
    int stream;
    enum { kEager, kGroup, kGraph } how;
    uint64_t n_driver_calls, n_nodes;
} steps[] = {
    {"plain", 2, 512, 1, Step::kEager, 0, 0},
    {"plain on another stream", 2, 512, 2, Step::kEager, 0, 0},
    {"a plain group", 2, 512, 1, Step::kGroup, 0, 0},
    {"a plain graph", 25, 512, 1, Step::kGraph, 0, 0},
    {"nothing to do", 2, 0, 1, Step::kEager, 0, 0},
    // The context twice, a wait, two copies and a record.
    {"the first staged one", 1, 1536, 1, Step::kEager, 6, 0},
    {"staged on its stream", 2, 1536, 1, Step::kEager, 2 * 5, 0},
    // The context twice and a record; another stream waits.
    {"plain behind staged ones", 2, 512, 1, Step::kEager, 2 * 3, 0},
    {"plain on a third stream", 2, 512, 2, Step::kEager, 4 + 3, 0},
    {"a plain group behind them", 2, 512, 2, Step::kGroup, 3, 0},
    // One wait and one record a graph.
    {"a plain graph behind them", 25, 512, 1, Step::kGraph, 5 + 24 * 5, 2},
    {"a staged graph", 25, 1536, 1, Step::kGraph, 7 + 24 * 7, 2 + 25 * 2},
    // Graphs may be launched on any stream.
    {"plain behind graphs", 2, 512, 1, Step::kEager, 2 * 4, 0},
};

void TakeSteps(const Api &api, int rank, ncclUniqueId id)
{
    std::vector<char> data(8192);
    cudaStream_t streams[kStreams];
    ncclComm_t comm;

    fake::EnterThread(rank);
    for (cudaStream_t &stream : streams)
        stream = fake::NewStream();
    ASSERT_EQ(api.ncclCommInitRank(&comm, 2, id, rank), ncclSuccess);
    for (const Step &step : steps) {
        cudaStream_t stream = streams[step.stream];
        const uint64_t before = fake::CountDriverCalls();

        if (step.how == Step::kGraph)
            fake::BeginCapture(stream);
        if (step.how == Step::kGroup)
            api.ncclGroupStart();
        for (int i = 0; i < step.n_calls; i++)
            EXPECT_EQ(api.ncclAllReduce(data.data(), data.data(),
                                        step.n_bytes / sizeof(float), 7, 0,
                                        comm, stream),
                      ncclSuccess);
        if (step.how == Step::kGroup)
            api.ncclGroupEnd();
        EXPECT_EQ(fake::CountDriverCalls() - before, step.n_driver_calls)
            << step.name;
        if (step.how == Step::kGraph) {
            fake::Graph *graph = fake::EndCapture(stream);

            ASSERT_NE(graph, nullptr) << step.name;
            EXPECT_EQ(fake::CountNodes(graph), step.n_calls + step.n_nodes)
                << step.name;
            fake::LaunchGraph(graph, stream);
        }
        EXPECT_TRUE(fake::Synchronize(stream)) << step.name;
    }
    EXPECT_EQ(api.ncclCommDestroy(comm), ncclSuccess);
    fake::LeaveThread({});
}

TEST_F(StageJobs, PayForPlainCallsOnlyBehindStagedOnes)
{
    std::vector<std::thread> threads;
    ncclUniqueId id;

    setenv("FAKE_NCCL_VERSION", kVersion, 1);
    fake::BeginJob(1, 2);
    TheLibraries().Plain().ncclGetUniqueId(&id);
    for (int r = 0; r < 2; r++)
        threads.emplace_back(
            TakeSteps, std::cref(TheLibraries().Calm(r, kVersion)), r, id);
    for (std::thread &thread : threads)
        thread.join();
    EXPECT_EQ(fake::EndJob(), "");
}

// As JAX and nccl-tests do: one thread has all GPUs.
TEST_F(StageJobs, OfOneThreadAreStaged)
{
    enum { kRanks = 4, kBytes = 1536 };
    const Api &api = TheLibraries().Calm(0, kVersion);
    std::vector<char> data[kRanks];
    cudaStream_t streams[kRanks];
    ncclComm_t comms[kRanks], children[kRanks];
    const uint64_t before = fake::CountSymmetric();

    setenv("FAKE_NCCL_VERSION", kVersion, 1);
    fake::BeginJob(1, 1);
    fake::EnterThread(0);
    ASSERT_EQ(api.ncclCommInitAll(comms, kRanks, nullptr), ncclSuccess);
    api.ncclGroupStart();
    for (int r = 0; r < kRanks; r++) {
        data[r].resize(kBytes);
        streams[r] = fake::NewStream();
        api.ncclCommSplit(comms[r], r / 2, r, &children[r], nullptr);
    }
    ASSERT_EQ(api.ncclGroupEnd(), ncclSuccess);
    for (const ncclComm_t *all : {comms, children}) {
        api.ncclGroupStart();
        for (int r = 0; r < kRanks; r++)
            api.ncclAllReduce(data[r].data(), data[r].data(),
                              kBytes / sizeof(float), 7, 0, all[r], streams[r]);
        EXPECT_EQ(api.ncclGroupEnd(), ncclSuccess);
        for (cudaStream_t stream : streams)
            EXPECT_TRUE(fake::Synchronize(stream));
    }
    EXPECT_EQ(fake::CountSymmetric() - before, 2u * kRanks);
    for (const ncclComm_t *all : {children, comms})
        for (int r = 0; r < kRanks; r++)
            EXPECT_EQ(api.ncclCommDestroy(all[r]), ncclSuccess);
    fake::LeaveThread({});
    EXPECT_EQ(fake::EndJob(), "");
}

} // namespace
