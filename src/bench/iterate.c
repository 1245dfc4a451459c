#include "bench/iterate.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/calibrate.h"
#include "core/dtype.h"
#include "device/device.h"
#include "launch/take.h"
#include "nccl_tuner_abi.h"

enum {
    N_CALIBRATE = 10, /* layers in a row */
    MIN_ALONE = 5,    /* the same, of an arm's collectives */
    MAX_ALONE = 50,
    ALONE_SHARE = 4, /* of a turn's iterations: so much shorter */
    WARM_SHARE = 4,  /* likewise, of iterations that warm up */
    LIVE_FIT = 3,    /* turns in which a layer's collectives are timed */
    MAX_FIT = 9,     /* likewise, rounds of a recorded machine */
    MAX_FITS = 3,
};

static const double same_fit = 0.1; /* of the times of a product */
static const double far_fit = 1.25; /* of those of its collectives */

/* One arm, in the setting that is being measured. */
struct lane {
    const struct stp_arm *arm;
    bool graph; /* its iterations are captured */
    bool ruled_out;
    struct stp_device_run ran; /* of a layer's first collective, or of the first
                                  that ran otherwise than under AUTO */
};

struct loop {
    const struct stp_device *device;
    const struct stp_iterate_plan *plan;
    struct stp_device_info info;
    stp_sweep_progress progress;
    void *user;
    struct stp_iterations *out;
    enum stp_status status; /* of the first failure */
    struct stp_error *err;
    size_t n_done;  /* turns */
    size_t n_total; /* turns */
    unsigned n_launches;

    /* the setting */
    struct stp_collective what;
    struct stp_collective of_layer[STP_MAX_LAYER_COLLS];
    const struct stp_collective *colls; /* that differ */
    size_t n_colls;
    struct stp_workload work;
    struct stp_layer layer; /* of it */
    unsigned warmup;
    unsigned iters;
    unsigned n_alone;
    struct stp_rounds rounds;
    double compute_us[STP_ROUNDS_MOST]; /* of each round, at last */
    size_t n_turns;                     /* that are yet to be reported */
    struct lane lanes[2 * STP_MAX_ARMS];
    size_t n_lanes;
    bool captures;               /* each arm has two */
    struct stp_device_run own[]; /* of 'colls', under AUTO */
};

/* ---- one turn ---- */

/* Notes 'n' iterations: the first events are between them. */
static void iterate_note_iterations(struct loop *l, unsigned n)
{
    unsigned n_events = stp_workload_events(&l->work);

    STP_DEVICE_NOTE(l, RECORD, STP_STREAM_MAIN, .event = 0);
    for (unsigned i = 0; i < n && l->status == STP_OK; i++) {
        l->status = stp_workload_note(l->device, &l->work, &l->what,
                                      n + 1 + i * n_events, l->err);
        STP_DEVICE_NOTE(l, RECORD, STP_STREAM_MAIN, .event = i + 1);
    }
}

/* Adds where the times of the last run are from. */
static void iterate_worsen(const struct loop *l, struct stp_measurement *row)
{
    bool single_pass;

    row->source = stp_source_worst(row->source,
                                   stp_device_source(l->device, &single_pass));
    row->single_pass |= single_pass;
}

/* Appends the samples, and sums them up. */
static void iterate_time_iterations(struct loop *l, struct stp_measurement *row)
{
    const struct stp_device *d = l->device;
    struct stp_iterations *out = l->out;
    const size_t n = (size_t)l->iters * l->n_launches;
    double *all =
        realloc(out->sample_us, (out->n_samples + 2 * n) * sizeof(*all));
    double *sample, *sorted; /* behind the samples */

    iterate_note_iterations(l, l->iters);
    if (all == NULL) {
        l->status = stp_nomem(l->err);
        return;
    }
    out->sample_us = all;
    sample = &all[out->n_samples];
    sorted = sample + n;
    for (unsigned i = 0; i < l->n_launches; i++) {
        if (i == 0)
            STP_DEVICE_DO(l, synchronise, l->err);
        else
            STP_DEVICE_DO(l, replay, l->err);
        for (unsigned k = 0; k < l->iters && l->status == STP_OK; k++)
            *sample++ = stp_device_elapsed_us(d, k, k + 1);
    }
    if (l->status == STP_OK) {
        memcpy(sorted, sorted - n, n * sizeof(*sorted));
        stp_summarise(sorted, n, &row->us);
        row->iters = (unsigned)n;
        iterate_worsen(l, row);
        out->n_samples += n;
    }
}

