// What is written and read back: measurements, policies, tables, files.
#include <gmock/gmock.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

extern "C" {
#include "core/dtype.h"
#include "core/policy/policy.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "report/policy_file.h"
#include "report/table.h"
}

#include "nccl_tuner_abi.h"
#include "support/in_folder.h"
#include "support/written.h"

namespace
{

namespace fs = std::filesystem;
using testing::HasSubstr;

class Report : public InFolder
{
  protected:
    void TearDown() override
    {
        InFolder::TearDown();
        stp_dataset_free(&data_);
    }

    stp_dataset data_{};
};

// ---- files ----

using File = Report;

TEST_F(File, AppearsWholeAndLeavesNothingBeside)
{
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(Path("a").c_str(), &f, &err_));
    fputs("whole\n", f.fp);
    EXPECT_FALSE(fs::exists(Path("a"))) << "not before it is committed";

    ASSERT_EQ(STP_OK, stp_file_commit(&f, &err_));

    EXPECT_EQ("whole\n", Read(Path("a")));
    EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
}

TEST_F(File, KeepsWhatStoodThereIfItIsAbandoned)
{
    std::ofstream(Path("a")) << "old";
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(Path("a").c_str(), &f, &err_));
    fputs("new", f.fp);

    stp_file_abandon(&f);

    EXPECT_EQ("old", Read(Path("a")));
    EXPECT_EQ(1, std::distance(fs::directory_iterator(dir_), {}));
}

TEST_F(File, APipeIsWrittenToAndStaysOne)
{
    const std::string path = Path("pipe");
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
    int reader = open(path.c_str(), O_RDWR | O_NONBLOCK);
    ASSERT_LE(0, reader);
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(path.c_str(), &f, &err_));
    fputs("whole\n", f.fp);
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
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(Path("null").c_str(), &f, &err_));
    fputs("gone", f.fp);
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
    std::ofstream(Path("a")) << "old";
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(Path("a").c_str(), &f, &err_));
    ASSERT_NE(nullptr, freopen("/dev/full", "w", f.fp));
    fputs("new", f.fp);

    EXPECT_EQ(STP_ERR_IO, stp_file_commit(&f, &err_));

    EXPECT_THAT(err_.text, HasSubstr("No space left on device"));
    EXPECT_EQ("old", Read(Path("a")));
}

TEST_F(File, IsRemovedByASignalThatEndsTheProcessUnlessThatIsIgnored)
{
    for (int number : {SIGHUP, SIGINT, SIGTERM}) {
        const auto end = [&](bool ignored) {
            stp_file a, b, c;
            signal(number, ignored ? SIG_IGN : SIG_DFL);
            stp_file_begin(Path("a").c_str(), &a, nullptr);
            stp_file_clean_on_signals();
            stp_file_begin(Path("b").c_str(), &b, nullptr);
            stp_file_begin(Path("c").c_str(), &c, nullptr);
            stp_file_commit(&b, nullptr);
            raise(number);
            stp_file_abandon(&a);
            stp_file_abandon(&c);
            _exit(0);
        };
        EXPECT_EXIT(end(false), testing::KilledBySignal(number), "");
        EXPECT_EXIT(end(true), testing::ExitedWithCode(0), "");

        EXPECT_TRUE(fs::remove(dir_ / "b"));
        EXPECT_TRUE(fs::is_empty(dir_)) << number;
    }
}

TEST_F(File, CanBeReadByThoseWhomTheUmaskLets)
{
    mode_t mask = umask(022);
    stp_file f;
    ASSERT_EQ(STP_OK, stp_file_begin(Path("a").c_str(), &f, &err_));
    ASSERT_EQ(STP_OK, stp_file_commit(&f, &err_));
    umask(mask);

    struct stat st;
    ASSERT_EQ(0, stat(Path("a").c_str(), &st));
    EXPECT_EQ(0644u, st.st_mode & 0777);
}

// ---- measurements ----

using Measurements = Report;

constexpr char kHeader[] =
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,iters,"
    "mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,ran_protocol,"
    "ran_channels,type,op,root,in_place,wrong,source\n";

