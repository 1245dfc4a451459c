// steptune replay: communicators, captures, sizes, layouts and processes.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

class CliTrace : public Cli
{
  protected:
    // Replays these rows with a policy.
    Outcome Replay(const std::string &machine, const std::string &rows,
                   const std::string &policy = "",
                   const std::string &options = "") const
    {
        Write("t.csv", rows);
        Write("p.conf", policy);
        return Run("replay --policy p.conf --trace t.csv --on " + machine +
                   " " + options);
    }
};

// ---- communicators ----

TEST_F(CliTrace, CommunicatorsOfSeveralSizesAreToldApart)
{
    Outcome o = Replay("h100n2x8",
                       "comm,nRanks,create,collective,bytes,expect\n"
                       "w,16,,allreduce,1M,tree/ll\n"
                       "n,8,split w,allreduce,1M,\n"
                       "w,,,allreduce,1M,tree/ll\n"
                       "one,1,init,allreduce,1M,auto\n",
                       "allreduce,0,inf,tree,ll,4,-1,16\n", "--seeds 3");

    EXPECT_THAT(
        o.out,
        StrEq("modelled: h100n2x8 has 16 GPUs, and for others NCCL would "
              "search its graphs anew\n"
              "4 collectives in 4 steps, on 16 ranks, in 3 random schedules: "
              "all ranks agree\n"
              "rank 0 asks its tuner 3 times and runs 4 collectives\n"
              "\n"
              "collective    bytes  ranks  calls  AUTO        choice   "
              "channels\n"
              "allreduce   1048576     16      2  tree/ll128  tree/ll         "
              "4\n"
              "allreduce   1048576      8      1  ring/ll     ring/ll        "
              "16\n"
              "allreduce   1048576      1      1  -           -               "
              "0\n"));
    EXPECT_EQ(0, o.status) << o.err;
}

TEST_F(CliTrace, ANameAmongManyIsItsNewestCommunicator)
{
    std::string rows = "comm,nRanks,create,collective,bytes\n";
    for (int times = 0; times < 2; times++)
        for (int i = 0; i < 150; i++)
            rows += "c" + std::to_string(i) + (times == 0 ? ",2," : ",3,") +
                    "init,allreduce,1K\n";

    Outcome good =
        Replay("h200x4", rows + "c7,3,,allreduce,1K\n", "", "--seeds 1");
    Outcome bad = Replay("h200x4", rows + "c149,2,,allreduce,1K\n");

    EXPECT_EQ(0, good.status) << good.err;
    EXPECT_THAT(good.out, HasSubstr("301 collectives in 301 steps"));
    EXPECT_EQ(1, bad.status);
    EXPECT_THAT(bad.err, HasSubstr("nRanks 2, expected what line 301 says of "
                                   "communicator 'c149'"));
}

TEST_F(CliTrace, AWrongExpectationOfAnyCommunicatorNamesTheRow)
{
    Outcome o =
        Replay("h100x8", "comm,nRanks,create,collective,bytes,capture,expect\n"
                         "w,8,,allreduce,64,,ring/ll\n"
                         "c,4,shrink w,allreduce,64,7,tree/ll/3\n");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, StrEq("steptune replay: t.csv:3: allreduce of 64 bytes: "
                             "wanted tree/ll/3, got ring/ll/1\n"));
    EXPECT_THAT(o.out, IsEmpty());
}

struct WrongSize {
    const char *machine;
    const char *rows;
    const char *options;
    const char *error;
};

