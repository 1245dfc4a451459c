// GPUs as the ranks of this process, each an engine.
#ifndef STP_GPU_ENGINES_H
#define STP_GPU_ENGINES_H

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

extern "C" {
#include "device/module.h"
}

inline unsigned CountGpus()
{
    int n = 0;

    return cudaGetDeviceCount(&n) == cudaSuccess && n > 0
               ? static_cast<unsigned>(n)
               : 0;
}

// Opens them or ends the process: threads would wait for each other for ever.
class GpuEngines
{
  public:
    explicit GpuEngines(unsigned n, const char *plugin = nullptr,
                        unsigned time_limit_s = 60)
        : engines_(n)
    {
        const stp_module *module = nullptr;
        stp_engine_options options{};
        stp_error err{};

        options.world = &stp_world_of_one;
        options.n_local = n;
        options.plugin = plugin;
        options.time_limit_s = time_limit_s;
        if (stp_module_open(STP_CUDA_MODULE, &module, &err) != STP_OK ||
            module->open_engines(&options, engines_.data(), &err) != STP_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }

    ~GpuEngines()
    {
        for (stp_engine &engine : engines_)
            engine.ops->close(engine.self);
    }

    GpuEngines(const GpuEngines &) = delete;
    GpuEngines &operator=(const GpuEngines &) = delete;

    const stp_engine *get(unsigned rank) const
    {
        return &engines_[rank];
    }

    // job(rank, engine) on each, at once.
    template <typename Job> void Each(const Job &job) const
    {
        std::vector<std::thread> threads;

        for (unsigned r = 0; r < engines_.size(); r++)
            threads.emplace_back([&, r] { job(r, &engines_[r]); });
        for (std::thread &thread : threads)
            thread.join();
    }

  private:
    std::vector<stp_engine> engines_;
};

#endif // STP_GPU_ENGINES_H
