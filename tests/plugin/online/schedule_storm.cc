// schedule_storm [JOBS [SEED [HOSTS RANKS]]] - whether hosts that learn by a
// schedule ever run different arms, wait or say anything after their first
// decision, while hosts and the store are killed, stopped, cut off and started
// again.  Each host is a process with the learning plugin in a network
// namespace of its own.  Takes root, iproute2 and Linux 5.11 on x86; exit
// status 77 without.  As a test it is short; ci/by_hand/hosts runs 50,000 jobs.
#include <dlfcn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include <cstdarg>
#include <filesystem>
#include <fstream>

#include "nccl_profiler_abi.h"
#include "nccl_tuner_abi.h"

#include "agree/hosts_network.h"
#include "support/storm.h"

namespace
{

using namespace hosts_network;
using schedules::Random;

constexpr uint32_t kMaxHosts = 8, kMaxRanks = 8; // of a host
constexpr uint32_t kCalls = 4000;                // some three rounds
constexpr uint64_t kPrintJobs = 100;             // from one report to the next
constexpr uint8_t kNone = 255;                   // NCCL's own choice

// Outlives a kill.
struct RankReport {
    std::atomic<uint32_t> n_calls;
    uint8_t choices[kCalls];
    uint32_t n_system_calls; // in calls after the first decision
    uint32_t n_failures;     // calls that return an error
};
struct HostReport {
    RankReport ranks[kMaxRanks];
    std::atomic<bool> has_ended;
    char why[300]; // its last warning
    // After its first decision, when the thread that compared has ended.
    uint32_t n_threads, n_sockets;
    uint64_t n_begun; // connections and datagrams
};
struct Shared {
    HostReport hosts[kMaxHosts];
    HostReport again[kMaxHosts]; // of a host that was killed and started again
};

struct Job {
    uint64_t seed, comm_id;
    Shared *shared;
    bool differs; // the last host, in the arms that it would try
};

// ---- a host ----

void *library; // the plugin, which hosts have from their parent
HostReport *own_report;

void Log(ncclDebugLogLevel level, unsigned long, const char *, int,
         const char *format, ...)
{
    char text[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    if (level == NCCL_LOG_WARN)
        snprintf(own_report->why, sizeof(own_report->why), "%.299s", text);
}

uint32_t CountThreads()
{
    return uint32_t(std::distance(
        std::filesystem::directory_iterator("/proc/self/task"), {}));
}

uint32_t CountSockets()
{
    uint32_t n = 0;
    std::error_code error; // one is of the folder that is listed
    for (const auto &file :
         std::filesystem::directory_iterator("/proc/self/fd"))
        n += std::filesystem::is_socket(file.path(), error);
    return n;
}

// Connections that this host ever began, and datagrams that it sent.
uint64_t CountBegun()
{
    std::ifstream counters("/proc/self/net/snmp");
    uint64_t n = 0;

    for (std::string line; std::getline(counters, line);) {
        uint64_t value = 0;
        if (sscanf(line.c_str(), "Tcp: %*d %*d %*d %*d %" SCNu64, &value) ==
                1 ||
            sscanf(line.c_str(), "Udp: %*d %*d %*d %" SCNu64, &value) == 1)
            n += value;
    }
    return n;
}

// While it is 1, the kernel hands system calls of this thread to a signal.
volatile unsigned char counts;
uint32_t n_system_calls; // but for getpid(), which waits for nothing

void OnSystemCall(int, siginfo_t *info, void *context)
{
#ifdef __x86_64__
    greg_t *r = static_cast<ucontext_t *>(context)->uc_mcontext.gregs;

    counts = 0;
    n_system_calls += info->si_syscall != SYS_getpid;
    const long result = syscall(info->si_syscall, r[REG_RDI], r[REG_RSI],
                                r[REG_RDX], r[REG_R10], r[REG_R8], r[REG_R9]);
    r[REG_RAX] = result < 0 ? -errno : result;
    counts = 1;
#endif
}

bool CountSystemCalls()
{
    struct sigaction action {
    };

    action.sa_sigaction = OnSystemCall;
    action.sa_flags = SA_SIGINFO;
    // the second tells where the return from a signal is, which is not counted
    return sigaction(SIGSYS, &action, nullptr) == 0 &&
           sigaction(SIGSYS, nullptr, &action) == 0 &&
           prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON,
                 action.sa_restorer, 16, &counts) == 0;
}

// The i-th call of all ranks: steps of some messages, and now and then one
// more.
size_t MessageOf(uint64_t seed, uint32_t i)
{
    const uint32_t n = 1 + seed % 9;

    if (seed % 3 == 0 && stp_hash(seed, i) % 700 == 0)
        return stp_hash(seed, i) % 5;
    return stp_hash(seed, i % n) % 5;
}

class HostProcess
{
  public:
    HostProcess(const Job &job, uint32_t h, bool is_again)
        : job_(job), h_(h),
          report_(is_again ? &job.shared->again[h] : &job.shared->hosts[h])
    {
        const uint32_t n_ranks = size.n_hosts * size.n_own;
        ncclNvlDomainInfo_v5_t nvl = {int(size.n_hosts), int(size.n_own),
                                      int(size.n_own)};
        ncclTunerConstants_v5_t constants{};

        own_report = report_;
        if (library == nullptr || !CountSystemCalls())
            _exit(5);
        tuner_ =
            static_cast<ncclTuner_v5_t *>(dlsym(library, "ncclTunerPlugin_v5"));
        profiler_ =
            static_cast<ncclProfiler_v5_t *>(dlsym(library, "ncclProfiler_v5"));
        for (uint32_t r = 0; r < size.n_own; r++) {
            profiler_->init(&profilers_[r], job.comm_id, &mask_, "",
                            int(size.n_hosts), int(n_ranks),
                            int(h * size.n_own + r), Log);
            tuner_->init(&tuners_[r], job.comm_id, n_ranks, size.n_hosts, Log,
                         &nvl, &constants);
        }
    }

