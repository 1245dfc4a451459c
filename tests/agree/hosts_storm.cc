// hosts_storm - whether hosts that compare what they hold in a store ever
// disagree, while hosts and the store are killed, stopped, cut off, slow and
// started again: 8 hosts of 2 ranks, or up to 64 of 8, each host a process in a
// network namespace of its own.  Takes root and iproute2; exit status 77
// without.  As a test it is short; 100000 jobs take hours.
#include <sys/wait.h>
#include <unistd.h>

extern "C" {
#include "agree/agreement.h"
}

#include "agree/hosts_network.h"
#include "support/storm.h"

namespace
{

using namespace hosts_network;

constexpr uint32_t kMaxHosts = 64, kMaxRanks = 8; // of a host
constexpr uint32_t kTimeoutMs = 300;
constexpr uint64_t kPrintJobs = 1000; // from one report to the next

// ---- a host ----

enum Outcome : uint32_t { kUnknown, kFollows, kStepsAside };

// Shared memory that a host's ranks write to and that outlives a kill.
struct HostReport {
    std::atomic<uint32_t> outcome[kMaxRanks]; // of its ranks
    char why[512];                            // it steps aside
};

struct Job {
    uint64_t seed, comm_id;
    HostReport *said; // of each host
    bool differs;     // the last host, in its policy
};

void RunHost(const Job &job, uint32_t h)
{
    std::vector<stp_agreement *> ranks(size.n_own);
    stp_agreement_rank as{};
    stp_error err{};
    HostReport *said = &job.said[h];

    as.comm_id = job.comm_id;
    as.host_id = h + 1;
    as.n_ranks = size.n_hosts * size.n_own;
    as.n_needed = size.n_own;
    as.number = -1;
    as.fingerprint.part[STP_FINGERPRINT_POLICY] =
        job.differs && h + 1 == size.n_hosts ? 2 : 1;
    as.store.address = stp_store_at("10.77.0.1", kPort);
    as.store.timeout_ms = kTimeoutMs * size.n_hosts * size.n_own / 16;
    snprintf(as.store.run, sizeof(as.store.run), "storm");
    snprintf(as.store.host, sizeof(as.store.host), "h%u", h);
    usleep(schedules::Random(job.seed * kMaxHosts + h).Below(30000));
    for (stp_agreement *&rank : ranks)
        if (stp_agreement_join(&as, &rank, &err) != STP_OK)
            _exit(7);
    std::thread comparison(ranks[0]->ops->compare_hosts, ranks[0]);
    for (uint32_t r = 0; r < size.n_own; r++) {
        const bool follows = ranks[r]->ops->compare(ranks[r], 0);
        if (!follows)
            ranks[r]->ops->explain(ranks[r], said->why, sizeof(said->why));
        said->outcome[r] = follows ? kFollows : kStepsAside;
    }
    ranks[0]->ops->cancel_hosts(ranks[0]);
    comparison.join();
    for (stp_agreement *rank : ranks)
        stp_agreement_leave(rank);
}

pid_t StartHost(const Job &job, uint32_t h)
{
    const pid_t parent = getpid();
    const pid_t pid = fork_or_exit::Fork();
    if (pid != 0)
        return pid;
    Enter(parent, h);
    RunHost(job, h);
    _exit(0);
}

// ---- jobs ----

// "" if the ranks of each host were told the same, and a host that steps aside
// while another follows says that the job may hang.
std::string Check(const Job &job, storms::Outcome *outcome)
{
    bool follows = false, is_in_doubt = false;

    for (uint32_t h = 0; h < size.n_hosts; h++)
        follows |= job.said[h].outcome[0] == kFollows;
    for (uint32_t h = 0; h < size.n_hosts; h++) {
        const HostReport &said = job.said[h];
        const bool is_aside = said.outcome[0] == kStepsAside;
        for (uint32_t r = 1; r < size.n_own; r++)
            if (said.outcome[r] != kUnknown &&
                said.outcome[r] != said.outcome[0])
                return "ranks of host " + std::to_string(h) + " disagree";
        if (is_aside && said.why[0] == '\0')
            return "host " + std::to_string(h) + " does not say why";
        const bool is_doubt = strstr(said.why, "the job then hangs") != nullptr;
        if (is_aside && follows && !is_doubt)
            return "a host follows, and another steps aside: " +
                   std::string(said.why);
        is_in_doubt |= is_doubt;
    }
    if (follows && job.differs)
        return "a host follows, and another has a policy of its own";
    outcome->Mark(follows, "follow");
    outcome->Mark(is_in_doubt, "had hosts in doubt");
    return "";
}

storms::Outcome RunJob(const Job &job, pid_t *store)
{
    schedules::Random random(job.seed);
    std::vector<pid_t> hosts;
    storms::Outcome outcome;

    memset(static_cast<void *>(job.said), 0, kMaxHosts * sizeof(*job.said));
    if (*store == 0)
        *store = StartStore();
    usleep(3000);
    for (uint32_t h = 0; h < size.n_hosts; h++)
        hosts.push_back(StartHost(job, h));
    Faults faults(job.seed, store, &hosts);
    for (uint32_t n = random.Below(3); n > 0; n--) {
        faults.Sleep(60);
        outcome.Mark(true, faults.Strike());
    }
    outcome.wrong = Await(hosts);
    if (outcome.wrong.empty())
        outcome.wrong = Check(job, &outcome);
    return outcome;
}

int Storm(uint64_t n_jobs, uint64_t from)
{
    return RunStorm(
        kMaxHosts * sizeof(HostReport), n_jobs, from, kPrintJobs,
        [](uint64_t seed, void *shared, pid_t *store) {
            return RunJob({seed, (static_cast<uint64_t>(getpid()) << 32) + seed,
                           static_cast<HostReport *>(shared), seed % 8 == 7},
                          store);
        });
}

} // namespace

int main(int argc, char **argv)
{
    return Main(argc, argv, kMaxHosts, kMaxRanks, 100000, Storm);
}
