// nccl-tests' text of all versions, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

extern "C" {
#include "core/dtype.h"
#include "report/measurements/nccl_text.h"
}

#include "nccl_tuner_abi.h"

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

class Read : public testing::Test
{
  protected:
    void TearDown() override
    {
        stp_dataset_free(&data_);
    }

    stp_status Parse(const std::string &text, int coll = ncclFuncAllReduce)
    {
        stp_dataset_free(&data_);
        return stp_nccl_text_read(text.data(), text.size(), coll, &data_,
                                  nullptr, &err_);
    }

    stp_dataset data_{};
    stp_error err_{};
};

TEST_F(Read, VersionsBefore2_17DoNotSayWhichCollective)
{
    ASSERT_EQ(STP_OK, Parse(HEAD ROW)) << err_.text;

    ASSERT_EQ(2u, data_.n_rows);
    EXPECT_EQ(ncclFuncAllReduce, data_.rows[0].coll);
    EXPECT_EQ(2u, data_.rows[0].n_ranks);
    EXPECT_EQ(30u, data_.rows[0].iters);
    EXPECT_STREQ("Tesla V100", data_.gpu);
    EXPECT_STREQ("", data_.nccl);

    EXPECT_EQ(STP_ERR_SYNTAX, Parse(HEAD ROW, -1));
    EXPECT_THAT(err_.text, HasSubstr("what collective it is of"));
}

// Until 2.9 each program had its own columns, and an error in place of #wrong.
TEST_F(Read, ColumnsAreTakenByName)
{
    ASSERT_EQ(
        STP_OK,
        Parse(OPTIONS RANKS
              "#       size         count    type    root     time   "
              "algbw   busbw  error     time   algbw   busbw  error\n"
              " 4096 1024 half 1 10.5 0.1 0.1 0e+00 9.5 0.11 0.11 5e-07\n",
              ncclFuncBroadcast))
        << err_.text;

    ASSERT_EQ(2u, data_.n_rows);
    EXPECT_EQ(1u, data_.rows[0].root);
    EXPECT_EQ(STP_TYPE_F16, data_.rows[0].type);
    EXPECT_EQ(0, data_.rows[0].n_wrong);
    EXPECT_EQ(-1, data_.rows[1].n_wrong) << "an error may be rounding";
}

TEST_F(Read, PerIterationColumnsGivePercentiles)
{
    ASSERT_EQ(
        STP_OK,
        Parse(OPTIONS RANKS
              "# size count type redop root time algbw busbw #wrong i_min "
              "i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 "
              "i_cv% \n"
              "64 16 float sum -1 5.5 0 0 0 4.5 9.5 8.5 3 6.5 0 0 1 6 8 7 3\n"))
        << err_.text;

    ASSERT_EQ(2u, data_.n_rows);
    EXPECT_EQ(4.5, data_.rows[0].us.min);
    EXPECT_EQ(8.5, data_.rows[0].us.p99);
    EXPECT_EQ(5.5, data_.rows[0].us.p95);
    EXPECT_EQ(6.5, data_.rows[1].us.mean);
    EXPECT_EQ(7, data_.rows[1].us.p99);
    EXPECT_EQ(1, data_.rows[1].n_wrong);
}

TEST_F(Read, NothingUnderRedopIsNoOperation)
{
    ASSERT_EQ(STP_OK, Parse(HEAD "1024  128  float          -1  10.5  0.1  0.1 "
                                 " 0  9.5  0.1  0.1  N/A\n",
                            ncclFuncAllGather))
        << err_.text;

    ASSERT_EQ(2u, data_.n_rows);
    EXPECT_EQ(1024u, data_.rows[0].n_bytes);
    EXPECT_EQ(10.5, data_.rows[0].us.mean);
    EXPECT_EQ(-1, data_.rows[1].n_wrong);
}

TEST_F(Read, EveryPassOverTheSizesIsARound)
{
    const char small[] = "512 1 float sum -1 9 0 0 0 9 0 0 0\n";
    const std::string pass = std::string(small) + ROW;

    ASSERT_EQ(STP_OK, Parse(HEAD + pass + pass)) << err_.text;

    ASSERT_EQ(8u, data_.n_rows);
    EXPECT_EQ(0u, data_.rows[3].round);
    EXPECT_EQ(1u, data_.rows[4].round);
    EXPECT_EQ(1u, data_.rows[7].round);

    ASSERT_EQ(STP_OK, Parse(HEAD ROW ROW ROW));
    EXPECT_EQ(2u, data_.rows[4].round) << "one size is a pass, too";
}

