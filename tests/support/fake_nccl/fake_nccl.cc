// fake_nccl.cc - an NCCL that moves bytes between the threads of a process, on
// the GPUs of fake_gpu.h, as the real one does:
//
// - operations of a communicator, and of those that share its resources, run
//   one after the other, in the order of the calls, also across graphs, for
//   which NCCL has an event: what is captured stands between nodes that wait
//   for it and record it; those of a group follow all its streams, which go on
//   behind them;
// - calls of a group start at its end, those that take all ranks at once, and
//   what is sent behind collectives; a communicator's first operation takes all
//   ranks; an abort acts at once, but for symmetric kernels, and waits at the
//   end of the group for all operations of that order;
// - what takes all ranks waits for them, and fails if one is dead or aborts;
//   a group fails with a call of it.
#include <unistd.h>

#include "fake_kernels.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace
{

// Detached aborts may still run when the process ends, so these are never
// destroyed.
auto &families =
    *new std::map<std::string, std::shared_ptr<Family>>; // by unique id
auto &n_calls = *new std::map<std::string, uint64_t>;
uint64_t n_ids;

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
    Order *o = comm->order.get();
    const char *order = getenv("FAKE_NCCL_ORDER");
    const bool has_order = order == nullptr || strcmp(order, "none") != 0;

    if (id != 0 && !o->ever_captured)
        fake::RecordAs(o->serial, o->live);
    o->ever_captured |= id != 0;
    if (id != 0 && has_order)
        node = o->last.count(id) > 0
                   ? o->last[id]
                   : fake::AddWait(first, o->serial,
                                   order != nullptr && *order == 'b');
    else if (id == 0) {
        fake::WaitOn(first, o->live);
        if (o->ever_captured)
            fake::WaitOn(first, o->serial);
    }
    const char *name = comm->windows.empty() || getenv("FAKE_NCCL_NO_SYMMETRIC")
                           ? "ncclDevKernel"
                           : "ncclSymkDevKernel";
    std::vector<Call> exchanged;
    fake::Node *also = node;
    for (const Call &call : calls)
        if (call.coll == kExchange)
            exchanged.push_back(call);
        else {
            node = fake::EnqueueKernel(
                first, [call] { return std::make_shared<Operation>(call); },
                name, also);
            also = nullptr;
        }
    if (!exchanged.empty()) // behind collectives, wherever they were called
        node = fake::EnqueueKernel(
            first, [=] { return std::make_shared<Exchange>(comm, exchanged); },
            "ncclDevKernel", also);
    for (cudaStream_t stream : others)
        fake::Fork(first, stream);
    if (id != 0 && order != nullptr && *order == 'a') // each launch
        fake::AddRecord(o->serial, node);
    if (id != 0 && has_order)
        o->last[id] = fake::AddRecord(o->serial, node);
    else if (id == 0)
        fake::RecordOn(o->live, first);
    if (id == 0 && o->ever_captured)
        fake::RecordAs(o->serial, o->live);
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
    if (!comm->is_connected && call.coll != kExchange) {
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
        of_comm = group.launches.insert(of_comm, {comm->thread, {}});
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
    ncclGetVersion(&comm->version);
    fake::Lock([&] {
        if (parent != nullptr && parent->shares) {
            comm->is_aborted = parent->is_aborted;
            comm->order = parent->order;
        }
        comm->order->n_users++;
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
ncclResult_t ReclaimOne(ncclComm_t comm)
{
    if (!fake::WaitUntil([comm] {
            return comm->order->running.empty() &&
                   fake::IsDone(comm->order->live) &&
                   fake::IsDone(comm->order->serial);
        }))
        return ncclSystemError;
    fake::Lock([comm] {
        comm->is_ended = true;
        for (const auto &window : comm->windows)
            fake::Register(window.first, -1);
        if (--comm->order->n_users == 0)
            fake::EndEvent(comm->order->serial);
    });
    return ncclSuccess;
}

// If all ranks are in one process, the last one ends all of them, as in NCCL's
// commReclaim(), 2.27 to 2.31.
ncclResult_t Reclaim(ncclComm_t comm)
{
    Family *family = comm->family.get();
    bool is_last = false;
    ncclResult_t result = ncclSuccess;

    if (!family->is_of_one_process)
        return ReclaimOne(comm);
    fake::Lock([&] { is_last = ++family->n_ending == family->n_ranks; });
    for (ncclComm_t other : family->ranks)
        if (is_last && other != nullptr)
            result = std::max(result, ReclaimOne(other));
    return result;
}

} // namespace

// ---- for tests ----

uint64_t fake::CountSymmetric()
{
    return n_symmetric;
}

uint64_t fake::CountCalls(const std::string &call)
{
    uint64_t n = 0;

    Lock([&] { n = n_calls[call]; });
    return n;
}

void fake::FailNext(int n_allocations, int n_splits)
{
    alloc_failures = n_allocations;
    split_failures = n_splits;
}

static ncclResult_t Count(ncclComm_t comm, const char *call)
{
    fake::Lock([&] { n_calls[call] += comm->job == fake::NumberOfJob(); });
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

struct Team {
    int n_ranks, rank, stride;
};

extern "C" __attribute__((visibility("default"))) Team
pncclTeamWorld(ncclComm_t comm)
{
    return {comm->family->n_ranks, comm->rank, 1};
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    return Count(comm, "finalize");
}

EXPORTED ncclResult_t ncclCommRevoke(ncclComm_t comm, int)
{
    return Count(comm, "revoke");
}

EXPORTED ncclResult_t ncclCommSuspend(ncclComm_t comm, int flags)
{
    bool shares = false;

    fake::Lock([&] { shares = comm->order->n_users > 1; });
    Count(comm, "suspend");
    return shares && (flags & NCCL_SUSPEND_MEM) != 0 ? ncclInvalidUsage
                                                     : ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    Count(comm, "destroy");
    return InGroup(Job::kEnds, [=] { return Reclaim(comm); });
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    Count(comm, "abort");
    if (!comm->windows.empty())
        Count(comm, "abort with windows");
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
    *memory = fake::Allocate(n_bytes);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclMemFree(void *memory)
{
    fake::Free(memory);
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
            fake::Register(memory, 1);
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

EXPORTED ncclResult_t ncclGroupSimulateEnd(void *)
{
    if (group.depth == 1)
        group.launches.clear();
    return ncclGroupEnd();
}

EXPORTED ncclResult_t ncclSend(const void *send, size_t count, int type,
                               int peer, ncclComm_t comm, cudaStream_t stream)
{
    return Launch({kExchange, static_cast<const char *>(send), nullptr, count,
                   type, peer, comm, stream});
}

EXPORTED ncclResult_t ncclRecv(void *recv, size_t count, int type, int peer,
                               ncclComm_t comm, cudaStream_t stream)
{
    return Launch({kExchange, nullptr, static_cast<char *>(recv), count, type,
                   peer, comm, stream});
}

// Has sends, which are to follow one that the group called before.
EXPORTED ncclResult_t ncclAlltoAll(const void *, void *, size_t, int,
                                   ncclComm_t, cudaStream_t)
{
    return group.launches.empty() ? ncclInvalidUsage : ncclSuccess;
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
