// The text of nccl-tests, as their own program wrote it and as we do.
#include <cmath>
#include <cstring>

extern "C" {
#include "core/dtype.h"
#include "report/measurements/nccl_text.h"
}

#include "nccl_tuner_abi.h"
#include "report/measurements/measured_files.h"
#include "support/fake_engine.h"

namespace
{

using testing::HasSubstr;

std::string Fixture()
{
    return ReadFile(STP_FIXTURES "/timings/h200x4_all_reduce_perf.txt");
}

// As Python's str.split().
std::vector<std::string> Words(const std::string &line)
{
    std::stringstream s(line);
    std::vector<std::string> words;
    for (std::string word; s >> word;)
        words.push_back(word);
    return words;
}

// Without the line that says the source.
std::string Row(const stp_nccl_text_row &row)
{
    stp_nccl_text_total total{};
    total.times = row.times;
    return Written(
        [&](FILE *fp) { stp_nccl_text_write_row(&row, &total, fp); });
}

class Reading : public Measured
{
  protected:
    stp_status Parse(const std::string &text, int coll = -1)
    {
        stp_dataset_free(&data_);
        return stp_nccl_text_read(text.data(), text.size(), coll, 0, &data_,
                                  nullptr, &err_);
    }
};

// ---- NVIDIA's own output ----

using Nvidias = Reading;

TEST_F(Nvidias, IsReadWithWhatItSaysOfTheMachine)
{
    ASSERT_TRUE(stp_nccl_text_is(Fixture().data(), Fixture().size()));
    ASSERT_EQ(STP_OK, Parse(Fixture())) << err_.line << ": " << err_.text;

    EXPECT_STREQ("NVIDIA H200", data_.gpu);
    EXPECT_STREQ("2.28.9", data_.nccl);
    EXPECT_STREQ("nccl", data_.backend);
    ASSERT_EQ(50u, data_.n_rows);
    EXPECT_THAT(
        Csv(data_),
        testing::EndsWith("allreduce,134217728,0,auto,auto,0,1,4,20,611.790,"
                          "611.790,,,,-,-,0,f32,sum,0,0,0,measured,0\n"
                          "allreduce,134217728,0,auto,auto,0,1,4,20,616.010,"
                          "616.010,,,,-,-,0,f32,sum,0,1,0,measured,0\n"));
}

// Bandwidths follow from the times, which have two decimals there: the last
// decimal of a bandwidth may differ.
TEST_F(Nvidias, RowsComeOutOfTheWriterAsTheyWereRead)
{
    ASSERT_EQ(STP_OK, Parse(Fixture()));
    std::vector<std::string> rows;
    for (const std::string &line : SplitLines(Fixture()))
        if (!line.empty() && line[0] != '#')
            rows.push_back(line);
    ASSERT_EQ(25u, rows.size());

    for (size_t i = 0; i < rows.size(); i++) {
        SCOPED_TRACE(rows[i]);
        const stp_nccl_text_row row =
            stp_nccl_text_collapse(&data_, &data_.rows[2 * i]);
        std::string got = Row(row);

        ASSERT_EQ(rows[i].size() + 1, got.size()) << got;
        const std::vector<std::string> want = Words(rows[i]);
        const std::vector<std::string> have = Words(got);
        ASSERT_EQ(want.size(), have.size());
        for (size_t f = 0; f < want.size(); f++) {
            if (f == 6 || f == 7 || f == 10 || f == 11)
                EXPECT_NEAR(std::stod(want[f]), std::stod(have[f]),
                            0.0102 + 2e-4 * std::stod(want[f]));
            else
                EXPECT_EQ(want[f], have[f]);
        }
    }
}

TEST_F(Nvidias, ColumnsAreNamedAsTheWriterNamesThem)
{
    std::string columns = Written(stp_nccl_text_write_columns);

    EXPECT_THAT(Fixture(), HasSubstr(columns));
}

// ---- rows ----

stp_nccl_text_row Base()
{
    return {ncclFuncAllReduce, 1048576,   STP_TYPE_F32,
            STP_OP_SUM,        0,         4,
            {28.77, 0},        {30.5, 0}, {STP_SOURCE_MEASURED, 100, 5, false}};
}

TEST(Rows, AreLaidOutByteForByte)
{
    stp_nccl_text_row row = Base();
    EXPECT_EQ("     1048576        262144     float     sum      -1    28.77   "
              "36.45   54.67       0    30.50   34.38   51.57       0\n",
              Row(row));

    // neither measured nor checked
    row.out_of_place.n_wrong = -1;
    row.in_place.us = 0;

    EXPECT_EQ("     1048576        262144     float     sum      -1    28.77   "
              "36.45   54.67     N/A      N/A     N/A     N/A     N/A\n",
              Row(row));
}

TEST(Rows, HaveTheConventionsOfEachCollective)
{
    const struct {
        int coll, type, op;
        const char *begin; // size, count, type, redop and root
        double busbw;      // of 1 MiB in 1 ms
    } cases[] = {
        {ncclFuncAllReduce, STP_TYPE_BF16, STP_OP_AVG,
         "     1048576        524288  bfloat16     avg      -1", 1.572864},
        {ncclFuncAllGather, STP_TYPE_F32, STP_OP_SUM,
         "     1048576         65536     float    none      -1", 0.786432},
        {ncclFuncReduceScatter, STP_TYPE_I8, STP_OP_MAX,
         "     1048576        262144      int8     max      -1", 0.786432},
        {ncclFuncBroadcast, STP_TYPE_F16, STP_OP_SUM,
         "     1048576        524288      half    none       3", 1.048576},
        {ncclFuncReduce, STP_TYPE_F64, STP_OP_PROD,
         "     1048576        131072    double    prod       3", 1.048576},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.begin);
        stp_nccl_text_row row{c.coll, 1048576,    c.type,  c.op, 3,
                              4,      {1000, -1}, {0, -1}, {}};
        stp_nccl_text_total total{};
        std::string got = Written(
            [&](FILE *fp) { stp_nccl_text_write_row(&row, &total, fp); });

        EXPECT_EQ(c.begin, got.substr(0, strlen(c.begin)));
        EXPECT_DOUBLE_EQ(c.busbw, total.busbw);
        EXPECT_EQ(1u, total.n_busbw);
    }
}

