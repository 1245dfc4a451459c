/* sweep.c - collectives alone: a grid of sizes, and more sizes and rounds where
 * they decide something */
#include "analyse/refine.h"
#include "core/names.h"
#include "store/clock.h"
#include "tune/stages.h"

enum {
    GRID_FACTOR = 4,
    GRID_ROUNDS = 3, /* on a machine of unlimited rounds */
    LIVE_ROUNDS = 8, /* where they decide something */
    MAX_WAVES = 16,  /* of refinement; each halves the gap between sizes */
};

struct sweep {
    const struct stp_tune_pass *pass;
    struct stp_dataset *data;
    struct stp_measure_plan plan; /* of the grid */
    struct stp_sizes one;         /* of the measurement in progress */
    unsigned rounds;              /* of the grid */
    struct stp_error *err;
};

/* ---- one size ---- */

/* How many rounds of AUTO the data have. */
static unsigned sweep_count_rounds(const struct sweep *s, int coll,
                                   uint64_t n_bytes)
{
    unsigned n = 0;

    for (size_t i = 0; i < s->data->n_rows; i++) {
        const struct stp_measurement *m = &s->data->rows[i];

        if (m->coll == coll && m->n_bytes == n_bytes &&
            m->n_ranks == s->pass->info.n_ranks &&
            m->arm.kind == STP_ARM_AUTO && m->round >= n)
            n = m->round + 1;
    }
    return n;
}

/* Measures the rounds that are missing of 'rounds', numbered on. */
static enum stp_status sweep_measure(struct sweep *s, int coll,
                                     uint64_t n_bytes,
                                     const struct stp_arms *arms,
                                     unsigned rounds)
{
    const unsigned have = sweep_count_rounds(s, coll, n_bytes);
    const size_t first = s->data->n_rows;
    struct stp_sweep_plan plan = s->plan.plan;
    enum stp_status status;

    if (have >= rounds)
        return STP_OK;
    s->one.n = 1;
    s->one.size[0] = n_bytes;
    plan.colls = &coll;
    plan.n_colls = 1;
    plan.sizes = &s->one;
    plan.arms = arms;
    plan.rounds = rounds - have;
    status = stp_sweep_run(s->pass->device, &plan, NULL, NULL, s->data, s->err);
    s->plan.plan.wake = false;
    for (size_t i = first; i < s->data->n_rows; i++)
        s->data->rows[i].round += have;
    return status == STP_OK ? stp_tune_state_save(s->pass->state, false, s->err)
                            : status;
}

/* ---- the grid ---- */

/* A recorded machine has times of its own sizes only: there is nothing to
 * measure between them. */
static bool sweep_has_own_sizes(const struct stp_tune_pass *pass)
{
    const struct stp_device *device = pass->device;

    if (stp_measure_has_sizes(&pass->job->plan->measure))
        return false;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (stp_device_sizes(device, c, NULL, 0) > 0)
            return true;
    return false;
}

/* Adds the last size: rules do not reach beyond it. */
static enum stp_status sweep_add_ends(struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->plan.plan;
    enum stp_status status = STP_OK;

    for (size_t c = 0; c < plan->n_colls && status == STP_OK; c++)
        status = stp_sizes_add(
            &s->plan.sizes[c], stp_max_bytes(&s->pass->job->plan->measure),
            stp_size_grain(s->pass->device, plan->colls[c], plan->type),
            s->err);
    return status;
}

/* A model is no ground for a policy. */
static bool sweep_is_timed(const struct sweep *s, int coll)
{
    return s->pass->info.is_live ||
           stp_device_sizes(s->pass->device, coll, NULL, 0) > 0;
}

/* Those asked for; else those of data-parallel training that the machine has
 * times of, and a sentence about each other one. */
static enum stp_status sweep_choose_colls(struct sweep *s,
                                          struct stp_measure_options *measure)
{
    static const int trained[] = {ncclFuncAllGather, ncclFuncReduceScatter,
                                  ncclFuncAllReduce};
    const char *machine = s->pass->info.machine;
    const unsigned n_asked = measure->n_colls;

    for (unsigned i = 0; i < n_asked; i++)
        if (!sweep_is_timed(s, measure->colls[i]))
            return stp_fail(s->err, STP_ERR_NOTHING,
                            "%s was not timed on machine '%s'; a model is no "
                            "ground for a policy",
                            stp_coll_name(measure->colls[i]), machine);
    for (size_t i = 0; n_asked == 0 && i < sizeof(trained) / sizeof(*trained);
         i++)
        if (sweep_is_timed(s, trained[i]))
            measure->colls[measure->n_colls++] = trained[i];
        else
            stp_tune_tell(s->pass->job,
                          "%s is left out: it was not timed on machine '%s'",
                          stp_coll_name(trained[i]), machine);
    return STP_OK;
}

static enum stp_status sweep_make_grid(struct sweep *s, bool own_sizes)
{
    const struct stp_device_info *info = &s->pass->info;
    struct stp_measure_options measure = s->pass->job->plan->measure;
    enum stp_status status;

    if (measure.factor == 0 && measure.step == 0 && !own_sizes)
        measure.factor = GRID_FACTOR;
    status = sweep_choose_colls(s, &measure);
    STP_THEN(status, stp_plan_measurements(s->pass->device, &measure, NULL,
                                           &s->plan, s->err));
    if (status != STP_OK)
        return status;
    s->rounds = s->plan.plan.rounds;
    if (info->max_rounds == 0 && measure.rounds == 0)
        s->rounds = GRID_ROUNDS;
    return own_sizes ? STP_OK : sweep_add_ends(s);
}

