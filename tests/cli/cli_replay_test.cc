// steptune replay: traces, expectations, disagreement.
#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

constexpr char kDdp[] = STP_FIXTURES "/traces/h200x4_torch_ddp_resnet50.csv";

TEST_F(Cli, ReplayPlaysARecordedJobOnAllRanks)
{
    Write("p.conf", "allreduce,8M,10M,ring,ll128,-1,-1,-1\n");

    Outcome o = Run(std::string("replay --policy p.conf --trace ") + kDdp);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("282 collectives in 282 steps, on 4 ranks, in "
                                 "10 random schedules: all ranks agree\n"
                                 "rank 0 asks its tuner 282 times and runs 282 "
                                 "collectives\n\n"));
    EXPECT_THAT(o.out, HasSubstr("allreduce     9724160     39  ring/simple  "
                                 "ring/ll128         24\n"));
    EXPECT_THAT(o.out, HasSubstr("allreduce    31506336     39  ring/simple  "
                                 "ring/simple        24\n"));
}

TEST_F(Cli, ReplayReportsWhatItWantedAndGot)
{
    Write("t.csv", "collective,bytes,expect\n"
                   "allreduce,1M,ring/ll\n"
                   "allreduce,1M,tree/simple/8\n");
    Write("p.conf", "");

    Outcome o = Run("replay --policy p.conf --trace t.csv");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err,
                StrEq("steptune replay: t.csv:3: allreduce of 1048576 bytes: "
                      "wanted tree/simple/8, got ring/ll/24\n"));
    EXPECT_THAT(o.out, IsEmpty());
}

TEST_F(Cli, ReplayReportsWhereAutoWasExpected)
{
    Write("t.csv", "# policy: p.conf\n"
                   "collective,bytes,expect\nallreduce,1M,auto\n");
    Write("p.conf", "allreduce,0,inf,tree,ll,-1,-1,-1\n");

    Outcome o = Run("replay --trace t.csv");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("wanted NCCL's own ring/ll, got tree/ll/24"));
}

TEST_F(Cli, ReplayRunsGroupsAsGroups)
{
    Write("t.csv", "collective,bytes,group\n"
                   "allreduce,1M,1\nallreduce,1M,1\nallreduce,1M,2\n"
                   "allreduce,1M,\nallreduce,1M,\n");
    Write("p.conf", "");

    Outcome o = Run("replay --policy p.conf --trace t.csv --seeds 3");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("5 collectives in 4 steps, on 4 ranks, in 3 "
                                 "random schedules"));
}

TEST_F(Cli, ReplayFailsAPluginThatWouldNotLoad)
{
    Outcome o = Run(std::string("replay --plugin ./no.so --trace ") + kDdp);

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err,
                HasSubstr("NCCL 2.28.9 would not load tuner plugin './no.so': "
                          "`steptune replay "
                          "--contract` with it says why\n"));
}

TEST_F(Cli, ReplaySurvivesAPluginThatCrashes)
{
    // A sanitizer's own handler would turn the crash into a plain exit.
    LetPluginsCrash();
    Outcome o = Run(
        std::string("replay --plugin " STP_ROW_POINTERS " --trace ") + kDdp);

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("row_pointers.so' crashed ("));
}

// A plugin without a policy steps aside, and all ranks agree on nothing.
TEST_F(Cli, ReplayWantsAPolicyThatItsPluginWouldTake)
{
    Write("bad.conf", "allreduce,0,inf,rnig,ll,-1,-1,-1\n");
    const std::string replay = std::string("replay --trace ") + kDdp;

    EXPECT_THAT(Run(replay).err,
                StrEq("steptune replay: no policy for the plugin, expected "
                      "--policy or NCCL_TUNER_CONFIG_FILE\n"));
    EXPECT_THAT(Run(replay + " --policy missing").err,
                HasSubstr("missing: cannot be opened: No such file"));
    EXPECT_THAT(Run(replay + " --policy bad.conf").err,
                HasSubstr("bad.conf:1:17: unknown algorithm 'rnig'"));
    EXPECT_EQ(1, Run(replay).status);
    EXPECT_EQ(1, Run(replay + " --policy bad.conf").status);
}

struct BadTrace {
    const char *text;
    const char *expected;
};

