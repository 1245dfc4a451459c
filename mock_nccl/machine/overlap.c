#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "machine/recorded.h"
#include "model/channels.h"

/* Ratios that are this close to the last recorded one count as equal: GEMMs are
 * fitted to a ratio no closer. */
static const double same_log_ratio = 0.05;

/* The mean of all slowdowns recorded on h200x4, in logarithms. */
static const double default_slowdown = 1.43;

/* ---- iterations ---- */

/* A collective of an iteration. */
struct overlap_comm {
    double us;
    int n_computes; /* layers whose compute it follows */
};

/* The i-th collective. In fsdp the all-gathers of two layers come first, then a
 * reduce-scatter and an all-gather in turn, and last a reduce-scatter. */
static struct overlap_comm overlap_get_comm(enum mock_mode mode,
                                            const struct mock_overlap *o,
                                            double scatter_us, int n_layers,
                                            int i)
{
    const bool is_last = i == 2 * n_layers - 1;

    if (mode == MOCK_MODE_OVERLAP)
        return (struct overlap_comm){o->comm_us, i + 1};
    if (i == 0 || (i % 2 == 1 && !is_last))
        return (struct overlap_comm){o->comm_us, 0};
    return (struct overlap_comm){scatter_us, is_last ? n_layers : i / 2};
}

/* Runs both streams until the first of them ends its piece of work, which is
 * the compute or a collective of a layer; sequential layers in one stream. */
double mock_iteration_us(enum mock_mode mode, const struct mock_overlap *o,
                         double scatter_us, int n_layers)
{
    const int n_comms = mode == MOCK_MODE_FSDP ? 2 * n_layers : n_layers;
    struct overlap_comm comm =
        overlap_get_comm(mode, o, scatter_us, n_layers, 0);
    double compute_left = o->compute_us; /* without overlap */
    int n_computed = 0;
    int n_sent = 0;
    double now_us = 0;

    if (mode == MOCK_MODE_SEQUENTIAL)
        return n_layers * (o->compute_us + o->comm_us * o->slowdown);
    while (n_sent < n_comms) {
        /* compute of fsdp follows the all-gather of its layer */
        int n_before = n_computed == 0 ? 1 : 2 * n_computed;
        bool computes = n_computed < n_layers &&
                        (mode == MOCK_MODE_OVERLAP || n_sent >= n_before);
        bool sends = n_computed >= comm.n_computes;
        double us = computes && (!sends || compute_left <= comm.us)
                        ? compute_left
                        : comm.us;

        now_us += us * (computes && sends ? o->slowdown : 1);
        if (computes && (compute_left -= us) <= 0) {
            n_computed++;
            compute_left = o->compute_us;
        }
        if (sends && (comm.us -= us) <= 0)
            comm = overlap_get_comm(mode, o, scatter_us, n_layers, ++n_sent);
    }
    return now_us;
}

/* ---- recorded slowdowns ---- */

/* A query of the recorded overlaps. */
struct overlap_query {
    enum mock_mode mode;
    const struct mock_run *run;
    int n_channels; /* 0: NCCL's own */
    double log_bytes;
    double log_ratio;
    int graph; /* of the arms that are asked */
    int round;
    double iteration;
};

struct estimate {
    double log_slowdown;
    double spread;
    enum mock_time_source source;
};

/* Outside the recorded range the nearest point applies. */
static bool overlap_is_outside(const struct mock_span *span)
{
    return span->weight > 1 || (span->lo == span->hi && span->weight > 0);
}

static struct estimate overlap_mix(struct estimate lo, struct estimate hi,
                                   double weight)
{
    return (struct estimate){
        .log_slowdown =
            (1 - weight) * lo.log_slowdown + weight * hi.log_slowdown,
        .spread = (1 - weight) * lo.spread + weight * hi.spread,
        .source = mock_worse_source(mock_worse_source(lo.source, hi.source),
                                    MOCK_TIME_INTERPOLATED),
    };
}

static struct estimate overlap_estimate_point(const struct mock_point *point,
                                              const struct overlap_query *w)
{
    const struct mock_row *row = &point->rows[w->round];

    return (struct estimate){row->log_value, mock_quantile(row, w->iteration),
                             point->source};
}

