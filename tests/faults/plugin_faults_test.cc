// A call of a rank's, or of all ranks' process, that fails: the job goes on, no
// two ranks differ in what they choose, and what was given up is in the log.
//
//   plugin_faults_test [all | N] - all calls, or at most N of a kind; else few
#include <gmock/gmock.h>

#include "faults/walk.h"
#include "support/job/virtual_job.h"
#include "plugin/odd_rank.h"
#include "support/in_folder.h"
#include "support/processes.h"
#include "support/written.h"

namespace
{

using namespace faults;
using namespace odd_rank;

constexpr int kOdd = 2;

struct Scenario {
    const char *name;
    const char *plugin;
    const char *nccl;
    void (*all)(); // of every rank, before its init
};

void PrintTo(const Scenario &scenario, std::ostream *out)
{
    *out << scenario.name;
}

class PluginFaults : public testing::TestWithParam<Scenario>
{
  protected:
    Outcome RunWith(const Fault &fault)
    {
        const Scenario &s = GetParam();
        fault_plan *plan = plan_.get();
        *plan = {
            static_cast<uint32_t>(fault.kind), fault.n, fault.for_good, 0, {}};
        Job job(machine_.get(), s.nccl, s.plugin);
        return job.Run(s.all, kOdd, [=] { fault_follow(plan); });
    }

    // Returns what is wrong with the outcome of a call, or "".
    static std::string Judge(const Outcome &out)
    {
        bool is_aside = false;
        if (out.rc != ncclSuccess)
            return out.error;
        for (const auto &warnings : out.warnings)
            for (const std::string &warning : warnings)
                is_aside |= warning.find("stepping aside") != std::string::npos;
        if (!is_aside && !out.tuned)
            return "nothing is decided, and nobody says why";
        for (size_t r = 0; r < out.warnings.size() && is_aside; r++)
            if (out.warnings[r].size() != 1)
                return "rank " + std::to_string(r) + " warns " +
                       std::to_string(out.warnings[r].size()) + " times";
        return "";
    }

