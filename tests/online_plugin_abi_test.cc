// The learning plugin by its own tables, tuner and profiler: what becomes of
// times, of those that are lost, and when it wants any.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <sstream>

#include "nccl_profiler_abi.h"
#include "online_plugin.h"

namespace
{

using namespace online_plugin;
using testing::IsEmpty;

const char *const kAlgo[] = {"TREE", "RING"};
const char *const kProto[] = {"LL", "LL128", "SIMPLE"};

struct Pair {
    int algo, proto;
    bool operator==(const Pair &other) const
    {
        return algo == other.algo && proto == other.proto;
    }
};
constexpr Pair kOwn{NCCL_ALGO_RING, NCCL_PROTO_LL128};

// A time by which an arm is known; no two differ by less than 10 percent.
double TimeOf(const Pair &pair)
{
    return pair == kOwn ? 100 : 110 + 20 * (pair.algo * 3 + pair.proto);
}

// A reward, as the journal has it.
struct Reward {
    uint64_t min_bytes;
    std::string algo, proto;
    double us;
};

class OnlineAbi : public OnlinePlugin
{
  protected:
    void SetUp() override
    {
        OnlinePlugin::SetUp();
        library_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, library_) << dlerror();
        tuner_ = static_cast<ncclTuner_v5_t *>(
            dlsym(library_, "ncclTunerPlugin_v5"));
        profiler_ = static_cast<ncclProfiler_v5_t *>(
            dlsym(library_, "ncclProfiler_v5"));
        Set("STEPTUNE_OBJECTIVE", "gpu");
        Set("STEPTUNE_BUDGET", "1");
        Set("STEPTUNE_RETEST", "0");
        Set("STEPTUNE_JOURNAL", Journal());
    }

    void TearDown() override
    {
        dlclose(library_);
        OnlinePlugin::TearDown();
    }

    struct Rank {
        void *profiler = nullptr;
        void *tuner = nullptr;
    };

    // Of 'n_ranks' the first 'n_present'.
    std::vector<Rank> Init(int n_ranks, int n_present, bool with_tuner = true)
    {
        std::vector<Rank> ranks(static_cast<size_t>(n_present));
        const uint64_t id = mock_new_comm_id();
        ncclNvlDomainInfo_v5_t nvl{};
        ncclTunerConstants_v5_t constants{};

        for (int r = 0; r < n_present; r++) {
            Rank &rank = ranks[static_cast<size_t>(r)];
            profiler_->init(&rank.profiler, id, &mask_, "", 1, n_ranks, r,
                            nullptr);
            if (with_tuner)
                tuner_->init(&rank.tuner, id, static_cast<size_t>(n_ranks), 1,
                             nullptr, &nvl, &constants);
        }
        return ranks;
    }

    std::vector<Rank> Init(int n_ranks)
    {
        return Init(n_ranks, n_ranks);
    }

    void Finalize(const std::vector<Rank> &ranks)
    {
        for (const Rank &rank : ranks) {
            if (rank.tuner != nullptr)
                tuner_->finalize(rank.tuner);
            profiler_->finalize(rank.profiler);
        }
    }

    Pair Ask(const Rank &rank, size_t n_bytes, ncclFunc_t coll)
    {
        float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
        int n_channels = 0;
        Pair pair = kOwn;

        for (auto &row : table)
            for (float &cost : row)
                cost = -1;
        for (int a = 0; a < 2; a++)
            for (int p = 0; p < 3; p++)
                table[a][p] = a * 3 + p == 4 ? 10.0f : 20.0f;
        EXPECT_EQ(ncclSuccess,
                  tuner_->getCollInfo(rank.tuner, coll, n_bytes, 1,
                                      reinterpret_cast<float **>(table),
                                      NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS,
                                      0, &n_channels));
        for (int a = 0; a < 2; a++)
            for (int p = 0; p < 3; p++)
                if (table[a][p] == 0.0f)
                    pair = {a, p};
        return pair;
    }

    // All ranks ask, and are answered the same.
    Pair AskAll(const std::vector<Rank> &ranks, size_t n_bytes,
                ncclFunc_t coll = ncclFuncAllReduce)
    {
        Pair pair = Ask(ranks[0], n_bytes, coll);
        for (size_t r = 1; r < ranks.size(); r++)
            EXPECT_EQ(pair, Ask(ranks[r], n_bytes, coll));
        return pair;
    }

    // NULL unless the plugin wants its times.
    void *Launch(const Rank &rank, size_t n_bytes, const Pair &pair)
    {
        ncclProfilerEvent_t what{};
        void *event = nullptr;

        if (mask_ == 0)
            return nullptr;
        what.type.v5 = NCCL_PROFILE_COLL;
        what.coll.func = "AllReduce";
        what.coll.count = n_bytes / 4;
        what.coll.datatype = "ncclFloat32";
        what.coll.nChannels = kChannels;
        what.coll.algo = kAlgo[pair.algo];
        what.coll.proto = kProto[pair.proto];
        EXPECT_EQ(ncclSuccess,
                  profiler_->startEvent(rank.profiler, &event, &what));
        if (event != nullptr)
            profiler_->stopEvent(event);
        return event;
    }

