/* iteration_csv.c - summary.csv and regimes.csv; what is not known is empty */
#include <math.h>

#include "core/dtype.h"
#include "core/names.h"
#include "report/iterations/iteration_parts.h"

static void write_head(const struct stp_iteration_report *report, FILE *fp)
{
    const struct stp_dataset *d = &report->iterations->data;

    fprintf(fp, "# %s\n# machine: %s\n# gpu: %s\n# nccl: %s\n# backend: %s\n",
            report->made_by, d->machine, d->gpu, d->nccl, d->backend);
}

static void write_names(const struct stp_iteration_number *numbers, size_t n,
                        FILE *fp)
{
    for (size_t i = 0; i < n; i++)
        fprintf(fp, ",%s", numbers[i].name);
}

static void write_numbers(const struct stp_iteration_number *numbers, size_t n,
                          FILE *fp)
{
    for (size_t i = 0; i < n; i++) {
        fputc(',', fp);
        if (!isfinite(numbers[i].value))
            continue;
        if (numbers[i].decimals < 0)
            fprintf(fp, "%.9g", numbers[i].value);
        else
            fprintf(fp, "%.*f", numbers[i].decimals, numbers[i].value);
    }
}

/* What rows of a setting begin with. */
static void write_place(const struct stp_iteration_setting *setting, FILE *fp)
{
    const struct stp_measurement *m = &setting->like;
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
    char name[STP_SETTING_NAME];

    stp_iteration_setting_name(setting, name);
    fprintf(fp, "%s,%s,%s,%s", name, stp_mode_name(m->work.mode),
            stp_compute_name(m->work.compute), stp_coll_name(m->coll));
    write_numbers(numbers, stp_iteration_place(setting, numbers), fp);
    fprintf(fp, ",%s,%s", stp_type_name(m->type), stp_op_name(m->op));
}

static void write_place_names(FILE *fp)
{
    static const struct stp_iteration_setting none;
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];

    fputs("setting,mode,compute,collective", fp);
    write_names(numbers, stp_iteration_place(&none, numbers), fp);
    fputs(",type,op", fp);
}

/* ---- arms ---- */

static void write_arm(const struct stp_iteration_setting *setting,
                      const struct stp_iteration_arm *arm, FILE *fp)
{
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
    char name[STP_ARM_NAME];

    stp_arm_name(&arm->arm, name);
    write_place(setting, fp);
    if (arm->ran_algo < 0)
        fprintf(fp, ",%s,,,", name);
    else
        fprintf(fp, ",%s,%s,%s,%d", name, stp_algo_name(arm->ran_algo),
                stp_proto_name(arm->ran_proto), arm->ran_channels);
    write_numbers(numbers, stp_iteration_results(setting, arm, numbers), fp);
    fprintf(fp, ",%s\n", stp_source_name(arm->source));
}

enum stp_status
stp_iteration_write_summary_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err)
{
    static const struct stp_iteration_arm no_arm;
    static const struct stp_iteration_setting none = {.arms = &no_arm};
    const struct stp_iteration_summary *all = report->summary;
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];

    (void)err;
    write_head(report, fp);
    write_place_names(fp);
    fputs(",arm,ran_algorithm,ran_protocol,ran_channels", fp);
    write_names(numbers, stp_iteration_results(&none, &no_arm, numbers), fp);
    fputs(",source\n", fp);
    for (size_t i = 0; i < all->n_settings; i++)
        for (size_t a = 0; a < all->settings[i].n_arms; a++)
            write_arm(&all->settings[i], &all->settings[i].arms[a], fp);
    return STP_OK;
}

/* ---- regimes ---- */

static void write_regime(const struct stp_regime *regime, FILE *fp)
{
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];
    enum stp_source source = regime->alone->source > regime->best->source
                                 ? regime->alone->source
                                 : regime->best->source;
    char alone[STP_ARM_NAME];
    char best[STP_ARM_NAME];

    stp_arm_name(&regime->alone->arm, alone);
    stp_arm_name(&regime->best->arm, best);
    write_place(regime->setting, fp);
    fprintf(fp, ",%s,%s", alone, best);
    write_numbers(numbers, stp_iteration_regime_results(regime, numbers), fp);
    fprintf(fp, ",%s\n", stp_source_name(source));
}

enum stp_status
stp_iteration_write_regimes_csv(const struct stp_iteration_report *report,
                                FILE *fp, struct stp_error *err)
{
    static const struct stp_iteration_arm no_arm;
    const struct stp_regime none = {.alone = &no_arm, .best = &no_arm};
    struct stp_iteration_number numbers[STP_ITERATION_NUMBERS];

    (void)err;
    write_head(report, fp);
    write_place_names(fp);
    fputs(",fastest_alone,best_iteration", fp);
    write_names(numbers, stp_iteration_regime_results(&none, numbers), fp);
    fputs(",source\n", fp);
    for (size_t i = 0; i < report->n_regimes; i++)
        write_regime(&report->regimes[i], fp);
    return STP_OK;
}
