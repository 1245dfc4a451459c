// Collectives in CUDA graphs: the tuner's calls, and the outcome of launches.
#include <gmock/gmock.h>

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

TEST_F(Capture, ReplaysTheDecisionsOfItsCapture)
{
    mock_outcome plain;
    ASSERT_EQ(ncclSuccess, Take({kCall}));

    ASSERT_EQ(ncclSuccess, mock_comm_collective(comm_.get(), &kCall, &plain));
    mock_graph_launch(graph_.get(), outcomes_.data());

    EXPECT_THAT(reg_buffs, ElementsAre(1, 0));
    EXPECT_EQ(2, plain.n_channels);
    EXPECT_TRUE(plain.asked);
    EXPECT_EQ(1, outcomes_[0].n_channels);
}

TEST_F(Capture, TakesItsCollectivesAsAGroup)
{
    const mock_call small = Call(ncclFuncAllReduce, 64);
    ASSERT_EQ(ncclSuccess, Take({kCall, small, kCall}));

    mock_graph_launch(graph_.get(), outcomes_.data());

    EXPECT_THAT(reg_buffs, ElementsAre(1, 1));
    EXPECT_EQ(1, outcomes_[1].asked_channels); // the smallest is asked first
    EXPECT_EQ(2, outcomes_[0].asked_channels);
    EXPECT_EQ(2, outcomes_[2].asked_channels);
}

TEST_F(Capture, FailsAsTheTunerDoes)
{
    answer = ncclInternalError;

    EXPECT_EQ(ncclInternalError, Take({kCall}));

    EXPECT_EQ(nullptr, graph_);
    EXPECT_THAT(mock_last_error(), HasSubstr("getCollInfo returned 3"));
}

} // namespace
