// nccl-tests' text of all versions, and what is refused.
#include <random>

#include <utility>

#include "report/dressed.h"

extern "C" {
#include "report/measurements/nccl_text.h"
}

#include "nccl_tuner_abi.h"
#include "report/measurements/measured_files.h"

namespace
{

using testing::HasSubstr;

#define OPTIONS "# nThread 1 nGpus 2 warmup iters: 5 iters: 30 validation: 1 \n"
#define RANKS                                                                  \
    "# Using devices\n"                                                        \
    "#   Rank  0 Pid  100 on  a device  0 [0x07] Tesla V100\n"                 \
    "#   Rank  1 Pid  100 on  a device  1 [0x0b] Tesla V100\n"
#define COLUMNS                                                                \
    "#       size         count    type   redop    root     time   algbw   "   \
    "busbw #wrong     time   algbw   busbw #wrong\n"
#define HEAD OPTIONS RANKS COLUMNS
#define ROW                                                                    \
    "  1024  256  float  sum  -1  10.5  0.10  0.10  0  9.5  0.11  0.11  0\n"

class Read : public Measured
{
  protected:
    stp_status Parse(const std::string &text, int coll = ncclFuncAllReduce)
    {
        stp_dataset_free(&data_);
        return stp_nccl_text_read(text.data(), text.size(), coll, 0, &data_,
                                  nullptr, &err_);
    }

