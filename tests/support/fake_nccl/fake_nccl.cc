// fake_nccl.cc - an NCCL that moves bytes between the threads of a process, on
// the GPUs of fake_gpu.h, as the real one does:
//
// - operations of a communicator run one after the other, in the order of the
//   calls, also across graphs, for which NCCL has an event: what is captured
//   stands between nodes that wait for it and record it; those of a group
//   follow all its streams, which go on behind them;
// - each operation waits for all ranks at its begin and end,
//   and in between reads and writes the buffers of all, piece by piece;
// - buffers that lie in windows of that communicator are taken to stand at this
//   rank's offset in every rank's window, whatever they do there;
// - before 2.30.3 symmetric all-gathers load the last bytes of a pack of 8
// wrong
//   from an address that is no multiple of 4;
// - calls of a group start at its end, those that take all ranks at once, and
//   a communicator's first operation takes all ranks; an abort acts at once,
//   but for symmetric kernels, and waits at the end of the group for the
//   communicator's operations;
// - what takes all ranks waits for them, and fails if one is dead or aborts;
//   a group fails with a call of it.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <set>

#include "fake_gpu.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using fake::Step;

namespace
{

struct Operation; // of one rank

struct Meeting { // of all ranks of a communicator, before an operation's work
    int n_arrived = 0, n_done = 0;
    std::vector<Operation *> ranks;
};

struct Family { // what the ranks of a communicator share
    int n_ranks;
    std::vector<ncclComm_t> ranks;
    std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
    // Steps of all ranks, by their number: what each rank brought.
    std::map<uint64_t, std::map<int, std::pair<int, int>>> steps;
    std::map<std::pair<uint64_t, int>, std::shared_ptr<Family>> children;
    std::set<uint64_t> failed; // steps that a rank refused
};

// Detached aborts may still run when the process ends, so these are never
// destroyed.
auto &families =
    *new std::map<std::string, std::shared_ptr<Family>>; // by unique id
auto &n_calls = *new std::map<std::string, uint64_t>;
uint64_t n_ids, n_symmetric;

} // namespace

struct ncclComm {
    std::shared_ptr<Family> family;
    int rank;
    int thread; // the rank in the job
    uint64_t n_operations = 0, n_steps = 0;
    bool is_connected = false, shares = false; // as splitShare has it
    std::shared_ptr<std::atomic<bool>> is_aborted =
        std::make_shared<std::atomic<bool>>(false);
    int version; // of the NCCL that made it
    std::deque<Operation *> running;
    fake::Event *serial = fake::NewEvent();
    std::map<uint64_t, fake::Node *> last; // by capture
    std::vector<std::pair<char *, size_t>> windows;
};

namespace
{

size_t SizeOf(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return sizes[type];
}

struct Call {
    int coll;
    const char *send;
    char *recv;
    size_t count;
    int type, op;
    ncclComm_t comm;
    cudaStream_t stream;

    bool Matches(const Call &other) const
    {
        return coll == other.coll && count == other.count &&
               type == other.type && op == other.op;
    }
};

struct Operation : fake::Work {
    Call call;
    uint64_t number;
    int stage = 0;
    std::shared_ptr<Meeting> meeting;

    ~Operation() override
    {
        auto &running = call.comm->running;
        running.erase(std::remove(running.begin(), running.end(), this),
                      running.end());
    }

    // The offset of an address in this rank's windows, and which; -1: none.
    long OffsetOf(const char *at, size_t *window) const
    {
        const auto &windows = call.comm->windows;

        for (*window = 0; *window < windows.size(); ++*window)
            if (windows[*window].first <= at &&
                at < windows[*window].first + windows[*window].second)
                return at - windows[*window].first;
        return -1;
    }

    bool IsSymmetric() const
    {
        size_t window;
        const bool sends = OffsetOf(call.send, &window) >= 0,
                   receives = OffsetOf(call.recv, &window) >= 0;

        if (call.comm->version < 22902 || call.coll == ncclFuncAllReduce)
            return sends && receives;
        return call.coll == ncclFuncAllGather ? receives : sends;
    }

