// steptune learn: jobs in words, strategies compared, and what is refused.
#include <regex>

#include "support/cli_fixture.h"

namespace
{

using namespace cli;
using namespace testing;

const std::string kQuick = "learn --plugin " STP_LEARNER
                           " --strategies try,stay --steps 100 --seeds 2 "
                           "--job allgather:4M,allreduce:64M:50 ";

TEST_F(Cli, LearnComparesStrategiesWithNcclAndAnOracle)
{
    Outcome o = Run(kQuick);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out,
                StartsWith("100 steps of allgather:4M,allreduce:64M:50 on the "
                           "recorded machine h200x4 in mock NCCL, not on GPUs; "
                           "2 seeds; steps are virtual: 0 of 1600 times of "
                           "their collectives are modelled\n\nstrategy "));
    for (const char *row :
         {"\ntry +2 +27 +",
          "\nstay +2 +0 +0 +0 +0 +0 +0 of 4 +\\+0.00 +\\+0.00 ",
          "\nAUTO +2 +0 +0 +0 +0 +0 +0 of 4 ",
          "\noracle +2 +0 +0 +0 +0 +0 +0 of 4 +-",
          "\nmessage +best arm +over AUTO +try finds it +stay finds it\n",
          "\nallgather 4M +ring/ll128 +1.372x +2 of 2 \\([0-9]+\\) +0 of 2 "
          "\\(0\\)\n"})
        EXPECT_TRUE(std::regex_search(o.out, std::regex(row))) << row << "\n"
                                                               << o.out;
    EXPECT_TRUE(std::regex_search(
        o.out,
        std::regex("\n\ntry: the last fifth of the steps, trials included, is "
                   "[0-9.]+x as fast as with NCCL's own choice \\([0-9.]+ to "
                   "[0-9.]+\\), and slower beyond doubt in 0 of 2 jobs\\."
                   "\nstay: [^\n]+ is 1.000x [^\n]+\n$")))
        << o.out;
    EXPECT_EQ(14u, Count(o.out, "\n"));
}

TEST_F(Cli, LearnKnowsJobsByNameAndRepeatsCollectives)
{
    auto rows = [](const std::string &out) {
        return out.substr(out.find('\n'));
    };
    const std::string learn = "learn --on h200x2 --plugin " STP_LEARNER
                              " --strategies try --steps 50 --seeds 1 ";
    Outcome named = Run(learn + "--job torch-step");
    Outcome list = Run(learn + "--compute 0 --job 5xallreduce:2M:181,"
                               "allreduce:2M:181,6xallreduce:2M:181");

    ASSERT_EQ(0, named.status) << named.err;
    EXPECT_THAT(named.out, StartsWith("50 steps of torch-step on "));
    EXPECT_THAT(named.out, HasSubstr("\nallreduce 2M  "));
    EXPECT_EQ(rows(list.out), rows(named.out));
}

// The oracle's gain is that of collectives of which the step consists.
TEST_F(Cli, LearnPlaysWhatBoundsTheJob)
{
    const struct {
        const char *options;
        const char *oracle; // final gain
    } cases[] = {
        {"", "1\\.06[0-9]"}, // the GPUs: the collective and 150 us
        {"--sync-every 1", "1\\.06[0-9]"},
        {"--launches 60", "1\\.000"}, // the host, in 720 us
        {"--host-us 120", "1\\.000"},
        {"--host-us 120 --graph", "1\\.06[0-9]"}, // one launch
    };
    for (const auto &c : cases) {
        Outcome o = Run(std::string("learn --on h200x4 --plugin " STP_LEARNER
                                    " --strategies stay --seeds 1 --steps 200 "
                                    "--compute 0 --compute-noise 0 "
                                    "--job 12xallgather:4M:150 ") +
                        c.options);
        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_TRUE(std::regex_search(
            o.out,
            std::regex("\noracle .* 1 of 1 +" + std::string(c.oracle) + " ")))
            << c.options << o.out;
    }
}

// The time in which GPUs stand still is charged to no arm: as it was, a trial
// after such a pause waited for seconds.
TEST_F(Cli, LearnSettlesThoughGpusStandStill)
{
    const Outcome o = Run("learn --on h100x2 --job ddp --steps 1000 --seeds 4 "
                          "--strategies halving --stalls 6%");
    int settled = 0;

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_TRUE(std::regex_search(
        o.out, std::regex("\nhalving .* 0 of 4 .* 4 of 4 .* 0\n")))
        << o.out;
    const size_t row = o.out.find("\nhalving ");
    ASSERT_EQ(1, sscanf(&o.out[row], " halving 1 %*d %d", &settled)) << o.out;
    EXPECT_LT(settled, 4500);
}

