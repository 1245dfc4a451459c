// steptune as a user runs it: arguments in, output, files and exit status out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace
{

namespace fs = std::filesystem;
using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;
using testing::StrEq;

struct Outcome {
    int status = -1;
    std::string out;
    std::string err;
};

class Cli : public testing::Test
{
  protected:
    void SetUp() override
    {
        std::string dir = testing::TempDir() + "steptune-cli-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(dir.data()));
        dir_ = dir;
        for (const char *name :
             {"NCCL_TUNER_CONFIG_FILE", "NCCL_WORKLOAD_OVERLAP",
              "STEPTUNE_OVERLAP_CONFIG_FILE", "STEPTUNE_GPU",
              "STEPTUNE_MACHINES"})
            unsetenv(name);
    }
    void TearDown() override
    {
        fs::remove_all(dir_);
    }

    // Runs it in the test's folder.
    Outcome Run(const std::string &arguments) const
    {
        Outcome o;
        std::string command = "cd '" + dir_.string() +
                              "' && " STP_STEPTUNE " " + arguments +
                              " >out 2>err </dev/null";
        int status = std::system(command.c_str());
        o.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
        o.out = Read("out");
        o.err = Read("err");
        fs::remove(dir_ / "out");
        fs::remove(dir_ / "err");
        return o;
    }

    std::string Read(const char *name) const
    {
        std::stringstream s;
        s << std::ifstream(dir_ / name).rdbuf();
        return s.str();
    }

    void Write(const char *name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
    }

    std::vector<std::string> Files() const
    {
        std::vector<std::string> names;
        for (const auto &entry : fs::directory_iterator(dir_))
            names.push_back(entry.path().filename());
        std::sort(names.begin(), names.end());
        return names;
    }

    fs::path dir_;
};

using Json = std::unique_ptr<cJSON, decltype(&cJSON_Delete)>;

Json Parse(const std::string &text)
{
    return Json(cJSON_Parse(text.c_str()), cJSON_Delete);
}

std::string String(const cJSON *object, const char *key)
{
    const char *s =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return s != nullptr ? s : "";
}

double Number(const cJSON *object, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItemCaseSensitive(object, key));
}

// ---- tune ----

struct GainCase {
    const char *collective;
    double bytes;
    double gain;
    const char *choice; // algorithm/protocol
};

TEST_F(Cli, TuneFindsTheRecordedGainsAndIsNowhereSlower)
{
    // As measured on 4 x H200: medians of four interleaved rounds.
    const GainCase known[] = {{"allgather", 3905536, 1.38, "ring/ll128"},
                              {"reducescatter", 3905536, 1.20, "ring/ll"},
                              {"allreduce", 9536512, 1.07, "ring/ll128"}};

    Outcome o = Run("tune --on h200x4 --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    ASSERT_NE(nullptr, root);
    std::map<std::string, int> verdicts;
    size_t found = 0;
    const cJSON *size;
    cJSON_ArrayForEach(size, cJSON_GetObjectItem(root.get(), "sizes"))
    {
        verdicts[String(size, "verdict")]++;
        const cJSON *choice = cJSON_GetObjectItem(size, "choice");
        for (const GainCase &c : known)
            if (String(size, "collective") == c.collective &&
                Number(size, "bytes") == c.bytes) {
                found++;
                EXPECT_NEAR(c.gain, Number(size, "gain"), 0.015);
                EXPECT_EQ(c.choice, String(choice, "algorithm") + "/" +
                                        String(choice, "protocol"));
            }
    }
    EXPECT_EQ(3u, found);
    EXPECT_EQ(0, verdicts["SLOWER"]);
    EXPECT_GT(verdicts["faster"], 20);
    EXPECT_GT(verdicts["same"], 50) << "where NCCL is best it is left alone";
    EXPECT_THAT(Files(), ElementsAre("steptune.conf", "steptune.report.txt",
                                     "steptune.sweep.csv"));
}

TEST_F(Cli, TuneSaysFirstThatRecordedTimesAreRecorded)
{
    Outcome o = Run("tune --collective allreduce");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h200x4: 4 x NVIDIA H200, NCCL 2.28.9; "
                                  "recorded times in mock NCCL, not a live "
                                  "measurement\n"));
    EXPECT_THAT(o.out, HasSubstr("/libnccl-tuner-steptune.so\n"));
    EXPECT_THAT(o.out, HasSubstr("export NCCL_TUNER_CONFIG_FILE=" +
                                 (dir_ / "steptune.conf").string()));
    EXPECT_THAT(o.err, IsEmpty()) << "no progress bar into a pipe";
}

