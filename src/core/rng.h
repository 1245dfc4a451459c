/*
 * rng.h - random numbers that depend on nothing but (seed, counter), and the
 * hash that they are
 *
 * There is no state: equal seeds and counters give equal numbers, in
 * any order, on any rank.
 */
#ifndef STP_RNG_H
#define STP_RNG_H

#include <stdint.h>

/* 64 random bits: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), its 'seed'
 * hashed once more, at step 'counter'. */
uint64_t stp_rng(uint64_t seed, uint64_t counter);

/* Extends a hash by a value: stp_rng() is one-to-one in both, and each bit of
 * either changes half of the bits. */
static inline uint64_t stp_hash(uint64_t hash, uint64_t value)
{
    return stp_rng(hash, value);
}

/* Uniform in [0, 1), a multiple of 2^-53. */
double stp_rng_unit(uint64_t seed, uint64_t counter);

#endif /* STP_RNG_H */
