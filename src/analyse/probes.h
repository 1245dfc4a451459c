/* probes.h - the sizes at which a tuner is asked, as nobody can ask all
 *
 * A verdict on a tuner holds for the sizes that were asked, and says how many.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* The first ones: powers of two from 1 byte to 16 GiB, with 1, 2, 4 and 8 bytes
 * less and more, and 16 random sizes.  After them: 240 more random sizes, 64
 * steps an octave, and decimal numbers of two digits, to 16 GiB too. */
enum {
    STP_N_FIRST_PROBES = 35 * 9 + 16,
    STP_N_PROBES = STP_N_FIRST_PROBES + 240 + 28 * 64 + 9 * 99,
};

/* The i-th size in bytes; 'seed' gives the random ones. */
uint64_t stp_probe(uint64_t seed, size_t i);
