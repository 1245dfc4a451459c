// steptune derive, of what others measured, as a user runs it.
#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

// What all_reduce_perf prints on two GPUs, or more.
std::string Text(double us, double us2, unsigned ranks = 2)
{
    std::stringstream s;
    s << "# nccl-tests version 2.19.6 nccl-headers=22809 nccl-library=22809\n"
         "# Collective test starting: all_reduce_perf\n"
         "# nThread 1 nGpus "
      << ranks << " warmup iters: 1 iters: 20 agg iters: 1\n# Using devices\n";
    for (unsigned i = 0; i < ranks; i++)
        s << "#  Rank  " << i << " Group  0 Pid 9 on  vm device  " << i
          << " [0000:00:06] NVIDIA H200\n";
    s << "#  size  count  type  redop  root  time  algbw  busbw  #wrong  time  "
         "algbw  busbw  #wrong\n"
      << " 1024 256 float sum -1 " << us << " 0 0 0 " << us << " 0 0 0\n"
      << " 4096 1024 float sum -1 " << us2 << " 0 0 0 " << us2 << " 0 0 0\n";
    return s.str();
}

class DeriveOthers : public Cli
{
  protected:
    // Three runs each of NCCL's own choice and of one arm.
    void WriteRuns()
    {
        Write("a1", Text(100, 50));
        Write("a2", Text(101, 50));
        Write("a3", Text(102, 50));
        Write("r1", Text(80, 40));
        Write("r2", Text(81, 40));
        Write("r3", Text(80, 40));
    }
};

const std::string kRuns = "derive --arm auto=a1 --arm auto=a2 --arm auto=a3 "
                          "--arm ring/ll128=r1 --arm ring/ll128=r2 "
                          "--arm ring/ll128=r3 ";

TEST_F(DeriveOthers, RunsOfNcclTestsAreRoundsIfTheyAreTrusted)
{
    WriteRuns();

    Outcome o = Run(kRuns + "--trust-passes");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_EQ(
        "# steptune derive\n"
        "# policy hash: 6719ed583ed305d2\n"
        "# from times of vm (NVIDIA H200, NCCL 2.28.9): 24 measured, 24 of 24 "
        "in "
        "single passes\n"
        "# A rule stands where its gain over NCCL's own choice is at least 2 "
        "percent with 95 percent confidence, and goes on at neighbouring "
        "sizes where its arm is faster by less, with the same confidence.\n"
        "# 3 rounds; AUTO spreads by 0.50 percent (worst size 0.99); drift "
        "from first to last third +1.00 percent (worst size +2.00); gains from "
        "1.53 percent up stand out from noise\n"
        "# Arms ran one after the other and not in interleaved rounds: drift "
        "between runs is in these numbers.\n"
        "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,"
        "nRanks,gpu\n"
        "\n"
        "# 1024 B: auto 101.0 us -> 80.3 us, gain 1.257 (1.220 to 1.296), 3 "
        "rounds measured, single pass\n"
        "# 4096 B: auto 50.0 us -> 40.0 us, gain 1.250 (1.250 to 1.250), 3 "
        "rounds measured, single pass\n"
        "allreduce,1024,4096,ring,ll128,-1,1,2,NVIDIA H200\n",
        o.out);
}

TEST_F(DeriveOthers, ExtrapolatesToAllSizesAndInPortableFormByNumbers)
{
    WriteRuns();

    Outcome o = Run(kRuns + "--trust-passes --extrapolate");
    EXPECT_THAT(o.out, HasSubstr("\nallreduce,0,inf,ring,ll128,-1,1,2,NVIDIA "
                                 "H200\n"));

    o = Run(kRuns + "--trust-passes --extrapolate --portable -o p.conf");
    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("\n3 rounds; AUTO spreads by 0.50 percent"));
    EXPECT_THAT(o.out, HasSubstr("allreduce           0        inf"));
    EXPECT_THAT(Read("p.conf"),
                HasSubstr("\nallreduce,0,18446744073709551615,ring,ll128,-1,1,"
                          "2\n"));
    o = Run("explain --policy p.conf --on h200x2 --json");
    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("ll128"));
}

TEST_F(DeriveOthers, FewerThanThreeRunsDecideNothing)
{
    WriteRuns();

    Outcome o = Run("derive --trust-passes --arm auto=a2 --arm auto=a3 --arm "
                    "ring/ll128=r1 --arm ring/ll128=r3");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.out, HasSubstr("# Fewer than 3 runs of an arm have no "
                                 "interval, and decide nothing.\n"));
    EXPECT_THAT(o.out, HasSubstr("\n# No rule: "));
    EXPECT_THAT(o.err, HasSubstr("steptune derive: warning: fewer than 3 runs "
                                 "of an arm have no interval, and decide "
                                 "nothing\n"));
}

