// fake_gpu.h - GPUs that run nothing before it has to: streams are queues whose
// operations a random choice runs, in steps, when some host thread waits.  A
// copy that is missing, comes early or overtakes another gives wrong bytes.
//
// The driver functions that the staging library looks up (cuMemcpyAsync() and
// so on) are exported with CUDA's names and meaning; what tests do as an
// application, or make NCCL do, is declared here.  All ranks are threads of one
// process, each with a context of its own; memory is the host's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

extern "C" {
#include "nccl_comm_abi.h"
}

namespace fake
{

// A step of an operation came to this.
enum class Step { kBlocked, kRan, kDone };

// Work that is launched: once when the host does, then run step by step.
struct Work {
    virtual ~Work() = default;
    virtual Step Run() = 0;
    virtual bool Uses(const char *, size_t) const // memory, until it is done
    {
        return false;
    }
};

// A launch makes work: a call on a stream launches it once, a node of a
// graph at each launch of the graph.
using Launch = std::function<std::shared_ptr<Work>()>;

// ---- one job ----
void BeginJob(uint64_t seed, int n_threads);
uint64_t NumberOfJob();
std::string EndJob(); // the first fault, or ""
void Fault(const std::string &text);
uint64_t Random(uint64_t below);
uint64_t CountSymmetric(); // kernels of windows that ran, ever

// ---- host threads; each of these holds the lock of all ----
void EnterThread(int rank); // takes the context of GPU 'rank'; -1: none
int RankEntered();
void LeaveThread(const std::vector<int> &dead); // ranks that died with it
bool IsDead(int rank);

// Runs all in threads of their own, each in the context of its GPU, and waits.
using OfRank = std::pair<int, std::function<void()>>;
void RunAtOnce(const std::vector<OfRank> &actions);

// Runs GPUs until the condition holds; false if no thread of the job can do
// anything any more.
bool WaitUntil(const std::function<bool()> &condition);
void Lock(const std::function<void()> &action);
void Changed(); // something that a thread may wait for; within Lock()

// ---- memory: a fault if it is freed in use, or used behind that ----
void *Allocate(size_t n_bytes);
void Free(const void *memory);
void Touch(const void *at);           // within Lock(), as the next
void Register(const void *at, int n); // of so many windows more
size_t CountBytes();                  // that are not freed, of the last job

// ---- streams ----
cudaStream_t NewStream();
bool Synchronize(cudaStream_t stream); // false: it never ends
void EnqueueAction(cudaStream_t stream, std::function<void()> action);
void EnqueueCopy(cudaStream_t stream, void *to, const void *from,
                 size_t n_bytes);
uint64_t CaptureOf(cudaStream_t stream); // 0: none

// A kernel of a name, and its node, if it is captured: it follows 'also', too,
// unless that is null.
struct Node;
Node *EnqueueKernel(cudaStream_t stream, const Launch &launch, const char *name,
                    Node *also);

// Events of NCCL, which must not be used once they are ended, and nodes that
// wait for one as the first of a graph, or behind the stream, or record it.
struct Event;
Event *NewEvent();
void EndEvent(Event *event);
bool IsDone(const Event *event);                 // what was recorded last
int RecordOn(Event *event, cudaStream_t stream); // 0, as CUDA
int WaitOn(cudaStream_t stream, Event *event);
void RecordAs(Event *event, const Event *other); // behind the same
Node *AddWait(cudaStream_t stream, Event *event, bool is_behind);
Node *AddRecord(Event *event, Node *after);

void BeginCapture(cudaStream_t stream);
struct Graph;
Graph *EndCapture(cudaStream_t stream); // null: it was spoilt
void LaunchGraph(Graph *graph, cudaStream_t stream);
void Fork(cudaStream_t from, cudaStream_t to); // 'to' waits for 'from'
// A captured stream's next node follows none, or the graph's last one.
void StartOver(cudaStream_t stream, bool is_at_last);

// The cost of a library: its calls of the driver in this thread, but for
// cuStreamGetCaptureInfo_v2(), and the nodes and edges of a graph, by their
// kind and number: "copy1", "copy1 > kernel1".
uint64_t CountDriverCalls();
void FailDriverCalls(uint64_t from, uint64_t n); // the next, and others later
std::set<std::string> Describe(const Graph *graph);

// ---- NCCL ----

// The next calls of this thread fail; of splits those that have a
// configuration.
void FailNext(int n_allocations, int n_splits);

// How often ncclCommFinalize(), Revoke, Suspend, Destroy or Abort was called,
// by its name's end, "finalize", and "abort with windows" of those with any; of
// communicators of the job alone: others may be aborted late.
uint64_t CountCalls(const std::string &call);

} // namespace fake