TEST_F(CliTrace, CommunicatorsThatCannotBeAreRefused)
{
    const WrongSize cases[] = {
        {"h100x8",
         "comm,nRanks,create,collective,bytes\nw,4,,allreduce,8\n"
         "c,8,split w,allreduce,8\n",
         "", "t.csv:3: communicator 'c' of 8 ranks, expected at most 4\n"},
        {"h100x8",
         "comm,nRanks,create,collective,bytes\nw,4,,allreduce,8\n"
         "c,4,shrink w,allreduce,8\n",
         "", "t.csv:3: communicator 'c' of 4 ranks, expected at most 3\n"},
        {"h100x8", "comm,nRanks,collective,bytes\nw,16,allreduce,8\n", "",
         "t.csv:2: h100x8 with 16 GPUs, but it is one node of 8 and its search "
         "graphs have no network: take a machine of several nodes, such as "
         "h100n2x8 or a100n2x8\n"},
        {"h100n2x8",
         "comm,nRanks,collective,bytes\nw,16,allreduce,8\nt,4,allreduce,8\n",
         "--ranks 2",
         "t.csv:3: communicator 't' of 4 ranks, expected at most 2\n"},
        {"h100n2x8", "collective,bytes\nallreduce,8\n", "--ranks 12",
         "t.csv: h100n2x8 with 12 GPUs, expected at most the 8 of a node, or a "
         "multiple of them\n"},
    };

    for (const WrongSize &c : cases) {
        Outcome o = Replay(c.machine, c.rows, "", c.options);
        EXPECT_EQ(1, o.status);
        EXPECT_THAT(o.err, StrEq(std::string("steptune replay: ") + c.error));
    }
}

// ---- captures and groups ----

TEST_F(CliTrace, GraphsAskOnceAndRunAsOftenAsTheyAreLaunched)
{
    Outcome o = Replay("h200x4", "collective,bytes,group,capture\n"
                                 "allreduce,64,,1000\n"
                                 "allreduce,1M,1,3\n"
                                 "allreduce,1M,1,3\n"
                                 "allreduce,1M,,0\n"
                                 "allreduce,0,,5\n");

    EXPECT_THAT(o.out,
                StartsWith("5 collectives in 4 steps, on 4 ranks, in 10 random "
                           "schedules: all ranks agree\n"
                           "rank 0 asks its tuner 3 times and runs 1012 "
                           "collectives\n"));
    EXPECT_THAT(o.out, HasSubstr("allreduce        64   1000  "));
    EXPECT_EQ(0, o.status) << o.err;
}

// 25 all-reduces on 24 channels are 2 for each; a lone row stands for a run.
TEST_F(CliTrace, PipeOpsOfAGroupAreThoseThatNcclComesTo)
{
    std::string group = "collective,bytes,group,numPipeOps,expect\n";
    for (int i = 0; i < 25; i++)
        group += "allreduce,64K,1,2,tree/ll\n";
    const std::string policy = "allreduce,0,inf,tree,ll,-1,-1,-1,2\n";

    Outcome right = Replay("h200x4", group, policy);
    Outcome wrong = Replay("h200x4", group + "allreduce,64K,1,1,\n", policy);
    Outcome alone = Replay("h200x4",
                           "collective,bytes,numPipeOps,expect\n"
                           "allreduce,1638400,2,tree/ll\n"
                           "allreduce,1638400,1,auto\n"
                           "allreduce,1638400,,auto\n",
                           policy);

    EXPECT_EQ(0, right.status) << right.err;
    EXPECT_THAT(wrong.err,
                StrEq("steptune replay: t.csv:27: numPipeOps 1, but NCCL comes "
                      "to 2 for the group\n"));
    EXPECT_EQ(0, alone.status) << alone.err;
}

// ---- sizes ----

TEST_F(CliTrace, RanksScaleTheLargestCommunicatorsAndSaySo)
{
    const std::string rows = "comm,nRanks,create,collective,bytes,expect\n"
                             "w,16,,allreduce,1M,tree/ll\n"
                             "t,4,split w,allreduce,1M,ring/ll128\n"
                             "c,,split w,allreduce,1M,tree/ll\n";

    Outcome o = Replay("h100n2x8", rows,
                       "allreduce,0,inf,tree,ll,-1,32,256\n"
                       "allreduce,0,inf,ring,ll128,-1,1,4\n",
                       "--ranks 256 --seeds 1");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out,
                StartsWith("modelled: h100n2x8 has 16 GPUs, and for others "
                           "NCCL would search its graphs anew\n"
                           "3 collectives in 3 steps, on 256 ranks, in 1 "
                           "random schedules: all ranks agree\n"));
}

