#include "fake_gpu.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "fake_state.h"

namespace fake
{

// Detached aborts may still run when the process ends, so it is never
// destroyed.
Gpu &gpu = *new Gpu;

thread_local Thread self;

Stream *StreamOf(cudaStream_t stream)
{
    const uintptr_t value = reinterpret_cast<uintptr_t>(stream);

    if (value > 2)
        return reinterpret_cast<Stream *>(stream);
    Stream *&s = gpu.default_streams[{self.context, static_cast<int>(value)}];
    if (s == nullptr)
        s = &gpu.streams.emplace_back();
    return s;
}

struct ActionWork : Work {
    std::function<void()> action;
    explicit ActionWork(std::function<void()> a) : action(std::move(a))
    {
    }
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
    bool Uses(const char *at, size_t n) const override
    {
        return (at < to + n_bytes && to < at + n) ||
               (at < from + n_bytes && from < at + n);
    }
    Step Run() override
    {
        const size_t begin = is_half_done ? (n_bytes + 1) / 2 : 0;
        const size_t end = is_half_done ? n_bytes : (n_bytes + 1) / 2;

        Touch(to);
        Touch(from);
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

struct GraphRun : Work {
    struct One {
        std::shared_ptr<Work> work;
        std::vector<size_t> after;
        bool done = false;
    };
    std::vector<One> nodes;
    std::shared_ptr<GraphRun> before;
    size_t n_done = 0;

    bool Uses(const char *at, size_t n) const override
    {
        return std::any_of(nodes.begin(), nodes.end(), [=](const One &one) {
            return !one.done && one.work->Uses(at, n);
        });
    }
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

    gpu.job++;
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

uint64_t NumberOfJob()
{
    Locked lock;

    return gpu.job;
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
    for (auto at = gpu.memory.begin(); at != gpu.memory.end();)
        if (at->second.is_free) {
            free(const_cast<char *>(at->first));
            at = gpu.memory.erase(at);
        } else
            ++at;
    Changed();
    return gpu.fault;
}

// ---- memory ----

void *Allocate(size_t n_bytes)
{
    Locked lock;
    char *memory = static_cast<char *>(calloc(1, n_bytes));

    gpu.memory[memory] = {n_bytes, gpu.job};
    return memory;
}

static Memory *MemoryOf(const void *at, const char **begin)
{
    auto after = gpu.memory.upper_bound(static_cast<const char *>(at));

    if (after == gpu.memory.begin() ||
        (--after)->first + after->second.n_bytes <= at)
        return nullptr;
    *begin = after->first;
    return &after->second;
}

void Touch(const void *at)
{
    const char *begin;
    const Memory *memory = MemoryOf(at, &begin);

    if (memory != nullptr && memory->is_free)
        Fault("memory is used that was freed");
}

void Register(const void *at, int n)
{
    const char *begin;
    Memory *memory = MemoryOf(at, &begin);

    if (memory != nullptr)
        memory->n_windows += n;
}

void Free(const void *at)
{
    Locked lock;
    const char *begin;
    Memory *memory = MemoryOf(at, &begin);

    if (memory == nullptr || memory->is_free || begin != at)
        return Fault("memory is freed that is none");
    if (memory->n_windows > 0)
        Fault("memory is freed that is registered");
    for (const Stream &s : gpu.streams)
        for (const auto &work : s.work)
            if (work->Uses(begin, memory->n_bytes))
                Fault("memory is freed that is in use");
    memory->is_free = true;
}

size_t CountBytes()
{
    Locked lock;
    size_t n = 0;

    for (const auto &[begin, memory] : gpu.memory)
        n += memory.is_free || memory.job != gpu.job ? 0 : memory.n_bytes;
    return n;
}

void EnterThread(int rank)
{
    self.context = rank + 1;
}

int RankEntered()
{
    return self.context - 1;
}

void LeaveThread(const std::vector<int> &dead)
{
    Locked lock;

    if (!self.pushed.empty())
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

static bool RunOneStep()
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
static void RunSome()
{
    for (uint64_t n = Random(6); n > 2 && RunOneStep(); n--)
        ;
    gpu.changed.notify_all();
}

bool WaitUntil(const std::function<bool()> &condition)
{
    std::unique_lock<std::mutex> lock(gpu.mutex);

    self.is_locked = true;
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
            gpu.n_waiting += self.context != 0;
            if (gpu.n_waiting >= gpu.n_threads) {
                gpu.stuck = seen;
                gpu.changed.notify_all();
            }
            while (gpu.version == seen &&
                   (gpu.stuck != seen || self.context == 0))
                gpu.changed.wait(lock);
            if (gpu.stuck == gpu.version && !condition())
                break;
        }
        holds = gpu.n_jobs == job && condition();
    }
    self.is_locked = false;
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

static Node *AddNode(Graph *graph, int type, const std::vector<Node *> &after,
                     Event *event = nullptr)
{
    Node &node = graph->nodes.emplace_back();

    node.graph = graph;
    node.type = type;
    node.after = after;
    node.event = event;
    return &node;
}

static Node *Enqueue(cudaStream_t stream, const Launch &launch, int type)
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

Node *EnqueueKernel(cudaStream_t stream, const Launch &launch, const char *name,
                    Node *also)
{
    Node *node = Enqueue(stream, launch, kKernel);

    if (node != nullptr)
        node->kernel = name;
    if (node != nullptr && also != nullptr && node->after != std::vector{also})
        node->after.push_back(also);
    return node;
}

void EnqueueAction(cudaStream_t stream, std::function<void()> action)
{
    Enqueue(
        stream, [action] { return std::make_shared<ActionWork>(action); },
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
        node->after = std::exchange(s->after, {node});
    return node;
}

Node *AddRecord(Event *event, Node *after)
{
    Locked lock;

    return AddNode(after->graph, kRecord, {after}, event);
}

void StartOver(cudaStream_t stream, bool is_at_last)
{
    Locked lock;
    Stream *s = StreamOf(stream);

    s->after.clear();
    if (is_at_last)
        s->after.push_back(&s->graph->nodes.back());
}

// Whether nodes wait for each other.
static bool HasCircle(const Graph &graph)
{
    std::set<const Node *> done;
    size_t n;

    do {
        n = done.size();
        for (const Node &node : graph.nodes)
            if (std::all_of(node.after.begin(), node.after.end(),
                            [&](Node *a) { return done.count(a) > 0; }))
                done.insert(&node);
    } while (done.size() > n);
    return n < graph.nodes.size();
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

    if (HasCircle(*graph))
        Fault("a graph has a circle");
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

void RecordAs(Event *event, const Event *other)
{
    event->token = other->token;
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
    self.fails_from = self.n_driver_calls + from;
    self.fails_to = self.fails_from + n;
}

uint64_t CountDriverCalls()
{
    return self.n_driver_calls;
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
