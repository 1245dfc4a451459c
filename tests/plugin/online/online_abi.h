/*
 * online_abi.h - the learning plugin by its own tables, tuner and profiler, on
 * ranks whose GPUs have clocks of their own
 */
#ifndef ONLINE_ABI_H
#define ONLINE_ABI_H

#include <dlfcn.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "nccl_profiler_abi.h"
#include "plugin/online/online_plugin.h"

namespace online_plugin
{

inline const char *const kAlgo[] = {"TREE", "RING"};
inline const char *const kProto[] = {"LL", "LL128", "SIMPLE"};

struct Pair {
    int algo, proto;
    bool operator==(const Pair &other) const
    {
        return algo == other.algo && proto == other.proto;
    }
};
inline constexpr Pair kOwn{NCCL_ALGO_RING, NCCL_PROTO_LL128};

// A time by which an arm is known; no two differ by less than 10 percent.
inline double TimeOf(const Pair &pair)
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
        mock_clock_set(-1);
        dlclose(library_);
        OnlinePlugin::TearDown();
    }

    struct Rank {
        void *profiler = nullptr;
        void *tuner = nullptr;
    };

    // Of 'n_ranks' the first 'n_present'.
    std::vector<Rank> Init(int n_ranks, int n_present, bool with_tuner = true,
                           int n_profilers = 1 << 20)
    {
        std::vector<Rank> ranks(static_cast<size_t>(n_present));
        const uint64_t id = mock_new_comm_id();
        ncclNvlDomainInfo_v5_t nvl{};
        ncclTunerConstants_v5_t constants{};

        for (int r = 0; r < n_present; r++) {
            Rank &rank = ranks[static_cast<size_t>(r)];
            if (r < n_profilers)
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
            if (rank.profiler != nullptr)
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

    // A collective's events on each rank; NULL unless its times are wanted.
    using Events = std::vector<void *>;

    void *LaunchOn(const Rank &rank, size_t n_bytes, const Pair &pair)
    {
        ncclProfilerEvent_t what{};
        void *event = nullptr;

        what.type.v5 = NCCL_PROFILE_COLL;
        what.coll.seqNumber = n_launched_;
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

    Events Launch(const std::vector<Rank> &ranks, size_t n_bytes,
                  const Pair &pair)
    {
        Events events(ranks.size());

        for (size_t r = 0; r < ranks.size() && mask_ != 0; r++)
            events[r] = LaunchOn(ranks[r], n_bytes, pair);
        n_launched_++;
        return events;
    }

    // Rank r's GPU is 'r' seconds ahead of the others, and the host hears of
    // all of it 1 us after it was.
    void RanOn(const Rank &rank, void *event, size_t r, uint64_t begin_ns,
               int n_channels)
    {
        const uint64_t ahead = r * 1000000000;
        std::vector<void *> channels(kChannels);

        if (event == nullptr)
            return;
        for (int c = 0; c < n_channels; c++) {
            ncclProfilerEvent_t what{};
            what.type.v5 = NCCL_PROFILE_KERNEL_CH;
            what.parentObj = event;
            what.kernelCh.channelId = static_cast<uint8_t>(c);
            what.kernelCh.pTimer =
                begin_ns + ahead + static_cast<uint64_t>(10 * c);
            profiler_->startEvent(rank.profiler,
                                  &channels[static_cast<size_t>(c)], &what);
        }
        for (int c = 0; c < n_channels; c++) {
            ncclProfilerStateArgs_t args{};
            const uint64_t end_ns = gpu_ns_ - static_cast<uint64_t>(10 * c);
            args.kernelCh.pTimer = end_ns + ahead;
            mock_clock_set(static_cast<int64_t>(end_ns) + 1000);
            if (channels[static_cast<size_t>(c)] != nullptr)
                profiler_->recordEventState(channels[static_cast<size_t>(c)],
                                            NCCL_PROFILE_KERNEL_CH_STOP, &args);
        }
    }

    // The GPUs ran it in 'us'; the first 'n_channels' are heard of.  Each rank
    // came 30 us later than the next one, and waited.
    void Ran(const std::vector<Rank> &ranks, const Events &events, double us,
             int n_channels)
    {
        const uint64_t begin_ns = gpu_ns_ + 30000 * ranks.size();

        gpu_ns_ = begin_ns + static_cast<uint64_t>(us * 1e3);
        for (size_t r = 0; r < ranks.size(); r++)
            RanOn(ranks[r], events[r], r, begin_ns - 30000 * r, n_channels);
    }

    // A call from question to end.
    void Call(const std::vector<Rank> &ranks, size_t n_bytes,
              int n_channels = kChannels)
    {
        Pair pair = AskAll(ranks, n_bytes);
        Ran(ranks, Launch(ranks, n_bytes, pair), TimeOf(pair), n_channels);
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
    uint64_t n_launched_ = 0;
};

} // namespace online_plugin

#endif // ONLINE_ABI_H