TEST_F(CliTrace, ReplayTakesAHundredThousandRanks)
{
    STP_SLOW();
    Write("t.csv", "collective,bytes,expect\nallreduce,1M,auto\n"
                   "allgather,100000,auto\n");
    Outcome o = Run("replay --plugin " STP_ONE_CHANNEL
                    " --ranks 100000 --seeds 1 --on h100n2x8 --trace t.csv");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("on 100000 ranks, in 1 random schedules: all "
                                 "ranks agree\n"));
}

// ---- layouts and processes ----

TEST_F(CliTrace, RanksLiveInThreadsAndProcessesToo)
{
    const std::string rows = "comm,nRanks,create,collective,bytes,expect\n"
                             "w,8,,allreduce,1M,tree/ll\n"
                             "c,4,split w,allreduce,1M,\n"
                             "s,3,shrink c,allreduce,1M,\n"
                             "w,,,allreduce,2M,tree/ll\n";
    const std::string policy = "allreduce,0,inf,tree,ll,-1,1,8\n";
    Outcome first = Replay("h100x8", rows, policy, "--seeds 4");
    EXPECT_EQ(0, first.status) << first.err;

    for (const char *layout : {"one-thread", "threads", "processes"}) {
        Outcome o = Replay("h100x8", rows, policy,
                           std::string("--seeds 4 --layout ") + layout);
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_EQ(first.out, o.out);
    }
}

TEST_F(CliTrace, TheFirstScheduleThatFailsIsReportedByAnyNumberOfProcesses)
{
    std::string rows = "collective,bytes\n";
    for (int i = 0; i < 600; i++) // whole schedules are as long as failures
        rows += "allreduce,4M\n";
    Write("t.csv", rows);
    const std::string replay =
        "replay --plugin " STP_BY_TURN " --on h100x8 --trace t.csv --seeds ";
    Outcome one = Run(replay + "200 --jobs 1");
    ASSERT_EQ(1, one.status);
    EXPECT_THAT(one.err, MatchesRegex("steptune replay: t.csv: schedule "
                                      "[0-9]+: step [0-9]+, allreduce of "
                                      "4194304 bytes: rank [0-9] runs .*\n"));
    unsigned seed = 0;
    ASSERT_EQ(1, sscanf(one.err.c_str(), "steptune replay: t.csv: schedule %u",
                        &seed));
    EXPECT_LT(0u, seed);

    EXPECT_EQ(0, Run(replay + std::to_string(seed) + " --jobs 3").status);
    for (const char *jobs : {"2", "3", "16"})
        EXPECT_EQ(one.err, Run(replay + "200 --jobs " + jobs).err);
    EXPECT_EQ(one.err,
              Run(replay + std::to_string(seed + 1) + " --jobs 4").err);
}

/* ---- colors, and traces of others ---- */

constexpr char kColors[] = "collective,bytes,comm,create,ranks\n"
                           "allreduce,4M,w,,\n"
                           "allreduce,4M,tp,split w,0-3/4-7\n"
                           "allreduce,4M,dp,split w,0+4/1+5/2+6/3+7\n";

TEST_F(CliTrace, RanksOfEveryColorAgreeInEveryLayout)
{
    for (const char *layout : {"one-thread", "threads", "processes"}) {
        Outcome o =
            Replay("h100x8", kColors, "allreduce,0,inf,ring,ll128,-1,-1,-1\n",
                   std::string("--seeds 4 --layout ") + layout);
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out,
                    HasSubstr("3 collectives in 3 steps, on 8 ranks, in 4 "
                              "random schedules: all ranks agree"));
    }
}

// The tuner's seventh communicator, which differs by its turn, is that of rank
// 1 in {1,3}.
TEST_F(CliTrace, RanksOfAColorThatDifferAreFound)
{
    std::string rows = "collective,bytes,comm,create,ranks\n"
                       "allreduce,4M,w,,\nallreduce,4M,dp,split w,0+2/1+3\n";
    for (int i = 0; i < 1100; i++)
        rows += "allreduce,4M,dp,,\n";
    Write("t.csv", rows);

    Outcome o = Run("replay --plugin " STP_BY_TURN
                    " --on h200x4 --trace t.csv --seeds 50");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, ContainsRegex(
                           "steptune replay: t.csv: schedule [0-9]+: "
                           "communicator 'dp': step [0-9]+, allreduce of "
                           "4194304 bytes: rank (1 runs .*, rank 3|3 runs .*, "
                           "rank 1) "));
}

