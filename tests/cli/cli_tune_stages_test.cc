// steptune tune, stage by stage: sizes where decisions change, several rank
// counts, the policy for iterations, and going on after an interruption.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <map>
#include <regex>
#include <set>
#include <tuple>

#include "support/cli_fixture.h"
#include "support/plain_machine.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

std::vector<std::vector<std::string>> Rows(const std::string &csv)
{
    std::vector<std::vector<std::string>> rows;
    std::istringstream lines(csv);
    std::string line;
    while (std::getline(lines, line)) {
        if (line.empty() || line[0] == '#' || line.rfind("collective", 0) == 0)
            continue;
        std::istringstream fields(line);
        std::vector<std::string> row;
        for (std::string field; std::getline(fields, field, ',');)
            row.push_back(field);
        rows.push_back(row);
    }
    return rows;
}

// What jobs see of a policy: its evidence is only for people.
std::string RulesOf(const std::string &policy)
{
    std::istringstream lines(policy);
    std::string rules;
    for (std::string line; std::getline(lines, line);)
        if (!line.empty() && line[0] != '#')
            rules += line + "\n";
    return rules;
}

class Tune : public Cli
{
  protected:
    // A machine that has times of collectives, and none beside compute.
    void MakeMachineWithoutIterations(const char *name) const
    {
        fs::create_directory(dir_ / name);
        for (const char *file : {"machine.csv", "graphs.xml", "timings.csv"})
            fs::copy(fs::path(STP_FIXTURES "/machines/h200x4") / file,
                     dir_ / name / file);
    }

    std::set<double> SizesOf(const std::string &collective) const
    {
        std::set<double> sizes;
        for (const auto &row : Rows(Read("t.sweep.csv")))
            if (row[0] == collective)
                sizes.insert(std::stod(row[1]));
        return sizes;
    }
};

// ---- how good a policy is ----

class TunePolicy
    : public Cli,
      public testing::WithParamInterface<std::tuple<const char *, int>>
{
};

// Of recorded machines, by the arms' times in the same rounds, and by rounds
// with other draws.
TEST_P(TunePolicy, IsNowhereSlowerAndCloseToTheBestArm)
{
    STP_SLOW();
    const auto [machine, seed] = GetParam();
    const std::string on = std::string(" --on ") + machine;

    Outcome o = Run("tune --no-iterate --seed " + std::to_string(seed) + on);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr(" 0 slower"));
    const std::string report = Read("steptune.report.txt");
    std::smatch of_best;
    ASSERT_TRUE(
        std::regex_search(report, of_best,
                          std::regex("takes ([0-9.]+) times as long in "
                                     "the\ngeometric mean, ([0-9.]+) at "
                                     "worst")));
    EXPECT_LE(std::stod(of_best[1]), 1.003);
    EXPECT_LE(std::stod(of_best[2]), 1.03);
    for (int other : {101, 102}) {
        o = Run("verify steptune.conf --seed " + std::to_string(other) + on);
        EXPECT_EQ(0, o.status) << o.out << o.err;
    }
}

INSTANTIATE_TEST_SUITE_P(Recorded, TunePolicy,
                         testing::Combine(testing::Values("h200x2", "h200x4"),
                                          testing::Range(1, 7)),
                         [](const auto &p) {
                             return std::string(std::get<0>(p.param)) +
                                    "_seed_" +
                                    std::to_string(std::get<1>(p.param));
                         });

// ---- refining ----

TEST_F(Tune, MeasuresMoreWhereTheDecisionChangesAndNotElsewhere)
{
    Outcome o = Run("tune --on h200x4 --collective allgather -b 8 -e 256M "
                    "--no-iterate -o t.conf");

    ASSERT_EQ(0, o.status) << o.err;
    // the grid by 4, its end, and what lies around the ends of one window, of
    // which NCCL's own choice changes at the first
    EXPECT_THAT(SizesOf("allgather"),
                ElementsAre(8, 32, 128, 512, 2048, 8192, 32768, 131072, 524288,
                            2097152, 2965760, 3526912, 4194304, 8388608,
                            16777216, 23726464, 33554432, 134217728,
                            268435456));
    auto rules = Rows(Read("t.conf"));
    ASSERT_EQ(1u, rules.size());
    EXPECT_EQ("ring", rules[0][3]);
    EXPECT_EQ("ll128", rules[0][4]);
    EXPECT_THAT(o.out, HasSubstr(" 0 slower"));
}

