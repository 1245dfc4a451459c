// Hosts as processes in network namespaces with a store of their own, for
// storms that kill them, stop them, cut them off and start the store again.
// Takes root and iproute2.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agree/fork.h"
#include "agree/schedules.h"
#include "support/store_thread.h"
#include "support/storm.h"

namespace hosts_network
{

constexpr unsigned kPort = 29500; // of the store, at 10.77.0.1

// The shape that all jobs of a storm have.
struct Size {
    uint32_t n_hosts = 8, n_own = 2; // ranks of a host
};
inline Size size;

// ---- namespaces ----

inline bool Do(const std::string &command)
{
    return system((command + " >/dev/null 2>&1").c_str()) == 0;
}

// Host i's; the store's comes after them.
inline std::string Namespace(uint32_t i)
{
    return "steptune-" + std::to_string(getpid()) + "-" + std::to_string(i);
}

// In a child, which ends with its parent, to which the namespaces belong.
inline void Enter(pid_t parent, uint32_t i)
{
    const std::string path = "/run/netns/steptune-" + std::to_string(parent) +
                             "-" + std::to_string(i);
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || setns(fd, CLONE_NEWNET) != 0 ||
        prctl(PR_SET_PDEATHSIG, SIGKILL) != 0)
        _exit(3);
    close(fd);
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
        const pid_t parent = getpid(), pid = fork_or_exit::Fork();

        if (pid == 0) { // cheaper than ip
            ifreq eth0{};
            Enter(parent, host);
            strcpy(eth0.ifr_name, "eth0");
            eth0.ifr_flags = is_cut ? 0 : IFF_UP;
            _exit(ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &eth0));
        }
        waitpid(pid, nullptr, 0);
    }

  private:
    pid_t parent_;
    bool works_;
};

// ---- the store ----

inline int ListenAtPort()
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
inline volatile sig_atomic_t is_slow;

inline pid_t StartStore()
{
    const pid_t parent = getpid();
    const pid_t pid = fork_or_exit::Fork();
    if (pid != 0)
        return pid;
    Enter(parent, size.n_hosts);
    signal(SIGUSR1, [](int) { is_slow = 1; });
    signal(SIGUSR2, [](int) { is_slow = 0; });
    const store_thread::TcpStore server(
        ListenAtPort(), [](stp_store_query, const std::string &) {
            if (is_slow != 0)
                usleep(20000);
            return true;
        });
    for (;;)
        pause();
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

// ---- storms ----

// Awaits the hosts of a job; what is wrong with their ends, or "".
inline std::string Await(const std::vector<pid_t> &hosts)
{
    std::string wrong;

    for (pid_t pid : hosts) {
        int status = 0;
        if (pid != 0 && (waitpid(pid, &status, 0) != pid || status != 0))
            wrong = "a host ends with wait status " + std::to_string(status);
    }
    return wrong;
}

// Runs jobs, each as run(seed, memory of so many bytes that all processes
// share, &store); returns the exit status.
template <typename Run>
int RunStorm(size_t n_bytes, uint64_t n_jobs, uint64_t from,
             uint64_t print_jobs, Run run)
{
    void *shared = mmap(nullptr, n_bytes, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const Network network;
    pid_t store = 0;

    if (shared == MAP_FAILED || !network.works()) {
        printf("no network namespaces here: they take root and iproute2\n");
        return 77;
    }
    signal(SIGUSR1, SIG_IGN); // until a store can be slow
    signal(SIGUSR2, SIG_IGN);
    const bool is_fine = storms::RunAll(
        "jobs", n_jobs, from,
        [&](uint64_t seed) { return run(seed, shared, &store); }, 1,
        print_jobs);
    if (store != 0) {
        kill(store, SIGKILL);
        waitpid(store, nullptr, 0);
    }
    return is_fine ? 0 : 1;
}

// A storm of the jobs, and of the size, that the command line names.
inline int Main(int argc, char **argv, uint32_t most_hosts, uint32_t most_ranks,
                uint64_t n_jobs, int (*storm)(uint64_t n_jobs, uint64_t from))
{
    if (argc == 5)
        size = {uint32_t(atoi(argv[3])), uint32_t(atoi(argv[4]))};
    if (argc > 5 || argc == 4 || size.n_hosts < 2 ||
        size.n_hosts > most_hosts || size.n_own < 1 ||
        size.n_own > most_ranks) {
        fprintf(stderr,
                "usage: %s [JOBS [SEED [HOSTS RANKS]]]\n"
                "HOSTS: 2 to %u; RANKS: of each, 1 to %u\n",
                argv[0], most_hosts, most_ranks);
        return 2;
    }
    return storm(storms::Argument(argc, argv, 1, n_jobs),
                 storms::Argument(argc, argv, 2, 1));
}

} // namespace hosts_network
