// What CPUs compute beside collectives: products, and what memory bounds.
#include <gtest/gtest.h>

#include <string>
#include <vector>

extern "C" {
#include "device/cpu/cpu_vectors.h"
#include "device/cpu/gemm.h"
}

namespace
{

/* ---- matrix products ---- */

class Gemm : public testing::Test
{
  protected:
    void SetUp() override
    {
        const stp_gemm smallest{1, 1, 1, STP_TYPE_F32};
        if (stp_gemm_prepare(&room_, &smallest, 1, &err_) != STP_OK)
            GTEST_SKIP() << err_.text;
    }

    void TearDown() override
    {
        stp_gemm_room_free(&room_);
    }

    template <typename T> void ExpectProduct(const stp_gemm &gemm)
    {
        ASSERT_EQ(STP_OK, stp_gemm_prepare(&room_, &gemm, 1, &err_))
            << err_.text;
        stp_gemm_run(&room_, &gemm);

        const T *a = static_cast<const T *>(room_.matrix[0]);
        const T *b = static_cast<const T *>(room_.matrix[1]);
        const T *c = static_cast<const T *>(room_.matrix[2]);
        for (unsigned i = 0; i < gemm.m; i++)
            for (unsigned j = 0; j < gemm.n; j++) {
                T sum = 0;
                for (unsigned k = 0; k < gemm.k; k++)
                    sum += a[i * gemm.k + k] * b[k * gemm.n + j];
                ASSERT_GE(sum, gemm.k);
                ASSERT_EQ(sum, c[i * gemm.n + j]) << i << ", " << j;
            }
    }

    stp_gemm_room room_{};
    stp_error err_{};
};

// In one room: what is there for one type is of no use to the other.
TEST_F(Gemm, MultipliesF32AndF64)
{
    ExpectProduct<float>({4, 5, 6, STP_TYPE_F32});
    ExpectProduct<double>({3, 4, 5, STP_TYPE_F64});
    ExpectProduct<double>({20, 30, 10, STP_TYPE_F64});
    ExpectProduct<float>({7, 8, 9, STP_TYPE_F32});
    ExpectProduct<float>({20, 30, 10, STP_TYPE_F32});
    ExpectProduct<double>({1, 1, 200, STP_TYPE_F64});
    ExpectProduct<double>({20, 30, 10, STP_TYPE_F64});
}

TEST_F(Gemm, FillsMatricesOnce)
{
    const stp_gemm gemm{8, 8, 8, STP_TYPE_F32};
    ASSERT_EQ(STP_OK, stp_gemm_prepare(&room_, &gemm, 1, &err_));
    static_cast<float *>(room_.matrix[0])[5] = 99;

    ASSERT_EQ(STP_OK, stp_gemm_prepare(&room_, &gemm, 1, &err_));

    EXPECT_EQ(99, static_cast<float *>(room_.matrix[0])[5]);
}

TEST_F(Gemm, RefusesWhatBlasLacks)
{
    for (int type = 0; type < STP_N_TYPES; type++) {
        const stp_gemm gemm{2, 2, 2, type};
        const bool is_there = type == STP_TYPE_F32 || type == STP_TYPE_F64;
        EXPECT_EQ(is_there ? STP_OK : STP_ERR_RANGE,
                  stp_gemm_prepare(&room_, &gemm, 1, &err_))
            << stp_type_name(type);
    }
    EXPECT_EQ("no fp8e5m2 matrix products on CPUs, only f32 and f64",
              std::string(err_.text));
    for (const stp_gemm &empty :
         {stp_gemm{0, 1, 1, STP_TYPE_F32}, stp_gemm{1, 0, 1, STP_TYPE_F32},
          stp_gemm{1, 1, 0, STP_TYPE_F32}})
        EXPECT_EQ(STP_ERR_RANGE, stp_gemm_prepare(&room_, &empty, 1, &err_));
}

/* ---- elementwise kernels ---- */

class CpuVectors : public testing::Test
{
  protected:
    void TearDown() override
    {
        stp_cpu_vectors_free(&vectors_);
    }

    void Make(uint64_t nbytes)
    {
        ASSERT_EQ(STP_OK, stp_cpu_vectors_make(&vectors_, nbytes, &err_))
            << err_.text;
    }

    std::vector<float> Y(uint64_t n) const
    {
        return {vectors_.y, vectors_.y + n};
    }

    stp_cpu_vectors vectors_{};
    stp_error err_{};
};

TEST_F(CpuVectors, AreSubtractedAsFarAsWholeFloatsGo)
{
    constexpr uint64_t kFloats = 1000;
    const struct {
        uint64_t nbytes;
        uint64_t n; // floats that change
    } cases[] = {{0, 0}, {3, 0},   {4, 1},       {7, 1},
                 {8, 2}, {68, 17}, {4 * 63, 63}, {4 * 1000, 1000}};
    Make(kFloats * sizeof(float));

    for (const auto &c : cases) {
        std::vector<float> want = Y(kFloats);
        for (uint64_t i = 0; i < c.n; i++)
            want[i] = vectors_.x[i] - want[i];

        stp_cpu_vectors_run(&vectors_, c.nbytes);

        EXPECT_EQ(want, Y(kFloats)) << c.nbytes;
    }
}

TEST_F(CpuVectors, AreTheSameAgainEverySecondTime)
{
    Make(4000);
    const std::vector<float> before = Y(1000);

    for (int i = 0; i < 1000; i++)
        stp_cpu_vectors_run(&vectors_, 4000);
    EXPECT_EQ(before, Y(1000));
    stp_cpu_vectors_run(&vectors_, 4000);
    EXPECT_NE(before, Y(1000));
}

TEST_F(CpuVectors, GrowAndDoNotShrink)
{
    Make(0);
    Make(400);
    EXPECT_EQ(400u, vectors_.nbytes);
    Make(4000);
    EXPECT_EQ(4000u, vectors_.nbytes);
    const float *y = vectors_.y;

    Make(40);

    EXPECT_EQ(4000u, vectors_.nbytes);
    EXPECT_EQ(y, vectors_.y);
}

} // namespace
