/* clock.c - clocks that differ between ranks
 *
 * A program that links this file and exports the three functions
 * (CMakeLists.txt) replaces libc's clocks in the plugins that it loads. */
#define _GNU_SOURCE /* syscall() */
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "mock_ranks.h"

#define EXPORTED __attribute__((visibility("default")))

enum { NS_PER_US = 1000, NS_PER_S = 1000000000 };

static _Thread_local int64_t shift_ns;
static _Thread_local int64_t set_ns = -1; /* below 0: the machine's clock */

void mock_clock_shift(int64_t ns)
{
    shift_ns = ns;
}

void mock_clock_set(int64_t ns)
{
    set_ns = ns;
}

EXPORTED int clock_gettime(clockid_t clock, struct timespec *time_ret)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, time_ret);
    int64_t ns;

    /* the CPU time of this thread or process is not virtual */
    if (rc != 0 || (shift_ns == 0 && set_ns < 0) || clock < 0 ||
        clock == CLOCK_PROCESS_CPUTIME_ID || clock == CLOCK_THREAD_CPUTIME_ID)
        return rc;
    ns = set_ns;
    if (ns < 0)
        ns = (int64_t)time_ret->tv_sec * NS_PER_S + time_ret->tv_nsec;
    ns += shift_ns;
    time_ret->tv_sec = (time_t)(ns / NS_PER_S);
    time_ret->tv_nsec = (long)(ns % NS_PER_S);
    return 0;
}

EXPORTED int gettimeofday(struct timeval *restrict time_ret, void *restrict tz)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    time_ret->tv_sec = now.tv_sec;
    time_ret->tv_usec = (suseconds_t)(now.tv_nsec / NS_PER_US);
    return 0;
}

EXPORTED time_t time(time_t *time_ret)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    if (time_ret != NULL)
        *time_ret = now.tv_sec;
    return now.tv_sec;
}
