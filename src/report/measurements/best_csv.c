#include "report/measurements/best_csv.h"

#include <inttypes.h>

#include "core/csv.h"
#include "core/names.h"
#include "core/policy/policy.h"
#include "report/file.h"
#include "report/table.h"

#define COLLS "broadcast, reduce, allgather, reducescatter or allreduce"
#define ALGOS                                                                  \
    "tree, ring, collnet_direct, collnet_chain, nvls, nvls_tree or pat"

/* A row being read, and the numbers that decide nothing. */
struct row {
    struct stp_best_row row;
    double ignored;
};

#define INTO(member) STP_CSV_INTO(row, member)
#define WORD(member, from)                                                     \
    .kind = STP_CSV_WORD, INTO(row.member), .from_name = (from)
#define OR_ANY(member, least, most)                                            \
    .kind = STP_CSV_WHOLE, INTO(row.member), .min = (least), .max = (most),    \
    .none = "-1", .none_value = -1
#define FROM_1 "a number from 1, or -1 for any"

// clang-format off
static const struct stp_csv_column columns[] = {
    {"collective", COLLS, .required = true,
     WORD(calls.coll, stp_coll_from_name)},
    {"size_bytes", "a number of bytes from 1", .required = true,
     .kind = STP_CSV_WHOLE, INTO(row.n_bytes), .min = 1, .max = UINT64_MAX},
    {"algorithm", ALGOS, .required = true, WORD(algo, stp_algo_from_name)},
    {"protocol", "ll, ll128 or simple", .required = true,
     WORD(proto, stp_proto_from_name)},
    {"channels", "1 to 64, or -1 for NCCL's own count", .required = true,
     OR_ANY(n_channels, 1, STP_MAX_CHANNELS)},
    {"nodes", FROM_1, .required = true, OR_ANY(calls.n_nodes, 1, INT32_MAX)},
    {"ranks", FROM_1, .required = true, OR_ANY(calls.n_ranks, 1, INT32_MAX)},
    {"pipeOps", FROM_1, OR_ANY(calls.n_pipe_ops, 1, INT32_MAX)},
    {"regBuff", "0, 1, or -1 for any", OR_ANY(calls.reg_buff, 0, 1)},
    {"cost_metric", "a number", .kind = STP_CSV_NUMBER, INTO(ignored)},
    {"bandwidth_gbps", "a number", .kind = STP_CSV_NUMBER, INTO(ignored)},
    {"latency_us", "microseconds above 0", .required = true,
     .kind = STP_CSV_POSITIVE, INTO(row.us)},
};
// clang-format on

struct reader {
    struct stp_best_rows *rows;
    struct row row;
};

static void *best_begin_row(void *user, unsigned line)
{
    struct reader *r = user;

    r->row.row = (struct stp_best_row){
        .line = line, .calls = {.n_pipe_ops = -1, .reg_buff = -1}};
    return &r->row;
}

static enum stp_status best_end_row(void *user, void *row,
                                    struct stp_error *err)
{
    struct reader *r = user;
    const struct stp_best_row *b = &((const struct row *)row)->row;

    /* NVIDIA's own sample has rows of pairs without a kernel. */
    if (!stp_pair_exists(b->calls.coll, b->algo, b->proto)) {
        if (r->rows->n_impossible++ == 0)
            r->rows->impossible = *b;
        return STP_OK;
    }
    if (stp_best_add(r->rows, b) != STP_OK)
        return stp_nomem(err);
    return STP_OK;
}

static const struct stp_csv_format format = {
    .what = "NVIDIA's performance data",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = best_begin_row,
    .end_row = best_end_row,
};

bool stp_best_csv_is(const char *text, size_t len)
{
    unsigned line;

    return stp_csv_has_column(text, len, "size_bytes", &line);
}

enum stp_status stp_best_csv_read(const char *text, size_t len,
                                  struct stp_best_rows *rows,
                                  struct stp_error *err)
{
    struct reader r = {.rows = rows};
    enum stp_status status = stp_csv_read(&format, &r, text, len, err);

    return status == STP_OK ? stp_best_check(rows, err) : status;
}

/* ---- the fastest arms, as a policy and as JSON ---- */

static const char head[] =
    "# Nothing was compared with NCCL's own choice, which may be faster: a "
    "rule "
    "names the fastest arm that was measured.\n"
    "# Arms ran one after the other, once a size: drift between them is in "
    "these times, and neither it nor their spread is known.\n";

