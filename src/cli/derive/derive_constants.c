/* derive_constants.c - `steptune derive --as constants` */
#include "cli/derive/derive_constants.h"

#include <stdio.h>

#include "analyse/constants/constants.h"
#include "cli/cli.h"
#include "report/results/constants_file.h"

static enum stp_status constants_write(const struct stp_derive_constants *o,
                                       const struct stp_constants_fit *fit,
                                       const char *machine,
                                       struct stp_error *err)
{
    const struct stp_constants_origin origin = {
        .data = o->data,
        .made_by = "steptune derive --as constants",
        .machine = machine,
        .trusts_passes = o->trust_passes};
    enum stp_status status = STP_OK;

    if (o->output != NULL)
        status = stp_constants_file_save(fit, &origin, o->output, err);
    if (status != STP_OK)
        return status;
    if (o->json)
        return stp_print_constants_fit_json(fit, &origin, stdout, err);
    if (o->output != NULL)
        return stp_print_constants_fit(fit, stdout, err);
    stp_constants_file_write(fit, &origin, stdout);
    return STP_OK;
}

/* Why there is nothing to write. */
static int constants_decline(const char *command,
                             const struct stp_constants_fit *fit)
{
    if (fit->left_out.n == 0)
        return stp_complain(command,
                            "%zu sizes, expected three or more of a "
                            "collective, to see how constants do between them: "
                            "no file is written",
                            fit->after.n);
    if (fit->after.mean >= fit->before.mean || fit->after.n_faster == 0)
        return stp_complain(command,
                            "no constants choose better than NCCL's own, whose "
                            "choices take %.4f times as long as the fastest: "
                            "no file is written",
                            fit->before.mean);
    if (fit->after.n_slower > 0)
        return stp_complain(command,
                            "the best constants make NCCL slower at %zu of %zu "
                            "sizes: no file is written",
                            fit->after.n_slower, fit->after.n);
    return stp_complain(command,
                        "constants fitted to these sizes do not hold between "
                        "them, where choices take %.4f times as long as the "
                        "fastest, and NCCL's own %.4f: no file is written",
                        fit->left_out.mean, fit->left_before.mean);
}

static enum stp_status constants_fit(const struct stp_derive_constants *o,
                                     const char *machine_path,
                                     struct stp_constants_fit *fit_ret,
                                     struct stp_error *err)
{
    const struct stp_constants_terms terms = {.machine_path = machine_path,
                                              .nccl = o->data->nccl,
                                              .trust_passes = o->trust_passes,
                                              .seed = 1};
    struct stp_comparisons comparisons;
    enum stp_status status = stp_compare(o->data, &comparisons, err);

    if (status != STP_OK)
        return status;
    status = stp_fit_constants(&comparisons, &terms, fit_ret, err);
    stp_comparisons_free(&comparisons);
    return status;
}

int stp_derive_constants(const char *command,
                         const struct stp_derive_constants *o)
{
    const char *name = o->on != NULL ? o->on : o->data->machine;
    char path[STP_CLI_PATH];
    struct stp_constants_fit fit;
    struct stp_error err;
    int exit_status = STP_EXIT_OK;

    if (name[0] == '\0')
        return stp_complain(command, "the data name no machine, expected one "
                                     "whose model is to be fitted by --on");
    if (stp_find_machine(name, path, &err) != STP_OK ||
        constants_fit(o, path, &fit, &err) != STP_OK)
        return stp_complain_error(command, NULL, &err);
    if (!stp_constants_fit_helps(&fit))
        exit_status = constants_decline(command, &fit);
    else if (constants_write(o, &fit, stp_machine_name(path), &err) != STP_OK)
        exit_status = stp_complain_error(command, NULL, &err);
    stp_constants_fit_free(&fit);
    return exit_status;
}
