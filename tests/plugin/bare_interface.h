// The tables of libnccl-tuner-steptune.so as NCCL looks them up, without mock
// NCCL: what tests of the bare interface share.
#pragma once

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <mutex>

#include "support/static_plugin.h"

namespace bare_interface
{

using Costs = std::array<float, 21>;

// tree/ll, tree/ll128, tree/simple, ring/ll, the others ruled out.
inline Costs CostsOf(float tree_ll, float tree_ll128, float tree_simple,
                     float ring_ll)
{
    Costs costs;
    costs.fill(-1);
    costs[0] = tree_ll;
    costs[1] = tree_ll128;
    costs[2] = tree_simple;
    costs[3] = ring_ll;
    return costs;
}

// Log lines of all threads.
inline std::string logged;             // warnings
inline std::vector<std::string> infos; // other lines

inline void Log(ncclDebugLogLevel level, unsigned long, const char *, int,
                const char *format, ...)
{
    char line[8192];
    va_list va;

    va_start(va, format);
    vsnprintf(line, sizeof(line), format, va);
    va_end(va);
    static std::mutex lock;
    const std::lock_guard<std::mutex> locked(lock);
    if (level == NCCL_LOG_WARN)
        logged += std::string(line) + "\n";
    else
        infos.push_back(line);
}

class BareInterface : public static_plugin::StaticPlugin
{
  protected:
    void SetUp() override
    {
        StaticPlugin::SetUp();
        lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, lib_) << dlerror();
        v4_ = Tuner<ncclTuner_v4_t>("ncclTunerPlugin_v4");
        v5_ = Tuner<ncclTuner_v5_t>("ncclTunerPlugin_v5");
        logged.clear();
        infos.clear();
    }
    void TearDown() override
    {
        dlclose(lib_);
        StaticPlugin::TearDown();
    }

    template <typename T> const T *Tuner(const char *symbol)
    {
        return static_cast<const T *>(dlsym(lib_, symbol));
    }

    // A rank of a communicator that NCCL names, or does not.
    void *Init(size_t n_ranks, size_t n_nodes, bool is_named = false,
               const ncclNvlDomainInfo_v5_t *nvl = nullptr)
    {
        void *ctx = nullptr;
        if (is_named)
            v5_->init(&ctx, id_, n_ranks, n_nodes, Log,
                      const_cast<ncclNvlDomainInfo_v5_t *>(nvl), nullptr);
        else
            v4_->init(n_ranks, n_nodes, Log, &ctx);
        return ctx;
    }

    // Costs as the tuner leaves them; versions 4 to 7 are asked alike.
    Costs Ask(void *ctx, Costs costs = CostsOf(9, 8, 7, 5),
              ncclFunc_t coll = ncclFuncAllReduce, size_t n_bytes = 64,
              int *channels = nullptr, int n_pipe_ops = 1) const
    {
        int ignored = 0;
        EXPECT_EQ(ncclSuccess,
                  v4_->getCollInfo(ctx, coll, n_bytes, n_pipe_ops,
                                   reinterpret_cast<float **>(costs.data()), 7,
                                   3, 0,
                                   channels != nullptr ? channels : &ignored));
        return costs;
    }

    void *lib_ = nullptr;
    const ncclTuner_v4_t *v4_ = nullptr;
    const ncclTuner_v5_t *v5_ = nullptr;
};

} // namespace bare_interface
