#include "report/measurements/measurements_row.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/names.h"
#include "core/text.h"

/* The value of a member that no column has set. */
enum { UNSET = -2 };

/* A word of the arm: a number of the list, or the name of an arm that forces
 * nothing and stands in both columns. */
static bool row_read_arm(const struct stp_field *f,
                         int (*from_name)(const char *, size_t),
                         int *number_ret, struct stp_arm *arm_ret)
{
    struct stp_arm arm = {.kind = STP_ARM_FORCED};

    *number_ret = from_name(f->s, f->len);
    if (*number_ret < 0 &&
        (!stp_arm_from_name(f->s, f->len, &arm) || arm.kind == STP_ARM_FORCED))
        return false;
    if (arm.kind == STP_ARM_AUTO)
        arm.kind = STP_ARM_FORCED;
    *arm_ret = arm;
    return true;
}

static bool row_read_algo(const struct stp_field *f, void *row)
{
    struct stp_measurement_row *r = row;
    return row_read_arm(f, stp_algo_from_name, &r->m.arm.algo, &r->algo_arm);
}

static bool row_read_proto(const struct stp_field *f, void *row)
{
    struct stp_measurement_row *r = row;
    return row_read_arm(f, stp_proto_from_name, &r->m.arm.proto, &r->proto_arm);
}

static void row_write_arm(const void *row, bool is_algo, FILE *fp)
{
    char algo[STP_ARM_NAME];
    char proto[STP_ARM_NAME];

    stp_arm_columns(&((const struct stp_measurement_row *)row)->m.arm, algo,
                    proto);
    fputs(is_algo ? algo : proto, fp);
}

static void row_write_algo(const void *row, FILE *fp)
{
    row_write_arm(row, true, fp);
}

static void row_write_proto(const void *row, FILE *fp)
{
    row_write_arm(row, false, fp);
}

static void row_write_op(const void *row, FILE *fp)
{
    const struct stp_measurement *m =
        &((const struct stp_measurement_row *)row)->m;

    fputs(stp_coll_reduces(m->coll) ? stp_op_name(m->op) : "none", fp);
}

static void row_write_run(const void *row, FILE *fp)
{
    fputs(((const struct stp_measurement_row *)row)->run, fp);
}

#define INTO(member) STP_CSV_INTO(stp_measurement_row, m.member)
#define WORD(member, from, name)                                               \
    .kind = STP_CSV_WORD, INTO(member), .from_name = (from), .name_of = (name)
#define COUNT(member, least)                                                   \
    .kind = STP_CSV_WHOLE, INTO(member), .min = (least), .max = UINT32_MAX
#define CHANNELS(member)                                                       \
    .kind = STP_CSV_WHOLE, INTO(member), .max = STP_MAX_CHANNELS
#define TIME(member)                                                           \
    "a time above 0", .kind = STP_CSV_POSITIVE, INTO(member), .decimals = 3
#define FROM_0 "a number from 0"
#define FROM_1 "a number from 1"

