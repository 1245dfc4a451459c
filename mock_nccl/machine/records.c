#include "machine/recorded.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/csv.h"

/* ---- one row ---- */

/* The columns that are not read as their fields say. */
enum {
    ALGORITHM = 2,
    PROTOCOL,
    RANKS = 5,
    RUN,
    SOURCE = 13,
    KERNEL,
    BITS,
    GRAPH,
    LAYERS
};
enum { MODE = LAYERS + 5, COMPUTE_KIND, TYPE, RAN_ALGORITHM, RAN_PROTOCOL };

/* As files of steptune name them. */
static const char *const source_words[] = {
    "measured", "recorded", "interpolated", "virtual", "modelled"};
static const struct mock_words sources = {source_words, 5};

/* enum mock_bits */
static const char *const bits_words[] = {"-", "same", "other"};
static const struct mock_words all_bits = {bits_words, 3};

/* The words of a way's columns, behind those of algorithms and protocols. */
#define WAYS                                                                   \
    "reg", "sym", "ce", "sym/ctas=16-64", "sym/ctas=32-64", "stage",           \
        "stage/ctas=16-64", "stage/ctas=32-64"
static const char *const algo_words[] = {
    "tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree",
    "pat",  WAYS};
static const char *const proto_words[] = {"ll", "ll128", "simple", WAYS};
static const struct mock_words algos_and_ways = {algo_words, MOCK_NUM_WAYS};
static const struct mock_words protos_and_ways = {
    proto_words, NCCL_NUM_PROTOCOLS + MOCK_NUM_WAYS - NCCL_NUM_ALGORITHMS};

#define AT(member) offsetof(struct mock_record, member)
// clang-format off
static const struct mock_field record_fields[] = {
    {"collective", MOCK_FIELD_WORD, AT(coll), .words = &mock_colls},
    {"bytes", MOCK_FIELD_SIZE, AT(n_bytes), .min = 1, .max = 1LL << 50},
    [ALGORITHM] = {"algorithm", .words = &algos_and_ways, .extra = "auto"},
    [PROTOCOL] = {"protocol", .words = &protos_and_ways, .extra = "auto"},
    {"channels", MOCK_FIELD_INT, AT(n_channels), .min = 0, .max = 64},
    [RANKS] = {"nRanks", MOCK_FIELD_INT, .at = AT(n_ranks)},
    [RUN] = {"run", MOCK_FIELD_TEXT, AT(run), .min = 1, .max = sizeof(((struct mock_record *)0)->run)},
    {"round", MOCK_FIELD_INT, AT(round), .min = 0, .max = 1 << 20},
    {"iters", MOCK_FIELD_SIZE, AT(n_iterations), .min = 1, .max = 1LL << 40},
    {"mean_us", MOCK_FIELD_TIME, .at = AT(mean)},
    {"median_us", MOCK_FIELD_TIME, .at = AT(median)},
    {"p95_us", MOCK_FIELD_TIME, .at = AT(p95), .optional = true},
    {"min_us", MOCK_FIELD_TIME, .at = AT(min)},
    [SOURCE] = {"source", .words = &sources, .optional = true},
    [KERNEL] = {"ran_kernel", .kind = MOCK_FIELD_TEXT, .at = AT(kernel),
     .max = sizeof(((struct mock_record *)0)->kernel), .optional = true},
    [BITS] = {"bits", .kind = MOCK_FIELD_WORD, .at = AT(bits), .words = &all_bits, .optional = true},
    [GRAPH] = {"graph", MOCK_FIELD_INT, AT(graph), .min = 0, .max = 1, .optional = true},
    /* from here on in overlap.csv only, those after MODE by `steptune iterate` */
    [LAYERS] = {"layers", MOCK_FIELD_INT, AT(n_layers), .min = 1, .max = 1 << 16},
    {"compute_us", MOCK_FIELD_TIME, .at = AT(compute_us)},
    {"m", MOCK_FIELD_INT, AT(m), .min = 1, .max = 1 << 24, .optional = true},
    {"n", MOCK_FIELD_INT, AT(n), .min = 1, .max = 1 << 24, .optional = true},
    {"k", MOCK_FIELD_INT, AT(k), .min = 1, .max = 1 << 24, .optional = true},
    [MODE] = {"mode", .optional = true},
    [COMPUTE_KIND] = {"compute", .optional = true},
    [TYPE] = {"type", .optional = true},
    [RAN_ALGORITHM] = {"ran_algorithm", .words = &mock_algos, .extra = "-", .optional = true},
    [RAN_PROTOCOL] = {"ran_protocol", .words = &mock_protos, .extra = "-", .optional = true},
    {"nNodes", .optional = true}, {"p99_us", .optional = true}, {"ran_channels", .optional = true},
    {"op", .optional = true}, {"root", .optional = true}, {"wrong", .optional = true},
    {"in_place", .optional = true}, {"ratio", .optional = true},
    {"alone_us", .optional = true}, {"single_pass", .optional = true},
    {"chunk", .optional = true},
};
// clang-format on
enum { N_TIMING_FIELDS = LAYERS, N_OVERLAP_FIELDS = MOCK_N_OF(record_fields) };

