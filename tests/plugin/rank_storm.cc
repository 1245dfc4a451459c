// rank_storm JOBS [SEED] - random jobs whose ranks are processes, one of which
// differs in one thing at random; prints how they went.  Not a test: 20,000
// jobs take an hour.
//
// A job fails if ranks disagree, a collective returns an error, or a step takes
// longer than 10 s; or if the ranks step aside and some rank with the plugin
// does not say why in exactly one warning.
#include "plugin/odd_rank.h"
#include "support/storm.h"

namespace
{

using namespace odd_rank;

struct Kind {
    const char *name;
    // A change at random.
    Change (*make)(std::mt19937_64 &random);
    const char *plugin = nullptr; // all ranks', if not at random
    bool has_below = false;       // all ask a tuner below first
};

std::string Rule(std::mt19937_64 &random)
{
    static const char *const pairs[] = {"tree,ll", "tree,simple", "ring,ll",
                                        "ring,ll128", "ring,simple"};
    return "allreduce,0," + std::to_string(1 << random() % 30) + "," +
           pairs[random() % 5] + "," + std::to_string(random() % 9) +
           ",-1,-1\n";
}

const char *Pick(std::mt19937_64 &random,
                 std::initializer_list<const char *> words)
{
    return words.begin()[random() % words.size()];
}

const Kind kKinds[] = {
    {"nothing", [](std::mt19937_64 &) -> Change { return [] {}; }},
    {"policy",
     [](std::mt19937_64 &random) {
         return Replace("p.conf", std::string(kPolicy) + Rule(random));
     }},
    {"first rule",
     [](std::mt19937_64 &random) {
         return Replace("p.conf", Rule(random) + kPolicy);
     }},
    {"no policy",
     [](std::mt19937_64 &) -> Change { return [] { fs::remove("p.conf"); }; }},
    {"half a policy",
     [](std::mt19937_64 &random) {
         const std::string text = kPolicy;
         return Replace("p.conf", text.substr(0, random() % text.size()));
     }},
    {"GPU",
     [](std::mt19937_64 &random) {
         return Set("STEPTUNE_GPU", Pick(random, {"H100", "A100", "h200"}));
     }},
    {"environment",
     [](std::mt19937_64 &random) {
         switch (random() % 7) {
         case 0:
             return Set("NCCL_WORKLOAD_OVERLAP", "1");
         case 1:
             return Set("STEPTUNE_AGREE",
                        Pick(random, {"assume", "compare", "x"}));
         case 2:
             return Set("STEPTUNE_FREEZE", "1");
         case 3:
             return Set("STEPTUNE_STRATEGY", "epsilon");
         case 4:
             return Set("STEPTUNE_OBJECTIVE",
                        Pick(random, {"file", "gpu", "x"}));
         case 5:
             return Set("STEPTUNE_WARM_START",
                        Pick(random, {"none", "p.conf", "c.csv"}));
         default:
             return Set("STEPTUNE_LEDGER", "/none");
         }
     }},
    {"descriptors",
     [](std::mt19937_64 &random) {
         return LimitDescriptors(3 + random() % 12);
     }},
    {"files' size",
     [](std::mt19937_64 &random) {
         return Limit(RLIMIT_FSIZE, random() % 2 ? 0 : 4096);
     }},
    {"no plugin", [](std::mt19937_64 &) { return Plugin(""); }},
    {"no tuner", [](std::mt19937_64 &) { return Plugin(STP_NO_TUNER); }},
    {"another release", [](std::mt19937_64 &) { return Plugin(STP_OLDER); }},
    {"the online plugin", [](std::mt19937_64 &) { return Plugin(STP_ONLINE); },
     STP_PLUGIN},
    {"the static plugin", [](std::mt19937_64 &) { return Plugin(STP_PLUGIN); },
     STP_ONLINE},
    {"a call that fails",
     [](std::mt19937_64 &random) {
         static const fault_kind kinds[] = {FAULT_MEMORY, FAULT_OPEN, FAULT_MAP,
                                            FAULT_THREAD};
         const fault_kind kind = kinds[random() % std::size(kinds)];
         return Fail(kind, 1 + static_cast<uint32_t>(random() % 12),
                     random() % 2);
     }},
    {"a tuner below", [](std::mt19937_64 &) -> Change { return [] {}; },
     nullptr, true},
    {"the tuner below, alone",
     [](std::mt19937_64 &) { return Plugin(STP_BELOW); }, nullptr, true},
    {"the tuner below",
     [](std::mt19937_64 &random) {
         return Set("STEPTUNE_CHAIN",
                    Pick(random, {"none", "/absent.so", STP_OTHER_BELOW}));
     },
     nullptr, true},
    {"the tuner below, which fails",
     [](std::mt19937_64 &) { return Set("BELOW", "fails_in_init"); }, nullptr,
     true},
    {"policies above a tuner",
     [](std::mt19937_64 &random) {
         return Replace("p.conf", std::string(kPolicy) + Rule(random));
     },
     nullptr, true},
    {"half a policy above a tuner",
     [](std::mt19937_64 &random) {
         const std::string text = kPolicy;
         return Replace("p.conf", text.substr(0, random() % text.size()));
     },
     nullptr, true},
    {"clock",
     [](std::mt19937_64 &random) -> Change {
         const auto ns = static_cast<int64_t>(random() >> 2);
         return [=] { mock_clock_shift(ns); };
     }},
};

// Returns what is wrong with the warnings of a job, or "".
std::string Judge(const Outcome &out, const std::string &kind, int odd,
                  bool is_aside)
{
    for (size_t r = 0; is_aside && r < out.warnings.size(); r++) {
        const bool has_plugin = static_cast<int>(r) != odd ||
                                (kind != "no plugin" && kind != "no tuner" &&
                                 kind != "the tuner below, alone");
        // STEPTUNE_OBJECTIVE=gpu without a profiler is told at once, by the
        // rank that came first: before ranks know that they differ.
        const auto &all = out.warnings[r];
        const size_t n =
            all.size() -
            (kind == "environment" && all.size() > 1 &&
             all[0].find("nothing is learned without") != std::string::npos);
        if (has_plugin && n != 1)
            return "rank " + std::to_string(r) + " warns " + std::to_string(n) +
                   " times" + (n > 1 ? ": " + out.warnings[r][1] : "");
    }
    return "";
}

storms::Outcome RunJob(uint64_t seed)
{
    std::mt19937_64 random(1000003 + seed);
    const Kind &kind = kKinds[random() % std::size(kKinds)];
    const auto machine =
        static_plugin::LoadMachine(random() % 2 ? "h200x4" : "h200x2");
    const int odd = static_cast<int>(
        random() %
        static_cast<unsigned>(mock_machine_get_info(machine.get())->n_ranks));
    const char *nccl = Pick(random, {"2.28", "2.30", "2.32"});
    const char *plugin = kind.plugin != nullptr ? kind.plugin
                         : random() % 2         ? STP_ONLINE
                                                : STP_PLUGIN;
    const Change change = kind.make(random);
    const bool is_odd = kind.name != std::string("a tuner below");
    const char *below =
        Pick(random, {"", "minus", "nan", "revives", "channels"});
    if (is_odd) // one warning is enough
        below = "minus";
    Job job(machine.get(), nccl, plugin);
    const Outcome out = job.Run(
        [=] {
            setenv("STEPTUNE_CHAIN", kind.has_below ? STP_BELOW : "none", 1);
            setenv("BELOW", below, 1);
            Write("p.conf.overlap", "allreduce,0,1M,ring,ll,-1,-1,-1\n");
            Write("p.conf", "collective,min_bytes,max_bytes,"
                            "algorithm,protocol,channels,gpu\n"
                            "allreduce,0,inf,tree,ll,-1,H200\n"
                            "allgather,0,inf,ring,ll128,4,*\n");
        },
        odd, change, seed);
    bool is_aside = false;
    for (const auto &warnings : out.warnings)
        for (const std::string &warning : warnings)
            is_aside |= warning.find("stepping aside") != std::string::npos;
    storms::Outcome outcome{out.rc != ncclSuccess
                                ? out.error
                                : Judge(out, kind.name, odd, is_aside)};
    if (!outcome.wrong.empty())
        outcome.wrong = std::string(kind.name) + ", rank " +
                        std::to_string(odd) + ", NCCL " + nccl + ", " +
                        (strrchr(plugin, '/') + 1) + ": " + outcome.wrong;
    outcome.Mark(true, kind.name);
    outcome.Mark(is_aside, std::string(kind.name) + ", stepped aside");
    return outcome;
}

} // namespace

int main(int argc, char **argv)
{
    return storms::RunAll("jobs of which one rank differs",
                          storms::Argument(argc, argv, 1, 200),
                          storms::Argument(argc, argv, 2, 1), RunJob, 20)
               ? 0
               : 1;
}
