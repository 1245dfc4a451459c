#include "analyse/iterations.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/compare.h"
#include "analyse/order.h"
#include "core/names.h"
#include "launch/take.h"

/* A row with its samples. */
struct entry {
    const struct stp_measurement *m;
    const double *sample_us; /* 'iters' of them */
};

/* The state of a summary in the making. */
struct summing {
    struct entry *entries; /* by setting, arm and round */
    size_t n;
    double *pool; /* scratch: iterations of one arm */
    struct stp_iteration_summary out;
    size_t n_arms; /* that 'out' has so far */
    size_t n_rounds;
};

static int iterations_order_settings(const struct entry *a,
                                     const struct entry *b)
{
    STP_RETURN_ORDER(STP_ORDER(a->m->work.mode, b->m->work.mode));
    STP_RETURN_ORDER(STP_ORDER(a->m->coll, b->m->coll));
    STP_RETURN_ORDER(stp_workload_order(&a->m->work, &b->m->work));
    STP_RETURN_ORDER(STP_ORDER(a->m->graph, b->m->graph));
    STP_RETURN_ORDER(STP_ORDER(a->m->n_bytes, b->m->n_bytes));
    return stp_order_kinds(a->m, b->m);
}

static int iterations_order_arms(const struct entry *a, const struct entry *b)
{
    STP_RETURN_ORDER(iterations_order_settings(a, b));
    return stp_order_arms(a->m, b->m);
}

static int iterations_order_entries(const void *pa, const void *pb)
{
    const struct entry *a = pa;
    const struct entry *b = pb;

    STP_RETURN_ORDER(iterations_order_arms(a, b));
    return STP_ORDER(a->m->round, b->m->round);
}

/* How many of the 'n' >= 1 entries 'order' calls equal to the first. */
static size_t iterations_count_equal(const struct entry *e, size_t n,
                                     int (*order)(const struct entry *,
                                                  const struct entry *))
{
    size_t i = 1;

    while (i < n && order(&e[0], &e[i]) == 0)
        i++;
    return i;
}

/* The gain of 'arm' over 'base' by rounds that both have; 'pairs' is scratch
 * for two values a round. */
static struct stp_gain iterations_get_gain(const struct stp_iteration_arm *base,
                                           const struct stp_iteration_arm *arm,
                                           bool alone, double *pairs)
{
    double *times = pairs + base->n_rounds;
    struct stp_gain gain;
    size_t n = 0;

    for (unsigned b = 0, a = 0; b < base->n_rounds && a < arm->n_rounds;) {
        const struct stp_iteration_round *x = &base->rounds[b];
        const struct stp_iteration_round *y = &arm->rounds[a];

        const double x_us = alone ? x->alone_us : x->us;
        const double y_us = alone ? y->alone_us : y->us;

        if (x->round == y->round && x_us > 0 && y_us > 0) {
            pairs[n] = x_us;
            times[n++] = y_us;
        }
        b += x->round <= y->round;
        a += y->round <= x->round;
    }
    gain = stp_paired_gain(pairs, times, n);
    /* collectives alone may be recorded where iterations are modelled */
    return alone
               ? gain
               : stp_gain_of_source(
                     gain, stp_source_worst(base->source, arm->source), false);
}

