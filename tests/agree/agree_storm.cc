// agree_storm [SCHEDULES [JOBS [SEED]]] - whether ranks ever disagree: random
// schedules of ranks that run access by access, and jobs of ranks that run as
// they like, as threads, processes and both, every second with a kill -9.  Not
// a test: a million schedules and 10,000 jobs take minutes.
#include <unistd.h>

#include "agree/schedules.h"
#include "agree/storm_jobs.h"
#include "support/storm.h"

namespace
{

storms::Outcome RunSchedule(uint64_t seed)
{
    const schedules::Outcome schedule = schedules::RunRandom(seed);
    storms::Outcome outcome{schedule.fault};

    outcome.Mark(schedule.is_frozen, "came to be frozen");
    outcome.Mark(schedule.has_dead, "had dead ranks");
    return outcome;
}

bool RunJobs(const char *what, storm::Kind kind, uint64_t n, uint64_t from)
{
    // All jobs have one id, so that each meets what the last one left.
    const uint64_t comm_id =
        UINT64_C(0x570a3000000000) + static_cast<uint64_t>(getpid());

    return storms::RunAll(what, n, from, [&](uint64_t seed) {
        const bool kills = (seed - from) % 2 == 1 && seed + 1 < from + n;
        const storm::Outcome job =
            storm::Run(storm::RandomJob(seed, comm_id, kind, kills));
        storms::Outcome outcome{job.fault};
        outcome.Mark(job.is_frozen, "came to be frozen");
        outcome.Mark(kills, "had dead ranks");
        return outcome;
    });
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n_schedules = storms::Argument(argc, argv, 1, 1000000);
    const uint64_t n = storms::Argument(argc, argv, 2, 10000) / 3;
    const uint64_t seed = storms::Argument(argc, argv, 3, 1);

    return storms::RunAll("schedules", n_schedules, seed, RunSchedule) &&
                   RunJobs("jobs of threads", storm::Kind::kThreads, n, seed) &&
                   RunJobs("jobs of processes", storm::Kind::kProcesses, n,
                           seed) &&
                   RunJobs("jobs of both", storm::Kind::kMixed, n, seed)
               ? 0
               : 1;
}
