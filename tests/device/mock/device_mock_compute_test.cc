// How long compute takes on a recorded machine, and how much that is worth.
#include "device/mock/device_mock_streams.h"
#include "device/source_of.h"
#include "support/with_param.h"

namespace
{

using testing::HasSubstr;

TEST_F(DeviceMockStreams, AProductTakesItsRecordedTime)
{
    Open();

    EXPECT_DOUBLE_EQ(kSquareUs, TimeGemm(kSquare));
    EXPECT_DOUBLE_EQ(11.7, TimeGemm({2048, 2048, 704, STP_TYPE_BF16}));
    EXPECT_DOUBLE_EQ(512.8, TimeGemm({4096, 4096, 10880, STP_TYPE_BF16}));
}

TEST_F(DeviceMockStreams, BetweenTwoRecordedProductsItIsInProportion)
{
    Open();

    // 2048 x 2048 x 1088 and 1344: 15.3 and 17.7
    EXPECT_NEAR(16.5, TimeGemm({2048, 2048, 1216, STP_TYPE_BF16}), 1e-9);
}

TEST_F(DeviceMockStreams, BeyondRecordedProductsItIsInProportionToo)
{
    Open();

    // 2048 x 2048 x 704 and 1088: 11.7 and 15.3; 3136 and 4416: 35.2 and 48.4
    EXPECT_NEAR(11.7 - 3.6 * 448 / 384, TimeGemm({2048, 2048, 256, kBf16}),
                1e-9);
    EXPECT_NEAR(48.4 + 13.2 * 384 / 1280, TimeGemm({2048, 2048, 4800, kBf16}),
                1e-9);
    EXPECT_EQ(STP_SOURCE_MODELLED, SourceOf(device_));
    TimeGemm({2048, 2048, 4544, kBf16});
    EXPECT_EQ(STP_SOURCE_VIRTUAL, SourceOf(device_));
}

TEST_F(DeviceMockStreams, OtherProductsAreModelledByThePeakRate)
{
    const double flop = 2. * 1024 * 1024 * 1024;
    const stp_gemm f32{1024, 1024, 1024, STP_TYPE_F32};
    const stp_gemm bf16{1024, 1024, 1024, STP_TYPE_BF16};

    Open("h100x8");
    EXPECT_NEAR(4.75 + flop / (67e6 * .77), TimeGemm(f32), 1e-9);
    EXPECT_NEAR(4.75 + flop / (989.5e6 * .77), TimeGemm(bf16), 1e-9);
    Open("a100x8");
    EXPECT_NEAR(4.75 + flop / (312e6 * .77), TimeGemm(bf16), 1e-9);
    Open("b200x8");
    EXPECT_NEAR(4.75 + flop / (2250e6 * .77), TimeGemm(bf16), 1e-9);
}

TEST_F(DeviceMockStreams, ElementwiseIsModelledByTheMemorysRate)
{
    struct Case {
        const char *machine;
        double terabytes; // a second
    };
    const uint64_t n_bytes = 64 * kMiB;

    for (Case c : {Case{"h200x4", 4.8}, {"h100x8", 3.35}, {"a100x8", 2.039}}) {
        Open(c.machine);
        double us = Time([&] { Elementwise(kMain, n_bytes); });
        EXPECT_NEAR(4.75 + 3. * n_bytes / (c.terabytes * 1e6 * .92), us, 1e-9);
        EXPECT_EQ(STP_SOURCE_MODELLED, SourceOf(device_));
    }
}

struct SourceCase {
    const char *name;
    const char *machine;
    stp_gemm gemm;
    uint64_t n_bytes;
    unsigned stream; // of the collective
    stp_source want;
};

using DeviceMockSource = WithParam<DeviceMockStreams, SourceCase>;

TEST_P(DeviceMockSource, IsTheWorstOfALayer)
{
    const SourceCase &c = GetParam();
    Open(c.machine, kRing);

    Time([&] {
        EXPECT_EQ(STP_OK, Gemm(kMain, c.gemm));
        Send(c.stream, c.n_bytes);
        Record(c.stream, 0);
        Wait(kMain, 0);
    });

    EXPECT_EQ(c.want, SourceOf(device_));
}

// clang-format off
INSTANTIATE_TEST_SUITE_P(
    Table, DeviceMockSource,
    testing::Values(
        SourceCase{"recorded", "h200x4", kSquare, 4 * kMiB, kComm, STP_SOURCE_VIRTUAL},
        SourceCase{"size_between", "h200x4", kSquare, 5 * kMiB, kComm, STP_SOURCE_VIRTUAL},
        SourceCase{"product_between", "h200x4", {2048, 2048, 1216, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_VIRTUAL},
        SourceCase{"ratio_beyond", "h200x4", {4096, 4096, 10880, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_MODELLED},
        SourceCase{"other_product", "h200x4", {512, 512, 512, STP_TYPE_BF16}, 4 * kMiB, kComm, STP_SOURCE_MODELLED},
        SourceCase{"one_stream", "h200x4", kSquare, 4 * kMiB, kMain, STP_SOURCE_VIRTUAL},
        SourceCase{"nothing_recorded", "h100x8", kSquare, 4 * kMiB, kComm, STP_SOURCE_MODELLED}),
    CaseName());
// clang-format on

TEST_F(DeviceMockStreams, RefusesProductsThatAGpuDoesNotMultiply)
{
    mock_test::Folder folder;
    folder.Write("machine.csv", "gpu,compute_capability,cpu_vendor,nccl\n"
                                "Tesla V100,70,intel,2.28.9\n");
    Open(folder.Path());

    EXPECT_EQ(STP_ERR_RANGE, Gemm(kMain, {64, 64, 64, STP_TYPE_BF16}));
    EXPECT_STREQ("Tesla V100 multiplies no matrices of bf16", err_.text);
    EXPECT_EQ(STP_ERR_RANGE, Gemm(kMain, {64, 64, 64, STP_TYPE_I8}));
    EXPECT_EQ(STP_ERR_RANGE, Gemm(kMain, {64, 0, 64, STP_TYPE_F16}));
    EXPECT_THAT(err_.text, HasSubstr("64 x 0 x 64"));
    EXPECT_EQ(STP_OK, Gemm(kMain, {64, 64, 64, STP_TYPE_F16}));
}

TEST_F(DeviceMockStreams, SaysWhereComputeBesideCollectivesIsModelled)
{
    stp_device_info info{};

    Open("h200x4");
    info = Info();
    EXPECT_FALSE(info.models_overlap);
    Open("h200x3");
    info = Info();
    EXPECT_TRUE(info.models_overlap);
}

} // namespace
