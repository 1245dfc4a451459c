#include "device/device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/device_ranks.h"
#include "nccl_tuner_abi.h"

enum { ALIGNMENT = 128 };

/* A run, of all threads of a process. */
struct run {
    struct stp_ranks *ranks;
    const struct stp_program *program;
    bool use_graph;
    bool replay; /* the graph is there already */
};

/* The ranks of one thread in it. */
struct part {
    const struct run *run;
    struct stp_ranks *d;
    struct rank *ranks;
    unsigned n;
    unsigned n_collectives; /* issued so far */
    struct stp_error *err;
};

/* ---- where the data of a collective lie ---- */

static enum stp_status rank_reserve_all(struct rank *r, unsigned stream,
                                        enum stp_room room, int type,
                                        uint64_t nbytes, struct stp_error *err)
{
    return RANK_DO(r, room, room, stream, type, nbytes, &r->room[stream][room],
                   err);
}

/* Reserves this room and the next. */
static enum stp_status rank_reserve_pair(struct rank *r, unsigned stream,
                                         enum stp_room room, int type,
                                         uint64_t nbytes, struct stp_error *err)
{
    STP_TRY(rank_reserve_all(r, stream, room, type, nbytes, err));
    return rank_reserve_all(r, stream, room + 1, type, nbytes, err);
}

struct stp_transfer stp_ranks_place(const struct stp_ranks *d,
                                    const struct rank *r, unsigned stream,
                                    const struct stp_collective *c, unsigned k)
{
    /* The 'k'-th collective in a row lies elsewhere than the one before, as far
     * as the buffers go, so that the GPU's cache has none of its data. */
    const uint64_t stride =
        (c->n_bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    const uint64_t n_places = stride > 0 ? d->max_bytes / stride : 0;
    const uint64_t offset =
        d->info.rotates && n_places > 0 ? k % n_places * stride : 0;
    struct stp_transfer transfer =
        stp_collective_of_rank(c, r->rank, d->info.n_ranks,
                               (char *)r->room[stream][STP_ROOM_SEND] + offset,
                               (char *)r->room[stream][STP_ROOM_RECV] + offset);

    transfer.split = stp_splits_find(&d->splits, &c->groups);
    return transfer;
}

/* ---- before a run ---- */

static struct stp_product rank_product(const struct rank *r, unsigned stream,
                                       const struct stp_gemm *gemm)
{
    return (struct stp_product){.gemm = *gemm,
                                .type_c = gemm->type,
                                .a = r->room[stream][STP_ROOM_A],
                                .b = r->room[stream][STP_ROOM_B],
                                .c = r->room[stream][STP_ROOM_C]};
}

static enum stp_status rank_prepare(struct rank *r, uint64_t max_bytes,
                                    const struct stp_work *work,
                                    struct stp_error *err)
{
    const struct stp_gemm *g = &work->gemm;
    const uint64_t n[] = {(uint64_t)g->m * g->k, (uint64_t)g->k * g->n,
                          (uint64_t)g->m * g->n};
    struct stp_product product;

    switch (work->kind) {
    case STP_WORK_COLLECTIVE:
        return rank_reserve_pair(r, work->stream, STP_ROOM_SEND, STP_TYPE_U8,
                                 max_bytes, err);
    case STP_WORK_GEMM:
        for (int i = 0; i < 3; i++)
            STP_TRY(rank_reserve_all(r, work->stream,
                                     STP_ROOM_A + (enum stp_room)i, g->type,
                                     n[i] * stp_type_size(g->type), err));
        product = rank_product(r, work->stream, g);
        if (r->engine.ops->prepare != NULL)
            STP_TRY(RANK_DO(r, prepare, 0, &product, err));
        return STP_OK;
    case STP_WORK_ELEMENTWISE:
        return rank_reserve_pair(r, work->stream, STP_ROOM_X, STP_TYPE_F32,
                                 work->n_bytes, err);
    default:
        return STP_OK;
    }
}

/* ---- issuing noted work ---- */

static enum stp_status part_group(struct part *p, bool begin,
                                  struct stp_error *err)
{
    return p->ranks[0].engine.ops->group == NULL
               ? STP_OK
               : RANK_DO(&p->ranks[0], group, begin, err);
}

/* A thread with several ranks must group the calls for them, and leaves no
 * group open if a rank refuses. */
static enum stp_status part_group_ranks(struct part *p, bool begin,
                                        enum stp_status status)
{
    if (p->n == 1)
        return status;
    if (status == STP_OK)
        return part_group(p, begin, p->err);
    if (!begin)
        part_group(p, false, NULL);
    return status;
}

/* Noted work as a rank's engine runs it: a collective is the k-th in a row. */
static struct stp_work rank_work(const struct stp_ranks *d,
                                 const struct rank *r,
                                 const struct stp_work *note, unsigned k)
{
    const unsigned stream = note->stream;
    struct stp_work work = *note;

    if (note->kind == STP_WORK_COLLECTIVE) {
        work.kind = STP_WORK_TRANSFER;
        work.as.transfer = stp_ranks_place(d, r, stream, &note->collective, k);
    } else if (note->kind == STP_WORK_GEMM) {
        work.kind = STP_WORK_PRODUCT;
        work.as.product = rank_product(r, stream, &note->gemm);
    } else if (note->kind == STP_WORK_ELEMENTWISE) {
        work.kind = STP_WORK_KERNEL;
        work.as.kernel =
            (struct stp_kernel){.kind = STP_KERNEL_SUBTRACT,
                                .type = STP_TYPE_F32,
                                .n = note->n_bytes / sizeof(float),
                                .from = r->room[stream][STP_ROOM_X],
                                .to = r->room[stream][STP_ROOM_Y]};
    }
    return work;
}

static enum stp_status part_issue_all(struct part *p)
{
    const struct stp_program *program = p->run->program;
    enum stp_status status = STP_OK;

    p->n_collectives = 0;
    for (size_t k = 0; k < program->n_notes && status == STP_OK; k++) {
        const struct stp_work *note = &program->notes[k];
        const bool is_collective = note->kind == STP_WORK_COLLECTIVE;

        if (note->kind == STP_WORK_GROUP_BEGIN ||
            note->kind == STP_WORK_GROUP_END) {
            status = part_group(p, note->kind == STP_WORK_GROUP_BEGIN, p->err);
            continue;
        }
        if (is_collective)
            status = part_group_ranks(p, true, STP_OK);
        for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
            struct rank *r = &p->ranks[i];
            const struct stp_work work =
                rank_work(p->d, r, note, p->n_collectives);

            status = RANK_DO(r, note, &work, p->err);
        }
        p->n_collectives += is_collective;
        if (is_collective)
            status = part_group_ranks(p, false, status);
    }
    return status;
}

