// Policies, tables and files as they are written.
#include <gmock/gmock.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>

extern "C" {
#include "core/policy/memory_policy.h"
#include "report/file.h"
#include "report/memory_file.h"
#include "report/results/tune_report.h"
#include "report/table.h"
}

#include "nccl_tuner_abi.h"
#include "support/child.h"
#include "support/in_folder.h"
#include "support/written.h"

namespace
{

namespace fs = std::filesystem;
using testing::EndsWith;
using testing::HasSubstr;

class Report : public InFolder
{
  protected:
    const stp_dataset data_{};
};

// ---- files ----

class File : public Report
{
  protected:
    // A file that is written but not there yet.
    stp_file Begin(const char *name, const char *text)
    {
        stp_file f{};
        EXPECT_EQ(STP_OK, stp_file_begin(Path(name).c_str(), &f, &err_))
            << err_.text;
        fputs(text, f.fp);
        return f;
    }
};
TEST_F(File, KeepsWhatStoodThereIfItIsAbandoned)
{
    std::ofstream(Path("a")) << "old";
    stp_file f = Begin("a", "new");

    EXPECT_EQ(STP_ERR_LIMIT, stp_file_end(&f, STP_ERR_LIMIT, nullptr));

    EXPECT_EQ("old", Read(Path("a")));
    EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
}

TEST_F(File, IsGoneIfASignalEndsTheProcessThatWritesIt)
{
    const int status = StatusOfChild([&] {
        signal(SIGTERM, SIG_DFL);
        Begin("a", "half");
        raise(SIGTERM);
    });

    EXPECT_EQ(SIGTERM, WTERMSIG(status));
    EXPECT_TRUE(fs::is_empty(dir_));
}

TEST_F(File, APipeIsWrittenToAndStaysOne)
{
    const std::string path = Path("pipe");
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
    int reader = open(path.c_str(), O_RDWR | O_NONBLOCK);
    ASSERT_LE(0, reader);
    stp_file f = Begin("pipe", "whole\n");
    ASSERT_EQ(STP_OK, stp_file_commit(&f, &err_));

    char text[16] = "";
    EXPECT_EQ(6, read(reader, text, sizeof(text)));
    EXPECT_STREQ("whole\n", text);
    EXPECT_TRUE(fs::is_fifo(path));
    close(reader);
}

TEST_F(File, ADeviceStaysOne)
{
    ASSERT_EQ(0, symlink("/dev/null", Path("null").c_str()));
    stp_file f = Begin("null", "gone");
    ASSERT_EQ(STP_OK, stp_file_commit(&f, &err_));

    EXPECT_TRUE(fs::is_symlink(Path("null")));
    EXPECT_TRUE(fs::is_character_file(Path("null")));
    EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
}

TEST_F(File, SaysWhichFolderIsMissing)
{
    stp_file f{};

    EXPECT_EQ(STP_ERR_IO, stp_file_begin(Path("no/a").c_str(), &f, &err_));

    EXPECT_EQ("cannot write '" + Path("no/a") + "': No such file or directory",
              err_.text);
    EXPECT_EQ(nullptr, f.fp);
}

TEST_F(File, KeepsWhatStoodThereIfTheDiskIsFull)
{
    if (access("/dev/full", W_OK) != 0)
        GTEST_SKIP() << "no /dev/full here";
    const std::pair<size_t, const char *> cases[] = {
        {3, "No space left on device"},
        {1 << 20, ""}, // the failure is long past
    };
    for (const auto &[size, why] : cases) {
        std::ofstream(Path("a")) << "old";
        stp_file f = Begin("a", "");
        ASSERT_NE(nullptr, freopen("/dev/full", "w", f.fp));
        fputs(std::string(size, 'x').c_str(), f.fp);

        EXPECT_EQ(STP_ERR_IO, stp_file_end(&f, STP_OK, &err_));

        EXPECT_THAT(err_.text, HasSubstr("cannot write '" + Path("a") + "': "));
        EXPECT_THAT(err_.text, HasSubstr(why));
        EXPECT_EQ("old", Read(Path("a")));
        EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
    }
}

TEST_F(File, CanBeReadByThoseWhomTheUmaskLets)
{
    mode_t mask = umask(022);
    stp_file f = Begin("a", "");
    ASSERT_EQ(STP_OK, stp_file_commit(&f, &err_));
    umask(mask);

    struct stat st;
    ASSERT_EQ(0, stat(Path("a").c_str(), &st));
    EXPECT_EQ(0644u, st.st_mode & 0777);
}

// ---- policies ----

// Gains beyond doubt that are no rule, as LL is slower back to back than
// between other kernels, and one whose interval says nothing.
TEST_F(Report, OfTuneNamesGainsOverLlAndThoseThatDidNotHold)
{
    const stp_device_info info{};
    const stp_comparisons none{};
    const stp_derived derived{};
    stp_tune_report report{};
    stp_tune_unsure unsure[3]{};

    for (stp_tune_unsure &u : unsure) {
        u.coll = ncclFuncAllReduce;
        u.n_bytes = 2 << 20;
        u.arm = {STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 0, 0, {}};
        u.gain = {1.05, 1.04, 1.06, 5};
    }
    unsure[1].overlaps = true;
    unsure[2].gain.low = 0.98;
    report.info = &info;
    report.run = report.policy_path = report.policy_hash = "";
    report.min_gain = 0.02;
    report.sweep = report.verdicts = report.steps = &none;
    report.derived = &derived;

    for (size_t n : {3, 1}) { // the last has no doubt of this kind
        report.unsure = unsure + 3 - n;
        report.n_unsure = n;
        ASSERT_EQ(STP_OK,
                  stp_tune_report_save(&report, Path("r").c_str(), nullptr));
        std::string text = Read("r");
        std::replace(text.begin(), text.end(), '\n', ' ');

        EXPECT_THAT(text, HasSubstr("ring/ll128 1.050x (0.980 to 1.060) after "
                                    "5 rounds."));
        for (const char *said :
             {"ring/ll128 1.050x (1.040 to 1.060) after 5 rounds, over LL back "
              "to back;",
              "(1.040 to 1.060) after 5 rounds, over LL;",
              "a job that is captured may lose by these: `steptune iterate "
              "--mode sequential --cudagraph 1` on the GPUs would settle it."})
            EXPECT_EQ(n == 3, text.find(said) != std::string::npos) << text;
    }

    // A line for each gain that did not hold is the report's alone.
    const stp_memory_drop drops[2]{};
    const stp_memory_table memory{STP_POLICY_OF_MEMORY, nullptr, 0, drops, 2};

    report.memory = &memory;
    stp_tune_report_save(&report, Path("r").c_str(), nullptr);
    EXPECT_THAT(Read("r"), HasSubstr("\nDropped: "));
    testing::internal::CaptureStdout();
    EXPECT_EQ(STP_OK, stp_print_tuning(&report, true, stdout, nullptr));
    EXPECT_THAT(testing::internal::GetCapturedStdout(),
                AllOf(Not(HasSubstr("Dropped")),
                      HasSubstr("\nGains that a second measurement did not "
                                "confirm, and that the report names: 2.\n")));
}

class MemoryFileTest : public Report
{
  protected:
    std::string SaveMemory(const std::vector<stp_memory_rule> &rules,
                           const std::vector<stp_memory_drop> &drops = {})
    {
        const stp_memory_table table{STP_POLICY_OF_MEMORY, rules.data(),
                                     rules.size(), drops.data(), drops.size()};
        const stp_policy_origin origin{&data_,  "a test", 0.02,  false,   false,
                                       nullptr, false,    false, nullptr, {}};
        stp_policy *policy = nullptr;

        EXPECT_EQ(STP_OK, stp_memory_file_save(&table, &origin,
                                               Path("p.memory").c_str(), &err_))
            << err_.text;
        EXPECT_EQ(STP_OK,
                  stp_policy_load(STP_POLICY_OF_MEMORY,
                                  Path("p.memory").c_str(), &policy, &err_));
        EXPECT_EQ(rules.size(), stp_policy_size(policy));
        stp_policy_free(policy);
        return Read(Path("p.memory"));
    }
    static stp_rule Rule(stp_memory memory, uint64_t min, uint64_t max)
    {
        stp_rule rule{};

        rule.coll = ncclFuncAllReduce;
        rule.memory = memory;
        rule.bytes = {min, max};
        rule.bytes_per_rank = {0, UINT64_MAX};
        rule.nodes = {1, 1};
        rule.ranks = {2, 2};
        rule.n_pipe_ops = rule.reg_buff = rule.overlap = -1;
        return rule;
    }
    const std::string head_ =
        "# from times of a machine without a name: \n"
        "# A rule stands where its gain over plain buffers with NCCL's own "
        "choice is at least 2 percent, and where it is faster than the best "
        "rule of a policy, both with 95 percent confidence, and goes on at "
        "neighbouring sizes where it is faster than both by less, with the "
        "same confidence; elsewhere buffers stay plain, as they do where "
        "launches take the time: where four times the bytes take about as "
        "long.\n";
};

TEST_F(MemoryFileTest, SaysWhatWasDroppedAndWhy)
{
    const std::string text =
        SaveMemory({}, {{ncclFuncAllReduce, 2, true, 4194304,
                         stp_setup_of(STP_MEMORY_SYM, 32), 1.25, 0.97, 1.02},
                        {ncclFuncAllGather, 4, false, 8388608,
                         stp_setup_of(STP_MEMORY_CE, 0), 1.1, NAN, 1}});

    EXPECT_THAT(
        text,
        HasSubstr(
            "# Dropped: sym, minCTAs 32 for allreduce of 4194304 bytes on 2 "
            "ranks overlapped with compute, gain 1.250 at first; measured "
            "again it was 0.970, and the policy's 1.020\n"
            "# Dropped: ce for allgather of 8388608 bytes on 4 ranks, gain "
            "1.100 at first; measured again it was slower than plain buffers "
            "in some workload\n"));
}
TEST_F(MemoryFileTest, HasTheColumnsThatRulesNeed)
{
    stp_rule overlapped = Rule(STP_MEMORY_CE, 0, UINT64_MAX);
    overlapped.overlap = 1;
    stp_rule of_gpu = Rule(STP_MEMORY_REG, 8, 8);
    of_gpu.gpu = "NVIDIA H200";
    of_gpu.ranks = {2, 8};
    of_gpu.nodes = {1, UINT64_MAX};

    EXPECT_THAT(SaveMemory({{overlapped, nullptr, 0}, {of_gpu, nullptr, 0}}),
                EndsWith("nRanks,overlap,gpu\n\n"
                         "allreduce,0,inf,ce,1,2,1,*\n\n"
                         "allreduce,8,8,reg,1-inf,2-8,-1,NVIDIA H200\n"));
    for (const char *gpu : {"A, or B", "\"A\"", "A*"}) {
        of_gpu.gpu = gpu;
        EXPECT_THAT(SaveMemory({{of_gpu, nullptr, 0}}),
                    EndsWith("nRanks\n\nallreduce,8,8,reg,1-inf,2-8\n"));
    }
}

TEST_F(MemoryFileTest, SaysThatThereIsNoRule)
{
    EXPECT_THAT(SaveMemory({}),
                EndsWith(head_ +
                         "# No rule: no buffers gain enough beyond doubt at "
                         "any size timed.\n"
                         "collective,min_bytes,max_bytes,memory,nNodes,"
                         "nRanks\n"));
}

// ---- tables ----

// Two rows with what is known and what is not.
void PutRows(stp_table *t)
{
    const stp_gain gain{1.25, 1, 1.5, 3};

    for (int unknown = 0; unknown < 2; unknown++) {
        stp_table_row(t);
        stp_table_word(t, "name", "<name", unknown ? nullptr : "long name");
        stp_table_count(t, "n", nullptr, 7);
        stp_table_number(t, "us", "us", unknown ? NAN : 10.25, 2);
        stp_table_flag(t, "is", "<is", !unknown);
        stp_table_gain(t, &gain);
        stp_table_ran(t, "ran", "<ran", unknown ? -1 : NCCL_ALGO_RING,
                      unknown ? -1 : NCCL_PROTO_LL128, unknown ? 0 : 4);
    }
}

std::string Print(stp_table_format format)
{
    stp_table t = stp_table_begin(format);

    PutRows(&t);
    return Written([&](FILE *fp) { stp_table_end(&t, fp); });
}

TEST(Table, AlignsColumnsWithoutTrailingBlanks)
{
    EXPECT_EQ("name          us  is    gain    95% interval  ran\n"
              "long name  10.25  yes  1.250  1.000 to 1.500  ring/ll128/4\n"
              "-              -       1.250  1.000 to 1.500  -\n",
              Print(STP_TABLE_TEXT));
}
TEST(Table, IsJsonWithNullForTheUnknown)
{
    cJSON *root = cJSON_CreateObject();
    stp_table t = stp_table_array(root, "rows");

    PutRows(&t);
    char *text = cJSON_PrintUnformatted(root);

    EXPECT_STREQ(
        R"({"rows":[{"name":"long name","n":7,"us":10.25,"is":true,)"
        R"("gain":1.25,"gain_low":1,"gain_high":1.5,"rounds":3,)"
        R"("ran":{"algorithm":"ring","protocol":"ll128","channels":4}},)"
        R"({"name":null,"n":7,"us":null,"is":false,)"
        R"("gain":1.25,"gain_low":1,"gain_high":1.5,"rounds":3,)"
        R"("ran":{"algorithm":null,"protocol":null,"channels":0}}]})",
        text);
    cJSON_free(text);
    cJSON_Delete(root);
}

TEST(Table, KeepsEscapeSequencesFromATerminal)
{
    stp_table t = stp_table_begin(STP_TABLE_TEXT);
    stp_table_row(&t);
    stp_table_word(&t, nullptr, "<a", "\x1b[2J");

    EXPECT_EQ("a\n\\x1B[2J\n",
              Written([&](FILE *fp) { stp_table_end(&t, fp); }));
}

TEST(Table, HasHeadingsWithoutRowsAndCutsLongCells)
{
    stp_table t = stp_table_begin(STP_TABLE_TEXT);
    EXPECT_TRUE(stp_table_headings(&t));
    stp_table_row(&t);
    stp_table_word(&t, nullptr, "<a", "left out");
    EXPECT_FALSE(stp_table_headings(&t));
    stp_table_row(&t);
    stp_table_word(&t, nullptr, "<a", std::string(200, 'x').c_str());

    EXPECT_EQ("a\n" + std::string(STP_TABLE_CELL - 1, 'x') + "\n",
              Written([&](FILE *fp) { stp_table_end(&t, fp); }));
}

TEST(Table, IsMarkdown)
{
    EXPECT_THAT(
        Print(STP_TABLE_MARKDOWN),
        testing::StartsWith("| name | us | is | gain | 95% interval | ran |\n"
                            "|---|--:|---|--:|--:|---|\n"
                            "| long name | 10.25 | yes |"));
}

} // namespace
