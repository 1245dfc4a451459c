#include "report/training/train_notebook.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- modes ---- */

/* Ours, and the notebook's. */
static const char *const notebook_modes[][2] = {
    {"single", "single_gpu"},
    {"naive", "dp_naive"},
    {"interleaved", "dp_interleaved"},
    {"bucketed", "ddp_builtin"},
};

static void notebook_translate_mode(struct stp_train_run *run, int from, int to)
{
    const size_t n = sizeof(notebook_modes) / sizeof(notebook_modes[0]);

    for (size_t i = 0; i < n; i++)
        if (strcmp(notebook_modes[i][from], run->mode) == 0) {
            snprintf(run->mode, sizeof(run->mode), "%s", notebook_modes[i][to]);
            return;
        }
}

void stp_notebook_write_mode(struct stp_train_run *run)
{
    notebook_translate_mode(run, 0, 1);
}

void stp_notebook_read_mode(struct stp_train_run *run)
{
    notebook_translate_mode(run, 1, 0);
}

/* ---- reading ---- */

bool stp_notebook_wrote(const cJSON *row)
{
    return cJSON_GetObjectItemCaseSensitive(row, "made_by") == NULL;
}

struct stp_train_run stp_notebook_run(void)
{
    return (struct stp_train_run){
        .gradients = "fp32", /* autocast leaves weights and gradients alone */
        .tuner = STP_TRAIN_NCCL,
        .gpu = "unknown GPU",
        .warmup = UINT32_MAX,
        .seed = STP_TRAIN_UNKNOWN,
        .bucket_bytes = STP_TRAIN_UNKNOWN,
        .first_bucket_bytes = STP_TRAIN_UNKNOWN,
        .repeat = 1,
        .accuracy = NAN,
        .throughput = NAN,
        .loss_scale = 1,
        .traced_comm_ms = NAN,
        .hidden_share = NAN,
        .gain = {NAN, NAN, INFINITY, 0},
    };
}

/* The list, or one of so many 'value's if it lacks. */
static double *notebook_list(double *list, unsigned n, double value)
{
    if (list != NULL)
        return list;
    list = calloc(n, sizeof(*list));
    for (unsigned i = 0; list != NULL && i < n; i++)
        list[i] = value;
    return list;
}

enum stp_status stp_notebook_complete(const cJSON *row,
                                      struct stp_train_run *run,
                                      struct stp_error *err)
{
    const bool is_mixed =
        cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(row, "use_amp"));
    const bool is_single = strcmp(run->mode, "single") == 0;
    const bool blocks = strcmp(run->mode, "naive") == 0;
    const unsigned n = run->n_epochs;

    snprintf(run->precision, sizeof(run->precision), "%s",
             is_mixed ? STP_TRAIN_AMP : "fp32");
    snprintf(run->made_by, sizeof(run->made_by),
             "%u x %s, trained by PyTorch in a notebook", run->n_gpus,
             run->gpu);
    run->losses = notebook_list(run->losses, n, NAN);
    run->comm_s = notebook_list(run->comm_s, n, is_single ? 0 : (double)NAN);
    run->exposed_s =
        notebook_list(run->exposed_s, n, is_single ? 0 : (double)NAN);
    if (run->losses == NULL || run->comm_s == NULL || run->exposed_s == NULL)
        return stp_nomem(err);
    for (unsigned e = 0; e < n && blocks; e++)
        run->exposed_s[e] = run->comm_s[e];
    return STP_OK;
}

/* ---- writing ---- */

bool stp_notebook_has(const struct stp_train_run *run)
{
    return !isnan(run->accuracy) && strcmp(run->tuner, STP_TRAIN_NCCL) == 0 &&
           (stp_train_is_mixed(run) || strcmp(run->precision, "fp32") == 0);
}
