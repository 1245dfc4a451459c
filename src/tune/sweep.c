/* sweep.c - collectives alone: a grid of sizes, and more sizes where they
 * decide something */
#include "analyse/refine.h"
#include "core/names.h"
#include "store/clock.h"
#include "tune/stages.h"

enum {
    GRID_FACTOR = 4,
    GRID_ROUNDS = 3,     /* on a machine of unlimited rounds */
    MOST_ROUNDS = 8,     /* where they would decide something */
    MAX_WAVES = 16,      /* of refinement; each halves the gap between sizes */
    BITS_MAX = 16 << 20, /* bytes: above, comparing bits takes longer than all
                            else, and is left to --bits same */
};

const int stp_trained_colls[STP_N_TRAINED_COLLS] = {
    ncclFuncAllGather, ncclFuncReduceScatter, ncclFuncAllReduce};

struct sweep {
    const struct stp_tune_pass *pass;
    struct stp_dataset *data;
    struct stp_measure_plan plan; /* of the grid */
    bool own_sizes; /* the machine has times of its own sizes only: there is
                       nothing to measure between them */
};

/* ---- one size ---- */

static bool sweep_has(const struct sweep *s, int coll, uint64_t n_bytes)
{
    const struct stp_setting alone = {STP_MODE_ALONE, coll, n_bytes, 0};

    return stp_tune_has(s->data, &alone, s->pass->known.info.n_ranks);
}

/* Measures a size that is not there yet. */
static enum stp_status sweep_measure(struct sweep *s, int coll,
                                     uint64_t n_bytes,
                                     const struct stp_arms *arms,
                                     struct stp_error *err)
{
    const struct stp_sizes one = {.size = {n_bytes}, .n = 1};
    struct stp_sweep_plan plan = s->plan.plan;

    if (sweep_has(s, coll, n_bytes))
        return STP_OK;
    plan.colls = &coll;
    plan.n_colls = 1;
    plan.sizes = &one;
    plan.arms = arms;
    plan.check = 1;
    plan.bits_max = s->pass->job->plan->same_bits ? UINT64_MAX : BITS_MAX;
    STP_TRY(stp_sweep_run(s->pass->device, &plan, NULL, NULL, s->data, err));
    s->plan.plan.wake = false;
    return stp_tune_state_save(s->pass->state, false, err);
}

/* ---- the grid ---- */

/* Plans the collectives asked for, else those of data-parallel training. A
 * sentence tells of each one without times on the machine. */
static enum stp_status sweep_make_grid(struct sweep *s, struct stp_error *err)
{
    const struct stp_tune_plan *asked = s->pass->job->plan;
    struct stp_measure_options measure = asked->measure;
    const int *trained = stp_trained_colls;
    const struct stp_device_facts *known = &s->pass->known;
    const struct stp_device_info *info = &known->info;
    const unsigned n_asked = measure.n_colls;
    bool knows_any = false;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        knows_any |= known->sizes[c].n > 0;
    s->own_sizes = knows_any && !stp_measure_has_sizes(&measure);
    if (measure.factor == 0 && measure.step == 0 && !s->own_sizes)
        measure.factor = GRID_FACTOR;
    measure.has_end = !s->own_sizes; /* rules do not reach beyond it */
    for (unsigned i = 0; i < n_asked; i++)
        if (!info->is_live && known->sizes[measure.colls[i]].n == 0)
            return stp_fail(err, STP_ERR_NOTHING,
                            "%s was not timed on machine '%s', launched one by "
                            "one; a model is no ground for a policy",
                            stp_coll_name(measure.colls[i]), info->machine);
    for (size_t i = 0; n_asked == 0 && i < STP_N_TRAINED_COLLS; i++)
        if (info->is_live || known->sizes[trained[i]].n > 0)
            measure.colls[measure.n_colls++] = trained[i];
        else
            stp_tune_tell(s->pass->job,
                          "%s is left out: it was not timed on machine '%s', "
                          "launched one by one",
                          stp_coll_name(trained[i]), info->machine);
    if (measure.n_colls == 0)
        return stp_fail(err, STP_ERR_NOTHING,
                        "machine '%s' was timed with none of these, expected "
                        "--collective to name others",
                        info->machine);
    STP_TRY(stp_plan_measurements(known, &measure, NULL, &s->plan, err));
    if (info->max_rounds == 0 && measure.rounds == 0) {
        s->plan.plan.rounds = GRID_ROUNDS;
        s->plan.plan.terms = (struct stp_rounds_terms){
            .most = MOST_ROUNDS, .min_gain = asked->min_gain};
    }
    return STP_OK;
}

