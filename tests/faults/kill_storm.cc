// kill_storm JOBS [SEED] - jobs of the learning plugin, each rank a process, of
// which one is killed or stopped for a while, at random; prints how they went.
//
// A job fails if two ranks choose differently for a call, also one that was
// killed before the end; if a collective or communicator fails; if a rank
// crashes, or has not ended 60 s after its begin; or if its shared memory has a
// name once a later communicator was made.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <new>
#include <random>
#include <set>

#include "mock_nccl.h"

#include "support/storm.h"
#include "support/temporary_folder.h"

namespace
{

namespace fs = std::filesystem;

constexpr int kMaxRanks = 4;
constexpr uint32_t kMaxCalls = 600;
constexpr unsigned kPatience = 500; // seconds

enum class Blow { kNone, kKill, kStop };

struct Job {
    uint64_t seed;
    uint64_t comm_id;
    int n_ranks;
    uint32_t n_calls;
    bool is_inline; // plugins learn on the launch path
    Blow blow;
    unsigned after_us;   // its begin
    unsigned stopped_us; // for so long
    int victim;
};

// Shared memory that a rank writes to and that outlives a kill.
struct RankReport {
    std::atomic<uint32_t> n_calls;
    std::atomic<uint32_t> has_failed;
    std::atomic<uint32_t> is_aside;
    uint64_t chosen[kMaxCalls];
    char error[256];
};

struct JobReport {
    std::atomic<uint32_t> n_made;  // communicators
    std::atomic<uint32_t> is_dead; // somebody
    RankReport ranks[kMaxRanks];
};

Job RandomJob(uint64_t seed)
{
    std::mt19937_64 random(seed);
    Job job{};

    job.seed = seed;
    job.comm_id = mock_new_comm_id();
    job.n_ranks = random() % 2 ? 2 : 4;
    job.n_calls = 50 + static_cast<uint32_t>(random() % (kMaxCalls - 50));
    job.is_inline = random() % 2;
    job.blow = random() % 16 == 0 ? Blow::kNone
               : random() % 2     ? Blow::kKill
                                  : Blow::kStop;
    // from before the plugin is loaded to after the last call
    job.after_us = static_cast<unsigned>(random() % 40000);
    job.stopped_us =
        static_cast<unsigned>(random() % (random() % 8 == 0 ? 400000 : 20000));
    job.victim =
        static_cast<int>(random() % static_cast<uint64_t>(job.n_ranks));
    return job;
}

// ---- a rank ----

// Something else is tried in every epoch, whatever comes of it.
void SetEnvironment(const Job &job, int rank)
{
    setenv("STEPTUNE_STRATEGY", "epsilon", 1);
    setenv("STEPTUNE_OBJECTIVE", "file", 1);
    setenv("NCCL_TUNER_EPS", "1", 1);
    setenv("STEPTUNE_LEARNED", "learned.conf", 1);
    setenv("STEPTUNE_JOURNAL", "journal.csv", 1);
    setenv("STEPTUNE_LEDGER", ".", 1);
    setenv("STEPTUNE_GPU", "H200", 1);
    setenv("RANK", std::to_string(rank).c_str(), 1);
    setenv("WORLD_SIZE", std::to_string(job.n_ranks).c_str(), 1);
    if (job.is_inline)
        setenv("STEPTUNE_INLINE", "1", 1);
}

void Fail(RankReport *said)
{
    snprintf(said->error, sizeof(said->error), "%s", mock_last_error());
    said->has_failed = 1;
}

// NCCL's barrier at the end of a communicator's init, which no rank passes if
// one has died before it.
bool PassBarrier(const Job &job, JobReport *said)
{
    const auto n_ranks = static_cast<uint32_t>(job.n_ranks);

    while (said->n_made < n_ranks && said->is_dead == 0)
        usleep(50);
    return said->n_made == n_ranks;
}

uint64_t Chosen(const mock_outcome &out)
{
    return static_cast<uint64_t>(out.algo + 1) << 56 |
           static_cast<uint64_t>(out.proto + 1) << 48 |
           static_cast<uint64_t>(out.n_channels) << 32 |
           static_cast<uint32_t>(out.chunk_bytes);
}

// The same calls on all ranks, which run as they like.
void RunCalls(const Job &job, mock_comm *comm, int rank, RankReport *said)
{
    std::mt19937_64 same(job.seed);
    std::mt19937_64 pace(job.seed * kMaxRanks + static_cast<uint64_t>(rank));

    for (uint32_t i = 0; i < job.n_calls; i++) {
        mock_call call{};
        mock_outcome out{};
        call.coll = same() % 2 ? ncclFuncAllReduce : ncclFuncAllGather;
        call.n_bytes = size_t{1} << (10 + same() % 4 * 5);
        if (mock_comm_collective(comm, &call, &out) != ncclSuccess)
            return Fail(said);
        said->chosen[i] = Chosen(out);
        said->n_calls = i + 1;
        if (pace() % 8 == 0)
            usleep(static_cast<useconds_t>(pace() % 400));
    }
}

void RunRank(const Job &job, const mock_machine *machine, int rank,
             JobReport *said)
{
    RankReport *mine = &said->ranks[rank];
    mock_nccl_options options{};
    options.version = "2.28";
    options.tuner_plugin = STP_ONLINE;
    mock_nccl *nccl = nullptr;
    mock_comm *comm = nullptr;

    SetEnvironment(job, rank);
    mock_set_log(
        [](void *aside, ncclDebugLogLevel level, unsigned long,
           const char *line) {
            if (level == NCCL_LOG_WARN && strstr(line, "stepping aside"))
                *static_cast<std::atomic<uint32_t> *>(aside) = 1;
        },
        &mine->is_aside);
    if (mock_nccl_create(&options, &nccl) != ncclSuccess ||
        mock_comm_create_rank(nccl, machine, job.comm_id, rank, &comm) !=
            ncclSuccess)
        return Fail(mine);
    said->n_made++;
    if (PassBarrier(job, said))
        RunCalls(job, comm, rank, mine);
    mock_comm_destroy(comm);
    mock_nccl_destroy(nccl);
}

// ---- a job ----

void Strike(const Job &job, const std::vector<pid_t> &pids, JobReport *said)
{
    const pid_t pid = pids[static_cast<size_t>(job.victim)];

    if (job.blow == Blow::kNone)
        return;
    usleep(job.after_us);
    kill(pid, job.blow == Blow::kKill ? SIGKILL : SIGSTOP);
    if (job.blow == Blow::kStop) {
        usleep(job.stopped_us);
        kill(pid, SIGCONT);
        return;
    }
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
    said->is_dead = 1;
}

// Returns what is wrong with how the processes ended, or "".
std::string AwaitEnd(const Job &job, const std::vector<pid_t> &pids,
                     storms::Outcome *outcome)
{
    std::string wrong;

    for (int r = 0; r < job.n_ranks; r++) {
        int status = 0;
        waitpid(pids[static_cast<size_t>(r)], &status, 0);
        const bool is_killed = job.blow == Blow::kKill && r == job.victim &&
                               WIFSIGNALED(status) &&
                               WTERMSIG(status) == SIGKILL;
        outcome->Mark(is_killed, "had a rank killed");
        if (status != 0 && !is_killed)
            wrong = "rank " + std::to_string(r) + " ends with wait status " +
                    std::to_string(status);
    }
    outcome->Mark(job.blow == Blow::kStop, "had a rank stopped");
    return wrong;
}

std::string JudgeRanks(const Job &job, const JobReport &said,
                       storms::Outcome *outcome)
{
    std::vector<uint64_t> first;
    std::vector<int> who;
    bool is_aside = false;

    for (int r = 0; r < job.n_ranks; r++) {
        const RankReport &rank = said.ranks[r];
        is_aside |= rank.is_aside != 0;
        if (rank.has_failed)
            return "rank " + std::to_string(r) + " fails: " + rank.error;
        for (uint32_t i = 0; i < rank.n_calls; i++) {
            if (i == first.size()) {
                first.push_back(rank.chosen[i]);
                who.push_back(r);
            }
            if (first[i] != rank.chosen[i])
                return "ranks " + std::to_string(who[i]) + " and " +
                       std::to_string(r) + " choose differently for call " +
                       std::to_string(i);
        }
    }
    outcome->Mark(is_aside, "stepped aside");
    outcome->Mark(said.n_made != static_cast<uint32_t>(job.n_ranks),
                  "did not pass init");
    outcome->Mark(first.size() == job.n_calls, "had all calls");
    outcome->Mark(std::set<uint64_t>(first.begin(), first.end()).size() > 4,
                  "changed their choices");
    return "";
}

storms::Outcome Run(const Job &job, const mock_machine *machine)
{
    void *memory = mmap(nullptr, sizeof(JobReport), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    storms::Outcome outcome;
    if (memory == MAP_FAILED)
        return {"no memory"};
    auto *said = new (memory) JobReport();
    std::vector<pid_t> pids;

    fflush(nullptr);
    for (int r = 0; r < job.n_ranks; r++) {
        const pid_t pid = fork();
        if (pid < 0)
            abort();
        if (pid == 0) {
            alarm(kPatience);
            RunRank(job, machine, r, said);
            _exit(0);
        }
        pids.push_back(pid);
    }
    Strike(job, pids, said);
    outcome.wrong = AwaitEnd(job, pids, &outcome);
    if (outcome.wrong.empty())
        outcome.wrong = JudgeRanks(job, *said, &outcome);
    munmap(memory, sizeof(JobReport));
    return outcome;
}

// ---- all of them ----

// A name in /dev/shm of one of these communicators; "" if there is none.
std::string FindSegment(const std::set<uint64_t> &comm_ids)
{
    for (const auto &entry : fs::directory_iterator("/dev/shm")) {
        const std::string name = entry.path().filename();
        unsigned user = 0;
        unsigned long long id = 0;
        if (sscanf(name.c_str(), "steptune-%u-%llx-", &user, &id) == 2 &&
            comm_ids.count(id) != 0)
            return name;
    }
    return "";
}

std::string Name(const Job &job)
{
    static const char *const blows[] = {"no signal", "SIGKILL", "SIGSTOP"};

    return std::string(blows[static_cast<int>(job.blow)]) + " after " +
           std::to_string(job.after_us) + " us to rank " +
           std::to_string(job.victim) + " of " + std::to_string(job.n_ranks) +
           (job.is_inline ? ", inline: " : ": ");
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n = storms::Argument(argc, argv, 1, 100) + 1;
    const uint64_t from = storms::Argument(argc, argv, 2, 1) * 1000003;
    const TemporaryFolder folder;
    mock_machine *machines[2] = {};
    std::set<uint64_t> comm_ids;

    if (mock_machine_load(STP_FIXTURES "/machines/h200x2", &machines[0]) !=
            ncclSuccess ||
        mock_machine_load(STP_FIXTURES "/machines/h200x4", &machines[1]) !=
            ncclSuccess)
        return 2;
    fs::current_path(folder.path());
    const auto run = [&](uint64_t seed) {
        const bool is_last = seed + 1 == from + n;
        Job job = RandomJob(seed);
        if (is_last)
            job.blow = Blow::kNone; // which removes what those before left
        comm_ids.insert(job.comm_id);
        storms::Outcome outcome = Run(job, machines[job.n_ranks / 4]);
        if (!outcome.wrong.empty())
            outcome.wrong = Name(job) + outcome.wrong;
        fs::remove("learned.conf");
        const std::string left = is_last ? FindSegment(comm_ids) : "";
        if (!left.empty())
            outcome.wrong += " /dev/shm/" + left + " is left";
        return outcome;
    };
    const bool is_fine = storms::RunAll("jobs", n, from, run, 20);
    for (mock_machine *machine : machines)
        mock_machine_free(machine);
    fs::current_path("/");
    return is_fine ? 0 : 1;
}
