#include "device/mock/engine_mock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/rng.h"
#include "core/text.h"
#include "core/utf8.h"
#include "device/arm_tuner.h"
#include "device/mock/mock_compute.h"
#include "device/mock/mock_program.h"
#include "device/mock/operation.h"
#include "device/call.h"

/* Recorded iterations that products are of, and sizes of a collective: the room
 * of all who ask for them. */
enum { MAX_SETTINGS = 512, MAX_SIZES = 4096 };

/* libnccl, and its communicators. */
struct library {
    struct mock_nccl *nccl;
    struct stp_mock_world worlds[1 + STP_MAX_SPLITS]; /* all ranks, then a group
                                                         of each split */
};

struct engine {
    struct mock_machine *machine;
    struct mock_machine *parts[STP_MAX_SPLITS]; /* machines of groups; NULL: of
                                                   one rank */
    struct stp_splits splits;
    struct library own;    /* NCCL without a tuner, or with the one that forces
                              arms */
    struct library plugin; /* empty if there is none */
    bool use_plugin;
    struct stp_device_info info;
    uint64_t memory; /* bytes of a GPU; UINT64_MAX: not known */
    uint64_t taken;
    struct stp_mock_program program;
    struct stp_virtual_time time;
    bool is_endless; /* as many rounds as anybody wants */
    bool traces;
    struct stp_spans spans;
    struct stp_ranges ranges;
};

static enum stp_status mock_fail(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_DEVICE, "%s", mock_last_error());
}

static void mock_info(const void *self, struct stp_device_info *info_ret)
{
    *info_ret = ((const struct engine *)self)->info;
}

/* ---- at once ---- */

/* Addresses begin where no memory is, and are never followed. */
static enum stp_status mock_alloc(void *self, uint64_t nbytes,
                                  const char *purpose, void **address_ret,
                                  struct stp_error *err)
{
    struct engine *e = self;

    if (nbytes > e->memory - e->taken)
        return stp_fail(err, STP_ERR_NOMEM,
                        "no memory on each of %u %s for %s: %.2f GB beside "
                        "%.2f GB, but a GPU has %.2f GB",
                        e->info.n_ranks, e->info.gpu, purpose,
                        (double)nbytes / 1e9, (double)e->taken / 1e9,
                        (double)e->memory / 1e9);
    *address_ret = (void *)(uintptr_t)(e->taken + STP_ENGINE_ALIGN);
    nbytes = (nbytes / STP_ENGINE_ALIGN + 1) * STP_ENGINE_ALIGN;
    e->taken += nbytes <= e->memory - e->taken ? nbytes : e->memory - e->taken;
    return STP_OK;
}

static void mock_release(void *self)
{
    ((struct engine *)self)->taken = 0;
}

static enum stp_status mock_upload(void *self, void *to, const void *from,
                                   uint64_t nbytes, struct stp_error *err)
{
    return STP_OK;
}

static enum stp_status mock_download(void *self, void *to, const void *from,
                                     uint64_t nbytes, struct stp_error *err)
{
    memset(to, 0, nbytes);
    return STP_OK;
}

static enum stp_status mock_agree(void *self, enum stp_status status,
                                  struct stp_error *err)
{
    return status;
}

/* How those of stp_setups run. */
static const int ways[STP_N_SETUPS] = {
    0,
    MOCK_WAY_REG,
    MOCK_WAY_SYM,
    MOCK_WAY_CE,
    MOCK_WAY_STAGE,
    MOCK_WAY_SYM_16,
    MOCK_WAY_SYM_32,
    MOCK_WAY_STAGE_16,
    MOCK_WAY_STAGE_32,
};

static unsigned mock_setups(const struct mock_machine *machine, bool graph)
{
    unsigned setups = 0;

    for (int i = 0; i < STP_N_SETUPS; i++)
        for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
            if (ways[i] == 0 ||
                mock_machine_has_way(machine, (ncclFunc_t)c,
                                     (enum mock_way)ways[i], graph))
                setups |= 1u << i;
    return setups;
}

static enum stp_status mock_select_arm(void *self, const struct stp_arm *arm,
                                       struct stp_error *err)
{
    struct engine *e = self;
    const unsigned has =
        mock_setups(e->machine, false) | mock_setups(e->machine, true);
    int i = 0;