TEST_F(Tune, RefinesToTheResolutionAskedFor)
{
    ASSERT_EQ(0, Run("tune --on h200x4 --collective allgather -b 2M -e 8M "
                     "--no-iterate --resolution 1.1 -o t.conf")
                     .status);

    std::set<double> sizes = SizesOf("allgather");
    double least = 2;
    for (auto at = std::next(sizes.begin()); at != sizes.end(); ++at)
        least = std::min(least, *at / *std::prev(at));
    EXPECT_LT(least, 1.1 * 1.02);
    EXPECT_GT(least, 1.04);
}

TEST_F(Tune, TakesARecordedMachinesOwnSizesAsTheyAre)
{
    ASSERT_EQ(0,
              Run("sweep --on h200x4 --collective allgather -o s.csv").status);
    ASSERT_EQ(0, Run("tune --on h200x4 --collective allgather --no-iterate "
                     "-o t.conf")
                     .status);

    EXPECT_EQ(Rows(Read("s.csv")), Rows(Read("t.sweep.csv")));
}

// ---- ranks ----

TEST_F(Tune, MakesRulesForEachNumberOfRanks)
{
    STP_SLOW();
    Outcome o = Run("tune --on h200x4 --ranks 2,4 --collective allgather "
                    "--no-iterate -o t.conf --json");

    ASSERT_EQ(0, o.status) << o.err;
    std::set<std::string> swept, ruled;
    for (const auto &row : Rows(Read("t.sweep.csv")))
        swept.insert(row[7]);
    for (const auto &row : Rows(Read("t.conf")))
        ruled.insert(row[7]);
    EXPECT_THAT(swept, ElementsAre("2", "4"));
    EXPECT_THAT(ruled, ElementsAre("2", "4"));

    std::map<std::pair<double, std::string>, int> verdicts;
    Json root = Parse(o.out);
    const cJSON *size;
    cJSON_ArrayForEach(size, cJSON_GetObjectItem(root.get(), "sizes"))
        verdicts[{Number(size, "nRanks"), String(size, "verdict")}]++;
    EXPECT_GT((verdicts[{2, "faster"}]), 0);
    EXPECT_GT((verdicts[{4, "faster"}]), 0);
    EXPECT_EQ(0, (verdicts[{2, "SLOWER"}]));
    EXPECT_EQ(0, (verdicts[{4, "SLOWER"}]));
}

TEST_F(Tune, SaysWhichRanksItCannotHave)
{
    MakeMachineWithoutIterations("box");
    MakeMachineWithoutIterations("x3"); // but it has 4
    ExpectRefusals(
        "tune ",
        {
            {"--on h200x4 --ranks 7", 77, "no recorded machine 'h200x7'"},
            {"--on ./box --ranks 2", 77,
             "--ranks on the recorded machine './box', expected one whose name "
             "ends in its number of ranks, such as h200x4"},
            {"--on ./x4 --ranks 3", 77, "--ranks 3, but 'x3' has 4"},
            {"--on h200x4 --ranks 4,2", 2,
             "expected at most 16 ascending numbers"},
            {"--on h200x4 --ranks 1", 2,
             "expected at most 16 ascending numbers"},
            {"--on h200x4 --resolution 1", 2, "expected a factor from 1.05"},
        });
    EXPECT_THAT(Files(), ElementsAre("box", "x3"));
}

// ---- iterations ----

