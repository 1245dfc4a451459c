/* mix.h - pseudo-random numbers, the same on all machines, and commIds */
#pragma once

#include <stdint.h>

/* 2^64 over the golden ratio */
#define MOCK_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

/* A hash of a number: splitmix64, by Steele, Lea and Flood, 2014. Hashes of
 * multiples of MOCK_GOLDEN are a random sequence. */
uint64_t mock_mix(uint64_t z);

/* The commId of a child: a hash unlike those of parent and siblings. */
uint64_t mock_child_id(uint64_t parent, uint64_t n_splits, int color);