    if (arm->kind == STP_ARM_PLUGIN && e->plugin.nccl == NULL)
        return STP_REFUSE(
            err, "no tuner plugin: the machine was opened without one");
    while (i < STP_N_SETUPS && ((has >> i & 1) == 0 ||
                                !stp_setup_equal(&arm->setup, &stp_setups[i])))
        i++;
    if (i == STP_N_SETUPS || arm->chunk_bytes != 0)
        return STP_REFUSE(err,
                          "arm %s: machine '%s' has no recorded times of it, "
                          "and none are modelled",
                          STP_ARM_TEXT(arm), e->info.machine);
    e->program.way = ways[i];
    stp_mock_begin_arm(&e->time, arm);
    e->use_plugin = arm->kind == STP_ARM_PLUGIN;
    stp_arm_tuner_set(arm);
    return STP_OK;
}

/* ---- noting ---- */

static double mock_bytes(int type, uint64_t n)
{
    return (double)n * stp_type_size(type);
}

/* The bytes that a kernel reads and writes in all. */
static double mock_kernel_bytes(const struct stp_work *work)
{
    const struct stp_cross_entropy *loss = &work->as.cross_entropy;
    const struct stp_update *u = &work->as.update;
    const struct stp_kernel *k = &work->as.kernel;

    if (work->kind == STP_WORK_CROSS_ENTROPY)
        return (loss->gradient ? 2 : 1) *
               mock_bytes(loss->type, (uint64_t)loss->n * loss->classes);
    if (work->kind == STP_WORK_UPDATE)
        return 2 * mock_bytes(u->type, u->n) +
               mock_bytes(u->gradient_type, u->n) +
               (u->copy ? mock_bytes(u->copy_type, u->n) : 0);
    switch (k->kind) {
    case STP_KERNEL_ZERO:
        return (double)k->n;
    case STP_KERNEL_COLUMN_SUM: /* the sums are next to none of them */
        return mock_bytes(k->type, (uint64_t)k->rows * k->columns);
    case STP_KERNEL_FIND_NONFINITE:
        return mock_bytes(k->type, k->n);
    case STP_KERNEL_CAST:
        return mock_bytes(k->type, k->n) + mock_bytes(k->type_to, k->n);
    case STP_KERNEL_SCALE:
        return 2 * mock_bytes(k->type, k->n);
    default: /* STP_KERNEL_RELU_BACKWARD, STP_KERNEL_SUBTRACT */
        return 3 * mock_bytes(k->type, k->n);
    }
}

/* A transfer as the collective of which it is a part; one rank copies. */
static void mock_collect(const struct engine *e, struct stp_work *work)
{
    const struct stp_transfer t = work->as.transfer;
    const unsigned n_ranks =
        t.split > 0 ? e->splits.all[t.split - 1].size : e->info.n_ranks;
    const bool of_parts =
        t.coll == ncclFuncAllGather || t.coll == ncclFuncReduceScatter;
    const uint64_t n = of_parts ? t.n * n_ranks : t.n;

    if (n_ranks == 1) {
        work->kind = STP_WORK_KERNEL;
        work->as.kernel = (struct stp_kernel){.kind = STP_KERNEL_CAST,
                                              .type = t.type,
                                              .type_to = t.type,
                                              .n = t.in_place ? 0 : t.n};
        return;
    }
    work->kind = STP_WORK_COLLECTIVE;
    work->collective =
        (struct stp_collective){.coll = t.coll,
                                .n_bytes = n * stp_type_size(t.type),
                                .type = t.type,
                                .op = t.op,
                                .root = (unsigned)t.root,
                                .in_place = t.in_place};
}

static enum stp_status mock_note(void *self, const struct stp_work *work,
                                 struct stp_error *err)
{
    struct engine *e = self;
    struct stp_work noted = *work;
    struct stp_product *p = &noted.as.product;
    struct stp_mock_compute compute = {0};

