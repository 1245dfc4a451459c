// Commands in the processes that a launcher started: all join, or rank 0 alone
// does it; one process writes.
#include <regex>
#include <signal.h>
#include <unistd.h>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

class CliLaunch : public Cli
{
  protected:
    // Starts a rank with the environment that torchrun gives it on one host;
    // what it prints is in outRANK and errRANK.
    pid_t StartRank(int rank, int size, const std::string &arguments)
    {
        Set("RANK", std::to_string(rank));
        Set("LOCAL_RANK", std::to_string(rank));
        Set("WORLD_SIZE", std::to_string(size));
        Set("LOCAL_WORLD_SIZE", std::to_string(size));
        Set("MASTER_ADDR", "127.0.0.1");
        Set("MASTER_PORT", std::to_string(20000 + getpid() % 12000));
        return StartTo(std::to_string(rank), arguments);
    }

    std::vector<pid_t> StartRanks(int size, const std::string &arguments)
    {
        std::vector<pid_t> ranks;
        for (int r = 0; r < size; r++)
            ranks.push_back(StartRank(r, size, arguments));
        return ranks;
    }

    // The statuses of all ranks.
    std::vector<int> RunRanks(int size, const std::string &arguments)
    {
        std::vector<int> statuses;
        for (pid_t rank : StartRanks(size, arguments))
            statuses.push_back(Wait(rank));
        return statuses;
    }

    // Without what it said of ranks that had no turn for long.
    std::string SaidOfTheDead(const std::string &file)
    {
        const std::regex silent("[^\n]*gave no sign of life for 8 s\n");
        return std::regex_replace(Read(file), silent, "");
    }

    static std::string Died(const std::string &command, int rank, pid_t process)
    {
        char host[256] = "";
        gethostname(host, sizeof(host) - 1);
        return "steptune " + command + ": rank " + std::to_string(rank) + " (" +
               host + ", process " + std::to_string(process) + ") died\n";
    }
};

TEST_F(CliLaunch, RankZeroAloneRunsCommandsOfOneProcess)
{
    const struct {
        const char *command, *arguments;
    } cases[] = {{"derive", "x.csv"},
                 {"explain", "--policy x.conf"},
                 {"check", "x.conf"},
                 {"replay", "x.csv"},
                 {"plot", "x.csv"},
                 {"report", "x.csv"},
                 {"machines", "--check nowhere"},
                 {"doctor", "--policy x.conf"}};

    for (const auto &c : cases) {
        SCOPED_TRACE(c.command);
        const std::string command = c.command;

        const std::vector<int> statuses =
            RunRanks(3, command + " " + c.arguments);

        EXPECT_NE(0, statuses[0]);
        EXPECT_THAT(Read("err0"),
                    StartsWith("steptune " + command +
                               ": 3 processes were started, of which " +
                               command +
                               " takes one: the others do nothing\n"));
        EXPECT_EQ(0, statuses[1]);
        EXPECT_EQ(0, statuses[2]);
        EXPECT_EQ("",
                  Read("out1") + Read("err1") + Read("out2") + Read("err2"));
    }
}

TEST_F(CliLaunch, RankZeroAlonePlaysARecordedMachine)
{
    const std::vector<int> statuses =
        RunRanks(2, "tune --on h200x2 --collective allgather -b 4M -e 4M "
                    "--no-iterate");

    EXPECT_THAT(statuses, ElementsAre(0, 0));
    EXPECT_THAT(Read("err0"),
                StartsWith("steptune tune: 2 processes were started, of which "
                           "a recorded machine takes one: the others do "
                           "nothing\n"));
    EXPECT_EQ("", Read("out1") + Read("err1"));
    EXPECT_THAT(Files(), Contains("steptune.conf"));
    EXPECT_THAT(Files(), Not(Contains(HasSubstr("~1~"))));
}

