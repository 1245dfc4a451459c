#include "machine/records.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"
#include "model/select.h"

/* ---- one row ---- */

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
    LAYERS =
        N_COLUMNS, /* this and the following columns are in overlap.csv only */
    COMPUTE,
    GEMM_M,
    GEMM_N,
    GEMM_K,
    MODE,
    COMPUTE_KIND,
    TYPE,
    RAN_ALGORITHM,
    RAN_PROTOCOL,
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
    [MODE] = "mode",
    [COMPUTE_KIND] = "compute",
    [TYPE] = "type",
    [RAN_ALGORITHM] = "ran_algorithm",
    [RAN_PROTOCOL] = "ran_protocol",
};
static const struct mock_words columns = {column_words, N_COLUMNS};
static const struct mock_words overlap_columns = {column_words,
                                                  N_OVERLAP_COLUMNS};

/* Optional columns of overlap.csv. */
enum {
    OPTIONAL = 1 << GEMM_M | 1 << GEMM_N | 1 << GEMM_K | 1 << RUN | 1 << MODE |
               1 << COMPUTE_KIND | 1 << TYPE | 1 << RAN_ALGORITHM |
               1 << RAN_PROTOCOL
};

/* Other columns of `steptune iterate`. */
static const char *const ignored_words[] = {
    "nNodes", "p99_us",   "ran_channels", "op",     "root",
    "wrong",  "in_place", "ratio",        "source", "alone_us",
};
static const struct mock_words ignored_columns = {
    ignored_words, sizeof(ignored_words) / sizeof(ignored_words[0])};

/* Whether the column contains the word. */
static bool records_field_is(const struct mock_csv *csv, int column,
                             const char *word)
{
    const char *text = "";

    return mock_csv_has(csv, column) &&
           mock_csv_text(csv, column, &text) == ncclSuccess &&
           strcmp(text, word) == 0;
}

/* Skips iterations without a GEMM that overlaps a collective, and those of a
 * tuner, whose choices are not recorded. */
static bool records_is_foreign(const struct mock_csv *csv)
{
    static const struct {
        int column;
        const char *word;
    } wanted[] = {{MODE, "overlap"}, {COMPUTE_KIND, "gemm"}, {TYPE, "bf16"}};

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (mock_csv_has(csv, wanted[i].column) &&
            !records_field_is(csv, wanted[i].column, wanted[i].word))
            return true;
    return records_field_is(csv, ALGORITHM, "plugin");
}

/* "auto2" is a second measurement of auto in a round, of iterations only. */
static ncclResult_t records_read_pair(const struct mock_csv *csv,
                                      bool is_overlap,
                                      struct mock_record *record)
{
    ncclResult_t rc;

    if (is_overlap && records_field_is(csv, ALGORITHM, "auto2") &&
        records_field_is(csv, PROTOCOL, "auto2")) {
        record->algo = record->proto = -1;
        return ncclSuccess;
    }
    rc = mock_csv_word(csv, ALGORITHM, &mock_algos, "auto", &record->algo);
    if (rc == ncclSuccess)
        rc = mock_csv_word(csv, PROTOCOL, &mock_protos, "auto", &record->proto);
    return rc;
}

static ncclResult_t records_read_run(const struct mock_csv *csv,
                                     struct mock_record *record)
{
    const char *run = "";
    ncclResult_t rc = ncclSuccess;

    if (mock_csv_has(csv, RUN))
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

#define AT(member) offsetof(struct mock_record, member)

/* Reads the numeric columns; optional ones may be absent in overlap.csv. */
static const struct record_field {
    enum { FIELD_INT, FIELD_SIZE, FIELD_TIME } kind; /* a time is a double */
    int column;
    size_t at;
    long long min;
    long long max;
} record_fields[] = {
    {FIELD_SIZE, BYTES, AT(n_bytes), 1, 1ll << 50},
    {FIELD_INT, CHANNELS, AT(n_channels), 0, 64},
    {FIELD_INT, ROUND, AT(round), 0, 1 << 20},
    {FIELD_TIME, MEAN, AT(mean), 0, 0},
    {FIELD_TIME, MEDIAN, AT(median), 0, 0},
    {FIELD_TIME, P95, AT(p95), 0, 0},
    {FIELD_TIME, MIN, AT(min), 0, 0},
    {FIELD_INT, LAYERS, AT(n_layers), 1, 1 << 16},
    {FIELD_TIME, COMPUTE, AT(compute_us), 0, 0},
    {FIELD_INT, GEMM_M, AT(m), 1, 1 << 24},
    {FIELD_INT, GEMM_N, AT(n), 1, 1 << 24},
    {FIELD_INT, GEMM_K, AT(k), 1, 1 << 24},
};

static ncclResult_t records_read_field(const struct mock_csv *csv,
                                       const struct record_field *field,
                                       struct mock_record *record)
{
    void *at = (char *)record + field->at;
    long long number = 0;
    ncclResult_t rc;

