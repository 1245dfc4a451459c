// The tables of libnccl-tuner-steptune.so as NCCL looks them up, without mock
// NCCL: what tests of the bare interface share.
#ifndef BARE_INTERFACE_H
#define BARE_INTERFACE_H

#include <dlfcn.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>
#include <vector>

#include "support/static_plugin.h"

namespace bare_interface
{

class BareInterface : public static_plugin::StaticPlugin
{
  protected:
    void SetUp() override
    {
        StaticPlugin::SetUp();
        lib_ = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
        ASSERT_NE(nullptr, lib_) << dlerror();
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

    void *lib_ = nullptr;
};

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

// Of any thread.
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

} // namespace bare_interface

#endif // BARE_INTERFACE_H
