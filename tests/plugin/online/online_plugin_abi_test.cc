// The learning plugin by its own tables, tuner and profiler: what becomes of
// times, of those that are lost, and when it wants any.
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdarg>
#include <numeric>
#include <thread>

#include "faults/open_files.h"
#include "plugin/online/online_abi.h"

namespace
{

using namespace online_plugin;
using testing::HasSubstr;

// ---- when times are wanted ----

TEST_F(OnlineAbi, BothHalvesAreShownAsThePluginThatLearns)
{
    EXPECT_STREQ("steptune-online", tuner_->name);
    for (const char *name : {"ncclProfiler_v4", "ncclProfiler_v5",
                             "ncclProfiler_v6", "ncclProfiler_v7"}) {
        auto *table = static_cast<ncclProfiler_v5_t *>(dlsym(library_, name));
        ASSERT_NE(nullptr, table) << name;
        EXPECT_STREQ("steptune-online", table->name);
    }
}

// How many of 'n' calls were timed.
struct Counted {
    int n_timed = 0;
    int n_since = 0; // the last of them
};

TEST_F(OnlineAbi, WantsTimesOnlyWhileThereIsSomethingToFindOut)
{
    std::vector<Rank> ranks = Init(2);
    Counted count;

    for (int i = 0; i < 3000; i++) {
        count.n_since = WantsTimes() ? 0 : count.n_since + 1;
        count.n_timed += WantsTimes();
        Call(ranks, 1 << 20);
    }
    EXPECT_LT(256, count.n_timed) << "samples, by which windows are chosen";
    EXPECT_GT(600, count.n_timed) << "then a call a window";
    EXPECT_LT(1000, count.n_since) << "all has settled";
    EXPECT_LE(4u, CheckTimes(Blocks()));

    for (int i = 0; i < 10000 && !WantsTimes(); i++)
        Call(ranks, 8 << 20); // messages that are new
    EXPECT_TRUE(WantsTimes());
    Finalize(ranks);
    EXPECT_EQ(0, mask_);
}

TEST_F(OnlineAbi, WantsTimesUntilNoCommunicatorDoes)
{
    std::vector<Rank> a = Init(2);
    std::vector<Rank> b = Init(2);

    for (int i = 0; i < 100; i++) {
        Call(a, 1 << 20);
        Call(b, 1 << 20);
    }
    EXPECT_TRUE(WantsTimes());
    Finalize(a);
    EXPECT_TRUE(WantsTimes());
    Finalize(b);
    EXPECT_EQ(0, mask_);
}

// A job may have loaded PyTorch's and JAX's.
TEST_F(OnlineAbi, EachNcclOfAProcessIsAskedForItsOwnTimes)
{
    for (int turn = 0; turn < 2; turn++) { // what has ended makes room
        std::vector<Rank> ranks = Init(2);
        std::vector<int> masks(9);
        std::vector<void *> others(masks.size());
        int n_calls = 0;

        for (size_t i = 0; i < others.size(); i++)
            EXPECT_EQ(i < 7 ? ncclSuccess : ncclSystemError,
                      profiler_->init(&others[i], mock_new_comm_id(), &masks[i],
                                      "", 1, 2, 0, nullptr));
        Call(ranks, 1 << 20);
        for (; n_calls < 10000 && !WantsTimes(); n_calls++)
            Call(ranks, 1 << 20);
        EXPECT_TRUE(WantsTimes());
        for (; n_calls < 10000 && WantsTimes(); n_calls++)
            Call(ranks, 1 << 20);
        EXPECT_FALSE(WantsTimes());
        EXPECT_EQ(std::vector<int>(masks.size()), masks);
        for (void *other : others)
            profiler_->finalize(other);
        Finalize(ranks);
        EXPECT_EQ(0, mask_);
    }
}

TEST_F(OnlineAbi, WantsNoTimesWhereARankIsMissing)
{
    std::vector<Rank> ranks = Init(3, 2);

    AskAll(ranks, 1 << 20);
    for (int i = 0; i < 1000; i++) {
        ASSERT_FALSE(WantsTimes());
        AskAll(ranks, 1 << 20);
    }
    Finalize(ranks);
}

// A job may capture its collectives while nothing is timed.
TEST_F(OnlineAbi, LooksAtGroupsForACaptureWhileItWantsNoTimes)
{
    struct {
        const char *name;
        int n_groups;
        bool is_captured; // the last of them
    } const cases[] = {
        {"the first is captured", 1, true},
        {"a later one is captured", 1000, true},
        {"none is captured", 1 << 16, false},
    };

    Set("STEPTUNE_OBJECTIVE", "file");
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        fs::remove(Journal());
        std::vector<Rank> ranks = Init(2);
        for (int i = 1; i <= c.n_groups; i++) {
            ASSERT_EQ(NCCL_PROFILE_GROUP_API, mask_) << i;
            ncclProfilerEvent_t what{};
            void *event = nullptr;
            what.type.v5 = NCCL_PROFILE_GROUP_API;
            what.groupApi.groupDepth = 1;
            what.groupApi.graphCaptured = c.is_captured && i == c.n_groups;
            profiler_->startEvent(ranks[0].profiler, &event, &what);
            EXPECT_EQ(nullptr, event) << "of whose end NCCL is to tell";
        }
        EXPECT_EQ(0, mask_);
        AskAll(ranks, 1 << 20);
        EXPECT_EQ(0, mask_);
        Finalize(ranks);
        EXPECT_EQ(c.is_captured ? 1u : 0u,
                  Count(LinesOf(Journal()), ",graphs,"));
    }
}

