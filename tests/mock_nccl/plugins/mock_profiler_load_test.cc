// How mock NCCL finds, opens and closes a profiler.
#include <gmock/gmock.h>

#include "mock_nccl/plugins/mock_log_cases.h"
#include "support/mock_profiler.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::ElementsAreArray;
using testing::MatchesRegex;

namespace
{

class MockProfilerLife : public testing::Test
{
  protected:
    Machine machine_ = LoadMachine("h200x4");
};

// ---- life ----

TEST_F(MockProfilerLife, InitsBeforeTheTunerAndFinalizesAfterIt)
{
    Profiler profiler(kListener, 0);
    mock_nccl_options options = With(kListener);
    options.tuner_plugin = kListener;
    Nccl nccl = MakeNccl(options);
    Log log;
    mock_comm *comm = nullptr;

    ASSERT_EQ(ncclSuccess,
              mock_comm_create_rank(nccl.get(), machine_.get(), 77, 3, &comm));
    mock_comm_destroy(comm);

    EXPECT_THAT(ProfilerLines(log),
                ElementsAre("init - id 77 nodes 1 rank 3 of 4", "tuner init",
                            "tuner finalize", "finalize 1003"));
}

TEST_F(MockProfilerLife, ChildrenInitWithTheirParentsRank)
{
    Profiler profiler(kListener, 0);
    Nccl nccl = MakeNccl(With(kListener));
    mock_comm *comm = nullptr;
    mock_comm *child = nullptr;
    ASSERT_EQ(ncclSuccess,
              mock_comm_create_rank(nccl.get(), machine_.get(), 77, 2, &comm));
    Log log;

    ASSERT_EQ(ncclSuccess, mock_comm_shrink(comm, machine_.get(), &child));

    EXPECT_THAT(
        ProfilerLines(log),
        ElementsAre(MatchesRegex("init - id [0-9]+ nodes 1 rank 2 of 4")));
    mock_comm_destroy(child);
    mock_comm_destroy(comm);
}

TEST_F(MockProfilerLife, LibraryIsClosedAfterTheLastCommunicator)
{
    Nccl nccl = MakeNccl(With(kListener));
    Comm one = MakeComm(nccl, machine_);
    Comm two = MakeComm(nccl, machine_);

    one.reset();
    void *open = dlopen(kListener, RTLD_NOW | RTLD_NOLOAD);
    ASSERT_NE(nullptr, open);
    dlclose(open);
    two.reset();

    EXPECT_EQ(nullptr, dlopen(kListener, RTLD_NOW | RTLD_NOLOAD));
}

// NCCL 2.31 and later have phases for profilers of v7, which need channels.
TEST_F(MockProfilerLife, PhasesOfKernelsAreForNewProfilers)
{
    const int phases = NCCL_PROFILE_KERNEL_PHASE;
    const struct {
        const char *path;
        const char *version;
        int mask, fitted;
        const char *said; // the end of the line on the mask
    } cases[] = {
        {kListener, "2.30", phases, phases, "Enabled: "},
        {kListener, "2.31", phases, phases | kKernels,
         "0x8040 (32832) - Enabled: KernelCh KernelPhase "},
        {kListener, "2.31", kKernels, kKernels,
         "0x40 (64) - Enabled: KernelCh "},
        {kListenerV4, "2.31", phases | NCCL_PROFILE_COLL, NCCL_PROFILE_COLL,
         "0x2 (2) - Enabled: Coll "},
        {kListenerV4, "2.30", kKernels, kKernels, "Enabled: KernelCh "},
        {kListener, "2.30", 0x43, 0x43,
         "0x43 (67) - Enabled: Group Coll KernelCh "},
        {kListener, "2.30", 0x7fff, 0x7fff,
         "0x7fff (32767) - Enabled: Group Coll P2p ProxyOp ProxyStep "
         "ProxyCtrl KernelCh NetPlugin GroupApi CollApi P2pApi KernelLaunch "
         "CeColl CeSync CeBatch "},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.version) + " " + c.path);
        Profiler profiler(c.path, c.mask);
        Nccl nccl = MakeNccl(With(c.path, c.version));
        Log log;
        Comm comm = MakeComm(nccl, machine_);

