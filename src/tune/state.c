/* state.c - files of an interrupted run, and how it is resumed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"
#include "core/rng.h"
#include "core/text.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "store/clock.h"
#include "tune/stages.h"

enum { KEEP_MS = 200, MAX_STATE = 1 << 16 };

static const char head[] =
    "# A run of steptune tune that is not finished; with these options it "
    "continues.\n";
static const char iterating[] = "iterations: yes\n";

/* ---- the plan, in lines that must not change ---- */

static void state_write_ranks(const struct stp_tune_plan *o, FILE *fp)
{
    fputs("ranks:", fp);
    for (unsigned i = 0; i < o->n_passes; i++)
        fprintf(fp, " %u", o->ranks[i]);
    fputs(o->n_passes == 0 ? " all\n" : "\n", fp);
}

static void state_write_measure(const struct stp_measure_options *m, FILE *fp)
{
    fputs("collectives:", fp);
    for (unsigned i = 0; i < m->n_colls; i++)
        fprintf(fp, " %s", stp_coll_name(m->colls[i]));
    fputs(m->n_colls == 0 ? " default\n" : "\n", fp);
    fprintf(fp,
            "sizes: %" PRIu64 " to %" PRIu64 ", factor %g, step %" PRIu64 "\n",
            m->begin, m->end, m->factor, m->step);
    fprintf(fp, "rounds: %u\niterations a round: %u\nwarmup: %u\ntype: %s\n",
            m->rounds, m->iters, m->warmup, stp_type_name(m->types[0]));
}

static void state_write_plan(const struct stp_tune_plan *plan,
                             const struct stp_device_info *info, FILE *fp)
{
    fputs(head, fp);
    fprintf(fp, "machine: %s, %s, NCCL %s\n", info->machine, info->gpu,
            info->nccl);
    state_write_ranks(plan, fp);
    state_write_measure(&plan->measure, fp);
    fprintf(fp, "least gain: %g\nresolution: %g\nseed: %" PRIu64 "\n",
            plan->min_gain, plan->resolution, plan->seed);
}

static enum stp_status state_make_plan_text(const struct stp_tune_plan *plan,
                                            const struct stp_device_info *info,
                                            char **text_ret,
                                            struct stp_error *err)
{
    size_t len = 0;
    FILE *fp = open_memstream(text_ret, &len);

    if (fp != NULL)
        state_write_plan(plan, info, fp);
    return fp != NULL && fclose(fp) == 0 ? STP_OK : stp_nomem(err);
}

/* ---- saving ---- */

static enum stp_status state_save_plan(const struct stp_tune_state *state,
                                       struct stp_error *err)
{
    struct stp_file file;
    enum stp_status status =
        stp_file_begin(state->job->files->state, &file, err);

    if (status != STP_OK)
        return status;
    fputs(state->plan_text, file.fp);
    if (state->iterated->data.n_rows > 0)
        fputs(iterating, file.fp);
    return stp_file_commit(&file, err);
}

/* The plan is there only with its own measurements: it goes before those of
 * another run are replaced, and comes last. */
enum stp_status stp_tune_state_save(struct stp_tune_state *state, bool now,
                                    struct stp_error *err)
{
    const struct stp_tune_files *files = state->job->files;
    const struct stp_dataset *iterated = &state->iterated->data;
    enum stp_status status = STP_OK;

    if ((!now && state->is_begun && stp_now_ms() - state->saved_ms < KEEP_MS) ||
        state->swept->n_rows == 0)
        return STP_OK;
    if (!state->is_begun)
        unlink(files->state);
    status = stp_measurements_save(state->swept, state->machine,
                                   files->state_sweep, err);
    if (status == STP_OK && iterated->n_rows > 0)
        status = stp_measurements_save(iterated, state->machine,
                                       files->state_iterations, err);
    STP_THEN(status, state_save_plan(state, err));
    state->is_begun |= status == STP_OK;
    state->saved_ms = stp_now_ms();
    return status;
}

void stp_tune_state_end(const struct stp_tune_files *files)
{
    unlink(files->state);
    unlink(files->state_sweep);
    unlink(files->state_iterations);
}

