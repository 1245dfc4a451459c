/* record_run.c - what `steptune record` asks and measures */
#include <stdlib.h>

#include "cli/record/record.h"
#include "launch/stop.h"

/* ---- what is recorded unless somebody asks otherwise: on 4 GPUs about a
 * minute of it ---- */

enum {
    KiB = 1 << 10,
    MiB = 1 << 20,
    OVERLAP_LAYERS = 8,
    OVERLAP_WARMUP = 3,
    OVERLAP_ITERS = 15,
    N_TYPES = 3,
};

static const uint64_t max_size = (uint64_t)1 << 30;
static const uint64_t first_sweep_size = 16;
static const uint64_t last_sweep_size = 256 * MiB;
static const uint64_t overlap_sizes[] = {4 * MiB, 16 * MiB, 64 * MiB};
static const double overlap_ratios[] = {0.5, 1};
static const int overlap_modes[] = {STP_MODE_OVERLAP};
static const char overlap_arms[] =
    "auto,ring/ll128,ring/ll128/16,ring/simple,ring/simple/16,tree/simple";

/* Types whose choices are recorded: from size to size by that power of -f. */
static const struct {
    int type;
    int steps;
    bool between; /* with a size between each two */
} choice_types[N_TYPES] = {
    {STP_TYPE_BF16, 1, true},
    {STP_TYPE_F32, 2, false},
    {STP_TYPE_I8, 2, false},
};

/* ---- what to record ---- */

struct recording {
    const struct stp_record_options *o;
    const struct stp_record_arms *arms;
    const struct stp_world *world;
    const struct stp_device *device;
    struct stp_machine_record *record;
    struct stp_choices_part parts[N_TYPES * NCCL_NUM_TUNED_FUNCS];
    size_t n_parts;
    struct stp_measure_plan window;
    struct stp_measure_plan sweep;
    struct stp_sizes overlap_sizes;
    struct stp_iterate_plan overlap; /* of no sizes: none */
    size_t n_done;                   /* steps of a progress bar */
    size_t n_total;
    struct stp_error *err;
};

static uint64_t record_first_size(const struct stp_record_options *o,
                                  uint64_t otherwise)
{
    return o->measure.begin ? o->measure.begin : otherwise;
}

static uint64_t record_last_size(const struct stp_record_options *o,
                                 uint64_t otherwise)
{
    return o->measure.end ? o->measure.end : otherwise;
}

/* From size to size by 'steps' steps of -f. */
static double record_factor(const struct stp_record_options *o, int steps)
{
    double f = o->measure.factor > 0 ? o->measure.factor : 2;

    return steps == 1 ? f : f * f;
}

static enum stp_status record_add_between(struct stp_sizes *sizes,
                                          uint64_t grain, struct stp_error *err)
{
    struct stp_sizes *copy = malloc(sizeof(*copy));
    enum stp_status status = STP_OK;

    if (copy == NULL)
        return stp_nomem(err);
    *copy = *sizes;
    for (size_t i = 1; i < copy->n && status == STP_OK; i++)
        status = stp_sizes_add(
            sizes, stp_size_between(copy->size[i - 1], copy->size[i]), grain,
            err);
    free(copy);
    return status;
}

static enum stp_status record_plan_choices(struct recording *r)
{
    enum stp_status status = STP_OK;

    for (size_t c = 0; c < r->o->measure.n_colls; c++)
        for (int t = 0; t < N_TYPES && status == STP_OK; t++) {
            struct stp_choices_part *part = &r->parts[r->n_parts++];
            int type = choice_types[t].type;
            uint64_t grain =
                stp_size_grain(r->device, r->o->measure.colls[c], type);

            part->coll = r->o->measure.colls[c];
            part->type = type;
            status = stp_sizes_add_geometric(
                &part->sizes, record_first_size(r->o, 8),
                record_last_size(r->o, max_size),
                record_factor(r->o, choice_types[t].steps), grain, r->err);
            if (status == STP_OK && choice_types[t].between)
                status = record_add_between(&part->sizes, grain, r->err);
            r->n_total += part->sizes.n;
        }
    return status;
}

static void record_count_steps(struct recording *r,
                               const struct stp_sweep_plan *plan)
{
    for (size_t c = 0; c < plan->n_colls; c++)
        r->n_total += plan->sizes[c].n;
}

/* A recorded machine that knows no sizes of a collective has no times of it
 * either, or none of rounds. */
static void record_drop_unknown(struct recording *r)
{
    const struct stp_device *d = r->device;
    struct stp_sweep_plan *plan = &r->window.plan;
    bool given = stp_measure_has_sizes(&r->o->measure);

    for (size_t c = 0; c < plan->n_colls && !given; c++)
        if (!r->record->info.is_live &&
            d->ops->sizes(d->self, plan->colls[c], NULL, 0) == 0)
            r->window.sizes[c].n = 0;
}

static enum stp_status record_plan_window(struct recording *r)
{
    enum stp_status status = stp_plan_measurements(
        r->device, &r->o->measure, &r->arms->window, &r->window, r->err);

    record_drop_unknown(r);
    record_count_steps(r, &r->window.plan);
    return status;
}