/* Finds the mode of a row of overlap.csv; false if it is none of these, has no
 * GEMM, or is of a tuner, whose choices are not recorded. */
static bool records_find_mode(const struct mock_csv *csv,
                              enum mock_mode *mode_ret)
{
    static const char *const words[] = {
        [MOCK_MODE_OVERLAP] = "overlap",
        [MOCK_MODE_FSDP] = "fsdp",
        [MOCK_MODE_SEQUENTIAL] = "sequential",
    };
    unsigned mode = 0;

    if ((mock_csv_has(csv, COMPUTE_KIND) &&
         !mock_csv_is(csv, COMPUTE_KIND, "gemm")) ||
        (mock_csv_has(csv, TYPE) && !mock_csv_is(csv, TYPE, "bf16")) ||
        mock_csv_is(csv, ALGORITHM, "plugin"))
        return false;
    while (mode < 3 && mock_csv_has(csv, MODE) &&
           !mock_csv_is(csv, MODE, words[mode]))
        mode++;
    *mode_ret = mode;
    return mode < 3;
}

/* Reads the pair; auto is -1, and the protocol of a way 0. "auto2" is a second
 * measurement of auto in a round, of iterations only. */
static ncclResult_t records_read_pair(const struct mock_csv *csv,
                                      bool is_overlap,
                                      struct mock_record *record)
{
    ncclResult_t rc;
    int way;

    if (is_overlap && mock_csv_is(csv, ALGORITHM, "auto2") &&
        mock_csv_is(csv, PROTOCOL, "auto2")) {
        record->algo = record->proto = -1;
        return ncclSuccess;
    }
    rc = mock_csv_word(csv, ALGORITHM, &record->algo);
    MOCK_THEN(rc, mock_csv_word(csv, PROTOCOL, &record->proto));
    if (rc != ncclSuccess || (record->algo < NCCL_NUM_ALGORITHMS &&
                              record->proto < NCCL_NUM_PROTOCOLS))
        return rc;
    way = record->proto - NCCL_NUM_PROTOCOLS + NCCL_NUM_ALGORITHMS;
    if (record->algo != way || record->n_channels != 0)
        return mock_csv_fail(
            csv, "algorithm and protocol are not of one arm, "
                 "expected reg, sym, ce or stage in both, and channels 0");
    record->proto = 0;
    return ncclSuccess;
}

static ncclResult_t records_read_columns(const struct mock_csv *csv,
                                         bool is_overlap,
                                         struct mock_record *record)
{
    static const enum mock_time_source by_word[] = {
        MOCK_TIME_RECORDED, MOCK_TIME_RECORDED, MOCK_TIME_INTERPOLATED,
        MOCK_TIME_VIRTUAL, MOCK_TIME_MODELLED};
    ncclResult_t rc = ncclSuccess;
    int word = 0; /* of GPUs: there is no such column, or it says measured */

    MOCK_TRY(mock_csv_read(csv, record));
    MOCK_TRY(records_read_pair(csv, is_overlap, record));
    if (record->p95 == 0) /* of one iteration */
        record->p95 = record->median;
    if (record->min > record->median || record->median > record->p95)
        return mock_csv_fail(csv, "min_us, median_us and p95_us do not ascend");
    if (record->min > record->mean)
        return mock_csv_fail(csv, "mean_us is below min_us");
    if (mock_csv_has(csv, SOURCE))
        rc = mock_csv_word(csv, SOURCE, &word);
    record->source = by_word[word];
    return rc;
}

static bool records_select(const struct mock_model *model, int coll,
                           size_t n_bytes, int *algo_ret, int *proto_ret)
{
    const struct mock_call call = {
        .coll = (ncclFunc_t)coll,
        .n_bytes = n_bytes,
        .n_pipe_ops = 1,
    };
    mock_table table;

    mock_model_table(model, &call, table);
    return mock_select_first(table, NCCL_NUM_ALGORITHMS, 3.6e9f, algo_ret,
                             proto_ret, NULL);
}

/* Resolves the row's pair to NCCL's choice; if the row forces only an
 * algorithm, a protocol or channels, to the pair that ran if it is recorded. */
static ncclResult_t records_resolve(const struct mock_csv *csv,
                                    const struct mock_model *model,
                                    struct mock_record *record)
{
    const bool is_half = (record->algo < 0) != (record->proto < 0);

