/* cpu_streams.c - a run of a program: a thread for each stream, and events */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "device/cpu/cpu.h"
#include "device/cpu/reduce.h"
#include "device/host.h"
#include "nccl_tuner_abi.h"

enum { WATCH_MS = 100 };

struct run {
    struct stp_cpu *cpu;
    pthread_mutex_t lock;   /* of the members below, and of cpu->us[] */
    pthread_cond_t changed; /* for the streams */
    pthread_cond_t ended;   /* for the watching thread: no event wakes it */
    bool met;
    unsigned n_running; /* threads */
    enum stp_status status;
    struct stp_error err;
};

struct lane {
    struct run *run;
    unsigned stream;
    bool first; /* of the streams that have something to do */
    bool started;
    pthread_t thread;
};

/* The one rank of a world gets its own data.  An average is a sum that the
 * ranks which get it divide. */
static enum stp_status cpu_run_collective(struct stp_cpu *e, unsigned stream,
                                          const struct stp_transfer *t,
                                          struct stp_error *err)
{
    const bool averages = t->op == STP_OP_AVG && stp_coll_reduces(t->coll);
    const struct stp_rank_groups groups =
        t->split > 0 ? e->splits.all[t->split - 1]
                     : (struct stp_rank_groups){e->world->size, 1};
    const bool gets =
        t->coll != ncclFuncReduce ||
        t->root == (int)stp_rank_in_group(&groups, e->world->rank);
    struct stp_transfer sum = *t;

    if (e->link == NULL || (t->split > 0 && groups.size == 1)) {
        memmove(t->out, t->in, t->n * stp_type_size(t->type));
        return STP_OK;
    }
    if (t->op == STP_OP_AVG)
        sum.op = STP_OP_SUM;
    STP_TRY(e->transport->collective(e->link, stream, &sum, err));
    if (averages && gets)
        stp_reduce_divide(t->type, t->out, t->n, groups.size);
    return STP_OK;
}

static enum stp_status cpu_run_work(struct stp_cpu *e,
                                    const struct stp_work *work,
                                    struct stp_error *err)
{
    switch (work->kind) {
    case STP_WORK_TRANSFER:
        return cpu_run_collective(e, work->stream, &work->as.transfer, err);
    case STP_WORK_PRODUCT:
        return stp_cpu_product(&work->as.product, &e->scratch[work->stream],
                               err);
    case STP_WORK_CROSS_ENTROPY:
        stp_cpu_cross_entropy(&work->as.cross_entropy);
        return STP_OK;
    case STP_WORK_UPDATE:
        stp_cpu_update(&work->as.update);
        return STP_OK;
    default:
        stp_cpu_kernel(&work->as.kernel);
        return STP_OK;
    }
}

static void run_fail(struct run *run, enum stp_status status,
                     const struct stp_error *err)
{
    pthread_mutex_lock(&run->lock);
    if (run->status == STP_OK) {
        run->err = *err;
        run->status = status;
    }
    pthread_cond_broadcast(&run->changed);
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
}

