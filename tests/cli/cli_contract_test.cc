// steptune replay --contract: each planted tuner is caught, by name; ours and a
// clean one pass.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

std::string Plugin(const std::string &name)
{
    return STP_TEST_PLUGINS "/libnccl-tuner-" + name + ".so";
}

// Sanitizers' own handlers and reports would stand in for what is tested.
class Contract : public Cli
{
  protected:
    void SetUp() override
    {
        Cli::SetUp();
        LetPluginsCrash();
        Set("TMPDIR", dir_);
    }

    // However slow the machine is.
    Outcome Judge(const std::string &plugin, const std::string &more = "") const
    {
        return Run("replay --contract " + plugin + " --time-limit 100 " + more);
    }
};

struct Verdict {
    std::string name;
    std::string verdict;
    std::string text;
};

std::vector<Verdict> Verdicts(const std::string &json)
{
    Json root = Parse(json);
    std::vector<Verdict> verdicts;
    const cJSON *check;

    cJSON_ArrayForEach(check, cJSON_GetObjectItem(root.get(), "checks"))
        verdicts.push_back({String(check, "name"), String(check, "verdict"),
                            String(check, "text")});
    return verdicts;
}

std::vector<std::string> NamesWith(const std::vector<Verdict> &verdicts,
                                   const std::string &verdict)
{
    std::vector<std::string> names;
    for (const Verdict &v : verdicts)
        if (v.verdict == verdict)
            names.push_back(v.name);
    return names;
}

std::string TextOf(const std::vector<Verdict> &verdicts,
                   const std::string &name)
{
    for (const Verdict &v : verdicts)
        if (v.name == name)
            return v.text;
    return "no such check";
}

struct Planted {
    const char *name;
    const char *caught_by;
    const char *text; // of that check
    // All that fail, in order: what the fault is, and what comes of it.  Empty
    // if what else fails is a matter of chance.
    std::vector<std::string> failed;
};

// What a single call does badly, every check of single calls meets.
const std::vector<std::string> kCalls = {
    "never fails a collective", "stays inside the table",
    "never negative",           "never revives",
    "channels in range",        "leaves unmatched untouched",
    "all NCCL versions"};

