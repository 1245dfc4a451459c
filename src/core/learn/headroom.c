#include "core/learn/headroom.h"

enum { LEAST_LAUNCHES = 64 }; /* that say something */

static const int64_t at_once_ns = 100000; /* a kernel before it, or two */
static const double drift = 20e-6;        /* of the clocks, at most */

/* ---- time in collectives ---- */

/* Adds a sequence, which ends where the next begins; false if a time lacks. */
static bool headroom_add(const uint8_t *keys, const uint64_t *begin_ns,
                         const uint64_t *end_ns, size_t sequence,
                         struct stp_headroom *sum)
{
    uint64_t covered = begin_ns[0], end = begin_ns[sequence];

    if (covered == 0 || end <= covered)
        return false;
    for (size_t i = 0; i < sequence; i++)
        if (begin_ns[i] == 0 || end_ns[i] <= begin_ns[i])
            return false;
    sum->step_us += (double)(end - begin_ns[0]) / 1e3;
    for (size_t i = 0; i < sequence; i++) {
        /* the last may reach into the next sequence, as one before may here */
        const uint64_t from = begin_ns[i] > covered ? begin_ns[i] : covered;
        const uint64_t to = end_ns[i] < end ? end_ns[i] : end;

        if (keys[i] < STP_BANDIT_KEYS && to > begin_ns[i])
            sum->key_us[keys[i]] += (double)(to - begin_ns[i]) / 1e3;
        if (to <= from)
            continue;
        sum->busy_us += (double)(to - from) / 1e3;
        covered = to;
    }
    return true;
}

bool stp_headroom_measure(const uint8_t *keys, const uint64_t *begin_ns,
                          const uint64_t *end_ns, size_t n, size_t sequence,
                          struct stp_headroom *headroom_ret)
{
    struct stp_headroom sum = {0};
    unsigned n_whole = 0;

    for (size_t i = 0; i + sequence < n; i += sequence)
        n_whole +=
            headroom_add(keys + i, begin_ns + i, end_ns + i, sequence, &sum);
    if (n_whole < STP_HEADROOM_LEAST)
        return false;
    sum.step_us /= n_whole;
    sum.busy_us /= n_whole;
    for (unsigned k = 0; k < STP_BANDIT_KEYS; k++)
        sum.key_us[k] /= n_whole;
    *headroom_ret = sum;
    return true;
}

/* ---- who waits ---- */

void stp_delays_add(struct stp_delays *delays, uint64_t host_ns,
                    uint64_t begin_ns)
{
    const int64_t delay = (int64_t)(begin_ns - host_ns);

    if (delays->first_ns == 0 || delay < delays->least_ns)
        delays->least_ns = delay;
    if (delays->first_ns == 0)
        delays->first_ns = host_ns;
    delays->n++;
    delays->n_short +=
        delay - delays->least_ns <=
        at_once_ns +
            (int64_t)(drift * (double)(int64_t)(host_ns - delays->first_ns));
}

void stp_delays_restart(struct stp_delays *delays)
{
    delays->n = delays->n_short = 0;
}

double stp_delays_short(const struct stp_delays *delays)
{
    return delays->n < LEAST_LAUNCHES ? -1
                                      : (double)delays->n_short / delays->n;
}