    // "MACHINE, GPU, NCCL" and the rows, as a CSV file has them, of the text.
    std::string Rows(const std::string &text, int coll = ncclFuncAllReduce)
    {
        EXPECT_EQ(STP_OK, Parse(text, coll)) << err_.line << err_.text;
        const std::string csv = Csv(data_);
        return std::string(data_.machine) + ", " + data_.gpu + ", " +
               data_.nccl + csv.substr(csv.find("single_pass") + 11);
    }
};

TEST_F(Read, VersionsBefore2_17DoNotSayWhichCollective)
{
    EXPECT_EQ("a, Tesla V100, \n"
              "allreduce,1024,0,auto,auto,0,1,2,30,10.500,10.500,,,,-,-,0,f32,"
              "sum,0,0,0,measured,0\n"
              "allreduce,1024,0,auto,auto,0,1,2,30,9.500,9.500,,,,-,-,0,f32,"
              "sum,0,1,0,measured,0\n",
              Rows(HEAD ROW));
    EXPECT_EQ(STP_ERR_SYNTAX,
              Parse(HEAD "8 2 float none -1 9 0 0 N/A 9 0 0 N/A\n", -1));
    EXPECT_THAT(err_.text, HasSubstr("what collective it is of"));
}

// Until 2.9 each program had its own columns, and an error in place of #wrong.
TEST_F(Read, ColumnsAreTakenByName)
{
    EXPECT_EQ("a, Tesla V100, \n"
              "broadcast,4096,0,auto,auto,0,1,2,30,10.500,10.500,,,,-,-,0,f16,"
              "none,1,0,0,measured,0\n"
              "broadcast,4096,0,auto,auto,0,1,2,30,9.500,9.500,,,,-,-,0,f16,"
              "none,1,1,0,measured,0\n",
              Rows(OPTIONS RANKS
                   "#       size         count    type    root     time   "
                   "algbw   busbw  error     time   algbw   busbw  error\n"
                   " 4096 1024 half 1 10.5 0.1 0.1 0e+00 9.5 0.11 0.11 5e-07\n",
                   ncclFuncBroadcast));
}

TEST_F(Read, PerIterationColumnsGivePercentiles)
{
    EXPECT_EQ(
        "a, Tesla V100, \n"
        "allreduce,64,0,auto,auto,0,1,2,30,5.500,5.500,,8.500,4.500,-,-,0,"
        "f32,sum,0,0,0,measured,0\n"
        "allreduce,64,0,auto,auto,0,1,2,30,6.500,6.500,,7.000,6.000,-,-,0,"
        "f32,sum,0,1,1,measured,0\n",
        Rows(OPTIONS RANKS
             "# size count type redop root time algbw busbw #wrong i_min "
             "i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 "
             "i_cv% \n"
             "64 16 float sum -1 5.5 0 0 0 4.5 9.5 8.5 3 6.5 0 0 1 6 8 7 3\n"));
}

TEST_F(Read, NothingUnderRedopIsNoOperation)
{
    EXPECT_EQ("a, Tesla V100, \n"
              "allgather,1024,0,auto,auto,0,1,2,30,10.500,10.500,,,,-,-,0,f32,"
              "none,0,0,0,measured,0\n"
              "allgather,1024,0,auto,auto,0,1,2,30,9.500,9.500,,,,-,-,0,f32,"
              "none,0,1,,measured,0\n",
              Rows(HEAD "1024  128  float          -1  10.5  0.1  0.1 "
                        " 0  9.5  0.1  0.1  N/A\n",
                   ncclFuncAllGather));
}

TEST_F(Read, EveryPassOverTheSizesIsARound)
{
    const char small[] = "512 1 float sum -1 9 0 0 0 9 0 0 0\n";
    const std::string pass = std::string(small) + ROW;
    const std::pair<std::string, std::vector<unsigned>> cases[] = {
        {pass + pass, {0, 0, 0, 0, 1, 1, 1, 1}},
        {ROW ROW ROW, {0, 0, 1, 1, 2, 2}}, // one size is a pass, too
        // a shell's loop over sizes, and one that takes all of them twice
        {std::string(small) + HEAD ROW, {0, 0, 0, 0}},
        {pass + HEAD + small + HEAD ROW, {0, 0, 0, 0, 1, 1, 1, 1}},
        // all types, or all operations (-d all, -o all), two passes each
        {pass + pass + "512 2 half sum -1 9 0 0 0 9 0 0 0\n" +
             "512 2 half sum -1 9 0 0 0 9 0 0 0\n" +
             "512 2 half max -1 9 0 0 0 9 0 0 0\n",
         {0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0}},
    };
    for (const auto &[rows, rounds] : cases) {
        ASSERT_EQ(STP_OK, Parse(HEAD + rows)) << err_.text;
        ASSERT_EQ(rounds.size(), data_.n_rows);
        for (size_t i = 0; i < rounds.size(); i++)
            EXPECT_EQ(rounds[i], data_.rows[i].round);
    }
}

// Errors above those that nccl-tests allow ranks of this type are wrong; where
// only the last line says that some are, nobody knows which are not.
TEST_F(Read, ErrorsAndTheLastLineSayWhatIsWrong)
{
    const struct {
        const char *type, *error, *foot;
        int64_t n_wrong;
    } cases[] = {
        {"float", "1e-05", "0 OK", 0},     {"float", "2e-05", "0 OK", 1},
        {"half", "1e-02", "0 OK", 0},      {"half", "2e-02", "0 OK", 1},
        {"double", "1e-12", "0 OK", 0},    {"double", "1e-11", "0 OK", 1},
        {"int32", "0e+00", "0 OK", 0},     {"int32", "1e+00", "0 OK", 1},
        {"float", "N/A", "0 OK", -1},      {"float", "N/A", "3 FAILED", 1},
        {"float", "1e-05", "1 FAILED", 1},
    };

    for (const auto &c : cases) {
        const std::string row = std::string("1024 256 ") + c.type + " sum 5 " +
                                "0.2 0.2 " + c.error + "\n";
        ASSERT_EQ(STP_OK,
                  Parse(std::string(OPTIONS RANKS) +
                        "# size count type redop time algbw busbw error\n" +
                        row + "# Out of bounds values : " + c.foot + "\n"))
            << err_.text;
        EXPECT_EQ(c.n_wrong, data_.rows[0].n_wrong) << row << c.foot;
    }
}

// Runs of up to 2,000 ranks on up to 500 hosts, as nccl-tests print them.
TEST_F(Read, FiguresOfATextAreHeldAgainstEachOther)
{
    static const double kOfMany[] = {0, 0, 1, 1, 2}; // factors of busbw
    static const char *const kTests[] = {"", "", "all_gather", "reduce_scatter",
                                         "all_reduce"};
    size_t n_told = 0, n_refused = 0;
    std::mt19937 random(1);

    for (int run = 0; run < 500; run++) {
        const unsigned per_host = 1 + random() % 4;
        const unsigned n_hosts = 1 + random() % (run % 5 == 0 ? 500 : 20);
        const unsigned n_ranks = std::max(2u, per_host * n_hosts);
        const unsigned hosts = (n_ranks + per_host - 1) / per_host;
        const int coll = 2 + int(random() % 3);
        const unsigned rows = 1 + random() % 4, odd = random() % rows;
        const double factor = kOfMany[coll] * (n_ranks - 1) / n_ranks;
        std::string list, good, bad, log;

        for (unsigned r = 0; r < n_ranks; r++)
            list += "#  Rank " + std::to_string(r) + " Group  0 Pid 1 on h" +
                    std::to_string(r / per_host) + " device 0 [0x01] A\n";
        for (unsigned i = 0; i < rows; i++) {
            const uint64_t n_bytes = (uint64_t(n_ranks) << (12 + i)) * 4;
            const double us = 20 + random() % 1000 / 7.;
            for (std::string *to : {&good, &bad}) {
                char row[200];
                const double off = to == &bad && i == odd ? 1.06 : 1;
                std::snprintf(
                    row, sizeof(row),
                    "%llu %llu float sum -1 %.2f %.2f %.2f 0\n",
                    (unsigned long long)n_bytes,
                    (unsigned long long)n_bytes / 4 / (coll < 4 ? n_ranks : 1),
                    us, n_bytes / us / 1e3,
                    n_bytes / us / 1e3 * factor * off + (off > 1 ? 0.1 : 0));
                *to += row;
            }
        }
        const std::string head = std::string("# Collective test starting: ") +
                                 kTests[coll] + "_perf\n" + OPTIONS;
        const std::string columns =
            "# size count type redop root time algbw busbw #wrong\n";
        SCOPED_TRACE(list.substr(0, 200) + good);

        ASSERT_EQ(STP_OK, Parse(head + list + columns + good, -1));
        EXPECT_EQ(n_ranks, data_.rows[0].n_ranks);
        EXPECT_EQ(hosts, data_.rows[0].n_nodes);
        EXPECT_EQ(hosts > 1 ? STP_NODES_HOSTS : STP_NODES_TOLD, data_.nodes);
        EXPECT_STREQ("", data_.doubt);

        if (Parse(head + list + columns + bad, -1) == STP_OK)
            EXPECT_THAT(data_.doubt, HasSubstr("ranks comes to"));
        else
            EXPECT_THAT(err_.text, HasSubstr("expected the whole list"));

        // NCCL counts hosts of an NVLink domain as one node.
        log = "h0:1:2 [0] NCCL INFO comm 0x1 rank 0 nRanks " +
              std::to_string(n_ranks) + " nNodes 1 localRanks 1\n";
        const std::string tail = list.substr(list.rfind("#  Rank"));
        for (const std::string &part : {list, tail}) {
            ASSERT_EQ(STP_OK, Parse(head + part + log + columns + good, -1));
            EXPECT_EQ(n_ranks, data_.rows[0].n_ranks);
            EXPECT_EQ(1u, data_.rows[0].n_nodes);
            EXPECT_EQ(STP_NODES_TOLD, data_.nodes);
        }

        // The highest number of a list that was cut tells the ranks, and
        // without a list the ranks are right, or refused.
        ASSERT_EQ(STP_OK, Parse(head + tail + columns + good, -1));
        EXPECT_EQ(n_ranks, data_.rows[0].n_ranks);
        EXPECT_EQ(STP_NODES_UNKNOWN, data_.nodes);
        if (Parse(head + columns + good, -1) == STP_OK) {
            n_told++;
            EXPECT_EQ(n_ranks, data_.rows[0].n_ranks);
            EXPECT_EQ(STP_NODES_UNKNOWN, data_.nodes);
        } else {
            n_refused++;
            EXPECT_THAT(err_.text, HasSubstr("busbw and algbw do not tell"));
        }
    }
    EXPECT_LT(250u, n_told);
    EXPECT_LT(20u, n_refused);
}

// A group of ranks is a communicator.
TEST_F(Read, RunsMayFollowEachOtherWithOtherRanks)
{
    EXPECT_EQ(
        "a, Tesla V100, \n"
        "allgather,1024,0,auto,auto,0,1,2,30,10.500,10.500,,,,-,-,0,f32,none,0,"
        "0,0,measured,0\n"
        "allgather,1024,0,auto,auto,0,1,2,30,9.500,9.500,,,,-,-,"
        "0,f32,none,0,1,0,measured,0\n"
        "allreduce,1024,0,auto,auto,0,3,3,30,10.500,10.500,,,,-,-,0,f32,sum,0,"
        "0,0,measured,0\n"
        "allreduce,1024,0,auto,auto,0,3,3,30,9.500,9.500,,,,-,-,"
        "0,f32,sum,0,1,0,measured,0\n",
        Rows("# Collective test starting: all_gather_perf\n" HEAD ROW
             "# Collective test starting: all_reduce_perf\n" OPTIONS
             "# Rank  0 Group  0 Pid  1 on  a device  0 [0000:06] Tesla V100\n"
             "# Rank  1 Group  0 Pid  2 on  b device  0 [0000:06] Tesla V100\n"
             "# Rank  2 Group  0 Pid  3 on  c device  0 [0000:06] Tesla V100\n"
             "# Rank  3 Group  1 Pid  4 on  d device  0 [0000:06] Tesla "
             "V100\n" COLUMNS ROW,
             -1));
}
// Whatever a launcher puts before lines, and programs between them, the rows
// are the same; a row may be cut by it, but for a number.
TEST_F(Read, ForeignTextChangesNoRow)
{
    static const char *const kPrefixes[] = {
        "",
        "[1,0]<stdout>:",
        "0: ",
        "[0] ",
        " 12: ",
        "2026-01-02T03:04:05Z ",
        "2026-01-02 03:04:05.678 ",
        "(head, rank=0, pid=8) [1,0]<stdout>:",
        "[2026-01-02 03:04:05] [1,15]<stdout>:",
        "pod-0 launcher ",
        "> ",
        "\x1b[1;32m",
        "        ",
        "| "};
    static const char *const kForeign[] = {
        "h:1:2 [0] NCCL INFO Connected all rings",
        "[2026-01-02 03:04:05] h:1:2 [3] graph/search.cc:7 NCCL WARN No path",
        "h:25:26 [0] plugin.c:5 NCCL WARN NET/X : got error 4",
        "NCCL version 2.24.3+cuda12.6",
        "",
        "#",
        "1",
        "12 34",
        "3.5 4.5 5.5",
        "Traceback (most recent call last):",
        "  File \"a.py\", line 3, in f",
        "srun: job 12 queued",
        "==== 1 2 float ====",
        "rank 0 size 5 count 7",
        "1048576 bytes of float",
        "\x1b[2Jx",
        "1024 tokens float per second 12.5 3.5 4.5",
        "step 100 1.5 2.5 3.5 0",
        "libfabric:123:ofi_hook_perf:core: `alltoall_perf` is a test",
        "RCCL version : 2.27.7-dev:12",
        "# Avg bus bandwidth    : 50"};
    const std::vector<std::string> lines = {
        "# Collective test starting: all_reduce_perf\n",
        "NCCL version 2.24.3+cuda12.6\n",
        OPTIONS,
        "# Using devices\n",
        "#  Rank 0 Group 0 Pid 1 on a device 0 [0] A\n",
        "#  Rank 1 Group 0 Pid 2 on a device 1 [1] A\n",
        COLUMNS,
        ROW,
        "  2048  512  float  sum  -1  20.5  0.10  0.10  0  19  0.11  0.11  0\n",
        "# Out of bounds values : 0 OK\n"};
    std::string plain;
    std::mt19937 random(7);

    for (const std::string &line : lines)
        plain += line;
    const std::string rows = Rows(plain, -1);
    for (int i = 0; i < 3000; i++) {
        const std::string prefix = kPrefixes[random() % std::size(kPrefixes)];
        std::string text;
        for (const std::string &line : lines) {
            while (random() % 3 == 0)
                text += (random() % 2 ? prefix : "") +
                        kForeign[random() % std::size(kForeign)] + "\n";
            const size_t blank = line.find("  ", line.size() / 2);
            const unsigned how = line[0] == ' ' ? random() % 4 : 3;
            if (how == 0) // NCCL logs within it
                text += prefix + line.substr(0, blank) + kForeign[0] + "\n" +
                        (random() % 2 ? prefix : "") + line.substr(blank);
            else if (how == 1 && (prefix.find(">:") != std::string::npos ||
                                  prefix == "[0] "))
                text += prefix + line.substr(0, blank) + prefix +
                        line.substr(blank); // mpirun tags each write
            else
                text += (random() % 9 ? prefix : "") + line;
            if (random() % 4 == 0)
                text.insert(text.size() - 1, random() % 2 ? "\r" : "\x1b[0m");
        }
        SCOPED_TRACE(text);
        ASSERT_EQ(rows, Rows(text, -1));
        if (i % 20 == 0)
            ASSERT_EQ(rows, Rows(Dressed(text, i / 20 % (kDresses - 1)), -1));
    }
}

// NCCL's first line of all may stand against a row: the list names the host.
TEST_F(Read, HostsOfTheListEndARow)
{
    EXPECT_EQ(Rows(HEAD ROW),
              Rows(HEAD "  1024  256  float  suma:1:2 [0] NCCL INFO x\n"
                        "b:1:2 [0] NCCL INFO x\n  -1  10.5  0.10  0.10  0  "
                        "9.5  0.11  0.11  0\n"));
}

TEST_F(Read, SaysWhatIsNoResult)
{
    const std::string start = "# Collective test starting: ";
    ASSERT_EQ(STP_OK, Parse(start +
                                "all_reduce_perf_mpi\n" HEAD ROW
                                "hello\n a: Test NCCL failure x.cu:12 'y'\n"
                                "  2048  512  float  sum  -1  20.5\n" +
                                start + "alltoall_perf\n" HEAD ROW,
                            -1));
    EXPECT_EQ(2u, data_.n_rows);
    EXPECT_STREQ("2 lines are no results; 1 row is cut or cannot be read, the "
                 "first in line 11: 6 fields, expected 13 as there are "
                 "columns; not read: alltoall_perf; the run failed, as line 9 "
                 "says: a: Test NCCL failure x.cu:12 'y'",
                 data_.said);
}

TEST_F(Read, SaysWhoElseChose)
{
    const std::string log = "h:1:2 [0] NCCL INFO ";
    const std::pair<std::string, const char *> cases[] = {
        {"", ""},
        {log + "NCCL_ALGO set by environment to NVLS\n",
         "1 line is no result; NCCL did not choose alone: NCCL_ALGO=NVLS"},
        {log + "NCCL_ALGO set by environment to Ring\n" + log +
             "NCCL_PROTO set by environment to LL\n" + log +
             "TUNER/Plugin: Using tuner plugin x\n",
         "3 lines are no results; NCCL did not choose alone: NCCL_ALGO=Ring "
         "NCCL_PROTO=LL a tuner plugin was loaded"},
    };

    for (const auto &[lines, said] : cases) {
        ASSERT_EQ(STP_OK, Parse(lines + HEAD ROW)) << err_.text;
        EXPECT_STREQ(said, data_.said);
    }
}

// Tests before 2.17 do not say which they are; figures of them do, or the test
// that nobody can tell is asked for.
TEST_F(Read, FiguresTellTheTest)
{
    static const struct {
        const char *redop, *root;
        double factor; // of (n - 1) / n, but from 10 on of 1
        bool is_split, checks_in_place;
        int coll; // -1: not read
    } kTests[] = {
        {"sum", "-1", 2, false, true, ncclFuncAllReduce},
        {"sum", "-1", 1, true, true, ncclFuncReduceScatter},
        {"none", "-1", 1, true, true, ncclFuncAllGather},
        {"none", "0", 10, false, true, ncclFuncBroadcast},
        {"sum", "0", 10, false, true, ncclFuncReduce},
        {"none", "-1", 1, true, false, -1}, // all-to-all
        {"none", "0", 1, true, true, -1},   // scatter
    };
    std::mt19937 random(11);

    for (int run = 0; run < 400; run++) {
        const auto &t = kTests[run % std::size(kTests)];
        const unsigned n = 2 + random() % 40;
        std::string text = OPTIONS;
        for (unsigned r = 0; r < n; r++)
            text +=
                "# Rank " + std::to_string(r) + " Pid 1 on a device 0 [0] A\n";
        text += COLUMNS;
        for (int i = 0; i < 4; i++) {
            const double bytes = double(n << 20) * (1 << i);
            const double us = 500 + random() % 1000, gbps = bytes / us / 1e3;
            const double busbw =
                gbps * (t.factor >= 10 ? 1 : t.factor * (n - 1) / n);
            char row[300];
            std::snprintf(row, sizeof(row),
                          "%.0f %.0f float %s %s %.1f %.2f %.2f 0 %.1f %.2f "
                          "%.2f %s\n",
                          bytes, bytes / 4 / (t.is_split ? n : 1), t.redop,
                          t.root, us, gbps, busbw, us, gbps, busbw,
                          t.checks_in_place ? "0" : "N/A");
            text += row;
        }
        SCOPED_TRACE(text.substr(text.find("redop")));
        if (t.coll < 0) {
            EXPECT_EQ(STP_ERR_SYNTAX, Parse(text, -1));
            EXPECT_THAT(err_.text, HasSubstr("a test without a name"));
        } else {
            ASSERT_EQ(STP_OK, Parse(text, -1)) << err_.text;
            EXPECT_EQ(t.coll, data_.rows[0].coll);
            EXPECT_EQ(n, data_.rows[0].n_ranks);
            EXPECT_THAT(data_.said, HasSubstr("names no test"));
        }
    }
}

// Sizes of one run each, such as a shell's loop prints, too small for
// bandwidths with digits, without checks: the count, and the columns that a
// test has, tell.
TEST_F(Read, CountsAndColumnsTellTheTest)
{
    const std::string ranks = OPTIONS RANKS, none = " 12.3 0.01 0.01 N/A";
    const auto columns = [](const std::string &names) {
        return "# size count type " + names + " time algbw busbw error\n";
    };
    const struct {
        std::string text;
        int coll; // -1: none that is read, -2: nobody can tell
        unsigned n_ranks;
    } cases[] = {
        {ranks + columns("") + "64 8 float" + none, ncclFuncAllGather, 2},
        {ranks + columns("redop") + "64 8 float sum" + none,
         ncclFuncReduceScatter, 2},
        {ranks + columns("redop") + "64 16 float sum" + none, ncclFuncAllReduce,
         2},
        {ranks + columns("root") + "64 16 float 1" + none, ncclFuncBroadcast,
         2},
        {ranks + columns("redop root") + "64 16 float sum 0" + none,
         ncclFuncReduce, 2},
        {ranks + columns("redop") + "64 8 float" + none, -2, 0}, // all-to-all
        {ranks + columns("") + "64 16 float" + none, -1, 0}, // send and receive
        {ranks + columns("root") + "64 8 float 1" + none, -1, 0}, // a scatter
        // without the list of ranks
        {"9437184 32768 float none -1 110 85.79 84.6 0 110 85.79 84.6 0",
         ncclFuncAllGather, 72},
        {"8388608 2097152 float sum -1 110 76.26 76.26 0 110 76.26 76.26 0",
         ncclFuncAllReduce, 2},
        {"8388608 2097152 float sum -1 110 76.26 76.26 0 110 76.26 76.26 N/A",
         -1, 0}, // send and receive
        {"| size (B) | count | type | redop | root | algbw (GB/s) | busbw | "
         "time (us) | #wrong |\n|:--|--|--|--|--|--|--|--|--|\n"
         "| 9437184 | 2359296 | float | sum | -1 | 85.79 | 128.69 | 110 | 0 |",
         ncclFuncAllReduce, 4}, // a page
        {ranks + "# bytes N type op time algbw busbw res time algbw busbw res\n"
                 "4096 1024 float sum 0.012 0.35 0.35 N/A 0.011 0.36 0.36 N/A",
         ncclFuncAllReduce, 2}, // of 2018, in milliseconds
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.text);
        const stp_status status = Parse(c.text + "\n", -1);

        ASSERT_EQ(c.coll >= 0 ? STP_OK : STP_ERR_SYNTAX, status) << err_.text;
        if (c.coll >= 0) {
            EXPECT_EQ(c.coll, data_.rows[0].coll);
            EXPECT_GE(data_.rows[0].us.mean, 12);
            EXPECT_EQ("", std::string(data_.doubt));
            EXPECT_EQ(c.n_ranks, data_.rows[0].n_ranks);
        } else {
            EXPECT_THAT(err_.text,
                        HasSubstr(c.coll == -1 ? "a test without a name"
                                               : "without what collective"));
        }
    }
}