    // The GPU ran it in 'us'; the first 'n_channels' are heard of.
    void Ran(const Rank &rank, void *event, double us, int n_channels)
    {
        std::vector<void *> channels(kChannels);

        if (event == nullptr)
            return;
        for (int c = 0; c < n_channels; c++) {
            ncclProfilerEvent_t what{};
            what.type.v5 = NCCL_PROFILE_KERNEL_CH;
            what.parentObj = event;
            what.kernelCh.channelId = static_cast<uint8_t>(c);
            what.kernelCh.pTimer = gpu_ns_ + static_cast<uint64_t>(10 * c);
            profiler_->startEvent(rank.profiler,
                                  &channels[static_cast<size_t>(c)], &what);
        }
        gpu_ns_ += static_cast<uint64_t>(us * 1e3);
        for (int c = 0; c < n_channels; c++) {
            ncclProfilerStateArgs_t args{};
            args.kernelCh.pTimer = gpu_ns_ - static_cast<uint64_t>(10 * c);
            if (channels[static_cast<size_t>(c)] != nullptr)
                profiler_->recordEventState(channels[static_cast<size_t>(c)],
                                            NCCL_PROFILE_KERNEL_CH_STOP, &args);
        }
    }

    // A call from question to end.
    void Call(const std::vector<Rank> &ranks, size_t n_bytes,
              int n_channels = kChannels)
    {
        Pair pair = AskAll(ranks, n_bytes);
        Ran(ranks[0], Launch(ranks[0], n_bytes, pair), TimeOf(pair),
            n_channels);
    }

    std::vector<Reward> Rewards() const
    {
        std::vector<Reward> rewards;
        for (const std::string &line : LinesOf(Journal())) {
            std::vector<std::string> cells;
            std::istringstream in(line);
            for (std::string cell; std::getline(in, cell, ',');)
                cells.push_back(cell);
            if (cells.size() > 12 && cells[4] == "reward")
                rewards.push_back({std::stoull(cells[7]), cells[9], cells[10],
                                   std::stod(cells[12])});
        }
        return rewards;
    }

    // That each reward is what its arm takes; how many there are of others than
    // NCCL's own choice.
    static size_t CheckTimes(const std::vector<Reward> &rewards)
    {
        static const char *const algos[] = {"tree", "ring"};
        static const char *const protos[] = {"ll", "ll128", "simple"};
        size_t n = 0;

        for (const Reward &reward : rewards) {
            Pair pair = kOwn;
            for (int i = 0; i < 6; i++)
                if (reward.algo == algos[i / 3] &&
                    reward.proto == protos[i % 3])
                    pair = {i / 3, i % 3};
            EXPECT_EQ(TimeOf(pair), reward.us)
                << reward.algo << "/" << reward.proto;
            n += reward.algo != "auto";
        }
        return n;
    }

    static constexpr int kChannels = 4;
    void *library_ = nullptr;
    ncclTuner_v5_t *tuner_ = nullptr;
    ncclProfiler_v5_t *profiler_ = nullptr;
    int mask_ = 0;
    uint64_t gpu_ns_ = 1000000;
};

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

TEST_F(OnlineAbi, AProfilerWithoutItsTunerHearsNothing)
{
    std::vector<Rank> ranks = Init(2, 2, false);
    int all = 0;
    std::swap(mask_, all);

    EXPECT_EQ(0, all);
    mask_ = NCCL_PROFILE_COLL; // another's wish, as it were
    EXPECT_EQ(nullptr, Launch(ranks[0], 1 << 20, kOwn));
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
        std::vector<void *> events;
        for (int k = 0; k < 5; k++)
            pairs.push_back(AskAll(ranks, 1 << 20));
        for (const Pair &pair : pairs)
            events.push_back(Launch(ranks[0], 1 << 20, pair));
        for (size_t k = 0; k < 5; k++)
            Ran(ranks[0], events[k], TimeOf(pairs[k]), kChannels);
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
    std::vector<std::pair<void *, size_t>> under_way;

    for (size_t i = 0; i < 400; i++) {
        const size_t n_bytes = sizes[i % 5];
        under_way.push_back(
            {Launch(ranks[0], n_bytes, AskAll(ranks, n_bytes)), n_bytes});
        if (i >= 200) // the GPU does one at a time
            Ran(ranks[0], under_way[i - 200].first,
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
    std::vector<void *> events;

    for (int i = 0; i < 5; i++)
        events.push_back(Launch(ranks[0], 1 << 20, AskAll(ranks, 1 << 20)));
    ASSERT_NE(nullptr, events[4]);
    for (Rank &rank : ranks) {
        tuner_->finalize(rank.tuner);
        rank.tuner = nullptr;
    }
    for (void *event : events)
        Ran(ranks[0], event, 100, kChannels);

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
        for (int i = 0; i < 6000; i++)
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