    static_plugin::Machine machine_ = static_plugin::LoadMachine("h200x4");
    Plan plan_;
};

TEST_P(PluginFaults, AJobGoesOnAndNoRankDecidesAlone)
{
    const Outcome usual = RunWith({FAULT_MEMORY, 0, false});
    const fault_plan counted = *plan_.get();
    EXPECT_EQ("", Judge(usual));
    EXPECT_TRUE(usual.tuned);
    for (const auto &warnings : usual.warnings)
        EXPECT_THAT(warnings, testing::IsEmpty());

    size_t n_struck = 0;
    const std::vector<Fault> all = Choose(counted, MostOfAKind(4), 1);
    for (const Fault &fault : all) {
        const Outcome out = RunWith(fault);
        n_struck += plan_->n_failed > 0;
        EXPECT_EQ("", Judge(out)) << Named(fault);
    }
    PrintWalk(GetParam().name, all, n_struck, counted);
}

void Plainly()
{
}

void WithEverything()
{
    setenv("STEPTUNE_JOURNAL", "journal.csv", 1);
    fs::create_directory("ledger");
    setenv("STEPTUNE_LEDGER", "ledger", 1);
    setenv("STEPTUNE_TRACE", "trace.csv", 1);
    Write("p.conf.overlap", "allreduce,0,1M,ring,ll,-1,-1,-1\n");
}

const Scenario kScenarios[] = {
    {"static_plugin", STP_PLUGIN, "2.28", Plainly},
    {"static_plugin_with_files", STP_PLUGIN, "2.30", WithEverything},
    {"learning_plugin", STP_ONLINE, "2.28", Plainly},
    {"learning_plugin_with_files", STP_ONLINE, "2.30", WithEverything},
};

INSTANTIATE_TEST_SUITE_P(All, PluginFaults, testing::ValuesIn(kScenarios),
                         CaseName());

// ---- a whole job in virtual time, whose ranks are in one process ----

// A finished job's files, texts by name, and its log.
struct Left {
    std::string error;
    int status; // of its process, as waitpid() has it
    std::map<std::string, std::string> files;
    std::vector<std::string> log;
};

struct JobScenario {
    const char *name;
    const char *plugin;
    bool has_profiler;
    size_t n_steps;
    uint32_t most; // faults of a kind in a test
    std::map<const char *, const char *> variables;
};

void PrintTo(const JobScenario &scenario, std::ostream *out)
{
    *out << scenario.name;
}

// The learned rule belongs to a job of another size, so it must stay.
constexpr char kLearned[] = "# steptune-online: learned while jobs ran\n"
                            "allreduce,0,1023,tree,ll,-1,1,64,H200\n";

class JobFaults : public InFolder,
                  public testing::WithParamInterface<JobScenario>
{
  protected:
    Left RunWith(const Fault &fault)
    {
        Left left{};
        *plan_.get() = {
            static_cast<uint32_t>(fault.kind), fault.n, fault.for_good, 0, {}};
        fs::remove_all(dir_ / "now");
        fs::create_directories(dir_ / "now" / "ledger");
        processes::Process process([this] { return RunJob(); });
        left.error = process.Said();
        left.status = process.status();
        for (const auto &entry : fs::directory_iterator(dir_ / "now"))
            if (entry.is_regular_file())
                left.files[entry.path().filename()] = Read(entry.path());
        left.log = SplitLines(left.files["log"]);
        left.files.erase("log");
        return left;
    }

    // Returns what is wrong with the files and log of a job, or "".
    static std::string Judge(const Left &usual, const Left &left,
                             const std::vector<std::string> &changing,
                             bool is_clock = false)
    {
        if (WIFSIGNALED(left.status))
            return "ends by signal " + std::to_string(WTERMSIG(left.status));
        if (left.error != "done")
            return left.error;
        for (const auto &[name, text] : left.files)
            if (usual.files.count(name) == 0)
                return name + " is left";
        // Without a clock other times are written, and other arms win.
        if (left.log != usual.log || is_clock)
            return "";
        for (const auto &[name, text] : usual.files) {
            const bool changes = std::find(changing.begin(), changing.end(),
                                           name) != changing.end();
            if (left.files.count(name) == 0)
                return "no " + name + ", and no word of it in the log";
            if (left.files.at(name) != text && !changes)
                return "another " + name + ", and no word of it in the log";
        }
        return "";
    }

    Plan plan_;

  private:
    std::string RunJob() const
    {
        mock_machine *machine = nullptr;
        fs::current_path(dir_ / "now");
        Write("now/p.conf", kPolicy);
        Write("now/learned.conf", kLearned);
        static FILE *log = fopen("log", "w");
        mock_set_log(
            [](void *, ncclDebugLogLevel, unsigned long, const char *line) {
                fprintf(log, "%s\n", line);
                fflush(log);
            },
            nullptr);
        setenv("STEPTUNE_GPU", "H200", 1);
        setenv("STEPTUNE_INLINE", "1", 1);
        for (const auto &[name, value] : GetParam().variables)
            setenv(name, value, 1);
        alarm(500);
        if (mock_machine_load(STP_FIXTURES "/machines/h200x2", &machine) !=
            ncclSuccess)
            return mock_last_error();
        const std::string error = Play(machine);
        mock_machine_free(machine);
        return error.empty() ? "done" : error;
    }

    // The error; "" if there is none.
    std::string Play(const mock_machine *machine) const
    {
        const mock_job_call calls[] = {
            virtual_job::After(20, ncclFuncAllGather, 3905536),
            virtual_job::After(20, ncclFuncAllReduce, 256 << 10)};
        mock_nccl_options options{};
        options.version = "2.28";
        options.tuner_plugin = GetParam().plugin;
        options.profiler_plugin =
            GetParam().has_profiler ? GetParam().plugin : nullptr;
        mock_job_options shape{};
        shape.comm_id = comm_id_;
        shape.step = {calls, std::size(calls), 20};
        shape.reward_file = getenv("NCCL_TUNER_REWARD_FILE");
        mock_nccl *nccl = nullptr;
        mock_job *job = nullptr;
        ncclResult_t rc = mock_nccl_create(&options, &nccl);
        fault_follow(plan_.get());
        if (rc == ncclSuccess)
            rc = mock_job_create(nccl, machine, &shape, &job);
        if (rc == ncclSuccess)
            rc = mock_job_play(job, GetParam().n_steps);
        const std::string error = rc != ncclSuccess ? mock_last_error() : "";
        mock_job_destroy(job);
        mock_nccl_destroy(nccl);
        return error;
    }

    const uint64_t comm_id_ = mock_new_comm_id();
};

TEST_P(JobFaults, GoesOnAndTheLogSaysWhatWasGivenUp)
{
    const Left usual = RunWith({FAULT_MEMORY, 0, false});
    const fault_plan counted = *plan_.get();
    const Left again = RunWith({FAULT_MEMORY, 0, false});
    std::vector<std::string> changing;
    for (const auto &[name, text] : again.files)
        if (usual.files.at(name) != text)
            changing.push_back(name);
    ASSERT_EQ("", Judge(usual, again, changing));

    size_t n_struck = 0;
    const std::vector<Fault> all =
        Choose(counted, MostOfAKind(GetParam().most), 1);
    for (const Fault &fault : all) {
        const Left left = RunWith(fault);
        n_struck += plan_->n_failed > 0;
        EXPECT_EQ("", Judge(usual, left, changing, fault.kind == FAULT_CLOCK))
            << Named(fault);
    }
    PrintWalk(GetParam().name, all, n_struck, counted);
    printf("  %zu files, %zu lines of log, %zu change\n", usual.files.size(),
           usual.log.size(), changing.size());
}

const JobScenario kJobs[] = {
    {"static_job",
     STP_PLUGIN,
     false,
     100,
     4,
     {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}, {"STEPTUNE_LEDGER", "ledger"}}},
    {"job_that_learns",
     STP_ONLINE,
     true,
     600,
     35,
     {{"STEPTUNE_OBJECTIVE", "gpu"},
      {"STEPTUNE_ARMS", "ring/ll128,ring/simple"},
      {"STEPTUNE_LEARNED", "learned.conf"},
      {"STEPTUNE_JOURNAL", "journal.csv"},
      {"STEPTUNE_LEDGER", "ledger"}}},
    {"job_that_learns_from_a_file",
     STP_ONLINE,
     false,
     100,
     6,
     {{"STEPTUNE_OBJECTIVE", "file"},
      {"STEPTUNE_STRATEGY", "epsilon"},
      {"NCCL_TUNER_REWARD_FILE", "rewards.log"},
      {"STEPTUNE_ARMS", "ring/ll128,ring/simple"},
      {"STEPTUNE_LEARNED", "learned.conf"},
      {"STEPTUNE_JOURNAL", "journal.csv"}}},
    {"traced_job",
     STP_ONLINE,
     true,
     20,
     6,
     {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}, {"STEPTUNE_TRACE", "trace.csv"}}},
};

INSTANTIATE_TEST_SUITE_P(All, JobFaults, testing::ValuesIn(kJobs), CaseName());

} // namespace

int main(int argc, char **argv)
{
    testing::InitGoogleMock(&argc, argv);
    ReadArguments(argc, argv, UINT32_MAX);
    return RUN_ALL_TESTS();
}
