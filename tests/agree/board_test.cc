// Whether ranks read the same decisions in whatever order they run: all orders
// of a few ranks, very many of more.
#include <gmock/gmock.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

extern "C" {
#include "agree/board.h"
}

#include "agree/schedules.h"

#include "support/slow.h"

namespace
{

using schedules::Ranks;
using schedules::Shape;

struct Explored {
    size_t n_states = 0;
    size_t n_ends = 0;
    size_t n_frozen = 0; // ends
    uint32_t most_put = 0;
    std::string fault;

    bool Add(const Ranks &ranks, bool is_end)
    {
        Ranks stopped = ranks;

        stopped.CompareProposals();
        fault = stopped.fault();
        n_states++;
        n_ends += is_end;
        n_frozen += is_end && ranks.is_frozen();
        most_put = std::max(most_put, ranks.n_put());
        return fault.empty();
    }
};

struct AllOrders {
    Shape shape;
    bool can_freeze; // in some of them
};

using Board = testing::TestWithParam<AllOrders>;

TEST_P(Board, TellsTheSameInAllOrders)
{
    const Shape &shape = GetParam().shape;
    if (shape.n_proposals > 1 || shape.n_ranks > 2)
        STP_SLOW();
    std::unordered_set<size_t> seen;
    Explored explored;

    schedules::Explore(Ranks(shape), shape.n_ranks + 1, &seen,
                       [&explored](const Ranks &ranks, bool is_end) {
                           return explored.Add(ranks, is_end);
                       });

    EXPECT_EQ("", explored.fault);
    EXPECT_EQ(shape.n_proposals, explored.most_put);
    EXPECT_EQ(GetParam().can_freeze, explored.n_frozen > 0);
    EXPECT_LT(explored.n_frozen, explored.n_ends);
    RecordProperty("states", static_cast<int>(explored.n_states));
}

INSTANTIATE_TEST_SUITE_P(All, Board,
                         testing::Values(AllOrders{{1, 1, 4, 3}, false},
                                         AllOrders{{2, 1, 3, 2}, true},
                                         AllOrders{{2, 2, 4, 1}, true},
                                         AllOrders{{2, 4, 3, 2}, false},
                                         AllOrders{{3, 1, 2, 1}, true}));

TEST(Boards, TellTheSameInTwentyThousandRandomOrders)
{
    STP_SLOW();
    size_t n_frozen = 0;
    size_t n_dead = 0;

    for (uint64_t seed = 0; seed < 20000; seed++) {
        const storms::Outcome outcome = schedules::RunRandom(seed);
        ASSERT_EQ("", outcome.wrong) << "seed " << seed;
        for (const std::string &mark : outcome.marks)
            (mark == "had dead ranks" ? n_dead : n_frozen)++;
    }

    // They are worth running.
    EXPECT_GT(n_frozen, 2000U);
    EXPECT_LT(n_frozen, 18000U);
    EXPECT_GT(n_dead, 2000U);
}

// One board and its ranks, each of which runs to its next epoch in one go.
class Job
{
  public:
    Job(uint32_t n_ranks, uint32_t n_slots, uint32_t epoch = 0)
        : board_(new stp_board()), steps_(n_ranks)
    {
        board_->head.word = static_cast<uint64_t>(epoch) << 33;
        board_->floor.word = epoch;
        for (uint64_t &slot : board_->ring)
            slot = board_->head.word;
        for (uint32_t r = 0; r < n_ranks; r++) {
            board_->progress[r].word = epoch;
            steps_[r].rank = r;
            steps_[r].n_ranks = n_ranks;
            steps_[r].n_slots = n_slots;
            steps_[r].epoch = epoch;
        }
    }

    // -1: frozen
    int64_t Next(uint32_t rank)
    {
        stp_board_step *step = &steps_[rank];
        stp_board_begin_epoch(step);
        while (stp_board_access(step, board_.get()))
            ;
        return step->is_frozen ? -1 : static_cast<int64_t>(step->decision);
    }

    bool Propose(uint32_t decision)
    {
        stp_board_step step{};
        stp_board_begin_proposal(&step, decision);
        while (stp_board_access(&step, board_.get()))
            ;
        return step.is_put;
    }

    const stp_board &board() const
    {
        return *board_;
    }

  private:
    std::unique_ptr<stp_board> board_;
    std::vector<stp_board_step> steps_;
};

TEST(Boards, DoNotFreezeWhileNobodyIsFurtherBehindThanTheRing)
{
    Job job(3, 4);

    for (uint32_t i = 0; i < 1000; i++) {
        ASSERT_EQ(i < 4 || job.Propose(i), true);
        for (uint32_t rank : {i % 3, (i + 1) % 3})
            ASSERT_EQ(i < 4 ? 0 : i, job.Next(rank)) << i;
        ASSERT_EQ(i < 4 ? 0 : i, job.Next((i + 2) % 3)) << i;
    }
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, job.Next(0));
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, job.Next(1));
    EXPECT_EQ(0, job.Next(2));
    EXPECT_EQ(0, job.Next(0));
    EXPECT_EQ(-1, job.Next(0));
}

TEST(Boards, GoOnWhereEpochsWrap)
{
    Job job(2, 4, STP_BOARD_EPOCHS - 5);

    for (uint32_t i = 1; i < 20; i++) {
        ASSERT_TRUE(job.Propose(i));
        ASSERT_EQ(i, job.Next(0));
        if (i < 3)
            continue;
        ASSERT_EQ(i - 2, job.Next(1)); // which is two behind
    }
    EXPECT_EQ(13U, job.board().head.word >> 33);
}

TEST(Boards, FreezeWhereEpochsWrap)
{
    Job job(2, 4, STP_BOARD_EPOCHS - 1);

    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, job.Next(0));
    EXPECT_EQ(-1, job.Next(0));
    for (int i = 0; i < 4; i++)
        ASSERT_EQ(0, job.Next(1));
    EXPECT_EQ(-1, job.Next(1));
}

// All ranks are only asked how far they are when the floor is too low.
TEST(Boards, AskAllRanksOncePerLapOfTheRing)
{
    Job job(2, 64);
    std::vector<uint64_t> floors;

    for (int i = 0; i < 200; i++) {
        job.Next(0);
        job.Next(1);
        if (floors.empty() || floors.back() != job.board().floor.word)
            floors.push_back(job.board().floor.word);
    }

    EXPECT_THAT(floors, testing::ElementsAre(0, 64, 128, 192));
}

} // namespace
