// rank_storm JOBS [SEED] - random jobs whose ranks are processes, one of which
// differs in one thing at random; prints how they went.  Not a test: 20,000
// jobs take an hour.
//
// A job fails if ranks disagree, a collective returns an error, or a step takes
// longer than 10 s; or if the ranks step aside and some rank with the plugin
// does not say why in exactly one warning.
#include <cstdio>
#include <map>
#include <random>

#include "plugin/odd_rank.h"

namespace
{

using namespace odd_rank;

struct Kind {
    const char *name;
    // A change at random.
    Change (*make)(std::mt19937_64 &random);
    const char *plugin = nullptr; // all ranks', if not at random
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
    {"clock",
     [](std::mt19937_64 &random) -> Change {
         const auto ns = static_cast<int64_t>(random() >> 2);
         return [=] { mock_clock_shift(ns); };
     }},
};

struct Tally {
    int n_jobs, n_aside, n_failed, n_silent, n_repeated;
};

// What is wrong with the warnings of a job; "" if nothing.
std::string Judge(const Outcome &out, const std::string &kind, int odd,
                  Tally *tally)
{
    bool is_aside = false;
    for (const auto &warnings : out.warnings)
        for (const std::string &warning : warnings)
            is_aside |= warning.find("stepping aside") != std::string::npos;
    tally->n_aside += is_aside;
    if (!is_aside)
        return "";
    for (size_t r = 0; r < out.warnings.size(); r++) {
        const bool has_plugin = static_cast<int>(r) != odd ||
                                (kind != "no plugin" && kind != "no tuner");
        const size_t n = out.warnings[r].size();
        if (!has_plugin || n == 1)
            continue;
        tally->n_silent += n == 0;
        tally->n_repeated += n > 1;
        return "rank " + std::to_string(r) + " warns " + std::to_string(n) +
               " times" + (n > 1 ? ": " + out.warnings[r][1] : "");
    }
    return "";
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n_jobs = argc > 1 ? strtoull(argv[1], nullptr, 10) : 200;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;
    std::map<std::string, Tally> tallies;
    int n_wrong = 0;

    for (uint64_t i = 0; i < n_jobs; i++) {
        std::mt19937_64 random(seed * 1000003 + i);
        const Kind &kind = kKinds[random() % std::size(kKinds)];
        mock_machine *machine = nullptr;
        if (mock_machine_load(random() % 2 ? STP_FIXTURES "/machines/h200x4"
                                           : STP_FIXTURES "/machines/h200x2",
                              &machine) != ncclSuccess)
            return 2;
        const int odd = static_cast<int>(
            random() %
            static_cast<unsigned>(mock_machine_get_info(machine)->n_ranks));
        const char *nccl = random() % 2 ? "2.28" : "2.30";
        const char *plugin = kind.plugin != nullptr ? kind.plugin
                             : random() % 2         ? STP_ONLINE
                                                    : STP_PLUGIN;
        const Change change = kind.make(random);
        Job job(machine, nccl, plugin);
        const Outcome out = job.Run(
            [=] {
                Write("p.conf.overlap", "allreduce,0,1M,ring,ll,-1,-1,-1\n");
                Write("p.conf",
                      std::string("collective,min_bytes,max_bytes,"
                                  "algorithm,protocol,channels,gpu\n"
                                  "allreduce,0,inf,tree,ll,-1,H200\n"
                                  "allgather,0,inf,ring,ll128,4,*\n"));
            },
            odd, change, i);
        Tally &tally = tallies[kind.name];
        tally.n_jobs++;
        std::string wrong = out.rc != ncclSuccess ? out.error : "";
        tally.n_failed += out.rc != ncclSuccess;
        if (wrong.empty())
            wrong = Judge(out, kind.name, odd, &tally);
        if (!wrong.empty() && n_wrong++ < 20)
            printf("job %llu of seed %llu (%s, rank %d, NCCL %s, %s): %s\n",
                   static_cast<unsigned long long>(i),
                   static_cast<unsigned long long>(seed), kind.name, odd, nccl,
                   strrchr(plugin, '/') + 1, wrong.c_str());
        mock_machine_free(machine);
    }
    printf("%-24s %8s %8s %8s %8s %8s\n", "one rank differs in", "jobs",
           "aside", "failed", "silent", "repeated");
    for (const auto &[name, t] : tallies)
        printf("%-24s %8d %8d %8d %8d %8d\n", name.c_str(), t.n_jobs, t.n_aside,
               t.n_failed, t.n_silent, t.n_repeated);
    return n_wrong > 0;
}
