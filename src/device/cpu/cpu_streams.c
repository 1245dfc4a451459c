#include "device/cpu/cpu_streams.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WATCH_MS = 100 };

/* ---- a run ---- */

struct run {
    const struct stp_program *program;
    const struct stp_cpu_worker *worker;
    double *us;
    pthread_mutex_t lock;   /* of what follows, and of us[] */
    pthread_cond_t changed; /* for the streams */
    pthread_cond_t ended;   /* for who watches: not woken by every event */
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

static struct timespec run_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return t;
}

static double run_now_us(void)
{
    struct timespec t = run_now();

    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
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

static bool run_has_failed(struct run *run)
{
    bool failed;

    pthread_mutex_lock(&run->lock);
    failed = run->status != STP_OK;
    pthread_mutex_unlock(&run->lock);
    return failed;
}

static void run_record(struct run *run, unsigned event)
{
    const double us = run_now_us();

    pthread_mutex_lock(&run->lock);
    run->us[event] = us;
    pthread_cond_broadcast(&run->changed);
    pthread_mutex_unlock(&run->lock);
}

static void run_wait_for_event(struct run *run, unsigned event)
{
    pthread_mutex_lock(&run->lock);
    while (run->us[event] == 0 && run->status == STP_OK)
        pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

/* One thread meets the other ranks for all of them. */
static void lane_meet(const struct lane *lane)
{
    const struct stp_cpu_worker *worker = lane->run->worker;
    struct run *run = lane->run;
    struct stp_error err;
    enum stp_status status;

    if (lane->first) {
        status = worker->meet(worker->self, lane->stream, &err);
        if (status != STP_OK)
            run_fail(run, status, &err);
    }
    pthread_mutex_lock(&run->lock);
    if (lane->first) {
        run->met = true;
        pthread_cond_broadcast(&run->changed);
    }
    while (!run->met && run->status == STP_OK)
        pthread_cond_wait(&run->changed, &run->lock);
    pthread_mutex_unlock(&run->lock);
}

static void run_work(struct run *run, const struct stp_work *note)
{
    struct stp_error err;
    enum stp_status status;

    switch (note->kind) {
    case STP_WORK_RECORD:
        run_record(run, note->event);
        break;
    case STP_WORK_WAIT:
        run_wait_for_event(run, note->event);
        break;
    case STP_WORK_COLLECTIVE:
    case STP_WORK_COMPUTE:
    case STP_WORK_ELEMENTWISE:
    case STP_WORK_TASK:
        status = run->worker->work(run->worker->self, note, &err);
        if (status != STP_OK)
            run_fail(run, status, &err);
        break;
    case STP_WORK_GROUP_BEGIN:
    case STP_WORK_GROUP_END:
        break; /* one by one */
    }
}

static void *lane_run(void *user)
{
    const struct lane *lane = user;
    struct run *run = lane->run;

    lane_meet(lane);
    for (size_t i = 0; i < run->program->n_notes && !run_has_failed(run); i++)
        if (run->program->notes[i].stream == lane->stream)
            run_work(run, &run->program->notes[i]);
    pthread_mutex_lock(&run->lock);
    run->n_running--;
    pthread_cond_signal(&run->ended);
    pthread_mutex_unlock(&run->lock);
    return NULL;
}

/* ---- watching it ---- */

static void run_sleep(struct run *run)
{
    struct timespec t = run_now();

    t.tv_nsec += WATCH_MS * 1000000L;
    if (t.tv_nsec >= 1000000000L) {
        t.tv_nsec -= 1000000000L;
        t.tv_sec++;
    }
    pthread_cond_timedwait(&run->ended, &run->lock, &t);
}

/* Makes the run fail if it must end before its time. */
static void run_look_around(struct run *run, double began_us)
{
    const struct stp_cpu_worker *worker = run->worker;
    struct stp_error err;

    if (!worker->alive(worker->self, &err))
        run_fail(run, STP_ERR_DEVICE, &err);
    else if (worker->time_limit_s != 0 &&
             run_now_us() - began_us > worker->time_limit_s * 1e6)
        run_fail(run,
                 stp_fail(&err, STP_ERR_DEVICE,
                          "not done after %u s, the limit for one run",
                          worker->time_limit_s),
                 &err);
}

static void run_watch(struct run *run)
{
    const double began_us = run_now_us();
    bool failed;

    pthread_mutex_lock(&run->lock);
    while (run->n_running > 0 && run->status == STP_OK) {
        run_sleep(run);
        if (run->n_running == 0 || run->status != STP_OK)
            break;
        pthread_mutex_unlock(&run->lock);
        run_look_around(run, began_us);
        pthread_mutex_lock(&run->lock);
    }
    failed = run->status != STP_OK;
    pthread_mutex_unlock(&run->lock);
    if (failed) /* err is that of the first failure, and stays */
        run->worker->abort(run->worker->self, run->err.text);
}

/* ---- starting it ---- */

static bool lane_has_work(const struct stp_program *program, unsigned stream)
{
    for (size_t i = 0; i < program->n_notes; i++)
        if (program->notes[i].stream == stream)
            return true;
    return false;
}

static bool lane_start(struct lane *lane)
{
    struct run *run = lane->run;
    struct stp_error err;
    int error = pthread_create(&lane->thread, NULL, lane_run, lane);

    if (error == 0)
        return true;
    run_fail(run,
             stp_fail(&err, STP_ERR_DEVICE, "no thread for stream %u: %s",
                      lane->stream, strerror(error)),
             &err);
    pthread_mutex_lock(&run->lock);
    run->n_running--;
    pthread_mutex_unlock(&run->lock);
    return false;
}

static void run_init(struct run *run)
{
    pthread_condattr_t clock;

    pthread_mutex_init(&run->lock, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&run->changed, NULL);
    pthread_cond_init(&run->ended, &clock);
    pthread_condattr_destroy(&clock);
}

enum stp_status stp_cpu_streams_run(const struct stp_program *program,
                                    const struct stp_cpu_worker *worker,
                                    double *us_ret, struct stp_error *err)
{
    struct run run = {.program = program, .worker = worker, .us = us_ret};
    struct lane lanes[STP_N_STREAMS];
    unsigned n = 0;

    for (unsigned e = 0; e < program->n_events; e++)
        us_ret[e] = 0;
    run_init(&run);
    for (unsigned s = 0; s < STP_N_STREAMS; s++)
        if (lane_has_work(program, s)) {
            lanes[n] = (struct lane){.run = &run, .stream = s, .first = n == 0};
            n++;
        }
    run.n_running = n;
    for (unsigned i = 0; i < n; i++)
        lanes[i].started = lane_start(&lanes[i]);
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