    bool LoadsWrong() const
    {
        return call.comm->version < 23003 && IsSymmetric() &&
               reinterpret_cast<uintptr_t>(call.send) % 4 != 0;
    }

    // Where another rank's buffer is, as this rank sees it.
    char *At(int rank, bool is_send) const
    {
        const Call &other = meeting->ranks[rank]->call;
        const char *own = is_send ? call.send : call.recv;
        size_t window;
        const long offset = OffsetOf(own, &window);

        if (offset < 0)
            return is_send ? const_cast<char *>(other.send) : other.recv;
        if (window >= other.comm->windows.size()) {
            fake::Fault("a rank has no such window");
            return const_cast<char *>(own);
        }
        return other.comm->windows[window].first + offset;
    }

    template <typename T> void Sum(size_t from, size_t to)
    {
        const int n = call.comm->family->n_ranks, me = call.comm->rank;

        for (size_t i = from; i < to; i++) {
            T sum = 0;
            for (int r = 0; r < n; r++)
                sum = static_cast<T>(
                    sum + reinterpret_cast<const T *>(At(r, true))[i]);
            if (call.coll == ncclFuncReduceScatter)
                reinterpret_cast<T *>(call.recv)[i - me * call.count] = sum;
            else
                for (int r = 0; r < n; r++)
                    reinterpret_cast<T *>(At(r, false))[i] = sum;
        }
    }

    // A quarter of this rank's share.
    void Move(int quarter)
    {
        const size_t n = call.comm->family->n_ranks, me = call.comm->rank;
        const bool is_whole = call.coll != ncclFuncAllReduce;
        const size_t share = is_whole ? call.count : (call.count + n - 1) / n;
        size_t from = me * share, end = is_whole ? n * share : call.count;
        const size_t to = std::min({from + share * (quarter + 1) / 4, end});

        from = std::min(from + share * quarter / 4, end);
        if (from >= to)
            return;
        if (call.coll == ncclFuncAllGather) {
            const size_t size = SizeOf(call.type);
            size_t window;

            // A rank's part of the whole; it sends from its own buffer.
            for (size_t r = 0; r < n; r++) {
                char *at = OffsetOf(call.recv, &window) >= 0
                               ? At(static_cast<int>(r), false)
                               : meeting->ranks[r]->call.recv;
                memmove(at + from * size,
                        call.send + (from - me * share) * size,
                        (to - from) * size);
                for (size_t i = from * size; LoadsWrong() && i < to * size; i++)
                    if ((i - me * share * size) % 8 == 7)
                        at[i] = 101;
            }
        } else if (call.type == 7)
            Sum<float>(from, to);
        else if (SizeOf(call.type) == 4)
            Sum<int32_t>(from, to);
        else
            Sum<int8_t>(from, to);
    }

    Step Run() override
    {
        ncclComm_t comm = call.comm;
        Family *family = comm->family.get();

        // A symmetric kernel does not look whether it is to end.
        if (*comm->is_aborted && !IsSymmetric())
            return Leave();
        if (comm->running.front() != this)
            return Step::kBlocked;
        if (stage == 0) {
            auto &m = family->meetings[number];

            if (m == nullptr) {
                m = std::make_shared<Meeting>();
                m->ranks.resize(family->n_ranks);
            }
            meeting = m;
            for (const Operation *other : m->ranks)
                if (other != nullptr && !other->call.Matches(call))
                    fake::Fault("ranks call different operations");
            m->ranks[comm->rank] = this;
            m->n_arrived++;
            stage = 1;
            return Step::kRan;
        }
        if (stage == 1) {
            if (meeting->n_arrived < family->n_ranks)
                return Step::kBlocked;
        }
        if (stage <= 4) {
            for (const Operation *other : meeting->ranks)
                if (other == nullptr) // it was aborted
                    return Step::kBlocked;

            if (stage == 1 && IsSymmetric()) {
                n_symmetric++;
                if (call.count * SizeOf(call.type) % 16 != 0)
                    fake::Fault("a symmetric kernel has a part that is no "
                                "multiple of 16 bytes");
            }
            Move(stage++ - 1);
            if (stage == 5)
                meeting->n_done++;
            return Step::kRan;
        }
        if (meeting->n_done < family->n_ranks)
            return Step::kBlocked;
        family->meetings.erase(number);
        return Leave();
    }

