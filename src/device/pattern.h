/* pattern.h - data to check collectives with: the input and the expected output
 *
 * Every element of every rank's input is a function of the seed, so what must
 * come out is known anywhere without moving a byte.  Inputs of floating-point
 * reductions are small integers, and powers of two for products: their results
 * are exact in every order of operations, and compared so.  Where they cannot
 * be (averages over ranks that are no power of two, sums over more ranks than
 * the type counts), the tolerance is what rounding at each step can amount to.
 * Integers are random in all bits, as NCCL's arithmetic wraps around.
 *
 * Where the data are to show the order of a sum, no element is exact.  One in a
 * few is random in all bits of its mantissa.  In the others a pair of ranks
 * gives a large number and its negative, and the rest a number so small that
 * adding it to the large one changes nothing: what comes out is the number of
 * ranks that were added outside of the smallest part of the sum that has both.
 * These numbers, of all pairs, determine the order of a sum (Xie et al., FPRev:
 * Revealing the Order of Floating-Point Accumulation, 2025).  With each seed an
 * element is another pair's, so that stp_pattern_n_seeds() seeds in a row show
 * the order of every element.
 *
 * For C and, inline, for CUDA: the same lines run on both. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/dtype.h"
#include "nccl_tuner_abi.h"

#ifdef __CUDACC__
#define STP_PATTERN static inline __host__ __device__
#else
#define STP_PATTERN static inline
#endif

/* A collective, and the data it runs on. */
struct stp_pattern {
    int coll;       /* ncclFunc_t */
    int type;       /* enum stp_type */
    int op;         /* enum stp_op */
    unsigned root;  /* rank */
    unsigned ranks; /* >= 1 */
    uint64_t block; /* elements that a rank sends in an allgather, gets in a
                       reducescatter; of the buffer otherwise */
    uint64_t seed;
    unsigned rank; /* whose data a device fills in and counts */
    bool rounds;   /* sums and products show their order */
};

/* The findings in a result.  Begin with 0. */
struct stp_found {
    uint64_t n_wrong; /* elements */
    uint64_t bits;    /* a hash of the bits of every element in its place: a
                         sum, in whatever order they are counted */
};

/* Bits of a floating-point type. */
struct stp_pattern_float {
    int exponent;
    int mantissa; /* without the leading one */
};

STP_PATTERN struct stp_pattern_float stp_pattern_format(int type)
{
    struct stp_pattern_float f = {8, 23};

    if (type == STP_TYPE_F16)
        f.exponent = 5, f.mantissa = 10;
    else if (type == STP_TYPE_F64)
        f.exponent = 11, f.mantissa = 52;
    else if (type == STP_TYPE_BF16)
        f.mantissa = 7;
    else if (type == STP_TYPE_FP8_E4M3)
        f.exponent = 4, f.mantissa = 3;
    else if (type == STP_TYPE_FP8_E5M2)
        f.exponent = 5, f.mantissa = 2;
    return f;
}

STP_PATTERN bool stp_pattern_is_integer(int type)
{
    return type <= STP_TYPE_U64;
}

STP_PATTERN int stp_pattern_bits(int type)
{
    struct stp_pattern_float f = stp_pattern_format(type);

    if (!stp_pattern_is_integer(type))
        return 1 + f.exponent + f.mantissa;
    return type <= STP_TYPE_U8 ? 8 : type <= STP_TYPE_U32 ? 32 : 64;
}

STP_PATTERN bool stp_pattern_is_signed(int type)
{
    return type == STP_TYPE_I8 || type == STP_TYPE_I32 || type == STP_TYPE_I64;
}