static void best_write_impossible(const struct stp_best_rows *rows, FILE *fp)
{
    const struct stp_best_row *row = &rows->impossible;

    if (rows->n_impossible > 0)
        fprintf(fp,
                "# Left out: %zu times of pairs that NCCL has no kernel for, "
                "and that were not what ran, the first %s with %s/%s in line "
                "%u.\n",
                rows->n_impossible, stp_coll_name(row->calls.coll),
                stp_algo_name(row->algo), stp_proto_name(row->proto),
                row->line);
}

static void best_write_rule(const struct stp_best_rule *rule, FILE *fp)
{
    const struct stp_best_row *r = rule->points[0].row;
    const struct stp_best_calls *c = &r->calls;

    fputc('\n', fp);
    for (size_t i = 0; i < rule->n_points; i++)
        fprintf(fp, "# %" PRIu64 " B: %.1f us, the fastest of %zu\n",
                rule->points[i].row->n_bytes, rule->points[i].row->us,
                rule->points[i].n_arms);
    fprintf(fp, "%s,%" PRIu64 ",%" PRIu64 ",%s,%s,%d,%d,%d",
            stp_coll_name(c->coll), rule->min_bytes, rule->max_bytes,
            stp_algo_name(r->algo), stp_proto_name(r->proto), r->n_channels,
            c->n_nodes, c->n_ranks);
    if (c->n_pipe_ops != -1 || c->reg_buff != -1)
        fprintf(fp, ",%d,%d", c->n_pipe_ops, c->reg_buff);
    fputc('\n', fp);
}

void stp_best_policy_write(const struct stp_best *best,
                           const struct stp_best_rows *rows,
                           const char *made_by, FILE *fp)
{
    fprintf(fp,
            "# %s\n# from NVIDIA's performance data: %zu times, of which the "
            "file does not say where they are from\n%s",
            made_by, rows->n_rows, head);
    best_write_impossible(rows, fp);
    for (size_t i = 0; i < best->n_rules; i++)
        best_write_rule(&best->rules[i], fp);
}

enum stp_status stp_best_policy_save(const struct stp_best *best,
                                     const struct stp_best_rows *rows,
                                     const char *made_by, const char *path,
                                     struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    stp_best_policy_write(best, rows, made_by, file.fp);
    return stp_file_commit(&file, err);
}

static void best_put_rule(const struct stp_best_rule *rule, struct stp_table *t)
{
    const struct stp_best_row *r = rule->points[0].row;
    struct stp_table evidence;

    stp_table_row(t);
    stp_table_word(t, "collective", NULL, stp_coll_name(r->calls.coll));
    stp_table_count(t, "min_bytes", NULL, rule->min_bytes);
    stp_table_count(t, "max_bytes", NULL, rule->max_bytes);
    stp_table_number(t, "nNodes", NULL, r->calls.n_nodes, 0);
    stp_table_number(t, "nRanks", NULL, r->calls.n_ranks, 0);
    stp_table_number(t, "numPipeOps", NULL, r->calls.n_pipe_ops, 0);
    stp_table_number(t, "regBuff", NULL, r->calls.reg_buff, 0);
    stp_table_ran(t, "choice", NULL, r->algo, r->proto,
                  r->n_channels < 0 ? 0 : r->n_channels);
    evidence = stp_table_array(t->row, "evidence");
    for (size_t i = 0; i < rule->n_points; i++) {
        stp_table_row(&evidence);
        stp_table_count(&evidence, "bytes", NULL, rule->points[i].row->n_bytes);
        stp_table_number(&evidence, "us", NULL, rule->points[i].row->us, 3);
        stp_table_count(&evidence, "arms", NULL, rule->points[i].n_arms);
    }
}

enum stp_status stp_best_print_json(const struct stp_best *best, FILE *fp,
                                    struct stp_error *err)
{
    struct stp_table t = stp_table_result(true);

    stp_table_word(&t, "objective", NULL, "time");
    stp_table_flag(&t, "compared_with_auto", NULL, false);
    stp_table_rows(&t, "rules");
    for (size_t i = 0; i < best->n_rules; i++)
        best_put_rule(&best->rules[i], &t);
    return stp_table_end(&t, fp, err);
}
