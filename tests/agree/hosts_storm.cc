// hosts_storm - whether hosts that compare what they hold in a store ever
// disagree, while hosts and the store are killed, stopped, cut off, slow and
// started again: 8 hosts of 2 ranks, or up to 64 of 8, each host a process in a
// network namespace of its own.  Takes root and iproute2; exit status 77
// without.  As a test it is short; 100000 jobs take hours.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "agree/agreement.h"
}

#include "agree/fork.h"
#include "agree/schedules.h"
#include "support/store_thread.h"
#include "support/storm.h"

namespace
{

constexpr uint32_t kMaxHosts = 64, kMaxRanks = 512;
constexpr uint32_t kTimeoutMs = 300;
constexpr uint64_t kPrintJobs = 1000; // from one report to the next
constexpr unsigned kPort = 29500;

// The shape that all jobs of a storm have.
struct Size {
    uint32_t n_hosts = 8, n_own = 2; // ranks of a host
} size;

// ---- namespaces ----

bool Do(const std::string &command)
{
    return system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Host i's; the store's comes after them.
std::string Namespace(uint32_t i)
{
    return "steptune-" + std::to_string(getpid()) + "-" + std::to_string(i);
}

class Network
{
  public:
    Network() : parent_(getpid())
    {
        const std::string store = Namespace(size.n_hosts);
        works_ = Do("ip netns add " + store) &&
                 Do("ip -n " + store + " link add br0 type bridge") &&
                 Do("ip -n " + store + " addr add 10.77.0.1/24 dev br0") &&
                 Do("ip -n " + store + " link set br0 up");
        for (uint32_t i = 0; i < size.n_hosts; i++) {
            const std::string host = Namespace(i), n = std::to_string(i);
            works_ =
                works_ && Do("ip netns add " + host) &&
                Do("ip -n " + host + " link add eth0 type veth peer name v" +
                   n + " netns " + store) &&
                Do("ip -n " + host + " addr add 10.77.0." +
                   std::to_string(10 + i) + "/24 dev eth0") &&
                Do("ip -n " + host + " link set eth0 up") &&
                Do("ip -n " + store + " link set v" + n + " master br0 up");
        }
    }
    Network(const Network &) = delete;
    Network &operator=(const Network &) = delete;
    ~Network()
    {
        if (getpid() == parent_)
            for (uint32_t i = 0; i <= size.n_hosts; i++)
                Do("ip netns del " + Namespace(i));
    }

    bool works() const
    {
        return works_;
    }

    static void Cut(uint32_t host, bool is_cut)
    {
        Do("ip -n " + Namespace(host) + " link set eth0 " +
           (is_cut ? "down" : "up"));
    }

  private:
    pid_t parent_;
    bool works_;
};

// In a child, to which the parent's namespaces belong.
void Enter(pid_t parent, uint32_t i)
{
    const std::string path = "/run/netns/steptune-" + std::to_string(parent) +
                             "-" + std::to_string(i);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0)
        _exit(3);
    close(fd);
}

// ---- the store ----

int ListenAtPort()
{
    const int fd =
        socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    const int on = 1;
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(kPort);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, reinterpret_cast<sockaddr *>(&address), sizeof(address)) !=
            0 ||
        listen(fd, 100) != 0)
        _exit(4);
    return fd;
}

// Set by a signal.
volatile sig_atomic_t is_slow;

pid_t StartStore()
{
    const pid_t parent = getpid();
    const pid_t pid = fork_or_exit::Fork();
    if (pid != 0)
        return pid;
    Enter(parent, size.n_hosts);
    signal(SIGUSR1, [](int) { is_slow = 1; });
    signal(SIGUSR2, [](int) { is_slow = 0; });
    const store_thread::TcpStore server(ListenAtPort(),
                                        [](stp_query, const std::string &) {
                                            if (is_slow != 0)
                                                usleep(20000);
                                            return true;
                                        });
    for (;;)
        pause();
}

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

