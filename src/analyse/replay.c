#include "analyse/replay.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "mock_ranks.h"

struct replay {
    const struct stp_replay_options *options;
    const struct stp_trace *trace;
    struct mock_machine *machine;
    struct mock_nccl *nccl_alone;
    struct mock_nccl *nccl_tuned;
    struct mock_call *calls; /* of the trace */
    struct mock_step *steps;
    size_t *first;                 /* row of each step */
    struct mock_outcome *outcomes; /* of NCCL alone */
    struct stp_replay out;
    struct stp_error *err;
};

static enum stp_status fail(struct replay *r, unsigned line)
{
    return stp_fail(r->err, STP_ERR_DEVICE, line, 0, "%s", mock_last_error());
}

/* ---- the script ---- */

static bool same_group(const struct stp_trace_row *a,
                       const struct stp_trace_row *b)
{
    return a->group != 0 && a->group == b->group;
}

static void make_steps(struct replay *r)
{
    for (size_t i = 0; i < r->trace->n_rows; i++) {
        const struct stp_trace_row *row = &r->trace->rows[i];

        r->calls[i] = row->call;
        if (i == 0 || !same_group(row - 1, row)) {
            r->first[r->out.n_steps] = i;
            r->steps[r->out.n_steps++].calls = &r->calls[i];
        }
        r->steps[r->out.n_steps - 1].n++;
    }
}

static void note(void *user, size_t step, size_t i,
                 const struct mock_outcome *outcome)
{
    struct replay *r = user;
    struct stp_replayed *row = &r->out.rows[r->first[step] + i];

    row->algo = outcome->algo;
    row->proto = outcome->proto;
    row->n_channels = outcome->n_channels;
}

/* ---- playing ---- */

static enum stp_status play_alone(struct replay *r)
{
    struct mock_comm *comm;
    enum stp_status status = STP_OK;

    if (mock_comm_create(r->nccl_alone, r->machine, mock_new_comm_id(),
                         &comm) != ncclSuccess)
        return fail(r, 0);
    for (size_t s = 0; s < r->out.n_steps && status == STP_OK; s++) {
        size_t first = r->first[s];

        if (mock_comm_group(comm, r->steps[s].calls, r->steps[s].n,
                            r->outcomes) != ncclSuccess)
            status = fail(r, r->trace->rows[first].line);
        for (size_t i = 0; i < r->steps[s].n && status == STP_OK; i++) {
            r->out.rows[first + i].auto_algo = r->outcomes[i].algo;
            r->out.rows[first + i].auto_proto = r->outcomes[i].proto;
        }
    }
    mock_comm_destroy(comm);
    return status;
}

static enum stp_status play_seed(struct replay *r, unsigned seed)
{
    const struct mock_script script = {.steps = r->steps,
                                       .n_steps = r->out.n_steps,
                                       .decided = seed == 0 ? note : NULL,
                                       .user = r};
    struct mock_ranks *ranks;
    enum stp_status status = STP_OK;

    const struct mock_ranks_options options = {.comm_id = mock_new_comm_id()};

    if (mock_ranks_create(r->nccl_tuned, r->machine, &options, &ranks) !=
        ncclSuccess)
        return fail(r, 0);
    r->out.n_ranks = (unsigned)mock_ranks_count(ranks);
    if (mock_ranks_play(ranks, &script, seed) != ncclSuccess)
        status = stp_fail(r->err, STP_ERR_DEVICE, 0, 0, "schedule %u: %s", seed,
                          mock_last_error());
    mock_ranks_destroy(ranks);
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
    for (size_t i = 0; i < r->trace->n_rows; i++) {
        const struct stp_trace_row *row = &r->trace->rows[i];
        const struct stp_replayed *got = &r->out.rows[i];
        char want[80];

        if (came_out(&row->expect, got))
            continue;
        describe(&row->expect, got, want);
        return stp_fail(r->err, STP_ERR_DEVICE, row->line, 0,
                        "%s of %zu bytes: wanted %s, got %s/%s/%d",
                        stp_coll_name((int)row->call.coll), row->call.n_bytes,
                        want, stp_algo_name(got->algo),
                        stp_proto_name(got->proto), got->n_channels);
    }
    return STP_OK;
}

/* ---- life ---- */

static enum stp_status open_nccl(struct replay *r, const char *plugin,
                                 struct mock_nccl **nccl)
{
    const struct mock_nccl_options options = {
        .version = r->options->nccl != NULL
                       ? r->options->nccl
                       : mock_machine_get_info(r->machine)->nccl,
        .tuner_plugin = plugin};

    return mock_nccl_create(&options, nccl) == ncclSuccess ? STP_OK
                                                           : fail(r, 0);
}

/* A plugin that does not load would agree with itself. */
static enum stp_status check_plugin(struct replay *r)
{
    struct mock_comm *comm;
    bool loaded;

    if (mock_comm_create(r->nccl_tuned, r->machine, mock_new_comm_id(),
                         &comm) != ncclSuccess)
        return fail(r, 0);
    loaded = mock_comm_tuner_version(comm) != 0;
    mock_comm_destroy(comm);
    if (loaded)
        return STP_OK;
    return stp_fail(r->err, STP_ERR_DEVICE, 0, 0,
                    "NCCL would not load tuner plugin '%s'",
                    r->options->plugin);
}

static enum stp_status open_all(struct replay *r)
{
    size_t n = r->trace->n_rows + 1;
    enum stp_status status;

    r->calls = calloc(n, sizeof(*r->calls));
    r->steps = calloc(n, sizeof(*r->steps));
    r->first = calloc(n, sizeof(*r->first));
    r->outcomes = calloc(n, sizeof(*r->outcomes));
    r->out.rows = calloc(n, sizeof(*r->out.rows));
    if (r->calls == NULL || r->steps == NULL || r->first == NULL ||
        r->outcomes == NULL || r->out.rows == NULL)
        return stp_fail(r->err, STP_ERR_NOMEM, 0, 0, "out of memory");
    make_steps(r);
    if (mock_machine_load(r->options->machine_path, &r->machine) != ncclSuccess)
        return fail(r, 0);
    status = open_nccl(r, "none", &r->nccl_alone);
    if (status == STP_OK)
        status = open_nccl(r, r->options->plugin, &r->nccl_tuned);
    if (status == STP_OK)
        status = check_plugin(r);
    return status;
}

static void close_all(struct replay *r)
{
    if (r->nccl_alone != NULL)
        mock_nccl_destroy(r->nccl_alone);
    if (r->nccl_tuned != NULL)
        mock_nccl_destroy(r->nccl_tuned);
    mock_machine_free(r->machine);
    free(r->calls);
    free(r->steps);
    free(r->first);
    free(r->outcomes);
}

enum stp_status stp_replay(const struct stp_replay_options *options,
                           const struct stp_trace *trace,
                           struct stp_replay *replay_ret, struct stp_error *err)
{
    struct replay r = {.options = options, .trace = trace, .err = err};
    enum stp_status status = open_all(&r);

    if (status == STP_OK)
        status = play_alone(&r);
    for (unsigned s = 0; s < options->n_seeds && status == STP_OK; s++)
        status = play_seed(&r, s);
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
