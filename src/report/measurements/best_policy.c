/* best_policy.c - the fastest arms, as a policy and as JSON */
#include <inttypes.h>

#include "core/names.h"
#include "report/file.h"
#include "report/json.h"
#include "report/measurements/best_csv.h"

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
    fprintf(fp, "# %s\n# from NVIDIA's performance data: %zu times\n%s",
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

static void best_add_rule_json(cJSON *row, const struct stp_best_rule *rule)
{
    const struct stp_best_row *r = rule->points[0].row;
    cJSON *evidence;

    cJSON_AddStringToObject(row, "collective", stp_coll_name(r->calls.coll));
    stp_json_number(row, "min_bytes", (double)rule->min_bytes);
    stp_json_number(row, "max_bytes", (double)rule->max_bytes);
    stp_json_number(row, "nNodes", r->calls.n_nodes);
    stp_json_number(row, "nRanks", r->calls.n_ranks);
    stp_json_number(row, "numPipeOps", r->calls.n_pipe_ops);
    stp_json_number(row, "regBuff", r->calls.reg_buff);
    stp_json_pair(row, "choice", r->algo, r->proto,
                  r->n_channels < 0 ? 0 : r->n_channels);
    evidence = cJSON_AddArrayToObject(row, "evidence");
    for (size_t i = 0; i < rule->n_points; i++) {
        cJSON *at = stp_json_row(evidence);

        stp_json_number(at, "bytes", (double)rule->points[i].row->n_bytes);
        stp_json_number(at, "us", rule->points[i].row->us);
        stp_json_number(at, "arms", (double)rule->points[i].n_arms);
    }
}

enum stp_status stp_best_print_json(const struct stp_best *best, FILE *fp,
                                    struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *rules;

    cJSON_AddStringToObject(root, "objective", "time");
    cJSON_AddBoolToObject(root, "compared_with_auto", false);
    rules = cJSON_AddArrayToObject(root, "rules");
    for (size_t i = 0; i < best->n_rules; i++)
        best_add_rule_json(stp_json_row(rules), &best->rules[i]);
    return stp_json_finish(root, fp, err);
}