TEST(Rows, ShowAsManyDecimalsAsTheirColumnsHold)
{
    const struct {
        double us;
        const char *time;
        const char *algbw; // of 1e9 bytes
    } cases[] = {
        {4.5, "4.50", "222222"},       {9999.99, "9999.99", "100.00"},
        {10000, "10000.0", "100.00"},  {99999.94, "99999.9", "10.00"},
        {123456.7, "123457", "8.10"},  {9999999, "9999999", "0.10"},
        {12345678, "1.2e+07", "0.08"}, {0.5, "0.50", "2e+06"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.us);
        stp_nccl_text_row row = Base();
        row.n_bytes = 1000000000;
        row.out_of_place.us = c.us;

        std::vector<std::string> words = Words(Row(row));
        ASSERT_EQ(13u, words.size());
        EXPECT_EQ(c.time, words[5]);
        EXPECT_EQ(c.algbw, words[6]);
        EXPECT_EQ(Row(Base()).size(), Row(row).size()) << "columns stay put";
    }
}

TEST(Rows, AreMeansOfTheRoundsOfOnePlace)
{
    stp_dataset data{};
    stp_measurement m{};
    m.coll = ncclFuncAllReduce;
    m.n_bytes = 64;
    m.n_ranks = 2;
    m.n_nodes = 1;
    m.n_wrong = -1;
    for (double us : {10.0, 20.0}) {
        m.us.mean = us;
        m.n_wrong = us == 20 ? 7 : -1;
        m.in_place = false;
        m.iters = 20;
        m.source = STP_SOURCE_RECORDED;
        stp_dataset_add(&data, &m);
        m.us.mean = 3 * us;
        m.n_wrong = -1;
        m.in_place = true;
        m.iters = 3;
        m.source = us == 20 ? STP_SOURCE_VIRTUAL : STP_SOURCE_RECORDED;
        stp_dataset_add(&data, &m);
        m.us.mean = 1000;
        m.arm = {STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL, 0, 0, {}};
        stp_dataset_add(&data, &m);
        m.arm = {};
    }

    stp_nccl_text_row row = stp_nccl_text_collapse(&data, &data.rows[0]);

    EXPECT_EQ(15, row.out_of_place.us);
    EXPECT_EQ(7, row.out_of_place.n_wrong);
    EXPECT_EQ(45, row.in_place.us);
    EXPECT_EQ(-1, row.in_place.n_wrong);
    EXPECT_EQ(64u, row.n_bytes);
    EXPECT_EQ(2u, row.n_ranks);
    EXPECT_EQ(STP_SOURCE_VIRTUAL, row.times.source) << "the worst of both";
    EXPECT_EQ(2u, row.times.rounds);
    EXPECT_EQ(6u, row.times.iters) << "of the place that has fewer";
    stp_dataset_free(&data);
}