    void Run()
    {
        uint64_t n_begun = 0;

        for (uint32_t i = 0; i < kCalls; i++) {
            for (uint32_t r = 0; r < size.n_own; r++)
                Call(r, i);
            if (i == 0) {
                // one that learns has a thread that saves what it learns
                const uint32_t n_own = 1 + (h_ == 0 && report_->why[0] == '\0');
                for (int ms = 0; CountThreads() > n_own && ms < 10000; ms += 5)
                    usleep(5000);
                n_begun = CountBegun();
                report_->n_threads = CountThreads() > n_own;
                report_->n_sockets = CountSockets();
            }
            if (i % 256 == 0)
                usleep(2000);
        }
        report_->n_sockets += CountSockets();
        report_->n_begun = CountBegun() - n_begun;
        for (uint32_t r = 0; r < size.n_own; r++) {
            tuner_->finalize(tuners_[r]);
            profiler_->finalize(profilers_[r]);
        }
        report_->has_ended = true;
    }

  private:
    void Call(uint32_t r, uint32_t i)
    {
        static const struct {
            ncclFunc_t coll;
            size_t n_bytes;
        } messages[] = {{ncclFuncAllReduce, 100 << 10},
                        {ncclFuncAllReduce, 64 << 20},
                        {ncclFuncAllGather, 8 << 20},
                        {ncclFuncReduceScatter, 8 << 20},
                        {ncclFuncAllReduce, 4 << 10}};
        const auto &message = messages[MessageOf(job_.seed, i)];
        RankReport *report = &report_->ranks[r];
        float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
        int n_channels = 0;
        uint8_t choice = kNone;

        for (auto &row : table)
            for (float &cost : row)
                cost = NCCL_ALGO_PROTO_IGNORE;
        for (int a = 0; a < 2; a++)
            for (int p = 0; p < 3; p++)
                table[a][p] = 10 + float(3 * a + p);
        counts = i > 0;
        const ncclResult_t rc = tuner_->getCollInfo(
            tuners_[r], message.coll, message.n_bytes, 1,
            reinterpret_cast<float **>(table), NCCL_NUM_ALGORITHMS,
            NCCL_NUM_PROTOCOLS, 0, &n_channels);
        counts = 0;
        report->n_failures += rc != ncclSuccess;
        report->n_system_calls = n_system_calls;
        for (int a = 0; a < 2; a++)
            for (int p = 0; p < 3; p++)
                if (table[a][p] != 10 + float(3 * a + p))
                    choice = uint8_t(3 * a + p);
        report->choices[i] = choice;
        report->n_calls = i + 1;
    }

