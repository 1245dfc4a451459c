// Which files a page shows: those of one run, and verdicts of the policy as it
// is now.
#include <array>

extern "C" {
#include "report/policy_file.h"
}

#include "page_files.h"

namespace
{

using namespace page;

constexpr char kRun[] = "11111111";
constexpr char kOther[] = "22222222";
constexpr char kNone[] = "";
constexpr char kHash[] = "cccccccccccccccc"; // of another policy
constexpr char kOwn[] = "own";               // of the policy that is there

const char *const kNames[STP_PAGE_N_SOURCES] = {
    "s.conf",       "s.conf.overlap",   "s.conf.memory",
    "s.conf.stage", "s.sweep.csv",      "s.verify.csv",
    "s.graph.csv",  "s.iterations.csv", "s.overlap-verify.csv"};

// The marks and the place of a file.
struct Says {
    bool is_there = false;
    std::string run = "";
    std::string hash = "";
    bool is_named = false;
    const char *gpu = "NVIDIA H200";
};

using Set = std::array<Says, STP_PAGE_N_SOURCES>;

// The files that tune leaves.
Set OfOneRun()
{
    Set set;
    for (int s = 0; s < STP_PAGE_N_SOURCES; s++) {
        bool of_policy = s != STP_PAGE_SWEEP && s != STP_PAGE_GRAPH &&
                         s != STP_PAGE_ITERATIONS;
        set[s] = {true, kRun, of_policy ? kOwn : kNone};
    }
    return set;
}

class Belonging : public Page
{
  protected:
    static std::string HashOf(const std::string &path)
    {
        char hash[STP_POLICY_HASH_NAME];
        EXPECT_EQ(STP_OK, stp_policy_file_hash(path.c_str(), hash, nullptr));
        return hash;
    }

    void WritePolicy(int source, const Says &says) const
    {
        const char *rules = source == STP_PAGE_MEMORY_POLICY  ? kMemory
                            : source == STP_PAGE_STAGE_POLICY ? kStage
                                                              : kPolicy;
        const std::string path = Write(kNames[source], rules);
        const std::string hash = says.hash == kOwn ? HashOf(path) : says.hash;
        Write(kNames[source],
              (says.run.empty() ? "" : "# run: " + says.run + "\n") +
                  (hash.empty() ? "" : "# policy hash: " + hash + "\n") +
                  rules);
    }

    void WriteSet(int source, const Says &says) const
    {
        Data d;
        const bool is_verdict =
            source == STP_PAGE_VERIFY || source == STP_PAGE_OVERLAP_VERIFY;
        d.AddAuto(kMiB).AddGain(kMiB, is_verdict ? kPlugin : kRingLl128, 1.5);
        if (source >= STP_PAGE_ITERATIONS)
            MakeSteps(&d);
        for (size_t i = 0; i < d.data.n_rows; i++)
            d.data.rows[i].graph = source == STP_PAGE_GRAPH;
        const std::string policy =
            Path(kNames[source == STP_PAGE_VERIFY ? STP_PAGE_POLICY
                                                  : STP_PAGE_OVERLAP_POLICY]);
        const std::string hash = says.hash == kOwn ? HashOf(policy) : says.hash;
        snprintf(d.data.run, sizeof(d.data.run), "%s", says.run.c_str());
        snprintf(d.data.policy_hash, sizeof(d.data.policy_hash), "%s",
                 hash.c_str());
        Save(kNames[source], &d, says.gpu);
    }