TEST_F(Cli, TuneGivesTheSameTwiceAndOtherDrawsForAnotherSeed)
{
    Outcome a = Run("tune --collective allreduce -n 5 -o a.conf");
    Outcome b = Run("tune --collective allreduce -n 5 -o b.conf");
    Outcome c = Run("tune --collective allreduce -n 5 -o c.conf --seed 2");

    EXPECT_EQ(0, a.status);
    EXPECT_EQ(Read("a.sweep.csv"), Read("b.sweep.csv"));
    EXPECT_NE(Read("a.sweep.csv"), Read("c.sweep.csv"));
}

// Between two sizes NCCL's own choice changes to something better than the arm
// that won at the first: a rule that reaches halfway would lose there.
TEST_F(Cli, TuneDropsARuleThatLosesBetweenTheSizesMeasured)
{
    fs::create_directory(dir_ / "m");
    for (const char *file : {"machine.csv", "graphs.xml"})
        fs::copy(fs::path(STP_FIXTURES "/machines/h200x4") / file,
                 dir_ / "m" / file);
    std::string csv = "# made for this test\n"
                      "collective,bytes,algorithm,protocol,channels,nRanks,run,"
                      "round,iters,mean_us,median_us,p95_us,min_us\n";
    struct Row {
        const char *bytes, *proto;
        double us;
    };
    for (const Row &r :
         {Row{"2400000", "ll", 60}, Row{"2400000", "ll128", 52},
          Row{"2400000", "simple", 50}, Row{"3600000", "ll", 90},
          Row{"3600000", "ll128", 55}, Row{"3600000", "simple", 62}})
        for (int round = 1; round <= 3; round++) {
            std::string us = std::to_string(r.us + 0.01 * round);
            csv += std::string("allreduce,") + r.bytes + ",ring," + r.proto +
                   ",0,4,window," + std::to_string(round) + ",20," + us + "," +
                   us + "," + us + "," + us + "\n";
        }
    Write("m/timings.csv", csv);

    Outcome o = Run("tune --on ./m");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr(" 0 slower"));
    EXPECT_THAT(o.out, HasSubstr("Wrote steptune.conf (0 rules)"));
    EXPECT_THAT(Read("steptune.report.txt"),
                HasSubstr("1 further rules were dropped"));
    EXPECT_THAT(Read("steptune.conf"), HasSubstr("# No rule: "));
}

TEST_F(Cli, TuneRefusesToMakeAPolicyOfAModel)
{
    Outcome o = Run("tune --on h100x8");

    EXPECT_EQ(77, o.status);
    EXPECT_THAT(o.err, HasSubstr("machine 'h100x8' was never timed in "
                                 "interleaved rounds"));
    EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(Cli, TuneLeavesNothingBehindWhereItCannotWrite)
{
    Outcome o = Run("tune --collective allreduce -n 2 -o no/such/folder.conf");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, StartsWith("steptune tune: cannot write "
                                  "'no/such/folder.sweep.csv'"));
    EXPECT_THAT(Files(), IsEmpty());
}

// ---- sweep, derive, verify ----

TEST_F(Cli, SweepDeriveAndVerifyAreTheStepsOfTune)
{
    ASSERT_EQ(0, Run("sweep --collective allgather -o s.csv").status);
    Outcome derived = Run("derive s.csv -o p.conf");
    Outcome verified = Run("verify p.conf");

    ASSERT_EQ(0, derived.status) << derived.err;
    EXPECT_THAT(derived.out, HasSubstr("ring/ll128"));
    EXPECT_EQ(0, verified.status) << verified.err;
    EXPECT_THAT(verified.out, HasSubstr(" 0 slower"));
    EXPECT_THAT(verified.out, HasSubstr("interpolated"))
        << "sizes that derive did not see";
}

