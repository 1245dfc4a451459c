// Ranks for tests: one a GPU, or two on the only one, which NCCL 2.30 and later
// allows with NCCL_MULTI_RANK_GPU_ENABLE=1.
#pragma once

#include <glob.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>
#include <string>
#include <vector>

// Counts the GPUs of this host or those in CUDA_VISIBLE_DEVICES, whichever are
// fewer, without CUDA, which does not survive a fork.
inline int CountGpus()
{
    const char *visible = getenv("CUDA_VISIBLE_DEVICES");
    glob_t devices;
    int n = 0;
    int n_visible = 0;

    if (glob("/dev/nvidia[0-9]*", 0, nullptr, &devices) == 0) {
        n = static_cast<int>(devices.gl_pathc);
        globfree(&devices);
    }
    if (visible == nullptr)
        return n;
    std::istringstream names(visible); // CUDA takes none behind a wrong one
    for (std::string name;
         std::getline(names, name, ',') && !name.empty() && name[0] != '-';)
        n_visible++;
    return std::min(n, n_visible);
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
