// Jobs on mock NCCL, for tests of the commands that start jobs.
#ifndef CLI_JOBS_H
#define CLI_JOBS_H

#include <string>

#include "support/cli_fixture.h"

namespace cli
{

// The command of a job on the recorded h200x4; how it may end, and what it may
// call, is in tests/cli/mock_job.cc.
inline std::string MockJob(const std::string &end_and_calls)
{
    return STP_MOCK_JOB " " STP_FIXTURES "/machines/h200x4 " + end_and_calls;
}

// Temporary folders are in the test's folder "tmp".
class CliOfJobs : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        fs::create_directory(dir_ / "tmp");
        Set("TMPDIR", dir_ / "tmp");
    }
};

// Plugins learn and record in virtual time, on the path of the launches.
class CliOfVirtualJobs : public CliOfJobs
{
  protected:
    void SetUp() override
    {
        CliOfJobs::SetUp();
        Set("STEPTUNE_INLINE", "1");
    }
};

} // namespace cli
#endif // CLI_JOBS_H