const Planted kPlanted[] = {
    {"planted_by_reg_buff",
     "ranks agree on regBuff",
     "ranks with different regBuff, schedule 0: step 4, allreduce of 8 bytes: ",
     {"ranks agree on regBuff"}},
    {"planted_by_rank_variable",
     "ranks agree on environment",
     "one thread, schedule 0: step ",
     {"ranks agree on environment"}},
    {"planted_by_file",
     "ranks agree on files",
     "the last rank found another policy, schedule 0: step 0, broadcast of 8 ",
     {"ranks agree on files"}},
    {"planted_by_file_late",
     "ranks agree on files",
     "the last rank found another policy, schedule 0: step 0, broadcast of 8 ",
     {"ranks agree on files"}},
    {"planted_by_file_reload",
     "ranks agree on files",
     "the policy was written between inits, schedule 0: step 0, ",
     {"ranks agree on files"}},
    {"planted_fails_without_policy",
     "survives any policy",
     "/nonexistent/policy.conf: on h200x4: tuner 'fails without policy': init "
     "returned 5 (ncclInvalidUsage)",
     {"leaves unmatched untouched", "survives any policy",
      "ranks agree on files"}},
    {"planted_writes_minus_one",
     "never negative",
     "allreduce of 8 bytes on h200x4: -1 written to tree/ll, which NCCL 2.31 "
     "and later would take as the cheapest",
     {"never negative"}},
    {"planted_revives",
     "never revives",
     "broadcast of 8 bytes on h200x4: 1e+09 written to nvls/simple, which NCCL "
     "had ruled out with -1 and would crash or hang on",
     {"never revives"}},
    {"planted_returns_error",
     "never fails a collective",
     "tuner 'returns error': getCollInfo returned 4 (ncclInvalidArgument)",
     {"never fails a collective", "all NCCL versions"}},
    {"planted_writes_outside",
     "stays inside the table",
     "tuner 'writes outside' wrote outside the cost table: 0 floats before and "
     "1 after its 21 entries",
     {"never fails a collective", "stays inside the table",
      "all NCCL versions"}},
    {"planted_channels_200",
     "channels in range",
     "broadcast of 8 bytes on h200x4: asks for 200 channels, expected 0 to 64; "
     "the 8-bit field of NCCL up to 2.30 makes that -56",
     {"channels in range", "all NCCL versions"}},
    {"one_channel",
     "leaves unmatched untouched",
     "broadcast of 8 bytes on h200x4: sets channels to 1, though it changes no "
     "cost",
     {"leaves unmatched untouched"}},
    {"planted_global_context",
     "contexts apart",
     "ring/simple on 1 channels (asked for 4) as the only communicator, "
     "ring/simple on 1 channels (asked for 1) beside one of 1 rank",
     {"contexts apart", "ranks of children agree"}},
    {"planted_busy_init",
     "thread-safe init",
     "with 8 inits at once: tuner 'busy init': init returned 2 "
     "(ncclSystemError)",
     {"thread-safe init"}},
    {"planted_splits_words",
     "thread-safe init",
     "init calls strtok() of libc, whose memory all threads of the "
     "process share",
     {"thread-safe init"}},
    {"planted_breaks_time_down",
     "thread-safe calls",
     "getCollInfo calls gmtime() or localtime() of libc, whose memory all "
     "threads of the process share",
     {"thread-safe calls"}},
    {"planted_remembers_the_dead",
     "ranks agree when one dies",
     "processes, one is killed before its first call: rank 0: tuner "
     "'remembers the dead': init returned 2 (ncclSystemError)",
     {"ranks agree when one dies"}},
    {"planted_no_name",
     "complete",
     "it has no name, which NCCL prints",
     {"complete"}},
    {"planted_by_life",
     "survives reload",
     "broadcast of 8 bytes: ring/simple on 1 channels (asked for 8) at first, "
     "ring/simple on 1 channels (asked for 0) after it was loaded again",
     {}},
    {"planted_after_finalize",
     "survives staying loaded",
     "(asked for 8) at first, ring/ll on 1 channels (asked for 0) in a later "
     "communicator of the same library",
     {"survives staying loaded", "finalize in any order", "contexts apart"}},
    {"planted_last_in_first_out",
     "finalize in any order",
     "crashed (Aborted) in finalize",
     {}},
    {"planted_busy_call", "thread-safe calls", " all at once", {}},
    {"planted_by_count",
     "ranks agree",
     "one thread, schedule 0: step 10, ",
     {}},
    {"planted_by_process",
     "ranks agree as processes",
     "processes, schedule 0: step ",
     {}},
    {"planted_by_number",
     "ranks of children agree",
     "processes, schedule 3: step ",
     {"ranks of children agree"}},
    {"planted_needs_operations",
     "all NCCL versions",
     "crashed (Segmentation fault) in NCCL 2.31 (tuner v5): allgather of 8 "
     "bytes on h200x4, with policy base.conf",
     {"all NCCL versions"}},
    {"planted_fails_in_v6",
     "all NCCL versions",
     "NCCL 2.30 (tuner v6): broadcast of 8 bytes on h200x4: tuner 'fails in "
     "v6': getCollInfo returned 3 (ncclInternalError)",
     {"all NCCL versions"}},
    {"planted_leaves_handler",
     "leaves the process alone",
     "changed a signal's handler",
     {"leaves the process alone"}},
    {"planted_talks",
     "quiet",
     "200 calls logged 200 lines, such as 'asked about ",
     {"quiet"}},
    {"planted_crashes", "never fails a collective",
     "crashed (Segmentation fault) in broadcast of 17179869184 bytes on "
     "h200x4, "
     "with policy base.conf",
     kCalls},
    {"planted_exits", "never fails a collective",
     "ended the process with exit status 3 in broadcast of 17179869184 bytes",
     kCalls},
    {"planted_hangs", "never fails a collective",
     "did not come back within 4 s in broadcast of 8 bytes, numPipeOps 64",
     kCalls},
    {"init_fails_v4",
     "init",
     "on h200x4: tuner 'init fails': init returned 5 (ncclInvalidUsage); NCCL "
     "would then crash in ncclCommAbort",
     {"init"}},
    {"no_symbol", "loads", "-no_symbol.so is unsupported", {"loads"}},
    {"unresolved", "loads", "undefined symbol: no_such_function", {"loads"}},
};

class PlantedTuner : public Contract,
                     public testing::WithParamInterface<Planted>
{
};

