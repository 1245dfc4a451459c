// Noise that is the same each time.
#pragma once

#include <cmath>
#include <cstdint>

extern "C" {
#include "core/rng.h"
}

// About normal, of mean 0 and deviation 1: the i-th.
inline double Noise(uint64_t seed, uint64_t i)
{
    double sum = -2;

    for (unsigned k = 0; k < 4; k++)
        sum += stp_rng_unit(seed, 4 * i + k);
    return sum * std::sqrt(3);
}