// ---- a whole run of ours ----

class TwoHosts : public FakeEngine
{
    void Info(stp_device_info *info) const override
    {
        snprintf(info->nccl, sizeof(info->nccl), "2.30.7");
        snprintf(info->backend, sizeof(info->backend), "nccl");
        snprintf(info->what, sizeof(info->what), "two hosts, measured");
        info->n_ranks = 2;
        info->n_nodes = 2;
    }
    void RankLine(unsigned rank, char *line, size_t size) const override
    {
        snprintf(line, size,
                 " Rank %2u Group  0 Pid    930 on       node%u device  0 "
                 "[0000:00:0%u] NVIDIA A100-SXM4-80GB",
                 rank, rank, rank);
    }
};

std::string OurText()
{
    TwoHosts hosts;
    stp_nccl_text_run run{"1.2.3", 1,  1, 64, 1048576, 2, 0,
                          5,       20, 1, 1,  0,       5, true};
    const stp_arm ring{
        STP_ARM_FORCED, NCCL_ALGO_RING, NCCL_PROTO_LL128, 16, 0, {}};
    stp_nccl_text_row row = Base();
    row.n_ranks = 2;

    return Written([&](FILE *fp) {
        stp_nccl_text_total total{};
        stp_nccl_text_write_head(&run, ncclFuncAllReduce, hosts.Open(), fp);
        stp_nccl_text_write_columns(fp);
        stp_nccl_text_write_row(&row, &total, fp);
        row.coll = ncclFuncAllGather;
        row.in_place.us = 0;
        row.in_place.n_wrong = 3; /* of nothing */
        row.out_of_place.n_wrong = 12345678;
        stp_nccl_text_write_section(ncclFuncAllGather, &ring, fp);
        stp_nccl_text_write_columns(fp);
        stp_nccl_text_write_row(&row, &total, fp);
        stp_nccl_text_write_foot(&total, ncclFuncAllGather, fp);
    });
}

TEST_F(Reading, OfOursIsWhole)
{
    const char columns[] =
        "#\n"
        "#                                                              "
        "out-of-place                       in-place          \n"
        "#       size         count      type   redop    root     time   algbw "
        "  busbw  #wrong     time   algbw   busbw  #wrong \n"
        "#        (B)    (elements)                               (us)  (GB/s)"
        "  (GB/s)             (us)  (GB/s)  (GB/s)         \n";

    EXPECT_EQ(
        std::string(
            "# steptune version 1.2.3 backend=nccl nccl-library=23007 nodes=2\n"
            "# two hosts, measured\n"
            "# Collective test starting: all_reduce_perf\n"
            "# nThread 1 nGpus 1 minBytes 64 maxBytes 1048576 step: 2(factor) "
            "warmup iters: 5 iters: up to 20 agg iters: 1 validation: 1 graph: "
            "0 rounds: 5\n"
            "#\n"
            "# Using devices\n"
            "#  Rank  0 Group  0 Pid    930 on       node0 device  0 "
            "[0000:00:00] NVIDIA A100-SXM4-80GB\n"
            "#  Rank  1 Group  0 Pid    930 on       node1 device  0 "
            "[0000:00:01] NVIDIA A100-SXM4-80GB\n") +
            columns +
            "# Source: measured, 100 iterations in 5 rounds\n"
            "     1048576        262144     float     sum      -1    28.77   "
            "36.45   36.45       0    30.50   34.38   34.38       0\n"
            "#\n"
            "# Collective test starting: all_gather_perf\n"
            "# Arm: ring/ll128/16\n" +
            columns +
            "     1048576        131072     float    none      -1    28.77   "
            "36.45   18.22  1.23457e+07      N/A     N/A     N/A     N/A\n"
            "# Out of bounds values : 1 FAILED\n"
            "# Avg bus bandwidth    : 29.6833 \n"
            "#\n"
            "# Collective test concluded: all_gather_perf\n",
        OurText());
}

TEST_F(Reading, OfOursIsReadBack)
{
    ASSERT_EQ(STP_OK, Parse(OurText())) << err_.line << ": " << err_.text;

    EXPECT_STREQ("node0", data_.machine);
    EXPECT_STREQ("NVIDIA A100-SXM4-80GB", data_.gpu);
    EXPECT_STREQ("2.30.7", data_.nccl);
    EXPECT_THAT(
        Csv(data_),
        testing::EndsWith("single_pass\n"
                          "allreduce,1048576,0,auto,auto,0,2,2,100,28.770,28."
                          "770,,,,-,-,0,f32,sum,0,0,0,measured,0\n"
                          "allreduce,1048576,0,auto,auto,0,2,2,100,30.500,30."
                          "500,,,,-,-,0,f32,sum,0,1,0,measured,0\n"
                          "allgather,1048576,0,ring,ll128,16,2,2,100,28.770,28."
                          "770,,,,-,-,0,f32,none,0,0,12345700,measured,0\n"))
        << "six digits of #wrong are printed";
}

