#include "launch/stop.h"

#include <assert.h>
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "store/clock.h"

/* When the first signal came; 0: none did.  Handlers may run in two threads at
 * once: libraries start some that block no signals. */
static atomic_llong first_ms;
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a handler may use it");

/* Whether the running command looks at requests. */
static atomic_bool is_looked_at;

/* The temporary files, each of 'pid'; 0: none, -1: being written. */
static struct {
    atomic_int pid;
    char path[PATH_MAX];
} stop_files[STP_STOP_FILES];

void stp_stop_remove_files(void)
{
    for (int i = 0; i < STP_STOP_FILES; i++)
        if (atomic_load(&stop_files[i].pid) == getpid())
            unlink(stop_files[i].path);
}

static void stop_on_signal(int number, siginfo_t *info, void *context)
{
    const bool is_typed = info->si_code == SI_KERNEL && number != SIGHUP;
    long long now = stp_now_ms();
    long long first = 0;

    if (atomic_load(&is_looked_at)) {
        if (atomic_compare_exchange_strong(&first_ms, &first, now))
            return;
        if (!is_typed && now - first <= STP_STOP_SAME_MS)
            return;
    }
    stp_stop_remove_files();
    signal(number, SIG_DFL);
    raise(number);
}

/* If 'only_default', a signal that is ignored or caught stays so. */
static void stop_catch(int number, bool only_default)
{
    struct sigaction action = {.sa_sigaction = stop_on_signal};
    struct sigaction old;

    if (only_default && sigaction(number, NULL, &old) == 0 &&
        old.sa_handler != SIG_DFL)
        return;
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_RESTART; /* reads and writes go on */
    sigaction(number, &action, NULL);
}

void stp_stop_begin(void)
{
    atomic_store(&first_ms, 0);
    atomic_store(&is_looked_at, true);
    stop_catch(SIGINT, false);
    stop_catch(SIGTERM, false);
    stop_catch(SIGHUP, true);
}

bool stp_stop_requested(void)
{
    return atomic_load(&first_ms) != 0;
}

void stp_stop_remember_file(const char *path)
{
    if (strlen(path) >= PATH_MAX)
        return;
    for (int i = 0; i < STP_STOP_FILES; i++) {
        int none = 0;

        if (!atomic_compare_exchange_strong(&stop_files[i].pid, &none, -1))
            continue;
        memcpy(stop_files[i].path, path, strlen(path) + 1);
        atomic_store(&stop_files[i].pid, getpid());
        break;
    }
    stop_catch(SIGINT, true);
    stop_catch(SIGTERM, true);
    stop_catch(SIGHUP, true);
}

void stp_stop_forget_file(const char *path)
{
    for (int i = 0; i < STP_STOP_FILES; i++)
        if (atomic_load(&stop_files[i].pid) == getpid() &&
            strcmp(stop_files[i].path, path) == 0)
            atomic_store(&stop_files[i].pid, 0);
}
