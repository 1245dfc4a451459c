#include "bench/sweep.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* An event counts as cheap if a collective takes this many times longer. */
    EVENT_SHARE = 100,
    /* Where it is not: runs without events, of which one may be disturbed. */
    N_PLAIN_RUNS = 3,
    MAX_LANES = 2 * STP_MAX_ARMS,
};

/* One arm in one place, at the size that is being measured. */
struct lane {
    const struct stp_arm *arm;
    bool in_place;
    bool ruled_out; /* did not run as itself */
    double us;      /* about what a collective takes */
    struct stp_device_run ran;
    int64_t n_wrong;
};

/* What one sweep needs all the time. */
struct sweep {
    const struct stp_device *device;
    const struct stp_sweep_plan *plan;
    struct stp_device_info info;
    struct lane lanes[MAX_LANES];
    size_t n_lanes;
    unsigned n_launches;
    double *sample_us; /* plan->iters of every launch */
    uint64_t n_checks; /* the same in all processes, as rows are not: some were
                          left out of earlier runs */
    struct stp_dataset *data;
    enum stp_status status; /* of the first failure */
    struct stp_error *err;
};

/* ---- one turn ---- */

static void sweep_note(struct sweep *s, const struct stp_collective *what,
                       unsigned n, unsigned spacing)
{
    if (spacing > 0)
        STP_DEVICE_DO(s, record, STP_STREAM_MAIN, 0, s->err);
    for (unsigned i = 1; i <= n; i++) {
        STP_DEVICE_DO(s, collective, STP_STREAM_MAIN, what, s->err);
        if (spacing > 0 && i % spacing == 0)
            STP_DEVICE_DO(s, record, STP_STREAM_MAIN, i / spacing, s->err);
    }
}

static void sweep_warm_up(struct sweep *s, const struct stp_collective *what,
                          const struct lane *lane)
{
    unsigned n = s->plan->warmup;

    if (s->plan->turn_us > 0 && n * lane->us > s->plan->turn_us / 4)
        n = (unsigned)(s->plan->turn_us / 4 / lane->us);
    if (n == 0)
        return;
    sweep_note(s, what, n, 0);
    STP_DEVICE_DO(s, synchronise, s->err);
}

/* Whether events between collectives would be much of their time. */
static bool sweep_is_short(const struct sweep *s, const struct lane *lane)
{
    return s->info.event_us > 0 && lane->us < EVENT_SHARE * s->info.event_us;
}

static unsigned sweep_iterations(const struct sweep *s, const struct lane *lane)
{
    unsigned runs = sweep_is_short(s, lane) ? N_PLAIN_RUNS + 1 : 1;
    double n = s->plan->turn_us / lane->us / runs;

    if (s->plan->turn_us == 0 || n >= s->plan->iters)
        return s->plan->iters;
    return n < 1 ? 1 : (unsigned)n;
}

/* What a collective of a run took. */
struct span {
    double host_us; /* by the host's clock, for all of them */
    double gpu_us;  /* from event to event */
};

/* Runs 'n' collectives, of every launch, with an event behind every
 * 'spacing'-th; the times between them are the samples. */
static struct span sweep_run(struct sweep *s, const struct stp_collective *what,
                             unsigned n, unsigned spacing)
{
    const struct stp_device *d = s->device;
    double n_all = (double)n * s->n_launches;
    struct span sum = {0};

    sweep_note(s, what, n, spacing);
    for (unsigned l = 0; l < s->n_launches; l++) {
        if (l == 0)
            STP_DEVICE_DO(s, synchronise, s->err);
        else
            STP_DEVICE_DO(s, replay, s->err);
        if (s->status != STP_OK)
            break;
        sum.host_us += stp_device_wall_us(d);
        sum.gpu_us += stp_device_elapsed_us(d, 0, n / spacing);
        for (unsigned i = 0; i < n / spacing; i++)
            s->sample_us[l * (n / spacing) + i] =
                stp_device_elapsed_us(d, i, i + 1);
    }
    return (struct span){sum.host_us / n_all, sum.gpu_us / n_all};
}

/* Moves the times of single collectives by what the events cost: the difference
 * of the medians.  Leaves the samples alone. */
static void sweep_subtract_events(struct stp_summary *us, double plain_median)
{
    double cost = us->median - plain_median;

    us->median -= cost;
    us->p95 -= cost;
    us->p99 -= cost;
    us->min = us->min > cost ? us->min - cost : plain_median;
}

/* Long ones: one run, an event behind each. */
static void sweep_time_long(struct sweep *s, const struct stp_collective *what,
                            unsigned n, struct stp_summary *us_ret)
{
    struct span span = sweep_run(s, what, n, 1);

    stp_summarise(s->sample_us, (size_t)n * s->n_launches, us_ret);
    us_ret->mean = span.host_us;
}