static enum stp_status record_plan_sweep(struct recording *r)
{
    struct stp_measure_options m = r->o->measure;
    enum stp_status status;

    m.begin = record_first_size(r->o, first_sweep_size);
    m.end = record_last_size(r->o, last_sweep_size);
    m.factor = record_factor(r->o, 2);
    m.step = 0;
    m.rounds = 1;
    status = stp_plan_measurements(r->device, &m, &r->arms->sweep, &r->sweep,
                                   r->err);
    record_count_steps(r, &r->sweep.plan);
    return status;
}

static bool record_has_coll(const struct stp_record_options *o, int coll)
{
    for (size_t c = 0; c < o->measure.n_colls; c++)
        if (o->measure.colls[c] == coll)
            return true;
    return false;
}

static enum stp_status record_plan_overlap(struct recording *r)
{
    const size_t n_sizes = sizeof(overlap_sizes) / sizeof(overlap_sizes[0]);
    const size_t n_ratios = sizeof(overlap_ratios) / sizeof(overlap_ratios[0]);
    enum stp_status status = STP_OK;

    r->overlap = (struct stp_iterate_plan){
        .modes = overlap_modes,
        .n_modes = 1,
        .coll = ncclFuncAllReduce,
        .sizes = &r->overlap_sizes,
        .ratios = overlap_ratios,
        .n_ratios = n_ratios,
        .arms = &r->arms->overlap,
        .layers = {[STP_MODE_OVERLAP] = OVERLAP_LAYERS},
        .rounds = r->window.plan.rounds,
        .warmup = OVERLAP_WARMUP,
        .iters = OVERLAP_ITERS,
        .type = STP_TYPE_BF16,
        .op = STP_OP_SUM,
        .in_place = true,
        .rotate = r->record->info.is_live,
    };
    if (r->o->no_overlap || r->record->info.models_overlap ||
        !record_has_coll(r->o, ncclFuncAllReduce))
        return STP_OK;
    for (size_t i = 0; i < n_sizes && status == STP_OK; i++)
        if (overlap_sizes[i] >= record_first_size(r->o, 0) &&
            overlap_sizes[i] <= record_last_size(r->o, max_size))
            status = stp_sizes_add(
                &r->overlap_sizes, overlap_sizes[i],
                stp_size_grain(r->device, ncclFuncAllReduce, STP_TYPE_BF16),
                r->err);
    r->n_total +=
        r->overlap_sizes.n * n_ratios * r->overlap.rounds * r->overlap.arms->n;
    return status;
}

static enum stp_status record_plan_all(struct recording *r)
{
    enum stp_status status = record_plan_choices(r);

    if (status == STP_OK)
        status = record_plan_window(r);
    if (status == STP_OK)
        status = record_plan_sweep(r);
    return status == STP_OK ? record_plan_overlap(r) : status;
}

/* ---- recording ---- */

static bool record_progress(void *user, size_t done, size_t total)
{
    static char steps[] = "steps";
    struct recording *r = user;
    bool stop = true;

    (void)done;
    (void)total;
    r->n_done++;
    if (r->world->rank == 0)
        stp_progress(steps, r->n_done, r->n_total);
    return stp_world_any(r->world, stp_stop_wished(), &stop, r->err) ==
               STP_OK &&
           !stop;
}

static enum stp_status record_measure_all(struct recording *r)
{
    struct stp_machine_record *to = r->record;
    enum stp_status status =
        stp_choices_record(r->device, r->parts, r->n_parts, record_progress, r,
                           &to->choices, r->err);

    if (status == STP_OK)
        status = stp_sweep_run(r->device, &r->window.plan, record_progress, r,
                               &to->window, r->err);
    if (status == STP_OK)
        status = stp_sweep_run(r->device, &r->sweep.plan, record_progress, r,
                               &to->sweep, r->err);
    if (status == STP_OK)
        status = stp_iterate_run(r->device, &r->overlap, record_progress, r,
                                 &to->overlap, r->err);
    return status;
}

enum stp_status stp_record_device(const struct stp_record_options *o,
                                  const struct stp_record_arms *arms,
                                  const struct stp_world *world,
                                  const struct stp_device *device,
                                  struct stp_machine_record *record,
                                  struct stp_error *err)
{
    struct recording *r = calloc(1, sizeof(*r));
    enum stp_status status;

    if (r == NULL)
        return stp_nomem(err);
    r->o = o;
    r->arms = arms;
    r->world = world;
    r->device = device;
    r->record = record;
    r->err = err;
    device->ops->info(device->self, &record->info);
    status = record_plan_all(r);
    if (status == STP_OK)
        status = record_measure_all(r);
    free(r);
    return status;
}

enum stp_status stp_record_make_arms(const struct stp_record_options *o,
                                     struct stp_record_arms *arms_ret,
                                     struct stp_error *err)
{
    enum stp_status status = stp_arms_parse("all", &arms_ret->window, err);

    arms_ret->sweep = arms_ret->window;
    if (status == STP_OK)
        status = stp_arms_add_channels(&arms_ret->sweep, o->channels, err);
    if (status == STP_OK)
        status = stp_arms_parse(overlap_arms, &arms_ret->overlap, err);
    return status;
}
