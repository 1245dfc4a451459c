#include "report/training/train_json.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/overlap.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/json.h"

/* ---- runs of a training ---- */

static const char *train_gradients(const struct stp_train_config *c)
{
    return stp_precision_name(c->half_gradients ||
                                      c->precision == STP_PRECISION_FP64
                                  ? (int)c->precision
                                  : STP_PRECISION_FP32);
}

void stp_train_describe(const struct stp_train_report *report, bool by_plugin,
                        struct stp_train_run *run_ret)
{
    const struct stp_train_config *c = report->config;
    const bool buckets = c->mode == STP_TRAIN_BUCKETED;
    struct stp_train_run run = {
        .n_gpus = report->info->n_ranks,
        .ga = c->accumulate,
        .batch = c->batch,
        .n_samples = c->n_samples,
        .warmup = c->warmup,
        .rate = c->rate,
        .seed = c->seed,
        .bucket_bytes = buckets ? c->bucket_bytes : 0,
        .first_bucket_bytes = buckets ? c->first_bucket_bytes : 0,
        .rounds = c->rounds,
        .repeat = report->repeat,
        .n_params = stp_train_n_params(c->model),
        .n_epochs = c->n_epochs * (c->rounds > 0 ? c->rounds : 1),
        .gain = {NAN, NAN, INFINITY, 0},
        .traced_comm_ms = c->trace ? 0 : (double)NAN,
        .hidden_share = NAN,
        .speed_up = NAN,
        .efficiency = NAN};

    snprintf(run.mode, sizeof(run.mode), "%s", stp_train_mode_name(c->mode));
    snprintf(run.size, sizeof(run.size), "%s", c->model->name);
    snprintf(run.precision, sizeof(run.precision), "%s",
             stp_precision_name(c->precision));
    snprintf(run.gradients, sizeof(run.gradients), "%s", train_gradients(c));
    snprintf(run.tuner, sizeof(run.tuner), "%s",
             by_plugin ? report->tuner : STP_TRAIN_NCCL);
    snprintf(run.pair, sizeof(run.pair), "%s",
             c->rounds > 0 ? report->pair : "");
    snprintf(run.gpu, sizeof(run.gpu), "%s", report->info->processor);
    snprintf(run.made_by, sizeof(run.made_by), "%s", report->info->what);
    *run_ret = run;
}

/* Takes the epochs of one of the two runs. */
static void train_take_epochs(struct stp_train_run *run,
                              const struct stp_train_result *result,
                              bool by_plugin)
{
    unsigned n = 0;

    for (unsigned e = 0; e < result->n_epochs; e++) {
        const struct stp_train_epoch *epoch = &result->epochs[e];

        if (epoch->by_plugin != by_plugin)
            continue;
        run->epoch_s[n] = epoch->seconds;
        run->comm_s[n] = epoch->comm_s;
        run->exposed_s[n] = epoch->exposed_s;
        run->losses[n] = epoch->loss;
        n++;
    }
}

static enum stp_status train_take_overlap(const struct stp_train_result *result,
                                          struct stp_train_run *run,
                                          struct stp_error *err)
{
    struct stp_overlap overlap;
    enum stp_status status;

    if (result->n_traced == 0)
        return STP_OK;
    status = stp_overlap_of_spans(&result->spans, &overlap, err);
    if (status != STP_OK)
        return status;
    run->traced_comm_ms = overlap.communication / result->n_traced / 1e3;
    run->hidden_share = stp_overlap_share(&overlap);
    return STP_OK;
}

static enum stp_status train_take_run(const struct stp_train_report *report,
                                      bool by_plugin, struct stp_train_run *run,
                                      struct stp_error *err)
{
    const struct stp_train_result *result = report->result;
    double total;

    stp_train_describe(report, by_plugin, run);
    run->epoch_s = calloc(run->n_epochs, sizeof(double));
    run->comm_s = calloc(run->n_epochs, sizeof(double));
    run->exposed_s = calloc(run->n_epochs, sizeof(double));
    run->losses = calloc(run->n_epochs, sizeof(double));
    if (run->epoch_s == NULL || run->comm_s == NULL || run->exposed_s == NULL ||
        run->losses == NULL)
        return stp_nomem(err);
    train_take_epochs(run, result, by_plugin);
    total = stp_train_total_s(run);
    run->throughput =
        total > 0 ? (double)run->n_samples * run->n_epochs / total : 0;
    run->accuracy = result->accuracy;
    run->n_skipped = result->n_skipped;
    run->loss_scale = result->last_loss_scale;
    return train_take_overlap(result, run, err);
}

enum stp_status stp_train_runs_take(struct stp_train_runs *runs,
                                    const struct stp_train_report *report,
                                    struct stp_error *err)
{
    const unsigned n = report->config->rounds > 0 ? 2 : 1;
    const size_t before = runs->n;
    struct stp_train_run both[2] = {{.n_epochs = 0}, {.n_epochs = 0}};
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i < n && status == STP_OK; i++)
        status = train_take_run(report, i == 1, &both[i], err);
    for (unsigned i = 0; i < n && status == STP_OK; i++)
        status = stp_train_runs_add(runs, &both[i], err);
    if (status == STP_OK)
        status = stp_train_gain(runs, &runs->runs[runs->n - 1], false,
                                &runs->runs[runs->n - 1].gain, err);
    if (status != STP_OK) {
        runs->n = before;
        for (unsigned i = 0; i < n; i++)
            stp_train_run_free(&both[i]);
        return status;
    }
    stp_train_derive(runs);
    return STP_OK;
}

/* ---- printing ---- */

enum stp_status stp_train_print_json(const struct stp_train_runs *runs,
                                     FILE *fp, struct stp_error *err)
{
    cJSON *root = cJSON_CreateArray();

    for (size_t i = 0; i < runs->n; i++)
        stp_train_write_row(stp_json_row(root), &runs->runs[i]);
    return stp_json_finish(root, fp, err);
}

/* ---- the file ---- */

void stp_train_file_name(const char *gpu, char name[STP_TRAIN_FILE])
{
    char tag[96];
    size_t n = 0;

    for (; *gpu != '\0' && n + 1 < sizeof(tag); gpu++)
        if (isalnum((unsigned char)*gpu))
            tag[n++] = *gpu;
        else if (n > 0 && tag[n - 1] != '_')
            tag[n++] = '_';
    while (n > 0 && tag[n - 1] == '_')
        n--;
    tag[n] = '\0';
    snprintf(name, STP_TRAIN_FILE, "benchmark_results_%s.json",
             n > 0 ? tag : "unknown");
}

char *stp_train_file_path(const char *folder, const char *gpu)
{
    char name[STP_TRAIN_FILE];
    size_t size;
    char *path;

    stp_train_file_name(gpu, name);
    size = strlen(folder) + strlen(name) + 2;
    path = malloc(size);
    if (path != NULL)
        snprintf(path, size, "%s/%s", folder, name);
    return path;
}

enum stp_status stp_train_save(const struct stp_train_runs *runs,
                               const char *folder, struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status;
    char *path;

    status = stp_folder_make(folder, err);
    if (status != STP_OK)
        return status;
    path = stp_train_file_path(folder, runs->runs[0].gpu);
    if (path == NULL)
        return stp_nomem(err);
    status = stp_file_begin(path, &file, err);
    free(path);
    if (status != STP_OK)
        return status;
    status = stp_train_print_json(runs, file.fp, err);
    if (status == STP_OK)
        return stp_file_commit(&file, err);
    stp_file_abandon(&file);
    return status;
}
