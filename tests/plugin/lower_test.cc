// The tuner below ours: what is the same one, and which it is to be.
#include <gtest/gtest.h>

#include <cstdlib>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/lower.h"
}

namespace
{

stp_lower Find(const std::string &chain, int newest = 7)
{
    const stp_lower_question question = {chain.c_str(), nullptr, "/nonexistent",
                                         newest, false};
    stp_lower lower;
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_lower_find(&question, &lower, &err)) << err.text;
    return lower;
}

TEST(Lower, IsTheSameByFileNameBuildAndVersionInWhateverFolder)
{
    const TemporaryFolder folder;
    const std::string copy = folder.Path("libnccl-tuner-all_versions.so");
    const std::string other = folder.Path("other.so");
    std::filesystem::copy(STP_ALL_VERSIONS, copy);
    std::filesystem::copy(STP_ALL_VERSIONS, other);
    const stp_lower first = Find(STP_ALL_VERSIONS);

    EXPECT_EQ(7, first.version);
    EXPECT_NE(0u, first.identity);
    EXPECT_EQ(first.identity, Find(copy).identity);
    EXPECT_NE(first.identity, Find(other).identity);
    EXPECT_EQ(5, Find(STP_ALL_VERSIONS, 5).version);
    EXPECT_NE(first.identity, Find(STP_ALL_VERSIONS, 5).identity);
    std::filesystem::remove(copy);
    std::filesystem::copy(STP_ONE_CHANNEL, copy);
    EXPECT_NE(first.identity,
              Find(folder.Path("./libnccl-tuner-all_versions.so")).identity);
}

TEST(Lower, IsWhatOursDisplacesUnlessItIsSet)
{
    struct {
        const char *chain, *displaced, *expected;
    } const rows[] = {
        {nullptr, nullptr, nullptr},
        {nullptr, "", nullptr},
        {"", "ofi", "ofi"},
        {nullptr, "none", "none"},
        {nullptr, "steptune", nullptr},
        {nullptr, "/a/lib/libnccl-tuner-steptune-online.so", nullptr},
        {nullptr, "/steptune/lib/libnccl-tuner-ofi.so",
         "/steptune/lib/libnccl-tuner-ofi.so"},
        {"auto", "ofi", "auto"},
        {"none", "ofi", "none"},
    };

    for (const auto &row : rows)
        EXPECT_STREQ(row.expected, stp_lower_setting(row.chain, row.displaced));
}

// A file of NCCL's says what is loaded where the environment does not, and that
// ours is there is the environment's.  Below "": the net plugin, or none.
TEST(Lower, IsWhatNcclsFileNames)
{
    const TemporaryFolder folder;
    const std::string conf = folder.Path("my.conf"), all = STP_ALL_VERSIONS;
    const std::string tuner = "NCCL_TUNER_PLUGIN=" + all + "\n";
    const std::string by = "NCCL_TUNER_PLUGIN in " + conf + ":";
    const std::string net =
        "NCCL_NET_PLUGIN=" STP_TEST_PLUGINS "/libnccl-tuner-net_echo_v4.so\n";
    struct {
        std::string text, chain;
        int newest;
        std::string expected;
    } const rows[] = {
        {tuner, "", 7, by + "1"},
        {tuner, "auto", 7, by + "1"},
        {tuner, "none", 7, ""},
        {tuner, STP_ONE_CHANNEL, 7, "STEPTUNE_CHAIN"},
        {"#" + tuner + "\nNCCL_DEBUG\n=x\n" + tuner, "", 7, by + "5"},
        {tuner + "NCCL_TUNER_PLUGIN=none", "", 7, by + "1"},
        {"NCCL_TUNER_PLUGIN=none\n" + tuner, "", 7, ""},
        {"NCCL_TUNER_PLUGIN=" + all + "\r\n", "", 7, by + "1"},
        {"NCCL_TUNER_PLUGIN=" + all + "\r\n", "", 5, ""},
        {" " + tuner, "", 7, ""},
        {"NCCL_TUNER_PLUGIN=steptune\n", "", 7, ""},
        {net, "", 7, "the net plugin"},
        {net + "NCCL_TUNER_PLUGIN=absent\n", "", 7, "the net plugin"},
        {net + "NCCL_TUNER_PLUGIN=none\n", "", 5, ""},
        {net + "NCCL_TUNER_PLUGIN=none\n", "", 4, "the net plugin"},
        {net + tuner, "", 7, by + "2"},
        {tuner + "STEPTUNE_CHAIN=none", "", 7, ""},
        {tuner + "STEPTUNE_CHAIN=none", "auto", 7, by + "1"},
    };

    setenv("NCCL_CONF_FILE", conf.c_str(), 1);
    for (const auto &row : rows) {
        std::ofstream(conf) << row.text;
        EXPECT_EQ(row.expected, Find(row.chain, row.newest).found_by)
            << row.text << row.newest;
    }
    std::filesystem::permissions(conf, std::filesystem::perms::others_write,
                                 std::filesystem::perm_options::add);
    EXPECT_STREQ("", Find("", 7).found_by); // whoever wrote it
}

TEST(Lower, IsWhatNcclsOwnFilesNameInTheirOrder)
{
    const TemporaryFolder folder;
    const std::string home = folder.Path("home"), root = folder.Path("root");
    const stp_lower_question question = {nullptr, nullptr, root.c_str(), 7,
                                         false};
    stp_lower lower;
    stp_error err{};

    unsetenv("NCCL_CONF_FILE");
    setenv("HOME", home.c_str(), 1);
    std::filesystem::create_directories(root + "/etc");
    std::filesystem::create_directory(home);
    std::ofstream(root + "/etc/nccl.conf")
        << "NCCL_TUNER_PLUGIN=" STP_ALL_VERSIONS "\n";
    ASSERT_EQ(STP_OK, stp_lower_find(&question, &lower, &err)) << err.text;
    EXPECT_EQ("NCCL_TUNER_PLUGIN in " + root + "/etc/nccl.conf:1",
              std::string(lower.found_by));
    std::ofstream(home + "/.nccl.conf")
        << "NCCL_TUNER_PLUGIN=" STP_ONE_CHANNEL "\n";
    ASSERT_EQ(STP_OK, stp_lower_find(&question, &lower, &err)) << err.text;
    EXPECT_STREQ("one", stp_lower_name(&lower));
}

} // namespace