    const Job &job_;
    const uint32_t h_;
    HostReport *report_;
    const ncclTuner_v5_t *tuner_ = nullptr;
    const ncclProfiler_v5_t *profiler_ = nullptr;
    int mask_ = 0;
    void *profilers_[kMaxRanks] = {}, *tuners_[kMaxRanks] = {};
};

pid_t StartHost(const Job &job, uint32_t h, bool is_again)
{
    const pid_t parent = getpid();
    const pid_t pid = fork_or_exit::Fork();
    if (pid != 0)
        return pid;
    Enter(parent, h);
    setenv("NCCL_HOSTID", std::to_string(h).c_str(), 1);
    if (job.differs && h + 1 == size.n_hosts)
        setenv("STEPTUNE_ARMS", "ring/ll", 1);
    usleep(Random(job.seed * kMaxHosts + h).Below(30000));
    HostProcess(job, h, is_again).Run();
    _exit(0);
}

// ---- jobs ----

bool Tries(const RankReport &rank)
{
    for (uint32_t i = 0; i < rank.n_calls; i++)
        if (rank.choices[i] != kNone)
            return true;
    return false;
}

// "" if all ranks ran the same as far as they came, and nothing waited or
// spoke.  A host in doubt, which says so, steps aside.  One that is stopped
// waits, and a call may be under way.  One that is killed while hosts come, and
// started again, counts twice in place of another: under NCCL no rank of that
// communicator decides anything, as the barrier of its init lacks a rank.
std::string Check(const Job &job, storms::Outcome *outcome)
{
    const RankReport *first = nullptr;
    bool tries = false, is_in_doubt = false, is_twice = false;

    for (uint32_t h = 0; h < size.n_hosts; h++)
        is_twice |= Tries(job.shared->again[h].ranks[0]);

    for (uint32_t i = 0; i < 2 * size.n_hosts; i++) {
        const uint32_t h = i % size.n_hosts;
        const bool is_again = i >= size.n_hosts;
        const HostReport &host =
            is_again ? job.shared->again[h] : job.shared->hosts[h];
        const std::string name =
            "host " + std::to_string(h) + (is_again ? ", started again," : "");

        const bool is_doubtful =
            strstr(host.why, "the job then hangs") != nullptr;
        is_in_doubt |= is_doubtful;
        if (host.n_threads + host.n_sockets + host.n_begun > 0)
            return name + " has " + std::to_string(host.n_threads) +
                   " threads and " + std::to_string(host.n_sockets) +
                   " sockets after its first decision, and begins " +
                   std::to_string(host.n_begun) + " (" + host.why + ")";
        for (uint32_t r = 0; r < size.n_own; r++) {
            const RankReport &rank = host.ranks[r];

            if (rank.n_failures > 0)
                return name + " fails a call";
            if (rank.n_system_calls > 0)
                return name + " asks the kernel " +
                       std::to_string(rank.n_system_calls) +
                       " times in calls after its first decision";
            tries |= Tries(rank);
            if (is_again || is_doubtful || is_twice)
                continue;
            if (first == nullptr)
                first = &rank;
            for (uint32_t c = 0; c < rank.n_calls && c < first->n_calls; c++)
                if (rank.choices[c] != first->choices[c])
                    return name + " runs another arm in call " +
                           std::to_string(c) + " (" + host.why + ")";
            if (rank.n_calls > first->n_calls)
                first = &rank;
        }
    }
    if (tries && job.differs)
        return "hosts try arms, and one would try others";
    outcome->Mark(tries, "tried arms");
    outcome->Mark(is_in_doubt, "had hosts in doubt");
    outcome->Mark(is_twice, "counted a host twice");
    return "";
}

storms::Outcome RunJob(const Job &job, pid_t *store)
{
    Random random(job.seed);
    std::vector<pid_t> hosts;
    storms::Outcome outcome;

    memset(static_cast<void *>(job.shared), 0, sizeof(*job.shared));
    if (*store == 0)
        *store = StartStore();
    usleep(3000);
    for (uint32_t h = 0; h < size.n_hosts; h++)
        hosts.push_back(StartHost(job, h, false));
    Faults faults(job.seed, store, &hosts);
    for (uint32_t n = random.Below(4); n > 0; n--) {
        faults.Sleep(random.Below(2) == 0 ? 60 : 200);
        outcome.Mark(true, faults.Strike());
        for (uint32_t h = 0; h < size.n_hosts; h++)
            if (hosts[h] == 0 && random.Below(2) == 0) {
                hosts[h] = StartHost(job, h, true);
                outcome.Mark(true, "a host started again");
            }
    }
    outcome.wrong = Await(hosts);
    if (outcome.wrong.empty())
        outcome.wrong = Check(job, &outcome);
    return outcome;
}

int Storm(uint64_t n_jobs, uint64_t from)
{
    for (auto [name, value] :
         {std::pair("STEPTUNE_AGREE", "tcpstore://10.77.0.1:29500"),
          {"STEPTUNE_LEARNED", "/dev/null"},
          {"STEPTUNE_WARM_START", "none"}})
        setenv(name, value, 1);
    setenv("STEPTUNE_AGREE_TIMEOUT", "0.3", 0); // longer on a busy machine
    library = dlopen(STP_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    return RunStorm(
        sizeof(Shared), n_jobs, from, kPrintJobs,
        [](uint64_t seed, void *shared, pid_t *store) {
            return RunJob({seed, (static_cast<uint64_t>(getpid()) << 32) + seed,
                           static_cast<Shared *>(shared), seed % 8 == 7},
                          store);
        });
}

} // namespace

int main(int argc, char **argv)
{
    if (prctl(PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_OFF, 0, 0, 0) != 0)
        return 77;
    size = {3, 2};
    return Main(argc, argv, kMaxHosts, kMaxRanks, 50000, Storm);
}
