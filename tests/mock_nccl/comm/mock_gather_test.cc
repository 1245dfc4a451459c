// Broadcasts of several roots in one group, which are an AllGatherV from 2.29
// on: which they are, their order, and their channels.
#include "mock_nccl/comm/mock_questions.h"

using namespace mock_test;

namespace
{

constexpr size_t M = 1 << 20;

class GatherV : public testing::Test
{
  protected:
    ~GatherV() override
    {
        ForgetScript();
    }
    void Use(const char *version)
    {
        comm_ = nullptr; // before its libnccl
        nccl_ = MakeNccl(WithScript(version, 4));
        comm_ = MakeComm(nccl_, machine_);
    }
    ncclResult_t Run(const std::vector<mock_call> &calls)
    {
        asked_.all.clear();
        outcomes_.resize(calls.size());
        return mock_comm_group(comm_.get(), calls.data(), calls.size(),
                               outcomes_.data());
    }
    // Every answer has this protocol of a ring, and so many channels.
    void Answer(int proto, int n_channels)
    {
        script = [=](Table table, int *n_channels_ret) {
            table[NCCL_ALGO_RING][proto] = 0;
            *n_channels_ret = n_channels;
            return ncclSuccess;
        };
        on_ask = nullptr;
    }
    // The collectives that were asked about.
    std::vector<size_t> Asked() const
    {
        std::vector<size_t> numbers;
        for (size_t i = 0; i < outcomes_.size(); i++)
            if (outcomes_[i].asked)
                numbers.push_back(i);
        return numbers;
    }

    Questions asked_;
    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_ = MakeNccl(WithScript("2.30", 4));
    Comm comm_ = MakeComm(nccl_, machine_);
    std::vector<mock_outcome> outcomes_;
};

TEST_F(GatherV, FailsOnChannelsThatAreNotThere)
{
    const std::pair<int, const char *> cases[] = {
        {24, nullptr},
        {25, "25 channels were chosen for an AllGatherV, and NCCL would use "
             "those of its 24"},
        {-1, "-1 channels were chosen for an AllGatherV, and NCCL would use "
             "those of its 24"},
    };

    for (auto [n_channels, error] : cases) {
        Answer(NCCL_PROTO_SIMPLE, n_channels);
        EXPECT_EQ(error == nullptr ? ncclSuccess : ncclInternalError,
                  Run({Broadcast(0, M), Broadcast(1, M)}));
        if (error != nullptr) {
            EXPECT_STREQ(error, mock_last_error());
        }
    }
}

TEST_F(GatherV, FailsAtTheFirstQuestionThatFails)
{
    asked_.result = ncclSystemError;

    EXPECT_EQ(ncclSystemError,
              Run({Broadcast(0, M), Broadcast(1, M), Broadcast(0, M)}));

    EXPECT_EQ(1u, asked_.all.size());
}

} // namespace
