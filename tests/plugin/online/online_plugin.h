// Helpers of the tests of libnccl-tuner-steptune-online.so in a job: tuner and
// profiler in one.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include "support/child.h"
#include "support/job/mock_job.h"
#include "support/read_file.h"
#include "support/static_plugin_ranks.h"
#include "support/job/virtual_job.h"

namespace online_plugin
{

using namespace static_plugin;
using virtual_job::After;
using virtual_job::Job;

inline constexpr const char *kOnlineVariables[] = {
    "STEPTUNE_STRATEGY",   "STEPTUNE_OBJECTIVE",   "STEPTUNE_ARMS",
    "STEPTUNE_MIN_GAIN",   "STEPTUNE_BUDGET",      "STEPTUNE_THOROUGH",
    "STEPTUNE_WARM_START", "STEPTUNE_FREEZE",      "STEPTUNE_JOURNAL",
    "STEPTUNE_INLINE",     "STEPTUNE_LEARNED",     "NCCL_TUNER_EPS",
    "STEPTUNE_EVIDENCE",   "STEPTUNE_TRACE",       "NCCL_TUNER_REWARD_FILE",
    "STEPTUNE_SEED",       "STEPTUNE_TRACE_CALLS", "STEPTUNE_BITS",
};

// How many of 'lines' contain 'text'.
inline size_t Count(const std::vector<std::string> &lines,
                    const std::string &text)
{
    size_t n = 0;
    for (const std::string &line : lines)
        n += line.find(text) != std::string::npos;
    return n;
}

inline std::vector<std::string> LinesOf(const fs::path &path)
{
    return SplitLines(ReadFile(path));
}

// The status of a child that exits as programs do, with all handlers.
template <typename What> int StatusOfProgram(What what)
{
    return StatusOfChild(what, exit);
}

// Thinks on the launch path unless a test says otherwise, and leaves its files
// in the test's folder.
class OnlinePlugin : public OnAllRanks
{
  protected:
    void SetUp() override
    {
        OnAllRanks::SetUp();
        Forget();
        Set("STEPTUNE_LEARNED", Learned());
        Set("STEPTUNE_INLINE", "1");
    }

    void TearDown() override
    {
        Forget();
        OnAllRanks::TearDown();
    }

    static void Forget()
    {
        for (const char *name : kOnlineVariables)
            unsetenv(name);
    }

    static void Set(const char *name, const std::string &value)
    {
        setenv(name, value.c_str(), 1);
    }

    // Something else is tried in every epoch, whatever comes of it.
    static void ForceExploration()
    {
        Set("STEPTUNE_STRATEGY", "epsilon");
        Set("STEPTUNE_OBJECTIVE", "file");
        Set("NCCL_TUNER_EPS", "1");
    }

    void UseTwoRanks()
    {
        machine_ = Resized(machine_, 2);
    }

    std::vector<Comm> JoinBoth(const Nccl &nccl, uint64_t id = 1)
    {
        std::vector<Comm> comms;
        comms.push_back(Join(nccl, id));
        comms.push_back(Join(nccl, id));
        return comms;
    }

    std::string Rewards() const
    {
        return (dir_ / "rewards.log").string();
    }

    // Learns from a file of rewards.
    void UseRewards()
    {
        UseTwoRanks();
        ForceExploration();
        Set("NCCL_TUNER_REWARD_FILE", Rewards());
        Set("STEPTUNE_JOURNAL", Journal());
        std::ofstream file(Rewards());
        fs::remove(Journal());
    }

    // Rewards of every arm of one message, so that there is something to save.
    void LearnByFile(const std::vector<Comm> &comms, int n_calls = 400)
    {
        ASSERT_EQ(2u, comms.size());
        for (int i = 0; i < n_calls; i++) {
            mock_outcome out{};
            for (const Comm &comm : comms)
                out = Run(comm, ncclFuncAllReduce, 1 << 20);
            std::ofstream(Rewards(), std::ios::app)
                << "allreduce,1048576,1,2,"
                << (out.algo == NCCL_ALGO_TREE ? 1 : 2) << "\n";
        }
    }

    std::string Learned() const
    {
        return (dir_ / "learned.conf").string();
    }

    std::string Journal() const
    {
        return (dir_ / "journal.csv").string();
    }

    // Tuner alone, or with the profiler.
    static Nccl StartOnline(const char *version = "2.28",
                            const char *profiler = nullptr,
                            const char *tuner = STP_PLUGIN)
    {
        mock_nccl_options options{};
        options.version = version;
        options.tuner_plugin = tuner;
        options.profiler_plugin = profiler;
        mock_nccl *nccl = nullptr;
        EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl))
            << mock_last_error();
        return Nccl(nccl);
    }
};

} // namespace online_plugin