TEST_F(Tune, MakesAPolicyForIterationsAndVerifiesItByIterations)
{
    STP_SLOW();
    Outcome o =
        Run("tune --on h200x2 --collectives allreduce -o t.conf --json");

    ASSERT_EQ(0, o.status) << o.err;
    // as measured on 2 x H200: alone ll128 is the fastest at 2 MiB, overlapped
    // with compute ll
    auto rules = Rows(Read("t.conf.overlap"));
    ASSERT_EQ(2u, rules.size()) << Read("t.conf.overlap");
    EXPECT_EQ("allreduce", rules[0][0]);
    EXPECT_EQ("2097152", rules[0][1]);
    EXPECT_EQ("ll", rules[0][4]);
    EXPECT_EQ("ll128", rules[1][4]);

    Json root = Parse(o.out);
    const cJSON *overlap = cJSON_GetObjectItem(root.get(), "overlap");
    EXPECT_EQ("t.conf.overlap", String(overlap, "policy"));
    EXPECT_EQ(2, Number(overlap, "n_rules"));
    const cJSON *row;
    size_t n = 0, n_faster = 0;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(overlap, "iterations"))
    {
        n++;
        EXPECT_EQ("overlap", String(row, "mode"));
        n_faster += String(row, "verdict") == "faster";
        EXPECT_GE(Number(row, "gain"), 1);
    }
    EXPECT_EQ(12u, n) << "four sizes, with three ratios";
    EXPECT_GE(n_faster, 11u);
    EXPECT_THAT(Files(), AllOf(Contains("t.overlap-verify.csv"),
                               Contains("t.conf.overlap.verified.txt")));
    EXPECT_EQ(0, Run("verify t.conf.overlap --on h200x2 --iterate "
                     "--mode overlap --bytes 2M,4M --ratio 1")
                     .status);
    EXPECT_EQ(rules, Rows(Read("t.conf.overlap")));
    Run("derive t.iterations.csv --objective iteration -o d.conf");
    const auto derived = Rows(Read("d.conf"));
    ASSERT_EQ(2u, derived.size()) << "its rows are those of rounds.csv";
    for (size_t i : {0, 1}) {
        EXPECT_EQ(rules[i][4], derived[i][4]);
        EXPECT_LE(std::stoull(rules[i][2]), std::stoull(derived[i][2]))
            << "verification trims the rule, which derive does not";
    }
}

TEST_F(Tune, LeavesNcclAloneBesideComputeWhereNothingIsKnownOfIterations)
{
    STP_SLOW();
    MakeMachineWithoutIterations("m");
    const struct {
        const char *arguments;
        const char *why;
    } cases[] = {
        {"--on ./m --collective allgather,reducescatter",
         "nobody measured on 'm' what compute and collectives do to each "
         "other"},
        {"--on h200x4 --collective allgather",
         "all-reduces, or all-gathers and reduce-scatters, of 2 to 64 MiB were "
         "not swept"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Outcome o = Run(std::string("tune -o t.conf ") + c.arguments);

        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.err, HasSubstr(std::string("no overlapped iterations: ") +
                                     c.why));
        EXPECT_THAT(Read("t.conf.overlap"),
                    MatchesRegex("# steptune tune\n# run: [0-9a-f]{8}\n"
                                 "# policy hash: 0{15}1\n# No rule: " +
                                 std::string(c.why) +
                                 ", so NCCL's own choice stands where "
                                 "communication overlaps with compute.\n"));
        EXPECT_THAT(Read("t.report.txt"), HasSubstr(c.why));
        EXPECT_EQ(0, Run("check t.conf.overlap").status);
        EXPECT_THAT(Files(), Not(Contains("t.iterations.csv")));
    }
}

TEST_F(Tune, MakesNoPolicyForIterationsIfAskedNotTo)
{
    STP_SLOW();
    Write("t.conf.overlap", "# mine\n");

    Outcome o = Run("tune --on h200x2 --collective allreduce --no-iterate "
                    "-o t.conf");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("# mine\n", Read("t.conf.overlap"));
    EXPECT_THAT(o.out, Not(HasSubstr("NCCL_WORKLOAD_OVERLAP")));
}

// ---- going on ----

