#include "device/mock/mock_program.h"

#include <math.h>
#include <stdlib.h>

#include "core/rng.h"
#include "core/room.h"
#include "device/mock/operation.h"

/* A program that runs, and its part between two times taken. */
struct running {
    struct stp_mock_program *p;
    struct stp_virtual_time *time;
    struct stp_error *err;
    size_t begin;
    size_t end;
    bool overlaps; /* it has compute in one stream, collectives in the other */
    enum mock_mode mode; /* if it overlaps */
    double quantile;     /* of all that is in it, if it has both */
};

static enum stp_status program_fail(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
}

static void program_worsen(const struct running *r, enum stp_source source)
{
    r->p->source = stp_source_worst(r->p->source, source);
}

static const struct stp_mock_world *program_world(const struct running *r,
                                                  size_t at)
{
    return &r->p->worlds[r->p->noted.notes[at].as.transfer.split];
}

static bool program_computes(const struct stp_work *work)
{
    return work->kind >= STP_WORK_PRODUCT;
}

struct mock_call stp_mock_call(const struct stp_mock_program *p,
                               const struct stp_collective *c)
{
    struct mock_call call = {.coll = (ncclFunc_t)c->coll,
                             .n_bytes = c->n_bytes,
                             /* NCCL registers what is captured */
                             .reg_buff = p->graph ? 2 : 0,
                             .root = (int)c->root};

    stp_set_operation(&call, c->type, c->op);
    return call;
}

struct mock_run stp_mock_call_run(const struct stp_mock_program *p,
                                  const struct mock_call *call,
                                  const struct mock_outcome *outcome)
{
    struct mock_run run = mock_outcome_run(call, outcome);

    if (p->way != 0)
        run = (struct mock_run){
            .coll = call->coll, .n_bytes = call->n_bytes, .algo = p->way};
    run.graph = p->graph;
    return run;
}

/* ---- rounds ---- */

/* A random number in [0, 1) of the round that began last. */
static double program_draw_round(const struct stp_virtual_time *t,
                                 uint64_t number)
{
    return stp_rng_unit(stp_hash(t->seed, t->n_rounds), number);
}

void stp_mock_begin_round(struct stp_virtual_time *t, unsigned round,
                          unsigned n_rounds)
{
    bool is_disturbed;

    t->n_rounds++;
    t->round = n_rounds > 0 ? (round % n_rounds + 0.5) / n_rounds
                            : program_draw_round(t, UINT64_MAX);
    t->place_of_all =
        stp_hash(n_rounds, n_rounds > 0 ? round % n_rounds : t->n_rounds);
    is_disturbed = program_draw_round(t, 0) < t->stalls;
    t->disturbs_all = is_disturbed && program_draw_round(t, 1) < 0.5;
    t->disturbs_one = is_disturbed && !t->disturbs_all;
    /* one of as many as the round before had */
    t->victim = (unsigned)(program_draw_round(t, 2) * (t->n_arms + 1));
    t->n_arms = 0;
    t->stall = t->disturbs_all ? 1.5 + 1.5 * program_draw_round(t, 3) : 1;
}

void stp_mock_begin_arm(struct stp_virtual_time *t, const struct stp_arm *arm)
{
    const bool stalls =
        t->disturbs_all || (t->disturbs_one && t->n_arms == t->victim);

    t->stall = stalls ? 1.5 + 1.5 * program_draw_round(t, 4 + t->n_arms) : 1;
    t->n_arms++;
    if (t->stalls > 0) {
        t->place = t->place_of_all;
        t->n_draws = 0;
        for (const char *c = STP_ARM_TEXT(arm); *c != '\0'; c++)
            t->place = stp_hash(t->place, (unsigned char)*c);
    }
}

/* ---- collectives ---- */

/* A random number for the collectives at 'at'.  Where rounds are measured again
 * it depends on what runs in which round, and on nothing that ran before. */
