// steptune explain: what decides, why, and what differs.
#include <cmath>
#include <regex>

#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

// ---- the policy that the environment chooses ----

class CliEnvironment : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        Write("p.conf", "allreduce,4M,16M,tree,ll,-1,-1,-1\n");
        Write("p.conf.overlap", "allreduce,4M,16M,tree,ll128,-1,-1,-1\n");
        Write("other.conf", "allreduce,4M,16M,tree,simple,-1,-1,-1\n");
        Write("t.csv", "collective,bytes\nallreduce,8M\n");
    }

    using Variables = std::vector<std::pair<const char *, const char *>>;

    Outcome RunWith(const Variables &variables, const std::string &arguments)
    {
        for (const char *name :
             {"NCCL_TUNER_CONFIG_FILE", "NCCL_WORKLOAD_OVERLAP",
              "STEPTUNE_OVERLAP_CONFIG_FILE"})
            Set(name, "");
        for (const auto &[name, value] : variables)
            Set(name, value);
        return Run(arguments);
    }

    // With where each takes the policy's name.
    const std::vector<std::pair<std::string, std::string>> commands_ = {
        {"explain --on h200x4 --collective allreduce", " --policy "},
        {"explain --on h200x4 --why 8M", " --policy "},
        {"replay --trace t.csv --seeds 1", " --policy "},
        {"verify --on h200x4 --collective allreduce -b 8M -e 8M", " "},
    };
};

TEST_F(CliEnvironment, GivesEachCommandThePolicyThatAJobTakes)
{
    STP_SLOW();
    const struct {
        const char *name;
        Variables variables;
        std::string named; // "" for none
        const char *line;  // first of the output; "" for none
        const char *choice;
    } cases[] = {
        {"the file",
         {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}},
         "",
         "policy p.conf, from NCCL_TUNER_CONFIG_FILE\n",
         "tree/ll"},
        {"no overlap",
         {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}, {"NCCL_WORKLOAD_OVERLAP", "0"}},
         "",
         "policy p.conf, from NCCL_TUNER_CONFIG_FILE\n",
         "tree/ll"},
        {"overlap",
         {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}, {"NCCL_WORKLOAD_OVERLAP", "1"}},
         "",
         "policy p.conf.overlap, from NCCL_TUNER_CONFIG_FILE, because "
         "NCCL_WORKLOAD_OVERLAP is 1\n",
         "tree/ll128"},
        {"the file for overlap",
         {{"STEPTUNE_OVERLAP_CONFIG_FILE", "other.conf"},
          {"NCCL_WORKLOAD_OVERLAP", "1"}},
         "",
         "policy other.conf, from STEPTUNE_OVERLAP_CONFIG_FILE, because "
         "NCCL_WORKLOAD_OVERLAP is 1\n",
         "tree/simple"},
        {"named",
         {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}, {"NCCL_WORKLOAD_OVERLAP", "1"}},
         "other.conf",
         "policy other.conf, as named; a job with this environment takes "
         "p.conf.overlap\n",
         "tree/simple"},
        {"named as a job has it",
         {{"NCCL_TUNER_CONFIG_FILE", "p.conf"}},
         "p.conf",
         "",
         "tree/ll"},
        {"named, whatever the environment",
         {{"NCCL_WORKLOAD_OVERLAP", "yes"}},
         "p.conf",
         "",
         "tree/ll"},
    };

    for (const auto &c : cases)
        for (const auto &[command, option] : commands_) {
            SCOPED_TRACE(std::string(c.name) + ": " + command);
            const std::string arguments =
                command + (c.named.empty() ? "" : option + c.named);

            Outcome o = RunWith(c.variables, arguments);

            EXPECT_EQ("", o.err);
            EXPECT_THAT(o.out, c.line[0] != '\0'
                                   ? Matcher<std::string>(StartsWith(c.line))
                                   : Not(StartsWith("policy ")));
            // --why lists all, with what the plugin makes of its choice
            EXPECT_THAT(
                o.out, ContainsRegex(std::string(c.choice) +
                                     (command.find("--why") != std::string::npos
                                          ? " +[0-9.]+ +63\\.392 +yes"
                                          : "[ /]")));
        }
}