static struct estimate overlap_estimate_size(const struct mock_point *size,
                                             const struct overlap_query *w)
{
    const struct mock_span span = mock_curve_find(&size->ratios, w->log_ratio);
    struct estimate e = overlap_estimate_point(span.hi, w);

    if (span.weight == 0)
        return e;
    if (!overlap_is_outside(&span))
        return overlap_mix(overlap_estimate_point(span.lo, w), e, span.weight);
    e.source = fabs(span.hi->at - w->log_ratio) > same_log_ratio
                   ? MOCK_TIME_MODELLED
                   : mock_worse_source(e.source, MOCK_TIME_INTERPOLATED);
    return e;
}

static struct estimate overlap_estimate_arm(const struct mock_arm *arm,
                                            const struct overlap_query *w)
{
    const struct mock_span span = mock_curve_find(&arm->sizes, w->log_bytes);
    struct estimate e = overlap_estimate_size(span.hi, w);

    if (span.weight == 0)
        return e;
    if (!overlap_is_outside(&span))
        return overlap_mix(overlap_estimate_size(span.lo, w), e, span.weight);
    e.source = MOCK_TIME_MODELLED;
    return e;
}

/* ---- arms ---- */

enum rating {
    FOREIGN,   /* nothing overlaps in one of them */
    UNLIKE,    /* another collective, or all sizes on one side of the query's */
    LIKE_COLL, /* the query's size is between the arm's sizes */
    LIKE_PAIR, /* also the same algorithm and protocol */
    N_RATINGS  /* the identical arm is not rated */
};

static bool overlap_covers(const struct mock_arm *arm, size_t n_bytes)
{
    return arm->sizes.points[0].n_bytes <= n_bytes &&
           arm->sizes.points[arm->sizes.n_points - 1].n_bytes >= n_bytes;
}

static enum rating overlap_rate_arm(const struct mock_arm *arm,
                                    const struct overlap_query *w)
{
    if ((arm->mode == MOCK_MODE_SEQUENTIAL) !=
            (w->mode == MOCK_MODE_SEQUENTIAL) ||
        arm->graph != w->graph)
        return FOREIGN;
    if (arm->coll != (int)w->run->coll || !overlap_covers(arm, w->run->n_bytes))
        return UNLIKE;
    return arm->algo == w->run->algo && arm->proto == w->run->proto ? LIKE_PAIR
                                                                    : LIKE_COLL;
}

