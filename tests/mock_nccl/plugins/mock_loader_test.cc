// The life of a tuner: its search, version, and when NCCL closes its library.
#include <gmock/gmock.h>

#include "support/mock_script.h"

using namespace mock_test;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

namespace
{

#define SET    "NCCL_TUNER_PLUGIN set by environment to "
#define LOADED "Successfully loaded external tuner plugin "

TEST(Messages, AreCutAsNcclCutsThem)
{
    std::string value(300, 'x');
    Nccl nccl = MakeNccl({nullptr, value.c_str(), nullptr, 0});
    Machine machine = LoadMachine("h200x4");
    Log log;

    MakeComm(nccl, machine);

    // 254 characters of a name are kept, and 255 of dlerror's text, so that
    // NCCL does not find the reason
    std::string first(254, 'x');
    std::string second = "libnccl-tuner-" + std::string(240, 'x');
    EXPECT_THAT(log.Texts(),
                ElementsAre(SET + value,
                            "TUNER/Plugin: " + first + ": " + first + ":",
                            "TUNER/Plugin: " + second + ": " + second + ":"));
}

TEST(CutOff, IsTheNewestVersionThatTheLibraryKnows)
{
    const struct {
        const char *version;
        int want;
    } cases[] = {{"2.21", 2},   {"2.22", 3},   {"2.23", 3}, {"2.24", 4},
                 {"2.25", 4},   {"2.26", 4},   {"2.27", 4}, {"2.28", 5},
                 {"2.28.9", 5}, {nullptr, 5},  {"2.29", 5}, {"2.30.7", 6},
                 {"2.31", 6},   {"2.32.3", 6}, {"2.32", 7}, {"2.33", 7}};
    Machine machine = LoadMachine("h200x4");

    for (const auto &c : cases) {
        Nccl nccl = MakeNccl({c.version, "all_versions", nullptr, 0});
        Comm comm = MakeComm(nccl, machine);
        EXPECT_EQ(c.want, mock_comm_tuner_version(comm.get()))
            << (c.version ? c.version : "default");
    }
}

TEST(Release, NewerThanTheNewestIsPlayedAsThat)
{
    const struct {
        const char *version;
        const char *name; // nullptr: none
        bool is_newer;
    } cases[] = {{"2.30.7", "2.30", false},   {"2.31.2", "2.31", false},
                 {"2.32.3", "2.32.3", false}, {"2.32.3.1", "2.32.3", false},
                 {"2.32.6", "2.32", false},   {"2.32", "2.32", false},
                 {"2.33.1", "2.32", true},    {"2.100", "2.32", true},
                 {"3.0", "2.32", true},       {"2.20.5", nullptr, false},
                 {"2.33x", nullptr, false},   {"3", nullptr, false},
                 {"2.", nullptr, false},      {"-3.1", nullptr, false},
                 {"999.1", "2.32", true},     {"1000.1", nullptr, false},
                 {"2.999", "2.32", true},     {"2.1000", nullptr, false}};

    for (const auto &c : cases) {
        const int i = mock_release_find(c.version);
        if (c.name == nullptr) {
            EXPECT_EQ(-1, i) << c.version;
        } else {
            EXPECT_STREQ(c.name, mock_release_name((size_t)i)) << c.version;
        }
        EXPECT_EQ(c.is_newer, mock_release_is_newer(c.version)) << c.version;
    }
}

#define KNOWN "2.21 to 2.32"
TEST(Options, InvalidOnesAreRejected)
{
    static const int tuner = 0;
    const std::pair<mock_nccl_options, const char *> cases[] = {
        {{"2.20", nullptr, nullptr, 0},
         "NCCL version '2.20' is none of " KNOWN},
        {{"3", nullptr, nullptr, 0}, "NCCL version '3' is none of " KNOWN},
        {{"2.x", nullptr, nullptr, 0}, "NCCL version '2.x' is none of " KNOWN},
        {{"2.28x", nullptr, nullptr, 0},
         "NCCL version '2.28x' is none of " KNOWN},
        {{"", nullptr, nullptr, 0}, "NCCL version '' is none of " KNOWN},
        {{nullptr, nullptr, &tuner, 1}, "tuner version 1 is none of 2 to 7"},
        {{nullptr, nullptr, &tuner, 8}, "tuner version 8 is none of 2 to 7"},
    };

    for (const auto &[options, error] : cases) {
        mock_nccl *nccl = nullptr;
        EXPECT_EQ(ncclInvalidArgument, mock_nccl_create(&options, &nccl));
        EXPECT_EQ(nullptr, nccl);
        EXPECT_STREQ(error, mock_last_error());
    }
    for (int version : {2, 7}) {
        const mock_nccl_options options{nullptr, nullptr, &tuner, version};
        mock_nccl *nccl = nullptr;
        EXPECT_EQ(ncclSuccess, mock_nccl_create(&options, &nccl)) << version;
        mock_nccl_destroy(nccl);
    }
}

// ---- how long a library stays ----

class Stay : public testing::Test
{
  protected:
    // The log lines with 'part' in them.
    std::vector<std::string> Lines(const std::string &part)
    {
        std::vector<std::string> lines;
        for (const std::string &line : log_.Texts())
            if (line.find(part) != std::string::npos)
                lines.push_back(line);
        return lines;
    }