    Step Leave()
    {
        auto &running = call.comm->running;

        if (meeting != nullptr)
            meeting->ranks[call.comm->rank] = nullptr;
        running.erase(std::remove(running.begin(), running.end(), this),
                      running.end());
        return Step::kDone;
    }
};

// ---- groups ----

struct Job {
    enum Kind {
        kMeets, // it takes all ranks
        kEnds,  // a communicator
    } kind;
    std::function<ncclResult_t()> run;
    int rank;
};

thread_local struct {
    int depth = 0;
    ncclResult_t failed = ncclSuccess; // a call of it
    std::vector<Job> jobs;
    std::vector<std::pair<int, std::vector<Call>>> launches; // by rank and
                                                             // communicator
} group;

thread_local int alloc_failures = 0, split_failures = 0;

// Launches the calls of a communicator that a group has.
void LaunchAll(const std::vector<Call> &calls)
{
    ncclComm_t comm = calls[0].comm;
    cudaStream_t first = calls[0].stream;
    const uint64_t id = fake::CaptureOf(first);
    std::vector<cudaStream_t> others;
    fake::Node *node = nullptr;

    for (const Call &call : calls) {
        if (comm->family->n_ranks == 1)
            fake::EnqueueCopy(call.stream, call.recv, call.send,
                              call.count * SizeOf(call.type));
        else if (call.stream != first && std::find(others.begin(), others.end(),
                                                   call.stream) == others.end())
            others.push_back(call.stream);
    }
    if (comm->family->n_ranks == 1)
        return;
    for (cudaStream_t stream : others)
        fake::Fork(stream, first);
    // NCCL keeps no order of graphs without its support of mixed ones.
    const char *order = getenv("FAKE_NCCL_ORDER");
    const bool has_order = order == nullptr || strcmp(order, "none") != 0;

    if (id != 0 && has_order)
        node = comm->last.count(id) > 0
                   ? comm->last[id]
                   : fake::AddWait(first, comm->serial, order != nullptr);
    else if (id == 0)
        fake::WaitOn(first, comm->serial);
    for (const Call &call : calls)
        node = fake::EnqueueKernel(
            first,
            [call] {
                auto work = std::make_shared<Operation>();

                work->call = call;
                work->number = call.comm->n_operations++;
                call.comm->running.push_back(work.get());
                return work;
            },
            comm->windows.empty() || getenv("FAKE_NCCL_NO_SYMMETRIC")
                ? "ncclDevKernel"
                : "ncclSymkDevKernel",
            &call == &calls[0] ? node : nullptr);
    for (cudaStream_t stream : others)
        fake::Fork(first, stream);
    if (id != 0 && has_order)
        comm->last[id] = fake::AddRecord(comm->serial, node);
    else if (id == 0)
        fake::RecordOn(comm->serial, first);
}

ncclResult_t RunJobs()
{
    const auto jobs = std::move(group.jobs);
    const auto launches = std::move(group.launches);
    const int rank = fake::RankEntered();
    std::vector<ncclResult_t> results(jobs.size() + 1, ncclSuccess);
    std::vector<fake::OfRank> meetings;

    group.jobs.clear();
    group.launches.clear();
    for (size_t i = 0; i < jobs.size(); i++)
        if (jobs[i].kind == Job::kMeets)
            meetings.emplace_back(jobs[i].rank,
                                  [&, i] { results[i] = jobs[i].run(); });
    if (meetings.size() == 1) {
        fake::EnterThread(meetings[0].first);
        meetings[0].second();
    } else if (!meetings.empty())
        fake::RunAtOnce(meetings);
    std::swap(results.back(), group.failed);
    if (*std::max_element(results.begin(), results.end()) == ncclSuccess)
        for (const auto &[of, calls] : launches) {
            fake::EnterThread(of);
            fake::Lock([&launched = calls] { LaunchAll(launched); });
        }
    for (size_t i = 0; i < jobs.size(); i++)
        if (jobs[i].kind == Job::kEnds) {
            fake::EnterThread(jobs[i].rank);
            results[i] = jobs[i].run();
        }
    fake::EnterThread(rank);
    return *std::max_element(results.begin(), results.end());
}

ncclResult_t InGroup(Job::Kind kind, std::function<ncclResult_t()> run)
{
    group.jobs.push_back({kind, std::move(run), fake::RankEntered()});
    return group.depth > 0 ? ncclSuccess : RunJobs();
}

const std::map<int, std::pair<int, int>> *MeetAll(ncclComm_t comm, int first,
                                                  int second);

ncclResult_t Launch(const Call &call)
{
    ncclComm_t comm = call.comm;

    if (comm == nullptr || call.type < 0 || call.type > 11)
        return group.depth > 0 ? group.failed = ncclInvalidArgument
                               : ncclInvalidArgument;
    if (*comm->is_aborted)
        return ncclInvalidUsage;
    if (!comm->is_connected) {
        comm->is_connected = true;
        const ncclResult_t result = InGroup(Job::kMeets, [comm] {
            return MeetAll(comm, 0, 0) != nullptr ? ncclSuccess
                                                  : ncclRemoteError;
        });
        if (result != ncclSuccess)
            return result;
    }
    if (call.count == 0)
        return ncclSuccess;
    auto of_comm = std::find_if(
        group.launches.begin(), group.launches.end(),
        [comm](const auto &other) { return other.second[0].comm == comm; });
    if (of_comm == group.launches.end())
        of_comm = group.launches.insert(of_comm, {fake::RankEntered(), {}});
    of_comm->second.push_back(call);
    return group.depth > 0 ? ncclSuccess : RunJobs();
}

// ---- what takes all ranks ----

// Waits until all ranks of a family have come to their step of this number, and
// returns what each brought; null if one never comes.
const std::map<int, std::pair<int, int>> *MeetAll(ncclComm_t comm, int first,
                                                  int second)
{
    Family *family = comm->family.get();
    const uint64_t number = comm->n_steps++;
    std::map<int, std::pair<int, int>> *step = nullptr;
    bool is_whole = false;

    fake::Lock([&] {
        step = &family->steps[number];
        (*step)[comm->rank] = {first, second};
        fake::Changed();
    });
    fake::WaitUntil([&] {
        bool is_lost = family->failed.count(number) > 0;

        is_whole = step->size() == static_cast<size_t>(family->n_ranks);
        for (ncclComm_t other : family->ranks)
            is_lost |= other != nullptr && step->count(other->rank) == 0 &&
                       (*other->is_aborted || fake::IsDead(other->thread));
        return is_whole || is_lost;
    });
    // A rank that comes later writes to a step that is not whole.
    return is_whole ? step : nullptr;
}

ncclResult_t Join(ncclComm_t *comm_ret, std::shared_ptr<Family> family,
                  int n_ranks, int rank, ncclComm_t parent,
                  const ncclConfig_t *config)
{
    const char *shares = getenv("NCCL_COMM_SPLIT_SHARE_RESOURCES");
    auto *comm = new ncclComm;

    comm->shares = shares != nullptr   ? atoi(shares) == 1
                   : config != nullptr ? config->splitShare == 1
                                       : parent != nullptr && parent->shares;
    if (parent != nullptr && parent->shares)
        comm->is_aborted = parent->is_aborted;

    ncclGetVersion(&comm->version);

    fake::Lock([&] {
        family->n_ranks = n_ranks;
        family->ranks.resize(n_ranks);
        comm->thread = fake::RankEntered();
        comm->family = std::move(family);
        comm->rank = rank;
        comm->family->ranks[rank] = comm;
        fake::Changed();
    });
    *comm_ret = comm;
    if (MeetAll(comm, 0, 0) == nullptr)
        return ncclRemoteError;
    return ncclSuccess;
}

// The parts of a communicator with each colour, in the order of keys.
ncclResult_t Divide(ncclComm_t comm, int color, int key, ncclComm_t *child,
                    const ncclConfig_t *config)
{
    const uint64_t number = comm->n_steps;
    const auto *all = MeetAll(comm, color, key);
    std::vector<std::pair<int, int>> members;
    std::shared_ptr<Family> family;

    *child = nullptr;
    if (all == nullptr)
        return ncclRemoteError;
    if (color < 0)
        return ncclSuccess;
    for (const auto &[rank, what] : *all)
        if (what.first == color)
            members.emplace_back(what.second, rank);
    std::sort(members.begin(), members.end());
    fake::Lock([&] {
        auto &f = comm->family->children[{number, color}];

        if (f == nullptr)
            f = std::make_shared<Family>();
        family = f;
    });
    const auto me =
        std::find_if(members.begin(), members.end(),
                     [&](const auto &m) { return m.second == comm->rank; });
    return Join(child, family, static_cast<int>(members.size()),
                static_cast<int>(me - members.begin()), comm, config);
}

// Waits for the communicator's operations.
ncclResult_t Reclaim(ncclComm_t comm)
{
    if (!fake::WaitUntil([comm] {
            return comm->running.empty() && fake::IsDone(comm->serial);
        }))
        return ncclSystemError;
    fake::EndEvent(comm->serial);
    return ncclSuccess;
}

} // namespace

