// agree_storm - whether ranks ever disagree: N random schedules of ranks that
// run access by access, and M jobs of ranks that run as they like, as threads,
// processes and both, every second with a kill -9.  Not a test: it takes
// minutes.  Exit status 1 if they do.
#include <unistd.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "agree/schedules.h"
#include "agree/storm_jobs.h"

namespace
{

// All jobs have one id, so that each meets what the last one left.
uint64_t CommId()
{
    return UINT64_C(0x570a3000000000) + static_cast<uint64_t>(getpid());
}

struct Count {
    uint64_t n;
    uint64_t n_frozen;
    uint64_t n_dead;
};

void Print(const char *what, const Count &count)
{
    printf("%10" PRIu64 " %s: %" PRIu64 " came to be frozen, %" PRIu64
           " with dead ranks, 0 disagreements\n",
           count.n, what, count.n_frozen, count.n_dead);
    fflush(stdout);
}

bool RunSchedules(uint64_t from, uint64_t n)
{
    Count count{};

    for (; count.n < n; count.n++) {
        const schedules::Outcome outcome = schedules::RunRandom(from + count.n);
        if (!outcome.fault.empty()) {
            printf("seed %" PRIu64 ": %s\n", from + count.n,
                   outcome.fault.c_str());
            return false;
        }
        count.n_frozen += outcome.is_frozen;
        count.n_dead += outcome.has_dead;
    }
    Print("schedules step by step", count);
    return true;
}

bool RunJobs(uint64_t from, uint64_t n, storm::Kind kind, const char *what)
{
    Count count{};

    for (; count.n < n; count.n++) {
        const bool kills = count.n % 2 == 1;
        const storm::Outcome outcome = storm::Run(storm::RandomJob(
            from + count.n, CommId(), kind, kills && count.n + 1 < n));
        if (!outcome.fault.empty()) {
            printf("seed %" PRIu64 ", %s: %s\n", from + count.n, what,
                   outcome.fault.c_str());
            return false;
        }
        count.n_frozen += outcome.is_frozen;
        count.n_dead += kills;
    }
    Print(what, count);
    return true;
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n_schedules =
        argc > 1 ? strtoull(argv[1], nullptr, 10) : 1000000;
    const uint64_t n_jobs = argc > 2 ? strtoull(argv[2], nullptr, 10) : 10000;
    const uint64_t seed = argc > 3 ? strtoull(argv[3], nullptr, 10) : 1;

    if (argc > 4 || n_schedules == 0) {
        fprintf(stderr, "usage: agree_storm [SCHEDULES [JOBS [SEED]]]\n");
        return 2;
    }
    return RunSchedules(seed, n_schedules) &&
                   RunJobs(seed, n_jobs / 3, storm::Kind::kThreads,
                           "jobs of threads") &&
                   RunJobs(seed, n_jobs / 3, storm::Kind::kProcesses,
                           "jobs of processes") &&
                   RunJobs(seed, n_jobs - n_jobs / 3 * 2, storm::Kind::kMixed,
                           "jobs of both")
               ? 0
               : 1;
}
