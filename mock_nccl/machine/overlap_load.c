#include <math.h>
#include <stdlib.h>

#include "machine/machine.h"
#include "machine/overlap.h"
#include "machine/records.h"
#include "machine/timings.h"

/* What is being built, and from what. */
struct build {
    const char *path;
    const struct mock_machine *machine;
    struct mock_beside *beside;
    const struct mock_record *previous;
    double comm_us; /* of the current size and arm, alone */
};

static const double min_slowdown = 1. / 64;
static const double max_slowdown = 64;

/* ---- one row ---- */

/* mock_overlapped_us() rises with the slowdown. */
static double bisect(struct mock_overlap beside, int n_layers, double us)
{
    double lo = log(min_slowdown);
    double hi = log(max_slowdown);

    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;

        beside.slowdown = exp(middle);
        if (mock_overlapped_us(&beside, n_layers) < us)
            lo = middle;
        else
            hi = middle;
    }
    return (lo + hi) / 2;
}

static ncclResult_t find_slowdown(const struct build *b,
                                  const struct mock_record *r,
                                  double *log_slowdown_ret)
{
    struct mock_overlap beside = {.compute_us = r->compute_us,
                                  .comm_us = b->comm_us};
    double found = bisect(beside, r->n_layers, r->mean);
    double reached;

    beside.slowdown = exp(found);
    reached = mock_overlapped_us(&beside, r->n_layers);
    if (fabs(reached - r->mean) > 1e-9 * r->mean)
        return mock_fail(ncclInvalidArgument,
                         "%s:%d: mean_us %g cannot be: %d layers of %g us, "
                         "each with a collective of %g us alone",
                         b->path, r->line, r->mean, r->n_layers, r->compute_us,
                         b->comm_us);
    *log_slowdown_ret = found;
    return ncclSuccess;
}

/* ---- what is new with a row ---- */

static bool same_arm(const struct mock_record *a, const struct mock_record *b)
{
    return a->coll == b->coll && a->algo == b->algo && a->proto == b->proto &&
           a->n_channels == b->n_channels;
}

static ncclResult_t find_comm(struct build *b, const struct mock_record *r)
{
    const struct mock_run run = {
        .coll = (ncclFunc_t)r->coll,
        .n_bytes = r->n_bytes,
        .algo = r->algo,
        .proto = r->proto,
        .n_channels = r->n_channels,
    };
    struct mock_time time = {0};
    ncclResult_t rc = mock_machine_mean_time(b->machine, &run, &time);

    b->comm_us = time.us;
    return rc;
}

static void add_arm(struct build *b, const struct mock_record *r)
{
    b->beside->arms[b->beside->n_arms++] = (struct mock_beside_arm){
        .coll = r->coll,
        .algo = r->algo,
        .proto = r->proto,
        .n_channels = r->n_channels,
        .sizes = &b->beside->sizes[b->beside->n_sizes],
    };
}

static void add_size(struct build *b, const struct mock_record *r)
{
    struct mock_beside *beside = b->beside;

    beside->arms[beside->n_arms - 1].n_sizes++;
    beside->sizes[beside->n_sizes++] = (struct mock_beside_size){
        .n_bytes = r->n_bytes,
        .log_bytes = log((double)r->n_bytes),
        .points = &beside->points[beside->n_points],
    };
}

static void add_point(struct build *b, const struct mock_record *r)
{
    struct mock_beside *beside = b->beside;

    beside->sizes[beside->n_sizes - 1].n_points++;
    beside->points[beside->n_points++] = (struct mock_beside_point){
        .log_ratio = log(r->compute_us / b->comm_us),
        .compute_us = r->compute_us,
        .n_layers = r->n_layers,
        .m = r->m,
        .n = r->n,
        .k = r->k,
        .rows = &beside->rows[beside->n_rows],
    };
}

/* Opens the arm, size and point that a record is the first of. */
static ncclResult_t open_new(struct build *b, const struct mock_record *r)
{
    const struct mock_record *p = b->previous;
    bool new_arm = p == NULL || !same_arm(p, r);
    bool new_size = new_arm || p->n_bytes != r->n_bytes;
    ncclResult_t rc = ncclSuccess;

    if (!new_size && p->compute_us == r->compute_us) {
        if (p->n_layers != r->n_layers)
            return mock_fail(ncclInvalidArgument,
                             "%s:%d: %d layers, but line %d has %d with the "
                             "same compute_us",
                             b->path, r->line, r->n_layers, p->line,
                             p->n_layers);
        return ncclSuccess;
    }
    if (new_size)
        rc = find_comm(b, r);
    if (rc != ncclSuccess)
        return rc;
    if (new_arm)
        add_arm(b, r);
    if (new_size)
        add_size(b, r);
    add_point(b, r);
    return ncclSuccess;
}

/* Rounds count from 1 in every point, without a gap. */
static ncclResult_t check_round(const struct build *b,
                                const struct mock_record *r)
{
    const struct mock_beside *beside = b->beside;
    const struct mock_beside_row *first =
        beside->points[beside->n_points - 1].rows;
    int expected = (int)(&beside->rows[beside->n_rows] - first) + 1;

    if (r->round == expected)
        return ncclSuccess;
    return mock_fail(ncclInvalidArgument,
                     "%s:%d: round %d, but round %d is the next of this size, "
                     "compute_us and arm",
                     b->path, r->line, r->round, expected);
}