// The process of rank 0 writes what all find out; one on its host adds to the
// journal.
TEST_F(CliLaunch, ARankOfATunedJobFollowsThatOfRankZero)
{
    Write("job.sh", "echo $RANK $STEPTUNE_THOROUGH ${STEPTUNE_LEARNED##*/} "
                    "${STEPTUNE_JOURNAL##*/} ${STEPTUNE_LEDGER:+ledger}\n"
                    "exit 3\n");

    EXPECT_THAT(RunRanks(2, "tune -o p.conf -- sh job.sh"), ElementsAre(1, 3));
    EXPECT_EQ("0 1 null p.conf.journal.csv ledger\n", Read("out0"));
    EXPECT_EQ("1 1 null p.conf.journal.csv\n", Read("out1"));
    EXPECT_THAT(Read("err0"), HasSubstr("nothing was learned, and no policy"));
    EXPECT_EQ("", Read("err1"));

    Set("OMPI_COMM_WORLD_SIZE", "2");
    Set("OMPI_COMM_WORLD_RANK", "1");
    Set("OMPI_COMM_WORLD_LOCAL_RANK", "0");
    for (const char *name : {"RANK", "WORLD_SIZE"})
        unsetenv(name);
    EXPECT_EQ(3, Wait(StartTo("1", "tune -o p.conf -- sh job.sh")));
    EXPECT_EQ("1 null\n", Read("out1")); // another host's
    for (const char *name : {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"})
        unsetenv(name);

    // srun -N2 -n4
    const struct {
        const char *rank, *local_rank, *prints;
    } tasks[] = {{"0", "0", "1 null p.conf.journal.csv ledger\n"},
                 {"1", "1", "1 null p.conf.journal.csv\n"},
                 {"2", "0", "1 null\n"},
                 {"3", "1", "1 null\n"}};
    Set("SLURM_STEP_NUM_TASKS", "4");
    for (const auto &task : tasks) {
        Set("SLURM_PROCID", task.rank);
        Set("SLURM_LOCALID", task.local_rank);
        EXPECT_EQ(task.rank[0] == '0' ? 1 : 3,
                  Wait(StartTo("1", "tune -o p.conf -- sh job.sh")));
        EXPECT_EQ(task.prints, Read("out1")) << task.rank;
    }
}

TEST_F(CliLaunch, ANodeOfATunedJobFollowsTheFirst)
{
    Write("job.sh", "echo ${STEPTUNE_LEDGER:+ledger}\n");

    for (const char *node : {"--node-rank 1", "--node_rank=2"}) {
        const Outcome o =
            Run(std::string("tune -o p.conf -- sh job.sh ") + node);
        EXPECT_EQ(0, o.status);
        EXPECT_EQ("\n", o.out);
    }
    for (const char *node : {"--node-rank 0", "--node-ranks 1", "1"}) {
        const Outcome o =
            Run(std::string("tune -o p.conf -- sh job.sh ") + node);
        EXPECT_EQ(1, o.status);
        EXPECT_EQ("ledger\n", o.out);
    }
}

// MPI starts once in a process that mpirun started.
TEST_F(CliLaunch, AJobOfMpiThatIsComparedTakesMpirunInTheCommand)
{
    Set("OMPI_COMM_WORLD_SIZE", "2");
    Set("OMPI_COMM_WORLD_RANK", "0");
    ExpectRefusals("compare ", {{"--env A=0,1 -- true", 2,
                                 "steptune compare: one process starts the "
                                 "job, but a launcher started this one: put "
                                 "the launcher into the command, as in "
                                 "`steptune compare -- mpirun ./job`\n"}});
}

// ---- compare: each rank runs its process of the job ----

const std::string kCompare =
    "compare --env A=0,1 --step-time 'step ([0-9]+)' -n 2 ";

TEST_F(CliLaunch, EachRankRunsItsProcessOfAComparedJobAndOneReports)
{
    Write(
        "job.sh",
        "echo \"step $((100 + 100 * A))\"\n"
        "echo \"$A $MASTER_PORT $TORCHELASTIC_USE_AGENT_STORE\" >>log$RANK\n");

    EXPECT_THAT(RunRanks(3, kCompare + "-o runs -- sh job.sh"), Each(0))
        << Read("err0") << Read("err1");

    EXPECT_THAT(Read("log0"), MatchesRegex("0 [0-9]+ False\n1 [0-9]+ False\n"
                                           "1 [0-9]+ False\n0 [0-9]+ False\n"
                                           "1 [0-9]+ False\n0 [0-9]+ False\n"
                                           "0 [0-9]+ False\n1 [0-9]+ False\n"));
    EXPECT_EQ(Read("log0"), Read("log1"))
        << "the ranks of a run have the same arm and meet at the same port";
    EXPECT_EQ(Read("log0"), Read("log2"));
    EXPECT_THAT(Read("out0"), HasSubstr("0.500"));
    EXPECT_EQ("", Read("out1") + Read("err1") + Read("out2") + Read("err2"));
    EXPECT_EQ(9u, Files("runs").size()) << "eight outputs, and runs.csv";
    EXPECT_EQ(14u, Count(Read("runs/runs.csv"), "\n")) << Read("runs/runs.csv");
}

TEST_F(CliLaunch, ARankWhoseProcessFailsEndsTheOthers)
{
    Write("job.sh", "[ $RANK = 1 ] || exec sleep 1000\necho no GPU; exit 3\n");
    const std::vector<pid_t> ranks = StartRanks(3, kCompare + "-- sh job.sh");

    for (pid_t rank : ranks)
        EXPECT_EQ(1, Wait(rank));

    EXPECT_EQ("steptune compare: run 1 (A=0) on rank 1 ended with status 3; "
              "the last lines of its output (`steptune compare -o FOLDER` "
              "keeps all):\n  | no GPU\n",
              Read("err1"));
    EXPECT_EQ(Died("compare", 1, ranks[1]), SaidOfTheDead("err0"));
    EXPECT_EQ("", Read("err2"));
}

TEST_F(CliLaunch, ACompareThatCannotBeginIsExplainedOnce)
{
    fs::create_directory(dir_ / "runs");
    Write("runs/runs.csv", "there\n");

    EXPECT_THAT(RunRanks(2, kCompare + "-o runs -- true"), Each(1));

    EXPECT_EQ("steptune compare: runs/runs.csv is there already, expected "
              "another folder\n",
              Read("err0"));
    EXPECT_EQ("", Read("err1"));
}

// ---- CPU ranks ----

class CliLaunchOfCpus : public CliLaunch
{
  protected:
    void SetUp() override
    {
        CliLaunch::SetUp();
        if (Run("sweep --backend gloo --procs 1 -b 8 -e 8 -n 1").status == 77)
            GTEST_SKIP() << "this build has no Gloo";
    }
};

const std::string kSweep = "sweep --backend gloo --rounds 2 -n 3 -w 1 ";

TEST_F(CliLaunchOfCpus, OneRankWritesTheMeasurementsOfASweep)
{
    EXPECT_THAT(RunRanks(3, kSweep + "-b 4K -e 4K -o s.csv"), Each(0))
        << Read("err0") << Read("err1") << Read("err2");

    EXPECT_THAT(Files(), ElementsAre("err0", "err1", "err2", "out0", "out1",
                                     "out2", "s.csv"));
    EXPECT_EQ(4u, Count(Read("s.csv"), ",1,3,3,")); // nodes, ranks, iterations
    EXPECT_THAT(Read("out0"), HasSubstr("# Avg bus bandwidth"));
    EXPECT_EQ("", Read("out1") + Read("err1") + Read("out2") + Read("err2"));
}

TEST_F(CliLaunchOfCpus, TasksOfSrunMeetWithoutMpi)
{
    std::vector<pid_t> ranks;
    Set("SLURM_JOB_ID", std::to_string(getpid()));
    Set("SLURM_STEP_NODELIST", "no-such-host[1-2]");
    Set("MASTER_ADDR", "127.0.0.1");
    Set("SLURM_STEP_NUM_TASKS", "2");
    for (int r = 0; r < 2; r++) {
        Set("SLURM_PROCID", std::to_string(r));
        Set("SLURM_LOCALID", std::to_string(r));
        ranks.push_back(StartTo(std::to_string(r),
                                kSweep + "-b 4K -e 4K -o s.csv --procs 2"));
    }

    for (pid_t rank : ranks)
        EXPECT_EQ(0, Wait(rank)) << Read("err0") << Read("err1");

    EXPECT_EQ(4u, Count(Read("s.csv"), ",1,2,3,"));
    EXPECT_EQ("", Read("out1") + Read("err1"));
}

TEST_F(CliLaunchOfCpus, OneRankWritesTheTablesOfIterations)
{
    EXPECT_THAT(RunRanks(3, "iterate --on cpu --bytes 64K --ratio 1 --layers 2 "
                            "--arms auto --rounds 2 -n 2 --no-plots -o it"),
                Each(0))
        << Read("err0") << Read("err1");

    EXPECT_THAT(Files(), ElementsAre("err0", "err1", "err2", "it", "out0",
                                     "out1", "out2"));
    EXPECT_NE("", Read("out0"));
    EXPECT_EQ("", Read("out1") + Read("out2") + Read("err1") + Read("err2"));
    EXPECT_THAT(Files("it"), Contains("summary.json"));
}

TEST_F(CliLaunchOfCpus, RanksThatMpirunStartedOnOneHostMeetWithoutAnAddress)
{
    std::vector<pid_t> ranks;
    Set("OMPI_COMM_WORLD_SIZE", "2");
    Set("OMPI_COMM_WORLD_LOCAL_SIZE", "2");
    Set("PMIX_NAMESPACE", std::to_string(getpid()));
    for (const char *rank : {"0", "1"}) {
        Set("OMPI_COMM_WORLD_RANK", rank);
        Set("OMPI_COMM_WORLD_LOCAL_RANK", rank);
        ranks.push_back(
            StartTo(rank, kSweep + "-b 4K -e 4K --procs 2 -o s.csv"));
    }

    for (pid_t rank : ranks)
        EXPECT_EQ(0, Wait(rank)) << Read("err0") << Read("err1");
    EXPECT_EQ(4u, Count(Read("s.csv"), ",1,2,3,"));
    EXPECT_EQ(1u, Count(Read("out0"), "# Avg bus bandwidth"));
    EXPECT_EQ("", Read("out1") + Read("err1"));
}

// ---- ranks that are missed ----

TEST_F(CliLaunchOfCpus, ARankThatDiesIsNamedAndEndsTheOthers)
{
    STP_SLOW();
    const std::vector<pid_t> ranks =
        StartRanks(3, kSweep + "-b 8 -e 256M -o s.csv");
    WaitForFile("s.csv"); // the first size is done

    kill(ranks[1], SIGKILL);
    EXPECT_EQ(-SIGKILL, Wait(ranks[1]));
    EXPECT_EQ(1, Wait(ranks[0]));
    EXPECT_EQ(1, Wait(ranks[2]));
    EXPECT_EQ(Died("sweep", 1, ranks[1]), SaidOfTheDead("err0"));
    EXPECT_EQ("", SaidOfTheDead("err2")) << "rank 0 has told it";
    EXPECT_GE(Count(Read("s.csv"), "allreduce,"), 4u);
}

TEST_F(CliLaunchOfCpus, ThatRankZeroDiesAllTheOthersSay)
{
    STP_SLOW();
    const std::vector<pid_t> ranks =
        StartRanks(3, kSweep + "-b 8 -e 256M -o s.csv");
    WaitForFile("s.csv");

    kill(ranks[0], SIGKILL);
    EXPECT_EQ(-SIGKILL, Wait(ranks[0]));
    for (int r : {1, 2}) {
        EXPECT_EQ(1, Wait(ranks[r]));
        EXPECT_EQ(Died("sweep", 0, ranks[0]),
                  SaidOfTheDead("err" + std::to_string(r)));
    }
}

TEST_F(CliLaunchOfCpus, ARankThatNeverComesIsNamedAfterTheTimeThatIsSet)
{
    Set("STEPTUNE_JOIN_TIMEOUT", "1");

    EXPECT_EQ(1, Wait(StartRank(0, 2, kSweep + "-o s.csv")));

    EXPECT_THAT(Read("err0"),
                MatchesRegex("steptune sweep: rank 1 of 2 did not come to rank "
                             "0's port [0-9]+ in 1 s\n"));
    EXPECT_THAT(Files(), ElementsAre("err0", "out0"));
}

TEST_F(CliLaunchOfCpus, ARankZeroThatNeverComesIsNamed)
{
    Set("STEPTUNE_JOIN_TIMEOUT", "1");

    EXPECT_EQ(1, Wait(StartRank(1, 2, kSweep)));

    EXPECT_THAT(Read("err1"),
                MatchesRegex("steptune sweep: rank 1 could not reach rank 0 at "
                             "127\\.0\\.0\\.1, port [0-9]+, in 1 s: .*\n"));
}

} // namespace
