#include "machine/overlap.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/machine.h"
#include "machine/records.h"
#include "machine/timings.h"
#include "model/channels.h"

/* Ratios that are this close to the last recorded one count as equal: GEMMs are
 * fitted to a ratio no closer. */
static const double same_log_ratio = 0.05;

/* The mean of all slowdowns recorded on h200x4, in logarithms. */
static const double default_slowdown = 1.43;

/* ---- iterations ---- */

/* The layers of an iteration, and their times without overlap. */
struct overlap_layers {
    enum mock_mode mode;
    int n;
    double compute_us;
    double comm_us;
    double scatter_us; /* of MOCK_MODE_FSDP, where comm_us is of all-gathers */
};

/* A collective of an iteration. */
struct overlap_comm {
    double us;
    int n_computes; /* layers whose compute it follows */
};

/* Of fsdp the all-gathers of two layers come first, then a reduce-scatter and
 * an all-gather in turn, and last a reduce-scatter. */
static struct overlap_comm overlap_get_comm(const struct overlap_layers *l,
                                            int i)
{
    const struct overlap_comm gather = {l->comm_us, 0};

    if (l->mode == MOCK_MODE_OVERLAP)
        return (struct overlap_comm){l->comm_us, i + 1};
    if (i == 2 * l->n - 1)
        return (struct overlap_comm){l->scatter_us, l->n};
    return i == 0 || i % 2 == 1 ? gather
                                : (struct overlap_comm){l->scatter_us, i / 2};
}

/* How many collectives a layer's compute follows. */
static int overlap_count_before(const struct overlap_layers *l, int layer)
{
    if (l->mode == MOCK_MODE_OVERLAP)
        return 0;
    return layer == 0 ? 1 : 2 * layer;
}

/* Runs both streams until the first of them ends its piece of work, which is
 * the compute or a collective of a layer. */
static double overlap_run_streams(const struct overlap_layers *l,
                                  double slowdown)
{
    const int n_comms = l->mode == MOCK_MODE_FSDP ? 2 * l->n : l->n;
    struct overlap_comm comm = overlap_get_comm(l, 0);
    double compute_left = l->compute_us; /* without overlap */
    int n_computed = 0;
    int n_sent = 0;
    double now_us = 0;

    while (n_sent < n_comms) {
        bool computes =
            n_computed < l->n && n_sent >= overlap_count_before(l, n_computed);
        bool sends = n_computed >= comm.n_computes;
        double us = computes && (!sends || compute_left <= comm.us)
                        ? compute_left
                        : comm.us;

        now_us += us * (computes && sends ? slowdown : 1);
        if (computes && (compute_left -= us) <= 0) {
            n_computed++;
            compute_left = l->compute_us;
        }
        if (sends && (comm.us -= us) <= 0)
            comm = overlap_get_comm(l, ++n_sent);
    }
    return now_us;
}

static double overlap_run_layers(const struct overlap_layers *l,
                                 double slowdown)
{
    if (l->mode == MOCK_MODE_SEQUENTIAL)
        return l->n * (l->compute_us + l->comm_us * slowdown);
    return overlap_run_streams(l, slowdown);
}

double mock_overlapped_us(const struct mock_overlap *overlap, int n_layers)
{
    const struct overlap_layers layers = {
        MOCK_MODE_OVERLAP, n_layers, overlap->compute_us, overlap->comm_us, 0};

    return overlap_run_layers(&layers, overlap->slowdown);
}

double mock_fsdp_us(const struct mock_overlap *overlap, double scatter_us,
                    int n_layers)
{
    const struct overlap_layers layers = {MOCK_MODE_FSDP, n_layers,
                                          overlap->compute_us, overlap->comm_us,
                                          scatter_us};

    return overlap_run_layers(&layers, overlap->slowdown);
}

/* ---- recorded slowdowns ---- */

/* A query of the recorded overlaps. */
struct overlap_query {
    enum mock_mode mode;
    int coll;
    int algo;
    int proto;
    int n_channels; /* 0: NCCL's own */
    size_t n_bytes;
    double log_bytes;
    double log_ratio;
    int round;
    double iteration;
};

struct estimate {
    double log_slowdown;
    double spread;
    enum mock_time_source source;
};