/* An operation of the engines' table on each rank of the thread. */
static enum stp_status part_each(struct part *p,
                                 enum stp_status (*op)(void *self,
                                                       struct stp_error *err))
{
    for (unsigned i = 0; i < p->n; i++)
        STP_TRY(op(p->ranks[i].engine.self, p->err));
    return STP_OK;
}

static enum stp_status part_wait(struct part *p)
{
    return part_each(p, p->ranks[0].engine.ops->synchronise);
}

/* Waits until all threads of this process are here. */
static enum stp_status part_synchronise_threads(struct part *p)
{
    if (p->d->pool == NULL || stp_thread_pool_barrier(p->d->pool))
        return STP_OK;
    return stp_fail(p->err, STP_ERR_STOPPED,
                    "rank %u stopped, as another failed", p->ranks[0].rank);
}

/* Runs the work once before: NCCL and cuBLAS cannot set up in a capture what
 * they set up on first use; nor can a rank while another one captures that
 * shares its GPU. */
static enum stp_status part_capture(struct part *p)
{
    const struct stp_engine_ops *ops = p->ranks[0].engine.ops;

    STP_TRY(part_issue_all(p));
    STP_TRY(part_wait(p));
    STP_TRY(part_synchronise_threads(p));
    STP_TRY(part_each(p, ops->begin_capture));
    STP_TRY(part_issue_all(p));
    return part_each(p, ops->end_capture);
}

/* ---- a run ---- */

/* Synchronises ranks of several processes before a run, on the GPUs, since
 * processes start a message's time apart. Ranks that compute late do so by
 * themselves. */
static enum stp_status part_synchronise_ranks(struct part *p)
{
    enum stp_status status = STP_OK;

