#define _GNU_SOURCE /* memmem() */
#include "report/measurements/measurements_csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "report/file.h"
#include "report/json.h"
#include "report/measurements/measurements_row.h"
#include "report/measurements/nccl_text.h"

#define COLUMNS                                                                \
    "collective,bytes,round,algorithm,protocol,channels,nNodes,nRanks,iters,"  \
    "mean_us,median_us,p95_us,p99_us,min_us,ran_algorithm,ran_protocol,"       \
    "ran_channels,type,op,root,in_place,wrong,source,single_pass"
#define BITS   ",bits"
#define SETUPS ",chunk,ran_kernel"
#define GRAPH  ",graph"
#define WORK   ",mode,compute,layers,ratio,m,n,k,compute_us,alone_us"

void stp_measurements_write(const struct stp_dataset *data, const char *made_by,
                            FILE *fp)
{
    char columns[sizeof(COLUMNS BITS SETUPS GRAPH WORK)];
    struct stp_measurement_header header;
    bool has_setups = false; /* arms that are more than an algorithm, a protocol
                                and channels */
    bool has_graphs = false;

    for (size_t i = 0; i < data->n_rows; i++) {
        has_setups |= data->rows[i].arm.kind == STP_ARM_SETUP ||
                      data->rows[i].arm.chunk_bytes != 0;
        has_graphs |= data->rows[i].graph;
    }
    snprintf(columns, sizeof(columns), COLUMNS "%s%s%s%s",
             stp_dataset_knows_bits(data) ? BITS : "", has_setups ? SETUPS : "",
             has_graphs ? GRAPH : "",
             stp_dataset_n_iterations(data) > 0 ? WORK : "");
    stp_measurement_header_read(columns, &header);
    fprintf(fp, "# %s\n", made_by);
    if (data->run[0] != '\0')
        fprintf(fp, "# run: %s\n", data->run);
    if (data->policy_hash[0] != '\0')
        fprintf(fp, "# policy hash: %s\n", data->policy_hash);
    fprintf(fp, "# machine: %s\n# gpu: %s\n# nccl: %s\n# backend: %s\n",
            data->machine, data->gpu, data->nccl, data->backend);
    if (data->tuner[0] != '\0')
        fprintf(fp, "# tuner: %s\n", data->tuner);
    fprintf(fp, "%s\n", columns);
    for (size_t i = 0; i < data->n_rows; i++) {
        const struct stp_measurement_row row = {.m = data->rows[i]};

        stp_measurement_row_write(&row, &header, fp);
    }
}

enum stp_status stp_measurements_save(const struct stp_dataset *data,
                                      const char *made_by, const char *path,
                                      struct stp_error *err)
{
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));
    stp_measurements_write(data, made_by, file.fp);
    return stp_file_commit(&file, err);
}

struct reader {
    struct stp_measurement_row row;
    struct stp_dataset data; /* what is in the file */
};

static void *measurements_begin_row(void *user, unsigned line)
{
    struct reader *r = user;

    stp_measurement_row_begin(&r->row, line);
    return &r->row;
}

static enum stp_status measurements_end_row(void *user, void *row,
                                            struct stp_error *err)
{
    struct reader *r = user;

    STP_TRY(stp_measurement_row_finish(&r->row, err));
    stp_dataset_take(&r->data, &r->row.m);
    return STP_OK;
}

static void measurements_read_comment(void *user, const char *line, size_t len)
{
    struct stp_dataset *d = &((struct reader *)user)->data;

    stp_csv_value(line, len, "# run: ", d->run, sizeof(d->run));
    stp_csv_value(line, len, "# policy hash: ", d->policy_hash,
                  sizeof(d->policy_hash));
    stp_csv_value(line, len, "# machine: ", d->machine, sizeof(d->machine));
    stp_csv_value(line, len, "# gpu: ", d->gpu, sizeof(d->gpu));
    stp_csv_value(line, len, "# nccl: ", d->nccl, sizeof(d->nccl));
    stp_csv_value(line, len, "# backend: ", d->backend, sizeof(d->backend));
    stp_csv_value(line, len, "# tuner: ", d->tuner, sizeof(d->tuner));
}

static const struct stp_csv_format format = {
    .what = "measurements",
    .columns = stp_measurement_columns,
    .n_columns = STP_N_MEASUREMENT_COLUMNS,
    .begin_row = measurements_begin_row,
    .end_row = measurements_end_row,
    .comment = measurements_read_comment,
};

bool stp_same_run(const struct stp_measurement *a,
                  const struct stp_measurement *b)
{
    return a->coll == b->coll && a->n_nodes == b->n_nodes &&
           a->n_ranks == b->n_ranks && stp_arm_equal(&a->arm, &b->arm);
}

/* How many rounds there are in the first 'n_rows' rows: of all, or of the runs
 * like 'like'. */
static unsigned measurements_count_rounds(const struct stp_dataset *data,
                                          size_t n_rows,
                                          const struct stp_measurement *like)
{
    unsigned n = 0;

    for (size_t i = 0; i < n_rows; i++)
        if (data->rows[i].round >= n &&
            (like == NULL || stp_same_run(&data->rows[i], like)))
            n = data->rows[i].round + 1;
    return n;
}

/* Clears a name that not all runs share: measurements of several have none. */
static void measurements_keep_common(char *name, const char *more, bool first)
{
    if (first)
        strcpy(name, more);
    else if (strcmp(name, more) != 0)
        *name = '\0';
}

