#include "report/training/train_json.h"

#include <ctype.h>
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/overlap.h"
#include "core/looks.h"
#include "core/room.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/folder.h"
#include "report/json.h"

enum { TRAIN_FILE_MAX = 1 << 28 /* bytes */ };

/* Whole numbers above this are not exact in JSON. */
#define WHOLE_MAX 9007199254740992.0

enum train_type {
    WORD,   /* char[] */
    COUNT,  /* unsigned */
    BIG,    /* uint64_t */
    NUMBER, /* double */
    LIST,   /* double *, of n_epochs */
};

/* A member of struct stp_train_run. */
struct train_key {
    const char *name;
    enum train_type type;
    size_t offset;
    size_t size; /* of a word */
    double min;  /* of numbers */
    double null; /* the value of null, unknown; -1: null is refused */
    const char *expected;
    enum { OURS, SHARED, SHARED_OR_ABSENT } notebook;
};

#define KEY(notebook, name, type, member, min, null, expected)                 \
    {                                                                          \
        name, type, offsetof(struct stp_train_run, member),                    \
            sizeof(((struct stp_train_run *)0)->member), min, null, expected,  \
            notebook                                                           \
    }
#define MEMBER(...) KEY(OURS, __VA_ARGS__)
#define SECONDS     "as many seconds as epoch_times"
#define OR_NULL     "a number from 0, or null"

static const struct train_key train_keys[] = {
    KEY(SHARED, "mode", WORD, mode, 0, -1, "a word"),
    KEY(SHARED, "n_gpus", COUNT, n_gpus, 1, -1, "a number from 1"),
    KEY(SHARED, "n_params", BIG, n_params, 1, -1, "a number from 1"),
    KEY(SHARED, "model_size", WORD, size, 0, -1, "a word"),
    KEY(SHARED, "grad_accum_steps", COUNT, ga, 1, -1, "a number from 1"),
    KEY(SHARED, "epoch_times", LIST, epoch_s, DBL_MIN, -1, "seconds above 0"),
    KEY(SHARED, "losses", LIST, losses, 0, NAN,
        "as many losses as epoch_times"),
    KEY(SHARED_OR_ABSENT, "comm_times", LIST, comm_s, 0, NAN, SECONDS),
    MEMBER("exposed_comm_times", LIST, exposed_s, 0, NAN, SECONDS),
    KEY(SHARED, "final_accuracy", NUMBER, accuracy, 0, NAN, "a share"),
    MEMBER("throughput", NUMBER, throughput, 0, NAN, OR_NULL),
    KEY(SHARED_OR_ABSENT, "gpu_name", WORD, gpu, 0, -1, "a word"),
    MEMBER("made_by", WORD, made_by, 0, -1, "a word"),
    MEMBER("precision", WORD, precision, 0, -1, "a word"),
    MEMBER("gradients", WORD, gradients, 0, -1, "a word"),
    MEMBER("batch_size", COUNT, batch, 1, 0, "a number from 1, or null"),
    MEMBER("n_samples", COUNT, n_samples, 1, 0, "a number from 1, or null"),
    MEMBER("warmup_steps", COUNT, warmup, 0, UINT32_MAX, OR_NULL),
    MEMBER("lr", NUMBER, rate, 0, 0, OR_NULL),
    MEMBER("seed", BIG, seed, 0, STP_TRAIN_UNKNOWN, OR_NULL),
    MEMBER("bucket_bytes", BIG, bucket_bytes, 0, STP_TRAIN_UNKNOWN, OR_NULL),
    MEMBER("first_bucket_bytes", BIG, first_bucket_bytes, 0, STP_TRAIN_UNKNOWN,
           OR_NULL),
    MEMBER("skipped_steps", COUNT, n_skipped, 0, -1, "a number from 0"),
    MEMBER("last_loss_scale", NUMBER, loss_scale, 0, -1, "a number from 0"),
    MEMBER("traced_comm_ms", NUMBER, traced_comm_ms, 0, NAN, OR_NULL),
    MEMBER("hidden_share", NUMBER, hidden_share, 0, NAN, "a share, or null"),
};

