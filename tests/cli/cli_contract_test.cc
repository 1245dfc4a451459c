// steptune replay --contract: each planted tuner is caught, by name.  Faults of
// single calls are in contract_here_test.
#include "support/cli_fixture.h"
#include "support/slow.h"

namespace
{

using namespace cli;
using namespace testing;

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
    const char *fault = ""; // of planted_here
};

const Planted kPlanted[] = {
    {"planted_here",
     "ranks agree on regBuff",
     "ranks with different regBuff, schedule 0: step 4, allreduce of 1 bytes: ",
     {"ranks agree on regBuff"},
     "by_reg_buff,coll=4"},
    {"planted_by_rank_variable",
     "ranks agree on environment",
     "one thread, schedule 0: step ",
     {"ranks agree on environment"}},
    {"planted_by_file",
     "ranks agree on files",
     "the last rank found another policy, schedule 0: step 0, broadcast of 1 ",
     {"ranks agree on files"}},
    {"planted_here",
     "ranks agree on files",
     "the last rank found another policy, schedule 0: step 0, broadcast of 1 ",
     {"ranks agree on files"},
     "by_file"},
    {"planted_by_file_reload",
     "ranks agree on files",
     "the policy was written between inits, schedule 0: step 0, ",
     {"ranks agree on files"}},
    {"planted_fails_without_policy",
     "survives any policy",
     "init on h200x4, /nonexistent/policy.conf, with policy policy.conf: tuner "
     "'fails without policy': init returned 5 (ncclInvalidUsage)",
     {"leaves unmatched untouched", "survives any policy",
      "ranks agree on files"}},
    {"one_channel",
     "leaves unmatched untouched",
     "broadcast of 1 bytes on h200x4, with policy base.conf: sets channels to "
     "1, though it changes no cost",
     {"leaves unmatched untouched"}},
    {"planted_global_context",
     "contexts apart",
     "ring/simple on 1 channels (asked for 4) as the only communicator, "
     "ring/simple on 1 channels (asked for 1) beside one of 1 rank",
     {"contexts apart", "ranks of children agree"}},
    {"planted_busy_init",
     "thread-safe init",
     "all inits at once: rank ",
     {"thread-safe init"}},
    {"planted_here",
     "thread-safe init",
     "init calls strtok() of libc, whose memory all threads of the "
     "process share",
     {"thread-safe init"},
     "splits_words,life=1"},
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
     "broadcast of 1 bytes: ring/simple on 1 channels (asked for 8) at first, "
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
    {"planted_busy_call",
     "thread-safe calls",
     "all calls at once, schedule ",
     {}},
    {"planted_here",
     "ranks agree",
     "one thread, schedule 0: step 4, ",
     {},
     "by_count,coll=4"},
    {"planted_here",
     "ranks agree as processes",
     "processes, schedule 0: step ",
     {},
     "by_process"},
    {"planted_by_number",
     "ranks of children agree",
     "processes, schedule 4: step ",
     {"ranks of children agree"}},
    {"planted_needs_operations",
     "all NCCL versions",
     "crashed (Segmentation fault) in allgather of 1 bytes on h200x4, NCCL "
     "2.31 (tuner v5), with policy base.conf",
     {"all NCCL versions"}},
    {"planted_fails_in_v6",
     "all NCCL versions",
     "broadcast of 1 bytes on h200x4, NCCL 2.30 (tuner v6), with policy "
     "base.conf: tuner 'fails in "
     "v6': getCollInfo returned 3 (ncclInternalError)",
     {"all NCCL versions"}},
    {"planted_here",
     "leaves the process alone",
     "changed a signal's handler",
     {"leaves the process alone"},
     "ignores_signal,life=1"},
    {"planted_here",
     "leaves the process alone",
     "changed the memory that is taken: each communicator leaves some of it",
     {"leaves the process alone"},
     "keeps_memory,life=1"},
    {"planted_fails_later",
     "leaves the process alone",
     "init on 2 nodes with CollNet, with policy base.conf: tuner 'fails "
     "later': init "
     "returned 2 (ncclSystemError)",
     {"leaves the process alone"}},
    {"init_fails_v4",
     "init",
     "init on h200x4, with policy base.conf: tuner 'init fails': init returned "
     "5 (ncclInvalidUsage); NCCL would then crash in ncclCommAbort",
     {"init"}},
    {"no_symbol", "loads", "-no_symbol.so is unsupported", {"loads"}},
    {"unresolved", "loads", "undefined symbol: no_such_function", {"loads"}},
};

class PlantedTuner : public Cli, public testing::WithParamInterface<Planted>
{
  protected:
    // Sanitizers' own handlers and reports would stand in for what is tested.
    void SetUp() override
    {
        Cli::SetUp();
        Set("ASAN_OPTIONS", "handle_segv=0:detect_leaks=0");
        Set("TSAN_OPTIONS", "handle_segv=0");
        Set("TMPDIR", dir_);
        Set("PLANTED", GetParam().fault);
    }
};

TEST_P(PlantedTuner, IsCaughtByName)
{
    STP_SLOW();
    const Planted &planted = GetParam();
    Outcome o = Run(
        "replay --json --time-limit 400 --seed 1 --contract " STP_TEST_PLUGINS
        "/libnccl-tuner-" +
        std::string(planted.name) + ".so" +
        (planted.failed.size() == 1
             ? " --check '" + std::string(planted.caught_by) + "'"
             : ""));

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
                             const std::string fault = c.param.fault;
                             return fault.empty()
                                        ? c.param.name
                                        : fault.substr(0, fault.find(','));
                         });

} // namespace
