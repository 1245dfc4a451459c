#include "report/measurements/measurements_row.h"

#include <string.h>

#include "core/dtype.h"
#include "core/names.h"

/* ---- columns ---- */

static bool parse_count(const struct stp_field *f, uint64_t min, uint64_t max,
                        uint64_t *value_ret)
{
    return stp_parse_u64(f->s, f->len, value_ret) && *value_ret >= min &&
           *value_ret <= max;
}

static bool parse_unsigned(const struct stp_field *f, unsigned min,
                           unsigned *value_ret)
{
    uint64_t v;

    if (!parse_count(f, min, UINT32_MAX, &v))
        return false;
    *value_ret = (unsigned)v;
    return true;
}

static bool parse_us(const struct stp_field *f, double *us_ret)
{
    return stp_parse_double(f->s, f->len, us_ret) && *us_ret > 0;
}

static bool read_coll(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.coll = stp_coll_from_name(f->s, f->len);
    return p->m.coll >= 0;
}

static bool read_bytes(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return stp_parse_u64(f->s, f->len, &p->m.n_bytes);
}

static bool read_round(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 0, &p->m.round);
}

/* A word of the arm: a number of the list, or what stands in both columns. */
static bool parse_arm(const struct stp_field *f,
                      int (*from_name)(const char *, size_t), int *number_ret,
                      enum stp_arm_kind *kind_ret)
{
    struct stp_arm arm = {STP_ARM_FORCED, STP_ANY, STP_ANY, 0};

    *number_ret = from_name(f->s, f->len);
    if (*number_ret < 0 &&
        (!stp_arm_from_name(f->s, f->len, &arm) || arm.kind == STP_ARM_FORCED))
        return false;
    *kind_ret = arm.kind == STP_ARM_AUTO ? STP_ARM_FORCED : arm.kind;
    return true;
}

static bool read_algo(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_arm(f, stp_algo_from_name, &p->m.arm.algo, &p->algo_kind);
}

static bool read_proto(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_arm(f, stp_proto_from_name, &p->m.arm.proto, &p->proto_kind);
}

static bool read_channels(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.arm.n_channels = (int)n;
    return true;
}

static bool read_nodes(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_nodes = parse_unsigned(f, 1, &p->m.n_nodes);
}

static bool read_ranks(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 1, &p->m.n_ranks);
}

static bool read_iters(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 1, &p->m.iters);
}

static bool read_mean(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_mean = parse_us(f, &p->m.us.mean);
}

static bool read_median(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_us(f, &p->m.us.median);
}

static bool read_p95(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_p95 = parse_us(f, &p->m.us.p95);
}

static bool read_p99(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_p99 = parse_us(f, &p->m.us.p99);
}

static bool read_min(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_min = parse_us(f, &p->m.us.min);
}

static bool read_ran_algo(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.ran_algo = stp_algo_from_name(f->s, f->len);
    return p->has_ran = p->m.ran_algo >= 0 || stp_field_is(f, "-");
}

static bool read_ran_proto(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.ran_proto = stp_proto_from_name(f->s, f->len);
    return p->m.ran_proto >= 0 || stp_field_is(f, "-");
}

static bool read_ran_channels(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    uint64_t n;

    if (!parse_count(f, 0, STP_MAX_CHANNELS, &n))
        return false;
    p->m.ran_channels = (int)n;
    return true;
}

static bool read_source(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    int source = stp_source_from_name(f->s, f->len);

    p->m.source = source < 0 ? STP_SOURCE_MODELLED : (enum stp_source)source;
    return p->has_source = source >= 0;
}

static bool read_type(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.type = stp_type_from_name(f->s, f->len);
    return p->m.type >= 0;
}

/* nccl-tests, too, writes "none" where nothing is reduced. */
static bool read_op(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.op =
        stp_field_is(f, "none") ? STP_OP_SUM : stp_op_from_name(f->s, f->len);
    return p->m.op >= 0;
}

static bool read_root(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 0, &p->m.root);
}

static bool read_in_place(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.in_place = stp_field_is(f, "1");
    return p->m.in_place || stp_field_is(f, "0");
}

static bool read_wrong(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    uint64_t n;

    if (f->len == 0)
        return true;
    if (!parse_count(f, 0, INT64_MAX, &n))
        return false;
    p->m.n_wrong = (int64_t)n;
    return true;
}

static bool read_mode(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.work.mode = stp_mode_from_name(f->s, f->len);
    return p->has_mode = p->m.work.mode >= 0;
}

static bool read_compute(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    p->m.work.compute = stp_compute_from_name(f->s, f->len);
    return p->m.work.compute >= 0;
}

static bool read_layers(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_layers = parse_unsigned(f, 0, &p->m.work.layers);
}

static bool parse_from_0(const struct stp_field *f, double *value_ret)
{
    return stp_parse_double(f->s, f->len, value_ret) && *value_ret >= 0;
}

static bool read_ratio(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_from_0(f, &p->m.work.ratio);
}

static bool read_m(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 0, &p->m.work.gemm.m);
}

static bool read_n(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 0, &p->m.work.gemm.n);
}

static bool read_k(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_unsigned(f, 0, &p->m.work.gemm.k);
}

static bool read_compute_us(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return p->has_compute_us = parse_from_0(f, &p->m.work.compute_us);
}

static bool read_alone_us(const struct stp_field *f, void *row)
{
    struct stp_parsed *p = row;
    return parse_from_0(f, &p->m.alone_us);
}

/* Which of a recorded machine's runs it was: rounds tell them apart. */
static bool read_run(const struct stp_field *f, void *row)
{
    (void)f;
    (void)row;
    return true;
}

