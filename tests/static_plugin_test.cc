// libnccl-tuner-steptune.so as a job has it: loaded by mock NCCL, set up by
// environment variables.
#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mock_nccl.h"

namespace
{

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

struct NcclVersion {
    const char *nccl;
    int tuner;
};

// One NCCL for each version of the tuner interface.
const NcclVersion kVersions[] = {
    {"2.21", 2}, {"2.22", 3}, {"2.24", 4}, {"2.28", 5}, {"2.30", 6}};

const char *const kVariables[] = {
    "NCCL_TUNER_CONFIG_FILE", "NCCL_WORKLOAD_OVERLAP",
    "STEPTUNE_OVERLAP_CONFIG_FILE", "STEPTUNE_GPU"};

template <auto destroy> struct Destroy {
    template <typename T> void operator()(T *p) const
    {
        destroy(p);
    }
};
using Machine = std::unique_ptr<mock_machine, Destroy<mock_machine_free>>;
using Nccl = std::unique_ptr<mock_nccl, Destroy<mock_nccl_destroy>>;
using Comm = std::unique_ptr<mock_comm, Destroy<mock_comm_destroy>>;

class StaticPlugin : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::string dir = testing::TempDir() + "steptune-plugin-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(dir.data()));
        dir_ = dir;
        ClearEnvironment(); // no test inherits what another one set
        machine_ = Load("h200x4");
        mock_set_log(
            [](void *self, ncclDebugLogLevel level, unsigned long,
               const char *line) {
                auto *t = static_cast<StaticPlugin *>(self);
                if (level == NCCL_LOG_WARN)
                    t->warnings_.push_back(line);
                else
                    t->infos_.push_back(line);
            },
            this);
    }

    void TearDown() override
    {
        mock_set_log(nullptr, nullptr);
        ClearEnvironment();
        fs::remove_all(dir_);
    }

    static void ClearEnvironment()
    {
        for (const char *name : kVariables)
            unsetenv(name);
    }

    static Machine Load(const char *name)
    {
        mock_machine *m = nullptr;
        EXPECT_EQ(
            ncclSuccess,
            mock_machine_load(
                (std::string(STP_FIXTURES "/machines/") + name).c_str(), &m))
            << mock_last_error();
        return Machine(m);
    }

    // Writes a policy file and names it in the environment.
    std::string Policy(const std::string &text, const char *name = "p.conf")
    {
        std::string path = (dir_ / name).string();
        std::ofstream(path) << text;
        setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
        return path;
    }

    static Nccl Start(const char *version = "2.28",
                      const char *plugin = STP_PLUGIN)
    {
        mock_nccl_options options{};
        options.version = version;
        options.tuner_plugin = plugin;
        mock_nccl *nccl = nullptr;
        EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl))
            << mock_last_error();
        return Nccl(nccl);
    }

    // Ranks that join with the same 'id' are of the same communicator, of this
    // test and no other.
    Comm Join(const Nccl &nccl, uint64_t id = 1)
    {
        mock_comm *comm = nullptr;
        EXPECT_EQ(ncclSuccess,
                  mock_comm_create(nccl.get(), machine_.get(), id_ + id, &comm))
            << mock_last_error();
        return Comm(comm);
    }

    static mock_outcome Run(const Comm &comm, ncclFunc_t coll, size_t n_bytes,
                            int reg_buff = 0)
    {
        mock_call call{};
        call.coll = coll;
        call.n_bytes = n_bytes;
        call.reg_buff = reg_buff;
        mock_outcome out{};
        EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &out))
            << mock_last_error();
        return out;
    }

    fs::path dir_;
    const uint64_t id_ = mock_new_comm_id() & ~uint64_t{0xffff};
    Machine machine_;
    std::vector<std::string> warnings_;
    std::vector<std::string> infos_;
};

bool Untouched(const mock_outcome &out)
{
    return out.asked_channels == 0 &&
           memcmp(out.cost, out.cost_after, sizeof(out.cost)) == 0;
}

