#include "device/cpu/reduce.h"

#include <stdint.h>

#include "device/cpu/half.h"

/* Iterations do not depend on each other, even where 'out' is an input. */
#if defined(__clang__)
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#endif

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
ARITHMETIC(f16, uint16_t, float, stp_float_of_f16, stp_f16_of_float)
ARITHMETIC(bf16, uint16_t, float, stp_float_of_bf16, stp_bf16_of_float)
ARITHMETIC(f32, float, float, SAME, SAME)
ARITHMETIC(f64, double, double, SAME, SAME)
ORDER(i8, int8_t, int8_t, SAME, SAME)
ORDER(u8, uint8_t, uint8_t, SAME, SAME)
ORDER(i32, int32_t, int32_t, SAME, SAME)
ORDER(u32, uint32_t, uint32_t, SAME, SAME)
ORDER(i64, int64_t, int64_t, SAME, SAME)
ORDER(u64, uint64_t, uint64_t, SAME, SAME)
ORDER(f16, uint16_t, float, stp_float_of_f16, stp_f16_of_float)
ORDER(bf16, uint16_t, float, stp_float_of_bf16, stp_bf16_of_float)
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
DIVIDE(f16, uint16_t, float, stp_float_of_f16, stp_f16_of_float)
DIVIDE(f32, float, float, SAME, SAME)
DIVIDE(f64, double, double, SAME, SAME)
DIVIDE(bf16, uint16_t, float, stp_float_of_bf16, stp_bf16_of_float)

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
