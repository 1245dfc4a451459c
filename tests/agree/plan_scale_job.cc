#include "agree/plan_scale_job.h"

#include <poll.h>
#include <sys/uio.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <queue>
#include <vector>

extern "C" {
#include "agree/plan_scale_host.h"
#include "store/store.h"
}

namespace plan_scale
{

namespace
{

constexpr int64_t kMs = 1000;
constexpr int64_t kSecond = 1000 * kMs;
constexpr int64_t kStart = 1000 * kSecond; // of the clock
constexpr int64_t kLimit = kStart + 600 * kSecond;
constexpr int64_t kFirst = kSecond; // from the first epoch to a proposal
constexpr int64_t kQuiet = 10 * kSecond;
constexpr int64_t kRankNap = kMs;    // of a rank that waits, as in shm.c
constexpr size_t kStack = 128 << 10; // of a coroutine
constexpr int kFirstFd = 1 << 24;    // none that the system gives out

// As in the plugin: STEPTUNE_AGREE_TIMEOUT, and how many calls an epoch has
// while arms are tried, and when learning has settled.
constexpr unsigned kTimeoutMs = 5000;
constexpr unsigned kEpochCalls = 4;
constexpr unsigned kSettledCalls = 256;

struct Host {
    scale_host *host = nullptr;
    std::vector<stp_plan_step> steps; // of its ranks
    ucontext_t context{};
    std::unique_ptr<char[]> stack;
    uint64_t n_waits = 0; // ever
    int fd = -1;          // whose bytes it awaits
    bool is_agreed = false;
    uint64_t known[STP_PLAN_SLOTS] = {}; // plans whose verdict it knows
};

struct Connection {
    size_t host;
    std::string in; // what has come to the host
    bool is_closed = false;
};

struct Plan {
    int64_t proposed_us = 0;
    size_t n_knowing = 0; // hosts
    int64_t known_us = 0; // by the last one
    int64_t begun_us = 0; // by its ranks, after they waited
    int64_t wait_us = 0;
    bool is_committed = false;
};

enum class Kind { kResume, kRequest, kReply, kEpoch };

struct Event {
    int64_t due;
    uint64_t number; // events that are due at once keep their order
    Kind kind;
    size_t at;      // host, or connection
    uint64_t waits; // of the host: it did not wake since
    std::string bytes;

    bool operator<(const Event &other) const
    {
        return due != other.due ? due > other.due : number > other.number;
    }
};

// Reads a request in the order of its parts.
class Reader
{
  public:
    explicit Reader(const std::string &bytes) : bytes_(bytes)
    {
    }

    uint64_t Number(size_t size = sizeof(uint64_t))
    {
        uint64_t number = 0;

        memcpy(&number, Take(size), size);
        return number;
    }

    std::string Text()
    {
        const size_t size = Number();
        const char *bytes = Take(size);

        return is_whole_ ? std::string(bytes, size) : "";
    }

    bool IsRead() const
    {
        return is_whole_ && at_ == bytes_.size();
    }

  private:
    const char *Take(size_t size)
    {
        static const char kNothing[sizeof(uint64_t)] = "";

        is_whole_ = is_whole_ && size <= bytes_.size() - at_;
        if (!is_whole_)
            return kNothing;
        at_ += size;
        return bytes_.data() + at_ - size;
    }

    const std::string &bytes_;
    size_t at_ = 0;
    bool is_whole_ = true;
};

std::string Bytes(uint64_t number)
{
    return std::string(reinterpret_cast<const char *>(&number), sizeof(number));
}

std::string WithLength(const std::string &text)
{
    return Bytes(text.size()) + text;
}

class Job
{
  public:
    explicit Job(const Input &input);
    Job(const Job &) = delete;
    Job &operator=(const Job &) = delete;
    ~Job();
    Result Run();

    // What plugin code calls in place of the system.
    bool IsInHost() const
    {
        return current_ != nullptr;
    }
    int64_t now() const
    {
        return now_;
    }
    void Sleep(int64_t us);
    int Connect();
    void Close(int fd);
    bool Await(int fd, size_t size, int64_t deadline_ms);
    void Send(int fd, const iovec *parts, int n_parts);
    void Receive(int fd, void *to, size_t size);

