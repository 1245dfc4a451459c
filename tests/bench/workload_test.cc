// The order of collectives and compute in an iteration.
#include <gtest/gtest.h>

#include <cstring>

#include "support/with_param.h"

extern "C" {
#include "bench/workload.h"
}

#include "bench/fake_streams.h"

namespace
{

struct ShapeCase {
    const char *name;
    int mode;
    int compute;
    unsigned layers;
    std::vector<std::string> want;
};

using WorkloadShape = testing::TestWithParam<ShapeCase>;

TEST_P(WorkloadShape, IsNotedInThisOrder)
{
    const ShapeCase &c = GetParam();
    FakeStreams fake;
    const stp_device *device = fake.Open();
    stp_workload work{};
    stp_collective what{};
    stp_error err{};
    work.mode = c.mode;
    work.compute = c.compute;
    work.layers = c.layers;
    work.gemm = {256, 128, 64, STP_TYPE_BF16};
    what.coll = ncclFuncAllReduce;

    EXPECT_EQ(STP_OK, stp_workload_note(device, &work, &what, 10, &err));
    EXPECT_EQ(STP_OK, stp_device_synchronise(device, &err));

    EXPECT_EQ(c.want, fake.notes);
    unsigned n_records = 0;
    for (const std::string &note : fake.notes)
        n_records += note.find("record") != std::string::npos;
    EXPECT_EQ(n_records, stp_workload_events(&work));
    FakeStreams alone;
    const stp_device *one = alone.Open();
    EXPECT_EQ(STP_OK,
              stp_workload_note_compute(one, &work, STP_STREAM_MAIN, &err));
    EXPECT_EQ(STP_OK, stp_device_synchronise(one, &err));
    size_t n_compute = 0;
    for (const std::string &note : fake.notes)
        n_compute += note.find("gemm") != std::string::npos ||
                     note.find("elementwise") != std::string::npos;
    EXPECT_EQ(n_compute, alone.notes.size() * c.layers);
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Table, WorkloadShape,
    testing::Values(
        ShapeCase{"sequential", STP_MODE_SEQUENTIAL, STP_COMPUTE_GEMM, 2,
            {"main gemm", "main gemm", "main allreduce", "main allreduce"}},
        ShapeCase{"sequential_training", STP_MODE_SEQUENTIAL, STP_COMPUTE_TRAINING, 1,
            {"main gemm", "main elementwise 65536",
             "main elementwise 65536", "main gemm", "main gemm", "main allreduce"}},
        ShapeCase{"overlap", STP_MODE_OVERLAP, STP_COMPUTE_GEMM, 2,
            {"main gemm", "main record 10", "comm wait 10", "comm allreduce",
             "main gemm", "main record 11", "comm wait 11", "comm allreduce",
             "comm record 12", "main wait 12"}},
        ShapeCase{"overlap_training", STP_MODE_OVERLAP, STP_COMPUTE_TRAINING, 2,
            {"main gemm", "main elementwise 65536", "main gemm", "main elementwise 65536",
             "main elementwise 65536", "main gemm", "main gemm",
             "main record 10", "comm wait 10", "comm allreduce",
             "main elementwise 65536", "main gemm", "main gemm",
             "main record 11", "comm wait 11", "comm allreduce",
             "comm record 12", "main wait 12"}},
        ShapeCase{"fsdp", STP_MODE_FSDP, STP_COMPUTE_GEMM, 2,
            {"main record 10", "comm wait 10",
             "comm allgather", "comm record 11",
             "main wait 11", "comm allgather", "comm record 12",
             "main gemm", "main record 13", "comm wait 13", "comm reducescatter",
             "main wait 12",
             "main gemm", "main record 14", "comm wait 14", "comm reducescatter",
             "comm record 15", "main wait 15"}},
        ShapeCase{"fsdp_training", STP_MODE_FSDP, STP_COMPUTE_TRAINING, 1,
            {"main record 10", "comm wait 10",
             "comm allgather", "comm record 11", "main wait 11",
             "main gemm", "main elementwise 65536",
             "comm allgather", "comm record 12", "main wait 12",
             "main elementwise 65536", "main gemm", "main gemm",
             "main record 13", "comm wait 13", "comm reducescatter",
             "comm record 14", "main wait 14"}}),
    CaseName());
// clang-format on

TEST(Workload, HasNamesThatAreRead)
{
    for (int m = 0; m < STP_N_MODES; m++)
        EXPECT_EQ(
            m, stp_mode_from_name(stp_mode_name(m), strlen(stp_mode_name(m))));
    for (int c = 0; c < STP_N_COMPUTES; c++)
        EXPECT_EQ(c, stp_compute_from_name(stp_compute_name(c),
                                           strlen(stp_compute_name(c))));
    EXPECT_EQ(-1, stp_mode_from_name("overlaps", 8));
}

TEST(Workload, OfARatioIsTheSameWhateverItsProduct)
{
    stp_workload a{};
    a.mode = STP_MODE_OVERLAP;
    a.layers = 8;
    a.gemm = {256, 256, 64, STP_TYPE_BF16};
    stp_workload b = a;
    b.gemm.k = 128;
    b.compute_us = 3;

    EXPECT_GT(0, stp_workload_order(&a, &b));
    EXPECT_LT(0, stp_workload_order(&b, &a));
    a.ratio = b.ratio = 1;
    EXPECT_EQ(0, stp_workload_order(&a, &b));
    b.layers = 4;
    EXPECT_LT(0, stp_workload_order(&a, &b));
}

} // namespace