// RCCL's tests have what ran behind the usual columns, and may have one place.
TEST_F(Read, ColumnsOfRcclTestsSayWhatRan)
{
    const std::string head = "# rccl-tests version 2.18-x rccl-headers=23004 "
                             "rccl-library=23004\n" OPTIONS RANKS;
    EXPECT_EQ("a, Tesla V100, 2.30.4\n"
              "allreduce,1024,0,auto,auto,0,1,2,30,9.500,9.500,,,,ring,ll128,"
              "16,bf16,sum,0,1,0,measured,0\n",
              Rows(head + "#   in-place\n# size count type redop root time "
                          "hipevt algbw busbw #wrong algo proto nchannels\n"
                          "1024 512 bfloat16 sum -1 9.5 2.7 0.11 0.11 0 Ring "
                          "LL128 16\n"));
}

// A table behind another one has ranks of its own, and is a further round where
// its times are alike.
TEST_F(Read, TablesOfOtherMachinesAreNotPooled)
{
    const auto table = [](unsigned n, double us) {
        std::string text = COLUMNS;
        for (double bytes = 1 << 24; bytes < 1 << 28; bytes *= 2, us *= 2) {
            char row[200];
            std::snprintf(row, sizeof(row),
                          "%.0f %.0f float sum -1 %.1f %.2f %.2f 0 %.1f %.2f "
                          "%.2f 0\n",
                          bytes, bytes / 4, us, bytes / us / 1e3,
                          bytes / us / 1e3 * 2 * (n - 1) / n, us,
                          bytes / us / 1e3, bytes / us / 1e3 * 2 * (n - 1) / n);
            text += row;
        }
        return text;
    };

    ASSERT_EQ(STP_OK, Parse(table(8, 100) + table(16, 100), -1)) << err_.text;
    EXPECT_EQ(8u, data_.rows[0].n_ranks);
    EXPECT_EQ(16u, data_.rows[data_.n_rows - 1].n_ranks);
    // a shell took rows and means alone
    std::string cut = table(8, 100) + "# Avg bus bandwidth : 9\n" +
                      table(16, 100).substr(strlen(COLUMNS));
    ASSERT_EQ(STP_OK, Parse(cut.substr(strlen(COLUMNS)), -1)) << err_.text;
    EXPECT_EQ(8u, data_.rows[0].n_ranks);
    EXPECT_EQ(16u, data_.rows[data_.n_rows - 1].n_ranks);
    ASSERT_EQ(STP_OK, Parse(table(8, 100) + table(8, 110), -1)) << err_.text;
    EXPECT_THAT(data_.said, HasSubstr("2 tables of one test"));
    EXPECT_EQ(STP_ERR_SYNTAX, Parse(table(8, 100) + table(8, 240), -1));
    EXPECT_THAT(err_.text, HasSubstr("by up to 2.4 times"));
    cut = table(8, 100).substr(strlen(COLUMNS)) + "# Avg bus bandwidth : 9\n" +
          table(8, 240).substr(strlen(COLUMNS));
    EXPECT_EQ(STP_ERR_SYNTAX, Parse(cut, -1)); // settings that a shell named
    EXPECT_EQ(9u, err_.line);
}