// clang-format off
const struct stp_csv_column
    stp_measurement_columns[STP_N_MEASUREMENT_COLUMNS] = {
    {"collective", "the name of a collective", .required = true,
     WORD(coll, stp_coll_from_name, stp_coll_name)},
    {"bytes", "a number of bytes from 1 to 2^48", .required = true,
     .kind = STP_CSV_WHOLE, INTO(n_bytes), .min = 1, .max = UINT64_C(1) << 48},
    {"round", FROM_0, .required = true, COUNT(round, 0)},
    {"algorithm", "an algorithm, auto, or an arm that forces none", .required = true,
     .read = row_read_algo, .write = row_write_algo},
    {"protocol", "a protocol, auto, or an arm that forces none", .required = true,
     .read = row_read_proto, .write = row_write_proto},
    {"channels", "0 to 64", CHANNELS(arm.n_channels)},
    {"chunk", "a number of bytes", .kind = STP_CSV_WHOLE,
     INTO(arm.chunk_bytes), .max = UINT32_MAX},
    {"nNodes", FROM_1, COUNT(n_nodes, 1)},
    {"nRanks", FROM_1, .required = true, COUNT(n_ranks, 1)},
    {"iters", FROM_1, COUNT(iters, 1)},
    {"mean_us", TIME(us.mean)},
    {"median_us", TIME(us.median), .required = true},
    {"p95_us", TIME(us.p95), .none = ""},
    {"p99_us", TIME(us.p99), .none = ""},
    {"min_us", TIME(us.min), .none = ""},
    {"ran_algorithm", "an algorithm or -", WORD(ran_algo, stp_algo_from_name,
     stp_algo_name),
     .none = "-", .none_value = -1},
    {"ran_protocol", "a protocol or -", WORD(ran_proto, stp_proto_from_name,
     stp_proto_name),
     .none = "-", .none_value = -1},
    {"ran_channels", "0 to 64", CHANNELS(ran_channels)},
    {"ran_kernel", "a name of fewer than 40 bytes, or nothing",
     .kind = STP_CSV_TEXT, INTO(ran_kernel)},
    {"source", STP_SOURCE_WORDS,
     WORD(source, stp_source_from_name, stp_source_name)},
    {"single_pass", "0 or 1", .kind = STP_CSV_FLAG, INTO(single_pass)},
    {"type", STP_TYPE_WORDS, WORD(type, stp_type_from_name, stp_type_name)},
    {"op", STP_OP_WORDS ", or none", WORD(op, stp_op_from_name, stp_op_name),
     .none = "none", .none_value = STP_OP_SUM, .write = row_write_op},
    {"root", "a rank from 0", COUNT(root, 0)},
    {"in_place", "0 or 1", .kind = STP_CSV_FLAG, INTO(in_place)},
    {"graph", "0 or 1", .kind = STP_CSV_FLAG, INTO(graph)},
    {"wrong", "a number of elements, or nothing", .kind = STP_CSV_WHOLE,
     INTO(n_wrong), .max = INT64_MAX, .none = "", .none_value = -1},
    {"bits", "same, other or -", WORD(bits, stp_bits_from_name, stp_bits_name),
     .none = "-", .none_value = STP_BITS_UNKNOWN},
    {"mode", "alone, sequential, overlap, fsdp or trace",
     WORD(work.mode, stp_mode_from_name, stp_mode_name)},
    {"compute", "gemm or training", WORD(work.compute, stp_compute_from_name,
     stp_compute_name)},
    {"layers", FROM_0, COUNT(work.layers, 0)},
    {"ratio", FROM_0, .kind = STP_CSV_FROM_0, INTO(work.ratio)},
    {"m", FROM_0, COUNT(work.gemm.m, 0)},
    {"n", FROM_0, COUNT(work.gemm.n, 0)},
    {"k", FROM_0, COUNT(work.gemm.k, 0)},
    {"compute_us", "a time from 0", .kind = STP_CSV_FROM_0,
     INTO(work.compute_us), .decimals = 3},
    {"alone_us", "a time from 0", .kind = STP_CSV_FROM_0, INTO(alone_us),
     .decimals = 3},
    /* the run of a recorded machine: rounds tell runs apart */
    {"run", "a word", .kind = STP_CSV_SKIP, .write = row_write_run},
};
// clang-format on

void stp_measurement_row_begin(struct stp_measurement_row *row, unsigned line)
{
    *row = (struct stp_measurement_row){
        .m = {.iters = 1,
              .type = STP_TYPE_BF16, /* of files without a column for it */
              .n_wrong = -1,
              .ran_algo = UNSET,
              .source = (enum stp_source)UNSET,
              .work = {.mode = UNSET,
                       .layers = UINT32_MAX,
                       .compute_us = UNSET}},
        .line = line};
}

void stp_measurement_row_forget(struct stp_measurement *m)
{
    m->us.p95 = m->us.p95 > 0 ? m->us.p95 : (double)NAN;
    m->us.p99 = m->us.p99 > 0 ? m->us.p99 : (double)NAN;
    if (!(m->us.min > 0))
        m->us.min = m->iters == 1 ? m->us.median : (double)NAN;
}

enum stp_status stp_measurement_row_finish(struct stp_measurement_row *row,
                                           struct stp_error *err)
{
    struct stp_arm *arm = &row->m.arm;