// ---- deciding ----

TEST_F(StaticPlugin, DecidesAlikeInEveryTunerVersion)
{
    Policy("allreduce,1024,4096,tree,simple,2,-1,-1\n");

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);
        ASSERT_EQ(v.tuner, mock_comm_tuner_version(comm.get()));

        mock_outcome out = Run(comm, ncclFuncAllReduce, 4096);

        EXPECT_EQ(NCCL_ALGO_TREE, out.algo);
        EXPECT_EQ(NCCL_PROTO_SIMPLE, out.proto);
        EXPECT_EQ(2, out.asked_channels);
    }
    EXPECT_THAT(warnings_, IsEmpty());
}

// What a tuner is held to where no rule matches, in every version.
testing::AssertionResult LeavesUnmatchedCallsAlone(const mock_outcome &out)
{
    if (Untouched(out))
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "asked for " << out.asked_channels
                                       << " channels, or changed the table";
}

TEST_F(StaticPlugin, LeavesTableAndChannelsOfAnUnmatchedCallUntouched)
{
    Policy("allreduce,1024,4096,tree,simple,2,-1,-1\n"
           "allgather,0,inf,ring,simple,2,-1,8\n");

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);

        EXPECT_TRUE(
            LeavesUnmatchedCallsAlone(Run(comm, ncclFuncAllReduce, 4104)));
        EXPECT_TRUE(
            LeavesUnmatchedCallsAlone(Run(comm, ncclFuncAllGather, 4096)));
        EXPECT_TRUE(
            LeavesUnmatchedCallsAlone(Run(comm, ncclFuncBroadcast, 4096)));
    }
}

// The check above is worth something only if it can fail.
TEST_F(StaticPlugin, WouldBeCaughtIfItSetTheChannelsToOne)
{
    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl, STP_ONE_CHANNEL);
        Comm comm = Join(nccl);
        ASSERT_EQ(v.tuner, mock_comm_tuner_version(comm.get()));

        mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 20);

        EXPECT_FALSE(LeavesUnmatchedCallsAlone(out));
        EXPECT_EQ(1, out.n_channels) << "which is what it would do to a job";
    }
}

TEST_F(StaticPlugin, KeepsNcclsChannelsIfTheRuleNamesNone)
{
    for (const char *channels : {"0", "-1"})
        for (const NcclVersion &v : kVersions) {
            SCOPED_TRACE(std::string(channels) + " in " + v.nccl);
            Policy(std::string("allreduce,0,inf,tree,simple,") + channels +
                   ",-1,-1\n");
            Nccl nccl = Start(v.nccl);
            Comm comm = Join(nccl);

            mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 26);

            EXPECT_EQ(NCCL_ALGO_TREE, out.algo);
            EXPECT_EQ(0, out.asked_channels);
            EXPECT_EQ(24, out.n_channels);
        }
}

TEST_F(StaticPlugin, FallsThroughARuleThatNcclHasRuledOut)
{
    // No NVLS on this machine; tree does not broadcast anywhere.
    Policy("allreduce,0,inf,nvls,simple,4,-1,-1\n"
           "allreduce,0,inf,tree,ll,2,-1,-1\n"
           "broadcast,0,inf,tree,ll,2,-1,-1\n");

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);

        mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 20);

        EXPECT_EQ(NCCL_ALGO_TREE, out.algo);
        EXPECT_EQ(NCCL_PROTO_LL, out.proto);
        EXPECT_EQ(2, out.asked_channels);
        EXPECT_TRUE(Untouched(Run(comm, ncclFuncBroadcast, 1 << 20)));
    }
}

TEST_F(StaticPlugin, UsesNvlsWhereThereIsNvls)
{
    machine_ = Load("h100x8");
    Policy("allreduce,0,inf,nvls,simple,4,-1,-1\n");

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);

        EXPECT_EQ(NCCL_ALGO_NVLS, Run(comm, ncclFuncAllReduce, 1024).algo);
    }
}

