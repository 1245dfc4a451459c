/* job_kernels.c - reports kernels to the profilers of a job's ranks */
#include <math.h>
#include <stdlib.h>

#include "job/state.h"

/* ---- measured values ---- */

/* Measured on 4 x H200, NCCL 2.28.9, with a profiler that recorded all events.
 */
const struct mock_job_gpu_clocks mock_job_h200_clocks = {
    .offset_us = 500,
    .drift_ppm = 5,
    .heard_late_us = 12, /* 4 to 15 us, at least 1, and up to 100 */
    .tree_ends = true,
};

/* Delays of events, relative to heard_late_us. The bounds are measured, the
 * shares are estimates. */
static const struct {
    double share;
    double least;
    double most;
} lateness[] = {
    {0.88, 4 / 12., 15 / 12.},
    {0.10, 1 / 12., 4 / 12.},
    {0.02, 15 / 12., 100 / 12.},
};
enum { N_LATENESS = sizeof(lateness) / sizeof(lateness[0]) };

/*
 * The end of the first and of the last rank's kernels as a share of a tree's
 * duration; the other ranks lie between them. A block ends with its thread 0,
 * which belongs to the half that reduces upwards. Measured for ranks 0 to 3: 16
 * MiB ll128 .82 .81 .79 .66; 16 MiB simple .69 .53 .38 .21; 1 MiB ll128 .47
 * (rank 0); the ends of rings agree within 1 us. LL has the values of LL128.
 */
static const struct {
    double first;
    double last;
} tree_end[NCCL_NUM_PROTOCOLS] = {
    [NCCL_PROTO_LL] = {0.82, 0.66},
    [NCCL_PROTO_LL128] = {0.82, 0.66},
    [NCCL_PROTO_SIMPLE] = {0.69, 0.21},
};

/* ---- when ---- */

/* GPU time of the job's time, which the host's clock shows. */
struct span {
    double begin_us;
    double end_us;
};

static double job_kernels_get_tree_share(const struct mock_job *job, int proto,
                                         int r)
{
    int last = job->n_ranks > 1 ? job->n_ranks - 1 : 1;
    double first = tree_end[proto].first;

    return first + (tree_end[proto].last - first) * r / last;
}

/* A rank's kernel begins at the last rank's start minus the rank's wait. */
static struct span job_kernels_get(const struct mock_job *job,
                                   const struct mock_job_pass *pass, int r,
                                   size_t i)
{
    const struct mock_job_run *run = &pass->runs[i];
    const double *late = &pass->late_us[i * (size_t)job->n_ranks];
    double us = run->us;
    double last = 0;

    for (int k = 0; k < job->n_ranks; k++)
        last = fmax(last, late[k]);
    if (job->options.gpu_clocks.tree_ends && run->run.algo == NCCL_ALGO_TREE)
        us *= job_kernels_get_tree_share(job, run->run.proto, r);
    return (struct span){run->start_us - last + late[r], run->start_us + us};
}

/* The offset is a whole number of ns and changes no duration. */
static uint64_t job_kernels_to_gpu_ns(const struct mock_job *job, int r,
                                      double us)
{
    const struct mock_job_gpu_clocks *c = &job->options.gpu_clocks;
    uint64_t rank = (uint64_t)r;
    double ppm = c->drift_ppm *
                 (2 * mock_job_random(job, MOCK_JOB_GPU_DRIFT, 0, rank) - 1);
    double offset_us =
        c->offset_us * 2 * mock_job_random(job, MOCK_JOB_GPU_OFFSET, 0, rank);

    return (uint64_t)(us * (1 + ppm * 1e-6) * 1000) + 1 +
           (uint64_t)(offset_us * 1000);
}

