#include "base/mix.h"

#include <sys/random.h>

#include "mock_nccl.h"

uint64_t mock_mix(uint64_t z)
{
    z += MOCK_GOLDEN;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

uint64_t mock_new_comm_id(void)
{
    uint64_t id = 0;

    /* getrandom() fails only before the kernel's generator is ready. */
    if (getrandom(&id, sizeof(id), 0) != (ssize_t)sizeof(id))
        id = (uint64_t)(uintptr_t)&id;
    return id | 1;
}

uint64_t mock_child_id(uint64_t parent, uint64_t n_splits, int color)
{
    uint64_t id = mock_mix(parent + n_splits);

    return mock_mix(id + (uint64_t)color);
}
