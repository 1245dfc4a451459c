#include "bench/calibrate.h"

#include <math.h>

enum {
    GRAIN = 64, /* of a product's k: whole tiles of tensor cores */
    FIRST_K = 4 * GRAIN,
    MAX_DEPTH = 4,   /* of k over a side, as in transformers */
    MAX_GUESSES = 6, /* of k */
    N_TIMED = 10,
    N_TRIES = 3,     /* of one layer, by which it is short or not */
    MAX_KNOWN = 512, /* recorded products */
};

/* A product within this share of the target is near enough. */
static const double close_enough = 0.03;

/* Within this share of the target a recorded product is better than a closer
 * one, whose times are modelled. */
static const double known_enough = 0.25;

/* The first k may take this share of the target, and larger ones the rest. */
static const double first_share = 2. / 3;

/* Products timed in one go take no longer than this, unless it is one. */
static const double max_us = 100e3;

/* A host launches something about every 'launch_us'.  What takes less, its
 * launch included, is timed behind kernels that each read and write
 * AHEAD_BYTES: meanwhile all of it is launched, and none waits for its launch.
 * A busy host launches less often.  So of what takes less than 'short_us',
 * N_PROBED in a row are timed behind kernels; if each takes less than
 * 'launched_share' of what it takes without them, all are timed so. */
static const double launch_us = 50;
static const double short_us = 200;
static const double launched_share = 0.97;
static const double ahead_us = 25; /* of such a kernel, less its own launch */
enum { AHEAD_BYTES = 128 << 20, AHEAD_MORE = 2, N_PROBED = 3, N_PROBES = 2 };

/* Products are square but for k; of these sides the largest that is not too
 * long with the first k is taken. */
static const unsigned sides[] = {256, 512, 1024, 2048, 4096, 8192};
enum { N_SIDES = sizeof(sides) / sizeof(sides[0]) };

/* ---- times ---- */

/* Layers that are being timed. */
struct timing {
    const struct stp_device *device;
    const struct stp_layer *layer;
    unsigned stream; /* STP_STREAM_MAIN: of compute; else of collectives */
    double n_ahead;  /* kernels that run while a layer is launched; 0: none */
    enum stp_status status;
    struct stp_error *err;
};

static void calibrate_note_layer(struct timing *t)
{
    const struct stp_layer *layer = t->layer;

    if (t->stream == STP_STREAM_MAIN)
        STP_THEN(t->status, stp_workload_note_compute(t->device, layer->work,
                                                      t->stream, t->err));
    for (size_t c = 0; c < layer->n_colls && t->stream != STP_STREAM_MAIN; c++)
        STP_DEVICE_NOTE(t, COLLECTIVE, t->stream,
                        .collective = layer->colls[c]);
}

/* Returns the time of one layer, the mean of 'n' in a row. */
static double calibrate_run(struct timing *t, unsigned n)
{
    if (t->n_ahead > 0) {
        /* The kernels ahead keep GPUs busy while the layers are launched; the
         * first layer does not count. */
        for (unsigned i = 0; i < ceil(n * t->n_ahead) + AHEAD_MORE; i++)
            STP_DEVICE_NOTE(t, ELEMENTWISE, t->stream, .n_bytes = AHEAD_BYTES);
        calibrate_note_layer(t);
    }
    STP_DEVICE_NOTE(t, RECORD, t->stream, .event = 0);
    for (unsigned i = 0; i < n; i++)
        calibrate_note_layer(t);
    STP_DEVICE_NOTE(t, RECORD, t->stream, .event = 1);
    STP_DEVICE_DO(t, synchronise, t->err);
    return t->status == STP_OK ? stp_device_elapsed_us(t->device, 0, 1) / n : 0;
}

enum stp_status stp_time_layer(const struct stp_layer *layer, unsigned stream,
                               unsigned n, double *us_ret,
                               struct stp_error *err)
{
    struct timing t = {
        .device = layer->device, .layer = layer, .stream = stream, .err = err};
    struct stp_device_info info;
    double us;

    stp_device_get_info(layer->device, &info);
    if (info.is_live) /* the first connects ranks and loads kernels */
        calibrate_run(&t, 1);
    us = calibrate_run(&t, 1);
    for (int i = 1; i < N_TRIES && info.is_live; i++) /* a host may pause */
        us = fmin(us, calibrate_run(&t, 1));
    if (n * us > max_us)
        n = us < max_us ? (unsigned)(max_us / us) : 1;
    if (n > 1)
        us = calibrate_run(&t, n);
    if (info.is_live && info.gpu[0] != '\0' && us < short_us) {
        double least = us < launch_us ? 0 : us;

        t.n_ahead = 1;
        for (int i = 0; i < N_PROBES && least >= launched_share * us; i++)
            least = calibrate_run(&t, N_PROBED); /* a host may pause: twice */
        t.n_ahead = least < launched_share * us ? us / ahead_us : 0;
    }
    if (n == 1 || t.n_ahead > 0 || !info.is_live)
        us = calibrate_run(&t, n);
    if (t.status == STP_OK)
        *us_ret = us;
    return t.status;
}

