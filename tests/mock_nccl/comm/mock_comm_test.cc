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

TEST_F(Decision, IsWhatTheTablesWere)
{
    AnswerCost(NCCL_ALGO_TREE, NCCL_PROTO_LL128, 3);

    ASSERT_EQ(ncclSuccess, Try("2.28", 4, Call(kAr, M)));

    EXPECT_EQ(NCCL_ALGO_TREE, outcome_.algo);
    EXPECT_EQ(NCCL_PROTO_LL128, outcome_.proto);
    EXPECT_LT(3, outcome_.cost[NCCL_ALGO_TREE][NCCL_PROTO_LL128]);
    EXPECT_EQ(3, outcome_.cost_after[NCCL_ALGO_TREE][NCCL_PROTO_LL128]);
    EXPECT_LT(0, outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]);
    EXPECT_EQ(-1, outcome_.cost_after[NCCL_ALGO_RING][NCCL_PROTO_LL]);
    EXPECT_TRUE(outcome_.asked);
}

// A cost below 1 us is one that NCCL has.
TEST_F(Decision, TakesAPairThatIsFastInNcclsModel)
{
    ncclTunerConstants_v7_t constants;
    mock_release_constants(mock_release_find("2.28"), &constants);
    for (auto &row : constants.baseLatencies)
        for (double &us : row)
            us = 1e-3;
    for (auto &link : constants.hwLatencies)
        for (auto &row : link)
            for (double &us : row)
                us = 1e-3;
    mock_nccl_options options = WithScript("2.28", 4);
    options.constants = &constants;
    AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_LL, .5f);

    ASSERT_EQ(ncclSuccess, Try(options, Call(ncclFuncBroadcast, 8)))
        << mock_last_error();

    EXPECT_GT(1, outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]);
    EXPECT_LT(0, outcome_.cost[NCCL_ALGO_RING][NCCL_PROTO_LL]);
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

// It uses the pair of the first answer, and the channels of the second.
TEST_F(Decision, Of2_21HasTheChannelsOfTheSecondAnswer)
{
    const struct {
        int first, second; // channels of the answers
        int tuned;
    } cases[] = {{5, 0, 0}, {0, 5, 5}, {2, 3, 3}};

    for (const auto &c : cases) {
        int n_asked = 0;
        on_ask = [&](const Asked &asked) {
            EXPECT_EQ(NCCL_ALGO_UNDEF, *asked.algo);
            EXPECT_EQ(NCCL_PROTO_UNDEF, *asked.proto);
            EXPECT_EQ(0, *asked.n_channels);
            const bool is_first = n_asked++ == 0;
            *asked.algo = is_first ? NCCL_ALGO_TREE : NCCL_ALGO_RING;
            *asked.proto = is_first ? NCCL_PROTO_LL128 : NCCL_PROTO_LL;
            *asked.n_channels = is_first ? c.first : c.second;
            return ncclSuccess;
        };
        ASSERT_EQ(ncclSuccess, Try("2.21", 2, Call(kAr, 64 * M)));
        EXPECT_EQ(2, n_asked);
        EXPECT_EQ(NCCL_ALGO_TREE, outcome_.algo);
        EXPECT_EQ(NCCL_PROTO_LL128, outcome_.proto);
        EXPECT_EQ(c.second, outcome_.asked_channels);
        EXPECT_EQ(c.tuned, outcome_.tuned_channels);
        EXPECT_EQ(c.tuned == 0 ? 24 : c.tuned, outcome_.n_channels);
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

TEST_F(Decision, HasTheChannelsThatItsVersionTakes)
{
    const struct {
        const char *version;
        int asked;
        int tuned; // -1: the collective fails
        int n_channels;
    } cases[] = {
        {"2.28", 0, 0, 24},     {"2.28", 1, 1, 1},    {"2.28", 24, 24, 24},
        {"2.28", 127, 127, 24}, {"2.28", 512, -1, 0}, {"2.31", 0, 0, 24},
        {"2.31", 1, 1, 1},      {"2.31", 23, 23, 23}, {"2.31", 24, 24, 24},
        {"2.31", 25, 24, 24},   {"2.31", -1, 24, 24},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.version + std::string(" ") + std::to_string(c.asked));
        AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1, c.asked);
        EXPECT_EQ(c.tuned == -1 ? ncclInternalError : ncclSuccess,
                  Try(c.version, 4, Call(kAr, 256 * M)));
        EXPECT_EQ(c.asked, outcome_.asked_channels);
        EXPECT_EQ(c.n_channels, outcome_.n_channels);
        if (c.tuned != -1) {
            EXPECT_EQ(c.tuned, outcome_.tuned_channels);
        } else {
            EXPECT_STREQ("512 channels are 0 in NCCL's 8-bit field, and NCCL "
                         "would divide by 0",
                         mock_last_error());
        }
    }
}

