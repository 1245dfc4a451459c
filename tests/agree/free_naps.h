// Naps that take no time: nanosleep() and clock_gettime() of a program that is
// linked with LINKER:--wrap=nanosleep,--wrap=clock_gettime; for one source of
// it.
#ifndef STP_TESTS_FREE_NAPS_H
#define STP_TESTS_FREE_NAPS_H

#include <cstdint>
#include <ctime>
#include <vector>

namespace free_naps
{

// While there is one, naps of this thread only move its clock.
struct FreeNaps {
    FreeNaps();
    FreeNaps(const FreeNaps &) = delete;
    FreeNaps &operator=(const FreeNaps &) = delete;
    ~FreeNaps();

    std::vector<int64_t> ms; // of each nap
};

inline thread_local FreeNaps *current;
inline thread_local int64_t ahead_ns; // of the clock of others

inline FreeNaps::FreeNaps()
{
    current = this;
}

inline FreeNaps::~FreeNaps()
{
    current = nullptr;
}

} // namespace free_naps

extern "C" {
int __real_nanosleep(const struct timespec *nap, struct timespec *left);
int __real_clock_gettime(clockid_t clock, struct timespec *now);

int __wrap_nanosleep(const struct timespec *nap, struct timespec *left)
{
    free_naps::FreeNaps *naps = free_naps::current;

    if (naps == nullptr)
        return __real_nanosleep(nap, left);
    naps->ms.push_back(nap->tv_nsec / 1000000);
    free_naps::ahead_ns += nap->tv_nsec;
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *now)
{
    const int status = __real_clock_gettime(clock, now);
    const int64_t ns = now->tv_nsec + free_naps::ahead_ns;

    now->tv_sec += ns / 1000000000;
    now->tv_nsec = ns % 1000000000;
    return status;
}
}

#endif // STP_TESTS_FREE_NAPS_H