TEST_F(Read, RunsMayFollowEachOtherWithOtherRanks)
{
    const std::string text =
        "# Collective test starting: all_gather_perf\n" HEAD ROW
        "# Collective test starting: all_reduce_perf\n" OPTIONS
        "#  Rank  0 Group  0 Pid  1 on  a device  0 [0000:00:06] Tesla V100\n"
        "#  Rank  1 Group  0 Pid  2 on  b device  0 [0000:00:06] Tesla V100\n"
        "#  Rank  2 Group  0 Pid  3 on  c device  0 [0000:00:06] Tesla V100\n"
        "#  Rank  3 Group  1 Pid  4 on  d device  0 [0000:00:06] Tesla "
        "V100\n" COLUMNS ROW;

    ASSERT_EQ(STP_OK, Parse(text, -1)) << err_.text;

    ASSERT_EQ(4u, data_.n_rows);
    EXPECT_EQ(ncclFuncAllGather, data_.rows[0].coll);
    EXPECT_EQ(2u, data_.rows[0].n_ranks);
    EXPECT_EQ(1u, data_.rows[0].n_nodes);
    EXPECT_EQ(ncclFuncAllReduce, data_.rows[2].coll);
    EXPECT_EQ(3u, data_.rows[2].n_ranks) << "a group is a communicator";
    EXPECT_EQ(3u, data_.rows[2].n_nodes);
}

TEST_F(Read, LogLinesAndRowsOfNothingAreSkipped)
{
    ASSERT_EQ(STP_OK, Parse("\r\n" HEAD
                            "a:100:105 [0] NCCL INFO Bootstrap: Using eth0\n"
                            "0 0 float sum -1 5.0 0 0 0 5.0 0 0 0\n" ROW
                            "# Out of bounds values : 0 OK\n"))
        << err_.text;

    EXPECT_EQ(2u, data_.n_rows);
}