/* ---- the run's name ---- */

/* All that decides what the run writes. */
static void state_write_run(const struct stp_tune_state *state, FILE *fp)
{
    const struct stp_tune_plan *plan = state->job->plan;

    fprintf(fp, "%siterate: %d\nportable: %d\n", state->plan_text,
            !plan->no_iterate, plan->portable);
    stp_measurements_write(state->swept, state->machine, fp);
    stp_measurements_write(&state->iterated->data, state->machine, fp);
}

enum stp_status stp_tune_state_name(const struct stp_tune_state *state,
                                    char run_ret[STP_RUN_NAME],
                                    struct stp_error *err)
{
    char *text = NULL;
    size_t len = 0;
    uint64_t hash = 0;
    FILE *fp = open_memstream(&text, &len);

    if (fp == NULL)
        return stp_nomem(err);
    state_write_run(state, fp);
    if (fclose(fp) != 0)
        return stp_nomem(err);
    for (size_t i = 0; i < len; i++)
        hash = stp_hash(hash, (unsigned char)text[i]);
    free(text);
    snprintf(run_ret, STP_RUN_NAME, "%08" PRIx32, (uint32_t)(hash >> 32));
    return STP_OK;
}

/* ---- resuming ---- */

/* The first line of 'now' that differs from 'then', with its length; NULL if
 * there is none. */
static const char *state_find_difference(const char *now, const char *then,
                                         size_t *len_ret)
{
    while (*now != '\0') {
        size_t len = strcspn(now, "\n") + 1;

        if (strncmp(now, then, len) != 0) {
            *len_ret = len - 1;
            return now;
        }
        now += len;
        then += len;
    }
    return NULL;
}

/* Names the file that cannot be read. */
static enum stp_status state_blame(enum stp_status status, const char *path,
                                   struct stp_error *err)
{
    const struct stp_error why = *err;
    char text[STP_TUNE_PATH + STP_ERROR_TEXT];

    stp_error_string(&why, path, text, sizeof(text));
    return stp_fail(err, status,
                    "%.150s; an interrupted run cannot resume, expected "
                    "--fresh to start over",
                    text);
}

static enum stp_status state_load(const char *path, struct stp_dataset *data,
                                  struct stp_error *err)
{
    enum stp_status status = stp_measurements_load(path, data, err);

    return status == STP_OK ? STP_OK : state_blame(status, path, err);
}

static enum stp_status state_resume(struct stp_tune_state *state,
                                    const char *then, struct stp_error *err)
{
    const struct stp_tune_files *files = state->job->files;
    size_t len = 0;
    const char *line = state_find_difference(state->plan_text, then, &len);
    enum stp_status status;

    if (line != NULL) {
        stp_tune_tell(state->job,
                      "starting afresh: the run that left %s was not of "
                      "'%.*s'",
                      files->state, (int)len, line);
        return STP_OK;
    }
    status = state_load(files->state_sweep, state->swept, err);
    if (status == STP_OK &&
        strcmp(then + strlen(state->plan_text), iterating) == 0)
        status =
            state_load(files->state_iterations, &state->iterated->data, err);
    state->is_begun = status == STP_OK;
    return status;
}

enum stp_status stp_tune_state_begin(const struct stp_tune_job *job,
                                     const struct stp_device_info *info,
                                     struct stp_tune_state *state,
                                     struct stp_error *err)
{
    const char *path = job->files->state;
    char *then = NULL;
    size_t len = 0;
    enum stp_status status =
        state_make_plan_text(job->plan, info, &state->plan_text, err);

    state->job = job;
    state->machine = info->what;
    if (status != STP_OK || job->plan->fresh || access(path, F_OK) != 0)
        return status;
    status = stp_read_file(path, MAX_STATE, &then, &len, err);
    if (status != STP_OK)
        return state_blame(status, path, err);
    if (strncmp(then, head, strlen(head)) != 0)
        status = state_blame(
            stp_fail(err, STP_ERR_SYNTAX, "not what steptune tune leaves"),
            path, err);
    else
        status = state_resume(state, then, err);
    free(then);
    return status;
}