/* ---- one arm in one round ---- */

/* Finds how the arm runs: a plugin is asked every time, as it may change its
 * mind, and any other arm once. */
static void iterate_probe(struct loop *l, struct lane *lane, unsigned round)
{
    bool is_otherwise = false;

    if (round > 0 && lane->arm->kind != STP_ARM_PLUGIN)
        return;
    lane->ruled_out = true;
    for (size_t i = 0; i < l->n_colls; i++) {
        struct stp_device_run ran, *own = &l->own[i];
        bool is_same;

        STP_DEVICE_DO(l, probe, &l->colls[i], &ran, NULL, l->err);
        if (l->status != STP_OK)
            return;
        if (ran.is_unknown) {
            lane->ruled_out = true;
            return;
        }
        if (stp_arm_ran(lane->arm, ran.algo, ran.proto))
            lane->ruled_out = false;
        if (lane->arm->kind == STP_ARM_AUTO)
            *own = ran;
        is_same = ran.algo == own->algo && ran.proto == own->proto &&
                  ran.n_channels == own->n_channels &&
                  strcmp(ran.kernel, own->kernel) == 0;
        if (i == 0 || (!is_otherwise && !is_same))
            lane->ran = ran;
        is_otherwise |= !is_same;
    }
}

static void iterate_measure_lane(struct loop *l, struct lane *lane,
                                 unsigned round)
{
    struct stp_measurement row = {.coll = l->colls[0].coll,
                                  .n_bytes = l->what.n_bytes,
                                  .round = round,
                                  .arm = *lane->arm,
                                  .type = l->what.type,
                                  .op = l->what.op,
                                  .in_place = l->what.in_place,
                                  .graph = lane->graph,
                                  .n_wrong = -1,
                                  .n_ranks = l->info.n_ranks,
                                  .n_nodes = l->info.n_nodes,
                                  .work = l->work};

    STP_DEVICE_DO(l, select_arm, lane->arm, l->err);
    if (l->status == STP_OK)
        iterate_probe(l, lane, round);
    if (l->status != STP_OK || lane->ruled_out)
        return;
    /* Before work is captured it runs once without. */
    if (l->warmup > 0 && !(l->captures && lane->graph)) {
        iterate_note_iterations(l, l->warmup);
        STP_DEVICE_DO(l, synchronise, l->err);
    }
    if (l->captures)
        stp_device_use_graphs(l->device, lane->graph);
    iterate_time_iterations(l, &row);
    if (l->captures)
        stp_device_use_graphs(l->device, false);
    if (l->plan->alone)
        STP_THEN(l->status, stp_time_layer(&l->layer, STP_STREAM_COMM,
                                           l->n_alone, &row.alone_us, l->err));
    iterate_worsen(l, &row);
    row.ran_algo = lane->ran.algo;
    row.ran_proto = lane->ran.proto;
    row.ran_channels = lane->ran.n_channels;
    memcpy(row.ran_kernel, lane->ran.kernel, sizeof(row.ran_kernel));
    row.work.step = NULL;
    if (l->status == STP_OK && stp_dataset_add(&l->out->data, &row) != STP_OK)
        l->status = stp_nomem(l->err);
}

/* ---- rounds ---- */

/* Further rounds count none. */
static void iterate_report_turns(struct loop *l, size_t n)
{
    if (l->status != STP_OK)
        return;
    n = n < l->n_turns ? n : l->n_turns;
    l->n_turns -= n;
    l->n_done += n;
    if (l->progress != NULL && !l->progress(l->user, l->n_done, l->n_total))
        l->status =
            stp_fail(l->err, STP_ERR_STOPPED, "stopped after %zu of %zu rounds",
                     l->n_done / l->n_lanes, l->n_total / l->n_lanes);
}

/* The time of compute alone is the mean over the rounds so far that were not
 * disturbed, of all rows of the setting. */
static void iterate_set_compute(struct loop *l)
{
    struct stp_dataset *data = &l->out->data;
    double sum = 0;
    unsigned n = 0;

    for (unsigned k = 0; k < l->rounds.n_run && k < STP_ROUNDS_MOST; k++)
        if (!l->rounds.is_disturbed[k]) {
            sum += l->compute_us[k];
            n++;
        }
    if (n > 0)
        l->work.compute_us = sum / n;
    for (size_t i = l->rounds.first; i < data->n_rows; i++)
        data->rows[i].work.compute_us = l->work.compute_us;
}