static struct estimate
overlap_estimate_point(const struct mock_overlap_point *point,
                       const struct overlap_query *w)
{
    const struct mock_overlap_row *row = &point->rows[w->round];

    return (struct estimate){
        .log_slowdown = row->log_slowdown,
        .spread = mock_quantile(row->quantile, w->iteration),
        .source = point->source,
    };
}

static struct estimate overlap_mix(struct estimate lo, struct estimate hi,
                                   double weight)
{
    enum mock_time_source source =
        lo.source > hi.source ? lo.source : hi.source;

    return (struct estimate){
        .log_slowdown =
            (1 - weight) * lo.log_slowdown + weight * hi.log_slowdown,
        .spread = (1 - weight) * lo.spread + weight * hi.spread,
        .source =
            source > MOCK_TIME_INTERPOLATED ? source : MOCK_TIME_INTERPOLATED,
    };
}

/* Marks an estimate outside the recorded range. */
static struct estimate overlap_hold(struct estimate e)
{
    e.source = MOCK_TIME_MODELLED;
    return e;
}

static struct estimate overlap_hold_ratio(const struct mock_overlap_point *last,
                                          const struct overlap_query *w)
{
    struct estimate e = overlap_estimate_point(last, w);

    if (fabs(last->log_ratio - w->log_ratio) > same_log_ratio)
        return overlap_hold(e);
    if (e.source < MOCK_TIME_INTERPOLATED)
        e.source = MOCK_TIME_INTERPOLATED;
    return e;
}

static struct estimate
overlap_estimate_size(const struct mock_overlap_size *size,
                      const struct overlap_query *w)
{
    const struct mock_overlap_point *hi = size->points;
    const struct mock_overlap_point *end = hi + size->n_points;

    while (hi < end && hi->log_ratio < w->log_ratio)
        hi++;
    if (hi < end && hi->log_ratio == w->log_ratio)
        return overlap_estimate_point(hi, w);
    if (hi == end || hi == size->points)
        return overlap_hold_ratio(hi == end ? hi - 1 : hi, w);
    return overlap_mix(
        overlap_estimate_point(hi - 1, w), overlap_estimate_point(hi, w),
        (w->log_ratio - hi[-1].log_ratio) / (hi->log_ratio - hi[-1].log_ratio));
}

static struct estimate overlap_estimate_arm(const struct mock_overlap_arm *arm,
                                            const struct overlap_query *w)
{
    const struct mock_overlap_size *hi = arm->sizes;
    const struct mock_overlap_size *end = hi + arm->n_sizes;

    while (hi < end && hi->n_bytes < w->n_bytes)
        hi++;
    if (hi < end && hi->n_bytes == w->n_bytes)
        return overlap_estimate_size(hi, w);
    if (hi == end || hi == arm->sizes)
        return overlap_hold(overlap_estimate_size(hi == end ? hi - 1 : hi, w));
    return overlap_mix(
        overlap_estimate_size(hi - 1, w), overlap_estimate_size(hi, w),
        (w->log_bytes - hi[-1].log_bytes) / (hi->log_bytes - hi[-1].log_bytes));
}

/* ---- arms ---- */

enum rating {
    FOREIGN,   /* nothing overlaps in one of them */
    UNLIKE,    /* another collective, or all sizes on one side of the query's */
    LIKE_COLL, /* the query's size is between the arm's sizes */
    LIKE_PAIR, /* also the same algorithm and protocol */
    N_RATINGS  /* the identical arm is not rated */
};

static bool overlap_covers(const struct mock_overlap_arm *arm, size_t n_bytes)
{
    return arm->sizes[0].n_bytes <= n_bytes &&
           arm->sizes[arm->n_sizes - 1].n_bytes >= n_bytes;
}

static enum rating overlap_rate_arm(const struct mock_overlap_arm *arm,
                                    const struct overlap_query *w)
{
    if ((arm->mode == MOCK_MODE_SEQUENTIAL) !=
        (w->mode == MOCK_MODE_SEQUENTIAL))
        return FOREIGN;
    if (arm->coll != w->coll || !overlap_covers(arm, w->n_bytes))
        return UNLIKE;
    return arm->algo == w->algo && arm->proto == w->proto ? LIKE_PAIR
                                                          : LIKE_COLL;
}

/* That of the mode, or else of the other in which compute and collectives
 * overlap. */