// ---- what fails ----

class Faults
{
  public:
    Faults(uint64_t seed, pid_t *store, std::vector<pid_t> *hosts)
        : random_(seed), store_(store), hosts_(hosts)
    {
    }

    // One, which is over when this returns, but for what was killed.
    const char *Strike()
    {
        const uint32_t h = random_.Below(size.n_hosts);
        switch (random_.Below(7)) {
        case 0:
            Kill(&(*hosts_)[h]);
            return "a host killed";
        case 1:
            Pause((*hosts_)[h]);
            return "a host stopped";
        case 2:
            Network::Cut(h, true);
            Sleep(400);
            Network::Cut(h, false);
            return "a host cut off";
        case 3:
            Kill(store_);
            return "the store killed";
        case 4:
            Kill(store_);
            Sleep(20);
            *store_ = StartStore();
            return "the store killed and started empty";
        case 5:
            Signal(*store_, SIGUSR1);
            Sleep(400);
            Signal(*store_, SIGUSR2);
            return "the store slow";
        default:
            Pause(*store_);
            return "the store stopped";
        }
    }

    void Sleep(uint32_t max_ms)
    {
        usleep(random_.Below(1000 * max_ms));
    }

  private:
    static void Signal(pid_t pid, int number)
    {
        if (pid != 0)
            kill(pid, number);
    }

    void Pause(pid_t pid)
    {
        Signal(pid, SIGSTOP);
        Sleep(400);
        Signal(pid, SIGCONT);
    }

    static void Kill(pid_t *pid)
    {
        Signal(*pid, SIGKILL);
        if (*pid != 0)
            waitpid(*pid, nullptr, 0);
        *pid = 0;
    }

    schedules::Random random_;
    pid_t *store_;
    std::vector<pid_t> *hosts_;
};

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
    for (pid_t pid : hosts) {
        int status = 0;
        if (pid != 0 && (waitpid(pid, &status, 0) != pid || status != 0))
            outcome.wrong =
                "a host ends with wait status " + std::to_string(status);
    }
    if (outcome.wrong.empty())
        outcome.wrong = Check(job, &outcome);
    return outcome;
}

int Storm(uint64_t n_jobs, uint64_t from)
{
    void *shared =
        mmap(nullptr, kMaxHosts * sizeof(HostReport), PROT_READ | PROT_WRITE,
             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const Network network;
    pid_t store = 0;

    if (shared == MAP_FAILED || !network.works()) {
        printf("no network namespaces here: they take root and iproute2\n");
        return 77;
    }
    signal(SIGUSR1, SIG_IGN); // until a store can be slow
    signal(SIGUSR2, SIG_IGN);
    const auto run = [&](uint64_t seed) {
        return RunJob({seed, (static_cast<uint64_t>(getpid()) << 32) + seed,
                       static_cast<HostReport *>(shared), seed % 8 == 7},
                      &store);
    };
    const bool is_fine =
        storms::RunAll("jobs", n_jobs, from, run, 1, kPrintJobs);
    if (store != 0) {
        kill(store, SIGKILL);
        waitpid(store, nullptr, 0);
    }
    return is_fine ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc == 5) {
        size.n_hosts = static_cast<uint32_t>(atoi(argv[3]));
        size.n_own = static_cast<uint32_t>(atoi(argv[4]));
    }
    if (argc > 5 || argc == 4 || size.n_hosts < 2 || size.n_hosts > kMaxHosts ||
        size.n_own < 1 || size.n_hosts * size.n_own > kMaxRanks) {
        fprintf(stderr, "usage: hosts_storm [JOBS [SEED [HOSTS RANKS]]]\n"
                        "HOSTS: 2 to 64; RANKS: of each, 512 together\n");
        return 2;
    }
    return Storm(storms::Argument(argc, argv, 1, 100000),
                 storms::Argument(argc, argv, 2, 1));
}
