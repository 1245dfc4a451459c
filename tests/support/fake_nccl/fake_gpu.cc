#include "fake_gpu.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace fake
{

enum { kOk = 0, kInvalid = 1, kNotReady = 600, kIsolation = 907, kLossy = 911 };
enum { kKernel = 0, kCopy = 1, kHost = 3, kWait = 6, kRecord = 7 };

struct Token {
    bool done = false;
};

struct Event {
    std::shared_ptr<Token> token; // of the last record; null: none
    uint64_t capture = 0;         // recorded in it last, behind 'nodes'
    std::vector<Node *> nodes;
    bool is_gone = false; // NCCL has ended it
};

struct Node {
    Graph *graph;
    int type;
    Launch launch;
    const char *kernel = nullptr; // its name
    Event *event = nullptr;       // that it waits for, or records
    std::vector<Node *> after;
};

struct GraphRun;

struct Graph {
    uint64_t id;
    std::list<Node> nodes;
    bool is_spoilt = false;
    std::shared_ptr<GraphRun> last; // a graph does not overtake itself
};

struct Stream {
    std::deque<std::shared_ptr<Work>> work;
    Graph *graph = nullptr; // that is captured
    std::vector<Node *> after;
};

namespace
{

struct Gpu {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t state = 1;
    uint64_t version = 1, stuck = 0; // stuck: the version at which all waited
    uint64_t waited_at = 0; // the version that n_waiting threads saw last
    uint64_t n_jobs = 0;
    int n_threads = 0, n_waiting = 0;
    std::set<int> dead;
    std::string fault;
    std::list<Stream> streams;
    std::list<Graph> graphs;
    uint64_t n_captures = 0;
    int n_created = 0; // streams of cuStreamCreate()
    std::map<std::pair<int, int>, Stream *> default_streams;
};

// Detached aborts may still run when the process ends, so it is never
// destroyed.
Gpu &gpu = *new Gpu;

thread_local int context = 0; // of a rank: its number and 1
thread_local bool is_locked = false;
thread_local std::vector<int> pushed; // contexts
thread_local uint64_t n_driver_calls = 0, fails_from = 0, fails_to = 0;

struct Locked {
    bool was = is_locked;
    Locked()
    {
        if (!was)
            gpu.mutex.lock();
        is_locked = true;
    }
    ~Locked()
    {
        is_locked = was;
        if (!was)
            gpu.mutex.unlock();
    }
};

Stream *StreamOf(cudaStream_t stream)
{
    const uintptr_t value = reinterpret_cast<uintptr_t>(stream);

    if (value > 2)
        return reinterpret_cast<Stream *>(stream);
    Stream *&s = gpu.default_streams[{context, static_cast<int>(value)}];
    if (s == nullptr)
        s = &gpu.streams.emplace_back();
    return s;
}

struct ActionWork : Work {
    std::function<void()> action;
    Step Run() override
    {
        action();
        return Step::kDone;
    }
};

struct CopyWork : Work { // in two steps
    char *to;
    const char *from;
    size_t n_bytes;
    bool is_half_done = false;
    Step Run() override
    {
        const size_t begin = is_half_done ? (n_bytes + 1) / 2 : 0;
        const size_t end = is_half_done ? n_bytes : (n_bytes + 1) / 2;

        memcpy(to + begin, from + begin, end - begin);
        is_half_done = !is_half_done;
        return is_half_done ? Step::kRan : Step::kDone;
    }
};

struct TokenWork : Work { // sets it, or waits for it
    std::shared_ptr<Token> token;
    bool waits;
    TokenWork(std::shared_ptr<Token> t, bool w) : token(std::move(t)), waits(w)
    {
    }
    Step Run() override
    {
        if (waits && token != nullptr && !token->done)
            return Step::kBlocked;
        if (!waits)
            token->done = true;
        return Step::kDone;
    }
};

} // namespace

struct GraphRun : Work {
    struct One {
        std::shared_ptr<Work> work;
        std::vector<size_t> after;
        bool done = false;
    };
    std::vector<One> nodes;
    std::shared_ptr<GraphRun> before;
    size_t n_done = 0;

    Step Run() override
    {
        const size_t n = nodes.size();

        if (before != nullptr && before->n_done < before->nodes.size())
            return Step::kBlocked;
        before = nullptr;
        if (n == 0)
            return Step::kDone;
        for (size_t i = 0, first = Random(n); i < n; i++) {
            One &one = nodes[(first + i) % n];

            if (one.done ||
                !std::all_of(one.after.begin(), one.after.end(),
                             [&](size_t a) { return nodes[a].done; }))
                continue;
            const Step step = one.work->Run();
            if (step == Step::kBlocked)
                continue;
            one.done = step == Step::kDone;
            n_done += one.done;
            return n_done == n ? Step::kDone : Step::kRan;
        }
        return Step::kBlocked;
    }
};

// ---- the job ----

uint64_t Random(uint64_t below)
{
    gpu.state ^= gpu.state << 13;
    gpu.state ^= gpu.state >> 7;
    gpu.state ^= gpu.state << 17;
    return gpu.state % below;
}

void Fault(const std::string &text)
{
    Locked lock;

    if (gpu.fault.empty())
        gpu.fault = text;
}

void BeginJob(uint64_t seed, int n_threads)
{
    Locked lock;

    gpu.state = seed * 0x9e3779b97f4a7c15 | 1;
    gpu.n_threads = n_threads;
    gpu.n_waiting = 0;
    gpu.stuck = 0;
    gpu.dead.clear();
    gpu.fault.clear();
}

void Changed()
{
    gpu.version++;
    gpu.changed.notify_all();
}

std::string EndJob()
{
    Locked lock;

    gpu.n_jobs++; // threads that still wait for it give up
    if (gpu.n_created != 0)
        Fault("a stream is left");
    gpu.n_created = 0;
    gpu.default_streams.clear();
    gpu.streams.clear();
    gpu.graphs.clear();
    Changed();
    return gpu.fault;
}

void EnterThread(int rank)
{
    context = rank + 1;
}

int RankEntered()
{
    return context - 1;
}

void LeaveThread(const std::vector<int> &dead)
{
    Locked lock;

    if (!pushed.empty())
        Fault("a context is pushed and not popped");
    gpu.n_threads--;
    gpu.dead.insert(dead.begin(), dead.end());
    Changed();
}

void RunAtOnce(const std::vector<OfRank> &actions)
{
    std::vector<std::thread> threads;
    int n_left = static_cast<int>(actions.size());

    Lock([&] { gpu.n_threads += n_left - 1; });
    for (const OfRank &one : actions)
        threads.emplace_back([&] {
            EnterThread(one.first);
            one.second();
            Lock([&] {
                gpu.n_threads -= --n_left > 0; // the last one is the caller
                Changed();
            });
        });
    for (std::thread &thread : threads)
        thread.join();
}

bool IsDead(int rank)
{
    return gpu.dead.count(rank) > 0;
}

void Lock(const std::function<void()> &action)
{
    Locked lock;

    action();
}

namespace
{

bool RunOneStep()
{
    const size_t n = gpu.streams.size();

    if (n == 0)
        return false;
    auto s = gpu.streams.begin();
    std::advance(s, Random(n));
    for (size_t i = 0; i < n; i++) {
        if (!s->work.empty()) {
            const Step step = s->work.front()->Run();

            if (step == Step::kDone)
                s->work.pop_front();
            if (step != Step::kBlocked) {
                gpu.version++;
                return true;
            }
        }
        if (++s == gpu.streams.end())
            s = gpu.streams.begin();
    }
    return false;
}

// Gives GPUs a chance to be ahead of the host.
void RunSome()
{
    for (uint64_t n = Random(6); n > 2 && RunOneStep(); n--)
        ;
    gpu.changed.notify_all();
}

} // namespace

bool WaitUntil(const std::function<bool()> &condition)
{
    std::unique_lock<std::mutex> lock(gpu.mutex);

    is_locked = true;
    const uint64_t job = gpu.n_jobs;
    bool holds = condition();
    while (!holds && gpu.n_jobs == job) {
        if (RunOneStep()) {
            gpu.changed.notify_all();
        } else {
            const uint64_t seen = gpu.version;

            if (gpu.waited_at != seen) {
                gpu.waited_at = seen;
                gpu.n_waiting = 0;
            }
            // A library's own thread is none of the job's.
            gpu.n_waiting += context != 0;
            if (gpu.n_waiting >= gpu.n_threads) {
                gpu.stuck = seen;
                gpu.changed.notify_all();
            }
            while (gpu.version == seen && (gpu.stuck != seen || context == 0))
                gpu.changed.wait(lock);
            if (gpu.stuck == gpu.version && !condition())
                break;
        }
        holds = gpu.n_jobs == job && condition();
    }
    is_locked = false;
    return holds;
}

// ---- streams ----

cudaStream_t NewStream()
{
    Locked lock;

    return reinterpret_cast<cudaStream_t>(&gpu.streams.emplace_back());
}

bool Synchronize(cudaStream_t stream)
{
    Stream *s;

    Lock([&] { s = StreamOf(stream); });
    return WaitUntil([s] { return s->work.empty(); });
}

uint64_t CaptureOf(cudaStream_t stream)
{
    Locked lock;
    const Graph *graph = StreamOf(stream)->graph;

    return graph != nullptr ? graph->id : 0;
}

namespace
{

Node *AddNode(Graph *graph, int type, const std::vector<Node *> &after,
              Event *event = nullptr)
{
    Node &node = graph->nodes.emplace_back();

    node.graph = graph;
    node.type = type;
    node.after = after;
    node.event = event;
    return &node;
}

Node *Enqueue(cudaStream_t stream, const Launch &launch, int type)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    RunSome();
    if (s->graph == nullptr) {
        s->work.push_back(launch());
        Changed();
        return nullptr;
    }
    Node *node = AddNode(s->graph, type, s->after);
    node->launch = launch;
    s->after = {node};
    return node;
}

} // namespace

