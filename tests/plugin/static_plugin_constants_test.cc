// Constants of NCCL's model through the plugin: what they change, when they are
// not taken, and what ranks do that were given different ones.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "support/static_plugin_ranks.h"

namespace
{

using namespace static_plugin;
using testing::AllOf;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// 100 us more for every collective as a ring with LL, and nothing else.
constexpr char kSlowRing[] = "constant,row,column,value\n"
                             "base_latency,ring,ll,106.6\n";

class Constants : public OnAllRanks
{
  protected:
    void SetUp() override
    {
        OnAllRanks::SetUp();
        before_ = fs::current_path();
        fs::current_path(dir_); // where there is no nccl_tuner.conf
    }
    void TearDown() override
    {
        fs::current_path(before_);
        OnAllRanks::TearDown();
    }

    std::string Write(const std::string &text, const char *name = "c.csv")
    {
        std::string path = (dir_ / name).string();
        std::ofstream(path) << text;
        return path;
    }

    std::string Set(const std::string &text)
    {
        std::string path = Write(text);
        setenv("STEPTUNE_CONSTANTS_FILE", path.c_str(), 1);
        return path;
    }

    static ncclResult_t Play(const Ranks &ranks, uint64_t seed)
    {
        RandomScript random(seed, 8);
        return mock_ranks_play(ranks.get(), &random.script, seed);
    }

    fs::path before_;
};

// What NCCL hands the tuner, without one.
mock_outcome Alone(const mock_machine *machine, const char *version, size_t n)
{
    mock_nccl_options options{};
    options.version = version;
    options.tuner_plugin = "none";
    mock_nccl *nccl = nullptr;
    mock_comm *comm = nullptr;
    mock_call call{};
    mock_outcome out{};

    call.coll = ncclFuncAllReduce;
    call.n_bytes = n;
    EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl));
    EXPECT_EQ(ncclSuccess, mock_comm_create(nccl, machine, 1, &comm));
    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm, &call, &out));
    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
    return out;
}

TEST_F(Constants, MakeNcclChooseOtherwiseWithoutARuleOrAPolicy)
{
    std::string path = Set(kSlowRing);

    for (const char *version : {"2.28", "2.29", "2.30"}) {
        SCOPED_TRACE(version);
        const mock_outcome alone = Alone(machine_.get(), version, 1 << 16);
        Nccl nccl = Start(version);
        Comm comm = Join(nccl);
        const mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 16);

        EXPECT_TRUE(Untouched(out));
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                EXPECT_NEAR(
                    alone.cost[a][p] +
                        (a == NCCL_ALGO_RING && p == NCCL_PROTO_LL ? 100 : 0),
                    out.cost[a][p], 1e-4);
        EXPECT_EQ(NCCL_ALGO_RING, alone.algo);
        EXPECT_EQ(NCCL_PROTO_LL, alone.proto);
        EXPECT_EQ(NCCL_ALGO_TREE, out.algo);
        EXPECT_EQ(NCCL_PROTO_LL, out.proto);
    }
    EXPECT_THAT(warnings_, IsEmpty());
    EXPECT_THAT(infos_, Contains(HasSubstr("steptune: set 1 of NCCL's "
                                           "constants: " +
                                           path + ", hash ")));
}

TEST_F(Constants, StandBesideAPolicyWhoseRulesDecideFirst)
{
    for (const bool is_named : {true, false}) {
        SCOPED_TRACE(is_named);
        ClearEnvironment();
        Write(kSlowRing, "c");
        setenv("STEPTUNE_CONSTANTS_FILE", "c", 1);
        const char *policy = is_named ? "p.conf" : "nccl_tuner.conf";
        Policy("allreduce,0,4K,nvls,simple,-1,-1,-1\n"
               "allreduce,0,4K,ring,ll,-1,-1,-1\n",
               policy);
        if (!is_named)
            unsetenv("NCCL_TUNER_CONFIG_FILE");
        Nccl nccl = Start();
        Comm comm = Join(nccl);

        EXPECT_EQ(NCCL_ALGO_RING, Run(comm, ncclFuncAllReduce, 4096).algo);
        EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 1 << 16).algo);
        EXPECT_THAT(warnings_, IsEmpty());
    }
}