    if (work->kind == STP_WORK_TRANSFER)
        mock_collect(e, &noted);
    if (work->kind == STP_WORK_TRANSFER &&
        (work->as.transfer.n == 0 ||
         (noted.kind == STP_WORK_KERNEL && noted.as.kernel.n == 0)))
        return STP_OK;
    if (noted.kind == STP_WORK_PRODUCT) {
        p->tf32 = p->tf32 && p->gemm.type == STP_TYPE_F32;
        STP_TRY(p->tf32
                    ? stp_mock_gemm_tf32(e->machine, &p->gemm, &compute, err)
                    : stp_mock_gemm(e->machine, &p->gemm, &compute, err));
    } else if (noted.kind > STP_WORK_PRODUCT) {
        compute = stp_mock_kernel(e->machine, mock_kernel_bytes(&noted));
    }
    noted.range = stp_ranges_now(&e->ranges);
    return stp_mock_program_add(&e->program, &noted, compute, err);
}

/* ---- groups of ranks ---- */

static enum stp_status mock_split_library(struct library *library,
                                          const struct mock_machine *machine,
                                          unsigned number,
                                          struct stp_error *err)
{
    struct stp_mock_world *world = &library->worlds[number];

    if (library->nccl == NULL)
        return STP_OK;
    world->machine = machine;
    return mock_comm_split(library->worlds[0].comm, machine, 0, 0,
                           &world->comm) == ncclSuccess
               ? STP_OK
               : mock_fail(err);
}

/* The first group stands for all.  A group of one rank has no machine: there is
 * nothing to run.  A machine that is modelled for more has neighbours that
 * share nodes. */
static enum stp_status mock_split(void *self,
                                  const struct stp_rank_groups *groups,
                                  struct stp_error *err)
{
    struct engine *e = self;
    const unsigned per_node = e->info.n_ranks / e->info.n_nodes;
    const unsigned size = groups->size;
    struct mock_machine *part = NULL;
    unsigned n_nodes = 1;
    enum stp_status status;

    if (size > 1 &&
        mock_machine_resize(e->machine, (int)size, &part) != ncclSuccess)
        return mock_fail(err);
    for (unsigned i = 1; i < size; i++)
        n_nodes += i * groups->stride / per_node !=
                   (i - 1) * groups->stride / per_node;
    if (part != NULL && (int)n_nodes != mock_machine_get_info(part)->n_nodes) {
        mock_machine_free(part);
        return STP_REFUSE(err,
                          "groups of %u ranks that are %u apart are on several "
                          "nodes of %s: no machine is modelled for them",
                          size, groups->stride, e->info.machine);
    }
    status = stp_splits_add(&e->splits, groups, err);
    if (status != STP_OK) {
        mock_machine_free(part);
        return status;
    }
    e->parts[e->splits.n - 1] = part;
    if (part == NULL)
        return STP_OK;
    status = mock_split_library(&e->own, part, e->splits.n, err);
    return status == STP_OK
               ? mock_split_library(&e->plugin, part, e->splits.n, err)
               : status;
}

/* Makes all communicators of the plugin's library anew. */
static enum stp_status mock_reload_plugin(void *self, struct stp_error *err)
{
    struct engine *e = self;
    struct library *library = &e->plugin;
    enum stp_status status = STP_OK;

    for (unsigned i = 0; i <= STP_MAX_SPLITS; i++) {
        mock_comm_destroy(library->worlds[i].comm);
        library->worlds[i].comm = NULL;
    }
    if (mock_comm_create(library->nccl, e->machine, mock_new_comm_id(),
                         &library->worlds[0].comm) != ncclSuccess)
        return mock_fail(err);
    for (unsigned i = 0; i < e->splits.n; i++)
        if (e->parts[i] != NULL)
            STP_THEN(status,
                     mock_split_library(library, e->parts[i], i + 1, err));
    if (e->time.stalls > 0)
        e->time.seed = stp_hash(e->time.seed, 0); /* other draws */
    return status;
}

/* ---- order and time ---- */

static struct library *mock_library_in_use(struct engine *e)
{
    return e->use_plugin ? &e->plugin : &e->own;
}

static enum stp_status mock_synchronise(void *self, struct stp_error *err)
{
    struct engine *e = self;
    const struct stp_program *noted = &e->program.noted;
    const size_t first = e->spans.n;

