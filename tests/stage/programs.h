// Random programs of all ranks of a job of jobs.h.
#pragma once

#include <algorithm>
#include <array>
#include <random>
#include <vector>

#include "fake_gpu.h"

namespace stage_jobs
{

enum { kMaxRanks = 4, kStreams = 3 };

enum { kRing = 100 }; // a collective: each rank sends to the next one

struct Call {
    int comm;
    int coll; // ncclFunc_t
    size_t count;
    int type, op;
    bool in_place;
    int stream;       // of the rank, below kStreams
    int from, to;     // streams of who makes its input, and sees its output
    bool starts_over; // of a graph: it follows no node
};

struct Action {
    enum Kind {
        kCalls,   // alone, or one group
        kCapture, // a graph of all of 'calls'
        kLaunch,  // of graph 'number', on 'stream'
        kSplit,   // communicator 'number', by 'colors'
        kDestroy, // communicator 'number'
        kWindows, // of the application, in communicator 'number'
        kSync,
    } kind;
    std::vector<Call> calls{};
    bool is_group = false, fills_late = false;
    bool differs = false; // rank 0 has all of it on one stream
    enum Beside { kNone, kForks, kEager, kOther };
    Beside beside = kNone; // on stream 2, while 1 is captured
    int number = 0, stream = 0;
    std::array<int, kMaxRanks> colors{};
};

struct Program {
    int n_ranks = 2;
    std::vector<std::vector<int>> members; // ranks of each communicator,
                                           // per communicator and colour
    std::vector<Action> actions;
    int n_graphs = 0;
    bool aborts = false; // at the end, without waiting
};

class Generator
{
  public:
    explicit Generator(uint64_t seed) : random_(seed)
    {
        program_.n_ranks = 2 + static_cast<int>(Below(3));
        std::vector<int> all(program_.n_ranks);

        for (int r = 0; r < program_.n_ranks; r++)
            all[r] = r;
        AddComm(all);
    }
    uint64_t Below(uint64_t n)
    {
        return random_() % n;
    }
    Program Make()
    {
        const uint64_t n = 3 + Below(14);

        for (uint64_t i = 0; i < n; i++)
            AddAction();
        program_.aborts = Below(8) == 0;
        return program_;
    }

  private:
    void AddComm(const std::vector<int> &ranks)
    {
        live_.push_back(static_cast<int>(program_.members.size()));
        program_.members.push_back(ranks);
    }
    Call NewCall()
    {
        static const int colls[] = {ncclFuncAllReduce, ncclFuncAllGather,
                                    ncclFuncReduceScatter, kRing};
        static const int types[] = {7, 7, 7, 2, 0};
        static const size_t bytes[] = {1536, 1536, 1544,  3072, 2048,
                                       6144, 768,  12288, 0};
        Call c{};
        size_t n;

        c.comm = live_[Below(live_.size())];
        n = program_.members[c.comm].size();
        c.coll = colls[Below(n > 1 ? 4 : 3)];
        c.type = types[Below(5)];
        c.op = Below(10) == 0 ? 2 : 0;
        c.count = bytes[Below(9)] / (c.type == 0 ? 1 : 4);
        if (Below(5) == 0) // a whole round
            c.count = 8192 * n / (c.type == 0 ? 1 : 4);
        if (c.coll != ncclFuncAllReduce)
            c.count /= n;
        c.in_place = Below(3) == 0 && c.coll != kRing;
        c.stream = static_cast<int>(Below(3) == 0 ? Below(kStreams) : 1);
        return c;
    }
    // NCCL runs what a communicator has in a group behind all streams of these
    // calls, which all go on behind it.  One rank has nobody to wait for, and a
    // call of no elements is none.
    void Join(Action *a)
    {
        const auto is_in = [this](const Call &c) {
            return c.count > 0 && program_.members[c.comm].size() > 1;
        };

        for (Call &c : a->calls) {
            std::vector<int> joined{c.stream};

            for (const Call &other : a->calls)
                if (a->is_group && is_in(c) && is_in(other) &&
                    other.comm == c.comm)
                    joined.push_back(other.stream);
            c.from = joined[Below(joined.size())];
            c.to = joined[Below(joined.size())];
        }
    }
    void AddAction()
    {
        Action a{};
        const uint64_t kind = Below(20);

        if (kind < 8) {
            a.kind = Action::kCalls;
            a.is_group = Below(2) == 0;
            a.fills_late = Below(4) == 0;
            a.differs = Below(4) == 0;
            for (uint64_t i = a.is_group ? Below(4) + 1 : 1; i > 0; i--)
                a.calls.push_back(NewCall());
            Join(&a);
        } else if (kind < 11) {
            a.kind = Action::kCapture;
            a.number = program_.n_graphs;
            a.beside = static_cast<Action::Beside>(Below(4));
            a.is_group = Below(3) == 0 && a.beside <= Action::kForks;
            for (uint64_t i = Below(9) + 1; i > 0; i--) {
                a.calls.push_back(NewCall());
                a.calls.back().stream =
                    a.beside > 0 ? 1 + static_cast<int>(Below(2)) : 1;
                a.calls.back().starts_over = !a.is_group && Below(3) == 0;
            }
            Join(&a);
            for (int i = 1 + (a.beside == Action::kOther); i > 0; i--) {
                graphs_.push_back(a);
                graphs_.back().number = program_.n_graphs++;
            }
            program_.actions.push_back(a);
            for (uint64_t i = Below(3); i > 0; i--)
                AddLaunch();
            return;
        } else if (kind < 14 && !graphs_.empty()) {
            AddLaunch();
            return;
        } else if (kind < 16 && program_.members.size() < 40) {
            a.kind = Action::kSplit;
            a.number = live_[Below(live_.size())];
            for (int r = 0; r < program_.n_ranks; r++)
                a.colors[r] = static_cast<int>(Below(3)) - (Below(9) == 0);
            if (Below(2) == 0)
                a.colors.fill(1);
            AddChildren(a);
        } else if (kind == 16 && live_.size() > 1) {
            a.kind = Action::kDestroy;
            a.number = live_.back();
            live_.pop_back();
            Forget(a.number);
        } else if (kind == 17 && Below(3) == 0) {
            a.kind = Action::kWindows;
            a.number = live_[Below(live_.size())];
        } else
            a.kind = Action::kSync;
        program_.actions.push_back(a);
    }
    // No graph that uses a communicator outlives it.
    void Forget(int comm)
    {
        const auto uses = [comm](const Action &graph) {
            return std::any_of(
                graph.calls.begin(), graph.calls.end(),
                [comm](const Call &c) { return c.comm == comm; });
        };

        graphs_.erase(std::remove_if(graphs_.begin(), graphs_.end(), uses),
                      graphs_.end());
        program_.actions.push_back({Action::kSync});
    }
    void AddLaunch()
    {
        Action a{};

        if (graphs_.empty())
            return;
        a.kind = Action::kLaunch;
        a.number = graphs_[Below(graphs_.size())].number;
        a.stream = 1 + static_cast<int>(Below(2));
        program_.actions.push_back(a);
    }
    void AddChildren(const Action &a)
    {
        for (int color = 0; color < 3; color++) {
            std::vector<int> ranks;

            for (int r : program_.members[a.number])
                if (a.colors[r] == color)
                    ranks.push_back(r);
            AddComm(ranks);
            if (ranks.empty()) // it is there, and nobody's
                live_.pop_back();
        }
    }

    std::mt19937_64 random_;
    Program program_;
    std::vector<int> live_;
    std::vector<Action> graphs_; // that may be launched
};

} // namespace stage_jobs
