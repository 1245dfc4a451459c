// The environment of both plugins.
#include <gtest/gtest.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

extern "C" {
#include "plugin/settings.h"
}

namespace
{

constexpr const char *kVariables[] = {
    "NCCL_HOSTID",
    "NCCL_TUNER_CONFIG_FILE",
    "STEPTUNE_MEMORY_CONFIG_FILE",
    "STEPTUNE_AGREE",
    "STEPTUNE_AGREE_LEAD",
    "STEPTUNE_AGREE_PASSWORD",
    "STEPTUNE_AGREE_TIMEOUT",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
};

class Settings : public testing::Test
{
  protected:
    Settings()
    {
        Forget();
    }
    ~Settings() override
    {
        Forget();
    }

    static void Forget()
    {
        for (const char *name : kVariables)
            unsetenv(name);
    }

    void Read()
    {
        stp_error err{};
        ASSERT_EQ(STP_OK, stp_settings_read(set_.get(), &err)) << err.text;
    }

    std::unique_ptr<stp_plugin_settings> set_ =
        std::make_unique<stp_plugin_settings>();
};

TEST_F(Settings, AHostHasItsOwnNameUnlessNcclGivesItAnother)
{
    char own[sizeof(set_->store.host)] = {};
    ASSERT_EQ(0, gethostname(own, sizeof(own) - 1));

    unsetenv("NCCL_HOSTID");
    Read();
    EXPECT_STREQ(own, set_->store.host);
    EXPECT_EQ(0u, set_->host_id);

    setenv("NCCL_HOSTID", "rack7", 1);
    Read();
    EXPECT_STREQ("rack7", set_->store.host);
    EXPECT_NE(0u, set_->host_id);
}

TEST_F(Settings, TheMemoryPolicyIsBesideTheOtherUnlessItIsNamed)
{
    const struct {
        const char *policy;
        const char *memory;
        const char *path;
    } cases[] = {
        {"", "", "nccl_tuner.conf.memory"},
        {"/etc/job.conf", "", "/etc/job.conf.memory"},
        {"/etc/job.conf", "/tmp/memory", "/tmp/memory"},
    };

    for (const auto &c : cases) {
        char path[STP_PATH_SIZE];
        stp_error err{};
        setenv("NCCL_TUNER_CONFIG_FILE", c.policy, 1);
        setenv("STEPTUNE_MEMORY_CONFIG_FILE", c.memory, 1);

        EXPECT_EQ(STP_OK, stp_settings_memory(path, &err)) << err.text;
        EXPECT_STREQ(c.path, path);
    }
}

// ---- what is refused ----

TEST_F(Settings, RefusesWhatIsOutOfRange)
{
    const std::string long_path(STP_PATH_SIZE, 'p');
    const std::string long_password(sizeof(stp_store_address::password), 'p');
    const struct {
        const char *name;
        std::string value;
        stp_status status;
        std::string text;
    } cases[] = {
        {"STEPTUNE_AGREE_LEAD", "0", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_LEAD is '0', expected milliseconds and calls from 1 "
         "to 600000"},
        {"STEPTUNE_AGREE_LEAD", "600001", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_LEAD is '600001', expected milliseconds and calls "
         "from 1 to 600000"},
        {"STEPTUNE_AGREE_LEAD", "1s", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_LEAD is '1s', expected milliseconds and calls from 1 "
         "to 600000"},
        {"STEPTUNE_AGREE_TIMEOUT", "-1", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '-1', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE_TIMEOUT", "600.1", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '600.1', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE_TIMEOUT", "5s", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '5s', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE", std::string(100, 'x'), STP_ERR_SYNTAX,
         "STEPTUNE_AGREE is '" + std::string(60, 'x') +
             "', expected auto, shm, assume, required, " STP_STORE_EXPECTED},
        {"NCCL_TUNER_CONFIG_FILE", long_path, STP_ERR_LIMIT,
         "a policy path of " + std::to_string(STP_PATH_SIZE) +
             " bytes, expected fewer than " + std::to_string(STP_PATH_SIZE)},
        {"STEPTUNE_AGREE_PASSWORD", long_password, STP_ERR_LIMIT,
         "STEPTUNE_AGREE_PASSWORD has " + std::to_string(long_password.size()) +
             " bytes, expected fewer than " +
             std::to_string(long_password.size())},
    };

    for (const auto &c : cases) {
        stp_error err{};
        Forget();
        setenv("STEPTUNE_AGREE", "tcpstore://node1:29400", 1);
        setenv(c.name, c.value.c_str(), 1);

        EXPECT_EQ(c.status, stp_settings_read(set_.get(), &err)) << c.name;
        EXPECT_EQ(c.text, err.text);

        setenv(c.name, c.value.substr(1).c_str(), 1); // shorter, or other
        if (c.status == STP_ERR_LIMIT) {
            EXPECT_EQ(STP_OK, stp_settings_read(set_.get(), &err)) << err.text;
        }
    }
}

TEST_F(Settings, AreInRangeAtBothEnds)
{
    const struct {
        const char *lead, *timeout;
        unsigned lead_is, ms;
    } cases[] = {{"1", "0", 1, 0},
                 {"600000", "600", 600000, 600000},
                 {"", "", 1000, 5000},
                 {"2", "0.5", 2, 500}};

    for (const auto &c : cases) {
        setenv("STEPTUNE_AGREE_LEAD", c.lead, 1);
        setenv("STEPTUNE_AGREE_TIMEOUT", c.timeout, 1);
        Read();
        EXPECT_EQ(c.lead_is, set_->store.lead);
        EXPECT_EQ(c.ms, set_->store.timeout_ms);
    }
}

// ---- what a launcher set ----

TEST_F(Settings, AStoreIsFoundOnlyWhereAllOfALaunchersVariablesAreGood)
{
    using Variables = std::map<const char *, const char *>;
    const Variables all = {{"RANK", "1"},
                           {"WORLD_SIZE", "4"},
                           {"MASTER_ADDR", "node1"},
                           {"MASTER_PORT", "29400"}};
    const struct {
        const char *name, *value;
        stp_agree agree;
    } cases[] = {
        {"RANK", "1", STP_AGREE_STORE},
        {"RANK", "", STP_AGREE_HOST},
        {"WORLD_SIZE", "", STP_AGREE_HOST},
        {"MASTER_ADDR", "", STP_AGREE_HOST},
        {"MASTER_PORT", "", STP_AGREE_HOST},
        {"MASTER_PORT", "http", STP_AGREE_HOST},
        {"MASTER_PORT", "65536", STP_AGREE_HOST},
        {"MASTER_PORT", "65535", STP_AGREE_STORE},
        {"STEPTUNE_AGREE", "shm", STP_AGREE_HOST},
        {"STEPTUNE_AGREE", "assume", STP_AGREE_ASSUME},
    };

    for (const auto &c : cases) {
        Forget();
        for (const auto &[name, value] : all)
            setenv(name, value, 1);
        setenv(c.name, c.value, 1);
        Read();
        EXPECT_EQ(c.agree, set_->agree) << c.name << "=" << c.value;
    }
}

TEST_F(Settings, ARankIsTheLaunchersOnlyInAJobOfItsSize)
{
    const struct {
        const char *name, *rank, *size;
        size_t n_ranks;
        int number;
    } cases[] = {
        {"torchrun", "3", "4", 4, 3},
        {"a smaller communicator", "1", "4", 2, -1},
        {"beyond the last rank", "4", "4", 4, -1},
        {"no size", "3", "", 4, -1},
        {"no rank", "", "4", 4, -1},
        {"more than an int counts", "1", "2147483648", size_t{INT_MAX} + 1, -1},
        {"as many as an int counts", "1", "2147483647", INT_MAX, 1},
    };

    for (const auto &c : cases) {
        setenv("RANK", c.rank, 1);
        setenv("WORLD_SIZE", c.size, 1);
        EXPECT_EQ(c.number, stp_launcher_rank(c.n_ranks)) << c.name;
    }
    setenv("OMPI_COMM_WORLD_RANK", "2", 1);
    setenv("OMPI_COMM_WORLD_SIZE", "4", 1);
    EXPECT_EQ(1, stp_launcher_rank(INT_MAX)) << "the first that names both";
    unsetenv("RANK");
    EXPECT_EQ(2, stp_launcher_rank(4));
}

} // namespace
