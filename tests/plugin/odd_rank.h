// A job whose ranks are processes with a folder and an environment each, one of
// which differs in one thing.
#pragma once

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <functional>

extern "C" {
#include "faults/faults.h"
}
#include "support/static_plugin_ranks.h"
#include "support/temporary_folder.h"
#include "support/written.h"

namespace odd_rank
{

namespace fs = std::filesystem;

inline constexpr char kPolicy[] = "allreduce,0,inf,tree,ll,-1,-1,-1\n"
                                  "allgather,0,inf,ring,ll128,4,-1,-1\n"
                                  "reducescatter,0,1M,ring,ll,2,-1,-1\n";

// The difference between the odd rank and the others, made in its folder and
// process before its init.
using Change = std::function<void()>;

inline void Write(const char *file, const std::string &text)
{
    std::ofstream(file) << text;
}

inline Change Set(const char *name, const std::string &value)
{
    return [=] { setenv(name, value.c_str(), 1); };
}

inline Change Limit(int resource, rlim_t most)
{
    return [=] {
        const struct rlimit limit = {most, most};
        setrlimit(static_cast<__rlimit_resource>(resource), &limit);
    };
}

// So many descriptors.  The plugin is in memory before, as NCCL has it.
inline Change LimitDescriptors(rlim_t most)
{
    return [=] {
        dlopen("./plugin.so", RTLD_NOW);
        Limit(RLIMIT_NOFILE, most)();
    };
}

// A sanitizer replaces the calls that are to fail.
#ifdef STP_SANITIZED
inline constexpr bool kCanFail = false;
#else
inline constexpr bool kCanFail = true;
#endif

inline Change Fail(fault_kind kind, uint32_t n, bool for_good = false)
{
    return [=] {
        static fault_plan plan;
        plan = {kind, n, for_good, 0, {}};
#ifndef STP_SANITIZED
        fault_follow(&plan);
#endif
    };
}

inline Change Replace(const char *file, const std::string &text)
{
    return [=] { Write(file, text); };
}

// 'plugin' "": none.
inline Change Plugin(const std::string &plugin)
{
    return [=] {
        fs::remove("plugin.so");
        if (!plugin.empty())
            fs::create_symlink(plugin, "plugin.so");
    };
}

struct Outcome {
    ncclResult_t rc;
    std::string error;
    std::vector<std::vector<std::string>> warnings; // of the plugin, by rank
    bool tuned;                                     // a rule decided something
};

class Job
{
  public:
    Job(const mock_machine *machine, const char *nccl, std::string plugin)
        : machine_(machine), version_(nccl), plugin_(std::move(plugin))
    {
    }

    // Runs a job in which 'all' changes every rank, and then 'change' the odd
    // one.
    Outcome Run(const Change &all, int odd, const Change &change,
                uint64_t seed = 0)
    {
        all_ = all;
        odd_ = odd;
        change_ = change;
        n_ranks_ = mock_machine_get_info(machine_)->n_ranks;
        logs_.resize(static_cast<size_t>(n_ranks_));
        for (int r = 0; r < n_ranks_; r++) {
            fs::create_directory(Folder(r));
            if (pipe2(logs_[r].data(), O_CLOEXEC) != 0)
                return {ncclSystemError, "cannot make a pipe", {}, false};
        }
        return Play(seed);
    }

  private:
    fs::path Folder(int rank) const
    {
        return folder_.Path(std::to_string(rank));
    }

    static void Enter(void *self, int rank)
    {
        const auto *job = static_cast<Job *>(self);
        fs::current_path(job->Folder(rank));
        fs::create_symlink(job->plugin_, "plugin.so");
        mock_set_log(
            [](void *fd, ncclDebugLogLevel level, unsigned long,
               const char *line) {
                if (level == NCCL_LOG_WARN)
                    dprintf(*static_cast<const int *>(fd), "%s\n", line);
            },
            const_cast<int *>(&job->logs_[rank][1]));
        setenv("RANK", std::to_string(rank).c_str(), 1);
        setenv("WORLD_SIZE", std::to_string(job->n_ranks_).c_str(), 1);
        for (const char *name :
             {"STEPTUNE_AGREE", "STEPTUNE_AGREE_TIMEOUT",
              "STEPTUNE_AGREE_PASSWORD", "NCCL_HOSTID", "MASTER_ADDR",
              "MASTER_PORT", "TORCHELASTIC_RUN_ID"})
            unsetenv(name);
        setenv("STEPTUNE_CHAIN", "none", 1);
        unsetenv("BELOW");
        setenv("STEPTUNE_GPU", "H200", 1);
        setenv("NCCL_TUNER_CONFIG_FILE", "p.conf", 1);
        setenv("STEPTUNE_OBJECTIVE", "file", 1); // needs no profiler
        Write("p.conf", kPolicy);
        job->all_();
        if (rank == job->odd_)
            job->change_();
    }

    // Once the rank's process has ended.  A pipe, since the size of files may
    // be limited, holds some 300 lines.
    std::vector<std::string> Warnings(int rank) const
    {
        std::vector<std::string> lines;
        std::string text(1 << 16, '\0');
        close(logs_[rank][1]);
        const ssize_t n = read(logs_[rank][0], text.data(), text.size());
        text.resize(n > 0 ? static_cast<size_t>(n) : 0);
        close(logs_[rank][0]);
        for (const std::string &line : SplitLines(text))
            if (line.rfind("steptune", 0) == 0)
                lines.push_back(line);
        return lines;
    }

    Outcome Play(uint64_t seed)
    {
        Outcome outcome{};
        mock_nccl_options options{};
        options.version = version_;
        options.tuner_plugin = "./plugin.so";
        mock_ranks_options layout{};
        layout.layout = MOCK_PROCESSES;
        layout.at_once = true;
        layout.comm_id = mock_new_comm_id();
        layout.before_init = Enter;
        layout.user = this;
        mock_nccl *nccl = nullptr;
        mock_ranks *ranks = nullptr;
        outcome.rc = mock_nccl_create(&options, &nccl);
        if (outcome.rc == ncclSuccess)
            outcome.rc = mock_ranks_create(nccl, machine_, &layout, &ranks);
        for (uint64_t i = 0; i < 3 && outcome.rc == ncclSuccess; i++) {
            static_plugin::RandomScript random(4 * seed + i, 6,
                                               version_ == std::string("2.32"));
            random.script.user = &outcome.tuned;
            random.script.decided = [](void *tuned, size_t, size_t,
                                       const mock_outcome *out) {
                *static_cast<bool *>(tuned) |= !static_plugin::Untouched(*out);
            };
            outcome.rc = mock_ranks_play(ranks, &random.script, 4 * seed + i);
        }
        if (outcome.rc != ncclSuccess)
            outcome.error = mock_last_error();
        mock_ranks_destroy(ranks);
        if (nccl != nullptr)
            mock_nccl_destroy(nccl);
        for (int r = 0; r < n_ranks_; r++)
            outcome.warnings.push_back(Warnings(r));
        return outcome;
    }

    const mock_machine *machine_;
    const char *version_;
    std::string plugin_;
    TemporaryFolder folder_;
    std::vector<std::array<int, 2>> logs_; // pipes
    Change all_, change_;
    int odd_ = 0;
    int n_ranks_ = 0;
};

} // namespace odd_rank
