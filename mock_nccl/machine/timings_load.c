#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/names.h"
#include "machine/records.h"
#include "machine/timings.h"

/* Records next to each other that share something. */
struct group {
    const struct mock_record *list;
    int n;
};

/* ---- rows ---- */

/* The mean of the piecewise linear distribution with these quantiles. */
static double mean_of(const double q[4])
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
    q[3] += (record->mean - mean_of(q)) / .025;
    if (q[3] < q[2])
        q[3] = q[2];
    scale = 1 / mean_of(q);
    for (int i = 0; i < 4; i++)
        q[i] *= scale;
}

static void set_row(const struct mock_record *record, struct mock_row *row)
{
    row->mean = record->mean;
    row->log_mean = log(record->mean);
    mock_quantiles(record, row->quantile);
}

/* ---- curves ---- */

static bool alloc_curve(struct mock_curve *curve, int n)
{
    curve->points = calloc((size_t)n + 1, sizeof(*curve->points));
    curve->rows = calloc((size_t)n + 1, sizeof(*curve->rows));
    return curve->points != NULL && curve->rows != NULL;
}

/* Adds a row, the 'n_rows'th, to the last point, or to a new one. */
static void add_row(struct mock_curve *curve, int n_rows,
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
}

/* The sizes between which interleaved rounds were recorded. */
static bool in_rounds(const struct group *group, size_t n_bytes)
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

/* A single pass counts only where no rounds were recorded. */
static bool counts(const struct group *group, const struct mock_record *record)
{
    return record->round > 0 || !in_rounds(group, record->n_bytes);
}

static ncclResult_t build_own(const struct group *group,
                              struct mock_curve *curve)
{
    int n_rows = 0;

    if (!alloc_curve(curve, group->n))
        return mock_fail_memory();
    for (int i = 0; i < group->n; i++) {
        const struct mock_record *r = &group->list[i];

        if (!counts(group, r))
            continue;
        set_row(r, &curve->rows[n_rows]);
        add_row(curve, n_rows++, r);
    }
    return ncclSuccess;
}

/* A time as a part of the time with NCCL's own channels in the same pass. */
static ncclResult_t find_ratio(const char *path,
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

/* One row a size: the mean over runs and rounds. */
static ncclResult_t build_ratio(const char *path,
                                const struct mock_records *records,
                                const struct group *group,
                                struct mock_curve *curve)
{
    double ratio = 0;

    if (!alloc_curve(curve, group->n))
        return mock_fail_memory();
    for (int i = 0; i < group->n; i++) {
        const struct mock_record *r = &group->list[i];
        ncclResult_t rc = find_ratio(path, records, r, &ratio);
        struct mock_row *row;

        if (rc != ncclSuccess)
            return rc;
        if (!counts(group, r))
            continue;
        add_row(curve, curve->n_points, r);
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

static struct group same_count(const struct mock_records *records, int from)
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

static struct mock_curve *new_count(struct mock_pair *pair, int n_channels)
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

static ncclResult_t build_pairs(const char *path,
                                const struct mock_records *records,
                                struct mock_timings *timings)
{
    ncclResult_t rc = ncclSuccess;

    for (int i = 0; i < records->n && rc == ncclSuccess;) {
        struct group group = same_count(records, i);
        const struct mock_record *r = group.list;
        struct mock_pair *pair = &timings->pairs[r->coll][r->algo][r->proto];
        struct mock_curve *ratio = NULL;

        if (r->n_channels == 0)
            rc = build_own(&group, &pair->own);
        else if ((ratio = new_count(pair, r->n_channels)) == NULL)
            rc = mock_fail_memory();
        else
            rc = build_ratio(path, records, &group, ratio);
        i += group.n;
    }
    return rc;
}

/* ---- sizes ---- */

static int by_size(const void *a_, const void *b_)
{
    const struct mock_size *a = a_;
    const struct mock_size *b = b_;

    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->is_single_pass != b->is_single_pass)
        return a->is_single_pass - b->is_single_pass;
    return b->n_rounds - a->n_rounds;
}

static int n_points_of(const struct mock_timings *timings, int coll)
{
    int n = 0;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
            n += timings->pairs[coll][a][p].own.n_points;
    return n;
}

static int list_sizes(const struct mock_timings *timings, int coll,
                      struct mock_size *sizes)
{
    int n = 0;

    for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
        for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++) {
            const struct mock_curve *own = &timings->pairs[coll][a][p].own;

            for (int i = 0; i < own->n_points; i++)
                sizes[n++] = (struct mock_size){
                    .n_bytes = own->points[i].n_bytes,
                    .n_rounds = own->points[i].n_rounds,
                    .is_single_pass = own->points[i].is_single_pass,
                };
        }
    return n;
}

/* Each size once, with the most rounds that any pair has there. */
static ncclResult_t build_sizes(struct mock_timings *timings, int coll)
{
    int n = n_points_of(timings, coll);
    struct mock_size *sizes = calloc((size_t)n + 1, sizeof(*sizes));
    int n_kept = 0;

    if (sizes == NULL)
        return mock_fail_memory();
    list_sizes(timings, coll, sizes);
    qsort(sizes, (size_t)n, sizeof(*sizes), by_size);
    for (int i = 0; i < n; i++)
        if (n_kept == 0 || sizes[n_kept - 1].n_bytes != sizes[i].n_bytes)
            sizes[n_kept++] = sizes[i];
    timings->sizes[coll] = sizes;
    timings->n_sizes[coll] = n_kept;
    return ncclSuccess;
}

/* ---- the file ---- */

static ncclResult_t build(const char *path, const struct mock_records *records,
                          struct mock_timings *timings)
{
    ncclResult_t rc = build_pairs(path, records, timings);

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && rc == ncclSuccess; c++)
        rc = build_sizes(timings, c);
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
    rc = mock_records_load(path, model, &records);
    if (rc == ncclSuccess)
        rc = build(path, &records, timings);
    mock_records_free(&records);
    if (rc != ncclSuccess) {
        mock_timings_free(timings);
        return rc;
    }
    *timings_ret = timings;
    return ncclSuccess;
}

static void free_curve(struct mock_curve *curve)
{
    free(curve->points);
    free(curve->rows);
}

static void free_pair(struct mock_pair *pair)
{
    free_curve(&pair->own);
    for (int i = 0; i < pair->n_counts; i++)
        free_curve(&pair->counts[i].ratio);
    free(pair->counts);
}

void mock_timings_free(struct mock_timings *timings)
{
    if (timings == NULL)
        return;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        for (int a = 0; a < NCCL_NUM_ALGORITHMS; a++)
            for (int p = 0; p < NCCL_NUM_PROTOCOLS; p++)
                free_pair(&timings->pairs[c][a][p]);
        free(timings->sizes[c]);
    }
    free(timings);
}