static double job_kernels_draw_delay(const struct mock_job *job, uint64_t pass,
                                     size_t place)
{
    double kind = mock_job_random(job, MOCK_JOB_DELAY_KIND, pass, place);
    int i = 0;

    while (i < N_LATENESS - 1 && kind >= lateness[i].share)
        kind -= lateness[i++].share;
    return job->options.gpu_clocks.heard_late_us *
           (lateness[i].least +
            (lateness[i].most - lateness[i].least) *
                mock_job_random(job, MOCK_JOB_DELAY, pass, place));
}

/* ---- telling ---- */

static bool job_kernels_is_lost(const struct mock_job *job,
                                enum mock_job_purpose purpose, double share,
                                uint64_t pass, uint64_t place)
{
    return share > 0 && mock_job_random(job, purpose, pass, place) < share;
}

/* One thread of a rank reports all its kernels, in order. */
static void job_kernels_add_events(struct mock_job *job,
                                   const struct mock_job_pass *pass, int r,
                                   size_t i,
                                   struct mock_job_event events_ret[2])
{
    const struct mock_job_run *run = &pass->runs[i];
    struct mock_job_rank *rank = &job->ranks[r];
    struct span span = job_kernels_get(job, pass, r, i);
    const double us[2] = {span.begin_us, span.end_us};

    for (size_t k = 0; k < 2; k++) {
        size_t place = (i * (size_t)job->n_ranks + (size_t)r) * 2 + k;

        if (job->options.gpu_clocks.heard_late_us > 0)
            rank->last_event_us =
                fmax(rank->last_event_us,
                     us[k] + job_kernels_draw_delay(job, pass->number, place));
        else
            rank->last_event_us = run->start_us + run->us;
        events_ret[k] = (struct mock_job_event){rank->last_event_us, place};
    }
}

static void job_kernels_tell(struct mock_job *job,
                             const struct mock_job_pass *pass, size_t place)
{
    struct mock_channel_time times[MOCK_MAX_CHANNELS];
    size_t n_ranks = (size_t)job->n_ranks;
    size_t kernel = place / 2; /* index of call and rank */
    size_t i = kernel / n_ranks;
    int r = (int)(kernel % n_ranks);
    const struct mock_outcome *outcome =
        &pass->outcomes[(size_t)r * job->largest + i];
    struct span span = job_kernels_get(job, pass, r, i);
    void **handles = &job->handles[kernel * MOCK_MAX_CHANNELS];

    for (int c = 0; c < outcome->n_channels; c++) {
        times[c].start_ns = job_kernels_to_gpu_ns(job, r, span.begin_us);
        times[c].stop_ns =
            job_kernels_is_lost(job, MOCK_JOB_LOST_CHANNEL,
                                job->options.lost_channels, pass->number,
                                kernel * MOCK_MAX_CHANNELS + (uint64_t)c)
                ? 0
                : job_kernels_to_gpu_ns(job, r, span.end_us);
    }
    if (place % 2 == 0)
        mock_comm_kernel_began(job->ranks[r].comm, outcome, times, handles);
    else
        mock_comm_kernel_ended(job->ranks[r].comm, outcome, times, handles);
}

static int job_kernels_compare_events(const void *a, const void *b)
{
    const struct mock_job_event *x = a;
    const struct mock_job_event *y = b;

    if (x->us != y->us)
        return x->us < y->us ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

void mock_job_report_kernels(struct mock_job *job,
                             const struct mock_job_pass *pass)
{
    size_t n = 0;

    for (size_t i = 0; i < job->shapes[pass->shape].n; i++) {
        if (job_kernels_is_lost(job, MOCK_JOB_LOST_EVENT,
                                job->options.lost_events, pass->number, i))
            continue;
        for (int r = 0; r < job->n_ranks; r++, n += 2)
            job_kernels_add_events(job, pass, r, i, &job->events[n]);
    }
    qsort(job->events, n, sizeof(*job->events), job_kernels_compare_events);
    for (size_t e = 0; e < n; e++) {
        mock_job_clock(job->events[e].us);
        job_kernels_tell(job, pass, job->events[e].place);
    }
}
