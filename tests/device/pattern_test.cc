// The data that collectives are checked with: exact, and never right by chance.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

extern "C" {
#include "device/pattern.h"
}

namespace
{

struct Number {
    int type;
    double value;
    uint64_t bits;
};

// clang-format off
const Number kNumbers[] = {
    {STP_TYPE_F16, 0, 0}, {STP_TYPE_F16, 1, 0x3c00}, {STP_TYPE_F16, -2, 0xc000},
    {STP_TYPE_F16, 0.5, 0x3800}, {STP_TYPE_F16, 65504, 0x7bff},
    {STP_TYPE_F16, 0x1p-14, 0x0400}, {STP_TYPE_F16, 0x1p-24, 0x0001},
    {STP_TYPE_F16, -0x1.8p-23, 0x8003}, {STP_TYPE_F16, 2047, 0x67ff},
    {STP_TYPE_BF16, 1, 0x3f80}, {STP_TYPE_BF16, -3, 0xc040},
    {STP_TYPE_BF16, 255, 0x437f}, {STP_TYPE_BF16, 0x1p-126, 0x0080},
    {STP_TYPE_F32, 1, 0x3f800000}, {STP_TYPE_F32, -0.15625, 0xbe200000},
    {STP_TYPE_F32, 16777215, 0x4b7fffff}, {STP_TYPE_F32, 0x1p-149, 1},
    {STP_TYPE_F64, 1, 0x3ff0000000000000}, {STP_TYPE_F64, -2, 0xc000000000000000},
    {STP_TYPE_F64, 0x1p-1074, 1},
    {STP_TYPE_FP8_E4M3, 1, 0x38}, {STP_TYPE_FP8_E4M3, 448, 0x7e},
    {STP_TYPE_FP8_E4M3, -0.5, 0xb0}, {STP_TYPE_FP8_E4M3, 0x1p-9, 0x01},
    {STP_TYPE_FP8_E5M2, 1, 0x3c}, {STP_TYPE_FP8_E5M2, 57344, 0x7b},
    {STP_TYPE_FP8_E5M2, 3, 0x42}, {STP_TYPE_FP8_E5M2, -0x1p-16, 0x81},
};

const Number kNoNumbers[] = {
    {STP_TYPE_F16, 0, 0x7c00}, {STP_TYPE_F16, 0, 0xfe00},
    {STP_TYPE_BF16, 0, 0x7f80}, {STP_TYPE_BF16, 0, 0xffc0},
    {STP_TYPE_F32, 0, 0x7f800000}, {STP_TYPE_F32, 0, 0xffffffff},
    {STP_TYPE_F64, 0, 0x7ff0000000000000}, {STP_TYPE_F64, 0, UINT64_MAX},
    {STP_TYPE_FP8_E4M3, 0, 0x7f}, {STP_TYPE_FP8_E4M3, 0, 0xff},
    {STP_TYPE_FP8_E5M2, 0, 0x7c}, {STP_TYPE_FP8_E5M2, 0, 0xff},
};
// clang-format on

TEST(Pattern, EncodesAndDecodesKnownBits)
{
    for (const Number &n : kNumbers) {
        SCOPED_TRACE(std::string(stp_type_name(n.type)) + " " +
                     std::to_string(n.value));
        if (n.type != STP_TYPE_F64 || n.value != 0x1p-1074) {
            EXPECT_EQ(n.bits, stp_pattern_encode(n.type, n.value));
        }
        EXPECT_EQ(n.value, stp_pattern_decode(n.type, n.bits));
    }
}

TEST(Pattern, DecodesInfinitiesAndNansAsNan)
{
    for (const Number &n : kNoNumbers)
        EXPECT_TRUE(std::isnan(stp_pattern_decode(n.type, n.bits)))
            << stp_type_name(n.type) << " " << n.bits;
}

TEST(Pattern, EncodesEveryNumberThatItDecodes)
{
    for (int type :
         {STP_TYPE_F16, STP_TYPE_BF16, STP_TYPE_FP8_E4M3, STP_TYPE_FP8_E5M2}) {
        const uint64_t n = uint64_t{1} << stp_pattern_bits(type);
        for (uint64_t bits = 1; bits < n; bits++) {
            const double value = stp_pattern_decode(type, bits);
            if (!std::isnan(value) && value != 0) {
                ASSERT_EQ(bits, stp_pattern_encode(type, value))
                    << stp_type_name(type);
            }
        }
    }
}

TEST(Pattern, SizesAreThoseOfARank)
{
    const struct {
        int coll;
        uint64_t block, n_send, n_recv;
    } cases[] = {
        {ncclFuncAllReduce, 12, 12, 12},   {ncclFuncBroadcast, 12, 12, 12},
        {ncclFuncReduce, 12, 12, 12},      {ncclFuncAllGather, 3, 3, 12},
        {ncclFuncReduceScatter, 3, 12, 3},
    };

    for (const auto &c : cases) {
        stp_pattern p{};
        uint64_t n_send = 0;
        uint64_t n_recv = 0;
        p.coll = c.coll;
        p.type = STP_TYPE_F32;
        p.ranks = 4;

        stp_pattern_sizes(&p, 48, &n_send, &n_recv);

        EXPECT_EQ(c.block, p.block) << c.coll;
        EXPECT_EQ(c.n_send, n_send) << c.coll;
        EXPECT_EQ(c.n_recv, n_recv) << c.coll;
    }
}

/* ---- results, computed another way ---- */

constexpr uint64_t kBlock = 40;

int64_t Signed(int type, uint64_t bits)
{
    switch (type) {
    case STP_TYPE_I8:
        return static_cast<int8_t>(bits);
    case STP_TYPE_I32:
        return static_cast<int32_t>(bits);
    default:
        return static_cast<int64_t>(bits);
    }
}

bool Less(int type, uint64_t a, uint64_t b)
{
    const bool is_signed =
        type == STP_TYPE_I8 || type == STP_TYPE_I32 || type == STP_TYPE_I64;

    return is_signed ? Signed(type, a) < Signed(type, b) : a < b;
}

template <typename T> T Combine(int op, T a, T b, bool b_less)
{
    switch (op) {
    case STP_OP_PROD:
        return a * b;
    case STP_OP_MIN:
        return b_less ? b : a;
    case STP_OP_MAX:
        return b_less ? a : b;
    default:
        return a + b;
    }
}

// Reduces the first 'ranks' ranks, an average as if the others gave 0; in the
// collective's type, if that holds the result.
uint64_t Reduce(const stp_pattern &p, uint64_t i, unsigned ranks)
{
    const bool avg = p.op == STP_OP_AVG;
    uint64_t integer = stp_pattern_input(&p, 0, i);
    double number = stp_pattern_decode(p.type, integer);

    for (unsigned r = 1; r < ranks; r++) {
        const uint64_t bits = stp_pattern_input(&p, r, i);
        const double x = stp_pattern_decode(p.type, bits);
        integer = Combine(p.op, integer, bits, Less(p.type, bits, integer));
        number = Combine(p.op, number, x, x < number);
    }
    if (stp_type_is_integer(p.type)) {
        const int n = stp_pattern_bits(p.type);
        if (n < 64)
            integer &= (uint64_t{1} << n) - 1;
        return avg ? integer / p.ranks : integer;
    }
    return stp_pattern_encode(p.type, avg ? number / p.ranks : number);
}

uint64_t Result(const stp_pattern &p, unsigned rank, uint64_t i)
{
    switch (p.coll) {
    case ncclFuncBroadcast:
        return stp_pattern_input(&p, p.root, i);
    case ncclFuncAllGather:
        return stp_pattern_input(&p, static_cast<unsigned>(i / p.block),
                                 i % p.block);
    case ncclFuncReduceScatter:
        return Reduce(p, rank * p.block + i, p.ranks);
    default:
        return Reduce(p, i, p.ranks);
    }
}

struct Shape {
    int coll;
    unsigned ranks;
};

class PatternOf : public testing::TestWithParam<Shape>
{
  protected:
    // Every type and operation.
    template <typename Body> void ForEach(const Body &body)
    {
        for (int type = 0; type < STP_N_TYPES; type++)
            for (int op = 0; op < STP_N_OPS; op++) {
                stp_pattern p{};
                p.coll = GetParam().coll;
                p.ranks = GetParam().ranks;
                p.type = type;
                p.op = op;
                p.root = p.ranks - 1;
                p.block = kBlock;
                p.seed = static_cast<uint64_t>(100 * type + op);
                SCOPED_TRACE(std::string(stp_type_name(type)) + " " +
                             stp_op_name(op));
                body(p);
            }
    }

