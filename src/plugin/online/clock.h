/* clock.h - the host's clock, the same in all processes of a host */
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t stp_now_ns(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}
