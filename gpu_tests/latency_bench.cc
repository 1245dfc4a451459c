// Measures the cost of the learning plugin in a collective: one process, a
// thread a GPU, and short blocks of all-reduces in turn on communicators whose
// plugin is frozen, learns, or is always trying an arm.
//
//   latency_bench PLUGIN [ROUNDS [ARM]]
//
// PLUGIN is libnccl-tuner-steptune-online.so.  ARM, such as ring/ll, is what
// the third one tries: the arm that NCCL takes anyway shows what sampling alone
// costs.  Differences are of blocks of the same round, with 95 percent
// intervals.
#include <cuda_runtime.h>
#include <nccl.h>
#include <pthread.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gpu_ranks.h"

#include "support/temporary_folder.h"

extern "C" {
#include "core/stats.h"
}

namespace
{

enum { FROZEN, LEARNS, TRIES, N_KINDS };

constexpr int kCalls = 200; // of a block
constexpr const char *kNames[N_KINDS] = {"frozen", "learns", "tries"};

struct Rank {
    ncclComm_t comms[N_KINDS];
    cudaStream_t stream;
    float *buffer;
};

void Check(bool ok, const char *action)
{
    if (ok)
        return;
    fprintf(stderr, "latency_bench: %s failed\n", action);
    exit(1);
}

// Sets the environment of a communicator's kind. The third kind tries an arm as
// fast as NCCL's own choice, which never wins and is never told apart from it.
void SetKind(int kind, const char *arm, const std::string &journal)
{
    const std::pair<const char *, const char *> tries[] = {
        {"STEPTUNE_ARMS", arm},
        {"STEPTUNE_THOROUGH", "1"},
        {"STEPTUNE_MIN_GAIN", "0"},
        {"STEPTUNE_JOURNAL", journal.c_str()},
    };

    setenv("STEPTUNE_FREEZE", kind == FROZEN ? "1" : "0", 1);
    for (const auto &[name, value] : tries)
        if (kind == TRIES)
            setenv(name, value, 1);
        else
            unsetenv(name);
}

// Trials in the journal: whether there were any to cost something.
size_t CountTrials(const std::string &journal)
{
    std::ifstream file(journal);
    size_t n = 0;

    for (std::string line; std::getline(file, line);)
        n += line.find(",trial,") != std::string::npos;
    return n;
}

std::vector<Rank> MakeRanks(int n, size_t n_bytes, const char *arm,
                            const std::string &journal)
{
    std::vector<Rank> ranks(n);

    for (int kind = 0; kind < N_KINDS; kind++) {
        std::vector<ncclComm_t> comms(n);

        SetKind(kind, arm, journal);
        Check(ncclCommInitAll(comms.data(), n, GpusOf(n).data()) == ncclSuccess,
              "ncclCommInitAll");
        for (int i = 0; i < n; i++)
            ranks[i].comms[kind] = comms[i];
    }
    for (int i = 0; i < n; i++) {
        Check(cudaSetDevice(GpuOf(i)) == cudaSuccess &&
                  cudaStreamCreate(&ranks[i].stream) == cudaSuccess &&
                  cudaMalloc(&ranks[i].buffer, n_bytes) == cudaSuccess &&
                  cudaMemset(ranks[i].buffer, 0, n_bytes) == cudaSuccess,
              "memory");
    }
    return ranks;
}

double Block(const Rank &rank, int kind, size_t n_bytes)
{
    const auto begin = std::chrono::steady_clock::now();

    for (int i = 0; i < kCalls; i++)
        Check(ncclAllReduce(rank.buffer, rank.buffer, n_bytes / sizeof(float),
                            ncclFloat, ncclSum, rank.comms[kind],
                            rank.stream) == ncclSuccess,
              "ncclAllReduce");
    Check(cudaStreamSynchronize(rank.stream) == cudaSuccess, "a kernel");
    return std::chrono::duration<double, std::micro>(
               std::chrono::steady_clock::now() - begin)
               .count() /
           kCalls;
}

// There and back, so that a drift cancels.
using Times = std::array<std::vector<double>, N_KINDS>;
void Run(int number, const Rank &rank, size_t n_bytes, int n_rounds,
         pthread_barrier_t *barrier, Times &times)
{
    cudaSetDevice(GpuOf(number));
    for (int round = 0; round < n_rounds; round++) {
        double us[N_KINDS] = {};

        for (int i = 0; i < 2 * N_KINDS; i++) {
            const int kind = i < N_KINDS ? i : 2 * N_KINDS - 1 - i;

            pthread_barrier_wait(barrier);
            us[kind] += Block(rank, kind, n_bytes) / 2;
        }
        for (int kind = 0; kind < N_KINDS; kind++)
            times[kind].push_back(us[kind]);
    }
}

// Prints the later half of the times, when learning has settled, without a
// tenth at either end, where pauses hit.
void Print(size_t n_bytes, const Times &times, int kind)
{
    std::vector<double> off;

    for (size_t i = times[kind].size() / 2; i < times[kind].size(); i++)
        off.push_back(times[kind][i] - times[FROZEN][i]);
    std::sort(off.begin(), off.end());
    off.erase(off.end() - off.size() / 10, off.end());
    off.erase(off.begin(), off.begin() + off.size() / 10);
    const double mean = stp_mean(off.data(), off.size());
    const double half = stp_t975(off.size() - 1) *
                        stp_stddev(off.data(), off.size()) /
                        std::sqrt(double(off.size()));
    std::vector<double> own = times[FROZEN];
    std::sort(own.begin(), own.end());
    printf("%zu bytes: frozen %.2f us, %s %+.3f us (%+.3f to %+.3f), %zu "
           "rounds\n",
           n_bytes, own[own.size() / 2], kNames[kind], mean, mean - half,
           mean + half, off.size());
}

void Measure(size_t n_bytes, int n, int n_rounds, const char *arm)
{
    const TemporaryFolder folder;
    const std::string journal = folder.Path("journal.csv");
    std::vector<Rank> ranks = MakeRanks(n, n_bytes, arm, journal);
    std::vector<std::thread> threads;
    std::vector<Times> times(n);
    pthread_barrier_t barrier;

    pthread_barrier_init(&barrier, nullptr, unsigned(n));
    for (int i = 0; i < n; i++)
        threads.emplace_back([&, i] {
            Run(i, ranks[i], n_bytes, n_rounds, &barrier, times[i]);
        });
    for (std::thread &thread : threads)
        thread.join();
    pthread_barrier_destroy(&barrier);
    for (int kind = LEARNS; kind < N_KINDS; kind++)
        Print(n_bytes, times[0], kind);
    for (Rank &rank : ranks)
        for (ncclComm_t comm : rank.comms)
            ncclCommDestroy(comm);
    printf("%zu bytes: %zu trials on the last communicator\n", n_bytes,
           CountTrials(journal));
}

} // namespace

int main(int argc, char **argv)
{
    const int n = CountRanks();

    if (argc < 2) {
        fprintf(stderr, "latency_bench: expected the learning plugin\n");
        return 2;
    }
    setenv("NCCL_TUNER_PLUGIN", argv[1], 1);
    setenv("NCCL_PROFILER_PLUGIN", argv[1], 1);
    setenv("STEPTUNE_LEARNED", "/dev/null", 1);
    Check(n > 1, "finding two GPUs");
    for (size_t n_bytes : {size_t(8), size_t(64) << 10})
        Measure(n_bytes, n, argc > 2 ? atoi(argv[2]) : 400,
                argc > 3 ? argv[3] : "ring/ll");
    return 0;
}