/* ---- the notebook ---- */

/* Our modes, and the notebook's words for them. */
static const char *const notebook_modes[][2] = {
    {"single", "single_gpu"},
    {"naive", "dp_naive"},
    {"interleaved", "dp_interleaved"},
    {"bucketed", "ddp_builtin"},
};

/* Translates a mode to the notebook's word (1) or ours (0); others stay. */
static void notebook_translate_mode(struct stp_train_run *run, int to)
{
    for (size_t i = 0; i < STP_N_OF(notebook_modes); i++)
        if (strcmp(notebook_modes[i][1 - to], run->mode) == 0) {
            snprintf(run->mode, sizeof(run->mode), "%s", notebook_modes[i][to]);
            return;
        }
}

/* Whether the notebook wrote the row: it names no program in it. */
static bool notebook_wrote(const cJSON *row)
{
    return cJSON_GetObjectItemCaseSensitive(row, "made_by") == NULL;
}

/* A run of which nothing is known, to read the notebook's keys into. */
static const struct stp_train_run notebook_run = {
    .gradients = "fp32", /* autocast leaves weights and gradients alone */
    .gpu = "unknown GPU",
    .warmup = UINT32_MAX,
    .seed = STP_TRAIN_UNKNOWN,
    .bucket_bytes = STP_TRAIN_UNKNOWN,
    .first_bucket_bytes = STP_TRAIN_UNKNOWN,
    .accuracy = NAN,
    .throughput = NAN,
    .loss_scale = 1,
    .traced_comm_ms = NAN,
    .hidden_share = NAN,
};

/* The list, or one of so many 'value's if it lacks. */
static double *notebook_list(double *list, unsigned n, double value)
{
    if (list != NULL)
        return list;
    STP_TAKE(list, n);
    for (unsigned i = 0; i < n; i++)
        list[i] = value;
    return list;
}

/* Completes a run that was read by the notebook's keys: its words, and the
 * lists that the row lacks, unknown unless nothing was communicated. */
static void notebook_complete(const cJSON *row, struct stp_train_run *run)
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
    for (unsigned e = 0; e < n && blocks; e++)
        run->exposed_s[e] = run->comm_s[e];
}

/* Whether the notebook's format can hold the whole run: it was trained with
 * data, in fp32, bf16 or fp16. */
static bool notebook_has(const struct stp_train_run *run)
{
    return !isnan(run->accuracy) &&
           (stp_train_is_mixed(run) || strcmp(run->precision, "fp32") == 0);
}

/* ---- writing keys ---- */

static void train_write_key(cJSON *row, const struct train_key *key,
                            const struct stp_train_run *run)
{
    const void *at = (const char *)run + key->offset;
    const double number = key->type == COUNT    ? *(const unsigned *)at
                          : key->type == BIG    ? (double)*(const uint64_t *)at
                          : key->type == NUMBER ? *(const double *)at
                                                : 0;
    cJSON *array;

    if (key->type == WORD) {
        stp_json_word(row, key->name, *(const char *)at != '\0' ? at : NULL);
    } else if (key->type == LIST) {
        array = cJSON_AddArrayToObject(row, key->name);
        for (unsigned i = 0; i < run->n_epochs; i++) {
            const double item = (*(double *const *)at)[i];

            cJSON_AddItemToArray(array, isfinite(item)
                                            ? cJSON_CreateNumber(item)
                                            : cJSON_CreateNull());
        }
    } else {
        stp_json_number(row, key->name,
                        key->null != -1 && number == key->null ? (double)NAN
                                                               : number);
    }
}

