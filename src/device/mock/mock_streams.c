#include "device/mock/mock_streams.h"

#include <math.h>
#include <stdbool.h>

#include "device/device.h"

struct stream {
    unsigned id;
    size_t at; /* the task that runs or waits; the number of tasks at the end */
    double left_us; /* of it, alone */
    bool runs;
};

struct streams {
    struct stp_mock_task *tasks;
    size_t n;
    double now_us;
    struct stp_task_event *events;
    size_t next_collective; /* the first that has not ended */
    struct stream stream[STP_N_STREAMS];
};

static size_t streams_next(const struct streams *s, unsigned stream,
                           size_t from)
{
    while (from < s->n && s->tasks[from].stream != stream)
        from++;
    return from;
}

static size_t streams_next_collective(const struct streams *s, size_t from)
{
    while (from < s->n && s->tasks[from].kind != STP_TASK_COLLECTIVE)
        from++;
    return from;
}

/* Begins the next task of the stream, if it may begin now.  Returns whether the
 * stream went on to another task, for which the other stream may wait. */
static bool streams_step(struct streams *s, struct stream *stream)
{
    struct stp_mock_task *task;

    if (stream->at == s->n || stream->runs)
        return false;
    task = &s->tasks[stream->at];
    if (task->kind == STP_TASK_COMPUTE || (task->kind == STP_TASK_COLLECTIVE &&
                                           stream->at == s->next_collective)) {
        stream->runs = true;
        stream->left_us = task->us;
        task->begin_us = s->now_us;
        return false;
    }
    if (task->kind == STP_TASK_COLLECTIVE ||
        (task->kind == STP_TASK_WAIT && isnan(s->events[task->event].us)))
        return false;
    if (task->kind == STP_TASK_RECORD)
        s->events[task->event].us = s->now_us;
    stream->at = streams_next(s, stream->id, stream->at + 1);
    return true;
}

/* Lets time pass until the next task ends; false if none runs. */
static bool streams_advance(struct streams *s, stp_task_slowdown slowdown,
                            void *user)
{
    const struct stream *a = &s->stream[STP_STREAM_MAIN];
    const struct stream *b = &s->stream[STP_STREAM_COMM];
    double alone_us = INFINITY, factor = 1;

    for (unsigned i = 0; i < STP_N_STREAMS; i++)
        if (s->stream[i].runs)
            alone_us = fmin(alone_us, s->stream[i].left_us);
    if (isinf(alone_us))
        return false;
    if (a->runs && b->runs)
        factor = s->tasks[a->at].kind == s->tasks[b->at].kind ? 2
                 : s->tasks[a->at].kind == STP_TASK_COMPUTE
                     ? slowdown(user, a->at, b->at)
                     : slowdown(user, b->at, a->at);
    s->now_us += alone_us * factor;
    for (unsigned i = 0; i < STP_N_STREAMS; i++) {
        struct stream *stream = &s->stream[i];

        if (!stream->runs)
            continue;
        stream->left_us -= alone_us;
        if (stream->left_us > 0)
            continue;
        stream->runs = false;
        s->tasks[stream->at].end_us = s->now_us;
        if (stream->at == s->next_collective)
            s->next_collective = streams_next_collective(s, stream->at + 1);
        stream->at = streams_next(s, stream->id, stream->at + 1);
    }
    return true;
}

double stp_run_streams(struct stp_mock_task *tasks, size_t n, double start_us,
                       stp_task_slowdown slowdown, void *user,
                       struct stp_task_event *events)
{
    struct streams s = {
        .tasks = tasks, .n = n, .now_us = start_us, .events = events};

    for (size_t i = 0; i < n; i++)
        if (tasks[i].kind == STP_TASK_RECORD)
            events[tasks[i].event].us = NAN; /* not yet */
    s.next_collective = streams_next_collective(&s, 0);
    for (unsigned i = 0; i < STP_N_STREAMS; i++)
        s.stream[i] = (struct stream){.id = i, .at = streams_next(&s, i, 0)};
    do { /* begin all that may begin now */
        bool moved = true;

        while (moved) {
            moved = false;
            for (unsigned i = 0; i < STP_N_STREAMS; i++)
                while (streams_step(&s, &s.stream[i]))
                    moved = true;
        }
    } while (streams_advance(&s, slowdown, user));
    return s.now_us;
}
