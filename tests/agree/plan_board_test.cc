// Whether the ranks of a host take the same words of plans in whatever order
// they and their host run, access by access: all orders of a few ranks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

extern "C" {
#include "agree/plan_board.h"
}

#include "agree/schedules.h"

namespace
{

constexpr uint32_t kUnknown = UINT32_MAX;
constexpr uint32_t kMostEpochs = 7;
constexpr uint32_t kMostPlans = 3;
constexpr uint32_t kMostRanks = 3;

struct Shape {
    const char *name;
    uint32_t n_ranks;
    uint32_t n_epochs; // each rank comes to
    uint32_t n_plans;
    struct {
        uint64_t first;
        uint32_t margin;
        uint32_t n;
    } plans[kMostPlans];
};

// The words of plan N are N * 10, N * 10 + 1 and so on.
stp_plan Plan(const Shape &shape, uint64_t number)
{
    stp_plan plan{};

    plan.number = number;
    plan.first = shape.plans[number - 1].first;
    plan.margin = shape.plans[number - 1].margin;
    plan.n = shape.plans[number - 1].n;
    for (uint32_t i = 0; i < plan.n; i++)
        plan.words[i] = static_cast<uint32_t>(number * 10 + i);
    return plan;
}

// Copies are independent.  Actors: the ranks; the same as they give up waiting;
// the host as it commits, as it drops, as it loses.  What the host reads of its
// ranks it copies line by line, so that ranks go on meanwhile.
class Host
{
  public:
    explicit Host(const Shape &shape) : shape_(&shape)
    {
        for (uint32_t r = 0; r < shape.n_ranks; r++)
            steps_[r].rank = r;
        decided_.fill(kUnknown);
    }

    uint32_t n_actors() const
    {
        return 2 * shape_->n_ranks + 3;
    }

    bool IsDone(uint32_t actor) const
    {
        const uint32_t n = shape_->n_ranks;

        if (actor < n)
            return last_[actor] == STP_PLAN_FAILED ||
                   (last_[actor] == STP_PLAN_DONE &&
                    steps_[actor].epoch == shape_->n_epochs);
        if (actor < 2 * n)
            return last_[actor - n] != STP_PLAN_DOUBT;
        // Only a decision is a choice.
        return number_ > shape_->n_plans ||
               (actor > 2 * n && stage_ != kDecide);
    }

    void Step(uint32_t actor)
    {
        const uint32_t n = shape_->n_ranks;

        if (actor < n)
            StepRank(actor);
        else if (actor < 2 * n)
            stp_plan_lose(&steps_[actor - n], board());
        else
            StepHost(actor - 2 * n);
    }

    std::string State() const
    {
        std::string state;

        Append(&state, board()->slots, sizeof(board()->slots));
        for (uint32_t r = 0; r < shape_->n_ranks; r++) {
            Append(&state, &board()->lines[r], 2 * sizeof(uint64_t));
            Append(&state, &copy()->lines[r], 2 * sizeof(uint64_t));
        }
        Append(&state, &steps_, sizeof(steps_));
        Append(&state, &last_, sizeof(last_));
        Append(&state, &decided_, sizeof(decided_));
        Append(&state, &fates_, sizeof(fates_));
        Append(&state, &number_, sizeof(number_));
        Append(&state, &stage_, sizeof(stage_));
        Append(&state, &at_, sizeof(at_));
        return state;
    }

    // What became of a plan.
    struct Fate {
        bool is_acknowledged; // and not refused
        bool is_taken;        // a rank took a word of it
        bool has_failed;      // a rank that came to it
        uint32_t state;       // decided; NONE: it is not
    };

    const Fate &fate(uint64_t number) const
    {
        return fates_[number - 1];
    }

    // The first fault; empty if there is none.
    const std::string &fault() const
    {
        return fault_;
    }

  private:
    enum Stage : uint32_t { kRoom, kTear, kPut, kAhead, kDecide };
    static constexpr size_t kWords =
        (sizeof(stp_plan_board) + kMostRanks * sizeof(stp_plan_line)) / 8;

