/* tune_sweep.c - what collectives alone take, where that decides something */
#include <string.h>

#include "analyse/refine.h"
#include "cli/tune/tune.h"
#include "launch/clock.h"

enum {
    GRID_FACTOR = 4,
    GRID_ROUNDS = 3, /* on a machine that has as many as one likes */
    LIVE_ROUNDS = 8, /* where it decides something */
    MAX_WAVES = 16,  /* of refinement; each halves what lies between sizes */
};

/* One pass. */
struct sweep {
    struct stp_tune *t;
    const struct stp_device *device;
    struct stp_device_info info;
    struct stp_sizes one; /* of the run that is going on */
    unsigned rounds;      /* of the grid */
};

/* ---- one size ---- */

/* How many rounds of AUTO there are. */
static unsigned rounds_at(const struct sweep *s, int coll, uint64_t n_bytes)
{
    const struct stp_dataset *data = &s->t->alone.data;
    unsigned n = 0;

    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement *m = &data->rows[i];

        if (m->coll == coll && m->n_bytes == n_bytes &&
            m->n_ranks == s->info.n_ranks && m->arm.kind == STP_ARM_AUTO &&
            m->round >= n)
            n = m->round + 1;
    }
    return n;
}

/* Up to 'rounds' of them, less what is there already, numbered on. */
static enum stp_status measure(struct sweep *s, int coll, uint64_t n_bytes,
                               const struct stp_arms *arms, unsigned rounds)
{
    struct stp_tune *t = s->t;
    unsigned have = rounds_at(s, coll, n_bytes);
    size_t first = t->alone.data.n_rows;
    struct stp_sweep_plan plan = t->plan.plan;
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
    status =
        stp_sweep_run(s->device, &plan, NULL, NULL, &t->alone.data, &t->err);
    t->plan.plan.wake = false;
    for (size_t i = first; i < t->alone.data.n_rows; i++)
        t->alone.data.rows[i].round += have;
    return status == STP_OK ? stp_tune_keep(t, false) : status;
}

/* ---- the grid ---- */

static bool sizes_given(const struct stp_measure_options *m)
{
    return m->begin != 0 || m->end != 0 || m->factor != 0 || m->step != 0;
}

/* A recorded machine has sizes of its own; between them there is nothing to
 * learn. */
static bool has_own_sizes(const struct sweep *s)
{
    if (sizes_given(&s->t->o->measure))
        return false;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        if (s->device->ops->sizes(s->device->self, c, NULL, 0) > 0)
            return true;
    return false;
}

/* The last size is measured, too: rules do not reach beyond it. */
static enum stp_status add_ends(struct sweep *s)
{
    struct stp_sweep_plan *plan = &s->t->plan.plan;
    enum stp_status status = STP_OK;

    for (size_t c = 0; c < plan->n_colls && status == STP_OK; c++)
        status = stp_sizes_add(
            &s->t->plan.sizes[c], stp_max_bytes(&s->t->o->measure),
            stp_size_grain(s->device, plan->colls[c], plan->type), &s->t->err);
    return status;
}

static enum stp_status make_plan(struct sweep *s, bool own_sizes)
{
    static const int trained[] = {ncclFuncAllGather, ncclFuncReduceScatter,
                                  ncclFuncAllReduce};
    struct stp_measure_options measure = s->t->o->measure;
    enum stp_status status;

    if (measure.factor == 0 && measure.step == 0 && !own_sizes)
        measure.factor = GRID_FACTOR;
    if (measure.n_colls == 0 && s->info.is_live) {
        memcpy(measure.colls, trained, sizeof(trained));
        measure.n_colls = sizeof(trained) / sizeof(trained[0]);
    }
    status = stp_make_plan(s->device, &measure, NULL, &s->t->plan, &s->t->err);
    s->t->plan.plan.colls = s->t->plan.colls;
    s->t->plan.plan.sizes = s->t->plan.sizes;
    s->rounds = s->t->plan.plan.rounds;
    if (s->info.max_rounds == 0 && measure.rounds == 0)
        s->rounds = GRID_ROUNDS;
    return status == STP_OK && !own_sizes ? add_ends(s) : status;
}

/* Says how much of the grid an earlier run left. */
static void tell_of_grid(const struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->t->plan.plan;
    size_t n = 0;
    size_t total = 0;

    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n; i++) {
            n += rounds_at(s, plan->colls[c], plan->sizes[c].size[i]) > 0;
            total++;
        }
    if (n > 0)
        stp_complain(s->t->command,
                     "continuing %s: %zu of %zu sizes are there%s",
                     s->t->sweep_path, n, total,
                     stp_tune_passes(s->t) > 1 ? " of these ranks" : "");
}

static enum stp_status measure_grid(struct sweep *s)
{
    const struct stp_sweep_plan *plan = &s->t->plan.plan;
    struct stp_arms all;
    size_t done = 0;
    size_t total = 0;
    enum stp_status status = stp_arms_parse("all", &all, &s->t->err);