    if (noted->ran || noted->n_notes == 0)
        return STP_OK; /* nothing was noted since */
    e->program.worlds = mock_library_in_use(e)->worlds;
    STP_TRY(stp_mock_run(&e->program, &e->time, err));
    if (!e->traces)
        return STP_OK;
    STP_TRY(stp_program_add_spans(noted, &e->spans, err));
    for (size_t i = 0; i < noted->n_notes; i++) {
        e->spans.all[first + i].begin_us = e->program.tasks[i].begin_us;
        e->spans.all[first + i].end_us = e->program.tasks[i].end_us;
    }
    return STP_OK;
}

static enum stp_status mock_elapsed_us(const void *self, unsigned from,
                                       unsigned to, double *us_ret,
                                       struct stp_error *err)
{
    const struct engine *e = self;

    *us_ret = e->program.events[to].us - e->program.events[from].us;
    return STP_OK;
}

static double mock_now_us(const void *self)
{
    return ((const struct engine *)self)->time.now_us;
}

/* ---- tracing ---- */

static enum stp_status mock_trace_begin(void *self, struct stp_error *err)
{
    ((struct engine *)self)->traces = true;
    return STP_OK;
}

static enum stp_status mock_trace_end(void *self, struct stp_spans *spans,
                                      struct stp_error *err)
{
    struct engine *e = self;

    e->traces = false;
    return stp_spans_move(&e->spans, spans, err);
}

static void mock_range(void *self, const char *name)
{
    stp_ranges_mark(&((struct engine *)self)->ranges, name);
}

/* ---- measuring ---- */

static void mock_rank_line(const void *self, unsigned rank, char *line,
                           size_t size)
{
    const struct engine *e = self;
    const struct mock_machine_info *m = mock_machine_get_info(e->machine);

    snprintf(line, size, " Rank %2u on %10s device %2d [mock_nccl] %s", rank,
             m->name, (int)rank % (m->n_ranks / m->n_nodes), m->gpu);
}

static size_t mock_sizes(const void *self, int coll, uint64_t *sizes,
                         size_t max)
{
    const struct engine *e = self;

    return mock_machine_sizes(e->machine, (ncclFunc_t)coll, e->program.graph,
                              sizes, max);
}

static size_t mock_overlaps(const void *self, int coll,
                            struct stp_device_overlap *overlaps, size_t max)
{
    static const int modes[] = {STP_MODE_OVERLAP, STP_MODE_FSDP,
                                STP_MODE_SEQUENTIAL}; /* as enum mock_mode */
    struct mock_overlap_setting all[MAX_SETTINGS];
    const struct engine *e = self;
    const size_t n_all =
        mock_machine_overlap_settings(e->machine, all, MAX_SETTINGS);
    size_t n = 0;

    for (size_t i = 0; i < n_all && i < MAX_SETTINGS; i++) {
        const struct mock_overlap_setting *s = &all[i];

        if ((int)s->coll != coll || s->k == 0)
            continue;
        if (n < max)
            overlaps[n] = (struct stp_device_overlap){
                modes[s->mode], s->n_bytes, {s->m, s->n, s->k, STP_TYPE_BF16}};
        n++;
    }
    return n;
}

static enum stp_status mock_begin_round(void *self, unsigned round,
                                        unsigned n_rounds,
                                        struct stp_error *err)
{
    struct engine *e = self;
    const unsigned most = e->info.max_rounds;

    if (most > 0 &&
        ((round >= n_rounds && !e->info.repeats_rounds) || n_rounds > most))
        return STP_REFUSE(err, "%u rounds, but machine '%s' has %u", n_rounds,
                          e->info.machine, e->info.max_rounds);
    stp_mock_begin_round(&e->time, round, most > 0 ? n_rounds : 0);
    return STP_OK;
}

/* Collectives run, and vectors are added, in any type. */
static enum stp_status mock_check(void *self, const struct stp_work *work,
                                  struct stp_error *err)
{
    return work->kind == STP_WORK_GEMM
               ? stp_mock_check_gemm(((const struct engine *)self)->machine,
                                     &work->gemm, err)
               : STP_OK;
}

/* An address as alloc() gives them. */
static enum stp_status mock_room(void *self, enum stp_room room,
                                 unsigned stream, int type, uint64_t nbytes,
                                 void **address_ret, struct stp_error *err)
{
    *address_ret = (void *)(uintptr_t)STP_ENGINE_ALIGN;
    return STP_OK;
}

