// GPUs as the ranks of this process: engines, and a device of them.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "gpu_ranks.h"

extern "C" {
#include "device/module.h"
}

// Opens the GPUs that 'options' ask for, or else all, in a world of this
// process alone.
inline stp_status OpenGpus(stp_device_options *options, stp_engines *engines,
                           stp_error *err)
{
    const stp_module *module = nullptr;
    const stp_status status = stp_module_open(STP_CUDA_MODULE, &module, err);

    options->world = &stp_world_of_one;
    return status == STP_OK ? module->open(options, engines, err) : status;
}

inline stp_status OpenGpuDevice(stp_device_options *options, stp_device *device,
                                stp_error *err)
{
    stp_engines engines{};

    options->measures = true;
    const stp_status status = OpenGpus(options, &engines, err);
    return status == STP_OK ? stp_device_open(options, &engines, device, err)
                            : status;
}

// Opens them or ends the process: threads would wait for each other for ever.
class GpuEngines
{
  public:
    explicit GpuEngines(unsigned n, const char *plugin = nullptr,
                        unsigned time_limit_s = 60)
        : n_(n)
    {
        stp_device_options options{};
        stp_error err{};

        options.n_threads = n;
        options.n_gpus = 1;
        options.plugin = plugin;
        options.time_limit_s = time_limit_s;
        if (OpenGpus(&options, &engines_, &err) != STP_OK) {
            fprintf(stderr, "%s\n", err.text);
            abort();
        }
    }

    ~GpuEngines()
    {
        for (unsigned r = 0; r < n_; r++)
            get(r)->ops->close(get(r)->self);
    }

    GpuEngines(const GpuEngines &) = delete;
    GpuEngines &operator=(const GpuEngines &) = delete;

    const stp_engine *get(unsigned rank) const
    {
        return &engines_.all[rank];
    }

    const stp_engines &all() const
    {
        return engines_;
    }

    // job(rank, engine) on each, at once.
    template <typename Job> void Each(const Job &job) const
    {
        std::vector<std::thread> threads;

        for (unsigned r = 0; r < n_; r++)
            threads.emplace_back([&, r] { job(r, get(r)); });
        for (std::thread &thread : threads)
            thread.join();
    }

  private:
    unsigned n_;
    stp_engines engines_{};
};
