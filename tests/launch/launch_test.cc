// How a process finds out who started it.
#include <cstdlib>

extern "C" {
#include "launch/launch.h"
}

#include "support/processes.h"

namespace
{

using processes::Process;

using Variables = std::vector<std::pair<const char *, const char *>>;

struct LaunchedCase {
    const char *name;
    Variables variables;
    stp_launched want;
    const char *as = "-"; // rank/size, where it says it
};

// clang-format off
const LaunchedCase kLaunched[] = {
    {"nothing", {}, STP_LAUNCHED_BY_HAND},
    {"torchrun", {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
     STP_LAUNCHED_BY_TORCHRUN, "0/2"},
    {"rank_alone", {{"RANK", "0"}}, STP_LAUNCHED_BY_HAND},
    {"world_size_alone", {{"WORLD_SIZE", "2"}}, STP_LAUNCHED_BY_HAND},
    // joining says what is wrong with it
    {"bad_world_size", {{"RANK", "0"}, {"WORLD_SIZE", "two"}},
     STP_LAUNCHED_BY_TORCHRUN},
    {"open_mpi", {{"OMPI_COMM_WORLD_SIZE", "1"}}, STP_LAUNCHED_BY_MPI},
    {"open_mpi_rank",
     {{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}},
     STP_LAUNCHED_BY_MPI, "3/8"},
    {"mpich", {{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}, STP_LAUNCHED_BY_MPI,
     "0/4"},
    {"pmix", {{"PMIX_RANK", "0"}}, STP_LAUNCHED_BY_MPI},
    {"srun", {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     STP_LAUNCHED_BY_SRUN, "1/2"},
    {"srun_with_pmix",
     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}},
     STP_LAUNCHED_BY_SRUN, "0/2"},
    {"srun_with_pmi2",
     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "2"}},
     STP_LAUNCHED_BY_SRUN, "0/2"},
    {"open_mpi_that_srun_started",
     {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"},
      {"OMPI_COMM_WORLD_SIZE", "16"}},
     STP_LAUNCHED_BY_MPI},
    {"mpich_that_srun_started",
     {{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "16"},
      {"MPI_LOCALRANKID", "3"}},
     STP_LAUNCHED_BY_MPI},
    {"srun_of_one", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}},
     STP_LAUNCHED_BY_HAND},
    {"shell_of_a_job", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}},
     STP_LAUNCHED_BY_HAND},
    {"salloc", {{"SLURM_NTASKS", "8"}}, STP_LAUNCHED_BY_HAND},
    {"torchrun_under_srun",
     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"RANK", "0"},
      {"WORLD_SIZE", "2"}},
     STP_LAUNCHED_BY_TORCHRUN, "0/2"},
};
// clang-format on

using Launched = testing::TestWithParam<LaunchedCase>;

TEST_P(Launched, IsSeenInTheEnvironment)
{
    Process process([] {
        clearenv();
        for (const auto &[name, value] : GetParam().variables)
            setenv(name, value, 1);
        unsigned rank = 0, size = 0;
        return std::to_string(stp_launched_by()) + " " +
               (stp_launched_as(&rank, &size)
                    ? std::to_string(rank) + "/" + std::to_string(size)
                    : "-");
    });

    EXPECT_EQ(std::to_string(GetParam().want) + " " + GetParam().as,
              process.Said());
}

INSTANTIATE_TEST_SUITE_P(Table, Launched, testing::ValuesIn(kLaunched),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

} // namespace
