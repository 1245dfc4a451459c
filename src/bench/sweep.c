#include "bench/sweep.h"

#include <stdlib.h>
#include <string.h>

enum {
    /* An event counts as cheap if a collective takes this many times longer. */
    EVENT_SHARE = 100,
    /* Where it is not: runs without events, of which one may be disturbed. */
    N_PLAIN_RUNS = 3,
    MAX_LANES = 2 * STP_MAX_ARMS,
    /* A turn has several, if in no more than this time: five rounds tell p95.
     */
    N_SEVERAL = 4,
    SEVERAL_US = 400 * 1000,
    MAX_SEEDS = 32, /* enough for 8 ranks: of more ranks some of an order */
    MAX_TYPES = 5,
};

/* One arm in one place, at the size that is being measured. */
struct lane {
    const struct stp_arm *arm;
    bool in_place;
    bool ruled_out; /* did not run as itself */
    double us;      /* about what a collective takes */
    struct stp_device_run ran;
    int64_t n_wrong;
    enum stp_bits bits;
};

/* The state of one sweep. */
struct sweep {
    const struct stp_device *device;
    const struct stp_sweep_plan *plan;
    struct stp_device_info info;
    struct lane lanes[MAX_LANES];
    size_t n_lanes;
    struct stp_rounds rounds; /* of a size */
    unsigned n_launches;
    double *sample_us; /* plan->iters of every launch */
    /* of AUTO at this size, out of place if it is measured there: of checked
     * results, and of those whose data round */
    uint64_t checked_bits, rounded_bits[MAX_TYPES][MAX_SEEDS];
    struct stp_dataset *data;
    enum stp_status status; /* of the first failure */
    struct stp_error *err;
};

/* ---- one turn ---- */

static void sweep_note(struct sweep *s, const struct stp_collective *what,
                       unsigned n, unsigned spacing)
{
    if (spacing > 0)
        STP_DEVICE_NOTE(s, RECORD, STP_STREAM_MAIN, .event = 0);
    for (unsigned i = 1; i <= n; i++) {
        STP_DEVICE_NOTE(s, COLLECTIVE, STP_STREAM_MAIN, .collective = *what);
        if (spacing > 0 && i % spacing == 0)
            STP_DEVICE_NOTE(s, RECORD, STP_STREAM_MAIN, .event = i / spacing);
    }
}

/* The time of a collective of a run. */
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

/* Times long collectives: one run, an event behind each. */
static void sweep_time_long(struct sweep *s, const struct stp_collective *what,
                            unsigned n, struct stp_summary *us_ret)
{
    struct span span = sweep_run(s, what, n, 1);

    stp_summarise(s->sample_us, (size_t)n * s->n_launches, us_ret);
    us_ret->mean = span.host_us;
}

/* Times short collectives: the cost of events, the difference of the medians
 * with and without them, is taken off single ones' times, not samples. */
static void sweep_time_short(struct sweep *s, const struct stp_collective *what,
                             unsigned n, struct stp_summary *us_ret)
{
    double gpu_us[N_PLAIN_RUNS];
    double host_us = 0, cost;
    struct stp_summary plain;

    for (int i = 0; i < N_PLAIN_RUNS; i++) {
        struct span span = sweep_run(s, what, n, n);

        gpu_us[i] = span.gpu_us;
        host_us += span.host_us / N_PLAIN_RUNS;
    }
    sweep_time_long(s, what, n, us_ret);
    stp_summarise(gpu_us, N_PLAIN_RUNS, &plain);
    cost = us_ret->median - plain.median;
    us_ret->median -= cost;
    us_ret->p95 -= cost;
    us_ret->p99 -= cost;
    us_ret->min = us_ret->min > cost ? us_ret->min - cost : plain.median;
    us_ret->mean = host_us;
}

/* ---- an arm ---- */

/* Checks a collective, counts its wrong elements, and compares its bits with
 * those of AUTO, which come first, unless 'auto_bits' is NULL. */
static void sweep_check_once(struct sweep *s, const struct stp_collective *what,
                             uint64_t seed, bool rounds, uint64_t *auto_bits,
                             struct lane *lane)
{
    struct stp_found found = {0};

    STP_DEVICE_DO(s, check, what, s->plan->seed + seed, rounds, &found, s->err);
    if ((int64_t)found.n_wrong > lane->n_wrong)
        lane->n_wrong = (int64_t)found.n_wrong; /* the most of any */
    if (auto_bits != NULL && lane == s->lanes)
        *auto_bits = found.bits;
    if (auto_bits != NULL && *auto_bits != found.bits)
        lane->bits = STP_BITS_OTHER;
}