    static void Append(std::string *state, const void *data, size_t size)
    {
        state->append(static_cast<const char *>(data), size);
    }

    void Fault(const std::string &text)
    {
        if (fault_.empty())
            fault_ = text;
    }

    void StepRank(uint32_t rank)
    {
        stp_plan_step *step = &steps_[rank];
        const uint64_t before = step->next;

        if (last_[rank] == STP_PLAN_DONE)
            stp_plan_begin_epoch(step);
        last_[rank] = stp_plan_access(step, board());
        if (last_[rank] == STP_PLAN_DONE)
            Compare(rank, step->epoch, step->word);
        if (last_[rank] == STP_PLAN_FAILED)
            Fail(rank, step->next + 1);
        if (step->next > before + 1)
            Fault("rank " + std::to_string(rank) + " leaves out a plan");
    }

    void Compare(uint32_t rank, uint64_t epoch, uint32_t word)
    {
        const std::string who = "rank " + std::to_string(rank);

        if (decided_[epoch] == kUnknown)
            decided_[epoch] = word;
        if (decided_[epoch] != word)
            Fault(who + " takes " + std::to_string(word) + " in epoch " +
                  std::to_string(epoch) + ", another " +
                  std::to_string(decided_[epoch]));
        if (word != Expected(epoch))
            Fault(who + " takes " + std::to_string(word) + " in epoch " +
                  std::to_string(epoch) + ", expected " +
                  std::to_string(Expected(epoch)));
        if (word != 0)
            fates_[word / 10 - 1].is_taken = true;
    }

    // The word of an epoch, as the host has decided; kUnknown: it has not, or
    // never will, so that nobody may pass.
    uint32_t Expected(uint64_t epoch) const
    {
        for (uint64_t number = 1; number <= shape_->n_plans; number++) {
            const stp_plan plan = Plan(*shape_, number);
            const Fate &fate = fates_[number - 1];
            if (!fate.is_acknowledged || epoch < plan.first ||
                epoch >= plan.first + plan.n || fate.state == STP_PLAN_DROPPED)
                continue;
            return fate.state == STP_PLAN_COMMITTED
                       ? plan.words[epoch - plan.first]
                       : kUnknown;
        }
        return 0;
    }

    void Fail(uint32_t rank, uint64_t number)
    {
        const uint64_t state =
            board()->slots[number % STP_PLAN_SLOTS].state & 7;

        fates_[number - 1].has_failed = true;
        if (state != STP_PLAN_LOST ||
            steps_[rank].epoch < Plan(*shape_, number).first)
            Fault("rank " + std::to_string(rank) + " fails in epoch " +
                  std::to_string(steps_[rank].epoch) + ", plan " +
                  std::to_string(number) + " is not lost");
    }

    // Whether the last line was copied.
    bool CopyLine()
    {
        copy()->lines[at_] = board()->lines[at_];
        at_ = (at_ + 1) % shape_->n_ranks;
        return at_ == 0;
    }

    void StepHost(uint32_t choice)
    {
        const stp_plan plan = Plan(*shape_, number_);
        const uint32_t n = shape_->n_ranks;

        switch (stage_) {
        case kRoom:
            if (CopyLine() && stp_plan_has_room(copy(), n, number_))
                stage_ = kTear;
            return;
        case kTear: // as a rank would see it that looks while it is put
            Tear(&board()->slots[number_ % STP_PLAN_SLOTS]);
            stage_ = kPut;
            return;
        case kPut:
            stp_plan_put(board(), &plan);
            stage_ = kAhead;
            return;
        case kAhead:
            if (CopyLine())
                Acknowledge(plan, stp_plan_is_ahead(copy(), n, &plan));
            return;
        default:
            Decide(choice);
        }
    }

    static void Tear(stp_plan_slot *slot)
    {
        slot->first = 0;
        slot->n = STP_PLAN_WORDS;
        memset(slot->words, 0xee, sizeof(slot->words));
    }