TEST_F(Measurements, ComeBackAsTheyWereWritten)
{
    const std::string text =
        std::string("# made by hand\n# machine: h200x4\n# gpu: NVIDIA H200\n"
                    "# nccl: 2.28.9\n# backend: nccl\n") +
        kHeader +
        "allgather,4096,0,auto,auto,0,1,4,20,10.500,10.250,11.000,12.000,"
        "9.125,ring,ll,24,bf16,none,0,0,,recorded\n"
        "allgather,4096,3,ring,ll128,16,1,4,20,8.500,8.250,9.000,9.500,"
        "7.125,ring,ll128,16,f32,none,0,1,0,measured\n"
        "allreduce,6442450944,0,plugin,plugin,0,2,16,20,8.500,8.250,9.000,"
        "9.500,7.125,tree,simple,8,fp8e4m3,max,0,0,12,interpolated\n"
        "reduce,64,0,auto,auto,0,1,4,20,8.500,8.250,9.000,9.500,7.125,-,-,0,"
        "i64,prod,3,1,,measured\n";

    ASSERT_EQ(STP_OK, stp_measurements_load(Write("in.csv", text).c_str(),
                                            &data_, &err_))
        << err_.text;
    ASSERT_EQ(STP_OK, stp_measurements_save(&data_, "made by hand",
                                            Path("out.csv").c_str(), &err_));

    EXPECT_EQ(text, Read(Path("out.csv")));
    ASSERT_EQ(4u, data_.n_rows);
    EXPECT_EQ(uint64_t{6442450944}, data_.rows[2].n_bytes);
    EXPECT_EQ(STP_ARM_PLUGIN, data_.rows[2].arm.kind);
    EXPECT_EQ(16, data_.rows[1].arm.n_channels);
}

TEST_F(Measurements, NeedOnlyTheColumnsWithoutDefaults)
{
    ASSERT_EQ(
        STP_OK,
        stp_measurements_load(
            Write("in.csv", "median_us,nRanks,nNodes,protocol,algorithm,round,"
                            "bytes,collective\r\n\r\n5.5,8,1,ll,tree,2,64,"
                            "allreduce\r\n")
                .c_str(),
            &data_, &err_))
        << err_.text;

    const stp_measurement &m = data_.rows[0];
    EXPECT_EQ(NCCL_ALGO_TREE, m.arm.algo);
    EXPECT_EQ(NCCL_ALGO_TREE, m.ran_algo);
    EXPECT_EQ(5.5, m.us.mean);
    EXPECT_EQ(5.5, m.us.p99);
    EXPECT_EQ(1u, m.iters);
    EXPECT_EQ(0, m.arm.n_channels);
    EXPECT_EQ(STP_SOURCE_MEASURED, m.source);
    EXPECT_EQ(STP_TYPE_BF16, m.type);
    EXPECT_EQ(STP_OP_SUM, m.op);
    EXPECT_EQ(0u, m.root);
    EXPECT_FALSE(m.in_place);
    EXPECT_EQ(-1, m.n_wrong);
    EXPECT_STREQ("nccl", data_.backend);
}

TEST_F(Measurements, OfSeveralFilesAreRoundsOfTheirOwn)
{
    const std::string file = Write(
        "in.csv", std::string("# gpu: G\n# nccl: 2.28.9\n") +
                      "collective,bytes,round,algorithm,protocol,nNodes,nRanks,"
                      "median_us\nallreduce,64,0,auto,auto,1,4,5\n"
                      "allreduce,64,1,auto,auto,1,4,5\n");

    ASSERT_EQ(STP_OK, stp_measurements_load(file.c_str(), &data_, &err_));
    ASSERT_EQ(STP_OK, stp_measurements_load(file.c_str(), &data_, &err_));

    ASSERT_EQ(4u, data_.n_rows);
    EXPECT_EQ(1u, data_.rows[1].round);
    EXPECT_EQ(2u, data_.rows[2].round);
    EXPECT_EQ(3u, data_.rows[3].round);
}

struct BadCsv {
    const char *name;
    const char *text;
    unsigned line;
    unsigned column;
    const char *expected;
};

#define SHORT                                                                  \
    "collective,bytes,round,algorithm,protocol,nNodes,nRanks,median_us\n"