TEST_F(StaticPlugin, ChangesOnlyTheEntryItChose)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    mock_outcome out = Run(comm, ncclFuncAllReduce, 1 << 20);

    out.cost[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = 0;
    EXPECT_EQ(0, memcmp(out.cost, out.cost_after, sizeof(out.cost)));
}

TEST_F(StaticPlugin, TellsRegisteredBuffersApart)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1,-1,1\n"
           "allreduce,0,inf,tree,simple,-1,-1,-1,-1,0\n");
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_EQ(NCCL_PROTO_LL, Run(comm, ncclFuncAllReduce, 4096, 1).proto);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, Run(comm, ncclFuncAllReduce, 4096, 0).proto);
}

TEST_F(StaticPlugin, GivesEveryRankTheSameAnswers)
{
    Policy("allreduce,64K,4M,tree,ll128,3,-1,2-8\n"
           "allgather,1M,inf,ring,ll128,-1,1,4\n");
    Nccl nccl = Start();
    std::vector<Comm> ranks;
    for (int r = 0; r < 8; r++)
        ranks.push_back(Join(nccl, 77));

    for (size_t n_bytes = 64; n_bytes < (1u << 28); n_bytes = n_bytes * 3 / 2)
        for (ncclFunc_t coll : {ncclFuncAllReduce, ncclFuncAllGather}) {
            size_t n = n_bytes / 64 * 64;
            mock_outcome first = Run(ranks[0], coll, n);
            for (const Comm &rank : ranks) {
                mock_outcome out = Run(rank, coll, n);
                EXPECT_EQ(first.algo, out.algo);
                EXPECT_EQ(first.proto, out.proto);
                EXPECT_EQ(first.n_channels, out.n_channels);
            }
        }
}

// ---- ranks that do not hold the same policy ----

// What each rank of a communicator reads; NULL: no such file.
struct RanksCase {
    const char *name;
    std::vector<const char *> policies;
    bool agree;
};

constexpr char kTree[] = "allreduce,0,inf,tree,ll,-1,-1,-1\n";
constexpr char kTreeInOtherWords[] =
    "# the same\n"
    "allreduce, 0K, inf, tree, ll, 0, -1, -1\n";
constexpr char kSimple[] = "allreduce,0,inf,tree,simple,-1,-1,-1\n";

TEST_F(StaticPlugin, StepsAsideOnAllRanksIfTheirPoliciesDiffer)
{
    const RanksCase cases[] = {
        {"same", {kTree, kTree, kTree, kTree}, true},
        {"same_rules", {kTree, kTreeInOtherWords, kTree, kTree}, true},
        {"last_differs", {kTree, kTree, kTree, kSimple}, false},
        {"first_differs", {kSimple, kTree, kTree, kTree}, false},
        {"one_has_none", {kTree, nullptr, kTree, kTree}, false},
        {"one_is_refused", {kTree, kTree, "nonsense\n", kTree}, false},
    };

    for (const RanksCase &c : cases)
        for (const char *version : {"2.28", "2.30"}) {
            SCOPED_TRACE(std::string(c.name) + " in " + version);
            Nccl nccl = Start(version);
            std::vector<Comm> ranks;
            size_t n = 0;
            for (const char *text : c.policies) {
                std::string name = "rank" + std::to_string(n++);
                if (text != nullptr)
                    Policy(text, name.c_str());
                else
                    setenv("NCCL_TUNER_CONFIG_FILE", "/no/such/file", 1);
                ranks.push_back(Join(nccl));
            }
            warnings_.clear();

            for (const Comm &rank : ranks) {
                mock_outcome out = Run(rank, ncclFuncAllReduce, 4096);
                EXPECT_EQ(c.agree, !Untouched(out));
                EXPECT_TRUE(Untouched(Run(rank, ncclFuncBroadcast, 4096)));
            }

            size_t n_aside = 0; // one warning on each rank that had a policy
            for (const std::string &warning : warnings_)
                n_aside += warning.find("do not hold the same policy") !=
                           std::string::npos;
            EXPECT_EQ(warnings_.size(), n_aside);
            EXPECT_EQ(!c.agree, n_aside >= 3);
        }
}

