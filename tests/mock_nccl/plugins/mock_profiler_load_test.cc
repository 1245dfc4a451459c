// How mock NCCL finds, opens and closes a profiler.
#include <gmock/gmock.h>

#include "support/mock_profiler.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::ElementsAreArray;

namespace
{

class MockProfilerLife : public testing::Test
{
  protected:
    Machine machine_ = LoadMachine("h200x4");
};

// ---- life ----

TEST_F(MockProfilerLife, ComesBeforeTheTunerAndGoesAfterIt)
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

    EXPECT_THAT(Heard(log),
                ElementsAre("init - id 77 nodes 1 rank 3 of 4", "tuner init",
                            "tuner finalize", "finalize 1003"));
}

TEST_F(MockProfilerLife, ChildrenAreAnnouncedWithTheirParentsRank)
{
    Profiler profiler(kListener, 0);
    Nccl nccl = MakeNccl(With(kListener));
    mock_comm *comm = nullptr;
    mock_comm *child = nullptr;
    ASSERT_EQ(ncclSuccess,
              mock_comm_create_rank(nccl.get(), machine_.get(), 77, 2, &comm));
    Log log;

    ASSERT_EQ(ncclSuccess, mock_comm_shrink(comm, machine_.get(), &child));

    EXPECT_THAT(Heard(log),
                ElementsAre("init - id " + std::to_string(mock_comm_id(child)) +
                            " nodes 1 rank 2 of 4"));
    mock_comm_destroy(child);
    mock_comm_destroy(comm);
}

TEST_F(MockProfilerLife, ProcessHasOneMaskWhichOutlivesCommunicators)
{
    Profiler profiler(kListener, 0);
    Nccl nccl = MakeNccl(With(kListener));
    Comm one = MakeComm(nccl, machine_);
    int *mask = profiler->nccl_mask;
    Comm two = MakeComm(nccl, machine_);

    EXPECT_EQ(mask, profiler->nccl_mask);
    one.reset();
    two.reset();
    Comm three = MakeComm(nccl, machine_);
    EXPECT_EQ(mask, profiler->nccl_mask);
}

// ---- loading ----

struct LoadCase {
    std::string name;
    const char *version;
    const char *value;
    Lines lines; // of NCCL, and of the profiler; @ is the plugins' folder
};

class MockProfilerLoad : public testing::TestWithParam<LoadCase>
{
};

Lines Expand(Lines lines)
{
    for (std::string &line : lines)
        for (size_t at; (at = line.find('@')) != std::string::npos;)
            line.replace(at, 1, STP_TEST_PLUGINS);
    return lines;
}

std::string Flags(unsigned long flags)
{
    std::string text;
    for (auto [bit, letter] : {std::pair{0x1ul, 'I'},
                               {0x80ul, 'E'},
                               {0x10000ul, 'D'},
                               {0x4000ul, 'P'}})
        if (flags & bit)
            text += letter;
    return text + " ";
}

TEST_P(MockProfilerLoad, SaysAndDoesWhatThatVersionDoes)
{
    Profiler any(kListener, NCCL_PROFILE_COLL);
    Profiler old(kListenerV4, NCCL_PROFILE_COLL);
    Machine machine = LoadMachine("h200x4");
    Nccl nccl = MakeNccl(With(GetParam().value, GetParam().version));
    Log log;

    MakeComm(nccl, machine).reset();

    Lines lines;
    for (const Log::Line &line : log.lines)
        if (line.text.find("libnccl-tuner.so") == std::string::npos)
            lines.push_back(Flags(line.flags) + line.text);
    EXPECT_THAT(lines, ElementsAreArray(Expand(GetParam().lines)));
}

#define P              "PROFILER/Plugin: "
#define ANY            "@/libnccl-tuner-listener.so"
#define V4             "@/libnccl-tuner-listener_v4.so"
#define NO_V           "@/libnccl-tuner-no_symbol.so"
#define ENV            "E NCCL_PROFILER_PLUGIN set by environment to "
#define DONE           "I Successfully loaded external profiler plugin "
#define INIT           "P init - id 1 nodes 1 rank 0 of 4"
#define FINALIZE       "P finalize 1000"
#define MASK           "I Profiler event mask: 0x2 (2) - Enabled: Coll "
#define OS             "I ncclOsDlsym(ncclProfiler_v"
#define OS_END(lib, v) ") failed: " lib ": undefined symbol: ncclProfiler_v" v

#define PATH(name) STP_TEST_PLUGINS "/libnccl-tuner-" name ".so"

INSTANTIATE_TEST_SUITE_P(
    All, MockProfilerLoad,
    testing::Values(
        LoadCase{"none_asked_for", "2.28", nullptr, {}},
        LoadCase{"before_2_27", "2.26", PATH("listener"), {}},
        LoadCase{"v4_in_2_27",
                 "2.27",
                 PATH("listener"),
                 {"I " P "Plugin name set by env to " ANY,
                  "IE " P "loaded listener", INIT, FINALIZE,
                  "E " P "Closing profiler plugin listener"}},
        LoadCase{"not_there_in_2_27",
                 "2.27",
                 "nope",
                 {"I " P "Could not find: nope libnccl-profiler-nope.so. "}},
        LoadCase{"v5_in_2_28",
                 "2.28",
                 PATH("listener"),
                 {ENV ANY, "I " P "Loaded listener (v5)", DONE ANY, INIT,
                  FINALIZE, "I " P "Closing profiler plugin listener"}},
        LoadCase{"v4_in_2_28",
                 "2.28",
                 PATH("listener_v4"),
                 {ENV V4, "I " P "Loaded listener_v4 (v4)", DONE V4, INIT,
                  FINALIZE, "I " P "Closing profiler plugin listener_v4"}},
        LoadCase{"not_there",
                 "2.28",
                 "nope",
                 {ENV "nope",
                  "I " P "Could not find: nope libnccl-profiler-nope.so"}},
        LoadCase{"unset",
                 "2.28",
                 "",
                 {ENV, "I " P "Could not find: libnccl-profiler.so"}},
        LoadCase{"none", "2.28", "NONE", {ENV "NONE"}},
        LoadCase{
            "no_profiler",
            "2.28",
            PATH("no_symbol"),
            {ENV NO_V, "I External profiler plugin " NO_V " is unsupported"}},
        LoadCase{"v6_in_2_29",
                 "2.29",
                 PATH("listener"),
                 {ENV ANY, "I " P "Loaded listener (v6)", DONE ANY, INIT, MASK,
                  FINALIZE, "I " P "Closing profiler plugin listener"}},
        LoadCase{"v4_in_2_30",
                 "2.30",
                 PATH("listener_v4"),
                 {ENV V4, OS "6" OS_END(V4, "6"), OS "5" OS_END(V4, "5"),
                  "I " P "Loaded listener_v4 (v4)", DONE V4, INIT, MASK,
                  FINALIZE, "D " P "Closing profiler plugin listener_v4"}}),
    CaseName());

// ---- an init that fails ----

struct FailureCase {
    std::string name;
    const char *version;
    const char *path;
    bool hears; // events, of the communicator whose init failed
    bool again; // the next one's init
};

class MockProfilerFailure : public testing::TestWithParam<FailureCase>
{
};

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
    EXPECT_EQ(GetParam().again ? 1u : 0u, Heard(log).size());
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