  private:
    void MakeCoroutine(Host *host);
    static void Enter();
    Connection *Of(int fd);
    Traffic *TrafficOf(const Connection &connection);
    void Suspend();
    void Resume(size_t at);
    void Add(int64_t due, Kind kind, size_t at, uint64_t waits = 0,
             const std::string &bytes = "");
    void Fault(const std::string &text);
    void Happen(const Event &event);
    void RunUntil(int64_t limit);

    void Serve(size_t connection, const std::string &request);
    std::string Answer(size_t connection, stp_query query, Reader *reader,
                       bool *is_answered);
    std::string AddTo(const std::string &key, uint64_t number);
    void Reply(size_t connection, const std::string &bytes);
    void Wake(const std::string &key);

    void Compared();
    void Look(Host *host);
    bool StepRank(Host *host, stp_plan_step *step);
    void StepRanks();
    void Propose();
    Result Summarize() const;

    const Input input_;
    std::vector<stp_identity> identities_;
    std::vector<Host> hosts_;
    Host *leader_ = nullptr;
    Host *current_ = nullptr;
    ucontext_t main_{};
    std::priority_queue<Event> events_;
    uint64_t n_events_ = 0;
    int64_t now_ = kStart;

    // the store
    std::vector<Connection> connections_;
    std::map<std::string, std::string> values_;
    std::map<std::string, std::vector<size_t>> waiting_;
    int64_t free_ = 0; // it has served all that came

    Traffic comparing_, planning_; // messages of all hosts
    Traffic before_;               // 'planning_' at the last proposal
    Traffic plan_;                 // the last one's

