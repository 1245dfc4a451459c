/* online_abi.h - the learning plugin by its own tables, tuner and profiler, on
 * ranks whose GPUs have clocks of their own */
#pragma once

#include <dlfcn.h>

#include <array>

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

// One side of a comparison, as the journal has it: windows of 'n_calls' calls.
struct Block {
    uint64_t min_bytes;
    std::string algo, proto;
    double us;
    double n_calls;
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
        Set("STEPTUNE_JOURNAL", Journal());
    }

    void TearDown() override
    {
        mock_clock_set(-1);
        dlclose(library_);
        OnlinePlugin::TearDown();
    }

    // Whether NCCL is to time collectives, and not only to tell of groups.
    bool WantsTimes() const
    {
        return (mask_ & NCCL_PROFILE_KERNEL_CH) != 0;
    }

    struct Rank {
        void *profiler = nullptr;
        void *tuner = nullptr;
    };

    // Makes the first 'n_present' of 'n_ranks' ranks.
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

    // As NCCL 2.31 and later, which look for a kernel for symmetric windows: a
    // table with nothing to choose, and one with the bytes of one rank.
    void Preview(const std::vector<Rank> &ranks, size_t n_bytes)
    {
        for (const Rank &rank : ranks)
            for (float cost : {-1.0f, 20.0f}) {
                std::array<float, 21> table, before;
                int n_channels = 0;
                table.fill(cost);
                before = table;
                EXPECT_EQ(ncclSuccess,
                          tuner_->getCollInfo(
                              rank.tuner, ncclFuncAllReduce, n_bytes, 0,
                              reinterpret_cast<float **>(table.data()), 7, 3, 0,
                              &n_channels));
                EXPECT_EQ(before, table);
                EXPECT_EQ(0, n_channels);
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
                if (table[a][p] < 10.0f)
                    pair = {a, p};
        return pair;
    }

    // All ranks ask, and are answered the same.  NCCL reads the mask first.
    Pair AskAll(const std::vector<Rank> &ranks, size_t n_bytes,
                ncclFunc_t coll = ncclFuncAllReduce)
    {
        is_timed_ = WantsTimes();
        Pair pair = Ask(ranks[0], n_bytes, coll);
        for (size_t r = 1; r < ranks.size(); r++)
            EXPECT_EQ(pair, Ask(ranks[r], n_bytes, coll));
        return pair;
    }

    // A collective's events on each rank; NULL unless its times are wanted.
    using Events = std::vector<void *>;

    // A kernel for symmetric windows has no protocol.
    void *LaunchOn(const Rank &rank, size_t n_bytes, const Pair &pair,
                   bool is_symmetric = false)
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
        what.coll.proto = is_symmetric ? "" : kProto[pair.proto];
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

        for (size_t r = 0; r < ranks.size() && is_timed_; r++)
            events[r] = LaunchOn(ranks[r], n_bytes, pair);
        n_launched_++;
        return events;
    }

    // Rank r's GPU is 'r' seconds ahead of the others.  A collective begins
    // with its first channel, however late the others are.
    void BeganOn(const Rank &rank, void *event, size_t r)
    {
        for (int c = 0; event != nullptr && c < kChannels; c++) {
            ncclProfilerEvent_t what{};
            void *channel = nullptr;
            what.type.v5 = NCCL_PROFILE_KERNEL_CH;
            what.parentObj = event;
            what.kernelCh.channelId = static_cast<uint8_t>(c);
            what.kernelCh.pTimer =
                gpu_ns_ + r * 1000000000 +
                static_cast<uint64_t>(c) * (gpu_ns_ / 1000 % 7919);
            EXPECT_EQ(ncclSuccess,
                      profiler_->startEvent(rank.profiler, &channel, &what));
            if (channel != nullptr)
                profiler_->stopEvent(channel);
        }
    }

    // The GPUs ran it in 'us'.
    void Ran(const std::vector<Rank> &ranks, const Events &events, double us)
    {
        for (size_t r = 0; r < ranks.size(); r++)
            BeganOn(ranks[r], events[r], r);
        gpu_ns_ += static_cast<uint64_t>(us * 1e3);
    }

    // A call from question to end.
    void Call(const std::vector<Rank> &ranks, size_t n_bytes)
    {
        Pair pair = AskAll(ranks, n_bytes);
        Ran(ranks, Launch(ranks, n_bytes, pair), TimeOf(pair));
    }

    std::vector<Block> Blocks() const
    {
        std::vector<Block> blocks;
        double n_calls = 0;
        for (const std::string &line : LinesOf(Journal())) {
            const std::vector<std::string> cells = Split(line, ',');
            if (cells.size() > 12 && cells[4] == "window")
                n_calls = std::stod(cells[12]);
            if (cells.size() > 12 && cells[4] == "block")
                blocks.push_back({std::stoull(cells[7]), cells[9], cells[10],
                                  std::stod(cells[12]), n_calls});
        }
        return blocks;
    }

    // That each block of a job whose calls are all alike took what its arm
    // takes; how many there are of others than NCCL's own choice.
    static size_t CheckTimes(const std::vector<Block> &blocks)
    {
        static const char *const algos[] = {"tree", "ring"};
        static const char *const protos[] = {"ll", "ll128", "simple"};
        size_t n = 0;

        for (const Block &block : blocks) {
            Pair pair = kOwn;
            for (int i = 0; i < 6; i++)
                if (block.algo == algos[i / 3] && block.proto == protos[i % 3])
                    pair = {i / 3, i % 3};
            EXPECT_NEAR(TimeOf(pair) * block.n_calls, block.us, 1e-3 * block.us)
                << block.algo << "/" << block.proto;
            n += block.algo != "auto";
        }
        return n;
    }

    static constexpr int kChannels = 4;
    void *library_ = nullptr;
    ncclTuner_v5_t *tuner_ = nullptr;
    ncclProfiler_v5_t *profiler_ = nullptr;
    int mask_ = 0;
    bool is_timed_ = false; // the call that was asked about last
    uint64_t gpu_ns_ = 1000000;
    uint64_t n_launched_ = 0;
};

} // namespace online_plugin