/* Says how much of the grid an interrupted run left. */
static void sweep_tell_resumed(const struct sweep *s, size_t total)
{
    const struct stp_tune_job *job = s->pass->job;
    const struct stp_sweep_plan *plan = &s->plan.plan;
    size_t n = 0;

    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n; i++)
            n += sweep_count_rounds(s, plan->colls[c], plan->sizes[c].size[i]) >
                 0;
    if (n > 0)
        stp_tune_tell(job, "continuing %s: %zu of %zu sizes are there%s",
                      job->files->state_sweep, n, total,
                      job->plan->n_passes > 1 ? " of these ranks" : "");
}

static enum stp_status sweep_measure_grid(struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->plan.plan;
    struct stp_arms all;
    size_t done = 0;
    size_t total = 0;
    enum stp_status status = stp_arms_parse("all", &all, s->err);

    STP_THEN(status, stp_arms_add_setups(&all, s->pass->info.setups, s->err));
    for (size_t c = 0; c < plan->n_colls; c++)
        total += plan->sizes[c].n;
    sweep_tell_resumed(s, total);
    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n && status == STP_OK; i++) {
            status = sweep_measure(s, plan->colls[c], plan->sizes[c].size[i],
                                   &all, s->rounds);
            STP_THEN(status, stp_tune_progress(s->pass->job, STP_TUNE_SWEEP,
                                               ++done, total, s->err));
        }
    return status;
}

/* ---- where decisions change ---- */

static bool sweep_is_of_pass(const struct sweep *s, const struct stp_point *p)
{
    return p->n_ranks == s->pass->info.n_ranks;
}

/* Measures once between all neighbours where that may decide something, and
 * counts these. */
static enum stp_status sweep_refine_once(struct sweep *s,
                                         const struct stp_comparisons *all,
                                         const struct stp_refine_terms *terms,
                                         size_t *n)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i + 1 < all->n_points && status == STP_OK; i++) {
        const struct stp_point *p = &all->points[i];
        uint64_t grain = stp_size_grain(s->pass->device, p->coll, p->type);
        struct stp_arms arms;
        uint64_t size;

        if (!sweep_is_of_pass(s, p) || !stp_point_alike(p, p + 1) ||
            !stp_refine_between(p, p + 1, terms, grain, &size, &arms))
            continue;
        status = stp_arms_add_setups(&arms, s->pass->info.setups, s->err);
        STP_THEN(status, sweep_measure(s, p->coll, size, &arms, s->rounds));
        STP_THEN(status, stp_tune_progress(s->pass->job, STP_TUNE_REFINE, i + 1,
                                           all->n_points, s->err));
        ++*n;
    }
    return status;
}

/* Measures more rounds of the arms that decide. */
static enum stp_status sweep_narrow(struct sweep *s,
                                    const struct stp_comparisons *all,
                                    const struct stp_refine_terms *terms)
{
    unsigned rounds = s->pass->job->plan->measure.rounds;
    enum stp_status status = STP_OK;

    if (s->pass->info.max_rounds > 0)
        return STP_OK; /* all were measured */
    if (rounds == 0)
        rounds = LIVE_ROUNDS;
    for (size_t i = 0; i < all->n_points && status == STP_OK; i++) {
        const struct stp_point *p = &all->points[i];
        struct stp_arms arms;

        if (sweep_is_of_pass(s, p) && stp_refine_again(p, terms, &arms))
            status = sweep_measure(s, p->coll, p->n_bytes, &arms, rounds);
        STP_THEN(status, stp_tune_progress(s->pass->job, STP_TUNE_REFINE, i + 1,
                                           all->n_points, s->err));
    }
    return status;
}

/* Refines in waves until there are no new sizes, then narrows. */
static enum stp_status sweep_refine(struct sweep *s)
{
    const struct stp_tune_plan *plan = s->pass->job->plan;
    const struct stp_refine_terms terms = {.min_gain = plan->min_gain,
                                           .resolution = plan->resolution};
    struct stp_comparisons all;
    enum stp_status status = STP_OK;
    size_t n = 1;

    for (int wave = 0; wave <= MAX_WAVES && status == STP_OK; wave++) {
        const bool is_last = n == 0 || wave == MAX_WAVES;

        status = stp_compare(s->data, &all, s->err);
        if (status != STP_OK)
            return status;
        n = 0;
        status = is_last ? sweep_narrow(s, &all, &terms)
                         : sweep_refine_once(s, &all, &terms, &n);
        stp_comparisons_free(&all);
        if (is_last)
            break;
    }
    return status;
}

enum stp_status stp_tune_sweep(const struct stp_tune_pass *pass,
                               struct stp_dataset *data, unsigned *iters_ret,
                               struct stp_error *err)
{
    struct sweep s = {.pass = pass, .data = data, .err = err};
    const bool own_sizes = sweep_has_own_sizes(pass);
    int64_t clock = stp_now_ms();
    enum stp_status status = sweep_make_grid(&s, own_sizes);

    STP_THEN(status, sweep_measure_grid(&s));
    stp_tune_clock(pass->stage_ms, STP_TUNE_SWEEP, &clock);
    if (status == STP_OK && !own_sizes)
        status = sweep_refine(&s);
    stp_tune_clock(pass->stage_ms, STP_TUNE_REFINE, &clock);
    if (status == STP_OK)
        *iters_ret = s.plan.plan.iters;
    return status;
}
