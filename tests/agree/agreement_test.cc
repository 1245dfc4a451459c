// Tests of the agreement between the ranks of a communicator, on fingerprints,
// proposals and times: as handles, threads and processes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

extern "C" {
#include "agree/agreement.h"
#include "agree/board.h"
}

#include "agree/instant_sleeps.h"
#include "agree/storm_jobs.h"
#include "nccl_tuner_abi.h"
#include "support/processes.h"

namespace
{

constexpr int64_t kFrozen = -1;

class Agreement : public testing::Test
{
  protected:
    ~Agreement() override
    {
        for (stp_agreement *rank : ranks_)
            stp_agreement_leave(rank);
    }

    // One that needs all ranks, and differs in its policy.
    static stp_agreement_rank Rank(uint64_t id, size_t n_ranks, uint64_t policy,
                                   bool proposes)
    {
        stp_agreement_rank rank{};
        rank.comm_id = id;
        rank.n_ranks = rank.n_needed = n_ranks;
        rank.number = -1;
        rank.fingerprint.part[STP_FINGERPRINT_POLICY] = policy;
        rank.proposes = proposes;
        return rank;
    }

    stp_agreement *Join(size_t n_ranks, uint64_t policy = 7,
                        bool proposes = true)
    {
        return JoinAs(Rank(id_, n_ranks, policy, proposes));
    }

    stp_agreement *JoinAs(const stp_agreement_rank &rank)
    {
        stp_agreement *agreement = nullptr;
        EXPECT_EQ(STP_OK, stp_agreement_join(&rank, &agreement, &err_))
            << err_.text;
        ranks_.push_back(agreement);
        return agreement;
    }

    void Leave(stp_agreement *agreement)
    {
        stp_agreement_leave(agreement);
        ranks_.erase(std::find(ranks_.begin(), ranks_.end(), agreement));
    }

    void LeaveAll()
    {
        while (!ranks_.empty())
            Leave(ranks_.front());
    }

    static bool MayDecide(stp_agreement *agreement, unsigned wait_ms = 0)
    {
        return agreement->ops->compare(agreement, wait_ms);
    }

    static std::string Explain(const stp_agreement *agreement)
    {
        char text[512];
        agreement->ops->explain(agreement, text, sizeof(text));
        return text;
    }

    static bool IsComplete(stp_agreement *agreement)
    {
        return agreement->ops->is_complete(agreement);
    }

    static bool Propose(stp_agreement *agreement, uint32_t proposal)
    {
        return agreement->ops->propose(agreement, proposal);
    }

    static bool IsPending(stp_agreement *agreement)
    {
        return agreement->ops->is_pending(agreement);
    }

    static int64_t Next(stp_agreement *agreement)
    {
        uint32_t proposal = 0;
        const bool goes_on = agreement->ops->next_epoch(agreement, &proposal);
        return goes_on ? static_cast<int64_t>(proposal) : kFrozen;
    }

    std::string Path(size_t n_ranks) const
    {
        char name[96];
        snprintf(name, sizeof(name), "/dev/shm/steptune-%u-%016llx-%zu-6",
                 static_cast<unsigned>(geteuid()),
                 static_cast<unsigned long long>(id_), n_ranks);
        return name;
    }

    bool Exists(size_t n_ranks) const
    {
        struct stat st;
        return lstat(Path(n_ranks).c_str(), &st) == 0;
    }

