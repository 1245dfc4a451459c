#include "plugin/entry.h"

#include <stddef.h>
#include <sys/resource.h>
#include <time.h>

#include "plugin/old_glibc.h"

static sigset_t entry_signals(void)
{
    sigset_t signals;

    sigemptyset(&signals);
    sigaddset(&signals, SIGXFSZ);
    return signals;
}

static bool entry_is_pending(void)
{
    sigset_t pending;

    return sigpending(&pending) == 0 && sigismember(&pending, SIGXFSZ) == 1;
}

void stp_entry_begin(struct stp_entry *entry)
{
    /* "C" is a constant of libc: nothing is allocated, nor to be freed, and
     * each thread finds the same. */
    static locale_t found;
    locale_t point = __atomic_load_n(&found, __ATOMIC_RELAXED);
    const sigset_t signals = entry_signals();
    struct rlimit limit;

    if (point == (locale_t)0) {
        point = newlocale(LC_ALL_MASK, "C", (locale_t)0);
        __atomic_store_n(&found, point, __ATOMIC_RELAXED);
    }
    entry->is_limited =
        getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur != RLIM_INFINITY;
    entry->locale = uselocale(point);
    if (!entry->is_limited)
        return;
    pthread_sigmask(SIG_BLOCK, &signals, &entry->signals);
    entry->was_pending = entry_is_pending();
}

void stp_entry_end(const struct stp_entry *entry)
{
    const sigset_t signals = entry_signals();
    const struct timespec now = {0};

    uselocale(entry->locale);
    if (!entry->is_limited)
        return;
    if (!entry->was_pending && entry_is_pending())
        sigtimedwait(&signals, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &entry->signals, NULL);
}