// ---- for tests ----

namespace fake
{

uint64_t CountSymmetric()
{
    return n_symmetric;
}

uint64_t CountCalls(const std::string &call)
{
    uint64_t n = 0;

    Lock([&] { n = n_calls[call]; });
    return n;
}

void FailNext(int n_allocations, int n_splits)
{
    alloc_failures = n_allocations;
    split_failures = n_splits;
}

} // namespace fake

static ncclResult_t Count(const char *call)
{
    fake::Lock([&] { n_calls[call]++; });
    return ncclSuccess;
}

// ---- NCCL's functions ----

EXPORTED ncclResult_t ncclGetVersion(int *version)
{
    const char *text = getenv("FAKE_NCCL_VERSION");

    *version = text != nullptr ? atoi(text) : 22809;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 0, sizeof(*id));
    fake::Lock([&] {
        snprintf(id->internal, sizeof(id->internal), "fake %d %lu",
                 static_cast<int>(getpid()), ++n_ids);
        families[id->internal] = std::make_shared<Family>();
    });
    return ncclSuccess;
}

EXPORTED const char *ncclGetErrorString(ncclResult_t)
{
    return "fake";
}
EXPORTED const char *ncclGetLastError(ncclComm_t)
{
    return "fake";
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n_ranks,
                                             ncclUniqueId id, int rank,
                                             ncclConfig_t *config)
{
    const char *blocking = getenv("NCCL_COMM_BLOCKING");
    const ncclResult_t result = InGroup(Job::kMeets, [=]() -> ncclResult_t {
        std::shared_ptr<Family> family;

        fake::Lock([&] { family = families.at(id.internal); });
        return Join(comm, family, n_ranks, rank, nullptr, config);
    });
    return blocking != nullptr && atoi(blocking) == 0 ? ncclInProgress : result;
}

