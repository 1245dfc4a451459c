#include "report/jobs/job_runs_csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/csv.h"
#include "report/file.h"
#include "report/take.h"

#define INTO(member) STP_CSV_INTO(stp_job_run, member)
#define COUNT(member, most)                                                    \
    .required = true, .kind = STP_CSV_WHOLE, INTO(member), .max = (most)

/* An empty field of a row: the run printed no loss. */
static bool runs_read_loss(const struct stp_field *field, void *row)
{
    struct stp_job_run *run = row;

    return field->len == 0 ||
           stp_parse_double(field->s, field->len, &run->loss);
}

// clang-format off
static const struct stp_csv_column columns[] = {
    {"round", "a number from 0", COUNT(round, 1000000)},
    {"place", "a number from 0", COUNT(place, 2 * STP_JOB_ARMS)},
    {"arm", "the number of an arm", COUNT(arm, STP_JOB_ARMS - 1)},
    {"wall_s", "seconds above 0", .required = true, .kind = STP_CSV_POSITIVE,
     INTO(wall_s)},
    {"step", "a time from 0", .required = true, .kind = STP_CSV_FROM_0,
     INTO(step)},
    {"steps", "a number from 0", COUNT(steps, UINT32_MAX)},
    {"calls", "a number from 0", COUNT(calls, UINT32_MAX)},
    {"loss", "nothing or a number", .required = true, .read = runs_read_loss},
    {"limited", "0 or 1", .required = true, .kind = STP_CSV_FLAG,
     INTO(is_limited)},
    {"start_s", "seconds from 0", .kind = STP_CSV_FROM_0, INTO(start_s)},
};
// clang-format on

struct reader {
    struct stp_job_runs runs;
    struct stp_job_run row;
};

static void *runs_begin_row(void *user, unsigned line)
{
    struct reader *r = user;

    r->row = (struct stp_job_run){.loss = NAN};
    return &r->row;
}

static enum stp_status runs_end_row(void *user, void *row,
                                    struct stp_error *err)
{
    struct reader *r = user;

    if (r->row.arm >= r->runs.n_arms)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "a run of arm %u, expected one of %u arms", r->row.arm,
                        r->runs.n_arms);
    stp_job_runs_add(&r->runs, row);
    return STP_OK;
}

static void runs_read_comment(void *user, const char *line, size_t len)
{
    struct stp_job_runs *runs = &((struct reader *)user)->runs;
    char key[32];

    stp_csv_value(line, len, "# command: ", runs->command, STP_JOB_TEXT);
    stp_csv_value(line, len, "# step time: ", runs->step_time, STP_JOB_TEXT);
    if (runs->n_arms == STP_JOB_ARMS)
        return;
    snprintf(key, sizeof(key), "# arm %u: ", runs->n_arms);
    stp_csv_value(line, len, key, runs->labels[runs->n_arms], STP_JOB_LABEL);
    runs->n_arms += runs->labels[runs->n_arms][0] != '\0';
}

static const struct stp_csv_format format = {
    .what = "runs of a job",
    .columns = columns,
    .n_columns = sizeof(columns) / sizeof(columns[0]),
    .begin_row = runs_begin_row,
    .end_row = runs_end_row,
    .comment = runs_read_comment,
};

void stp_job_runs_add(struct stp_job_runs *runs, const struct stp_job_run *run)
{
    STP_TAKE_ROOM(runs->runs, runs->n, runs->capacity);
    runs->runs[runs->n++] = *run;
}

enum stp_status stp_job_runs_save(const char *path,
                                  const struct stp_job_runs *runs,
                                  struct stp_error *err)
{
    struct stp_file file;

    STP_TRY(stp_file_begin(path, &file, err));

    fprintf(file.fp,
            "# Runs of a job under several arms, to which steptune compare "
            "--resume adds.\n# command: %s\n# step time: %s\n",
            runs->command, runs->step_time);
    for (unsigned i = 0; i < runs->n_arms; i++)
        fprintf(file.fp, "# arm %u: %s\n", i, runs->labels[i]);
    fprintf(file.fp,
            "round,place,arm,wall_s,step,steps,calls,loss,limited,start_s\n");
    for (size_t i = 0; i < runs->n; i++) {
        const struct stp_job_run *run = &runs->runs[i];

        fprintf(file.fp, "%u,%u,%u,%.6f,%.9g,%u,%u,", run->round, run->place,
                run->arm, run->wall_s, run->step, run->steps, run->calls);
        if (!isnan(run->loss))
            fprintf(file.fp, "%.17g", run->loss);
        fprintf(file.fp, ",%d,%.3f\n", run->is_limited, run->start_s);
    }

    return stp_file_end(&file, STP_OK, err);
}

enum stp_status stp_job_runs_load(const char *path,
                                  struct stp_job_runs *runs_ret,
                                  struct stp_error *err)
{
    struct reader *r = stp_take(1, sizeof(*r));
    const enum stp_status status =
        stp_csv_load(&format, r, path, (size_t)1 << 26, err);

    if (status == STP_OK)
        *runs_ret = r->runs;
    else
        stp_job_runs_free(&r->runs);
    free(r);
    return status;
}

bool stp_job_runs_alike(const struct stp_job_runs *a,
                        const struct stp_job_runs *b,
                        const char **difference_ret)
{
    bool is_alike = a->n_arms == b->n_arms;

    *difference_ret = "other arms";
    for (unsigned i = 0; i < a->n_arms && is_alike; i++)
        is_alike = strcmp(a->labels[i], b->labels[i]) == 0;
    if (is_alike && strcmp(a->command, b->command) != 0) {
        *difference_ret = "another command";
        return false;
    }
    if (is_alike && strcmp(a->step_time, b->step_time) != 0) {
        *difference_ret = "another expression of --step-time";
        return false;
    }
    return is_alike;
}

void stp_job_runs_free(struct stp_job_runs *runs)
{
    free(runs->runs);
    runs->runs = NULL;
    runs->n = runs->capacity = 0;
}
