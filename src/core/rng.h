/* rng.h - random numbers that depend on nothing but (seed, counter), and a hash
 *
 * There is no state: equal seeds and counters give equal numbers, in
 * any order, on any rank. */
#pragma once

#include <stdint.h>

/* 64 random bits: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), its 'seed'
 * hashed once more, at step 'counter'. */
uint64_t stp_rng(uint64_t seed, uint64_t counter);

/* Extends a hash by a value: one-to-one in both, and each bit of either changes
 * about half of the bits.  Two rounds of multiply and xorshift, as SplitMix64
 * has them. */
static inline uint64_t stp_hash(uint64_t hash, uint64_t value)
{
    hash = ((hash ^ value) + UINT64_C(0x9e3779b97f4a7c15)) *
           UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 32) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 32;
}

/* Uniform in [0, 1), a multiple of 2^-53. */
double stp_rng_unit(uint64_t seed, uint64_t counter);