    void Acknowledge(const stp_plan &plan, bool is_ahead)
    {
        stage_ = kDecide;
        if (!is_ahead) {
            Decide(1);
            return;
        }
        fates_[number_ - 1].is_acknowledged = true;
        for (uint64_t epoch = plan.first; epoch < decided_.size(); epoch++)
            if (decided_[epoch] != kUnknown)
                Fault("a rank passed epoch " + std::to_string(epoch) +
                      " before plan " + std::to_string(plan.number) +
                      " was acknowledged");
    }

    void Decide(uint32_t choice)
    {
        static const stp_plan_state kStates[] = {
            STP_PLAN_COMMITTED, STP_PLAN_DROPPED, STP_PLAN_LOST};
        const uint32_t state =
            stp_plan_decide(board(), number_, kStates[choice]);

        if (state != static_cast<uint32_t>(kStates[choice]) &&
            state != STP_PLAN_LOST)
            Fault("plan " + std::to_string(number_) + " is " +
                  std::to_string(state) + " once it is decided");
        fates_[number_ - 1].state = state;
        stage_ = kRoom;
        number_++;
    }

    stp_plan_board *board()
    {
        return reinterpret_cast<stp_plan_board *>(board_.data());
    }

    const stp_plan_board *board() const
    {
        return reinterpret_cast<const stp_plan_board *>(board_.data());
    }

    stp_plan_board *copy()
    {
        return reinterpret_cast<stp_plan_board *>(copy_.data());
    }

    const stp_plan_board *copy() const
    {
        return reinterpret_cast<const stp_plan_board *>(copy_.data());
    }

    const Shape *shape_;
    std::array<uint64_t, kWords> board_{};
    std::array<uint64_t, kWords> copy_{}; // the lines, as the host read them
    std::array<stp_plan_step, kMostRanks> steps_{};
    std::array<enum stp_plan_access, kMostRanks> last_ = {
        STP_PLAN_DONE, STP_PLAN_DONE, STP_PLAN_DONE};
    std::array<uint32_t, kMostEpochs> decided_{}; // by epoch
    std::array<Fate, kMostPlans> fates_{};
    uint64_t number_ = 1; // plan
    Stage stage_ = kRoom;
    uint32_t at_ = 0; // rank whose line the host reads next
    std::string fault_;
};

// What happened in some of the orders, by plan.
struct Seen {
    explicit Seen(size_t n_plans)
        : refused(n_plans), taken(n_plans), failed(n_plans)
    {
    }

    bool Add(const Host &host)
    {
        n_states++;
        fault = host.fault();
        for (size_t i = 0; i < taken.size(); i++) {
            const Host::Fate &fate = host.fate(i + 1);
            if (fate.state == STP_PLAN_DROPPED && !fate.is_acknowledged)
                refused[i] = true;
            if (fate.is_taken)
                taken[i] = true;
            if (fate.has_failed)
                failed[i] = true;
            if (fate.is_taken && fate.has_failed)
                fault = "ranks take a plan, and fail in it";
        }
        return fault.empty();
    }

    std::vector<bool> refused;
    std::vector<bool> taken;
    std::vector<bool> failed;
    size_t n_states = 0;
    std::string fault;
};

class PlanBoard : public testing::TestWithParam<Shape>
{
};

TEST_P(PlanBoard, GivesAllRanksTheSameWordsInAllOrders)
{
    const Host host(GetParam());
    std::unordered_set<size_t> states;
    Seen seen(GetParam().n_plans);

    schedules::Explore(host, host.n_actors(), &states,
                       [&seen](const Host &h, bool) { return seen.Add(h); });

    EXPECT_EQ("", seen.fault);
    EXPECT_THAT(seen.refused, testing::Each(true));
    EXPECT_THAT(seen.taken, testing::Each(true));
    EXPECT_THAT(seen.failed, testing::Each(true));
    RecordProperty("states", static_cast<int>(seen.n_states));
}

INSTANTIATE_TEST_SUITE_P(
    All, PlanBoard,
    testing::Values(
        Shape{"OneRank", 1, 6, 3, {{2, 0, 1}, {3, 0, 2}, {6, 0, 1}}},
        Shape{"TwoRanks", 2, 6, 3, {{2, 0, 1}, {3, 0, 2}, {6, 0, 1}}},
        Shape{"Margins", 2, 6, 3, {{2, 1, 2}, {4, 2, 1}, {6, 1, 1}}},
        Shape{"FirstEpoch", 2, 4, 3, {{1, 0, 2}, {3, 0, 1}, {4, 0, 1}}},
        Shape{"ThreeRanks", 3, 2, 2, {{1, 0, 1}, {2, 0, 1}}}),
    [](const auto &c) { return std::string(c.param.name); });

// One rank and its host, which runs to its next epoch in one go.
class OneRank
{
  public:
    OneRank() : memory_(stp_plan_board_bytes(1) / sizeof(uint64_t))
    {
    }