TEST_F(Cli, LearnRepeatsItselfExactly)
{
    const std::string first = Run(kQuick).out;

    EXPECT_EQ(first, Run(kQuick).out);
    EXPECT_NE(first, Run(kQuick + "--seed 9").out);
}

TEST_F(Cli, LearnWritesJson)
{
    Outcome o = Run(kQuick + "--json");

    ASSERT_EQ(0, o.status) << o.err;
    std::unique_ptr<cJSON, void (*)(cJSON *)> json(cJSON_Parse(o.out.c_str()),
                                                   cJSON_Delete);
    ASSERT_NE(nullptr, json);
    cJSON *rows = cJSON_GetObjectItem(json.get(), "strategies");
    ASSERT_EQ(4, cJSON_GetArraySize(rows));
    cJSON *stay = cJSON_GetArrayItem(rows, 1);
    EXPECT_STREQ("stay",
                 cJSON_GetStringValue(cJSON_GetObjectItem(stay, "strategy")));
    EXPECT_EQ(0, cJSON_GetNumberValue(cJSON_GetObjectItem(stay, "lost")));
    EXPECT_EQ(4, cJSON_GetNumberValue(cJSON_GetObjectItem(stay, "finals")));
    cJSON *messages = cJSON_GetObjectItem(stay, "messages");
    ASSERT_EQ(2, cJSON_GetArraySize(messages));
    cJSON *gather = cJSON_GetArrayItem(messages, 0);
    EXPECT_STREQ("ring/ll128",
                 cJSON_GetStringValue(cJSON_GetObjectItem(gather, "best_arm")));
    EXPECT_EQ(0, cJSON_GetNumberValue(cJSON_GetObjectItem(gather, "best")));
}

TEST_F(Cli, LearnLeavesNoPolicyOfWhatItPlayed)
{
    Outcome o = Run("learn --on h200x4 --strategies halving --objective gpu "
                    "--job allgather:4M --steps 600 --seeds 1");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_TRUE(std::regex_search(o.out, std::regex("\nhalving .* 1 of 1 ")))
        << o.out;
    EXPECT_THAT(Files(), IsEmpty());
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// The learner then listens to no profiler: it settles by the file alone.
TEST_F(Cli, LearnLetsTheJobWriteRewardsAndCleansUp)
{
    Set("TMPDIR", dir_);
    Outcome o = Run(kQuick + "--objective file");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_TRUE(std::regex_search(o.out, std::regex("\ntry .* 4 of 4 ")))
        << o.out;
    EXPECT_THAT(Files(), IsEmpty());
}

// Epsilon-greedy takes rewards from a file alone, which an objective that is
// not given must provide: without any it tries arms for ever, and is called
// worse.
TEST_F(Cli, LearnGivesEpsilonItsRewardsByDefault)
{
    Set("TMPDIR", dir_);
    const std::string job = "learn --on h200x4 --seeds 1 --steps 400 --job "
                            "allgather:4M --strategies ";
    auto row = [](const std::string &out, const char *strategy) {
        std::smatch match;
        std::regex_search(out, match,
                          std::regex("\n" + std::string(strategy) + " .*"));
        return match.str();
    };
    Outcome both = Run(job + "epsilon,halving");

    ASSERT_EQ(0, both.status) << both.err;
    EXPECT_EQ(row(Run(job + "epsilon --objective file").out, "epsilon"),
              row(both.out, "epsilon"));
    EXPECT_EQ(row(Run(job + "halving").out, "halving"),
              row(both.out, "halving"))
        << "which has a clock";
    Set("STEPTUNE_JOURNAL", dir_ / "journal.csv");
    Run(job + "epsilon");
    EXPECT_THAT(Read("journal.csv"), HasSubstr(",reward,"));
    EXPECT_THAT(Files(), ElementsAre("journal.csv"));
}

TEST_F(Cli, LearnRetestsToTheEndOfTheJob)
{
    Set("STEPTUNE_RETEST", "100");
    Set("STEPTUNE_JOURNAL", dir_ / "journal.csv");
    ASSERT_EQ(0, Run("learn --on h200x4 --job allgather:4M --strategies "
                     "halving --seeds 1 --steps 20000")
                     .status);
    const std::string journal = Read("journal.csv");
    const std::regex trial(",trial,[0-9]+,allgather,[0-9]+,[0-9]+,auto");

    EXPECT_THAT(std::distance(
                    std::sregex_iterator(journal.begin(), journal.end(), trial),
                    std::sregex_iterator()),
                AllOf(Ge(5), Le(8)))
        << "ever less often";
}

const std::string kTraced =
    "learn --plugin " STP_LEARNER " --strategies stay --steps 20 --seeds 2 "
    "--trace " STP_FIXTURES "/traces/";

TEST_F(Cli, LearnPlaysAStepOfATrace)
{
    Outcome o = Run(kTraced + "torch_ddp_et.json.gz --on h200x2");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("execution trace: 8 collectives, 16 GEMMs\n"
                                  "not played, 4 rows: "));
    EXPECT_THAT(o.out, HasSubstr("\n20 steps of torch_ddp_et.json.gz on the "
                                 "recorded machine h200x2"));
    for (const char *message : {"\nbroadcast 432 ", "\nallreduce 7.816M ",
                                "\nallreduce 30.04M ", "\nallreduce 9.274M "})
        EXPECT_THAT(o.out, HasSubstr(message));

    Outcome groups = Run(kTraced + "groups.csv --on h200x4");
    EXPECT_EQ(1, groups.status);
    EXPECT_THAT(
        groups.err,
        HasSubstr("groups.csv: a job of groups of 2 ranks, but a played "
                  "one has one communicator, of all ranks: take a "
                  "machine of 2 ranks"));
    EXPECT_EQ(2, Run(kTraced + "groups.csv --job allreduce:8").status);
}

