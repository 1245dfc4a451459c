// Hosts take the same proposals in the same epochs, through a real store, or
// fail by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include "agree/meeting_hosts.h"
#include "support/store_thread.h"

namespace
{

using namespace meeting_hosts;
using namespace store_thread;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kLost = -1;

// Hosts a and b of two ranks each; all ranks have compared, and none has
// entered an epoch.
class Planning
{
  public:
    explicit Planning(unsigned port, unsigned timeout_ms = kLongMs)
        : hosts_(Start({port, NewId(), 4, "none", timeout_ms, true},
                       {{7, 7}, {7, 7}}))
    {
        for (const auto &host : hosts_) {
            EXPECT_TRUE(host->Follows());
            for (size_t r = 0; r < 2; r++) {
                stp_agreement *rank = host->rank(r);
                EXPECT_TRUE(rank->ops->is_complete(rank));
                if (rank->ops->is_observer(rank)) {
                    EXPECT_EQ(nullptr, leader_) << "two observers";
                    leader_ = rank;
                }
                ranks_.push_back(rank);
            }
        }
        EXPECT_NE(nullptr, leader_);
    }

    bool Propose(const std::vector<uint32_t> &words)
    {
        return leader_->ops->propose(leader_, words.data(), words.size(), 1);
    }

    // What came of it; no rank enters an epoch meanwhile.
    stp_proposed Await()
    {
        while (leader_->ops->proposed(leader_) == STP_PROPOSED_PENDING)
            usleep(1000);
        return leader_->ops->proposed(leader_);
    }

    // What rank r takes in its next n epochs.
    std::vector<int64_t> Enter(size_t r, int n)
    {
        std::vector<int64_t> words;
        for (int i = 0; i < n; i++) {
            uint32_t word = 0;
            const stp_epoch epoch =
                ranks_[r]->ops->next_epoch(ranks_[r], &word);
            words.push_back(epoch == STP_EPOCH_LOST ? kLost : word);
        }
        return words;
    }

    std::string Explain(size_t r) const
    {
        char text[512] = "";
        ranks_[r]->ops->explain(ranks_[r], text, sizeof(text));
        return text;
    }

    stp_agreement *leader() const
    {
        return leader_;
    }

  private:
    Hosts hosts_;
    std::vector<stp_agreement *> ranks_;
    stp_agreement *leader_ = nullptr;
};

// Two margins of one epoch, of one call each, and the next.
constexpr int kAhead = 2;

TEST(Plans, AreTakenByAllRanksInTheSameEpochs)
{
    StoreThread store;
    Planning job(store.port());

    EXPECT_EQ(STP_PROPOSED_TAKEN, job.Await());
    ASSERT_TRUE(job.Propose({5, 6, 7}));
    EXPECT_FALSE(job.Propose({8})) << "the last is pending";
    ASSERT_EQ(STP_PROPOSED_TAKEN, job.Await());
    for (size_t r = 0; r < 4; r++)
        EXPECT_THAT(job.Enter(r, kAhead + 4), ElementsAre(0, 0, 5, 6, 7, 0));

    ASSERT_TRUE(job.Propose({9}));
    ASSERT_EQ(STP_PROPOSED_TAKEN, job.Await());
    for (size_t r = 0; r < 4; r++)
        EXPECT_THAT(job.Enter(r, kAhead + 2), ElementsAre(0, 0, 9, 0));
}

TEST(Plans, HaveAsManyProposalsAsThereIsRoomForAndNoneIsZero)
{
    StoreThread store;
    Planning job(store.port());

    EXPECT_EQ(32U, job.leader()->max_proposals);
    EXPECT_FALSE(job.Propose({}));
    EXPECT_FALSE(job.Propose({1, 0}));
    EXPECT_FALSE(job.Propose(std::vector<uint32_t>(33, 1)));
    EXPECT_TRUE(job.Propose(std::vector<uint32_t>(32, 1)));
}

TEST(Plans, LeaveNoKeysBehindButThoseOfTheLastTwo)
{
    StoreThread store;
    Planning job(store.port());

    for (uint32_t plan = 1; plan <= 20; plan++) {
        ASSERT_TRUE(job.Propose({plan}));
        ASSERT_EQ(STP_PROPOSED_TAKEN, job.Await());
        for (size_t r = 0; r < 4; r++)
            EXPECT_THAT(job.Enter(r, kAhead + 1), ElementsAre(0, 0, plan));
    }
    EXPECT_EQ(19, store.n_requests(STP_DELETE_KEY, "plan"));
    EXPECT_EQ(19, store.n_requests(STP_DELETE_KEY, "known"));
}

TEST(Plans, OfAStoreThatDiesInDoubtFailTheRanksThatComeToThem)
{
    StoreThread store({STP_COMPARE_SET, "verdict", 1});
    Planning job(store.port(), 5000); // ranks wait as long, and 5 s

    ASSERT_TRUE(job.Propose({5}));
    store.Await(STP_COMPARE_SET, "verdict", 1);
    std::thread ranks[4];
    for (size_t r = 0; r < 4; r++)
        ranks[r] = std::thread([&job, r] {
            EXPECT_THAT(job.Enter(r, kAhead + 2),
                        ElementsAre(0, 0, kLost, kLost));
        });
    for (std::thread &rank : ranks)
        rank.join();

    EXPECT_THAT(job.Explain(3),
                AllOf(HasSubstr("host b took part in plan 1 of what to try, "
                                "and cannot learn from the store at 127.0.0.1 "
                                "port " +
                                std::to_string(store.port()) +
                                " whether the others follow it: "),
                      HasSubstr("store")));
}

TEST(Plans, OfAStoreThatDiesBeforeOneIsThereCostNothing)
{
    StoreThread store({STP_SET, "plan", 1});
    Planning job(store.port());

    ASSERT_TRUE(job.Propose({5}));
    EXPECT_EQ(STP_PROPOSED_OVER, job.Await());

    for (size_t r = 0; r < 4; r++)
        EXPECT_THAT(job.Enter(r, kAhead + 2), ElementsAre(0, 0, 0, 0));
    EXPECT_FALSE(job.Propose({6}));
}

} // namespace