TEST_F(DeriveOthers, FilesOfSeveralGpuCountsGiveRulesByRanks)
{
    WriteRuns();
    for (const char *name : {"b1", "b2", "b3"})
        Write(name, Text(30, 60, 4));
    for (const char *name : {"s1", "s2", "s3"})
        Write(name, Text(30, 20, 4));

    Outcome o =
        Run(kRuns + "--trust-passes --portable --arm auto=b1 --arm auto=b2 "
                    "--arm auto=b3 --arm tree/simple=s1 --arm tree/simple=s2 "
                    "--arm tree/simple=s3");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("\nallreduce,1024,4096,ring,ll128,-1,1,2\n"));
    EXPECT_THAT(o.out, HasSubstr("\nallreduce,2049,4096,tree,simple,-1,1,4\n"));
    EXPECT_EQ(2u, Count(o.out, "\nallreduce,"));
}

TEST_F(DeriveOthers, OurFilesOfSeveralGpuCountsGiveRulesByRanks)
{
    for (const char *ranks : {"2", "4"}) {
        std::string csv = "# gpu: G\ncollective,bytes,round,algorithm,protocol,"
                          "nNodes,nRanks,median_us\n";
        for (const char *round : {"0", "1", "2"})
            csv += std::string("allreduce,64,") + round + ",auto,auto,1," +
                   ranks + ",10\nallreduce,64," + round +
                   (*ranks == '2' ? ",ring,ll,1," : ",tree,ll,1,") + ranks +
                   ",5\n";
        Write(ranks, csv);
    }

    Outcome o = Run("derive 4 2");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("\nallreduce,64,64,ring,ll,-1,1,2,G\n"));
    EXPECT_THAT(o.out, HasSubstr("\nallreduce,64,64,tree,ll,-1,1,4,G\n"));
}

TEST_F(DeriveOthers, WarnsOfNoiseAndSaysHowManyRoundsWouldDo)
{
    std::string csv = "collective,bytes,round,algorithm,protocol,nNodes,nRanks,"
                      "median_us\n";
    for (const char *row :
         {"0,auto,auto,1,2,100", "0,ring,ll,1,2,100", "1,auto,auto,1,2,100",
          "1,ring,ll,1,2,95", "2,auto,auto,1,2,100", "2,ring,ll,1,2,105"})
        csv += std::string("allreduce,64,") + row + "\n";
    Write("s.csv", csv);

    Outcome o = Run("derive s.csv --json");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.err, StrEq("steptune derive: warning: too noisy for "
                             "--min-gain 2%: only gains from 13.24 percent up "
                             "stand out; about 27 rounds would do\n"));
    Json json = Parse(o.out);
    const cJSON *s = cJSON_GetObjectItem(json.get(), "statistics");
    EXPECT_EQ(3, Number(s, "min_rounds"));
    EXPECT_EQ(0, Number(s, "drift"));
    EXPECT_NEAR(0.1324, Number(s, "resolved_gain"), 5e-5);

    EXPECT_THAT(Run("derive s.csv --min-gain 14%").err, IsEmpty());
}

TEST_F(DeriveOthers, SaysWhatItWants)
{
    const std::string head = "collective,size_bytes,algorithm,protocol,"
                             "channels,nodes,ranks,latency_us\n";
    WriteRuns();
    Write("n.csv", head + "allreduce,64,ring,ll,-1,1,4,9\n");
    Write("s.csv", "collective,bytes,round,algorithm,protocol,nNodes,nRanks,"
                   "median_us\nallreduce,64,0,auto,auto,1,4,5\n");

    ExpectRefusals(
        "derive ",
        {
            {"a1", 1,
             "steptune derive: a1: NCCL did not log what it ran at every size "
             "(NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=TUNING,ENV), expected its arm "
             "by "
             "name, such as --arm auto=FILE or --arm ring/ll128=FILE\n"},
            {"--arm auto=a1", 1,
             "steptune derive: these are runs of one arm after the other, of "
             "which "
             "drift may be the gain, expected --trust-passes to use them all "
             "the "
             "same\n"},
            {"--trust-passes --arm ring/ll=a1", 1,
             "steptune derive: no run of NCCL's own choice to compare with, "
             "expected one, such as --arm auto=FILE\n"},
            {"--trust-passes --arm auto=a1 --arm auto=./a1", 1,
             "steptune derive: ./a1: given twice, its rounds would count "
             "twice\n"},
            {"n.csv", 1,
             "steptune derive: n.csv:1:1: NVIDIA's performance data, which "
             "have no times of NCCL's own choice, expected measurements of "
             "`steptune sweep` or nccl-tests' text\n"},
            {"--arm auto=a1 s.csv", 1,
             "steptune derive: s.csv: measurements of Steptune, expected text "
             "of nccl-tests as in the file before\n"},
            {"--arm auto=s.csv", 1,
             "steptune derive: s.csv: measurements of Steptune, which name "
             "their "
             "arms, expected text of nccl-tests for --arm\n"},
            {"--arm a1", 2,
             "steptune derive: --arm 'a1', expected auto=FILE or "
             "ALGORITHM/PROTOCOL[/CHANNELS]=FILE\n"},
            {"--arm rnig/ll=a1", 2, "steptune derive: --arm 'rnig/ll=a1', "},
            {"", 2, "steptune derive: no measurements, expected "},
        });
}

} // namespace