/* ---- the product ---- */

/* A workload that is being fitted. */
struct fit {
    const struct stp_device *device;
    double target_us;
    struct stp_workload *best;
    struct stp_error *err;
};

/* Times the product of these sides, and keeps it if it is the closest. */
static enum stp_status calibrate_try_product(struct fit *f, unsigned side,
                                             unsigned k, double *us_ret)
{
    struct stp_workload work = *f->best;
    const struct stp_layer layer = {.device = f->device, .work = &work};

    work.gemm.m = work.gemm.n = side;
    work.gemm.k = k;
    STP_TRY(stp_time_layer(&layer, STP_STREAM_MAIN, N_TIMED, us_ret, f->err));
    if (fabs(*us_ret - f->target_us) <
        fabs(f->best->compute_us - f->target_us)) {
        work.compute_us = *us_ret;
        *f->best = work;
    }
    return STP_OK;
}

/* Whether a product of those that the device knows with the collective, in the
 * workload's mode or in others, comes near enough. */
static enum stp_status
calibrate_choose_known(struct fit *f, const struct stp_collective *collective,
                       bool in_mode, bool *is_chosen_ret)
{
    struct stp_device_overlap known[MAX_KNOWN];
    const size_t n =
        stp_device_overlaps(f->device, collective->coll, known, MAX_KNOWN);
    double us;

    for (size_t i = 0; i < n && i < MAX_KNOWN; i++)
        if (f->best->compute == STP_COMPUTE_GEMM &&
            (known[i].mode == f->best->mode) == in_mode &&
            known[i].n_bytes == collective->n_bytes &&
            known[i].gemm.m == known[i].gemm.n &&
            known[i].gemm.type == f->best->gemm.type)
            STP_TRY(calibrate_try_product(f, known[i].gemm.m, known[i].gemm.k,
                                          &us));
    *is_chosen_ret =
        fabs(f->best->compute_us - f->target_us) <= known_enough * f->target_us;
    if (!*is_chosen_ret)
        f->best->compute_us = INFINITY;
    return STP_OK;
}

enum stp_status stp_calibrate(const struct stp_device *device,
                              const struct stp_collective *collective,
                              double target_us, struct stp_workload *work,
                              struct stp_error *err)
{
    struct fit f = {
        .device = device, .target_us = target_us, .best = work, .err = err};
    unsigned side = sides[0], k = FIRST_K, last_k = 0;
    bool is_chosen = false;
    double us = 0, last_us = 0;

    work->compute_us = INFINITY;
    STP_TRY(calibrate_choose_known(&f, collective, true, &is_chosen));
    if (!is_chosen)
        STP_TRY(calibrate_choose_known(&f, collective, false, &is_chosen));
    if (is_chosen)
        return STP_OK;
    /* Takes the largest side whose first k uses little of the target, or the
     * smallest side if none does. */
    for (size_t i = 0; i < N_SIDES; i++) {
        double first_us;

        STP_TRY(calibrate_try_product(&f, sides[i], FIRST_K, &first_us));
        if (i > 0 && first_us > first_share * target_us)
            break;
        side = sides[i];
        us = first_us;
    }
    /* k by the line of time through the last two guesses, in whole grains. */
    for (int i = 0; i < MAX_GUESSES; i++) {
        double slope = (us - last_us) / ((double)k - last_k);
        double next_k;
        unsigned next;

        if (k == last_k || !(slope > 0))
            slope = us / k;
        next_k = floor((k + (target_us - us) / slope) / GRAIN + 0.5);
        next =
            (unsigned)fmin(fmax(next_k, 1) * GRAIN, (double)MAX_DEPTH * side);
        if (next == k || fabs(us - target_us) <= close_enough * target_us)
            break;
        last_k = k;
        last_us = us;
        k = next;
        STP_TRY(calibrate_try_product(&f, side, k, &us));
    }
    return STP_OK;
}

/* ---- products of a traced step ---- */

/* GEMMs whose times are so near are one. */
static const double same_time = 0.05;

enum stp_status stp_calibrate_step(const struct stp_device *device,
                                   struct stp_traced_step *step, int type,
                                   struct stp_error *err)
{
    for (size_t i = 0; i < step->program.n_notes; i++) {
        const struct stp_work *known = step->program.notes;
        struct stp_work *note = &step->program.notes[i];
        struct stp_workload work = {.gemm = {.type = type}};
        double us;

        if (note->kind != STP_WORK_GEMM || note->gemm.m != 0)
            continue;
        us = step->us[note->task - 1];
        while (known < note &&
               (known->kind != STP_WORK_GEMM || known->task == 0 ||
                fabs(step->us[known->task - 1] / us - 1) > same_time))
            known++;
        if (known < note)
            work.gemm = known->gemm;
        else
            STP_TRY(stp_calibrate(device, &step->kinds[0], us, &work, err));
        note->gemm = work.gemm;
    }
    return STP_OK;
}
