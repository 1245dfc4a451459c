// When the plugin steps aside, and what it survives: unloading, communicators
// that live together, threads.
#include <dlfcn.h>

#include <atomic>
#include <thread>

#include <gmock/gmock.h>

#include "support/static_plugin.h"
#include "support/with_param.h"

using namespace static_plugin;
using testing::ElementsAre;
using testing::EndsWith;
using testing::IsEmpty;

namespace
{

// ---- stepping aside ----

struct AsideCase {
    const char *name;
    const char *file; // in the test's folder; NULL leaves the default
    const char *text; // NULL: no such file
    const char *overlap;
    const char *warning; // how the one warning ends, before "; stepping aside"
};

using StepsAside = WithParam<StaticPlugin, AsideCase>;

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
                         CaseName());

TEST_F(StaticPlugin, TakesAnEmptyFileAndTheNullDeviceAsNoRules)
{
    for (const std::string &path : {Policy(""), std::string("/dev/null")}) {
        setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
        Nccl nccl = Start();
        Comm comm = Join(nccl);

        EXPECT_TRUE(Untouched(Run(comm, ncclFuncAllReduce, 1 << 20))) << path;
    }
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

} // namespace
