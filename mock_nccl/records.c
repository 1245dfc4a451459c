#include "records.h"

#include <stdlib.h>
#include <string.h>

#include "csv.h"
#include "select.h"

enum {
    COLLECTIVE,
    BYTES,
    ALGORITHM,
    PROTOCOL,
    CHANNELS,
    RANKS,
    RUN,
    ROUND,
    ITERS,
    MEAN,
    MEDIAN,
    P95,
    MIN,
    N_COLUMNS,
    LAYERS = N_COLUMNS, /* of overlap.csv alone, and so is what follows */
    COMPUTE,
    GEMM_M,
    GEMM_N,
    GEMM_K,
    N_OVERLAP_COLUMNS,
};

static const char *const column_words[N_OVERLAP_COLUMNS] = {
    [COLLECTIVE] = "collective",
    [BYTES] = "bytes",
    [ALGORITHM] = "algorithm",
    [PROTOCOL] = "protocol",
    [CHANNELS] = "channels",
    [RANKS] = "nRanks",
    [RUN] = "run",
    [ROUND] = "round",
    [ITERS] = "iters",
    [MEAN] = "mean_us",
    [MEDIAN] = "median_us",
    [P95] = "p95_us",
    [MIN] = "min_us",
    [LAYERS] = "layers",
    [COMPUTE] = "compute_us",
    [GEMM_M] = "m",
    [GEMM_N] = "n",
    [GEMM_K] = "k",
};
static const struct mock_words columns = {column_words, N_COLUMNS};
static const struct mock_words overlap_columns = {column_words,
                                                  N_OVERLAP_COLUMNS};

/* Those that overlap.csv may be without. */
enum { OPTIONAL = 1 << GEMM_M | 1 << GEMM_N | 1 << GEMM_K };

/* ---- one row ---- */

static ncclResult_t read_words(const struct mock_csv *csv,
                               struct mock_record *record)
{
    const char *run = NULL;
    ncclResult_t rc =
        mock_csv_word(csv, COLLECTIVE, &mock_colls, NULL, &record->coll);

    if (rc == ncclSuccess)
        rc = mock_csv_word(csv, ALGORITHM, &mock_algos, "auto", &record->algo);
    if (rc == ncclSuccess)
        rc = mock_csv_word(csv, PROTOCOL, &mock_protos, "auto", &record->proto);
    if (rc == ncclSuccess)
        rc = mock_csv_text(csv, RUN, &run);
    if (rc != ncclSuccess)
        return rc;
    if (strlen(run) >= sizeof(record->run))
        return mock_csv_fail(csv, mock_csv_line(csv),
                             "column 'run' has more than %zu characters",
                             sizeof(record->run) - 1);
    strcpy(record->run, run);
    return ncclSuccess;
}

static ncclResult_t read_numbers(const struct mock_csv *csv, int n_ranks,
                                 struct mock_record *record)
{
    long long bytes = 0, channels = 0, ranks = 0, round = 0, iters = 0;
    ncclResult_t rc = mock_csv_int(csv, BYTES, 1, 1ll << 50, &bytes);

    if (rc == ncclSuccess)
        rc = mock_csv_int(csv, CHANNELS, 0, 64, &channels);
    if (rc == ncclSuccess)
        rc = mock_csv_int(csv, RANKS, n_ranks, n_ranks, &ranks);
    if (rc == ncclSuccess)
        rc = mock_csv_int(csv, ROUND, 0, 1 << 20, &round);
    if (rc == ncclSuccess)
        rc = mock_csv_int(csv, ITERS, 1, 1ll << 40, &iters);
    record->n_bytes = (size_t)bytes;
    record->n_channels = (int)channels;
    record->round = (int)round;
    return rc;
}

static ncclResult_t read_times(const struct mock_csv *csv,
                               struct mock_record *record)
{
    ncclResult_t rc = mock_csv_positive(csv, MEAN, &record->mean);

    if (rc == ncclSuccess)
        rc = mock_csv_positive(csv, MEDIAN, &record->median);
    if (rc == ncclSuccess)
        rc = mock_csv_positive(csv, P95, &record->p95);
    if (rc == ncclSuccess)
        rc = mock_csv_positive(csv, MIN, &record->min);
    if (rc == ncclSuccess &&
        (record->min > record->median || record->median > record->p95))
        rc = mock_csv_fail(csv, record->line,
                           "min_us, median_us and p95_us do not ascend");
    if (rc == ncclSuccess && record->min > record->mean)
        rc = mock_csv_fail(csv, record->line, "mean_us is below min_us");
    return rc;
}

static ncclResult_t read_layers(const struct mock_csv *csv,
                                struct mock_record *record)
{
    long long layers = 0;
    ncclResult_t rc = mock_csv_int(csv, LAYERS, 1, 1 << 16, &layers);

