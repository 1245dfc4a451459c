// The environment of the learning plugin.
#include <gmock/gmock.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

extern "C" {
#include "plugin/online/online_settings.h"
}

#include "nccl_tuner_abi.h"

namespace
{

const char *const variables[] = {
    "STEPTUNE_STRATEGY",    "STEPTUNE_OBJECTIVE", "STEPTUNE_ARMS",
    "STEPTUNE_BITS",        "NCCL_TUNER_EPS",     "NCCL_TUNER_REWARD_FILE",
    "STEPTUNE_MIN_GAIN",    "STEPTUNE_BUDGET",    "STEPTUNE_WARM_START",
    "STEPTUNE_FREEZE",      "STEPTUNE_LEARNED",   "STEPTUNE_JOURNAL",
    "STEPTUNE_INLINE",      "STEPTUNE_THOROUGH",  "STEPTUNE_TRACE",
    "STEPTUNE_TRACE_CALLS",

    "STEPTUNE_EVIDENCE",    "STEPTUNE_METRICS",
};

class OnlineSettings : public testing::Test
{
  protected:
    OnlineSettings() : set_(std::make_unique<stp_online_settings>())
    {
        for (const char *name : variables)
            unsetenv(name);
    }
    ~OnlineSettings() override
    {
        for (const char *name : variables)
            unsetenv(name);
    }

    stp_status Read()
    {
        *set_ = stp_online_settings();
        return stp_online_settings_read(77, set_.get(), &err_);
    }