// Text of ours with each line of 'says' before a row.
std::string Saying(const char *head, const std::vector<std::string> &says)
{
    std::string text = std::string(head) +
                       "# Collective test starting: all_reduce_perf\n"
                       "# Using devices\n"
                       "#  Rank  0 on node0 device  0 [0] NVIDIA H200\n"
                       "# size count type redop root time algbw busbw #wrong "
                       "time algbw busbw #wrong\n";
    uint64_t size = 64;
    for (const std::string &line : says)
        text += line + std::to_string(size *= 2) +
                " 1 float sum -1 10.0 1 1 0 N/A N/A N/A N/A\n";
    return text;
}

TEST_F(Reading, TakesTheSourceFromTheLineAbove)
{
    const char ours[] = "# steptune version 1.2.3 backend=nccl\n";
    const struct {
        const char *head;
        std::vector<std::string> says;
        std::vector<stp_source> want; // in order
    } cases[] = {
        {"# nccl-tests version 2.19.5 nccl-library=22809\n",
         {""},
         {STP_SOURCE_MEASURED}},
        {"", {""}, {STP_SOURCE_MEASURED}}, // an old version
        {ours, {""}, {STP_SOURCE_MODELLED}},
        {ours,
         {"# Source: recorded, 600 iterations in 12 rounds\n", "",
          "# Source: modelled, 1 iteration in 1 round\n",
          "# Source: modelled, single pass, 7 iterations in 1 round\n",
          "#Source: virtual\n", "# Source: interpolated, x\n",
          "# Source: measured,\n"},
         {STP_SOURCE_RECORDED, STP_SOURCE_RECORDED, STP_SOURCE_MODELLED,
          STP_SOURCE_MODELLED, STP_SOURCE_VIRTUAL, STP_SOURCE_INTERPOLATED,
          STP_SOURCE_MEASURED}},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.head);
        ASSERT_EQ(STP_OK, Parse(Saying(c.head, c.says))) << err_.text;
        ASSERT_EQ(c.want.size(), data_.n_rows);
        for (size_t i = 0; i < data_.n_rows; i++)
            EXPECT_EQ(c.want[i], data_.rows[i].source) << i;
    }
    for (size_t i = 0; i < data_.n_rows; i++)
        EXPECT_EQ(i == 3, data_.rows[i].single_pass) << i;
    EXPECT_EQ(7u, data_.rows[3].iters);
    EXPECT_EQ(STP_ERR_SYNTAX, Parse(Saying(ours, {"# Source: guessed, 1\n"})));
    EXPECT_STREQ("source 'guessed', expected measured, recorded, "
                 "interpolated, virtual or modelled",
                 err_.text);
    EXPECT_EQ(6u, err_.line);
    EXPECT_EQ(11u, err_.column);
}

TEST(Rows, SayTheirSourceWhereItChanges)
{
    stp_nccl_text_row row = Base();
    std::string text = Written([&](FILE *fp) {
        stp_nccl_text_total total{};
        for (const stp_nccl_text_times &times :
             std::vector<stp_nccl_text_times>{
                 {STP_SOURCE_MODELLED, 1, 1, false},
                 {STP_SOURCE_MODELLED, 1, 1, false},
                 {STP_SOURCE_MODELLED, 20, 2, false},
                 {STP_SOURCE_RECORDED, 20, 2, false},
                 {STP_SOURCE_RECORDED, 20, 2, true}}) {
            row.times = times;
            stp_nccl_text_write_row(&row, &total, fp);
        }
    });
    std::vector<std::string> lines;

    for (const std::string &line : SplitLines(text))
        lines.push_back(line[0] == '#' ? line : "row");
    EXPECT_THAT(
        lines, testing::ElementsAre(
                   "# Source: modelled, 1 iteration in 1 round", "row", "row",
                   "# Source: modelled, 20 iterations in 2 rounds", "row",
                   "# Source: recorded, 20 iterations in 2 rounds", "row",
                   "# Source: recorded, single pass, 20 iterations in 2 rounds",
                   "row"));
}

} // namespace