TEST_F(Read, WhatFollowsARunIsNotOfIt)
{
    const std::string run = std::string(HEAD ROW) +
                            "# Out of bounds values : 0 OK\n"
                            "collective  bytes  arm\n1 table\n";

    ASSERT_EQ(STP_OK, Parse(run + run)) << err_.line << ": " << err_.text;

    EXPECT_EQ(4u, data_.n_rows);
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

struct BadText {
    const char *name;
    const char *text;
    unsigned line;
    unsigned column;
    const char *expected;
};

TEST_F(Read, RefusesWithLineColumnAndWord)
{
    const BadText cases[] = {
        {"empty", "", 0, 0, "no rows"},
        {"no_rows", HEAD, 5, 0, "no rows"},
        {"other_test", "# Collective test starting: alltoall_perf\n", 1, 29,
         "test 'alltoall_perf', expected all_reduce_perf"},
        {"other_column", RANKS "# size count typ\n", 4, 14,
         "column 'typ', expected those of nccl-tests"},
        {"no_columns", OPTIONS RANKS ROW, 5, 1,
         "a row without the line that names its columns"},
        {"no_ranks", OPTIONS COLUMNS ROW, 3, 1,
         "a row without the lines that list the ranks"},
        {"size", HEAD "10x 2 float sum -1 1 1 1 0 1 1 1 0\n", 6, 1,
         "size '10x', expected a number of bytes"},
        {"type", HEAD "8 2 flaot sum -1 1 1 1 0 1 1 1 0\n", 6, 5,
         "type 'flaot', expected i8"},
        {"op", HEAD "8 2 float summ -1 1 1 1 0 1 1 1 0\n", 6, 11,
         "redop 'summ', expected sum"},
        {"root", HEAD "8 2 float sum -2 1 1 1 0 1 1 1 0\n", 6, 15,
         "root '-2', expected a rank"},
        {"time", HEAD "8 2 float sum -1 0.0 1 1 0 1 1 1 0\n", 6, 18,
         "time '0.0', expected a time above 0"},
        {"wrong", HEAD "8 2 float sum -1 1 1 1 x 1 1 1 0\n", 6, 24,
         "#wrong 'x', expected a number of elements"},
        {"few", HEAD "8 2 float sum -1 1 1 1 0 1 1 1\n", 6, 1,
         "12 fields, expected 13"},
        {"many", HEAD "8 2 float sum -1 1 1 1 0 1 1 1 0 7\n", 6, 34,
         "'7', expected nothing behind the last column"},
        {"words", HEAD "segmentation fault\n", 6, 1,
         "'segmentation', expected '#', a row, or a line that NCCL logged"},
        {"arm", HEAD "# Arm: rnig/ll\n", 6, 8, "arm 'rnig/ll', expected auto"},
        {"other_gpu",
         HEAD ROW OPTIONS "# Rank 0 on a device 0 [0x07] Tesla P100\n", 8, 31,
         "GPU 'Tesla P100', expected 'Tesla V100' as in the run before"},
        {"other_nccl",
         "# nccl-tests version 2 nccl-library=22809\n"
         "# nccl-tests version 2 nccl-library=22810\n",
         2, 37, "NCCL version '2.28.10', expected '2.28.9'"},
        {"version", "# nccl-tests version 2 nccl-library=x\n", 1, 37,
         "NCCL version 'x'"},
    };

    for (const BadText &c : cases) {
        SCOPED_TRACE(c.name);
        EXPECT_EQ(STP_ERR_SYNTAX, Parse(c.text));
        EXPECT_EQ(c.line, err_.line);
        EXPECT_EQ(c.column, err_.column);
        EXPECT_THAT(err_.text, HasSubstr(c.expected));
        EXPECT_EQ(0u, data_.n_rows);
        EXPECT_EQ(nullptr, data_.rows);
    }
}

TEST_F(Read, TextOfOtherKindsIsTold)
{
    for (const char *other : {"", "collective,bytes\n", "{\n}\n", "# gpu: A\n"})
        EXPECT_FALSE(stp_nccl_text_is(other, strlen(other))) << other;
    for (const char *ours : {COLUMNS, OPTIONS, RANKS, "#  Rank  0\n"})
        EXPECT_TRUE(stp_nccl_text_is(ours, strlen(ours))) << ours;
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

TEST_F(Read, JsonOfNcclTestsSaysTheSame)
{
    EXPECT_TRUE(stp_nccl_text_is(kJson, strlen(kJson)));
    ASSERT_EQ(STP_OK, Parse(kJson, -1)) << err_.text;

    EXPECT_STREQ("NVIDIA H200", data_.gpu);
    EXPECT_STREQ("2.28.9", data_.nccl);
    EXPECT_STREQ("nccl", data_.backend);
    EXPECT_STREQ("a", data_.machine);
    ASSERT_EQ(3u, data_.n_rows);
    const stp_measurement &m = data_.rows[0];
    EXPECT_EQ(ncclFuncAllGather, m.coll);
    EXPECT_EQ(1024u, m.n_bytes);
    EXPECT_EQ(4u, m.n_ranks) << "an entry is a process of two ranks";
    EXPECT_EQ(2u, m.n_nodes);
    EXPECT_EQ(30u, m.iters);
    EXPECT_EQ(STP_TYPE_F32, m.type);
    EXPECT_EQ(10.5, m.us.mean);
    EXPECT_EQ(10.25, m.us.median);
    EXPECT_EQ(11, m.us.p95);
    EXPECT_EQ(12, m.us.p99);
    EXPECT_EQ(9.5, m.us.min);
    EXPECT_EQ(-1, m.n_wrong);
    EXPECT_TRUE(data_.rows[1].in_place);
    EXPECT_EQ(9.5, data_.rows[1].us.median);
    EXPECT_EQ(3, data_.rows[1].n_wrong);
    EXPECT_TRUE(data_.rows[2].in_place) << "null was not measured";
    EXPECT_EQ(4.5, data_.rows[2].us.mean);
    EXPECT_EQ(1u, data_.rows[2].root);
    EXPECT_EQ(1u, data_.rows[2].round);
}

TEST_F(Read, JsonThatMeansNothingIsRefused)
{
    const struct {
        const char *from, *to, *expected;
    } cases[] = {
        {"\"size\":1024", "\"size\":-1", "results[0]: '-1', expected"},
        {"\"half\"", "\"hlaf\"", "results[1]: type 'hlaf', expected i8"},
        {"\"    -1\"", "\"    -2\"", "results[0]: root '-2'"},
        {"\"time\":10.5", "\"time\":-10.5", "results[0]: time '-10.5'"},
        {"\"nwrong\":3.0", "\"nwrong\":\"x\"", "results[0]: #wrong 'x'"},
        {"all_gather_perf", "alltoall_perf", "test 'alltoall_perf', expected"},
        {"\"devices\"", "\"gpus\"", "a row without the lines that list"},
        {"\"results\"", "\"rows\"", "no rows, expected what nccl-tests print"},
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
