// Sleeps that take no time: nanosleep() and clock_gettime() of a program that
// is linked with LINKER:--wrap=nanosleep,--wrap=clock_gettime; for one source
// of it.
#pragma once

#include <cstdint>
#include <ctime>
#include <vector>

namespace instant_sleeps
{

// While there is one, sleeps of this thread only move its clock.
struct InstantSleeps {
    InstantSleeps();
    InstantSleeps(const InstantSleeps &) = delete;
    InstantSleeps &operator=(const InstantSleeps &) = delete;
    ~InstantSleeps();

    std::vector<int64_t> ms; // of each sleep
};

inline thread_local InstantSleeps *current;
inline thread_local int64_t ahead_ns; // of the clock of others

inline InstantSleeps::InstantSleeps()
{
    current = this;
}

inline InstantSleeps::~InstantSleeps()
{
    current = nullptr;
}

} // namespace instant_sleeps

extern "C" {
int __real_nanosleep(const struct timespec *sleep, struct timespec *left);
int __real_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_nanosleep(const struct timespec *sleep, struct timespec *left)
{
    instant_sleeps::InstantSleeps *sleeps = instant_sleeps::current;

    if (sleeps == nullptr)
        return __real_nanosleep(sleep, left);
    sleeps->ms.push_back(sleep->tv_nsec / 1000000);
    instant_sleeps::ahead_ns += sleep->tv_nsec;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = __real_clock_gettime(clock, now);
    const int64_t ns = now->tv_nsec + instant_sleeps::ahead_ns;

    now->tv_sec += ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return status;
}
}