    if (p->d->world->size == 1 || p->d->info.is_late)
        return part_synchronise_threads(p);
    for (unsigned i = 0; i < p->n; i++)
        STP_THEN(status, rank_reserve_all(&p->ranks[i], STP_STREAM_MAIN,
                                          STP_ROOM_MEETING, STP_TYPE_F32,
                                          sizeof(float), p->err));
    STP_THEN(status, part_group_ranks(p, true, STP_OK));
    for (unsigned i = 0; i < p->n && status == STP_OK; i++) {
        void *meeting = p->ranks[i].room[STP_STREAM_MAIN][STP_ROOM_MEETING];
        const struct stp_work work = {.kind = STP_WORK_TRANSFER,
                                      .as.transfer = {.coll = ncclFuncAllReduce,
                                                      .type = STP_TYPE_F32,
                                                      .op = STP_OP_SUM,
                                                      .n = 1,
                                                      .in = meeting,
                                                      .out = meeting,
                                                      .in_place = true}};

        status = RANK_DO(&p->ranks[i], note, &work, p->err);
    }
    status = part_group_ranks(p, false, status);
    STP_THEN(status, part_wait(p));
    STP_THEN(status, part_synchronise_threads(p));
    return status;
}

/* Reads a rank's events, as times from the first on, and the whole time. */
static enum stp_status part_read_times(struct part *p, const struct rank *r,
                                       double wall_us)
{
    const struct stp_program *program = p->run->program;
    const struct stp_ranks *d = p->d;
    double *us = &d->local_us[(size_t)(r - d->local) * d->n_times];
    const struct stp_work *first = NULL;

    us[d->n_times - 1] = r->engine.ops->ran_us != NULL
                             ? r->engine.ops->ran_us(r->engine.self)
                             : wall_us;
    for (size_t i = 0; i < program->n_notes; i++) {
        const struct stp_work *note = &program->notes[i];

        if (note->kind != STP_WORK_RECORD)
            continue;
        first = first == NULL ? note : first;
        STP_TRY(RANK_DO(r, elapsed_us, first->event, note->event,
                        &us[note->event], p->err));
    }
    return STP_OK;
}

static enum stp_status part_time(struct part *p)
{
    const struct stp_engine *engine = &p->ranks[0].engine;
    const struct stp_program *program = p->run->program;
    double start, wall_us;

    for (unsigned i = 0; i < p->n; i++) {
        struct rank *r = &p->ranks[i];

        if (r->engine.ops->prepare != NULL)
            STP_TRY(RANK_DO(r, prepare, program->n_events, NULL, p->err));
        for (size_t k = 0; k < program->n_notes; k++)
            STP_TRY(
                rank_prepare(r, p->d->max_bytes, &program->notes[k], p->err));
    }

    if (p->run->use_graph && !p->run->replay)
        STP_TRY(part_capture(p));
    STP_TRY(part_synchronise_ranks(p));
    start = engine->ops->now_us(engine->self);
    STP_TRY(p->run->use_graph ? part_each(p, engine->ops->launch)
                              : part_issue_all(p));
    STP_TRY(part_wait(p));
    wall_us = engine->ops->now_us(engine->self) - start;
    for (unsigned i = 0; i < p->n; i++)
        STP_TRY(part_read_times(p, &p->ranks[i], wall_us));
    return STP_OK;
}

static void ranks_abandon(const struct stp_ranks *d, bool is_abandoned)
{
    const struct stp_engine *engine = &d->local[0].engine;

    if (d->pool != NULL && engine->ops->abandon != NULL)
        engine->ops->abandon(engine->self, is_abandoned);
}

/* The ranks of a thread. */
static struct part run_part(const struct run *run, unsigned thread,
                            struct stp_error *err)
{
    struct stp_ranks *d = run->ranks;

    return (struct part){.run = run,
                         .d = d,
                         .ranks = &d->local[thread * d->n_per_thread],
                         .n = d->n_per_thread,
                         .err = err};
}

static enum stp_status part_run(void *user, unsigned thread,
                                struct stp_error *err)
{
    struct part p = run_part(user, thread, err);
    enum stp_status status = part_time(&p);

    if (status != STP_OK)
        ranks_abandon(p.d, true);
    return status;
}