// ---- whose times they are ----

TEST_F(OnlineAbi, AWindowTakesWhatItsArmTakes)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 2000; i++)
        Call(ranks, 1 << 20);

    Finalize(ranks);
    EXPECT_LE(4u, CheckTimes(Blocks()));
}

// Nor do they put ranks out of step, if only some are asked.
TEST_F(OnlineAbi, PreviewsOfSymmetricKernelsTeachNothing)
{
    for (const size_t n_asked : {1, 2}) {
        SCOPED_TRACE(n_asked);
        std::remove(Journal().c_str());
        std::vector<Rank> ranks = Init(2);
        const std::vector<Rank> asked(ranks.begin(), ranks.begin() + n_asked);

        for (int i = 0; i < 2000; i++) {
            Preview(asked, 1 << 19);
            Call(ranks, 1 << 20);
        }

        Finalize(ranks);
        EXPECT_LE(4u, CheckTimes(Blocks()));
        size_t n_messages = 0;
        for (const std::string &line : LinesOf(Journal()))
            n_messages += line.find(",message,") != std::string::npos;
        EXPECT_EQ(1u, n_messages);
    }
}

// NCCL 2.31 reports those, too, and no tuner decided on them.
TEST_F(OnlineAbi, SymmetricKernelsAreNotTakenForCallsOfTheTuner)
{
    std::vector<Rank> ranks = Init(2);
    int n = 0;

    for (int i = 0; i < 2000; i++) {
        Pair pair = AskAll(ranks, 1 << 20);
        for (size_t r = 0; r < ranks.size() && is_timed_; r++, n++)
            EXPECT_EQ(nullptr, LaunchOn(ranks[r], 1 << 20, pair, true));
        Ran(ranks, Launch(ranks, 1 << 20, pair), TimeOf(pair));
    }

    Finalize(ranks);
    EXPECT_LE(100, n);
    EXPECT_LE(4u, CheckTimes(Blocks()));
}

TEST_F(OnlineAbi, CopyEnginesAreNotTakenForCallsOfTheTuner)
{
    std::vector<Rank> ranks = Init(2);
    int n = 0;

    for (int i = 0; i < 2000; i++) {
        for (size_t r = 0; r < ranks.size() && is_timed_; r++, n++) {
            ncclProfilerEvent_t what{};
            void *event = &what;
            what.type.v5 = NCCL_PROFILE_CE_COLL;
            what.ceColl.func = "AllGather";
            what.ceColl.count = 1 << 20;
            what.ceColl.datatype = "ncclInt8";
            EXPECT_EQ(ncclSuccess,
                      profiler_->startEvent(ranks[r].profiler, &event, &what));
            EXPECT_EQ(nullptr, event);
        }
        Call(ranks, 1 << 20);
    }

    Finalize(ranks);
    EXPECT_LE(100, n);
    EXPECT_LE(4u, CheckTimes(Blocks()));
}