EXPORTED ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n_ranks,
                                       ncclUniqueId id, int rank)
{
    return ncclCommInitRankConfig(comm, n_ranks, id, rank, nullptr);
}

EXPORTED ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n_ranks,
                                               int rank, int, ncclUniqueId *ids,
                                               ncclConfig_t *config)
{
    return ncclCommInitRankConfig(comm, n_ranks, ids[0], rank, config);
}

EXPORTED ncclResult_t ncclCommInitAll(ncclComm_t *comms, int n_gpus,
                                      const int *)
{
    ncclUniqueId id;

    ncclGetUniqueId(&id);
    group.depth++;
    const int rank = fake::RankEntered();
    for (int r = 0; r < n_gpus; r++) {
        fake::EnterThread(r);
        ncclCommInitRank(&comms[r], n_gpus, id, r);
    }
    fake::EnterThread(rank);
    group.depth--;
    return RunJobs();
}

EXPORTED ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
                                    ncclComm_t *child, ncclConfig_t *config)
{
    if (split_failures > 0 && config != nullptr) {
        split_failures--;
        fake::Lock([&] {
            comm->family->failed.insert(comm->n_steps++);
            fake::Changed();
        });
        return ncclSystemError;
    }
    return InGroup(Job::kMeets,
                   [=] { return Divide(comm, color, key, child, config); });
}

