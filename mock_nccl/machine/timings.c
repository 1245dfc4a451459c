#include "machine/timings.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "machine/machine.h"
#include "machine/modelled.h"
#include "machine/records.h"
#include "model/channels.h"

/* ---- sizes ---- */

/* The position of a size on a curve: at 'lo', or at 'weight' between 'lo' and
 * 'hi', in logarithms; above 1 beyond the last point. */
struct span {
    const struct mock_point *lo;
    const struct mock_point *hi;
    double weight;
};

/* Sources are ordered from the most to the least reliable. */
static enum mock_time_source timings_worse_source(enum mock_time_source a,
                                                  enum mock_time_source b)
{
    return a > b ? a : b;
}

static enum mock_time_source timings_get_source(const struct span *span)
{
    bool exact = span->lo == span->hi && span->weight == 0;

    if (!exact && (span->lo == span->hi || span->weight > 1))
        return MOCK_TIME_MODELLED;
    return timings_worse_source(
        timings_worse_source(span->lo->source, span->hi->source),
        exact ? MOCK_TIME_RECORDED : MOCK_TIME_INTERPOLATED);
}

static bool timings_is_single_pass(const struct span *span)
{
    return span->lo->is_single_pass || span->hi->is_single_pass;
}

/* The index of the first of 'n' elements of at least 'n_bytes', or 'n'; the
 * elements are structs of 'size' bytes that begin with their n_bytes. */
