// Broadcasts of several roots in one group, which are an AllGatherV from 2.29
// on: which they are, their order, and their channels.
#include "support/mock_questions.h"

using namespace mock_test;
using testing::ElementsAre;

namespace
{

constexpr size_t K = 1 << 10;
constexpr size_t M = 1 << 20;

mock_call Broadcast(int root, size_t n_bytes)
{
    mock_call call = Call(ncclFuncBroadcast, n_bytes);
    call.root = root;
    return call;
}

// A question about so many bytes of an allgather over the four ranks.
Question Gather(size_t n_bytes)
{
    return {ncclFuncAllGather, 4 * n_bytes, 1, 0, true};
}

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

struct RoundCase {
    const char *name;
    std::vector<mock_call> calls;
    std::vector<Question> questions;
    std::vector<size_t> asked; // the first of each round
};

// A round has one broadcast of every root that has any left.
TEST_F(GatherV, TakesRoundsOfRootsInTheirOrder)
{
    const RoundCase cases[] = {
        {"ascending",
         {Broadcast(0, K), Broadcast(1, 2 * K)},
         {Gather(2 * K)},
         {0}},
        {"descending",
         {Broadcast(1, 2 * K), Broadcast(0, K)},
         {Gather(2 * K)},
         {1}},
        {"unordered",
         {Broadcast(2, K), Broadcast(3, 3 * K), Broadcast(1, 2 * K)},
         {Gather(3 * K)},
         {2}},
        {"repeated",
         {Broadcast(1, K), Broadcast(1, 2 * K), Broadcast(0, 4 * K),
          Broadcast(1, 8 * K), Broadcast(0, 16 * K)},
         {Gather(4 * K), Gather(16 * K), Gather(8 * K)},
         {2, 3, 4}},
        {"equal",
         {Broadcast(3, K), Broadcast(2, K), Broadcast(3, K), Broadcast(2, K)},
         {Gather(K), Gather(K)},
         {1, 3}},
        {"among_others",
         {Broadcast(1, K), Call(ncclFuncReduce, M), Broadcast(0, K),
          Call(ncclFuncReduce, M)},
         {{ncclFuncReduce, 2 * M, 1, 0, true}, Gather(K)},
         {1, 2}},
        {"a_root_without_bytes",
         {Broadcast(1, 0), Broadcast(0, K)},
         {{ncclFuncBroadcast, K, 1, 0, true}},
         {1}},
    };

    for (const char *version : {"2.29", "2.30"}) {
        Use(version);
        for (const RoundCase &c : cases) {
            SCOPED_TRACE(std::string(version) + " " + c.name);
            ASSERT_EQ(ncclSuccess, Run(c.calls)) << mock_last_error();
            EXPECT_EQ(c.questions, asked_.all);
            EXPECT_EQ(c.asked, Asked());
        }
    }
}

struct PartCase {
    size_t n_bytes;
    int n_channels; // of the answer
    int want;
};

// Parts are as equal as possible, but end at multiples of 256 bytes.
TEST_F(GatherV, UsesTheChannelsWhosePartsAreNotEmpty)
{
    const PartCase cases[] = {
        {1, 1, 1},    {1, 24, 1},    {256, 2, 1},        {257, 2, 2},
        {257, 3, 2},  {512, 2, 2},   {512, 3, 2},        {513, 2, 2},
        {513, 3, 3},  {600, 3, 3},   {768, 3, 3},        {769, 3, 3},
        {1024, 3, 3}, {1024, 24, 4}, {24 * 256, 24, 24}, {23 * 256, 24, 23},
        {M, 24, 24},
    };

    for (const PartCase &c : cases) {
        SCOPED_TRACE(std::to_string(c.n_bytes) + " on " +
                     std::to_string(c.n_channels));
        Answer(NCCL_PROTO_LL128, c.n_channels);
        ASSERT_EQ(ncclSuccess, Run({Broadcast(0, M), Broadcast(1, c.n_bytes)}))
            << mock_last_error();
        EXPECT_EQ(c.n_channels, outcomes_[0].n_channels);
        EXPECT_EQ(c.want, outcomes_[1].n_channels);
        for (const mock_outcome &outcome : outcomes_) {
            EXPECT_EQ(NCCL_ALGO_RING, outcome.algo);
            EXPECT_EQ(NCCL_PROTO_LL128, outcome.proto);
            EXPECT_EQ(c.n_channels, outcome.asked_channels);
            EXPECT_EQ(0, outcome.first_channel);
        }
    }
}

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

// NCCL queues them behind the rest of their group; of equal traffic it takes
// the last.
TEST_F(GatherV, OfOneRootIsAsBroadcastsAreButBehindTheOthers)
{
    const Question reduce{ncclFuncReduce, 2 * K, 1, 0, true};

    for (size_t n : {1, 2, 3})
        for (const char *version : {"2.28", "2.29", "2.30"}) {
            const Question broadcast{ncclFuncBroadcast, n * K, 1, 0, true};
            std::vector<mock_call> calls(2, Call(ncclFuncReduce, K));
            calls.insert(calls.begin(), n, Broadcast(2, K));
            Use(version);
            ASSERT_EQ(ncclSuccess, Run(calls));
            EXPECT_THAT(asked_.all, version == std::string("2.28")
                                        ? ElementsAre(reduce, broadcast)
                                        : ElementsAre(broadcast, reduce))
                << version;
            EXPECT_THAT(Asked(), ElementsAre(0, n)) << version;
        }
}

} // namespace