Node *EnqueueKernel(cudaStream_t stream, const Launch &launch, const char *name,
                    Node *also)
{
    Node *node = Enqueue(stream, launch, kKernel);

    if (node != nullptr)
        node->kernel = name;
    if (node != nullptr && also != nullptr)
        node->after.push_back(also);
    return node;
}

void EnqueueAction(cudaStream_t stream, std::function<void()> action)
{
    Enqueue(
        stream,
        [action] {
            auto work = std::make_shared<ActionWork>();

            work->action = action;
            return work;
        },
        kHost);
}

void EnqueueCopy(cudaStream_t stream, void *to, const void *from,
                 size_t n_bytes)
{
    Enqueue(
        stream,
        [=] {
            auto work = std::make_shared<CopyWork>();

            work->to = static_cast<char *>(to);
            work->from = static_cast<const char *>(from);
            work->n_bytes = n_bytes;
            return work;
        },
        kCopy);
}

Node *AddWait(cudaStream_t stream, Event *event, bool is_behind)
{
    Locked lock;
    Stream *s = StreamOf(stream);
    Node *node = AddNode(s->graph, kWait, {}, event);

    if (is_behind)
        std::swap(node->after, s->after);
    return node;
}

Node *AddRecord(Event *event, Node *after)
{
    Locked lock;

    return AddNode(after->graph, kRecord, {after}, event);
}