    record->is_auto = record->algo < 0 || record->proto < 0;
    if (!record->is_auto)
        return ncclSuccess;
    if ((is_half || record->n_channels != 0) &&
        mock_csv_has(csv, RAN_ALGORITHM) && mock_csv_has(csv, RAN_PROTOCOL)) {
        ncclResult_t rc = mock_csv_word(csv, RAN_ALGORITHM, &record->algo);

        MOCK_THEN(rc, mock_csv_word(csv, RAN_PROTOCOL, &record->proto));
        return rc;
    }
    if (is_half)
        return mock_csv_fail(csv, "only one of algorithm and protocol is auto");
    if (record->n_channels != 0)
        return mock_csv_fail(csv, "auto with %d channels", record->n_channels);
    if (!records_select(model, record->coll, record->n_bytes, &record->algo,
                        &record->proto))
        return mock_csv_fail(csv, "auto, but NCCL has no choice");
    return ncclSuccess;
}

/* Resolves the pair of the reduce-scatter. A row that forces only a part of a
 * pair is not wanted: it does not say what ran there. */
static ncclResult_t records_resolve_scatter(const struct mock_csv *csv,
                                            const struct mock_model *model,
                                            struct mock_record *record,
                                            bool *wanted_ret)
{
    const bool is_own =
        mock_csv_is(csv, PROTOCOL, "auto2") ||
        (mock_csv_is(csv, ALGORITHM, "auto") &&
         mock_csv_is(csv, PROTOCOL, "auto") && record->n_channels == 0);

    *wanted_ret = !record->is_auto || is_own;
    if (record->coll != ncclFuncAllGather)
        return mock_csv_fail(csv, "mode fsdp of %s, expected allgather",
                             mock_word(&mock_colls, record->coll));
    record->scatter_algo = record->algo;
    record->scatter_proto = record->proto;
    if (!is_own ||
        records_select(model, ncclFuncReduceScatter, record->n_bytes,
                       &record->scatter_algo, &record->scatter_proto))
        return ncclSuccess;
    return mock_csv_fail(csv, "auto, but NCCL has no choice for reducescatter");
}

/* Reads the current row. *wanted_ret is false for a row of overlap.csv that is
 * not of a known pair and a GEMM in bf16: `steptune iterate` also writes
 * traces, other computes and types, choices of tuners, and arms whose pair is
 * not recorded. */
static ncclResult_t records_read(const struct mock_csv *csv, bool is_overlap,
                                 const struct mock_model *model,
                                 struct mock_record *record, bool *wanted_ret)
{
    ncclResult_t rc;

    memset(record, 0, sizeof(*record));
    record->line = mock_csv_line(csv);
    *wanted_ret = !is_overlap || records_find_mode(csv, &record->mode);
    if (!*wanted_ret)
        return ncclSuccess;
    rc = records_read_columns(csv, is_overlap, record);
    MOCK_THEN(rc, records_resolve(csv, model, record));
    *wanted_ret = record->algo >= 0 && record->proto >= 0;
    if (rc != ncclSuccess || !*wanted_ret)
        return rc;
    if (record->algo < NCCL_NUM_ALGORITHMS &&
        !mock_kernel_exists(record->coll, record->algo, record->proto))
        return mock_csv_fail(csv, "NCCL has no %s/%s for %s",
                             mock_word(&mock_algos, record->algo),
                             mock_word(&mock_protos, record->proto),
                             mock_word(&mock_colls, record->coll));
    return record->mode == MOCK_MODE_FSDP
               ? records_resolve_scatter(csv, model, record, wanted_ret)
               : ncclSuccess;
}

/* ---- all rows ---- */

static ncclResult_t records_read_all(struct mock_csv *csv, bool is_overlap,
                                     const struct mock_model *model,
                                     struct mock_records *records)
{
    for (;;) {
        bool row = false;
        bool wanted = false;
        ncclResult_t rc = mock_csv_next(csv, &row);

        if (rc != ncclSuccess || !row)
            return rc;
        if (records->n == records->capacity) {
            int capacity = records->n == 0 ? 256 : 2 * records->n;
            struct mock_record *list =
                realloc(records->list, (size_t)capacity * sizeof(*list));

            if (list == NULL)
                return mock_fail_memory();
            records->list = list;
            records->capacity = capacity;
        }
        MOCK_TRY(records_read(csv, is_overlap, model,
                              &records->list[records->n], &wanted));
        records->n += wanted;
    }
}

