// The environment of both plugins.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <set>
#include <string>

extern "C" {
#include "plugin/settings.h"
}

namespace
{

constexpr const char *kVariables[] = {
    "NCCL_HOSTID",
    "NCCL_TUNER_CONFIG_FILE",
    "NCCL_WORKLOAD_OVERLAP",
    "STEPTUNE_OVERLAP_CONFIG_FILE",
    "STEPTUNE_GPU",
    "STEPTUNE_LEDGER",
    "TORCHELASTIC_RUN_ID",
    "STEPTUNE_MEMORY_CONFIG_FILE",
    "STEPTUNE_AGREE",
    "STEPTUNE_AGREE_TIMEOUT",
    "RANK",
    "WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMPI_COMM_WORLD_RANK",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_RANK",
    "PMI_SIZE",
    "SLURM_PROCID",
    "SLURM_NTASKS",
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
    std::set<uint64_t> ids;
    ASSERT_EQ(0, gethostname(own, sizeof(own) - 1));

    for (const std::string name : {"", "rack7", "rack8", "7rack", "r", ""}) {
        setenv("NCCL_HOSTID", name.c_str(), 1);
        Read();
        ids.insert(set_->host_id);
        EXPECT_EQ(name.empty(), set_->host_id == 0) << name;
        EXPECT_EQ(name.empty() ? own : name, set_->store.host);
    }
    EXPECT_EQ(5u, ids.size());
}

TEST_F(Settings, ANameThatIsTooLongIsCutWhereItIsShown)
{
    const std::string host(sizeof(set_->store.host), 'h');
    const std::string run(sizeof(set_->store.run), 'r');
    setenv("NCCL_HOSTID", host.c_str(), 1);
    setenv("TORCHELASTIC_RUN_ID", run.c_str(), 1);

    Read();

    EXPECT_EQ(host.substr(1), set_->store.host);
    EXPECT_EQ(run.substr(1), set_->store.run);
}

TEST_F(Settings, AHostWhoseOwnNameIsTooLongHasNone)
{
    const size_t most = sizeof(set_->store.host) - 1;
    const int own = open("/proc/thread-self/ns/uts", O_RDONLY | O_CLOEXEC);
    if (unshare(CLONE_NEWUTS) != 0)
        GTEST_SKIP() << "only root can rename a host";

    for (size_t length : {most, most + 1}) {
        const std::string name(length, 'h');
        ASSERT_EQ(0, sethostname(name.c_str(), length));
        Read();
        EXPECT_EQ(length == most ? name : "?", set_->store.host);
    }

    ASSERT_EQ(0, setns(own, CLONE_NEWUTS));
    close(own);
}

TEST_F(Settings, ThePolicyIsTheOverlapsWhileWorkOverlaps)
{
    const struct {
        const char *file, *overlap, *overlap_file;
        const char *path;
        bool is_named;
    } cases[] = {
        {"", "", "", "nccl_tuner.conf", false},
        {"", "0", "", "nccl_tuner.conf", false},
        {"", "1", "", "nccl_tuner.conf.overlap", true},
        {"", "", "/o", "nccl_tuner.conf", false},
        {"", "1", "/o", "/o", true},
        {"/p", "", "", "/p", true},
        {"/p", "0", "/o", "/p", true},
        {"/p", "1", "", "/p.overlap", true},
        {"/p", "1", "/o", "/o", true},
    };

    for (const auto &c : cases) {
        setenv("NCCL_TUNER_CONFIG_FILE", c.file, 1);
        setenv("NCCL_WORKLOAD_OVERLAP", c.overlap, 1);
        setenv("STEPTUNE_OVERLAP_CONFIG_FILE", c.overlap_file, 1);
        Read();
        EXPECT_STREQ(c.path, set_->policy_path) << c.file << c.overlap;
        EXPECT_EQ(c.is_named, set_->policy_is_named) << c.file << c.overlap;
    }
}

TEST_F(Settings, NamesAreNoneUnlessTheyAreGiven)
{
    char drivers[STP_GPU_SIZE];
    stp_read_gpu(STP_DRIVER_GPUS, drivers);
    snprintf(set_->gpu, sizeof(set_->gpu), "left over");

    Read();
    EXPECT_STREQ("", set_->ledger);
    EXPECT_STREQ(drivers, set_->gpu);
    EXPECT_STREQ("none", set_->store.run);

    setenv("STEPTUNE_LEDGER", "/ledgers", 1);
    setenv("STEPTUNE_GPU", "NVIDIA H200", 1);
    setenv("TORCHELASTIC_RUN_ID", "job7", 1);
    Read();
    EXPECT_STREQ("/ledgers", set_->ledger);
    EXPECT_STREQ("NVIDIA H200", set_->gpu);
    EXPECT_STREQ("job7", set_->store.run);
}

TEST_F(Settings, MemoryAndStagePoliciesAreBesideTheOtherUnlessTheyAreNamed)
{
    const struct {
        const char *policy;
        const char *named;
        const char *memory, *stage;
    } cases[] = {
        {"", "", "nccl_tuner.conf.memory", "nccl_tuner.conf.stage"},
        {"/etc/job.conf", "", "/etc/job.conf.memory", "/etc/job.conf.stage"},
        {"/etc/job.conf", "/tmp/rules", "/tmp/rules", "/tmp/rules"},
    };

    for (const auto &c : cases) {
        char path[STP_PATH_SIZE];
        stp_error err{};
        setenv("NCCL_TUNER_CONFIG_FILE", c.policy, 1);
        setenv("STEPTUNE_MEMORY_CONFIG_FILE", c.named, 1);
        unsetenv("STEPTUNE_STAGE_FILE");

        EXPECT_EQ(STP_OK,
                  stp_settings_setups(STP_POLICY_OF_MEMORY, path, &err));
        EXPECT_STREQ(c.memory, path);
        setenv("STEPTUNE_STAGE_FILE", c.named, 1);
        unsetenv("STEPTUNE_MEMORY_CONFIG_FILE");
        EXPECT_EQ(STP_OK, stp_settings_setups(STP_POLICY_OF_STAGE, path, &err));
        EXPECT_STREQ(c.stage, path);
    }
}

// ---- what is refused ----

TEST_F(Settings, RefusesWhatIsOutOfRange)
{
    const std::string long_path(STP_PATH_SIZE, 'p');
    const struct {
        const char *name;
        std::string value;
        stp_status status;
        std::string text;
    } cases[] = {
        {"STEPTUNE_AGREE_TIMEOUT", "-1", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '-1', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE_TIMEOUT", "600.1", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '600.1', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE_TIMEOUT", "5s", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE_TIMEOUT is '5s', expected seconds from 0 to 600"},
        {"STEPTUNE_AGREE", std::string(100, 'x'), STP_ERR_SYNTAX,
         "STEPTUNE_AGREE is '" + std::string(60, 'x') +
             "', expected auto, shm, assume, required, " STP_STORE_EXPECTED},
        {"STEPTUNE_AGREE", "rediss://:secret@a", STP_ERR_SYNTAX,
         "STEPTUNE_AGREE is 'rediss:...', expected auto, shm, assume, "
         "required, " STP_STORE_EXPECTED},
        {"NCCL_TUNER_CONFIG_FILE", long_path, STP_ERR_LIMIT,
         "a policy path of " + std::to_string(STP_PATH_SIZE) +
             " bytes, expected fewer than " + std::to_string(STP_PATH_SIZE)},
        {"NCCL_WORKLOAD_OVERLAP", "yes", STP_ERR_SYNTAX,
         "NCCL_WORKLOAD_OVERLAP is 'yes', expected 0 or 1"},
        {"NCCL_WORKLOAD_OVERLAP", "2", STP_ERR_SYNTAX,
         "NCCL_WORKLOAD_OVERLAP is '2', expected 0 or 1"},
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

// The plugin goes on with them, if inactive.
TEST_F(Settings, AreTheDefaultsWhereOneIsRefused)
{
    for (const char *name : {"STEPTUNE_AGREE", "STEPTUNE_AGREE_TIMEOUT"}) {
        stp_error err{};
        Forget();
        memset(set_->store.run, 'x', sizeof(set_->store.run));
        set_->store.address.engine = STP_STORE_TCP;
        set_->agree = STP_AGREE_STORE;
        set_->agree_is_required = true;
        set_->host_id = 1;
        setenv(name, "nonsense", 1);
        setenv("STEPTUNE_LEDGER", "/ledgers", 1);

        EXPECT_EQ(STP_ERR_SYNTAX, stp_settings_read(set_.get(), &err));

        EXPECT_EQ(STP_AGREE_HOST, set_->agree) << name;
        EXPECT_FALSE(set_->agree_is_required) << name;
        EXPECT_EQ(STP_STORE_NOWHERE, set_->store.address.engine) << name;
        EXPECT_EQ(0u, set_->host_id) << name;
        EXPECT_STREQ("none", set_->store.run) << name;
        EXPECT_STREQ("/ledgers", set_->ledger) << name;
    }
}

TEST_F(Settings, AreInRangeAtBothEnds)
{
    for (const auto &[timeout, ms] : {std::pair<const char *, unsigned>{"0", 0},
                                      {"600", 600000},
                                      {"", 5000},
                                      {"0.5", 500}}) {
        setenv("STEPTUNE_AGREE_TIMEOUT", timeout, 1);
        Read();
        EXPECT_EQ(ms, set_->store.timeout_ms);
    }
}

// ---- how ranks are compared ----

TEST_F(Settings, AWordOfAgreementFindsAStoreOrDemandsOneOrNeither)
{
    const struct {
        const char *agree;
        stp_agree alone, launched; // without and with a launcher's variables
        bool is_required;
        const char *host; // of the store, if launched
    } cases[] = {
        {"", STP_AGREE_HOST, STP_AGREE_STORE, false, "node1"},
        {"auto", STP_AGREE_HOST, STP_AGREE_STORE, false, "node1"},
        {"required", STP_AGREE_HOST, STP_AGREE_STORE, true, "node1"},
        {"shm", STP_AGREE_HOST, STP_AGREE_HOST, false, ""},
        {"compare", STP_AGREE_HOST, STP_AGREE_HOST, false, ""},
        {"assume", STP_AGREE_ASSUME, STP_AGREE_ASSUME, false, ""},
        {"tcpstore://node2:7", STP_AGREE_STORE, STP_AGREE_STORE, false,
         "node2"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.agree);
        Forget();
        setenv("STEPTUNE_AGREE", c.agree, 1);
        Read();
        EXPECT_EQ(c.alone, set_->agree);
        EXPECT_EQ(c.is_required, set_->agree_is_required);

        setenv("RANK", "1", 1);
        setenv("WORLD_SIZE", "4", 1);
        setenv("MASTER_ADDR", "node1", 1);
        setenv("MASTER_PORT", "29400", 1);
        Read();
        EXPECT_EQ(c.launched, set_->agree);
        EXPECT_EQ(c.is_required, set_->agree_is_required);
        EXPECT_STREQ(c.host, set_->store.address.host);
        if (c.host == std::string("node1")) {
            EXPECT_EQ(STP_STORE_TCP, set_->store.address.engine);
            EXPECT_EQ(29400u, set_->store.address.port);
        }
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
        {"MASTER_PORT", "4294996696", STP_AGREE_HOST}, // 29400 in 32 bits
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
        {"the last rank", "10", "11", 11, 10},
        {"the first rank", "0", "1", 1, 0},
        {"no size", "3", "", 4, -1},
        {"no number", "x", "4", 4, -1},
        {"more than a number", "3x", "4", 4, -1},
        {"a size and more", "3", "4(x2)", 4, -1},
        {"a sign", "-1", "4", 4, -1},
        {"a size with a sign", "0", "-18446744073709551612", 4, -1},
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

TEST_F(Settings, ALauncherIsAnyOfFour)
{
    const struct {
        const char *rank, *size;
    } launchers[] = {
        {"RANK", "WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
        {"PMI_RANK", "PMI_SIZE"},
        {"SLURM_PROCID", "SLURM_NTASKS"},
    };

    EXPECT_EQ(-1, stp_launcher_rank(4));
    for (const auto &launcher : launchers) {
        Forget();
        setenv(launcher.rank, "2", 1);
        EXPECT_EQ(-1, stp_launcher_rank(4)) << launcher.rank;
        setenv(launcher.size, "4", 1);
        EXPECT_EQ(2, stp_launcher_rank(4)) << launcher.rank;
        unsetenv(launcher.rank);
        EXPECT_EQ(-1, stp_launcher_rank(4)) << launcher.rank;
    }
}

} // namespace
