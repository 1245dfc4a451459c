// fake_state.h - what fake_gpu.cc and fake_driver.cc share
#pragma once

#include <condition_variable>
#include <deque>
#include <list>
#include <map>
#include <mutex>

#include "fake_gpu.h"

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

struct Memory { // which stays until the job ends, to find who uses it
    size_t n_bytes = 0;
    uint64_t job = 0; // that made it
    bool is_free = false;
    int n_windows = 0;
};

struct Gpu {
    std::mutex mutex;
    std::condition_variable changed;
    uint64_t state = 1;
    uint64_t version = 1, stuck = 0; // stuck: the version at which all waited
    uint64_t waited_at = 0;       // the version that n_waiting threads saw last
    uint64_t n_jobs = 0, job = 0; // that ended; that began last
    int n_threads = 0, n_waiting = 0;
    std::set<int> dead;
    std::string fault;
    std::list<Stream> streams;
    std::list<Graph> graphs;
    std::map<const char *, Memory> memory;
    uint64_t n_captures = 0;
    int n_created = 0; // streams of cuStreamCreate()
    std::map<std::pair<int, int>, Stream *> default_streams;
};

extern Gpu &gpu;

struct Thread {
    int context = 0; // of a rank: its number and 1
    bool is_locked = false;
    std::vector<int> pushed; // contexts
    uint64_t n_driver_calls = 0, fails_from = 0, fails_to = 0;
    std::vector<Node *> head; // of a captured stream, until the next call
};
extern thread_local Thread self;

struct Locked {
    bool was = self.is_locked;
    Locked()
    {
        if (!was)
            gpu.mutex.lock();
        self.is_locked = true;
    }
    ~Locked()
    {
        self.is_locked = was;
        if (!was)
            gpu.mutex.unlock();
    }
};

Stream *StreamOf(cudaStream_t stream);

} // namespace fake
