#include "report/results/constants_file.h"

#include <inttypes.h>
#include <math.h>

#include "core/names.h"
#include "report/file.h"
#include "report/policy_file.h"

static void write_residual(const char *before, const char *what,
                           const struct stp_residual *r, FILE *fp)
{
    fprintf(fp, "%s%s: geometric mean %.4f, worst %.3f", before, what, r->mean,
            r->worst);
    if (r->n_slower > 0)
        fprintf(fp,
                ", at %zu slower than NCCL's own choice beyond the interval",
                r->n_slower);
    fputc('\n', fp);
}

void stp_residuals_write(const struct stp_constants_fit *fit,
                         const char *before, FILE *fp)
{
    fprintf(fp,
            "%sTime of NCCL's choice over that of the fastest pair measured, "
            "over %zu sizes:\n",
            before, fit->after.n);
    write_residual(before, "  its own constants", &fit->before, fp);
    write_residual(before, "  these constants", &fit->after, fp);
    if (fit->left_out.n == 0)
        return;
    fprintf(fp,
            "%sThe same where constants were fitted without the size, over %zu "
            "that lie between others:\n",
            before, fit->left_out.n);
    write_residual(before, "  its own constants", &fit->left_before, fp);
    write_residual(before, "  constants fitted without it", &fit->left_out, fp);
}

static void write_misfits(const struct stp_constants_fit *fit, FILE *fp)
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

void stp_constants_file_write(const struct stp_constants_fit *fit,
                              const struct stp_constants_origin *origin,
                              FILE *fp)
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
    stp_residuals_write(fit, "# ", fp);
    write_misfits(fit, fp);
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
    stp_constants_file_write(fit, origin, file.fp);
    return stp_file_commit(&file, err);
}