        EXPECT_EQ(c.fitted, *profiler->nccl_mask);
        Lines masks;
        for (const Log::Line &line : log.lines)
            if (line.text.find("event mask") != std::string::npos)
                masks.push_back(line.text);
        EXPECT_THAT(masks, ElementsAre(testing::EndsWith(c.said)));
    }
}

// ---- loading ----

using MockProfilerLoad = testing::TestWithParam<LogCase>;

TEST_P(MockProfilerLoad, LogsAndLoadsLikeThatVersion)
{
    const LogCase &c = GetParam();
    Profiler any(kListener, NCCL_PROFILE_COLL);
    Profiler old(kListenerV4, NCCL_PROFILE_COLL);
    Machine machine = LoadMachine("h200x4");
    Nccl nccl =
        MakeNccl(With(c.Get("NCCL_PROFILER_PLUGIN"), c.version.c_str()));
    Log log;

    MakeComm(nccl, machine).reset();

    Lines lines;
    for (const Log::Line &line : log.lines)
        if (line.text.find("libnccl-tuner.so") == std::string::npos)
            lines.push_back(FlagLetters(line.flags) + line.text);
    EXPECT_THAT(lines, ElementsAreArray(c.lines));
}

INSTANTIATE_TEST_SUITE_P(All, MockProfilerLoad,
                         testing::ValuesIn(ReadLogCases("profiler_lines.txt")),
                         CaseName());

// From 2.28 on, if there is no profiler of that name.
TEST_F(MockProfilerLife, IsFoundInTheNetPlugin)
{
    const struct {
        const char *version, *plugin, *net;
        const char *init; // how its line begins; nullptr: there is none
    } cases[] = {
        {"2.27", "nope", kListener, nullptr},
        {"2.28", "nope", kListener, "init - "},
        {"2.30", "nope", kListener, "init - "},
        {"2.28", "nope", nullptr, nullptr},
        {"2.28", kListener, "nope", "init - "},
        {"2.28", kListener, nullptr, "init - "},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.version) + " " + c.plugin);
        Profiler profiler(kListener, 0);
        mock_nccl_options options = With(c.plugin, c.version);
        options.net_plugin = c.net;
        Nccl nccl = MakeNccl(options);
        Log log;
        MakeComm(nccl, machine_).reset();

        const Lines lines = ProfilerLines(log);
        EXPECT_EQ(c.init != nullptr, !lines.empty());
        if (c.init != nullptr) {
            EXPECT_EQ(0u, lines.at(0).rfind(c.init, 0)) << lines.at(0);
        }
    }
}

// ---- an init that fails ----

struct FailureCase {
    std::string name;
    const char *version;
    const char *path;
    bool hears; // events, of the communicator whose init failed
    bool again; // the next one's init
};

using MockProfilerFailure = testing::TestWithParam<FailureCase>;

TEST_P(MockProfilerFailure, FailsNoCommunicator)
{
    Profiler profiler(GetParam().path, NCCL_PROFILE_COLL);
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(With(GetParam().path, GetParam().version));
    profiler->fails = 1;

    Comm one = MakeComm(nccl, machine);
    ASSERT_TRUE(one);
    profiler->events = 0;
    RunOne(one, Call(ncclFuncAllReduce, 1 << 20));
    EXPECT_EQ(GetParam().hears, profiler->events > 0);

    Log log;
    Comm two = MakeComm(nccl, machine);
    EXPECT_EQ(GetParam().again ? 1u : 0u, ProfilerLines(log).size());
}

INSTANTIATE_TEST_SUITE_P(
    All, MockProfilerFailure,
    testing::Values(FailureCase{"gone_in_2_27", "2.27", kListener, false,
                                false},
                    FailureCase{"stays_in_2_28", "2.28", kListener, true, true},
                    FailureCase{"older_stays_mute_in_2_28", "2.28", kListenerV4,
                                false, true},
                    FailureCase{"stays_in_2_29", "2.29", kListener, true, true},
                    FailureCase{"closed_and_opened_anew_in_2_30", "2.30",
                                kListener, false, true}),
    CaseName());

} // namespace