static inline int timings_lower_bound(const void *elements, int n, size_t size,
                                      size_t n_bytes)
{
    const char *base = elements;
    int first = 0;

    while (n > 0) {
        int half = n / 2;

        if (*(const size_t *)(base + (size_t)(first + half) * size) < n_bytes) {
            first += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return first;
}

/* 'weight' is 1 where the nearest point applies outside the range. */
static struct span timings_find(const struct mock_curve *curve, size_t n_bytes)
{
    const struct mock_point *hi =
        curve->points + timings_lower_bound(curve->points, curve->n_points,
                                            sizeof(*curve->points), n_bytes);
    const struct mock_point *end = curve->points + curve->n_points;
    const struct mock_point *lo;
    double width;

    if (hi < end && hi->n_bytes == n_bytes)
        return (struct span){hi, hi, 0};
    if (hi == end)
        hi--;
    if (hi == curve->points)
        return (struct span){hi, hi, 1};
    lo = hi - 1;
    width = hi->log_bytes - lo->log_bytes;
    return (struct span){lo, hi,
                         (log((double)n_bytes) - lo->log_bytes) / width};
}

static const struct mock_row *timings_get_row(const struct mock_point *point,
                                              int round)
{
    return &point->rows[round % point->n_rounds];
}

static const struct mock_point *timings_nearest(const struct span *span)
{
    return span->weight < .5 ? span->lo : span->hi;
}

/* The mean of one round. It does not decrease beyond the last point. */
static double timings_get_mean(const struct span *span, int round)
{
    const struct mock_row *lo = timings_get_row(span->lo, round);
    const struct mock_row *hi = timings_get_row(span->hi, round);
    double slope = hi->log_mean - lo->log_mean;

    if (span->lo == span->hi)
        return lo->mean;
    if (span->weight > 1 && slope < 0)
        return hi->mean;
    return exp(lo->log_mean + span->weight * slope);
}

/* ---- spread ---- */

double mock_quantile(const double q[4], double at)
{
    if (at < .5)
        return q[0] + (q[1] - q[0]) * at / .5;
    if (at < .95)
        return q[1] + (q[2] - q[1]) * (at - .5) / .45;
    return q[2] + (q[3] - q[2]) * (at - .95) / .05;
}

/* The spread relative to the mean, interpolated so that its own mean stays 1.
 */
static double timings_get_spread(const struct span *span, int round,
                                 double iteration)
{
    double weight = fmin(span->weight, 1);

    return (1 - weight) *
               mock_quantile(timings_get_row(span->lo, round)->quantile,
                             iteration) +
           weight * mock_quantile(timings_get_row(span->hi, round)->quantile,
                                  iteration);
}

/* ---- rounds ---- */

/* The number of rounds of a collective at this size or, between recorded sizes,
 * at the neighbour with more rounds: all pairs draw from the same number. */
static int timings_count_rounds(const struct mock_timings *timings, int coll,
                                size_t n_bytes)
{
    const struct mock_size *sizes = timings->sizes[coll];
    int n = timings->n_sizes[coll];
    int first = timings_lower_bound(sizes, n, sizeof(*sizes), n_bytes);

    if (first == n)
        return sizes[n - 1].n_rounds;
    if (first == 0 || sizes[first].n_bytes == n_bytes ||
        sizes[first].n_rounds > sizes[first - 1].n_rounds)
        return sizes[first].n_rounds;
    return sizes[first - 1].n_rounds;
}

/* ---- channels ---- */

/* A channel count, and its time relative to that of NCCL's own count. */
struct knot {
    double log_channels;
    double log_ratio;
    enum mock_time_source source;
    bool is_single_pass;
};

static struct knot timings_knot_at(const struct mock_count *count,
                                   size_t n_bytes)
{
    struct span span = timings_find(&count->ratio, n_bytes);
    enum mock_time_source source = timings_get_source(&span);

    /* The ratio of the largest size applies to larger ones. */
    if (span.weight > 1)
        span = (struct span){span.hi, span.hi, 1};
    return (struct knot){
        .log_channels = log(count->n_channels),
        .log_ratio = log(timings_get_mean(&span, 0)),
        .source = source,
        .is_single_pass = timings_is_single_pass(&span),
    };
}

/* The i-th recorded count; NCCL's own count follows the last one below it. */
static struct knot timings_get_knot(const struct mock_pair *pair, int i,
                                    int n_own, size_t n_bytes)
{
    if (i < pair->n_counts && pair->counts[i].n_channels < n_own)
        return timings_knot_at(&pair->counts[i], n_bytes);
    return (struct knot){.log_channels = log(n_own)};
}

/*
 * The ratio of the time on 'n_channels' to that on NCCL's own 'n_own', which is
 * larger. Below the smallest recorded count the slope of the two smallest
 * continues, but fewer channels are never faster.
 */
static double timings_channel_ratio(const struct mock_pair *pair,
                                    int n_channels, int n_own, size_t n_bytes,
                                    enum mock_time_source *source_ret,
                                    bool *is_single_pass_ret)
{
    int i = 0;
    struct knot lo, hi;
    double slope;

    while (i < pair->n_counts && pair->counts[i].n_channels < n_channels)
        i++;
    hi = timings_get_knot(pair, i, n_own, n_bytes);
    *source_ret = hi.source;
    *is_single_pass_ret = hi.is_single_pass;
    if (i < pair->n_counts && pair->counts[i].n_channels == n_channels)
        return exp(hi.log_ratio);
    lo = timings_get_knot(pair, i > 0 ? i - 1 : 0, n_own, n_bytes);
    *source_ret = timings_worse_source(
        timings_worse_source(lo.source, hi.source), MOCK_TIME_INTERPOLATED);
    *is_single_pass_ret |= lo.is_single_pass;
    if (i == 0) {
        hi = timings_get_knot(pair, 1, n_own, n_bytes);
        *source_ret = MOCK_TIME_MODELLED;
    }
    slope = (hi.log_ratio - lo.log_ratio) / (hi.log_channels - lo.log_channels);
    if (i == 0)
        slope = fmin(slope, 0);
    return exp(lo.log_ratio + slope * (log(n_channels) - lo.log_channels));
}

/* ---- one time ---- */

/* The interpolation of a run. */
struct lookup {
    int n_rounds;
    struct span span;
    double ratio;
    enum mock_time_source source;
    bool is_single_pass;
};

static struct lookup timings_look_up(const struct mock_machine *machine,
                                     const struct mock_run *run)
{
    const struct mock_pair *pair =
        &machine->timings->pairs[run->coll][run->algo][run->proto];
    int n_own = mock_default_channels(&machine->model, run->algo, run->proto,
                                      run->n_bytes);
    enum mock_time_source source = MOCK_TIME_RECORDED;
    struct lookup found = {
        .n_rounds =
            timings_count_rounds(machine->timings, run->coll, run->n_bytes),
        .span = timings_find(&pair->own, run->n_bytes),
        .ratio = 1,
    };

    if (run->n_channels != 0 && run->n_channels < n_own) {
        source = MOCK_TIME_MODELLED; /* if no other count was recorded */
        if (pair->n_counts > 0 && pair->counts[0].n_channels < n_own)
            found.ratio = timings_channel_ratio(pair, run->n_channels, n_own,
                                                run->n_bytes, &source,
                                                &found.is_single_pass);
        else
            found.ratio = 1 + mock_fewer_channels_us(&machine->model, run) /
                                  timings_get_mean(&found.span, 0);
    }
    found.source =
        timings_worse_source(source, timings_get_source(&found.span));
    found.is_single_pass |= timings_is_single_pass(&found.span);
    return found;
}

static ncclResult_t timings_check_run(const struct mock_run *run)
{
    if ((unsigned)run->coll >= NCCL_NUM_TUNED_FUNCS ||
        (unsigned)run->algo >= MOCK_NUM_WAYS ||
        (unsigned)run->proto >= NCCL_NUM_PROTOCOLS)
        return mock_fail(ncclInvalidArgument,
                         "no time for collective %d, algorithm %d and protocol "
                         "%d",
                         (int)run->coll, run->algo, run->proto);
    if (run->n_bytes == 0)
        return mock_fail(ncclInvalidArgument, "no time for 0 bytes");
    if (run->n_channels < 0)
        return mock_fail(ncclInvalidArgument, "no time for %d channels",
                         run->n_channels);
    return ncclSuccess;
}

/* Whether times were recorded for the pair. */
static bool timings_has_pair(const struct mock_machine *machine,
                             const struct mock_run *run)
{
    return machine->timings != NULL &&
           machine->timings->pairs[run->coll][run->algo][run->proto]
                   .own.n_points > 0;
}

bool mock_machine_has_way(const struct mock_machine *machine, ncclFunc_t coll,
                          enum mock_way way)
{
    const struct mock_run run = {.coll = coll, .algo = (int)way};

    return timings_has_pair(machine, &run);
}

ncclResult_t mock_machine_time(const struct mock_machine *machine,
                               const struct mock_run *run, double round,
                               double iteration, struct mock_time *time_ret)
{
    ncclResult_t rc = timings_check_run(run);
    struct lookup found;
    int i;

    if (rc != ncclSuccess)
        return rc;
    if (!(round >= 0 && round < 1 && iteration >= 0 && iteration < 1))
        return mock_fail(ncclInvalidArgument,
                         "round %g or iteration %g is not in [0, 1)", round,
                         iteration);
    if (!timings_has_pair(machine, run))
        return mock_modelled_time(machine, run, time_ret);
    found = timings_look_up(machine, run);
    i = (int)(round * found.n_rounds);
    time_ret->us = timings_get_mean(&found.span, i) * found.ratio *
                   timings_get_spread(&found.span, i, iteration);
    time_ret->source = found.source;
    time_ret->is_single_pass = found.is_single_pass;
    time_ret->kernel = timings_nearest(&found.span)->kernel;
    return ncclSuccess;
}

ncclResult_t mock_machine_mean_time(const struct mock_machine *machine,
                                    const struct mock_run *run,
                                    struct mock_time *time_ret)
{
    ncclResult_t rc = timings_check_run(run);
    struct lookup found;
    int n_rounds;
    double sum = 0;

    if (rc != ncclSuccess)
        return rc;
    if (!timings_has_pair(machine, run))
        return mock_modelled_time(machine, run, time_ret);
    found = timings_look_up(machine, run);
    n_rounds = found.span.lo->n_rounds > found.span.hi->n_rounds
                   ? found.span.lo->n_rounds
                   : found.span.hi->n_rounds;
    for (int i = 0; i < n_rounds; i++)
        sum += timings_get_mean(&found.span, i);
    time_ret->us = sum / n_rounds * found.ratio;
    time_ret->source = found.source;
    time_ret->is_single_pass = found.is_single_pass;
    time_ret->kernel = timings_nearest(&found.span)->kernel;
    return ncclSuccess;
}

struct mock_run mock_outcome_run(const struct mock_call *call,
                                 const struct mock_outcome *outcome)
{
    int kept = outcome->tuned_channels;

    return (struct mock_run){
        .coll = call->coll,
        .n_bytes = call->n_bytes,
        .algo = outcome->algo,
        .proto = outcome->proto,
        /* a negative count gets as many channels as there are */
        .n_channels = kept >= 0 ? kept : INT8_MAX,
    };
}

int mock_outcome_limit(const struct mock_outcome *outcome)
{
    int asked = outcome->asked_channels;
    int kept = outcome->tuned_channels;

    /* others keep the count, or the low bits of one above INT8_MAX */
    return kept > 0 && kept < asked && asked <= INT8_MAX ? kept : 0;
}

/* ---- timings load ---- */

/* Adjacent records with common members. */
struct group {
    const struct mock_record *list;
    int n;
};

/* ---- rows ---- */

/* The mean of the piecewise linear distribution with these quantiles. */
static double timings_quantile_mean(const double q[4])
{
    return .5 * (q[0] + q[1]) / 2 + .45 * (q[1] + q[2]) / 2 +
           .05 * (q[2] + q[3]) / 2;
}

void mock_quantiles(const struct mock_record *record, double q[4])
{
    double scale;

    q[0] = record->min;
    q[1] = record->median;
    q[2] = record->p95;
    q[3] = record->p95;
    q[3] += (record->mean - timings_quantile_mean(q)) / .025;
    if (q[3] < q[2])
        q[3] = q[2];
    scale = 1 / timings_quantile_mean(q);
    for (int i = 0; i < 4; i++)
        q[i] *= scale;
}

static void timings_set_row(const struct mock_record *record,
                            struct mock_row *row)
{
    row->mean = record->mean;
    row->log_mean = log(record->mean);
    mock_quantiles(record, row->quantile);
}

/* ---- curves ---- */

static bool timings_alloc_curve(struct mock_curve *curve, int n)
{
    curve->points = calloc((size_t)n + 1, sizeof(*curve->points));
    curve->rows = calloc((size_t)n + 1, sizeof(*curve->rows));
    return curve->points != NULL && curve->rows != NULL;
}

/* Adds a row, the 'n_rows'th, to the last point, or to a new one. */
static void timings_add_row(struct mock_curve *curve, int n_rows,
                            const struct mock_record *record)
{
    struct mock_point *point;

    if (curve->n_points == 0 ||
        curve->points[curve->n_points - 1].n_bytes != record->n_bytes)
        curve->points[curve->n_points++] = (struct mock_point){
            .n_bytes = record->n_bytes,
            .log_bytes = log((double)record->n_bytes),
            .rows = &curve->rows[n_rows],
        };
    point = &curve->points[curve->n_points - 1];
    point->n_rounds++;
    point->is_single_pass = record->round == 0 || point->n_rounds == 1;
    point->source = timings_worse_source(point->source, record->source);
    memcpy(point->kernel, record->kernel, sizeof(point->kernel));
}

/* Whether the size lies between sizes of interleaved rounds. */
static bool timings_in_rounds(const struct group *group, size_t n_bytes)
{
    bool below = false;
    bool above = false;

    for (int i = 0; i < group->n; i++)
        if (group->list[i].round > 0) {
            below |= group->list[i].n_bytes <= n_bytes;
            above |= group->list[i].n_bytes >= n_bytes;
        }
    return below && above;
}

/* Single passes are used only where no rounds were recorded. */
static bool timings_is_used(const struct group *group,
                            const struct mock_record *record)
{
    return record->round > 0 || !timings_in_rounds(group, record->n_bytes);
}

static ncclResult_t timings_build_own(const struct group *group,
                                      struct mock_curve *curve)
{
    int n_rows = 0;

    if (!timings_alloc_curve(curve, group->n))
        return mock_fail_memory();
    for (int i = 0; i < group->n; i++) {
        const struct mock_record *r = &group->list[i];

        if (!timings_is_used(group, r))
            continue;
        timings_set_row(r, &curve->rows[n_rows]);
        timings_add_row(curve, n_rows++, r);
    }
    return ncclSuccess;
}

/* The ratio of a time to that with NCCL's own channels in the same pass. */
static ncclResult_t timings_find_ratio(const char *path,
                                       const struct mock_records *records,
                                       const struct mock_record *record,
                                       double *ratio_ret)
{
    struct mock_record key = *record;
    const struct mock_record *own;

    key.n_channels = 0;
    own = mock_records_find(records, &key);
    if (own == NULL)
        return mock_fail(ncclInvalidArgument,
                         "%s:%d: %d channels, but no row with channels 0 in "
                         "the same run and round",
                         path, record->line, record->n_channels);
    *ratio_ret = record->mean / own->mean;
    return ncclSuccess;
}

/* Builds one row per size: the mean over runs and rounds. */
static ncclResult_t timings_build_ratio(const char *path,
                                        const struct mock_records *records,
                                        const struct group *group,
                                        struct mock_curve *curve)
{
    double ratio = 0;

    if (!timings_alloc_curve(curve, group->n))
        return mock_fail_memory();
    for (int i = 0; i < group->n; i++) {
        const struct mock_record *r = &group->list[i];
        ncclResult_t rc = timings_find_ratio(path, records, r, &ratio);
        struct mock_row *row;

        if (rc != ncclSuccess)
            return rc;
        if (!timings_is_used(group, r))
            continue;
        timings_add_row(curve, curve->n_points, r);
        row = &curve->rows[curve->n_points - 1];
        row->mean += ratio;
    }
    for (int i = 0; i < curve->n_points; i++) {
        struct mock_row *row = &curve->rows[i];

        row->mean /= curve->points[i].n_rounds;
        row->log_mean = log(row->mean);
        curve->points[i].rows = row;
        curve->points[i].n_rounds = 1;
    }
    return ncclSuccess;
}

/* ---- pairs ---- */

static struct group timings_same_count(const struct mock_records *records,
                                       int from)
{
    const struct mock_record *first = &records->list[from];
    struct group group = {.list = first};

    while (from + group.n < records->n && first[group.n].coll == first->coll &&
           first[group.n].algo == first->algo &&
           first[group.n].proto == first->proto &&
           first[group.n].n_channels == first->n_channels)
        group.n++;
    return group;
}

static struct mock_curve *timings_new_count(struct mock_pair *pair,
                                            int n_channels)
{
    struct mock_count *counts =
        realloc(pair->counts, (size_t)(pair->n_counts + 1) * sizeof(*counts));

    if (counts == NULL)
        return NULL;
    pair->counts = counts;
    counts += pair->n_counts++;
    *counts = (struct mock_count){.n_channels = n_channels};
    return &counts->ratio;
}

static ncclResult_t timings_build_pairs(const char *path,
                                        const struct mock_records *records,
                                        struct mock_timings *timings)
{
    ncclResult_t rc = ncclSuccess;

    for (int i = 0; i < records->n && rc == ncclSuccess;) {
        struct group group = timings_same_count(records, i);
        const struct mock_record *r = group.list;
        struct mock_pair *pair = &timings->pairs[r->coll][r->algo][r->proto];
        struct mock_curve *ratio = NULL;

        if (r->n_channels == 0)
            rc = timings_build_own(&group, &pair->own);
        else if ((ratio = timings_new_count(pair, r->n_channels)) == NULL)
            rc = mock_fail_memory();
        else
            rc = timings_build_ratio(path, records, &group, ratio);
        i += group.n;
    }
    return rc;
}

/* ---- sizes ---- */

static int timings_compare_size(const void *a_, const void *b_)
{
    const struct mock_size *a = a_;
    const struct mock_size *b = b_;

    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->is_single_pass != b->is_single_pass)
        return a->is_single_pass - b->is_single_pass;
    return b->n_rounds - a->n_rounds;
}

/* Lists the sizes of all pairs, unless 'sizes' is NULL; returns their number.
 */
static int timings_list_sizes(const struct mock_timings *timings, int coll,
                              struct mock_size *sizes)
{
    int n = 0;

    for (int a = 0; a < MOCK_NUM_WAYS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            const struct mock_curve *own = &timings->pairs[coll][a][p].own;

            for (int i = 0; i < own->n_points && sizes != NULL; i++)
                sizes[n + i] = (struct mock_size){
                    .n_bytes = own->points[i].n_bytes,
                    .n_rounds = own->points[i].n_rounds,
                    .is_single_pass = own->points[i].is_single_pass,
                };
            n += own->n_points;
        }
    return n;
}

/* Lists each size once, with the largest number of rounds of its pairs. */
static ncclResult_t timings_build_sizes(struct mock_timings *timings, int coll)
{
    int n = timings_list_sizes(timings, coll, NULL);
    struct mock_size *sizes = calloc((size_t)n + 1, sizeof(*sizes));
    int n_kept = 0;

    if (sizes == NULL)
        return mock_fail_memory();
    timings_list_sizes(timings, coll, sizes);
    qsort(sizes, (size_t)n, sizeof(*sizes), timings_compare_size);
    for (int i = 0; i < n; i++)
        if (n_kept == 0 || sizes[n_kept - 1].n_bytes != sizes[i].n_bytes)
            sizes[n_kept++] = sizes[i];
    timings->sizes[coll] = sizes;
    timings->n_sizes[coll] = n_kept;
    return ncclSuccess;
}

/* ---- the file ---- */

static ncclResult_t timings_build(const char *path,
                                  const struct mock_records *records,
                                  struct mock_timings *timings)
{
    ncclResult_t rc = timings_build_pairs(path, records, timings);

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && rc == ncclSuccess; c++)
        rc = timings_build_sizes(timings, c);
    return rc;
}

ncclResult_t mock_timings_load(const char *path, const struct mock_model *model,
                               struct mock_timings **timings_ret)
{
    struct mock_timings *timings = calloc(1, sizeof(*timings));
    struct mock_records records = {NULL, 0, 0};
    ncclResult_t rc;

    if (timings == NULL)
        return mock_fail_memory();
    rc = mock_records_load(path, false, model, &records);
    if (rc == ncclSuccess)
        rc = timings_build(path, &records, timings);
    free(records.list);
    if (rc != ncclSuccess) {
        mock_timings_free(timings);
        return rc;
    }
    *timings_ret = timings;
    return ncclSuccess;
}

static void timings_free_curve(struct mock_curve *curve)
{
    free(curve->points);
    free(curve->rows);
}

static void timings_free_pair(struct mock_pair *pair)
{
    timings_free_curve(&pair->own);
    for (int i = 0; i < pair->n_counts; i++)
        timings_free_curve(&pair->counts[i].ratio);
    free(pair->counts);
}

void mock_timings_free(struct mock_timings *timings)
{
    if (timings == NULL)
        return;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < MOCK_NUM_WAYS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                timings_free_pair(&timings->pairs[c][a][p]);
        free(timings->sizes[c]);
    }
    free(timings);
}