enum stp_status stp_ranks_do(struct stp_ranks *d, stp_thread_pool_job job,
                             void *user, struct stp_error *err)
{
    struct stp_error why;
    enum stp_status status;

    if (d->pool == NULL)
        return job(user, 0, err != NULL ? err : &why);
    ranks_abandon(d, false);
    status =
        stp_thread_pool_run(d->pool, job, user, d->world, d->time_limit_s, err);
    if (stp_thread_pool_is_lost(d->pool))
        ranks_abandon(d, true);
    return status;
}

static enum stp_status ranks_run(struct stp_ranks *d,
                                 const struct stp_program *program,
                                 bool use_graph, bool replay,
                                 struct stp_error *err)
{
    const struct stp_world *world = d->world;
    const size_t n_times = program->n_events + 1;
    const size_t n_local = d->n_local * n_times;
    double *us = calloc(n_local + d->n_all * n_times, sizeof(*us));
    struct run run = {d, program, use_graph, replay};

    if (us == NULL)
        return stp_nomem(err);
    free(d->local_us);
    d->local_us = us;
    d->all_us = &us[n_local];
    d->n_times = (unsigned)n_times;
    STP_TRY(stp_ranks_do(d, part_run, &run, err));
    return world->ops->exchange(world->self, d->local_us, n_local * sizeof(*us),
                                d->all_us, err);
}

static enum stp_status part_capture_alone(void *user, unsigned thread,
                                          struct stp_error *err)
{
    struct part p = run_part(user, thread, err);

    return part_capture(&p);
}

enum stp_status stp_ranks_run_one(struct stp_ranks *d,
                                  const struct stp_collective *collective,
                                  bool captures, struct stp_error *err)
{
    const struct stp_work notes[] = {
        {.kind = STP_WORK_RECORD, .event = 0},
        {.kind = STP_WORK_COLLECTIVE, .collective = *collective},
        {.kind = STP_WORK_RECORD, .event = 1},
    };
    struct stp_program program = {0};
    struct run run = {.ranks = d, .program = &program, .use_graph = true};
    enum stp_status status = STP_OK;

    for (int i = 0; i < 3; i++)
        STP_THEN(status, stp_program_add(&program, &notes[i], err));
    STP_THEN(status, ranks_run(d, &program, false, false, err));
    if (captures)
        STP_THEN(status, stp_ranks_do(d, part_capture_alone, &run, err));
    stp_program_free(&program);
    return status;
}

double stp_device_elapsed_us(const struct stp_device *device, unsigned from,
                             unsigned to)
{
    const struct stp_ranks *d = device->ranks;
    double most = -INFINITY;

    for (unsigned r = 0; r < d->n_all; r++) {
        const double *us = &d->all_us[(size_t)r * d->n_times];

        most = fmax(most, us[to] - us[from]);
    }
    return most;
}

double stp_device_wall_us(const struct stp_device *device)
{
    const struct stp_ranks *d = device->ranks;
    double most = 0;

    for (size_t r = 1; r <= d->n_all; r++)
        most = fmax(most, d->all_us[r * d->n_times - 1]);
    return most;
}

/* ---- info ---- */

void stp_device_get_info(const struct stp_device *device,
                         struct stp_device_info *info_ret)
{
    *info_ret = device->ranks->info;
}

const char *stp_gpus_text(unsigned n_ranks, unsigned n_gpus, const char *gpu,
                          char text[STP_GPUS_TEXT])
{
    if (n_gpus == 0)
        snprintf(text, STP_GPUS_TEXT, "%u x %.63s", n_ranks, gpu);
    else
        snprintf(text, STP_GPUS_TEXT, "%u x %.63s shared by %u ranks", n_gpus,
                 gpu, n_ranks);
    return text;
}

/* Whose engine answers for all ranks. */
static const struct rank *first_rank(const struct stp_device *device)
{
    return &device->ranks->local[0];
}

void stp_device_rank_line(const struct stp_device *device, unsigned rank,
                          char *line, size_t size)
{
    RANK_DO(first_rank(device), rank_line, rank, line, size);
}

size_t stp_device_sizes(const struct stp_device *device, int coll,
                        uint64_t *sizes, size_t max)
{
    const struct rank *first = first_rank(device);

    return first->engine.ops->sizes != NULL
               ? RANK_DO(first, sizes, coll, sizes, max)
               : 0;
}