TEST_F(StaticPlugin, ComparesCommunicatorsOnTheirOwn)
{
    Policy(kTree, "a");
    Nccl nccl = Start();
    Comm first = Join(nccl, 1);
    Policy(kSimple, "b");
    Comm second = Join(nccl, 2);

    EXPECT_EQ(NCCL_PROTO_LL, Run(first, ncclFuncAllReduce, 4096).proto);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, Run(second, ncclFuncAllReduce, 4096).proto);
}

// ---- settings ----

TEST_F(StaticPlugin, ReadsNvidiasDefaultFileInTheWorkingDirectory)
{
    fs::path before = fs::current_path();
    std::ofstream(dir_ / "nccl_tuner.conf")
        << "allreduce,0,inf,tree,ll,-1,-1,-1\n";
    fs::current_path(dir_);
    Nccl nccl = Start();
    Comm comm = Join(nccl);
    fs::current_path(before);

    EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 4096).algo);
}

TEST_F(StaticPlugin, SwitchesToTheOverlapPolicy)
{
    std::string path = Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    std::ofstream(path + ".overlap") << "allreduce,0,inf,tree,ll128,-1,-1,-1\n";
    std::ofstream(dir_ / "other") << "allreduce,0,inf,tree,simple,-1,-1,-1\n";
    auto choice = [this] {
        Nccl nccl = Start();
        Comm comm = Join(nccl);
        mock_outcome out = Run(comm, ncclFuncAllReduce, 4096);
        return std::make_pair(out.algo, out.proto);
    };
    using Pair = std::pair<int, int>;

    EXPECT_EQ(Pair(NCCL_ALGO_TREE, NCCL_PROTO_LL), choice());
    setenv("NCCL_WORKLOAD_OVERLAP", "0", 1);
    EXPECT_EQ(Pair(NCCL_ALGO_TREE, NCCL_PROTO_LL), choice());
    setenv("NCCL_WORKLOAD_OVERLAP", "1", 1);
    EXPECT_EQ(Pair(NCCL_ALGO_TREE, NCCL_PROTO_LL128), choice());
    setenv("STEPTUNE_OVERLAP_CONFIG_FILE", (dir_ / "other").c_str(), 1);
    EXPECT_EQ(Pair(NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE), choice());
}

TEST_F(StaticPlugin, AppliesRulesOfTheGpuThatIsThere)
{
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll,NVIDIA A100-SXM4-80GB\n"
           "allreduce,tree,simple,NVIDIA H200\n");
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    Nccl nccl = Start();

    EXPECT_EQ(NCCL_PROTO_SIMPLE,
              Run(Join(nccl), ncclFuncAllReduce, 4096).proto);
}

TEST_F(StaticPlugin, SaysOnceWhatItLoaded)
{
    std::string path = Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n"
                              "allreduce,0,inf,tree,ll,-1,2,-1\n");
    Nccl nccl = Start();
    Comm comm = Join(nccl);
    Run(comm, ncclFuncAllReduce, 4096);

    std::vector<std::string> ours;
    for (const std::string &line : infos_)
        if (line.find("steptune: ") != std::string::npos)
            ours.push_back(line);
    EXPECT_THAT(ours,
                ElementsAre(AllOf(HasSubstr("4 ranks on 1 nodes: " + path),
                                  HasSubstr(", hash "),
                                  EndsWith("1 of 2 rules apply"))));
    EXPECT_THAT(warnings_, IsEmpty());
}

// ---- stepping aside ----

struct AsideCase {
    const char *name;
    const char *file; // in the test's folder; NULL leaves the default
    const char *text; // NULL: no such file
    const char *overlap;
    const char *warning; // how the one warning ends, before "; stepping aside"
};