/* A round that ends early leaves nothing: its arms could not be compared. */
static void iterate_measure_round(struct loop *l, unsigned round, unsigned at)
{
    const struct stp_iterate_plan *plan = l->plan;
    const bool is_planned = l->n_turns > 0;
    const size_t n = l->n_lanes;
    const size_t first = plan->rotate ? at * n / plan->rounds : 0;
    struct stp_dataset *data = &l->out->data;
    const size_t n_rows = data->n_rows, n_samples = l->out->n_samples;

    STP_DEVICE_DO(l, begin_round, at, plan->rounds, l->err);
    STP_THEN(l->status,
             stp_time_layer(&l->layer, STP_STREAM_MAIN, N_CALIBRATE,
                            &l->compute_us[round % STP_ROUNDS_MOST], l->err));
    if (l->status == STP_OK)
        iterate_set_compute(l);
    for (size_t i = 0; i < n && l->status == STP_OK; i++) {
        struct lane *lane = &l->lanes[(first + i) % n];

        if (!lane->ruled_out && stp_rounds_has(&l->rounds, lane->arm,
                                               l->what.in_place, lane->graph))
            iterate_measure_lane(l, lane, round);
        if (i + 1 < n && is_planned)
            iterate_report_turns(l, 1);
    }
    if (l->status == STP_OK) {
        iterate_report_turns(l, 1);
        return;
    }
    data->n_rows = n_rows;
    l->out->n_samples = n_samples;
}

/* ---- settings ---- */

static unsigned iterate_count_in(double us, double each_us, unsigned min,
                                 unsigned max)
{
    double n = floor(us / each_us);

    return n >= max ? max : n < min ? min : (unsigned)n;
}

/* The time of a layer's collectives.  Where a GEMM is fitted to it, it is the
 * median of a few, since a machine may be disturbed; of a recorded one, of the
 * times of its rounds. */
static double iterate_time_comm(struct loop *l)
{
    const unsigned rounds = l->plan->rounds;
    const unsigned n_recorded = rounds < MAX_FIT ? rounds : MAX_FIT;
    const unsigned n_fit = l->info.is_live ? LIVE_FIT : n_recorded;
    const unsigned n = l->work.ratio > 0 ? n_fit : 1;
    double us[MAX_FIT] = {0};
    struct stp_summary summary;

    for (unsigned i = 0; i < n && l->status == STP_OK; i++) {
        if (!l->info.is_live)
            STP_DEVICE_DO(l, begin_round, i * rounds / n, rounds, l->err);
        STP_THEN(l->status, stp_time_layer(&l->layer, STP_STREAM_COMM,
                                           N_CALIBRATE, &us[i], l->err));
    }
    if (!l->info.is_live)
        STP_DEVICE_DO(l, begin_round, 0, rounds, l->err);
    stp_summarise(us, n, &summary);
    return summary.median;
}

/* Fits the product to the time of the collectives, and returns that.  What may
 * have been disturbed is timed again, and fitted again if it differs. */
static double iterate_fit_compute(struct loop *l, double comm_us)
{
    double us = 0, again = comm_us;

    for (int i = 0; i < MAX_FITS && l->status == STP_OK; i++) {
        l->status = stp_calibrate(l->device, &l->what, l->work.ratio * comm_us,
                                  &l->work, l->err);
        if (!l->info.repeats_rounds)
            break;
        STP_DEVICE_DO(l, begin_round, 0, l->plan->rounds, l->err);
        if (l->info.is_live) /* else they were of several rounds */
            STP_THEN(l->status, stp_time_layer(&l->layer, STP_STREAM_COMM,
                                               N_CALIBRATE, &again, l->err));
        STP_THEN(l->status, stp_time_layer(&l->layer, STP_STREAM_MAIN,
                                           N_CALIBRATE, &us, l->err));
        if (fabs(us / l->work.compute_us - 1) < same_fit &&
            comm_us < far_fit * again)
            break;
        comm_us = fmin(comm_us, again);
    }
    return comm_us;
}

