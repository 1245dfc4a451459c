#include "analyse/probes.h"

#include <math.h>

#include "core/rng.h"

enum { N_POWERS = 35 * 9, N_STEPS = 28 * 64, N_DECIMAL = 9 * 99 };

uint64_t stp_probe(uint64_t seed, size_t i)
{
    static const int sides[] = {0, -1, 1, -2, 2, -4, 4, -8, 8};
    uint64_t size;

    if (i < N_POWERS) {
        size = UINT64_C(1) << i / 9;
        return size > 8 ? size + (uint64_t)sides[i % 9] : i % 9 + 1;
    }
    i -= N_POWERS;
    if (i < STP_N_PROBES - N_POWERS - N_STEPS - N_DECIMAL)
        return (uint64_t)exp2(34 * stp_rng_unit(seed, i));
    i -= STP_N_PROBES - N_POWERS - N_STEPS - N_DECIMAL;
    if (i < N_STEPS)
        return (64 + i % 64) << i / 64;
    i -= N_STEPS;
    size = 1 + i % 99;
    for (i /= 99; i > 0; i--)
        size *= 10;
    return size;
}
