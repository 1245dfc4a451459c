// Ranks on one board, step by step in any order, and whether what they are told
// is what it must be.
#ifndef STP_TESTS_SCHEDULES_H
#define STP_TESTS_SCHEDULES_H

#include <cstdint>
#include <string>
#include <vector>

extern "C" {
#include "agree/board.h"
#include "core/rng.h"
}

namespace schedules
{

struct Shape {
    uint32_t n_ranks;
    uint32_t n_slots;
    uint32_t n_epochs; // each rank comes to
    uint32_t n_wishes; // that are tried
};

// Copies are independent.  Actors: the ranks, then one that leaves wishes 1, 2,
// 3 and so on.
class World
{
  public:
    explicit World(const Shape &shape)
        : shape_(shape),
          memory_(stp_board_bytes(shape.n_ranks) / sizeof(stp_board_line)),
          turns_(shape.n_ranks + 1), n_steps_(shape.n_ranks + 1),
          decided_(shape.n_epochs + 1, kUnknown)
    {
        for (uint32_t r = 0; r <= shape.n_ranks; r++)
            turns_[r] = AtRest(r, 0, false);
    }

    // Whether the actor has come to its end.
    bool IsDone(uint32_t actor) const
    {
        if (n_steps_[actor] != 0)
            return false;
        if (actor == shape_.n_ranks)
            return n_tried_ == shape_.n_wishes;
        return turns_[actor].is_frozen ||
               turns_[actor].epoch == shape_.n_epochs;
    }

    // The epoch that the actor came to last; two wishes count for one.
    uint32_t Epoch(uint32_t actor) const
    {
        return actor < shape_.n_ranks ? turns_[actor].epoch : n_tried_ / 2;
    }

    // One step of an actor that is not done.
    void Step(uint32_t actor)
    {
        stp_turn *turn = &turns_[actor];

        if (n_steps_[actor] == 0 && actor < shape_.n_ranks)
            stp_turn_advance(turn);
        else if (n_steps_[actor] == 0)
            stp_turn_wish(turn, n_put_ + 1);
        n_steps_[actor]++;
        if (stp_turn_step(turn, board())) {
            if (n_steps_[actor] >= shape_.n_ranks + 10)
                Fault("rank " + std::to_string(actor) + " takes more steps " +
                      "than it may");
            return;
        }
        n_steps_[actor] = 0;
        if (actor < shape_.n_ranks) {
            Compare(actor, turn->epoch, Value(*turn));
        } else {
            n_tried_++;
            n_put_ += turn->is_put;
        }
        turns_[actor] = AtRest(actor, turn->epoch, turn->is_frozen);
    }

    // To be called when nobody steps any more: every wish that was left and
    // does not wait was taken, once, in order.
    void CompareWishes()
    {
        const uint64_t head = board()->head.word;
        uint32_t n_taken = 0;

        // Whoever decided it may have died before it came back.
        if (head >> 33 < decided_.size() && head >> 33 > 0)
            Compare(shape_.n_ranks, static_cast<uint32_t>(head >> 33),
                    static_cast<uint32_t>(head));
        for (uint32_t value : decided_)
            if (value != kUnknown && value != kFrozen && value != 0 &&
                value != ++n_taken)
                Fault("wish " + std::to_string(value) + " is taken as wish " +
                      std::to_string(n_taken));
        if (n_taken + stp_board_is_waiting(board()) != n_put_)
            Fault(std::to_string(n_taken) + " of " + std::to_string(n_put_) +
                  " wishes are taken");
    }

    // The first thing that went wrong; empty if nothing did.
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

    // All that what comes next depends on, and what came before.
    std::string State() const
    {
        std::vector<uint64_t> words{board()->head.word, board()->wish.word,
                                    board()->floor.word, n_put_, n_tried_};
        std::string state;

        for (uint32_t i = 0; i < shape_.n_slots; i++)
            words.push_back(board()->ring[i]);
        for (uint32_t r = 0; r < shape_.n_ranks; r++)
            words.push_back(board()->progress[r].word);
        Append(&state, words);
        Append(&state, turns_);
        Append(&state, n_steps_);
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

    stp_turn AtRest(uint32_t rank, uint32_t epoch, bool is_frozen) const
    {
        stp_turn turn{};

        turn.rank = rank;
        turn.n_ranks = shape_.n_ranks;
        turn.n_slots = shape_.n_slots;
        turn.epoch = epoch;
        turn.is_frozen = is_frozen;
        return turn;
    }

    static uint32_t Value(const stp_turn &turn)
    {
        return turn.decision | (turn.is_frozen ? kFrozen : 0);
    }

    void Compare(uint32_t rank, uint32_t epoch, uint32_t value)
    {
        if (decided_[epoch] == kUnknown)
            decided_[epoch] = value;
        else if (decided_[epoch] != value)
            Fault("rank " + std::to_string(rank) + " is told " +
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
    std::vector<stp_turn> turns_;
    std::vector<uint32_t> n_steps_; // of the turn they are in
    std::vector<uint32_t> decided_; // by epoch
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

struct Outcome {
    std::string fault; // empty: none
    uint32_t n_ranks;
    bool is_frozen;
    bool has_dead;
};

inline Shape RandomShape(Random *random)
{
    Shape shape;

    shape.n_ranks = 2 + random->Below(random->OneIn(8) ? 63 : 4);
    shape.n_slots = 1U << random->Below(random->OneIn(4) ? 7 : 3);
    shape.n_epochs = 2 + random->Below(3 * shape.n_slots + 12);
    shape.n_wishes = random->Below(2 * shape.n_epochs);
    return shape;
}

// An actor to go next; if 'is_fair', rather one that is behind.
inline size_t Pick(const World &world, const std::vector<uint32_t> &going,
                   bool is_fair, Random *random)
{
    const auto n = static_cast<uint32_t>(going.size());
    size_t at = random->Below(n);

    for (uint32_t i = 0; is_fair && i < n; i++) {
        const size_t other = random->Below(n);
        if (world.Epoch(going[other]) < world.Epoch(going[at]))
            at = other;
    }
    return at;
}

// One schedule: actors take turns of a few steps, or of very many, during which
// all others stand still; in one of four, ranks die in mid-step.
inline Outcome RunRandom(uint64_t seed)
{
    Random random(seed);
    const Shape shape = RandomShape(&random);
    const bool is_fair = random.OneIn(2);
    const bool kills = random.OneIn(4);
    World world(shape);
    std::vector<uint32_t> going;
    bool has_dead = false;

    for (uint32_t actor = 0; actor <= shape.n_ranks; actor++)
        going.push_back(actor);
    while (!going.empty() && world.fault().empty()) {
        const size_t at = Pick(world, going, is_fair, &random);
        const uint32_t actor = going[at];
        const uint32_t most = is_fair || !random.OneIn(16) ? 6 : 400;
        uint32_t n_steps = 1 + random.Below(most);

        while (n_steps-- > 0 && !world.IsDone(actor))
            world.Step(actor);
        const bool dies = kills && going.size() > 1 && random.OneIn(24);
        has_dead |= dies;
        if (dies || world.IsDone(actor))
            going.erase(going.begin() + static_cast<std::ptrdiff_t>(at));
    }
    world.CompareWishes();
    return {world.fault(), shape.n_ranks, world.is_frozen(), has_dead};
}

} // namespace schedules

#endif // STP_TESTS_SCHEDULES_H