void BeginCapture(cudaStream_t stream)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    s->graph = &gpu.graphs.emplace_back();
    s->graph->id = ++gpu.n_captures;
    s->after.clear();
}

Graph *EndCapture(cudaStream_t stream)
{
    Locked lock;
    Graph *graph = StreamOf(stream)->graph;
    bool is_spoilt = graph->is_spoilt;

    for (Stream &s : gpu.streams)
        if (s.graph == graph) {
            s.graph = nullptr;
            s.after.clear();
        }
    return is_spoilt ? nullptr : graph;
}

void LaunchGraph(Graph *graph, cudaStream_t stream)
{
    Locked lock;
    auto run = std::make_shared<GraphRun>();
    std::map<const Node *, size_t> number;

    RunSome();
    for (const Node &node : graph->nodes)
        number.emplace(&node, number.size());
    // Waits are for what was recorded before the launch.
    for (const Node &node : graph->nodes) {
        GraphRun::One &one = run->nodes.emplace_back();

        if (node.type == kWait)
            one.work = std::make_shared<TokenWork>(node.event->token, true);
        else if (node.type != kRecord)
            one.work = node.launch();
        for (const Node *after : node.after)
            one.after.push_back(number.at(after));
    }
    for (const Node &node : graph->nodes)
        if (node.type == kRecord) {
            node.event->token = std::make_shared<Token>();
            node.event->capture = 0;
            run->nodes[number.at(&node)].work =
                std::make_shared<TokenWork>(node.event->token, false);
        }
    run->before = graph->last;
    graph->last = run;
    StreamOf(stream)->work.push_back(run);
    Changed();
}

Event *NewEvent()
{
    return new Event;
}

void EndEvent(Event *event)
{
    Locked lock;

    event->is_gone = true;
}

bool IsDone(const Event *event)
{
    return event->token == nullptr || event->token->done;
}

int RecordOn(Event *e, cudaStream_t stream)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    if (e->is_gone)
        Fault("an event is recorded that NCCL has ended");
    if (s->graph != nullptr) {
        e->capture = s->graph->id;
        e->nodes = s->after;
        return kOk;
    }
    e->capture = 0;
    e->token = std::make_shared<Token>();
    s->work.push_back(std::make_shared<TokenWork>(e->token, false));
    Changed();
    return kOk;
}

