// What ranks are told, one by one, and as threads and processes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "agree/board.h"
#include "agree/published.h"
}

#include "agree/storm_jobs.h"

namespace
{

constexpr int64_t kFrozen = -1;

class Published : public testing::Test
{
  protected:
    ~Published() override
    {
        for (stp_published *rank : ranks_)
            stp_published_leave(rank);
    }

    stp_published *Join(size_t n_ranks, uint64_t value = 7)
    {
        stp_published *published = nullptr;
        EXPECT_EQ(STP_OK,
                  stp_published_join(id_, n_ranks, value, &published, &err_))
            << err_.text;
        ranks_.push_back(published);
        return published;
    }

    static int64_t Next(stp_published *published)
    {
        bool is_frozen = false;
        const uint32_t decision = stp_published_next(published, &is_frozen);
        return is_frozen ? kFrozen : static_cast<int64_t>(decision);
    }

    bool Exists(size_t n_ranks) const
    {
        char name[96];
        struct stat st;
        snprintf(name, sizeof(name), "/dev/shm/steptune-%u-%016llx-%zu-epochs",
                 static_cast<unsigned>(geteuid()),
                 static_cast<unsigned long long>(id_), n_ranks);
        return lstat(name, &st) == 0;
    }

    const uint64_t id_ = std::random_device()() * uint64_t{0x100000001} + 1;
    stp_error err_{};
    std::vector<stp_published *> ranks_;
};

TEST_F(Published, TellsEveryRankTheSameInItsOwnTime)
{
    stp_published *a = Join(2);
    stp_published *b = Join(2);

    EXPECT_EQ(0, Next(a));
    EXPECT_TRUE(stp_published_propose(a, 5));
    EXPECT_EQ(5, Next(a));
    EXPECT_EQ(0, Next(a));
    EXPECT_EQ(0, Next(b));
    EXPECT_TRUE(stp_published_propose(a, 0x7fffffff));
    EXPECT_EQ(5, Next(b));
    EXPECT_EQ(0, Next(b));
    EXPECT_EQ(0x7fffffff, Next(b));
    EXPECT_EQ(0x7fffffff, Next(a));
    EXPECT_EQ(0, Next(a));
}

TEST_F(Published, TakesAWishOnceAndThenTheNext)
{
    stp_published *a = Join(1);

    EXPECT_FALSE(stp_published_is_waiting(a));
    EXPECT_TRUE(stp_published_propose(a, 5));
    EXPECT_TRUE(stp_published_is_waiting(a));
    EXPECT_FALSE(stp_published_propose(a, 6));
    EXPECT_EQ(5, Next(a));
    EXPECT_FALSE(stp_published_is_waiting(a));
    EXPECT_TRUE(stp_published_propose(a, 5)); // the same again
    EXPECT_TRUE(stp_published_is_waiting(a));
    EXPECT_EQ(5, Next(a));
    EXPECT_EQ(0, Next(a));
}

TEST_F(Published, TakesNoWishThatIsNone)
{
    stp_published *a = Join(1);

    for (uint32_t decision : {UINT32_C(0), UINT32_C(0x80000000), UINT32_MAX})
        EXPECT_FALSE(stp_published_propose(a, decision)) << decision;

    EXPECT_FALSE(stp_published_is_waiting(a));
    EXPECT_EQ(0, Next(a));
}

TEST_F(Published, IsFrozenForAllWhenARankIsALapBehind)
{
    stp_published *a = Join(2);
    stp_published *b = Join(2);

    for (int i = 0; i < STP_BOARD_SLOTS; i++)
        ASSERT_EQ(0, Next(a)) << i;
    ASSERT_TRUE(stp_published_propose(a, 5));
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kFrozen, Next(a));

    for (int i = 0; i < STP_BOARD_SLOTS; i++)
        ASSERT_EQ(0, Next(b)) << i;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kFrozen, Next(b));
    EXPECT_TRUE(stp_published_is_waiting(b));
}