// Nor launches of a graph, which NCCL does not count.
TEST_F(OnlineAbi, FollowsALaunchByAKernelThatIsTheNextOfItsFunction)
{
    std::vector<Rank> ranks = Init(2);
    const struct {
        const char *name;
        uint64_t number;
        uint8_t n_channels;
        const char *proto;
        bool is_followed;
    } cases[] = {
        {"no channels", 100, 0, "LL", false},
        {"a kernel for symmetric windows", 100, kChannels, "", false},
        {"counted before", 0, kChannels, "LL", false},
        {"no protocol told", 100, kChannels, nullptr, true},
        {"counted now", 100, kChannels, "LL", false},
        {"next", 101, kChannels, "LL", true},
        {"by one channel", 102, 1, "LL", true},
    };
    Call(ranks, 1 << 20);
    while (!WantsTimes())
        Call(ranks, 1 << 20);

    for (const auto &c : cases) {
        ncclProfilerEvent_t what{};
        void *event = nullptr;
        AskAll(ranks, 1 << 20);
        what.type.v5 = NCCL_PROFILE_COLL;
        what.coll.seqNumber = c.number == 0 ? 0 : n_launched_ + c.number;
        what.coll.func = "AllReduce";
        what.coll.count = (1 << 20) / 4;
        what.coll.datatype = "ncclFloat32";
        what.coll.nChannels = c.n_channels;
        what.coll.proto = c.proto;
        profiler_->startEvent(ranks[0].profiler, &event, &what);
        EXPECT_EQ(c.is_followed, event != nullptr) << c.name;
    }
    Finalize(ranks);
}

// Such as those that are simulated, or captured into a graph.
TEST_F(OnlineAbi, CallsThatAreNotLaunchedShiftNoTimes)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 6000; i++) {
        for (int k = 0; i % 500 == 250 && k < 20; k++)
            AskAll(ranks, 1 << 20);
        Call(ranks, 1 << 20);
    }

    Finalize(ranks);
    size_t n_wrong = 0;
    std::vector<Block> blocks = Blocks();
    for (const Block &block : blocks)
        n_wrong += block.us < 99 * block.n_calls;
    EXPECT_LE(8u, blocks.size());
    EXPECT_LE(n_wrong, 2u) << "windows with calls that took no time";
}

TEST_F(OnlineAbi, CallsOfAGroupAreTimedAlthoughTheyAreAskedAboutAtOnce)
{
    std::vector<Rank> ranks = Init(2);
    size_t n_blocks = 0;

    for (int i = 0; i < 2000; i++) {
        const bool is_on = WantsTimes(); // when the group is made
        std::vector<Pair> pairs;
        std::vector<Events> events;
        for (size_t k = 0; k < 5; k++)
            pairs.push_back(AskAll(ranks, size_t{1} << (20 - k)));
        is_timed_ = is_on;
        for (size_t k = 0; k < 5; k++)
            events.push_back(Launch(ranks, size_t{1} << (20 - k), pairs[k]));
        for (size_t k = 0; k < 5; k++)
            Ran(ranks, events[k], TimeOf(pairs[k]));
    }

    Finalize(ranks);
    for (const Block &block : Blocks())
        if (block.algo == "auto") {
            EXPECT_EQ(100 * block.n_calls, block.us);
            n_blocks++;
        }
    EXPECT_LE(4u, n_blocks);
}

TEST_F(OnlineAbi, AHostFarAheadOfItsGpuMixesNoTimes)
{
    std::vector<Rank> ranks = Init(2);
    std::vector<std::pair<Events, Pair>> under_way;

    for (size_t i = 0; i < 6000; i++) {
        const Pair pair = AskAll(ranks, 1 << 20);
        under_way.push_back({Launch(ranks, 1 << 20, pair), pair});
        if (i >= 1000) // the GPU does one at a time
            Ran(ranks, under_way[i - 1000].first,
                TimeOf(under_way[i - 1000].second));
    }
    Finalize(ranks);

    EXPECT_LE(4u, CheckTimes(Blocks()));
}

// ---- what is saved meanwhile ----