int WaitOn(cudaStream_t stream, Event *e)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    if (e->is_gone)
        Fault("a stream waits for an event that NCCL has ended");
    if (e->capture != 0) { // joins the capture, or stays in it
        auto graph = std::find_if(gpu.graphs.begin(), gpu.graphs.end(),
                                  [&](Graph &g) { return g.id == e->capture; });

        if (graph == gpu.graphs.end() ||
            (s->graph != nullptr && s->graph != &*graph)) {
            if (s->graph != nullptr)
                s->graph->is_spoilt = true;
            return kIsolation;
        }
        s->graph = &*graph;
        for (Node *node : e->nodes)
            if (std::find(s->after.begin(), s->after.end(), node) ==
                s->after.end())
                s->after.push_back(node);
        return kOk;
    }
    if (s->graph != nullptr) {
        s->graph->is_spoilt = true;
        return kIsolation;
    }
    if (e->token != nullptr) {
        s->work.push_back(std::make_shared<TokenWork>(e->token, true));
        Changed();
    }
    return kOk;
}

void FailDriverCalls(uint64_t from, uint64_t n)
{
    fails_from = n_driver_calls + from;
    fails_to = fails_from + n;
}

uint64_t CountDriverCalls()
{
    return n_driver_calls;
}

std::set<std::string> Describe(const Graph *graph)
{
    static const char *const kinds[] = {"kernel", "copy", "",     "work",
                                        "",       "",     "wait", "record"};
    std::map<int, int> n_of;
    std::map<const Node *, std::string> names;
    std::set<std::string> lines;

    for (const Node &node : graph->nodes) {
        names[&node] = kinds[node.type] + std::to_string(++n_of[node.type]);
        lines.insert(names[&node]);
    }
    for (const Node &node : graph->nodes)
        for (const Node *after : node.after)
            if (!lines.insert(names.at(after) + " > " + names[&node]).second)
                Fault("two edges from " + names.at(after));
    return lines;
}

void Fork(cudaStream_t from, cudaStream_t to)
{
    Event event;

    RecordOn(&event, from);
    WaitOn(to, &event);
}

} // namespace fake

// ---- the driver's functions ----

using namespace fake;

static bool Refuses()
{
    n_driver_calls++;
    return fails_from <= n_driver_calls && n_driver_calls < fails_to;
}

EXPORTED int cuCtxGetCurrent(void **current)
{
    if (Refuses())
        return kInvalid;
    *current = reinterpret_cast<void *>(static_cast<intptr_t>(context));
    return kOk;
}

EXPORTED int cuCtxPushCurrent_v2(void *current)
{
    if (Refuses())
        return kInvalid;
    pushed.push_back(context);
    context = static_cast<int>(reinterpret_cast<intptr_t>(current));
    return kOk;
}

EXPORTED int cuCtxPopCurrent_v2(void **current)
{
    n_driver_calls++;
    *current = reinterpret_cast<void *>(static_cast<intptr_t>(context));
    if (pushed.empty()) {
        Fault("a context is popped that was not pushed");
        return kInvalid;
    }
    context = pushed.back();
    pushed.pop_back();
    return kOk;
}

EXPORTED int cuStreamCreate(cudaStream_t *stream, unsigned)
{
    Locked lock;
    gpu.n_created++;
    *stream = NewStream();
    return kOk;
}

EXPORTED int cuStreamDestroy_v2(cudaStream_t stream)
{
    Locked lock;

    gpu.n_created--;
    if (StreamOf(stream)->work.empty())
        gpu.streams.remove_if([&](const Stream &s) {
            return &s == reinterpret_cast<Stream *>(stream);
        });
    return kOk;
}

EXPORTED int cuStreamWaitEvent(cudaStream_t stream, void *event, unsigned)
{
    if (Refuses())
        return kInvalid;
    return WaitOn(stream, static_cast<Event *>(event));
}

EXPORTED int cuStreamGetCaptureInfo_v2(cudaStream_t stream, int *status,
                                       unsigned long long *id, void **graph,
                                       void *const **nodes, size_t *n_nodes)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    *status = s->graph != nullptr;
    *id = s->graph != nullptr ? s->graph->id : 0;
    *graph = s->graph;
    if (nodes != nullptr) {
        *nodes = reinterpret_cast<void *const *>(s->after.data());
        *n_nodes = s->after.size();
    }
    return kOk;
}

EXPORTED int cuThreadExchangeStreamCaptureMode(int *)
{
    if (Refuses())
        return kInvalid;
    return kOk;
}