class StepsAside : public StaticPlugin,
                   public testing::WithParamInterface<AsideCase>
{
};

TEST_P(StepsAside, AsIfThereWereNoPluginWithOneWarning)
{
    const AsideCase &c = GetParam();
    fs::path before = fs::current_path();
    fs::current_path(dir_);
    fs::create_directory(dir_ / "folder");
    if (c.text != nullptr)
        std::ofstream(dir_ / c.file) << c.text;
    if (c.file != nullptr)
        setenv("NCCL_TUNER_CONFIG_FILE", c.file, 1);
    if (c.overlap != nullptr)
        setenv("NCCL_WORKLOAD_OVERLAP", c.overlap, 1);

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        warnings_.clear();
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);
        EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20)));
        EXPECT_THAT(warnings_, ElementsAre(EndsWith(
                                   "steptune: " + std::string(c.warning) +
                                   "; stepping aside, NCCL tunes alone")));
    }
    fs::current_path(before);
}

// clang-format off
const AsideCase kAsideCases[] = {
    {"no_file", nullptr, nullptr, nullptr,
     "nccl_tuner.conf: cannot be opened: No such file or directory"},
    {"missing_file", "missing", nullptr, nullptr,
     "missing: cannot be opened: No such file or directory"},
    {"directory", "folder", nullptr, nullptr,
     "folder: is a directory"},
    {"refused_file", "bad", "allreduce,0,1,tree,ll,-1,-1,-1\nallreduce,5,1,tree,ll,-1,-1,-1\n",
     nullptr, "bad:2:11: min_bytes 5 is above max_bytes 1"},
    {"bad_switch", "good", "allreduce,0,inf,tree,ll,-1,-1,-1\n", "yes",
     "environment: NCCL_WORKLOAD_OVERLAP is 'yes', expected 0 or 1"},
    {"no_overlap_file", "good", "allreduce,0,inf,tree,ll,-1,-1,-1\n", "1",
     "good.overlap: cannot be opened: No such file or directory"},
};
// clang-format on

INSTANTIATE_TEST_SUITE_P(Table, StepsAside, testing::ValuesIn(kAsideCases),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST_F(StaticPlugin, TakesAnEmptyFileAsNoRules)
{
    Policy("");
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20)));
    EXPECT_THAT(warnings_, IsEmpty());
}

// ---- surviving ----

TEST_F(StaticPlugin, ReadsThePolicyAgainAfterItWasUnloaded)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    Nccl nccl = Start();
    EXPECT_EQ(NCCL_PROTO_LL128, Run(Join(nccl), ncclFuncAllReduce, 4096).proto);
    ASSERT_EQ(nullptr, dlopen(STP_PLUGIN, RTLD_NOW | RTLD_NOLOAD))
        << "still loaded";

    Policy("allreduce,0,inf,tree,simple,-1,-1,-1\n");

    EXPECT_EQ(NCCL_PROTO_SIMPLE,
              Run(Join(nccl), ncclFuncAllReduce, 4096).proto);
}

TEST_F(StaticPlugin, KeepsOnePolicyForAllCommunicatorsThatLiveTogether)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    Nccl nccl = Start();
    Comm first = Join(nccl, 1);

    Policy("allreduce,0,inf,tree,simple,-1,-1,-1\n");
    Comm second = Join(nccl, 2);
    first.reset();
    Comm third = Join(nccl, 3);

    EXPECT_EQ(NCCL_PROTO_LL128, Run(second, ncclFuncAllReduce, 4096).proto);
    EXPECT_EQ(NCCL_PROTO_LL128, Run(third, ncclFuncAllReduce, 4096).proto);
}