    std::unique_ptr<stp_online_settings> set_;
    stp_error err_{};
};

TEST_F(OnlineSettings, HasDefaults)
{
    ASSERT_EQ(STP_OK, Read());

    EXPECT_EQ(STP_STRATEGY_HALVING, set_->rules.bandit.strategy);
    EXPECT_EQ(STP_LEARN_GPU, set_->rules.objective);
    EXPECT_EQ(0.002, set_->rules.bandit.min_gain);
    EXPECT_EQ(2.5, set_->rules.bandit.prune);
    EXPECT_EQ(0.01, set_->rules.bandit.budget);
    EXPECT_EQ(1000u, set_->rules.bandit.retest_calls);
    EXPECT_EQ(8u, set_->rules.bandit.confirm_blocks);
    EXPECT_EQ(300e3, set_->rules.bandit.confirm_us);
    EXPECT_EQ(0u, set_->rules.bandit.n_arms);
    EXPECT_FALSE(set_->rules.bandit.persists);
    EXPECT_FALSE(set_->is_frozen);
    EXPECT_FALSE(set_->is_inline);
    EXPECT_STREQ("/tmp/nccl_tuner_rewards_77.log", set_->rewards);
    EXPECT_STREQ("steptune.learned.conf", set_->learned);
    EXPECT_STREQ("", set_->journal);
    EXPECT_STREQ("", set_->warm_start);
    EXPECT_STREQ("", set_->trace);
    EXPECT_EQ(1000000u, set_->trace_calls);
}

TEST_F(OnlineSettings, AreReadEachIntoItsPlace)
{
    const std::pair<const char *, const char *> values[] = {
        {"NCCL_TUNER_EPS", "0.125"},     {"STEPTUNE_MIN_GAIN", "0.25"},
        {"STEPTUNE_BUDGET", "0.5"},      {"STEPTUNE_INLINE", "1"},
        {"STEPTUNE_TRACE_CALLS", "90"},  {"NCCL_TUNER_REWARD_FILE", "rewards"},
        {"STEPTUNE_WARM_START", "warm"}, {"STEPTUNE_LEARNED", "learned"},
        {"STEPTUNE_JOURNAL", "journal"}, {"STEPTUNE_EVIDENCE", "evidence"},
        {"STEPTUNE_TRACE", "trace"},     {"STEPTUNE_METRICS", "metrics"},
    };

    for (auto [name, value] : values)
        setenv(name, value, 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;

    const stp_bandit_rules &bandit = set_->rules.bandit;
    EXPECT_EQ(0.125, bandit.epsilon);
    EXPECT_EQ(0.25, bandit.min_gain);
    EXPECT_EQ(0.5, bandit.budget);
    EXPECT_EQ(1000, bandit.confirm_us);
    EXPECT_TRUE(set_->is_inline);
    EXPECT_FALSE(set_->is_frozen);
    EXPECT_EQ(90u, set_->trace_calls);
    EXPECT_STREQ("rewards", set_->rewards);
    EXPECT_STREQ("warm", set_->warm_start);
    EXPECT_STREQ("learned", set_->learned);
    EXPECT_STREQ("journal", set_->journal);
    EXPECT_STREQ("evidence", set_->evidence);
    EXPECT_STREQ("trace", set_->trace);
    EXPECT_STREQ("metrics", set_->metrics);
}

TEST_F(OnlineSettings, EpsilonIsTheSeedsDesign)
{
    setenv("STEPTUNE_STRATEGY", "epsilon", 1);
    setenv("NCCL_TUNER_EPS", "0.25", 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;

    EXPECT_EQ(STP_LEARN_FILE, set_->rules.objective);
    EXPECT_EQ(0.25, set_->rules.bandit.epsilon);
    ASSERT_EQ(3u, set_->rules.bandit.n_arms);
    EXPECT_EQ(NCCL_ALGO_TREE, set_->rules.bandit.arms[0].algo);
    EXPECT_EQ(NCCL_PROTO_SIMPLE, set_->rules.bandit.arms[0].proto);
}

TEST_F(OnlineSettings, ARewardFileIsTheObjectiveWhereItIsSet)
{
    setenv("NCCL_TUNER_REWARD_FILE", "/tmp/rewards", 1);
    ASSERT_EQ(STP_OK, Read());
    EXPECT_EQ(STP_LEARN_FILE, set_->rules.objective);
    EXPECT_STREQ("/tmp/rewards", set_->rewards);

    EXPECT_EQ(STP_STRATEGY_EPSILON, set_->rules.bandit.strategy);

    setenv("STEPTUNE_OBJECTIVE", "gpu", 1);
    ASSERT_EQ(STP_OK, Read());
    EXPECT_EQ(STP_LEARN_GPU, set_->rules.objective);
    EXPECT_EQ(STP_STRATEGY_HALVING, set_->rules.bandit.strategy);
}

TEST_F(OnlineSettings, RefusesAStrategyThatDoesNotTakeTheObjective)
{
    setenv("STEPTUNE_STRATEGY", "epsilon", 1);
    setenv("STEPTUNE_OBJECTIVE", "gpu", 1);
    EXPECT_EQ(STP_ERR_SYNTAX, Read());
    EXPECT_STREQ("STEPTUNE_STRATEGY is 'epsilon', expected epsilon with the "
                 "objective file, halving with gpu",
                 err_.text);
    setenv("STEPTUNE_STRATEGY", "halving", 1);
    setenv("STEPTUNE_OBJECTIVE", "file", 1);
    EXPECT_EQ(STP_ERR_SYNTAX, Read());
}

TEST_F(OnlineSettings, ReadsArms)
{
    setenv("STEPTUNE_ARMS", "tree/simple,ring/ll128/16", 1);
    setenv("STEPTUNE_STRATEGY", "epsilon", 1); // which has others
    ASSERT_EQ(STP_OK, Read());

    ASSERT_EQ(2u, set_->rules.bandit.n_arms);
    EXPECT_EQ(NCCL_ALGO_TREE, set_->rules.bandit.arms[0].algo);
    EXPECT_EQ(0, set_->rules.bandit.arms[0].n_channels);
    EXPECT_EQ(NCCL_ALGO_RING, set_->rules.bandit.arms[1].algo);
    EXPECT_EQ(NCCL_PROTO_LL128, set_->rules.bandit.arms[1].proto);
    EXPECT_EQ(16, set_->rules.bandit.arms[1].n_channels);

    setenv("STEPTUNE_ARMS", "ring/ll/64", 1);
    ASSERT_EQ(STP_OK, Read());
    ASSERT_EQ(1u, set_->rules.bandit.n_arms);
    EXPECT_EQ(64, set_->rules.bandit.arms[0].n_channels);
}

TEST_F(OnlineSettings, RefusesWhatMeansNothing)
{
    const std::string arms = "arms such as tree/simple,ring/ll128/16, at most "
                             "31";
    const struct {
        const char *name;
        const char *value;
        const char *text;
    } cases[] = {
        {"STEPTUNE_STRATEGY", "ucb", "halving or epsilon"},
        {"STEPTUNE_OBJECTIVE", "time", "auto, gpu or file"},
        {"STEPTUNE_BITS", "other", "same"},
        {"NCCL_TUNER_EPS", "1.5", "a number from 0 to 1"},
        {"NCCL_TUNER_EPS", "nan", "a number from 0 to 1"},
        {"NCCL_TUNER_EPS", "0.1x", "a number from 0 to 1"},
        {"STEPTUNE_MIN_GAIN", "2%", "a number from 0 to 1"},
        {"STEPTUNE_MIN_GAIN", "1.5", "a number from 0 to 1"},
        {"STEPTUNE_BUDGET", "2", "a number from 0 to 1"},
        {"STEPTUNE_FREEZE", "yes", "a number from 0 to 1"},
        {"STEPTUNE_FREEZE", "2", "a number from 0 to 1"},
        {"STEPTUNE_INLINE", "2", "a number from 0 to 1"},
        {"STEPTUNE_THOROUGH", "2", "a number from 0 to 1"},
        {"STEPTUNE_MIN_GAIN", "-1", "a number from 0 to 1"},
        {"STEPTUNE_TRACE_CALLS", "-5", "a number from 0 to 1000000000"},
        {"STEPTUNE_TRACE_CALLS", " 5", "a number from 0 to 1000000000"},
        {"STEPTUNE_TRACE_CALLS", "+5", "a number from 0 to 1000000000"},
        {"STEPTUNE_TRACE_CALLS", "1000000001", "a number from 0 to 1000000000"},
        {"STEPTUNE_TRACE_CALLS", "18446744073709551616",
         "a number from 0 to 1000000000"},
        {"STEPTUNE_ARMS", "ring", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll,", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/65", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/0", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/1x", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/+1", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/1:", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/ll/4294967297", arms.c_str()},
        {"STEPTUNE_ARMS", "ring/LL", arms.c_str()},
        {"STEPTUNE_ARMS", "Ring/ll", arms.c_str()},
    };

    for (const auto &c : cases) {
        setenv(c.name, c.value, 1);
        EXPECT_EQ(STP_ERR_SYNTAX, Read()) << c.name << "=" << c.value;
        EXPECT_EQ(std::string(c.name) + " is '" + c.value + "', expected " +
                      c.text,
                  err_.text);
        unsetenv(c.name);
    }
}

TEST_F(OnlineSettings, ReachToTheEndsOfTheirRanges)
{
    setenv("STEPTUNE_TRACE_CALLS", "1000000000", 1);
    setenv("STEPTUNE_BUDGET", "1", 1);
    setenv("STEPTUNE_FREEZE", "1", 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;

    EXPECT_EQ(1000000000u, set_->trace_calls);
    EXPECT_EQ(1.0, set_->rules.bandit.budget);
    EXPECT_TRUE(set_->is_frozen);
    for (unsigned digit = 0; digit < 10; digit++) {
        setenv("STEPTUNE_TRACE_CALLS", std::to_string(digit).c_str(), 1);
        ASSERT_EQ(STP_OK, Read()) << err_.text;
        EXPECT_EQ(digit, set_->trace_calls);
    }
}

TEST_F(OnlineSettings, AThoroughSearchTriesAllAtAnyCost)
{
    setenv("STEPTUNE_THOROUGH", "1", 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;

    const stp_bandit_rules &bandit = set_->rules.bandit;
    EXPECT_EQ(0, bandit.prune);
    EXPECT_EQ(1, bandit.budget);
    EXPECT_EQ(1000000u, bandit.confirm_blocks);
    EXPECT_EQ(300e3, bandit.confirm_us);
    EXPECT_TRUE(bandit.persists);
}

TEST_F(OnlineSettings, TakesAsManyArmsAsABanditHasBesideNcclsOwn)
{
    std::string arms = "ring/ll/1";
    for (unsigned n = 2; n < STP_BANDIT_ARMS; n++)
        arms += ",ring/ll/" + std::to_string(n);
    setenv("STEPTUNE_ARMS", arms.c_str(), 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;
    EXPECT_EQ(STP_BANDIT_ARMS - 1u, set_->rules.bandit.n_arms);

    setenv("STEPTUNE_ARMS", (arms + ",ring/ll/64").c_str(), 1);
    EXPECT_EQ(STP_ERR_SYNTAX, Read());
}

TEST_F(OnlineSettings, RefusesAPathThatIsTooLong)
{
    const std::string longest(STP_PATH_SIZE - 1, 'p');

    setenv("STEPTUNE_JOURNAL", longest.c_str(), 1);
    ASSERT_EQ(STP_OK, Read()) << err_.text;
    EXPECT_EQ(longest, set_->journal);
    setenv("STEPTUNE_JOURNAL", (longest + "p").c_str(), 1);
    EXPECT_EQ(STP_ERR_LIMIT, Read());
    EXPECT_EQ("STEPTUNE_JOURNAL has " + std::to_string(STP_PATH_SIZE) +
                  " bytes, expected fewer than " +
                  std::to_string(STP_PATH_SIZE),
              err_.text);
}

TEST_F(OnlineSettings, ThePolicyThatDecidesFirstIsTheWarmStartIfThereIsOne)
{
    const struct {
        const char *warm_start;
        bool is_named;
        const char *path;
        const char *base; // nullptr: none
    } cases[] = {
        {"none", true, "named.conf", nullptr},
        {"warm.conf", true, "named.conf", "warm.conf"},
        {"w", true, "named.conf", "w"},
        {"", true, "named.conf", "named.conf"},
        {"", false, "/gone/nccl_tuner.conf", nullptr},
        {"", false, "/proc/self/maps", "/proc/self/maps"},
    };
    auto settings = std::make_unique<stp_plugin_settings>();

    for (const auto &c : cases) {
        setenv("STEPTUNE_WARM_START", c.warm_start, 1);
        ASSERT_EQ(STP_OK, Read()) << err_.text;
        settings->policy_is_named = c.is_named;
        strcpy(settings->policy_path, c.path);
        EXPECT_STREQ(c.base, stp_online_base(set_.get(), settings.get()));
    }
}

TEST_F(OnlineSettings, AnEmptyValueIsUnset)
{
    for (const char *name : variables)
        setenv(name, "", 1);
    EXPECT_EQ(STP_OK, Read()) << err_.text;
}

} // namespace