    static uint64_t ResultSize(const stp_pattern &p)
    {
        return p.coll == ncclFuncAllGather ? p.block * p.ranks : p.block;
    }
};

TEST_P(PatternOf, AcceptsWhatComesOut)
{
    ForEach([](const stp_pattern &p) {
        for (unsigned rank = 0; rank < p.ranks; rank++)
            for (uint64_t i = 0; i < ResultSize(p); i++)
                EXPECT_TRUE(stp_pattern_right(&p, rank, i, Result(p, rank, i)));
    });
}

TEST_P(PatternOf, FindsOneWrongBitUnlessItIsRounding)
{
    ForEach([](const stp_pattern &p) {
        const bool rounds = !stp_type_is_integer(p.type) &&
                            stp_coll_reduces(p.coll) &&
                            stp_pattern_tolerance(&p) > 0;
        for (unsigned rank = 0; rank < p.ranks; rank++)
            for (uint64_t i = 0; i < ResultSize(p) && !rounds; i++) {
                const int n = stp_pattern_bits(p.type);
                const uint64_t bit = uint64_t{1} << (i % n);
                const uint64_t bits = Result(p, rank, i);
                if (!stp_type_is_integer(p.type) &&
                    stp_pattern_decode(p.type, bits) == 0)
                    continue; // -0 is as right
                EXPECT_FALSE(stp_pattern_right(&p, rank, i, bits ^ bit))
                    << "bit " << i % n << " of " << bits;
            }
    });
}

TEST_P(PatternOf, NeverTakesPoisonForAResult)
{
    ForEach([](const stp_pattern &p) {
        for (unsigned rank = 0; rank < p.ranks; rank++)
            for (uint64_t i = 0; i < ResultSize(p); i++)
                EXPECT_FALSE(stp_pattern_right(
                    &p, rank, i, stp_pattern_poison(&p, rank, i)));
    });
}

// Averages of eight bits are coarser than what one rank adds to them.
bool IsCoarse(const stp_pattern &p)
{
    return p.op == STP_OP_AVG && stp_pattern_bits(p.type) == 8;
}

// Other operations need not change with a rank: a minimum, say.
TEST_P(PatternOf, MissesARankThatGaveNothing)
{
    ForEach([](const stp_pattern &p) {
        uint64_t n_right = 0;
        if (!stp_coll_reduces(p.coll) || p.ranks == 1 ||
            (p.op != STP_OP_SUM && p.op != STP_OP_AVG) || IsCoarse(p))
            return;
        for (uint64_t i = 0; i < p.block; i++) {
            const uint64_t at =
                p.coll == ncclFuncReduceScatter ? i + p.block : i;
            n_right += stp_pattern_right(&p, 1, i, Reduce(p, at, p.ranks - 1));
        }
        EXPECT_LT(n_right, p.block / 2);
    });
}

TEST_P(PatternOf, MissesDataOfAnotherSeed)
{
    ForEach([](const stp_pattern &p) {
        stp_pattern other = p;
        uint64_t n_right = 0;
        other.seed += 1000;
        if (p.op == STP_OP_PROD || IsCoarse(p))
            return; // few values
        for (uint64_t i = 0; i < ResultSize(p); i++)
            n_right += stp_pattern_right(&p, 0, i, Result(other, 0, i));
        EXPECT_LT(n_right, ResultSize(p) / 2);
    });
}

TEST_P(PatternOf, PutsInWhatTheTypeHasExactly)
{
    ForEach([](const stp_pattern &p) {
        for (uint64_t i = 0; i < kBlock && p.type >= STP_TYPE_F16; i++) {
            const double x = stp_pattern_float_input(&p, 0, i);
            EXPECT_EQ(x,
                      stp_pattern_decode(p.type, stp_pattern_input(&p, 0, i)));
        }
    });
}

const Shape kShapes[] = {
    {ncclFuncAllReduce, 1},     {ncclFuncAllReduce, 2},
    {ncclFuncAllReduce, 3},     {ncclFuncAllReduce, 8},
    {ncclFuncReduce, 3},        {ncclFuncReduceScatter, 4},
    {ncclFuncReduceScatter, 3}, {ncclFuncAllGather, 3},
    {ncclFuncBroadcast, 3},
};

INSTANTIATE_TEST_SUITE_P(Shapes, PatternOf, testing::ValuesIn(kShapes),
                         [](const auto &c) {
                             return "coll" + std::to_string(c.param.coll) +
                                    "_of_" + std::to_string(c.param.ranks);
                         });

/* ---- data that show the order of a sum ---- */

// To the nearest number of a type, ties to even.
double Round(int type, double x)
{
    int exponent;
    if (x == 0)
        return x;
    frexp(x, &exponent);
    const int last = exponent - 1 - stp_pattern_format(type).mantissa;
    return ldexp(nearbyint(ldexp(x, -last)), last);
}

// Ranks, in the order in which they are added: "((0+2)+1)".
struct Tree {
    unsigned rank = 0;
    std::vector<Tree> parts; // none, or two

