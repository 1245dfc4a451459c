#include "bench/workload.h"

#include "bench/traced_step.h"
#include "core/text.h"
#include "device/device.h"
#include "nccl_tuner_abi.h"

static const char *const mode_names[STP_N_MODES] = {
    [STP_MODE_ALONE] = "alone",     [STP_MODE_SEQUENTIAL] = "sequential",
    [STP_MODE_OVERLAP] = "overlap", [STP_MODE_FSDP] = "fsdp",
    [STP_MODE_TRACE] = "trace",
};

static const char *const compute_names[STP_N_COMPUTES] = {
    [STP_COMPUTE_GEMM] = "gemm",
    [STP_COMPUTE_TRAINING] = "training",
};

/* One layer's compute in one pass, in this order. */
struct pass {
    unsigned elementwise_before;
    unsigned gemms;
    unsigned elementwise_behind;
};

/* A pass without products is none. */
static const struct {
    struct pass forward;
    struct pass backward; /* the collectives go with this one */
} passes[STP_N_COMPUTES] = {
    [STP_COMPUTE_GEMM] = {.backward = {0, 1, 0}},
    [STP_COMPUTE_TRAINING] = {.forward = {0, 1, 1}, .backward = {1, 2, 0}},
};

/* An iteration that is being noted.  The first failure stays. */
struct noting {
    const struct stp_device *device;
    const struct stp_workload *work;
    const struct stp_collective *what;
    unsigned event; /* the next that is free */
    enum stp_status status;
    struct stp_error *err;
};

/* ---- names and order ---- */

const char *stp_mode_name(int mode)
{
    return mode_names[mode];
}

const char *stp_compute_name(int compute)
{
    return compute_names[compute];
}

int stp_mode_from_name(const char *word, size_t len)
{
    return stp_find_word(mode_names, STP_N_MODES, word, len);
}

int stp_compute_from_name(const char *word, size_t len)
{
    return stp_find_word(compute_names, STP_N_COMPUTES, word, len);
}

int stp_workload_order(const struct stp_workload *a,
                       const struct stp_workload *b)
{
    STP_RETURN_ORDER(STP_ORDER(a->mode, b->mode));
    STP_RETURN_ORDER(STP_ORDER(a->compute, b->compute));
    STP_RETURN_ORDER(STP_ORDER(a->layers, b->layers));
    STP_RETURN_ORDER(STP_ORDER(a->ratio, b->ratio));
    if (a->ratio != 0)
        return 0; /* the products were fitted to it */
    STP_RETURN_ORDER(STP_ORDER(a->gemm.m, b->gemm.m));
    STP_RETURN_ORDER(STP_ORDER(a->gemm.n, b->gemm.n));
    return STP_ORDER(a->gemm.k, b->gemm.k);
}

/* ---- parts ---- */

static void workload_compute(struct noting *n, unsigned stream,
                             const struct pass *pass)
{
    const struct stp_gemm *gemm = &n->work->gemm;
    uint64_t n_bytes = (uint64_t)gemm->m * gemm->n * stp_type_size(gemm->type);

    for (unsigned i = 0; i < pass->elementwise_before; i++)
        STP_DEVICE_NOTE(n, ELEMENTWISE, stream, .n_bytes = n_bytes);
    for (unsigned i = 0; i < pass->gemms; i++)
        STP_DEVICE_NOTE(n, GEMM, stream, .gemm = *gemm);
    for (unsigned i = 0; i < pass->elementwise_behind; i++)
        STP_DEVICE_NOTE(n, ELEMENTWISE, stream, .n_bytes = n_bytes);
}

static void workload_collective(struct noting *n, unsigned stream, int coll)
{
    struct stp_collective what = *n->what;

    what.coll = coll;
    STP_DEVICE_NOTE(n, COLLECTIVE, stream, .collective = what);
}

/* The event by which all that is noted in a stream so far is done. */
static unsigned workload_mark(struct noting *n, unsigned stream)
{
    STP_DEVICE_NOTE(n, RECORD, stream, .event = n->event);
    return n->event++;
}

/* Makes 'to' wait for all that is noted in 'from'. */
static void workload_join(struct noting *n, unsigned from, unsigned to)
{
    const unsigned event = workload_mark(n, from);

    STP_DEVICE_NOTE(n, WAIT, to, .event = event);
}

/* ---- modes ---- */

/* Notes a pass of fsdp: each layer's parameters are gathered while the layer
 * before it computes. */
