#include "core/learn/gpu_clock.h"

/* Clocks do not drift more, in ns a ns. */
static const double most_drift = 50e-6;

/* ---- the clock ---- */

static int64_t clock_distance(const struct stp_instant *instant)
{
    return (int64_t)(instant->heard_ns - instant->gpu_ns);
}

void stp_gpu_clock_heard(struct stp_gpu_clock *clock,
                         const struct stp_instant *instant)
{
    unsigned window = clock->n_calls / STP_CLOCK_WINDOW % STP_CLOCK_WINDOWS;
    struct stp_instant *least = &clock->least[window];

    if (clock->n_calls % STP_CLOCK_WINDOW == 0 ||
        clock_distance(instant) < clock_distance(least))
        *least = *instant;
    clock->n_calls++;
    if (clock->n_calls ==
        2 * STP_CLOCK_WINDOW * STP_CLOCK_WINDOWS) /* or it would wrap */
        clock->n_calls = STP_CLOCK_WINDOW * STP_CLOCK_WINDOWS;
}

/* A window's least distance, from the first window's. */
struct point {
    double at;
    double ns;
};

/* A window that has just begun may not have its least yet. */
static bool clock_is_complete(const struct stp_gpu_clock *clock,
                              unsigned window)
{
    unsigned n = clock->n_calls % STP_CLOCK_WINDOW;
    unsigned now = clock->n_calls / STP_CLOCK_WINDOW % STP_CLOCK_WINDOWS;

    return window != now || n == 0 || n >= STP_CLOCK_READY;
}

static size_t clock_points(const struct stp_gpu_clock *clock,
                           struct point points[STP_CLOCK_WINDOWS])
{
    unsigned n_windows =
        (clock->n_calls + STP_CLOCK_WINDOW - 1) / STP_CLOCK_WINDOW;
    const struct stp_instant *zero = &clock->least[0];
    size_t n = 0;

    for (unsigned i = 0; i < n_windows && i < STP_CLOCK_WINDOWS; i++)
        if (clock_is_complete(clock, i))
            points[n++] = (struct point){
                (double)(int64_t)(clock->least[i].gpu_ns - zero->gpu_ns),
                (double)(clock_distance(&clock->least[i]) -
                         clock_distance(zero))};
    return n;
}

static double clock_lowest(const struct point *points, size_t n)
{
    double ns = points[0].ns;

    for (size_t i = 1; i < n; i++)
        if (points[i].ns < ns)
            ns = points[i].ns;
    return ns;
}

/* The line below all points that is nearest to them on average: that of the
 * lower hull's edge over their middle.  At 'at'. */
static double clock_line_below(const struct point *points, size_t n, double at)
{
    double middle = 0.0;
    double best = 0.0;
    double slope = 0.0;
    bool is_found = false;

    for (size_t i = 0; i < n; i++)
        middle += points[i].at / (double)n;
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++) {
            const struct point *a = &points[i];
            const struct point *b = &points[k];
            double rise = (b->ns - a->ns) / (b->at - a->at);
            double there = a->ns + rise * (middle - a->at);

            if (a->at > middle || b->at < middle || b->at <= a->at ||
                (is_found && there >= best))
                continue;
            is_found = true;
            best = there;
            slope = rise;
        }
    if (!is_found || slope > most_drift || slope < -most_drift)
        return clock_lowest(points, n);
    return best + slope * (at - middle);
}

bool stp_gpu_clock_offset(const struct stp_gpu_clock *clock, uint64_t gpu_ns,
                          uint64_t *offset_ret)
{
    struct point points[STP_CLOCK_WINDOWS];
    const struct stp_instant *zero = &clock->least[0];
    double ns;

    if (clock->n_calls < STP_CLOCK_READY)
        return false;
    ns = clock_line_below(points, clock_points(clock, points),
                          (double)(int64_t)(gpu_ns - zero->gpu_ns));
    *offset_ret = (uint64_t)(clock_distance(zero) + (int64_t)ns);
    return true;
}

/* ---- a collective ---- */

static uint64_t clock_between(uint64_t from_ns, uint64_t to_ns)
{
    return to_ns > from_ns ? to_ns - from_ns : 0;
}

double stp_rank_times_us(const struct stp_rank_times *all, bool at_most)
{
    uint64_t ns = clock_between(all->last_begin_ns, all->last_end_ns);

    if (at_most)
        ns += clock_between(all->first_end_ns > all->last_begin_ns
                                ? all->first_end_ns
                                : all->last_begin_ns,
                            all->last_end_ns);
    return (double)ns / 1e3;
}