TEST_F(Decision, FailsOnNegativeChannelsFrom2_29)
{
    AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1, -1);

    EXPECT_EQ(ncclSuccess, Try("2.28", 4, Call(kAr, M)));
    EXPECT_EQ(ncclInternalError, Try("2.29", 4, Call(kAr, M)));

    EXPECT_STREQ("-1 channels leave no bytes for each, and NCCL would divide "
                 "by 0",
                 mock_last_error());
}

// NCCL divides by the sum of a group's counts, after the last of them.
TEST_F(Decision, FailsOnChannelsOfAGroupThatAddUpToNone)
{
    static int n_last;
    Nccl nccl = MakeNccl(WithScript("2.28", 4));
    Comm comm = MakeComm(nccl, machine_);
    const mock_call calls[] = {Call(ncclFuncReduce, M),
                               Call(ncclFuncReduceScatter, M), Call(kAr, M)};
    mock_outcome outcomes[3];
    on_ask = [](const Asked &asked) {
        asked.table[NCCL_ALGO_RING][NCCL_PROTO_SIMPLE] = 0;
        *asked.n_channels = asked.coll == ncclFuncReduce          ? 3
                            : asked.coll == ncclFuncReduceScatter ? -3
                                                                  : n_last;
        return ncclSuccess;
    };

    EXPECT_EQ(ncclInternalError,
              mock_comm_group(comm.get(), calls, 2, outcomes));
    EXPECT_STREQ("0 channels leave no bytes for each, and NCCL would divide "
                 "by 0",
                 mock_last_error());
    n_last = 5;
    EXPECT_EQ(ncclSuccess, mock_comm_group(comm.get(), calls, 3, outcomes));
    // 1 and 1 and 2 MiB of traffic, of which each channel takes 0.8
    EXPECT_EQ(2, outcomes[0].n_channels);
    EXPECT_EQ(2, outcomes[1].n_channels);
    EXPECT_EQ(3, outcomes[2].n_channels);
}

TEST_F(Decision, WithCollNetHasChannelsThatThereAre)
{
    const struct {
        int asked;
        const char *error; // nullptr: it has them; else how it begins
    } cases[] = {
        {1, nullptr},
        {2, nullptr},
        {15, nullptr},
        {16, nullptr},
        {17, "17 channels for "},
        {127, "127 channels for "},
        {-1, "-1 channels for "},
    };
    machine_ = CollNetMachine();
    mock_nccl_options options = WithScript("2.28", 4);
    options.collnet = true;

    for (auto [algo, name] :
         {std::pair{NCCL_ALGO_COLLNET_DIRECT, "collnet_direct"},
          {NCCL_ALGO_COLLNET_CHAIN, "collnet_chain"},
          {NCCL_ALGO_NVLS, "nvls"}})
        for (const auto &c : cases) {
            AnswerCost(algo, NCCL_PROTO_SIMPLE, 1, c.asked);
            EXPECT_EQ(c.error == nullptr ? ncclSuccess : ncclInternalError,
                      Try(options, Call(kAr, M)));
            EXPECT_EQ(c.error == nullptr ? c.asked : 0, outcome_.n_channels);
            if (c.error != nullptr) {
                EXPECT_EQ(c.error + std::string(name) +
                              ", which NCCL takes as they are, but the "
                              "communicator has 16",
                          mock_last_error());
            }
        }
}

