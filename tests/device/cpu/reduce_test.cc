// Arithmetic on elements: wrapping integers, and rounding in sixteen bits.
#include <gtest/gtest.h>

#include <cstdint>

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

template <typename T> T Divide(int type, T sum, unsigned ranks)
{
    stp_reduce_divide(type, &sum, 1, ranks);
    return sum;
}

} // namespace
