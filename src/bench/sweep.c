#include "bench/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "launch/take.h"

enum {
    /* An event counts as cheap if a collective takes this many times longer. */
    EVENT_SHARE = 100,
    /* Where it is not: runs without events, of which one may be disturbed. */
    N_PLAIN_RUNS = 3,
    MAX_LANES = 2 * STP_MAX_ARMS,
    /* A turn has several, if they take no longer: five rounds tell p95. */
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

/* One size of a collective, and its rounds so far. */
struct cell {
    struct stp_collective what;
    struct lane lanes[MAX_LANES];
    size_t n_lanes;
    struct stp_rounds rounds;
    struct stp_dataset data;
    bool is_complete;
};

struct sweep {
    const struct stp_device *device;
    const struct stp_sweep_plan *plan;
    struct stp_device_info info;
    struct cell *cell; /* that is being measured */
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
 * 'spacing'-th; the times between them are the samples.  'again': what ran
 * last, which a graph has. */
static struct span sweep_run(struct sweep *s, const struct stp_collective *what,
                             unsigned n, unsigned spacing, bool again)
{
    const struct stp_device *d = s->device;
    double n_all = (double)n * s->n_launches;
    struct span sum = {0};

    if (!again)
        sweep_note(s, what, n, spacing);
    for (unsigned l = 0; l < s->n_launches; l++) {
        if (l == 0 && !again)
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

/* Times collectives, an event behind each.  Of short ones the cost of events,
 * the difference of the medians with and without them, is taken off single
 * ones' times, not samples. */
static void sweep_time(struct sweep *s, const struct stp_collective *what,
                       unsigned n, bool is_short, struct stp_summary *us_ret)
{
    double gpu_us[N_PLAIN_RUNS];
    double host_us = 0, cost;
    struct stp_summary plain;
    struct span span;

    for (int i = 0; i < N_PLAIN_RUNS && is_short; i++) {
        span = sweep_run(s, what, n, n, i > 0 && s->plan->graph > 0);
        gpu_us[i] = span.gpu_us;
        host_us += span.host_us / N_PLAIN_RUNS;
    }
    span = sweep_run(s, what, n, 1, false);
    stp_summarise(s->sample_us, (size_t)n * s->n_launches, us_ret);
    us_ret->mean = is_short ? host_us : span.host_us;
    if (!is_short)
        return;
    stp_summarise(gpu_us, N_PLAIN_RUNS, &plain);
    cost = us_ret->median - plain.median;
    us_ret->median -= cost;
    us_ret->p95 -= cost;
    us_ret->p99 -= cost;
    us_ret->min = us_ret->min > cost ? us_ret->min - cost : plain.median;
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
    if (auto_bits != NULL && lane == s->cell->lanes)
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
    lane->bits = compares || !reduces || lane == s->cell->lanes
                     ? STP_BITS_SAME
                     : STP_BITS_UNKNOWN;
    for (unsigned i = 0; i < s->plan->check; i++)
        sweep_check_once(s, what, i, false, i > 0 ? NULL : &s->checked_bits,
                         lane);
    sum.op = STP_OP_SUM;
    for (int t = 0; t < MAX_TYPES && compares; t++) {
        sum.type = types[t];
        if (stp_type_is_integer(sum.type) ||
            (t > 0 && sum.type == what->type) ||
            stp_collective_check(&sum, s->info.n_ranks, UINT64_MAX, NULL) !=
                STP_OK) /* no whole number of elements */
            continue;
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

static void sweep_measure_lane(struct sweep *s, struct lane *lane,
                               unsigned round)
{
    struct stp_collective *what = &s->cell->what;
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
    sweep_time(s, what, n, is_short, &row.us);
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
    if (stp_dataset_add(&s->cell->data, &row) != STP_OK)
        s->status = stp_nomem(s->err);
}

/* ---- all of them ---- */

static void sweep_begin_cell(struct sweep *s, size_t c, size_t size)
{
    const struct stp_sweep_plan *plan = s->plan;
    struct cell *cell = s->cell;

    cell->what = (struct stp_collective){.coll = plan->colls[c],
                                         .n_bytes = plan->sizes[c].size[size],
                                         .type = plan->type,
                                         .op = plan->op,
                                         .root = plan->root};
    cell->n_lanes = 0;
    for (size_t a = 0; a < plan->arms->n; a++) {
        const struct stp_arm *arm = &plan->arms->arm[a];
        const unsigned places =
            arm->kind == STP_ARM_AUTO ? plan->auto_places : plan->arm_places;

        for (unsigned in = 0; in < 2; in++)
            if (places & (in ? STP_IN_PLACE : STP_OUT_OF_PLACE))
                cell->lanes[cell->n_lanes++] =
                    (struct lane){.arm = arm, .in_place = in, .n_wrong = -1};
    }
    cell->is_complete = false;
    stp_rounds_begin(plan->rounds, &plan->terms, &s->info, &cell->data,
                     &cell->rounds);
}

/* Runs the next round of a cell, or all that are left, and moves its rows to
 * the others once it is complete: half a size compares nothing. */
static void sweep_measure_cell(struct sweep *s, bool all)
{
    const unsigned rounds = s->plan->rounds;
    struct cell *cell = s->cell;
    const size_t n_rows = s->data->n_rows;
    unsigned round, at;

    while (s->status == STP_OK && stp_rounds_next(&cell->rounds, &round, &at)) {
        size_t first = s->plan->rotate ? at * cell->n_lanes / rounds : 0;

        STP_DEVICE_DO(s, begin_round, at, rounds, s->err);
        for (size_t i = 0; i < cell->n_lanes && s->status == STP_OK; i++) {
            struct lane *lane = &cell->lanes[(first + i) % cell->n_lanes];

            if (!lane->ruled_out &&
                stp_rounds_has(&cell->rounds, lane->arm, lane->in_place,
                               s->plan->graph > 0))
                sweep_measure_lane(s, lane, round);
        }
        if (!all)
            return;
    }
    if (s->status != STP_OK)
        return;
    stp_rounds_end(&cell->rounds, NULL, NULL);
    for (size_t i = 0; i < cell->data.n_rows && s->status == STP_OK; i++)
        if (stp_dataset_add(s->data, &cell->data.rows[i]) != STP_OK) {
            s->data->n_rows = n_rows;
            s->status = stp_nomem(s->err);
        }
    s->data->n_again += cell->data.n_again;
    s->data->n_disturbed += cell->data.n_disturbed;
    stp_dataset_free(&cell->data);
    cell->is_complete = s->status == STP_OK;
}

/* Keeps of all sizes the first 'n' rounds, which all of them have. */
static void sweep_keep_rounds(struct sweep *s, const struct cell *cells,
                              size_t n_cells, size_t first, unsigned n)
{
    struct stp_dataset *data = s->data;
    bool has_room = true;

    for (size_t c = 0; c < n_cells; c++)
        for (size_t i = 0; i < cells[c].data.n_rows && has_room; i++)
            has_room = stp_dataset_add(data, &cells[c].data.rows[i]) == STP_OK;
    for (size_t i = first; i < data->n_rows; i++)
        if (data->rows[i].round < n)
            data->rows[first++] = data->rows[i];
    data->n_rows = first;
}

/* Runs collectives for a third of a second or up to a number that is the same
 * in every process, as times are those of the slowest rank. */
static void sweep_wake_device(struct sweep *s)
{
    enum { WAKE_BYTES = 16 << 20, FEW = 2000, MANY = 20000, AT_ONCE = 100 };
    static const double enough_us = 3e5;
    struct stp_collective what = {.coll = s->plan->colls[0],
                                  .type = s->plan->type,
                                  .op = s->plan->op,
                                  .root = s->plan->root};
    const struct stp_sizes *sizes = &s->plan->sizes[0];
    double us = 0;
    unsigned n;

    STP_DEVICE_DO(s, begin_round, 0, 1, s->err);
    STP_DEVICE_DO(s, select_arm, &s->plan->arms->arm[0], s->err);
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
    const unsigned n_passes = plan->spread ? plan->rounds : 1;
    struct sweep s = {.device = device,
                      .plan = plan,
                      .n_launches = plan->graph > 0 ? plan->graph : 1,
                      .data = data,
                      .err = err};
    const size_t first = data->n_rows;
    size_t n_sizes = 0, n_cells, n_complete = 0, n_done = 0;
    unsigned n_rounds = 0;
    struct cell *cells;

    for (size_t c = 0; c < plan->n_colls; c++)
        n_sizes += plan->sizes[c].n;
    n_cells = plan->spread && n_sizes > 0 ? n_sizes : 1;
    STP_TAKE(cells, n_cells);
    STP_TAKE(s.sample_us, (size_t)plan->iters * s.n_launches);
    stp_device_get_info(device, &s.info);
    stp_name_data(&s.info, data);
    if (plan->wake && plan->graph == 0 && s.info.gpu[0] != '\0')
        sweep_wake_device(&s);
    for (unsigned pass = 0; pass < n_passes; pass++) {
        s.cell = cells;
        for (size_t c = 0; c < plan->n_colls; c++)
            for (size_t i = 0; i < plan->sizes[c].n && s.status == STP_OK;
                 i++) {
                if (pass == 0)
                    sweep_begin_cell(&s, c, i);
                if (!s.cell->is_complete) {
                    sweep_measure_cell(&s, pass + 1 == n_passes);
                    n_complete += s.cell->is_complete;
                }
                if (s.status == STP_OK && progress != NULL &&
                    !progress(user, ++n_done, n_sizes * n_passes))
                    s.status = stp_fail(err, STP_ERR_STOPPED,
                                        "stopped after %zu of %zu %ssizes",
                                        plan->spread ? n_done : n_complete,
                                        n_sizes * n_passes,
                                        plan->spread ? "rounds of " : "");
                s.cell += plan->spread;
            }
        n_rounds += s.status == STP_OK;
    }
    if (plan->spread && s.status != STP_OK)
        sweep_keep_rounds(&s, cells, n_cells, first, n_rounds);
    for (size_t i = 0; i < n_cells; i++)
        stp_dataset_free(&cells[i].data);
    free(cells);
    free(s.sample_us);
    return s.status;
}