static int records_compare_key(const void *a_, const void *b_)
{
    const struct mock_record *a = a_;
    const struct mock_record *b = b_;
    int d = (int)a->mode - (int)b->mode;

    d = d != 0 ? d : a->graph - b->graph;
    d = d != 0 ? d : a->coll - b->coll;
    d = d != 0 ? d : a->algo - b->algo;
    d = d != 0 ? d : a->proto - b->proto;
    d = d != 0 ? d : a->n_channels - b->n_channels;
    d = d != 0 ? d : (a->n_bytes > b->n_bytes) - (a->n_bytes < b->n_bytes);
    d = d != 0
            ? d
            : (a->compute_us > b->compute_us) - (a->compute_us < b->compute_us);
    d = d != 0 ? d : a->n_layers - b->n_layers;
    d = d != 0 ? d : a->scatter_algo - b->scatter_algo;
    d = d != 0 ? d : a->scatter_proto - b->scatter_proto;
    d = d != 0 ? d : strcmp(a->run, b->run);
    return d != 0 ? d : a->round - b->round;
}

static int records_compare_key_and_line(const void *a_, const void *b_)
{
    const struct mock_record *a = a_;
    const struct mock_record *b = b_;
    int difference = records_compare_key(a, b);

    return difference != 0 ? difference : a->line - b->line;
}

/* Two forced rows of one key are refused. */
static ncclResult_t records_check_twins(const char *path,
                                        const struct mock_records *records)
{
    const struct mock_record *forced = NULL;

    for (int i = 0; i < records->n; i++) {
        const struct mock_record *r = &records->list[i];

        if (i == 0 || records_compare_key(r, r - 1) != 0)
            forced = NULL;
        if (!r->is_auto && forced != NULL)
            return mock_refuse("%s:%d: the same as line %d: one size, pair, "
                               "channel count, run, round and graph",
                               path, r->line, forced->line);
        if (!r->is_auto)
            forced = r;
    }
    return ncclSuccess;
}

static void records_sort(struct mock_records *records)
{
    qsort(records->list, (size_t)records->n, sizeof(*records->list),
          records_compare_key_and_line);
}

void mock_records_pool(struct mock_records *records)
{
    const struct mock_record *end = records->list + records->n;
    int n_pooled = 0;

    records_sort(records);
    for (const struct mock_record *first = records->list; first < end;) {
        struct mock_record mean = *first;
        int n = 1;

        while (first + n < end && records_compare_key(first + n, first) == 0)
            n++;
        mean.mean = mean.median = mean.p95 = mean.min = mean.log_slowdown = 0;
        for (const struct mock_record *r = first; r < first + n; r++) {
            mean.mean += r->mean;
            mean.median += r->median;
            mean.p95 += r->p95;
            mean.min += r->min;
            mean.log_slowdown += r->log_slowdown;
            mean.source = mock_worse_source(mean.source, r->source);
            mean.bits = r->bits > mean.bits ? r->bits : mean.bits;
        }
        mean.mean /= n;
        mean.median /= n;
        mean.p95 /= n;
        mean.min /= n;
        mean.log_slowdown /= n;
        first += n;
        records->list[n_pooled++] = mean;
    }
    records->n = n_pooled;
}

ncclResult_t mock_records_load(const char *path, bool is_overlap,
                               const struct mock_model *model,
                               struct mock_records *records_ret)
{
    struct mock_field fields[N_OVERLAP_FIELDS];
    struct mock_csv *csv;
    bool counts_from_0 = false;
    ncclResult_t rc;

    memcpy(fields, record_fields, sizeof(fields));
    fields[RANKS].min = fields[RANKS].max = model->n_ranks;
    fields[RUN].optional = is_overlap;
    MOCK_TRY(mock_csv_open(
        path, fields, is_overlap ? N_OVERLAP_FIELDS : N_TIMING_FIELDS, &csv));
    rc = records_read_all(csv, is_overlap, model, records_ret);
    if (rc == ncclSuccess && records_ret->n == 0)
        rc = mock_refuse("%s: no row below the header%s", path,
                         is_overlap ? " of a GEMM in bf16 and a collective"
                                    : "");
    if (rc == ncclSuccess) {
        records_sort(records_ret);
        rc = records_check_twins(path, records_ret);
    }
    mock_csv_close(csv);
    if (rc != ncclSuccess)
        return rc;
    mock_records_pool(records_ret);
    for (int i = 0; i < records_ret->n && is_overlap; i++)
        counts_from_0 |= records_ret->list[i].round == 0;
    for (int i = 0; i < records_ret->n; i++) /* `steptune iterate` does */
        records_ret->list[i].round += counts_from_0;
    return ncclSuccess;
}

const struct mock_record *mock_records_find(const struct mock_records *records,
                                            const struct mock_record *key)
{
    return bsearch(key, records->list, (size_t)records->n,
                   sizeof(*records->list), records_compare_key);
}