TEST_F(CliEnvironment, RefusesWhatThePluginWouldRefuse)
{
    STP_SLOW();
    for (const auto &[command, option] : commands_) {
        SCOPED_TRACE(command);
        const std::string name =
            "steptune " + command.substr(0, command.find(' ')) + ": ";

        Outcome o = RunWith({{"NCCL_WORKLOAD_OVERLAP", "yes"}}, command);
        EXPECT_EQ(1, o.status);
        EXPECT_EQ(name + "no policy: NCCL_WORKLOAD_OVERLAP is 'yes', expected "
                         "0 or 1\n",
                  o.err);
        o = RunWith({{"NCCL_WORKLOAD_OVERLAP", "1"}}, command);
        EXPECT_EQ(1, o.status);
        EXPECT_EQ(name + "nccl_tuner.conf.overlap: cannot be opened: No such "
                         "file or directory\n",
                  o.err);
    }
}

TEST_F(CliEnvironment, GivesTheDefaultOfThePluginIfItIsThere)
{
    STP_SLOW();
    Write("nccl_tuner.conf", "allreduce,4M,16M,tree,ll,-1,-1,-1\n");

    for (const auto &[command, option] : commands_)
        EXPECT_THAT(RunWith({}, command).out,
                    StartsWith("policy nccl_tuner.conf, the default of the "
                               "plugin\n"));
}

TEST_F(CliEnvironment, KeepsJsonApart)
{
    STP_SLOW();
    Outcome o = RunWith({{"NCCL_TUNER_CONFIG_FILE", "p.conf"}},
                        "explain --on h200x4 --why 8M --json");

    EXPECT_EQ("steptune explain: policy p.conf, from NCCL_TUNER_CONFIG_FILE\n",
              o.err);
    EXPECT_EQ("p.conf", String(Parse(o.out).get(), "policy"));
}

// ---- all ranges ----

TEST_F(Cli, ExplainNamesThePolicyLineThatDecides)
{
    Write("p.conf", "# a comment\n"
                    "allreduce,4096,8191,tree,simple,2,-1,-1\n"
                    "allreduce,8K,16K,tree,ll,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --on h200x4 --table");

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
    LetPluginsCrash();
    Outcome o = Run("explain --plugin " STP_ROW_POINTERS);

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

TEST_F(Cli, ExplainTakesOneCollective)
{
    Write("p.conf", "allreduce,8K,16K,tree,ll,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --collective reduce --table");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, HasSubstr("\nreduce  "));
    EXPECT_THAT(o.out, Not(HasSubstr("allreduce")));
}

// ---- why ----

class CliWhy : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        Write("p.conf", "# ours\nallreduce,4M,16M,ring,ll128,16,-1,-1 # why\n");
    }
};

TEST_F(CliWhy, ShowsTheTableBothChoicesAndTheLine)
{
    Outcome o = Run("explain --policy p.conf --on h200x4 --why 8M");

    ASSERT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StartsWith("allreduce of 8388608 bytes with "));
    EXPECT_THAT(
        o.out,
        HasSubstr("libnccl-tuner-steptune.so on h200x4\n"
                  "\n"
                  "entry        NCCL's us  plugin's us  changed  chosen by\n"
                  "tree/ll        251.015      251.015           -\n"
                  "tree/ll128      93.865       93.865           -\n"
                  "tree/simple     95.720       95.720           -\n"
                  "ring/ll         99.441       99.441           -\n"
                  "ring/ll128      63.392       63.392  yes      both\n"
                  "ring/simple     63.753       63.753           -\n"
                  "\n"));
    EXPECT_TRUE(std::regex_search(
        o.out, std::regex("\nNCCL alone +ring/ll128 +24 +- +63.392 +63.245 +"
                          "interpolated\n"
                          "with the plugin +ring/ll128 +16 +16 +63.392 +71.841 "
                          "+interpolated, single pass\n"
                          "\n"
                          "Decided by p.conf:2: "
                          "allreduce,4M,16M,ring,ll128,16,-1,-1 # why\n"
                          "Nothing that is set here overrides it: NCCL_ALGO, "
                          ".*NCCL_CTA_POLICY are unset.\n$")))
        << o.out;
}

