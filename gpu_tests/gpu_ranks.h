// Ranks for tests: one a GPU, or two on the only one, which NCCL 2.30 and later
// allows with NCCL_MULTI_RANK_GPU_ENABLE=1.
#ifndef STP_GPU_RANKS_H
#define STP_GPU_RANKS_H

#include <unistd.h>

#include <cstdlib>
#include <string>
#include <vector>

// Without CUDA, which does not survive a fork.
inline int CountGpus()
{
    int n = 0;

    while (access(("/dev/nvidia" + std::to_string(n)).c_str(), F_OK) == 0)
        n++;
    return n;
}

inline int CountRanks()
{
    const char *shared = getenv("NCCL_MULTI_RANK_GPU_ENABLE");
    const bool shares = shared != nullptr && atoi(shared) != 0;

    return CountGpus() == 1 && shares ? 2 : CountGpus();
}

// Then CUDA graphs of a process's ranks would wait for each other for ever.
inline bool RanksShareAGpu()
{
    return CountRanks() > CountGpus();
}

inline int GpuOf(int rank)
{
    return CountGpus() > 0 ? rank % CountGpus() : 0;
}

// As ncclCommInitAll() takes them.
inline std::vector<int> GpusOf(int n_ranks)
{
    std::vector<int> gpus;

    for (int rank = 0; rank < n_ranks; rank++)
        gpus.push_back(GpuOf(rank));
    return gpus;
}

#endif // STP_GPU_RANKS_H