static const struct mock_overlap_arm *
overlap_find_arm(const struct mock_overlaps *overlaps,
                 const struct overlap_query *w)
{
    const struct mock_overlap_arm *other = NULL;

    for (int i = 0; i < overlaps->n_arms; i++) {
        const struct mock_overlap_arm *arm = &overlaps->arms[i];

        if (overlap_rate_arm(arm, w) != LIKE_PAIR ||
            arm->n_channels != w->n_channels)
            continue;
        if (arm->mode == w->mode)
            return arm;
        other = arm;
    }
    return other;
}

/* The mean over the arms with the highest rating; there is one at least. */
static struct estimate
overlap_estimate_others(const struct mock_overlaps *overlaps,
                        const struct overlap_query *w)
{
    struct estimate mean = {0, 0, MOCK_TIME_MODELLED};
    enum rating most = UNLIKE;
    int n = 0;

    for (int i = 0; i < overlaps->n_arms; i++) {
        const struct mock_overlap_arm *arm = &overlaps->arms[i];
        enum rating like = overlap_rate_arm(arm, w);
        struct estimate e;

        if (like < most)
            continue;
        if (like > most) {
            mean.log_slowdown = mean.spread = n = 0;
            most = like;
        }
        e = overlap_estimate_arm(arm, w);
        mean.log_slowdown += e.log_slowdown;
        mean.spread += e.spread;
        n++;
    }
    mean.log_slowdown /= n;
    mean.spread /= n;
    return mean;
}

static bool overlap_has_mode(const struct mock_machine *machine,
                             enum mock_mode mode)
{
    const struct mock_overlaps *overlaps = machine->overlaps;

    for (int i = 0; overlaps != NULL && i < overlaps->n_arms; i++)
        if (overlaps->arms[i].mode == mode)
            return true;
    return false;
}

static struct estimate overlap_estimate(const struct mock_machine *machine,
                                        const struct overlap_query *w)
{
    /* Copies run beside kernels; that they share memory with them is not
     * modelled. */
    static const struct estimate free_engines = {0, 1, MOCK_TIME_MODELLED};
    const bool has_overlaps = overlap_has_mode(machine, MOCK_MODE_OVERLAP) ||
                              overlap_has_mode(machine, MOCK_MODE_FSDP);
    const struct mock_overlap_arm *arm;

    if (!has_overlaps && w->algo == MOCK_WAY_CE)
        return free_engines;
    if (!has_overlaps)
        return (struct estimate){log(default_slowdown), 1, MOCK_TIME_MODELLED};
    arm = overlap_find_arm(machine->overlaps, w);
    if (arm != NULL && arm->mode == w->mode)
        return overlap_estimate_arm(arm, w);
    if (arm != NULL)
        return overlap_hold(overlap_estimate_arm(arm, w));
    return w->algo == MOCK_WAY_CE
               ? free_engines
               : overlap_estimate_others(machine->overlaps, w);
}

/* ---- the interface ---- */

static ncclResult_t overlap_check(double compute_us, double round,
                                  double iteration)
{
    if (!(compute_us > 0 && compute_us < INFINITY))
        return mock_fail(ncclInvalidArgument, "no compute of %g us",
                         compute_us);
    if (!(round >= 0 && round < 1 && iteration >= 0 && iteration < 1))
        return mock_fail(ncclInvalidArgument,
                         "round %g or iteration %g is not in [0, 1)", round,
                         iteration);
    return ncclSuccess;
}

static struct overlap_query
overlap_make_query(const struct mock_machine *machine,
                   const struct mock_run *run, enum mock_mode mode,
                   double ratio)
{
    int own = mock_default_channels(&machine->model, run->algo, run->proto,
                                    run->n_bytes);

    return (struct overlap_query){
        .mode = mode,
        .coll = run->coll,
        .algo = run->algo,
        .proto = run->proto,
        .n_channels = run->n_channels < own ? run->n_channels : 0,
        .n_bytes = run->n_bytes,
        .log_bytes = log((double)run->n_bytes),
        .log_ratio = log(ratio),
    };
}