TEST_F(CliWhy, SaysIfNoLineDecided)
{
    Outcome o = Run("explain --policy p.conf --why 1M --collective allgather");
    Outcome other = Run("explain --plugin " STP_ONE_CHANNEL " --why 1M");

    EXPECT_THAT(o.out, AllOf(StartsWith("allgather of 1048576 bytes"),
                             HasSubstr("\nDecided by NCCL: no line of p.conf "
                                       "applies.\n")));
    EXPECT_THAT(other.out, HasSubstr("\nDecided by the plugin, by no line of "
                                     "a policy that is known.\n"));
}

TEST_F(CliWhy, TimesThatNobodyRecordedAreNone)
{
    Outcome o = Run("explain --policy p.conf --why 1M --on h100x8");

    EXPECT_TRUE(std::regex_search(
        o.out, std::regex("\nNCCL alone +[a-z/0-9]+ +24 +- +[0-9.]+ +- +-\n")))
        << o.out;
}

TEST_F(CliWhy, PlaysTheVariablesThatAreSet)
{
    Set("NCCL_ALGO", "tree");
    Set("NCCL_PROTO", "ll128x");
    Set("NCCL_NVLS_ENABLE", "0");
    Set("NCCL_MAX_NCHANNELS", "8");

    Outcome o = Run("explain --policy p.conf --why 8M");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(
        o.out,
        HasSubstr(
            " # why\n"
            "NCCL_ALGO=tree is set here: it overrides that, and tree/ll128 "
            "runs on 24 channels.\n"
            "NCCL_PROTO=ll128x is set here: NCCL fails: NCCL_PROTO=ll128x: "
            "'ll128x' is no protocol\n"
            "NCCL_NVLS_ENABLE=0 is set here: the same runs.\n"
            "NCCL_MAX_NCHANNELS=8 is set here: NCCL makes no more channels, "
            "whatever a plugin asks for; mock NCCL does not play that.\n"));
}

TEST_F(CliWhy, TellsProgramsTheSame)
{
    Set("NCCL_ALGO", "tree");

    Outcome o = Run("explain --policy p.conf --why 8M --json");

    Json root = Parse(o.out);
    auto item = [&](const char *key) {
        return cJSON_GetObjectItem(root.get(), key);
    };
    EXPECT_EQ("allreduce", String(root.get(), "collective"));
    EXPECT_EQ(8388608, Number(root.get(), "bytes"));
    EXPECT_EQ("rule", String(root.get(), "decided_by"));
    EXPECT_EQ("p.conf", String(root.get(), "policy"));
    EXPECT_EQ(2, Number(root.get(), "line"));
    EXPECT_EQ("allreduce,4M,16M,ring,ll128,16,-1,-1 # why",
              String(root.get(), "rule"));
    ASSERT_EQ(6, cJSON_GetArraySize(item("costs")));
    const cJSON *ring = cJSON_GetArrayItem(item("costs"), 4);
    EXPECT_EQ("ring", String(ring, "algorithm"));
    EXPECT_EQ("ll128", String(ring, "protocol"));
    EXPECT_NEAR(63.392, Number(ring, "us"), 0.001);
    EXPECT_EQ(std::nextafter(static_cast<float>(Number(ring, "us")), 0.0f),
              static_cast<float>(Number(ring, "plugin_us")));
    EXPECT_TRUE(cJSON_IsTrue(cJSON_GetObjectItem(ring, "changed")));
    EXPECT_EQ("interpolated", String(item("auto"), "source"));
    EXPECT_EQ(16, Number(item("choice"), "asked_channels"));
    EXPECT_NEAR(71.841, Number(item("choice"), "us"), 0.001);
    ASSERT_EQ(1, cJSON_GetArraySize(item("overrides")));
    const cJSON *algo = cJSON_GetArrayItem(item("overrides"), 0);
    EXPECT_EQ("NCCL_ALGO", String(algo, "variable"));
    EXPECT_EQ("runs", String(algo, "effect"));
    EXPECT_EQ("tree", String(cJSON_GetObjectItem(algo, "choice"), "algorithm"));
}

// ---- diff ----

