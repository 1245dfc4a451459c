// Mock NCCL's assumptions, seen on a real one: when it calls a tuner, in which
// order and in which threads.
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "gpu_ranks.h"
#include "witness.h"

namespace
{

using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::IsEmpty;
using testing::SizeIs;

constexpr size_t kCount = 4096; // floats

// libnccl reads it once, at its first call.
const int environment = setenv("NCCL_TUNER_PLUGIN", "STATIC_PLUGIN", 1);

std::vector<witness_event> Events()
{
    const witness_event *events = nullptr;
    size_t n = witness_events(&events);
    return {events, events + n};
}

class Lifecycle : public testing::Test
{
  protected:
    void SetUp() override
    {
        ASSERT_EQ(0, environment);
        n_ = CountRanks();
        ASSERT_GT(n_, 0);
        if (n_ == 1)
            GTEST_SKIP() << "needs two GPUs: one rank asks no tuner";
        streams_.resize(n_);
        buffers_.resize(n_);
        for (int i = 0; i < n_; i++) {
            ASSERT_EQ(cudaSuccess, cudaSetDevice(GpuOf(i)));
            ASSERT_EQ(cudaSuccess, cudaStreamCreateWithFlags(
                                       &streams_[i], cudaStreamNonBlocking));
            ASSERT_EQ(cudaSuccess,
                      cudaMalloc(&buffers_[i], kCount * sizeof(float)));
        }
        comms_.resize(n_);
        seen_ = Events().size();
        ASSERT_EQ(ncclSuccess,
                  ncclCommInitAll(comms_.data(), n_, GpusOf(n_).data()));
    }

    // Returns the events of one kind since the last call.
    std::vector<witness_event> New(witness_what kind)
    {
        std::vector<witness_event> all = Events(), found;
        for (; seen_ < all.size(); seen_++)
            if (all[seen_].what == kind)
                found.push_back(all[seen_]);
        return found;
    }

    void Queue(int rank, size_t count = kCount)
    {
        ASSERT_EQ(ncclSuccess, ncclAllReduce(buffers_[rank], buffers_[rank],
                                             count, ncclFloat, ncclSum,
                                             comms_[rank], streams_[rank]));
    }

    // All ranks.  NCCL connects them at their first collective, and a question
    // about one alone would wait for the others.
    void AllReduce()
    {
        ASSERT_EQ(ncclSuccess, ncclGroupStart());
        for (int i = 0; i < n_; i++)
            Queue(i);
        ASSERT_EQ(ncclSuccess, ncclGroupEnd());
        Synchronize();
    }

    void Synchronize()
    {
        for (int i = 0; i < n_; i++) {
            ASSERT_EQ(cudaSuccess, cudaSetDevice(GpuOf(i)));
            ASSERT_EQ(cudaSuccess, cudaStreamSynchronize(streams_[i]));
        }
    }

    // A question about one rank alone, which says whose context is whose.
    void LearnContexts()
    {
        AllReduce();
        for (int i = 0; i < n_; i++) {
            ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
            New(WITNESS_ASK);
            ASSERT_EQ(ncclSuccess, ncclGroupStart());
            Queue(i);
            ASSERT_EQ(ncclSuccess, ncclGroupSimulateEnd(&info));
            std::vector<witness_event> asked = New(WITNESS_ASK);
            ASSERT_THAT(asked, SizeIs(1));
            EXPECT_GT(info.estimatedTime, 0);
            rank_of_[asked[0].context] = i;
        }
        ASSERT_THAT(rank_of_, SizeIs(static_cast<size_t>(n_)));
    }

    std::vector<int> Ranks(const std::vector<witness_event> &events)
    {
        std::vector<int> ranks;
        for (const witness_event &e : events)
            ranks.push_back(rank_of_.at(e.context));
        return ranks;
    }