    const uint64_t id_ = std::random_device()() * uint64_t{0x100000001} + 1;
    stp_error err_{};
    std::vector<stp_agreement *> ranks_;
};

// ---- joining and leaving ----

TEST_F(Agreement, LeavesNoNameBehindTheLastRankOfAHost)
{
    // Two of four ranks are on this host.
    stp_agreement *a = Join(4);
    stp_agreement *b = Join(4);
    Leave(a);
    EXPECT_TRUE(Exists(4));

    Leave(b);

    EXPECT_FALSE(Exists(4));
}

TEST_F(Agreement, DoesNotRemoveTheNameOfALaterCommunicator)
{
    // A second communicator with the id of the first, as two shrinks of one
    // parent have.
    stp_agreement *a = Join(1);
    ASSERT_FALSE(Exists(1));
    const std::string other = "/dev/shm/" + std::to_string(id_);
    const int later = open(other.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    struct flock lock = {};
    lock.l_type = F_RDLCK; // it lives: other processes remove dead ones
    ASSERT_EQ(0, fcntl(later, F_OFD_SETLK, &lock));
    ASSERT_EQ(0, rename(other.c_str(), Path(1).c_str()));

    Leave(a);

    EXPECT_TRUE(Exists(1));
    close(later);
    EXPECT_TRUE(MayDecide(Join(1, 8)));
}

// The kernel allows a process 65,530 mappings.
TEST_F(Agreement, TakesMoreRanksThanThereAreMappings)
{
    constexpr size_t kRanks = 70000;

    for (size_t r = 0; r < kRanks; r++)
        Join(kRanks, r == 50000 ? 8 : 7, false);

    EXPECT_FALSE(MayDecide(ranks_[0]));
    EXPECT_FALSE(Exists(kRanks));
    for (stp_agreement *rank : ranks_)
        stp_agreement_leave(rank);
    ranks_.clear();
}

TEST_F(Agreement, RefusesMoreRanksThanItHasPlacesFor)
{
    stp_agreement *agreement = nullptr;

    for (size_t n_ranks : {size_t{0}, size_t{1025}}) {
        const stp_agreement_rank rank = Rank(id_, n_ranks, 7, true);
        EXPECT_EQ(STP_ERR_LIMIT,
                  stp_agreement_shm.join(&rank, &agreement, &err_));
        EXPECT_EQ(std::to_string(n_ranks) +
                      " ranks cannot agree on a host: expected 1 to 1024",
                  err_.text);
    }
    EXPECT_EQ(nullptr, agreement);
    EXPECT_FALSE(Join(1025)->proposes); // but it compares fingerprints
    LeaveAll();
    for (int i = 0; i < 1024; i++)
        Join(1024, 7, true);
    EXPECT_TRUE(IsComplete(ranks_[0]));
    for (stp_agreement *rank : ranks_)
        ASSERT_EQ(0, Next(rank));
}

// A file may grow so far here, as where /dev/shm is nearly full.
TEST_F(Agreement, HasProposalsWhereThereIsRoomForThem)
{
    for (const auto &[room, proposes] : {std::pair<rlim_t, bool>{1 << 20, true},
                                         {16384, true},
                                         {1024, false}}) {
        processes::Process process([this, room = room]() -> std::string {
            const struct rlimit limit = {room, room};
            setrlimit(RLIMIT_FSIZE, &limit);
            stp_agreement *a = Join(2, 7, true);
            stp_agreement *b = Join(2, 8, false);
            return std::to_string(a->proposes) +
                   (MayDecide(a) || IsComplete(b) ? " agree" : " differ");
        });
        EXPECT_EQ(std::to_string(proposes) + " differ", process.Said());
    }
}

// ---- fingerprints ----

TEST_F(Agreement, ShowsAllRanksWhetherFingerprintsDiffer)
{
    for (uint64_t last : {7, 8}) {
        for (uint64_t policy : {uint64_t{7}, uint64_t{7}, last})
            Join(3, policy, last != 7);

        for (stp_agreement *rank : ranks_)
            EXPECT_EQ(last == 7, MayDecide(rank));
        LeaveAll();
    }
}

TEST_F(Agreement, ComparesWhatDecidesAndNotTheFileItCameFrom)
{
    for (int part = 0; part < STP_N_FINGERPRINT; part++) {
        SCOPED_TRACE(part);
        stp_agreement_rank odd = Rank(id_, 2, 7, false);
        odd.fingerprint.part[part] += 1;
        stp_agreement *a = Join(2, 7, false);
        stp_agreement *b = JoinAs(odd);

        EXPECT_EQ(part == STP_FINGERPRINT_FILE, MayDecide(a));
        EXPECT_EQ(part == STP_FINGERPRINT_FILE, MayDecide(b));
        EXPECT_EQ(part == STP_FINGERPRINT_LOWER, a->is_apart);
        EXPECT_EQ(part == STP_FINGERPRINT_LOWER, b->is_apart);
        LeaveAll();
    }
}

TEST_F(Agreement, RefusesWhereARankIsMissingAlsoIfItJoinsLater)
{
    stp_agreement *early = Join(2);

    EXPECT_FALSE(MayDecide(early, 1));
    EXPECT_EQ("1 of 2 ranks did not join on this host (no Steptune plugin, "
              "another user or /dev/shm, or as the rank's log says)",
              Explain(early));
    stp_agreement *late = Join(2);

    EXPECT_FALSE(MayDecide(early));
    EXPECT_FALSE(MayDecide(late));
    EXPECT_EQ("a rank joined too late", Explain(late));
}

TEST_F(Agreement, WaitsAsLongAsItIsToldForARankThatDoesNotJoin)
{
    for (unsigned ms : {0, 1, 5}) {
        const instant_sleeps::InstantSleeps sleeps;

        EXPECT_FALSE(MayDecide(Join(2), ms));
        EXPECT_EQ(std::vector<int64_t>(ms, 1), sleeps.ms);
        EXPECT_FALSE(MayDecide(ranks_[0], ms)) << "it is known";
        EXPECT_EQ(ms, sleeps.ms.size());
        LeaveAll();
    }
}

TEST_F(Agreement, WaitsForNobodyOnceAllHaveJoined)
{
    const instant_sleeps::InstantSleeps sleeps;
    Join(2);

    EXPECT_TRUE(MayDecide(Join(2), 5));
    EXPECT_TRUE(sleeps.ms.empty());
}

TEST_F(Agreement, NeedsNoMoreRanksThanItIsTold)
{
    stp_agreement_rank rank = Rank(id_, 4, 7, false);
    rank.n_needed = 2;

    stp_agreement *first = JoinAs(rank);
    stp_agreement *second = JoinAs(rank);

    EXPECT_TRUE(MayDecide(first));
    EXPECT_TRUE(MayDecide(second));
}

TEST_F(Agreement, WaitsForARankThatJoinsInTime)
{
    stp_agreement *first = Join(2);
    stp_agreement *second = nullptr;
    const stp_agreement_rank rank = Rank(id_, 2, 7, true);
    std::thread other([&] {
        stp_error err;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        stp_agreement_join(&rank, &second, &err);
    });

    EXPECT_TRUE(MayDecide(first, 60000));

    other.join();
    ranks_.push_back(second);
    EXPECT_TRUE(MayDecide(second));
}

// Two shrinks of one parent have the same commId.
TEST_F(Agreement, IsAnotherForTheNextCommunicatorOfTheSameId)
{
    stp_agreement *older[] = {Join(2, 7), Join(2, 8)};
    EXPECT_TRUE(Propose(older[0], 5));
    EXPECT_EQ(5, Next(older[0]));
    stp_agreement *newer[] = {Join(2, 9), Join(2, 9)};

    EXPECT_FALSE(MayDecide(older[0]));
    EXPECT_TRUE(MayDecide(newer[0]));
    EXPECT_TRUE(newer[0]->observes);
    EXPECT_TRUE(IsComplete(newer[1]));
    EXPECT_EQ(0, Next(newer[1]));
    EXPECT_EQ(5, Next(older[1]));
}

TEST_F(Agreement, ComparesThreadsThatJoinAtOnce)
{
    for (int repeat = 0; repeat < 50; repeat++) {
        ranks_.resize(8);
        std::vector<std::thread> threads;
        for (size_t r = 0; r < 8; r++)
            threads.emplace_back([&, r] {
                const stp_agreement_rank rank =
                    Rank(id_ + 2 * static_cast<uint64_t>(repeat), 8,
                         r == 5 ? UINT64_C(9) : 7, r % 2);
                stp_error err;
                stp_agreement_join(&rank, &ranks_[r], &err);
            });
        for (std::thread &t : threads)
            t.join();

        for (stp_agreement *rank : ranks_) {
            ASSERT_NE(nullptr, rank);
            EXPECT_FALSE(MayDecide(rank));
            EXPECT_FALSE(IsComplete(rank));
        }
        LeaveAll();
    }
}

// ---- who takes part ----

TEST_F(Agreement, HasOneObserver)
{
    for (bool is_first : {true, false, false}) {
        EXPECT_EQ(is_first, Join(3)->observes);
    }
}

TEST_F(Agreement, IsCompleteIfAllRanksTakePartInProposals)
{
    for (bool does_last : {true, false}) {
        Join(3);
        Join(3);
        for (stp_agreement *rank : ranks_)
            EXPECT_FALSE(IsComplete(rank));
        EXPECT_TRUE(Exists(3));
        Join(3, 7, does_last);

        for (stp_agreement *rank : ranks_)
            EXPECT_EQ(does_last, IsComplete(rank));
        EXPECT_FALSE(Exists(3));
        LeaveAll();
    }
}

// ---- proposals ----

TEST_F(Agreement, GivesEveryRankTheSameInItsOwnTime)
{
    stp_agreement *a = Join(2);
    stp_agreement *b = Join(2);

    EXPECT_EQ(0, Next(a));
    EXPECT_TRUE(Propose(a, 5));
    EXPECT_EQ(5, Next(a));
    EXPECT_EQ(0, Next(a));
    EXPECT_EQ(0, Next(b));
    EXPECT_TRUE(Propose(a, 0x7fffffff));
    EXPECT_EQ(5, Next(b));
    EXPECT_EQ(0, Next(b));
    EXPECT_EQ(0x7fffffff, Next(b));
    EXPECT_EQ(0x7fffffff, Next(a));
    EXPECT_EQ(0, Next(a));
}

TEST_F(Agreement, TakesNoProposalOutOfRange)
{
    stp_agreement *a = Join(1);

    for (uint32_t proposal : {UINT32_C(0), UINT32_C(0x80000000), UINT32_MAX})
        EXPECT_FALSE(Propose(a, proposal)) << proposal;

    EXPECT_FALSE(IsPending(a));
    EXPECT_EQ(0, Next(a));
}

TEST_F(Agreement, IsFrozenForAllWhenARankIsALapBehind)
{
    stp_agreement *a = Join(2);
    stp_agreement *b = Join(2);

    for (int i = 0; i < STP_BOARD_SLOTS; i++)
        ASSERT_EQ(0, Next(a)) << i;
    ASSERT_TRUE(Propose(a, 5));
    for (int i = 0; i < 3; i++)
        EXPECT_EQ(kFrozen, Next(a));

    for (int i = 0; i < STP_BOARD_SLOTS; i++)
        ASSERT_EQ(0, Next(b)) << i;
    for (int i = 0; i < 100; i++)
        EXPECT_EQ(kFrozen, Next(b));
    EXPECT_TRUE(IsPending(b));
}

// The jobs follow each other under one id, so the next would find what a killed
// one leaves behind.
TEST_F(Agreement, IsTheSameForThreadsAndProcessesOfWhichSomeAreKilled)
{
    for (storm::Kind kind : {storm::Kind::kThreads, storm::Kind::kProcesses,
                             storm::Kind::kMixed}) {
        for (uint64_t seed = 0; seed < 25; seed++) {
            const storm::Job job =
                storm::RandomJob(seed, id_, kind, seed % 2 == 0);
            const storms::Outcome outcome = storm::Run(job);
            ASSERT_EQ("", outcome.wrong) << "seed " << seed;
            EXPECT_TRUE(job.kills || !Exists(job.n_ranks));
        }
    }
}

} // namespace