// RCCL's tests can write a table or JSON, a row a place; the table does not
// name its third column.
TEST_F(Read, TablesOfRcclTestsAreRead)
{
    const std::string head =
        "numCycle,collective,ranks,rankspernode,gpusperrank,size,type,redop,"
        "inplace,time,algbw,busbw,#wrong\n";
    const auto cell = [](int cycle, const char *test, int bytes, int in_place,
                         bool is_json) {
        char text[300];
        std::snprintf(
            text, sizeof(text),
            is_json ? "{\"numCycle\":%d, \"name\":\"%s\", \"nodes\":1, "
                      "\"ranks\":2, \"ranksPerNode\":2, \"gpusPerRank\":4, "
                      "\"size\":%d, \"type\":\"float\", \"redop\":\"sum\", "
                      "\"inPlace\":%d, \"time\":10.500000, \"algBw\":0.097524, "
                      "\"busBw\":0.170667, \"wrong\":\"N/A\"}"
                    : "%d,\"%s\",1,2,2,4,%d,\"float\",\"sum\",%d,10.500000,"
                      "0.097524,0.170667,\"N/A\"\n",
            cycle, test, bytes, in_place);
        return std::string(text);
    };
    std::string want = ", , ", csv = head, json = "[\n", lines;

    for (int i = 0; i < 8; i++) {
        const int cycle = i / 4, bytes = 1024 << i / 2 % 2;
        want += i == 0 ? "\n" : "";
        want += "allreduce," + std::to_string(bytes) + "," +
                std::to_string(cycle) +
                ",auto,auto,0,1,8,1,10.500,10.500,,,10.500,-,-,0,f32,sum,0," +
                std::to_string(i % 2) + ",,measured,0\n";
        csv += cell(cycle, "AllReduce", bytes, i % 2, false);
        json += cell(cycle, "AllReduce", bytes, i % 2, true) +
                (i < 7 ? ",\n" : "\n]\n");
        lines += cell(cycle, "AllReduce", bytes, i % 2, true) + "\n";
    }
    for (const std::string &text : {csv, json, lines}) {
        SCOPED_TRACE(text);
        EXPECT_EQ(want, Rows(text, -1));
    }
    ASSERT_EQ(STP_OK, Parse(csv + cell(0, "AlltoAll", 1024, 0, false), -1));
    EXPECT_STREQ("not read: AlltoAll", data_.said);
}

