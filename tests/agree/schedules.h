// Ranks on one board, access by access in any order, and whether they all read
// the decisions that they must.
#pragma once

#include <cstdint>
#include <functional>
#include <unordered_set>

extern "C" {
#include "agree/board.h"
#include "core/rng.h"
}

#include "support/storm.h"

namespace schedules
{

// Visits each state that can follow 'state' once, until 'visit(state, is_end)'
// is false.  A dead actor is one that makes no more steps, so each state is an
// end for somebody; 'is_end': for all.
template <typename T, typename Visit>
bool Explore(const T &state, uint32_t n_actors,
             std::unordered_set<size_t> *seen, const Visit &visit)
{
    bool is_end = true;

    if (!seen->insert(std::hash<std::string>()(state.State())).second)
        return true;
    for (uint32_t actor = 0; actor < n_actors; actor++) {
        if (state.IsDone(actor))
            continue;
        is_end = false;
        T next = state;
        next.Step(actor);
        if (!Explore(next, n_actors, seen, visit))
            return false;
    }
    return visit(state, is_end);
}

struct Shape {
    uint32_t n_ranks;
    uint32_t n_slots;
    uint32_t n_epochs;    // each rank comes to
    uint32_t n_proposals; // that are tried
};

// Copies are independent.  Actors: the ranks, then one that makes proposals 1,
// 2, 3 and so on.
class Ranks
{
  public:
    explicit Ranks(const Shape &shape)
        : shape_(shape),
          memory_(stp_board_bytes(shape.n_ranks) / sizeof(stp_board_line)),
          steps_(shape.n_ranks + 1), n_accesses_(shape.n_ranks + 1),
          decided_(shape.n_epochs + 1, kUnknown)
    {
        for (uint32_t r = 0; r <= shape.n_ranks; r++)
            steps_[r] = AtRest(r, 0, false);
    }

    // Whether the actor has come to its end.
    bool IsDone(uint32_t actor) const
    {
        if (n_accesses_[actor] != 0)
            return false;
        if (actor == shape_.n_ranks)
            return n_tried_ == shape_.n_proposals;
        return steps_[actor].is_frozen ||
               steps_[actor].epoch == shape_.n_epochs;
    }

    // The epoch that the actor came to last; two proposals count for one.
    uint32_t Epoch(uint32_t actor) const
    {
        return actor < shape_.n_ranks ? steps_[actor].epoch : n_tried_ / 2;
    }

    // One access of an actor that is not done.
    void Step(uint32_t actor)
    {
        stp_board_step *step = &steps_[actor];

        if (n_accesses_[actor] == 0 && actor < shape_.n_ranks)
            stp_board_begin_epoch(step);
        else if (n_accesses_[actor] == 0)
            stp_board_begin_proposal(step, n_put_ + 1);
        n_accesses_[actor]++;
        if (stp_board_access(step, board())) {
            if (n_accesses_[actor] >= shape_.n_ranks + 10)
                Fault("rank " + std::to_string(actor) + " takes more steps " +
                      "than it may");
            return;
        }
        n_accesses_[actor] = 0;
        if (actor < shape_.n_ranks) {
            Compare(actor, step->epoch, Value(*step));
        } else {
            n_tried_++;
            n_put_ += step->is_put;
        }
        steps_[actor] = AtRest(actor, step->epoch, step->is_frozen);
    }

    // To be called when nobody steps any more: every proposal that was
    // put and is not pending was taken, once, in order.
    void CompareProposals()
    {
        const uint64_t head = board()->head.word;
        uint32_t n_taken = 0;

        // The rank that decided it may have died before it returned.
        if (head >> 33 < decided_.size() && head >> 33 > 0)
            Compare(shape_.n_ranks, static_cast<uint32_t>(head >> 33),
                    static_cast<uint32_t>(head));
        for (uint32_t value : decided_)
            if (value != kUnknown && value != kFrozen && value != 0 &&
                value != ++n_taken)
                Fault("proposal " + std::to_string(value) +
                      " is taken as proposal " + std::to_string(n_taken));
        if (n_taken + stp_board_is_pending(board()) != n_put_)
            Fault(std::to_string(n_taken) + " of " + std::to_string(n_put_) +
                  " proposals are taken");
    }

    // The first fault; empty if there is none.
    const std::string &fault() const
    {
        return fault_;
    }

    bool is_frozen() const
    {
        return board()->head.word & STP_BOARD_FROZEN;
    }

    uint32_t n_put() const
    {
        return n_put_;
    }

    // All that later accesses depend on, and all earlier decisions.
    std::string State() const
    {
        std::vector<uint64_t> words{board()->head.word, board()->proposal.word,
                                    board()->floor.word, n_put_, n_tried_};
        std::string state;

        for (uint32_t i = 0; i < shape_.n_slots; i++)
            words.push_back(board()->ring[i]);
        for (uint32_t r = 0; r < shape_.n_ranks; r++)
            words.push_back(board()->progress[r].word);
        Append(&state, words);
        Append(&state, steps_);
        Append(&state, n_accesses_);
        Append(&state, decided_);
        return state;
    }

