// Measurements of iterations in CSV and JSON.
#include <cstring>

extern "C" {
#include "core/dtype.h"
}

#include "report/measurements/measured_files.h"

namespace
{

using testing::HasSubstr;
using testing::Not;

constexpr char kIterations[] =
    "# test\n# machine: m\n# gpu: G\n# nccl: 2.28.9\n# backend: nccl\n"
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,iters,"
    "mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,ran_protocol,"
    "ran_channels,type,op,root,in_place,wrong,source,single_pass,mode,compute,"
    "layers,ratio,"
    "m,n,k,compute_us,alone_us\n"
    "allreduce,4096,0,auto,auto,0,1,4,20,10.500,10.250,11.000,12.000,9.125,"
    "ring,ll,24,f32,sum,0,0,,measured,0,overlap,training,8,0.75,2048,1024,512,"
    "1.125,2.250\n"
    "allgather,8192,1,auto2,auto2,0,1,4,15,8.500,8.250,9.000,9.500,7.125,ring,"
    "simple,24,f32,none,0,0,,measured,0,fsdp,gemm,4,0,64,64,32,3.500,0.000\n";

TEST_F(Measured, IterationsComeBackAsTheyWereWritten)
{
    ASSERT_EQ(STP_OK, ReadCsv(kIterations)) << err_.text;
    const stp_measurement m = data_.rows[0];
    const std::string json = Json(data_);

    EXPECT_EQ(kIterations, Csv(data_));
    EXPECT_EQ(STP_MODE_OVERLAP, m.work.mode);
    EXPECT_EQ(STP_COMPUTE_TRAINING, m.work.compute);
    EXPECT_EQ(8u, m.work.layers);
    EXPECT_EQ(0.75, m.work.ratio);
    EXPECT_EQ(1024u, m.work.gemm.n);
    EXPECT_EQ(STP_TYPE_F32, m.work.gemm.type);
    EXPECT_EQ(1.125, m.work.compute_us);
    EXPECT_EQ(2.25, m.alone_us);

    EXPECT_EQ(STP_TYPE_F32, data_.rows[1].work.gemm.type);
    EXPECT_THAT(json, Not(HasSubstr("busbw")));
}

TEST_F(Measured, CollectivesAloneHaveNoWorkload)
{
    std::string text = kIterations;
    text += "allreduce,64,0,auto,auto,0,1,4,1,5.000,5.000,5.000,5.000,5.000,-,"
            "-,0,bf16,sum,0,0,,measured,0,alone,gemm,0,0,0,0,0,0.000,0.000\n";

    ASSERT_EQ(STP_OK, ReadCsv(text)) << err_.text;
    EXPECT_EQ(text, Csv(data_));
    EXPECT_EQ(2u, stp_dataset_n_iterations(&data_));

    data_.n_rows = 1;
    data_.rows[0].work = {};
    EXPECT_THAT(Csv(data_), Not(HasSubstr("mode")));
}

TEST_F(Measured, WorkloadsThatMeanNothingAreRefused)
{
    const struct {
        const char *from;
        const char *to;
        const char *expected;
    } cases[] = {
        {"overlap,training", "overlpa,training",
         "mode 'overlpa', expected alone, sequential, overlap, fsdp or trace"},
        {"overlap,training", "overlap,none",
         "compute 'none', expected gemm or training"},
        {"training,8,", "training,0,",
         "mode overlap without layers, expected a number from 1"},
        {",0.75,", ",-1,", "ratio '-1', expected a number from 0"},
        {",1.125,", ",inf,", "compute_us 'inf', expected a time from 0"},
        {",2.250\n", ",\n", "alone_us '', expected a time from 0"},
    };

    for (const auto &c : cases) {
        SCOPED_TRACE(c.to);
        std::string bad = kIterations;
        bad.replace(bad.find(c.from), strlen(c.from), c.to);
        EXPECT_EQ(STP_ERR_SYNTAX, ReadCsv(bad));
        EXPECT_EQ(7u, err_.line);
        EXPECT_STREQ(c.expected, err_.text);
    }
}

TEST_F(Measured, RecordedMachinesHaveIterations)
{
    const struct {
        const char *name;
        unsigned n_ranks;
        size_t n_rows;
    } cases[] = {{"h200x4", 4, 1440}, {"h200x4_graphs", 4, 6990}};

    for (const auto &c : cases) {
        SCOPED_TRACE(c.name);
        stp_dataset_free(&data_);
        std::string path = std::string(STP_FIXTURES "/machines/") + c.name;
        ASSERT_EQ(STP_OK,
                  stp_measurements_load_any((path + "/overlap.csv").c_str(), -1,
                                            0, &data_, &err_))
            << err_.text;
        EXPECT_EQ(c.n_rows, data_.n_rows);
        EXPECT_EQ(data_.n_rows, stp_dataset_n_iterations(&data_));
        for (size_t i = 0; i < data_.n_rows; i++) {
            const stp_measurement &m = data_.rows[i];
            ASSERT_NE(STP_MODE_ALONE, m.work.mode);
            ASSERT_LT(0u, m.work.layers);
            ASSERT_LT(0u, m.work.gemm.k);
            ASSERT_EQ(c.n_ranks, m.n_ranks);
            ASSERT_EQ(1u, m.n_nodes);
            ASSERT_LE(m.source, STP_SOURCE_RECORDED);
        }
    }
}

TEST_F(Measured, OnlyRecordedIterationsMayBeWithoutNodes)
{
    EXPECT_EQ(STP_ERR_SYNTAX,
              ReadCsv("collective,bytes,round,algorithm,protocol,nRanks,run,"
                      "median_us\nallreduce,64,0,auto,auto,4,window,5\n"));

    EXPECT_STREQ("no column nNodes, without which only a recorded machine's "
                 "overlap.csv can be",
                 err_.text);
}

} // namespace