    /* Arms that force nothing stand in both columns. */
    if (!stp_arm_equal(&row->algo_arm, &row->proto_arm))
        return stp_fail_at(
            err, STP_ERR_SYNTAX, row->line, 0,
            "algorithm and protocol are not of one arm, expected an arm that "
            "forces none, such as auto2 or sym, in both columns or in none");
    if (row->algo_arm.kind != STP_ARM_FORCED)
        *arm = row->algo_arm;
    else if (arm->algo == STP_ANY && arm->proto == STP_ANY &&
             arm->n_channels == 0 && arm->chunk_bytes == 0)
        *arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    else
        arm->kind = STP_ARM_FORCED;
    if (row->m.ran_algo == UNSET) {
        row->m.ran_algo = arm->kind == STP_ARM_FORCED ? arm->algo : -1;
        row->m.ran_proto = arm->kind == STP_ARM_FORCED ? arm->proto : -1;
    }
    row->m.us.mean = row->m.us.mean > 0 ? row->m.us.mean : row->m.us.median;
    stp_measurement_row_forget(&row->m);
    /* overlap.csv of a recorded machine says neither nNodes nor source; where
     * it is older than the other modes, no mode either. */
    if (row->m.n_nodes == 0 && row->m.work.layers != UINT32_MAX &&
        row->m.work.compute_us >= 0) {
        row->m.n_nodes = 1;
        if (row->m.work.mode == UNSET)
            row->m.work.mode = STP_MODE_OVERLAP;
        if (row->m.source == (enum stp_source)UNSET)
            row->m.source = STP_SOURCE_RECORDED;
    }
    if (row->m.source == (enum stp_source)UNSET)
        row->m.source = STP_SOURCE_MEASURED;
    if (row->m.n_nodes == 0)
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, 0,
                           "no column nNodes, without which only a recorded "
                           "machine's overlap.csv can be");

    struct stp_workload *work = &row->m.work;

    if (work->mode == UNSET || work->mode == STP_MODE_ALONE) {
        *work = (struct stp_workload){0};
        row->m.alone_us = 0;
        return STP_OK;
    }
    if (work->layers == 0 || work->layers == UINT32_MAX)
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, 0,
                           "mode %s without layers, expected a number from 1",
                           stp_mode_name(work->mode));
    if (work->compute_us < 0)
        work->compute_us = 0;
    work->gemm.type = row->m.type;
    return STP_OK;
}

void stp_measurement_header_read(const char *names,
                                 struct stp_measurement_header *header_ret)
{
    struct stp_field fields[STP_N_MEASUREMENT_COLUMNS];

    header_ret->n =
        stp_split(names, strlen(names), fields, STP_N_MEASUREMENT_COLUMNS);
    for (size_t i = 0; i < header_ret->n; i++)
        header_ret->columns[i] = stp_csv_find(
            stp_measurement_columns, STP_N_MEASUREMENT_COLUMNS, &fields[i]);
}

void stp_measurement_row_write(const struct stp_measurement_row *row,
                               const struct stp_measurement_header *header,
                               FILE *fp)
{
    for (size_t i = 0; i < header->n; i++) {
        if (i > 0)
            fputc(',', fp);

        const struct stp_csv_column *c = header->columns[i];
        const void *in = (const char *)row + c->offset;

        if (c->write != NULL)
            c->write(row, fp);
        else if (c->kind == STP_CSV_TEXT)
            fputs(in, fp);
        else if (c->kind >= STP_CSV_NUMBER && isnan(*(const double *)in))
            ;
        else if (c->kind >= STP_CSV_NUMBER && c->decimals > 0 &&
                 (*(const double *)in == 0 || *(const double *)in >= 0.001))
            fprintf(fp, "%.*f", c->decimals, *(const double *)in);
        else if (c->kind >= STP_CSV_NUMBER) /* or a time might become 0 */
            fprintf(fp, "%.9g", *(const double *)in);
        else if (c->kind == STP_CSV_FLAG)
            fputc(*(const bool *)in ? '1' : '0', fp);
        else if (c->none != NULL &&
                 c->none_value == (c->size == sizeof(int32_t)
                                       ? *(const int32_t *)in
                                       : *(const int64_t *)in))
            fputs(c->none, fp);
        else if (c->kind == STP_CSV_WORD)
            fputs(c->name_of(*(const int *)in), fp);
        else if (c->size == sizeof(uint32_t))
            fprintf(fp, "%" PRIu32, *(const uint32_t *)in);
        else
            fprintf(fp, "%" PRIu64, *(const uint64_t *)in);
    }
    fputc('\n', fp);
}
