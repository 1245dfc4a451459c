// Tests of the plugin's decisions in a job, among ranks that agree or do not,
// and of the settings that it follows.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <utility>

#include <gmock/gmock.h>

extern "C" {
#include "core/policy/ledger.h"
}

#include "support/static_plugin.h"

using namespace static_plugin;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

// ---- deciding ----

// A tuner leaves a call alone where no rule matches, in every version.
testing::AssertionResult LeavesUnmatchedCallsAlone(const mock_outcome &out)
{
    if (Untouched(out))
        return testing::AssertionSuccess();
    return testing::AssertionFailure() << "asked for " << out.asked_channels
                                       << " channels, or changed the table";
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

// clang-format off
constexpr char kRange[] = "allreduce,1024,4096,tree,simple,2,-1,-1\nallgather,0,inf,ring,simple,2,-1,8\n";
// No NVLS on h200x4; tree does not broadcast anywhere.
constexpr char kRuledOut[] = "allreduce,0,inf,nvls,simple,4,-1,-1\nallreduce,0,inf,tree,ll,2,-1,-1\n"
                             "broadcast,0,inf,tree,ll,2,-1,-1\n";
// One call under a policy, in every version of the interface.
const struct {
    const char *name;
    const char *machine, *policy;
    ncclFunc_t coll;
    size_t n_bytes;
    int algo, proto;     // -1: NCCL decides
    int asked, channels; // 0: NCCL's
} kDecided[] = {
    {"a_call_that_a_rule_matches", "h200x4", kRange, ncclFuncAllReduce, 4096, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 2, 0},
    {"more_bytes_than_it_names", "h200x4", kRange, ncclFuncAllReduce, 4104, -1, -1, 0, 0},
    {"other_ranks_than_it_names", "h200x4", kRange, ncclFuncAllGather, 4096, -1, -1, 0, 0},
    {"another_collective", "h200x4", kRange, ncclFuncBroadcast, 4096, -1, -1, 0, 0},
    {"channels_of_nccl", "h200x4", "allreduce,0,inf,tree,simple,0,-1,-1\n", ncclFuncAllReduce, 1 << 26, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0, 24},
    {"channels_that_are_not_named", "h200x4", "allreduce,0,inf,tree,simple,-1,-1,-1\n", ncclFuncAllReduce, 1 << 26, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0, 24},
    {"the_rule_after_one_that_is_ruled_out", "h200x4", kRuledOut, ncclFuncAllReduce, 1 << 20, NCCL_ALGO_TREE, NCCL_PROTO_LL, 2, 0},
    {"no_rule_after_one_that_is_ruled_out", "h200x4", kRuledOut, ncclFuncBroadcast, 1 << 20, -1, -1, 0, 0},
    {"nvls_where_there_is_nvls", "h100x8", kRuledOut, ncclFuncAllReduce, 1024, NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 4, 0},
};
// clang-format on

TEST_F(StaticPlugin, DecidesAlikeInEveryTunerVersion)
{
    for (const auto &c : kDecided) {
        machine_ = LoadMachine(c.machine);
        Policy(c.policy);
        for (const NcclVersion &v : kVersions) {
            SCOPED_TRACE(std::string(c.name) + " in " + v.nccl);
            Nccl nccl = Start(v.nccl);
            Comm comm = Join(nccl);
            ASSERT_EQ(v.tuner, mock_comm_tuner_version(comm.get()));

            const mock_outcome out = Run(comm, c.coll, c.n_bytes);

            if (c.algo < 0) {
                EXPECT_TRUE(LeavesUnmatchedCallsAlone(out));
                continue;
            }
            EXPECT_EQ(c.algo, out.algo);
            EXPECT_EQ(c.proto, out.proto);
            EXPECT_EQ(c.asked, out.asked_channels);
            EXPECT_TRUE(c.channels == 0 || c.channels == out.n_channels);
        }
    }
    EXPECT_THAT(warnings_, IsEmpty());
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

TEST_F(StaticPlugin, ComparesCommunicatorsOnTheirOwn)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n", "a");
    Nccl nccl = Start();
    Comm first = Join(nccl, 1);
    Policy("allreduce,0,inf,tree,simple,-1,-1,-1\n", "b");
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

// A ledger that cannot be written stops no decision.
TEST_F(StaticPlugin, DecidesWithoutTheFolderOfItsLedger)
{
    Policy("allreduce,0,inf,tree,ll,-1,-1,-1\n");
    const std::string long_name(5000, 'x');
    const std::pair<std::string, std::string> cases[] = {
        {"/proc/nowhere",
         "cannot make a file in '/proc/nowhere': No such file or directory"},
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
    EXPECT_THAT(warnings_, IsEmpty());
}

} // namespace