  private:
    static constexpr uint32_t kFrozen = UINT32_C(1) << 31;
    static constexpr uint32_t kUnknown = UINT32_MAX;

    template <typename T>
    static void Append(std::string *state, const std::vector<T> &items)
    {
        state->append(reinterpret_cast<const char *>(items.data()),
                      items.size() * sizeof(T));
    }

    stp_board_step AtRest(uint32_t rank, uint32_t epoch, bool is_frozen) const
    {
        stp_board_step step{};

        step.rank = rank;
        step.n_ranks = shape_.n_ranks;
        step.n_slots = shape_.n_slots;
        step.epoch = epoch;
        step.is_frozen = is_frozen;
        return step;
    }

    static uint32_t Value(const stp_board_step &step)
    {
        return step.decision | (step.is_frozen ? kFrozen : 0);
    }

    void Compare(uint32_t rank, uint32_t epoch, uint32_t value)
    {
        if (decided_[epoch] == kUnknown)
            decided_[epoch] = value;
        else if (decided_[epoch] != value)
            Fault("rank " + std::to_string(rank) + " reads " +
                  std::to_string(value) + " for epoch " +
                  std::to_string(epoch) + ", another " +
                  std::to_string(decided_[epoch]));
    }

    void Fault(const std::string &text)
    {
        if (fault_.empty())
            fault_ = text;
    }

    stp_board *board()
    {
        return reinterpret_cast<stp_board *>(memory_.data());
    }

    const stp_board *board() const
    {
        return reinterpret_cast<const stp_board *>(memory_.data());
    }

    Shape shape_;
    std::vector<stp_board_line> memory_;
    std::vector<stp_board_step> steps_;
    std::vector<uint32_t> n_accesses_; // of the step they are in
    std::vector<uint32_t> decided_;    // by epoch
    uint32_t n_put_ = 0;
    uint32_t n_tried_ = 0;
    std::string fault_;
};

// Numbers in [0, n).
class Random
{
  public:
    explicit Random(uint64_t seed) : seed_(seed)
    {
    }

    uint32_t Below(uint32_t n)
    {
        return static_cast<uint32_t>(stp_rng(seed_, counter_++) % n);
    }

    bool OneIn(uint32_t n)
    {
        return Below(n) == 0;
    }

  private:
    uint64_t seed_;
    uint64_t counter_ = 0;
};

inline Shape RandomShape(Random *random)
{
    Shape shape;

    shape.n_ranks = 2 + random->Below(random->OneIn(8) ? 63 : 4);
    shape.n_slots = 1U << random->Below(random->OneIn(4) ? 7 : 3);
    shape.n_epochs = 2 + random->Below(3 * shape.n_slots + 12);
    shape.n_proposals = random->Below(2 * shape.n_epochs);
    return shape;
}

// An actor to go next; if 'is_fair', rather one that is behind.
inline size_t Pick(const Ranks &ranks, const std::vector<uint32_t> &going,
                   bool is_fair, Random *random)
{
    const auto n = static_cast<uint32_t>(going.size());
    size_t at = random->Below(n);

    for (uint32_t i = 0; is_fair && i < n; i++) {
        const size_t other = random->Below(n);
        if (ranks.Epoch(going[other]) < ranks.Epoch(going[at]))
            at = other;
    }
    return at;
}

// One schedule: actors make a few accesses in a row, or very many, while all
// others stand still; in one of four, ranks die within a step.
inline storms::Outcome RunRandom(uint64_t seed)
{
    Random random(seed);
    const Shape shape = RandomShape(&random);
    const bool is_fair = random.OneIn(2);
    const bool kills = random.OneIn(4);
    Ranks ranks(shape);
    std::vector<uint32_t> going;
    bool has_dead = false;

    for (uint32_t actor = 0; actor <= shape.n_ranks; actor++)
        going.push_back(actor);
    while (!going.empty() && ranks.fault().empty()) {
        const size_t at = Pick(ranks, going, is_fair, &random);
        const uint32_t actor = going[at];
        const uint32_t most = is_fair || !random.OneIn(16) ? 6 : 400;
        uint32_t n_steps = 1 + random.Below(most);

        while (n_steps-- > 0 && !ranks.IsDone(actor))
            ranks.Step(actor);
        const bool dies = kills && going.size() > 1 && random.OneIn(24);
        has_dead |= dies;
        if (dies || ranks.IsDone(actor))
            going.erase(going.begin() + static_cast<std::ptrdiff_t>(at));
    }
    ranks.CompareProposals();
    storms::Outcome outcome{ranks.fault()};
    outcome.Mark(ranks.is_frozen(), "came to be frozen");
    outcome.Mark(has_dead, "had dead ranks");
    return outcome;
}

} // namespace schedules