static void train_write_row(cJSON *row, const struct stp_train_run *run)
{
    const double total = stp_train_sum(run, run->epoch_s);
    const double comm = stp_train_sum(run, run->comm_s);

    for (size_t i = 0; i < STP_N_OF(train_keys); i++)
        train_write_key(row, &train_keys[i], run);
    cJSON_AddStringToObject(row, "source", stp_source_name(run->source));
    /* Notebooks read sums and shares, which follow from the rest. */
    cJSON_AddBoolToObject(row, "use_amp", stp_train_is_mixed(run));
    stp_json_number(row, "micro_batch_size",
                    run->batch > 0 ? run->batch / run->ga : (double)NAN);
    stp_json_number(row, "avg_epoch_time", total / run->n_epochs);
    stp_json_number(row, "avg_comm_time", comm / run->n_epochs);
    stp_json_number(row, "total_time", total);
    stp_json_number(row, "comm_time", comm);
    stp_json_number(row, "exposed_comm_time",
                    stp_train_sum(run, run->exposed_s));
    stp_json_number(row, "exposed_comm_share", run->exposed_share);
    stp_json_number(row, "speed_up", run->speed_up);
    stp_json_number(row, "scaling_efficiency", run->efficiency);
}

/* ---- reading keys ---- */

static bool train_read_number(const cJSON *value, const struct train_key *key,
                              double *number_ret)
{
    if (cJSON_IsNull(value) && key->null != -1) {
        *number_ret = key->null;
        return true;
    }
    *number_ret = cJSON_GetNumberValue(value);
    return isfinite(*number_ret) && *number_ret >= key->min;
}

static bool train_read_value(const cJSON *value, const struct train_key *key,
                             struct stp_train_run *run)
{
    void *at = (char *)run + key->offset;
    const double max = key->type == COUNT ? UINT32_MAX : WHOLE_MAX;
    const char *word = cJSON_GetStringValue(value);
    const int n = cJSON_GetArraySize(value);
    double number = 0, *list;

    if (key->type == WORD) {
        if (word == NULL || word[0] == '\0')
            return false;
        snprintf(at, key->size, "%s", word);
        return true;
    }
    if (key->type == LIST) {
        /* the first list says how many epochs there are */
        if (!cJSON_IsArray(value) || n < 1 ||
            (run->n_epochs != 0 && (unsigned)n != run->n_epochs))
            return false;
        run->n_epochs = (unsigned)n;
        list = *(double **)at = stp_take((size_t)n, sizeof(*list));
        for (const cJSON *item = value->child; item != NULL; item = item->next)
            if (!train_read_number(item, key, list++))
                return false;
        return true;
    }
    if (!train_read_number(value, key, &number) ||
        (key->type != NUMBER && !cJSON_IsNull(value) &&
         (number > max || number != floor(number))))
        return false;
    if (key->type == COUNT)
        *(unsigned *)at = (unsigned)number;
    else if (key->type == BIG)
        *(uint64_t *)at = (uint64_t)number;
    else
        *(double *)at = number;
    return true;
}

static enum stp_status train_read_key(const cJSON *row, size_t n,
                                      const struct train_key *key,
                                      struct stp_train_run *run,
                                      struct stp_error *err)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(row, key->name);

    if (notebook_wrote(row) &&
        (key->notebook == OURS ||
         (value == NULL && key->notebook == SHARED_OR_ABSENT)))
        return STP_OK; /* unknown */
    if (value == NULL)
        return stp_fail(err, STP_ERR_SYNTAX, "run %zu without %s, expected %s",
                        n + 1, key->name, key->expected);
    if (!train_read_value(value, key, run))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "run %zu with a %s that means nothing, expected %s",
                        n + 1, key->name, key->expected);
    return STP_OK;
}

/* Reads the 'n'th row, from 0, into *run, to be freed with
 * stp_train_run_free().  STP_ERR_SYNTAX says which key of which row is not
 * there or means nothing, and what was expected. */
