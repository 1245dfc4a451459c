// Schedules: what a call runs depends on the rules and on the calls before it.
#include <gmock/gmock.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

extern "C" {
#include "core/learn/schedule.h"
#include "core/rng.h"
#include "nccl_tuner_abi.h"
}

namespace
{

using testing::ElementsAre;
using testing::IsEmpty;

struct Close {
    void operator()(stp_schedule *schedule) const
    {
        stp_schedule_close(schedule);
    }
};

constexpr uint32_t kAll = 0x3f; // arms

stp_schedule_rules Rules(unsigned n_passes = 1)
{
    stp_schedule_rules rules{};

    rules.bandit.seed = 7;
    rules.bandit.n_passes = n_passes;
    rules.bandit.min_gain = 0.002;
    rules.of = {16, 2, nullptr};
    return rules;
}

// A key's messages.
struct Message {
    int coll;
    uint64_t n_bytes;
    uint32_t allowed = kAll;
};

const std::vector<Message> kMessages = {
    {ncclFuncAllReduce, 100 << 10},    {ncclFuncAllReduce, 1 << 20},
    {ncclFuncAllGather, 64 << 20},     {ncclFuncReduceScatter, 64 << 20},
    {ncclFuncAllReduce, 64 << 20},     {ncclFuncAllReduce, 4 << 10},
    {ncclFuncBroadcast, 1 << 10, 0x8},
};

// One rank.
class Rank
{
  public:
    explicit Rank(const stp_schedule_rules &rules)
    {
        stp_schedule *schedule = nullptr;
        EXPECT_EQ(STP_OK, stp_schedule_open(&rules, &schedule, nullptr));
        schedule_.reset(schedule);
    }

    // The next call; messages become keys as they appear.
    stp_schedule_turn Call(size_t message)
    {
        const auto [key, is_new] =
            keys_.try_emplace(message, unsigned(keys_.size()));
        const Message &m = kMessages[message];
        const stp_schedule_turn turn =
            stp_schedule_call(schedule_.get(), key->second, m.coll, m.n_bytes,
                              is_new ? m.allowed : 0);

        if (turn.news == STP_NOTE_TRIAL)
            rounds_.push_back(*stp_schedule_get_round(schedule_.get()));
        if (turn.news != STP_NOTE_NONE)
            news_.push_back(turn.news);
        if (turn.arm != 0)
            tried_.insert({message, turn.arm});
        n_calls_++;
        return turn;
    }

    // Steps of these messages.
    void Play(const std::vector<size_t> &step, size_t n_steps)
    {
        for (size_t i = 0; i < n_steps; i++)
            for (size_t message : step)
                Call(message);
    }

    std::vector<unsigned> ArmsOf(size_t message) const
    {
        std::vector<unsigned> arms;
        for (auto [m, arm] : tried_)
            if (m == message)
                arms.push_back(arm);
        return arms;
    }

    size_t CountNews(stp_note_kind news) const
    {
        return size_t(std::count(news_.begin(), news_.end(), news));
    }

    uint64_t hash() const
    {
        return stp_schedule_hash(schedule_.get());
    }

