// The parts of planners.cc: hosts, their ranks, connections and a store.
#ifndef STP_TESTS_PLANNERS_JOB_H
#define STP_TESTS_PLANNERS_JOB_H

#include "agree/planners.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <vector>

extern "C" {
#include "agree/planner.h"
}

#include "agree/schedules.h"

namespace planners
{

using schedules::Random;

// Virtual microseconds.
constexpr int64_t kMs = 1000;
constexpr int64_t kNever = INT64_MAX;
constexpr int64_t kTimeout = 50 * kMs;    // for acknowledgements, and a verdict
constexpr int64_t kAnswer = 30 * kMs;     // for all other replies
constexpr int64_t kPatience = 1500 * kMs; // of a rank that waits
constexpr int64_t kSettle = 400 * kMs;    // after the last rank has ended

constexpr uint32_t kMostPlans = 12;
constexpr uint32_t kNone = UINT32_MAX;

enum Key : uint32_t { kPlan, kAcks, kAcked, kVerdict, kKnown, kKeys };

struct Value {
    bool is_there = false;
    uint32_t size = 0;
    std::array<unsigned char, 192> bytes{};

    void Set(const void *from, size_t n)
    {
        is_there = true;
        size = static_cast<uint32_t>(n);
        if (n > 0)
            memcpy(bytes.data(), from, n);
    }

    bool Is(const char *text) const
    {
        return is_there && size == strlen(text) &&
               memcmp(bytes.data(), text, size) == 0;
    }
};

inline uint32_t KeyOf(const char *name)
{
    static const char *const kNames[] = {"plan", "acks", "acked", "verdict",
                                         "known"};

    for (uint32_t key = 0; key < kKeys; key++)
        if (strcmp(name, kNames[key]) == 0)
            return key;
    return kKeys;
}

// What was asked of the store, and what the store answers.
struct Message {
    enum stp_plan_ask ask;
    uint64_t plan;
    uint32_t key;
    uint64_t number;
    Value value;
    int64_t due; // at the store
};

// Requests of a connection are applied in their order.  Those of a connection
// that was lost may still be, since the store may have received them.
struct Connection {
    uint32_t host; // kNone: nobody hears what the store answers
    bool is_lost = false;
    std::deque<Message> sent;
};

struct Reply {
    bool is_ok = true;
    Value value;
    uint64_t number = 0;
};

struct Rank {
    stp_plan_step step{};
    bool is_within = false; // an epoch
    bool has_ended = false;
    bool has_failed = false; // by name
    int64_t due = 0;
    int64_t doubt_since = kNever;
};

enum class Speaker { kAsks, kAwaits, kOver, kDead };

struct Host {
    stp_planner_host host{};
    stp_planner planner{};
    std::vector<uint64_t> memory;
    std::vector<Rank> ranks;
    Speaker speaker = Speaker::kAsks;
    bool is_connected = true;
    bool is_hushed = false;
    int64_t due = 0;           // asks, or has a reply
    int64_t deadline = kNever; // of a request
    Reply reply;
    uint64_t put = 0;   // the last plan on the board
    uint64_t ahead = 0; // the last plan whose first epoch was looked at after
                        // it was put, and all ranks were the margin before it

    stp_plan_board *board()
    {
        return reinterpret_cast<stp_plan_board *>(memory.data());
    }
};

// What all know who look at the whole job.
struct Truth {
    stp_plan plan{};
    bool is_committed = false;
    bool is_dropped = false; // by a host
    bool is_refused = false; // by another host than the leader
    bool is_over = false;    // its verdict was deleted
    uint32_t n_acknowledged = 0;
};

enum class Failure {
    kConnection, // lost
    kSpeaker,    // of a host
    kHost,       // with all its ranks
    kOutage,     // of the store, for a while
    kBack,       // after that
    kRestart,    // of the store, which forgets
    kGone,       // the store, for good
};

class Job
{
  public:
    explicit Job(uint64_t seed);
    Outcome Run();

    // The board's functions, as the planner calls them: ranks go on before and
    // after.
    Host *Of(const stp_plan_board *board);
    void Interrupt(Host *host);
    void CheckPut(const stp_plan_board *board, const stp_plan *plan);
    void CheckAhead(const stp_plan_board *board, const stp_plan *plan,
                    bool is_ahead);
    void CheckDecided(uint64_t number, stp_plan_state state);

  private:
    void AddHost(uint32_t n_ranks);
    void AddFailures();
    int64_t Delay(int64_t mean);
    void Fault(const std::string &text);

    bool IsBlocked(const Rank &rank) const;
    void StepRank(Host *host, Rank *rank);
    void Take(const Rank &rank);
    void CheckFailed(Host *host, const Rank &rank);

    void Ask(uint32_t at);
    void Send(uint32_t at, const stp_plan_request &request);
    void CheckAsked(Host *host, const stp_plan_request &request);
    void Answer(uint32_t at);
    void Connect(uint32_t at);
    void Lose(uint32_t at, bool is_noticed);
    void Abandon(Connection *connection);

    void Apply(Connection *connection);
    void ApplyTo(const Message &message, Reply *reply, bool *is_parked);
    void CompareSet(const Message &message, Value *value);
    void Wake(uint64_t plan, uint32_t key);

    void Fail(Failure failure);
    bool HasNothingInDoubt() const;
    static bool HaveRanksEnded(const Host &host);
    bool HaveRanksEnded() const;
    int64_t Next(int64_t limit);
    void RunUntil(int64_t limit);
    void CheckWords();
    void CheckEnd();
    void CheckQuiet();
    uint32_t n_keys() const;

    Random random_;
    std::vector<Host> hosts_;
    std::vector<Connection> connections_; // of hosts, then those that are lost
    std::vector<std::pair<int64_t, Failure>> failures_;
    std::array<Truth, kMostPlans> truths_{};
    std::array<std::array<Value, kKeys>, kMostPlans> values_{};
    std::vector<uint32_t> decided_; // by epoch

    int64_t now_ = 0;
    int64_t end_ = kNever; // once all ranks have ended
    uint64_t n_steps_ = 0;
    uint32_t n_epochs_;
    uint32_t n_proposals_;
    uint32_t n_proposed_ = 0;
    uint32_t most_skew_; // epochs between ranks
    uint32_t n_slow_ = 0;
    int64_t epoch_time_;
    int64_t message_time_;
    bool hushes_;
    bool wakes_; // those that await a key that is compared and set
    bool is_up_ = true;
    bool has_failures_ = false;
    bool may_fail_ = false; // a rank: what was in doubt is lost for good
    Outcome outcome_{};
};

extern Job *job; // whose board is used now

} // namespace planners

#endif // STP_TESTS_PLANNERS_JOB_H