static enum stp_status train_read_row(const cJSON *row, size_t n,
                                      struct stp_train_run *run,
                                      struct stp_error *err)
{
    const bool is_notebook = notebook_wrote(row);
    const char *name =
        cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(row, "source"));
    int source;

    *run = is_notebook ? notebook_run : (struct stp_train_run){.n_epochs = 0};
    for (size_t i = 0; i < STP_N_OF(train_keys); i++)
        STP_TRY(train_read_key(row, n, &train_keys[i], run, err));
    notebook_translate_mode(run, 0);
    if (is_notebook)
        notebook_complete(row, run);
    if (name != NULL)
        source = stp_source_from_name(name, strlen(name));
    else /* of a file that is older, or not ours */
        source = strstr(run->made_by, "recorded") != NULL ||
                         strstr(run->made_by, "modelled") != NULL
                     ? STP_SOURCE_MODELLED
                     : STP_SOURCE_MEASURED;
    if (source < 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "run %zu with a source that means nothing, "
                        "expected " STP_SOURCE_WORDS,
                        n + 1);
    run->source = (enum stp_source)source;
    return STP_OK;
}

enum stp_status stp_train_read_json(const char *text, size_t len,
                                    struct stp_train_runs *runs_ret,
                                    struct stp_error *err)
{
    struct stp_train_runs runs = {.n = 0};
    const char *end = NULL;
    cJSON *root = cJSON_ParseWithLengthOpts(text, len, &end, false);
    const cJSON *row;
    enum stp_status status = STP_OK;

    if (root == NULL)
        return stp_json_refuse(text, end, "steptune train writes", err);
    if (!cJSON_IsArray(root))
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "no list of runs, expected what steptune train or "
                          "its PyTorch notebook writes");
    for (row = root->child; row != NULL && status == STP_OK; row = row->next) {
        struct stp_train_run run;

        status = train_read_row(row, runs.n, &run, err);
        if (status == STP_OK)
            stp_train_runs_add(&runs, &run);
        else
            stp_train_run_free(&run);
    }
    cJSON_Delete(root);
    if (status != STP_OK) {
        stp_train_runs_free(&runs);
        return status;
    }
    stp_train_derive(&runs);
    *runs_ret = runs;
    return STP_OK;
}

enum stp_status stp_train_read(const char *path,
                               struct stp_train_runs *runs_ret,
                               struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status;

    STP_TRY(stp_read_file(path, TRAIN_FILE_MAX, &text, &len, err));
    status = stp_train_read_json(text, len, runs_ret, err);
    if (status == STP_ERR_SYNTAX)
        stp_refuse_kind(text, len, "JSON that `steptune train` writes", err);
    free(text);
    return status;
}

/* ---- runs of a training ---- */

void stp_train_describe(const struct stp_train_report *report,
                        struct stp_train_run *run_ret)
{
    const struct stp_train_config *c = report->config;
    const bool buckets = c->mode == STP_TRAIN_BUCKETED;
    const bool narrow = c->half_gradients || c->precision == STP_PRECISION_FP64;
    struct stp_train_run run = {.n_gpus = report->info->n_ranks,
                                .ga = c->accumulate,
                                .batch = c->batch,
                                .n_samples = c->n_samples,
                                .warmup = c->warmup,
                                .rate = c->rate,
                                .seed = c->seed,
                                .bucket_bytes = buckets ? c->bucket_bytes : 0,
                                .first_bucket_bytes =
                                    buckets ? c->first_bucket_bytes : 0,
                                .n_params = stp_train_n_params(c->model),
                                .n_epochs = c->n_epochs,
                                .traced_comm_ms = c->trace ? 0 : (double)NAN,
                                .hidden_share = NAN,
                                .speed_up = NAN,
                                .efficiency = NAN};

    snprintf(run.mode, sizeof(run.mode), "%s", stp_train_mode_name(c->mode));
    snprintf(run.size, sizeof(run.size), "%s", c->model->name);
    snprintf(run.precision, sizeof(run.precision), "%s",
             stp_precision_name(c->precision));
    snprintf(run.gradients, sizeof(run.gradients), "%s",
             narrow ? run.precision : stp_precision_name(STP_PRECISION_FP32));
    snprintf(run.gpu, sizeof(run.gpu), "%s", report->info->processor);
    snprintf(run.made_by, sizeof(run.made_by), "%s", report->info->what);
    *run_ret = run;
}