class TuneAgain : public Tune
{
  protected:
    // Ends a run when its state has this word and it is not done.
    int Interrupt(const std::string &arguments, const char *word, int signal)
    {
        pid_t child = Start(arguments);
        for (int i = 0;
             i < 3000 && Read("t.unfinished").find(word) == std::string::npos;
             i++)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        kill(child, signal);
        int status = Wait(child);
        fs::remove(dir_ / "out");
        fs::remove(dir_ / "err");
        return status;
    }

    // Settings of complete rounds: modes, sizes and ratios.
    size_t SettingsOf(const char *file) const
    {
        std::set<std::vector<std::string>> settings;
        std::stringstream lines(Read(file));
        std::vector<std::string> names;
        for (std::string line; std::getline(lines, line);)
            if (line.find("collective,") == 0)
                names = plain_machine::Fields(line);
        const auto at = [&](const char *name) {
            return static_cast<size_t>(
                std::find(names.begin(), names.end(), name) - names.begin());
        };
        for (const auto &row : Rows(Read(file)))
            settings.insert(
                {row[0], row[1], row.at(at("mode")), row.at(at("ratio"))});
        return settings.size();
    }

    // How many sizes or settings the message says are there.
    static int There(const std::string &err, const char *file)
    {
        size_t at = err.find(std::string("continuing ") + file + ": ");
        return at == std::string::npos
                   ? 0
                   : std::stoi(err.substr(err.find(": ", at) + 2));
    }

    // slow enough that nothing is over before it is interrupted
    const std::string kSweep = "tune --on h200x4 --collective allgather "
                               "-b 1M -e 64M -n 600 -o t.conf";
    const std::string kIterations =
        "tune --on h200x2 --collective allreduce -b 2M -e 16M -o t.conf";
};

TEST_F(TuneAgain, GoesOnWhereASweepWasInterrupted)
{
    ASSERT_EQ(1, Interrupt(kSweep, "machine", SIGINT));
    const auto before = Rows(Read("t.unfinished.sweep.csv"));
    EXPECT_THAT(Files(), ElementsAre("t.unfinished", "t.unfinished.sweep.csv"));

    Outcome o = Run(kSweep);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_GE(There(o.err, "t.unfinished.sweep.csv"), 1) << o.err;
    EXPECT_THAT(o.err, HasSubstr(" of 4 sizes are there\n"));
    auto after = Rows(Read("t.sweep.csv"));
    ASSERT_GT(after.size(), before.size());
    after.resize(before.size());
    EXPECT_EQ(before, after) << "nothing is measured again";
    EXPECT_THAT(Files(), Not(Contains(StartsWith("t.unfinished"))));
    std::string rules = RulesOf(Read("t.conf"));

    Outcome again = Run(kSweep);

    EXPECT_THAT(again.err, Not(HasSubstr("continuing")))
        << "what is finished is no interrupted run";
    EXPECT_EQ(rules, RulesOf(Read("t.conf")))
        << "the same as without the interruption";
}

TEST_F(TuneAgain, GoesOnWithTheIterationsOfARunThatWasKilled)
{
    STP_SLOW();
    ASSERT_EQ(-SIGKILL, Interrupt(kIterations, "iterations: yes", SIGKILL));
    size_t rows = Rows(Read("t.unfinished.iterations.csv")).size();
    Outcome o = Run(kIterations);

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.err,
                HasSubstr("continuing t.unfinished.sweep.csv: 3 of 3 sizes are "
                          "there\n"));
    EXPECT_GE(There(o.err, "t.unfinished.iterations.csv"), 1) << o.err;
    EXPECT_GE(Rows(Read("t.iterations.csv")).size(), rows);
    EXPECT_EQ(4u * 3 + 4, SettingsOf("t.iterations.csv"))
        << "overlapped ones of three ratios, and sequential ones";
}

