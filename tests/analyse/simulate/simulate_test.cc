// How well a plugin learns: the figures, on a job in virtual time.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>

extern "C" {
#include "analyse/simulate/simulate.h"
#include "analyse/simulate/simulate_story.h"
#include "report/learning/learn.h"
}

#include "analyse/told.h"
#include "support/written.h"

#include "support/mock_test.h"

using namespace mock_test;
using testing::HasSubstr;

namespace
{

constexpr const char *kMachine = STP_FIXTURES "/machines/h200x4";

// A learner.c of this strategy.
stp_learner Plugin(const char *strategy)
{
    stp_learner learner{};
    learner.kind = STP_LEARNER_PLUGIN;
    learner.name = strategy;
    learner.plugin = STP_LEARNER;
    learner.user = const_cast<char *>(strategy);
    learner.prepare = [](void *user, uint64_t, const char **, stp_error *) {
        setenv("STEPTUNE_STRATEGY", static_cast<const char *>(user), 1);
        return STP_OK;
    };
    return learner;
}

class Learn : public testing::Test
{
  protected:
    Learn()
    {
        unsetenv("NCCL_TUNER_REWARD_FILE");
        job_.machine_path = kMachine;
        job_.step = {calls_.data(), calls_.size(), 100};
        job_.n_steps = 200;
        job_.n_seeds = 3;
        job_.compute_noise = 0.05;
    }

    stp_status Try(const std::vector<stp_learner> &learners)
    {
        learned_.assign(learners.size(), {});
        err_ = {};
        return stp_learn(&job_, learners.data(), learners.size(),
                         learned_.data(), &err_);
    }