EXPORTED ncclResult_t ncclCommShrink(ncclComm_t comm, int *excluded, int n,
                                     ncclComm_t *child, ncclConfig_t *, int)
{
    // The ranks that leave do not call: the others divide among themselves.
    std::set<int> gone(excluded, excluded + n);
    std::shared_ptr<Family> family;
    std::vector<int> stay;

    for (int r = 0; r < comm->family->n_ranks; r++)
        if (gone.count(r) == 0)
            stay.push_back(r);
    fake::Lock([&] {
        auto &f = comm->family->children[{1000000 + comm->n_steps, -n}];

        if (f == nullptr)
            f = std::make_shared<Family>();
        family = f;
    });
    return InGroup(Job::kMeets, [=] {
        return Join(
            child, family, static_cast<int>(stay.size()),
            static_cast<int>(std::find(stay.begin(), stay.end(), comm->rank) -
                             stay.begin()),
            nullptr, nullptr);
    });
}

EXPORTED ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
    *count = comm->family->n_ranks;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *gpu)
{
    *gpu = comm->thread;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
    *rank = comm->rank;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t)
{
    return Count("finalize");
}

EXPORTED ncclResult_t ncclCommRevoke(ncclComm_t, int)
{
    return Count("revoke");
}

EXPORTED ncclResult_t ncclCommSuspend(ncclComm_t, int)
{
    return Count("suspend");
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    Count("destroy");
    return InGroup(Job::kEnds, [=] { return Reclaim(comm); });
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    Count("abort");
    if (!comm->windows.empty())
        Count("abort with windows");
    fake::Lock([&] {
        *comm->is_aborted = true;
        fake::Changed();
    });
    return InGroup(Job::kEnds, [=] { return Reclaim(comm); });
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm,
                                            ncclResult_t *error)
{
    *error = ncclSuccess;
    fake::Lock([&] {
        for (ncclComm_t c : comm->family->ranks)
            if (c != nullptr && fake::IsDead(c->thread))
                *error = ncclRemoteError;
    });
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclMemAlloc(void **memory, size_t n_bytes)
{
    if (alloc_failures > 0) {
        alloc_failures--;
        return ncclUnhandledCudaError;
    }
    *memory = calloc(1, n_bytes);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclMemFree(void *memory)
{
    free(memory);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *memory,
                                             size_t n_bytes,
                                             ncclWindow_t *window, int)
{
    return InGroup(Job::kMeets, [=]() -> ncclResult_t {
        if (MeetAll(comm, 0, 0) == nullptr)
            return ncclRemoteError;
        fake::Lock([&] {
            comm->windows.emplace_back(static_cast<char *>(memory), n_bytes);
        });
        *window = reinterpret_cast<ncclWindow_t>(comm);
        return MeetAll(comm, 0, 0) == nullptr ? ncclRemoteError : ncclSuccess;
    });
}

EXPORTED ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd(void)
{
    if (group.depth == 0)
        return ncclInvalidUsage;
    return --group.depth > 0 ? ncclSuccess : RunJobs();
}

EXPORTED ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
                                    int type, int op, ncclComm_t comm,
                                    cudaStream_t stream)
{
    return Launch({ncclFuncAllReduce, static_cast<const char *>(send),
                   static_cast<char *>(recv), count, type, op, comm, stream});
}

EXPORTED ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
                                    int type, ncclComm_t comm,
                                    cudaStream_t stream)
{
    return Launch({ncclFuncAllGather, static_cast<const char *>(send),
                   static_cast<char *>(recv), count, type, 0, comm, stream});
}

EXPORTED ncclResult_t ncclReduceScatter(const void *send, void *recv,
                                        size_t count, int type, int op,
                                        ncclComm_t comm, cudaStream_t stream)
{
    return Launch({ncclFuncReduceScatter, static_cast<const char *>(send),
                   static_cast<char *>(recv), count, type, op, comm, stream});
}
