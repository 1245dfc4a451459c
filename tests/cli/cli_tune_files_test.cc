// The files of a run of steptune tune belong together, whatever ran in the
// folder before, and steptune report shows no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <regex>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

using Snapshot = std::map<std::string, std::string>; // content by name

// Runs that write different sets of files: of several ranks with rules for
// overlap, without iterations, with iterations and no rule for them, and with
// other times and equal rules.
const std::array<const char *, 4> kPlans = {
    "--on h200x4 --ranks 2,4 --collective allreduce -b 1M -e 8M -n 5",
    "--on h200x4 --collective allgather -b 1M -e 8M -n 5 --no-iterate",
    "--on h200x4 --collective allreduce -b 1M -e 8M -n 5",
    "--on h200x4 --collective allgather -b 1M -e 8M -n 5 --no-iterate "
    "--seed 7",
};

class TuneFiles : public Cli
{
  protected:
    Outcome Tune(const std::string &plan) const
    {
        return Run("tune -o t.conf " + plan);
    }

    // All but backups.
    Snapshot Look() const
    {
        Snapshot files;
        for (const std::string &name : Files())
            if (name.find(".~") == std::string::npos)
                files[name] = Read(name);
        return files;
    }

    void Clear() const
    {
        for (const std::string &name : Files())
            fs::remove_all(dir_ / name);
    }

    void WriteAll(const Snapshot &files) const
    {
        for (const auto &[name, content] : files)
            Write(name, content);
    }

    // What each plan writes into an empty folder.
    std::vector<Snapshot> RunAlone() const
    {
        std::vector<Snapshot> alone;
        for (const char *plan : kPlans) {
            EXPECT_EQ(0, Tune(plan).status);
            alone.push_back(Look());
            Clear();
        }
        return alone;
    }
};

std::vector<std::string> Names(const Snapshot &files)
{
    std::vector<std::string> names;
    for (const auto &[name, content] : files)
        names.push_back(name);
    return names;
}

std::string RunOf(const std::string &content)
{
    std::smatch match;
    return std::regex_search(content, match,
                             std::regex("(?:run:? |<dt>Run</dt><dd>)"
                                        "([0-9a-f]{8})\\b"))
               ? match[1].str()
               : "";
}

TEST_F(TuneFiles, AreThoseOfTheLastRunInEveryOrder)
{
    STP_SLOW();
    // each plan after each other one
    const int order[] = {0, 1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1, 0};
    const std::vector<Snapshot> alone = RunAlone();
    ASSERT_EQ(1u, alone[0].count("t.overlap-verify.csv"));
    ASSERT_EQ(0u, alone[1].count("t.conf.overlap"));
    ASSERT_EQ(1u, alone[2].count("t.iterations.csv"));
    ASSERT_EQ(0u, alone[2].count("t.overlap-verify.csv"));

    for (int plan : order) {
        SCOPED_TRACE(kPlans[plan]);
        const Outcome o = Tune(kPlans[plan]);

        ASSERT_EQ(0, o.status) << o.err;
        const Snapshot now = Look();
        EXPECT_EQ(Names(alone[plan]), Names(now));
        for (const auto &[name, content] : alone[plan])
            EXPECT_TRUE(content == now.at(name)) << name;
    }
}

// Nothing that was measured is lost, and no file is of the run before.
TEST_F(TuneFiles, AreFinishedByTheNextRunIfOneCouldNotBeWritten)
{
    STP_SLOW();
    ASSERT_EQ(0, Tune(kPlans[2]).status);
    const Snapshot alone = Look();
    Clear();
    ASSERT_EQ(0, Tune(kPlans[0]).status);
    fs::remove(dir_ / "t.report.txt");
    fs::create_directories(dir_ / "t.report.txt/in the way");

    const Outcome o = Tune(kPlans[2]);

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("cannot write 't.report.txt'"));
    EXPECT_THAT(Files(), AllOf(Contains("t.unfinished"),
                               Contains("t.unfinished.sweep.csv")));
    EXPECT_EQ(alone.at("t.conf"), Read("t.conf"));
    EXPECT_EQ(0, Run("report t.conf").status);
    EXPECT_THAT(Read("report.html"), Not(HasSubstr(" is left out: ")));
    fs::remove(dir_ / "report.html");
    fs::remove_all(dir_ / "t.report.txt");
    const Outcome again = Tune(kPlans[2]);
    EXPECT_EQ(0, again.status) << again.err;
    EXPECT_THAT(again.err, HasSubstr("continuing t.unfinished.sweep.csv: "));
    EXPECT_EQ(Names(alone), Names(Look()));
    for (const auto &[name, content] : Look())
        EXPECT_EQ(RunOf(alone.at("t.conf")), RunOf(content)) << name;
}