    std::vector<mock_job_call> calls_{{100, Call(ncclFuncAllGather, 4 << 20)},
                                      {100, Call(ncclFuncAllReduce, 64 << 20)},
                                      {100, Call(ncclFuncAllGather, 4 << 20)}};
    stp_learn_job job_{};
    std::vector<stp_learned> learned_;
    stp_error err_{};
};

TEST_F(Learn, NcclAloneLosesNothingAndNeverChanges)
{
    ASSERT_EQ(STP_OK, Try({{STP_LEARNER_AUTO, "AUTO"}})) << err_.text;

    const stp_learned &l = learned_[0];
    EXPECT_EQ(2u, l.n_keys);
    EXPECT_EQ(0, l.settled_median);
    EXPECT_EQ(0, l.settled_p95);
    EXPECT_EQ(0, l.lost);
    EXPECT_EQ(0, l.lost_first);
    EXPECT_EQ(6u, l.n_finals);
    EXPECT_LT(l.n_best, 6u);
    EXPECT_EQ(1, l.final.gain);
    EXPECT_EQ(3u, l.final.n_pairs);
    EXPECT_EQ(0u, l.n_worse);
    EXPECT_LT(0u, l.n_times);
    EXPECT_EQ(0u, l.n_modelled);
}

TEST_F(Learn, TellsOfEveryJobAndStopsWhereItIsTold)
{
    Told told;
    job_.progress = Told::Progress;
    job_.user = &told;

    ASSERT_EQ(STP_OK,
              Try({{STP_LEARNER_AUTO, "AUTO"}, {STP_LEARNER_ORACLE, "oracle"}}))
        << err_.text;
    EXPECT_TRUE(told.IsComplete());
    EXPECT_EQ(6u, told.calls.size()) << "3 seeds of 2 learners";

    told = {};
    told.stop_at = 2;
    EXPECT_EQ(STP_ERR_STOPPED, Try({{STP_LEARNER_AUTO, "AUTO"}}));
    EXPECT_EQ(2u, told.calls.size());
}

TEST_F(Learn, OracleHasTheBestOfEveryKeyFromTheBeginning)
{
    ASSERT_EQ(STP_OK, Try({{STP_LEARNER_ORACLE, "oracle"}})) << err_.text;

    const stp_learned &l = learned_[0];
    EXPECT_EQ(0, l.settled_p95);
    EXPECT_EQ(l.n_finals, l.n_best);
    EXPECT_LT(l.lost, -0.02);
    EXPECT_GT(l.final.low, 1.02);
}

TEST_F(Learn, SaysOfEachMessageWhatThereIsToFindAndWhoDoes)
{
    const struct {
        ncclFunc_t coll;
        size_t n_bytes;
        int proto;   // of the best arm, a ring
        double gain; // means of what was recorded
    } messages[] = {
        {ncclFuncAllGather, 4 << 20, NCCL_PROTO_LL128, 1.372},
        {ncclFuncAllReduce, 64 << 20, NCCL_PROTO_SIMPLE, 1},
    };

    ASSERT_EQ(STP_OK, Try({Plugin("try"), {STP_LEARNER_AUTO, "AUTO"}}))
        << err_.text;

    for (size_t k = 0; k < 2; k++) {
        const stp_learned_key &tried = learned_[0].keys[k];
        const stp_learned_key &own = learned_[1].keys[k];
        EXPECT_EQ(messages[k].coll, tried.coll);
        EXPECT_EQ(messages[k].n_bytes, tried.n_bytes);
        EXPECT_EQ(NCCL_ALGO_RING, tried.best.algo);
        EXPECT_EQ(messages[k].proto, tried.best.proto);
        EXPECT_EQ(0, tried.best.n_channels);
        EXPECT_NEAR(messages[k].gain, tried.gain, 0.0005);
        EXPECT_EQ(3u, tried.n_best);
        EXPECT_EQ(messages[k].gain == 1 ? 3u : 0u, own.n_best);
        EXPECT_GE(tried.searched_median, 30);
        EXPECT_EQ(0, own.searched_median);
    }
}

TEST_F(Learn, PluginThatTriesNothingIsNcclAlone)
{
    ASSERT_EQ(STP_OK, Try({Plugin("stay"), {STP_LEARNER_AUTO, "AUTO"}}))
        << err_.text;

    EXPECT_EQ(0, learned_[0].lost);
    EXPECT_EQ(learned_[1].n_best, learned_[0].n_best);
    EXPECT_EQ(1, learned_[0].final.gain);
}

// Six of each of seven arms: 42 calls of a key, and then the best.
TEST_F(Learn, PluginLearnsByTheProfilersTimesAndSettles)
{
    ASSERT_EQ(STP_OK, Try({Plugin("try"), {STP_LEARNER_ORACLE, "oracle"}}))
        << err_.text;

    const stp_learned &l = learned_[0];
    EXPECT_GE(l.settled_median, 36);
    EXPECT_LE(l.settled_p95, 42);
    EXPECT_LT(l.searched_median, l.settled_median);
    EXPECT_EQ(l.n_finals, l.n_best);
    EXPECT_GT(l.lost, learned_[1].lost);
    EXPECT_NEAR(learned_[1].final.gain, l.final.gain, 0.005);
    EXPECT_EQ(0u, l.n_worse);
}

// It chooses after 42 all-gathers, of 63 calls, by the times it has heard of.
TEST_F(Learn, HostFarAheadChoosesBeforeItHearsOfTheGpus)
{
    const struct {
        const char *name;
        mock_job_host host;
        bool captured;
        bool finds_best;
    } cases[] = {
        {"waits for each step", {0, 1, 10, 0}, false, true},
        {"6 calls ahead", {24, 4, 10, 0}, false, true},
        {"96 calls ahead", {384, 4, 1, 0}, false, false},
        {"and waits for each step", {384, 4, 1, 1}, false, true},
        {"and has long launches", {384, 4, 1000, 0}, false, true},
        {"asked at the capture alone", {384, 4, 10, 0}, true, false},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        job_.host = c.host;
        job_.captured = c.captured;
        ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;

        EXPECT_EQ(c.finds_best ? 3u : 0u, learned_[0].keys[0].n_best);
        EXPECT_EQ(c.captured, learned_[0].trials_median == 0);
    }
}

TEST_F(Learn, LossOfTheFirstStepsIsTheWholeOfAShortJob)
{
    ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;
    EXPECT_EQ(learned_[0].lost, learned_[0].lost_first);

    job_.n_steps = 2 * STP_LEARN_FIRST;
    job_.n_seeds = 1;
    ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;
    EXPECT_LT(learned_[0].lost, learned_[0].lost_first);
}

struct StoryCase {
    const char *name;
    std::string calls; // a letter an arm
    size_t settled, searched_from;
};

TEST(LearnStory, EndsAtTheLastChangeThatIsNoRetest)
{
    const std::string quiet(STP_STORY_QUIET, 'a');
    const StoryCase cases[] = {
        {"never changes", quiet, 0, 0},
        {"changes once", "aab" + quiet, 3, 2},
        {"goes back at once", "aabaa", 3, 2},
        {"waits for others", quiet + "baaabaa", 55, 50},
        {"re-test", "aab" + quiet + "bb" + quiet, 3, 2},
        {"two re-tests", "aab" + quiet + "bb" + quiet + "b" + quiet, 3, 2},
        {"tries another", "aab" + quiet + "bb" + quiet + "c" + quiet, 106, 2},
        {"tries others, slowly",
         "aab" + quiet + "b" + quiet + "c" + quiet + "d" + quiet + "d" + quiet,
         156, 2},
        {"re-test too soon", "aab" + quiet.substr(1) + "bb" + quiet, 54, 2},
        {"long re-test", "aab" + quiet + std::string(40, 'b') + quiet, 3, 2},
        {"re-test in turns", "aab" + quiet + "bbaabbaabb" + quiet, 3, 2},
        {"re-test that changes its mind", "aab" + quiet + "bbc", 55, 2},
        {"at the end in a re-test", "aab" + quiet + "b", 53, 2},
    };

    for (const StoryCase &c : cases) {
        stp_learn_story story{};
        for (char arm : c.calls) {
            mock_run run{};
            run.algo = arm;
            stp_learn_story_call(&story, &run, false);
        }
        EXPECT_EQ(c.settled, stp_learn_story_settled(&story)) << c.name;
        EXPECT_EQ(c.searched_from, story.searched_from) << c.name;
    }
}

TEST(LearnStory, ComesToWhatRanMostAtTheEnd)
{
    const std::string calls = "abab-bcbcb"; // the end from the sixth on
    stp_learn_story story{};

    for (size_t i = 0; i < calls.size(); i++) {
        mock_run run{};
        run.algo = calls[i];
        stp_learn_story_call(&story, &run, i > 4);
    }

    EXPECT_EQ('b', story.final.algo);
}

TEST(LearnStory, CountsTrialsAndSaysWhetherThereAreMoreAtTheEnd)
{
    const std::string quiet(STP_STORY_QUIET, 'a');
    const struct {
        const char *name;
        std::string calls;
        size_t n_trials;
        bool is_trying;
    } cases[] = {
        {"never changes", quiet, 0, false},
        {"one trial", "ab" + quiet, 1, false},
        {"two trials of calls", "abbabba" + quiet, 2, false},
        {"two arms", "abaca" + quiet, 2, false},
        {"changes for good", "ab" + std::string(100, 'b'), 1, false},
        {"and tries the first", "ab" + std::string(100, 'b') + "ab", 2, false},
        {"re-tests", "ab" + quiet + "b" + quiet + "b" + quiet + "ba", 4, false},
        {"tries two others at the end",
         "ab" + quiet + "b" + quiet + "b" + quiet + "caba", 5, true},
        {"tries others, slowly",
         "ab" + quiet + "b" + quiet + "c" + quiet + "d" + quiet + "e" + quiet,
         5, true},
        {"changes at the end", quiet + quiet + "b", 1, true},
    };

    for (const auto &c : cases) {
        stp_learn_story story{};
        for (char arm : c.calls) {
            mock_run run{};
            run.algo = arm;
            stp_learn_story_call(&story, &run, false);
        }
        EXPECT_EQ(c.n_trials, story.n_trials) << c.name;
        EXPECT_EQ(c.is_trying, stp_learn_story_is_trying(&story)) << c.name;
    }
}

TEST_F(Learn, EndingOnTheWorstIsCountedAsWorse)
{
    ASSERT_EQ(STP_OK, Try({Plugin("worst")})) << err_.text;

    EXPECT_EQ(3u, learned_[0].n_worse);
    EXPECT_EQ(0u, learned_[0].n_best);
    EXPECT_LT(learned_[0].final.high, 1);
    EXPECT_GT(learned_[0].lost, 0.05);
}

TEST_F(Learn, SameSeedsAreTheSameFigures)
{
    ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;
    const stp_learned first = learned_[0];
    ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;
    EXPECT_EQ(first.lost, learned_[0].lost);
    EXPECT_EQ(first.final.low, learned_[0].final.low);

    job_.seed = 100;
    ASSERT_EQ(STP_OK, Try({Plugin("try")})) << err_.text;
    EXPECT_NE(first.lost, learned_[0].lost);
}

TEST_F(Learn, ModelledTimesAreSaidToBe)
{
    job_.machine_path = STP_FIXTURES "/machines/b200x8";
    ASSERT_EQ(STP_OK, Try({{STP_LEARNER_AUTO, "AUTO"}})) << err_.text;

    EXPECT_LT(0u, learned_[0].n_times);
    EXPECT_EQ(learned_[0].n_times, learned_[0].n_modelled);
}

TEST_F(Learn, PluginThatDoesNotLoadIsAnErrorNotAnAbstention)
{
    stp_learner learner = Plugin("try");
    learner.plugin = "/nowhere/plugin.so";

    EXPECT_EQ(STP_ERR_DEVICE, Try({learner}));
    EXPECT_STREQ("'/nowhere/plugin.so' has no tuner that this NCCL would take",
                 err_.text);
}

TEST_F(Learn, MoreKeysThanItKeepsAreRefused)
{
    calls_.clear();
    for (size_t i = 1; i <= 65; i++)
        calls_.push_back({0, Call(ncclFuncAllReduce, 8 * i)});
    job_.step = {calls_.data(), calls_.size(), 0};

    EXPECT_EQ(STP_ERR_LIMIT, Try({{STP_LEARNER_AUTO, "AUTO"}}));
    EXPECT_STREQ("more than 64 kinds of collectives in a job", err_.text);
}

TEST(LearnReport, IsATableOfALineForEachLearnerAndOneForEachMessage)
{
    const stp_learner learners[] = {{STP_LEARNER_PLUGIN, "halving"},
                                    {STP_LEARNER_AUTO, "AUTO"}};
    stp_learned learned[2]{};
    learned[0] = {2,       12,     38.5, 42, 30, 36.5,
                  -0.0012, 0.0034, 3,    24, 50, {1.012, 1.011, 1.013, 5},
                  1,       false};
    learned[1] = {2, 0,    0, 0, 0, 0, 0, 0, 0, 10, 50, {1, 0, HUGE_VAL, 1},
                  0, false};
    learned[0].keys[0] = {
        ncclFuncAllGather,
        4 << 20,
        {ncclFuncAllGather, 4 << 20, NCCL_ALGO_RING, NCCL_PROTO_LL128, 16},
        1.3724,
        23,
        37.5};
    learned[0].keys[1] = {
        ncclFuncAllReduce,
        9728 << 10,
        {ncclFuncAllReduce, 9728 << 10, NCCL_ALGO_TREE, NCCL_PROTO_SIMPLE, 0},
        1,
        1,
        0};
    const std::string text = Written([&](FILE *fp) {
        return stp_print_learned(learners, learned, 2, fp, nullptr);
    });

    EXPECT_EQ(
        "strategy  keys  trials  settled  p95  searched  p95  still "
        "trying  lost %  all %  "
        "within 1% of best           final gain  worse than AUTO\n"
        "halving      2      12       38   42        30   36       3 of "
        "50   +0.34  -0.12  "
        "         24 of 50  1.012 (1.011-1.013)                1\n"
        "AUTO         2       0        0    0         0    0       0 of "
        "50   +0.00  +0.00  "
        "         10 of 50                1.000                0\n"
        "\n"
        "message         best arm       over AUTO  halving finds it\n"
        "allgather 4M    ring/ll128/16     1.372x     23 of 25 (38)\n"
        "allreduce 9.5M  tree/simple       1.000x       1 of 25 (0)\n"
        "\n"
        "halving: the last fifth of the steps, trials included, is 1.012x "
        "as fast as with NCCL's own choice (1.011 to 1.013), and slower "
        "beyond doubt in 1 of 25 jobs.\n",
        text);
}

} // namespace
