#include "machine/records.h"

#include <stdlib.h>
#include <string.h>

#include "machine/records_row.h"

static bool grow(struct mock_records *records)
{
    int capacity = records->capacity == 0 ? 256 : 2 * records->capacity;
    struct mock_record *list =
        realloc(records->list, (size_t)capacity * sizeof(*list));

    if (list == NULL)
        return false;
    records->list = list;
    records->capacity = capacity;
    return true;
}

static ncclResult_t read_all(struct mock_csv *csv, bool is_overlap,
                             const struct mock_model *model,
                             struct mock_records *records)
{
    for (;;) {
        bool row = false;
        bool wanted = false;
        ncclResult_t rc = mock_csv_next(csv, &row);

        if (rc != ncclSuccess)
            return rc;
        if (!row)
            return ncclSuccess;
        if (records->n == records->capacity && !grow(records))
            return mock_fail_memory();
        rc = mock_record_read(csv, is_overlap, model,
                              &records->list[records->n], &wanted);
        if (rc != ncclSuccess)
            return rc;
        records->n += wanted;
    }
}

static int by_key(const struct mock_record *a, const struct mock_record *b)
{
    const int differences[] = {
        a->coll - b->coll,
        a->algo - b->algo,
        a->proto - b->proto,
        a->n_channels - b->n_channels,
        (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes),
        (a->compute_us > b->compute_us) - (a->compute_us < b->compute_us),
        a->n_layers - b->n_layers,
        strcmp(a->run, b->run),
        a->round - b->round,
    };

    for (size_t i = 0; i < sizeof(differences) / sizeof(differences[0]); i++)
        if (differences[i] != 0)
            return differences[i];
    return 0;
}

static int by_key_and_line(const void *a_, const void *b_)
{
    const struct mock_record *a = a_;
    const struct mock_record *b = b_;
    int difference = by_key(a, b);

    return difference != 0 ? difference : a->line - b->line;
}

static int by_key_only(const void *a, const void *b)
{
    return by_key(a, b);
}

/* Averages the records from 'first' on that have one key; returns how many. */
static int pool(const struct mock_record *first, const struct mock_record *end,
                struct mock_record *pooled)
{
    int n = 0;

    *pooled = *first;
    pooled->mean = pooled->median = pooled->p95 = pooled->min = 0;
    for (const struct mock_record *r = first; r < end && by_key(r, first) == 0;
         r++) {
        pooled->mean += r->mean;
        pooled->median += r->median;
        pooled->p95 += r->p95;
        pooled->min += r->min;
        n++;
    }
    pooled->mean /= n;
    pooled->median /= n;
    pooled->p95 /= n;
    pooled->min /= n;
    return n;
}

static ncclResult_t check_twins(const struct mock_csv *csv,
                                const struct mock_record *list, int n)
{
    const struct mock_record *forced = NULL;

    for (int i = 0; i < n; i++) {
        if (list[i].is_auto)
            continue;
        if (forced != NULL)
            return mock_csv_fail(csv, list[i].line,
                                 "the same as line %d: one size, pair, channel "
                                 "count, run and round",
                                 forced->line);
        forced = &list[i];
    }
    return ncclSuccess;
}

static ncclResult_t pool_all(const struct mock_csv *csv,
                             struct mock_records *records)
{
    const struct mock_record *end = records->list + records->n;
    int n_pooled = 0;

    for (const struct mock_record *r = records->list; r < end;) {
        struct mock_record pooled;
        int n = pool(r, end, &pooled);
        ncclResult_t rc = check_twins(csv, r, n);

        if (rc != ncclSuccess)
            return rc;
        r += n;
        records->list[n_pooled++] = pooled;
    }
    records->n = n_pooled;
    return ncclSuccess;
}

static ncclResult_t load(const char *path, bool is_overlap,
                         const struct mock_model *model,
                         struct mock_records *records_ret)
{
    struct mock_csv *csv;
    ncclResult_t rc = mock_record_open(path, is_overlap, &csv);

    if (rc != ncclSuccess)
        return rc;
    rc = read_all(csv, is_overlap, model, records_ret);
    if (rc == ncclSuccess && records_ret->n == 0)
        rc = mock_fail(
            ncclInvalidArgument, "%s: no row below the header%s", path,
            is_overlap ? " of a product in bf16 beside a collective" : "");
    if (rc == ncclSuccess) {
        qsort(records_ret->list, (size_t)records_ret->n,
              sizeof(*records_ret->list), by_key_and_line);
        rc = pool_all(csv, records_ret);
    }
    mock_csv_close(csv);
    return rc;
}

ncclResult_t mock_records_load(const char *path, const struct mock_model *model,
                               struct mock_records *records_ret)
{
    return load(path, false, model, records_ret);
}

/* Rounds, which `steptune iterate` counts from 0. */
static void count_from_1(struct mock_records *records)
{
    bool has_0 = false;

    for (int i = 0; i < records->n; i++)
        has_0 |= records->list[i].round == 0;
    for (int i = 0; i < records->n; i++)
        records->list[i].round += has_0;
}

ncclResult_t mock_records_load_overlap(const char *path,
                                       const struct mock_model *model,
                                       struct mock_records *records_ret)
{
    ncclResult_t rc = load(path, true, model, records_ret);

    if (rc == ncclSuccess)
        count_from_1(records_ret);
    return rc;
}

void mock_records_free(struct mock_records *records)
{
    free(records->list);
}

const struct mock_record *mock_records_find(const struct mock_records *records,
                                            const struct mock_record *key)
{
    return bsearch(key, records->list, (size_t)records->n,
                   sizeof(*records->list), by_key_only);
}