ncclResult_t mock_machine_overlap(const struct mock_machine *machine,
                                  const struct mock_run *run,
                                  enum mock_mode mode, double compute_us,
                                  double round, double iteration,
                                  struct mock_overlap *overlap_ret)
{
    ncclResult_t rc = overlap_check(compute_us, round, iteration);
    struct mock_time alone = {0};
    struct overlap_query w;
    struct estimate e;

    if (rc == ncclSuccess)
        rc = mock_machine_mean_time(machine, run, &alone);
    if (rc != ncclSuccess)
        return rc;
    w = overlap_make_query(machine, run, mode, compute_us / alone.us);
    w.round = (int)(round * mock_machine_overlap_rounds(machine));
    w.iteration = iteration;
    e = overlap_estimate(machine, &w);
    overlap_ret->compute_us = compute_us * e.spread;
    overlap_ret->comm_us = alone.us * e.spread;
    overlap_ret->slowdown = exp(e.log_slowdown);
    overlap_ret->source = e.source;
    if (e.source != MOCK_TIME_RECORDED && alone.source > e.source)
        overlap_ret->source = alone.source;
    overlap_ret->is_single_pass =
        e.source != MOCK_TIME_RECORDED && alone.is_single_pass;
    return ncclSuccess;
}

/* Whether sequential iterations of the collective were recorded with sizes on
 * both sides of this one. */
static bool overlap_has_sequential(const struct mock_machine *machine,
                                   const struct mock_run *run)
{
    const struct mock_overlaps *overlaps = machine->overlaps;

    for (int i = 0; overlaps != NULL && i < overlaps->n_arms; i++)
        if (overlaps->arms[i].mode == MOCK_MODE_SEQUENTIAL &&
            overlaps->arms[i].coll == (int)run->coll &&
            overlap_covers(&overlaps->arms[i], run->n_bytes))
            return true;
    return false;
}

static enum mock_time_source overlap_worse(enum mock_time_source a,
                                           enum mock_time_source b)
{
    return a > b ? a : b;
}

ncclResult_t mock_machine_time_after(const struct mock_machine *machine,
                                     const struct mock_run *run,
                                     double compute_us, double round,
                                     double iteration,
                                     struct mock_time *time_ret)
{
    ncclResult_t rc = overlap_check(compute_us, round, iteration);
    const struct mock_overlap_arm *arm;
    struct mock_time alone = {0};
    struct overlap_query w;
    struct estimate e;

    if (rc != ncclSuccess)
        return rc;
    if (!overlap_has_sequential(machine, run))
        return mock_machine_time(machine, run, round, iteration, time_ret);
    rc = mock_machine_mean_time(machine, run, &alone);
    if (rc != ncclSuccess)
        return rc;
    w = overlap_make_query(machine, run, MOCK_MODE_SEQUENTIAL,
                           compute_us / alone.us);
    w.round = (int)(round * mock_machine_overlap_rounds(machine));
    w.iteration = iteration;
    arm = overlap_find_arm(machine->overlaps, &w);
    e = arm != NULL ? overlap_estimate_arm(arm, &w)
                    : overlap_estimate_others(machine->overlaps, &w);
    *time_ret = alone;
    time_ret->us *= exp(e.log_slowdown) * e.spread;
    time_ret->source = e.source == MOCK_TIME_RECORDED
                           ? e.source
                           : overlap_worse(alone.source, e.source);
    time_ret->is_single_pass &= e.source != MOCK_TIME_RECORDED;
    return ncclSuccess;
}

unsigned mock_machine_overlap_rounds(const struct mock_machine *machine)
{
    return machine->overlaps != NULL ? (unsigned)machine->overlaps->n_rounds
                                     : 0;
}

size_t mock_machine_overlap_settings(const struct mock_machine *machine,
                                     struct mock_overlap_setting *settings,
                                     size_t max)
{
    const struct mock_overlaps *overlaps = machine->overlaps;
    size_t n = overlaps != NULL ? (size_t)overlaps->n_settings : 0;

    for (size_t i = 0; i < n && i < max; i++)
        settings[i] = overlaps->settings[i];
    return n;
}

/* ---- overlap load ---- */

/* The overlaps that are being built, and their sources. */
struct overlap_build {
    const char *path;
    const struct mock_machine *machine;
    struct mock_overlaps *overlaps;
    const struct mock_record *previous;
    double comm_us; /* time of the current size and arm without overlap */
};