TEST_F(Published, TakesNoWishOnceItIsFrozen)
{
    stp_published *a = Join(2);
    Join(2);

    for (int i = 0; i < STP_BOARD_SLOTS + 1; i++)
        Next(a);

    EXPECT_FALSE(stp_published_propose(a, 5));
    EXPECT_FALSE(stp_published_is_waiting(a));
}

TEST_F(Published, GoesOnWhileTheOneBehindCatchesUp)
{
    stp_published *a = Join(2);
    stp_published *b = Join(2);

    for (int i = 0; i < 1000; i++) {
        ASSERT_TRUE(stp_published_propose(a, 1 + i));
        ASSERT_EQ(1 + i, Next(a));
        if (i >= 63) {
            ASSERT_EQ(1 + i - 63, Next(b));
        }
    }
}

TEST_F(Published, HasOneObserver)
{
    for (bool is_first : {true, false, false})
        EXPECT_EQ(is_first, stp_published_is_observer(Join(3)));
}

TEST_F(Published, IsCompleteWhenAllRanksCameWithOneValue)
{
    for (uint64_t last : {7, 8}) {
        std::vector<stp_published *> ranks{Join(3), Join(3)};
        for (stp_published *rank : ranks)
            EXPECT_FALSE(stp_published_complete(rank));
        EXPECT_TRUE(Exists(3));
        ranks.push_back(Join(3, last));

        for (stp_published *rank : ranks)
            EXPECT_EQ(last == 7, stp_published_complete(rank));

        EXPECT_FALSE(Exists(3));
    }
}

// Two shrinks of one parent have the same commId.
TEST_F(Published, IsAnotherForTheNextCommunicatorOfTheSameId)
{
    stp_published *older[] = {Join(2), Join(2)};
    EXPECT_TRUE(stp_published_propose(older[0], 5));
    EXPECT_EQ(5, Next(older[0]));
    stp_published *newer[] = {Join(2), Join(2)};

    EXPECT_TRUE(stp_published_is_observer(newer[0]));
    EXPECT_TRUE(stp_published_complete(newer[1]));
    EXPECT_EQ(0, Next(newer[1]));
    EXPECT_EQ(5, Next(older[1]));
}

TEST_F(Published, RefusesMoreRanksThanItHasPlacesFor)
{
    stp_published *published = nullptr;

    for (size_t n_ranks : {size_t{0}, size_t{1025}}) {
        EXPECT_EQ(STP_ERR_LIMIT,
                  stp_published_join(id_, n_ranks, 7, &published, &err_));
        EXPECT_EQ(std::to_string(n_ranks) +
                      " ranks cannot agree on a host: expected 1 to 1024",
                  err_.text);
    }
    EXPECT_EQ(nullptr, published);
    for (int i = 0; i < 1024; i++)
        Join(1024);
    EXPECT_TRUE(stp_published_complete(ranks_[0]));
    for (stp_published *rank : ranks_)
        ASSERT_EQ(0, Next(rank));
}

TEST_F(Published, IsNothingToLeave)
{
    stp_published_leave(nullptr);
}

// The jobs follow each other under one id, so what a killed one leaves behind
// would be found by the next.
TEST_F(Published, IsTheSameForThreadsAndProcessesOfWhichSomeAreKilled)
{
    for (storm::Kind kind : {storm::Kind::kThreads, storm::Kind::kProcesses,
                             storm::Kind::kMixed}) {
        for (uint64_t seed = 0; seed < 25; seed++) {
            const storm::Job job =
                storm::RandomJob(seed, id_, kind, seed % 2 == 0);
            const storm::Outcome outcome = storm::Run(job);
            ASSERT_EQ("", outcome.fault) << "seed " << seed;
            EXPECT_TRUE(job.kills || outcome.is_complete);
            EXPECT_TRUE(job.kills || !Exists(job.n_ranks));
        }
    }
}

} // namespace