/* Sebastiano Vigna's splitmix64, one step from a counter. */
STP_PATTERN uint64_t stp_pattern_mix(uint64_t seed, uint64_t counter)
{
    uint64_t z = seed + counter * 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

STP_PATTERN uint64_t stp_pattern_random(const struct stp_pattern *p,
                                        unsigned rank, uint64_t i)
{
    return stp_pattern_mix(p->seed, i * 65536 + rank + 1);
}

/* ---- numbers and their bits ---- */

/* Encodes a value that the type can hold exactly. */
STP_PATTERN uint64_t stp_pattern_encode(int type, double value)
{
    struct stp_pattern_float f = stp_pattern_format(type);
    uint64_t bits, sign, mantissa;
    int exponent;

    memcpy(&bits, &value, sizeof(bits));
    if (type == STP_TYPE_F64 || value == 0)
        return type == STP_TYPE_F64 ? bits : 0;
    sign = bits >> 63 << (f.exponent + f.mantissa);
    mantissa = (bits & 0xfffffffffffffu) >> (52 - f.mantissa);
    exponent = (int)(bits >> 52 & 0x7ff) - 1023 + (1 << (f.exponent - 1)) - 1;
    if (exponent > 0)
        return sign | (uint64_t)exponent << f.mantissa | mantissa;
    return sign |
           (mantissa | (uint64_t)1 << f.mantissa) >> (1 - exponent); /* tiny */
}

/* NaN for infinities, too. */
STP_PATTERN double stp_pattern_decode(int type, uint64_t bits)
{
    struct stp_pattern_float f = stp_pattern_format(type);
    uint64_t mantissa = bits & (((uint64_t)1 << f.mantissa) - 1);
    int top = (1 << f.exponent) - 1;
    int exponent = (int)(bits >> f.mantissa) & top;
    int bias = top >> 1;
    double value;

    if (exponent == top && (type != STP_TYPE_FP8_E4M3 || mantissa == 7))
        return NAN;
    if (exponent == 0)
        value = ldexp((double)mantissa, 1 - bias - f.mantissa);
    else
        value = ldexp((double)(mantissa | (uint64_t)1 << f.mantissa),
                      exponent - bias - f.mantissa);
    return bits >> (f.exponent + f.mantissa) & 1 ? -value : value;
}

/* ---- inputs ---- */

/* Returns the number up to which every integer is exact in the type. */
STP_PATTERN double stp_pattern_exact(int type)
{
    return (double)((uint64_t)1 << (stp_pattern_format(type).mantissa + 1));
}

/* The largest input to a floating-point sum or average. */
STP_PATTERN double stp_pattern_limit(const struct stp_pattern *p)
{
    double limit = floor(stp_pattern_exact(p->type) / p->ranks);

    return limit < 1 ? 1 : limit > 1048576 ? 1048576 : limit;
}

STP_PATTERN bool stp_pattern_sums(const struct stp_pattern *p)
{
    return p->coll != ncclFuncBroadcast && p->coll != ncclFuncAllGather &&
           (p->op == STP_OP_SUM || p->op == STP_OP_AVG);
}

STP_PATTERN bool stp_pattern_multiplies(const struct stp_pattern *p)
{
    return p->coll != ncclFuncBroadcast && p->coll != ncclFuncAllGather &&
           p->op == STP_OP_PROD;
}

/* Whether the data show the order of operations. */
STP_PATTERN bool stp_pattern_rounds(const struct stp_pattern *p)
{
    return p->rounds && !stp_pattern_is_integer(p->type) &&
           (stp_pattern_sums(p) || stp_pattern_multiplies(p));
}

/* Returns how many seeds show the order of a sum of so many ranks.  Two numbers
 * have no order. */
STP_PATTERN unsigned stp_pattern_n_seeds(unsigned ranks)
{
    return ranks > 2 ? 1 + ranks * (ranks - 1) / 2 : 1;
}

/* The input of data that round. */
STP_PATTERN double stp_pattern_rounding_input(const struct stp_pattern *p,
                                              unsigned rank, uint64_t i)
{
    const uint64_t random = stp_pattern_random(p, rank, i);
    const int mantissa = stp_pattern_format(p->type).mantissa;
    const unsigned n = stp_pattern_n_seeds(p->ranks);
    const unsigned pair =
        (unsigned)((stp_pattern_mix(0, i) % n + p->seed % n) % n);
    unsigned first, second;
    double large = 4;

    if (pair == 0 || stp_pattern_multiplies(p)) {
        const uint64_t bits = (random >> 8) & (((uint64_t)1 << mantissa) - 1);
        const double value =
            ldexp((double)(bits | (uint64_t)1 << mantissa),
                  -mantissa - (int)(random & (stp_pattern_sums(p) ? 3 : 1)));

        return random >> 63 ? -value : value;
    }
    first = (pair - 1) % p->ranks;
    second = (first + 1 + (pair - 1) / p->ranks) % p->ranks;
    if (rank != first && rank != second)
        return ldexp(1.0, -mantissa);
    /* Half a unit in its last place is more than all small numbers, as far as
     * types of eight bits go. */
    for (unsigned all = 1; all < p->ranks && all < 64; all *= 2)
        large *= 2;
    return rank == first ? large : -large;
}

/* Powers of two, and factors that round, only where few enough ranks have one
 * to stay in range. */
STP_PATTERN double stp_pattern_float_input(const struct stp_pattern *p,
                                           unsigned rank, uint64_t i)
{
    uint64_t random = stp_pattern_random(p, rank, i);
    double limit;

    if (stp_pattern_rounds(p) && (stp_pattern_sums(p) || rank < 6))
        return stp_pattern_rounding_input(p, rank, i);
    if (stp_pattern_multiplies(p)) {
        double power = 1;

        if (rank < 6)
            power = random % 3 == 0 ? 0.5 : random % 3 == 1 ? 1 : 2;
        return random >> 63 ? -power : power;
    }
    limit = stp_pattern_sums(p) ? stp_pattern_limit(p)
                                : fmin(stp_pattern_exact(p->type), 1048576.0);
    return (double)((random >> 8) % (2 * (uint64_t)limit + 1)) - limit;
}

STP_PATTERN uint64_t stp_pattern_cut(int type, uint64_t bits)
{
    int n = stp_pattern_bits(type);

    return n == 64 ? bits : bits & (((uint64_t)1 << n) - 1);
}

/* An average's sum must not wrap around: NCCL divides it. */
STP_PATTERN uint64_t stp_pattern_integer_input(const struct stp_pattern *p,
                                               unsigned rank, uint64_t i)
{
    uint64_t random = stp_pattern_random(p, rank, i);
    uint64_t most = stp_pattern_cut(p->type, UINT64_MAX);

    if (stp_pattern_sums(p) && p->op == STP_OP_AVG)
        return random % ((most >> 1) / p->ranks + 1);
    return stp_pattern_cut(p->type, random);
}

/* The bits of element 'i' of the input of 'rank'. */
STP_PATTERN uint64_t stp_pattern_input(const struct stp_pattern *p,
                                       unsigned rank, uint64_t i)
{
    if (stp_pattern_is_integer(p->type))
        return stp_pattern_integer_input(p, rank, i);
    return stp_pattern_encode(p->type, stp_pattern_float_input(p, rank, i));
}

/* ---- results ---- */

STP_PATTERN double stp_pattern_reduce_floats(const struct stp_pattern *p,
                                             uint64_t i)
{
    double result = stp_pattern_float_input(p, 0, i);

    for (unsigned r = 1; r < p->ranks; r++) {
        double x = stp_pattern_float_input(p, r, i);

        result = p->op == STP_OP_PROD  ? result * x
                 : p->op == STP_OP_MIN ? fmin(result, x)
                 : p->op == STP_OP_MAX ? fmax(result, x)
                                       : result + x;
    }
    return p->op == STP_OP_AVG ? result / p->ranks : result;
}

STP_PATTERN bool stp_pattern_less(int type, uint64_t a, uint64_t b)
{
    uint64_t sign = stp_pattern_is_signed(type)
                        ? (uint64_t)1 << (stp_pattern_bits(type) - 1)
                        : 0;

    return (a ^ sign) < (b ^ sign);
}

STP_PATTERN uint64_t stp_pattern_reduce_integers(const struct stp_pattern *p,
                                                 uint64_t i)
{
    uint64_t result = stp_pattern_integer_input(p, 0, i);

    for (unsigned r = 1; r < p->ranks; r++) {
        uint64_t x = stp_pattern_integer_input(p, r, i);
        bool is_less = stp_pattern_less(p->type, x, result);

        result = p->op == STP_OP_PROD  ? result * x
                 : p->op == STP_OP_MIN ? (is_less ? x : result)
                 : p->op == STP_OP_MAX ? (is_less ? result : x)
                                       : result + x;
    }
    if (p->op == STP_OP_AVG)
        result /= p->ranks;
    return stp_pattern_cut(p->type, result);
}

/* How far a floating-point result of exact data may be off. */
STP_PATTERN double stp_pattern_tolerance(const struct stp_pattern *p)
{
    double limit = stp_pattern_limit(p);
    double unit = 1 / stp_pattern_exact(p->type);

    if (!stp_pattern_sums(p))
        return 0;
    if (p->op == STP_OP_SUM)
        return p->ranks * limit <= stp_pattern_exact(p->type)
                   ? 0
                   : p->ranks * unit * p->ranks * limit;
    return (p->ranks & (p->ranks - 1)) == 0 &&
                   p->ranks * limit <= stp_pattern_exact(p->type)
               ? 0
               : (p->ranks + 2) * unit * limit;
}

/* How far element 'i' of a result may be off, as its inputs have it: for data
 * that round twice the bound of any order of operations, exp((n + 1) u) - 1
 * times the sum, or product, of absolute values (Higham, Accuracy and Stability
 * of Numerical Algorithms, 4.2), and n of the smallest numbers for underflow.
 */
STP_PATTERN double stp_pattern_slack(const struct stp_pattern *p, uint64_t i)
{
    double size = stp_pattern_multiplies(p) ? 1 : 0;

    if (!stp_pattern_rounds(p))
        return stp_pattern_tolerance(p);
    for (unsigned r = 0; r < p->ranks; r++) {
        double x = fabs(stp_pattern_float_input(p, r, i));

        size = stp_pattern_multiplies(p) ? size * x : size + x;
    }
    if (p->op == STP_OP_AVG)
        size /= p->ranks;
    return 2 * size * expm1((p->ranks + 1) / stp_pattern_exact(p->type)) +
           p->ranks * stp_pattern_decode(p->type, 1);
}

/* Whether 'bits' is right as element 'i' of the output of 'rank'. */
STP_PATTERN bool stp_pattern_right(const struct stp_pattern *p, unsigned rank,
                                   uint64_t i, uint64_t bits)
{
    double got;

    if (p->coll == ncclFuncBroadcast)
        return bits == stp_pattern_input(p, p->root, i);
    if (p->coll == ncclFuncAllGather)
        return bits ==
               stp_pattern_input(p, (unsigned)(i / p->block), i % p->block);
    if (p->coll == ncclFuncReduceScatter)
        i += rank * p->block;
    if (stp_pattern_is_integer(p->type))
        return bits == stp_pattern_reduce_integers(p, i);
    got = stp_pattern_decode(p->type, bits);
    return fabs(got - stp_pattern_reduce_floats(p, i)) <=
           stp_pattern_slack(p, i);
}

/* Adds element 'i' of the output of 'rank' to what was found. */
STP_PATTERN void stp_pattern_examine(const struct stp_pattern *p, unsigned rank,
                                     uint64_t i, uint64_t bits,
                                     struct stp_found *found)
{
    found->n_wrong += !stp_pattern_right(p, rank, i, bits);
    found->bits += stp_pattern_mix(bits, stp_pattern_mix(0, i + 1));
}

/* The poison that fills the output: wrong everywhere. */
STP_PATTERN uint64_t stp_pattern_poison(const struct stp_pattern *p,
                                        unsigned rank, uint64_t i)
{
    if (!stp_pattern_is_integer(p->type))
        return stp_pattern_cut(p->type, UINT64_MAX); /* NaN in all of them */
    if (p->coll == ncclFuncBroadcast)
        return stp_pattern_cut(p->type, ~stp_pattern_input(p, p->root, i));
    if (p->coll == ncclFuncAllGather)
        return stp_pattern_cut(
            p->type,
            ~stp_pattern_input(p, (unsigned)(i / p->block), i % p->block));
    if (p->coll == ncclFuncReduceScatter)
        i += rank * p->block;
    return stp_pattern_cut(p->type, ~stp_pattern_reduce_integers(p, i));
}

/* Elements of what a rank gives and of what it gets, for a collective of
 * 'n_bytes' as a tuner counts them; sets p->block. */
STP_PATTERN void stp_pattern_sizes(struct stp_pattern *p, uint64_t n_bytes,
                                   uint64_t *n_send_ret, uint64_t *n_recv_ret)
{
    uint64_t n = n_bytes / ((unsigned)stp_pattern_bits(p->type) / 8);

    p->block = n;
    *n_send_ret = n;
    *n_recv_ret = n;
    if (p->coll == ncclFuncAllGather)
        p->block = *n_send_ret = n / p->ranks;
    if (p->coll == ncclFuncReduceScatter)
        p->block = *n_recv_ret = n / p->ranks;
}