// Below 8 B and above 1 GiB every time is modelled, and none is the best.
TEST_F(Cli, LearnTakesSizesThatWereNotRecorded)
{
    for (const char *job :
         {"allreduce:4", "allreduce:2G", "reducescatter:8G"}) {
        Outcome o = Run("learn --plugin " STP_LEARNER
                        " --strategies stay --steps 20 --seeds 1 --job " +
                        std::string(job));
        EXPECT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.out, HasSubstr(" 1.000x "));
    }
}

TEST_F(Cli, LearnSaysWhatItCannotTake)
{
    ExpectRefusals(
        "learn ",
        {
            {"--job allfoo:4M", 2,
             "steptune learn: --job 'allfoo:4M', expected COLLECTIVE:SIZE with "
             "one of broadcast, reduce, allgather, reducescatter, allreduce; "
             "or, alone, one of torch-step, torch-host, ddp, fsdp, megatron\n"},
            {"--job a23456789012345678901234567890123456789012345678901", 2,
             "--job 'a23456789012345678901234567890123456789012345678...', "
             "expected COLLECTIVE:SIZE"},
            {"--job allreduce", 2, "expected a size such as 4M after"},
            {"--job allreduce:4M:x", 2,
             "expected microseconds of compute after"},
            {"--job allreduce:4M,", 2, "--job '', expected COLLECTIVE:SIZE"},
            {"--job 300xallreduce:4M", 2, "expected 1 to 256 collectives"},
            {"--job 0xallreduce:4M", 2, "expected 1 to 256 collectives"},
            {"--job 200xallreduce:4M,57xallreduce:4M", 2,
             "expected 1 to 256 collectives"},
            {"--job torch", 2, "--job 'torch', expected COLLECTIVE:SIZE"},
            {"--launches 0", 2, "--launches '0'"},
            {"--host-us 0", 2, "--host-us '0', expected microseconds"},
            {"--launch-ahead 5", 1,
             "a queue of 5 launches, but a collective and its compute are 6"},
            {"--strategies epsilon,,halving", 2, "expected words such as"},
            {"--strategies ucb", 2, "'ucb', expected halving, epsilon"},
            {"--objective money", 2, "expected auto, gpu or file"},
            {"--steps 19", 2, "--steps '19'"},
            {"--seeds 0", 2, "--seeds '0'"},
            {"--compute -1", 2, "--compute '-1', expected microseconds"},
            {"--compute-noise lots", 2,
             "expected a share from 0% to 100% such as 5%"},
            {"--nccl 1.0", 2, "--nccl '1.0', expected 2.21 to 2.32"},
            {"more", 2, "'more', expected options only"},
            {"--on nowhere", 77, "no recorded machine 'nowhere'"},
            {"--plugin /nowhere.so", 1,
             "'/nowhere.so' has no tuner that this NCCL would take"},
        });
}

} // namespace
