/* job_kernels.c - reports kernels to the profilers of a job's ranks */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "support/job/state.h"

/* ---- measured values ---- */

/* Measured on 4 x H200, NCCL 2.28.9, with a profiler that recorded all events.
 */
const struct mock_job_gpu_clocks mock_job_h200_clocks = {
    .offset_us = 500,
    .drift_ppm = 10,     /* 7 to 9 on 2 x H200 */
    .heard_late_us = 12, /* 4 to 15 us, at least 1, and up to 100 */
    .pause_every_us = 100000,
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

/* Pauses of the thread that reports events, us. Measured on 2 x H200 in 8
 * PyTorch jobs of 0.6 to 7.6 s: 0.6 to 20 pauses a second. */
static const struct {
    double share;
    double least;
    double most;
} pauses[] = {
    {0.7, 50, 500},
    {0.3, 3000, 4000},
};
enum { N_PAUSES = sizeof(pauses) / sizeof(pauses[0]) };

/* NCCL keeps the times of so many kernels of a channel. */
enum { N_KEPT = 64 };

enum { GRAPH, BEGIN, END }; /* the events of a kernel */

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
static struct span job_kernels_get(const struct mock_job *job, int r, size_t i)
{
    const struct mock_job_run *run = &job->pass.runs[i];
    const double *late = &job->pass.late_us[i * (size_t)job->n_ranks];
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

/* ---- pauses ---- */

static double job_kernels_draw_pause(const struct mock_job *job, uint64_t n,
                                     uint64_t r)
{
    double kind = mock_job_random(job, MOCK_JOB_PAUSE_KIND, n, r);
    int i = 0;

    while (i < N_PAUSES - 1 && kind >= pauses[i].share)
        kind -= pauses[i++].share;
    return pauses[i].least + (pauses[i].most - pauses[i].least) *
                                 mock_job_random(job, MOCK_JOB_PAUSE, n, r);
}

/* Gaps between pauses are exponential. */
static void job_kernels_plan_pause(const struct mock_job *job, int r)
{
    struct mock_job_rank *rank = &job->ranks[r];
    uint64_t n = rank->n_pauses++;
    double gap =
        -job->options.gpu_clocks.pause_every_us *
        log1p(-mock_job_random(job, MOCK_JOB_PAUSE_GAP, n, (uint64_t)r));

    rank->pause_us[0] = rank->pause_us[1] + gap;
    rank->pause_us[1] =
        rank->pause_us[0] + job_kernels_draw_pause(job, n, (uint64_t)r);
}

/* When the thread that reports runs: at 'us', or after a pause.  Later for
 * later times of a rank. */
static double job_kernels_wait(const struct mock_job *job, int r, double us)
{
    struct mock_job_rank *rank = &job->ranks[r];

    if (job->options.gpu_clocks.pause_every_us <= 0)
        return us;
    while (us >= rank->pause_us[1])
        job_kernels_plan_pause(job, r);
    return us >= rank->pause_us[0] ? rank->pause_us[1] : us;
}

/* ---- planning ---- */

static bool job_kernels_is_lost(const struct mock_job *job,
                                enum mock_job_purpose purpose, double share,
                                uint64_t pass, uint64_t place)
{
    return share > 0 && mock_job_random(job, purpose, pass, place) < share;
}

static struct mock_job_kernel *
job_kernels_get_kernel(const struct mock_job_rank *rank, size_t i)
{
    return &rank->kernels[(rank->oldest + i) & (rank->room - 1)];
}

static ncclResult_t job_kernels_make_room(struct mock_job_rank *rank)
{
    size_t room = rank->room > 0 ? 2 * rank->room : N_KEPT;
    struct mock_job_kernel *kernels;

    if (rank->n_kernels < rank->room)
        return ncclSuccess;
    kernels = calloc(room, sizeof(*kernels));
    if (kernels == NULL)
        return mock_fail_memory();
    for (size_t i = 0; i < rank->n_kernels; i++)
        kernels[i] = *job_kernels_get_kernel(rank, i);
    free(rank->kernels);
    rank->kernels = kernels;
    rank->room = room;
    rank->oldest = 0;
    return ncclSuccess;
}

/* One thread of a rank reports all its kernels, in order; CUDA's, which calls
 * back for a graph, is not ahead of it. */
static void job_kernels_plan_events(const struct mock_job *job, int r,
                                    const struct mock_job_run *run,
                                    struct mock_job_kernel *kernel)
{
    struct mock_job_rank *rank = &job->ranks[r];
    double last = fmax(rank->last_event_us, 0);

    kernel->event_us[GRAPH] = fmax(last, kernel->gpu_us[0]);
    for (size_t k = 0; k < 2; k++) {
        double us = run->start_us + run->us;

        if (job->options.gpu_clocks.heard_late_us > 0)
            us = kernel->gpu_us[k] +
                 job_kernels_draw_delay(job, kernel->pass,
                                        kernel->place * 2 + k);
        last = fmax(last, job_kernels_wait(job, r, us));
        kernel->event_us[BEGIN + k] = last;
    }
    rank->last_event_us = last;
}

static ncclResult_t job_kernels_plan_rank(struct mock_job *job, int r, size_t i)
{
    const struct mock_job_pass *pass = &job->pass;
    struct mock_job_rank *rank = &job->ranks[r];
    struct mock_cuda_graph **graphs = rank->graphs[pass->shape];
    struct span span = job_kernels_get(job, r, i);
    ncclResult_t rc = job_kernels_make_room(rank);
    struct mock_job_kernel *kernel;

    if (rc != ncclSuccess)
        return rc;
    kernel = job_kernels_get_kernel(rank, rank->n_kernels++);
    kernel->outcome = pass->outcomes[(size_t)r * job->largest + i];
    kernel->graph = graphs != NULL ? graphs[i] : NULL;
    kernel->number = job->n_kernels;
    kernel->pass = pass->number;
    kernel->place = i * (size_t)job->n_ranks + (size_t)r;
    kernel->gpu_us[0] = span.begin_us;
    kernel->gpu_us[1] = span.end_us;
    kernel->stage = kernel->graph != NULL ? GRAPH : BEGIN;
    job_kernels_plan_events(job, r, &pass->runs[i], kernel);
    return ncclSuccess;
}

ncclResult_t mock_job_plan_kernels(struct mock_job *job, size_t i)
{
    const struct mock_job_pass *pass = &job->pass;
    bool is_lost = job_kernels_is_lost(
        job, MOCK_JOB_LOST_EVENT, job->options.lost_events, pass->number, i);
    ncclResult_t rc = ncclSuccess;

    for (int r = 0; r < job->n_ranks && rc == ncclSuccess && !is_lost; r++)
        if (pass->outcomes[(size_t)r * job->largest + i].is_timed)
            rc = job_kernels_plan_rank(job, r, i);
    job->n_kernels++;
    return rc;
}

/* ---- telling ---- */

/* The kernel whose time NCCL reports for the rank's oldest: a later one may
 * have replaced it by then. */
static const struct mock_job_kernel *
job_kernels_find_kept(const struct mock_job_rank *rank, int stage)
{
    const struct mock_job_kernel *oldest = job_kernels_get_kernel(rank, 0);
    const struct mock_job_kernel *kept = oldest;

    for (size_t i = 1; i < rank->n_kernels; i++) {
        const struct mock_job_kernel *later = job_kernels_get_kernel(rank, i);

        if (later->gpu_us[stage - BEGIN] > oldest->event_us[stage])
            break;
        if ((later->number - oldest->number) % N_KEPT == 0)
            kept = later;
    }
    return kept;
}

static void job_kernels_tell(const struct mock_job *job, int r,
                             struct mock_job_kernel *kernel)
{
    const struct mock_job_rank *rank = &job->ranks[r];
    struct mock_channel_time times[MOCK_MAX_CHANNELS];
    const struct mock_job_kernel *kept =
        job_kernels_find_kept(rank, kernel->stage);
    uint64_t start_ns = job_kernels_to_gpu_ns(job, r, kept->gpu_us[0]);
    uint64_t ns =
        job_kernels_to_gpu_ns(job, r, kept->gpu_us[kernel->stage - BEGIN]);

    for (int c = 0; c < kernel->outcome.n_channels; c++) {
        bool is_lost = job_kernels_is_lost(
            job, MOCK_JOB_LOST_CHANNEL, job->options.lost_channels,
            kernel->pass, kernel->place * MOCK_MAX_CHANNELS + (uint64_t)c);

        times[c] = (struct mock_channel_time){start_ns, is_lost ? 0 : ns, 0, 0};
    }
    if (kernel->stage == BEGIN)
        mock_comm_kernel_began(rank->comm, &kernel->outcome, times,
                               kernel->handles);
    else
        mock_comm_kernel_ended(rank->comm, &kernel->outcome, times,
                               kernel->handles);
}

static void job_kernels_report(const struct mock_job *job, int r)
{
    struct mock_job_rank *rank = &job->ranks[r];
    struct mock_job_kernel *kernel = job_kernels_get_kernel(rank, 0);

    mock_job_clock(kernel->event_us[kernel->stage]);
    if (kernel->stage == GRAPH)
        mock_graph_call_back(kernel->graph, &kernel->outcome);
    else
        job_kernels_tell(job, r, kernel);
    if (kernel->stage++ < END)
        return;
    rank->oldest++;
    rank->n_kernels--;
}

/* Among events of one time the older kernel comes first, then the lower rank.
 */
static int job_kernels_find_next(const struct mock_job *job, double *us_ret)
{
    uint64_t number = 0;
    int next = -1;

    for (int r = 0; r < job->n_ranks; r++) {
        const struct mock_job_rank *rank = &job->ranks[r];
        const struct mock_job_kernel *kernel;
        double us;

        if (rank->n_kernels == 0)
            continue;
        kernel = job_kernels_get_kernel(rank, 0);
        us = kernel->event_us[kernel->stage];
        if (next >= 0 &&
            (us > *us_ret || (us == *us_ret && kernel->number >= number)))
            continue;
        next = r;
        number = kernel->number;
        *us_ret = us;
    }
    return next;
}

void mock_job_report_kernels(struct mock_job *job, double until_us)
{
    double us = 0;

    for (;;) {
        int r = job_kernels_find_next(job, &us);

        if (r < 0 || us > until_us)
            return;
        job_kernels_report(job, r);
    }
}

void mock_job_report_rank(struct mock_job *job, int r, double until_us)
{
    const struct mock_job_rank *rank = &job->ranks[r];

    while (rank->n_kernels > 0) {
        const struct mock_job_kernel *kernel = job_kernels_get_kernel(rank, 0);

        if (kernel->event_us[kernel->stage] > until_us)
            return;
        job_kernels_report(job, r);
    }
}
