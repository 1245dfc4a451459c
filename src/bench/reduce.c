#include "bench/reduce.h"

#include <stdint.h>
#include <string.h>

/* Iterations do not depend on each other, even where 'out' is an input. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

/* ---- sixteen bits ---- */

static float float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static uint32_t bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static float float_of_bf16(uint16_t half)
{
    return float_of_bits((uint32_t)half << 16);
}

static uint16_t bf16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The exponent is rebiased by a multiplication, which also normalises what is
 * tiny in f16. */
static float float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t bits = bits_of_float(float_of_bits(rest) * 0x1p112f);

    if (rest >= 0x7c00u << 13) /* infinities and NaN */
        bits = rest | 0x7f800000;
    return float_of_bits(sign | bits);
}

static uint16_t f16_of_float(float value)
{
    uint32_t bits = bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= bits_of_float(65520)) /* rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (rest < bits_of_float(0x1p-14f)) /* the addition rounds to a tiny one */
        return (uint16_t)(sign |
                          (bits_of_float(float_of_bits(rest) + 0.5f) & 0xffff));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - (112u << 23)) >> 13);
}

/* ---- one function a type and operation ---- */

#define SAME(x)    (x)
#define SUM(x, y)  ((x) + (y))
#define PROD(x, y) ((x) * (y))
#define MAX(x, y)  ((x) > (y) ? (x) : (y))
#define MIN(x, y)  ((x) < (y) ? (x) : (y))

/* NAME on elements of 'type', computed in 'wide'. */
#define REDUCE(name, type, wide, widen, narrow, op)                            \
    static void name(void *out, const void *a, const void *b, size_t n)        \
    {                                                                          \
        type *o = out;                                                         \
        const type *x = a;                                                     \
        const type *y = b;                                                     \
                                                                               \
        INDEPENDENT                                                            \
        for (size_t i = 0; i < n; i++) {                                       \
            wide p = widen(x[i]);                                              \
            wide q = widen(y[i]);                                              \
                                                                               \
            o[i] = (type)narrow(op(p, q));                                     \
        }                                                                      \
    }

/* Unsigned arithmetic is that of signed types that wrap around. */
#define ARITHMETIC(name, type, wide, widen, narrow)                            \
    REDUCE(name##_sum, type, wide, widen, narrow, SUM)                         \
    REDUCE(name##_prod, type, wide, widen, narrow, PROD)
#define ORDER(name, type, wide, widen, narrow)                                 \
    REDUCE(name##_max, type, wide, widen, narrow, MAX)                         \
    REDUCE(name##_min, type, wide, widen, narrow, MIN)

ARITHMETIC(u8, uint8_t, uint32_t, SAME, SAME)
ARITHMETIC(u32, uint32_t, uint32_t, SAME, SAME)
ARITHMETIC(u64, uint64_t, uint64_t, SAME, SAME)
ARITHMETIC(f16, uint16_t, float, float_of_f16, f16_of_float)
ARITHMETIC(bf16, uint16_t, float, float_of_bf16, bf16_of_float)
ARITHMETIC(f32, float, float, SAME, SAME)
ARITHMETIC(f64, double, double, SAME, SAME)
ORDER(i8, int8_t, int8_t, SAME, SAME)
ORDER(u8, uint8_t, uint8_t, SAME, SAME)
ORDER(i32, int32_t, int32_t, SAME, SAME)
ORDER(u32, uint32_t, uint32_t, SAME, SAME)
ORDER(i64, int64_t, int64_t, SAME, SAME)
ORDER(u64, uint64_t, uint64_t, SAME, SAME)
ORDER(f16, uint16_t, float, float_of_f16, f16_of_float)
ORDER(bf16, uint16_t, float, float_of_bf16, bf16_of_float)
ORDER(f32, float, float, SAME, SAME)
ORDER(f64, double, double, SAME, SAME)

static const stp_reduce functions[STP_N_TYPES][STP_OP_AVG] = {
    [STP_TYPE_I8] = {u8_sum, u8_prod, i8_max, i8_min},
    [STP_TYPE_U8] = {u8_sum, u8_prod, u8_max, u8_min},
    [STP_TYPE_I32] = {u32_sum, u32_prod, i32_max, i32_min},
    [STP_TYPE_U32] = {u32_sum, u32_prod, u32_max, u32_min},
    [STP_TYPE_I64] = {u64_sum, u64_prod, i64_max, i64_min},
    [STP_TYPE_U64] = {u64_sum, u64_prod, u64_max, u64_min},
    [STP_TYPE_F16] = {f16_sum, f16_prod, f16_max, f16_min},
    [STP_TYPE_F32] = {f32_sum, f32_prod, f32_max, f32_min},
    [STP_TYPE_F64] = {f64_sum, f64_prod, f64_max, f64_min},
    [STP_TYPE_BF16] = {bf16_sum, bf16_prod, bf16_max, bf16_min},
};

stp_reduce stp_reduce_function(int type, int op)
{
    return functions[type][op];
}

/* ---- averages ---- */

#define DIVIDE(name, type, wide, widen, narrow)                                \
    static void name##_divide(void *data, size_t n, unsigned ranks)            \
    {                                                                          \
        type *x = data;                                                        \
                                                                               \
        for (size_t i = 0; i < n; i++)                                         \
            x[i] = (type)narrow(widen(x[i]) / (wide)ranks);                    \
    }

DIVIDE(i8, int8_t, int64_t, SAME, SAME)
DIVIDE(u8, uint8_t, uint32_t, SAME, SAME)
DIVIDE(i32, int32_t, int64_t, SAME, SAME)
DIVIDE(u32, uint32_t, uint32_t, SAME, SAME)
DIVIDE(i64, int64_t, int64_t, SAME, SAME)
DIVIDE(u64, uint64_t, uint64_t, SAME, SAME)
DIVIDE(f16, uint16_t, float, float_of_f16, f16_of_float)
DIVIDE(f32, float, float, SAME, SAME)
DIVIDE(f64, double, double, SAME, SAME)
DIVIDE(bf16, uint16_t, float, float_of_bf16, bf16_of_float)

void stp_reduce_divide(int type, void *data, size_t n, unsigned ranks)
{
    static void (*const divide[STP_N_TYPES])(void *, size_t, unsigned) = {
        [STP_TYPE_I8] = i8_divide,   [STP_TYPE_U8] = u8_divide,
        [STP_TYPE_I32] = i32_divide, [STP_TYPE_U32] = u32_divide,
        [STP_TYPE_I64] = i64_divide, [STP_TYPE_U64] = u64_divide,
        [STP_TYPE_F16] = f16_divide, [STP_TYPE_F32] = f32_divide,
        [STP_TYPE_F64] = f64_divide, [STP_TYPE_BF16] = bf16_divide,
    };

    divide[type](data, n, ranks);
}