TEST_P(PlantedTuner, IsCaughtByName)
{
    STP_SLOW();
    const Planted &planted = GetParam();
    // Only one that hangs is to reach a limit, however slow the machine is.
    const bool hangs = std::string(planted.name) == "planted_hangs";
    Outcome o =
        Judge(Plugin(planted.name), hangs ? "--json --time-limit 4" : "--json");

    EXPECT_EQ(1, o.status) << o.err;
    std::vector<Verdict> verdicts = Verdicts(o.out);
    EXPECT_THAT(TextOf(verdicts, planted.caught_by), HasSubstr(planted.text));
    EXPECT_THAT(NamesWith(verdicts, "FAIL"), Contains(planted.caught_by));
    if (!planted.failed.empty()) {
        EXPECT_THAT(NamesWith(verdicts, "FAIL"),
                    ElementsAreArray(planted.failed));
    }
    EXPECT_THAT(Files(), IsEmpty()) << "temporary files are left";
}

INSTANTIATE_TEST_SUITE_P(Table, PlantedTuner, ValuesIn(kPlanted),
                         [](const auto &c) {
                             return std::string(c.param.name);
                         });

TEST_F(Contract, PassesOurPlugin)
{
    STP_SLOW();
    Outcome o = Judge(STP_PLUGIN, "--json --nccl 2.30");

    EXPECT_EQ(0, o.status) << o.out;
    std::vector<Verdict> verdicts = Verdicts(o.out);
    EXPECT_THAT(NamesWith(verdicts, "FAIL"), IsEmpty()) << o.out;
    EXPECT_THAT(NamesWith(verdicts, "skip"), IsEmpty()) << o.out;
    EXPECT_EQ("v2 v3 v4 v5 v6 v7 in NCCL 2.21 to 2.32",
              TextOf(verdicts, "loads"));
    EXPECT_THAT(Files(), IsEmpty());
}

TEST_F(Contract, PassesOurPluginWithAPolicyOnManyNodes)
{
    STP_SLOW();
    Write("p.conf", "allreduce,0,64K,ring,ll,0,-1,-1\n");

    Outcome o = Judge(STP_PLUGIN, "--on h100n2x8 --policy p.conf --seeds 3");

    EXPECT_EQ(0, o.status) << o.out;
    EXPECT_THAT(o.out, HasSubstr("so ('steptune') in mock NCCL 2.28.9 on "
                                 "h100n2x8\n\nok    loads  "));
    EXPECT_THAT(o.out, HasSubstr("\nok    ranks agree                 16 "
                                 "ranks, 3 random schedules\n"));
    EXPECT_THAT(o.out, HasSubstr("\n27 checks: 27 ok, 0 failed, 0 skipped\n"));
}

TEST_F(Contract, PassesACleanTunerAndSkipsWhatDoesNotApply)
{
    STP_SLOW();
    Outcome o = Judge(Plugin("planted_clean"));

    EXPECT_EQ(0, o.status) << o.out;
    EXPECT_THAT(o.out, HasSubstr("\nok    never negative\n"));
    EXPECT_THAT(o.out, HasSubstr("\nskip  ranks agree on files        it does "
                                 "not read NCCL_TUNER_CONFIG_FILE\n"));
    EXPECT_THAT(o.out, HasSubstr("\n27 checks: 25 ok, 0 failed, 2 skipped\n"));
    EXPECT_THAT(o.err, IsEmpty());
}

// It decides otherwise after some calls, which are the same ones on all ranks.
TEST_F(Contract, PassesATunerThatLearns)
{
    STP_SLOW();
    Outcome o = Judge(Plugin("planted_learns"), "--json");

    EXPECT_EQ(0, o.status) << o.out;
    EXPECT_THAT(NamesWith(Verdicts(o.out), "FAIL"), IsEmpty()) << o.out;
}

TEST_F(Contract, PlaysAsManyRanksAsAreAskedFor)
{
    STP_SLOW();
    Outcome o = Judge(Plugin("planted_clean"), "--ranks 6 --seeds 2 --json");

    EXPECT_EQ(0, o.status) << o.out;
    EXPECT_EQ("6 ranks, 2 random schedules",
              TextOf(Verdicts(o.out), "ranks agree"));
}

