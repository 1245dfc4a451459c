// The decisions on one collective, and the communicators that make them.
#include <gmock/gmock.h>

#include "mock_nccl/comm/mock_collnet_machine.h"
#include "support/mock_script.h"

extern "C" {
#include "base/mix.h"
}

using namespace mock_test;
using testing::ElementsAre;

namespace
{

constexpr ncclFunc_t kAr = ncclFuncAllReduce;
constexpr size_t M = 1 << 20;

class Decision : public testing::Test
{
  protected:
    ~Decision() override
    {
        ForgetScript();
    }
    // On a fresh communicator, with a tuner of this version.
    ncclResult_t Try(const char *version, int tuner, const mock_call &call)
    {
        return Try(WithScript(version, tuner), call);
    }
    ncclResult_t Try(const mock_nccl_options &options, const mock_call &call)
    {
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, machine_);
        return mock_comm_collective(comm.get(), &call, &outcome_);
    }
    // Every answer is this pair of a tuner of 2.21, and so many channels.
    static void AnswerPair(int algo, int proto, int n_channels = 0)
    {
        on_ask = [=](const Asked &asked) {
            *asked.algo = algo;
            *asked.proto = proto;
            *asked.n_channels = n_channels;
            return ncclSuccess;
        };
    }
    // Every answer has this pair alone, at this cost.
    static void AnswerCost(int algo, int proto, float us, int n_channels = 0)
    {
        script = [=](Table table, int *n_channels_ret) {
            for (int a = 0; a < NCCL_NUM_ALGORITHMS - 1; a++)
                for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                    table[a][p] = -1;
            table[algo][proto] = us;
            *n_channels_ret = n_channels;
            return ncclSuccess;
        };
    }

    Machine machine_ = LoadMachine("h200x4");
    mock_outcome outcome_;
};

// ---- the table ----

TEST_F(Decision, CountsEveryFloatThatIsWrittenOutsideTheTable)
{
    const struct {
        std::vector<int> at;
        const char *error;
    } cases[] = {
        {{-1, 21}, "1 floats before and 1 after its 21 entries"},
        {{-16, -1, 36}, "2 floats before and 1 after its 21 entries"},
        {{-16, -9, 21, 22, 36}, "2 floats before and 3 after its 21 entries"},
    };

    for (const auto &c : cases) {
        script = [&](Table table, int *) {
            for (int at : c.at)
                (&table[0][0])[at] = 1;
            return ncclSuccess;
        };
        EXPECT_EQ(ncclInternalError, Try("2.28", 5, Call(kAr, M)));
        EXPECT_EQ("tuner 'scripted' wrote outside the cost table: " +
                      std::string(c.error),
                  mock_last_error());
    }
}

// ---- the pairs of 2.21 ----

TEST_F(Decision, Of2_21IsAPairOfItsTables)
{
    const struct {
        ncclFunc_t coll;
        int algo, proto;
        const char *error; // nullptr: it runs
    } cases[] = {
        {kAr, NCCL_ALGO_TREE, NCCL_PROTO_LL, nullptr},
        {kAr, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, nullptr},
        {kAr, NCCL_ALGO_RING, NCCL_PROTO_LL128, nullptr},
        {kAr, -2, NCCL_PROTO_LL,
         "algorithm -2 and protocol 0 were chosen for allreduce, and NCCL "
         "would read outside its tables"},
        {kAr, NCCL_ALGO_RING, -2,
         "algorithm 1 and protocol -2 were chosen for allreduce, and NCCL "
         "would read outside its tables"},
        {kAr, NCCL_ALGO_RING, 3,
         "algorithm 1 and protocol 3 were chosen for allreduce, and NCCL "
         "would read outside its tables"},
        {kAr, 6, NCCL_PROTO_SIMPLE,
         "algorithm 6 and protocol 2 were chosen for allreduce, and NCCL "
         "would read outside its tables"},
        {kAr, NCCL_ALGO_NVLS_TREE, NCCL_PROTO_SIMPLE,
         "nvls_tree/simple was chosen for allreduce, but NCCL had ruled it "
         "out on this machine and has not set it up"},
        {ncclFuncReduce, NCCL_ALGO_TREE, NCCL_PROTO_LL,
         "tree/ll was chosen for reduce, but NCCL has no kernel for it and "
         "would crash"},
    };

    for (const auto &c : cases) {
        AnswerPair(c.algo, c.proto);
        EXPECT_EQ(c.error == nullptr ? ncclSuccess : ncclInternalError,
                  Try("2.21", 2, Call(c.coll, M)));
        EXPECT_EQ(c.algo, outcome_.algo);
        EXPECT_EQ(c.proto, outcome_.proto);
        if (c.error != nullptr) {
            EXPECT_STREQ(c.error, mock_last_error());
        }
    }
}