    record->n_layers = (int)layers;
    if (rc == ncclSuccess)
        rc = mock_csv_positive(csv, COMPUTE, &record->compute_us);
    return rc;
}

static ncclResult_t read_gemm(const struct mock_csv *csv,
                              struct mock_record *record)
{
    unsigned *const sides[] = {&record->m, &record->n, &record->k};
    ncclResult_t rc = ncclSuccess;
    long long side = 0;

    for (int i = 0; i < 3 && rc == ncclSuccess; i++) {
        if (!mock_csv_has(csv, GEMM_M + i))
            continue;
        rc = mock_csv_int(csv, GEMM_M + i, 1, 1 << 24, &side);
        *sides[i] = (unsigned)side;
    }
    return rc;
}

/* Puts NCCL's choice in the place of "auto". */
static ncclResult_t resolve_auto(const struct mock_csv *csv,
                                 const struct mock_model *model,
                                 struct mock_record *record)
{
    const struct mock_question question = {
        .coll = record->coll,
        .n_bytes = record->n_bytes,
        .n_pipe_ops = 1,
    };
    mock_table table;

    record->is_auto = record->algo < 0;
    if (record->is_auto != (record->proto < 0))
        return mock_csv_fail(csv, record->line,
                             "only one of algorithm and protocol is auto");
    if (!record->is_auto)
        return ncclSuccess;
    if (record->n_channels != 0)
        return mock_csv_fail(csv, record->line, "auto with %d channels",
                             record->n_channels);
    mock_model_table(model, &question, table);
    if (!mock_select_first(table, NCCL_NUM_ALGORITHMS, 3.6e9f, &record->algo,
                           &record->proto, NULL))
        return mock_csv_fail(csv, record->line, "auto, but NCCL has no choice");
    return ncclSuccess;
}

static ncclResult_t check_pair(const struct mock_csv *csv,
                               const struct mock_record *record)
{
    if (mock_kernel_exists(record->coll, record->algo, record->proto))
        return ncclSuccess;
    return mock_csv_fail(csv, record->line, "NCCL has no %s/%s for %s",
                         mock_word(&mock_algos, record->algo),
                         mock_word(&mock_protos, record->proto),
                         mock_word(&mock_colls, record->coll));
}

static ncclResult_t read_record(const struct mock_csv *csv,
                                const struct mock_words *wanted,
                                const struct mock_model *model,
                                struct mock_record *record)
{
    ncclResult_t rc;

    memset(record, 0, sizeof(*record));
    record->line = mock_csv_line(csv);
    rc = read_words(csv, record);
    if (rc == ncclSuccess)
        rc = read_numbers(csv, model->n_ranks, record);
    if (rc == ncclSuccess)
        rc = read_times(csv, record);
    if (rc == ncclSuccess && wanted == &overlap_columns)
        rc = read_layers(csv, record);
    if (rc == ncclSuccess && wanted == &overlap_columns)
        rc = read_gemm(csv, record);
    if (rc == ncclSuccess)
        rc = resolve_auto(csv, model, record);
    if (rc == ncclSuccess)
        rc = check_pair(csv, record);
    return rc;
}

/* ---- all rows ---- */

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

static ncclResult_t read_all(struct mock_csv *csv,
                             const struct mock_words *wanted,
                             const struct mock_model *model,
                             struct mock_records *records)
{
    for (;;) {
        bool row = false;
        ncclResult_t rc = mock_csv_next(csv, &row);

        if (rc != ncclSuccess)
            return rc;
        if (!row)
            return ncclSuccess;
        if (records->n == records->capacity && !grow(records))
            return mock_fail_memory();
        rc = read_record(csv, wanted, model, &records->list[records->n]);
        if (rc != ncclSuccess)
            return rc;
        records->n++;
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

static ncclResult_t load(const char *path, const struct mock_words *wanted,
                         const struct mock_model *model,
                         struct mock_records *records_ret)
{
    struct mock_csv *csv;
    ncclResult_t rc = mock_csv_open_some(
        path, wanted, wanted == &overlap_columns ? OPTIONAL : 0, &csv);

    if (rc != ncclSuccess)
        return rc;
    rc = read_all(csv, wanted, model, records_ret);
    if (rc == ncclSuccess && records_ret->n == 0)
        rc =
            mock_fail(ncclInvalidArgument, "%s: no row below the header", path);
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
    return load(path, &columns, model, records_ret);
}

ncclResult_t mock_records_load_overlap(const char *path,
                                       const struct mock_model *model,
                                       struct mock_records *records_ret)
{
    return load(path, &overlap_columns, model, records_ret);
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
