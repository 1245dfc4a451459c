/* constants_fit.c - a fit of constants as tables and as JSON */
#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/json.h"
#include "report/results/constants_file.h"
#include "report/table.h"

/* ---- tables ---- */

static enum stp_status print_constants(const struct stp_constants_fit *fit,
                                       FILE *fp, struct stp_error *err)
{
    const double *defaults = (const double *)&fit->defaults;
    struct stp_table *t =
        stp_table_create("<constant|<row|<column|NCCL's own|fitted");

    for (size_t i = 0; t != NULL && i < STP_N_CONSTANTS; i++) {
        struct stp_constant_name name = stp_constant_words(i);

        if (!fit->constants.is_set[i])
            continue;
        stp_table_add(t, "%s", name.constant);
        stp_table_add(t, "%s", name.row);
        stp_table_add(t, "%s", name.column);
        stp_table_add(t, "%g", defaults[i]);
        stp_table_add(t, "%g", fit->constants.value[i]);
    }
    return stp_table_finish(t, fp, err);
}

static enum stp_status print_misfits(const struct stp_constants_fit *fit,
                                     FILE *fp, struct stp_error *err)
{
    struct stp_table *t = stp_table_create(
        "<collective|bytes|<still chosen|<fastest|times as long");

    for (size_t i = 0; t != NULL && i < fit->n_misfits; i++) {
        const struct stp_misfit *m = &fit->misfits[i];

        stp_table_add(t, "%s", stp_coll_name(m->coll));
        stp_table_add(t, "%" PRIu64, m->n_bytes);
        stp_table_add(t, "%s/%s", stp_algo_name(m->algo),
                      stp_proto_name(m->proto));
        stp_table_add(t, "%s/%s", stp_algo_name(m->best_algo),
                      stp_proto_name(m->best_proto));
        if (isinf(m->ratio))
            stp_table_add(t, "not measured");
        else
            stp_table_add(t, "%.3f%s", m->ratio, m->is_slower ? " slower" : "");
    }
    return stp_table_finish(t, fp, err);
}

enum stp_status stp_print_constants_fit(const struct stp_constants_fit *fit,
                                        FILE *fp, struct stp_error *err)
{
    enum stp_status status = print_constants(fit, fp, err);

    fputc('\n', fp);
    stp_residuals_write(fit, "", fp);
    if (status != STP_OK || fit->n_misfits == 0)
        return status;
    fputc('\n', fp);
    return print_misfits(fit, fp, err);
}

/* ---- JSON ---- */

static void add_residual(cJSON *root, const char *key,
                         const struct stp_residual *r)
{
    cJSON *o = cJSON_AddObjectToObject(root, key);

    stp_json_number(o, "sizes", (double)r->n);
    stp_json_number(o, "mean", r->mean);
    stp_json_number(o, "worst", r->worst);
    stp_json_number(o, "slower", (double)r->n_slower);
}

static void add_constants(cJSON *root, const struct stp_constants_fit *fit)
{
    const double *defaults = (const double *)&fit->defaults;
    cJSON *list = cJSON_AddArrayToObject(root, "constants");

    for (size_t i = 0; i < STP_N_CONSTANTS; i++) {
        struct stp_constant_name name = stp_constant_words(i);
        cJSON *row;

        if (!fit->constants.is_set[i])
            continue;
        row = stp_json_row(list);
        stp_json_word(row, "constant", name.constant);
        stp_json_word(row, "row", name.row);
        stp_json_word(row, "column", name.column);
        stp_json_number(row, "own", defaults[i]);
        stp_json_number(row, "fitted", fit->constants.value[i]);
    }
}

static void add_misfits(cJSON *root, const struct stp_constants_fit *fit)
{
    cJSON *list = cJSON_AddArrayToObject(root, "still_wrong");

    for (size_t i = 0; i < fit->n_misfits; i++) {
        const struct stp_misfit *m = &fit->misfits[i];
        cJSON *row = stp_json_row(list);

        stp_json_word(row, "collective", stp_coll_name(m->coll));
        stp_json_number(row, "bytes", (double)m->n_bytes);
        stp_json_word(row, "algorithm", stp_algo_name(m->algo));
        stp_json_word(row, "protocol", stp_proto_name(m->proto));
        stp_json_word(row, "best_algorithm", stp_algo_name(m->best_algo));
        stp_json_word(row, "best_protocol", stp_proto_name(m->best_proto));
        stp_json_number(row, "ratio", m->ratio);
        cJSON_AddBoolToObject(row, "slower", m->is_slower);
    }
}

enum stp_status
stp_print_constants_fit_json(const struct stp_constants_fit *fit,
                             const struct stp_constants_origin *origin,
                             FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateObject();

    stp_json_word(root, "machine", origin->machine);
    add_constants(root, fit);
    add_residual(root, "before", &fit->before);
    add_residual(root, "after", &fit->after);
    add_residual(root, "left_out_before", &fit->left_before);
    add_residual(root, "left_out", &fit->left_out);
    add_misfits(root, fit);
    return stp_json_finish(root, fp, err);
}