/* Chooses the product, and how often a turn runs what. */
static void iterate_choose_compute(struct loop *l)
{
    const struct stp_iterate_plan *plan = l->plan;
    const unsigned min =
        plan->iters < STP_ITERATE_MIN ? plan->iters : STP_ITERATE_MIN;
    double comm_us = 0, us;

    if (plan->step != NULL)
        STP_THEN(l->status,
                 stp_calibrate_step(l->device, plan->step, plan->type, l->err));
    if (l->status == STP_OK)
        comm_us = iterate_time_comm(l);
    if (l->work.ratio > 0)
        comm_us = iterate_fit_compute(l, comm_us);
    else
        STP_THEN(l->status,
                 stp_time_layer(&l->layer, STP_STREAM_MAIN, N_CALIBRATE,
                                &l->work.compute_us, l->err));
    if (l->status != STP_OK)
        return;
    us = l->work.layers * (l->work.compute_us + comm_us);
    l->iters = plan->iters;
    l->warmup = plan->warmup;
    if (plan->turn_us > 0) {
        l->iters = iterate_count_in(plan->turn_us, us * l->n_launches, min,
                                    plan->iters);
        l->warmup =
            iterate_count_in(plan->turn_us / WARM_SHARE, us, 1, plan->warmup);
    }
    l->n_alone = iterate_count_in(l->iters * us / ALONE_SHARE, comm_us,
                                  MIN_ALONE, MAX_ALONE);
}

static int iterate_coll(const struct stp_iterate_plan *plan, int mode)
{
    return mode == STP_MODE_FSDP ? (int)ncclFuncAllGather : plan->coll;
}

/* One of the products of a mode and a size. */
struct product {
    double ratio;         /* 0: none, the product is given */
    struct stp_gemm gemm; /* all 0: none, it is chosen by ratio */
};

enum { MAX_PRODUCTS = 512 };

static size_t iterate_list_products(const struct stp_device *device,
                                    const struct stp_iterate_plan *plan,
                                    int mode, uint64_t n_bytes,
                                    struct product products[MAX_PRODUCTS])
{
    size_t n = 0;

    if (plan->gemm != NULL) {
        products[n++] = (struct product){.gemm = *plan->gemm};
    } else if (plan->known) {
        /* those with which the device knows the collective */
        struct stp_device_overlap known[MAX_PRODUCTS];
        const size_t n_known = stp_device_overlaps(
            device, iterate_coll(plan, mode), known, MAX_PRODUCTS);

        for (size_t i = 0; i < n_known && i < MAX_PRODUCTS; i++)
            if (known[i].mode == mode && known[i].n_bytes == n_bytes)
                products[n++] = (struct product){.gemm = known[i].gemm};
    } else {
        for (size_t i = 0; i < plan->n_ratios; i++)
            products[n++] = (struct product){.ratio = plan->ratios[i]};
    }
    return n;
}

/* Measures the setting that l->what, l->work and l->colls describe. */
static void iterate_measure_setting(struct loop *l)
{
    const struct stp_iterate_plan *plan = l->plan;
    const struct stp_traced_step *step = l->work.step;
    const size_t first_sample = l->out->n_samples;
    bool is_repeated = false;
    unsigned round, at;

    l->layer = (struct stp_layer){
        .device = l->device,
        .work = &l->work,
        .colls = step != NULL ? step->colls : l->colls,
        .n_colls = step != NULL ? step->n_colls : l->n_colls};
    l->n_turns = plan->rounds * l->n_lanes;
    for (size_t i = 0; i < l->n_lanes; i++)
        l->lanes[i] =
            (struct lane){.arm = &plan->arms->arm[i % plan->arms->n],
                          .graph = plan->graph > 0 || i >= plan->arms->n};
    /* nobody asks for buffers that an application registers where both are */
    for (size_t i = plan->arms->n; i < l->n_lanes; i++) {
        const struct stp_arm *arm = l->lanes[i].arm;

        l->lanes[i].ruled_out = arm->kind == STP_ARM_SETUP &&
                                arm->setup.memory != STP_MEMORY_PLAIN &&
                                arm->setup.memory != STP_MEMORY_STAGE;
    }
    STP_DEVICE_DO(l, begin_round, 0, plan->rounds, l->err);
    STP_DEVICE_DO(l, select_arm, &plan->arms->arm[0], l->err);
    iterate_choose_compute(l);
    for (size_t i = 0; i < l->out->data.n_rows && !is_repeated; i++) {
        const struct stp_measurement *row = &l->out->data.rows[i];
        const struct stp_gemm *g = &row->work.gemm;

        is_repeated =
            row->work.mode == l->work.mode && row->n_bytes == l->what.n_bytes &&
            row->coll == l->colls[0].coll && row->n_ranks == l->info.n_ranks &&
            g->m == l->work.gemm.m && g->n == l->work.gemm.n &&
            g->k == l->work.gemm.k && g->type == l->work.gemm.type;
    }
    stp_rounds_begin(plan->rounds, &plan->terms, &l->info, &l->out->data,
                     &l->rounds);
    while (l->status == STP_OK && !is_repeated &&
           stp_rounds_next(&l->rounds, &round, &at))
        iterate_measure_round(l, round, at);
    if (l->status != STP_OK)
        return;
    iterate_set_compute(l);
    stp_rounds_end(&l->rounds, l->out->sample_us + first_sample,
                   &l->out->n_samples);
    if (l->n_turns > 0)
        iterate_report_turns(l, l->n_turns);
}

