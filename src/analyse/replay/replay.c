#include "analyse/replay/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/replay/replay_parts.h"
#include "core/names.h"

struct replay {
    struct stp_replay_plan plan;
    struct mock_nccl *nccl;        /* without a tuner */
    struct mock_comm **comms;      /* in it, by size */
    struct mock_outcome *outcomes; /* of a step */
    struct stp_replay out;
    struct stp_error *err;
};

static enum stp_status fail(struct replay *r, unsigned line)
{
    return stp_fail_at(r->err, STP_ERR_DEVICE, line, 0, "%s",
                       mock_last_error());
}

/* ---- NCCL alone ---- */

static void note_alone(struct replay *r, size_t call,
                       const struct mock_outcome *outcome)
{
    size_t i = r->plan.order[call];
    const struct stp_trace_row *row = &r->plan.trace->rows[i];
    const struct mock_machine *machine =
        stp_replay_machine(&r->plan, row->comm);

    r->out.rows[i].auto_algo = outcome->algo;
    r->out.rows[i].auto_proto = outcome->proto;
    r->out.rows[i].n_ranks = mock_machine_get_info(machine)->n_ranks;
    r->out.n_asked += outcome->asked;
    r->out.n_run += row->n_launches > 0 ? row->n_launches : 1;
}

static enum stp_status play_step(struct replay *r, size_t step)
{
    const struct mock_step *s = &r->plan.steps[step];
    size_t first = r->plan.first[step];
    const struct stp_trace_row *row =
        &r->plan.trace->rows[r->plan.order[first]];
    size_t size = r->plan.size_of[row->comm];

    if (mock_comm_group(r->comms[size], s->calls, s->n, r->outcomes) !=
        ncclSuccess)
        return fail(r, row->line);
    for (size_t i = 0; i < s->n; i++)
        note_alone(r, first + i, &r->outcomes[i]);
    return STP_OK;
}

/* Without a tuner all communicators of one size are alike, and so are ranks. */
static enum stp_status play_alone(struct replay *r)
{
    enum stp_status status =
        stp_replay_open(&r->plan, "none", &r->nccl, r->err);

    for (size_t i = 0; i < r->plan.n_sizes && status == STP_OK; i++)
        if (mock_comm_create(r->nccl, r->plan.sizes[i].machine,
                             mock_new_comm_id(), &r->comms[i]) != ncclSuccess)
            status = fail(r, 0);
    for (size_t s = 0; s < r->plan.n_steps && status == STP_OK; s++)
        status = play_step(r, s);
    return status;
}

/* ---- expectations ---- */

static bool came_out(const struct stp_expect *want,
                     const struct stp_replayed *got)
{
    switch (want->kind) {
    case STP_EXPECT_ANYTHING:
        return true;
    case STP_EXPECT_AUTO:
        return got->algo == got->auto_algo && got->proto == got->auto_proto;
    case STP_EXPECT_PAIR:
        return got->algo == want->algo && got->proto == want->proto &&
               (want->n_channels == 0 || got->n_channels == want->n_channels);
    }
    return false;
}

static void describe(const struct stp_expect *want,
                     const struct stp_replayed *got, char text[80])
{
    if (want->kind == STP_EXPECT_AUTO)
        snprintf(text, 80, "NCCL's own %s/%s", stp_algo_name(got->auto_algo),
                 stp_proto_name(got->auto_proto));
    else if (want->n_channels == 0)
        snprintf(text, 80, "%s/%s", stp_algo_name(want->algo),
                 stp_proto_name(want->proto));
    else
        snprintf(text, 80, "%s/%s/%d", stp_algo_name(want->algo),
                 stp_proto_name(want->proto), want->n_channels);
}

static enum stp_status check_rows(struct replay *r)
{
    for (size_t i = 0; i < r->plan.trace->n_rows; i++) {
        const struct stp_trace_row *row = &r->plan.trace->rows[i];
        const struct stp_replayed *got = &r->out.rows[i];
        char want[80];

        if (came_out(&row->expect, got))
            continue;
        describe(&row->expect, got, want);
        return stp_fail_at(r->err, STP_ERR_DEVICE, row->line, 0,
                           "%s of %zu bytes: wanted %s, got %s/%s/%d",
                           stp_coll_name((int)row->call.coll),
                           row->call.n_bytes, want, stp_algo_name(got->algo),
                           stp_proto_name(got->proto), got->n_channels);
    }
    return STP_OK;
}

/* ---- life ---- */

static void describe_ranks(struct replay *r)
{
    const struct stp_replay_plan *plan = &r->plan;
    int recorded = mock_machine_get_info(plan->machine)->n_ranks;

    r->out.n_steps = plan->n_steps;
    r->out.machine_ranks = (unsigned)recorded;
    r->out.mixed = plan->n_sizes > 1;
    for (size_t i = 0; i < plan->n_sizes; i++) {
        unsigned n = (unsigned)plan->sizes[i].n_ranks;

        r->out.resized |= plan->sizes[i].owned != NULL;
        if (n > r->out.n_ranks)
            r->out.n_ranks = n;
    }
}

static enum stp_status open_all(struct replay *r)
{
    size_t n = r->plan.trace->n_rows;

    r->comms = calloc(r->plan.n_sizes, sizeof(struct mock_comm *));
    r->outcomes = calloc(n, sizeof(*r->outcomes));
    r->out.rows = calloc(n, sizeof(*r->out.rows));
    if (r->comms == NULL || r->outcomes == NULL || r->out.rows == NULL)
        return stp_nomem(r->err);
    describe_ranks(r);
    return STP_OK;
}

static void close_all(struct replay *r)
{
    for (size_t i = 0; r->comms != NULL && i < r->plan.n_sizes; i++)
        mock_comm_destroy(r->comms[i]);
    if (r->nccl != NULL)
        mock_nccl_destroy(r->nccl);
    free(r->comms);
    free(r->outcomes);
    stp_replay_plan_free(&r->plan);
}

enum stp_status stp_replay(const struct stp_replay_options *options,
                           const struct stp_trace *trace,
                           struct stp_replay *replay_ret, struct stp_error *err)
{
    struct replay r = {.err = err};
    enum stp_status status = stp_replay_plan_make(&r.plan, options, trace, err);

    if (status == STP_OK)
        status = open_all(&r);
    if (status == STP_OK)
        status = play_alone(&r);
    if (status == STP_OK)
        status = stp_replay_seeds(&r.plan, options, r.out.rows, err);
    if (status == STP_OK)
        status = check_rows(&r);
    close_all(&r);
    if (status == STP_OK)
        *replay_ret = r.out;
    else
        stp_replay_free(&r.out);
    return status;
}

void stp_replay_free(struct stp_replay *replay)
{
    free(replay->rows);
    memset(replay, 0, sizeof(*replay));
}