enum stp_status stp_measurements_pool(struct stp_dataset *data,
                                      const struct stp_dataset *more,
                                      bool by_arm, struct stp_error *err)
{
    size_t n_rows = data->n_rows;
    unsigned n_rounds = measurements_count_rounds(data, n_rows, NULL);

    const bool has_nccl = data->nccl[0] != '\0' && more->nccl[0] != '\0';

    if (n_rows > 0 && (strcmp(data->gpu, more->gpu) != 0 ||
                       (has_nccl && strcmp(data->nccl, more->nccl) != 0)))
        return stp_fail_at(err, STP_ERR_SYNTAX, 1, 0,
                           "measured on '%s' with NCCL %s, expected '%s' with "
                           "NCCL %s as in the file before",
                           more->gpu, more->nccl, data->gpu, data->nccl);
    if (n_rows > 0 && strcmp(data->backend, more->backend) != 0)
        return stp_fail_at(
            err, STP_ERR_SYNTAX, 1, 0,
            "measured with backend %s, expected %s as in the file before",
            more->backend, data->backend);
    if (n_rows > 0 && strcmp(data->tuner, more->tuner) != 0)
        return stp_fail_at(err, STP_ERR_SYNTAX, 1, 0,
                           "AUTO is %s, expected %s as in the file before",
                           STP_AUTO_WORDS(more->tuner),
                           STP_AUTO_WORDS(data->tuner));
    for (size_t i = 0; i < more->n_rows; i++) {
        /* counted once for all rows of a run, which follow each other */
        if (by_arm &&
            (i == 0 || !stp_same_run(&more->rows[i - 1], &more->rows[i])))
            n_rounds = measurements_count_rounds(data, n_rows, &more->rows[i]);
        stp_dataset_take(data, &more->rows[i]);
        data->rows[data->n_rows - 1].round += n_rounds;
    }
    if (more->nodes > data->nodes)
        data->nodes = more->nodes;
    if (data->doubt[0] == '\0')
        memcpy(data->doubt, more->doubt, sizeof(data->doubt));
    if (data->said[0] == '\0')
        memcpy(data->said, more->said, sizeof(data->said));
    measurements_keep_common(data->run, more->run, n_rows == 0);
    measurements_keep_common(data->policy_hash, more->policy_hash, n_rows == 0);
    memcpy(data->machine, more->machine, sizeof(data->machine));
    memcpy(data->gpu, more->gpu, sizeof(data->gpu));
    if (more->nccl[0] != '\0')
        memcpy(data->nccl, more->nccl, sizeof(data->nccl));
    memcpy(data->backend, more->backend, sizeof(data->backend));
    memcpy(data->tuner, more->tuner, sizeof(data->tuner));
    return STP_OK;
}

/* A table for NVIDIA's example tuner, by columns. */
static bool measurements_are_nvidias(const char *text, size_t len,
                                     unsigned *line)
{
    return stp_csv_has_column(text, len, "algorithm", line) &&
           stp_csv_has_column(text, len, "size_bytes", line);
}

enum stp_status stp_measurements_read(const char *text, size_t len,
                                      struct stp_dataset *data,
                                      struct stp_error *err)
{
    struct reader r = {.data.backend = "nccl"}; /* the only one at first */
    enum stp_status status = STP_OK;
    unsigned line;

    if (measurements_are_nvidias(text, len, &line))
        return stp_fail_at(
            err, STP_ERR_SYNTAX, line, 1,
            "NVIDIA's performance data, which have no times of NCCL's own "
            "choice, expected measurements of `steptune sweep` or nccl-tests' "
            "text");
    if (stp_json_looks(text, len))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "JSON of `steptune sweep`, which other programs read, "
                        "expected its CSV: -o FILE.csv");
    status = stp_csv_read(&format, &r, text, len, err);
    STP_THEN(status, stp_measurements_pool(data, &r.data, false, err));
    stp_dataset_free(&r.data);
    return status;
}

bool stp_nccl_text_is(const char *text, size_t len)
{
    static const char measurements[] = "\"measurements\"";
    static const char *const columns[] = {"bytes", "median_us", "setting"};
    unsigned line;

    if (measurements_are_nvidias(text, len, &line))
        return false;
    for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
        if (stp_csv_has_column(text, len, columns[i], &line))
            return false;
    return stp_nccl_json_is(text, len) || !stp_json_looks(text, len) ||
           memmem(text, len, measurements, strlen(measurements)) == NULL;
}

enum stp_status stp_measurements_load_any(const char *path, int coll,
                                          unsigned n_ranks,
                                          struct stp_dataset *data,
                                          struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status;

    STP_TRY(stp_read_file(path, STP_MEASUREMENTS_MAX, &text, &len, err));
    if (stp_nccl_text_is(text, len))
        status = stp_nccl_text_read(text, len, coll, n_ranks, data, NULL, err);
    else if (coll >= 0 || n_ranks > 0)
        status = stp_fail(err, STP_ERR_RANGE,
                          "measurements of Steptune, which name their "
                          "collectives and ranks, expected text of nccl-tests "
                          "for %s",
                          coll >= 0 ? "--collective" : "--ranks");
    else
        status = stp_measurements_read(text, len, data, err);
    free(text);
    return status;
}