    for (size_t c = 0; c < plan->n_colls; c++)
        total += plan->sizes[c].n;
    for (size_t c = 0; c < plan->n_colls; c++)
        for (size_t i = 0; i < plan->sizes[c].n && status == STP_OK; i++) {
            status = measure(s, plan->colls[c], plan->sizes[c].size[i], &all,
                             s->rounds);
            if (status == STP_OK)
                status = stp_tune_progress(s->t, STP_TUNE_SWEEP, ++done, total);
        }
    return status;
}

/* ---- where decisions change ---- */

static bool is_of_pass(const struct sweep *s, const struct stp_point *p)
{
    return p->n_ranks == s->info.n_ranks;
}

/* Measures once between all neighbours where that may tell something.  An
 * interrupted run had measured some of it: the next wave is beyond that. */
static enum stp_status refine_once(struct sweep *s,
                                   const struct stp_comparisons *all,
                                   const struct stp_refine_terms *terms,
                                   size_t *n_ret)
{
    enum stp_status status = STP_OK;

    for (size_t i = 0; i + 1 < all->n_points && status == STP_OK; i++) {
        const struct stp_point *p = &all->points[i];
        uint64_t grain = stp_size_grain(s->device, p->coll, p->type);
        struct stp_arms arms;
        uint64_t size;

        if (!is_of_pass(s, p) || !stp_point_alike(p, p + 1) ||
            !stp_refine_between(p, p + 1, terms, grain, &size, &arms))
            continue;
        status = measure(s, p->coll, size, &arms, s->rounds);
        if (status == STP_OK)
            status =
                stp_tune_progress(s->t, STP_TUNE_REFINE, i + 1, all->n_points);
        ++*n_ret;
    }
    return status;
}

/* More rounds of what decides, up to 'rounds'. */
static enum stp_status narrow(struct sweep *s,
                              const struct stp_comparisons *all,
                              const struct stp_refine_terms *terms)
{
    unsigned rounds = s->t->o->measure.rounds;
    enum stp_status status = STP_OK;

    if (s->info.max_rounds > 0)
        return STP_OK; /* all were measured */
    if (rounds == 0)
        rounds = LIVE_ROUNDS;
    for (size_t i = 0; i < all->n_points && status == STP_OK; i++) {
        const struct stp_point *p = &all->points[i];
        struct stp_arms arms;

        if (is_of_pass(s, p) && stp_refine_again(p, terms, &arms))
            status = measure(s, p->coll, p->n_bytes, &arms, rounds);
        if (status == STP_OK)
            status =
                stp_tune_progress(s->t, STP_TUNE_REFINE, i + 1, all->n_points);
    }
    return status;
}

/* 'n_ret' is how many sizes were new; NULL: narrow what there is. */
static enum stp_status compare_and(struct sweep *s,
                                   const struct stp_refine_terms *terms,
                                   size_t *n_ret)
{
    struct stp_comparisons all;
    enum stp_status status = stp_compare(&s->t->alone.data, &all, &s->t->err);

    if (status != STP_OK)
        return status;
    status = n_ret != NULL ? refine_once(s, &all, terms, n_ret)
                           : narrow(s, &all, terms);
    stp_comparisons_free(&all);
    return status;
}

static enum stp_status refine(struct sweep *s)
{
    const struct stp_refine_terms terms = {.min_gain = s->t->o->derive.min_gain,
                                           .resolution = s->t->o->resolution};
    size_t n = 1;
    enum stp_status status = STP_OK;

    for (int wave = 0; wave < MAX_WAVES && n > 0 && status == STP_OK; wave++) {
        n = 0;
        status = compare_and(s, &terms, &n);
    }
    return status == STP_OK ? compare_and(s, &terms, NULL) : status;
}

/* ---- all of it ---- */

enum stp_status stp_tune_sweep(struct stp_tune *t,
                               const struct stp_device *device)
{
    struct sweep s = {.t = t, .device = device};
    int64_t clock = stp_now_ms();
    bool own_sizes;
    enum stp_status status;

    device->ops->info(device->self, &s.info);
    own_sizes = has_own_sizes(&s);
    status = make_plan(&s, own_sizes);
    if (status != STP_OK)
        return status;
    tell_of_grid(&s);
    status = measure_grid(&s);
    stp_tune_clock(t, STP_TUNE_SWEEP, &clock);
    if (status == STP_OK && !own_sizes)
        status = refine(&s);
    stp_tune_clock(t, STP_TUNE_REFINE, &clock);
    return status;
}

enum stp_status stp_tune_derive_alone(struct stp_tune *t)
{
    struct stp_tune_policy *p = &t->alone;
    enum stp_status status = stp_compare(&p->data, &p->comparisons, &t->err);

    if (status == STP_OK)
        status = stp_derive(&p->comparisons, t->o->derive.min_gain, &p->derived,
                            &t->err);
    if (status == STP_OK)
        status = stp_steadiness_of(&p->comparisons, &p->comparisons,
                                   &p->steadiness, &t->err);
    if (status != STP_OK)
        return status;
    stp_warn_of_noise(t->command, &p->steadiness, t->o->derive.min_gain);
    p->exists = true;
    return stp_tune_save_policy(t, p);
}