TEST_F(CliTrace, AColorThatIsNotAsExpectedFails)
{
    Outcome o = Replay("h100x8",
                       "collective,bytes,comm,create,ranks,expect\n"
                       "allreduce,4M,w,,,\n"
                       "allreduce,4M,tp,split w,0-3/4-7,tree/ll\n",
                       "allreduce,0,inf,ring,ll128,-1,-1,-1\n");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr(":3: allreduce of 4194304 bytes: wanted "
                                 "tree/ll, got ring/ll128/"));
}

TEST_F(CliTrace, RanksOfColorsAreThoseOfTheParent)
{
    Outcome o = Replay("h200x4",
                       "collective,bytes,comm,create,ranks\n"
                       "allreduce,4M,w,,\nallreduce,4M,t,split w,0+4/1+2\n",
                       "");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("t.csv:3: communicator 't' with rank 4, "
                                 "expected ranks below the 4 of its parent"));
}

// Of {0,8} on two nodes a machine of two ranks would have one node.
TEST_F(CliTrace, GroupsAcrossNodesAreNotTakenForNeighbours)
{
    const struct {
        const char *name;
        const char *ranks;
        const char *why; // "": none
    } cases[] = {
        {"a node each", "0-7/8-15", ""},
        {"within a node", "0-7:2/1-7:2/8-15:2/9-15:2", ""},
        {"across nodes", "0+8/1+9/2+10/3+11/4+12/5+13/6+14/7+15", "'t' of "},
        {"one of them across nodes", "0+1/7+8",
         "'t' of ranks on several nodes "},
        {"some per node", "0+4+8+12/1+5+9+13/2+6+10+14/3+7+11+15", "'t' of "},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        const std::string rows = "collective,bytes,comm,create,ranks\n"
                                 "allreduce,8,w,,\nallreduce,8,t,split w," +
                                 std::string(c.ranks) + "\n";
        Outcome o = Replay("h100n2x8", rows, "");
        EXPECT_EQ(c.why[0] != '\0', o.status) << o.err;
        EXPECT_THAT(o.err, HasSubstr(c.why));
    }
    Write("t.csv", "collective,bytes,comm,create,ranks\nallreduce,8,w,,\n"
                   "allreduce,8,t,split w,"
                   "0+8/1+9/2+10/3+11/4+12/5+13/6+14/7+15\n");
    Outcome o = Run("iterate --on h100n2x8 --arms auto --trace t.csv");
    EXPECT_EQ(1, o.status);
    EXPECT_THAT(
        o.err, HasSubstr("groups of 2 ranks that are 8 apart are on several "
                         "nodes of h100n2x8: no machine is modelled for them"));
}

TEST_F(CliTrace, TracesOfOthersArePlayedOnAllRanks)
{
    const struct {
        const char *name;
        const char *head;
    } cases[] = {
        {"torch_ddp_et.json.gz",
         "execution trace: 8 collectives, 16 GEMMs\n"
         "not played, 4 rows: 2 x aten::relu_ (first in line 36), 2 x "
         "aten::_foreach_add_ (first in line 102)\n"},
        {"groups.csv", "modelled: h200x4 has 4 GPUs"},
    };
    Write("p.conf", "allreduce,0,inf,ring,ll128,-1,-1,-1\n");

    for (const auto &c : cases) {
        Outcome o = Run(std::string("replay --on h200x4 --seeds 4 --policy "
                                    "p.conf --trace " STP_FIXTURES "/traces/") +
                        c.name);
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out, StartsWith(c.head));
        EXPECT_THAT(o.out, HasSubstr("all ranks agree"));
    }
}

TEST_F(CliTrace, OptionsThatMeanNothingAreRefused)
{
    const char *options[] = {"--layout here", "--jobs 0",        "--jobs 257",
                             "--ranks 0",     "--ranks 1000001", "--ranks x",
                             "--seeds 0"};
    Write("t.csv", "collective,bytes\nallreduce,8\n");

    for (const char *option : options)
        EXPECT_EQ(2, Run(std::string("replay --trace t.csv ") + option).status)
            << option;
}

} // namespace
