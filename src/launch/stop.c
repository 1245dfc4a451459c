/*
 * stop.c - the wish to stop, by SIGINT or SIGTERM
 */
#include "launch/stop.h"

#include <assert.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

enum { WISHED = 1, OURS = 2 }; /* OURS: not only passed on */

/* Handlers may run in two threads at once: libraries start some that block no
 * signals. */
static atomic_uint wishes;
static_assert(ATOMIC_INT_LOCK_FREE == 2, "a handler may use it");

static void on_signal(int number, siginfo_t *info, void *context)
{
    bool passed_on = info->si_code == SI_QUEUE;
    unsigned before =
        atomic_fetch_or(&wishes, passed_on ? WISHED : WISHED | OURS);

    (void)context;
    if (passed_on ? info->si_value.sival_int > 1 : (before & OURS) != 0) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

void stp_stop_begin(void)
{
    struct sigaction action = {.sa_sigaction = on_signal};

    atomic_store(&wishes, 0);
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_SIGINFO | SA_RESTART; /* reads and writes go on */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool stp_stop_wished(void)
{
    return atomic_load(&wishes) != 0;
}

void stp_stop_pass_on(pid_t process, int number, unsigned nth)
{
    union sigval value = {.sival_int = (int)nth};

    if (sigqueue(process, number, value) != 0)
        kill(process, number); /* no room in its queue */
}