static double program_draw(const struct running *r, size_t at)
{
    struct stp_virtual_time *time = r->time;
    const struct stp_work *notes = r->p->noted.notes;
    uint64_t seed = time->seed;

    if (time->place != 0) {
        while (at < r->end && notes[at].kind != STP_WORK_COLLECTIVE)
            at++;
        seed = stp_hash(seed, time->place);
        if (at < r->end)
            seed = stp_hash(stp_hash(seed, (uint64_t)notes[at].collective.coll),
                            notes[at].collective.n_bytes);
        for (size_t i = r->begin; i < r->end; i++)
            if (program_computes(&notes[i]))
                seed = stp_hash(seed, (uint64_t)lround(
                                          log2(1 + r->p->parts[i].compute.us)));
    }
    return stp_rng_unit(seed, time->n_draws++);
}

/* The time of a run alone, longer or shorter by 'quantile' of the spread. */
static enum stp_status program_find_time(const struct running *r, size_t at,
                                         const struct mock_run *run,
                                         double quantile, double *us_ret)
{
    const struct mock_machine *machine = program_world(r, at)->machine;
    const struct stp_work *notes = r->p->noted.notes;
    bool follows = false; /* compute in the same stream */
    size_t compute = at;
    struct mock_time time;
    struct mock_overlap overlap;
    double compute_us = 0;
    ncclResult_t rc;

    r->p->parts[at].machine = machine;
    r->p->parts[at].mode = r->mode;
    for (size_t i = at; i > r->begin && !r->overlaps; i--)
        follows |= program_computes(&notes[i - 1]) &&
                   notes[i - 1].stream == notes[at].stream;
    /* The compute that overlaps it: the last before it between these times,
     * else the first after it. */
    if (r->overlaps || follows) {
        while (compute > r->begin && !program_computes(&notes[compute - 1]))
            compute--;
        if (compute > r->begin)
            compute--;
        else
            for (compute = at; !program_computes(&notes[compute]);)
                compute++;
        compute_us = r->p->parts[compute].compute.us;
    }
    if (r->overlaps) {
        rc = mock_machine_overlap(machine, run, r->mode, compute_us,
                                  r->time->round, quantile, &overlap);
        *us_ret = overlap.comm_us;
        time.source = overlap.source;
        time.is_single_pass = overlap.is_single_pass;
    } else if (follows) {
        rc = mock_machine_time_after(machine, run, compute_us, r->time->round,
                                     quantile, &time);
        *us_ret = time.us;
    } else {
        rc = mock_machine_time(machine, run, r->time->round, quantile, &time);
        *us_ret = time.us;
    }
    if (rc != ncclSuccess)
        return program_fail(r->err);
    program_worsen(r, stp_mock_source(time.source));
    r->p->single_pass |= time.is_single_pass;
    return STP_OK;
}

/* Whether NCCL ran both of a group as if they were one. */
static bool program_runs_as_one(const struct mock_call *calls,
                                const struct mock_outcome *outcomes, size_t a,
                                size_t b)
{
    return calls[a].coll == calls[b].coll && calls[a].kind == calls[b].kind &&
           outcomes[a].algo == outcomes[b].algo &&
           outcomes[a].proto == outcomes[b].proto &&
           outcomes[a].tuned_channels == outcomes[b].tuned_channels;
}

/* Prices a group: collectives that ran as one last as long as one collective of
 * all their bytes, and others one after the other. */
static enum stp_status program_price(const struct running *r, size_t at,
                                     size_t n, const struct mock_call *calls,
                                     const struct mock_outcome *outcomes)
{
    struct stp_mock_part *part = &r->p->parts[at];
    double quantile = r->overlaps ? r->quantile : program_draw(r, at);
    double *us = &r->p->tasks[at].us;

    *us = 0;
    part->run.n_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        struct mock_run run = stp_mock_call_run(r->p, &calls[i], &outcomes[i]);
        bool counted = false;
        double part_us = 0;

        for (size_t j = 0; j < i; j++)
            counted |= program_runs_as_one(calls, outcomes, i, j);
        if (counted)
            continue;
        for (size_t j = i + 1; j < n; j++)
            if (program_runs_as_one(calls, outcomes, i, j))
                run.n_bytes += calls[j].n_bytes;
        STP_TRY(program_find_time(r, at, &run, quantile, &part_us));
        *us += part_us;
        if (run.n_bytes > part->run.n_bytes)
            part->run = run;
    }
    return STP_OK;
}

