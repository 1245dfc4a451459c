#include "core/rng.h"

static uint64_t rng_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t stp_rng(uint64_t seed, uint64_t counter)
{
    const uint64_t gamma = UINT64_C(0x9e3779b97f4a7c15); /* 2^64 / phi */

    return rng_mix(rng_mix(seed + gamma) + (counter + 1) * gamma);
}

double stp_rng_unit(uint64_t seed, uint64_t counter)
{
    return (double)(stp_rng(seed, counter) >> 11) * 0x1p-53;
}