    // Makes the page of these, and returns it or the error.
    std::string MakeOf(const Set &set)
    {
        std::array<std::string, STP_PAGE_N_SOURCES> paths;
        stp_page_sources sources{};
        for (int s = 0; s < STP_PAGE_N_SOURCES; s++) {
            if (!set[s].is_there)
                continue;
            if (s < STP_PAGE_SWEEP)
                WritePolicy(s, set[s]);
            else
                WriteSet(s, set[s]);
            paths[s] = Path(kNames[s]);
            sources.path[s] = paths[s].c_str();
            sources.is_named[s] = set[s].is_named;
        }
        return Make(sources);
    }
};

#define AS_POLICY ", expected run 11111111 as s.conf."
#define OF_OTHER  " is left out: it is of run 22222222" AS_POLICY

TEST_F(Belonging, OfOneRunAndOfThePolicyAsItIs)
{
    const std::string own = HashOf(Write("p.conf", kPolicy));
    const std::string memory = HashOf(Write("p.conf.memory", kMemory));
    const std::string not_here =
        "s.overlap-verify.csv is left out: the policy that it verifies is not "
        "here.";
    const struct {
        const char *name;
        void (*change)(Set &set);
        std::vector<std::string> warnings;
    } cases[] = {
        {"what tune leaves", [](Set &) {}, {}},
        {"overlap policy of another run",
         [](Set &s) { s[STP_PAGE_OVERLAP_POLICY].run = kOther; },
         {"s.conf.overlap" OF_OTHER, not_here}},
        {"all that is beside the policy of another run",
         [](Set &s) {
             for (int k = STP_PAGE_VERIFY; k < STP_PAGE_N_SOURCES; k++)
                 s[k].run = kOther;
         },
         {"s.verify.csv" OF_OTHER, "s.graph.csv" OF_OTHER,
          "s.iterations.csv" OF_OTHER, "s.overlap-verify.csv" OF_OTHER}},
        {"overlap policy that was removed",
         [](Set &s) {
             s[STP_PAGE_OVERLAP_VERIFY].hash = kHash;
             s[STP_PAGE_OVERLAP_POLICY].is_there = false;
         },
         {not_here}},
        {"overlap policy by hand",
         [](Set &s) {
             s[STP_PAGE_OVERLAP_POLICY] = {true};
             s[STP_PAGE_OVERLAP_VERIFY].is_there = false;
         },
         {"s.conf.overlap is left out: it names no run" AS_POLICY}},
        {"memory policy of another run",
         [](Set &s) { s[STP_PAGE_MEMORY_POLICY].run = kOther; },
         {"s.conf.memory" OF_OTHER}},
        {"memory policy that was changed",
         [](Set &s) { s[STP_PAGE_MEMORY_POLICY].hash = kHash; },
         {"s.conf.memory was changed since it was written: its policy hash was "
          "cccccccccccccccc and is " +
          memory + "."}},
        {"sweep of no run",
         [](Set &s) { s[STP_PAGE_SWEEP].run = kNone; },
         {"s.sweep.csv is left out: it names no run" AS_POLICY}},
        {"sweep of no run that the user named",
         [](Set &s) {
             s[STP_PAGE_SWEEP].run = kNone;
             s[STP_PAGE_SWEEP].is_named = true;
         },
         {}},
        {"verified by hand",
         [](Set &s) { s[STP_PAGE_VERIFY].run = kNone; },
         {}},
        {"verdicts of another policy",
         [](Set &s) { s[STP_PAGE_VERIFY].hash = kHash; },
         {"s.verify.csv is left out: it verifies a policy of hash "
          "cccccccccccccccc, and s.conf has " +
          own + "."}},
        {"policy that was changed",
         [](Set &s) {
             s[STP_PAGE_POLICY].hash = s[STP_PAGE_VERIFY].hash = kHash;
         },
         {"s.conf was changed since it was written: its policy hash was "
          "cccccccccccccccc and is " +
              own + ".",
          "s.verify.csv is left out: it verifies a policy of hash "
          "cccccccccccccccc, and s.conf has " +
              own + "."}},
        {"policy by hand beside a run",
         [](Set &s) { s[STP_PAGE_POLICY] = {true}; },
         {}},
        {"of an earlier release",
         [](Set &s) {
             for (Says &says : s)
                 says = {true};
         },
         {"s.verify.csv does not say which policy it verifies, as an earlier "
          "release wrote it: it is taken to be s.conf.",
          "s.overlap-verify.csv does not say which policy it verifies, as an "
          "earlier release wrote it: it is taken to be s.conf.overlap."}},
        {"of an earlier release, but for the policy",
         [](Set &s) {
             s[STP_PAGE_VERIFY].run = s[STP_PAGE_VERIFY].hash = kNone;
         },
         {"s.verify.csv is left out: it names no run" AS_POLICY}},
        {"another GPU",
         [](Set &s) { s[STP_PAGE_ITERATIONS].gpu = "NVIDIA A100"; },
         {"s.iterations.csv is left out: it was measured on 'NVIDIA A100' with "
          "NCCL 2.28.9, expected 'NVIDIA H200' with NCCL 2.28.9 as "
          "s.sweep.csv."}},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Set set = OfOneRun();
        c.change(set);

        const std::string page = MakeOf(set);

        std::string warnings; // below the summary
        for (const std::string &warning : c.warnings)
            warnings += warning + "\n";
        EXPECT_EQ(warnings, said_.substr(said_.find('\n') + 1));
        for (int s = 0; s < STP_PAGE_N_SOURCES; s++) {
            const std::string out = std::string(kNames[s]) + " is left out: ";
            const bool is_out =
                !set[s].is_there || said_.find(out) != std::string::npos;
            const std::string shown =
                s < STP_PAGE_SWEEP
                    ? "<h3><code>" + std::string(kNames[s]) + "</code>"
                    : "<dd>" + std::string(kNames[s]) + ": 6 rows";
            EXPECT_EQ(!is_out, page.find(shown) != std::string::npos)
                << kNames[s];
        }
        EXPECT_EQ(c.warnings.empty(),
                  page.find("<p class=\"lead warn\">") == std::string::npos);
    }
}

TEST_F(Belonging, WhatTheUserNamedIsRefusedAndNothingIsNoPage)
{
    const struct {
        const char *name;
        void (*change)(Set &set);
        const char *error;
    } cases[] = {
        {"named",
         [](Set &s) {
             s[STP_PAGE_VERIFY].run = kOther;
             s[STP_PAGE_VERIFY].is_named = true;
         },
         "'s.verify.csv' does not belong to the others, expected a page of its "
         "own: it is of run 22222222, expected run 11111111 as s.conf"},
        {"named, without a policy",
         [](Set &s) {
             s[STP_PAGE_POLICY].is_there = false;
             s[STP_PAGE_OVERLAP_POLICY].is_there = false;
             s[STP_PAGE_MEMORY_POLICY].is_there = false;
             s[STP_PAGE_STAGE_POLICY].is_there = false;
             s[STP_PAGE_VERIFY].is_there = false;
             s[STP_PAGE_OVERLAP_VERIFY].is_there = false;
             s[STP_PAGE_ITERATIONS].run = kOther;
             s[STP_PAGE_ITERATIONS].is_named = true;
         },
         "'s.iterations.csv' does not belong to the others, expected a page of "
         "its own: it is of run "
         "22222222, expected run 11111111 as s.sweep.csv"},
        {"nothing is left",
         [](Set &s) {
             for (int k = STP_PAGE_SWEEP; k < STP_PAGE_N_SOURCES; k++)
                 s[k].is_there = k == STP_PAGE_SWEEP;
             s[STP_PAGE_SWEEP].run = kOther;
         },
         "no measurements: s.sweep.csv is left out: it is of run 22222222, "
         "expected run 11111111 as s.conf."},
    };
    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        Set set = OfOneRun();
        c.change(set);
        EXPECT_EQ(c.error, MakeOf(set));
    }
}

} // namespace