static ncclResult_t overlap_find_comm(const struct overlap_build *b, int coll,
                                      int algo, int proto,
                                      const struct mock_record *r,
                                      double *us_ret)
{
    const struct mock_run run = {
        .coll = (ncclFunc_t)coll,
        .n_bytes = r->n_bytes,
        .algo = algo,
        .proto = proto,
        .n_channels = r->n_channels,
    };
    struct mock_time time = {0};
    ncclResult_t rc = mock_machine_mean_time(b->machine, &run, &time);

    *us_ret = time.us;
    return rc;
}

static const double min_slowdown = 1. / 64;
static const double max_slowdown = 64;

/* ---- one row ---- */

/* The iteration's time increases with the slowdown. */
static double overlap_bisect(const struct overlap_layers *layers, double us)
{
    double lo = log(min_slowdown);
    double hi = log(max_slowdown);

    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;

        if (overlap_run_layers(layers, exp(middle)) < us)
            lo = middle;
        else
            hi = middle;
    }
    return (lo + hi) / 2;
}

static ncclResult_t overlap_refuse(const struct overlap_build *b,
                                   const struct mock_record *r,
                                   const struct overlap_layers *layers)
{
    char scatter[64] = "";

    if (r->mode == MOCK_MODE_FSDP)
        snprintf(scatter, sizeof(scatter), " and a reduce-scatter of %g us",
                 layers->scatter_us);
    return mock_fail(ncclInvalidArgument,
                     "%s:%d: mean_us %g cannot be: %d layers of %g us, "
                     "each with a collective of %g us%s alone",
                     b->path, r->line, r->mean, r->n_layers, r->compute_us,
                     layers->comm_us, scatter);
}

/* Sets the record's slowdown. */
static ncclResult_t overlap_find_slowdown(const struct overlap_build *b,
                                          struct mock_record *r)
{
    struct overlap_layers layers = {
        .mode = r->mode, .n = r->n_layers, .compute_us = r->compute_us};
    ncclResult_t rc =
        overlap_find_comm(b, r->coll, r->algo, r->proto, r, &layers.comm_us);
    double reached;

    if (rc == ncclSuccess && r->mode == MOCK_MODE_FSDP)
        rc = overlap_find_comm(b, ncclFuncReduceScatter, r->scatter_algo,
                               r->scatter_proto, r, &layers.scatter_us);
    if (rc != ncclSuccess)
        return rc;
    r->log_slowdown = overlap_bisect(&layers, r->mean);
    reached = overlap_run_layers(&layers, exp(r->log_slowdown));
    if (fabs(reached - r->mean) > 1e-9 * r->mean)
        return overlap_refuse(b, r, &layers);
    return ncclSuccess;
}

/* Sets all slowdowns.  A record of fsdp becomes one of each of its collectives,
 * and those of the same pair become one. */
static ncclResult_t overlap_find_slowdowns(const struct overlap_build *b,
                                           struct mock_records *records)
{
    const int n = records->n;
    struct mock_record *list =
        realloc(records->list, 2 * (size_t)n * sizeof(*list));
    ncclResult_t rc = ncclSuccess;

    if (list == NULL)
        return mock_fail_memory();
    records->list = list;
    records->capacity = 2 * n;
    for (int i = 0; i < n && rc == ncclSuccess; i++) {
        struct mock_record scatter;

        rc = overlap_find_slowdown(b, &list[i]);
        if (list[i].mode != MOCK_MODE_FSDP)
            continue;
        scatter = list[i];
        scatter.coll = ncclFuncReduceScatter;
        scatter.algo = scatter.scatter_algo;
        scatter.proto = scatter.scatter_proto;
        list[i].scatter_algo = list[i].scatter_proto = 0;
        scatter.scatter_algo = scatter.scatter_proto = 0;
        list[records->n++] = scatter;
    }
    mock_records_pool(records);
    return rc;
}

/* ---- new arms, sizes and points ---- */

static bool overlap_same_arm(const struct mock_record *a,
                             const struct mock_record *b)
{
    return a->mode == b->mode && a->coll == b->coll && a->algo == b->algo &&
           a->proto == b->proto && a->n_channels == b->n_channels;
}

