// jobs.h - random jobs of a fake NCCL under the staging library
//
// A job is a program that all ranks run, in threads of one or several ranks:
// communicators, splits, collectives alone, in groups and in graphs, on several
// streams, in place or not, windows of the application's own, ends and aborts.
// Each call's input is written just before, each output compared just behind,
// and the input spoilt: on its stream, or another that NCCL joins to it in a
// group.  In some jobs a rank has no library, other rules or settings or too
// little memory, or is gone from some step on.
#pragma once

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <list>
#include <memory>
#include <thread>

#include "stage/programs.h"
#include "support/storm.h"
#include "support/temporary_folder.h"

namespace stage_jobs
{

// NCCL before it takes symmetric kernels with one window, while these may load
// what is wrong, and since they are right.
inline const char *const kVersions[] = {"22809", "23004", "23007"};
inline const char *const kVersion = kVersions[0];

// NCCL's functions: the fake's own, or those of a library in front of it.
struct Api {
#define STAGE_JOBS_MEMBER(result, name, parameters, arguments)                 \
    result(*name) parameters = nullptr;                                        \
    result(*p##name) parameters = nullptr;
    NCCL_ALL_CALLS(STAGE_JOBS_MEMBER)
#undef STAGE_JOBS_MEMBER
    explicit Api(const std::string &path)
    {
        void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);

        if (library == nullptr)
            throw std::runtime_error(dlerror());
#define STAGE_JOBS_FIND(result, name, parameters, arguments)                   \
    name = reinterpret_cast<decltype(name)>(dlsym(library, #name));            \
    p##name = reinterpret_cast<decltype(name)>(dlsym(library, "p" #name));
        NCCL_ALL_CALLS(STAGE_JOBS_FIND)
#undef STAGE_JOBS_FIND
    }
    ncclResult_t Collective(int coll, const void *in, void *out, size_t n,
                            int type, int op, ncclComm_t comm,
                            cudaStream_t stream) const
    {
        return coll == ncclFuncAllReduce
                   ? ncclAllReduce(in, out, n, type, op, comm, stream)
               : coll == ncclFuncAllGather
                   ? ncclAllGather(in, out, n, type, comm, stream)
                   : ncclReduceScatter(in, out, n, type, op, comm, stream);
    }
};

// Copies of the library, each of which is to its ranks what a process's own
// would be.
class Libraries
{
    const TemporaryFolder folder_;

  public:
    // NCCL's own; with little patience; of other rules; for which nothing runs
    // beside collectives; and of two ranks that write into folders.
    std::unique_ptr<Api> plain, hasty[kMaxRanks], other, waiting, told[2];
    std::string rules, reports[2]; // a file, and the folders

    Libraries() : rules(Write("rules", 32768, "1-inf"))
    {
        const std::string of_three = Write("of_three", 32768, "3-inf"),
                          others = Write("others", 16384, "2-inf"),
                          many = Write("many", 32768, "1-inf");

        for (const char *ctas : {"2", "4", "16"}) // with 1 and 16 these are 4
            std::ofstream(many, std::ios::app)
                << "allreduce," << (*ctas == '2' ? "3584,3584" : "5120,5120")
                << ",stage," << ctas << ",1,1-inf,-1,-1\n";

        plain = std::make_unique<Api>(STP_FAKE_NCCL);
        for (int r = 0; r < kMaxRanks; r++) {
            for (const char *version : kVersions)
                calm_[version][r] =
                    Load(version + std::to_string(r), rules, "20000", version,
                         version == kVersions[1] ? "0" : "");
            hasty[r] = Load("hasty" + std::to_string(r), of_three, "300");
        }
        other = Load("other", others, "300");
        waiting = Load("waiting", of_three, "300", kVersion, "0");
        for (int r = 0; r < 2; r++) {
            reports[r] = folder_.Path("report" + std::to_string(r));
            std::filesystem::create_directory(reports[r]);
            setenv("STEPTUNE_STAGE_REPORT", reports[r].c_str(), 1);
            told[r] = Load("told" + std::to_string(r), many, "20000");
            unsetenv("STEPTUNE_STAGE_REPORT");
        }
    }
    const Api &Calm(int rank, const char *version) const
    {
        return *calm_.at(version)[rank];
    }

  private:
    // Rules of single sizes, and of whole rounds of one CTA.
    std::string Write(const std::string &name, int most,
                      const std::string &ranks)
    {
        const std::string path = folder_.Path(name),
                          row = ",1," + ranks + ",-1,";
        std::ofstream out(path);

        out << "collective,min_bytes,max_bytes,memory,min_ctas,"
               "nNodes,nRanks,graph,overlap\n";
        for (const char *coll : {"allreduce", "allgather", "reducescatter"}) {
            for (const char *n : {"1536", "1544", "3072", "6144"})
                out << coll << "," << n << "," << n << ",stage,16" << row
                    << "-1\n";
            out << coll << ",2048,2048,stage,16" << row << "0\n";
            out << coll << ",8192," << most << ",stage,1" << row << "-1\n";
        }
        return path;
    }
    std::unique_ptr<Api> Load(const std::string &name, const std::string &file,
                              const std::string &wait,
                              const char *version = kVersion,
                              const char *overlap = "")
    {
        const std::string path = folder_.Path(name + "-libnccl.so.2");
        int number;

        std::filesystem::copy_file(STP_STAGE, path);
        setenv("STEPTUNE_NCCL", STP_FAKE_NCCL, 1);
        setenv("STEPTUNE_STAGE_FILE", file.c_str(), 1);
        setenv("STEPTUNE_STAGE_WAIT", wait.c_str(), 1);
        setenv("FAKE_NCCL_VERSION", version, 1);
        setenv("NCCL_WORKLOAD_OVERLAP", overlap, 1);
        auto api = std::make_unique<Api>(path);
        api->ncclGetVersion(&number); // reads the environment
        unsetenv("NCCL_WORKLOAD_OVERLAP");
        return api;
    }

    std::map<std::string, std::array<std::unique_ptr<Api>, kMaxRanks>> calm_;
};

// ---- ranks ----

// Something is the matter with a rank.
struct Oddity {
    const Api *api;
    int dies_at = -1; // before this action; 0: before it comes at all
    int failed_allocations = 0, failed_splits = 0;
    uint64_t failed_call = 0; // of the driver; 0: none
};

// A rank, and its part in each action.
class Rank
{
  public:
    const int number;
    bool is_lost = false;
    std::vector<ncclComm_t> comms;

    Rank(const Program &program, const Api &api, int rank, bool may_fail)
        : number(rank), comms(program.members.size()), program_(program),
          api_(api), may_fail_(may_fail)
    {
    }

    // One use of buffers on a stream.
    struct Use {
        Call call;
        std::vector<char> send, recv;
        const char *in;
        char *out;
        uint64_t iteration = 0;
    };

    void Check(ncclResult_t result, const char *what)
    {
        if (result == ncclSuccess)
            return;
        is_lost = true;
        if (!may_fail_)
            fake::Fault(std::string(what) + " of rank " +
                        std::to_string(number) + " returned " +
                        std::to_string(result));
    }

    void Sync()
    {
        for (int s = 0; s < kStreams && !is_lost; s++)
            if (!fake::Synchronize(streams_[s]))
                Check(ncclSystemError, "a stream that never ends,");
    }

    int RankIn(int comm) const // -1: it is no member
    {
        const auto &m = program_.members[comm];
        const auto at = std::find(m.begin(), m.end(), number);

        return at == m.end() ? -1 : static_cast<int>(at - m.begin());
    }

    // Rank 'r' sends this as element 'i'.
    static int Value(const Use &u, int r, size_t i)
    {
        return static_cast<int>(
            (u.iteration * 7 + r * 11 + i * 3 + u.call.count + u.call.coll) %
            30);
    }
    static void Put(const Use &u, void *at, size_t i, int value)
    {
        if (u.call.type == 7)
            static_cast<float *>(at)[i] = static_cast<float>(value);
        else if (u.call.type == 2)
            static_cast<int32_t *>(at)[i] = value;
        else
            static_cast<int8_t *>(at)[i] = static_cast<int8_t>(value);
    }
    static size_t SizeOf(const Use &u)
    {
        return u.call.type == 0 ? 1 : 4;
    }
    static int Get(const Use &u, const void *at, size_t i)
    {
        if (u.call.type == 7)
            return static_cast<int>(static_cast<const float *>(at)[i]);
        return u.call.type == 2 ? static_cast<const int32_t *>(at)[i]
                                : static_cast<const int8_t *>(at)[i];
    }

    size_t NumberIn(const Use &u) const // elements sent
    {
        return u.call.coll == ncclFuncReduceScatter
                   ? u.call.count * program_.members[u.call.comm].size()
                   : u.call.count;
    }
    size_t NumberOut(const Use &u) const
    {
        return u.call.coll == ncclFuncAllGather
                   ? u.call.count * program_.members[u.call.comm].size()
                   : u.call.count;
    }

    Use *NewUse(const Call &call)
    {
        Use &u = *uses_.emplace_back(std::make_unique<Use>());
        const size_t n = program_.members[call.comm].size();
        const size_t whole = call.count * 4 * n, me = RankIn(call.comm);

        u.call = call;
        u.send.resize(whole + 8);
        u.recv.resize(whole + 64);
        // Bytes stand anywhere, and on each rank elsewhere.
        char *send = u.send.data() + (call.type == 0 ? number : 0);
        u.in = send;
        u.out = u.recv.data();
        if (call.in_place) {
            const size_t part = call.count * SizeOf(u);

            u.out = send;
            if (call.coll == ncclFuncAllGather)
                u.in = u.out + me * part;
            if (call.coll == ncclFuncReduceScatter)
                u.out = send + me * part;
        }
        return &u;
    }

    void Fill(Use *u)
    {
        const int me = RankIn(u->call.comm);
        const size_t n = NumberIn(*u);

        if (u->call.starts_over)
            fake::StartOver(streams_[u->call.stream], false);
        fake::EnqueueAction(streams_[u->call.from], [u, me, n] {
            u->iteration++;
            for (size_t i = 0; i < n; i++)
                Put(*u, const_cast<char *>(u->in), i, Value(*u, me, i));
        });
    }

    void Compare(Use *u)
    {
        const int me = RankIn(u->call.comm),
                  n_ranks =
                      static_cast<int>(program_.members[u->call.comm].size());
        const size_t n = NumberOut(*u), n_in = NumberIn(*u);
        const bool sums =
            u->call.coll != ncclFuncAllGather && u->call.coll != kRing;
        const std::string name = "rank " + std::to_string(number) +
                                 ", collective " + std::to_string(u->call.coll);

        fake::EnqueueAction(streams_[u->call.to], [=] {
            for (size_t i = 0; i < n && !ends_; i++) {
                int wanted = 0;

                if (u->call.coll == ncclFuncAllGather)
                    wanted = Value(*u, static_cast<int>(i / u->call.count),
                                   i % u->call.count);
                if (u->call.coll == kRing)
                    wanted = Value(*u, (me + n_ranks - 1) % n_ranks, i);
                for (int r = 0; r < n_ranks && sums; r++)
                    wanted += Value(*u, r,
                                    u->call.coll == ncclFuncReduceScatter
                                        ? me * u->call.count + i
                                        : i);
                if (Get(*u, u->out, i) != wanted) {
                    fake::Fault(name + ": element " + std::to_string(i) +
                                " of " + std::to_string(n) + " is " +
                                std::to_string(Get(*u, u->out, i)) +
                                ", expected " + std::to_string(wanted));
                    break;
                }
            }
            const auto end = u->recv.begin() + n * SizeOf(*u);
            if (!u->call.in_place &&
                std::any_of(end, u->recv.end(), [](char c) { return c != 0; }))
                fake::Fault(name + " writes behind its output");
            for (size_t i = 0; i < n_in; i++)
                Put(*u, const_cast<char *>(u->in), i, 99);
        });
    }

    void Call_(const Use &u)
    {
        const Call &c = u.call;

        if (c.coll == kRing)
            return Ring(u, RankIn(c.comm),
                        static_cast<int>(program_.members[c.comm].size()));
        Check(api_.Collective(c.coll, u.in, u.out, c.count, c.type, c.op,
                              comms[c.comm], streams_[c.stream]),
              "a collective");
    }

    void Ring(const Use &u, int me, int n)
    {
        const Call &c = u.call;
        ncclComm_t comm = comms[c.comm];

        api_.ncclGroupStart();
        Check(api_.ncclSend(u.in, c.count, c.type, (me + 1) % n, comm,
                            streams_[c.stream]),
              "ncclSend");
        Check(api_.ncclRecv(u.out, c.count, c.type, (me + n - 1) % n, comm,
                            streams_[c.stream]),
              "ncclRecv");
        Check(api_.ncclGroupEnd(), "ncclGroupEnd");
    }

    void MakeStreams()
    {
        for (int s = 0; s < kStreams; s++)
            streams_[s] = s == 0 ? nullptr : fake::NewStream();
    }

    void BeginCapture(const Action &a)
    {
        fake::BeginCapture(streams_[1]);
        if (a.beside == Action::kForks)
            fake::Fork(streams_[1], streams_[2]);
        if (a.beside == Action::kOther)
            fake::BeginCapture(streams_[2]);
    }
    void EndCapture(const Action &a)
    {
        if (a.beside == Action::kForks)
            fake::Fork(streams_[2], streams_[1]);
        for (int s = 1; s <= 1 + (a.beside == Action::kOther); s++) {
            graphs_.push_back(fake::EndCapture(streams_[s]));
            if (graphs_.back() == nullptr)
                fake::Fault("a capture was spoilt");
        }
    }
    void LaunchGraph(const Action &a)
    {
        fake::LaunchGraph(graphs_[a.number], streams_[a.stream]);
    }
    void Split(const Action &a)
    {
        child_ = nullptr;
        if (comms[a.number] != nullptr)
            Check(api_.ncclCommSplit(comms[a.number], a.colors[number], number,
                                     &child_, nullptr),
                  "ncclCommSplit");
    }
    void TakeChild(const Action &a)
    {
        if (comms[a.number] != nullptr && a.colors[number] >= 0)
            comms[n_comms + a.colors[number]] = child_;
        n_comms += 3;
    }
    void Destroy(const Action &a)
    {
        if (comms[a.number] != nullptr)
            Check(api_.ncclCommDestroy(comms[a.number]), "ncclCommDestroy");
        comms[a.number] = nullptr;
    }
    void RegisterWindow(const Action &a)
    {
        if (comms[a.number] == nullptr)
            return;
        windows_.emplace_back(64);
        Check(api_.ncclCommWindowRegister(
                  comms[a.number], windows_.back().data(), 64, &window_, 1),
              "ncclCommWindowRegister");
    }
    // Ends or aborts all communicators, within a group.
    ncclResult_t EndComms(bool aborts)
    {
        ncclResult_t result = ncclSuccess, error;

        fake::Lock([&] { ends_ = aborts; });
        for (ncclComm_t comm : comms) {
            if (comm == nullptr)
                continue;
            api_.ncclCommGetAsyncError(comm, &error);
            result = std::max(result, aborts ? api_.ncclCommAbort(comm)
                                             : api_.ncclCommDestroy(comm));
        }
        return result;
    }

  private:
    const Program &program_;
    const Api &api_;
    const bool may_fail_;
    ncclComm_t child_ = nullptr;
    size_t n_comms = 1;
    cudaStream_t streams_[kStreams];
    std::vector<std::unique_ptr<Use>> uses_;
    std::vector<fake::Graph *> graphs_;
    std::list<std::vector<char>> windows_;
    ncclWindow_t window_; // the last one
    bool ends_ = false;   // without what is on its way
};

// A thread, and its ranks.
class Process
{
  public:
    Process(const Program &program, const Oddity &oddity, int first, int n,
            const ncclUniqueId &id, uint64_t seed, bool may_fail)
        : program_(program), oddity_(oddity), api_(*oddity.api), id_(id),
          seed_(seed)
    {
        for (int r = first; r < first + n; r++)
            ranks_.emplace_back(program, api_, r, may_fail);
    }

    void Run()
    {
        std::vector<int> dead;

        fake::EnterThread(ranks_.front().number);
        is_dead_ = oddity_.dies_at == 0;
        if (!is_dead_)
            Work();
        for (const Rank &r : ranks_)
            if (is_dead_)
                dead.push_back(r.number);
        fake::LeaveThread(dead);
    }

  private:
    template <typename Do> void Each(Do action)
    {
        for (Rank &r : ranks_) {
            fake::EnterThread(r.number);
            action(r);
        }
    }
    // One thread must not wait for itself.
    template <typename Do> void EachAtOnce(Do action, bool in_group = false)
    {
        in_group |= ranks_.size() > 1;
        if (in_group)
            ranks_.front().Check(api_.ncclGroupStart(), "ncclGroupStart");
        Each(action);
        if (in_group)
            ranks_.front().Check(api_.ncclGroupEnd(), "ncclGroupEnd");
    }
    bool IsLost() const
    {
        return std::any_of(ranks_.begin(), ranks_.end(),
                           [](const Rank &r) { return r.is_lost; });
    }

    void Work()
    {
        Each([](Rank &r) { r.MakeStreams(); });
        fake::FailNext(oddity_.failed_allocations, oddity_.failed_splits);
        fake::FailDriverCalls(oddity_.failed_call, oddity_.failed_call > 0);
        Init();
        for (size_t i = 0; i < program_.actions.size() && !IsLost(); i++) {
            if (static_cast<int>(i) + 1 == oddity_.dies_at) {
                is_dead_ = true;
                return;
            }
            Act(program_.actions[i]);
        }
        if (!program_.aborts && !IsLost())
            Each([](Rank &r) { r.Sync(); });
        // One may wait behind another: all at once.
        const bool aborts = program_.aborts || IsLost();
        ncclResult_t result = api_.ncclGroupStart();
        Each([&](Rank &r) { result = std::max(result, r.EndComms(aborts)); });
        if (std::max(result, api_.ncclGroupEnd()) != ncclSuccess)
            fake::Fault("rank " + std::to_string(ranks_.front().number) +
                        " cannot end its communicators");
    }

    void Init()
    {
        const int n = program_.n_ranks;

        if (static_cast<int>(ranks_.size()) == n && seed_ % 2 == 0) {
            std::vector<ncclComm_t> comms(n);

            ranks_.front().Check(api_.ncclCommInitAll(comms.data(), n, nullptr),
                                 "ncclCommInitAll");
            Each([&](Rank &r) { r.comms[0] = comms[r.number]; });
            return;
        }
        EachAtOnce(
            [&](Rank &r) {
                r.Check(api_.ncclCommInitRank(&r.comms[0], n, id_, r.number),
                        "ncclCommInitRank");
            },
            seed_ % 2 == 0);
    }

    // Alone or in one group; those of several ranks always in one.
    void Calls(const Action &a)
    {
        const size_t size = a.is_group ? a.calls.size() : 1;
        const bool is_late = a.is_group && a.fills_late;

        for (size_t i = 0; i < a.calls.size(); i += size) {
            std::map<Rank *, std::vector<Rank::Use *>> uses;

            for (Rank &r : ranks_)
                for (size_t k = i; k < i + size; k++)
                    if (r.RankIn(a.calls[k].comm) >= 0) {
                        Call c = a.calls[k];
                        if (a.differs && r.number == 0)
                            c.from = c.stream = c.to = 1;
                        uses[&r].push_back(r.NewUse(c));
                    }
            Each([&](Rank &r) {
                for (Rank::Use *u : uses[&r])
                    if (!is_late)
                        r.Fill(u);
            });
            // NCCL runs what a communicator's ranks send in a group behind
            // its collectives, wherever it is called.
            for (Rank &r : ranks_)
                std::stable_sort(uses[&r].begin(), uses[&r].end(),
                                 [&](const Rank::Use *u, const Rank::Use *v) {
                                     const Call &x = u->call, &y = v->call;
                                     const bool is_before =
                                         r.number % 2 == 0 ? x.coll < y.coll
                                                           : x.coll > y.coll;
                                     return x.comm < y.comm ||
                                            (x.comm == y.comm && is_before &&
                                             std::max(x.coll, y.coll) == kRing);
                                 });
            EachAtOnce(
                [&](Rank &r) {
                    for (Rank::Use *u : uses[&r]) {
                        r.Call_(*u);
                        if (is_late) // before NCCL begins
                            r.Fill(u);
                    }
                },
                a.is_group);
            if (IsLost()) // some call was none
                return;
            Each([&](Rank &r) {
                for (Rank::Use *u : uses[&r])
                    r.Compare(u);
            });
        }
    }

    void Act(const Action &a)
    {
        switch (a.kind) {
        case Action::kCalls:
            return Calls(a);
        case Action::kCapture:
            Each([&](Rank &r) { r.BeginCapture(a); });
            Calls(a);
            return Each([&](Rank &r) { r.EndCapture(a); });
        case Action::kLaunch:
            return Each([&](Rank &r) { r.LaunchGraph(a); });
        case Action::kSplit:
            EachAtOnce([&](Rank &r) { r.Split(a); });
            return Each([&](Rank &r) { r.TakeChild(a); });
        case Action::kDestroy:
            return Each([&](Rank &r) { r.Destroy(a); });
        case Action::kWindows:
            return EachAtOnce([&](Rank &r) { r.RegisterWindow(a); });
        case Action::kSync:
            return Each([](Rank &r) { r.Sync(); });
        }
    }

    const Program &program_;
    const Oddity oddity_;
    const Api &api_;
    const ncclUniqueId id_;
    const uint64_t seed_;
    std::list<Rank> ranks_;
    bool is_dead_ = false;
};

// ---- jobs ----

enum class Kind { kPlain, kCalm, kOdd, kDeadly };

// Runs the job of a seed; what went wrong, and what it was.
inline storms::Outcome Run(const Libraries &libraries, uint64_t seed, Kind kind)
{
    Generator generator(seed);
    const Program program = generator.Make();
    const int n = program.n_ranks, odd = static_cast<int>(generator.Below(n));
    std::list<Process> processes;
    std::vector<std::thread> threads;
    ncclUniqueId id;
    storms::Outcome outcome;
    const uint64_t n_symmetric = fake::CountSymmetric();
    const char *version = kind == Kind::kCalm ? kVersions[seed % 3] : kVersion;
    const bool shares = seed / 3 % 2 == 1;

    setenv("FAKE_NCCL_VERSION", version, 1);
    setenv("NCCL_COMM_SPLIT_SHARE_RESOURCES", shares ? "1" : "0", 1);
    // A rank a thread, as a rule.
    const int most = generator.Below(3) > 0   ? 1
                     : generator.Below(2) > 0 ? 2
                                              : n;
    // A process a rank or thread, but for some: NCCL ends its ranks together,
    // and waits for those that share resources.
    const bool is_one =
        !shares && (kind == Kind::kOdd ? most == n : seed / 2 % 2 == 0);

    if (is_one)
        setenv("FAKE_NCCL_ONE_PROCESS", "1", 1);
    fake::BeginJob(seed, (n + most - 1) / most);
    libraries.plain->ncclGetUniqueId(&id);
    for (int r = 0; r < n; r += most) {
        const bool is_odd = r <= odd && odd < r + most;
        Oddity oddity{kind == Kind::kPlain ? libraries.plain.get()
                      : kind == Kind::kCalm
                          ? &libraries.Calm(is_one ? 0 : r, version)
                          : libraries.hasty[is_one ? 0 : r].get()};

        if (kind == Kind::kOdd && is_odd) {
            const std::unique_ptr<Api> *apis[] = {
                &libraries.plain, &libraries.other, &libraries.waiting};
            const uint64_t what = generator.Below(5);

            if (what < 3)
                oddity.api = apis[what]->get();
            oddity.failed_allocations = what == 3;
            oddity.failed_splits = what == 4; // of a twin
        }
        if (kind == Kind::kDeadly && is_odd && seed % 2 == 0)
            oddity.failed_call = 1 + generator.Below(400);
        else if (kind == Kind::kDeadly && is_odd)
            oddity.dies_at =
                static_cast<int>(generator.Below(program.actions.size() + 1));
        processes.emplace_back(program, oddity, r, std::min(most, n - r), id,
                               seed, kind == Kind::kDeadly);
    }
    for (Process &process : processes)
        threads.emplace_back([&process] { process.Run(); });
    for (std::thread &thread : threads)
        thread.join();
    unsetenv("NCCL_COMM_SPLIT_SHARE_RESOURCES");
    unsetenv("FAKE_NCCL_ONE_PROCESS");
    outcome.wrong = fake::EndJob();
    outcome.Mark(fake::CountSymmetric() > n_symmetric, "with staged calls");
    outcome.Mark(most > 1, "with threads of several ranks");
    outcome.Mark(shares, "with shared resources");
    outcome.Mark(is_one, "of one process");
    outcome.Mark(program.aborts, "aborted");
    outcome.Mark(program.n_graphs > 0, "with graphs");
    outcome.Mark(program.members.size() > 1, "with splits");
    return outcome;
}

} // namespace stage_jobs
