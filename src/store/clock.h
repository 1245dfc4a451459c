/* clock.h - time limits */
#pragma once

#include <stdint.h>
#include <time.h>

/* Milliseconds since some moment in the past. */
static inline int64_t stp_now_ms(void)
{
    struct timespec now = {0, 0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
