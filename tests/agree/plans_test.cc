// Hosts take the same proposals in the same epochs, through a real store, or
// fail by name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <functional>

#include "faults/open_files.h"
#include "agree/checked_locks.h"
#include "agree/free_naps.h"
#include "agree/meeting_hosts.h"
#include "support/processes.h"
#include "support/store_thread.h"

extern "C" {
#include "agree/plans.h"
#include "store/clock.h"
}

// ---- naps that hush() ends, which take no time where a test looks at them
// ----

namespace
{
thread_local std::function<void(int ms)> at_nap;
}

extern "C" {
int __real_poll(struct pollfd *polled, nfds_t n, int ms);

int __wrap_poll(struct pollfd *polled, nfds_t n, int ms)
{
    if (!at_nap || n != 1)
        return __real_poll(polled, n, ms);
    at_nap(ms);
    return 0;
}
}

namespace
{

using free_naps::FreeNaps;
using namespace meeting_hosts;
using namespace store_thread;
using testing::Contains;
using testing::Each;
using testing::ElementsAre;

constexpr int64_t kLost = -1;

// Hosts a and b of two ranks each; all ranks have compared, and none has
// entered an epoch.
class Planning
{
  public:
    explicit Planning(unsigned port, unsigned timeout_ms = kLongMs)
        : comm_id_(NewId()),
          hosts_(Start({port, comm_id_, 4, "none", timeout_ms, true},
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
                    leading_ = ranks_.size() / 2;
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
            words.push_back(epoch == STP_EPOCH_LOST ? kLost - word : word);
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

    // The host that leads: 0 or 1.
    size_t leading() const
    {
        return leading_;
    }

    uint64_t comm_id() const
    {
        return comm_id_;
    }

    // Until no host can agree on more.
    void AwaitEnd()
    {
        for (const auto &host : hosts_) {
            while (host->rank(0)->ops->proposed(host->rank(0)) !=
                   STP_PROPOSED_OVER)
                usleep(1000);
            host->AwaitSpeech();
        }
    }

    // The ranks that speak make no more calls.
    void Hush()
    {
        for (const auto &host : hosts_)
            host->AwaitSpeech();
    }

  private:
    uint64_t comm_id_;
    Hosts hosts_;
    std::vector<stp_agreement *> ranks_;
    stp_agreement *leader_ = nullptr;
    size_t leading_ = 2;
};

std::string Name(size_t host)
{
    return host == 0 ? "a" : "b";
}

// The value of a key of the first communicator of the id; it is there.
std::string Get(const StoreThread &store, uint64_t comm_id,
                const std::string &name)
{
    const stp_store_address address = stp_store_at("127.0.0.1", store.port());
    stp_client client;
    char key[96], value[256];
    size_t size = 0;

    snprintf(key, sizeof(key), "1/none/%016llx-4/0/%s",
             static_cast<unsigned long long>(comm_id), name.c_str());
    EXPECT_TRUE(
        stp_client_open(&client, &address, "agree", stp_now_ms() + kLongMs));
    EXPECT_TRUE(stp_client_get(&client, key, value, sizeof(value), &size));
    stp_client_close(&client);
    return {value, size};
}

class Plans : public testing::Test
{
  protected:
    void TearDown() override
    {
        EXPECT_EQ(n_files_, CountOpenFiles()) << "a file is left open";
    }

  private:
    const std::ptrdiff_t n_files_ = CountOpenFiles();
};

// Two margins of one epoch, of one call each, and the next.
constexpr int kAhead = 2;

TEST_F(Plans, AreTakenByAllRanksInTheSameEpochs)
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

TEST_F(Plans, HaveAsManyProposalsAsThereIsRoomForAndNoneIsZero)
{
    StoreThread store;
    Planning job(store.port());

    EXPECT_EQ(32U, job.leader()->max_proposals);
    EXPECT_FALSE(job.Propose({}));
    EXPECT_FALSE(job.Propose({1, 0}));
    EXPECT_FALSE(job.Propose(std::vector<uint32_t>(33, 1)));
    EXPECT_TRUE(job.Propose(std::vector<uint32_t>(32, 1)));
}

TEST_F(Plans, LeaveNoKeysBehindButThoseOfTheLastTwo)
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

TEST_F(Plans, AreDroppedIfAHostHearsOfThemTooLate)
{
    StoreThread store;
    Planning job(store.port());
    const size_t other = 1 - job.leading();

    job.Enter(2 * other, kAhead + 1);
    ASSERT_TRUE(job.Propose({5}));
    EXPECT_EQ(STP_PROPOSED_DROPPED, job.Await());
    EXPECT_EQ("abort: " + Name(other) + " got the plan too late",
              Get(store, job.comm_id(), "plan/1/verdict"));
    EXPECT_EQ("abort", Get(store, job.comm_id(), "plan/1/acked"));
    for (size_t r = 0; r < 4; r++)
        EXPECT_THAT(job.Enter(r, 10), Each(0));
    ASSERT_TRUE(job.Propose({6}));
    EXPECT_EQ(STP_PROPOSED_TAKEN, job.Await());
}

TEST_F(Plans, GoOnAfterAConnectionWasLost)
{
    for (const auto &[query, key] : {std::pair{STP_ADD, "acks"},
                                     {STP_WAIT, "known"},
                                     {STP_COMPARE_SET, "verdict"}}) {
        StoreThread store({query, key, 1, Failure::DROPS});
        Planning job(store.port());

        ASSERT_TRUE(job.Propose({5}));
        const int64_t taken = job.Await() == STP_PROPOSED_TAKEN ? 5 : 0;
        for (size_t r = 0; r < 4; r++)
            EXPECT_THAT(job.Enter(r, kAhead + 2), ElementsAre(0, 0, taken, 0));
        EXPECT_LE(1, store.n_requests(STP_CHECK, "plan")) << key;

        ASSERT_TRUE(job.Propose({6}));
        ASSERT_EQ(STP_PROPOSED_TAKEN, job.Await());
        for (size_t r = 0; r < 4; r++)
            EXPECT_THAT(job.Enter(r, 2 * kAhead + 2), Contains(6));
    } // the hosts end at once, though they await the next plan
}

TEST_F(Plans, AreOfAllRanksOfALargeHost)
{
    for (size_t n_ranks : {1024, 1025}) {
        StoreThread store;
        Host host({store.port(), NewId(), n_ranks, "none", kLongMs, true}, "a",
                  std::vector<uint64_t>(n_ranks, 7));
        stp_agreement *first = host.rank(0);
        stp_agreement *last = host.rank(n_ranks - 1);
        const bool all_take_part = n_ranks == 1024;
        const uint32_t proposal = 5;
        uint32_t word = 0;

        EXPECT_TRUE(host.Follows());
        EXPECT_EQ(all_take_part, last->proposes);
        EXPECT_EQ(all_take_part, first->ops->is_complete(first));
        EXPECT_EQ(all_take_part, first->ops->propose(first, &proposal, 1, 1));
        if (!all_take_part) {
            host.AwaitSpeech();
            EXPECT_EQ("not all ranks of all hosts take part", host.Explain(1));
            continue;
        }
        while (first->ops->proposed(first) == STP_PROPOSED_PENDING)
            usleep(1000);
        for (int i = 0; i < kAhead + 1; i++)
            EXPECT_EQ(STP_EPOCH_KNOWN, last->ops->next_epoch(last, &word));
        EXPECT_EQ(5U, word);
    }
}

TEST_F(Plans, AreNoneIfARankOfAnotherHostTakesNoPart)
{
    StoreThread store;
    Place place{store.port(), NewId(), 2, "none", kLongMs, true};
    Host learns(place, "a", {7});
    place.proposes = false;
    Host other(place, "b", {7});

    EXPECT_TRUE(learns.Follows());
    EXPECT_TRUE(other.Follows());
    EXPECT_TRUE(learns.rank(0)->ops->is_complete(learns.rank(0)));
    EXPECT_FALSE(other.rank(0)->ops->is_complete(other.rank(0)));
    EXPECT_EQ(STP_PROPOSED_OVER, learns.rank(0)->ops->proposed(learns.rank(0)));
    EXPECT_EQ("not all ranks of all hosts take part", learns.Explain());
}

// Its ranks wait for its time limit and five seconds.
TEST_F(Plans, OfAStoreThatDiesInDoubtFailTheRanksThatComeToThem)
{
    for (bool are_hushed : {false, true}) {
        StoreThread store({STP_COMPARE_SET, "verdict", 1});
        Planning job(store.port(), 5000);

        ASSERT_TRUE(job.Propose({5}));
        store.Await(STP_COMPARE_SET, "verdict", 1);
        if (are_hushed)
            job.Hush();
        for (size_t r = 0; r < 4; r++) {
            const FreeNaps naps;
            EXPECT_THAT(job.Enter(r, kAhead + 2),
                        ElementsAre(0, 0, kLost, kLost));
            EXPECT_EQ(r % 2 == 0 ? 10000U : 0, naps.ms.size());
        }
        job.AwaitEnd();

        for (size_t r = 0; r < 4; r++)
            EXPECT_EQ("host " + Name(r / 2) +
                          " took part in plan 1 of what to try, and cannot "
                          "learn from the store at 127.0.0.1 port " +
                          std::to_string(store.port()) +
                          " whether the others follow it: " +
                          (are_hushed ? "it did not answer in time, or the "
                                        "process that asks it was stopped"
                                      : "the store does not answer: Connection "
                                        "reset by peer"),
                      job.Explain(r));
    }
}

TEST_F(Plans, OfAStoreThatDiesBeforeOneIsThereCostNothing)
{
    StoreThread store({STP_SET, "plan", 1});
    Planning job(store.port());

    for (size_t r = 0; r < 4; r++)
        EXPECT_EQ("", job.Explain(r));
    ASSERT_TRUE(job.Propose({5}));
    EXPECT_EQ(STP_PROPOSED_OVER, job.Await());

    for (size_t r = 0; r < 4; r++)
        EXPECT_THAT(job.Enter(r, kAhead + 2), ElementsAre(0, 0, 0, 0));
    EXPECT_FALSE(job.Propose({6}));
    job.AwaitEnd();
    for (size_t r = 0; r < 4; r++)
        EXPECT_EQ("the store does not answer: Connection reset by peer",
                  job.Explain(r));
}

TEST_F(Plans, EndWithoutAWordOnceTheyAreHushed)
{
    StoreThread store;
    Planning job(store.port());

    job.Hush();

    EXPECT_EQ(STP_PROPOSED_OVER, job.Await());
    EXPECT_FALSE(job.Propose({5}));
    for (size_t r = 0; r < 4; r++) {
        EXPECT_EQ("", job.Explain(r));
        EXPECT_THAT(job.Enter(r, kAhead + 2), Each(0));
    }
}

// The host that leads, of one rank, which plans in the thread of the test.
class PlanningAlone
{
  public:
    explicit PlanningAlone(const StoreThread &store, size_t n_ranks = 1,
                           unsigned timeout_ms = kLongMs)
        : board_(stp_plan_board_bytes(1) / sizeof(uint64_t))
    {
        store_.address = stp_store_at("127.0.0.1", store.port());
        store_.timeout_ms = timeout_ms;
        stp_plans_open(&plans);
        EXPECT_TRUE(stp_hosts_connect(&store_, &plans.line.client,
                                      stp_now_ms() + kLongMs));
        strcpy(plans.line.generation, "1/none/0");
        plans.host.board = reinterpret_cast<stp_plan_board *>(board_.data());
        plans.host.n_own = 1;
        plans.host.n_ranks = n_ranks;
        plans.host.timeout_ms = timeout_ms;
        plans.host.leads = plans.host.acknowledges = true;
        stp_plans_begin(&plans, &store_);
    }
    PlanningAlone(const PlanningAlone &) = delete;
    PlanningAlone &operator=(const PlanningAlone &) = delete;
    ~PlanningAlone()
    {
        at_nap = nullptr;
        stp_plans_close(&plans);
    }

    // Until 'at_third' has been called at the third nap; the length of each.
    std::vector<int> Run(const std::function<void()> &at_third)
    {
        std::vector<int> naps;
        at_nap = [&](int ms) {
            naps.push_back(ms);
            if (naps.size() == 3)
                at_third();
        };
        stp_plans_run(&plans, why);
        return naps;
    }

    stp_plans plans{};
    char why[STP_PLANNER_WHY] = "";

  private:
    std::vector<uint64_t> board_;
    stp_agreement_store store_{};
};

TEST_F(Plans, AreAwaitedInNaps)
{
    StoreThread store;
    PlanningAlone host(store);

    EXPECT_THAT(host.Run([&] { stp_plans_hush(&host.plans); }),
                ElementsAre(10, 10, 10));
    EXPECT_STREQ("", host.why);
    EXPECT_EQ(0U, store.n_requests());
}

TEST_F(Plans, InDoubtMakeAHostConnectAgainTenTimesASecond)
{
    StoreThread store({STP_COMPARE_SET, "verdict", 1});
    PlanningAlone host(store);
    const uint32_t proposal = 5;
    const stp_plan_step step{};
    const auto give_up = [&] {
        EXPECT_LT(stp_now_ms(), host.plans.line.client.deadline_ms);
        stp_plan_lose(&step, host.plans.host.board);
    };

    EXPECT_TRUE(stp_plans_propose(&host.plans, &proposal, 1, 1));
    EXPECT_THAT(host.Run(give_up), ElementsAre(100, 100, 100));
    EXPECT_STREQ("the store does not answer: Connection reset by peer",
                 host.why);
    EXPECT_EQ(STP_PROPOSED_OVER, stp_plans_proposed(&host.plans));
}

TEST_F(Plans, HaveADescriptorThatNoOtherProgramGetsAndNobodyWaitsFor)
{
    stp_plans plans{};

    stp_plans_open(&plans);
    EXPECT_EQ(FD_CLOEXEC, fcntl(plans.wake_fd, F_GETFD));
    EXPECT_EQ(O_NONBLOCK, fcntl(plans.wake_fd, F_GETFL) & O_NONBLOCK);
    stp_plans_close(&plans);
}

TEST_F(Plans, AreDroppedIfNotAllAcknowledgeInTime)
{
    StoreThread store;
    PlanningAlone host(store, 2, kShortMs);
    const uint32_t proposal = 5;

    EXPECT_TRUE(stp_plans_propose(&host.plans, &proposal, 1, 1));
    host.Run([&] {
        EXPECT_EQ(STP_PROPOSED_DROPPED, stp_plans_proposed(&host.plans));
        stp_plans_hush(&host.plans);
    });
    EXPECT_EQ(1, store.n_requests(STP_COMPARE_SET, "verdict"));
}

// As in a program that closed its standard input.
TEST_F(Plans, MayHaveAnyDescriptor)
{
    processes::Process process([]() -> std::string {
        stp_plans plans{};
        close(0);
        stp_plans_open(&plans);
        const bool was_open = fcntl(0, F_GETFD) != -1;
        stp_plans_close(&plans);
        return std::string(was_open ? "open" : "not open") +
               (fcntl(0, F_GETFD) == -1 ? ", then closed" : ", and stays open");
    });

    EXPECT_EQ("open, then closed", process.Said());
}

} // namespace