void stp_train_runs_take(struct stp_train_runs *runs,
                         const struct stp_train_report *report)
{
    const struct stp_train_result *result = report->result;
    struct stp_train_run run;
    struct stp_overlap overlap;

    stp_train_describe(report, &run);
    STP_TAKE(run.epoch_s, run.n_epochs);
    STP_TAKE(run.comm_s, run.n_epochs);
    STP_TAKE(run.exposed_s, run.n_epochs);
    STP_TAKE(run.losses, run.n_epochs);
    for (unsigned e = 0; e < run.n_epochs; e++) {
        const struct stp_train_epoch *epoch = &result->epochs[e];

        run.epoch_s[e] = epoch->seconds;
        run.comm_s[e] = epoch->comm_s;
        run.exposed_s[e] = epoch->exposed_s;
        run.losses[e] = epoch->loss;
        run.source = stp_source_worst(run.source, epoch->source);
    }
    run.throughput = result->throughput;
    run.accuracy = result->accuracy;
    run.n_skipped = result->n_skipped;
    run.loss_scale = result->last_loss_scale;
    if (result->n_traced > 0) {
        overlap = stp_overlap_of_spans(&result->spans);
        run.traced_comm_ms = overlap.communication / result->n_traced / 1e3;
        run.hidden_share = stp_overlap_share(&overlap);
    }
    stp_train_runs_add(runs, &run);
    stp_train_derive(runs);
}

/* ---- printing ---- */

/* Prints the runs; of those that the notebook's format has, with its words. */
static void train_print(const struct stp_train_runs *runs, bool of_notebook,
                        FILE *fp)
{
    cJSON *root = cJSON_CreateArray();

    for (size_t i = 0; i < runs->n; i++) {
        struct stp_train_run run = runs->runs[i]; /* whose lists stay theirs */

        if (of_notebook && !notebook_has(&run))
            continue;
        if (of_notebook)
            notebook_translate_mode(&run, 1);
        train_write_row(stp_json_row(root), &run);
    }
    stp_json_finish(root, fp);
}

void stp_train_print_json(const struct stp_train_runs *runs, FILE *fp)
{
    train_print(runs, false, fp);
}

/* ---- the file ---- */

void stp_train_file_path(const char *folder, const char *gpu,
                         char path[STP_FOLDER_PATH])
{
    char tag[96] = "";
    size_t n = 0;

    for (; gpu != NULL && *gpu != '\0' && n + 1 < sizeof(tag); gpu++)
        if (isalnum((unsigned char)*gpu))
            tag[n++] = *gpu;
        else if (n > 0 && tag[n - 1] != '_')
            tag[n++] = '_';
    while (n > 0 && tag[n - 1] == '_')
        n--;
    tag[n] = '\0';
    snprintf(path, STP_FOLDER_PATH, "%s/benchmark_results%s%s.json", folder,
             gpu != NULL ? "_" : "", gpu != NULL && n == 0 ? "unknown" : tag);
}

static enum stp_status train_save_as(const struct stp_train_runs *runs,
                                     const char *path, bool of_notebook,
                                     struct stp_error *err)
{
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));
    train_print(runs, of_notebook, file.fp);
    return stp_file_commit(&file, err);
}

enum stp_status stp_train_save(const struct stp_train_runs *runs,
                               const char *folder, struct stp_error *err)
{
    char path[STP_FOLDER_PATH], *text = NULL;
    bool is_ours = true; /* benchmark_results.json, and not the notebook's */
    bool has = false;
    size_t len;

    STP_TRY(stp_folder_make(folder, err));
    stp_train_file_path(folder, runs->runs[0].gpu, path);
    STP_TRY(train_save_as(runs, path, false, err));
    for (size_t i = 0; i < runs->n; i++)
        has |= notebook_has(&runs->runs[i]);
    if (!has)
        return STP_OK;
    stp_train_file_path(folder, NULL, path);
    if (stp_read_file(path, TRAIN_FILE_MAX, &text, &len, NULL) == STP_OK)
        is_ours = strstr(text, "\"made_by\"") != NULL;
    free(text);
    return is_ours ? train_save_as(runs, path, true, err) : STP_OK;
}
