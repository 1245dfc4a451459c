// Tests of the environment of torchrun, srun and mpirun, and of errors in it.
#include <cstdlib>

extern "C" {
#include "launch/torchrun.h"
}

#include "support/processes.h"

namespace
{

using processes::Process;

using Variables = std::vector<std::pair<const char *, const char *>>;

const Variables kGood = {{"RANK", "3"},
                         {"WORLD_SIZE", "8"},
                         {"LOCAL_RANK", "1"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "node-0"},
                         {"MASTER_PORT", "29500"}};

struct ReadCase {
    const char *name;
    Variables changes; // to kGood; NULL takes one away
    const char *want;
};

// clang-format off
const ReadCase kReads[] = {
    {"good", {}, "3/8 1/2 node-0:29500 60000"},
    {"no_local_size", {{"LOCAL_WORLD_SIZE", nullptr}},
     "3/8 1/0 node-0:29500 60000"},
    {"no_store", {{"TORCHELASTIC_USE_AGENT_STORE", "False"}},
     "3/8 1/2 node-0:29500 60000"},
    {"store", {{"TORCHELASTIC_USE_AGENT_STORE", "True"}},
     "3/8 1/2 node-0:29501 60000 job 29500"},
    {"store_on_the_last_port",
     {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"MASTER_PORT", "65535"}},
     "3/8 1/2 node-0:65534 60000 job 65535"},
    {"own_port",
     {{"TORCHELASTIC_USE_AGENT_STORE", "True"}, {"STEPTUNE_PORT", "4000"}},
     "3/8 1/2 node-0:4000 60000 job 29500"},
    {"run", {{"TORCHELASTIC_RUN_ID", "a b\n"},
             {"TORCHELASTIC_RESTART_COUNT", "2"}},
     "3/8 1/2 node-0:29500 60000 a_b_/2"},
    {"no_rank", {{"RANK", nullptr}}, "RANK is not set, as torchrun would"},
    {"no_local_rank", {{"LOCAL_RANK", nullptr}},
     "LOCAL_RANK is not set, as torchrun would"},
    {"no_port", {{"MASTER_PORT", nullptr}},
     "MASTER_PORT is not set, as torchrun would"},
    {"no_host", {{"MASTER_ADDR", nullptr}},
     "MASTER_ADDR is not set, expected rank 0's host"},
    {"empty_host", {{"MASTER_ADDR", ""}},
     "MASTER_ADDR is not set, expected rank 0's host"},
    {"negative_rank", {{"RANK", "-1"}},
     "RANK is '-1', expected a number from 0 to 4095"},
    {"empty_rank", {{"RANK", ""}},
     "RANK is '', expected a number from 0 to 4095"},
    {"no_ranks", {{"WORLD_SIZE", "0"}},
     "WORLD_SIZE is '0', expected a number from 1 to 4096"},
    {"too_many_ranks", {{"WORLD_SIZE", "4097"}},
     "WORLD_SIZE is '4097', expected a number from 1 to 4096"},
    {"rank_outside", {{"RANK", "8"}},
     "RANK is 8, expected less than WORLD_SIZE, which is 8"},
    {"local_rank_outside", {{"LOCAL_RANK", "2"}},
     "LOCAL_RANK is 2, expected less than LOCAL_WORLD_SIZE, which is 2"},
    {"port_0", {{"MASTER_PORT", "0"}},
     "MASTER_PORT is '0', expected a number from 1 to 65535"},
    {"port_with_a_blank", {{"MASTER_PORT", "29500 "}},
     "MASTER_PORT is '29500 ', expected a number from 1 to 65535"},
    {"longer", {{"STEPTUNE_JOIN_TIMEOUT", "600"}},
     "3/8 1/2 node-0:29500 600000"},
    {"no_time", {{"STEPTUNE_JOIN_TIMEOUT", "0"}},
     "STEPTUNE_JOIN_TIMEOUT is '0', expected a number from 1 to 86400"},
    {"bad_own_port", {{"STEPTUNE_PORT", "65536"}},
     "STEPTUNE_PORT is '65536', expected a number from 1 to 65535"},
};
// clang-format on

void Set(const Variables &variables)
{
    for (const auto &[name, value] : variables) {
        if (value != nullptr)
            setenv(name, value, 1);
        else
            unsetenv(name);
    }
}

// In a process of its own.
std::string Read(const Variables &good, const Variables &changes)
{
    clearenv();
    Set(good);
    Set(changes);
    stp_torchrun s{};
    s.size = 99;
    stp_error err{};
    if (stp_torchrun_read(&s, &err) != STP_OK)
        return s.size == 99 ? err.text : "touched";
    auto number = [](unsigned n) { return std::to_string(n); };
    return (s.launcher == std::string("torchrun")
                ? ""
                : std::string(s.launcher) + " ") +
           number(s.rank) + "/" + number(s.size) + " " + number(s.local_rank) +
           "/" + number(s.local_size) + " " + s.host + ":" + number(s.port) +
           " " + number(s.limit_ms) +
           (s.job_port == 0 ? "" : " job " + number(s.job_port)) +
           (s.token == std::string("none/0") ? "" : std::string(" ") + s.token);
}