TEST_F(TuneFiles, EachNamesTheRunAndNoTwoRunsAreNamedAlike)
{
    STP_SLOW();
    std::vector<std::string> runs;
    for (const Snapshot &files : RunAlone()) {
        runs.push_back(RunOf(files.at("t.conf")));
        for (const auto &[name, content] : files)
            EXPECT_EQ(runs.back(), RunOf(content)) << name;
    }
    EXPECT_THAT(runs, Each(MatchesRegex("[0-9a-f]{8}")));
    std::sort(runs.begin(), runs.end());
    EXPECT_EQ(runs.end(), std::adjacent_find(runs.begin(), runs.end()));
}

TEST_F(TuneFiles, AboutAPolicyNameTheHashOfItsRules)
{
    STP_SLOW();
    ASSERT_EQ(0, Tune(kPlans[0]).status);
    const struct {
        const char *policy;
        std::vector<std::string> files;
    } cases[] = {
        {"t.conf", {"t.verify.csv", "t.conf.verified.txt"}},
        {"t.conf.overlap",
         {"t.overlap-verify.csv", "t.conf.overlap.verified.txt"}},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.policy);
        std::smatch match;
        const std::string policy = Read(c.policy);
        ASSERT_TRUE(std::regex_search(
            policy, match, std::regex("\n(# policy hash: ([0-9a-f]{16})\n)")));
        const std::string hash = match[2], line = match[1];
        for (const std::string &name : c.files)
            EXPECT_THAT(Read(name),
                        HasSubstr("policy hash" +
                                  std::string(name.back() == 'v' ? ": " : " ") +
                                  hash))
                << name;
        EXPECT_THAT(Read("t.report.txt"), HasSubstr("policy hash " + hash));
        Write("same.conf", std::regex_replace(policy, std::regex(line), ""));
        EXPECT_EQ(0, Run(std::string("verify same.conf --on h200x2 --proof ") +
                         (std::string(c.policy) == "t.conf"
                              ? "--collective allreduce"
                              : "--iterate --bytes 2M --mode overlap"))
                         .status);
        EXPECT_THAT(Read("same.conf.verified.csv"),
                    HasSubstr("\n# policy hash: " + hash + "\n"))
            << "comments are no part of it";
    }
}

// ---- report ----

class ReportOfRuns : public TuneFiles
{
  protected:
    // The page without what it says of files that it leaves out; "" if there
    // is none.
    std::string Page()
    {
        said_ = Run("report t.conf -o page.html");
        if (said_.status != 0)
            return "";
        const std::string page = std::regex_replace(
            Read("page.html"),
            std::regex("<p class=\"lead warn\">[^\n]* is left out: [^\n]*</p>"
                       "\n"),
            "");
        fs::remove(dir_ / "page.html");
        return page;
    }

    Outcome said_;
};

// As after a run that was killed between two files, or by copying some.
TEST_F(ReportOfRuns, ShowNoNumberOfAnotherRunInAnyMixture)
{
    STP_SLOW();
    const char *const shown[] = {"t.conf.overlap", "t.sweep.csv",
                                 "t.verify.csv", "t.iterations.csv",
                                 "t.overlap-verify.csv"};
    const std::vector<Snapshot> alone = RunAlone();
    const int pairs[][2] = {{0, 2}, {2, 0}, {1, 3}, {3, 0}};

    for (const auto &[ours, theirs] : pairs)
        for (int mixture = 0; mixture < 1 << 5; mixture++) {
            SCOPED_TRACE(std::to_string(ours) + " and " +
                         std::to_string(theirs) + ": " +
                         std::to_string(mixture));
            Snapshot own = {{"t.conf", alone[ours].at("t.conf")}}, other;
            for (int i = 0; i < 5; i++) {
                const bool is_other = mixture >> i & 1;
                const Snapshot &from = alone[is_other ? theirs : ours];
                const auto file = from.find(shown[i]);
                if (file != from.end())
                    (is_other ? other : own).insert(*file);
            }
            Clear();
            WriteAll(own);
            const std::string expect = Page();
            WriteAll(other);

            const std::string page = Page();

            EXPECT_TRUE(expect == page);
            for (const std::string &name : Names(other))
                EXPECT_THAT(said_.status == 0 ? said_.out : said_.err,
                            HasSubstr(said_.status == 0
                                          ? "\n" + name +
                                                " is left out: it "
                                                "is of run "
                                          : "left out: it is of run "));
        }
}