TEST_F(TuneAgain, LeavesTheFilesOfTheLastRunUntilItIsFinished)
{
    STP_SLOW();
    ASSERT_EQ(0, Run("tune --on h200x2 --collective allgather -b 1M -e 4M "
                     "--no-iterate -o t.conf")
                     .status);
    const std::vector<std::string> files = Files();
    std::vector<std::string> before;
    for (const std::string &file : files)
        before.push_back(Read(file));

    ASSERT_EQ(-SIGKILL, Interrupt(kIterations, "iterations: yes", SIGKILL));

    for (size_t i = 0; i < files.size(); i++)
        EXPECT_EQ(before[i], Read(files[i])) << files[i];
    const Outcome o = Run("report t.conf");
    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, Not(HasSubstr("left out")));
    ASSERT_EQ(0, Run(kIterations).status);
    EXPECT_NE(before[0], Read(files[0]));
    EXPECT_THAT(Files(), Not(Contains(StartsWith("t.unfinished"))));
}

TEST_F(TuneAgain, BeginsAnewWhereItMust)
{
    STP_SLOW();
    ASSERT_EQ(1, Interrupt(kSweep, "machine", SIGINT));
    const std::string sweep = Read("t.unfinished.sweep.csv");
    const std::string state = std::regex_replace(
        Read("t.unfinished"), std::regex("iterations a round: 600"),
        "iterations a round: 2"); // quicker
    const struct {
        const char *arguments;
        const char *text;
    } cases[] = {
        {"-b 2M -e 4M -n 2",
         "starting afresh: the run that left t.unfinished was "
         "not of 'sizes: 2097152 to 4194304, factor 0, step "
         "0'\n"},
        {"-b 1M -e 64M -n 2 --on h200x2",
         "not of 'machine: h200x2, NVIDIA H200, NCCL 2.28.9'\n"},
        {"-b 1M -e 64M -n 2 --min-gain 1%", "not of 'least gain: 0.01'\n"},
        {"-b 1M -e 64M -n 2 --ranks 2,4", "not of 'machine: "},
        {"-b 1M -e 64M -n 2 --fresh", ""},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.arguments);
        Write("t.unfinished.sweep.csv", sweep);
        Write("t.unfinished", state);

        Outcome o = Run(std::string("tune --on h200x4 --collective allgather "
                                    "-o t.conf ") +
                        c.arguments);

        ASSERT_EQ(0, o.status) << o.err;
        EXPECT_THAT(o.err, HasSubstr(c.text));
        EXPECT_THAT(o.err, Not(HasSubstr("continuing")));
    }
    Write("t.unfinished.sweep.csv", sweep);
    Write("t.unfinished", state);
    EXPECT_THAT(Run("tune --on h200x4 --collective allgather -o t.conf "
                    "-b 1M -e 64M -n 2")
                    .err,
                HasSubstr("continuing t.unfinished.sweep.csv: "))
        << "else this test says nothing";
}

TEST_F(TuneAgain, TouchesNothingItCannotRead)
{
    ASSERT_EQ(1, Interrupt(kSweep, "machine", SIGINT));
    const std::string sweep = Read("t.unfinished.sweep.csv");
    const std::string state = Read("t.unfinished");
    const struct {
        const char *what;
        std::string sweep, state;
        const char *text;
    } cases[] = {
        {"truncated", sweep.substr(0, sweep.size() - 30), state,
         "t.unfinished.sweep.csv:"},
        {"foreign", "my notes\n", state, "t.unfinished.sweep.csv:1:"},
        {"foreign state", sweep, "my notes\n",
         "t.unfinished: not what steptune tune leaves"},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.what);
        Write("t.unfinished.sweep.csv", c.sweep);
        Write("t.unfinished", c.state);

        Outcome o = Run(kSweep);

        EXPECT_EQ(1, o.status);
        EXPECT_THAT(o.err,
                    AllOf(HasSubstr(c.text),
                          HasSubstr("expected --fresh to start over\n")));
        EXPECT_EQ(1u, Count(o.err, "\n")) << o.err;
        EXPECT_EQ(c.sweep, Read("t.unfinished.sweep.csv"));
        EXPECT_EQ(c.state, Read("t.unfinished"));
    }
}

} // namespace