    // Equal for trees that compute the same: a+b is b+a.
    std::string Name() const
    {
        if (parts.empty())
            return std::to_string(rank);
        const std::string a = parts[0].Name();
        const std::string b = parts[1].Name();
        return "(" + std::min(a, b) + "+" + std::max(a, b) + ")";
    }
    double Sum(const stp_pattern &p, uint64_t i) const
    {
        return parts.empty()
                   ? stp_pattern_decode(p.type, stp_pattern_input(&p, rank, i))
                   : Round(p.type, parts[0].Sum(p, i) + parts[1].Sum(p, i));
    }
};

Tree RandomTree(unsigned ranks, std::mt19937_64 *random)
{
    std::vector<Tree> trees(ranks);
    for (unsigned r = 0; r < ranks; r++)
        trees[r].rank = r;
    while (trees.size() > 1) {
        Tree sum;
        for (int k = 0; k < 2; k++) {
            const auto at = trees.begin() + (*random)() % trees.size();
            sum.parts.push_back(*at);
            trees.erase(at);
        }
        trees.push_back(sum);
    }
    return trees[0];
}

stp_pattern Rounding(int type, int op, unsigned ranks)
{
    return {ncclFuncAllReduce, type, op, 0, ranks, 4096, 9, 0, true};
}

// The bits of one element under all seeds in a row.
std::vector<uint64_t> Bits(stp_pattern p, const Tree &tree, uint64_t i)
{
    std::vector<uint64_t> all;
    for (unsigned k = 0; k < stp_pattern_n_seeds(p.ranks); k++, p.seed++) {
        stp_found found{};
        stp_pattern_examine(&p, 0, i,
                            stp_pattern_encode(p.type, tree.Sum(p, i)), &found);
        EXPECT_EQ(0u, found.n_wrong) << "every order is right";
        all.push_back(found.bits);
    }
    return all;
}

TEST(Pattern, TellsEveryOrderOfASumFromEveryOtherByASingleElement)
{
    std::mt19937_64 random(1);

    for (int type = STP_TYPE_F16; type < STP_N_TYPES; type++)
        for (unsigned ranks : {2u, 3u, 4u, 5u, 7u, 8u}) {
            const stp_pattern p = Rounding(type, STP_OP_SUM, ranks);
            std::map<std::string, std::vector<uint64_t>> by_tree;
            std::map<std::vector<uint64_t>, std::string> by_bits;
            for (int k = 0; k < 60; k++) {
                const Tree tree = RandomTree(ranks, &random);
                const std::vector<uint64_t> bits = Bits(p, tree, 17);
                EXPECT_EQ(bits,
                          by_tree.insert({tree.Name(), bits}).first->second);
                EXPECT_EQ(tree.Name(),
                          by_bits.insert({bits, tree.Name()}).first->second)
                    << stp_type_name(type) << " of " << ranks;
            }
        }
}

TEST(Pattern, ShowsOtherOperationsByAllElementsTogether)
{
    const stp_pattern p = Rounding(STP_TYPE_F32, STP_OP_PROD, 4);
    stp_found found[2]{};

    for (uint64_t i = 0; i < 64; i++)
        for (unsigned last : {0u, 3u}) {
            float product = 1;
            for (unsigned r = 0; r < 4; r++)
                if (r != last)
                    product *= static_cast<float>(stp_pattern_decode(
                        p.type, stp_pattern_input(&p, r, i)));
            product *= static_cast<float>(
                stp_pattern_decode(p.type, stp_pattern_input(&p, last, i)));
            stp_pattern_examine(&p, 0, i, stp_pattern_encode(p.type, product),
                                &found[last / 3]);
        }
    EXPECT_EQ(0u, found[0].n_wrong + found[1].n_wrong);
    EXPECT_NE(found[0].bits, found[1].bits);
}

TEST(Pattern, HashesBitsInTheirPlaces)
{
    const stp_pattern p = Rounding(STP_TYPE_I32, STP_OP_SUM, 2);
    const uint64_t values[] = {1, 2};
    stp_found all[3]{};

    for (uint64_t i = 0; i < 2; i++) {
        stp_pattern_examine(&p, 0, i, values[i], &all[0]);
        stp_pattern_examine(&p, 0, 1 - i, values[1 - i], &all[1]);
        stp_pattern_examine(&p, 0, i, values[1 - i], &all[2]);
    }

    EXPECT_EQ(all[0].bits, all[1].bits) << "whatever is counted first";
    EXPECT_NE(all[0].bits, all[2].bits);
}

TEST(Pattern, RoundsOnlyWhereThereIsAnOrder)
{
    for (int type = 0; type < STP_N_TYPES; type++)
        for (int op = 0; op < STP_N_OPS; op++) {
            const stp_pattern p = Rounding(type, op, 8);
            stp_pattern exact = p;
            bool is_other = false;
            exact.rounds = false;
            for (uint64_t i = 0; i < 100; i++)
                is_other |= stp_pattern_input(&p, 3, i) !=
                            stp_pattern_input(&exact, 3, i);
            EXPECT_EQ(!stp_type_is_integer(type) && op != STP_OP_MIN &&
                          op != STP_OP_MAX,
                      is_other);
        }
}

TEST(Pattern, ToleratesRoundingButNoMore)
{
    stp_pattern p{};
    p.coll = ncclFuncAllReduce;
    p.type = STP_TYPE_F16;
    p.op = STP_OP_AVG;
    p.ranks = 3;
    p.block = 100;
    const double tolerance = stp_pattern_tolerance(&p);

    ASSERT_GT(tolerance, 0);
    EXPECT_LT(tolerance, stp_pattern_limit(&p) / 100);
    for (uint64_t i = 0; i < 100; i++) {
        const double exact = stp_pattern_reduce_floats(&p, i);
        for (double off : {-2 * tolerance, 2 * tolerance})
            EXPECT_FALSE(stp_pattern_right(
                &p, 0, i, stp_pattern_encode(p.type, exact + off)));
    }
}

} // namespace