TEST_F(Read, ShellsNameTheTestAndRanksThatAreFewerAreRefused)
{
    EXPECT_EQ(STP_OK,
              Parse("$ mpirun ./build/all_reduce_perf -b 8\n" HEAD ROW, -1));
    EXPECT_EQ(ncclFuncAllReduce, data_.rows[0].coll);
    EXPECT_EQ(STP_ERR_SYNTAX,
              Parse(HEAD "536870912 134217728 float sum -1 1806.7 297.16 "
                         "586.06 0 1835.9 292.43 576.74 0\n"));
    EXPECT_THAT(err_.text,
                HasSubstr("2 ranks, but busbw over algbw is that of 72, "));
}
TEST_F(Read, NamesCannotReachATerminalAsEscapeSequences)
{
    EXPECT_EQ(STP_OK,
              Parse(OPTIONS
                    "# Rank 0 on \x1b]2J device 0 [0] A\x07 B\n" COLUMNS ROW));

    EXPECT_STREQ("\\x1B]2J", data_.machine);
    EXPECT_STREQ("A\\x07 B", data_.gpu);
}

TEST_F(Read, LibraryVersionsAreOfBothNumberings)
{
    ASSERT_EQ(STP_OK, Parse("# nccl-tests version 2.1 nccl-headers=2708 "
                            "nccl-library=2708\n" HEAD ROW));
    EXPECT_STREQ("2.7.8", data_.nccl);
    ASSERT_EQ(STP_OK, Parse("# nccl-tests version 2.1 nccl-headers=22809 "
                            "nccl-library=23007\n" HEAD ROW));
    EXPECT_STREQ("2.30.7", data_.nccl);
}

