// The tuner below ours: what is the same one, and which it is to be.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "support/temporary_folder.h"

extern "C" {
#include "plugin/lower.h"
}

namespace
{

stp_lower Find(const std::string &chain, int newest = 7)
{
    const stp_lower_question question = {chain.c_str(), nullptr, newest, false};
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

} // namespace