// A rule on regBuff is the policy's fault, and found all the same.
TEST_F(Contract, FailsAPolicyByWhichRanksWouldDisagree)
{
    STP_SLOW();
    Write("p.conf", "allreduce,0,inf,tree,simple,0,-1,-1,-1,1\n"
                    "allreduce,0,inf,ring,ll,0,-1,-1,-1,0\n");

    Outcome o = Judge(STP_PLUGIN, "--policy p.conf --json");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(NamesWith(Verdicts(o.out), "FAIL"),
                ElementsAreArray({"ranks agree on regBuff"}));
}

TEST_F(Contract, SkipsTheRestWithoutATunerOrACommunicator)
{
    STP_SLOW();
    Outcome missing = Judge("./no.so");
    Outcome no_init = Judge(Plugin("init_fails_v4"));

    EXPECT_EQ(1, missing.status);
    EXPECT_THAT(missing.out,
                HasSubstr("FAIL  loads                       NCCL 2.28.9 does "
                          "not load it: TUNER/Plugin: Could not find: "
                          "./no.so"));
    EXPECT_THAT(missing.out, HasSubstr("\nskip  init                        "
                                       "not loaded\n"));
    EXPECT_THAT(missing.out, HasSubstr("0 ok, 1 failed, 26 skipped"));
    EXPECT_THAT(no_init.out, HasSubstr("\nskip  quiet                       "
                                       "no communicator could be made\n"));
    EXPECT_THAT(no_init.out, HasSubstr("2 ok, 1 failed, 24 skipped"));
}

TEST_F(Contract, FailsAnNcclThatIsTooOldForTheTuner)
{
    STP_SLOW();
    Outcome o = Judge(Plugin("planted_clean"), "--nccl 2.27 --json");

    EXPECT_EQ(1, o.status);
    EXPECT_THAT(
        TextOf(Verdicts(o.out), "loads"),
        StartsWith(
            "NCCL 2.27 does not load it: TUNER/Plugin: Failed to find "));
}

// Of the versions that take it, unless one is asked for.
TEST_F(Contract, PlaysTheOldestNcclIfTheMachinesDoesNotTakeTheTuner)
{
    STP_SLOW();
    Outcome o = Judge(Plugin("echo_v6"));

    EXPECT_THAT(o.out, HasSubstr("in mock NCCL 2.30 on h200x4\n"));
    EXPECT_THAT(o.out, HasSubstr("\nok    loads                       v6 in "
                                 "NCCL 2.30 to 2.32\n"));
}

TEST_F(Contract, LeavesNothingBehindWhenInterrupted)
{
    STP_SLOW();
    std::string command = "cd '" + dir_.string() +
                          "' && timeout -s INT 1 " STP_STEPTUNE
                          " replay --contract " +
                          Plugin("planted_hangs") + " >/dev/null 2>&1";

    int status = std::system(command.c_str());

    ASSERT_TRUE(WIFEXITED(status));
    EXPECT_EQ(124, WEXITSTATUS(status)) << "it ended before the signal";
    EXPECT_THAT(Files(), IsEmpty());
}

// As dlopen() does not, which searches for a name without a slash.
TEST_F(Contract, FindsAFileThatIsHere)
{
    STP_SLOW();
    fs::copy(Plugin("planted_clean"), dir_ / "x.so");

    Outcome o = Run("replay --contract x.so --seeds 1 --json");

    EXPECT_EQ(0, o.status) << o.err;
    EXPECT_THAT(NamesWith(Verdicts(o.out), "FAIL"), IsEmpty());
}

TEST_F(Contract, RefusesWhatItCannotDo)
{
    STP_SLOW();
    ExpectRefusals(
        "",
        {
            {"replay", 2, "nothing to replay, expected --trace or --contract"},
            {"replay --contract a.so --trace t.csv", 2,
             "--trace has no effect with --contract"},
            {"replay --contract a.so --plugin b.so", 2,
             "--plugin has no effect with --contract"},
            {"replay --contract a.so --time-limit 0", 2,
             "--time-limit '0', expected a number from 1"},
            {"replay --contract a.so --nccl 2.20", 1,
             "NCCL version '2.20' is none of"},
            {"replay --contract a.so --on nowhere", 77,
             "no recorded machine 'nowhere'"},
            {"replay --contract a.so --policy no.conf", 1,
             "no.conf: cannot be opened"},
        });
}

} // namespace
