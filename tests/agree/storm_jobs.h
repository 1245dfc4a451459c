// Jobs of ranks that run as they like, as threads of processes, of which one
// may be killed; and whether what they were told is the same.
#pragma once

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

extern "C" {
#include "agree/agreement.h"
}

#include "agree/fork.h"
#include "agree/schedules.h"

namespace storm
{

using std::to_string;

constexpr uint32_t kMaxRanks = 64;
constexpr uint32_t kMaxEpochs = 400;
constexpr uint32_t kFrozen = UINT32_C(1) << 31;

struct Job {
    uint64_t seed;
    uint64_t comm_id;
    uint32_t n_ranks;
    uint32_t n_processes; // rank r is a thread of process r % n_processes
    uint32_t n_epochs;
    bool kills; // one of the processes
};

// Shared memory that a rank writes to and that outlives a kill.
struct RankReport {
    std::atomic<uint32_t> n_told;
    std::atomic<uint32_t> n_put; // proposals
    std::atomic<uint32_t> was_complete;
    uint32_t told[kMaxEpochs];
};

struct JobReport {
    std::atomic<uint32_t> n_joined;
    std::atomic<uint32_t> n_failed; // to join
    std::atomic<uint32_t> is_dead;  // somebody
    RankReport ranks[kMaxRanks];
};

inline void Stall(schedules::Random *random)
{
    if (random->OneIn(200))
        usleep(random->Below(600));
    else if (random->OneIn(8))
        std::this_thread::yield();
}

// NCCL's barrier, which no rank passes if one has died before it.
inline bool PassBarrier(const Job &job, JobReport *said)
{
    while (said->n_joined < job.n_ranks) {
        if (said->is_dead != 0)
            return said->n_joined == job.n_ranks;
        usleep(20);
    }
    return true;
}

inline void ComeToAllEpochs(const Job &job, stp_agreement *agreement,
                            schedules::Random *random, RankReport *said)
{
    for (uint32_t epoch = 1; epoch <= job.n_epochs; epoch++) {
        const uint32_t proposal = said->n_put + 1;
        if (agreement->observes && random->OneIn(3) &&
            agreement->ops->propose(agreement, proposal))
            said->n_put++;
        uint32_t decision = 0;
        const bool is_frozen =
            !agreement->ops->next_epoch(agreement, &decision);
        said->told[epoch - 1] = decision | (is_frozen ? kFrozen : 0);
        said->n_told = epoch;
        Stall(random);
    }
}

inline void RunRank(const Job &job, uint32_t rank, JobReport *said)
{
    schedules::Random random(job.seed * kMaxRanks + rank);
    stp_agreement *agreement = nullptr;
    stp_error err{};

    Stall(&random);
    stp_agreement_rank as{};
    as.comm_id = job.comm_id;
    as.n_ranks = as.n_needed = job.n_ranks;
    as.number = -1;
    as.proposes = true;
    if (stp_agreement_join(&as, &agreement, &err) != STP_OK) {
        said->n_failed++;
        return;
    }
    said->n_joined++;
    if (PassBarrier(job, said) && agreement->ops->is_complete(agreement)) {
        said->ranks[rank].was_complete = 1;
        ComeToAllEpochs(job, agreement, &random, &said->ranks[rank]);
    }
    stp_agreement_leave(agreement);
}

inline pid_t StartProcess(const Job &job, uint32_t process, JobReport *said)
{
    const pid_t pid = fork_or_exit::Fork();
    std::vector<std::thread> threads;

    if (pid != 0)
        return pid;
    for (uint32_t r = process; r < job.n_ranks; r += job.n_processes)
        threads.emplace_back([&job, r, said] { RunRank(job, r, said); });
    for (std::thread &thread : threads)
        thread.join();
    _exit(0);
}

// Returns what went wrong in ranks that were not killed, or "".
inline std::string RunProcesses(const Job &job, JobReport *said)
{
    schedules::Random random(job.seed);
    std::vector<pid_t> pids;

    for (uint32_t p = 0; p < job.n_processes; p++)
        pids.push_back(StartProcess(job, p, said));
    if (job.kills) {
        const uint32_t doomed = random.Below(job.n_processes);
        usleep(random.Below(2000));
        kill(pids[doomed], SIGKILL);
        waitpid(pids[doomed], nullptr, 0);
        said->is_dead = 1;
        pids.erase(pids.begin() + doomed);
    }
    std::string fault;
    for (pid_t pid : pids) {
        int status = 0;
        waitpid(pid, &status, 0);
        if (status != 0)
            fault = "a process ends with wait status " + to_string(status);
    }
    return fault;
}

// Merges the proposals that ranks read by epoch, up to the last that any rank
// reached; returns a fault if two ranks read different ones.
inline std::string Merge(const Job &job, const JobReport &said,
                         std::vector<uint32_t> *told)
{
    for (uint32_t r = 0; r < job.n_ranks; r++) {
        const RankReport &rank = said.ranks[r];
        for (uint32_t e = 0; e < rank.n_told; e++) {
            if (e == told->size())
                told->push_back(rank.told[e]);
            if ((*told)[e] != rank.told[e])
                return "rank " + to_string(r) + " reads " +
                       to_string(rank.told[e]) + " for epoch " +
                       to_string(e + 1) + ", another " + to_string((*told)[e]);
        }
    }
    return "";
}

// Each proposal once, in order; and nothing once it is frozen.
inline std::string CompareProposals(const Job &job, const JobReport &said,
                                    const std::vector<uint32_t> &told)
{
    uint32_t n_taken = 0;
    uint32_t n_put = 0;

    for (size_t e = 0; e < told.size(); e++) {
        if (e > 0 && told[e - 1] == kFrozen && told[e] != kFrozen)
            return "something is decided after epoch " + to_string(e) +
                   ", which is frozen";
        if (told[e] != 0 && told[e] != kFrozen && told[e] != ++n_taken)
            return "proposal " + to_string(told[e]) + " is taken as proposal " +
                   to_string(n_taken);
    }
    for (uint32_t r = 0; r < job.n_ranks; r++)
        n_put += said.ranks[r].n_put;
    // The observer may be killed between proposing and saying so.
    if (n_taken > n_put + job.kills || (!job.kills && n_taken + 1 < n_put))
        return to_string(n_taken) + " of " + to_string(n_put) +
               " proposals are taken";
    return "";
}

inline std::string CompareRanks(const Job &job, const JobReport &said)
{
    const uint32_t complete = said.ranks[0].was_complete;

    if (said.n_failed != 0)
        return to_string(said.n_failed) + " ranks cannot join";
    for (uint32_t r = 0; r < job.n_ranks && !job.kills; r++)
        if (!complete || said.ranks[r].n_told != job.n_epochs)
            return "rank " + to_string(r) + " did not come to its end";
    return "";
}

inline storms::Outcome Run(const Job &job)
{
    void *memory = mmap(nullptr, sizeof(JobReport), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return {"no memory"};
    JobReport *said = new (memory) JobReport();
    std::vector<uint32_t> told;
    storms::Outcome outcome{RunProcesses(job, said)};

    if (outcome.wrong.empty())
        outcome.wrong = Merge(job, *said, &told);
    if (outcome.wrong.empty())
        outcome.wrong = CompareProposals(job, *said, told);
    if (outcome.wrong.empty())
        outcome.wrong = CompareRanks(job, *said);
    munmap(memory, sizeof(JobReport));
    outcome.Mark(!told.empty() && told.back() == kFrozen, "came to be frozen");
    outcome.Mark(job.kills, "had dead ranks");
    return outcome;
}

enum class Kind { kThreads, kProcesses, kMixed };

inline Job RandomJob(uint64_t seed, uint64_t comm_id, Kind kind, bool kills)
{
    schedules::Random random(seed ^ UINT64_C(0x5eed));
    Job job{};

    job.seed = seed;
    job.comm_id = comm_id;
    job.n_ranks = 2 + random.Below(random.OneIn(16) ? 63 : 5);
    job.n_processes = kind == Kind::kThreads ? 1 : job.n_ranks;
    if (kind == Kind::kMixed)
        job.n_processes = 1 + random.Below(job.n_ranks);
    job.n_epochs = 20 + random.Below(kMaxEpochs - 20);
    job.kills = kills;
    return job;
}

} // namespace storm