/* The arm of the mode, or else of the other mode with overlap. */
static const struct mock_arm *
overlap_find_arm(const struct mock_recorded *overlaps,
                 const struct overlap_query *w)
{
    const struct mock_arm *other = NULL;

    for (int i = 0; i < overlaps->n_arms; i++) {
        const struct mock_arm *arm = &overlaps->arms[i];

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
overlap_estimate_others(const struct mock_recorded *overlaps,
                        const struct overlap_query *w)
{
    struct estimate mean = {0, 0, MOCK_TIME_MODELLED};
    enum rating most = UNLIKE;
    int n = 0;

    for (int i = 0; i < overlaps->n_arms; i++) {
        const struct mock_arm *arm = &overlaps->arms[i];
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

/* Whether any iterations that overlap, or wait, were recorded, launched so. */
static bool overlap_has(const struct mock_recorded *overlaps, bool waits,
                        int graph)
{
    for (int i = 0; overlaps != NULL && i < overlaps->n_arms; i++)
        if ((overlaps->arms[i].mode == MOCK_MODE_SEQUENTIAL) == waits &&
            overlaps->arms[i].graph == graph)
            return true;
    return false;
}

static struct estimate overlap_estimate(const struct mock_machine *machine,
                                        const struct overlap_query *w)
{
    /* Copies run beside kernels; the memory that they share is not modelled. */
    static const struct estimate free_engines = {0, 1, MOCK_TIME_MODELLED};
    const struct mock_recorded *overlaps = machine->overlaps;
    const bool has_overlaps = overlap_has(overlaps, false, w->graph);
    const struct mock_arm *arm =
        has_overlaps ? overlap_find_arm(overlaps, w) : NULL;
    struct estimate e;

    if (arm == NULL && w->run->algo == MOCK_WAY_CE)
        return free_engines;
    if (!has_overlaps)
        return (struct estimate){log(default_slowdown), 1, MOCK_TIME_MODELLED};
    if (arm == NULL)
        return overlap_estimate_others(overlaps, w);
    e = overlap_estimate_arm(arm, w);
    if (arm->mode != w->mode || w->graph != w->run->graph)
        e.source = MOCK_TIME_MODELLED;
    return e;
}

/* ---- the interface ---- */

static ncclResult_t overlap_check(double compute_us, double round,
                                  double iteration)
{
    if (!(compute_us > 0 && compute_us < INFINITY))
        return mock_refuse("no compute of %g us", compute_us);
    if (!(round >= 0 && round < 1 && iteration >= 0 && iteration < 1))
        return mock_refuse("round %g or iteration %g is not in [0, 1)", round,
                           iteration);
    return ncclSuccess;
}

static struct overlap_query
overlap_make_query(const struct mock_machine *machine,
                   const struct mock_run *run, enum mock_mode mode,
                   double ratio, double round, double iteration)
{
    int own = mock_default_channels(&machine->model, run->algo, run->proto,
                                    run->n_bytes);

    return (struct overlap_query){
        .mode = mode,
        .run = run,
        .n_channels = run->n_channels < own ? run->n_channels : 0,
        .log_bytes = log((double)run->n_bytes),
        .log_ratio = log(ratio),
        /* graphs slow down as other launches do, where none were recorded */
        .graph = run->graph && (mode == MOCK_MODE_SEQUENTIAL ||
                                overlap_has(machine->overlaps, false, true)),
        .round = (int)(round * mock_machine_overlap_rounds(machine)),
        .iteration = iteration,
    };
}

ncclResult_t mock_machine_overlap(const struct mock_machine *machine,
                                  const struct mock_run *run,
                                  enum mock_mode mode, double compute_us,
                                  double round, double iteration,
                                  struct mock_overlap *overlap_ret)
{
    struct mock_time alone = {0};
    struct overlap_query w;
    struct estimate e;

    MOCK_TRY(overlap_check(compute_us, round, iteration));
    MOCK_TRY(mock_machine_mean_time(machine, run, &alone));
    w = overlap_make_query(machine, run, mode, compute_us / alone.us, round,
                           iteration);
    e = overlap_estimate(machine, &w);
    overlap_ret->compute_us = compute_us * e.spread;
    overlap_ret->comm_us = alone.us * e.spread;
    overlap_ret->slowdown = exp(e.log_slowdown);
    overlap_ret->source = e.source == MOCK_TIME_RECORDED
                              ? e.source
                              : mock_worse_source(alone.source, e.source);
    overlap_ret->is_single_pass =
        e.source != MOCK_TIME_RECORDED && alone.is_single_pass;
    return ncclSuccess;
}

ncclResult_t mock_machine_time_after(const struct mock_machine *machine,
                                     const struct mock_run *run,
                                     double compute_us, double round,
                                     double iteration,
                                     struct mock_time *time_ret)
{
    const struct mock_recorded *overlaps = machine->overlaps;
    const struct mock_arm *arm;
    bool has_sequential = false;
    struct mock_time alone = {0};
    struct overlap_query w;
    struct estimate e;

    MOCK_TRY(overlap_check(compute_us, round, iteration));
    for (int i = 0; overlaps != NULL && i < overlaps->n_arms; i++)
        has_sequential |= overlaps->arms[i].mode == MOCK_MODE_SEQUENTIAL &&
                          overlaps->arms[i].graph == run->graph &&
                          overlaps->arms[i].coll == (int)run->coll &&
                          overlap_covers(&overlaps->arms[i], run->n_bytes);
    if (!has_sequential) {
        MOCK_TRY(mock_machine_time(machine, run, round, iteration, time_ret));
        if (run->graph)
            time_ret->source = MOCK_TIME_MODELLED;
        return ncclSuccess;
    }
    MOCK_TRY(mock_machine_mean_time(machine, run, &alone));
    w = overlap_make_query(machine, run, MOCK_MODE_SEQUENTIAL,
                           compute_us / alone.us, round, iteration);
    arm = overlap_find_arm(overlaps, &w);
    e = arm != NULL ? overlap_estimate_arm(arm, &w)
                    : overlap_estimate_others(overlaps, &w);
    *time_ret = alone;
    time_ret->us *= exp(e.log_slowdown) * e.spread;
    time_ret->source = e.source == MOCK_TIME_RECORDED
                           ? e.source
                           : mock_worse_source(alone.source, e.source);
    time_ret->is_single_pass &= e.source != MOCK_TIME_RECORDED;
    return ncclSuccess;
}

bool mock_machine_captures(const struct mock_machine *machine)
{
    return overlap_has(machine->overlaps, true, true);
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
    const struct mock_recorded *overlaps = machine->overlaps;
    size_t n = overlaps != NULL ? (size_t)overlaps->n_settings : 0;

    for (size_t i = 0; i < n && i < max; i++)
        settings[i] = overlaps->settings[i];
    return n;
}

/* ---- the file ---- */

/* Sets a record's time of its collective without overlap. */
static ncclResult_t overlap_find_comm(const char *path,
                                      const struct mock_machine *machine,
                                      struct mock_record *r)
{
    const struct mock_run run = {
        .coll = (ncclFunc_t)r->coll,
        .n_bytes = r->n_bytes,
        .algo = r->algo,
        .proto = r->proto,
        .n_channels = r->n_channels,
        .graph = r->graph,
    };
    struct mock_time time = {0};

    if (mock_machine_mean_time(machine, &run, &time) != ncclSuccess)
        return mock_refuse("%s:%d: timings.csv has no time of this arm's "
                           "collective alone, and none is modelled",
                           path, r->line);
    r->comm_us = time.us;
    return ncclSuccess;
}

/* Sets a record's slowdown, of which the time of iterations is a linear
 * function. */
static ncclResult_t overlap_find_slowdown(const char *path, double scatter_us,
                                          struct mock_record *r)
{
    struct mock_overlap o = {.compute_us = r->compute_us,
                             .comm_us = r->comm_us};
    const double alone_us =
        mock_iteration_us(r->mode, &o, scatter_us, r->n_layers);
    double slowdown = 0;
    char scatter[64] = "";

    o.slowdown = 1;
    slowdown =
        (r->mean - alone_us) /
        (mock_iteration_us(r->mode, &o, scatter_us, r->n_layers) - alone_us);
    r->log_slowdown = log(fmin(fmax(slowdown, 1. / 64), 64));
    o.slowdown = exp(r->log_slowdown);
    if (fabs(mock_iteration_us(r->mode, &o, scatter_us, r->n_layers) -
             r->mean) <= 1e-9 * r->mean)
        return ncclSuccess;
    if (r->mode == MOCK_MODE_FSDP)
        snprintf(scatter, sizeof(scatter), " and a reduce-scatter of %g us",
                 scatter_us);
    return mock_refuse("%s:%d: mean_us %g cannot be: %d layers of %g us, each "
                       "with a collective of %g us%s alone",
                       path, r->line, r->mean, r->n_layers, r->compute_us,
                       r->comm_us, scatter);
}

/* Sets all slowdowns. A record of fsdp becomes one of each of its collectives,
 * and those of the same pair become one. */
static ncclResult_t overlap_find_slowdowns(const char *path,
                                           const struct mock_machine *machine,
                                           struct mock_records *records)
{
    const int n = records->n;
    struct mock_record *list =
        realloc(records->list, 2 * (size_t)n * sizeof(*list));

    if (list == NULL)
        return mock_fail_memory();
    records->list = list;
    records->capacity = 2 * n;
    for (int i = 0; i < n; i++) {
        struct mock_record *r = &list[i];
        struct mock_record scatter = *r;
        ncclResult_t rc = overlap_find_comm(path, machine, r);

        scatter.coll = ncclFuncReduceScatter;
        scatter.algo = scatter.scatter_algo;
        scatter.proto = scatter.scatter_proto;
        if (rc == ncclSuccess && r->mode == MOCK_MODE_FSDP)
            rc = overlap_find_comm(path, machine, &scatter);
        MOCK_THEN(rc, overlap_find_slowdown(path, scatter.comm_us, r));
        if (rc != ncclSuccess)
            return rc;
        if (r->mode != MOCK_MODE_FSDP)
            continue;
        r->scatter_algo = r->scatter_proto = 0;
        scatter.scatter_algo = scatter.scatter_proto = 0;
        scatter.log_slowdown = r->log_slowdown;
        list[records->n++] = scatter;
    }
    mock_records_pool(records);
    return ncclSuccess;
}

/* Adds a row and, if it is the first of a setting, its point. */
static ncclResult_t overlap_add_record(const char *path,
                                       const struct mock_record *r,
                                       struct mock_recorded *o)
{
    struct mock_curve *ratios = &mock_recorded_add(o, r)->ratios;
    struct mock_overlap_setting *setting = o->settings + o->n_others;
    struct mock_point *point = o->others + o->n_others;
    struct mock_row *row = &o->rows[o->n_rows++];

    if (ratios->n_points == 0 || setting[-1].compute_us != r->compute_us) {
        ratios->n_points++;
        o->n_others++;
        *point++ = (struct mock_point){
            .at = log(r->compute_us / r->comm_us),
            .rows = row,
        };
        *setting++ = (struct mock_overlap_setting){
            .mode = r->mode,
            .coll = (ncclFunc_t)r->coll,
            .n_bytes = r->n_bytes,
            .compute_us = r->compute_us,
            .n_layers = r->n_layers,
            .m = r->m,
            .n = r->n,
            .k = r->k,
        };
    } else if (setting[-1].n_layers != r->n_layers) {
        return mock_refuse(
            "%s:%d: %d layers, but line %d has %d with the same compute_us",
            path, r->line, r->n_layers, r[-1].line, r[-1].n_layers);
    }
    /* rounds count from 1, without gaps */
    if (r->round != ++point[-1].n_rounds)
        return mock_refuse("%s:%d: round %d, but round %d is the next of this "
                           "size, compute_us and arm",
                           path, r->line, r->round, point[-1].n_rounds);
    row->log_value = r->log_slowdown;
    mock_set_quantiles(r, row);
    point[-1].source = mock_worse_source(point[-1].source, r->source);
    setting[-1].source = point[-1].source;
    return ncclSuccess;
}

static int overlap_compare_settings(const void *a_, const void *b_)
{
    const struct mock_overlap_setting *a = a_;
    const struct mock_overlap_setting *b = b_;

    const int differences[] = {
        (int)a->mode - (int)b->mode, (int)a->coll - (int)b->coll,
        (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes),
        (a->compute_us > b->compute_us) - (a->compute_us < b->compute_us)};

    for (int i = 0; i < 4; i++)
        if (differences[i] != 0)
            return differences[i];
    return a->n_layers - b->n_layers;
}

ncclResult_t mock_overlaps_build(const char *path,
                                 const struct mock_machine *machine,
                                 struct mock_records *records,
                                 struct mock_recorded *overlaps)
{
    struct mock_overlap_setting *list = overlaps->settings;
    const struct mock_point *most = overlaps->others;
    ncclResult_t rc = overlap_find_slowdowns(path, machine, records);

    for (int i = 0; i < records->n && rc == ncclSuccess; i++)
        rc = overlap_add_record(path, &records->list[i], overlaps);
    if (rc != ncclSuccess)
        return rc;
    for (int i = 0; i < overlaps->n_others; i++)
        if (overlaps->others[i].n_rounds > most->n_rounds)
            most = &overlaps->others[i];
    overlaps->n_rounds = most->n_rounds;
    for (const struct mock_point *point = overlaps->others;
         point < overlaps->others + overlaps->n_others; point++)
        if (point->n_rounds != most->n_rounds) /* rows are as records */
            return mock_refuse(
                "%s:%d: %d rounds of this size, compute_us and arm, but line "
                "%d begins %d of others, expected as many of all",
                path, records->list[point->rows - overlaps->rows].line,
                point->n_rounds,
                records->list[most->rows - overlaps->rows].line,
                most->n_rounds);
    /* each setting once, over all arms */
    qsort(list, (size_t)overlaps->n_others, sizeof(*list),
          overlap_compare_settings);
    for (int i = 0; i < overlaps->n_others; i++)
        if (i == 0 || overlap_compare_settings(&list[overlaps->n_settings - 1],
                                               &list[i]) != 0)
            list[overlaps->n_settings++] = list[i];
    return ncclSuccess;
}