const struct stp_csv_column stp_measurement_columns[STP_N_MEASUREMENT_COLUMNS] =
    {
        {"collective", read_coll, true, "the name of a collective"},
        {"bytes", read_bytes, true, "a number of bytes"},
        {"round", read_round, true, "a number from 0"},
        {"algorithm", read_algo, true, "an algorithm, auto, auto2 or plugin"},
        {"protocol", read_proto, true, "a protocol, auto, auto2 or plugin"},
        {"channels", read_channels, false, "0 to 64"},
        {"nNodes", read_nodes, false, "a number from 1"},
        {"nRanks", read_ranks, true, "a number from 1"},
        {"iters", read_iters, false, "a number from 1"},
        {"mean_us", read_mean, false, "a time above 0"},
        {"median_us", read_median, true, "a time above 0"},
        {"p95_us", read_p95, false, "a time above 0"},
        {"p99_us", read_p99, false, "a time above 0"},
        {"min_us", read_min, false, "a time above 0"},
        {"ran_algorithm", read_ran_algo, false, "an algorithm or -"},
        {"ran_protocol", read_ran_proto, false, "a protocol or -"},
        {"ran_channels", read_ran_channels, false, "0 to 64"},
        {"source", read_source, false,
         "measured, recorded, interpolated, "
         "single_pass or modelled"},
        {"type", read_type, false, STP_TYPE_WORDS},
        {"op", read_op, false, STP_OP_WORDS ", or none"},
        {"root", read_root, false, "a rank from 0"},
        {"in_place", read_in_place, false, "0 or 1"},
        {"wrong", read_wrong, false, "a number of elements, or nothing"},
        {"mode", read_mode, false, "alone, sequential, overlap or fsdp"},
        {"compute", read_compute, false, "gemm or training"},
        {"layers", read_layers, false, "a number from 0"},
        {"ratio", read_ratio, false, "a number from 0"},
        {"m", read_m, false, "a number from 0"},
        {"n", read_n, false, "a number from 0"},
        {"k", read_k, false, "a number from 0"},
        {"compute_us", read_compute_us, false, "a time from 0"},
        {"alone_us", read_alone_us, false, "a time from 0"},
        {"run", read_run, false, "a word"},
};

/* ---- the row ---- */

void stp_parsed_begin(struct stp_parsed *row, unsigned line)
{
    memset(row, 0, sizeof(*row));
    row->line = line;
    row->m.iters = 1;
    row->m.type = STP_TYPE_BF16; /* as all were before there was a column */
    row->m.n_wrong = -1;
    row->m.source = STP_SOURCE_MEASURED;
}

/* What is no forced arm stands in both columns. */
static enum stp_status finish_arm(struct stp_parsed *p, struct stp_error *err)
{
    struct stp_arm *arm = &p->m.arm;

    if (p->algo_kind != p->proto_kind)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, p->line, 0,
            "algorithm and protocol are not of one arm, expected auto2 or "
            "plugin in both columns or in none");
    if (p->algo_kind != STP_ARM_FORCED)
        *arm = (struct stp_arm){.kind = p->algo_kind};
    else if (arm->algo == STP_ANY && arm->proto == STP_ANY &&
             arm->n_channels == 0)
        *arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    else
        arm->kind = STP_ARM_FORCED;
    if (!p->has_ran) {
        p->m.ran_algo = arm->kind == STP_ARM_FORCED ? arm->algo : -1;
        p->m.ran_proto = arm->kind == STP_ARM_FORCED ? arm->proto : -1;
    }
    return STP_OK;
}

static void finish_times(struct stp_parsed *p)
{
    struct stp_summary *us = &p->m.us;

    us->mean = p->has_mean ? us->mean : us->median;
    us->p95 = p->has_p95 ? us->p95 : us->median;
    us->p99 = p->has_p99 ? us->p99 : us->p95;
    us->min = p->has_min ? us->min : us->median;
}

/* A recorded machine's overlap.csv, which is older than other modes. */
static bool is_recorded(const struct stp_parsed *p)
{
    return p->has_layers && p->has_compute_us && !p->has_mode;
}

static void finish_recorded(struct stp_parsed *p)
{
    p->m.work.mode = STP_MODE_OVERLAP;
    if (!p->has_source)
        p->m.source = STP_SOURCE_RECORDED;
    if (!p->has_nodes)
        p->m.n_nodes = 1;
    p->has_nodes = true;
}

static enum stp_status finish_work(struct stp_parsed *p, struct stp_error *err)
{
    struct stp_workload *work = &p->m.work;

    if (work->mode == STP_MODE_ALONE) {
        *work = (struct stp_workload){0};
        p->m.alone_us = 0;
        return STP_OK;
    }
    if (work->layers == 0)
        return stp_fail_at(err, STP_ERR_SYNTAX, p->line, 0,
                           "mode %s without layers, expected a number from 1",
                           stp_mode_name(work->mode));
    work->gemm.type = p->m.type;
    return STP_OK;
}

enum stp_status stp_parsed_finish(struct stp_parsed *row, struct stp_error *err)
{
    enum stp_status status = finish_arm(row, err);

    if (status != STP_OK)
        return status;
    finish_times(row);
    if (is_recorded(row))
        finish_recorded(row);
    if (!row->has_nodes)
        return stp_fail_at(err, STP_ERR_SYNTAX, row->line, 0,
                           "no column nNodes, without which only a recorded "
                           "machine's overlap.csv can be");
    return finish_work(row, err);
}