TEST_F(Cli, DerivePrintsThePolicyIfItHasNowhereToGo)
{
    ASSERT_EQ(0, Run("sweep --collective allgather -o s.csv").status);

    Outcome o = Run("derive s.csv --portable --min-gain 30%");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(o.out, HasSubstr("\nallgather,"));
    EXPECT_THAT(o.out, HasSubstr(",ring,ll128,-1,1,4\n"));
    EXPECT_THAT(o.out, HasSubstr("at least 30 percent"));
}

TEST_F(Cli, DeriveMakesNoRuleOfSinglePasses)
{
    // Sizes that were recorded in one pass only, arm after arm.
    ASSERT_EQ(0, Run("sweep -b 8 -e 64K -o s.csv").status);

    Outcome o = Run("derive s.csv");

    EXPECT_EQ(0, o.status);
    EXPECT_THAT(Read("s.csv"), HasSubstr(",single_pass\n"));
    EXPECT_THAT(o.out, HasSubstr("# No rule: "));
}

TEST_F(Cli, DeriveMakesNoRuleOfChannelCountsThatWereTimedInOnePass)
{
    ASSERT_EQ(0, Run("sweep --collective allreduce --arms ring/ll "
                     "--channels 4,8,16,24 -b 8 -e 1M -o s.csv")
                     .status);

    Outcome o = Run("derive s.csv");

    EXPECT_THAT(o.out, HasSubstr("# No rule: "));
}

TEST_F(Cli, VerifyFailsAPolicyThatIsSlower)
{
    Write("slow.conf", "allreduce,0,inf,tree,simple,1,-1,-1\n");

    Outcome o = Run("verify slow.conf --collective allreduce");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.out, HasSubstr("SLOWER"));
    EXPECT_THAT(o.out, Not(HasSubstr(" 0 slower")));
}

TEST_F(Cli, VerifyRefusesABadPolicyByLineAndColumn)
{
    Write("bad.conf", "# fine\nallreduce,0,inf,rnig,simple,1,-1,-1\n");

    Outcome o = Run("verify bad.conf");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, StartsWith("steptune verify: bad.conf:2:17: unknown "
                                  "algorithm 'rnig'"));
    EXPECT_THAT(o.out, IsEmpty());
}

TEST_F(Cli, SweepPrintsWhatItMeasuredAsJson)
{
    Outcome o =
        Run("sweep --collective allreduce -b 1M -e 1M --arms ring/ll128 "
            "--rounds 2 --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    ASSERT_NE(nullptr, root);
    EXPECT_EQ("NVIDIA H200", String(root.get(), "gpu"));
    const cJSON *rows = cJSON_GetObjectItem(root.get(), "measurements");
    ASSERT_EQ(4, cJSON_GetArraySize(rows));
    const cJSON *row = cJSON_GetArrayItem(rows, 1);
    EXPECT_EQ("ring/ll128", String(row, "arm"));
    EXPECT_EQ(1 << 20, Number(row, "bytes"));
    EXPECT_GT(Number(row, "median_us"), 0);
}

TEST_F(Cli, SweepMarksModelledTimes)
{
    Outcome o = Run("sweep --on h100x8 -b 1M -e 2M");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("h100x8: "));
    EXPECT_THAT(o.out, HasSubstr("modelled by NCCL's cost model"));
    EXPECT_THAT(o.out, HasSubstr("nvls/simple"));
}

TEST_F(Cli, SweepWillNotCountARecordedRoundTwice)
{
    Outcome o = Run("sweep --rounds 5 --collective allreduce");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("5 rounds, but machine 'h200x4' was recorded "
                                 "in 4"));
}

// ---- explain ----

TEST_F(Cli, ExplainNamesThePolicyLineThatDecides)
{
    Write("p.conf", "# a comment\n"
                    "allreduce,4096,8191,tree,simple,2,-1,-1\n"
                    "allreduce,8K,16K,tree,ll,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --on h200x4");

    ASSERT_EQ(0, o.status) << o.err;
    auto lines = [&](const char *pattern) {
        return std::regex_search(o.out, std::regex(pattern));
    };
    EXPECT_TRUE(lines("allreduce +8 +4088 +ring/ll +ring/ll .* NCCL\n"));
    EXPECT_TRUE(
        lines("allreduce +4096 +8184 +ring/ll +tree/simple .* p.conf:2\n"));
    EXPECT_TRUE(
        lines("allreduce +8192 +16384 +ring/ll +tree/ll .* p.conf:3\n"));
    EXPECT_TRUE(lines("allreduce +16392 .* NCCL\n"));
}

