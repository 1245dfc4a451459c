// hosts_storm - whether hosts that plan through a store ever disagree, while
// hosts and the store are killed, stopped, cut off, slow and started again: 8
// hosts of 2 ranks, or up to 64 of 8, each host a process in a network
// namespace of its own.  Plans are counted; a job has some hundred of them.
// Takes root and iproute2; exit status 77 without.  As a test it is short;
// 100000 plans take half an hour.
#include <fcntl.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>
#include <vector>

extern "C" {
#include "agree/agreement.h"
#include "agree/plan_board.h"
#include "launch/store_server.h"
}

#include "agree/schedules.h"
#include "agree/fork.h"

namespace
{

constexpr uint32_t kMaxHosts = 64, kMaxRanks = 512;
constexpr uint32_t kEpochs = 60000; // of a job, at most
constexpr uint32_t kPlans = 100;    // of a job
constexpr uint32_t kLead = 64;      // epochs of a rank before another
constexpr uint32_t kLost = UINT32_C(1) << 31;
constexpr uint32_t kTimeoutMs = 300;
constexpr uint64_t kPrintPlans = 10000; // from one report to the next
constexpr unsigned kPort = 29500;

// Of all jobs.
struct Size {
    uint32_t n_hosts = 8, n_own = 2; // ranks of a host