size_t stp_device_overlaps(const struct stp_device *device, int coll,
                           struct stp_device_overlap *overlaps, size_t max)
{
    const struct rank *first = first_rank(device);

    return first->engine.ops->overlaps != NULL
               ? RANK_DO(first, overlaps, coll, overlaps, max)
               : 0;
}

bool stp_device_knows_mode(const struct stp_device *device, int mode, int coll)
{
    enum { MAX_KNOWN = 512 };
    struct stp_device_overlap known[MAX_KNOWN];
    size_t n;

    if (device->ranks->info.is_live)
        return true;
    n = stp_device_overlaps(device, coll, known, MAX_KNOWN);
    for (size_t i = 0; i < n && i < MAX_KNOWN; i++)
        if (known[i].mode == mode)
            return true;
    return false;
}

enum stp_source stp_device_source(const struct stp_device *device,
                                  bool *single_pass_ret)
{
    const struct rank *first = first_rank(device);

    *single_pass_ret = false;
    return first->engine.ops->source != NULL
               ? RANK_DO(first, source, single_pass_ret)
               : STP_SOURCE_MEASURED;
}

/* ---- rounds and arms ---- */

enum stp_status stp_device_begin_round(const struct stp_device *device,
                                       unsigned round, unsigned n_rounds,
                                       struct stp_error *err)
{
    const struct rank *first = first_rank(device);
    bool any;

    if (first->engine.ops->begin_round != NULL)
        STP_TRY(RANK_DO(first, begin_round, round, n_rounds, err));
    if (round >= n_rounds && !device->ranks->info.repeats_rounds)
        return STP_REFUSE(err, "round %u of %u", round, n_rounds);
    return stp_world_any(device->ranks->world, false, &any, err);
}

/* Reserves the buffers of the main stream, which nearly all runs need. */
static enum stp_status ranks_reserve(struct stp_ranks *d, struct stp_error *err)
{
    for (unsigned i = 0; i < d->n_local; i++)
        STP_TRY(rank_reserve_pair(&d->local[i], STP_STREAM_MAIN, STP_ROOM_SEND,
                                  STP_TYPE_U8, d->max_bytes, err));
    return STP_OK;
}

enum stp_status stp_device_select_arm(const struct stp_device *device,
                                      const struct stp_arm *arm,
                                      struct stp_error *err)
{
    STP_TRY(RANK_DO(first_rank(device), select_arm, arm, err));
    device->ranks->arm = arm->kind;
    return ranks_reserve(device->ranks, err);
}

enum stp_status stp_device_reload_plugin(const struct stp_device *device,
                                         struct stp_error *err)
{
    const struct stp_ranks *d = device->ranks;

    return stp_world_agree(d->world, RANK_DO(&d->local[0], reload_plugin, err),
                           err);
}

void stp_device_use_graphs(const struct stp_device *device, bool uses)
{
    struct stp_ranks *d = device->ranks;

    if (d->local[0].engine.ops->use_graphs != NULL)
        d->info.max_rounds = RANK_DO(&d->local[0], use_graphs, uses);
    else
        d->graph = uses && d->info.captures;
}

/* ---- noting ---- */

/* Makes the last of the splits on the ranks of a thread. */
static enum stp_status part_split(void *user, unsigned thread,
                                  struct stp_error *err)
{
    struct part p = run_part(user, thread, err);
    const struct stp_splits *splits = &p.d->splits;
    enum stp_status status = part_group_ranks(&p, true, STP_OK);

    for (unsigned i = 0; i < p.n && status == STP_OK; i++)
        status = RANK_DO(&p.ranks[i], split, &splits->all[splits->n - 1], err);
    return part_group_ranks(&p, false, status);
}

enum stp_status stp_ranks_check_work(struct stp_ranks *d,
                                     const struct stp_work *work,
                                     struct stp_error *err)
{
    const struct stp_rank_groups *groups = &work->collective.groups;
    struct run run = {.ranks = d};
    enum stp_status status;

