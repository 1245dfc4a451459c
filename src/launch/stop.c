#include "launch/stop.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "launch/clock.h"

/* When the first signal came; 0: none did.  Handlers may run in two threads at
 * once: libraries start some that block no signals. */
static atomic_llong first_ms;
static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "a handler may use it");

static void stop_on_signal(int number, siginfo_t *info, void *context)
{
    long long now = stp_now_ms();
    long long first = 0;

    (void)context;
    if (atomic_compare_exchange_strong(&first_ms, &first, now))
        return;
    if (info->si_code == SI_KERNEL || now - first > STP_STOP_SAME_MS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void stp_stop_begin(void)
{
    struct sigaction action = {.sa_sigaction = stop_on_signal};

    atomic_store(&first_ms, 0);
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_RESTART; /* reads and writes go on */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool stp_stop_wished(void)
{
    return atomic_load(&first_ms) != 0;
}