// ---- srun ----

const Variables kSrun = {
    {"SLURM_PROCID", "3"},  {"SLURM_STEP_NUM_TASKS", "8"},
    {"SLURM_LOCALID", "1"}, {"SLURM_JOB_ID", "12005"},
    {"SLURM_STEP_ID", "4"}, {"SLURM_STEP_NODELIST", "gpu[01-04]"}};

// clang-format off
const ReadCase kSrunReads[] = {
    {"good", {}, "srun 3/8 1/0 gpu01:20005 60000 12005.4/0"},
    {"restarted", {{"SLURM_RESTART_COUNT", "2"}},
     "srun 3/8 1/0 gpu01:20005 60000 12005.4/2"},
    {"one_host", {{"SLURM_STEP_NODELIST", "gpu7"}},
     "srun 3/8 1/0 gpu7:20005 60000 12005.4/0"},
    {"several_hosts", {{"SLURM_STEP_NODELIST", "a,gpu[3,5-9]"}},
     "srun 3/8 1/0 a:20005 60000 12005.4/0"},
    {"list_of_numbers", {{"SLURM_STEP_NODELIST", "gpu[3,5-9],a"}},
     "srun 3/8 1/0 gpu3:20005 60000 12005.4/0"},
    {"racks", {{"SLURM_STEP_NODELIST", "r[2-3]n[07-12]x"}},
     "srun 3/8 1/0 r2n07x:20005 60000 12005.4/0"},
    {"addressed", {{"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}},
     "srun 3/8 1/0 10.0.0.1:29500 60000 12005.4/0"},
    {"own_port", {{"STEPTUNE_PORT", "4000"}},
     "srun 3/8 1/0 gpu01:4000 60000 12005.4/0"},
    {"no_local_id", {{"SLURM_LOCALID", nullptr}},
     "SLURM_LOCALID is not set, as srun would"},
    {"no_job", {{"SLURM_JOB_ID", nullptr}},
     "SLURM_JOB_ID is not set, as srun would"},
    {"no_hosts", {{"SLURM_STEP_NODELIST", nullptr}},
     "SLURM_STEP_NODELIST is not set, as srun would, nor MASTER_ADDR to rank "
     "0's host"},
    {"bad_rank", {{"SLURM_PROCID", "8"}},
     "SLURM_PROCID is 8, expected less than SLURM_STEP_NUM_TASKS, which is 8"},
};
// clang-format on

// ---- mpirun ----

const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "3"},
                            {"OMPI_COMM_WORLD_SIZE", "8"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                            {"PMIX_NAMESPACE", "prterun-a-7@1"}};
const Variables kMpich = {{"PMI_RANK", "3"},
                          {"PMI_SIZE", "8"},
                          {"MPI_LOCALRANKID", "1"},
                          {"MPI_LOCALNRANKS", "2"}};

// clang-format off
const ReadCase kMpirunReads[] = {
    {"one_host", {}, "mpirun 3/8 3/8 127.0.0.1:26524 60000 prterun-a-7@1/0"},
    {"addressed", {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
     "mpirun 3/8 3/8 a:29500 60000 prterun-a-7@1/0"},
    {"own_port", {{"STEPTUNE_PORT", "4000"}},
     "mpirun 3/8 3/8 127.0.0.1:4000 60000 prterun-a-7@1/0"},
    {"several_hosts", {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}},
     "MASTER_ADDR is not set, expected rank 0's host, since mpirun started "
     "ranks on several: `mpirun -x MASTER_ADDR=HOST` (Open MPI) or `mpirun "
     "-genv MASTER_ADDR HOST` (MPICH) gives it to all"},
    {"no_local_rank", {{"OMPI_COMM_WORLD_LOCAL_RANK", nullptr}},
     "OMPI_COMM_WORLD_LOCAL_RANK is not set, as mpirun would"},
};

const ReadCase kMpichReads[] = {
    {"several_hosts", {{"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}},
     "mpirun 3/8 1/2 a:29500 60000"},
    {"one_host", {{"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "8"}},
     "mpirun 3/8 3/8 127.0.0.1:30538 60000"},
};
// clang-format on

TEST(TorchrunRead, IsStrictAboutEachLauncher)
{
    const auto check = [](const Variables &good, const auto &cases) {
        for (const ReadCase &c : cases) {
            Process process([&] { return Read(good, c.changes); });
            EXPECT_EQ(c.want, process.Said()) << c.name;
        }
    };

    check(kGood, kReads);
    check(kSrun, kSrunReads);
    check(kOpenMpi, kMpirunReads);
    check(kMpich, kMpichReads);
}

} // namespace
