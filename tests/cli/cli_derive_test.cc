// steptune derive, of training iterations and of hosts, as a user runs it.
#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kHead =
    "# steptune iterate\n# machine: m\n# gpu: G\n# nccl: 2.28.9\n"
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,"
    "median_us,ran_algorithm,ran_protocol,mode,compute,layers,ratio,m,n,k\n";

// Two rounds at 8 MiB: AUTO takes 100 us, the arm simple 'us'.
std::string Rounds(const std::string &coll, const std::string &workload,
                   const std::string &us)
{
    std::string rows;
    for (const char *round : {"0", "1"})
        for (bool simple : {false, true})
            rows += coll + ",8388608," + round +
                    (simple ? ",auto,simple,0,1,2," + us + ",ring,simple,"
                            : std::string(",auto,auto,0,1,2,100,ring,ll128,")) +
                    workload + "\n";
    return rows;
}

std::string Of(const std::string &workload, const std::string &us)
{
    return Rounds("allreduce", workload, us);
}

class DeriveIterations : public Cli
{
};

TEST_F(DeriveIterations, PolicyNamesWorkloadsAndPairs)
{
    Write("rounds.csv", kHead + Of("overlap,gemm,8,1,9,9,9", "80") +
                            Of("overlap,gemm,8,0,64,32,16", "80") +
                            Of("sequential,training,1,0.5,9,9,9", "80"));

    Outcome o = Run("derive --objective iteration rounds.csv");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_EQ("# steptune derive\n"
              "# policy hash: b9d2dd265c6d833e\n"
              "# from times of iterations on m (G, NCCL 2.28.9): 12 measured\n"
              "# A rule stands where its gain over NCCL's own choice is at "
              "least 2 percent with 95 percent confidence, and goes on at "
              "neighbouring sizes where its arm is faster by less, with the "
              "same confidence.\n"
              "# 6 rounds; AUTO spreads by 0.00 percent (worst size 0.00); "
              "gains from 0.00 percent up stand out from noise\n"
              "# Gains are of training iterations, over all rounds of these "
              "workloads, of which none is slower beyond noise:\n"
              "#   sequential, 1 layer, training, ratio 0.5\n"
              "#   overlap, 8 layers, gemm of 64 x 32 x 16\n"
              "#   overlap, 8 layers, gemm, ratio 1\n"
              "collective,min_bytes,max_bytes,algorithm,protocol,channels,"
              "nNodes,nRanks,gpu\n"
              "\n"
              "# 8388608 B: ring/ll128 100.0 us -> 80.0 us, gain 1.250 (1.250 "
              "to 1.250), 6 rounds measured\n"
              "allreduce,8388608,8388608,ring,simple,-1,1,2,G\n",
              o.out);
}

TEST_F(DeriveIterations, FsdpHasRulesForBothCollectives)
{
    Write("rounds.csv",
          kHead + Rounds("allgather", "fsdp,gemm,8,1,9,9,9", "80"));

    Outcome o = Run("derive --objective iteration rounds.csv");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("#   fsdp, 8 layers, gemm, ratio 1\n"
                                 "# In fsdp allgather and reducescatter ran "
                                 "with the same arm, so that both have its "
                                 "rules.\n"));
    EXPECT_THAT(o.out, HasSubstr("\nallgather,8388608,8388608,ring,simple,"));
    EXPECT_THAT(o.out,
                HasSubstr("\nreducescatter,8388608,8388608,ring,simple,"));
}

TEST_F(DeriveIterations, SlowerInOneWorkloadIsNoRule)
{
    Write("rounds.csv", kHead + Of("overlap,gemm,8,1,9,9,9", "50") +
                            Of("overlap,gemm,8,2,9,9,9", "110"));

    Outcome o = Run("derive --objective iteration rounds.csv");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("# No rule: no arm makes iterations shorter "
                                 "beyond doubt at any size.\n"));
    EXPECT_THAT(o.out, Not(HasSubstr("\nallreduce")));
}

