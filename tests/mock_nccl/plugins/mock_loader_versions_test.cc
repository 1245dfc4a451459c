// The log of each NCCL version's loader, and the life of its tuner.
#include <dlfcn.h>

#include <gmock/gmock.h>

#include "mock_nccl/plugins/mock_log_cases.h"

using namespace mock_test;
using testing::ElementsAreArray;

namespace
{

class Loader : public testing::TestWithParam<LogCase>
{
  protected:
    void SetUp() override
    {
        folder_.Write("broken.so", "no library\n");
    }

    Folder folder_;
    Machine machine_ = LoadMachine("h200x4");
};

TEST_P(Loader, LogsAndLoadsLikeThatVersion)
{
    LogCase c = GetParam();
    for (auto &[name, value] : c.variables)
        value = Replaced(value, '%', folder_.Path());
    mock_nccl_options options{c.version.c_str()};
    options.tuner_plugin = c.Get("NCCL_TUNER_PLUGIN");
    options.net_plugin = c.Get("NCCL_NET_PLUGIN");
    Nccl nccl = MakeNccl(options);
    Log log;

    Comm comm = MakeComm(nccl, machine_);
    ASSERT_TRUE(comm);
    EXPECT_EQ(c.tuner, mock_comm_tuner_version(comm.get()));
    comm.reset();

    std::vector<std::string> lines;
    for (const Log::Line &line : log.lines) {
        EXPECT_EQ(NCCL_LOG_INFO, line.level) << line.text;
        if (line.text.compare(0, 1, "v") != 0) // not the tuner's own lines
            lines.push_back(FlagLetters(line.flags) + line.text);
    }
    for (std::string &line : c.lines)
        line = Replaced(line, '%', folder_.Path());
    EXPECT_THAT(lines, ElementsAreArray(c.lines));
}

INSTANTIATE_TEST_SUITE_P(Table, Loader,
                         testing::ValuesIn(ReadLogCases("tuner_lines.txt")),
                         CaseName());

// ---- how long a tuner stays ----

struct StayCase {
    const char *version;
    bool closes;  // when the first two communicators are gone
    int third;    // the tuner's version for the next one
    bool reloads; // for the next after one alone
};

TEST(Stay, AfterTwoCommunicatorsAtOnceIsAsInThatVersion)
{
    const StayCase cases[] = {
        {"2.21", true, 0, false}, {"2.22", false, 3, true},
        {"2.23", false, 3, true}, {"2.24", false, 4, true},
        {"2.25", false, 4, true}, {"2.26", false, 4, true},
        {"2.27", false, 4, true}, {"2.28", false, 5, true},
        {"2.29", false, 5, true}, {"2.30", false, 6, true},
        {"2.31", false, 6, true}};
    Machine machine = LoadMachine("h200x4");

    for (const StayCase &c : cases) {
        Nccl nccl = MakeNccl({c.version, "all_versions"});
        Nccl other = MakeNccl({c.version, "all_versions"});
        size_t before;
        {
            Comm first = MakeComm(nccl, machine);
            Comm second = MakeComm(nccl, machine);
            Log log;
            second.reset();
            EXPECT_TRUE(log.lines.empty()) << c.version;
            first.reset();
            EXPECT_EQ(c.closes ? 1u : 0u, log.lines.size()) << c.version;
        }
        Log log;
        Comm third = MakeComm(nccl, machine);
        EXPECT_EQ(c.third, mock_comm_tuner_version(third.get())) << c.version;
        third.reset();
        EXPECT_TRUE(log.lines.empty()) << c.version;

        MakeComm(other, machine).reset();
        before = log.lines.size();
        MakeComm(other, machine).reset();
        EXPECT_EQ(c.reloads ? 2 * before : before, log.lines.size())
            << c.version;
    }
}

bool IsOpen(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);

    if (library != nullptr)
        dlclose(library);
    return library != nullptr;
}

// 2.26 closes the net plugin together with the tuner; later versions open a
// handle of the tuner's own.
TEST(Stay, OfANetPluginEndsWithItsTunerIn2_26Only)
{
    const char *path = STP_TEST_PLUGINS "/libnccl-tuner-all_versions.so";
    const std::pair<const char *, bool> cases[] = {
        {"2.26", false}, {"2.27", true}, {"2.30", true}};
    Machine machine = LoadMachine("h200x4");

    for (const auto &[version, stays] : cases) {
        mock_nccl_options options{version};
        options.net_plugin = path;
        Nccl nccl = MakeNccl(options);
        for (int i = 0; i < 2; i++) {
            Comm comm = MakeComm(nccl, machine);
            EXPECT_NE(0, mock_comm_tuner_version(comm.get())) << version;
            EXPECT_TRUE(IsOpen(path)) << version;
            comm.reset();
            EXPECT_EQ(stays, IsOpen(path)) << version;
        }
        nccl.reset();
        EXPECT_FALSE(IsOpen(path)) << version;
    }
}

} // namespace
