// Fails a test if a thread unlocks what it has not locked; for one source of a
// program that is linked with
// --wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock.
#ifndef STP_TESTS_CHECKED_LOCKS_H
#define STP_TESTS_CHECKED_LOCKS_H

#include <gtest/gtest.h>
#include <pthread.h>

#include <set>

namespace checked_locks
{

inline thread_local std::set<const pthread_mutex_t *> locked;

} // namespace checked_locks

extern "C" {
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    const int error = __real_pthread_mutex_lock(mutex);

    checked_locks::locked.insert(mutex);
    return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    const bool was_locked = checked_locks::locked.erase(mutex) == 1;
    const int error = __real_pthread_mutex_unlock(mutex);

    EXPECT_TRUE(was_locked) << "a thread unlocks what it has not locked";
    return error;
}
}

#endif // STP_TESTS_CHECKED_LOCKS_H
