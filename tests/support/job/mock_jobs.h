// Fixtures of the tests of jobs in virtual time.
#pragma once

#include <ctime>
#include <tuple>
#include <utility>

#include "support/job/mock_job.h"
#include "support/mock_profiler.h"
#include "support/job/virtual_job.h"

namespace mock_test
{

using virtual_job::After;
using virtual_job::Job;

// The steps that the job reported.
struct Done {
    struct Step {
        size_t step;
        bool is_evaluation;
        double us;
        std::vector<mock_job_run> runs;
    };
    std::vector<Step> steps;

    std::vector<double> Times() const
    {
        std::vector<double> times;
        for (const Step &step : steps)
            times.push_back(step.us);
        return times;
    }
};

constexpr int kRanks = 4; // of h200x4

// The begin of a kernel's first channel: the time on its GPU's clock, and the
// time of the event on the host's, since the job began.
struct Kernel {
    double begin_ns, end_ns;
    double begin_heard_us, end_heard_us;

    auto All() const
    {
        return std::tie(begin_ns, end_ns, begin_heard_us, end_heard_us);
    }
    bool operator==(const Kernel &other) const
    {
        return All() == other.All();
    }
};

inline double HostUs()
{
    timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (static_cast<double>(now.tv_sec) - 1.7e9) * 1e6 +
           static_cast<double>(now.tv_nsec) / 1000;
}

// Receives the listener's lines on the thread that reports the events.
class Kernels
{
  public:
    Kernels()
    {
        mock_set_log(Take, this);
    }
    ~Kernels()
    {
        mock_set_log(nullptr, nullptr);
    }
    Kernels(const Kernels &) = delete;
    Kernels &operator=(const Kernels &) = delete;

    std::vector<Kernel> of[kRanks];
    std::vector<double> heard_us; // in the order of being told

  private:
    static void Take(void *user, ncclDebugLogLevel, unsigned long,
                     const char *text)
    {
        auto *self = static_cast<Kernels *>(user);
        size_t rank, number, at_ns;
        int channel;
        if (std::sscanf(text,
                        "%zu start %zu KernelCh of %*u rank %*d channel %d at "
                        "%zu",
                        &rank, &number, &channel, &at_ns) == 4 &&
            channel == 0) {
            std::vector<Kernel> &kernels = self->of[rank - 1000];
            kernels.push_back({static_cast<double>(at_ns), 0, HostUs(), 0});
            self->running_[number] = {rank - 1000, kernels.size() - 1};
            self->heard_us.push_back(HostUs());
        }
        if (std::sscanf(text, "state %zu 22 at %zu", &number, &at_ns) == 2 &&
            self->running_.count(number) != 0) {
            auto [r, i] = self->running_[number];
            self->of[r][i].end_ns = static_cast<double>(at_ns);
            self->of[r][i].end_heard_us = HostUs();
            self->heard_us.push_back(HostUs());
        }
    }

    std::map<size_t, std::pair<size_t, size_t>> running_;
};

class MockJob : public testing::Test
{
  protected:
    MockJob()
    {
        options_.comm_id = 5;
        options_.step = {calls_.data(), calls_.size(), 200};
        options_.user = &done_;
        options_.done = [](void *user, const mock_job_step *step) {
            static_cast<Done *>(user)->steps.push_back(
                {step->step,
                 step->is_evaluation,
                 step->us,
                 {step->runs, step->runs + step->n}});
        };
    }

    // Runs a job with these options for n steps.
    Job Play(size_t n_steps, const mock_nccl_options &nccl = {})
    {
        mock_job *job = nullptr;
        done_.steps.clear();
        job_.reset();
        nccl_ = MakeNccl(nccl);
        rc_ = mock_job_create(nccl_.get(), machine_.get(), &options_, &job);
        EXPECT_EQ(ncclSuccess, rc_) << mock_last_error();
        if (rc_ == ncclSuccess)
            rc_ = mock_job_play(job, n_steps);
        return Job(job);
    }

    Machine machine_ = LoadMachine("h200x4");
    Nccl nccl_;
    Job job_;
    std::vector<mock_job_call> calls_{
        After(1000, ncclFuncAllGather, 4 << 20),
        After(500, ncclFuncReduceScatter, 4 << 20)};
    mock_job_options options_{};
    Done done_;
    ncclResult_t rc_ = ncclSuccess;
};

} // namespace mock_test
