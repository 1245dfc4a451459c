/* iteration_numbers.c - what is known of settings, arms and regimes */
#include <math.h>
#include <string.h>

#include "analyse/order.h"
#include "report/iterations/iteration_parts.h"

/* ---- numbers ---- */

enum { US = 3, GAIN = 6, WHOLE = 0, SHORT = -1 }; /* decimals */

/* What is 0 where nobody measured. */
static double measured(double value)
{
    return value > 0 ? value : NAN;
}

static double low_of(const struct stp_iteration_arm *arm,
                     const struct stp_gain *gain)
{
    return stp_iteration_interval(arm, gain) ? gain->low : NAN;
}

static double high_of(const struct stp_iteration_arm *arm,
                      const struct stp_gain *gain)
{
    return stp_iteration_interval(arm, gain) ? gain->high : NAN;
}

static double gain_of(const struct stp_iteration_arm *arm,
                      const struct stp_gain *gain)
{
    if (arm->arm.kind == STP_ARM_AUTO)
        return 1;
    return gain->n_pairs > 0 ? gain->gain : NAN;
}

static size_t copy(struct stp_iteration_number *to,
                   const struct stp_iteration_number *from, size_t size)
{
    memcpy(to, from, size);
    return size / sizeof(*from);
}

size_t
stp_iteration_place(const struct stp_iteration_setting *setting,
                    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS])
{
    const struct stp_measurement *m = &setting->like;
    const struct stp_workload *w = &m->work;
    const struct stp_iteration_number list[] = {
        {"bytes", (double)m->n_bytes, WHOLE, true},
        {"layers", w->layers, WHOLE, true},
        {"ratio", w->ratio, SHORT, true},
        {"m", w->gemm.m, WHOLE, true},
        {"n", w->gemm.n, WHOLE, true},
        {"k", w->gemm.k, WHOLE, true},
        {"nNodes", m->n_nodes, WHOLE, true},
        {"nRanks", m->n_ranks, WHOLE, true},
    };

    return copy(numbers, list, sizeof(list));
}

size_t stp_iteration_results(
    const struct stp_iteration_setting *setting,
    const struct stp_iteration_arm *arm,
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS])
{
    const struct stp_gain *gain = &arm->gain;
    const struct stp_gain *alone = &arm->alone_gain;
    bool has_alone = arm->alone_us > 0;
    bool several = setting->arms[0].n_rounds > 1;
    const struct stp_iteration_number list[] = {
        {"rounds", arm->n_rounds, WHOLE, false},
        {"iterations", (double)arm->n_iterations, WHOLE, false},
        {"mean_us", arm->us.mean, US, false},
        {"p50_us", arm->us.median, US, false},
        {"p95_us", arm->us.p95, US, false},
        {"p99_us", arm->us.p99, US, false},
        {"min_us", arm->us.min, US, false},
        {"gain", gain_of(arm, gain), GAIN, false},
        {"gain_low", low_of(arm, gain), GAIN, false},
        {"gain_high", high_of(arm, gain), GAIN, false},
        {"exposed_us", arm->exposed_us, US, false},
        {"compute_us", setting->compute_us, US, true},
        {"comm_us", measured(setting->comm_us), US, true},
        {"alone_us", measured(arm->alone_us), US, false},
        {"alone_algbw", has_alone ? arm->algbw : NAN, SHORT, false},
        {"alone_busbw", has_alone ? arm->busbw : NAN, SHORT, false},
        {"alone_gain", has_alone ? gain_of(arm, alone) : NAN, GAIN, false},
        {"alone_gain_low", has_alone ? low_of(arm, alone) : NAN, GAIN, false},
        {"alone_gain_high", has_alone ? high_of(arm, alone) : NAN, GAIN, false},
        {"noise", several ? setting->noise : NAN, GAIN, true},
        {"resolution", setting->resolution, GAIN, true},
    };

    return copy(numbers, list, sizeof(list));
}

/* Of a regime both may be AUTO's: its gains are over the other arm. */
static double finite_end(const struct stp_gain *gain, double end)
{
    return gain->n_pairs > 1 && isfinite(gain->high) ? end : NAN;
}

size_t stp_iteration_regime_results(
    const struct stp_regime *regime,
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS])
{
    const struct stp_gain *gain = &regime->gain;
    const struct stp_gain *alone = &regime->alone_gain;
    const struct stp_iteration_number list[] = {
        {"fastest_alone_mean_us", regime->alone->us.mean, US, false},
        {"best_iteration_mean_us", regime->best->us.mean, US, false},
        {"gain", gain->gain, GAIN, false},
        {"gain_low", finite_end(gain, gain->low), GAIN, false},
        {"gain_high", finite_end(gain, gain->high), GAIN, false},
        {"fastest_alone_us", measured(regime->alone->alone_us), US, false},
        {"best_iteration_alone_us", measured(regime->best->alone_us), US,
         false},
        {"alone_gain", alone->gain, GAIN, false},
        {"alone_gain_low", finite_end(alone, alone->low), GAIN, false},
        {"alone_gain_high", finite_end(alone, alone->high), GAIN, false},
        {"rounds", (double)gain->n_pairs, WHOLE, false},
    };

    return copy(numbers, list, sizeof(list));
}

/* ---- samples ---- */

static bool is_of(const struct stp_measurement *row,
                  const struct stp_iteration_setting *setting,
                  const struct stp_iteration_arm *arm)
{
    const struct stp_measurement *like = &setting->like;

    return row->n_bytes == like->n_bytes &&
           stp_arm_equal(&row->arm, &arm->arm) &&
           stp_order_kinds(row, like) == 0 &&
           stp_workload_order(&row->work, &like->work) == 0;
}

const double *stp_iteration_next(const struct stp_iterations *iterations,
                                 const struct stp_iteration_setting *setting,
                                 const struct stp_iteration_arm *arm,
                                 struct stp_iteration_cursor *at, size_t *n_ret)
{
    while (at->row < iterations->data.n_rows) {
        const struct stp_measurement *row = &iterations->data.rows[at->row++];
        const double *us = iterations->sample_us + at->sample;

        at->sample += row->iters;
        if (is_of(row, setting, arm)) {
            *n_ret = row->iters;
            return us;
        }
    }
    return NULL;
}