TEST_F(DeriveIterations, JsonHasObjectiveAndWorkloads)
{
    Write("rounds.csv", kHead + Of("overlap,gemm,8,1,9,9,9", "80") +
                            Of("overlap,training,8,0,64,32,16", "80"));

    Json json =
        Parse(Run("derive --objective iteration --json rounds.csv").out);

    EXPECT_EQ("iteration", String(json.get(), "objective"));
    const cJSON *works = cJSON_GetObjectItem(json.get(), "workloads");
    ASSERT_EQ(2, cJSON_GetArraySize(works));
    EXPECT_EQ("overlap", String(cJSON_GetArrayItem(works, 0), "mode"));
    EXPECT_EQ(1, Number(cJSON_GetArrayItem(works, 0), "ratio"));
    EXPECT_FALSE(cJSON_HasObjectItem(cJSON_GetArrayItem(works, 0), "m"));
    EXPECT_EQ("training", String(cJSON_GetArrayItem(works, 1), "compute"));
    EXPECT_EQ(32, Number(cJSON_GetArrayItem(works, 1), "n"));
    EXPECT_EQ(1, cJSON_GetArraySize(cJSON_GetObjectItem(json.get(), "rules")));
}

TEST_F(DeriveIterations, RecordedMachinesWillDo)
{
    Outcome o = Run("derive --objective iteration " STP_FIXTURES
                    "/machines/h200x4/overlap.csv -o p.conf");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("From times of iterations on a machine "
                                  "without a name: 1440 recorded\n"));
    EXPECT_THAT(Read("p.conf"),
                HasSubstr("#   overlap, 8 layers, gemm of 2048 x 2048 x 704"));
}

TEST_F(DeriveIterations, SaysWhatItWants)
{
    Write("rounds.csv", kHead + Of("overlap,gemm,8,1,9,9,9", "80"));
    Write("s.csv", "collective,bytes,round,algorithm,protocol,nNodes,nRanks,"
                   "median_us\nallreduce,64,0,auto,auto,1,4,5\n");
    Write("summary.csv", "setting,arm\noverlap_8M,auto\n");

    ExpectRefusals(
        "", {
                {"derive rounds.csv", 1,
                 "steptune derive: no times of collectives alone, expected "
                 "those of "
                 "`steptune sweep`: all 4 are of iterations, which are for the "
                 "objective iteration\n"},
                {"derive --objective iteration s.csv", 1,
                 "steptune derive: no times of iterations, expected those of "
                 "`steptune "
                 "iterate`: all 1 are of collectives alone\n"},
                {"derive summary.csv", 1,
                 "steptune derive: summary.csv:1:1: a summary of iterations, "
                 "expected "
                 "the measurements themselves: rounds.csv beside it\n"},
                {"plot rounds.csv", 1,
                 "steptune plot: rounds.csv: times of iterations, expected "
                 "those of "
                 "collectives alone: `steptune iterate -o DIR` plots "
                 "iterations as it "
                 "measures them\n"},
            });
    Outcome o = Run("derive --objective step rounds.csv");
    EXPECT_EQ(2, o.status);
    EXPECT_THAT(o.err, HasSubstr("--objective 'step', expected time or "
                                 "iteration"));
}

// ---- several hosts ----

TEST_F(Cli, DerivesRulesForTheHostsThatWereMeasured)
{
    Outcome o = Run("derive " STP_FIXTURES
                    "/reports/h100_two_hosts/steptune.sweep.csv");

    EXPECT_EQ(0, o.status) << o.err;
    std::stringstream lines(o.out);
    std::vector<std::string> rules;
    for (std::string line; std::getline(lines, line);)
        if (line.find(",2,2,NVIDIA H100 80GB HBM3") != std::string::npos)
            rules.push_back(line.substr(0, line.find(",-1,2,2,")));
    EXPECT_THAT(rules, ElementsAre("allgather,13777,17854,pat,simple",
                                   "allgather,19457,55106,ring,ll",
                                   "allgather,55107,311726,pat,simple",
                                   "allreduce,1024,27553,tree,ll",
                                   "allreduce,27554,881734,tree,simple"));
}

} // namespace
