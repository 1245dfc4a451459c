/*
 * mix.h - numbers that look random and are the same everywhere
 */
#ifndef MOCK_MIX_H
#define MOCK_MIX_H

#include <stdint.h>

#define MOCK_GOLDEN                                                            \
    UINT64_C(0x9e3779b97f4a7c15) /* 2^64 over the golden ratio */

/* A well-spread hash of a number: splitmix64, by Steele, Lea and Flood, 2014.
 * Of steps of MOCK_GOLDEN it makes a random sequence. */
static inline uint64_t mock_mix(uint64_t z)
{
    z += MOCK_GOLDEN;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

#endif /* MOCK_MIX_H */
