/* state.c - files of an interrupted run, and how it is resumed */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/names.h"
#include "core/rng.h"
#include "core/text.h"
#include "launch/take.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"
#include "store/clock.h"
#include "tune/stages.h"

enum { KEEP_MS = 200, MAX_STATE = 1 << 16 };

static const char head[] =
    "# A run of steptune tune that is not finished; with these options it "
    "continues.\n";
static const char iterating[] = "iterations: yes\n";

/* ---- saving ---- */

/* The plan exists only with its own measurements: it is removed before those of
 * another run are replaced, and written last. */
enum stp_status stp_tune_state_save(struct stp_tune_state *state, bool now,
                                    struct stp_error *err)
{
    const struct stp_tune_files *files = state->job->files;
    const struct stp_dataset *iterated = &state->iterated->data;
    struct stp_file file;
    enum stp_status status;

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
    STP_THEN(status, stp_file_begin(files->state, &file, err));
    if (status == STP_OK) {
        fprintf(file.fp, "%s%s", state->plan_text,
                iterated->n_rows > 0 ? iterating : "");
        status = stp_file_commit(&file, err);
    }
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

void stp_tune_state_name(const struct stp_tune_state *state,
                         char run_ret[STP_RUN_NAME])
{
    const struct stp_tune_plan *plan = state->job->plan;
    char *text = NULL;
    size_t len = 0;
    uint64_t hash = 0;
    FILE *fp = stp_take_text(&text, &len);

    /* The key holds every option that decides on the run's results. */
    fprintf(fp, "%siterate: %d\nportable: %d\n%s", state->plan_text,
            !plan->no_iterate, plan->portable,
            plan->same_bits ? "bits: same\n" : "");
    stp_measurements_write(state->swept, state->machine, fp);
    stp_measurements_write(&state->iterated->data, state->machine, fp);
    stp_end_text(fp);
    for (size_t i = 0; i < len; i++)
        hash = stp_hash(hash, (unsigned char)text[i]);
    free(text);
    snprintf(run_ret, STP_RUN_NAME, "%08" PRIx32, (uint32_t)(hash >> 32));
}

/* ---- resuming ---- */

/* Loads the measurements of a run with the same plan. On failure '*path' is the
 * file that cannot be read. */
static enum stp_status state_resume(struct stp_tune_state *state,
                                    const char **path, struct stp_error *err)
{
    const struct stp_tune_files *files = state->job->files;
    const char *now = state->plan_text;
    char *text = NULL;
    const char *then;
    size_t len = 0;
    bool is_same = true;
    enum stp_status status = stp_read_file(*path, MAX_STATE, &text, &len, err);

    if (status == STP_OK && strncmp(text, head, strlen(head)) != 0)
        status = stp_fail(err, STP_ERR_SYNTAX, "not what steptune tune leaves");
    for (then = text; status == STP_OK && is_same && *now != '\0';) {
        len = strcspn(now, "\n") + 1;
        is_same = strncmp(now, then, len) == 0;
        if (is_same) {
            now += len;
            then += len;
        }
    }
    if (!is_same)
        stp_tune_tell(state->job,
                      "starting afresh: the run that left %s was not of "
                      "'%.*s'",
                      files->state, (int)len - 1, now);
    if (status == STP_OK && is_same) {
        *path = files->state_sweep;
        status = stp_measurements_load_any(*path, -1, 0, state->swept, err);
        if (status == STP_OK && strcmp(then, iterating) == 0) {
            *path = files->state_iterations;
            status = stp_measurements_load_any(*path, -1, 0,
                                               &state->iterated->data, err);
        }
        state->is_begun = status == STP_OK;
    }
    free(text);
    return status;
}

enum stp_status stp_tune_state_begin(const struct stp_tune_job *job,
                                     const struct stp_device_info *info,
                                     struct stp_tune_state *state,
                                     struct stp_error *err)
{
    const struct stp_tune_plan *plan = job->plan;
    const struct stp_measure_options *m = &plan->measure;
    const char *path = job->files->state;
    char text[STP_TUNE_PATH + STP_ERROR_TEXT];
    size_t len = 0;
    FILE *fp = stp_take_text(&state->plan_text, &len);
    struct stp_error why;
    enum stp_status status;

    state->job = job;
    state->machine = info->what;
    fprintf(fp, "%smachine: %s, %s, NCCL %s\nranks:", head, info->machine,
            info->gpu, info->nccl);
    for (unsigned i = 0; i < plan->n_passes; i++)
        fprintf(fp, " %u", plan->ranks[i]);
    fputs(plan->n_passes == 0 ? " all\ncollectives:" : "\ncollectives:", fp);
    for (unsigned i = 0; i < m->n_colls; i++)
        fprintf(fp, " %s", stp_coll_name(m->colls[i]));
    fputs(m->n_colls == 0 ? " default\n" : "\n", fp);
    fprintf(fp,
            "sizes: %" PRIu64 " to %" PRIu64 ", factor %g, step %" PRIu64 "\n",
            m->begin, m->end, m->factor, m->step);
    fprintf(fp, "rounds: %u\niterations a round: %u\nwarmup: %u\ntype: %s\n",
            m->rounds, m->iters, m->warmup, stp_type_name(m->types[0]));
    fprintf(fp, "least gain: %g\nresolution: %g\nseed: %" PRIu64 "\n",
            plan->min_gain, plan->resolution, plan->seed);
    if (plan->stalls > 0)
        fprintf(fp, "stalls: %g\n", plan->stalls);
    stp_end_text(fp);
    if (plan->fresh || access(path, F_OK) != 0)
        return STP_OK;
    status = state_resume(state, &path, &why);
    if (status == STP_OK)
        return STP_OK;
    stp_error_string(&why, path, text, sizeof(text));
    return stp_fail(err, status,
                    "%.150s; an interrupted run cannot resume, expected "
                    "--fresh to start over",
                    text);
}
