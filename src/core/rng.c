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

void stp_rng_shuffle(uint64_t seed, size_t *items, size_t n)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)(stp_rng_unit(seed, i) * (double)i);
        size_t item = items[i - 1];

        items[i - 1] = items[j];
        items[j] = item;
    }
}