TEST_F(ReportOfRuns, ShowAPolicyThatWasChangedWithoutItsVerdicts)
{
    STP_SLOW();
    ASSERT_EQ(0, Tune(kPlans[0]).status);
    const std::string policy = Read("t.conf");
    ASSERT_THAT(policy, HasSubstr(",ring,ll128,"));

    Write("t.conf", "# mine\n" + policy);
    EXPECT_EQ(0, Run("report t.conf").status);
    EXPECT_THAT(Read("report.html"), Not(HasSubstr(" is left out: ")))
        << "a comment changes no rule";

    Write("t.conf", std::regex_replace(policy, std::regex(",ring,ll128,"),
                                       ",tree,simple,"));
    const Outcome o = Run("report t.conf --json");

    ASSERT_EQ(0, o.status) << o.err;
    const Json json = Parse(o.out);
    EXPECT_FALSE(cJSON_IsTrue(cJSON_GetObjectItem(json.get(), "verified")));
    const cJSON *warnings = cJSON_GetObjectItem(json.get(), "warnings");
    ASSERT_EQ(2, cJSON_GetArraySize(warnings));
    EXPECT_THAT(cJSON_GetArrayItem(warnings, 0)->valuestring,
                StartsWith("t.conf was changed since it was written: "));
    EXPECT_THAT(cJSON_GetArrayItem(warnings, 1)->valuestring,
                StartsWith("t.verify.csv is left out: it verifies a policy of "
                           "hash "));
    EXPECT_THAT(String(json.get(), "summary"),
                HasSubstr("; it was not verified: "));
    EXPECT_EQ(RunOf(policy), String(json.get(), "run"));
}

TEST_F(ReportOfRuns, TakeProofsByHandByTheirHash)
{
    ASSERT_EQ(0, Tune(kPlans[1]).status);
    ASSERT_EQ(0, Run("verify t.conf --on h200x4 --collective allgather -b 1M "
                     "-e 8M -n 5 --proof")
                     .status);
    fs::remove(dir_ / "t.verify.csv");

    EXPECT_EQ(0, Run("report t.conf t.conf.verified.csv").status);
    ASSERT_EQ(0, Tune(kPlans[3] + std::string(" --min-gain 30%")).status);
    ASSERT_TRUE(fs::exists(dir_ / "t.conf.~1~.verified.csv"))
        << "proofs go with the policy that they prove";
    const Outcome o = Run("report t.conf t.conf.~1~.verified.csv");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, ContainsRegex("'t.conf.~1~.verified.csv' does not "
                                     "belong to the others: it verifies a "
                                     "policy of hash [0-9a-f]+, and t.conf "
                                     "has [0-9a-f]+\n"));
}

// The other policy is of the same stem, and so are its measurements.
TEST_F(ReportOfRuns, SayWhyAPolicyHasNoneOfItsFiles)
{
    ASSERT_EQ(0, Run(std::string("tune -o t.conf ") + kPlans[1]).status);
    ASSERT_EQ(0, Run(std::string("tune -o t.txt ") + kPlans[3]).status);

    EXPECT_EQ(0, Run("report t.txt").status);
    const Outcome o = Run("report t.conf");

    EXPECT_EQ(1, o.status);
    EXPECT_EQ("steptune report: no measurements: t.sweep.csv is left out: it "
              "is of run " +
                  RunOf(Read("t.txt")) + ", expected run " +
                  RunOf(Read("t.conf")) + " as t.conf.\n",
              o.err);
}

// ---- the other way of making a policy ----

TEST_F(TuneFiles, DeriveKeepsWhatItReplacesAndNamesTheRun)
{
    STP_SLOW();
    ASSERT_EQ(0, Tune(kPlans[1]).status);
    const Snapshot before = Look();

    const Outcome o = Run("derive t.sweep.csv -o t.conf --min-gain 10%");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_EQ("steptune derive: the policy that was in t.conf is kept as "
              "t.conf.~1~\n",
              o.err);
    EXPECT_EQ(before.at("t.conf"), Read("t.conf.~1~"));
    EXPECT_EQ(before.at("t.conf.verified.txt"),
              Read("t.conf.~1~.verified.txt"));
    EXPECT_EQ(RunOf(before.at("t.conf")), RunOf(Read("t.conf")));
    for (const char *new_file : {"/dev/null", "new.conf"}) {
        const Outcome other =
            Run(std::string("derive t.sweep.csv -o ") + new_file);
        EXPECT_EQ(0, other.status) << other.err;
        EXPECT_THAT(other.err, Not(HasSubstr("is kept as")));
    }
}

} // namespace