size_t stp_iterate_settings(const struct stp_device *device,
                            const struct stp_iterate_plan *plan)
{
    struct product products[MAX_PRODUCTS];
    size_t n = 0;

    if (plan->step != NULL)
        return 1;
    for (size_t m = 0; m < plan->n_modes; m++)
        for (size_t i = 0; i < plan->sizes->n; i++)
            n += iterate_list_products(device, plan, plan->modes[m],
                                       plan->sizes->size[i], products);
    return n;
}

static void iterate_measure_all(struct loop *l)
{
    const struct stp_iterate_plan *plan = l->plan;
    const size_t n = plan->sizes->n;
    struct product products[MAX_PRODUCTS];

    for (size_t i = 0; i < plan->n_modes * n; i++) {
        const int mode = plan->modes[i / n];
        const int coll = iterate_coll(plan, mode);
        const bool is_split =
            coll == ncclFuncAllGather || coll == ncclFuncReduceScatter;
        const uint64_t grain =
            stp_type_size(plan->type) * (is_split ? l->info.n_ranks : 1);
        const uint64_t n_bytes = plan->sizes->size[i % n];
        const size_t n_products =
            iterate_list_products(l->device, plan, mode, n_bytes, products);

        for (size_t p = 0; p < n_products && l->status == STP_OK; p++) {
            l->what = (struct stp_collective){
                .coll = coll,
                .n_bytes = (n_bytes + grain - 1) / grain * grain,
                .type = plan->type,
                .op = plan->op,
                .in_place = plan->in_place && mode != STP_MODE_FSDP};
            l->work = (struct stp_workload){.mode = mode,
                                            .compute = plan->compute,
                                            .layers = plan->layers[mode],
                                            .ratio = products[p].ratio,
                                            .gemm = products[p].gemm};
            l->work.gemm.type = plan->type;
            l->n_colls =
                stp_workload_collectives(&l->work, &l->what, l->of_layer);
            l->colls = l->of_layer;
            iterate_measure_setting(l);
        }
    }
}

enum stp_status stp_iterate_run(const struct stp_device *device,
                                const struct stp_iterate_plan *plan,
                                stp_sweep_progress progress, void *user,
                                struct stp_iterations *out,
                                struct stp_error *err)
{
    const size_t n_kinds = plan->step != NULL ? plan->step->n_kinds : 0;
    struct loop *l = stp_take(1, sizeof(*l) + (n_kinds + STP_MAX_LAYER_COLLS) *
                                                  sizeof(l->own[0]));
    enum stp_status status;

    *l = (struct loop){.device = device,
                       .plan = plan,
                       .progress = progress,
                       .user = user,
                       .out = out,
                       .err = err,
                       .n_launches = plan->graph > 0 ? plan->graph : 1};
    stp_device_get_info(device, &l->info);
    l->captures = plan->captures && l->info.captures;
    l->n_lanes = plan->arms->n * (l->captures ? 2 : 1);
    l->n_total = stp_iterate_settings(device, plan) * plan->rounds * l->n_lanes;
    stp_name_data(&l->info, &l->out->data);
    if (plan->step != NULL) {
        l->what = plan->step->kinds[0];
        l->colls = plan->step->kinds;
        l->n_colls = n_kinds;
        l->work = (struct stp_workload){
            .mode = STP_MODE_TRACE, .layers = 1, .step = plan->step};
        iterate_measure_setting(l);
    } else {
        iterate_measure_all(l);
    }
    status = l->status;
    free(l);
    return status;
}

void stp_iterations_free(struct stp_iterations *iterations)
{
    stp_dataset_free(&iterations->data);
    free(iterations->sample_us);
    *iterations = (struct stp_iterations){0};
}
