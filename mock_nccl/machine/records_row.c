#include "machine/records_row.h"

#include <string.h>

#include "model/select.h"

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

/* Those that overlap.csv may be without. */
enum {
    OPTIONAL = 1 << GEMM_M | 1 << GEMM_N | 1 << GEMM_K | 1 << RUN | 1 << MODE |
               1 << COMPUTE_KIND | 1 << TYPE | 1 << RAN_ALGORITHM |
               1 << RAN_PROTOCOL
};

/* What else `steptune iterate` writes. */
static const char *const ignored_words[] = {
    "nNodes", "p99_us",   "ran_channels", "op",     "root",
    "wrong",  "in_place", "ratio",        "source", "alone_us",
};
static const struct mock_words ignored_columns = {
    ignored_words, sizeof(ignored_words) / sizeof(ignored_words[0])};

/* Whether it says the word in the column. */
static bool says(const struct mock_csv *csv, int column, const char *word)
{
    const char *text = "";

    return mock_csv_has(csv, column) &&
           mock_csv_text(csv, column, &text) == ncclSuccess &&
           strcmp(text, word) == 0;
}

/* Iterations that are none of a product with a collective beside it, and those
 * of a tuner: which of its choices they are nobody can say. */
static bool is_other(const struct mock_csv *csv)
{
    static const struct {
        int column;
        const char *word;
    } wanted[] = {{MODE, "overlap"}, {COMPUTE_KIND, "gemm"}, {TYPE, "bf16"}};

    for (size_t i = 0; i < sizeof(wanted) / sizeof(wanted[0]); i++)
        if (mock_csv_has(csv, wanted[i].column) &&
            !says(csv, wanted[i].column, wanted[i].word))
            return true;
    return says(csv, ALGORITHM, "plugin");
}

/* "auto2" is auto once more in a round, of iterations alone. */
static ncclResult_t read_pair(const struct mock_csv *csv, bool is_overlap,
                              struct mock_record *record)
{
    ncclResult_t rc;

    if (is_overlap && says(csv, ALGORITHM, "auto2") &&
        says(csv, PROTOCOL, "auto2")) {
        record->algo = record->proto = -1;
        return ncclSuccess;
    }
    rc = mock_csv_word(csv, ALGORITHM, &mock_algos, "auto", &record->algo);
    if (rc == ncclSuccess)
        rc = mock_csv_word(csv, PROTOCOL, &mock_protos, "auto", &record->proto);
    return rc;
}

static ncclResult_t read_words(const struct mock_csv *csv, bool is_overlap,
                               struct mock_record *record)
{
    const char *run = "";
    ncclResult_t rc =
        mock_csv_word(csv, COLLECTIVE, &mock_colls, NULL, &record->coll);

    if (rc == ncclSuccess)
        rc = read_pair(csv, is_overlap, record);
    if (rc == ncclSuccess && mock_csv_has(csv, RUN))
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

/* Puts what ran in the place of what is not forced. */
static ncclResult_t resolve_ran(const struct mock_csv *csv,
                                struct mock_record *record)
{
    ncclResult_t rc =
        mock_csv_word(csv, RAN_ALGORITHM, &mock_algos, "-", &record->algo);

    if (rc == ncclSuccess)
        rc =
            mock_csv_word(csv, RAN_PROTOCOL, &mock_protos, "-", &record->proto);
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

/* Makes it the row of a pair; of an algorithm, a protocol or channels alone
 * that is what ran, if that is there. */
static ncclResult_t resolve(const struct mock_csv *csv,
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
        return resolve_ran(csv, record);
    return resolve_auto(csv, model, record);
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

ncclResult_t mock_record_open(const char *path, bool is_overlap,
                              struct mock_csv **csv_ret)
{
    if (is_overlap)
        return mock_csv_open_some(path, &overlap_columns, OPTIONAL,
                                  &ignored_columns, csv_ret);
    return mock_csv_open(path, &columns, csv_ret);
}

static ncclResult_t read_all(const struct mock_csv *csv, bool is_overlap,
                             int n_ranks, struct mock_record *record)
{
    ncclResult_t rc = read_words(csv, is_overlap, record);

    if (rc == ncclSuccess)
        rc = read_numbers(csv, n_ranks, record);
    if (rc == ncclSuccess)
        rc = read_times(csv, record);
    if (rc == ncclSuccess && is_overlap)
        rc = read_layers(csv, record);
    if (rc == ncclSuccess && is_overlap)
        rc = read_gemm(csv, record);
    return rc;
}

ncclResult_t mock_record_read(const struct mock_csv *csv, bool is_overlap,
                              const struct mock_model *model,
                              struct mock_record *record, bool *wanted_ret)
{
    ncclResult_t rc;

    memset(record, 0, sizeof(*record));
    record->line = mock_csv_line(csv);
    *wanted_ret = !(is_overlap && is_other(csv));
    if (!*wanted_ret)
        return ncclSuccess;
    rc = read_all(csv, is_overlap, model->n_ranks, record);
    if (rc == ncclSuccess)
        rc = resolve(csv, model, record);
    *wanted_ret = record->algo >= 0 && record->proto >= 0;
    if (rc == ncclSuccess && *wanted_ret)
        rc = check_pair(csv, record);
    return rc;
}