static enum stp_status mock_probe(void *self, const struct stp_collective *c,
                                  struct stp_device_run *run_ret,
                                  struct stp_question *question_ret,
                                  struct stp_error *err)
{
    struct engine *e = self;
    const struct mock_call call = stp_mock_call(&e->program, c);
    const struct stp_mock_world *world =
        &mock_library_in_use(e)
             ->worlds[stp_splits_find(&e->splits, &c->groups)];
    struct mock_outcome out;
    struct mock_run run;
    struct mock_time time;

    if (e->program.way != 0 &&
        !mock_machine_has_way(world->machine, call.coll,
                              (enum mock_way)e->program.way,
                              e->program.graph)) {
        *run_ret = (struct stp_device_run){.is_unknown = true};
        return STP_OK;
    }
    if (mock_comm_collective(world->comm, &call, &out) != ncclSuccess)
        return mock_fail(err);
    run = stp_mock_call_run(&e->program, &call, &out);
    if (mock_machine_time(world->machine, &run, e->time.round, 0.5, &time) !=
        ncclSuccess)
        return mock_fail(err);
    *run_ret = (struct stp_device_run){.algo = out.algo,
                                       .proto = out.proto,
                                       .n_channels = out.n_channels,
                                       .source = stp_mock_source(time.source),
                                       .single_pass = time.is_single_pass,
                                       .us = time.us,
                                       .bits = (enum stp_bits)time.bits};
    if (e->program.way != 0) {
        run_ret->algo = run_ret->proto = -1;
        run_ret->n_channels = 0;
        snprintf(run_ret->kernel, sizeof(run_ret->kernel), "%s", time.kernel);
    }
    if (question_ret == NULL)
        return STP_OK;
    *question_ret = (struct stp_question){.n_pipe_ops = 1};
    question_ret->n_bytes = out.asked ? c->n_bytes : 0;
    memcpy(question_ret->cost, out.cost, sizeof(question_ret->cost));
    return STP_OK;
}

static enum stp_status mock_group(void *self, bool begin, struct stp_error *err)
{
    const struct stp_work noted = {.kind = begin ? STP_WORK_GROUP_BEGIN
                                                 : STP_WORK_GROUP_END};

    return mock_note(self, &noted, err);
}

static unsigned mock_use_graphs(void *self, bool uses)
{
    struct engine *e = self;
    const unsigned n = mock_machine_rounds(e->machine, uses);

    e->program.graph = uses;
    e->info.max_rounds = e->is_endless ? 0 : n > 0 ? n : 1; /* 2nd: the same */
    return e->info.max_rounds;
}

static enum stp_source mock_source(const void *self, bool *single_pass_ret)
{
    const struct engine *e = self;

    *single_pass_ret = e->program.single_pass;
    return e->program.source;
}

/* ---- closing ---- */

static void mock_close_library(struct library *library)
{
    for (unsigned i = 0; i <= STP_MAX_SPLITS; i++)
        mock_comm_destroy(library->worlds[i].comm);
    mock_nccl_destroy(library->nccl);
}

static void mock_close(void *self)
{
    struct engine *e = self;

    mock_close_library(&e->own);
    mock_close_library(&e->plugin);
    for (unsigned i = 0; i < e->splits.n; i++)
        mock_machine_free(e->parts[i]);
    mock_machine_free(e->machine);
    stp_mock_program_free(&e->program);
    stp_spans_free(&e->spans);
    free(e);
}

static const struct stp_engine_ops mock_ops = {
    .info = mock_info,
    .alloc = mock_alloc,
    .release = mock_release,
    .upload = mock_upload,
    .download = mock_download,
    .agree = mock_agree,
    .note = mock_note,
    .split = mock_split,
    .synchronise = mock_synchronise,
    .elapsed_us = mock_elapsed_us,
    .now_us = mock_now_us,
    .trace_begin = mock_trace_begin,
    .trace_end = mock_trace_end,
    .range = mock_range,
    .rank_line = mock_rank_line,
    .sizes = mock_sizes,
    .overlaps = mock_overlaps,
    .begin_round = mock_begin_round,
    .select_arm = mock_select_arm,
    .check = mock_check,
    .room = mock_room,
    .probe = mock_probe,
    .group = mock_group,
    .use_graphs = mock_use_graphs,
    .source = mock_source,
    .reload_plugin = mock_reload_plugin,
    .close = mock_close,
};

