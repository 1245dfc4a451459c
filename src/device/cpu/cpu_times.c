#include "device/cpu/cpu_times.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

enum stp_status stp_cpu_times_share(const struct stp_world *world,
                                    const double *mine, size_t n_events,
                                    struct stp_cpu_times *times,
                                    struct stp_error *err)
{
    double *all = calloc(world->size * n_events, sizeof(*all));
    enum stp_status status;

    if (all == NULL)
        return stp_nomem(err);
    status = world->ops->exchange(world->self, mine, n_events * sizeof(*mine),
                                  all, err);
    if (status != STP_OK) {
        free(all);
        return status;
    }
    free(times->us);
    *times = (struct stp_cpu_times){
        .us = all, .n_events = n_events, .n_ranks = world->size};
    return STP_OK;
}

double stp_cpu_times_between(const struct stp_cpu_times *times, unsigned from,
                             unsigned to)
{
    double us = -INFINITY;

    for (unsigned r = 0; r < times->n_ranks; r++) {
        const double *rank = &times->us[r * times->n_events];

        us = fmax(us, rank[to] - rank[from]);
    }
    return us;
}

double stp_cpu_times_span(const struct stp_cpu_times *times)
{
    double us = 0;

    for (unsigned r = 0; r < times->n_ranks; r++) {
        const double *rank = &times->us[r * times->n_events];
        double first = INFINITY;
        double last = 0;

        for (size_t e = 0; e < times->n_events; e++)
            if (rank[e] > 0) { /* recorded */
                first = fmin(first, rank[e]);
                last = fmax(last, rank[e]);
            }
        us = fmax(us, last - first);
    }
    return us;
}

void stp_cpu_find_who_died(const struct stp_world *world, struct stp_error *err)
{
    const struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
    struct stp_error who;

    for (int i = 0; i < 20 && world->size > 1; i++) {
        if (!world->ops->alive(world->self, &who)) {
            if (err != NULL)
                *err = who;
            return;
        }
        nanosleep(&pause, NULL);
    }
}
