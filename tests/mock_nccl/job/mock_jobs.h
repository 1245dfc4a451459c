// Fixtures of the tests of jobs in virtual time.
#ifndef MOCK_JOB_TEST_H
#define MOCK_JOB_TEST_H

#include "mock_job.h"
#include "support/mock_profiler.h"

namespace mock_test
{

struct FreeJob {
    void operator()(mock_job *job) const
    {
        mock_job_destroy(job);
    }
};
using Job = std::unique_ptr<mock_job, FreeJob>;

inline mock_job_call After(double compute_us, ncclFunc_t coll, size_t n_bytes)
{
    return {compute_us, Call(coll, n_bytes)};
}

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

#endif // MOCK_JOB_TEST_H