TEST_F(StaticPlugin, AppliesOneFileToCommunicatorsOfDifferentShapes)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,4\n"
           "allreduce,0,inf,tree,simple,-1,-1,8\n");
    Nccl nccl = Start();
    Comm four = Join(nccl, 1);
    machine_ = Load("h100x8");
    Comm eight = Join(nccl, 2);

    EXPECT_EQ(NCCL_PROTO_LL128, Run(four, ncclFuncAllReduce, 4096).proto);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, Run(eight, ncclFuncAllReduce, 4096).proto);
}

TEST_F(StaticPlugin, IsFinalizedInAnyOrder)
{
    Policy("allreduce,0,inf,tree,ll128,-1,-1,-1\n");
    const size_t orders[][4] = {{0, 1, 2, 3}, {3, 2, 1, 0}, {2, 0, 3, 1}};

    for (const auto &order : orders) {
        Nccl nccl = Start();
        std::vector<Comm> comms;
        for (uint64_t id = 0; id < 4; id++)
            comms.push_back(Join(nccl, id));
        for (size_t i : order) {
            comms[i].reset();
            for (const Comm &left : comms) {
                if (left) {
                    EXPECT_EQ(NCCL_PROTO_LL128,
                              Run(left, ncclFuncAllReduce, 4096).proto);
                }
            }
        }
    }
}

TEST_F(StaticPlugin, IsInitialisedByEightThreadsAtOnce)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    std::atomic<int> n_right{0};

    for (int repeat = 0; repeat < 20; repeat++) {
        Nccl nccl = Start();
        Comm keep = Join(nccl); // loads the library, as ncclCommInitAll does
        std::vector<std::thread> threads;
        for (uint64_t t = 0; t < 8; t++)
            threads.emplace_back([&, t] {
                mock_comm *comm = nullptr;
                if (mock_comm_create(nccl.get(), machine_.get(), id_ + t,
                                     &comm) != ncclSuccess)
                    return;
                mock_call call{};
                call.coll = ncclFuncAllReduce;
                call.n_bytes = 4096;
                mock_outcome out{};
                mock_comm_collective(comm, &call, &out);
                n_right += out.algo == NCCL_ALGO_TREE;
                mock_comm_destroy(comm);
            });
        for (std::thread &t : threads)
            t.join();
    }

    EXPECT_EQ(160, n_right);
}

// ---- what mock NCCL does not do: the bare interface ----

class BareInterface : public StaticPlugin
{
  protected:
    void SetUp() override
    {
        StaticPlugin::SetUp();
        lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, lib_) << dlerror();
    }
    void TearDown() override
    {
        dlclose(lib_);
        StaticPlugin::TearDown();
    }

    template <typename T> const T *Tuner(const char *symbol)
    {
        return static_cast<const T *>(dlsym(lib_, symbol));
    }

    void *lib_ = nullptr;
};

TEST_F(BareInterface, NeedsNoLogger)
{
    ncclTunerConstants_v5_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    const char *texts[] = {"allreduce,0,inf,tree,ll,-1,-1,-1\n", "nonsense\n"};

    for (const char *text : texts) {
        Policy(text);
        void *ctx = nullptr;
        const auto *v5 = Tuner<ncclTuner_v5_t>("ncclTunerPlugin_v5");
        EXPECT_EQ(ncclSuccess,
                  v5->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants));
        EXPECT_EQ(ncclSuccess, v5->finalize(ctx));
        const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");
        EXPECT_EQ(ncclSuccess, v4->init(4, 1, nullptr, &ctx));
        EXPECT_EQ(ncclSuccess, v4->destroy(ctx));
    }
}

TEST_F(BareInterface, ReadsTheFileAgainOnceNoCommunicatorHoldsIt)
{
    const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");

    for (int proto : {NCCL_PROTO_LL, NCCL_PROTO_SIMPLE}) {
        Policy(std::string("allreduce,0,inf,tree,") +
               (proto == NCCL_PROTO_LL ? "ll" : "simple") + ",-1,-1,-1\n");
        float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
        int channels = 0;
        void *ctx = nullptr;
        v4->init(8, 1, nullptr, &ctx);
        v4->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, (float **)table, 7, 3, 0,
                        &channels);
        v4->destroy(ctx);
        EXPECT_EQ(0, table[NCCL_ALGO_TREE][proto]);
    }
}

