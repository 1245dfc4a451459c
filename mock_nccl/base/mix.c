#include "base/mix.h"

uint64_t mock_mix(uint64_t z)
{
    z += MOCK_GOLDEN;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}
