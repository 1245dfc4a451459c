// The learning plugin by its own tables, tuner and profiler: what becomes of
// times, of those that are lost, and when it wants any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <numeric>
#include <set>

#include "plugin/online/online_abi.h"

namespace
{

using namespace online_plugin;
using testing::HasSubstr;
using testing::IsEmpty;

// ---- when times are wanted ----

TEST_F(OnlineAbi, BothHalvesAreShownAsThePluginThatLearns)
{
    EXPECT_STREQ("steptune-online", tuner_->name);
    EXPECT_STREQ("steptune-online", profiler_->name);
}

TEST_F(OnlineAbi, WantsTimesOnlyWhileThereIsSomethingToFindOut)
{
    std::vector<Rank> ranks = Init(2);
    int n = 0;

    EXPECT_NE(0, mask_);
    for (; n < 2000 && mask_ != 0; n++)
        Call(ranks, 1 << 20);
    EXPECT_LT(6, n);
    EXPECT_EQ(0, mask_);

    Call(ranks, 8 << 20); // a message that is new
    for (int i = 0; i < 300 && mask_ == 0; i++)
        Call(ranks, 8 << 20);
    EXPECT_NE(0, mask_);
    Finalize(ranks);
    EXPECT_EQ(0, mask_);
    EXPECT_LT(2u, CheckTimes(Rewards()));
}

TEST_F(OnlineAbi, WantsTimesUntilNoCommunicatorDoes)
{
    std::vector<Rank> a = Init(2);
    std::vector<Rank> b = Init(2);

    Finalize(a);
    EXPECT_NE(0, mask_);
    Finalize(b);
    EXPECT_EQ(0, mask_);
}

TEST_F(OnlineAbi, WantsNoTimesWhereARankIsMissing)
{
    std::vector<Rank> ranks = Init(3, 2);

    EXPECT_NE(0, mask_);
    AskAll(ranks, 1 << 20);
    EXPECT_EQ(0, mask_);
    Finalize(ranks);
}

// Times of one rank alone hold what it waited.
TEST_F(OnlineAbi, WantsNoTimesWhereARankHasNoProfiler)
{
    std::vector<Rank> ranks = Init(2, 2, true, 1);

    EXPECT_NE(0, mask_);
    for (int i = 0; i < 100; i++) {
        AskAll(ranks, 1 << 20);
        ASSERT_EQ(0, mask_) << i;
    }
    Finalize(ranks);
}

TEST_F(OnlineAbi, AProfilerWithoutItsTunerHearsNothing)
{
    std::vector<Rank> ranks = Init(2, 2, false);
    int all = 0;
    std::swap(mask_, all);

    EXPECT_EQ(0, all);
    mask_ = NCCL_PROFILE_COLL; // another's wish, as it were
    EXPECT_EQ(nullptr, Launch(ranks, 1 << 20, kOwn)[0]);
    mask_ = 0;
    Finalize(ranks);
}

// ---- whose times they are ----

TEST_F(OnlineAbi, ATimeIsThatOfTheArmThatRan)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 200; i++)
        Call(ranks, 1 << 20);

    Finalize(ranks);
    EXPECT_LT(5u, CheckTimes(Rewards()));
}

// Two of three questions have no launch: simulated or captured ones.
TEST_F(OnlineAbi, QuestionsWithoutALaunchShiftNoTimes)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 3000; i++) {
        AskAll(ranks, 1 << 20);
        if (i % 2 == 0)
            Call(ranks, 1 << 20);
    }

    Finalize(ranks);
    EXPECT_LE(2u, CheckTimes(Rewards()));
}

TEST_F(OnlineAbi, LaunchesOfAGroupAreInTheOrderOfItsQuestions)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 100; i++) {
        std::vector<Pair> pairs;
        std::vector<Events> events;
        for (int k = 0; k < 5; k++)
            pairs.push_back(AskAll(ranks, 1 << 20));
        for (const Pair &pair : pairs)
            events.push_back(Launch(ranks, 1 << 20, pair));
        for (size_t k = 0; k < 5; k++)
            Ran(ranks, events[k], TimeOf(pairs[k]), kChannels);
    }

    Finalize(ranks);
    EXPECT_LT(5u, CheckTimes(Rewards()));
}

// What settled before one message was new left a decision that nobody launched.
TEST_F(OnlineAbi, TimesAreRightWhenTheyAreWantedAgain)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 2000 && mask_ != 0; i++)
        Call(ranks, 1 << 20);
    ASSERT_EQ(0, mask_);
    for (int i = 0; i < 1000; i++) {
        Call(ranks, 8 << 20);
        Call(ranks, 1 << 20);
    }

    Finalize(ranks);
    EXPECT_LT(10u, CheckTimes(Rewards()));
}

TEST_F(OnlineAbi, AHostFarAheadOfItsGpuMixesNoTimes)
{
    const size_t sizes[] = {1 << 20, 8 << 20, 8 << 20, 8 << 20, 8 << 20};
    Set("STEPTUNE_ARMS", "ring/ll128"); // what runs anyway
    std::vector<Rank> ranks = Init(2);
    std::vector<std::pair<Events, size_t>> under_way;

    for (size_t i = 0; i < 400; i++) {
        const size_t n_bytes = sizes[i % 5];
        under_way.push_back(
            {Launch(ranks, n_bytes, AskAll(ranks, n_bytes)), n_bytes});
        if (i >= 200) // the GPU does one at a time
            Ran(ranks, under_way[i - 200].first,
                under_way[i - 200].second == 1 << 20 ? 100 : 900, kChannels);
    }
    Finalize(ranks);

    const std::vector<Reward> rewards = Rewards();
    std::map<uint64_t, std::set<double>> times;
    for (const Reward &reward : rewards)
        times[reward.min_bytes].insert(reward.us);
    EXPECT_LE(30u, rewards.size());
    EXPECT_EQ((std::map<uint64_t, std::set<double>>{{1 << 20, {100.0}},
                                                    {8 << 20, {900.0}}}),
              times);
}

TEST_F(OnlineAbi, WhatLostAChannelHasNoTimeAndBlocksNoLater)
{
    std::vector<Rank> ranks = Init(2);

    for (int i = 0; i < 200; i++)
        Call(ranks, 1 << 20, kChannels - 1);
    EXPECT_THAT(Rewards(), IsEmpty());
    for (int i = 0; i < 600; i++)
        Call(ranks, 1 << 20);

    Finalize(ranks);
    EXPECT_LE(50u, Rewards().size());
    CheckTimes(Rewards());
}

TEST_F(OnlineAbi, KernelsMayEndAfterTheTuner)
{
    std::vector<Rank> ranks = Init(2);
    std::vector<Events> events;

    for (int i = 0; i < 5; i++)
        events.push_back(Launch(ranks, 1 << 20, AskAll(ranks, 1 << 20)));
    ASSERT_NE(nullptr, events[4][0]);
    for (Rank &rank : ranks) {
        tuner_->finalize(rank.tuner);
        rank.tuner = nullptr;
    }
    for (const Events &event : events)
        Ran(ranks, event, 100, kChannels);

    Finalize(ranks);
    EXPECT_THAT(Rewards(), IsEmpty());
}

// ---- ranks far apart ----

TEST_F(OnlineAbi, NoTrialStaysWhereARankIsTooFarBehind)
{
    ForceExploration();

    for (const char *seed : {"1", "2", "3", "4"}) {
        Set("STEPTUNE_SEED", seed);
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
