#include "analyse/iterations.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/order.h"
#include "core/names.h"

/* A row with its samples. */
struct entry {
    const struct stp_measurement *m;
    const double *sample_us; /* 'iters' of them */
};

/* What is being summed up. */
struct summing {
    struct entry *entries; /* by setting, arm and round */
    size_t n;
    double *pool; /* scratch: iterations of one arm */
    struct stp_iteration_summary out;
    size_t n_arms; /* that 'out' has so far */
    size_t n_rounds;
};

/* ---- order ---- */

static int iterations_order_settings(const struct entry *a,
                                     const struct entry *b)
{
    STP_RETURN_ORDER(STP_ORDER(a->m->work.mode, b->m->work.mode));
    STP_RETURN_ORDER(STP_ORDER(a->m->coll, b->m->coll));
    STP_RETURN_ORDER(stp_workload_order(&a->m->work, &b->m->work));
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

static void iterations_sort_entries(const struct stp_iterations *iterations,
                                    struct summing *s)
{
    const double *sample_us = iterations->sample_us;

    s->n = iterations->data.n_rows;
    for (size_t i = 0; i < s->n; i++) {
        s->entries[i] = (struct entry){&iterations->data.rows[i], sample_us};
        sample_us += iterations->data.rows[i].iters;
    }
    qsort(s->entries, s->n, sizeof(*s->entries), iterations_order_entries);
}

/* ---- gains ---- */

typedef double time_of(const struct stp_iteration_round *round);

static double iterations_get_us(const struct stp_iteration_round *round)
{
    return round->us;
}

static double iterations_get_alone_us(const struct stp_iteration_round *round)
{
    return round->alone_us;
}

/* The gain of 'arm' over 'base' by rounds that both have; 'pairs' is scratch
 * for two values a round. */
static struct stp_gain iterations_get_gain(const struct stp_iteration_arm *base,
                                           const struct stp_iteration_arm *arm,
                                           time_of *us, double *pairs)
{
    double *times = pairs + base->n_rounds;
    size_t n = 0;

    for (unsigned b = 0, a = 0; b < base->n_rounds && a < arm->n_rounds;) {
        const struct stp_iteration_round *x = &base->rounds[b];
        const struct stp_iteration_round *y = &arm->rounds[a];

        if (x->round == y->round && us(x) > 0 && us(y) > 0) {
            pairs[n] = us(x);
            times[n++] = us(y);
        }
        b += x->round <= y->round;
        a += y->round <= x->round;
    }
    return stp_paired_gain(pairs, times, n);
}

/* ---- one arm ---- */

/* All bytes of a layer's collectives over the time that they take alone. */
static void iterations_sum_bandwidth(const struct stp_measurement *m,
                                     struct stp_iteration_arm *arm)
{
    const struct stp_collective what = {.coll = m->coll, .n_bytes = m->n_bytes};
    struct stp_collective colls[STP_MAX_LAYER_COLLS];
    size_t n = m->work.mode != STP_MODE_TRACE
                   ? stp_workload_collectives(&m->work, &what, colls)
                   : 0; /* of several sizes */

    for (size_t i = 0; i < n && arm->alone_us > 0; i++) {
        arm->algbw += stp_algbw(colls[i].n_bytes, arm->alone_us);
        arm->busbw += stp_busbw(colls[i].coll, m->n_ranks, colls[i].n_bytes,
                                arm->alone_us);
    }
}

static void iterations_sum_rounds(struct summing *s, const struct entry *e,
                                  size_t n, struct stp_iteration_arm *arm)
{
    struct stp_iteration_round *rounds = &s->out.rounds[s->n_rounds];
    unsigned n_alone = 0;

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
}

/* Sums up the 'n' entries of one arm; AUTO is the first of the setting. */
static void iterations_sum_arm(struct summing *s, const struct entry *e,
                               size_t n,
                               const struct stp_iteration_setting *setting)
{
    static const struct stp_gain none = {.gain = 1, .low = 1, .high = 1};
    struct stp_iteration_arm *arm = &s->out.arms[s->n_arms++];

    arm->arm = e->m->arm;
    arm->ran_algo = e->m->ran_algo;
    arm->ran_proto = e->m->ran_proto;
    arm->ran_channels = e->m->ran_channels;
    memcpy(arm->ran_kernel, e->m->ran_kernel, sizeof(arm->ran_kernel));
    iterations_sum_rounds(s, e, n, arm);
    stp_summarise(s->pool, arm->n_iterations, &arm->us);
    arm->exposed_us = arm->us.mean - setting->compute_us;
    iterations_sum_bandwidth(e->m, arm);
    arm->gain = arm->alone_gain = none;
    if (arm == setting->arms)
        return;
    arm->gain = iterations_get_gain(setting->arms, arm, iterations_get_us,
                                    s->out.pairs);
    arm->alone_gain = iterations_get_gain(
        setting->arms, arm, iterations_get_alone_us, s->out.pairs);
}

/* ---- one setting ---- */

static double
iterations_get_resolution(const struct stp_iteration_setting *setting)
{
    double n = setting->arms[0].n_rounds;

    for (size_t i = 1; i < setting->n_arms; i++) {
        const struct stp_iteration_arm *arm = &setting->arms[i];

        if (arm->arm.kind == STP_ARM_AUTO_AGAIN && arm->gain.n_pairs > 1)
            return (arm->gain.high - arm->gain.low) / 2;
    }
    if (n < 2)
        return INFINITY;
    return stp_t975((size_t)n - 1) * setting->noise * sqrt(2 / n);
}

/* What AUTO's 'n' entries, the first of the setting, say of all of it. */
static void iterations_begin_setting(struct summing *s, const struct entry *e,
                                     size_t n,
                                     struct stp_iteration_setting *setting)
{
    double *times = s->out.pairs;

    setting->like = *e->m;
    setting->arms = &s->out.arms[s->n_arms];
    for (size_t i = 0; i < n; i++) {
        times[i] = e[i].m->us.median;
        setting->compute_us += e[i].m->work.compute_us / (double)n;
    }
    setting->compute_us *= e->m->work.layers;
    setting->noise = stp_stddev(times, n) / stp_mean(times, n);
}

static enum stp_status iterations_sum_setting(struct summing *s,
                                              const struct entry *e, size_t n,
                                              struct stp_error *err)
{
    struct stp_iteration_setting *setting =
        &s->out.settings[s->out.n_settings++];

    if (e->m->arm.kind != STP_ARM_AUTO)
        return stp_fail(
            err, STP_ERR_SYNTAX,
            "%s of %s of %" PRIu64
            " bytes has no row of NCCL's own choice (auto) to compare with",
            stp_mode_name(e->m->work.mode), stp_coll_name(e->m->coll),
            e->m->n_bytes);
    iterations_begin_setting(
        s, e, iterations_count_equal(e, n, iterations_order_arms), setting);
    for (size_t i = 0; i < n; setting->n_arms++) {
        size_t n_rows =
            iterations_count_equal(&e[i], n - i, iterations_order_arms);

        iterations_sum_arm(s, &e[i], n_rows, setting);
        i += n_rows;
    }
    setting->comm_us = setting->arms[0].alone_us * e->m->work.layers;
    setting->resolution = iterations_get_resolution(setting);
    return STP_OK;
}

/* ---- all of them ---- */

static enum stp_status iterations_sum_all(struct summing *s,
                                          struct stp_error *err)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i < s->n && status == STP_OK;) {
        size_t n = iterations_count_equal(&s->entries[i], s->n - i,
                                          iterations_order_settings);

        status = iterations_sum_setting(s, &s->entries[i], n, err);
        i += n;
    }
    return status;
}