TEST_F(Read, RefusesWithLineColumnAndWord)
{
    const struct {
        const char *text;
        unsigned line;
        unsigned column;
        const char *expected;
    } cases[] = {
        {"", 0, 0, "an empty file"},
        {HEAD, 0, 0, "no rows"},
        {"# Collective test starting: alltoall_perf\n", 1, 0,
         "no rows but of alltoall_perf"},
        {OPTIONS COLUMNS "8 2 float sum -1 1 N/A N/A 0 1 0 0 0\n", 3, 1,
         "a run without the lines that list the ranks"},
        {HEAD "8 2 float summ -1 1 1 1 0 1 1 1 0\n", 6, 11,
         "redop 'summ', expected sum"},
        {HEAD "8 2 float sum -2 1 1 1 0 1 1 1 0\n", 6, 15,
         "root '-2', expected a rank"},
        {HEAD "8 2 float sum -1 0.0 1 1 0 1 1 1 0\n", 6, 18,
         "time '0.0', expected a time above 0"},
        {HEAD "8 2 float sum -1 1 1 1 x 1 1 1 0\n", 6, 24,
         "#wrong 'x', expected a number of elements"},
        {HEAD "8 2 float sum -1 1 1 1 0 1 1 1\n", 6, 0,
         "12 fields, expected 13"},
        {HEAD "# Arm: rnig/ll\n", 6, 8, "arm 'rnig/ll', expected auto"},
        {HEAD ROW OPTIONS "# Rank 0 on a device 0 [0x07] Tesla P100\n", 8, 31,
         "GPU 'Tesla P100', expected 'Tesla V100' as in the run before"},
        {"# nccl-tests version 2 nccl-library=22809\n"
         "# nccl-tests version 2 nccl-library=22810\n",
         2, 37, "NCCL version '2.28.10', expected '2.28.9'"},
        {"# nccl-tests version 2 nccl-library=x\n", 1, 37, "NCCL version 'x'"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.text);
        EXPECT_EQ(STP_ERR_SYNTAX, Parse(c.text));
        EXPECT_EQ(c.line, err_.line);
        EXPECT_EQ(c.column, err_.column);
        EXPECT_THAT(err_.text, HasSubstr(c.expected));
        EXPECT_EQ(0u, data_.n_rows);
        EXPECT_EQ(nullptr, data_.rows);
    }
}
// A cut list whose last number is of more ranks, or of fewer, than busbw is.
TEST_F(Read, RanksThatBandwidthsContradictAreRefusedWithoutATestToo)
{
    const struct {
        int last;
        const char *expected; // "" if it is read
    } cases[] = {
        {143, "144 ranks, but busbw over algbw is that of 128, expected"},
        {127, ""},
        {111, "112 ranks, but busbw over algbw is that of 128, expected"},
    };

    for (const auto &c : cases) {
        const stp_status status =
            Parse("# nThread 1 nGpus 1 warmup iters: 5 iters: 20\n#  Rank " +
                      std::to_string(c.last) +
                      " Group  0 Pid  1 on  h device  3 [0x01] GB200\n" COLUMNS
                      "8589934592 2147483648 float sum -1 21493 399.661 "
                      "793.077 0 21493 399.661 793.077 0\n",
                  -1);

        EXPECT_EQ(c.expected[0] == '\0' ? STP_OK : STP_ERR_SYNTAX, status)
            << c.last << ": " << err_.text;
        EXPECT_THAT(status == STP_OK ? "" : err_.text, HasSubstr(c.expected));
    }
}

