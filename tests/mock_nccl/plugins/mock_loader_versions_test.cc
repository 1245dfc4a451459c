// What the loader of each version of NCCL says and does, word for word.
#include <gmock/gmock.h>

#include "support/mock_folder.h"

#include "mock_nccl/plugins/mock_loader_cases.h"

using namespace mock_test;
using testing::ElementsAreArray;

namespace
{

std::string Flags(unsigned long flags)
{
    std::string text;
    for (auto [bit, letter] : {std::pair{0x1ul, 'I'},
                               {0x80ul, 'E'},
                               {0x10000ul, 'D'},
                               {0x40ul, 'T'}})
        if (flags & bit)
            text += letter;
    return text + " ";
}

std::vector<std::string> Lines(const Log &log)
{
    std::vector<std::string> lines;
    for (const Log::Line &line : log.lines)
        if (line.text.compare(0, 1, "v") != 0) // what the tuner itself says
            lines.push_back(Flags(line.flags) + line.text);
    return lines;
}

class Loader : public testing::TestWithParam<LoaderCase>
{
  protected:
    void SetUp() override
    {
        folder_.Write("broken.so", "no library\n");
    }
    std::string Expand(std::string text) const
    {
        for (size_t at; (at = text.find('@')) != std::string::npos;)
            text.replace(at, 1, STP_TEST_PLUGINS);
        for (size_t at; (at = text.find('%')) != std::string::npos;)
            text.replace(at, 1, folder_.Path());
        return text;
    }
    std::vector<std::string> Expand(std::vector<std::string> lines) const
    {
        for (std::string &line : lines)
            line = Expand(line);
        return lines;
    }

    Folder folder_;
    Machine machine_ = LoadMachine("h200x4");
};

TEST_P(Loader, SaysAndDoesWhatThatVersionDoes)
{
    const LoaderCase &c = GetParam();
    std::string value = Expand(c.value == nullptr ? "" : c.value);
    std::string net = Expand(c.net == nullptr ? "" : c.net);
    mock_nccl_options options{c.version.c_str()};
    options.tuner_plugin = c.value == nullptr ? nullptr : value.c_str();
    options.net_plugin = c.net == nullptr ? nullptr : net.c_str();
    Nccl nccl = MakeNccl(options);
    Log log;

    Comm comm = MakeComm(nccl, machine_);
    ASSERT_TRUE(comm);
    EXPECT_EQ(c.want, mock_comm_tuner_version(comm.get()));
    comm.reset();

    EXPECT_THAT(Lines(log), ElementsAreArray(Expand(c.lines)));
}

INSTANTIATE_TEST_SUITE_P(Table, Loader, testing::ValuesIn(AllCases()),
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
        {"2.21", true, 0, false},   {"2.22", false, 3, true},
        {"2.23", false, 3, true},   {"2.24", false, 4, true},
        {"2.25", false, 4, true},   {"2.26", false, 4, true},
        {"2.27", false, 4, true},   {"2.28", false, 5, true},
        {"2.29", false, 5, true},   {"2.30", false, 6, true},
        {"2.31dev", false, 6, true}};
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

} // namespace