    int n_ = 0;
    size_t seen_ = 0;
    std::vector<ncclComm_t> comms_;
    std::vector<cudaStream_t> streams_;
    std::vector<float *> buffers_;
    std::map<void *, int> rank_of_;
};

TEST_F(Lifecycle, InitsOfAGroupRunInAThreadEachWithOneId)
{
    std::set<int> threads;
    std::set<uint64_t> ids;

    for (const witness_event &e : New(WITNESS_INIT)) {
        threads.insert(e.thread);
        ids.insert(e.comm_id);
        EXPECT_EQ(static_cast<size_t>(n_), e.n_ranks);
    }

    EXPECT_THAT(threads, SizeIs(static_cast<size_t>(n_)));
    EXPECT_THAT(ids, SizeIs(1));
}

TEST_F(Lifecycle, AGroupAsksInReverseOrderInOneThread)
{
    LearnContexts();
    for (bool upwards : {true, false}) {
        std::vector<int> expected;
        New(WITNESS_ASK);
        ASSERT_EQ(ncclSuccess, ncclGroupStart());
        for (int k = 0; k < n_; k++) {
            int rank = upwards ? k : n_ - 1 - k;
            Queue(rank);
            expected.insert(expected.begin(), rank);
        }
        ASSERT_EQ(ncclSuccess, ncclGroupEnd());
        std::vector<witness_event> asked = New(WITNESS_ASK);
        EXPECT_THAT(Ranks(asked), ElementsAreArray(expected));
        for (const witness_event &e : asked)
            EXPECT_EQ(asked[0].thread, e.thread);
    }
}

TEST_F(Lifecycle, FinalizesRankZeroThenFromTheLastDown)
{
    LearnContexts();
    std::vector<int> expected{0};
    for (int rank = n_ - 1; rank > 0; rank--)
        expected.push_back(rank);
    New(WITNESS_FINALIZE);

    for (ncclComm_t comm : comms_)
        ncclCommDestroy(comm);

    std::vector<witness_event> ended = New(WITNESS_FINALIZE);
    EXPECT_THAT(Ranks(ended), ElementsAreArray(expected));
}

TEST_F(Lifecycle, ChildrenOfSplitsDifferAndThoseOfShrinksDoNot)
{
    std::vector<uint64_t> ids{New(WITNESS_INIT).at(0).comm_id};
    const int last = n_ - 1;

    for (int color : {0, 0, 1}) {
        std::vector<ncclComm_t> children(n_);
        ASSERT_EQ(ncclSuccess, ncclGroupStart());
        for (int i = 0; i < n_; i++)
            ASSERT_EQ(ncclSuccess, ncclCommSplit(comms_[i], color, i,
                                                 &children[i], nullptr));
        ASSERT_EQ(ncclSuccess, ncclGroupEnd());
        std::set<uint64_t> one;
        for (const witness_event &e : New(WITNESS_INIT))
            one.insert(e.comm_id);
        EXPECT_THAT(one, SizeIs(1));
        ids.push_back(*one.begin());
    }
    EXPECT_THAT(std::set<uint64_t>(ids.begin(), ids.end()), SizeIs(4));
    if (n_ < 3)
        return; // nobody to leave out
    std::set<uint64_t> shrunk;
    for (int k = 0; k < 2; k++) {
        std::vector<ncclComm_t> children(n_);
        int excluded[] = {last};
        ASSERT_EQ(ncclSuccess, ncclGroupStart());
        for (int i = 0; i < last; i++)
            ASSERT_EQ(ncclSuccess, ncclCommShrink(comms_[i], excluded, 1,
                                                  &children[i], nullptr, 0));
        ASSERT_EQ(ncclSuccess, ncclGroupEnd());
        for (const witness_event &e : New(WITNESS_INIT))
            shrunk.insert(e.comm_id);
    }
    EXPECT_THAT(shrunk, SizeIs(1));
    for (uint64_t id : ids)
        EXPECT_EQ(0u, shrunk.count(id));
}

TEST_F(Lifecycle, AskAtCaptureWithRegBuffAndNeverAtReplay)
{
    std::vector<std::thread> ranks;
    std::vector<cudaGraphExec_t> graphs(n_);
    AllReduce();
    New(WITNESS_ASK);

    for (int i = 0; i < n_; i++)
        ranks.emplace_back([&, i] {
            cudaGraph_t graph;
            cudaSetDevice(GpuOf(i));
            EXPECT_EQ(cudaSuccess,
                      cudaStreamBeginCapture(streams_[i],
                                             cudaStreamCaptureModeThreadLocal));
            Queue(i);
            EXPECT_EQ(cudaSuccess, cudaStreamEndCapture(streams_[i], &graph));
            EXPECT_EQ(cudaSuccess, cudaGraphInstantiate(&graphs[i], graph, 0));
        });
    for (std::thread &rank : ranks)
        rank.join();
    std::vector<witness_event> asked = New(WITNESS_ASK);
    for (int k = 0; k < 5; k++)
        for (int i = 0; i < n_; i++) {
            cudaSetDevice(GpuOf(i));
            EXPECT_EQ(cudaSuccess, cudaGraphLaunch(graphs[i], streams_[i]));
        }
    Synchronize();

    EXPECT_THAT(asked, SizeIs(static_cast<size_t>(n_)));
    for (const witness_event &e : asked)
        EXPECT_EQ(1, e.reg_buff);
    EXPECT_THAT(New(WITNESS_ASK), IsEmpty());
}

TEST_F(Lifecycle, AskNobodyAboutNothingOrOneRank)
{
    ncclComm_t alone = nullptr;
    int device = 0;
    ASSERT_EQ(ncclSuccess, ncclCommInitAll(&alone, 1, &device));
    std::vector<witness_event> inits = New(WITNESS_INIT);
    cudaSetDevice(0);

    ASSERT_EQ(ncclSuccess,
              ncclAllReduce(buffers_[0], buffers_[0], kCount, ncclFloat,
                            ncclSum, alone, streams_[0]));
    ASSERT_EQ(ncclSuccess, ncclGroupStart());
    for (int i = 0; i < n_; i++)
        Queue(i, 0);
    ASSERT_EQ(ncclSuccess, ncclGroupEnd());

    EXPECT_EQ(1u, inits.back().n_ranks); // but its init is called
    EXPECT_THAT(New(WITNESS_ASK), IsEmpty());
}

} // namespace