/* Adds the arm, size and point of which a record is the first. */
static void overlap_add(struct overlap_build *b, const struct mock_record *r,
                        bool new_arm, bool new_size)
{
    struct mock_overlaps *o = b->overlaps;

    if (new_arm)
        o->arms[o->n_arms++] = (struct mock_overlap_arm){
            .mode = r->mode,
            .coll = r->coll,
            .algo = r->algo,
            .proto = r->proto,
            .n_channels = r->n_channels,
            .sizes = &o->sizes[o->n_sizes],
        };
    if (new_size) {
        o->arms[o->n_arms - 1].n_sizes++;
        o->sizes[o->n_sizes++] = (struct mock_overlap_size){
            .n_bytes = r->n_bytes,
            .log_bytes = log((double)r->n_bytes),
            .points = &o->points[o->n_points],
        };
    }
    o->sizes[o->n_sizes - 1].n_points++;
    o->points[o->n_points++] = (struct mock_overlap_point){
        .log_ratio = log(r->compute_us / b->comm_us),
        .compute_us = r->compute_us,
        .n_layers = r->n_layers,
        .m = r->m,
        .n = r->n,
        .k = r->k,
        .rows = &o->rows[o->n_rows],
    };
}

static ncclResult_t overlap_open_new(struct overlap_build *b,
                                     const struct mock_record *r)
{
    const struct mock_record *p = b->previous;
    bool new_arm = p == NULL || !overlap_same_arm(p, r);
    bool new_size = new_arm || p->n_bytes != r->n_bytes;
    ncclResult_t rc = ncclSuccess;

    if (new_size)
        rc = overlap_find_comm(b, r->coll, r->algo, r->proto, r, &b->comm_us);
    else if (p->compute_us == r->compute_us && p->n_layers == r->n_layers)
        return ncclSuccess;
    else if (p->compute_us == r->compute_us)
        rc = mock_fail(ncclInvalidArgument,
                       "%s:%d: %d layers, but line %d has %d with the same "
                       "compute_us",
                       b->path, r->line, r->n_layers, p->line, p->n_layers);
    if (rc == ncclSuccess)
        overlap_add(b, r, new_arm, new_size);
    return rc;
}

/* Rounds count from 1 in each point, without gaps. */
static ncclResult_t overlap_check_round(const struct overlap_build *b,
                                        const struct mock_record *r)
{
    const struct mock_overlaps *overlaps = b->overlaps;
    const struct mock_overlap_row *first =
        overlaps->points[overlaps->n_points - 1].rows;
    int expected = (int)(&overlaps->rows[overlaps->n_rows] - first) + 1;

    if (r->round == expected)
        return ncclSuccess;
    return mock_fail(ncclInvalidArgument,
                     "%s:%d: round %d, but round %d is the next of this size, "
                     "compute_us and arm",
                     b->path, r->line, r->round, expected);
}

static void overlap_worsen(struct mock_overlap_point *point,
                           enum mock_time_source source)
{
    if (source > point->source)
        point->source = source;
}

static ncclResult_t overlap_add_record(struct overlap_build *b,
                                       const struct mock_record *r)
{
    ncclResult_t rc = overlap_open_new(b, r);
    struct mock_overlap_row *row = &b->overlaps->rows[b->overlaps->n_rows];

    if (rc == ncclSuccess)
        rc = overlap_check_round(b, r);
    if (rc != ncclSuccess)
        return rc;
    row->log_slowdown = r->log_slowdown;
    mock_quantiles(r, row->quantile);
    overlap_worsen(&b->overlaps->points[b->overlaps->n_points - 1], r->source);
    b->overlaps->n_rows++;
    b->previous = r;
    return ncclSuccess;
}

/* ---- all rows ---- */

static ncclResult_t overlap_check_rounds(const char *path,
                                         struct mock_overlaps *overlaps)
{
    // NOLINTNEXTLINE(clang-analyzer-core.DivideZero)
    overlaps->n_rounds = overlaps->n_rows / overlaps->n_points;
    for (int i = 0; i < overlaps->n_points; i++) {
        const struct mock_overlap_row *end =
            i + 1 < overlaps->n_points ? overlaps->points[i + 1].rows
                                       : overlaps->rows + overlaps->n_rows;
        int n = (int)(end - overlaps->points[i].rows);

        if (n != overlaps->n_rounds)
            return mock_fail(
                ncclInvalidArgument,
                "%s: %d rounds with compute_us %g, but others have "
                "%d",
                path, n, overlaps->points[i].compute_us, overlaps->n_rounds);
    }
    return ncclSuccess;
}