    if (field->kind == FIELD_TIME)
        return mock_csv_positive(csv, field->column, at);
    rc = mock_csv_int(csv, field->column, field->min, field->max, &number);
    if (field->kind == FIELD_SIZE)
        *(size_t *)at = (size_t)number;
    else
        *(int *)at = (int)number;
    return rc;
}

static ncclResult_t records_read_numbers(const struct mock_csv *csv,
                                         int n_ranks,
                                         struct mock_record *record)
{
    long long ranks = 0, iters = 0;
    ncclResult_t rc = mock_csv_int(csv, RANKS, n_ranks, n_ranks, &ranks);

    if (rc == ncclSuccess)
        rc = mock_csv_int(csv, ITERS, 1, 1ll << 40, &iters);
    for (size_t i = 0; i < sizeof(record_fields) / sizeof(record_fields[0]);
         i++)
        if (rc == ncclSuccess && mock_csv_has(csv, record_fields[i].column))
            rc = records_read_field(csv, &record_fields[i], record);
    return rc;
}

static ncclResult_t records_check_times(const struct mock_csv *csv,
                                        const struct mock_record *record)
{
    if (record->min > record->median || record->median > record->p95)
        return mock_csv_fail(csv, record->line,
                             "min_us, median_us and p95_us do not ascend");
    if (record->min > record->mean)
        return mock_csv_fail(csv, record->line, "mean_us is below min_us");
    return ncclSuccess;
}

/* Replaces unforced parts of an arm with the pair that ran. */
static ncclResult_t records_resolve_ran(const struct mock_csv *csv,
                                        struct mock_record *record)
{
    ncclResult_t rc =
        mock_csv_word(csv, RAN_ALGORITHM, &mock_algos, "-", &record->algo);

    if (rc == ncclSuccess)
        rc =
            mock_csv_word(csv, RAN_PROTOCOL, &mock_protos, "-", &record->proto);
    return rc;
}

/* Replaces "auto" with NCCL's choice. */
static ncclResult_t records_resolve_auto(const struct mock_csv *csv,
                                         const struct mock_model *model,
                                         struct mock_record *record)
{
    const struct mock_question question = {
        .coll = record->coll,
        .n_bytes = record->n_bytes,
        .n_pipe_ops = 1,
    };
    mock_table table;

    if ((record->algo < 0) != (record->proto < 0))
        return mock_csv_fail(csv, record->line,
                             "only one of algorithm and protocol is auto");
    if (record->n_channels != 0)
        return mock_csv_fail(csv, record->line, "auto with %d channels",
                             record->n_channels);
    mock_model_table(model, &question, table);
    if (!mock_select_first(table, NCCL_NUM_ALGORITHMS, 3.6e9f, &record->algo,
                           &record->proto, NULL))
        return mock_csv_fail(csv, record->line, "auto, but NCCL has no choice");
    return ncclSuccess;
}

/* Resolves the row's pair; if the row forces only an algorithm, a protocol or
 * channels, the pair that ran if it is recorded. */
static ncclResult_t records_resolve(const struct mock_csv *csv,
                                    const struct mock_model *model,
                                    struct mock_record *record)
{
    bool is_own =
        record->algo < 0 && record->proto < 0 && record->n_channels == 0;

    record->is_auto = record->algo < 0 || record->proto < 0;
    if (!record->is_auto)
        return ncclSuccess;
    if (!is_own && mock_csv_has(csv, RAN_ALGORITHM) &&
        mock_csv_has(csv, RAN_PROTOCOL))
        return records_resolve_ran(csv, record);
    return records_resolve_auto(csv, model, record);
}

static ncclResult_t records_check_pair(const struct mock_csv *csv,
                                       const struct mock_record *record)
{
    if (mock_kernel_exists(record->coll, record->algo, record->proto))
        return ncclSuccess;
    return mock_csv_fail(csv, record->line, "NCCL has no %s/%s for %s",
                         mock_word(&mock_algos, record->algo),
                         mock_word(&mock_protos, record->proto),
                         mock_word(&mock_colls, record->coll));
}

static ncclResult_t records_open(const char *path, bool is_overlap,
                                 struct mock_csv **csv_ret)
{
    if (is_overlap)
        return mock_csv_open_some(path, &overlap_columns, OPTIONAL,
                                  &ignored_columns, csv_ret);
    return mock_csv_open(path, &columns, csv_ret);
}

static ncclResult_t records_read_columns(const struct mock_csv *csv,
                                         bool is_overlap, int n_ranks,
                                         struct mock_record *record)
{
    ncclResult_t rc =
        mock_csv_word(csv, COLLECTIVE, &mock_colls, NULL, &record->coll);