TEST_F(Cli, ExplainFindsRulesNarrowerThanItsStep)
{
    Write("p.conf", "allreduce,1000000,1000000,tree,ll128,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf");

    EXPECT_TRUE(std::regex_search(
        o.out, std::regex("allreduce +1000000 +1000000 .* p.conf:1\n")));
}

TEST_F(Cli, ExplainCreditsNoLineThatSaysSomethingElse)
{
    // The plugin asks for one channel; the line would leave the channels.
    Write("p.conf", "allreduce,0,inf,ring,ll,-1,-1,-1\n");

    Outcome o = Run("explain --plugin " STP_ONE_CHANNEL " --policy p.conf");

    EXPECT_THAT(o.out, HasSubstr("plugin, asks for 1 channels"));
    EXPECT_THAT(o.out, Not(HasSubstr("p.conf:1")));
}

TEST_F(Cli, ExplainFindsNcclsOwnSwitchPoints)
{
    Write("none.conf", "# no rules\n");

    Outcome o = Run("explain --policy none.conf --on h200x4 --json");

    ASSERT_EQ(0, o.status) << o.err;
    Json root = Parse(o.out);
    std::vector<std::string> ranges;
    const cJSON *range;
    cJSON_ArrayForEach(range, cJSON_GetObjectItem(root.get(), "ranges"))
    {
        if (String(range, "collective") != "allreduce")
            continue;
        const cJSON *pick = cJSON_GetObjectItem(range, "auto");
        ranges.push_back(
            std::to_string(static_cast<long>(Number(range, "min_bytes"))) +
            " " + String(pick, "algorithm") + "/" + String(pick, "protocol"));
    }
    // Where the lines of NCCL's own model cross: 10.2 us + n / 94 GB/s meets
    // 25.4 us + n / 220.8, and that meets 28.8 us + n / 240, in NCCL's float
    // arithmetic.
    EXPECT_THAT(ranges, ElementsAre("8 ring/ll", "2488008 ring/ll128",
                                    "9384024 ring/simple"));
}

TEST_F(Cli, ExplainAsksAnyVendorsPlugin)
{
    Outcome o = Run("explain --plugin " STP_ONE_CHANNEL " --on h200x4");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("plugin, asks for 1 channels"));
}

TEST_F(Cli, ExplainSurvivesAPluginThatCrashes)
{
    // A sanitizer's own handler would turn the crash into a plain exit.
    setenv("ASAN_OPTIONS", "handle_segv=0", 1);
    setenv("TSAN_OPTIONS", "handle_segv=0", 1);
    Outcome o = Run("explain --plugin " STP_ROW_POINTERS);
    unsetenv("ASAN_OPTIONS");
    unsetenv("TSAN_OPTIONS");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("row_pointers.so' crashed ("));
}

TEST_F(Cli, ExplainSaysIfAPluginWouldNotLoad)
{
    Outcome o = Run("explain --plugin ./no-such-plugin.so");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, AllOf(StartsWith("steptune explain: "),
                             HasSubstr("would not load tuner plugin "
                                       "'./no-such-plugin.so'")));
}

// ---- wrong usage ----

struct UsageCase {
    const char *arguments;
    int status;
    const char *message;
};