TEST_F(Measurements, AreRefusedWithLineColumnAndWord)
{
    const BadCsv cases[] = {
        {"empty", "", 0, 0, "no measurements"},
        {"header_only", SHORT, 1, 0, "no measurements"},
        {"unknown_column", "collective,byts\n", 1, 12, "header with 'byts'"},
        {"column_twice", "bytes,bytes\n", 1, 7, "header with 'bytes'"},
        {"column_missing", "collective,bytes\n", 1, 1,
         "without the column round"},
        {"too_few_fields", SHORT "allreduce,64\n", 2, 1,
         "2 fields, expected 8"},
        {"unknown_collective", SHORT "alreduce,64,0,auto,auto,1,4,5\n", 2, 1,
         "collective 'alreduce', expected the name of a collective"},
        {"negative_bytes", SHORT "allreduce,-64,0,auto,auto,1,4,5\n", 2, 11,
         "bytes '-64', expected a number of bytes"},
        {"unknown_arm", SHORT "allreduce,64,0,rnig,ll,1,4,5\n", 2, 16,
         "algorithm 'rnig', expected an algorithm, auto, auto2 or plugin"},
        {"no_time", SHORT "allreduce,64,0,auto,auto,1,4,0\n", 2, 30,
         "median_us '0', expected a time above 0"},
        {"not_a_number", SHORT "allreduce,64,0,auto,auto,1,4,nan\n", 2, 30,
         "median_us 'nan', expected a time above 0"},
        {"no_ranks", SHORT "allreduce,64,0,auto,auto,1,0,5\n", 2, 28,
         "nRanks '0', expected a number from 1"},
    };

    for (const BadCsv &c : cases) {
        SCOPED_TRACE(c.name);
        stp_error err{};
        EXPECT_EQ(STP_ERR_SYNTAX,
                  stp_measurements_load(Write("in.csv", c.text).c_str(), &data_,
                                        &err));
        EXPECT_EQ(c.line, err.line);
        EXPECT_EQ(c.column, err.column);
        EXPECT_THAT(err.text, HasSubstr(c.expected));
        EXPECT_EQ(0u, data_.n_rows);
    }
}

TEST_F(Measurements, OfDifferentGpusAreNotMixed)
{
    ASSERT_EQ(STP_OK, stp_measurements_load(
                          Write("in.csv", "# gpu: A\n" SHORT
                                          "allreduce,64,0,auto,auto,1,4,5\n")
                              .c_str(),
                          &data_, &err_));

    EXPECT_EQ(STP_ERR_SYNTAX,
              stp_measurements_load(Write("in.csv",
                                          "# gpu: B\n" SHORT
                                          "allreduce,64,0,auto,auto,1,4,5\n")
                                        .c_str(),
                                    &data_, &err_));

    EXPECT_THAT(err_.text, HasSubstr("measured on 'B'"));
    EXPECT_EQ(1u, data_.n_rows);
}

// ---- policies ----

using PolicyFile = Report;

stp_measurement Row(const stp_arm &arm, unsigned round, double us)
{
    stp_measurement m{};
    m.coll = ncclFuncAllGather;
    m.n_bytes = 4096;
    m.round = round;
    m.arm = arm;
    m.ran_algo = NCCL_ALGO_RING;
    m.ran_proto = arm.kind == STP_ARM_AUTO ? NCCL_PROTO_SIMPLE : arm.proto;
    m.n_ranks = 4;
    m.n_nodes = 1;
    m.us.median = us;
    return m;
}

class PolicyFileTest : public Report
{
  protected:
    std::string Save(bool portable)
    {
        const stp_arm forced{STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128,
                             0};
        for (unsigned r = 0; r < 2; r++) {
            stp_measurement a = Row(stp_arm{}, r, 12);
            stp_measurement b = Row(forced, r, 10);
            stp_dataset_add(&data_, &a);
            stp_dataset_add(&data_, &b);
        }
        strcpy(data_.machine, "h200x4");
        strcpy(data_.gpu, "NVIDIA H200");
        strcpy(data_.nccl, "2.28.9");
        stp_comparisons all{};
        stp_derived derived{};
        EXPECT_EQ(STP_OK, stp_compare(&data_, &all, nullptr));
        EXPECT_EQ(STP_OK, stp_derive(&all, 0.02, &derived, nullptr));
        const stp_policy_origin origin{&data_,   "a test", 0.02,
                                       portable, false,    nullptr};
        EXPECT_EQ(STP_OK, stp_policy_file_save(&derived, &origin,
                                               Path("p.conf").c_str(), &err_));
        stp_derived_free(&derived);
        stp_comparisons_free(&all);
        return Read(Path("p.conf"));
    }
};

TEST_F(PolicyFileTest, CarriesEachRulesEvidence)
{
    EXPECT_EQ(
        "# a test\n"
        "# from times of h200x4 (NVIDIA H200, NCCL 2.28.9): 4 measured\n"
        "# A rule stands where its gain over NCCL's own choice is at least 2 "
        "percent with 95 percent confidence.\n"
        "collective,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,"
        "nRanks,gpu\n"
        "\n"
        "# 4096 B: ring/simple 12.0 us -> 10.0 us, gain 1.200 (1.200 to "
        "1.200), 2 rounds measured\n"
        "allgather,4096,4096,ring,ll128,-1,1,4,NVIDIA H200\n",
        Save(false));
}