static enum stp_status sweep_measure_grid(struct sweep *s,
                                          struct stp_error *err)
{
    const struct stp_tune_job *job = s->pass->job;
    const struct stp_sweep_plan *plan = &s->plan.plan;
    struct stp_arms all;
    size_t there = 0, done = 0, total = 0;

    STP_TRY(stp_arms_parse("all", &all, err));
    STP_TRY(stp_arms_add_setups(&all, s->pass->known.info.setups, err));
    stp_arms_add_nccl(&all, s->pass->known.info.tuner);
    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n; i++, total++)
            there += sweep_has(s, plan->colls[c], plan->sizes[c].size[i]);
    if (there > 0)
        stp_tune_tell(job, "continuing %s: %zu of %zu sizes are there%s",
                      job->files->state_sweep, there, total,
                      job->plan->n_passes > 1 ? " of these ranks" : "");
    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n; i++) {
            STP_TRY(sweep_measure(s, plan->colls[c], plan->sizes[c].size[i],
                                  &all, err));
            STP_TRY(stp_tune_progress(job, STP_TUNE_SWEEP, ++done, total, err));
        }
    return STP_OK;
}

/* ---- where decisions change ---- */

/* Measures a size between all neighbours where that may decide something, and
 * counts these sizes. */
static enum stp_status sweep_refine_once(struct sweep *s,
                                         const struct stp_comparisons *all,
                                         const struct stp_refine_terms *terms,
                                         size_t *n, struct stp_error *err)
{
    const struct stp_device_info *info = &s->pass->known.info;

    for (size_t i = 0; i + 1 < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        struct stp_arms arms;
        uint64_t size;

        if (p->n_ranks != info->n_ranks || !stp_point_alike(p, p + 1) ||
            !stp_refine_between(p, p + 1, terms,
                                stp_size_grain(info, p->coll, p->type), &size,
                                &arms))
            continue;
        stp_arms_add_nccl(&arms, info->tuner);
        STP_TRY(stp_arms_add_setups(&arms, info->setups, err));
        STP_TRY(sweep_measure(s, p->coll, size, &arms, err));
        STP_TRY(stp_tune_progress(s->pass->job, STP_TUNE_REFINE, i + 1,
                                  all->n_points, err));
        ++*n;
    }
    return STP_OK;
}

/* Refines in waves until there are no new sizes. */
static enum stp_status sweep_refine(struct sweep *s,
                                    const struct stp_refine_terms *terms,
                                    struct stp_error *err)
{
    enum stp_status status = STP_OK;
    size_t n = 1;

    for (int wave = 0; n > 0 && wave < MAX_WAVES && status == STP_OK; wave++) {
        struct stp_comparisons all;

        STP_TRY(stp_compare(s->data, &all, err));
        if (s->pass->job->plan->same_bits)
            stp_keep_same_bits(&all);
        n = 0;
        status = sweep_refine_once(s, &all, terms, &n, err);
        stp_comparisons_free(&all);
    }
    return status;
}

enum stp_status stp_tune_sweep(const struct stp_tune_pass *pass,
                               struct stp_dataset *data, unsigned *iters_ret,
                               struct stp_error *err)
{
    const struct stp_tune_plan *plan = pass->job->plan;
    const struct stp_refine_terms terms = {
        .min_gain = plan->min_gain,
        .captured = stp_tune_captured(plan, &pass->known.info),
        .resolution = plan->resolution};
    struct sweep s = {.pass = pass, .data = data};
    int64_t clock = stp_now_ms();
    enum stp_status status = sweep_make_grid(&s, err);

    STP_THEN(status, sweep_measure_grid(&s, err));
    stp_tune_clock(pass->stage_ms, STP_TUNE_SWEEP, &clock);
    if (status == STP_OK && !s.own_sizes)
        status = sweep_refine(&s, &terms, err);
    stp_tune_clock(pass->stage_ms, STP_TUNE_REFINE, &clock);
    if (status == STP_OK)
        *iters_ret = s.plan.plan.iters;
    return status;
}
