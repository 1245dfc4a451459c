// How a process finds out who started it, and starts itself under mpirun.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "launch/launch.h"
}

#include "support/processes.h"
#include "support/temporary_folder.h"

namespace
{

using processes::Process;
using testing::HasSubstr;

using Variables = std::vector<std::pair<const char *, const char *>>;

struct LaunchedCase {
    const char *name;
    Variables variables;
    stp_launched want;
};

// clang-format off
const LaunchedCase kLaunched[] = {
    {"nothing", {}, STP_LAUNCHED_BY_HAND},
    {"torchrun", {{"RANK", "0"}, {"WORLD_SIZE", "2"}},
     STP_LAUNCHED_BY_TORCHRUN},
    {"rank_alone", {{"RANK", "0"}}, STP_LAUNCHED_BY_HAND},
    {"world_size_alone", {{"WORLD_SIZE", "2"}}, STP_LAUNCHED_BY_HAND},
    // joining says what is wrong with it
    {"bad_world_size", {{"RANK", "0"}, {"WORLD_SIZE", "two"}},
     STP_LAUNCHED_BY_TORCHRUN},
    {"open_mpi", {{"OMPI_COMM_WORLD_SIZE", "1"}}, STP_LAUNCHED_BY_MPI},
    {"mpich", {{"PMI_SIZE", "4"}}, STP_LAUNCHED_BY_MPI},
    {"pmix", {{"PMIX_RANK", "0"}}, STP_LAUNCHED_BY_MPI},
    {"srun", {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}},
     STP_LAUNCHED_BY_SRUN},
    {"srun_with_pmix",
     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMIX_RANK", "0"}},
     STP_LAUNCHED_BY_SRUN},
    {"srun_with_pmi2",
     {{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "2"}, {"PMI_SIZE", "2"}},
     STP_LAUNCHED_BY_SRUN},
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
     STP_LAUNCHED_BY_TORCHRUN},
};
// clang-format on

class Launched : public testing::TestWithParam<LaunchedCase>
{
};

TEST_P(Launched, IsSeenInTheEnvironment)
{
    Process process([] {
        clearenv();
        for (const auto &[name, value] : GetParam().variables)
            setenv(name, value, 1);
        return std::to_string(stp_launched_by());
    });

    EXPECT_EQ(std::to_string(GetParam().want), process.Said());
}

INSTANTIATE_TEST_SUITE_P(Table, Launched, testing::ValuesIn(kLaunched),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST(LaunchedAs, IsTheRankOfTheFirstLauncherThatSaysIt)
{
    const struct {
        std::vector<std::pair<const char *, const char *>> variables;
        const char *want; // rank/size, or - by hand
    } cases[] = {
        {{{"RANK", "1"}, {"WORLD_SIZE", "2"}}, "1/2"},
        {{{"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "8"}}, "3/8"},
        {{{"PMI_RANK", "0"}, {"PMI_SIZE", "4"}}, "0/4"},
        {{{"SLURM_PROCID", "1"}, {"SLURM_STEP_NUM_TASKS", "2"}}, "1/2"},
        {{{"SLURM_PROCID", "0"}, {"SLURM_STEP_NUM_TASKS", "1"}}, "-"},
        {{{"RANK", "first"}, {"WORLD_SIZE", "2"}}, "-"},
        {{}, "-"},
    };

    for (const auto &c : cases) {
        Process process([&] {
            clearenv();
            for (const auto &[name, value] : c.variables)
                setenv(name, value, 1);
            unsigned rank = 0, size = 0;
            return stp_launched_as(&rank, &size)
                       ? std::to_string(rank) + "/" + std::to_string(size)
                       : "-";
        });
        EXPECT_EQ(c.want, process.Said());
    }
}

class Mpirun : public testing::Test
{
  protected:
    // What this program becomes, or why not, with 'mpirun' for mpirun.
    std::string Become(const std::string &mpirun, const char *variable = "A",
                       const char *value = "")
    {
        Process process([&] {
            clearenv();
            setenv("STEPTUNE_MPIRUN", mpirun.c_str(), 1);
            setenv("PATH", "/usr/bin:/bin", 1);
            setenv(variable, value, 1);
            stp_error err{};
            return std::to_string(stp_launch_mpirun(3, &err)) + " " + err.text;
        });
        return process.Said();
    }

    // An mpirun that writes down how it was called.
    std::string Recorded(const std::string &script)
    {
        {
            std::ofstream file(path_);
            file << "#!/bin/sh\nexec >" << path_ << ".out\n" << script;
        }
        chmod(path_.c_str(), 0700);
        Become(path_);
        std::ifstream out(path_ + ".out");
        std::string text((std::istreambuf_iterator<char>(out)), {});
        return text;
    }

    TemporaryFolder folder_;
    const std::string path_ = folder_.Path("mpirun");
};

// As the kernel has it.
std::string OwnCommandLine()
{
    std::ifstream file("/proc/self/cmdline");
    std::string text((std::istreambuf_iterator<char>(file)), {});
    char program[4096] = "";
    EXPECT_LT(0, readlink("/proc/self/exe", program, sizeof(program) - 1));
    std::string lines = std::string(program) + "\n";
    for (size_t i = text.find('\0') + 1; i < text.size(); i++)
        lines += text[i] == '\0' ? '\n' : text[i];
    return lines;
}

TEST_F(Mpirun, GetsThisProgramWithItsArguments)
{
    EXPECT_EQ("-np\n3\n--map-by\n:OVERSUBSCRIBE\n" + OwnCommandLine(),
              Recorded("printf '%s\\n' \"$@\"\n"));
}

TEST_F(Mpirun, MayBeRunByRoot)
{
    std::string want = geteuid() == 0 ? "1 1\n" : "\n";

    EXPECT_EQ(want, Recorded("echo $OMPI_ALLOW_RUN_AS_ROOT "
                             "$OMPI_ALLOW_RUN_AS_ROOT_CONFIRM\n"));
}

TEST_F(Mpirun, IsNamedWhenItIsMissing)
{
    EXPECT_EQ(std::to_string(STP_ERR_NOTHING) +
                  " cannot run /nowhere/mpirun: No such file or directory; "
                  "install an MPI, or name its mpirun in STEPTUNE_MPIRUN",
              Become("/nowhere/mpirun"));
}

TEST_F(Mpirun, IsMpirunUnlessNamed)
{
    EXPECT_THAT(Become("", "PATH", "/nowhere"),
                HasSubstr(" cannot run mpirun: No such file or directory"));
}

// Else it would go on for ever.
TEST_F(Mpirun, IsNotRunAgainByOneThatLeavesNoSign)
{
    EXPECT_EQ("1\n", Recorded("echo $STEPTUNE_UNDER_MPIRUN\n"));
    EXPECT_EQ(std::to_string(STP_ERR_DEVICE) +
                  " /bin/true started this process, but left no sign of MPI "
                  "in its environment, such as PMI_SIZE",
              Become("/bin/true", "STEPTUNE_UNDER_MPIRUN", "1"));
}

} // namespace