    std::map<size_t, unsigned> keys_;
    std::vector<stp_schedule_round> rounds_;
    std::vector<stp_note_kind> news_;
    std::set<std::pair<size_t, unsigned>> tried_;
    uint64_t n_calls_ = 0;
    std::unique_ptr<stp_schedule, Close> schedule_;
};

const std::vector<size_t> kStep = {0, 1, 0, 4, 2, 3, 5};
constexpr size_t kLong = 6000; // steps, in which all is tried

// ---- ranks ----

bool IsSame(const stp_schedule_turn &a, const stp_schedule_turn &b)
{
    return a.arm == b.arm && a.is_timed == b.is_timed && a.news == b.news;
}

// Jobs whose steps change, with calls that break the sequence now and then.
TEST(Schedule, RanksThatMakeTheSameCallsRunTheSameArms)
{
    size_t n_tried = 0;

    for (uint64_t seed = 0; seed < 20; seed++) {
        Rank a(Rules(2)), b(Rules(2));
        std::vector<size_t> step;

        for (uint64_t i = 0; i < 60000; i++) {
            const double draw = stp_rng_unit(seed, i);

            if (i % 20000 == 0) {
                step.clear();
                for (uint64_t k = 0; k < 1 + (seed + i) % 11; k++)
                    step.push_back(stp_rng(seed + 99, i + k) %
                                   kMessages.size());
            }
            const size_t message = draw < .0002 * double(seed % 5)
                                       ? size_t(draw * 1e9) % kMessages.size()
                                       : step[i % step.size()];
            const stp_schedule_turn turn = a.Call(message);

            ASSERT_TRUE(IsSame(turn, b.Call(message))) << seed << " " << i;
            n_tried += turn.arm != 0;
        }
    }
    EXPECT_GT(n_tried, 20u * 1000);
}

TEST(Schedule, TheHashCoversAllThatDecides)
{
    const std::vector<stp_evidence> known = {
        {ncclFuncAllReduce, {0, 1 << 20}, 2, 16, {0, 0, 0}, 8, -.1, .0001},
        {ncclFuncAllReduce, {0, 2 << 20}, 2, 16, {0, 0, 0}, 8, -.1, .0001},
        {ncclFuncAllGather, {0, 1 << 20}, 2, 16, {0, 0, 0}, 8, -.1, .0001},
        {ncclFuncAllReduce, {0, 1 << 20}, 2, 16, {1, 0, 0}, 8, -.1, .0001},
    };
    const std::vector<std::function<void(stp_schedule_rules &)>> changes = {
        [](auto &rules) { rules.bandit.seed++; },
        [](auto &rules) { rules.bandit.n_passes++; },
        [](auto &rules) { rules.same_bits = true; },
    };
    std::set<uint64_t> hashes = {Rank(Rules()).hash()};

    EXPECT_EQ(Rank(Rules()).hash(), *hashes.begin());
    for (const auto &change : changes) {
        stp_schedule_rules rules = Rules();
        change(rules);
        EXPECT_TRUE(hashes.insert(Rank(rules).hash()).second);
    }
    for (const stp_bandit_arm &arm :
         {stp_bandit_arm{1, 2, 0}, {1, 2, 4}, {1, 1, 4}}) {
        stp_schedule_rules rules = Rules();
        rules.bandit.arms[rules.bandit.n_arms++] = arm;
        EXPECT_TRUE(hashes.insert(Rank(rules).hash()).second);
    }
    for (stp_evidence e : known) {
        stp_schedule_rules rules = Rules();
        rules.evidence = {&e, 1};
        EXPECT_TRUE(hashes.insert(Rank(rules).hash()).second);
        e.n_ranks = 8; // of another shape, it decides nothing
        EXPECT_EQ(Rank(Rules()).hash(), Rank(rules).hash());
    }
}

// ---- rounds ----

constexpr unsigned kWindows = STP_TRIAL_BLOCKS * STP_BLOCK_WINDOWS;

bool Turn(const stp_schedule_round &round, unsigned mate, unsigned window)
{
    return stp_trial_is_arm(round.first_call, round.mates[mate].pattern,
                            window);
}

TEST(Schedule, EachKeyTriesEachArmInHalfOfTheWindowsOfARound)
{
    Rank rank(Rules(2));
    std::map<std::pair<unsigned, unsigned>, unsigned> n_rounds;

    rank.Play(kStep, kLong);

    for (const stp_schedule_round &round : rank.rounds_) {
        EXPECT_EQ(7u, round.sequence);
        EXPECT_EQ(35u, round.n_calls);
        for (unsigned i = 0; i < round.n; i++) {
            unsigned n_arm = 0;

            n_rounds[{round.mates[i].key, round.mates[i].arm}]++;
            for (unsigned w = 0; w < kWindows; w++)
                n_arm += Turn(round, i, w);
            EXPECT_EQ(16u, n_arm);
        }
    }
    for (auto [trial, n] : n_rounds)
        EXPECT_EQ(2u, n) << trial.first << " " << trial.second;
    EXPECT_THAT(rank.ArmsOf(0), ElementsAre(1, 2, 3, 4, 5, 6));
    EXPECT_THAT(rank.ArmsOf(4), ElementsAre(2, 3, 5, 6)); // LL is no choice
    EXPECT_THAT(rank.ArmsOf(2), ElementsAre(5, 6));       // nor are trees
    EXPECT_EQ(1u, rank.CountNews(STP_NOTE_ENDED));
    EXPECT_EQ(0u, rank.CountNews(STP_NOTE_BROKE));
}

// Over the 8 blocks no key's turns look like another's.
TEST(Schedule, KeysThatShareARoundTurnInOrthogonalPatterns)
{
    Rank rank(Rules());
    size_t n_shared = 0;

    rank.Play(kStep, kLong);
    for (const stp_schedule_round &round : rank.rounds_)
        for (unsigned i = 0; i < round.n; i++)
            for (unsigned j = 0; j < i; j++) {
                unsigned n_alike = 0;

                for (unsigned w = 0; w < kWindows; w++)
                    n_alike += Turn(round, i, w) == Turn(round, j, w);
                EXPECT_EQ(kWindows / 2, n_alike);
                EXPECT_NE(round.mates[i].key, round.mates[j].key);
                n_shared++;
            }
    EXPECT_GT(n_shared, 20u);
}

// Each call runs what the round says of its window, and each window is timed.
TEST(Schedule, ACallRunsTheArmOfItsKeyInItsWindow)
{
    Rank rank(Rules());
    std::set<uint64_t> timed;

    for (size_t i = 0; i < 7 * 3000; i++) {
        const size_t message = kStep[i % kStep.size()];
        const uint32_t left = stp_schedule_next_timed(rank.schedule_.get());
        const stp_schedule_turn turn = rank.Call(message);
        unsigned expected = 0;

        EXPECT_EQ(left == 0, turn.is_timed) << i;
        if (turn.is_timed)
            timed.insert(i);
        if (rank.rounds_.empty() || i < rank.rounds_.back().first_call) {
            EXPECT_EQ(0u, turn.arm);
            continue;
        }
        const stp_schedule_round &round = rank.rounds_.back();
        const uint64_t at = i - round.first_call;
        for (unsigned m = 0; m < round.n; m++)
            if (at / round.n_calls < kWindows &&
                round.mates[m].key == rank.keys_[message] &&
                Turn(round, m, unsigned(at / round.n_calls)))
                expected = round.mates[m].arm;
        ASSERT_EQ(expected, turn.arm) << i;
        EXPECT_EQ(turn.is_timed,
                  at % round.n_calls == 0 && at / round.n_calls <= kWindows);
    }
    EXPECT_GT(timed.size(), 100u);
}

// ---- what is tried ----

TEST(Schedule, LeavesOutWhatIsHopelessOrNotAllowed)
{
    const std::vector<unsigned> all = {1, 2, 3, 4, 5, 6}, rings = {5, 6};
    const struct {
        const char *name;
        std::function<void(stp_schedule_rules &, stp_evidence &)> change;
        std::vector<unsigned> of_0, of_2; // arms of kMessages[0] and [2]
    } cases[] = {
        {"all", [](auto &, auto &e) { e.n_nodes = 1; }, all, rings},
        {"sums keep their bits",
         [](auto &rules, auto &) { rules.same_bits = true; },
         {},
         rings},
        {"an arm lost by far", [](auto &, auto &) {}, {1, 2, 4, 5, 6}, rings},
        {"for want of blocks it is not sure",
         [](auto &, auto &e) { e.n_blocks = 7; }, all, rings},
        {"nor within two errors", [](auto &, auto &e) { e.log_ss = 8; }, all,
         rings},
        {"nor where it gained", [](auto &, auto &e) { e.log_gain = .1; }, all,
         rings},
        {"of other messages", [](auto &, auto &e) { e.bytes.max = 1024; }, all,
         rings},
        {"of another collective",
         [](auto &, auto &e) { e.coll = ncclFuncAllGather; }, all, rings},
        {"the user's arms",
         [](auto &rules, auto &) {
             rules.bandit.arms[0] = {NCCL_ALGO_NVLS, NCCL_PROTO_SIMPLE, 0};
             rules.bandit.arms[1] = {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 4};
             rules.bandit.n_arms = 2;
         },
         {1, 2},
         {1}},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_evidence e = {ncclFuncAllReduce,
                          {0, 1 << 30},
                          2,
                          16,
                          {NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
                          8,
                          -.2,
                          .001};
        stp_schedule_rules rules = Rules();

        c.change(rules, e);
        rules.evidence = {&e, 1};
        Rank rank(rules);
        rank.Play(kStep, kLong);
        EXPECT_EQ(c.of_0, rank.ArmsOf(0));
        EXPECT_EQ(c.of_2, rank.ArmsOf(2));
    }
}

TEST(Schedule, LeavesOutWhatNcclRulesOutForTheFirstCall)
{
    Rank rank(Rules());

    rank.Play({0, 6}, kLong);
    EXPECT_THAT(rank.ArmsOf(6), ElementsAre(4));
}

// ---- sequences ----

TEST(Schedule, TriesNothingWhereCallsRepeatNothing)
{
    Rank rank(Rules());

    for (uint64_t i = 0; i < 100000; i++)
        rank.Call(stp_rng(3, i) % kMessages.size());
    EXPECT_THAT(rank.tried_, IsEmpty());
    EXPECT_THAT(rank.news_, IsEmpty());
}

// A call more than usual breaks the block it is in, and no other.
TEST(Schedule, ACallTooManyBreaksABlock)
{
    Rank rank(Rules());

    while (rank.rounds_.empty())
        rank.Play(kStep, 1);
    const uint64_t first = rank.rounds_[0].first_call;
    rank.Play(kStep, 50); // into the second block
    rank.Call(1);
    rank.Play(kStep, kLong);
    EXPECT_EQ(1u, rank.CountNews(STP_NOTE_BROKE));
    EXPECT_LT(first + 4 * 35, first + 50 * 7);
    EXPECT_EQ(1u, rank.CountNews(STP_NOTE_WINDOW));
    EXPECT_THAT(rank.ArmsOf(0), ElementsAre(1, 2, 3, 4, 5, 6));
}

// Jobs of which one logs and evaluates, and the other's step has a run of equal
// calls, which repeats and is a part of it.
TEST(Schedule, TriesAllWhereCallsComeBetweenOften)
{
    std::vector<size_t> step(240, 0);
    Rank logs(Rules()), runs(Rules());

    step.insert(step.end(), {1, 4});
    runs.Play(step, 400);
    for (unsigned i = 0; i < 60000; i++) {
        logs.Play({0, 1, 0, 4}, 1);
        if (i % 60 == 0)
            logs.Call(5);
        if (i % 137 == 0)
            logs.Play({2}, 6);
    }
    for (const Rank *rank : {&logs, &runs}) {
        for (size_t message : {0, 1})
            EXPECT_THAT(rank->ArmsOf(message), ElementsAre(1, 2, 3, 4, 5, 6));
        EXPECT_THAT(rank->ArmsOf(4), ElementsAre(2, 3, 5, 6));
    }
    EXPECT_EQ(1u, logs.CountNews(STP_NOTE_ENDED));
    EXPECT_EQ(2u, runs.CountNews(STP_NOTE_ENDED)) << "the run first";
}

// A round in most of whose blocks other calls came is made again.
TEST(Schedule, ARoundThatWasBrokenIsMadeAgain)
{
    Rank rank(Rules());

    while (rank.rounds_.empty())
        rank.Play(kStep, 1);
    for (int block = 0; block < 6; block++) {
        rank.Play(kStep, 19);
        rank.Call(1);
    }
    rank.Play(kStep, kLong);
    ASSERT_GE(rank.rounds_.size(), 2u);
    std::map<std::pair<unsigned, unsigned>, unsigned> n_rounds;
    for (const stp_schedule_round &round : rank.rounds_)
        for (unsigned i = 0; i < round.n; i++)
            n_rounds[{round.mates[i].key, round.mates[i].arm}]++;
    for (unsigned i = 0; i < rank.rounds_[0].n; i++)
        EXPECT_EQ(2u, (n_rounds[{rank.rounds_[0].mates[i].key,
                                 rank.rounds_[0].mates[i].arm}]));
    EXPECT_EQ(2u, rank.CountNews(STP_NOTE_WINDOW));
    EXPECT_EQ(1u, rank.CountNews(STP_NOTE_ENDED));
}

} // namespace