TEST_F(Decision, Of2_21FailsAsEitherAnswerDoes)
{
    for (int fails : {1, 2}) {
        int n_asked = 0;
        on_ask = [&](const Asked &asked) {
            *asked.algo = NCCL_ALGO_RING;
            *asked.proto = NCCL_PROTO_LL;
            return ++n_asked == fails ? ncclInvalidUsage : ncclSuccess;
        };
        EXPECT_EQ(ncclInvalidUsage, Try("2.21", 2, Call(kAr, M)));
        EXPECT_EQ(fails, n_asked);
        EXPECT_STREQ("tuner 'scripted': getCollInfo returned 5 "
                     "(ncclInvalidUsage)",
                     mock_last_error());
    }
}

// ---- channels ----

TEST_F(Decision, FailsOnNegativeChannelsFrom2_29)
{
    AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1, -1);

    EXPECT_EQ(ncclSuccess, Try("2.28", 4, Call(kAr, M)));
    EXPECT_EQ(ncclInternalError, Try("2.29", 4, Call(kAr, M)));

    EXPECT_STREQ("-1 channels leave no bytes for each, and NCCL would divide "
                 "by 0",
                 mock_last_error());
}

TEST_F(Decision, OfOneRankIgnoresWhatTheUserSet)
{
    mock_nccl_options options = WithScript();
    options.algo = "none";
    options.proto = "none";

    for (int n_ranks : {1, 2}) {
        Machine machine = Resized(machine_, n_ranks);
        Nccl nccl = MakeNccl(options);
        mock_comm *comm = nullptr;
        EXPECT_EQ(n_ranks == 1 ? ncclSuccess : ncclInvalidUsage,
                  mock_comm_create(nccl.get(), machine.get(), 1, &comm));
        EXPECT_EQ(n_ranks == 1, comm != nullptr);
        const Comm owner(comm);
    }
}

// ---- lines ----

TEST_F(Decision, SaysWhatTheUserSetOnlyIfNothingIsLeft)
{
    const std::string nothing = "Error : no algorithm/protocol available for "
                                "function Broadcast with datatype ncclInt8.";
    const struct {
        const char *algo, *proto;
        const char *more;
    } cases[] = {
        {"ring", "ll", " NCCL_ALGO was set to ring. NCCL_PROTO was set to ll."},
        {"ring", "^ll",
         " NCCL_ALGO was set to ring. NCCL_PROTO was set to ^ll."},
        {nullptr, "ll", " NCCL_PROTO was set to ll."},
        {"ring", nullptr, " NCCL_ALGO was set to ring."},
        {nullptr, nullptr, ""},
    };
    AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, -1);

    for (const auto &c : cases) {
        mock_nccl_options options = WithScript("2.28", 4);
        options.algo = c.algo;
        options.proto = c.proto;
        Log log;
        EXPECT_EQ(*c.more == '\0' ? ncclInternalError : ncclInvalidUsage,
                  Try(options, Call(ncclFuncBroadcast, M)));
        EXPECT_EQ(nothing + c.more, mock_last_error());
        ASSERT_LE(2u, log.lines.size());
        EXPECT_EQ(nothing + c.more, log.lines[log.lines.size() - 2].text);
    }
}

