#include "core/policy/constants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/rng.h"

enum { N_COLUMNS = 3 };

/* The words for the rows or columns of a matrix. */
struct axis {
    const char *noun; /* one of them, for messages */
    const char *const *words;
    size_t n;
};

/* A matrix of NCCL's struct; all of them have as many columns. */
struct matrix {
    const char *name;
    size_t first; /* of its doubles */
    const struct axis *rows;
    const struct axis *columns;
    bool is_latency;
};

#define WORD(word, value) [value] = (word),
static const char *const algo_words[] = {STP_ALGO_LIST(WORD)};
static const char *const proto_words[] = {STP_PROTO_LIST(WORD)};
#undef WORD
static const char *const generation_words[] = {
    [NCCL_VOLTA_COMPCAP_IDX] = "volta",
    [NCCL_AMPERE_COMPCAP_IDX] = "ampere",
    [NCCL_HOPPER_COMPCAP_IDX] = "hopper",
    [NCCL_BLACKWELL_COMPCAP_IDX] = "blackwell",
    [NCCL_RUBIN_COMPCAP_IDX] = "rubin",
};
static const char *const scale_words[] = {
    [NCCL_TUNING_SCALE_1NODE] = "1",
    [NCCL_TUNING_SCALE_2NODES] = "2",
    [NCCL_TUNING_SCALE_4NODES] = "3+",
};

static const struct axis algos = {"algorithm", algo_words, NCCL_NUM_ALGORITHMS};
static const struct axis protos = {"protocol", proto_words, N_COLUMNS};
static const struct axis generations = {"generation", generation_words,
                                        NCCL_NUM_COMPCAPS};
static const struct axis scales = {"number of nodes", scale_words, N_COLUMNS};

#define AT(field) (offsetof(ncclTunerConstants_v7_t, field) / sizeof(double))

/* In the order of the struct. */
static const struct matrix matrices[] = {
    {"base_latency", AT(baseLatencies), &algos, &protos, true},
    {"nvlink_latency", AT(hwLatencies[NCCL_HW_NVLINK]), &algos, &protos, true},
    {"pci_latency", AT(hwLatencies[NCCL_HW_PCI]), &algos, &protos, true},
    {"net_latency", AT(hwLatencies[NCCL_HW_NET]), &algos, &protos, true},
    {"ll_bandwidth", AT(llMaxBws), &generations, &scales, false},
    {"ring_ll128_bandwidth", AT(perChMaxRingLL128Bws), &generations, &scales,
     false},
    {"tree_ll128_bandwidth", AT(perChMaxTreeLL128Bws), &generations, &scales,
     false},
    {"tree_bandwidth", AT(perChMaxTreeBws), &generations, &scales, false},
    {"nvls_tree_bandwidth", AT(perChMaxNVLSTreeBws), &generations, &scales,
     false},
};

enum { N_MATRICES = sizeof(matrices) / sizeof(matrices[0]) };

static const struct matrix *constants_find_matrix_of(size_t i)
{
    const struct matrix *m = &matrices[N_MATRICES - 1];

    while (i < m->first)
        m--;
    return m;
}

/* ---- reading ---- */

/* A line, until all its fields are known. */
struct row {
    unsigned line;
    struct stp_field constant, row, column, value;
};

struct reading {
    struct row row;
    struct stp_constants constants;
};

static void *constants_begin_row(void *user, unsigned line)
{
    struct reading *r = user;

    r->row.line = line;
    return &r->row;
}

/* Appends ", WORD" or the first word alone; what is too much is cut. */
static void constants_join(char *list, size_t size, const char *word)
{
    size_t len = strlen(list);

    snprintf(list + len, size - len, "%s%s", len > 0 ? ", " : "", word);
}

static enum stp_status constants_refuse(const struct row *row,
                                        const struct stp_field *field,
                                        const char *noun, const char *expected,
                                        struct stp_error *err)
{
    return stp_fail_at(err, STP_ERR_SYNTAX, row->line, field->column,
                       "%s '%.*s', expected %s", noun, STP_SHOWN(field),
                       expected);
}

static enum stp_status constants_find_matrix(const struct row *row,
                                             const struct matrix **matrix_ret,
                                             struct stp_error *err)
{
    char names[STP_ERROR_TEXT] = "";

    for (size_t i = 0; i < N_MATRICES; i++)
        if (stp_field_is(&row->constant, matrices[i].name)) {
            *matrix_ret = &matrices[i];
            return STP_OK;
        }
    for (size_t i = 0; i < N_MATRICES; i++)
        constants_join(names, sizeof(names), matrices[i].name);
    return constants_refuse(row, &row->constant, "constant", names, err);
}