static void *lane_run(void *user)
{
    const struct lane *lane = user;
    struct run *run = lane->run;
    struct stp_cpu *e = run->cpu;
    struct stp_error err;

    /* One thread waits for the other ranks on behalf of all. */
    if (lane->first && e->link != NULL) {
        const enum stp_status met =
            e->transport->barrier(e->link, lane->stream, &err);

        if (met != STP_OK)
            run_fail(run, met, &err);
    }
    pthread_mutex_lock(&run->lock);
    run->met |= lane->first;
    if (lane->first)
        pthread_cond_broadcast(&run->changed);
    while (!run->met && run->status == STP_OK)
        pthread_cond_wait(&run->changed, &run->lock);
    for (size_t i = 0; i < e->program.n_notes && run->status == STP_OK; i++) {
        const struct stp_work *work = &e->program.notes[i];
        enum stp_status status;
        double us;

        if (work->stream != lane->stream)
            continue;
        if (work->kind == STP_WORK_WAIT) {
            while (e->us[work->event] == 0 && run->status == STP_OK)
                pthread_cond_wait(&run->changed, &run->lock);
            continue;
        }
        us = stp_host_now_us(NULL);
        if (work->kind == STP_WORK_RECORD) {
            e->us[work->event] = us;
            pthread_cond_broadcast(&run->changed);
            continue;
        }
        pthread_mutex_unlock(&run->lock);
        status = cpu_run_work(e, work, &err);
        if (e->trace.on) {
            struct stp_span *span = &e->trace.spans.all[e->trace.begun + i];

            span->begin_us = us;
            span->end_us = stp_host_now_us(NULL);
        }
        if (status != STP_OK)
            run_fail(run, status, &err);
        pthread_mutex_lock(&run->lock);
    }
    run->n_running--;
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

static void run_watch(struct run *run)
{
    const struct stp_world *world = run->cpu->world;
    const unsigned limit_s = run->cpu->time_limit_s;
    const double began_us = stp_host_now_us(NULL);
    struct stp_error err;
    bool failed;

    pthread_mutex_lock(&run->lock);
    while (run->n_running > 0 && run->status == STP_OK) {
        struct timespec until = {0};

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += WATCH_MS * 1000000L;
        if (until.tv_nsec >= 1000000000L) {
            until.tv_nsec -= 1000000000L;
            until.tv_sec++;
        }
        pthread_cond_timedwait(&run->ended, &run->lock, &until);
        if (run->n_running == 0 || run->status != STP_OK)
            break;
        pthread_mutex_unlock(&run->lock);
        /* The run fails if it must end before its time. */
        if (!world->ops->alive(world->self, &err))
            run_fail(run, STP_ERR_DEVICE, &err);
        else if (limit_s != 0 &&
                 stp_host_now_us(NULL) - began_us > limit_s * 1e6)
            run_fail(run,
                     stp_fail(&err, STP_ERR_DEVICE,
                              "not done after %u s, the limit for one run",
                              limit_s),
                     &err);
        pthread_mutex_lock(&run->lock);
    }
    failed = run->status != STP_OK;
    pthread_mutex_unlock(&run->lock);
    if (failed && run->cpu->link != NULL) /* by the first failure: it stays */
        run->cpu->transport->abort(run->cpu->link, run->err.text);
}

enum stp_status stp_cpu_run(struct stp_cpu *cpu, struct stp_error *err)
{
    const struct stp_program *program = &cpu->program;
    struct run run = {.cpu = cpu};
    struct lane lanes[STP_N_STREAMS];
    pthread_condattr_t clock;
    struct stp_error why;
    unsigned n = 0;

    for (unsigned e = 0; e < program->n_events; e++)
        cpu->us[e] = 0;
    pthread_mutex_init(&run.lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&run.changed, NULL);
    pthread_cond_init(&run.ended, &clock);
    pthread_condattr_destroy(&clock);
    for (unsigned s = 0; s < STP_N_STREAMS; s++) {
        bool has_work = false;

        for (size_t i = 0; i < program->n_notes; i++)
            has_work |= program->notes[i].stream == s;
        if (has_work) {
            lanes[n] = (struct lane){.run = &run, .stream = s, .first = n == 0};
            n++;
        }
    }
    run.n_running = n;
    for (unsigned i = 0; i < n; i++) {
        int error = pthread_create(&lanes[i].thread, NULL, lane_run, &lanes[i]);

        lanes[i].started = error == 0;
        if (error == 0)
            continue;
        run_fail(&run,
                 stp_fail(&why, STP_ERR_DEVICE, "no thread for stream %u: %s",
                          lanes[i].stream, strerror(error)),
                 &why);
        pthread_mutex_lock(&run.lock);
        run.n_running--;
        pthread_mutex_unlock(&run.lock);
    }
    run_watch(&run);
    for (unsigned i = 0; i < n; i++)
        if (lanes[i].started)
            pthread_join(lanes[i].thread, NULL);
    pthread_cond_destroy(&run.ended);
    pthread_cond_destroy(&run.changed);
    pthread_mutex_destroy(&run.lock);
    if (run.status != STP_OK && err != NULL)
        *err = run.err;
    return run.status;
}
