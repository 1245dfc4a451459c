/* tune_state.c - what an interrupted `steptune tune` left, and going on */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/tune/tune.h"
#include "core/names.h"
#include "core/text.h"
#include "launch/clock.h"
#include "report/file.h"
#include "report/measurements/measurements_csv.h"

enum { KEEP_MS = 200, MAX_STATE = 1 << 16 };

static const char head[] =
    "# A run of steptune tune that is not finished; with these options it "
    "continues.\n";
static const char iterating[] = "iterations: yes\n";

/* ---- the plan, a line a thing that must not change ---- */

static void write_ranks(const struct stp_tune_options *o, FILE *fp)
{
    fputs("ranks:", fp);
    for (size_t i = 0; i < o->n_passes; i++)
        fprintf(fp, " %u", o->ranks[i]);
    fputs(o->n_passes == 0 ? " all\n" : "\n", fp);
}

static void write_measure(const struct stp_measure_options *m, FILE *fp)
{
    fputs("collectives:", fp);
    for (size_t i = 0; i < m->n_colls; i++)
        fprintf(fp, " %s", stp_coll_name(m->colls[i]));
    fputs(m->n_colls == 0 ? " default\n" : "\n", fp);
    fprintf(fp,
            "sizes: %" PRIu64 " to %" PRIu64 ", factor %g, step %" PRIu64 "\n",
            m->begin, m->end, m->factor, m->step);
    fprintf(fp, "rounds: %u\niterations a round: %u\nwarmup: %u\ntype: %s\n",
            m->rounds, m->iters, m->warmup, stp_type_name(m->type));
}

static void write_plan(const struct stp_tune *t, FILE *fp)
{
    const struct stp_tune_options *o = t->o;

    fputs(head, fp);
    fprintf(fp, "machine: %s, %s, NCCL %s\n", t->info.machine, t->info.gpu,
            t->info.nccl);
    write_ranks(o, fp);
    write_measure(&o->measure, fp);
    fprintf(fp, "least gain: %g\nresolution: %g\nseed: %" PRIu64 "\n",
            o->derive.min_gain, o->resolution, o->machine.seed);
}

static char *plan_text(struct stp_tune *t)
{
    char *text = NULL;
    size_t len = 0;
    FILE *fp = open_memstream(&text, &len);

    if (fp != NULL)
        write_plan(t, fp);
    if (fp == NULL || fclose(fp) != 0) {
        stp_nomem(&t->err);
        return NULL;
    }
    return text;
}

/* ---- keeping ---- */

static enum stp_status save_state(struct stp_tune *t)
{
    struct stp_file file;
    enum stp_status status = stp_file_begin(t->state_path, &file, &t->err);

    if (status != STP_OK)
        return status;
    fputs(t->plan_text, file.fp);
    if (t->iterated.data.n_rows > 0)
        fputs(iterating, file.fp);
    return stp_file_commit(&file, &t->err);
}

/* The state comes last: until then what lies there is an earlier run's. */
enum stp_status stp_tune_keep(struct stp_tune *t, bool now)
{
    enum stp_status status = STP_OK;

    if ((!now && t->is_begun && stp_now_ms() - t->saved_ms < KEEP_MS) ||
        t->alone.data.n_rows == 0)
        return STP_OK;
    status = stp_measurements_save(&t->alone.data, t->info.what, t->sweep_path,
                                   &t->err);
    if (status == STP_OK && t->iterated.data.n_rows > 0)
        status = stp_measurements_save(&t->iterated.data, t->info.what,
                                       t->iterations_path, &t->err);
    if (status == STP_OK)
        status = save_state(t);
    t->is_begun |= status == STP_OK;
    t->saved_ms = stp_now_ms();
    return status;
}

void stp_tune_finish(struct stp_tune *t)
{
    unlink(t->state_path);
}

/* ---- going on ---- */

/* The first line of 'now' that differs from 'then's, with its length; NULL if
 * none does. */
static const char *differing_line(const char *now, const char *then,
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

/* Names the file that is to blame. */
static enum stp_status blame(struct stp_tune *t, enum stp_status status,
                             const char *path)
{
    struct stp_error err = t->err;
    char text[STP_CLI_PATH + STP_ERROR_TEXT];

    stp_error_string(&err, path, text, sizeof(text));
    return stp_fail(
        &t->err, status,
        "%.150s; it was to be continued, expected --fresh to begin anew", text);
}

static enum stp_status load(struct stp_tune *t, const char *path,
                            struct stp_dataset *data)
{
    enum stp_status status = stp_measurements_load(path, data, &t->err);

    return status == STP_OK ? STP_OK : blame(t, status, path);
}

static enum stp_status go_on(struct stp_tune *t, const char *then,
                             const char *now)
{
    size_t len = 0;
    const char *line = differing_line(now, then, &len);
    enum stp_status status;

    if (line != NULL) {
        stp_complain(t->command,
                     "starting afresh: the run that left %s was not of "
                     "'%.*s'",
                     t->state_path, (int)len, line);
        return STP_OK;
    }
    status = load(t, t->sweep_path, &t->alone.data);
    if (status == STP_OK && strcmp(then + strlen(now), iterating) == 0)
        status = load(t, t->iterations_path, &t->iterated.data);
    t->is_begun = status == STP_OK;
    return status;
}

enum stp_status stp_tune_resume(struct stp_tune *t)
{
    char *then = NULL;
    size_t len = 0;
    enum stp_status status;

    t->plan_text = plan_text(t);
    if (t->plan_text == NULL)
        return STP_ERR_NOMEM;
    if (t->o->fresh || access(t->state_path, F_OK) != 0)
        return STP_OK;
    status = stp_read_file(t->state_path, MAX_STATE, &then, &len, &t->err);
    if (status != STP_OK)
        return blame(t, status, t->state_path);
    if (strncmp(then, head, strlen(head)) != 0)
        status = blame(
            t,
            stp_fail(&t->err, STP_ERR_SYNTAX, "not what steptune tune leaves"),
            t->state_path);
    else
        status = go_on(t, then, t->plan_text);
    free(then);
    return status;
}