TEST_F(Decision, IsLoggedByRankZeroWithBytesPairAndChannels)
{
    const std::pair<const char *, const char *> cases[] = {
        {"2.21", nullptr},
        {"2.22", "1048576 Bytes -> Algo 0 proto 1 time 3.500000"},
        {"2.23", "AllReduce: 1048576 Bytes -> Algo 0 proto 1 time 3.500000"},
        {"2.28", "AllReduce: 1048576 Bytes -> Algo TREE proto LL128 "
                 "channel{Lo..Hi}={0..6}"},
    };

    for (auto [version, line] : cases) {
        const bool has_pairs = version == std::string("2.21");
        AnswerCost(NCCL_ALGO_TREE, NCCL_PROTO_LL128, 3.5f, 7);
        if (has_pairs)
            AnswerPair(NCCL_ALGO_TREE, NCCL_PROTO_LL128, 7);
        else
            on_ask = nullptr;
        Nccl nccl = MakeNccl(WithScript(version, has_pairs ? 2 : 3));
        for (int rank : {0, 1}) {
            mock_comm *comm = nullptr;
            ASSERT_EQ(ncclSuccess,
                      mock_comm_create_rank(nccl.get(), machine_.get(), 1, rank,
                                            &comm));
            const Comm owner(comm);
            const mock_call call = Call(kAr, M);
            Log log;
            EXPECT_EQ(ncclSuccess,
                      mock_comm_collective(comm, &call, &outcome_));
            const bool has_line = rank == 0 && line != nullptr;
            EXPECT_EQ(has_line ? std::vector<std::string>{line}
                               : std::vector<std::string>{},
                      log.Texts())
                << version;
        }
    }
}

// ---- children ----

class Child : public Decision
{
  protected:
    Child()
    {
        on_init = [this](const Joined &joined) {
            ids_.push_back(joined.comm_id);
            return ncclSuccess;
        };
    }
    // Whether the parent's split has a child for this color.
    bool Split(const Comm &parent, int color)
    {
        mock_comm *child = parent.get(); // not nullptr
        EXPECT_EQ(ncclSuccess, mock_comm_split(parent.get(), machine_.get(),
                                               color, 1, &child));
        mock_comm_destroy(child);
        return child != nullptr;
    }

    std::vector<uint64_t> ids_; // of every communicator
};

TEST_F(Child, HasAnIdOfItsParentsSplitsAndItsColor)
{
    Nccl nccl = MakeNccl(WithScript());
    Comm parent = MakeComm(nccl, machine_, 77);
    mock_comm *child = nullptr;

    EXPECT_TRUE(Split(parent, 0));
    EXPECT_TRUE(Split(parent, 5));
    EXPECT_FALSE(Split(parent, -1));
    EXPECT_TRUE(Split(parent, 0));
    ASSERT_EQ(ncclSuccess,
              mock_comm_shrink(parent.get(), machine_.get(), &child));
    mock_comm_destroy(child);

    EXPECT_THAT(
        ids_, ElementsAre(77, mock_child_id(77, 1, 0), mock_child_id(77, 2, 5),
                          mock_child_id(77, 4, 0), mock_child_id(77, 0, 0)));
}

// A child on one node would have 24 channels, its parents on two nodes have 16.
TEST(ChildThatSharesResources, HasNoMoreChannelsThanItsParents)
{
    const Machine parents = LoadMachine("h100n2x8"),
                  node = LoadMachine("h100x8");
    const mock_call call = Call(ncclFuncBroadcast, 1 << 26);
    const struct {
        const char *splits, *shrinks;
        int split, shrunk, of_shrunk; // channels; of a child of the latter
    } rows[] = {{"0", nullptr, 24, 24, 24},
                {"1", "0", 16, 24, 24},
                {"0", "1", 24, 16, 16},
                {"1", "1", 16, 16, 16}};

    for (const auto &row : rows) {
        mock_nccl_options options{};
        options.variables[MOCK_COMM_SPLIT_SHARE_RESOURCES] = row.splits;
        options.variables[MOCK_COMM_SHRINK_SHARE_RESOURCES] = row.shrinks;
        const Nccl nccl = MakeNccl(options);
        const Comm parent = MakeComm(nccl, parents);
        mock_comm *made[3];
        ASSERT_EQ(ncclSuccess,
                  mock_comm_split(parent.get(), node.get(), 0, 0, &made[0]));
        ASSERT_EQ(ncclSuccess,
                  mock_comm_shrink(parent.get(), node.get(), &made[1]));
        ASSERT_EQ(ncclSuccess, mock_comm_shrink(made[1], node.get(), &made[2]));
        for (int i = 0; i < 3; i++) {
            const Comm child(made[i]);
            mock_outcome outcome{};
            EXPECT_EQ(ncclSuccess,
                      mock_comm_collective(child.get(), &call, &outcome));
            EXPECT_EQ((&row.split)[i], outcome.n_channels) << i;
        }
    }
}

} // namespace