// A file may have a name of one letter.
TEST_F(Constants, StandAloneOnlyWithoutAPolicy)
{
    Write(kSlowRing, "c");
    setenv("STEPTUNE_CONSTANTS_FILE", "c", 1);
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 4096)));
    EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 1 << 16).algo);
    EXPECT_THAT(warnings_, IsEmpty());
}

struct RefusedCase {
    const char *name;
    const char *file;
    const char *nccl;
    const char *warning; // how it ends, before "; NCCL keeps"
};

class NotTaken : public Constants,
                 public testing::WithParamInterface<RefusedCase>
{
};

TEST_P(NotTaken, LeavesNcclItsOwnWithOneWarningAndThePolicyInForce)
{
    const RefusedCase &c = GetParam();
    Write(kSlowRing, "good");
    Write("constant,row,column,value\nbase_latency,ring,ll,x\n", "bad");
    setenv("STEPTUNE_CONSTANTS_FILE", c.file, 1);
    Policy("allreduce,0,4K,tree,ll128,-1,-1,-1\n");
    Nccl nccl = Start(c.nccl);
    Comm comm = Join(nccl);
    const mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 16);
    const mock_outcome alone = Alone(machine_.get(), c.nccl, 1 << 16);

    EXPECT_TRUE(Untouched(out));
    EXPECT_EQ(0, memcmp(alone.cost, out.cost, sizeof(out.cost)));
    EXPECT_EQ(NCCL_PROTO_LL128, Run(comm, ncclFuncAllReduce, 4096).proto);
    EXPECT_THAT(warnings_,
                ElementsAre(EndsWith("steptune: " + std::string(c.warning) +
                                     "; NCCL keeps its own constants")));
}

const RefusedCase kRefusedCases[] = {
    {"missing", "none", "2.28",
     "none: cannot be opened: No such file or directory"},
    {"refused", "bad", "2.28",
     "bad:2:22: value 'x', expected 0 to 10000 microseconds"},
    {"v2", "good", "2.21",
     "good: this NCCL takes no constants from a tuner, expected 2.28 or later"},
    {"v3", "good", "2.22",
     "good: this NCCL takes no constants from a tuner, expected 2.28 or later"},
    {"v4", "good", "2.24",
     "good: this NCCL takes no constants from a tuner, expected 2.28 or later"},
    {"forgotten", "good", "2.31",
     "good: this NCCL forgets the constants that a tuner sets, expected 2.28 "
     "to 2.30, or 2.32.6 or later"},
};