TEST_F(Cli, DiffListsTheRangesThatTwoPoliciesDecideDifferently)
{
    Write("p.conf", "allreduce,4M,16M,ring,ll128,16,-1,-1\n");
    Write("q.conf", "allgather,2M,4M,ring,ll128,-1,-1,-1\n"
                    "allreduce,4M,16M,ring,ll128,16,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --diff q.conf --on h200x4");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, IsEmpty());
    EXPECT_THAT(
        o.out,
        StrEq("p.conf and q.conf decide differently on h200x4\n"
              "\n"
              "collective  from bytes  to bytes  first        second      at "
              "bytes  first us  second us  source\n"
              "allgather      2097152   3152216  ring/ll      ring/ll128   "
              "2499584    23.979     23.243  recorded\n"
              "allgather      3152224   4194304  ring/simple  ring/ll128   "
              "3905536    39.853     28.818  recorded\n"));
}

TEST_F(Cli, DiffOfWhatDecidesTheSameSucceeds)
{
    Write("p.conf", "allreduce,4M,8M,ring,ll128,16,-1,-1\n");
    Write("q.conf", "# in two\n"
                    "allreduce,4M,6000000,ring,ll128,16,-1,-1\n"
                    "allreduce,6000000,8M,ring,ll128,16,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --diff q.conf");
    Outcome json = Run("explain --policy p.conf --diff q.conf --json");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(o.out, StrEq("p.conf and q.conf decide the same on h200x4\n"));
    EXPECT_EQ(0, json.status);
    Json root = Parse(json.out);
    EXPECT_TRUE(cJSON_IsTrue(cJSON_GetObjectItem(root.get(), "same")));
}

TEST_F(Cli, DiffTakesAnotherVendorsPlugin)
{
    Write("p.conf", "allreduce,0,inf,tree,ll,-1,-1,-1\n");

    Outcome o = Run("explain --policy p.conf --collective allreduce --json "
                    "--on h100x8 --diff " STP_ONE_CHANNEL);

    EXPECT_EQ(1, o.status) << o.err;
    Json root = Parse(o.out);
    const cJSON *list = cJSON_GetObjectItem(root.get(), "differences");
    ASSERT_LT(0, cJSON_GetArraySize(list));
    const cJSON *row = cJSON_GetArrayItem(list, 0);
    EXPECT_EQ(16, Number(row, "min_bytes"));
    EXPECT_EQ("tree", String(cJSON_GetObjectItem(row, "first"), "algorithm"));
    EXPECT_EQ(1, Number(cJSON_GetObjectItem(row, "second"), "channels"));
    EXPECT_TRUE(cJSON_IsNull(cJSON_GetObjectItem(row, "source")));
    EXPECT_EQ(
        0, Run("explain --plugin " STP_ONE_CHANNEL " --diff " STP_ONE_CHANNEL)
               .status);
}

TEST_F(Cli, DiffWithWhatCannotBeReadFails)
{
    Write("p.conf", "allreduce,4M,8M,ring,ll128,16,-1,-1\n");
    Write("bad.conf", "allreduce,4M\n");

    Outcome missing = Run("explain --policy p.conf --diff none");
    Outcome bad = Run("explain --policy p.conf --diff bad.conf");

    EXPECT_EQ(1, missing.status);
    EXPECT_THAT(missing.err, StrEq("steptune explain: cannot read 'none', "
                                   "expected a policy or a plugin\n"));
    EXPECT_EQ(1, bad.status);
    EXPECT_THAT(bad.err, StartsWith("steptune explain: bad.conf:1:"));
    EXPECT_EQ(1, Count(bad.err, "\n"));
    EXPECT_THAT(missing.out + bad.out, IsEmpty());
}

TEST_F(Cli, DiffSurvivesAPluginThatCrashes)
{
    LetPluginsCrash();
    Write("p.conf", "allreduce,4M,8M,ring,ll128,16,-1,-1\n");
    Outcome o = Run("explain --policy p.conf --diff " STP_ROW_POINTERS);

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(o.err, HasSubstr("row_pointers.so' crashed ("));
}

// ---- golden ----