static void workload_note_fsdp_pass(struct noting *n, const struct pass *pass,
                                    bool scatters)
{
    unsigned layers = n->work->layers;
    unsigned gathered = 0;

    for (unsigned i = 0; i <= layers; i++) {
        if (i > 0)
            STP_DEVICE_NOTE(n, WAIT, STP_STREAM_MAIN, .event = gathered);
        if (i < layers) {
            workload_collective(n, STP_STREAM_COMM, ncclFuncAllGather);
            gathered = workload_mark(n, STP_STREAM_COMM);
        }
        if (i > 0)
            workload_compute(n, STP_STREAM_MAIN, pass);
        if (i == 0 || !scatters)
            continue;
        workload_join(n, STP_STREAM_MAIN, STP_STREAM_COMM);
        workload_collective(n, STP_STREAM_COMM, ncclFuncReduceScatter);
    }
}

/* ---- the interface ---- */

size_t
stp_workload_collectives(const struct stp_workload *work,
                         const struct stp_collective *what,
                         struct stp_collective colls[STP_MAX_LAYER_COLLS])
{
    const bool is_fsdp = work->mode == STP_MODE_FSDP;
    const size_t n_passes = passes[work->compute].forward.gemms > 0 ? 2 : 1;
    const size_t n_gathers = is_fsdp ? n_passes : 0;

    for (size_t i = 0; i <= n_gathers; i++) {
        colls[i] = *what;
        if (is_fsdp)
            colls[i].coll =
                i < n_gathers ? ncclFuncAllGather : ncclFuncReduceScatter;
    }
    return n_gathers + 1;
}

enum stp_status stp_workload_note_compute(const struct stp_device *device,
                                          const struct stp_workload *work,
                                          unsigned stream,
                                          struct stp_error *err)
{
    struct noting n = {.device = device, .work = work, .err = err};

    if (work->step != NULL)
        return stp_traced_step_note_compute(device, work->step, stream, err);
    workload_compute(&n, stream, &passes[work->compute].forward);
    workload_compute(&n, stream, &passes[work->compute].backward);
    return n.status;
}

unsigned stp_workload_events(const struct stp_workload *work)
{
    const unsigned n_of_layer = passes[work->compute].forward.gemms > 0 ? 3 : 2;

    if (work->mode == STP_MODE_TRACE)
        return work->step->program.n_events;
    if (work->mode == STP_MODE_FSDP)
        return n_of_layer * work->layers + 2;
    return work->mode == STP_MODE_OVERLAP ? work->layers + 1 : 0;
}

enum stp_status stp_workload_note(const struct stp_device *device,
                                  const struct stp_workload *work,
                                  const struct stp_collective *what,
                                  unsigned event, struct stp_error *err)
{
    struct noting n = {.device = device,
                       .work = work,
                       .what = what,
                       .event = event,
                       .err = err};

    const struct pass *forward = &passes[work->compute].forward;
    const struct pass *backward = &passes[work->compute].backward;
    const bool overlaps = work->mode == STP_MODE_OVERLAP;
    const unsigned stream = overlaps ? STP_STREAM_COMM : STP_STREAM_MAIN;
    const unsigned layers = work->layers;

    if (work->mode == STP_MODE_TRACE)
        return stp_traced_step_note(device, work->step, event, err);
    if (work->mode == STP_MODE_FSDP) {
        workload_join(&n, STP_STREAM_MAIN,
                      STP_STREAM_COMM); /* not before the iteration */
        if (forward->gemms > 0)
            workload_note_fsdp_pass(&n, forward, false);
        workload_note_fsdp_pass(&n, backward, true);
        workload_join(&n, STP_STREAM_COMM, STP_STREAM_MAIN);
        return n.status;
    }
    for (unsigned i = 0; i < layers; i++)
        workload_compute(&n, STP_STREAM_MAIN, forward);
    for (unsigned i = 0; i < layers; i++) {
        workload_compute(&n, STP_STREAM_MAIN, backward);
        if (!overlaps)
            continue;
        workload_join(&n, STP_STREAM_MAIN, stream);
        workload_collective(&n, stream, what->coll);
    }
    for (unsigned i = 0; i < layers && !overlaps; i++)
        workload_collective(&n, stream, what->coll);
    if (overlaps)
        workload_join(&n, stream, STP_STREAM_MAIN);
    return n.status;
}