    size_t n_agreed_ = 0; // hosts
    int64_t agreed_us_ = 0;
    std::map<uint64_t, Plan> plans_;
    std::vector<std::pair<Host *, stp_plan_step *>> waiting_ranks_;
    size_t n_committed_ = 0;
    bool is_settled_ = false;
    std::string fault_;
};

Job *job; // whose hosts run

// ---- hosts ----

Job::Job(const Input &input)
    : input_(input), identities_(input.n_hosts * input.n_own),
      hosts_(input.n_hosts)
{
    const size_t n_ranks = identities_.size();
    stp_agreement_store store{};
    stp_agreement_rank rank{};

    store.address = stp_store_at("store", 29500);
    store.timeout_ms = kTimeoutMs;
    store.lead = input.lead;
    strcpy(store.run, "none"); // torchrun's, unless it is told
    rank.number = -1;
    for (size_t i = 0; i < input.n_own; i++)
        stp_identity_write(&identities_[i], &rank);
    for (size_t i = 0; i < hosts_.size(); i++) {
        Host *host = &hosts_[i];
        snprintf(store.host, sizeof(store.host), "node%04zu", i);
        host->host =
            scale_host_new(&store, identities_.data(), input.n_own, n_ranks);
        host->steps.resize(input.n_own);
        for (size_t r = 0; r < input.n_own; r++)
            host->steps[r].rank = static_cast<uint32_t>(r);
        MakeCoroutine(host);
        Add(now_ + input.arrive_us * static_cast<int64_t>(i) /
                       static_cast<int64_t>(hosts_.size()),
            Kind::kResume, i);
    }
}

void Job::MakeCoroutine(Host *host)
{
    host->stack.reset(new char[kStack]);
    getcontext(&host->context);
    host->context.uc_stack.ss_sp = host->stack.get();
    host->context.uc_stack.ss_size = kStack;
    host->context.uc_link = &main_;
    makecontext(&host->context, Enter, 0);
}

// Coroutines end where they wait: there they hold no memory.
Job::~Job()
{
    for (Host &host : hosts_)
        scale_host_free(host.host);
}

void Job::Enter()
{
    scale_host_speak(job->current_->host);
}

void Job::Suspend()
{
    swapcontext(&current_->context, &main_);
}

void Job::Resume(size_t at)
{
    Host *host = &hosts_[at];

    host->n_waits++;
    host->fd = -1;
    current_ = host;
    swapcontext(&main_, &host->context);
    current_ = nullptr;
    Look(host);
}

void Job::Sleep(int64_t us)
{
    Add(now_ + us, Kind::kResume, static_cast<size_t>(current_ - &hosts_[0]),
        current_->n_waits);
    Suspend();
}

int Job::Connect()
{
    Sleep(2 * input_.latency_us);
    connections_.push_back({static_cast<size_t>(current_ - &hosts_[0]), ""});
    return kFirstFd + static_cast<int>(connections_.size()) - 1;
}

Connection *Job::Of(int fd)
{
    return &connections_[static_cast<size_t>(fd - kFirstFd)];
}

Traffic *Job::TrafficOf(const Connection &connection)
{
    return scale_host_state(hosts_[connection.host].host) == 0 ? &comparing_
                                                               : &planning_;
}

void Job::Close(int fd)
{
    Of(fd)->is_closed = true;
}

// Until 'size' bytes have come.
bool Job::Await(int fd, size_t size, int64_t deadline_ms)
{
    const int64_t deadline = std::min(deadline_ms, kLimit / kMs) * kMs;

    while (Of(fd)->in.size() < size) {
        if (now_ >= deadline) {
            errno = ETIMEDOUT;
            return false;
        }
        Add(deadline, Kind::kResume, Of(fd)->host, current_->n_waits);
        current_->fd = fd;
        Suspend();
    }
    return true;
}

void Job::Send(int fd, const iovec *parts, int n_parts)
{
    Traffic *traffic = TrafficOf(*Of(fd));
    std::string bytes;

    for (int i = 0; i < n_parts; i++)
        bytes.append(static_cast<const char *>(parts[i].iov_base),
                     parts[i].iov_len);
    traffic->n_requests++;
    traffic->n_bytes += bytes.size();
    Add(now_ + input_.latency_us, Kind::kRequest,
        static_cast<size_t>(fd - kFirstFd), 0, bytes);
}

void Job::Receive(int fd, void *to, size_t size)
{
    std::string *in = &Of(fd)->in;

    memcpy(to, in->data(), size);
    in->erase(0, size);
}

// ---- the store ----

void Job::Reply(size_t connection, const std::string &bytes)
{
    TrafficOf(connections_[connection])->n_bytes += bytes.size();
    Add(free_ + input_.latency_us, Kind::kReply, connection, 0, bytes);
}

void Job::Wake(const std::string &key)
{
    const auto found = waiting_.find(key);

    if (found == waiting_.end())
        return;
    for (size_t connection : found->second) {
        if (connections_[connection].is_closed)
            continue;
        free_ += input_.wake_us;
        Reply(connection, std::string(1, '\0'));
    }
    waiting_.erase(found);
}

std::string Job::AddTo(const std::string &key, uint64_t number)
{
    std::string *value = &values_[key];

    number += strtoull(value->c_str(), nullptr, 10);
    *value = std::to_string(number);
    return Bytes(number);
}

// Of requests about one key, which are all that hosts make.
std::string Job::Answer(size_t connection, stp_query query, Reader *reader,
                        bool *is_answered)
{
    const bool is_list = query == STP_CHECK || query == STP_WAIT;

    if (is_list && reader->Number() != 1)
        Fault("a host asks for several keys");
    const std::string key = reader->Text();
    const bool is_there = values_.count(key) != 0;
    *is_answered = query != STP_SET && query != STP_APPEND &&
                   (query != STP_WAIT || is_there);
    switch (query) {
    case STP_SET:
        values_[key] = reader->Text();
        Wake(key);
        return "";
    case STP_APPEND:
        values_[key] += reader->Text();
        return "";
    case STP_COMPARE_SET: {
        const std::string expected = reader->Text();
        const std::string value = reader->Text();
        if (!is_there && expected.empty())
            values_[key] = value;
        return WithLength(values_[key]);
    }
    case STP_GET:
        if (!is_there)
            Fault("a host gets a key that is not there: " + key);
        return WithLength(values_[key]);
    case STP_ADD:
        return AddTo(key, reader->Number());
    case STP_CHECK:
        return std::string(1, is_there ? '\0' : '\1');
    case STP_WAIT:
        if (!is_there)
            waiting_[key].push_back(connection);
        return std::string(1, '\0');
    case STP_DELETE_KEY:
        return Bytes(values_.erase(key));
    default:
        Fault("a host asks what the model has no answer to");
        return "";
    }
}

void Job::Serve(size_t connection, const std::string &request)
{
    Reader reader(request);
    const stp_query query = static_cast<stp_query>(reader.Number(1));
    bool is_answered = false;

    free_ = std::max(free_, now_) + input_.request_us;
    if (query == STP_VALIDATE) {
        reader.Number(sizeof(uint32_t));
    } else {
        const std::string reply =
            Answer(connection, query, &reader, &is_answered);
        if (is_answered)
            Reply(connection, reply);
    }
    if (!reader.IsRead())
        Fault("a request has another length than its parts");
}

// ---- ranks ----

// All ranks begin once all hosts agreed: NCCL's barrier comes before.
void Job::Compared()
{
    agreed_us_ = now_;
    Add(now_, Kind::kEpoch, 0);
}

// What a host knows after it ran.
void Job::Look(Host *host)
{
    const stp_plan_board *board = scale_host_board(host->host);

    if (scale_host_state(host->host) < 0)
        Fault(std::string("a host takes part no more: ") +
              scale_host_why(host->host));
    if (!host->is_agreed && scale_host_state(host->host) == 1) {
        host->is_agreed = true;
        if (scale_host_leads(host->host))
            leader_ = host;
        if (++n_agreed_ == hosts_.size())
            Compared();
    }
    for (size_t i = 0; i < STP_PLAN_SLOTS; i++) {
        const uint64_t number = board->slots[i].state >> 3;
        const uint64_t state = board->slots[i].state & 7;
        if (number == 0 || state == STP_PLAN_ACKNOWLEDGED ||
            host->known[i] == number)
            continue;
        host->known[i] = number;
        Plan *plan = &plans_[number];
        plan->is_committed = state == STP_PLAN_COMMITTED;
        if (++plan->n_knowing == hosts_.size())
            plan->known_us = now_ - plan->proposed_us;
    }
}

// Whether it knows what to take in its epoch.
bool Job::StepRank(Host *host, stp_plan_step *step)
{
    stp_plan_board *board = scale_host_board(host->host);
    const uint64_t number = step->next + 1;
    enum stp_plan_access access;

    while ((access = stp_plan_access(step, board)) == STP_PLAN_MORE)
        ;
    if (access == STP_PLAN_FAILED)
        Fault("a rank cannot know its plan");
    if (step->word == 1)
        plans_[number].begun_us = now_;
    return access != STP_PLAN_DOUBT;
}

// Ranks that know what to take wait for those that do not, in a collective.
void Job::StepRanks()
{
    std::vector<std::pair<Host *, stp_plan_step *>> waiting;
    const uint64_t calls = is_settled_ ? kSettledCalls : kEpochCalls;

    if (waiting_ranks_.empty())
        for (Host &host : hosts_)
            for (stp_plan_step &step : host.steps) {
                stp_plan_begin_epoch(&step);
                waiting_ranks_.emplace_back(&host, &step);
            }
    for (const auto &[host, step] : waiting_ranks_)
        if (!StepRank(host, step))
            waiting.emplace_back(host, step);
    waiting_ranks_.swap(waiting);
    if (waiting_ranks_.empty()) {
        Propose();
        Add(now_ + static_cast<int64_t>(calls * kSecond / input_.calls_per_s),
            Kind::kEpoch, 0);
    } else {
        plans_[waiting_ranks_[0].second->next + 1].wait_us += kRankNap;
        Add(now_ + kRankNap, Kind::kEpoch, 0);
    }
}

// As soon as all ranks have passed the last plan.
void Job::Propose()
{
    const uint64_t last = scale_host_last_plan(leader_->host);

    if (is_settled_ || now_ < agreed_us_ + kFirst ||
        scale_host_is_pending(leader_->host) || leader_->steps[0].next != last)
        return;
    if (last > 0) {
        plan_.n_requests = planning_.n_requests - before_.n_requests;
        plan_.n_bytes = planning_.n_bytes - before_.n_bytes;
        n_committed_ += plans_[last].is_committed;
    }
    is_settled_ = n_committed_ == input_.n_plans;
    if (is_settled_)
        return;
    before_ = planning_;
    plans_[last + 1].proposed_us = now_;
    if (!scale_host_propose(leader_->host, STP_PLAN_WORDS, kEpochCalls))
        Fault("the leader proposes no more");
}

// ---- a run ----

void Job::Add(int64_t due, Kind kind, size_t at, uint64_t waits,
              const std::string &bytes)
{
    events_.push({due, n_events_++, kind, at, waits, bytes});
}

void Job::Fault(const std::string &text)
{
    if (fault_.empty())
        fault_ = text;
}

void Job::Happen(const Event &event)
{
    Connection *connection;

    switch (event.kind) {
    case Kind::kResume:
        if (hosts_[event.at].n_waits == event.waits)
            Resume(event.at);
        return;
    case Kind::kRequest:
        Serve(event.at, event.bytes);
        return;
    case Kind::kReply:
        connection = &connections_[event.at];
        connection->in += event.bytes;
        if (hosts_[connection->host].fd ==
            kFirstFd + static_cast<int>(event.at))
            Resume(connection->host);
        return;
    case Kind::kEpoch:
        StepRanks();
    }
}

// Or until learning has settled, if it has not.
void Job::RunUntil(int64_t limit)
{
    const bool was_settled = is_settled_;

    while (fault_.empty() && is_settled_ == was_settled &&
           events_.top().due < limit) {
        const Event event = events_.top();
        events_.pop();
        now_ = event.due;
        Happen(event);
    }
}

Result Job::Summarize() const
{
    Result result;

    result.fault = fault_;
    result.compare = comparing_;
    result.compare_us = agreed_us_ - kStart;
    result.plan = plan_;
    result.spare_us = INT64_MAX;
    for (const auto &[number, plan] : plans_) {
        result.wait_us = std::max(result.wait_us, plan.wait_us);
        result.n_dropped += !plan.is_committed;
        if (!plan.is_committed)
            continue;
        result.known_us = std::max(result.known_us, plan.known_us);
        result.spare_us =
            std::min(result.spare_us, plan.begun_us - plan.wait_us -
                                          plan.proposed_us - plan.known_us);
    }
    return result;
}

Result Job::Run()
{
    Result result;
    uint64_t n_requests;

    job = this;
    RunUntil(kLimit);
    if (fault_.empty() && !is_settled_)
        Fault("learning does not settle");
    result = Summarize();
    n_requests = planning_.n_requests;
    RunUntil(now_ + kQuiet);
    job = nullptr;
    result.fault = fault_;
    result.quiet = static_cast<double>(planning_.n_requests - n_requests) /
                   (static_cast<double>(kQuiet) / kSecond);
    return result;
}

} // namespace

Result Run(const Input &input)
{
    return Job(input).Run();
}

// ---- a table ----

std::string Header()
{
    return "ranks,hosts,calls_per_s,latency_us,request_us,wake_us,arrive_us,"
           "lead,"
           "compare_messages,compare_bytes,compare_virtual_ms,"
           "plan_messages,plan_bytes,known_virtual_ms,spare_virtual_ms,"
           "wait_virtual_ms,dropped,quiet_messages_per_s\n";
}

std::string Row(const Input &input, const Result &result)
{
    char text[512];

    snprintf(text, sizeof(text),
             "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRId64 ",%" PRId64
             ",%" PRId64 ",%" PRId64 ",%u,",
             input.n_hosts * input.n_own, input.n_hosts, input.calls_per_s,
             input.latency_us, input.request_us, input.wake_us, input.arrive_us,
             input.lead);
    const std::string inputs = text;
    snprintf(text, sizeof(text),
             "%" PRIu64 ",%" PRIu64 ",%.2f,%" PRIu64 ",%" PRIu64
             ",%.2f,%.2f,%.0f,%" PRIu64 ",%g\n",
             result.compare.n_requests, result.compare.n_bytes,
             static_cast<double>(result.compare_us) / kMs,
             result.plan.n_requests, result.plan.n_bytes,
             static_cast<double>(result.known_us) / kMs,
             static_cast<double>(result.spare_us) / kMs,
             static_cast<double>(result.wait_us) / kMs, result.n_dropped,
             result.quiet);
    return inputs + text;
}

bool ReadInput(const std::string &row, Input *input_ret)
{
    Input *s = input_ret;
    uint64_t n_ranks;

    if (sscanf(row.c_str(),
               "%" SCNu64 ",%" SCNu64 ",%" SCNu64 ",%" SCNd64 ",%" SCNd64
               ",%" SCNd64 ",%" SCNd64 ",%u,",
               &n_ranks, &s->n_hosts, &s->calls_per_s, &s->latency_us,
               &s->request_us, &s->wake_us, &s->arrive_us, &s->lead) != 8 ||
        s->n_hosts == 0)
        return false;
    s->n_own = n_ranks / s->n_hosts;
    return true;
}

} // namespace plan_scale