/* Checks results, and compares their bits with AUTO's, of the same data. */
static void sweep_check_arm(struct sweep *s, const struct stp_collective *what,
                            struct lane *lane)
{
    const int types[MAX_TYPES] = {what->type, STP_TYPE_F32, STP_TYPE_BF16,
                                  STP_TYPE_F16, STP_TYPE_F64};
    const unsigned n_seeds = stp_pattern_n_seeds(s->info.n_ranks);
    const bool reduces = stp_coll_reduces(what->coll);
    const bool compares =
        s->plan->arms->n > 1 && reduces && what->n_bytes <= s->plan->bits_max;
    struct stp_collective sum = *what;

    lane->bits = lane->ran.bits; /* recorded */
    if (!s->info.has_data || s->plan->check == 0)
        return;
    lane->bits = compares || !reduces || lane == s->lanes ? STP_BITS_SAME
                                                          : STP_BITS_UNKNOWN;
    for (unsigned i = 0; i < s->plan->check; i++)
        sweep_check_once(s, what, i, false, i > 0 ? NULL : &s->checked_bits,
                         lane);
    sum.op = STP_OP_SUM;
    for (int t = 0; t < MAX_TYPES && compares; t++) {
        sum.type = types[t];
        if (stp_type_is_integer(sum.type) || (t > 0 && sum.type == what->type))
            continue;
        if (stp_collective_check(&sum, s->info.n_ranks, UINT64_MAX, NULL) !=
            STP_OK)
            continue; /* no whole number of elements */
        for (unsigned i = 0; i < n_seeds && i < MAX_SEEDS &&
                             lane->bits == STP_BITS_SAME && s->status == STP_OK;
             i++)
            sweep_check_once(s, &sum, i, true, &s->rounded_bits[t][i], lane);
    }
}

/* Finds how the arm runs, and about how long a collective takes: the second
 * one, as the first connects channels, unless that takes longer than a turn. */
static void sweep_probe_arm(struct sweep *s, const struct stp_collective *what,
                            struct lane *lane, unsigned round)
{
    const double turn_us = s->plan->turn_us;
    struct stp_device_run run;

    STP_DEVICE_DO(s, probe, what, &lane->ran, NULL, s->err);
    lane->ruled_out = lane->ran.is_unknown ||
                      !stp_arm_ran(lane->arm, lane->ran.algo, lane->ran.proto);
    if (round > 0 || lane->ruled_out)
        return;
    sweep_check_arm(s, what, lane);
    lane->us = lane->ran.us;
    if ((turn_us == 0 && s->info.event_us == 0) ||
        (turn_us > 0 && lane->us > turn_us))
        return;
    STP_DEVICE_DO(s, probe, what, &run, NULL, s->err);
    if (s->status == STP_OK)
        lane->us = run.us;
}

static void sweep_measure_lane(struct sweep *s, struct stp_collective *what,
                               struct lane *lane, unsigned round)
{
    const double turn_us = s->plan->turn_us;
    unsigned warmup = s->plan->warmup, n = s->plan->iters;
    struct stp_measurement row = {.coll = what->coll,
                                  .n_bytes = what->n_bytes,
                                  .round = round,
                                  .arm = *lane->arm,
                                  .type = what->type,
                                  .op = what->op,
                                  .root = what->root,
                                  .in_place = lane->in_place,
                                  .graph = s->plan->graph > 0,
                                  .n_ranks = s->info.n_ranks,
                                  .n_nodes = s->info.n_nodes};
    bool is_short;

