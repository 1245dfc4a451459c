// fake_kernels.h - communicators of the fake NCCL, and what their kernels do:
//
// - each operation waits for all ranks at its begin and end,
//   and in between reads and writes the buffers of all, piece by piece;
// - buffers that lie in windows of that communicator are taken to stand at this
//   rank's offset in every rank's window, whatever they do there;
// - before 2.30.7 symmetric all-gathers may load what is wrong: here the last
//   bytes of a pack of 8, from an address that is no multiple of 4;
// - all that a rank sends and receives in a group is one kernel, which waits
//   for its peers.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>

#include "fake_gpu.h"

using fake::Step;

namespace
{

inline uint64_t n_symmetric; // kernels that ran

struct Operation; // of one rank

struct Meeting { // of all ranks of a communicator, before an operation's work
    int n_arrived = 0, n_done = 0;
    std::vector<Operation *> ranks;
};

struct Family { // what the ranks of a communicator share
    int n_ranks, n_ending = 0;
    bool is_of_one_process = getenv("FAKE_NCCL_ONE_PROCESS") != nullptr;
    std::vector<ncclComm_t> ranks;
    std::map<uint64_t, std::shared_ptr<Meeting>> meetings;
    // Steps of all ranks, by their number: what each rank brought.
    std::map<uint64_t, std::map<int, std::pair<int, int>>> steps;
    std::map<std::pair<uint64_t, int>, std::shared_ptr<Family>> children;
    std::set<uint64_t> failed; // steps that a rank refused
    std::map<std::pair<int, int>,
             std::deque<std::pair<char *, std::shared_ptr<bool>>>>
        mail;
};

// The order of operations: a communicator's own, or its parent's, too, whose
// resources it shares.
struct Order {
    fake::Event *serial = fake::NewEvent();
    fake::Event *live = fake::NewEvent();  // behind eager ones
    bool ever_captured = false;            // before that there is no mixing
    std::map<uint64_t, fake::Node *> last; // by capture
    std::deque<const fake::Work *> running;
    int n_users = 0;
};

} // namespace

struct ncclComm {
    std::shared_ptr<Family> family;
    int rank;
    int thread; // the rank in the job
    uint64_t n_operations = 0, n_steps = 0;
    bool is_connected = false, is_ended = false;
    bool shares = false; // as splitShare has it
    std::shared_ptr<std::atomic<bool>> is_aborted =
        std::make_shared<std::atomic<bool>>(false);
    int version; // of the NCCL that made it
    const uint64_t job = fake::NumberOfJob();
    std::shared_ptr<Order> order = std::make_shared<Order>();
    std::vector<std::pair<char *, size_t>> windows;
};

namespace
{

size_t SizeOf(int type)
{
    static const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

    return sizes[type];
}

enum { kExchange = 100 }; // a call that sends or receives: 'op' is the peer

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

struct Kernel : fake::Work {
    ncclComm_t comm;
    explicit Kernel(ncclComm_t c) : comm(c)
    {
        if (comm->is_ended)
            fake::Fault("a communicator is used that was ended");
        comm->order->running.push_back(this);
    }
    ~Kernel() override
    {
        Leave();
    }
    Step Leave()
    {
        auto &running = comm->order->running;

        running.erase(std::remove(running.begin(), running.end(), this),
                      running.end());
        return Step::kDone;
    }
    bool IsFirst() const
    {
        const bool is_first = comm->order->running.front() == this;

        if (!is_first && getenv("FAKE_NCCL_ORDER") == nullptr)
            fake::Fault("two kernels of one order run at once");
        return is_first;
    }
};

// All that one rank sends and receives in a group.
struct Exchange : Kernel {
    std::vector<Call> calls;
    std::vector<std::shared_ptr<bool>> ends; // of those that receive
    bool has_begun = false;
    Exchange(ncclComm_t c, std::vector<Call> all)
        : Kernel(c), calls(std::move(all))
    {
    }
    Step Run() override
    {
        auto &mail = comm->family->mail; // to be received, by both ranks
        size_t n_left = 0;
        const bool begins = !has_begun;
        bool has_run = begins;

        if (*comm->is_aborted)
            return Leave();
        if (begins && !IsFirst())
            return Step::kBlocked;
        has_begun = true;
        for (Call &call : calls) {
            if (begins && call.recv != nullptr) {
                ends.push_back(std::make_shared<bool>(false));
                mail[{call.op, comm->rank}].emplace_back(call.recv,
                                                         ends.back());
            }
            if (call.send == nullptr)
                continue;
            auto &others = mail[{comm->rank, call.op}];
            n_left += others.empty();
            if (others.empty())
                continue;
            memcpy(others.front().first, call.send,
                   call.count * SizeOf(call.type));
            *others.front().second = true;
            others.pop_front();
            call.send = nullptr;
            has_run = true;
        }
        for (const auto &end : ends)
            n_left += !*end;
        return n_left == 0 ? Leave() : has_run ? Step::kRan : Step::kBlocked;
    }
};

struct Operation : Kernel {
    Call call;
    uint64_t number = call.comm->n_operations++;
    int stage = 0;
    std::shared_ptr<Meeting> meeting;

    explicit Operation(const Call &c) : Kernel(c.comm), call(c)
    {
    }
    ~Operation() override
    {
        Leave();
    }

    bool Uses(const char *at, size_t n) const override
    {
        return (at <= call.send && call.send < at + n) ||
               (at <= call.recv && call.recv < at + n);
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
        return call.comm->version < 23007 && IsSymmetric() &&
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
        Family *family = comm->family.get();

        // A symmetric kernel does not look whether it is to end.
        if (*comm->is_aborted && !IsSymmetric())
            return Leave();
        if (stage == 0 && !IsFirst())
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
            fake::Touch(call.send);
            fake::Touch(call.recv);
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
        if (meeting != nullptr)
            meeting->ranks[comm->rank] = nullptr;
        return Kernel::Leave();
    }
};

} // namespace