// Of eight nodes of Blackwell 2.30 has fewer, where the network is fast.
TEST_F(Decision, HasTheNvlsChannelsOfItsVersion)
{
    Folder folder;
    folder.WriteAs("h100n8x8", "2.28.9");
    folder.Write("machine.csv", "gpu,compute_capability,nodes,cpu_vendor,nccl\n"
                                "G,100,8,amd,2.28.9\n");
    machine_ = LoadFolder(folder.Path());

    for (auto [version, n] : {std::pair{"2.29", 32}, {"2.30", 24}}) {
        mock_nccl_options options{version};
        options.algo = "nvlstree";
        ASSERT_EQ(ncclSuccess, Try(options, Call(kAr, size_t{1} << 30)))
            << mock_last_error();
        EXPECT_EQ(NCCL_ALGO_NVLS_TREE, outcome_.algo);
        EXPECT_EQ(n, outcome_.n_channels) << version;
    }
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

// A tuner is asked about the first channel, the last and those between; its
// first answer that is not NCCL's counts.
TEST_F(Decision, HasTheFirstChunkThatDiffers)
{
    const size_t own = 2097152;
    const struct {
        std::vector<size_t> answers;
        size_t want;
    } cases[] = {
        {{own, own, own}, 0},         {{1024, 2048, 4096}, 1024},
        {{own, 2048, 4096}, 2048},    {{own, own, 4096}, 4096},
        {{2 * own, 2048, own}, 2048}, // cut to NCCL's
    };
    AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1, 3);

    for (const auto &c : cases) {
        std::vector<size_t> asked;
        chunk_script = [&](size_t n_bytes, size_t *size) {
            EXPECT_EQ(own, *size);
            asked.push_back(n_bytes);
            *size = c.answers.at(asked.size() - 1);
            return ncclSuccess;
        };
        ASSERT_EQ(ncclSuccess, Try("2.30", 6, Call(kAr, 16 * M)));
        EXPECT_EQ(3, outcome_.n_channels);
        ASSERT_EQ(3u, asked.size());
        EXPECT_EQ(16 * M, asked[0] + asked[1] + asked[2]);
        EXPECT_EQ(asked[0], asked[2]);
        EXPECT_EQ(c.want, outcome_.chunk_bytes);
    }
}

TEST_F(Decision, EndsAtTheFirstChunkThatFails)
{
    for (size_t fails : {1, 2, 3}) {
        size_t n_asked = 0;
        AnswerCost(NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 1, 3);
        chunk_script = [&](size_t, size_t *) {
            return ++n_asked == fails ? ncclRemoteError : ncclSuccess;
        };
        Nccl nccl = MakeNccl(WithScript("2.30", 6));
        Comm comm = MakeComm(nccl, machine_);
        const mock_call call = Call(kAr, 16 * M);
        Log log;
        EXPECT_EQ(ncclRemoteError,
                  mock_comm_collective(comm.get(), &call, &outcome_));
        EXPECT_EQ(fails, n_asked);
        EXPECT_STREQ("tuner 'scripted': getChunkSize returned 6 "
                     "(ncclRemoteError)",
                     mock_last_error());
        EXPECT_THAT(log.Texts(), ElementsAre());
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

// What is left is a ring that the user has forbidden.
TEST_F(Decision, IsLoggedWithTheTimeOfALastResort)
{
    const std::pair<const char *, std::string> cases[] = {
        {"2.22", "1048576 Bytes -> Algo 1 proto 0 time "},
        {"2.23", "AllReduce: 1048576 Bytes -> Algo 1 proto 0 time "},
    };
    const mock_call call = Call(kAr, M);
    AnswerCost(NCCL_ALGO_TREE, NCCL_PROTO_LL, -1);

    for (const auto &[version, line] : cases) {
        const mock_outcome allowed = OnMachine(machine_, call, {version});
        mock_nccl_options options = WithScript(version, 3);
        options.algo = "tree";
        Nccl nccl = MakeNccl(options);
        Comm comm = MakeComm(nccl, machine_);
        Log log;
        EXPECT_EQ(ncclSuccess,
                  mock_comm_collective(comm.get(), &call, &outcome_));
        EXPECT_THAT(
            log.Texts(),
            ElementsAre(
                line +
                std::to_string(allowed.cost[NCCL_ALGO_RING][NCCL_PROTO_LL])));
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

} // namespace