// A confirmed arm is saved at once, and once only.
TEST_F(OnlineAbi, SavesWhatIsConfirmed)
{
    Set("STEPTUNE_ARMS", "ring/simple");
    std::vector<Rank> ranks = Init(2);
    const auto call = [&] {
        const Pair pair = AskAll(ranks, 1 << 20);
        Ran(ranks, Launch(ranks, 1 << 20, pair), pair == kOwn ? 100 : 80);
    };

    for (int i = 0; i < 20000 && Count(LinesOf(Journal()), ",confirmed,") == 0;
         i++) {
        EXPECT_FALSE(fs::exists(Learned()));
        call();
    }
    for (int i = 0; i < 16; i++)
        call();
    EXPECT_EQ(1u, Count(LinesOf(Learned()),
                        "allreduce,1048576,1310719,ring,simple,"));
    fs::remove(Learned());
    for (int i = 0; i < 64; i++)
        call();
    EXPECT_FALSE(fs::exists(Learned()));

    EXPECT_EQ(0u, Count(LinesOf(Journal()), ",graphs,"));
    Finalize(ranks);
    EXPECT_TRUE(fs::exists(Learned()));
}

// ---- a process that has too many files open ----

// One that cannot learn, or record, leaves nothing open.
TEST_F(OnlineAbi, WorksWithAnyNumberOfDescriptorsLeft)
{
    const int first_free = dup(0);
    struct rlimit limit, few;

    close(first_free);
    getrlimit(RLIMIT_NOFILE, &limit);
    few = limit;
    Set("STEPTUNE_INLINE", "0");
    Set("STEPTUNE_TRACE", (dir_ / "trace.csv").string());
    const std::ptrdiff_t n_open = CountOpenFiles();
    for (unsigned n_left = 0; n_left < 20; n_left++) {
        SCOPED_TRACE(n_left);
        few.rlim_cur = static_cast<rlim_t>(first_free) + n_left;
        setrlimit(RLIMIT_NOFILE, &few);
        std::vector<Rank> ranks = Init(2);
        for (int i = 0; i < 10; i++)
            Call(ranks, 1 << 20);
        Finalize(ranks);
        setrlimit(RLIMIT_NOFILE, &limit);
        EXPECT_EQ(n_open, CountOpenFiles());
    }
    EXPECT_LT(1u, LinesOf(dir_ / "trace.csv").size());
    EXPECT_FALSE(LinesOf(Journal()).empty());
}

// Numbers are read and printed with a point.
TEST_F(OnlineAbi, LeavesItsThreadsTheirLocale)
{
    uselocale(LC_GLOBAL_LOCALE);
    std::vector<Rank> ranks = Init(2);

    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
    Call(ranks, 1 << 20);
    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
    Finalize(ranks);
    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
    dlclose(library_);
    EXPECT_EQ(LC_GLOBAL_LOCALE, uselocale(nullptr));
    library_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
}

// ---- ranks far apart ----

TEST_F(OnlineAbi, NoTrialStaysWhereARankIsTooFarBehind)
{
    ForceExploration();

    for (int run = 0; run < 2; run++) {
        std::vector<Rank> ranks = Init(2);
        std::vector<Pair> first;
        for (int i = 0; i < 10000; i++)
            first.push_back(Ask(ranks[0], 1 << 20, ncclFuncAllReduce));
        EXPECT_LT(1000,
                  std::count_if(first.begin(), first.end(),
                                [](const Pair &p) { return !(p == kOwn); }));
        EXPECT_EQ(kOwn, first.back());
        for (const Pair &pair : first)
            ASSERT_EQ(pair, Ask(ranks[1], 1 << 20, ncclFuncAllReduce));
        Finalize(ranks);
    }
}

// ---- beside the static plugin ----

std::string logged;

void Log(ncclDebugLogLevel, unsigned long, const char *, int, const char *fmt,
         ...)
{
    char line[4096];
    va_list va;

    va_start(va, fmt);
    vsnprintf(line, sizeof(line), fmt, va);
    va_end(va);
    logged += line + std::string("\n");
}