static ncclResult_t add_record(struct build *b, const struct mock_record *r)
{
    ncclResult_t rc = open_new(b, r);
    struct mock_beside_row *row = &b->beside->rows[b->beside->n_rows];

    if (rc == ncclSuccess)
        rc = check_round(b, r);
    if (rc == ncclSuccess)
        rc = find_slowdown(b, r, &row->log_slowdown);
    if (rc != ncclSuccess)
        return rc;
    mock_quantiles(r, row->quantile);
    b->beside->n_rows++;
    b->previous = r;
    return ncclSuccess;
}

/* ---- all rows ---- */

static ncclResult_t check_rounds(const char *path, struct mock_beside *beside)
{
    beside->n_rounds = beside->n_rows / beside->n_points;
    for (int i = 0; i < beside->n_points; i++) {
        const struct mock_beside_row *end = i + 1 < beside->n_points
                                                ? beside->points[i + 1].rows
                                                : beside->rows + beside->n_rows;
        int n = (int)(end - beside->points[i].rows);

        if (n != beside->n_rounds)
            return mock_fail(
                ncclInvalidArgument,
                "%s: %d rounds with compute_us %g, but others have "
                "%d",
                path, n, beside->points[i].compute_us, beside->n_rounds);
    }
    return ncclSuccess;
}

static int by_setting(const void *a_, const void *b_)
{
    const struct mock_overlap_setting *a = a_;
    const struct mock_overlap_setting *b = b_;

    if (a->coll != b->coll)
        return a->coll < b->coll ? -1 : 1;
    if (a->n_bytes != b->n_bytes)
        return a->n_bytes < b->n_bytes ? -1 : 1;
    if (a->compute_us != b->compute_us)
        return a->compute_us < b->compute_us ? -1 : 1;
    return a->n_layers - b->n_layers;
}

/* Each once, whatever the arm. */
static void list_settings(struct mock_beside *beside)
{
    struct mock_overlap_setting *list = beside->settings;
    int n = 0;

    for (int i = 0; i < beside->n_arms; i++)
        for (int j = 0; j < beside->arms[i].n_sizes; j++) {
            const struct mock_beside_size *size = &beside->arms[i].sizes[j];

            for (int k = 0; k < size->n_points; k++)
                list[n++] = (struct mock_overlap_setting){
                    .coll = (ncclFunc_t)beside->arms[i].coll,
                    .n_bytes = size->n_bytes,
                    .compute_us = size->points[k].compute_us,
                    .n_layers = size->points[k].n_layers,
                    .m = size->points[k].m,
                    .n = size->points[k].n,
                    .k = size->points[k].k,
                };
        }
    qsort(list, (size_t)n, sizeof(*list), by_setting);
    for (int i = 0; i < n; i++)
        if (i == 0 || by_setting(&list[i - 1], &list[i]) != 0)
            list[beside->n_settings++] = list[i];
}

static bool alloc(struct mock_beside *beside, int n)
{
    beside->arms = calloc((size_t)n, sizeof(*beside->arms));
    beside->sizes = calloc((size_t)n, sizeof(*beside->sizes));
    beside->points = calloc((size_t)n, sizeof(*beside->points));
    beside->rows = calloc((size_t)n, sizeof(*beside->rows));
    beside->settings = calloc((size_t)n, sizeof(*beside->settings));
    return beside->arms != NULL && beside->sizes != NULL &&
           beside->points != NULL && beside->rows != NULL &&
           beside->settings != NULL;
}

static ncclResult_t build(struct build *b, const struct mock_records *records)
{
    ncclResult_t rc = ncclSuccess;

    if (!alloc(b->beside, records->n))
        return mock_fail_memory();
    for (int i = 0; i < records->n && rc == ncclSuccess; i++)
        rc = add_record(b, &records->list[i]);
    if (rc == ncclSuccess)
        rc = check_rounds(b->path, b->beside);
    if (rc == ncclSuccess)
        list_settings(b->beside);
    return rc;
}

ncclResult_t mock_beside_load(const char *path,
                              const struct mock_machine *machine,
                              struct mock_beside **beside_ret)
{
    struct build b = {.path = path, .machine = machine};
    struct mock_records records = {NULL, 0, 0};
    ncclResult_t rc;

    b.beside = calloc(1, sizeof(*b.beside));
    if (b.beside == NULL)
        return mock_fail_memory();
    rc = mock_records_load_overlap(path, &machine->model, &records);
    if (rc == ncclSuccess)
        rc = build(&b, &records);
    mock_records_free(&records);
    if (rc != ncclSuccess) {
        mock_beside_free(b.beside);
        return rc;
    }
    *beside_ret = b.beside;
    return ncclSuccess;
}

void mock_beside_free(struct mock_beside *beside)
{
    if (beside == NULL)
        return;
    free(beside->arms);
    free(beside->sizes);
    free(beside->points);
    free(beside->rows);
    free(beside->settings);
    free(beside);
}
