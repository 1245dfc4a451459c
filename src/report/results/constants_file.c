#include "report/results/constants_file.h"

#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/file.h"
#include "report/policy_file.h"
#include "report/table.h"

static void constants_write_residual(const char *before, const char *name,
                                     const struct stp_residual *r, FILE *fp)
{
    fprintf(fp, "%s%s: geometric mean %.4f, worst %.3f", before, name, r->mean,
            r->worst);
    if (r->n_slower > 0)
        fprintf(fp,
                ", at %zu slower than NCCL's own choice beyond the interval",
                r->n_slower);
    fputc('\n', fp);
}

/* The residuals, a line each that begins with 'before'. */
static void constants_write_sentences(const struct stp_constants_fit *fit,
                                      const char *before, FILE *fp)
{
    fprintf(fp,
            "%sTime of NCCL's choice over that of the fastest pair measured, "
            "over %zu sizes:\n",
            before, fit->after.n);
    constants_write_residual(before, "  its own constants", &fit->before, fp);
    constants_write_residual(before, "  these constants", &fit->after, fp);
    if (fit->left_out.n == 0)
        return;
    fprintf(fp,
            "%sThe same where constants were fitted without the size, over %zu "
            "that lie between others:\n",
            before, fit->left_out.n);
    constants_write_residual(before, "  its own constants", &fit->left_before,
                             fp);
    constants_write_residual(before, "  constants fitted without it",
                             &fit->left_out, fp);
}

static void constants_write_misfits(const struct stp_constants_fit *fit,
                                    FILE *fp)
{
    for (size_t i = 0; i < fit->n_misfits; i++) {
        const struct stp_misfit *m = &fit->misfits[i];

        fprintf(fp, "# still wrong: %s of %" PRIu64 " B, %s/%s",
                stp_coll_name(m->coll), m->n_bytes, stp_algo_name(m->algo),
                stp_proto_name(m->proto));
        if (isinf(m->ratio))
            fputs(", which nobody measured,", fp);
        else
            fprintf(fp, " takes %.3f times as long", m->ratio);
        fprintf(fp, " as %s/%s\n", stp_algo_name(m->best_algo),
                stp_proto_name(m->best_proto));
    }
}

static void constants_write(const struct stp_constants_fit *fit,
                            const struct stp_constants_origin *origin, FILE *fp)
{
    const double *defaults = (const double *)&fit->defaults;

    fprintf(fp, "# %s\n# from ", origin->made_by);
    stp_times_write(origin->data, fp);
    if (origin->trusts_passes)
        fputs("# Single passes count: drift between runs is in these "
              "numbers.\n",
              fp);
    fprintf(fp,
            "# For the model of NCCL on %s, through STEPTUNE_CONSTANTS_FILE, "
            "the same on all ranks.\n",
            origin->machine);
    constants_write_sentences(fit, "# ", fp);
    constants_write_misfits(fit, fp);
    fputs("constant,row,column,value\n", fp);
    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        struct stp_constant_name name = stp_constant_words(i);

        if (fit->constants.is_set[i])
            fprintf(fp, "# NCCL's own: %g\n%s,%s,%s,%g\n", defaults[i],
                    name.constant, name.row, name.column,
                    fit->constants.value[i]);
    }
}

enum stp_status
stp_constants_file_save(const struct stp_constants_fit *fit,
                        const struct stp_constants_origin *origin,
                        const char *path, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(path, &file, err);

    if (status != STP_OK)
        return status;
    constants_write(fit, origin, file.fp);
    return stp_file_commit(&file, err);
}

/* ---- tables and JSON ---- */

static void constants_put(const struct stp_constants_fit *fit,
                          struct stp_table *t)
{
    const double *defaults = (const double *)&fit->defaults;

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        struct stp_constant_name name = stp_constant_words(i);

        if (!fit->constants.is_set[i])
            continue;
        stp_table_row(t);
        stp_table_word(t, "constant", "<constant", name.constant);
        stp_table_word(t, "row", "<row", name.row);
        stp_table_word(t, "column", "<column", name.column);
        stp_table_number(t, "own", NULL, defaults[i], STP_TABLE_SHORT);
        stp_table_text(t, "NCCL's own", "%g", defaults[i]);
        stp_table_number(t, "fitted", NULL, fit->constants.value[i],
                         STP_TABLE_SHORT);
        stp_table_text(t, "fitted", "%g", fit->constants.value[i]);
    }
}

static void constants_put_misfit(const struct stp_misfit *m,
                                 struct stp_table *t)
{
    stp_table_row(t);
    stp_table_word(t, "collective", "<collective", stp_coll_name(m->coll));
    stp_table_count(t, "bytes", "bytes", m->n_bytes);
    stp_table_ran(t, NULL, "<still chosen", m->algo, m->proto, 0);
    stp_table_ran(t, NULL, "<fastest", m->best_algo, m->best_proto, 0);
    stp_table_word(t, "algorithm", NULL, stp_algo_name(m->algo));
    stp_table_word(t, "protocol", NULL, stp_proto_name(m->proto));
    stp_table_word(t, "best_algorithm", NULL, stp_algo_name(m->best_algo));
    stp_table_word(t, "best_protocol", NULL, stp_proto_name(m->best_proto));
    stp_table_number(t, "ratio", NULL, m->ratio, 3);
    stp_table_flag(t, "slower", NULL, m->is_slower);
    stp_table_text(t, "times as long",
                   isinf(m->ratio) ? "not measured" : "%.3f%s", m->ratio,
                   m->is_slower ? " slower" : "");
}

static void constants_json_residual(const struct stp_table *t, const char *key,
                                    const struct stp_residual *residual)
{
    struct stp_table row = stp_table_member(t->root, key);

    stp_table_count(&row, "sizes", NULL, residual->n);
    stp_table_number(&row, "mean", NULL, residual->mean, 4);
    stp_table_number(&row, "worst", NULL, residual->worst, 3);
    stp_table_count(&row, "slower", NULL, residual->n_slower);
}

static enum stp_status
constants_write_residuals(const struct stp_constants_fit *fit,
                          struct stp_table *t, FILE *fp, struct stp_error *err)
{
    enum stp_status status;

    if (t->format == STP_TABLE_JSON) {
        constants_json_residual(t, "before", &fit->before);
        constants_json_residual(t, "after", &fit->after);
        constants_json_residual(t, "left_out_before", &fit->left_before);
        constants_json_residual(t, "left_out", &fit->left_out);
        return STP_OK;
    }
    status = stp_table_end(t, fp, err);
    fputc('\n', fp);
    constants_write_sentences(fit, "", fp);
    if (fit->n_misfits > 0)
        fputc('\n', fp);
    return status;
}

enum stp_status
stp_print_constants_fit(const struct stp_constants_fit *fit,
                        const struct stp_constants_origin *origin, bool is_json,
                        FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_result(is_json);
    enum stp_status status;

    stp_table_word(&t, "machine", NULL, origin->machine);
    stp_table_rows(&t, "constants");
    constants_put(fit, &t);
    status = constants_write_residuals(fit, &t, fp, err);
    if (status != STP_OK)
        return status;
    stp_table_rows(&t, "still_wrong");
    for (size_t i = 0; i < fit->n_misfits; i++)
        constants_put_misfit(&fit->misfits[i], &t);
    return stp_table_end(&t, fp, err);
}