static void sweep_time_short(struct sweep *s, const struct stp_collective *what,
                             unsigned n, struct stp_summary *us_ret)
{
    double gpu_us[N_PLAIN_RUNS];
    double host_us = 0;
    struct stp_summary plain;

    for (int i = 0; i < N_PLAIN_RUNS; i++) {
        struct span span = sweep_run(s, what, n, n);

        gpu_us[i] = span.gpu_us;
        host_us += span.host_us / N_PLAIN_RUNS;
    }
    sweep_time_long(s, what, n, us_ret);
    stp_summarise(gpu_us, N_PLAIN_RUNS, &plain);
    sweep_subtract_events(us_ret, plain.median);
    us_ret->mean = host_us;
}

static void sweep_time_lane(struct sweep *s, const struct stp_collective *what,
                            const struct lane *lane,
                            struct stp_measurement *row)
{
    unsigned n = sweep_iterations(s, lane);

    row->iters = n * s->n_launches;
    if (sweep_is_short(s, lane))
        sweep_time_short(s, what, n, &row->us);
    else
        sweep_time_long(s, what, n, &row->us);
}

/* The most elements that were wrong in any of the iterations that are checked.
 */
static void sweep_check(struct sweep *s, const struct stp_collective *what,
                        struct lane *lane)
{
    if (!s->info.has_data)
        return;
    for (unsigned i = 0; i < s->plan->check && s->status == STP_OK; i++) {
        uint64_t n_wrong = 0;

        STP_DEVICE_DO(s, check, what, s->plan->seed + s->n_checks++, &n_wrong,
                      s->err);
        if ((int64_t)n_wrong > lane->n_wrong)
            lane->n_wrong = (int64_t)n_wrong;
    }
}

/* The first collective of an arm connects what it needs: a second one says how
 * long they take.  Not if that is longer than a turn. */
static void sweep_estimate(struct sweep *s, const struct stp_collective *what,
                           struct lane *lane)
{
    struct stp_device_run run;

    sweep_check(s, what, lane);
    lane->us = lane->ran.us;
    if ((s->plan->turn_us == 0 && s->info.event_us == 0) ||
        (s->plan->turn_us > 0 && lane->us > s->plan->turn_us))
        return;
    STP_DEVICE_DO(s, probe, what, &run, NULL, s->err);
    if (s->status == STP_OK)
        lane->us = run.us;
}

/* How it runs: asked once, and of a plugin every time, which may change its
 * mind. */
static void sweep_probe_arm(struct sweep *s, const struct stp_collective *what,
                            struct lane *lane, unsigned round)
{
    if (round > 0 && lane->arm->kind != STP_ARM_PLUGIN)
        return;
    STP_DEVICE_DO(s, probe, what, &lane->ran, NULL, s->err);
    lane->ruled_out = lane->ran.is_unknown ||
                      !stp_arm_ran(lane->arm, lane->ran.algo, lane->ran.proto);
    if (round == 0 && !lane->ruled_out)
        sweep_estimate(s, what, lane);
}

static void sweep_add_row(struct sweep *s, const struct stp_collective *what,
                          const struct lane *lane, struct stp_measurement *row)
{
    row->coll = what->coll;
    row->n_bytes = what->n_bytes;
    row->arm = *lane->arm;
    row->type = what->type;
    row->op = what->op;
    row->root = what->root;
    row->in_place = lane->in_place;
    row->n_ranks = s->info.n_ranks;
    row->n_nodes = s->info.n_nodes;
    row->ran_algo = lane->ran.algo;
    row->ran_proto = lane->ran.proto;
    row->ran_channels = lane->ran.n_channels;
    memcpy(row->ran_kernel, lane->ran.kernel, sizeof(row->ran_kernel));
    row->source = lane->ran.source;
    row->single_pass = lane->ran.single_pass;
    row->n_wrong = lane->n_wrong;
    if (stp_dataset_add(s->data, row) != STP_OK)
        s->status = stp_nomem(s->err);
}

static void sweep_measure_lane(struct sweep *s, struct stp_collective *what,
                               struct lane *lane, unsigned round)
{
    struct stp_measurement row = {.round = round};

    what->in_place = lane->in_place;
    STP_DEVICE_DO(s, select_arm, lane->arm, s->err);
    sweep_probe_arm(s, what, lane, round);
    if (s->status != STP_OK || lane->ruled_out)
        return;
    sweep_warm_up(s, what, lane);
    sweep_time_lane(s, what, lane, &row);
    if (s->status != STP_OK)
        return;
    lane->us = row.us.median;
    sweep_add_row(s, what, lane, &row);
}

/* ---- all of them ---- */

static void sweep_add_lanes(struct sweep *s, const struct stp_arm *arm,
                            unsigned places)
{
    for (unsigned in = 0; in < 2; in++)
        if (places & (in ? STP_IN_PLACE : STP_OUT_OF_PLACE))
            s->lanes[s->n_lanes++] =
                (struct lane){.arm = arm, .in_place = in, .n_wrong = -1};
}