TEST_F(Cli, GoldenIsWrittenOnceAndThenCompared)
{
    Write("p.conf", "allreduce,4M,16M,ring,ll128,16,-1,-1\n");
    Write("same.conf", "# only a comment\n"
                       "allreduce,4M,16M,ring,ll128,16,-1,-1\n");
    Write("other.conf", "allreduce,4M,16M,ring,ll128,8,-1,-1\n");
    const std::string golden = " --collective allreduce --golden g.csv";

    Outcome first = Run("explain --policy p.conf" + golden);
    EXPECT_EQ(0, first.status) << first.err;
    EXPECT_THAT(first.out, StrEq("g.csv: written\n"));
    const std::string text = Read("g.csv");
    EXPECT_THAT(
        text,
        StrEq("# steptune explain: what a tuner plugin decides on h200x4, up "
              "to 17179869184 bytes\n"
              "collective,min_bytes,max_bytes,auto_algorithm,auto_protocol,"
              "algorithm,protocol,asked_channels,min_channels,max_channels,"
              "decided_by\n"
              "allreduce,8,2488000,ring,ll,ring,ll,0,1,24,nccl\n"
              "allreduce,2488008,4194296,ring,ll128,ring,ll128,0,24,24,nccl\n"
              "allreduce,4194304,9384016,ring,ll128,ring,ll128,16,16,16,rule\n"
              "allreduce,9384024,16777216,ring,simple,ring,ll128,16,16,16,"
              "rule\n"
              "allreduce,16777224,17179869184,ring,simple,ring,simple,0,24,24,"
              "nccl\n"));

    Outcome again = Run("explain --policy same.conf" + golden);
    EXPECT_EQ(0, again.status);
    EXPECT_THAT(again.out, StrEq("g.csv: nothing has changed\n"));

    Outcome other = Run("explain --policy other.conf" + golden);
    EXPECT_EQ(1, other.status);
    EXPECT_THAT(other.err, IsEmpty());
    EXPECT_THAT(
        other.out,
        StrEq("g.csv: 4 lines differ\n"
              "-5: allreduce,4194304,9384016,ring,ll128,ring,ll128,16,16,16,"
              "rule\n"
              "-6: allreduce,9384024,16777216,ring,simple,ring,ll128,16,16,16,"
              "rule\n"
              "+5: allreduce,4194304,9384016,ring,ll128,ring,ll128,8,8,8,"
              "rule\n"
              "+6: allreduce,9384024,16777216,ring,simple,ring,ll128,8,8,8,"
              "rule\n"));
    EXPECT_EQ(text, Read("g.csv"));

    EXPECT_EQ(0, Run("explain --policy other.conf --update" + golden).status);
    EXPECT_EQ(0, Run("explain --policy other.conf" + golden).status);
    EXPECT_EQ(1, Run("explain --policy p.conf" + golden).status);
}

TEST_F(Cli, GoldenTellsProgramsWhatDiffers)
{
    Write("p.conf", "allreduce,4M,16M,ring,ll128,16,-1,-1\n");
    Write("g.csv", "# older\n");

    Outcome o = Run("explain --policy p.conf --golden g.csv --json");

    EXPECT_EQ(1, o.status);
    Json root = Parse(o.out);
    const cJSON *list = cJSON_GetObjectItem(root.get(), "differences");
    ASSERT_LT(3, cJSON_GetArraySize(list));
    EXPECT_FALSE(cJSON_IsTrue(cJSON_GetObjectItem(root.get(), "same")));
    EXPECT_EQ("golden", String(cJSON_GetArrayItem(list, 0), "in"));
    EXPECT_EQ("# older", String(cJSON_GetArrayItem(list, 0), "text"));
    EXPECT_EQ("now", String(cJSON_GetArrayItem(list, 1), "in"));
    EXPECT_EQ(1, Number(cJSON_GetArrayItem(list, 1), "line"));
}

TEST_F(Cli, GoldenThatCannotBeReadOrWrittenFails)
{
    Write("p.conf", "allreduce,4M,16M,ring,ll128,16,-1,-1\n");

    ExpectRefusals(
        "explain --policy p.conf --golden ",
        {
            {".", 2, "--golden '.' is a folder, expected a file"},
            {"no/g.csv", 2,
             "--golden 'no/g.csv' has no place: there is no folder 'no'"},
            {"p.conf --update", 2,
             "--golden 'p.conf' is a file that is read, expected another one"},
        });
    EXPECT_THAT(Files(), ElementsAre("p.conf"));
}

} // namespace