static enum stp_status constants_find_word(const struct row *row,
                                           const struct stp_field *field,
                                           const struct axis *axis,
                                           size_t *i_ret, struct stp_error *err)
{
    char words[STP_ERROR_TEXT] = "";

    for (size_t i = 0; i < axis->n; i++)
        if (stp_field_is(field, axis->words[i])) {
            *i_ret = i;
            return STP_OK;
        }
    for (size_t i = 0; i < axis->n; i++)
        constants_join(words, sizeof(words), axis->words[i]);
    return constants_refuse(row, field, axis->noun, words, err);
}

static enum stp_status constants_read_number(const struct row *row,
                                             bool is_latency, double *value_ret,
                                             struct stp_error *err)
{
    double value;

    if (!stp_parse_double(row->value.s, row->value.len, &value) ||
        !(is_latency
              ? value >= 0 && value <= STP_MAX_LATENCY
              : value >= STP_MIN_BANDWIDTH && value <= STP_MAX_BANDWIDTH))
        return constants_refuse(
            row, &row->value, "value",
            is_latency ? "0 to 10000 microseconds" : "1 to 100000 GB/s", err);
    *value_ret = value;
    return STP_OK;
}

static enum stp_status constants_end_row(void *user, void *opaque,
                                         struct stp_error *err)
{
    struct stp_constants *constants = &((struct reading *)user)->constants;
    const struct row *row = opaque;
    const struct matrix *m = NULL;
    size_t r = 0, c = 0;
    double value = 0;
    enum stp_status status = constants_find_matrix(row, &m, err);

    STP_THEN(status, constants_find_word(row, &row->row, m->rows, &r, err));
    STP_THEN(status,
             constants_find_word(row, &row->column, m->columns, &c, err));
    STP_THEN(status, constants_read_number(row, m->is_latency, &value, err));
    if (status != STP_OK)
        return status;
    r = m->first + r * N_COLUMNS + c;
    if (constants->is_set[r])
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, row->constant.column,
                           "%s of %s and %s once more, expected each once",
                           m->name, stp_constant_words(r).row,
                           stp_constant_words(r).column);
    constants->is_set[r] = true;
    constants->value[r] = value;
    return STP_OK;
}

#define FIELD(member)                                                          \
    {                                                                          \
        .name = #member, .required = true, .kind = STP_CSV_FIELD,              \
        STP_CSV_INTO(row, member)                                              \
    }
static const struct stp_csv_column columns[] = {FIELD(constant), FIELD(row),
                                                FIELD(column), FIELD(value)};
#undef FIELD

static const struct stp_csv_format format = {
    .what = "constants",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = constants_begin_row,
    .end_row = constants_end_row,
};

enum stp_status stp_constants_parse(const char *text, size_t len,
                                    struct stp_constants *constants_ret,
                                    struct stp_error *err)
{
    struct reading reading = {0};
    enum stp_status status = stp_csv_read(&format, &reading, text, len, err);

    if (status == STP_OK)
        *constants_ret = reading.constants;
    return status;
}

enum stp_status stp_constants_load(const char *path,
                                   struct stp_constants *constants_ret,
                                   struct stp_error *err)
{
    struct reading reading = {0};
    enum stp_status status =
        stp_csv_load(&format, &reading, path, STP_MAX_CONSTANTS_FILE, err);

    if (status == STP_OK)
        *constants_ret = reading.constants;
    return status;
}

/* ---- using the constants ---- */

struct stp_constant_name stp_constant_words(size_t i)
{
    const struct matrix *m = constants_find_matrix_of(i);

    return (struct stp_constant_name){
        m->name, m->rows->words[(i - m->first) / N_COLUMNS],
        m->columns->words[(i - m->first) % N_COLUMNS]};
}

bool stp_constant_is_latency(size_t i)
{
    return constants_find_matrix_of(i)->is_latency;
}

size_t stp_constants_size(const struct stp_constants *constants)
{
    size_t n = 0;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        n += constants->is_set[i];
    return n;
}

void stp_constants_apply(const struct stp_constants *constants,
                         ncclTunerConstants_v7_t *nccl)
{
    double *numbers = (double *)nccl;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++)
        if (constants->is_set[i])
            numbers[i] = constants->value[i];
}

uint64_t stp_constants_hash(const struct stp_constants *constants)
{
    uint64_t hash = stp_constants_size(constants);

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        double value = constants->value[i] + 0.0; /* -0 is 0 */
        uint64_t bits;

        if (!constants->is_set[i])
            continue;
        memcpy(&bits, &value, sizeof(bits));
        hash = stp_hash(stp_hash(hash, i), bits);
    }
    return hash != 0 ? hash : 1;
}