static bool iterations_allocate(struct summing *s,
                                const struct stp_iterations *iterations)
{
    size_t n = iterations->data.n_rows + 1;

    s->entries = calloc(n, sizeof(*s->entries));
    s->pool = calloc(iterations->n_samples + 1, sizeof(*s->pool));
    s->out.settings = calloc(n, sizeof(*s->out.settings));
    s->out.arms = calloc(n, sizeof(*s->out.arms));
    s->out.rounds = calloc(n, sizeof(*s->out.rounds));
    s->out.pairs = calloc(n, 2 * sizeof(*s->out.pairs));
    return s->entries != NULL && s->pool != NULL && s->out.settings != NULL &&
           s->out.arms != NULL && s->out.rounds != NULL && s->out.pairs != NULL;
}

enum stp_status
stp_summarise_iterations(const struct stp_iterations *iterations,
                         struct stp_iteration_summary *summary_ret,
                         struct stp_error *err)
{
    struct summing s = {0};
    enum stp_status status;

    if (iterations_allocate(&s, iterations)) {
        iterations_sort_entries(iterations, &s);
        status = iterations_sum_all(&s, err);
    } else {
        status = stp_nomem(err);
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

/* ---- regimes ---- */

/* A second AUTO is no other arm. */
static bool regime_has_arm(const struct stp_iteration_arm *arm)
{
    return arm->arm.kind != STP_ARM_AUTO_AGAIN && arm->alone_us > 0 &&
           (arm->arm.kind == STP_ARM_AUTO || arm->gain.n_pairs > 0);
}

static bool regime_ran_alike(const struct stp_iteration_arm *a,
                             const struct stp_iteration_arm *b)
{
    return a == b ||
           (a->ran_algo >= 0 && a->ran_proto >= 0 &&
            a->ran_algo == b->ran_algo && a->ran_proto == b->ran_proto &&
            a->ran_channels == b->ran_channels);
}

/* The fastest alone, and that with the largest gain; of equal ones the first,
 * which is AUTO if it is among them.  False if there are none, or if they are
 * one arm. */
static bool regime_pick_arms(const struct stp_iteration_setting *setting,
                             struct stp_regime *regime)
{
    *regime = (struct stp_regime){.setting = setting};
    for (size_t i = 0; i < setting->n_arms; i++) {
        const struct stp_iteration_arm *arm = &setting->arms[i];

        if (!regime_has_arm(arm))
            continue;
        if (regime->alone == NULL || arm->alone_us < regime->alone->alone_us)
            regime->alone = arm;
        if (regime->best == NULL || arm->gain.gain > regime->best->gain.gain)
            regime->best = arm;
    }
    return regime->alone != NULL &&
           !regime_ran_alike(regime->alone, regime->best);
}

size_t stp_find_regimes(const struct stp_iteration_summary *summary,
                        double min_gain, struct stp_regime *regimes)
{
    size_t n = 0;

    for (size_t i = 0; i < summary->n_settings; i++) {
        struct stp_regime r;

        if (!regime_pick_arms(&summary->settings[i], &r))
            continue;
        r.gain = iterations_get_gain(r.alone, r.best, iterations_get_us,
                                     summary->pairs);
        r.alone_gain = iterations_get_gain(
            r.best, r.alone, iterations_get_alone_us, summary->pairs);
        if (r.gain.low >= 1 + min_gain)
            regimes[n++] = r;
    }
    return n;
}