TEST_F(BareInterface, LeavesNcclsConstantsAlone)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    ncclTunerConstants_v5_t constants;
    ncclTunerConstants_v5_t before;
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    memset(&constants, 0x5a, sizeof(constants));
    before = constants;
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    void *ctx = nullptr;

    v6->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants);
    v6->finalize(ctx);

    EXPECT_EQ(0, memcmp(&before, &constants, sizeof(before)));
}

TEST_F(BareInterface, IgnoresTheGpuColumnOnSeveralNodes)
{
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll,NVIDIA H200\n");
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    const auto *v4 = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");

    for (size_t n_nodes : {1, 2}) {
        float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
        int channels = 0;
        void *ctx = nullptr;
        v4->init(8, n_nodes, nullptr, &ctx);
        v4->getCollInfo(ctx, ncclFuncAllReduce, 64, 1, (float **)table, 7, 3, 0,
                        &channels);
        v4->destroy(ctx);
        EXPECT_EQ(n_nodes == 1 ? 0.0f : 5.0f, table[0][0]);
    }
}

// Which chunk size is told for what was asked: calls of one group, then the
// question.  "T4" is an all-reduce of 4096 bytes that a rule decides, "T8" one
// of 8192 with another chunk size, "N" one that no rule decides.
struct ChunkCase {
    const char *name;
    std::vector<size_t> calls; // bytes of the all-reduces before
    int algo;
    int proto;
    size_t want;
};

TEST_F(BareInterface, TellsTheChunkSizeOfWhatItDecidedAndOfNothingElse)
{
    Policy("collective,min_bytes,max_bytes,algorithm,protocol,chunk_bytes\n"
           "allreduce,4096,4096,tree,simple,64K\n"
           "allreduce,8192,8192,tree,simple,128K\n"
           "allreduce,16384,16384,tree,simple,-1\n");
    const ChunkCase cases[] = {
        {"decided", {4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"twice_alike", {4096, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 65536},
        {"two_sizes", {4096, 8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"beside_undecided", {64, 4096}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided_behind", {4096, 64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"undecided", {64}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"rule_without", {16384}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"other_pair_ran", {4096}, NCCL_ALGO_RING, NCCL_PROTO_SIMPLE, 0},
        {"nothing_asked", {}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        {"decided_again", {8192}, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 131072},
    };
    const auto *v6 = Tuner<ncclTuner_v6_t>("ncclTunerPlugin_v6");
    ncclTunerConstants_v5_t constants{};
    ncclNvlDomainInfo_v5_t nvl{1, 4, 4};
    void *ctx = nullptr;
    v6->init(&ctx, 1, 4, 1, nullptr, &nvl, &constants);

    // All cases in one communicator: what a group noted must not outlive it.
    for (const ChunkCase &c : cases) {
        SCOPED_TRACE(c.name);
        for (size_t n_bytes : c.calls) {
            float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
            int channels = 0;
            v6->getCollInfo(ctx, ncclFuncAllReduce, n_bytes, 1, (float **)table,
                            7, 3, 0, &channels);
        }
        if (c.calls.empty()) { // a group of another collective
            float table[7][3] = {{5, 5, 5}, {4, 4, 4}};
            int channels = 0;
            v6->getCollInfo(ctx, ncclFuncAllGather, 64, 1, (float **)table, 7,
                            3, 0, &channels);
        }
        for (int part = 0; part < 3; part++) {
            size_t chunk = 1234;
            EXPECT_EQ(ncclSuccess,
                      v6->getChunkSize(ctx, ncclFuncAllReduce, 512, c.algo,
                                       c.proto, 1, &chunk));
            EXPECT_EQ(c.want == 0 ? 1234 : c.want, chunk);
        }
    }
    v6->finalize(ctx);
}

} // namespace