static void sweep_begin_size(struct sweep *s)
{
    const struct stp_arms *arms = s->plan->arms;

    s->n_lanes = 0;
    for (size_t a = 0; a < arms->n; a++)
        sweep_add_lanes(s, &arms->arm[a],
                        arms->arm[a].kind == STP_ARM_AUTO
                            ? s->plan->auto_places
                            : s->plan->arm_places);
}

static void sweep_measure_round(struct sweep *s, struct stp_collective *what,
                                unsigned round)
{
    size_t first = s->plan->rotate ? round * s->n_lanes / s->plan->rounds : 0;

    STP_DEVICE_DO(s, begin_round, round, s->plan->rounds, s->err);
    for (size_t i = 0; i < s->n_lanes && s->status == STP_OK; i++) {
        struct lane *lane = &s->lanes[(first + i) % s->n_lanes];

        if (!lane->ruled_out)
            sweep_measure_lane(s, what, lane, round);
    }
}

static void sweep_measure_size(struct sweep *s, int coll, uint64_t n_bytes)
{
    struct stp_collective what = {.coll = coll,
                                  .n_bytes = n_bytes,
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    size_t n_rows = s->data->n_rows;

    sweep_begin_size(s);
    for (unsigned r = 0; r < s->plan->rounds; r++)
        sweep_measure_round(s, &what, r);
    if (s->status != STP_OK)
        s->data->n_rows = n_rows; /* half a size compares nothing */
}

/* Until a third of a second or so many collectives are over, which is the same
 * in every process, as times are of the slowest rank. */
static void sweep_wake_device(struct sweep *s)
{
    enum { WAKE_BYTES = 16 << 20, FEW = 2000, MANY = 20000, AT_ONCE = 100 };
    static const struct stp_arm own = {.kind = STP_ARM_AUTO};
    static const double enough_us = 3e5;
    struct stp_collective what = {.coll = s->plan->colls[0],
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    const struct stp_sizes *sizes = &s->plan->sizes[0];
    double us = 0;
    unsigned n;

    STP_DEVICE_DO(s, begin_round, 0, 1, s->err);
    STP_DEVICE_DO(s, select_arm, &own, s->err);
    for (size_t i = 0; i < sizes->n && sizes->size[i] <= WAKE_BYTES; i++)
        what.n_bytes = sizes->size[i];
    n = what.n_bytes > WAKE_BYTES / 16 ? FEW : MANY;
    for (unsigned i = 0;
         what.n_bytes > 0 && i < n && us < enough_us && s->status == STP_OK;
         i += AT_ONCE) {
        sweep_note(s, &what, AT_ONCE, 0);
        STP_DEVICE_DO(s, synchronise, s->err);
        us += stp_device_wall_us(s->device);
    }
}

static void sweep_measure_all(struct sweep *s, stp_sweep_progress progress,
                              void *user)
{
    const struct stp_sweep_plan *plan = s->plan;
    size_t total = 0;
    size_t done = 0;

    for (size_t c = 0; c < plan->n_colls; c++)
        total += plan->sizes[c].n;
    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n && s->status == STP_OK; i++) {
            sweep_measure_size(s, plan->colls[c], plan->sizes[c].size[i]);
            if (s->status == STP_OK && progress != NULL &&
                !progress(user, ++done, total))
                s->status =
                    stp_fail(s->err, STP_ERR_STOPPED,
                             "stopped after %zu of %zu sizes", done, total);
        }
}

void stp_name_data(const struct stp_device_info *info, struct stp_dataset *data)
{
    memcpy(data->machine, info->machine, sizeof(data->machine));
    memcpy(data->gpu, info->gpu, sizeof(data->gpu));
    memcpy(data->nccl, info->nccl, sizeof(data->nccl));
    memcpy(data->backend, info->backend, sizeof(data->backend));
}

enum stp_status stp_sweep_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              stp_sweep_progress progress, void *user,
                              struct stp_dataset *data, struct stp_error *err)
{
    struct sweep *s = calloc(1, sizeof(*s));
    enum stp_status status;

    if (s == NULL)
        return stp_nomem(err);
    *s = (struct sweep){.device = device,
                        .plan = plan,
                        .n_launches = plan->graph > 0 ? plan->graph : 1,
                        .data = data,
                        .err = err};
    s->sample_us =
        calloc((size_t)plan->iters * s->n_launches, sizeof(*s->sample_us));
    if (s->sample_us != NULL) {
        stp_device_get_info(device, &s->info);
        stp_name_data(&s->info, data);
        if (plan->wake && plan->graph == 0 && s->info.gpu[0] != '\0')
            sweep_wake_device(s);
        sweep_measure_all(s, progress, user);
    } else {
        s->status = stp_nomem(err);
    }
    status = s->status;
    free(s->sample_us);
    free(s);
    return status;
}
