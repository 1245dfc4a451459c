// decision_bench [PLUGIN [ONLINE_PLUGIN]] - how long the plugins take to decide
//
// Loads a plugin as NCCL does, with a logger attached, and asks it for choices
// as NCCL's launch path would.  Time is the mean of calls back to back;
// p50_ns and p99_ns are of single fenced calls, less the time of reading the
// clock.  CPU of the online plugin includes calls that only warm the caches.
//
// The static plugin has policies of 10 to 100,000 rules of distinct size
// ranges, and is asked about the sizes of a training step, which repeat, and
// about sizes all over the range.  The online plugin is asked about those of a
// training step: on a rank that follows, and on the observer, while it explores
// by the GPU's times or by steps, whose calls all are timed, and once all is
// settled.  "below" is a tuner of others, alone and with the static plugin
// above.
#include <benchmark/benchmark.h>
#include <dlfcn.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "support/temporary_folder.h"

extern "C" {
#include "core/rng.h"
#include "core/stats.h"
}

#include "nccl_profiler_abi.h"
#include "nccl_tuner_abi.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace
{

constexpr size_t kCalls = 200000;
constexpr size_t kStepSizes = 16;
constexpr size_t kBlock = 400;      // calls of a rank in a row: the plugin's
                                    // thread can be two of these behind
constexpr size_t kBlocks = 100;     // that are measured
constexpr int kSettling = 1000;     // blocks in which all must settle
constexpr long kBlockNs = 12000000; // until the plugin's thread has run

using CostTable = float[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
constexpr CostTable kFresh = {{30, 28, 45}, {20, 25, 24}};

const ncclTuner_v5_t *static_tuner;
const ncclTuner_v5_t *below_tuner;
const ncclTuner_v5_t *online_tuner;
const ncclProfiler_v5_t *online_profiler;
std::string path; // of policies and rewards

// Log messages that a kind of message is settled, of any thread.
std::atomic<size_t> n_settled;

// NCCL's own logger formats only the messages that NCCL_DEBUG lets through.
void Log(ncclDebugLogLevel level, unsigned long, const char *, int,
         const char *fmt, ...)
{
    char line[8192];
    va_list va;

    va_start(va, fmt);
    vsnprintf(line, sizeof(line), fmt, va);
    va_end(va);
    if (strstr(line, "settled after") != nullptr)
        n_settled++;
    if (level <= NCCL_LOG_WARN)
        fprintf(stderr, "%s\n", line);
}

// ---- clocks ----

double Now()
{
    timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return static_cast<double>(t.tv_sec) * 1e9 + static_cast<double>(t.tv_nsec);
}

// A clock that two calls can be told apart by: cycles where there are any.
uint64_t Ticks()
{
#if defined(__x86_64__)
    unsigned cpu;
    const uint64_t t = __rdtscp(&cpu);

    _mm_lfence();
    return t;
#else
    return static_cast<uint64_t>(Now());
#endif
}

double NsPerTick()
{
    const double ns = Now();
    const uint64_t t = Ticks();

    while (Now() - ns < 2e8)
        ;
    return (Now() - ns) / static_cast<double>(Ticks() - t);
}

// Times single calls, less the time of a call that decides nothing.
class Fenced
{
  public:
    Fenced()
    {
        CostTable table;

        for (size_t i = 0; i < kCalls; i++)
            Time([&] {
                memcpy(table, kFresh, sizeof(kFresh));
                benchmark::DoNotOptimize(table);
            });
        overhead_ = Summary().median;
        ns_.clear();
    }

    template <typename Call> void Time(const Call &call)
    {
        const uint64_t t = Ticks();

        call();
        ns_.push_back(static_cast<double>(Ticks() - t) * ns_per_tick_ -
                      overhead_);
    }

    void Report(benchmark::State *state)
    {
        const stp_summary summary = Summary();

        state->counters["p50_ns"] = summary.median;
        state->counters["p99_ns"] = summary.p99;
    }

  private:
    stp_summary Summary()
    {
        stp_summary summary;

        stp_summarise(ns_.data(), ns_.size(), &summary);
        return summary;
    }

    const double ns_per_tick_ = [] {
        static const double ns = NsPerTick();
        return ns;
    }();
    double overhead_ = 0;
    std::vector<double> ns_;
};

// ---- questions ----

uint64_t SizeOfCall(uint64_t call, bool repeats)
{
    const double at = stp_rng_unit(7, repeats ? call % kStepSizes : call);

    return static_cast<uint64_t>(64 * pow(67108864.0, at));
}

void Ask(const ncclTuner_v5_t *tuner, void *ctx, uint64_t n_bytes)
{
    CostTable table;
    int n_channels = 0;

    memcpy(table, kFresh, sizeof(kFresh));
    tuner->getCollInfo(ctx, ncclFuncAllReduce, n_bytes, 1,
                       reinterpret_cast<float **>(table), NCCL_NUM_ALGORITHMS,
                       NCCL_NUM_PROTOCOLS, 0, &n_channels);
}

// ---- the static plugin ----

// Rules that touch each other, from 64 bytes to 4 GiB, evenly on a logarithmic
// scale; neighbours differ, so that none can be merged.
void WritePolicy(size_t n_rules)
{
    static const char *const choices[] = {"ring,ll", "ring,ll128",
                                          "ring,simple", "tree,simple"};
    std::ofstream file(path);
    uint64_t from = 64;

    for (size_t i = 0; i < n_rules; i++) {
        const double share =
            static_cast<double>(i + 1) / static_cast<double>(n_rules);
        const auto to = std::max(
            static_cast<uint64_t>(64 * pow(67108864.0, share)), from + 1);
        file << "allreduce," << from << ',' << to << ',' << choices[i % 4]
             << ",-1,-1,-1\n";
        from = to + 1;
    }
}

void Static(benchmark::State &state)
{
    ncclTunerConstants_v5_t constants = {};
    ncclNvlDomainInfo_v5_t nvl = {1, 8, 8};
    std::vector<uint64_t> sizes;
    void *ctx = nullptr;
    size_t i = 0;

    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    WritePolicy(static_cast<size_t>(state.range(0)));
    for (size_t call = 0; call < kCalls; call++)
        sizes.push_back(SizeOfCall(call, state.range(1) != 0));
    const double begin = Now();
    static_tuner->init(&ctx, 1, 8, 1, Log, &nvl, &constants);
    state.counters["load_ms"] = (Now() - begin) / 1e6;

    Fenced fenced;
    for (uint64_t n_bytes : sizes)
        fenced.Time([&] { Ask(static_tuner, ctx, n_bytes); });
    for ([[maybe_unused]] auto _ : state)
        Ask(static_tuner, ctx, sizes[i++]);
    fenced.Report(&state);
    static_tuner->finalize(ctx);
}

// A tuner of others: alone, or below the static plugin, of whose rules none
// applies or all do.
void Below(benchmark::State &state)
{
    const ncclTuner_v5_t *tuner =
        state.range(0) != 0 ? static_tuner : below_tuner;
    ncclTunerConstants_v5_t constants = {};
    ncclNvlDomainInfo_v5_t nvl = {1, 8, 8};
    void *ctx = nullptr;
    size_t i = 0;

    setenv("STEPTUNE_CHAIN", STP_BELOW, 1);
    setenv("NCCL_TUNER_CONFIG_FILE", path.c_str(), 1);
    WritePolicy(10);
    if (state.range(0) == 1)
        std::ofstream(path) << "broadcast,0,inf,ring,ll,-1,-1,-1\n";
    tuner->init(&ctx, 1, 8, 1, Log, &nvl, &constants);
    for ([[maybe_unused]] auto _ : state)
        Ask(tuner, ctx, SizeOfCall(0, true) + i++ % 4096);
    tuner->finalize(ctx);
    setenv("STEPTUNE_CHAIN", "none", 1);
}

// ---- the online plugin ----

// A communicator of two ranks, of which the first is the observer.
class Pair
{
  public:
    explicit Pair(bool has_profiler)
    {
        static uint64_t number = 0x5ec0de00;
        const uint64_t id = ++number * static_cast<uint64_t>(getpid());
        ncclTunerConstants_v5_t constants = {};
        ncclNvlDomainInfo_v5_t nvl = {1, 2, 2};

        for (size_t i = 0; i < kStepSizes; i++)
            sizes_[i] = SizeOfCall(i, true);
        for (int r = 0; r < 2; r++) {
            if (has_profiler)
                online_profiler->init(&profile_[r], id, &mask_[r], "bench", 1,
                                      2, r, Log);
            online_tuner->init(&ctx_[r], id, 2, 1, Log, &nvl, &constants);
        }
    }
    Pair(const Pair &) = delete;
    Pair &operator=(const Pair &) = delete;
    ~Pair()
    {
        for (int r = 0; r < 2; r++) {
            online_tuner->finalize(ctx_[r]);
            online_profiler->finalize(profile_[r]);
        }
    }

    // A block of calls of one rank.
    void AskBlock(int rank, Fenced *fenced = nullptr)
    {
        for (size_t i = 0; i < kBlock; i++) {
            const auto ask = [&, n_bytes = sizes_[i % kStepSizes]] {
                Ask(online_tuner, ctx_[rank], n_bytes);
            };
            if (fenced != nullptr)
                fenced->Time(ask);
            else
                ask();
        }
    }

    // A sleep leaves nothing in the caches, which a job has between calls.
    void WarmUp(int rank)
    {
        AskBlock(!rank);
        AskBlock(rank);
        AskBlock(!rank);
    }

    static void LetItThink()
    {
        const timespec pause = {0, kBlockNs};

        nanosleep(&pause, nullptr);
    }

    // Until all sizes are settled: each arm has a reward.
    bool Settle()
    {
        size_t before = 0;

        for (int b = 0, quiet = 0; b < kSettling; b++) {
            std::ofstream file(path, std::ios::app);
            for (uint64_t n_bytes : sizes_)
                file << "allreduce," << n_bytes << ",1,2,1.0\n";
            file.close();
            AskBlock(0);
            AskBlock(1);
            LetItThink();
            quiet = n_settled > before ? 0 : quiet + 1;
            before = n_settled;
            if (before > 0 && quiet > 50)
                return true;
        }
        return false;
    }

  private:
    void *ctx_[2] = {};
    void *profile_[2] = {}; // null: NCCL has no profiler
    int mask_[2] = {};
    uint64_t sizes_[kStepSizes];
};

using Settings = std::map<std::string, std::string>;

void Online(benchmark::State &state, const Settings &settings, int rank)
{
    unsetenv("NCCL_TUNER_CONFIG_FILE");
    for (const auto &[name, value] : settings)
        setenv(name.c_str(), value.c_str(), 1);
    std::ofstream(path).close(); // its rewards
    setenv("NCCL_TUNER_REWARD_FILE", path.c_str(), 1);
    setenv("STEPTUNE_LEARNED", (path + ".learned").c_str(), 1);

    const bool must_settle = settings.at("STEPTUNE_OBJECTIVE") == "file";
    Pair pair(settings.at("STEPTUNE_OBJECTIVE") == "gpu");
    if (must_settle && !pair.Settle())
        state.SkipWithError("it does not settle");
    Fenced fenced;
    while (state.KeepRunningBatch(kBlock)) {
        pair.WarmUp(rank);
        pair.AskBlock(rank, &fenced);
        Pair::LetItThink();
        pair.WarmUp(rank);
        const double begin = Now();
        pair.AskBlock(rank);
        state.SetIterationTime((Now() - begin) / 1e9);
        Pair::LetItThink();
    }
    fenced.Report(&state);
    for (const auto &[name, value] : settings)
        unsetenv(name.c_str());
    unlink((path + ".learned").c_str());
}

template <typename Table> const Table *Load(const char *file, const char *name)
{
    void *lib = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const void *symbol = lib != nullptr ? dlsym(lib, name) : nullptr;

    if (symbol == nullptr) {
        fprintf(stderr, "decision_bench: %s\n", dlerror());
        exit(1);
    }
    return static_cast<const Table *>(symbol);
}

void Register()
{
    static const struct {
        const char *name;
        Settings settings;
        int rank;
    } roles[] = {
        // the online plugin gets no times
        {"follows", {{"STEPTUNE_OBJECTIVE", "gpu"}}, 1},
        {"explores_by_gpu_times", {{"STEPTUNE_OBJECTIVE", "gpu"}}, 0},
        {"settled",
         {{"STEPTUNE_OBJECTIVE", "file"},
          {"STEPTUNE_STRATEGY", "epsilon"},
          {"STEPTUNE_ARMS", "ring/simple"},
          {"NCCL_TUNER_EPS", "0"}},
         0},
    };

    benchmark::RegisterBenchmark("static", Static)
        ->ArgNames({"rules", "repeat"})
        ->ArgsProduct({{10, 100, 1000, 10000, 100000}, {1, 0}})
        ->Iterations(kCalls);
    benchmark::RegisterBenchmark("below", Below)
        ->ArgName("chained")
        ->DenseRange(0, 2)
        ->Repetitions(5)
        ->ReportAggregatesOnly();
    for (const auto &role : roles)
        benchmark::RegisterBenchmark(
            (std::string("online/") + role.name).c_str(),
            [&](benchmark::State &state) {
                Online(state, role.settings, role.rank);
            })
            ->UseManualTime()
            ->Iterations(kBlocks * kBlock);
}

} // namespace

int main(int argc, char **argv)
{
    setenv("STEPTUNE_CHAIN", "none", 1);
    setenv("STEPTUNE_AGREE", "assume", 1); // one rank stands for all
    const TemporaryFolder folder;

    benchmark::Initialize(&argc, argv);
    const char *static_file = argc > 1 ? argv[1] : STP_PLUGIN;
    const char *online_file = argc > 2 ? argv[2] : STP_ONLINE;
    static_tuner = Load<ncclTuner_v5_t>(static_file, "ncclTunerPlugin_v5");
    below_tuner = Load<ncclTuner_v5_t>(STP_BELOW, "ncclTunerPlugin_v5");
    online_tuner = Load<ncclTuner_v5_t>(online_file, "ncclTunerPlugin_v5");
    online_profiler = Load<ncclProfiler_v5_t>(online_file, "ncclProfiler_v5");
    path = folder.Path("file");
    Register();
    benchmark::RunSpecifiedBenchmarks();
    return 0;
}