TEST_F(Cli, AnswersWrongUsageWithOneSentence)
{
    const UsageCase cases[] = {
        {"", 2, nullptr},
        {"tun", 2, "steptune: no command 'tun'; `steptune --help` lists them"},
        {"tune --no-such", 2, "unrecognized option '--no-such'"},
        {"tune extra", 2, "'extra', expected options only"},
        {"tune --min-gain 2x", 2, "--min-gain '2x', expected a share"},
        {"tune --min-gain -1%", 2, "--min-gain '-1%', expected a share"},
        {"sweep -b 8x", 2, "-b '8x', expected a size such as 8, 64K or 1G"},
        {"sweep -b 2M -e 1M", 1, "sizes from 2097152 to 1048576 by 2"},
        {"sweep -f 1", 2, "-f '1', expected a number above 1"},
        {"sweep -n 0", 2, "-n '0', expected a number from 1"},
        {"sweep --arms rnig/ll", 2, "arm 'rnig/ll', expected auto, all"},
        {"sweep --channels 65", 2, "channels '65', expected 1 to 64"},
        {"sweep --collective all", 2, "--collective 'all', expected each"},
        {"sweep --collective allreduce,allreduce", 2, "at most once"},
        {"sweep --seed x", 2, "--seed 'x', expected a number"},
        {"sweep --on nowhere", 77, "no recorded machine 'nowhere'"},
        {"sweep --on ./nowhere", 77, "no recorded machine './nowhere'"},
        {"sweep --on cuda", 77, "measures on recorded machines only"},
        {"derive", 2, "no measurements, expected files"},
        {"derive missing.csv", 1,
         "missing.csv: cannot be opened: No such file"},
        {"derive .", 1, ".: is a directory"},
        {"verify", 2, "no policy, expected a file"},
        {"verify a b", 2, "'b', expected one policy"},
        {"verify missing.conf", 1,
         "missing.conf: cannot be opened: No such file"},
        {"explain", 2, "nothing to explain, expected --plugin or --policy"},
        {"explain --policy x -e 1", 2, "-e '1', expected a size from 1K"},
    };

    for (const UsageCase &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run(c.arguments);
        EXPECT_EQ(c.status, o.status);
        EXPECT_THAT(o.out, IsEmpty());
        EXPECT_THAT(o.err,
                    HasSubstr(c.message != nullptr ? c.message : "Usage:"));
    }
    EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(Cli, HelpsOnEveryCommand)
{
    EXPECT_EQ(0, Run("--help").status);
    EXPECT_THAT(Run("--version").out, StartsWith("steptune "));
    for (const char *command :
         {"tune", "sweep", "derive", "verify", "explain"}) {
        Outcome o = Run(std::string(command) + " --help");
        EXPECT_EQ(0, o.status);
        EXPECT_THAT(o.out,
                    StartsWith(std::string("Usage: steptune ") + command));
    }
}

TEST_F(Cli, FailsIfItsOutputIsLost)
{
    if (access("/dev/full", W_OK) != 0)
        GTEST_SKIP() << "no /dev/full here";

    int status = std::system(
        STP_STEPTUNE
        " sweep --collective allreduce -n 2 >/dev/full 2>/dev/null");

    EXPECT_EQ(1, WEXITSTATUS(status));
}

// ---- machines ----

TEST_F(Cli, TakesAMachineByItsFolder)
{
    fs::create_directory(dir_ / "mine");
    for (const char *file : {"machine.csv", "graphs.xml"})
        fs::copy(fs::path(STP_FIXTURES "/machines/h200x4") / file,
                 dir_ / "mine" / file);

    EXPECT_THAT(Run("sweep --on ./mine -b 1M -e 1M").out,
                StartsWith("mine: 4 x NVIDIA H200"));
    setenv("STEPTUNE_MACHINES", dir_.c_str(), 1);
    EXPECT_THAT(Run("sweep --on mine -b 1M -e 1M").out,
                StartsWith("mine: 4 x NVIDIA H200"));
}

TEST_F(Cli, SaysWhatIsWrongWithAMachine)
{
    fs::create_directory(dir_ / "empty");

    Outcome o = Run("sweep --on ./empty");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("machine.csv"));
}

// ---- interruption ----

TEST_F(Cli, KeepsWhatWasMeasuredWhenItIsInterrupted)
{
    pid_t child = fork();
    if (child == 0) {
        if (chdir(dir_.c_str()) != 0 || !freopen("/dev/null", "w", stdout) ||
            !freopen("/dev/null", "w", stderr))
            _exit(99);
        execl(STP_STEPTUNE, "steptune", "sweep", "-n", "20000", "-o", "s.csv",
              nullptr);
        _exit(99);
    }
    usleep(700 * 1000);
    kill(child, SIGINT);
    int status = 0;
    ASSERT_EQ(child, waitpid(child, &status, 0));

    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(1, WEXITSTATUS(status));
    EXPECT_EQ(0, Run("derive s.csv").status) << "a complete file";
    EXPECT_THAT(Files(), ElementsAre("s.csv"));
}

} // namespace
