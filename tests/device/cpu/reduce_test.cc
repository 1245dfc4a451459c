// Arithmetic on elements: wrapping integers, and rounding in sixteen bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

extern "C" {
#include "device/cpu/reduce.h"
#include "device/pattern.h"
}

namespace
{

template <typename T> T Reduce(int type, int op, T a, T b)
{
    T out{};
    stp_reduce_function(type, op)(&out, &a, &b, 1);
    return out;
}

uint16_t Half(int op, uint16_t a, uint16_t b, int type = STP_TYPE_F16)
{
    return Reduce(type, op, a, b);
}

TEST(Reduce, LetsIntegersWrapAround)
{
    EXPECT_EQ(-128, Reduce<int8_t>(STP_TYPE_I8, STP_OP_SUM, 127, 1));
    EXPECT_EQ(4, Reduce<uint8_t>(STP_TYPE_U8, STP_OP_PROD, 130, 130));
    EXPECT_EQ(INT32_MIN,
              Reduce<int32_t>(STP_TYPE_I32, STP_OP_SUM, INT32_MAX, 1));
    EXPECT_EQ(1u, Reduce<uint32_t>(STP_TYPE_U32, STP_OP_PROD, UINT32_MAX,
                                   UINT32_MAX));
    EXPECT_EQ(INT64_MAX,
              Reduce<int64_t>(STP_TYPE_I64, STP_OP_SUM, INT64_MIN, -1));
    EXPECT_EQ(1u, Reduce<uint64_t>(STP_TYPE_U64, STP_OP_PROD, UINT64_MAX,
                                   UINT64_MAX));
}

TEST(Reduce, OrdersByTheSignOfTheType)
{
    EXPECT_EQ(-1, Reduce<int8_t>(STP_TYPE_I8, STP_OP_MIN, -1, 1));
    EXPECT_EQ(1, Reduce<uint8_t>(STP_TYPE_U8, STP_OP_MIN, 255, 1));
    EXPECT_EQ(1, Reduce<int32_t>(STP_TYPE_I32, STP_OP_MAX, -1, 1));
    EXPECT_EQ(UINT32_MAX,
              Reduce<uint32_t>(STP_TYPE_U32, STP_OP_MAX, UINT32_MAX, 1));
    EXPECT_EQ(INT64_MIN,
              Reduce<int64_t>(STP_TYPE_I64, STP_OP_MIN, 0, INT64_MIN));
    EXPECT_EQ(UINT64_MAX,
              Reduce<uint64_t>(STP_TYPE_U64, STP_OP_MAX, 0, UINT64_MAX));
    EXPECT_EQ(-2.5f, Reduce<float>(STP_TYPE_F32, STP_OP_MIN, -2.5f, 1));
    EXPECT_EQ(1.0, Reduce<double>(STP_TYPE_F64, STP_OP_MAX, -2.5, 1));
}

TEST(Reduce, RoundsToTheNearestAndTiesToEven)
{
    const struct {
        int type;
        double a, b, sum;
    } cases[] = {
        {STP_TYPE_F16, 2048, 1, 2048},
        {STP_TYPE_F16, 2048, 3, 2052},
        {STP_TYPE_F16, 2050, 1, 2052},
        {STP_TYPE_F16, 65504, 15, 65504},
        {STP_TYPE_F16, 1, 0x1p-24, 1},
        {STP_TYPE_F16, 0x1p-14, -0x1p-24, 0x1.ff8p-15},
        {STP_TYPE_F16, -1.5, 0.25, -1.25},
        {STP_TYPE_BF16, 256, 1, 256},
        {STP_TYPE_BF16, 256, 3, 260},
        {STP_TYPE_BF16, 258, 1, 260},
        {STP_TYPE_BF16, -8, 0.5, -7.5},
    };

    for (const auto &c : cases) {
        const auto a = static_cast<uint16_t>(stp_pattern_encode(c.type, c.a));
        const auto b = static_cast<uint16_t>(stp_pattern_encode(c.type, c.b));
        EXPECT_EQ(stp_pattern_encode(c.type, c.sum),
                  Half(STP_OP_SUM, a, b, c.type))
            << c.a << " + " << c.b;
    }
}

// Half an ulp up and down in the last place of f16, of tiny numbers, too:
// 2^-25 rounds to 0, more than that to 2^-24.
TEST(Reduce, RoundsTinyProducts)
{
    const uint16_t tiny = 0x0001; // 2^-24
    const uint16_t half = 0x3800; // 0.5
    const uint16_t more_than_half = 0x3801;
    const uint16_t three_halves = 0x3e00;

    EXPECT_EQ(0x0000, Half(STP_OP_PROD, tiny, half));
    EXPECT_EQ(0x0001, Half(STP_OP_PROD, tiny, more_than_half));
    EXPECT_EQ(0x0002, Half(STP_OP_PROD, tiny, three_halves));
    EXPECT_EQ(0x8001, Half(STP_OP_PROD, tiny | 0x8000, more_than_half));
}

TEST(Reduce, OverflowsToInfinity)
{
    EXPECT_EQ(0x7c00, Half(STP_OP_SUM, 0x7bff, 0x4c00)); // 65504 + 16
    EXPECT_EQ(0xfc00, Half(STP_OP_SUM, 0xfbff, 0xfbff));
    EXPECT_EQ(0x7f80, Half(STP_OP_SUM, 0x7f7f, 0x7f7f, STP_TYPE_BF16));
}

// Times one: what is widened and narrowed again stays what it is.
TEST(Reduce, KeepsEveryNumberOfSixteenBits)
{
    const struct {
        int type;
        uint16_t one, infinity;
    } cases[] = {{STP_TYPE_F16, 0x3c00, 0x7c00},
                 {STP_TYPE_BF16, 0x3f80, 0x7f80}};

    for (const auto &c : cases)
        for (uint32_t bits = 0; bits < 65536; bits++) {
            const auto x = static_cast<uint16_t>(bits);
            const uint16_t got = Half(STP_OP_PROD, x, c.one, c.type);
            if ((x & 0x7fff) <= c.infinity)
                ASSERT_EQ(x, got) << stp_type_name(c.type);
            else
                ASSERT_GT(got & 0x7fff, c.infinity) << "no NaN any more";
        }
}

TEST(Reduce, HasNoEightBitFloatingPoint)
{
    for (int type : {STP_TYPE_FP8_E4M3, STP_TYPE_FP8_E5M2})
        for (int op = 0; op < STP_OP_AVG; op++)
            EXPECT_EQ(nullptr, stp_reduce_function(type, op));
}

TEST(Reduce, MayWriteOverAnInput)
{
    std::vector<float> a(1000, 2);
    std::vector<float> b(1000, 3);
    const stp_reduce sum = stp_reduce_function(STP_TYPE_F32, STP_OP_SUM);

    sum(a.data(), a.data(), b.data(), a.size());
    sum(b.data(), a.data(), b.data(), b.size());

    EXPECT_EQ(std::vector<float>(1000, 5), a);
    EXPECT_EQ(std::vector<float>(1000, 8), b);
}

template <typename T> T Divide(int type, T sum, unsigned ranks)
{
    stp_reduce_divide(type, &sum, 1, ranks);
    return sum;
}

TEST(Reduce, DividesTowardsZero)
{
    EXPECT_EQ(-3, Divide<int8_t>(STP_TYPE_I8, -7, 2));
    EXPECT_EQ(85, Divide<uint8_t>(STP_TYPE_U8, 255, 3));
    EXPECT_EQ(-3, Divide<int32_t>(STP_TYPE_I32, -10, 3));
    EXPECT_EQ(UINT32_MAX / 3, Divide<uint32_t>(STP_TYPE_U32, UINT32_MAX, 3));
    EXPECT_EQ(-3, Divide<int64_t>(STP_TYPE_I64, -10, 3));
    EXPECT_EQ(UINT64_MAX / 3, Divide<uint64_t>(STP_TYPE_U64, UINT64_MAX, 3));
    EXPECT_EQ(2.5f, Divide<float>(STP_TYPE_F32, 10, 4));
    EXPECT_EQ(10.0 / 3, Divide<double>(STP_TYPE_F64, 10, 3));
    EXPECT_EQ(0x3555, Divide<uint16_t>(STP_TYPE_F16, 0x3c00, 3)); // 1 / 3
    EXPECT_EQ(0x3eab, Divide<uint16_t>(STP_TYPE_BF16, 0x3f80, 3));
}

} // namespace