EXPORTED int cuEventRecord(void *event, cudaStream_t stream)
{
    if (Refuses())
        return kInvalid;
    return RecordOn(static_cast<Event *>(event), stream);
}

EXPORTED int cuEventQuery(void *event)
{
    if (Refuses())
        return kInvalid;
    Locked lock;
    const Event *e = static_cast<Event *>(event);

    if (e->is_gone)
        Fault("an event is queried that NCCL has ended");
    if (e->capture != 0)
        return kInvalid;
    return IsDone(e) ? kOk : kNotReady;
}

// As of CUDA 12.3: symmetric kernels may begin before a kernel ends, which
// edges say, and who does not ask for that gets no nodes.
static int GiveNodes(const std::vector<Node *> &all, void **nodes,
                     const void *edges, size_t *n)
{
    if (Refuses())
        return kInvalid;
    if (nodes != nullptr && edges == nullptr)
        return kLossy;
    for (size_t i = 0; nodes != nullptr && i < std::min(*n, all.size()); i++)
        nodes[i] = all[i];
    *n = nodes != nullptr ? std::min(*n, all.size()) : all.size();
    return kOk;
}

EXPORTED int cuGraphNodeGetDependencies_v2(void *node, void **before,
                                           void *edges, size_t *n)
{
    Locked lock;

    return GiveNodes(static_cast<Node *>(node)->after, before, edges, n);
}

EXPORTED int cuGraphNodeGetDependentNodes_v2(void *node, void **behind,
                                             void *edges, size_t *n)
{
    Locked lock;
    std::vector<Node *> all;

    for (Node &other : static_cast<Node *>(node)->graph->nodes)
        if (std::find(other.after.begin(), other.after.end(), node) !=
            other.after.end())
            all.push_back(&other);
    return GiveNodes(all, behind, edges, n);
}

static int GiveEvent(void *node, int type, void **event)
{
    if (Refuses())
        return kInvalid;
    *event = static_cast<Node *>(node)->event;
    return static_cast<Node *>(node)->type == type ? kOk : kInvalid;
}

EXPORTED int cuGraphEventWaitNodeGetEvent(void *node, void **event)
{
    return GiveEvent(node, kWait, event);
}

EXPORTED int cuGraphEventRecordNodeGetEvent(void *node, void **event)
{
    return GiveEvent(node, kRecord, event);
}

EXPORTED int cuGraphAddDependencies(void *, void *const *from, void *const *to,
                                    size_t n)
{
    if (Refuses())
        return kInvalid;
    Locked lock;

    for (size_t i = 0; i < n; i++) {
        auto &after = static_cast<Node *>(to[i])->after;

        if (std::find(after.begin(), after.end(), from[i]) != after.end())
            return kInvalid;
        after.push_back(static_cast<Node *>(from[i]));
    }
    return kOk;
}

EXPORTED int cuGraphRemoveDependencies(void *, void *const *from,
                                       void *const *to, size_t n)
{
    if (Refuses())
        return kInvalid;
    Locked lock;

    for (size_t i = 0; i < n; i++) {
        auto &after = static_cast<Node *>(to[i])->after;
        const auto at =
            std::find(after.begin(), after.end(), static_cast<Node *>(from[i]));

        if (at == after.end())
            return kInvalid;
        after.erase(at);
    }
    return kOk;
}

EXPORTED int cuStreamEndCapture(cudaStream_t stream, void **graph)
{
    *graph = EndCapture(stream);
    return *graph != nullptr ? kOk : kInvalid;
}

EXPORTED int cuGraphGetNodes(void *graph, void **nodes, size_t *n_nodes)
{
    Locked lock;
    size_t n = 0;

    for (Node &node : static_cast<Graph *>(graph)->nodes)
        if (n < *n_nodes)
            nodes[n++] = &node;
    *n_nodes = n;
    return kOk;
}

EXPORTED int cuGraphNodeGetType(void *node, int *type)
{
    *type = static_cast<Node *>(node)->type;
    return kOk;
}

EXPORTED int cuGraphKernelNodeGetParams_v2(void *node, void *kernel)
{
    *static_cast<void **>(kernel) = node;
    return kOk;
}

EXPORTED int cuFuncGetName(const char **name, void *function)
{
    *name = static_cast<Node *>(function)->kernel;
    return kOk;
}

EXPORTED int cuMemcpyAsync(void *to, const void *from, size_t n_bytes,
                           cudaStream_t stream)
{
    if (Refuses())
        return kInvalid;
    EnqueueCopy(stream, to, from, n_bytes);
    return kOk;
}
