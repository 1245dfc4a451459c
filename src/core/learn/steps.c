#include "core/learn/steps.h"

#include <stdlib.h>

#include "core/stats.h"

enum {
    N_GAPS = 64,  /* between calls, of which one is typical */
    LONG_GAP = 5, /* typical ones */
    /* Sequences found by gaps have other numbers than those by order. */
    BY_GAPS = 1 << 20,
};

struct stp_steps {
    struct stp_period *by_order;
    struct stp_period *by_gaps;
    uint64_t last_ns;
    double gaps[N_GAPS];
    unsigned n_gaps;
    double long_ns; /* 0: not known yet */
};

enum stp_status stp_steps_open(struct stp_steps **steps_ret,
                               struct stp_error *err)
{
    struct stp_steps *s = calloc(1, sizeof(*s));
    enum stp_status status;

    if (s == NULL)
        return stp_nomem(err);
    status = stp_period_open(&s->by_order, err);
    if (status == STP_OK)
        status = stp_period_open(&s->by_gaps, err);
    if (status != STP_OK) {
        stp_steps_close(s);
        return status;
    }
    *steps_ret = s;
    return STP_OK;
}

void stp_steps_close(struct stp_steps *steps)
{
    if (steps == NULL)
        return;
    stp_period_close(steps->by_order);
    stp_period_close(steps->by_gaps);
    free(steps);
}

static bool steps_is_after_pause(struct stp_steps *s, uint64_t t_ns)
{
    double gap = s->last_ns != 0 ? (double)(t_ns - s->last_ns) : 0.0;

    s->last_ns = t_ns;
    s->gaps[s->n_gaps++] = gap;
    if (s->n_gaps == N_GAPS) {
        struct stp_summary summary;

        stp_summarise(s->gaps, N_GAPS, &summary);
        s->long_ns = LONG_GAP * summary.median;
        s->n_gaps = 0;
    }
    return s->long_ns > 0.0 && gap > s->long_ns;
}

static bool steps_go_by_gaps(const struct stp_steps *s)
{
    return stp_period_calls(s->by_gaps) > stp_period_calls(s->by_order);
}

bool stp_steps_call(struct stp_steps *steps, unsigned kind, uint64_t t_ns,
                    struct stp_step *step_ret)
{
    unsigned pause = steps_is_after_pause(steps, t_ns) ? STP_STEPS_KINDS : 0;
    struct stp_step by_gaps;
    bool is_step = stp_period_call(steps->by_order, kind, t_ns, step_ret);
    bool is_long =
        stp_period_call(steps->by_gaps, kind | pause, t_ns, &by_gaps);

    if (!steps_go_by_gaps(steps))
        return is_step;
    if (!is_long)
        return false;
    *step_ret = by_gaps;
    step_ret->sequence += BY_GAPS;
    return true;
}

unsigned stp_steps_calls(const struct stp_steps *steps)
{
    return stp_period_calls(steps_go_by_gaps(steps) ? steps->by_gaps
                                                    : steps->by_order);
}

unsigned stp_steps_share(const struct stp_steps *steps, unsigned kind)
{
    if (!steps_go_by_gaps(steps))
        return stp_period_share(steps->by_order, kind);
    return stp_period_share(steps->by_gaps, kind) +
           stp_period_share(steps->by_gaps, kind | STP_STEPS_KINDS);
}