// The linker puts these in place of what plugin code calls.
extern "C" {

using plan_scale::job;

int __real_clock_gettime(clockid_t clock, timespec *now);
int __real_nanosleep(const timespec *time, timespec *left);
int __real_poll(pollfd *polled, nfds_t n, int timeout_ms);
int __real_close(int fd);
int __wrap_clock_gettime(clockid_t clock, timespec *now);
int __wrap_nanosleep(const timespec *time, timespec *left);
int __wrap_poll(pollfd *polled, nfds_t n, int timeout_ms);
int __wrap_close(int fd);
int __wrap_stp_socket_connect(const char *name, unsigned port,
                              int64_t deadline_ms, char *address, char *why,
                              size_t size);
bool __wrap_stp_socket_await_unless(int fd, short events, int wake_fd,
                                    int64_t deadline_ms);
bool __wrap_stp_socket_send(int fd, iovec *parts, int n_parts, bool until_input,
                            int64_t deadline_ms);
bool __wrap_stp_socket_receive(int fd, void *to, size_t size,
                               int64_t deadline_ms);

static bool IsInHost()
{
    return job != nullptr && job->IsInHost();
}

int __wrap_clock_gettime(clockid_t clock, timespec *now)
{
    if (!IsInHost())
        return __real_clock_gettime(clock, now);
    now->tv_sec = job->now() / plan_scale::kSecond;
    now->tv_nsec = job->now() % plan_scale::kSecond * 1000;
    return 0;
}

int __wrap_nanosleep(const timespec *time, timespec *left)
{
    if (!IsInHost())
        return __real_nanosleep(time, left);
    job->Sleep(time->tv_sec * plan_scale::kSecond + time->tv_nsec / 1000);
    return 0;
}

int __wrap_poll(pollfd *polled, nfds_t n, int timeout_ms)
{
    if (!IsInHost())
        return __real_poll(polled, n, timeout_ms);
    job->Sleep(timeout_ms * plan_scale::kMs);
    return 0;
}

int __wrap_close(int fd)
{
    if (fd < plan_scale::kFirstFd)
        return __real_close(fd);
    job->Close(fd);
    return 0;
}

int __wrap_stp_socket_connect(const char *name, unsigned port,
                              int64_t deadline_ms, char *address, char *why,
                              size_t size)
{
    (void)name, (void)port, (void)deadline_ms, (void)why, (void)size;
    address[0] = '\0';
    return job->Connect();
}

bool __wrap_stp_socket_await_unless(int fd, short events, int wake_fd,
                                    int64_t deadline_ms)
{
    (void)events, (void)wake_fd;
    return job->Await(fd, 1, deadline_ms);
}

bool __wrap_stp_socket_send(int fd, iovec *parts, int n_parts, bool until_input,
                            int64_t deadline_ms)
{
    (void)until_input, (void)deadline_ms;
    job->Send(fd, parts, n_parts);
    return true;
}

bool __wrap_stp_socket_receive(int fd, void *to, size_t size,
                               int64_t deadline_ms)
{
    if (!job->Await(fd, size, deadline_ms))
        return false;
    job->Receive(fd, to, size);
    return true;
}
}