// Rounds of a test and arm are numbered through all of its tables, of which
// those of ours are of arms, and say themselves which rows are wrong.
TEST_F(Read, RoundsGoOnFromTableToTable)
{
    const std::string reduce = "# Collective test starting: all_reduce_perf\n",
                      gather = "# Collective test starting: all_gather_perf\n",
                      ours = "# steptune version 1 backend=nccl\n" +
                             (reduce + HEAD),
                      row = "1024 256 float sum -1 9 0 0 0\n",
                      wrong = "1024 256 float sum -1 9 0 0 7\n",
                      foot = "# Out of bounds values : 1 FAILED\n";
    const std::string a = reduce + HEAD + row, b = gather + HEAD + row,
                      tree = reduce + "# Arm: tree/ll\n" + COLUMNS;
    const struct {
        std::string text, rounds, n_wrong;
    } cases[] = {
        {a + row + a + a, "0123", "0000"},
        {a + b + row + a + b, "00112", "00000"},
        {a + row + foot + a + foot, "012", "111"},
        {ours + wrong + tree + row + foot, "00", "70"},
        {ours + wrong + tree + row + ours + row + tree + row, "0011", "7000"},
    };

    for (const auto &c : cases) {
        std::string rounds, n_wrong;

        ASSERT_EQ(STP_OK, Parse(c.text, -1)) << err_.text;
        for (size_t i = 0; i < data_.n_rows; i++) {
            rounds += std::to_string(data_.rows[i].round);
            n_wrong += std::to_string(data_.rows[i].n_wrong);
        }
        EXPECT_EQ(c.rounds, rounds) << c.text;
        EXPECT_EQ(c.n_wrong, n_wrong) << c.text;
    }
}

