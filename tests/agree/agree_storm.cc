// agree_storm [SCHEDULES [JOBS [SEED]]] - whether ranks ever disagree: random
// schedules of ranks that run access by access, and jobs of ranks that run as
// they like, as threads, processes and both, every second with a kill -9.  Not
// a test: a million schedules and 10,000 jobs take minutes.
#include <unistd.h>

#include "agree/schedules.h"
#include "agree/storm_jobs.h"

namespace
{

bool RunJobs(const char *what, storm::Kind kind, uint64_t n, uint64_t from)
{
    // All jobs have one id, so that each meets what the last one left.
    const uint64_t comm_id =
        UINT64_C(0x570a3000000000) + static_cast<uint64_t>(getpid());

    return storms::RunAll(what, n, from, [&](uint64_t seed) {
        const bool kills = (seed - from) % 2 == 1 && seed + 1 < from + n;
        return storm::Run(storm::RandomJob(seed, comm_id, kind, kills));
    });
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n_schedules = storms::Argument(argc, argv, 1, 1000000);
    const uint64_t n = storms::Argument(argc, argv, 2, 10000) / 3;
    const uint64_t seed = storms::Argument(argc, argv, 3, 1);

    return storms::RunAll("schedules", n_schedules, seed,
                          schedules::RunRandom) &&
                   RunJobs("jobs of threads", storm::Kind::kThreads, n, seed) &&
                   RunJobs("jobs of processes", storm::Kind::kProcesses, n,
                           seed) &&
                   RunJobs("jobs of both", storm::Kind::kMixed, n, seed)
               ? 0
               : 1;
}