/* Sums up the 'n' entries of one arm; AUTO is the first of the setting. */
static void iterations_sum_arm(struct summing *s, const struct entry *e,
                               size_t n,
                               const struct stp_iteration_setting *setting)
{
    static const struct stp_gain none = {.gain = 1, .low = 1, .high = 1};
    const struct stp_measurement *first = e->m;
    const struct stp_collective what = {.coll = first->coll,
                                        .n_bytes = first->n_bytes};
    struct stp_iteration_arm *arm = &s->out.arms[s->n_arms++];
    struct stp_iteration_round *rounds = &s->out.rounds[s->n_rounds];
    struct stp_collective colls[STP_MAX_LAYER_COLLS];
    size_t n_colls = 0;
    unsigned n_alone = 0;

    arm->arm = e->m->arm;
    arm->ran_algo = e->m->ran_algo;
    arm->ran_proto = e->m->ran_proto;
    arm->ran_channels = e->m->ran_channels;
    memcpy(arm->ran_kernel, e->m->ran_kernel, sizeof(arm->ran_kernel));
    for (size_t i = 0; i < n; i++) {
        const struct stp_measurement *m = e[i].m;

        rounds[i] =
            (struct stp_iteration_round){m->round, m->us.median, m->alone_us};
        memcpy(s->pool + arm->n_iterations, e[i].sample_us,
               m->iters * sizeof(*s->pool));
        arm->n_iterations += m->iters;
        arm->alone_us += m->alone_us;
        n_alone += m->alone_us > 0;
        arm->source = stp_source_worst(arm->source, m->source);
    }
    if (n_alone > 0)
        arm->alone_us /= n_alone;
    arm->rounds = rounds;
    arm->n_rounds = (unsigned)n;
    s->n_rounds += n;
    stp_summarise(s->pool, arm->n_iterations, &arm->us);
    stp_summary_limit(
        &arm->us, arm->source == STP_SOURCE_MODELLED ? 0 : arm->n_iterations);
    /* Noise explains a little that is missing; nothing explains more. */
    arm->exposed_us = arm->us.mean - setting->compute_us;
    if (arm->exposed_us < 0)
        arm->exposed_us =
            -arm->exposed_us <= 2 * setting->noise * arm->us.mean ? 0 : NAN;
    /* All bytes of a layer's collectives over the time that they take alone;
     * those of a trace are of several sizes. */
    if (first->work.mode != STP_MODE_TRACE && arm->alone_us > 0)
        n_colls = stp_workload_collectives(&first->work, &what, colls);
    for (size_t i = 0; i < n_colls; i++) {
        arm->algbw += stp_algbw(colls[i].n_bytes, arm->alone_us);
        arm->busbw += stp_busbw(colls[i].coll, first->n_ranks, colls[i].n_bytes,
                                arm->alone_us);
    }
    arm->gain = arm->alone_gain = none;
    if (arm == setting->arms)
        return;
    arm->gain = iterations_get_gain(setting->arms, arm, false, s->out.pairs);
    arm->alone_gain =
        iterations_get_gain(setting->arms, arm, true, s->out.pairs);
}

static enum stp_status iterations_sum_setting(struct summing *s,
                                              const struct entry *e, size_t n,
                                              struct stp_error *err)
{
    struct stp_iteration_setting *setting =
        &s->out.settings[s->out.n_settings++];
    size_t n_auto = 0; /* rows of AUTO, which are the first */
    double *times = s->out.pairs;

    if (e->m->arm.kind != STP_ARM_AUTO)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "%s of %s of %" PRIu64
                        " bytes has no row of the arm auto to compare with",
                        stp_mode_name(e->m->work.mode),
                        stp_coll_name(e->m->coll), e->m->n_bytes);
    n_auto = iterations_count_equal(e, n, iterations_order_arms);
    setting->like = *e->m;
    setting->arms = &s->out.arms[s->n_arms];
    for (size_t i = 0; i < n_auto; i++) {
        times[i] = e[i].m->us.median;
        setting->compute_us += e[i].m->work.compute_us / (double)n_auto;
    }
    setting->compute_us *= e->m->work.layers;
    setting->noise = stp_stddev(times, n_auto) / stp_mean(times, n_auto);
    for (size_t i = 0; i < n; setting->n_arms++) {
        size_t n_rows =
            iterations_count_equal(&e[i], n - i, iterations_order_arms);

        iterations_sum_arm(s, &e[i], n_rows, setting);
        i += n_rows;
    }
    setting->comm_us = setting->arms[0].alone_us * e->m->work.layers;
    /* The resolution is the difference of a second AUTO, or else the noise of
     * the first one. */
    setting->resolution =
        n_auto < 2 || setting->arms[0].source == STP_SOURCE_MODELLED
            ? INFINITY
            : stp_t975(n_auto - 1) * setting->noise * sqrt(2 / (double)n_auto);
    for (size_t i = setting->n_arms; i-- > 1;) {
        const struct stp_iteration_arm *arm = &setting->arms[i];

        if (arm->arm.kind == STP_ARM_AUTO_AGAIN && arm->gain.n_pairs > 1)
            setting->resolution = (arm->gain.high - arm->gain.low) / 2;
    }
    return STP_OK;
}