TEST_F(Cli, ReplayRefusesABadTraceByLineAndColumn)
{
    const BadTrace cases[] = {
        {"", "t.csv: no collectives, expected a header line and rows"},
        {"collective\n", "t.csv:1:1: header without the column bytes"},
        {"collective,bytes,size\n", "t.csv:1:18: header with 'size'"},
        {"collective,bytes\nallreduce,x\n",
         "t.csv:2:11: bytes 'x', expected a number of bytes"},
        {"collective,bytes,expect\nallreduce,8,rnig/ll\n",
         "t.csv:2:13: expect 'rnig/ll', expected nothing, auto,"},
        {"collective,bytes,expect\nallreduce,8,ring/ll/65\n",
         "t.csv:2:13: expect 'ring/ll/65'"},
        {"collective,bytes,group\nallreduce,8,0\n", "t.csv:2:13: group '0'"},
        {"collective,bytes,regBuff\nallreduce,8,2\n",
         "t.csv:2:13: regBuff '2', expected nothing, 0 or 1"},
        {"collective,bytes,comm\nallreduce,8,12345678901234567890123456789012"
         "\n",
         "t.csv:2:13: comm '12345678901234567890123456789012', expected a word "
         "of at most 31 bytes"},
        {"collective,bytes,nRanks\nallreduce,8,1000001\n",
         "t.csv:2:13: nRanks '1000001', expected nothing or a number from 1 to "
         "1000000"},
        {"comm,nRanks,collective,bytes\na,4,allreduce,8\nb,2,allreduce,8\n"
         "a,2,allreduce,8\n",
         "t.csv:4:3: nRanks 2, expected what line 2 says of communicator 'a'"},
        {"collective,bytes,create\nallreduce,8,copy a\n",
         "t.csv:2:13: create 'copy a', expected nothing, init, split COMM or "
         "shrink COMM"},
        {"collective,bytes,create\nallreduce,8,split\n",
         "t.csv:2:13: create 'split', expected nothing, init"},
        {"comm,collective,bytes,create\na,allreduce,8,\nb,allreduce,8,split "
         "c\n",
         "t.csv:3:15: create from 'c', expected the communicator of an earlier "
         "row"},
        {"comm,collective,bytes,create\na,allreduce,8,\nb,allreduce,8,shrink a"
         "\n",
         "t.csv:3:15: shrink of 'a', expected the nRanks that are left"},
        {"collective,bytes,capture\nallreduce,8,-1\n",
         "t.csv:2:13: capture '-1', expected nothing or a number of launches"},
        {"collective,bytes,group,capture\nallreduce,8,1,2\nallreduce,8,1,3\n",
         "t.csv:3:15: capture 3, expected the 2 of the row before in its "
         "group"},
        {"collective,bytes,type\nallreduce,8,int\n",
         "t.csv:2:13: type 'int', expected nothing, i8, u8, i32, u32, i64, "
         "u64, "
         "f16, bf16, f32, f64, fp8e4m3 or fp8e5m2"},
        {"collective,bytes,op\nallreduce,8,add\n",
         "t.csv:2:13: op 'add', expected nothing, sum, prod, min, max, avg or "
         "premulsum"},
        {"collective,bytes,numPipeOps\nallreduce,8,0\n",
         "t.csv:2:13: numPipeOps '0', expected nothing or a number from 1"},
        {"collective,bytes\nallreduce\n",
         "t.csv:2:1: 1 fields, expected 2 as in the header"},
    };

    for (const BadTrace &c : cases) {
        Write("t.csv", c.text);
        Outcome o = Run("replay --trace t.csv");
        EXPECT_EQ(1, o.status);
        EXPECT_THAT(o.err, HasSubstr(c.expected));
    }
}

TEST_F(Cli, ReplayNamesPartsThatAreNoMultipleOf16Bytes)
{
    const std::string replay = "replay --policy p.conf --trace t.csv";
    Write("p.conf", "allgather,0,inf,ring,simple,-1,-1,-1\n"
                    "reducescatter,0,100,ring,ll,-1,-1,-1\n"
                    "reducescatter,101,inf,ring,ll128,-1,-1,-1\n");
    // per rank: 16, 8, 24 by LL, 26 by LL128, 20 twice as launched, and
    // collectives without parts
    Write("t.csv", "collective,bytes,capture\n"
                   "allgather,64,\nallgather,32,\nreducescatter,96,\n"
                   "reducescatter,104,\nallgather,80,2\nallgather,32,\n"
                   "allreduce,40,\nbroadcast,40,\n");

    Outcome o = Run(replay);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(
        o.out,
        HasSubstr("collectives\nnot a multiple of 16 bytes a rank, which LL128 "
                  "and Simple move more slowly, 5 calls: 2 x allgather of 32 "
                  "bytes on 4 ranks (first in line 3), 1 x reducescatter of "
                  "104 bytes on 4 ranks (first in line 5), 2 x allgather of 80 "
                  "bytes on 4 ranks (first in line 6)\n\n"));
    EXPECT_EQ(5, Number(Parse(Run(replay + " --json").out).get(), "unaligned"));
}

TEST_F(Cli, ReplayNamesFiveUnalignedSizesAndCountsTheOthers)
{
    const std::string replay = "replay --policy p.conf --trace t.csv";
    std::string many = "collective,bytes\n";
    Write("p.conf", "allgather,0,inf,ring,simple,-1,-1,-1\n");
    for (int i = 0; i < 7; i++)
        many += "allgather," + std::to_string(8 + 64 * i) + "\n";
    Write("t.csv", many);
    EXPECT_THAT(
        Run(replay).out,
        AllOf(HasSubstr(" 7 calls: 1 x allgather of 8 bytes"),
              HasSubstr("(first in line 6), and 2 of further sizes\n")));

    Write("t.csv", "collective,bytes\nallgather,64\nallreduce,40\n");
    EXPECT_THAT(Run(replay).out, AllOf(HasSubstr("runs 2 collectives\n\n"),
                                       Not(HasSubstr("multiple"))));
}

TEST_F(Cli, ReplayPrintsEveryRowAsJson)
{
    Write("t.csv", "collective,bytes\nallreduce,1M\nallgather,64\n");
    Write("p.conf", "allreduce,0,inf,tree,ll,-1,-1,-1\n");

    Outcome o = Run("replay --policy p.conf --trace t.csv --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    const cJSON *rows = cJSON_GetObjectItem(root.get(), "collectives");
    ASSERT_EQ(2, cJSON_GetArraySize(rows));
    const cJSON *row = cJSON_GetArrayItem(rows, 0);
    EXPECT_EQ("tree", String(cJSON_GetObjectItem(row, "choice"), "algorithm"));
    EXPECT_EQ("ring", String(cJSON_GetObjectItem(row, "auto"), "algorithm"));
    EXPECT_EQ(2, Number(row, "line"));
    EXPECT_EQ(4, Number(row, "ranks"));
    EXPECT_EQ("", String(row, "comm"));
    EXPECT_EQ(2, Number(root.get(), "asked"));
    EXPECT_EQ(2, Number(root.get(), "run"));
    EXPECT_TRUE(cJSON_IsFalse(cJSON_GetObjectItem(root.get(), "modelled")));
}

} // namespace
