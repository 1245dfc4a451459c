/* check.c - the findings of `steptune check` */
#include "report/results/results.h"
#include "report/table.h"

static const char *check_level(const struct stp_finding *f, bool fixed)
{
    if (fixed && f->fix != STP_FIX_NONE)
        return "fixed";
    return stp_check_is_warning(f->kind) ? "warning" : "note";
}

struct stp_check_count stp_count_findings(const struct stp_findings *findings,
                                          bool fixed)
{
    struct stp_check_count n = {0};

    for (size_t i = 0; i < findings->n; i++) {
        const struct stp_finding *f = &findings->at[i];

        if (fixed && f->fix != STP_FIX_NONE)
            n.n_fixed++;
        else if (stp_check_is_warning(f->kind))
            n.n_warnings++;
        else
            n.n_notes++;
    }
    return n;
}

static void check_print_text(const struct stp_findings *findings,
                             const char *path, bool fixed, FILE *fp)
{
    const struct stp_check_count n = stp_count_findings(findings, fixed);
    const struct {
        size_t n;
        const char *one, *several;
    } counts[] = {{n.n_fixed, "fixed", "fixed"},
                  {n.n_warnings, "warning", "warnings"},
                  {n.n_notes, "note", "notes"}};
    const char *before = "";

    for (size_t i = 0; i < findings->n; i++) {
        const struct stp_finding *f = &findings->at[i];
        const bool is_fixed = fixed && f->fix != STP_FIX_NONE;

        fprintf(fp, "%s:%u:%u: %s: %s%s\n", path, f->line, f->column,
                check_level(f, fixed),
                !is_fixed                ? ""
                : f->fix == STP_FIX_DROP ? "removed, since "
                                         : "now inf: ",
                f->text);
    }
    fprintf(fp, "%s: ", path);
    for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++)
        if (counts[i].n > 0) {
            fprintf(fp, "%s%zu %s", before, counts[i].n,
                    counts[i].n == 1 ? counts[i].one : counts[i].several);
            before = ", ";
        }
    fputs(*before != '\0'       ? "\n"
          : findings->has_rules ? "no findings\n"
                                : "no rules, so that it decides nothing\n",
          fp);
}

void stp_print_findings(const struct stp_findings *findings, const char *path,
                        bool fixed, bool is_json, FILE *fp)
{
    struct stp_check_count count = stp_count_findings(findings, fixed);
    struct stp_table t = stp_table_result(is_json);

    if (!is_json)
        check_print_text(findings, path, fixed, fp);
    stp_table_word(&t, "policy", NULL, path);
    stp_table_count(&t, "warnings", NULL, count.n_warnings);
    stp_table_count(&t, "notes", NULL, count.n_notes);
    stp_table_count(&t, "fixed", NULL, count.n_fixed);
    stp_table_rows(&t, "findings");
    for (size_t i = 0; i < findings->n && is_json; i++) {
        const struct stp_finding *f = &findings->at[i];
        cJSON *lines;

        stp_table_row(&t);
        stp_table_count(&t, "line", NULL, f->line);
        stp_table_count(&t, "column", NULL, f->column);
        stp_table_word(&t, "level", NULL, check_level(f, fixed));
        stp_table_word(&t, "kind", NULL, stp_check_kind_name(f->kind));
        stp_table_word(&t, "text", NULL, f->text);
        lines = cJSON_AddArrayToObject(t.row, "other_lines");
        for (size_t k = 0; k < f->n_others && k < STP_FINDING_LINES; k++)
            cJSON_AddItemToArray(lines, cJSON_CreateNumber(f->others[k]));
        stp_table_count(&t, "n_other_lines", NULL, f->n_others);
    }
    stp_table_end(&t, fp);
}
