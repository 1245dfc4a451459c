#include "report/results/check.h"

#include "report/json.h"

static bool check_is_fixed(const struct stp_finding *f, bool fixed)
{
    return fixed && f->fix != STP_FIX_NONE;
}

static const char *check_level(const struct stp_finding *f, bool fixed)
{
    if (check_is_fixed(f, fixed))
        return "fixed";
    return stp_check_is_warning(f->kind) ? "warning" : "note";
}

struct stp_check_count stp_count_findings(const struct stp_findings *findings,
                                          bool fixed)
{
    struct stp_check_count n = {0};

    for (size_t i = 0; i < findings->n; i++) {
        const struct stp_finding *f = &findings->at[i];

        if (check_is_fixed(f, fixed))
            n.n_fixed++;
        else if (stp_check_is_warning(f->kind))
            n.n_warnings++;
        else
            n.n_notes++;
    }
    return n;
}

/* The fix that the new file has. */
static void check_print_fix(const struct stp_finding *f, FILE *fp)
{
    if (f->fix == STP_FIX_DROP)
        fprintf(fp, "removed, since %s", f->text);
    else if (f->fix == STP_FIX_CHANNELS)
        fprintf(fp, "now %d: %s", f->n_channels, f->text);
    else
        fprintf(fp, "now inf: %s", f->text);
}

void stp_print_findings(const struct stp_findings *findings, const char *path,
                        bool fixed, FILE *fp)
{
    for (size_t i = 0; i < findings->n; i++) {
        const struct stp_finding *f = &findings->at[i];

        fprintf(fp, "%s:%u:%u: %s: ", path, f->line, f->column,
                check_level(f, fixed));
        if (check_is_fixed(f, fixed))
            check_print_fix(f, fp);
        else
            fputs(f->text, fp);
        fputc('\n', fp);
    }
}

enum stp_status stp_print_findings_json(const struct stp_findings *findings,
                                        const char *path, bool fixed, FILE *fp,
                                        struct stp_error *err)
{
    struct stp_check_count count = stp_count_findings(findings, fixed);
    cJSON *root = cJSON_CreateObject();
    cJSON *rows;

    stp_json_word(root, "policy", path);
    stp_json_number(root, "warnings", (double)count.n_warnings);
    stp_json_number(root, "notes", (double)count.n_notes);
    stp_json_number(root, "fixed", (double)count.n_fixed);
    rows = cJSON_AddArrayToObject(root, "findings");
    for (size_t i = 0; i < findings->n; i++) {
        const struct stp_finding *f = &findings->at[i];
        cJSON *row = stp_json_row(rows);
        cJSON *lines;

        stp_json_number(row, "line", f->line);
        stp_json_number(row, "column", f->column);
        stp_json_word(row, "level", check_level(f, fixed));
        stp_json_word(row, "kind", stp_check_kind_name(f->kind));
        stp_json_word(row, "text", f->text);
        lines = cJSON_AddArrayToObject(row, "other_lines");
        for (size_t k = 0; k < f->n_others && k < STP_FINDING_LINES; k++)
            cJSON_AddItemToArray(lines, cJSON_CreateNumber(f->others[k]));
        stp_json_number(row, "n_other_lines", (double)f->n_others);
    }
    return stp_json_finish(root, fp, err);
}
