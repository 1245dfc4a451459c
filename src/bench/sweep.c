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
    struct stp_error *err;
};

/* ---- one turn ---- */

static enum stp_status sweep_note(struct sweep *s,
                                  const struct stp_collective *what, unsigned n,
                                  unsigned spacing)
{
    const struct stp_device *d = s->device;
    enum stp_status status = STP_OK;

    if (spacing > 0)
        status = stp_device_record(d, STP_STREAM_MAIN, 0, s->err);
    for (unsigned i = 1; i <= n && status == STP_OK; i++) {
        status = stp_device_collective(d, STP_STREAM_MAIN, what, s->err);
        if (status == STP_OK && spacing > 0 && i % spacing == 0)
            status = stp_device_record(d, STP_STREAM_MAIN, i / spacing, s->err);
    }
    return status;
}

static enum stp_status sweep_warm_up(struct sweep *s,
                                     const struct stp_collective *what,
                                     const struct lane *lane)
{
    const struct stp_device *d = s->device;
    unsigned n = s->plan->warmup;
    enum stp_status status;

    if (s->plan->turn_us > 0 && n * lane->us > s->plan->turn_us / 4)
        n = (unsigned)(s->plan->turn_us / 4 / lane->us);
    if (n == 0)
        return STP_OK;
    status = sweep_note(s, what, n, 0);
    return status == STP_OK ? stp_device_synchronise(d, s->err) : status;
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
static enum stp_status sweep_run(struct sweep *s,
                                 const struct stp_collective *what, unsigned n,
                                 unsigned spacing, struct span *span_ret)
{
    const struct stp_device *d = s->device;
    enum stp_status status = sweep_note(s, what, n, spacing);
    double n_all = (double)n * s->n_launches;
    struct span sum = {0};

    for (unsigned l = 0; l < s->n_launches && status == STP_OK; l++) {
        status = l == 0 ? stp_device_synchronise(d, s->err)
                        : stp_device_replay(d, s->err);
        if (status != STP_OK)
            return status;
        sum.host_us += stp_device_wall_us(d);
        sum.gpu_us += stp_device_elapsed_us(d, 0, n / spacing);
        for (unsigned i = 0; i < n / spacing; i++)
            s->sample_us[l * (n / spacing) + i] =
                stp_device_elapsed_us(d, i, i + 1);
    }
    span_ret->host_us = sum.host_us / n_all;
    span_ret->gpu_us = sum.gpu_us / n_all;
    return status;
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
static enum stp_status sweep_time_long(struct sweep *s,
                                       const struct stp_collective *what,
                                       unsigned n, struct stp_summary *us_ret)
{
    struct span span;
    enum stp_status status = sweep_run(s, what, n, 1, &span);

    if (status != STP_OK)
        return status;
    stp_summarise(s->sample_us, (size_t)n * s->n_launches, us_ret);
    us_ret->mean = span.host_us;
    return STP_OK;
}

static enum stp_status sweep_time_short(struct sweep *s,
                                        const struct stp_collective *what,
                                        unsigned n, struct stp_summary *us_ret)
{
    double gpu_us[N_PLAIN_RUNS];
    double host_us = 0;
    struct stp_summary plain;
    struct span span;
    enum stp_status status = STP_OK;

    for (int i = 0; i < N_PLAIN_RUNS && status == STP_OK; i++) {
        status = sweep_run(s, what, n, n, &span);
        gpu_us[i] = span.gpu_us;
        host_us += span.host_us / N_PLAIN_RUNS;
    }
    if (status == STP_OK)
        status = sweep_time_long(s, what, n, us_ret);
    if (status != STP_OK)
        return status;
    stp_summarise(gpu_us, N_PLAIN_RUNS, &plain);
    sweep_subtract_events(us_ret, plain.median);
    us_ret->mean = host_us;
    return STP_OK;
}

static enum stp_status sweep_time_lane(struct sweep *s,
                                       const struct stp_collective *what,
                                       const struct lane *lane,
                                       struct stp_measurement *row)
{
    unsigned n = sweep_iterations(s, lane);

    row->iters = n * s->n_launches;
    return sweep_is_short(s, lane) ? sweep_time_short(s, what, n, &row->us)
                                   : sweep_time_long(s, what, n, &row->us);
}

/* The first collective of an arm connects what it needs: a second one says how
 * long they take.  Not if that is longer than a turn. */
static enum stp_status sweep_estimate(struct sweep *s,
                                      const struct stp_collective *what,
                                      struct lane *lane)
{
    const struct stp_device *d = s->device;
    struct stp_device_run run;
    uint64_t n_wrong = 0;
    enum stp_status status = STP_OK;

    if (s->plan->check && s->info.has_data) {
        status = stp_device_check(d, what, s->plan->seed + s->n_checks++,
                                  &n_wrong, s->err);
        lane->n_wrong = (int64_t)n_wrong;
    }
    lane->us = lane->ran.us;
    if (status != STP_OK || (s->plan->turn_us == 0 && s->info.event_us == 0) ||
        (s->plan->turn_us > 0 && lane->us > s->plan->turn_us))
        return status;
    status = stp_device_probe(d, what, &run, NULL, s->err);
    lane->us = run.us;
    return status;
}

/* How it runs: asked once, and of a plugin every time, which may change its
 * mind. */
static enum stp_status sweep_probe_arm(struct sweep *s,
                                       const struct stp_collective *what,
                                       struct lane *lane, unsigned round)
{
    const struct stp_device *d = s->device;
    enum stp_status status;

    if (round > 0 && lane->arm->kind != STP_ARM_PLUGIN)
        return STP_OK;
    status = stp_device_probe(d, what, &lane->ran, NULL, s->err);
    if (status != STP_OK)
        return status;
    lane->ruled_out = !stp_arm_ran(lane->arm, lane->ran.algo, lane->ran.proto);
    return round > 0 || lane->ruled_out ? STP_OK
                                        : sweep_estimate(s, what, lane);
}

static enum stp_status sweep_add_row(struct sweep *s,
                                     const struct stp_collective *what,
                                     const struct lane *lane,
                                     struct stp_measurement *row)
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
    row->source = lane->ran.source;
    row->n_wrong = lane->n_wrong;
    if (stp_dataset_add(s->data, row) != STP_OK)
        return stp_nomem(s->err);
    return STP_OK;
}

static enum stp_status sweep_measure_lane(struct sweep *s,
                                          struct stp_collective *what,
                                          struct lane *lane, unsigned round)
{
    const struct stp_device *d = s->device;
    struct stp_measurement row = {.round = round};
    enum stp_status status = stp_device_select_arm(d, lane->arm, s->err);

    what->in_place = lane->in_place;
    if (status == STP_OK)
        status = sweep_probe_arm(s, what, lane, round);
    if (status != STP_OK || lane->ruled_out)
        return status;
    status = sweep_warm_up(s, what, lane);
    if (status == STP_OK)
        status = sweep_time_lane(s, what, lane, &row);
    if (status != STP_OK)
        return status;
    lane->us = row.us.median;
    return sweep_add_row(s, what, lane, &row);
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

static enum stp_status sweep_measure_round(struct sweep *s,
                                           struct stp_collective *what,
                                           unsigned round)
{
    const struct stp_device *d = s->device;
    size_t first = s->plan->rotate ? round * s->n_lanes / s->plan->rounds : 0;
    enum stp_status status =
        stp_device_begin_round(d, round, s->plan->rounds, s->err);

    for (size_t i = 0; i < s->n_lanes && status == STP_OK; i++) {
        struct lane *lane = &s->lanes[(first + i) % s->n_lanes];

        if (!lane->ruled_out)
            status = sweep_measure_lane(s, what, lane, round);
    }
    return status;
}

static enum stp_status sweep_measure_size(struct sweep *s, int coll,
                                          uint64_t n_bytes)
{
    struct stp_collective what = {.coll = coll,
                                  .n_bytes = n_bytes,
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    size_t n_rows = s->data->n_rows;
    enum stp_status status = STP_OK;

    sweep_begin_size(s);
    for (unsigned r = 0; r < s->plan->rounds && status == STP_OK; r++)
        status = sweep_measure_round(s, &what, r);
    if (status != STP_OK)
        s->data->n_rows = n_rows; /* half a size compares nothing */
    return status;
}

/* As many collectives in every process, whatever they take in one. */
static enum stp_status sweep_wake_device(struct sweep *s)
{
    enum { WAKE_BYTES = 16 << 20, FEW = 2000, MANY = 20000, AT_ONCE = 100 };
    static const struct stp_arm own = {.kind = STP_ARM_AUTO};
    const struct stp_device *d = s->device;
    struct stp_collective what = {.coll = s->plan->colls[0],
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    const struct stp_sizes *sizes = &s->plan->sizes[0];
    enum stp_status status = stp_device_begin_round(d, 0, 1, s->err);
    unsigned n;

    if (status == STP_OK)
        status = stp_device_select_arm(d, &own, s->err);

    for (size_t i = 0; i < sizes->n && sizes->size[i] <= WAKE_BYTES; i++)
        what.n_bytes = sizes->size[i];
    n = what.n_bytes > WAKE_BYTES / 16 ? FEW : MANY;
    for (unsigned i = 0; what.n_bytes > 0 && i < n && status == STP_OK;
         i += AT_ONCE) {
        status = sweep_note(s, &what, AT_ONCE, 0);
        if (status == STP_OK)
            status = stp_device_synchronise(d, s->err);
    }
    return status;
}

static enum stp_status
sweep_measure_all(struct sweep *s, stp_sweep_progress progress, void *user)
{
    size_t total = 0;
    size_t done = 0;

    for (size_t c = 0; c < s->plan->n_colls; c++)
        total += s->plan->sizes[c].n;
    for (size_t c = 0; c < s->plan->n_colls; c++)
        for (size_t i = 0; i < s->plan->sizes[c].n; i++) {
            enum stp_status status = sweep_measure_size(
                s, s->plan->colls[c], s->plan->sizes[c].size[i]);

            if (status != STP_OK)
                return status;
            if (progress != NULL && !progress(user, ++done, total))
                return stp_fail(s->err, STP_ERR_STOPPED,
                                "stopped after %zu of %zu sizes", done, total);
        }
    return STP_OK;
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
    enum stp_status status = STP_ERR_NOMEM;

    if (s == NULL)
        return stp_fail(err, status, "out of memory");
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
        status = plan->wake && plan->graph == 0 && s->info.gpu[0] != '\0'
                     ? sweep_wake_device(s)
                     : STP_OK;
        if (status == STP_OK)
            status = sweep_measure_all(s, progress, user);
    } else
        stp_fail(err, status, "out of memory");
    free(s->sample_us);
    free(s);
    return status;
}
