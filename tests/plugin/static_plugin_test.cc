// What the plugin decides in a job, among ranks that agree or do not, and which
// settings it follows.
#include <algorithm>
#include <cfloat>
#include <cinttypes>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include <gmock/gmock.h>

extern "C" {
#include "core/policy/ledger.h"
}

#include "support/static_plugin.h"

using namespace static_plugin;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

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
    machine_ = LoadMachine("h100x8");
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

    float least = FLT_MAX;
    for (const auto &row : out.cost)
        for (float cost : row)
            if (cost >= 0)
                least = std::min(least, cost);
    out.cost[NCCL_ALGO_TREE][NCCL_PROTO_LL128] = std::nextafter(least, 0.0f);
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

TEST_F(StaticPlugin, WarnsOfRulesThatRanksMaySeeDifferently)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n"
           "allgather,0,inf,ring,ll,-1,-1,-1,-1,1\n");
    Nccl nccl = Start();
    Comm comm = Join(nccl);

    EXPECT_THAT(
        warnings_,
        ElementsAre("steptune: line 2 of the policy depends on regBuff, "
                    "which each rank sees for its own buffers: the job "
                    "hangs if some ranks register their buffers and "
                    "others do not"));
}

TEST_F(StaticPlugin, SaysWhereRanksCannotCompareTheirPolicies)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");

    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        infos_.clear();
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);
        EXPECT_EQ(v.tuner < 5 ? 1 : 0,
                  std::count_if(infos_.begin(), infos_.end(),
                                [](const std::string &line) {
                                    return line.find("ranks cannot compare "
                                                     "their policies: all must "
                                                     "hold the same") !=
                                           std::string::npos;
                                }));
    }
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
                n_aside += warning.find("stepping aside") != std::string::npos;
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

TEST_F(StaticPlugin, KeepsALedgerWhereItIsToldTo)
{
    Policy("allreduce,1024,4096,tree,simple,2,-1,-1\n");
    fs::create_directory(dir_ / "ledgers");
    setenv("STEPTUNE_LEDGER", (dir_ / "ledgers").c_str(), 1);
    for (const NcclVersion &v : kVersions) {
        SCOPED_TRACE(v.nccl);
        Nccl nccl = Start(v.nccl);
        Comm comm = Join(nccl);
        EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 4096).algo);
        EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 4104)));
    }
    unsetenv("STEPTUNE_LEDGER");

    size_t n = 0;
    for (const auto &entry : fs::directory_iterator(dir_ / "ledgers")) {
        stp_ledger ledger;
        std::ifstream in(entry.path(), std::ios::binary);
        in.read(reinterpret_cast<char *>(&ledger), sizeof(ledger));
        n++;
        EXPECT_TRUE(stp_ledger_is_valid(&ledger, fs::file_size(entry.path())));
        EXPECT_EQ(2u, ledger.n_entries);
        EXPECT_THAT(ledger.what, HasSubstr("1 of 1 rules apply"));
    }
    EXPECT_EQ(std::size(kVersions), n);
}

// What cannot be written down is decided all the same.
TEST_F(StaticPlugin, DecidesWithoutTheFolderOfItsLedger)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    const std::string long_name(5000, 'x');
    const std::pair<std::string, std::string> cases[] = {
        {"/nowhere",
         "cannot make a file in '/nowhere': No such file or directory"},
        {"/dev/null", "cannot make a file in '/dev/null': Not a directory"},
        {long_name,
         "the path '" + long_name.substr(0, 60) + "...' is too long"},
    };

    for (const auto &[folder, why] : cases) {
        setenv("STEPTUNE_LEDGER", folder.c_str(), 1);
        infos_.clear();
        Nccl nccl = Start();
        Comm comm = Join(nccl);
        EXPECT_EQ(NCCL_ALGO_TREE, Run(comm, ncclFuncAllReduce, 4096).algo);
        EXPECT_THAT(infos_,
                    Contains("steptune: no ledger of decisions: " + why));
    }
    unsetenv("STEPTUNE_LEDGER");
    EXPECT_THAT(warnings_, IsEmpty());
}

TEST_F(StaticPlugin, AppliesRulesOfTheGpuThatIsThere)
{
    Policy("collective,algorithm,protocol,gpu\n"
           "allreduce,tree,ll,NVIDIA A100-SXM4-80GB\n"
           "allreduce,tree,simple,NVIDIA H200\n"
           "allreduce,tree,ll,X\n");
    const std::pair<const char *, int> cases[] = {
        {"NVIDIA H200", NCCL_PROTO_SIMPLE}, {"X", NCCL_PROTO_LL}};

    for (auto [gpu, proto] : cases) {
        setenv("STEPTUNE_GPU", gpu, 1);
        Nccl nccl = Start();
        const mock_outcome out = Run(Join(nccl), ncclFuncAllReduce, 4096);
        EXPECT_EQ(NCCL_ALGO_TREE, out.algo) << gpu;
        EXPECT_EQ(proto, out.proto) << gpu;
    }
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
    // which files about the policy name, too
    stp_policy *policy = nullptr;
    ASSERT_EQ(STP_OK, stp_policy_load(path.c_str(), &policy, nullptr));
    char hash[17];
    std::snprintf(hash, sizeof(hash), "%016" PRIx64, stp_policy_hash(policy));
    stp_policy_free(policy);
    EXPECT_THAT(ours,
                ElementsAre(AllOf(HasSubstr("4 ranks on 1 nodes: " + path),
                                  HasSubstr(std::string(", hash ") + hash),
                                  EndsWith("1 of 2 rules apply"))));
    EXPECT_THAT(warnings_, IsEmpty());
}

} // namespace