    what->in_place = lane->in_place;
    STP_DEVICE_DO(s, select_arm, lane->arm, s->err);
    /* asked once, and a plugin every time, which may change its mind */
    if (round == 0 || lane->arm->kind == STP_ARM_PLUGIN)
        sweep_probe_arm(s, what, lane, round);
    if (s->status != STP_OK || lane->ruled_out)
        return;
    /* Whether events between collectives would be much of their time. */
    is_short =
        s->info.event_us > 0 && lane->us < EVENT_SHARE * s->info.event_us;
    if (turn_us > 0) {
        const double fits =
            turn_us / lane->us / (is_short ? N_PLAIN_RUNS + 1 : 1);

        if (warmup * lane->us > turn_us / 4)
            warmup = (unsigned)(turn_us / 4 / lane->us);
        if (fits < n) {
            unsigned least = n < N_SEVERAL ? n : N_SEVERAL;

            if (least * lane->us > SEVERAL_US)
                least = 1;
            n = fits < least ? least : (unsigned)fits;
        }
    }
    if (warmup > 0) {
        sweep_note(s, what, warmup, 0);
        STP_DEVICE_DO(s, synchronise, s->err);
    }
    row.iters = n * s->n_launches;
    if (is_short)
        sweep_time_short(s, what, n, &row.us);
    else
        sweep_time_long(s, what, n, &row.us);
    if (s->status != STP_OK)
        return;
    lane->us = row.us.median;
    row.ran_algo = lane->ran.algo;
    row.ran_proto = lane->ran.proto;
    row.ran_channels = lane->ran.n_channels;
    memcpy(row.ran_kernel, lane->ran.kernel, sizeof(row.ran_kernel));
    row.source = lane->ran.source;
    row.single_pass = lane->ran.single_pass;
    row.n_wrong = lane->n_wrong;
    row.bits = lane->bits;
    if (stp_dataset_add(s->data, &row) != STP_OK)
        s->status = stp_nomem(s->err);
}

/* ---- all of them ---- */

static void sweep_measure_size(struct sweep *s, int coll, uint64_t n_bytes)
{
    struct stp_collective what = {.coll = coll,
                                  .n_bytes = n_bytes,
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    const struct stp_arms *arms = s->plan->arms;
    const unsigned rounds = s->plan->rounds;
    size_t n_rows = s->data->n_rows;
    unsigned round, at;

    s->n_lanes = 0;
    for (size_t a = 0; a < arms->n; a++) {
        const unsigned places = arms->arm[a].kind == STP_ARM_AUTO
                                    ? s->plan->auto_places
                                    : s->plan->arm_places;

        for (unsigned in = 0; in < 2; in++)
            if (places & (in ? STP_IN_PLACE : STP_OUT_OF_PLACE))
                s->lanes[s->n_lanes++] = (struct lane){
                    .arm = &arms->arm[a], .in_place = in, .n_wrong = -1};
    }
    stp_rounds_begin(rounds, &s->plan->terms, &s->info, s->data, &s->rounds);
    while (s->status == STP_OK && stp_rounds_next(&s->rounds, &round, &at)) {
        size_t first = s->plan->rotate ? at * s->n_lanes / rounds : 0;

        STP_DEVICE_DO(s, begin_round, at, rounds, s->err);
        for (size_t i = 0; i < s->n_lanes && s->status == STP_OK; i++) {
            struct lane *lane = &s->lanes[(first + i) % s->n_lanes];

            if (!lane->ruled_out &&
                stp_rounds_has(&s->rounds, lane->arm, lane->in_place,
                               s->plan->graph > 0))
                sweep_measure_lane(s, &what, lane, round);
        }
    }
    if (s->status == STP_OK)
        stp_rounds_end(&s->rounds, NULL, NULL);
    else
        s->data->n_rows = n_rows; /* half a size compares nothing */
}

/* Runs collectives for a third of a second or up to a number that is the same
 * in every process, as times are those of the slowest rank. */
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

void stp_name_data(const struct stp_device_info *info, struct stp_dataset *data)
{
    memcpy(data->machine, info->machine, sizeof(data->machine));
    memcpy(data->gpu, info->gpu, sizeof(data->gpu));
    memcpy(data->nccl, info->nccl, sizeof(data->nccl));
    memcpy(data->backend, info->backend, sizeof(data->backend));
    memcpy(data->tuner, info->tuner, sizeof(data->tuner));
}

enum stp_status stp_sweep_run(const struct stp_device *device,
                              const struct stp_sweep_plan *plan,
                              stp_sweep_progress progress, void *user,
                              struct stp_dataset *data, struct stp_error *err)
{
    struct sweep *s = calloc(1, sizeof(*s));
    size_t total = 0, done = 0;
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
        for (size_t c = 0; c < plan->n_colls; c++)
            total += plan->sizes[c].n;
        for (size_t c = 0; c < plan->n_colls; c++)
            for (size_t i = 0; i < plan->sizes[c].n && s->status == STP_OK;
                 i++) {
                sweep_measure_size(s, plan->colls[c], plan->sizes[c].size[i]);
                if (s->status == STP_OK && progress != NULL &&
                    !progress(user, ++done, total))
                    s->status =
                        stp_fail(err, STP_ERR_STOPPED,
                                 "stopped after %zu of %zu sizes", done, total);
            }
    } else {
        s->status = stp_nomem(err);
    }
    status = s->status;
    free(s->sample_us);
    free(s);
    return status;
}