TEST_F(PolicyFileTest, SaysWhatTheTimesAreWorth)
{
    stp_measurement row = Row(stp_arm{}, 0, 12);
    row.source = STP_SOURCE_MODELLED;
    stp_dataset_add(&data_, &row);
    row.source = STP_SOURCE_SINGLE_PASS;
    stp_dataset_add(&data_, &row);
    stp_dataset_add(&data_, &row);
    strcpy(data_.machine, "m");
    strcpy(data_.gpu, "g");
    strcpy(data_.nccl, "2");
    const stp_derived none{};
    const stp_policy_origin origin{&data_, "a test", 0.02,
                                   true,   false,    nullptr};
    ASSERT_EQ(STP_OK, stp_policy_file_save(&none, &origin,
                                           Path("p.conf").c_str(), &err_));

    std::string text = Read(Path("p.conf"));
    EXPECT_THAT(text, testing::HasSubstr("# from times of m (g, NCCL 2): 2 "
                                         "single_pass, 1 modelled\n"));
    EXPECT_THAT(text, testing::HasSubstr("# No rule: none of these times is of "
                                         "interleaved rounds, and a model "
                                         "decides nothing.\n"));
}

TEST_F(PolicyFileTest, IsReadByThePluginsParser)
{
    for (bool portable : {false, true}) {
        Save(portable);
        stp_policy *policy = nullptr;
        ASSERT_EQ(STP_OK,
                  stp_policy_load(Path("p.conf").c_str(), &policy, &err_))
            << err_.text;
        ASSERT_EQ(1u, stp_policy_size(policy));
        const stp_rule *rule = stp_policy_rule(policy, 0);
        EXPECT_EQ(ncclFuncAllGather, rule->coll);
        EXPECT_EQ(NCCL_PROTO_LL128, rule->proto);
        EXPECT_EQ(0, rule->n_channels);
        if (portable)
            EXPECT_EQ(nullptr, rule->gpu);
        else
            EXPECT_STREQ("NVIDIA H200", rule->gpu);
        stp_policy_free(policy);
        stp_dataset_free(&data_);
    }
}

TEST_F(PolicyFileTest, InPortableFormHasNvidiasEightColumns)
{
    std::string text = Save(true);

    EXPECT_THAT(text, HasSubstr("\nallgather,4096,4096,ring,ll128,-1,1,4\n"));
    EXPECT_THAT(text, testing::Not(HasSubstr("collective,")));
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
    return Written([&](FILE *fp) { return stp_table_end(&t, fp, nullptr); });
}

TEST(Table, AlignsColumnsWithoutTrailingBlanks)
{
    EXPECT_EQ("name          us  is    gain    95% interval  ran\n"
              "long name  10.25  yes  1.250  1.000 to 1.500  ring/ll128/4\n"
              "-              -       1.250  1.000 to 1.500  -\n",
              Print(STP_TABLE_TEXT));
}

TEST(Table, IsMarkdown)
{
    EXPECT_THAT(
        Print(STP_TABLE_MARKDOWN),
        testing::StartsWith("| name | us | is | gain | 95% interval | ran |\n"
                            "|---|--:|---|--:|--:|---|\n"
                            "| long name | 10.25 | yes |"));
}

TEST(Table, IsCsvWithEmptyFieldsForTheUnknown)
{
    EXPECT_EQ("name,n,us,ran_algorithm,ran_protocol,ran_channels\n"
              "long name,7,10.25,ring,ll128,4\n"
              ",7,,,,\n",
              Print(STP_TABLE_CSV));
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

TEST(Table, HasHeadingsWithoutRowsAndCutsLongCells)
{
    stp_table t = stp_table_begin(STP_TABLE_TEXT);
    EXPECT_TRUE(stp_table_headings(&t));
    stp_table_row(&t);
    stp_table_word(&t, nullptr, "<a", "left out");
    EXPECT_FALSE(stp_table_headings(&t));
    stp_table_row(&t);
    stp_table_word(&t, nullptr, "<a", std::string(200, 'x').c_str());

    EXPECT_EQ(
        "a\n" + std::string(STP_TABLE_CELL - 1, 'x') + "\n",
        Written([&](FILE *fp) { return stp_table_end(&t, fp, nullptr); }));
}

} // namespace