enum stp_status
stp_summarise_iterations(const struct stp_iterations *iterations,
                         struct stp_iteration_summary *summary_ret,
                         struct stp_error *err)
{
    struct summing s = {.n = iterations->data.n_rows};
    const double *sample_us = iterations->sample_us;
    const size_t n = s.n;
    enum stp_status status = STP_OK;

    STP_TAKE(s.entries, n);
    STP_TAKE(s.pool, iterations->n_samples);
    STP_TAKE(s.out.settings, n);
    STP_TAKE(s.out.arms, n);
    STP_TAKE(s.out.rounds, n);
    STP_TAKE(s.out.pairs, 2 * n);
    for (size_t i = 0; i < n; i++) {
        s.entries[i] = (struct entry){&iterations->data.rows[i], sample_us};
        sample_us += iterations->data.rows[i].iters;
    }
    STP_SORT(s.entries, n, iterations_order_entries);
    for (size_t i = 0, of_setting; i < n && status == STP_OK; i += of_setting) {
        of_setting = iterations_count_equal(&s.entries[i], n - i,
                                            iterations_order_settings);
        status = iterations_sum_setting(&s, &s.entries[i], of_setting, err);
    }
    free(s.entries);
    free(s.pool);
    if (status == STP_OK)
        *summary_ret = s.out;
    else
        stp_iteration_summary_free(&s.out);
    return status;
}

void stp_iteration_summary_free(struct stp_iteration_summary *summary)
{
    free(summary->settings);
    free(summary->arms);
    free(summary->rounds);
    free(summary->pairs);
    memset(summary, 0, sizeof(*summary));
}

/* Whether an arm was timed alone, and is another than a second AUTO. */
static bool regime_is_timed(const struct stp_iteration_arm *arm)
{
    return arm->arm.kind != STP_ARM_AUTO_AGAIN && arm->alone_us > 0 &&
           (arm->arm.kind == STP_ARM_AUTO || arm->gain.n_pairs > 0);
}

/* Whether each arm that may be the fastest alone, as 'r->alone' is not surely
 * faster, is surely behind 'r->best' in iterations. */
static bool regime_is_sure(const struct stp_regime *r, double min_gain,
                           double *pairs)
{
    const struct stp_iteration_setting *setting = r->setting;

    for (size_t a = 0; a < setting->n_arms; a++) {
        const struct stp_iteration_arm *arm = &setting->arms[a];

        if (regime_is_timed(arm) &&
            !(iterations_get_gain(arm, r->alone, true, pairs).low > 1) &&
            (arm == r->best ||
             !(iterations_get_gain(arm, r->best, false, pairs).low >=
               1 + min_gain)))
            return false;
    }
    return true;
}

size_t stp_find_regimes(const struct stp_iteration_summary *summary,
                        double min_gain, struct stp_regime *regimes)
{
    size_t n = 0;

    for (size_t i = 0; i < summary->n_settings; i++) {
        const struct stp_iteration_setting *setting = &summary->settings[i];
        const struct stp_iteration_arm *alone = NULL, *best = NULL;
        struct stp_regime r = {.setting = setting};

        /* Arms with the largest gains; of equal ones the first, which is AUTO
         * if it is among them. */
        for (size_t a = 0; a < setting->n_arms; a++) {
            const struct stp_iteration_arm *arm = &setting->arms[a];

            if (!regime_is_timed(arm))
                continue;
            if (alone == NULL || arm->alone_gain.gain > alone->alone_gain.gain)
                alone = arm;
            if (best == NULL || arm->gain.gain > best->gain.gain)
                best = arm;
        }
        if (alone == best || (alone->ran_algo >= 0 && alone->ran_proto >= 0 &&
                              alone->ran_algo == best->ran_algo &&
                              alone->ran_proto == best->ran_proto &&
                              alone->ran_channels == best->ran_channels))
            continue;
        r.alone = alone;
        r.best = best;
        r.gain = iterations_get_gain(r.alone, r.best, false, summary->pairs);
        r.alone_gain =
            iterations_get_gain(r.best, r.alone, true, summary->pairs);
        if (regime_is_sure(&r, min_gain, summary->pairs))
            regimes[n++] = r;
    }
    return n;
}