    Machine machine_ = LoadMachine("h200x4");
    Log log_;
};

TEST_F(Stay, OneCommunicatorAfterAnotherReopensTheLibrary)
{
    Nccl nccl = MakeNccl({nullptr, "echo_v5", nullptr, 0});

    MakeComm(nccl, machine_).reset();
    MakeComm(nccl, machine_).reset();

    // the plugin's own count starts again: its memory is new
    EXPECT_THAT(Lines("v5 init 1:"), testing::SizeIs(2));
    EXPECT_THAT(Lines("set by environment"), testing::SizeIs(2));
    EXPECT_THAT(Lines("Closing tuner"), testing::SizeIs(2));
}

TEST_F(Stay, TwoCommunicatorsAtOnceKeepItForEver)
{
    Nccl nccl = MakeNccl({nullptr, "echo_v5", nullptr, 0});

    {
        Comm first = MakeComm(nccl, machine_);
        Comm second = MakeComm(nccl, machine_);
    }
    MakeComm(nccl, machine_).reset();

    EXPECT_THAT(Lines("v5 init"),
                ElementsAre(HasSubstr("init 1:"), HasSubstr("init 2:"),
                            HasSubstr("init 3:")));
    EXPECT_THAT(Lines("v5 finalize"), testing::SizeIs(3));
    EXPECT_THAT(Lines("set by environment"), testing::SizeIs(1));
    EXPECT_THAT(Lines("Closing tuner"), IsEmpty());
}

TEST_F(Stay, FailureToLoadIsForTheRestOfTheProcess)
{
    Nccl nccl = MakeNccl({nullptr, "no_symbol", nullptr, 0});

    MakeComm(nccl, machine_).reset();
    Comm second = MakeComm(nccl, machine_);

    EXPECT_EQ(0, mock_comm_tuner_version(second.get()));
    EXPECT_THAT(Lines("set by environment"), testing::SizeIs(1));
    EXPECT_THAT(Lines("unsupported"), testing::SizeIs(1));
}

TEST_F(Stay, ATunerThatIsOnlyFoundIsClosedWithoutItsInit)
{
    const struct {
        const char *plugin;
        size_t size; // of the name
        int version;
        const char *name;
    } cases[] = {
        {"echo_v5", 8, 5, "echo"},   {"echo_v4", 5, 4, "echo"},
        {"echo_v3", 4, 3, "ech"},    {"no_symbol", 8, 0, "before"},
        {"no_such", 8, 0, "before"},
    };

    for (const auto &c : cases) {
        Nccl nccl = MakeNccl({nullptr, c.plugin, nullptr, 0});
        char name[8] = "before";
        log_.lines.clear();
        EXPECT_EQ(c.version, mock_nccl_find_tuner(nccl.get(), name, c.size));
        EXPECT_STREQ(c.name, name);
        EXPECT_THAT(Lines("init"), IsEmpty());
        EXPECT_THAT(Lines("Closing tuner"),
                    testing::SizeIs(c.version != 0 ? 1 : 0));
    }
}

TEST_F(Stay, AFinalizeThatFailsLeavesTheTunerLoaded)
{
    Nccl nccl = MakeNccl(WithScript());

    on_finalize = [](void *) { return ncclInternalError; };
    MakeComm(nccl, machine_).reset();
    ForgetScript();

    EXPECT_THAT(Lines("Closing tuner"), IsEmpty());
    EXPECT_STREQ("tuner 'scripted': finalize returned 3 (ncclInternalError)",
                 mock_last_error());
}

TEST_F(Stay, ATunerInMemoryIsUsedWithoutTheEnvironment)
{
    Nccl nccl = MakeNccl({"2.28", "no_symbol", &kScripted, 5});

    Comm comm = MakeComm(nccl, machine_);

    EXPECT_EQ(5, mock_comm_tuner_version(comm.get()));
    EXPECT_THAT(log_.Texts(),
                ElementsAre("TUNER/Plugin: Using scripted (v5)", LOADED));
}

TEST_F(Stay, ATunerInMemoryThatIsTooNewIsUnsupported)
{
    static const int v6 = 0;
    Nccl nccl = MakeNccl({"2.28", nullptr, &v6, 6});

    Comm comm = MakeComm(nccl, machine_);

    EXPECT_EQ(0, mock_comm_tuner_version(comm.get()));
    EXPECT_THAT(log_.Texts(),
                ElementsAre("External tuner plugin  is unsupported"));
}

} // namespace