    if (rc == ncclSuccess)
        rc = records_read_pair(csv, is_overlap, record);
    if (rc == ncclSuccess)
        rc = records_read_run(csv, record);
    if (rc == ncclSuccess)
        rc = records_read_numbers(csv, n_ranks, record);
    if (rc == ncclSuccess)
        rc = records_check_times(csv, record);
    return rc;
}

/*
 * Reads the current row. *wanted_ret is false for a row of overlap.csv that is
 * not a known pair overlapped with a GEMM in bf16: `steptune iterate` also
 * writes other modes, computes and types, choices of tuners, and arms whose
 * pair is not recorded.
 */
static ncclResult_t records_read(const struct mock_csv *csv, bool is_overlap,
                                 const struct mock_model *model,
                                 struct mock_record *record, bool *wanted_ret)
{
    ncclResult_t rc;

    memset(record, 0, sizeof(*record));
    record->line = mock_csv_line(csv);
    *wanted_ret = !(is_overlap && records_is_foreign(csv));
    if (!*wanted_ret)
        return ncclSuccess;
    rc = records_read_columns(csv, is_overlap, model->n_ranks, record);
    if (rc == ncclSuccess)
        rc = records_resolve(csv, model, record);
    *wanted_ret = record->algo >= 0 && record->proto >= 0;
    if (rc == ncclSuccess && *wanted_ret)
        rc = records_check_pair(csv, record);
    return rc;
}

/* ---- all rows ---- */

static bool records_grow(struct mock_records *records)
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

static ncclResult_t records_read_all(struct mock_csv *csv, bool is_overlap,
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
        if (records->n == records->capacity && !records_grow(records))
            return mock_fail_memory();
        rc = records_read(csv, is_overlap, model, &records->list[records->n],
                          &wanted);
        if (rc != ncclSuccess)
            return rc;
        records->n += wanted;
    }
}

static int records_compare_key(const struct mock_record *a,
                               const struct mock_record *b)
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

static int records_compare_key_and_line(const void *a_, const void *b_)
{
    const struct mock_record *a = a_;
    const struct mock_record *b = b_;
    int difference = records_compare_key(a, b);

    return difference != 0 ? difference : a->line - b->line;
}

static int records_compare_key_only(const void *a, const void *b)
{
    return records_compare_key(a, b);
}

/* Averages the records from 'first' on that share a key; returns their number.
 */
static int records_pool(const struct mock_record *first,
                        const struct mock_record *end,
                        struct mock_record *pooled)
{
    int n = 0;

    *pooled = *first;
    pooled->mean = pooled->median = pooled->p95 = pooled->min = 0;
    for (const struct mock_record *r = first;
         r < end && records_compare_key(r, first) == 0; r++) {
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

static ncclResult_t records_check_twins(const struct mock_csv *csv,
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

static ncclResult_t records_pool_all(const struct mock_csv *csv,
                                     struct mock_records *records)
{
    const struct mock_record *end = records->list + records->n;
    int n_pooled = 0;

    for (const struct mock_record *r = records->list; r < end;) {
        struct mock_record pooled;
        int n = records_pool(r, end, &pooled);
        ncclResult_t rc = records_check_twins(csv, r, n);

        if (rc != ncclSuccess)
            return rc;
        r += n;
        records->list[n_pooled++] = pooled;
    }
    records->n = n_pooled;
    return ncclSuccess;
}

static ncclResult_t records_load(const char *path, bool is_overlap,
                                 const struct mock_model *model,
                                 struct mock_records *records_ret)
{
    struct mock_csv *csv;
    ncclResult_t rc = records_open(path, is_overlap, &csv);

    if (rc != ncclSuccess)
        return rc;
    rc = records_read_all(csv, is_overlap, model, records_ret);
    if (rc == ncclSuccess && records_ret->n == 0)
        rc = mock_fail(
            ncclInvalidArgument, "%s: no row below the header%s", path,
            is_overlap ? " of a product in bf16 beside a collective" : "");
    if (rc == ncclSuccess) {
        qsort(records_ret->list, (size_t)records_ret->n,
              sizeof(*records_ret->list), records_compare_key_and_line);
        rc = records_pool_all(csv, records_ret);
    }
    mock_csv_close(csv);
    return rc;
}

ncclResult_t mock_records_load(const char *path, const struct mock_model *model,
                               struct mock_records *records_ret)
{
    return records_load(path, false, model, records_ret);
}

/* `steptune iterate` counts rounds from 0. */
static void records_check_from_1(struct mock_records *records)
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
    ncclResult_t rc = records_load(path, true, model, records_ret);

    if (rc == ncclSuccess)
        records_check_from_1(records_ret);
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
                   sizeof(*records->list), records_compare_key_only);
}