    // -1: in doubt, -2: failed
    int Enter()
    {
        stp_plan_begin_epoch(&step_);
        return Look();
    }

    int Look()
    {
        enum stp_plan_access last = stp_plan_access(&step_, board());

        while (last == STP_PLAN_MORE)
            last = stp_plan_access(&step_, board());
        if (last == STP_PLAN_DONE)
            return static_cast<int>(step_.word);
        return last == STP_PLAN_DOUBT ? -1 : -2;
    }

    void GiveUp()
    {
        stp_plan_lose(&step_, board());
    }

    void Put(uint64_t number, uint64_t first, uint32_t n)
    {
        stp_plan plan{};

        plan.number = number;
        plan.first = first;
        plan.n = n;
        for (uint32_t i = 0; i < n; i++)
            plan.words[i] = static_cast<uint32_t>(number * 100 + i);
        stp_plan_put(board(), &plan);
    }

    stp_plan_board *board()
    {
        return reinterpret_cast<stp_plan_board *>(memory_.data());
    }

  private:
    std::vector<uint64_t> memory_;
    stp_plan_step step_{};
};

TEST(PlanBoards, GiveTheWordsOfAPlanOfTheLargestSize)
{
    OneRank host;

    host.Put(1, 2, STP_PLAN_WORDS);
    EXPECT_EQ(STP_PLAN_COMMITTED,
              stp_plan_decide(host.board(), 1, STP_PLAN_COMMITTED));

    EXPECT_EQ(0, host.Enter());
    for (int i = 0; i < STP_PLAN_WORDS; i++) {
        EXPECT_FALSE(stp_plan_has_room(host.board(), 1, 3));
        EXPECT_EQ(100 + i, host.Enter());
    }
    EXPECT_TRUE(stp_plan_has_room(host.board(), 1, 3));
    EXPECT_EQ(0, host.Enter());
}

TEST(PlanBoards, LetARankGiveUpOnlyWhatIsNotDecided)
{
    OneRank host;

    host.Put(1, 1, 2);
    EXPECT_EQ(-1, host.Enter());
    stp_plan_decide(host.board(), 1, STP_PLAN_COMMITTED);
    host.GiveUp();
    EXPECT_EQ(100, host.Look());
    EXPECT_EQ(101, host.Enter());
    host.Put(2, 3, 1);
    EXPECT_EQ(-1, host.Enter());
    host.GiveUp();

    EXPECT_EQ(-2, host.Look());
    EXPECT_EQ(-2, host.Enter());
    EXPECT_EQ(STP_PLAN_LOST,
              stp_plan_decide(host.board(), 2, STP_PLAN_COMMITTED));
    EXPECT_EQ(-2, host.Enter());
}

TEST(PlanBoards, PassSeveralDroppedPlansInOneEpoch)
{
    OneRank host;

    host.Put(1, 5, 1);
    stp_plan_decide(host.board(), 1, STP_PLAN_DROPPED);
    host.Put(2, 6, 1);
    stp_plan_decide(host.board(), 2, STP_PLAN_DROPPED);

    EXPECT_FALSE(stp_plan_has_room(host.board(), 1, 4));
    EXPECT_EQ(0, host.Enter());
    EXPECT_TRUE(stp_plan_has_room(host.board(), 1, 4));
}

} // namespace