/* ---- opening ---- */

/* With the tuner 'plugin', the static one, or none. */
static enum stp_status mock_open_library(struct engine *e, const char *plugin,
                                         const ncclTuner_v6_t *tuner,
                                         struct library *library,
                                         struct stp_error *err)
{
    const struct mock_nccl_options options = {
        .version = mock_machine_get_info(e->machine)->nccl,
        .tuner_plugin = plugin,
        .static_tuner = tuner,
        .static_tuner_version = tuner != NULL ? 5 : 0,
        .static_always = tuner != NULL};

    /* One rank stands for all, which our plugins would miss. */
    if (setenv("STEPTUNE_AGREE", "assume", 1) != 0 ||
        mock_nccl_create(&options, &library->nccl) != ncclSuccess ||
        mock_comm_create(library->nccl, e->machine, mock_new_comm_id(),
                         &library->worlds[0].comm) != ncclSuccess)
        return mock_fail(err);
    library->worlds[0].machine = e->machine;
    if (plugin == NULL && tuner == NULL)
        return STP_OK;
    return stp_mock_check_tuner(library->worlds[0].comm, options.version,
                                plugin != NULL ? plugin : tuner->name, err);
}

/* Writes the machine's search graphs, as NCCL does after its search. */
static enum stp_status mock_write_graphs(const char *machine_path,
                                         const char *graphs_file,
                                         struct stp_error *err)
{
    enum { MAX_GRAPHS = 64 << 20 };
    size_t size = strlen(machine_path) + sizeof("/graphs.xml");
    char *path = malloc(size);
    char *text = NULL;
    size_t len = 0;
    enum stp_status status;
    FILE *fp;

    if (path == NULL)
        return stp_nomem(err);
    snprintf(path, size, "%s/graphs.xml", machine_path);
    status = stp_read_file(path, MAX_GRAPHS, &text, &len, err);
    fp = status == STP_OK ? fopen(graphs_file, "w") : NULL;
    if (status == STP_OK &&
        (fp == NULL || fwrite(text, 1, len, fp) != len || fclose(fp) != 0))
        status = stp_fail(err, STP_ERR_IO, "cannot write '%.140s': %s",
                          graphs_file, strerror(errno));
    free(path);
    free(text);
    return status;
}

static void mock_fill_info(struct engine *e, bool measures)
{
    static const char *const times[2][2] = {
        {"modelled times of collectives and compute, in virtual time: nothing "
         "was trained. " STP_MODEL_WORDS,
         "collectives of a recorded machine in mock NCCL, modelled compute, in "
         "virtual time: nothing was trained"},
        {"times modelled by NCCL's cost model, nothing "
         "measured. " STP_MODEL_WORDS,
         "a recorded machine in mock NCCL, not a live measurement"},
    };
    const struct mock_machine_info *m = mock_machine_get_info(e->machine);
    struct stp_device_info *info = &e->info;
    char gpus[STP_GPUS_TEXT];

    *info = (struct stp_device_info){
        .n_ranks = (unsigned)m->n_ranks,
        .n_gpus = (unsigned)m->n_gpus,
        .n_nodes = (unsigned)m->n_nodes,
        .compute_capability = m->compute_capability,
        .has_arms = measures,
        .setups = mock_setups(e->machine, e->program.graph),
        .captures = mock_machine_rounds(e->machine, true) > 0 &&
                    mock_machine_captures(e->machine),
        .models_overlap =
            mock_machine_overlap_settings(e->machine, NULL, 0) == 0,
        .has_tf32 = stp_mock_has_tf32(e->machine)};
    stp_printable(m->name, strlen(m->name), info->machine,
                  sizeof(info->machine));
    stp_printable(m->gpu, strlen(m->gpu), info->gpu, sizeof(info->gpu));
    snprintf(info->processor, sizeof(info->processor), "%s", info->gpu);
    snprintf(info->nccl, sizeof(info->nccl), "%s", m->nccl);
    snprintf(info->backend, sizeof(info->backend), "nccl");
    snprintf(info->cpu_vendor, sizeof(info->cpu_vendor), "%s", m->cpu_vendor);
    stp_gpus_text(info->n_ranks, info->n_gpus, info->gpu, gpus);
    snprintf(info->what, sizeof(info->what), "%s%s%s: %s, NCCL %s%s%s; %s",
             info->machine, m->resized ? " resized" : "",
             m->assumes_tree ? " with assumed trees" : "", gpus, m->nccl,
             m->calibration[0] != '\0' ? ", calibrated to " : "",
             m->calibration,
             times[measures][mock_machine_has_timings(e->machine)]);
    stp_arm_tuner_describe(info);
}