INSTANTIATE_TEST_SUITE_P(Table, NotTaken, testing::ValuesIn(kRefusedCases),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

// The ends of the ranges, for one kind of constant or for all.
TEST_F(Constants, InRangeRuleNoPairOut)
{
    constexpr const char *kinds[] = {
        "base_latency",         "nvlink_latency", "pci_latency",
        "net_latency",          "ll_bandwidth",   "ring_ll128_bandwidth",
        "tree_ll128_bandwidth", "tree_bandwidth", "nvls_tree_bandwidth"};
    auto rows = [](const std::string &kind, bool is_least) {
        const bool is_latency = kind.find("latency") != std::string::npos;
        const std::string value = is_latency ? (is_least ? "0" : "10000")
                                             : (is_least ? "1" : "100000");
        std::string text;
        for (const char *row : {"tree", "ring", "nvls", "nvls_tree", "pat"})
            for (const char *column : {"ll", "ll128", "simple"})
                if (is_latency)
                    text +=
                        kind + "," + row + "," + column + "," + value + "\n";
        for (const char *row : {"ampere", "hopper", "blackwell"})
            for (const char *column : {"1", "2", "3+"})
                if (!is_latency)
                    text +=
                        kind + "," + row + "," + column + "," + value + "\n";
        return text;
    };
    std::vector<std::string> files;
    for (bool is_least : {false, true}) {
        std::string all;
        for (const char *kind : kinds) {
            files.push_back(rows(kind, is_least));
            all += files.back();
        }
        files.push_back(all);
    }

    for (const char *machine : {"h200x4", "h100n2x8", "a100x8"})
        for (const std::string &file : files) {
            machine_ = LoadMachine(machine);
            Set("constant,row,column,value\n" + file);
            Nccl nccl = Start();
            Comm comm = Join(nccl);
            for (size_t n_bytes :
                 {size_t{8}, size_t{1} << 20, size_t{1} << 40}) {
                const mock_outcome alone =
                    Alone(machine_.get(), "2.28", n_bytes);
                const mock_outcome out = Run(comm, ncclFuncAllReduce, n_bytes);
                for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
                    for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
                        EXPECT_EQ(alone.cost[a][p] < 0, out.cost[a][p] < 0)
                            << machine << " " << n_bytes << " " << a << " " << p
                            << "\n"
                            << file;
                        EXPECT_LT(out.cost[a][p], 3.6e9);
                    }
            }
        }
    EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(Constants, DoNotHideThatANamedPolicyIsMissing)
{
    Set(kSlowRing);
    const struct {
        const char *variable, *value, *missing;
    } cases[] = {
        {"NCCL_TUNER_CONFIG_FILE", "p.conf", "p.conf"},
        {"NCCL_WORKLOAD_OVERLAP", "1", "nccl_tuner.conf.overlap"},
    };

    for (const auto &c : cases) {
        warnings_.clear();
        setenv(c.variable, c.value, 1);
        Nccl nccl = Start();
        Comm comm = Join(nccl);
        EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 1 << 16).algo);
        EXPECT_THAT(warnings_,
                    ElementsAre(EndsWith(std::string(c.missing) +
                                         ": cannot be opened: No such file or "
                                         "directory; stepping aside, NCCL "
                                         "tunes alone")));
        unsetenv(c.variable);
    }
}

TEST_F(Constants, AreOneLineOfTheLogWhereTheWarningIsOfThePolicy)
{
    setenv("STEPTUNE_CONSTANTS_FILE", "none", 1);
    setenv("NCCL_TUNER_CONFIG_FILE", "gone.conf", 1);
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 16)));
    EXPECT_THAT(warnings_, ElementsAre(HasSubstr("gone.conf")));
    EXPECT_THAT(infos_,
                Contains(EndsWith("none: cannot be opened: No such file or "
                                  "directory; NCCL keeps its own constants")));
}

// ---- ranks ----

TEST_F(Constants, OfAllRanksAlikeNeverMakeThemDisagree)
{
    Set("constant,row,column,value\nll_bandwidth,hopper,1,30\n"
        "nvlink_latency,ring,simple,1.5\ntree_bandwidth,hopper,2,12\n");

    agree_ = "assume"; // or two nodes could not set them
    for (const char *machine : {"h200x4", "h100n2x8"})
        for (const char *version : {"2.28", "2.30", "2.31"}) {
            SCOPED_TRACE(std::string(machine) + " " + version);
            machine_ = LoadMachine(machine);
            Nccl nccl = Start(version);
            Ranks ranks = JoinAll(nccl);
            for (uint64_t seed = 0; seed < 50; seed++)
                ASSERT_EQ(ncclSuccess, Play(ranks, seed)) << mock_last_error();
        }
}

TEST_F(Constants, OfRanksOnSeveralHostsNeedTheUsersWord)
{
    Set(kSlowRing);
    machine_ = LoadMachine("h100n2x8");

    for (const char *agree : {"compare", "assume"}) {
        warnings_.clear();
        infos_.clear();
        agree_ = agree;
        Nccl nccl = Start();
        Ranks ranks = JoinAll(nccl);
        if (agree == std::string("assume")) {
            EXPECT_THAT(infos_, Contains(HasSubstr("set 1 of NCCL's")));
            EXPECT_THAT(warnings_, IsEmpty());
        } else
            EXPECT_THAT(
                warnings_,
                AllOf(SizeIs(16),
                      Each(EndsWith("ranks on several hosts cannot compare "
                                    "their constants without a store, expected "
                                    "STEPTUNE_AGREE=tcpstore://HOST:PORT, or "
                                    "assume if all have the same; NCCL keeps "
                                    "its own constants"))));
    }
}

} // namespace