/* All of the group is its first collective's. */
static enum stp_status program_run_group(const struct running *r, size_t at,
                                         size_t n)
{
    const struct stp_work *notes = &r->p->noted.notes[at];
    struct mock_call *calls = calloc(n, sizeof(*calls));
    struct mock_outcome *outcomes = calloc(n, sizeof(*outcomes));
    enum stp_status status = STP_OK;

    if (calls == NULL || outcomes == NULL)
        status = stp_nomem(r->err);
    for (size_t i = 0; i < n && status == STP_OK; i++)
        calls[i] = stp_mock_call(r->p, &notes[i].collective);
    if (status == STP_OK && mock_comm_group(program_world(r, at)->comm, calls,
                                            n, outcomes) != ncclSuccess)
        status = program_fail(r->err);
    STP_THEN(status, program_price(r, at, n, calls, outcomes));
    for (size_t i = 1; i < n && status == STP_OK; i++) {
        r->p->parts[at + i].run = r->p->parts[at].run;
        r->p->parts[at + i].machine = r->p->parts[at].machine;
        r->p->parts[at + i].mode = r->mode;
        r->p->tasks[at + i].kind = STP_TASK_NOTHING;
    }
    free(calls);
    free(outcomes);
    return status;
}

/* Prices the collective or group at *at, which is then at its end. */
static enum stp_status program_price_collectives(const struct running *r,
                                                 size_t *at)
{
    const struct stp_work *notes = r->p->noted.notes;
    size_t first = *at;
    struct mock_call call;
    struct mock_outcome outcome;

    if (notes[first].kind == STP_WORK_COLLECTIVE) {
        call = stp_mock_call(r->p, &notes[first].collective);
        return mock_comm_collective(program_world(r, first)->comm, &call,
                                    &outcome) == ncclSuccess
                   ? program_price(r, first, 1, &call, &outcome)
                   : program_fail(r->err);
    }
    if (notes[first].kind != STP_WORK_GROUP_BEGIN)
        return STP_OK;
    while (++*at < r->end && notes[*at].kind == STP_WORK_COLLECTIVE)
        ;
    return *at > ++first ? program_run_group(r, first, *at - first) : STP_OK;
}

static enum stp_status program_price_compute(const struct running *r, size_t at)
{
    const struct stp_work *notes = r->p->noted.notes;
    double alone_us = r->p->parts[at].compute.us;
    const struct stp_mock_part *part;
    struct mock_overlap overlap;
    size_t collective = at;

    program_worsen(r, r->p->parts[at].compute.source);
    r->p->tasks[at].us = alone_us;
    if (!r->overlaps)
        return STP_OK;
    /* The collective that overlaps it is the next, else the last. */
    while (collective < r->end && notes[collective].kind != STP_WORK_COLLECTIVE)
        collective++;
    if (collective == r->end)
        for (collective = at; notes[collective].kind != STP_WORK_COLLECTIVE;)
            collective--;
    part = &r->p->parts[collective];
    if (mock_machine_overlap(part->machine, &part->run, r->mode, alone_us,
                             r->time->round, r->quantile,
                             &overlap) != ncclSuccess)
        return program_fail(r->err);
    r->p->tasks[at].us = overlap.compute_us;
    return STP_OK;
}

/* ---- between two times taken ---- */

static void program_find_end(struct running *r)
{
    const struct stp_program *noted = &r->p->noted;
    bool in[STP_N_STREAMS] = {false}; /* compute in this stream */
    bool out[STP_N_STREAMS] = {false};
    bool gathers = false, scatters = false, takes_time;

    r->end = r->begin;
    do {
        const struct stp_work *note = &noted->notes[r->end];

        in[note->stream] |= program_computes(note);
        if (note->kind == STP_WORK_COLLECTIVE) {
            out[note->stream] = true;
            gathers |= note->collective.coll == ncclFuncAllGather;
            scatters |= note->collective.coll == ncclFuncReduceScatter;
        }
        /* A record that nothing waits for takes a time. */
        takes_time = note->kind == STP_WORK_RECORD &&
                     !r->p->events[note->event].is_waited;
        r->end++;
    } while (!takes_time && r->end < noted->n_notes);
    r->overlaps = (in[STP_STREAM_MAIN] && out[STP_STREAM_COMM]) ||
                  (in[STP_STREAM_COMM] && out[STP_STREAM_MAIN]);
    r->mode = gathers && scatters ? MOCK_MODE_FSDP : MOCK_MODE_OVERLAP;
}