    if (work->kind == STP_WORK_COLLECTIVE && d->info.has_data)
        STP_TRY(stp_collective_check(&work->collective, d->info.n_ranks,
                                     d->max_bytes, err));
    for (unsigned i = 0; i < d->n_local; i++)
        STP_TRY(RANK_DO(&d->local[i], check, work, err));
    if (work->kind != STP_WORK_COLLECTIVE || groups->size == 0 ||
        stp_splits_find(&d->splits, groups) != 0)
        return STP_OK;
    /* Makes the groups that do not exist yet. */
    STP_TRY(stp_rank_groups_check(groups, d->info.n_ranks, err));
    if (d->local[0].engine.ops->split == NULL)
        return STP_REFUSE(err, "no groups of %u ranks: transport '%s' has none",
                          groups->size, d->info.backend);
    STP_TRY(stp_splits_add(&d->splits, groups, err));
    status =
        stp_world_agree(d->world, stp_ranks_do(d, part_split, &run, err), err);
    d->splits.n -= status != STP_OK;
    return status;
}

enum stp_status stp_device_note(const struct stp_device *device,
                                const struct stp_work *work,
                                struct stp_error *err)
{
    struct stp_ranks *d = device->ranks;

    if (work->kind == STP_WORK_COLLECTIVE || work->kind == STP_WORK_GEMM ||
        work->kind == STP_WORK_ELEMENTWISE)
        STP_TRY(stp_ranks_check_work(d, work, err));
    return stp_program_add(&d->program, work, err);
}

enum stp_status stp_device_replay(const struct stp_device *device,
                                  struct stp_error *err)
{
    struct stp_ranks *d = device->ranks;

    return ranks_run(d, &d->program, d->graph, true, err);
}

enum stp_status stp_device_synchronise(const struct stp_device *device,
                                       struct stp_error *err)
{
    struct stp_ranks *d = device->ranks;

    stp_program_begin(&d->program);
    return ranks_run(d, &d->program, d->graph, false, err);
}

/* ---- opening and closing ---- */

/* Closes the ranks, but not after a failure, when they may hang in NCCL: they
 * end with the process. */
static void ranks_close(struct stp_ranks *d)
{
    if (d->pool != NULL && stp_thread_pool_failed(d->pool))
        return;
    stp_thread_pool_destroy(d->pool);
    for (unsigned i = 0; i < d->n_local; i++)
        d->local[i].engine.ops->close(d->local[i].engine.self);
    stp_program_free(&d->program);
    free(d->local_us);
    free(d);
}

void stp_device_close(struct stp_device *device)
{
    if (device->ranks != NULL)
        ranks_close(device->ranks);
    device->ranks = NULL;
}

enum stp_status stp_device_open(const struct stp_device_options *options,
                                const struct stp_engines *engines,
                                struct stp_device *device_ret,
                                struct stp_error *err)
{
    const unsigned n = (engines->n_threads > 0 ? engines->n_threads : 1) *
                       engines->n_per_thread;
    struct stp_ranks *d = calloc(1, sizeof(*d) + n * sizeof(d->local[0]));
    enum stp_status status;

    if (d == NULL) {
        for (unsigned i = 0; i < n; i++)
            engines->all[i].ops->close(engines->all[i].self);
        return stp_nomem(err);
    }
    d->world = options->world;
    d->max_bytes = options->max_bytes;
    d->time_limit_s = options->time_limit_s;
    d->n_local = n;
    d->n_per_thread = engines->n_per_thread;
    d->n_all = n * d->world->size;
    for (unsigned i = 0; i < n; i++) {
        d->local[i].engine = engines->all[i];
        RANK_DO(&d->local[i], info, &d->info);
        d->local[i].rank = d->info.rank;
    }
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference)
    RANK_DO(&d->local[0], info, &d->info);
    /* Graphs of ranks that share a GPU may wait for each other for ever. */
    d->info.captures |=
        d->local[0].engine.ops->begin_capture != NULL && d->info.n_gpus == 0;
    if (d->local[0].engine.ops->use_graphs == NULL)
        d->graph = options->graph;
    status = ranks_reserve(d, err);
    if (engines->n_threads > 0)
        STP_THEN(status,
                 stp_thread_pool_create(engines->n_threads, &d->pool, err));
    status = stp_world_agree(d->world, status, err);
    if (status != STP_OK) {
        ranks_close(d);
        return status;
    }
    device_ret->ranks = d;
    return STP_OK;
}
