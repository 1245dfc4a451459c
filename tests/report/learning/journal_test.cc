// Journals of jobs that learned: what is read, and what it comes to.
extern "C" {
#include "report/learning/journal.h"
}

#include <gmock/gmock.h>

#include <cmath>

#include "nccl_tuner_abi.h"
#include "report/learning/journals.h"
#include "support/temporary_folder.h"
#include "support/written.h"

namespace
{

using journals::kHead;
using testing::HasSubstr;

std::vector<stp_journal_line> Lines(const std::string &text, size_t from = 0)
{
    stp_journal_lines lines{};
    stp_error err{};

    EXPECT_EQ(STP_OK,
              stp_journal_read(text.data(), text.size(), from, &lines, &err))
        << err.line << ": " << err.text;
    std::vector<stp_journal_line> all(lines.all, lines.all + lines.n);
    stp_journal_free(&lines);
    return all;
}

TEST(Journal, HasTimesInMicroseconds)
{
    const std::string line = "1,1,1,4,reward,2,allreduce,8,8,auto,auto,,1.5,,,";
    const std::string head = kHead.substr(0, kHead.size() - 1) + ",unit\n";

    EXPECT_EQ(1.5, Lines(kHead + line + "\n").at(0).value);
    EXPECT_EQ(1.5, Lines(head + line + ",us\n").at(0).value);
    EXPECT_EQ(1500, Lines(head + line + ",ms\n").at(0).value);
    std::string in_front = kHead;
    in_front.insert(in_front.find("collective"), "unit,");
    EXPECT_EQ(1500, Lines(in_front + "1,1,1,4,reward,2,ms,allreduce,8,8,auto,"
                                     "auto,,1.5,,,\n")
                        .at(0)
                        .value);
    EXPECT_EQ(3,
              Lines(head + "1,1,1,4,window,2,,,,,,,3,,,,calls\n").at(0).value);
}

TEST(Journal, HasAllThatALineSays)
{
    auto lines = Lines(
        kHead + "17000.250,00ff68a77e72779a,2,16,settled,361,allgather,4194304,"
                "5242879,ring,ll128,24,8,1.06595,1.05852,inf\n"
                "17001,1,1,4,window,31,,,,,,,3,,,\n"
                "17002,1,1,4,reward,32,allreduce,8,8,auto,auto,,1.5e+06,,,\n");

    ASSERT_EQ(3u, lines.size());
    EXPECT_EQ(17000.25, lines[0].t_us);
    EXPECT_EQ(0x00ff68a77e72779au, lines[0].comm);
    EXPECT_EQ(2u, lines[0].n_nodes);
    EXPECT_EQ(16u, lines[0].n_ranks);
    EXPECT_EQ(STP_LEARN_SETTLED, lines[0].kind);
    EXPECT_EQ(361u, lines[0].call);
    EXPECT_EQ(ncclFuncAllGather, lines[0].coll);
    EXPECT_EQ(4194304u, lines[0].bytes.min);
    EXPECT_EQ(5242879u, lines[0].bytes.max);
    EXPECT_EQ(NCCL_ALGO_RING, lines[0].arm.algo);
    EXPECT_EQ(NCCL_PROTO_LL128, lines[0].arm.proto);
    EXPECT_EQ(24, lines[0].arm.n_channels);
    EXPECT_EQ(8, lines[0].value);
    EXPECT_EQ(1.06595, lines[0].gain.gain);
    EXPECT_EQ(1.05852, lines[0].gain.low);
    EXPECT_TRUE(std::isinf(lines[0].gain.high));
    EXPECT_EQ(-1, lines[1].coll);
    EXPECT_EQ(3, lines[1].value);
    EXPECT_EQ(0, lines[1].gain.gain);
    EXPECT_EQ(-1, lines[2].arm.algo);
    EXPECT_EQ(0, lines[2].arm.n_channels);
    EXPECT_EQ(1.5e6, lines[2].value);
}

TEST(Journal, LeavesOutALineThatAKilledJobDidNotFinish)
{
    const std::string line = "1,1,1,4,window,0,,,,,,,9,,,\n";

    EXPECT_EQ(0u, Lines("").size());
    EXPECT_EQ(0u, Lines("t_us,com").size());
    EXPECT_EQ(0u, Lines(kHead).size());
    EXPECT_EQ(0u, Lines(kHead + "1,1,1,4,wi").size());
    EXPECT_EQ(1u, Lines(kHead + line + line.substr(0, 12)).size());
    EXPECT_EQ(1u, Lines(kHead + line + line.substr(0, line.size() - 1)).size());
}

TEST(Journal, LeavesOutWhatEarlierJobsWrote)
{
    const std::string early = kHead + "1,1,1,4,window,0,,,,,,,9,,,\n";
    const std::string text = early + "2,1,1,4,window,7,,,,,,,8,,,\n";

    EXPECT_EQ(2u, Lines(text, 0).size());
    ASSERT_EQ(1u, Lines(text, early.size()).size());
    EXPECT_EQ(7u, Lines(text, early.size())[0].call);
    EXPECT_EQ(0u, Lines(text, text.size()).size());
    EXPECT_EQ(0u, Lines(text, 10 * text.size()).size());
}

TEST(Journal, RefusesWhatIsNone)
{
    const std::string good = "1,1,1,4,window,0,,,,,,,9,,,\n";
    const std::string row = "1,1,1,4,trial,0,allreduce,8,9,";
    const struct {
        const char *name;
        std::string text;
        unsigned line;
        const char *why;
    } cases[] = {
        {"measurements", "collective,bytes\nallreduce,8\n", 1, "no journal"},
        {"empty line", "\n" + kHead + good, 1, "no journal"},
        {"short header", "t_us,comm,nNodes,nRanks,event,call,value\n1\n", 1,
         "collective"},
        {"fields", kHead + good + "1,1,1,4,st\n" + good, 3, "5 fields"},
        {"torn within", kHead + "1,1,1,4" + good, 2, "fields, expected 16"},
        {"event", kHead + "1,1,1,4,trail,0,,,,,,,9,,,\n", 2,
         "event 'trail', expected an event such as message"},
        {"comm", kHead + "1,0x1,1,4,step,0,,,,,,,9,,,\n", 2, "comm '0x1'"},
        {"no comm", kHead + "1,,1,4,step,0,,,,,,,9,,,\n", 2, "comm ''"},
        {"long comm", kHead + "1,12345678901234567,1,4,step,0,,,,,,,9,,,\n", 2,
         "16 hexadecimal digits"},
        {"ranks", kHead + "1,1,1,0,step,0,,,,,,,9,,,\n", 2, "nRanks '0'"},
        {"nodes", kHead + "1,1,-1,4,step,0,,,,,,,9,,,\n", 2, "nNodes '-1'"},
        {"collective", kHead + "1,1,1,4,trial,0,x,8,9,auto,auto,,0,,,\n", 2,
         "collective 'x'"},
        {"none", kHead + "1,1,1,4,trial,0,,,,,,,0,,,\n", 2,
         "a 'trial' without a collective"},
        {"range", kHead + "1,1,1,4,trial,0,allreduce,9,8,auto,auto,,0,,,\n", 2,
         "min_bytes above max_bytes"},
        {"pair", kHead + row + "ring,auto,0,0,,,\n", 2,
         "an algorithm without a protocol"},
        {"algorithm", kHead + row + "rong,ll,0,0,,,\n", 2, "'rong'"},
        {"protocol", kHead + row + "ring,lll,0,0,,,\n", 2, "'lll'"},
        {"channels", kHead + row + "ring,ll,65,0,,,\n", 2, "channels '65'"},
        {"value", kHead + row + "ring,ll,0,nan,,,\n", 2, "value 'nan'"},
        {"gain", kHead + row + "ring,ll,0,0,x,,\n", 2, "gain 'x'"},
        {"unit",
         kHead.substr(0, kHead.size() - 1) + ",unit\n" + row +
             "ring,ll,0,0,,,,s\n",
         2, "unit 's', expected us, ms or calls"},
    };

    for (const auto &c : cases) {
        stp_journal_lines lines{};
        stp_error err{};
        EXPECT_EQ(STP_ERR_SYNTAX, stp_journal_read(c.text.data(), c.text.size(),
                                                   0, &lines, &err))
            << c.name;
        EXPECT_EQ(c.line, err.line) << c.name;
        EXPECT_THAT(err.text, HasSubstr(c.why)) << c.name;
        EXPECT_EQ(nullptr, lines.all) << c.name;
    }
}

// Their first lines say how they were made.
TEST(Journal, OfRealJobsAreReadAndDrawn)
{
    const struct {
        const char *file;
        size_t n_lines, n_trials;
    } cases[] = {{"h200x2_torch_step_tuned", 115, 16},
                 {"h200x2_planted", 158, 12},
                 {"h100x2_torch_megatron", 123, 26}};
    for (const auto &c : cases) {
        SCOPED_TRACE(c.file);
        const std::string path =
            std::string(STP_FIXTURES "/jobs/") + c.file + ".csv";
        stp_journal_lines lines{};
        stp_error err{};
        size_t n_trials = 0;

        ASSERT_EQ(STP_OK, stp_journal_load(path.c_str(), 0, &lines, &err))
            << err.text;
        for (size_t i = 0; i < lines.n; i++)
            n_trials += lines.all[i].kind == STP_LEARN_TRIAL;
        EXPECT_EQ(c.n_lines, lines.n);
        EXPECT_EQ(c.n_trials, n_trials);
        stp_journal_free(&lines);
    }
}

TEST(Journal, OfCommentsAndItsHeaderHasNoLines)
{
    const std::string text = "# one\n# two\n" + kHead;
    stp_journal_lines lines{};
    stp_error err{};

    EXPECT_EQ(STP_OK,
              stp_journal_read(text.data(), text.size(), 0, &lines, &err));
    EXPECT_EQ(0u, lines.n);
    EXPECT_EQ(STP_ERR_SYNTAX, stp_journal_read("# one\n", 6, 0, &lines, &err));
}

TEST(Journal, ThatIsNotThereIsEmptyAndAFolderIsNone)
{
    const TemporaryFolder temporary;
    const std::string &folder = temporary.path();
    stp_journal_lines lines{};
    stp_error err{};

    EXPECT_EQ(STP_OK, stp_journal_load((folder + "/no-such-journal").c_str(), 0,
                                       &lines, &err));
    EXPECT_EQ(0u, lines.n);
    EXPECT_EQ(STP_ERR_IO, stp_journal_load(folder.c_str(), 0, &lines, &err));
    EXPECT_THAT(err.text, HasSubstr("no regular file"));
}

} // namespace
