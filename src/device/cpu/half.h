/* half.h - floating point of sixteen bits, on CPUs
 *
 * Rounded to nearest, ties to even; infinities and NaN stay the same.
 * Without branches where that matters: loops of them become vectors. */
#pragma once

#include <stdint.h>
#include <string.h>

static inline float stp_float_of_bits(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

static inline uint32_t stp_bits_of_float(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

static inline float stp_float_of_bf16(uint16_t half)
{
    return stp_float_of_bits((uint32_t)half << 16);
}

static inline uint16_t stp_bf16_of_float(float value)
{
    uint32_t bits = stp_bits_of_float(value);

    if ((bits & 0x7fffffff) > 0x7f800000)
        return (uint16_t)(bits >> 16 | 0x40); /* NaN stays NaN */
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* The exponent is rebiased by a multiplication, which also normalises what is
 * tiny in f16. */
static inline float stp_float_of_f16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t rest = (uint32_t)(half & 0x7fff) << 13;
    uint32_t bits = stp_bits_of_float(stp_float_of_bits(rest) * 0x1p112f);

    if (rest >= 0x7c00u << 13) /* infinities and NaN */
        bits = rest | 0x7f800000;
    return stp_float_of_bits(sign | bits);
}

static inline uint16_t stp_f16_of_float(float value)
{
    uint32_t bits = stp_bits_of_float(value);
    uint32_t sign = bits >> 16 & 0x8000;
    uint32_t rest = bits & 0x7fffffff;

    if (rest > 0x7f800000)
        return (uint16_t)(sign | 0x7e00);
    if (rest >= stp_bits_of_float(65520)) /* rounds to infinity */
        return (uint16_t)(sign | 0x7c00);
    if (rest <
        stp_bits_of_float(0x1p-14f)) /* the addition rounds to a tiny one */
        return (uint16_t)(sign |
                          (stp_bits_of_float(stp_float_of_bits(rest) + 0.5f) &
                           0xffff));
    rest += 0xfff + (rest >> 13 & 1);
    return (uint16_t)(sign | (rest - (112u << 23)) >> 13);
}
