// The environment of both plugins.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

extern "C" {
#include "plugin/settings.h"
}

namespace
{

class Settings : public testing::Test
{
  protected:
    ~Settings() override
    {
        for (const char *name : {"NCCL_HOSTID", "NCCL_TUNER_CONFIG_FILE",
                                 "STEPTUNE_MEMORY_CONFIG_FILE"})
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

} // namespace