    uint32_t n_ranks() const
    {
        return n_hosts * n_own;
    }
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
    stp_server *server = nullptr;
    stp_error err{};
    if (stp_server_new("agree", nullptr, &server, &err) != STP_OK ||
        !stp_server_listen(server, ListenAtPort()))
        _exit(5);
    signal(SIGUSR1, [](int) { is_slow = 1; });
    signal(SIGUSR2, [](int) { is_slow = 0; });
    while (stp_server_step(server, 1000))
        if (is_slow != 0)
            usleep(100000); // before the next requests are read
    _exit(6);
}

// ---- a host ----

// What a host leaves behind, also one that is killed.
struct HostSaid {
    std::atomic<uint32_t> is_done;
    std::atomic<uint32_t> follows, learns; // as its first rank says
    std::atomic<uint32_t> n_proposed, n_taken, n_dropped;
    char over[256]; // why nothing more is proposed
    char lost[512]; // why a collective failed
};

struct JobSaid {
    std::atomic<uint32_t> last; // epoch; 0: not known
    std::atomic<uint32_t> is_over;
    HostSaid hosts[kMaxHosts];
    std::atomic<uint32_t> n_told[kMaxRanks];
    uint32_t told[kMaxRanks][kEpochs];
};

struct Job {
    uint64_t seed, comm_id;
    JobSaid *said;
};

// Ranks wait for each other's collectives, but for those that are gone.
bool MayGoOn(const JobSaid &said, uint32_t rank)
{
    for (uint32_t r = 0; r < size.n_ranks(); r++)
        if (said.hosts[r / size.n_own].is_done == 0 &&
            said.n_told[r] + kLead < said.n_told[rank])
            return false;
    return true;
}

void Propose(stp_agreement *a, schedules::Random *random, JobSaid *said,
             HostSaid *host)
{
    uint32_t words[STP_PLAN_WORDS];
    const size_t n = 1 + random->Below(8);

    switch (a->ops->proposed(a)) {
    case STP_PROPOSED_PENDING:
        return;
    case STP_PROPOSED_OVER:
        a->ops->explain(a, host->over, sizeof(host->over));
        if (said->last == 0)
            said->last = said->n_told[0] + 500;
        return;
    case STP_PROPOSED_DROPPED:
        host->n_dropped++;
        break;
    case STP_PROPOSED_TAKEN:
        host->n_taken += host->n_proposed > 0;
        break;
    }
    if (host->n_proposed == kPlans) {
        said->last = said->n_told[0] + 1000; // all plans end before it
        return;
    }
    for (size_t i = 0; i < n; i++)
        words[i] =
            host->n_proposed * STP_PLAN_WORDS + static_cast<uint32_t>(i) + 1;
    host->n_proposed += a->ops->propose(a, words, n, 1);
}

void RunRank(const Job &job, uint32_t rank, stp_agreement *a)
{
    JobSaid *said = job.said;
    HostSaid *host = &said->hosts[rank / size.n_own];
    schedules::Random random(job.seed * kMaxRanks + rank);
    const bool leads = a->ops->is_observer(a);

    for (uint32_t e = 0; e < kEpochs && said->is_over == 0 &&
                         (said->last == 0 || e < said->last);) {
        if (leads && said->last == 0)
            Propose(a, &random, said, host);
        if (!MayGoOn(*said, rank)) {
            usleep(50);
            continue;
        }
        uint32_t word = 0;
        const stp_epoch epoch = a->ops->next_epoch(a, &word);
        said->told[rank][e] = epoch == STP_EPOCH_LOST ? kLost : word;
        said->n_told[rank] = ++e;
        if (epoch == STP_EPOCH_LOST) {
            a->ops->explain(a, host->lost, sizeof(host->lost));
            break;
        }
        if (random.OneIn(4)) // the more ranks, the slower: they share CPUs
            usleep(random.Below(100) * size.n_ranks() / 16);
    }
}

void RunHost(const Job &job, uint32_t h)
{
    std::vector<stp_agreement *> ranks(size.n_own);
    stp_agreement_rank as{};
    std::vector<std::thread> threads;
    stp_error err{};

    as.comm_id = job.comm_id;
    as.host_id = h + 1;
    as.n_ranks = size.n_ranks();
    as.n_needed = size.n_own;
    as.number = -1;
    as.proposes = true;
    as.fingerprint.part[STP_FINGERPRINT_POLICY] = 1;
    as.store.address = stp_store_at("10.77.0.1", kPort);
    as.store.timeout_ms = kTimeoutMs * size.n_ranks() / 16;
    as.store.lead = 2 * size.n_ranks() / 16;
    snprintf(as.store.run, sizeof(as.store.run), "storm");
    snprintf(as.store.host, sizeof(as.store.host), "h%u", h);
    for (stp_agreement *&rank : ranks)
        if (stp_agreement_join(&as, &rank, &err) != STP_OK)
            _exit(7);
    std::thread speech(ranks[0]->ops->speak, ranks[0]);
    bool follows = true;
    for (stp_agreement *rank : ranks)
        follows = rank->ops->compare(rank, 0) && follows;
    follows = follows && ranks[0]->ops->is_complete(ranks[0]);
    HostSaid *said = &job.said->hosts[h];
    said->follows = follows;
    said->learns = follows && ranks[0]->ops->is_observer(ranks[0]);
    if (!follows)
        ranks[0]->ops->explain(ranks[0], said->over, sizeof(said->over));
    for (uint32_t r = 0; r < size.n_own && follows; r++)
        threads.emplace_back(
            [&, r] { RunRank(job, h * size.n_own + r, ranks[r]); });
    for (std::thread &thread : threads)
        thread.join();
    said->is_done = 1;
    ranks[0]->ops->hush(ranks[0]);
    speech.join();
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
    Faults(uint64_t seed, pid_t *store, std::vector<pid_t> *hosts,
           JobSaid *said)
        : random_(seed), store_(store), hosts_(hosts), said_(said)
    {
    }

    // One, which is over when this returns, but for what was killed.
    const char *Strike()
    {
        const uint32_t h = random_.Below(size.n_hosts);
        switch (random_.Below(7)) {
        case 0:
            KillHost(h);
            return "a host killed";
        case 1:
            Pause((*hosts_)[h]);
            return "a host stopped";
        case 2:
            Network::Cut(h, true);
            Sleep(1000);
            Network::Cut(h, false);
            return "a host cut off";
        case 3:
            KillStore();
            return "the store killed";
        case 4:
            KillStore();
            Sleep(100);
            *store_ = StartStore();
            return "the store killed and started empty";
        case 5:
            Signal(SIGUSR1);
            Sleep(2000);
            Signal(SIGUSR2);
            return "the store slow";
        default:
            Pause(*store_);
            return "the store stopped";
        }
    }

    void Sleep(uint32_t max_ms)
    {
        usleep(1000 * random_.Below(max_ms));
    }

  private:
    void Pause(pid_t pid)
    {
        if (pid == 0)
            return;
        kill(pid, SIGSTOP);
        Sleep(400);
        kill(pid, SIGCONT);
    }

    void Signal(int number)
    {
        if (*store_ != 0)
            kill(*store_, number);
    }

    void KillStore()
    {
        if (*store_ == 0)
            return;
        kill(*store_, SIGKILL);
        waitpid(*store_, nullptr, 0);
        *store_ = 0;
    }

    void KillHost(uint32_t h)
    {
        pid_t &pid = (*hosts_)[h];
        if (pid == 0)
            return;
        kill(pid, SIGKILL);
        waitpid(pid, nullptr, 0);
        pid = 0;
        said_->hosts[h].is_done = 1;
    }

    schedules::Random random_;
    pid_t *store_;
    std::vector<pid_t> *hosts_;
    JobSaid *said_;
};

// ---- jobs ----

struct Sum {
    uint64_t n_jobs, n_aside, n_plans, n_taken, n_dropped, n_over, n_lost;
    uint64_t n_words, n_ranks_lost;
    std::map<std::string, uint64_t> faults;
};

bool AnyRuns(const std::vector<pid_t> &hosts, const JobSaid &said)
{
    for (uint32_t h = 0; h < size.n_hosts; h++)
        if (hosts[h] != 0 && said.hosts[h].is_done == 0)
            return true;
    return false;
}

// Where the host that leads was killed the others end soon.
void Await(const std::vector<pid_t> &hosts, JobSaid *said)
{
    for (int i = 0; AnyRuns(hosts, *said); i++) {
        bool leader_runs = false;
        for (uint32_t h = 0; h < size.n_hosts; h++)
            leader_runs |= said->hosts[h].learns != 0 && hosts[h] != 0;
        if (said->last == 0 && !leader_runs && i > 1000)
            said->is_over = 1;
        usleep(1000);
    }
}

// "" if no two ranks were told different things, and all that ended said why.
std::string Check(const JobSaid &said, Sum *sum)
{
    for (uint32_t e = 0; e < kEpochs; e++) {
        uint32_t word = kLost;
        for (uint32_t r = 0; r < size.n_ranks(); r++) {
            if (e >= said.n_told[r] || said.told[r][e] == kLost)
                continue;
            if (word != kLost && word != said.told[r][e])
                return "rank " + std::to_string(r) + " reads " +
                       std::to_string(said.told[r][e]) + " for epoch " +
                       std::to_string(e + 1) + ", another " +
                       std::to_string(word);
            word = said.told[r][e];
        }
        sum->n_words += word != kLost && word != 0;
    }
    bool is_lost = false;
    for (uint32_t r = 0; r < size.n_ranks(); r++) {
        const uint32_t n = said.n_told[r];
        if (n == 0 || said.told[r][n - 1] != kLost)
            continue;
        is_lost = true;
        sum->n_ranks_lost++;
        if (strstr(said.hosts[r / size.n_own].lost, "took part in plan") ==
            nullptr)
            return "rank " + std::to_string(r) + " fails without a reason: " +
                   said.hosts[r / size.n_own].lost;
    }
    sum->n_lost += is_lost;
    return "";
}

void Add(const JobSaid &said, Sum *sum)
{
    bool follows = false;
    for (const HostSaid &host : said.hosts) {
        follows |= host.follows != 0;
        sum->n_plans += host.n_proposed;
        sum->n_taken += host.n_taken;
        sum->n_dropped += host.n_dropped;
        sum->n_over += host.learns != 0 && host.over[0] != '\0';
    }
    sum->n_aside += !follows;
}

std::string RunJob(const Job &job, pid_t *store, Sum *sum)
{
    schedules::Random random(job.seed);
    std::vector<pid_t> hosts;

    madvise(job.said, sizeof(*job.said), MADV_REMOVE); // all is zero again
    if (*store == 0)
        *store = StartStore();
    usleep(3000);
    for (uint32_t h = 0; h < size.n_hosts; h++)
        hosts.push_back(StartHost(job, h));
    Faults faults(job.seed, store, &hosts, job.said);
    for (uint32_t n = random.Below(3); n > 0; n--) {
        faults.Sleep(500);
        sum->faults[faults.Strike()]++;
    }
    Await(hosts, job.said);
    std::string fault;
    for (pid_t pid : hosts) {
        int status = 0;
        if (pid != 0 && (waitpid(pid, &status, 0) != pid || status != 0))
            fault = "a host ends with wait status " + std::to_string(status);
    }
    if (fault.empty())
        fault = Check(*job.said, sum);
    Add(*job.said, sum);
    sum->n_jobs++;
    return fault;
}

void Print(const Sum &sum)
{
    printf("%" PRIu64 " plans of %" PRIu64 " jobs on %u hosts: %" PRIu64
           " taken, %" PRIu64 " dropped, %" PRIu64
           " words taken, 0 disagreements\n"
           "jobs: %" PRIu64 " stepped aside, %" PRIu64
           " learned no more and said why, %" PRIu64 " failed by name (%" PRIu64
           " ranks)\nfaults:",
           sum.n_plans, sum.n_jobs, size.n_hosts, sum.n_taken, sum.n_dropped,
           sum.n_words, sum.n_aside, sum.n_over, sum.n_lost, sum.n_ranks_lost);
    for (const auto &fault : sum.faults)
        printf(" %s %" PRIu64 ";", fault.first.c_str(), fault.second);
    printf("\n");
    fflush(stdout);
}

int Storm(uint64_t n_plans, uint64_t seed)
{
    void *shared = mmap(nullptr, sizeof(JobSaid), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const Network network;
    pid_t store = 0;
    Sum sum{};

    if (shared == MAP_FAILED || !network.works()) {
        printf("no network namespaces here: they take root and iproute2\n");
        return 77;
    }
    signal(SIGUSR1, SIG_IGN); // until a store can be slow
    signal(SIGUSR2, SIG_IGN);
    std::string fault;
    uint64_t print_at = kPrintPlans;
    for (uint64_t i = 0; fault.empty() && sum.n_plans < n_plans; i++) {
        if (sum.n_plans >= print_at) {
            Print(sum);
            print_at += kPrintPlans;
        }
        fault =
            RunJob({seed + i, (static_cast<uint64_t>(getpid()) << 32) + i + 1,
                    static_cast<JobSaid *>(shared)},
                   &store, &sum);
        if (!fault.empty())
            printf("seed %" PRIu64 ": %s\n", seed + i, fault.c_str());
    }
    if (store != 0) {
        kill(store, SIGKILL);
        waitpid(store, nullptr, 0);
    }
    if (fault.empty())
        Print(sum);
    return fault.empty() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
    const uint64_t n_plans = argc > 1 ? strtoull(argv[1], nullptr, 10) : 100000;
    const uint64_t seed = argc > 2 ? strtoull(argv[2], nullptr, 10) : 1;

    if (argc > 4) {
        size.n_hosts = static_cast<uint32_t>(atoi(argv[3]));
        size.n_own = static_cast<uint32_t>(atoi(argv[4]));
    }
    if (argc > 5 || argc == 4 || n_plans == 0 || size.n_hosts < 2 ||
        size.n_hosts > kMaxHosts || size.n_own < 1 ||
        size.n_ranks() > kMaxRanks) {
        fprintf(stderr, "usage: hosts_storm [PLANS [SEED [HOSTS RANKS]]]\n"
                        "HOSTS: 2 to 64; RANKS: of each, 512 together\n");
        return 2;
    }
    return Storm(n_plans, seed);
}