// ---- JSON, as nccl-tests write it with -J ----

const char kJson[] = R"({"version":2,"start_time":"2026-01-01 00:00:00",
"args":["/opt/nccl-tests/build/all_gather_perf","-g","2"],
"env":["PATH=/bin","NCCL_ALGO=Ring"],"nccl_version":22809,
"config":{"nthreads":1,"ngpus":2,"iterations":30,"devices":[
 {"rank":0,"group":0,"hostname":"a","device_info":"NVIDIA H200"},
 {"rank":2,"group":0,"hostname":"b","device_info":"NVIDIA H200"},
 {"rank":4,"group":1,"hostname":"b","device_info":"NVIDIA H200"}]},
"results":[
 {"size":1024,"count":128,"type":"float","redop":"none","root":"    -1",
  "out_of_place":{"time":10.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":null},
  "out_of_place_per_iter":{"min_us":9.5,"p50_us":10.25,"p95_us":11,
                           "p99_us":12},
  "in_place":{"time":9.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":3.0}},
 {"size":512,"count":64,"type":"half","redop":"none","root":"     1",
  "out_of_place":null,
  "in_place":{"cpu_time":4.5,"alg_bw":0.1,"bus_bw":0.1,"nwrong":0.0}}],
"out_of_bounds":{"count":0,"okay":"true"}})";

// An entry is a process of two ranks; null was not measured.
TEST_F(Read, JsonOfNcclTestsSaysTheSame)
{
    EXPECT_TRUE(stp_nccl_text_is(kJson, strlen(kJson)));
    EXPECT_EQ("a, NVIDIA H200, 2.28.9\n"
              "allgather,1024,0,auto,auto,0,2,4,30,10.500,10.250,11.000,12.000,"
              "9.500,-,-,0,f32,none,0,0,,measured,0\n"
              "allgather,1024,0,auto,auto,0,2,4,30,9.500,9.500,,,,-,-,0,f32,"
              "none,0,1,3,measured,0\n"
              "allgather,512,0,auto,auto,0,2,4,30,4.500,4.500,,,,-,-,0,f16,"
              "none,1,1,0,measured,0\n",
              Rows(kJson, -1));
    EXPECT_STREQ("nccl", data_.backend);
    ASSERT_EQ(STP_OK, Parse(HEAD "1024 256 float sum -1" +
                            std::string(37, ' ') + "9.5 0.11 0.11 0\n"));
    EXPECT_EQ(1u, data_.n_rows);
    EXPECT_TRUE(data_.rows[0].in_place);
}

TEST_F(Read, JsonThatFailedWithoutSayingWhereIsWrongInEachRow)
{
    std::string json = kJson;
    json.replace(json.find("3.0"), 3, "0.0");
    json.replace(json.find("\"count\":0"), 9, "\"count\":1");

    ASSERT_EQ(STP_OK, Parse(json, -1)) << err_.text;

    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(1, data_.rows[i].n_wrong);
}

TEST_F(Read, JsonThatMeansNothingIsRefused)
{
    const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"\"size\":1024", "\"size\":-1", "results[0]: size '-1', expected"},
        {"\"half\"", "\"hlaf\"", "results[1]: type 'hlaf'"},
        {"\"    -1\"", "\"    -2\"", "results[0]: root '-2'"},
        {"\"time\":10.5", "\"time\":-10.5", "results[0]: time '-10.5'"},
        {"\"nwrong\":3.0", "\"nwrong\":\"x\"", "results[0]: #wrong 'x'"},
        {"all_gather_perf", "alltoall_perf", "no rows but of alltoall_perf"},
        {"\"devices\"", "\"gpus\"", "a run without the lines that list"},
        {"\"results\"", "\"rows\"", "no rows, expected measurements"},
        {"\"ngpus\":2", "\"ngpus\":2000", "expected 1 to 1024"},
        {"\"okay\"", "okay", "not JSON from here on"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.to);
        std::string bad = kJson;
        bad.replace(bad.find(c.from), strlen(c.from), c.to);
        EXPECT_EQ(STP_ERR_SYNTAX, Parse(bad, -1));
        EXPECT_THAT(err_.text, HasSubstr(c.expected));
        EXPECT_EQ(nullptr, data_.rows);
    }
}

} // namespace