/* Lowers a number of rounds to that of others, if there are any. */
static void mock_lower(unsigned n_others, unsigned *n_rounds)
{
    if (n_others > 0 && n_others < *n_rounds)
        *n_rounds = n_others;
}

enum stp_status stp_mock_open(const char *machine_path, unsigned n_ranks,
                              uint64_t seed,
                              const struct stp_device_options *options,
                              struct stp_engines *engines_ret,
                              struct stp_error *err)
{
    const ncclTuner_v6_t *tuner = options->measures ? &stp_arm_tuner : NULL;
    struct engine *e = calloc(1, sizeof(*e));
    struct mock_machine *resized;
    enum stp_status status = STP_OK;

    if (e == NULL)
        return stp_nomem(err);
    if (mock_machine_load(machine_path, &e->machine) != ncclSuccess) {
        status = mock_fail(err);
    } else if (n_ranks != 0 &&
               n_ranks !=
                   (unsigned)mock_machine_get_info(e->machine)->n_ranks) {
        if (mock_machine_resize(e->machine, (int)n_ranks, &resized) ==
            ncclSuccess) {
            mock_machine_free(e->machine);
            e->machine = resized;
        } else {
            status = mock_fail(err);
        }
    }
    if (status == STP_OK && options->graph &&
        mock_machine_rounds(e->machine, true) == 0)
        status = STP_REFUSE(err,
                            "machine '%s' has no recorded times of CUDA "
                            "graphs, and none are modelled",
                            mock_machine_get_info(e->machine)->name);
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && status == STP_OK; c++)
        if (mock_machine_sizes(e->machine, (ncclFunc_t)c, options->graph, NULL,
                               0) > MAX_SIZES ||
            mock_machine_overlap_settings(e->machine, NULL, 0) > MAX_SETTINGS)
            status = stp_fail(err, STP_ERR_LIMIT,
                              "%s: more than %d sizes of a collective in "
                              "timings.csv, or %d workloads in overlap.csv",
                              machine_path, MAX_SIZES, MAX_SETTINGS);
    STP_THEN(status,
             stp_arm_tuner_begin("none", /* as it is not this machine */
                                 mock_release_newest_tuner(
                                     mock_machine_get_info(e->machine)->nccl),
                                 err));
    STP_THEN(status, mock_open_library(e, NULL, tuner, &e->own, err));
    if (options->plugin != NULL)
        STP_THEN(status,
                 mock_open_library(e, options->plugin, NULL, &e->plugin, err));
    if (options->graphs_file != NULL)
        STP_THEN(status,
                 mock_write_graphs(machine_path, options->graphs_file, err));
    if (status != STP_OK) {
        mock_close(e);
        return status;
    }
    e->program.graph = options->graph;
    e->is_endless = options->endless;
    mock_fill_info(e, options->measures);
    /* iterations of one launch, of both, or recorded ones */
    e->info.max_iteration_rounds = mock_use_graphs(e, options->graph);
    mock_lower(mock_machine_rounds(e->machine, !options->graph),
               &e->info.max_iteration_rounds);
    mock_lower(mock_machine_overlap_rounds(e->machine),
               &e->info.max_iteration_rounds);
    e->memory = stp_mock_memory(e->machine);
    if (e->memory == 0)
        e->memory = UINT64_MAX;
    e->time = (struct stp_virtual_time){.seed = seed,
                                        .round = options->measures ? 0 : 0.5,
                                        .stall = 1,
                                        .stalls = options->stalls};
    if (options->stalls > 0 && options->plugin != NULL)
        e->time.seed = stp_hash(seed, 0); /* not what was measured without it */
    e->info.repeats_rounds = options->stalls > 0 || options->endless;
    *engines_ret = (struct stp_engines){.all = {{.ops = &mock_ops, .self = e}},
                                        .n_per_thread = 1};
    return STP_OK;
}
