// Fixtures of the tests of mock NCCL's profilers.
#pragma once

#include <dlfcn.h>

#include "mock_kernels.h"
#include "plugins/listener_control.h"
#include "support/mock_test.h"

namespace mock_test
{

using Lines = std::vector<std::string>;

constexpr int kKernels = NCCL_PROFILE_KERNEL_CH;
constexpr int kAll = ~0;
constexpr const char *kListener = STP_TEST_PLUGINS "/libnccl-tuner-listener.so";
constexpr const char *kListenerV4 =
    STP_TEST_PLUGINS "/libnccl-tuner-listener_v4.so";

// A process's profiler; the test keeps the library open, so that its state
// stays.
class Profiler
{
  public:
    Profiler(const char *path, int mask, int followed = kAll)
        : library_(dlopen(path, RTLD_NOW | RTLD_LOCAL))
    {
        EXPECT_NE(nullptr, library_) << dlerror();
        control_ = static_cast<listener_control *>(
            dlsym(library_, "listener_control"));
        *control_ = {mask, followed, 0, nullptr, 0};
    }
    ~Profiler()
    {
        dlclose(library_);
    }
    Profiler(const Profiler &) = delete;
    Profiler &operator=(const Profiler &) = delete;

    listener_control *operator->() const
    {
        return control_;
    }

  private:
    void *library_;
    listener_control *control_;
};

inline mock_nccl_options With(const char *profiler,
                              const char *version = "2.28")
{
    mock_nccl_options options{};
    options.version = version;
    options.profiler_plugin = profiler;
    return options;
}

// The lines that the profiler logged itself.
inline Lines ProfilerLines(const Log &log)
{
    Lines lines;
    for (const Log::Line &line : log.lines)
        if (line.flags == NCCL_PROFILE)
            lines.push_back(line.text);
    return lines;
}

// The profiler's lines without the events that got no handle.
inline Lines FollowedLines(const Log &log)
{
    Lines lines;
    for (const std::string &line : ProfilerLines(log))
        if (line.find("start 0 ") == std::string::npos)
            lines.push_back(line);
    return lines;
}

// A communicator of h200x4 with this profiler.
struct Profiled {
    Profiler profiler;
    Machine machine;
    Nccl nccl;
    Comm comm;

    Profiled(const char *path, int mask, int followed = kAll,
             const char *version = "2.28")
        : profiler(path, mask, followed), machine(LoadMachine("h200x4")),
          nccl(MakeNccl(With(path, version))), comm(MakeComm(nccl, machine))
    {
    }
};

inline void RunKernels(const Comm &comm, const mock_outcome &outcome,
                       const mock_channel_time *times)
{
    void *handles[MOCK_MAX_CHANNELS];

    mock_comm_kernel_began(comm.get(), &outcome, times, handles);
    mock_comm_kernel_ended(comm.get(), &outcome, times, handles);
}

inline mock_outcome RunOne(const Comm &comm, const mock_call &call)
{
    mock_outcome outcome;
    EXPECT_EQ(ncclSuccess, mock_comm_collective(comm.get(), &call, &outcome))
        << mock_last_error();
    return outcome;
}

} // namespace mock_test