// Their agreement has no room for proposals on one rank, and has on the other.
TEST_F(OnlineAbi, RanksWithTheStaticPluginAndThisOneAllStepAside)
{
    void *library = dlopen(STP_STATIC, RTLD_NOW | RTLD_LOCAL);
    ASSERT_NE(nullptr, library) << dlerror();
    const auto *fixed =
        static_cast<ncclTuner_v5_t *>(dlsym(library, "ncclTunerPlugin_v5"));
    ncclNvlDomainInfo_v5_t nvl{};
    ncclTunerConstants_v5_t constants{};

    for (bool static_first : {true, false}) {
        const uint64_t id = mock_new_comm_id();
        Rank ranks[2];
        logged.clear();
        for (int r = 0; r < 2; r++)
            ((r == 0) == static_first ? fixed : tuner_)
                ->init(&ranks[r].tuner, id, 2, 1, Log, &nvl, &constants);
        const Rank &online = ranks[static_first];
        for (int i = 0; i < 1000; i++)
            ASSERT_EQ(kOwn, Ask(online, 1 << 20, ncclFuncAllReduce));
        EXPECT_THAT(logged, HasSubstr(" has another Steptune plugin or release "
                                      "than this rank; stepping aside"));
        tuner_->finalize(online.tuner);
        fixed->finalize(ranks[!static_first].tuner);
    }
    dlclose(library);
}

// NCCL may make the profiler's contexts of several communicators before it asks
// their tuners.
TEST_F(OnlineAbi, CommunicatorsHaveTimesInAnyOrderOfTheirContexts)
{
    const uint64_t ids[] = {mock_new_comm_id(), mock_new_comm_id(),
                            mock_new_comm_id()};
    std::vector<Rank> ranks(3);
    ncclNvlDomainInfo_v5_t nvl{};
    ncclTunerConstants_v5_t constants{};

    logged.clear();
    for (size_t i = 0; i < 3; i++)
        profiler_->init(&ranks[i].profiler, ids[i], &mask_, "", 1, 2, 0,
                        nullptr);
    for (size_t i : {1u, 0u, 2u})
        tuner_->init(&ranks[i].tuner, ids[i], 2, 1, Log, &nvl, &constants);

    EXPECT_THAT(logged, Not(HasSubstr("without times on the GPU")));
    Finalize(ranks);

    logged.clear();
    void *alone = nullptr;
    tuner_->init(&alone, mock_new_comm_id(), 2, 1, Log, &nvl, &constants);
    EXPECT_THAT(logged, HasSubstr("without times on the GPU"));
    tuner_->finalize(alone);
}

// Others wait for theirs, or have ended before they had one.
TEST_F(OnlineAbi, ATunerHasTheTimesOfItsCommunicatorAndItsThread)
{
    const uint64_t id = mock_new_comm_id(), other = mock_new_comm_id();
    ncclNvlDomainInfo_v5_t nvl{};
    ncclTunerConstants_v5_t constants{};
    const auto has_times = [&] {
        void *tuner = nullptr;
        logged.clear();
        tuner_->init(&tuner, id, 2, 1, Log, &nvl, &constants);
        tuner_->finalize(tuner);
        return logged.find("without times on the GPU") == std::string::npos;
    };
    const auto profile = [&](uint64_t comm_id) {
        void *profiler = nullptr;
        profiler_->init(&profiler, comm_id, &mask_, "", 1, 2, 0, nullptr);
        return profiler;
    };

    void *of_other = profile(other), *of_thread = nullptr;
    EXPECT_FALSE(has_times());
    std::thread([&] { of_thread = profile(id); }).join();
    EXPECT_FALSE(has_times());
    void *own = profile(id), *ended = profile(other);
    profiler_->finalize(of_other);
    profiler_->finalize(ended);
    EXPECT_TRUE(has_times());
    EXPECT_FALSE(has_times()) << "which the first has";
    profiler_->finalize(own);
    profiler_->finalize(of_thread);
}

// ---- many messages ----

TEST_F(OnlineAbi, KindsBeyondThe128thAreNcclsOwn)
{
    constexpr int kOctaves = 40;
    ForceExploration();
    std::vector<Rank> ranks = Init(2);
    std::vector<size_t> n_tried(5 * kOctaves);

    for (int round = 0; round < 100; round++)
        for (int i = 0; i < 5 * kOctaves; i++) {
            Pair pair = AskAll(ranks, size_t{1} << i % kOctaves,
                               static_cast<ncclFunc_t>(i / kOctaves));
            n_tried[static_cast<size_t>(i)] += !(pair == kOwn);
        }

    EXPECT_LT(64, std::count_if(n_tried.begin(), n_tried.begin() + 128,
                                [](size_t n) { return n > 0; }));
    EXPECT_EQ(0u,
              std::accumulate(n_tried.begin() + 128, n_tried.end(), size_t{0}));
    Finalize(ranks);
}

} // namespace