static int overlap_compare_settings(const void *a_, const void *b_)
{
    const struct mock_overlap_setting *a = a_;
    const struct mock_overlap_setting *b = b_;

    if (a->mode != b->mode)
        return a->mode < b->mode ? -1 : 1;
    if (a->coll != b->coll)
        return a->coll < b->coll ? -1 : 1;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->compute_us != b->compute_us)
        return a->compute_us < b->compute_us ? -1 : 1;
    return a->n_layers - b->n_layers;
}

/* Lists each setting once, over all arms. */
static void overlap_list_settings(struct mock_overlaps *overlaps)
{
    struct mock_overlap_setting *list = overlaps->settings;
    int n = 0;

    for (int i = 0; i < overlaps->n_arms; i++)
        for (int j = 0; j < overlaps->arms[i].n_sizes; j++) {
            const struct mock_overlap_size *size = &overlaps->arms[i].sizes[j];

            for (int k = 0; k < size->n_points; k++)
                list[n++] = (struct mock_overlap_setting){
                    .mode = overlaps->arms[i].mode,
                    .coll = (ncclFunc_t)overlaps->arms[i].coll,
                    .n_bytes = size->n_bytes,
                    .compute_us = size->points[k].compute_us,
                    .n_layers = size->points[k].n_layers,
                    .m = size->points[k].m,
                    .n = size->points[k].n,
                    .k = size->points[k].k,
                    .source = size->points[k].source,
                };
        }
    qsort(list, (size_t)n, sizeof(*list), overlap_compare_settings);
    for (int i = 0; i < n; i++)
        if (i == 0 || overlap_compare_settings(&list[i - 1], &list[i]) != 0)
            list[overlaps->n_settings++] = list[i];
}

static bool overlap_alloc(struct mock_overlaps *overlaps, int n)
{
    overlaps->arms = calloc((size_t)n, sizeof(*overlaps->arms));
    overlaps->sizes = calloc((size_t)n, sizeof(*overlaps->sizes));
    overlaps->points = calloc((size_t)n, sizeof(*overlaps->points));
    overlaps->rows = calloc((size_t)n, sizeof(*overlaps->rows));
    overlaps->settings = calloc((size_t)n, sizeof(*overlaps->settings));
    return overlaps->arms != NULL && overlaps->sizes != NULL &&
           overlaps->points != NULL && overlaps->rows != NULL &&
           overlaps->settings != NULL;
}

static ncclResult_t overlap_build(struct overlap_build *b,
                                  struct mock_records *records)
{
    ncclResult_t rc = overlap_find_slowdowns(b, records);

    if (rc == ncclSuccess && !overlap_alloc(b->overlaps, records->n))
        rc = mock_fail_memory();
    for (int i = 0; i < records->n && rc == ncclSuccess; i++)
        rc = overlap_add_record(b, &records->list[i]);
    if (rc == ncclSuccess)
        rc = overlap_check_rounds(b->path, b->overlaps);
    if (rc == ncclSuccess)
        overlap_list_settings(b->overlaps);
    return rc;
}

ncclResult_t mock_overlaps_load(const char *path,
                                const struct mock_machine *machine,
                                struct mock_overlaps **overlaps_ret)
{
    struct overlap_build b = {.path = path, .machine = machine};
    struct mock_records records = {NULL, 0, 0};
    ncclResult_t rc;

    b.overlaps = calloc(1, sizeof(*b.overlaps));
    if (b.overlaps == NULL)
        return mock_fail_memory();
    rc = mock_records_load(path, true, &machine->model, &records);
    if (rc == ncclSuccess)
        rc = overlap_build(&b, &records);
    free(records.list);
    if (rc != ncclSuccess) {
        mock_overlaps_free(b.overlaps);
        return rc;
    }
    *overlaps_ret = b.overlaps;
    return ncclSuccess;
}

void mock_overlaps_free(struct mock_overlaps *overlaps)
{
    if (overlaps == NULL)
        return;
    free(overlaps->arms);
    free(overlaps->sizes);
    free(overlaps->points);
    free(overlaps->rows);
    free(overlaps->settings);
    free(overlaps);
}
