#include <algorithm>
#include <cstdlib>

#include "fake_state.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace fake;

static bool Refuses()
{
    std::fill(self.head.begin(), self.head.end(), nullptr);
    self.n_driver_calls++;
    return self.fails_from <= self.n_driver_calls &&
           self.n_driver_calls < self.fails_to;
}

#define REFUSE()                                                               \
    if (Refuses())                                                             \
    return kInvalid

EXPORTED int cuCtxGetCurrent(void **current)
{
    REFUSE();
    *current = reinterpret_cast<void *>(static_cast<intptr_t>(self.context));
    return kOk;
}

EXPORTED int cuCtxPushCurrent_v2(void *current)
{
    REFUSE();
    self.pushed.push_back(self.context);
    self.context = static_cast<int>(reinterpret_cast<intptr_t>(current));
    return kOk;
}

EXPORTED int cuCtxPopCurrent_v2(void **current)
{
    self.n_driver_calls++;
    *current = reinterpret_cast<void *>(static_cast<intptr_t>(self.context));
    if (self.pushed.empty()) {
        Fault("a context is popped that was not pushed");
        return kInvalid;
    }
    self.context = self.pushed.back();
    self.pushed.pop_back();
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
    REFUSE();
    return WaitOn(stream, static_cast<Event *>(event));
}

EXPORTED int cuStreamGetCaptureInfo_v2(cudaStream_t stream, int *status,
                                       unsigned long long *id, void **graph,
                                       void *const **nodes, size_t *n_nodes)
{
    if (reinterpret_cast<uintptr_t>(stream) <= 2 && self.context == 0)
        return kInvalid; // the context names this stream
    Locked lock;
    Stream *s = StreamOf(stream);

    *status = s->graph != nullptr;
    *id = s->graph != nullptr ? s->graph->id : 0;
    *graph = s->graph;
    if (nodes != nullptr) {
        self.head = s->after;
        *nodes = reinterpret_cast<void *const *>(self.head.data());
        *n_nodes = self.head.size();
    }
    return kOk;
}

EXPORTED int cuThreadExchangeStreamCaptureMode(int *)
{
    return Refuses() ? kInvalid : kOk;
}

EXPORTED int cuEventCreate(void **event, unsigned)
{
    REFUSE();
    *event = NewEvent();
    return kOk;
}

EXPORTED int cuEventDestroy_v2(void *event)
{
    delete static_cast<Event *>(event);
    return kOk;
}

EXPORTED int cuEventRecord(void *event, cudaStream_t stream)
{
    REFUSE();
    return RecordOn(static_cast<Event *>(event), stream);
}

EXPORTED int cuEventQuery(void *event)
{
    REFUSE();
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
    REFUSE();
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
    REFUSE();
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

static int ChangeEdges(void *const *from, void *const *to, size_t n, bool adds)
{
    REFUSE();
    Locked lock;

    for (size_t i = 0; i < n; i++) {
        auto &after = static_cast<Node *>(to[i])->after;
        const auto at =
            std::find(after.begin(), after.end(), static_cast<Node *>(from[i]));

        if ((at == after.end()) != adds)
            return kInvalid;
        if (adds)
            after.push_back(static_cast<Node *>(from[i]));
        else
            after.erase(at);
    }
    return kOk;
}

EXPORTED int cuGraphAddDependencies(void *, void *const *from, void *const *to,
                                    size_t n)
{
    return ChangeEdges(from, to, n, true);
}

EXPORTED int cuGraphRemoveDependencies(void *, void *const *from,
                                       void *const *to, size_t n)
{
    return ChangeEdges(from, to, n, false);
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
    REFUSE();
    EnqueueCopy(stream, to, from, n_bytes);
    return kOk;
}

EXPORTED int cuDeviceGetAttribute(int *value, int attribute, int)
{
    const char *text = getenv("FAKE_GPU_MULTIPROCESSORS");

    *value = attribute != 16 ? 0 : text != nullptr ? atoi(text) : 132;
    return 0;
}

EXPORTED int cuDevicePrimaryCtxRetain(void **primary, int device)
{
    *primary = reinterpret_cast<void *>(static_cast<intptr_t>(device) + 1);
    return 0;
}

EXPORTED int cuGraphDestroy(void *)
{
    return 0;
}

EXPORTED int cuKernelGetName(const char **, void *)
{
    return 1;
}

EXPORTED int cuMemGetInfo_v2(size_t *left, size_t *all)
{
    *left = *all = size_t{1} << 36;
    return 0;
}

EXPORTED int cuStreamBeginCapture_v2(cudaStream_t stream, int)
{
    fake::BeginCapture(stream);
    return 0;
}