/* ---- all of it ---- */

enum stp_status stp_mock_program_add(struct stp_mock_program *p,
                                     const struct stp_work *work,
                                     struct stp_mock_compute compute,
                                     struct stp_error *err)
{
    size_t i;

    STP_TRY(stp_program_add(&p->noted, work, err));
    i = p->noted.n_notes - 1;
    if (!STP_ROOM(p->parts, i, p->part_room) ||
        !STP_ROOM(p->tasks, i, p->task_room))
        return stp_nomem(err);
    p->parts[i].compute = compute;
    return STP_OK;
}

static double program_slowdown(void *user, size_t compute, size_t collective)
{
    const struct running *r = user;
    const struct stp_mock_part *part = &r->p->parts[collective];
    struct mock_overlap overlap;

    if (mock_machine_overlap(part->machine, &part->run, part->mode,
                             r->p->parts[compute].compute.us, r->time->round,
                             0.5, &overlap) != ncclSuccess)
        return 1; /* it had a time, so it has this */
    return overlap.slowdown;
}

static enum stp_status program_prepare(const struct running *r)
{
    static const enum stp_task_kind kinds[] = {
        [STP_WORK_COLLECTIVE] = STP_TASK_COLLECTIVE,
        [STP_WORK_GROUP_BEGIN] = STP_TASK_NOTHING,
        [STP_WORK_GROUP_END] = STP_TASK_NOTHING,
        [STP_WORK_RECORD] = STP_TASK_RECORD,
        [STP_WORK_WAIT] = STP_TASK_WAIT,
    };
    struct stp_mock_program *p = r->p;

    if (p->noted.n_events > p->n_events) {
        const size_t n = 2 * (size_t)p->noted.n_events;
        void *more = realloc(p->events, n * sizeof(*p->events));

        if (more == NULL)
            return stp_nomem(r->err);
        p->events = more;
        p->n_events = n;
    }
    for (size_t i = 0; i < p->noted.n_events; i++)
        p->events[i].is_waited = false;
    for (size_t i = 0; i < p->noted.n_notes; i++) {
        const struct stp_work *note = &p->noted.notes[i];

        p->tasks[i] = (struct stp_mock_task){.kind = program_computes(note)
                                                         ? STP_TASK_COMPUTE
                                                         : kinds[note->kind],
                                             .stream = note->stream,
                                             .event = note->event};
        if (note->kind == STP_WORK_WAIT)
            p->events[note->event].is_waited = true;
        if (program_computes(note) || note->kind == STP_WORK_GROUP_BEGIN)
            program_worsen(r, STP_SOURCE_VIRTUAL);
    }
    return STP_OK;
}

enum stp_status stp_mock_run(struct stp_mock_program *p,
                             struct stp_virtual_time *time,
                             struct stp_error *err)
{
    struct running r = {.p = p, .time = time, .err = err};
    enum stp_status status;

    stp_program_begin(&p->noted);
    p->source = STP_SOURCE_RECORDED;
    p->single_pass = false;
    status = program_prepare(&r);
    for (; r.begin < p->noted.n_notes && status == STP_OK; r.begin = r.end) {
        program_find_end(&r);
        if (r.overlaps)
            r.quantile = program_draw(&r, r.begin);
        /* Collectives first: how compute spreads is recorded with them. */
        for (size_t i = r.begin; i < r.end && status == STP_OK; i++)
            status = program_price_collectives(&r, &i);
        for (size_t i = r.begin; i < r.end && status == STP_OK; i++)
            if (program_computes(&p->noted.notes[i]))
                status = program_price_compute(&r, i);
    }
    for (size_t i = 0; i < p->noted.n_notes; i++)
        p->tasks[i].us *= time->stall;
    if (status == STP_OK)
        time->now_us = stp_run_streams(p->tasks, p->noted.n_notes, time->now_us,
                                       program_slowdown, &r, p->events);
    return status;
}

void stp_mock_program_free(struct stp_mock_program *p)
{
    stp_program_free(&p->noted);
    free(p->parts);
    free(p->tasks);
    free(p->events);
}
