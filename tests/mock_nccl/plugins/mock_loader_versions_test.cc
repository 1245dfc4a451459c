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
        // neither the tuner's own lines nor the net plugin's
        if (line.text.compare(0, 1, "v") != 0 &&
            line.text.compare(0, 4, "NET/") != 0 &&
            (line.flags & NCCL_NET) == 0)
            lines.push_back(FlagLetters(line.flags) + line.text);
    }
    for (std::string &line : c.lines)
        line = Replaced(line, '%', folder_.Path());
    EXPECT_THAT(lines, ElementsAreArray(c.lines));
}

INSTANTIATE_TEST_SUITE_P(Table, Loader,
                         testing::ValuesIn(ReadLogCases("tuner_lines.txt")),
                         CaseName());

// ---- the net plugin, which is loaded before ----

#define NET "NET/Plugin: "

TEST(NetPlugin, IsLoadedAndLoggedLikeInThatVersion)
{
    const struct {
        const char *version, *value;
        int tuner;
        std::vector<std::string> lines;
    } cases[] = {
        {"2.21",
         "@net_echo_v4.so",
         0,
         {"IN " NET "Plugin name set by env to @net_echo_v4.so"}},
        {"2.24",
         "nope",
         0,
         {"IN " NET "Could not find: nope libnccl-net-nope.so. Using internal "
          "network plugin."}},
        {"2.24",
         "@net_echo_v4.so",
         4,
         {"IN " NET "Plugin name set by env to @net_echo_v4.so",
          "IN " NET "Failed to find ncclNetPlugin_v9 symbol.",
          "IN " NET "Loaded net plugin echo (v8)",
          "IN " NET "Failed to find ncclCollNetPlugin_v9 symbol.",
          "IN " NET "Loaded collnet plugin echo (v8)"}},
        {"2.25",
         "@echo_v4.so",
         4,
         {// opened by name all the same
          "IN " NET "Plugin name set by env to @echo_v4.so",
          "IN " NET "Failed to find ncclNetPlugin_v9 symbol.",
          "IN " NET "Failed to find ncclNetPlugin symbol (>= v5). "
          "ncclNetPlugin symbols v4 and lower are not supported."}},
        {"2.27",
         "none,@net_echo_v4.so",
         4,
         {"IN " NET "Could not find: none libnccl-net-none.so. Using internal "
          "net plugin.",
          "IN " NET "Plugin name set by env to @net_echo_v4.so",
          "IN " NET "Failed to find ncclNetPlugin_v10 symbol.",
          "IN " NET "Failed to find ncclNetPlugin_v9 symbol.",
          "IN " NET "Loaded net plugin echo (v8)",
          "IN " NET "Failed to find ncclCollNetPlugin_v10 symbol.",
          "IN " NET "Failed to find ncclCollNetPlugin_v9 symbol.",
          "IN " NET "Loaded collnet plugin echo (v8)",
          "IN Successfully loaded external plugin @net_echo_v4.so"}},
        {"2.28",
         "@echo_v4.so",
         0,
         {"EN NCCL_NET_PLUGIN set by environment to @echo_v4.so",
          "IN External network plugin @echo_v4.so is unsupported"}},
        {"2.28", "none", 0, {"EN NCCL_NET_PLUGIN set by environment to none"}},
        {"2.32",
         "none,nope,@echo_v5.so,@net_echo_v4.so",
         4,
         {"EN NCCL_NET_PLUGIN set by environment to "
          "none,nope,@echo_v5.so,@net_echo_v4.so",
          "IN " NET "Could not find: nope libnccl-net-nope.so",
          "IN External network plugin @echo_v5.so is unsupported",
          "IN " NET "Loaded net plugin echo (v8)",
          "IN " NET "Loaded collnet plugin echo (v8)",
          "IN Successfully loaded external network plugin @net_echo_v4.so"}},
    };
    Machine machine = LoadMachine("h200x4");
    const std::string prefix = STP_TEST_PLUGINS "/libnccl-tuner-";

    for (const auto &c : cases) {
        SCOPED_TRACE(std::string(c.version) + " " + c.value);
        const std::string value = Replaced(c.value, '@', prefix);
        mock_nccl_options options{c.version};
        options.net_plugin = value.c_str();
        Nccl nccl = MakeNccl(options);
        Log log;
        Comm comm = MakeComm(nccl, machine);
        std::vector<std::string> lines, expected;

        EXPECT_EQ(c.tuner, mock_comm_tuner_version(comm.get()));
        for (const Log::Line &line : log.lines)
            if ((line.flags & NCCL_NET) != 0)
                lines.push_back(FlagLetters(line.flags) + line.text);
        for (const std::string &line : c.lines)
            expected.push_back(Replaced(line, '@', prefix));
        EXPECT_THAT(lines, ElementsAreArray(expected));
    }
}

// ---- how long a tuner stays ----

TEST(Stay, AfterTwoCommunicatorsAtOnceIsAsInThatVersion)
{
    const struct {
        const char *version;
        bool closes;  // when the first two communicators are gone
        int third;    // the tuner's version for the next one
        bool reloads; // for the next after one alone
    } cases[] = {{"2.21", true, 0, false}, {"2.22", false, 3, true},
                 {"2.23", false, 3, true}, {"2.24", false, 4, true},
                 {"2.25", false, 4, true}, {"2.26", false, 4, true},
                 {"2.27", false, 4, true}, {"2.28", false, 5, true},
                 {"2.29", false, 5, true}, {"2.30", false, 6, true},
                 {"2.31", false, 6, true}};
    Machine machine = LoadMachine("h200x4");

    for (const auto &c : cases) {
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
