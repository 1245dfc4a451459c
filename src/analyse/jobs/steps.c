#include "analyse/jobs/steps.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/learn/history.h"
#include "core/stats.h"
#include "launch/take.h"

enum {
    MAX_KINDS = 255,   /* of collectives; further ones repeat nothing */
    N_CHUNKS = 20,     /* means of successive steps, which are then trimmed */
    TRIM_PERCENT = 10, /* at each end */
    MIN_STEPS = 5,     /* after the first ones */
};

/* The collectives of a communicator, in the order of their launches. */
struct calls {
    uint8_t *keys;
    uint64_t *begin_ns;
    size_t n;
};

/* A sequence, and where it is. */
struct sequence {
    size_t n_calls; /* 0: none */
    size_t *starts; /* its places in the calls, none within another */
    size_t n_starts;
};

/* Steps may be interrupted by evaluations, and the last calls may be of none:
 * looks at windows of calls for the sequence that holds most of them. */
static void sequence_find(const struct calls *calls, struct sequence *best,
                          struct sequence *other)
{
    static const size_t windows[] = {STP_HISTORY_CALLS, 2048, 512, 128, 32};
    static const unsigned percents[] = {100, 90, 75, 50};

    best->n_calls = best->n_starts = 0;
    for (size_t w = 0; w < STP_N_OF(windows); w++)
        for (size_t p = 0; p < STP_N_OF(percents); p++) {
            const size_t end = calls->n * percents[p] / 100;
            const size_t n = end < windows[w] ? end : windows[w];
            const size_t n_calls =
                stp_sequence_find(calls->keys + end - n, n, n / 2);
            const uint8_t *pattern = calls->keys + end - n_calls;
            size_t *spare = best->starts;
            size_t i;

            if (n_calls == 0 || memchr(pattern, MAX_KINDS, n_calls) != NULL)
                continue;
            other->n_calls = n_calls;
            other->n_starts = 0;
            /* so that the sequence before 'end' is among those found */
            i = (end - n_calls) % n_calls;
            while (i + n_calls <= calls->n)
                if (memcmp(calls->keys + i, pattern, n_calls) == 0) {
                    other->starts[other->n_starts++] = i;
                    i += n_calls;
                } else
                    i++;
            if (other->n_starts * other->n_calls <=
                best->n_starts * best->n_calls)
                continue;
            *best = *other;
            other->starts = spare;
        }
}

static double steps_trimmed_mean(double *values, size_t n)
{
    const size_t trim = n * TRIM_PERCENT / 100;
    struct stp_summary ignored;

    stp_summarise(values, n, &ignored); /* which sorts */
    return stp_mean(values + trim, n - 2 * trim);
}

static size_t steps_first(size_t n)
{
    return (n * STP_WARM_UP_PERCENT + 99) / 100;
}

/* Means of successive steps, of those whose begins are known. */
static bool sequence_time(const struct calls *calls, const struct sequence *s,
                          struct stp_job_step *step)
{
    const size_t first = steps_first(s->n_starts);
    const size_t n = s->n_starts - first;
    const size_t n_chunks = n < N_CHUNKS ? n : N_CHUNKS;
    double ns[N_CHUNKS] = {0};
    size_t n_steps[N_CHUNKS] = {0};
    size_t last = s->n_starts; /* the last begin that is known; this: none */
    size_t n_means = 0;

    *step = (struct stp_job_step){.n_calls = s->n_calls};
    for (size_t i = first; i < s->n_starts; i++) {
        const size_t n_calls = s->starts[i] - s->starts[i > 0 ? i - 1 : 0];
        const uint64_t begin = calls->begin_ns[s->starts[i]];

        if (i > first && n_calls != s->n_calls)
            last = s->n_starts; /* something else was between */
        if (begin == 0)
            continue;
        if (last < i && begin > calls->begin_ns[s->starts[last]]) {
            const size_t chunk = (last - first) * n_chunks / n;

            ns[chunk] += (double)(begin - calls->begin_ns[s->starts[last]]);
            n_steps[chunk] += i - last;
        }
        last = i;
    }
    for (size_t i = 0; i < n_chunks; i++)
        if (n_steps[i] > 0) {
            ns[n_means++] = ns[i] / (double)n_steps[i];
            step->n_steps += n_steps[i];
        }
    if (step->n_steps < MIN_STEPS)
        return false;
    step->time = steps_trimmed_mean(ns, n_means) / 1e3;
    return true;
}

static enum stp_status steps_measure(const struct stp_trace *trace,
                                     struct calls *calls, struct sequence *best,
                                     struct sequence *other,
                                     struct stp_job_step *step_ret,
                                     struct stp_error *err)
{
    size_t most = 0;      /* calls that repeat */
    size_t n_untimed = 0; /* likewise, without times */

    for (size_t comm = 0; comm < trace->n_comms; comm++) {
        const struct stp_trace_row *kinds[MAX_KINDS];
        struct stp_job_step step;
        size_t n, n_kinds = 0;

        calls->n = 0;
        for (size_t i = 0; i < trace->n_rows; i++) {
            const struct stp_trace_row *row = &trace->rows[i];
            size_t k = 0;

            if (row->comm != comm)
                continue;
            while (k < n_kinds && (kinds[k]->call.coll != row->call.coll ||
                                   kinds[k]->call.n_bytes != row->call.n_bytes))
                k++;
            if (k == n_kinds && n_kinds < MAX_KINDS)
                kinds[n_kinds++] = row;
            calls->keys[calls->n] = (uint8_t)k;
            calls->begin_ns[calls->n++] = row->begin_ns;
        }
        sequence_find(calls, best, other);
        n = best->n_starts * best->n_calls;
        if (n <= most || 2 * n < calls->n)
            continue;
        if (!sequence_time(calls, best, &step)) {
            n_untimed = n;
            continue;
        }
        most = n;
        *step_ret = step;
    }
    if (most > 0)
        return STP_OK;
    if (n_untimed > 0)
        return stp_fail(err, STP_ERR_NOTHING,
                        "fewer than %d steps have times on the GPU", MIN_STEPS);
    return stp_fail(err, STP_ERR_NOTHING,
                    "no sequence of at most %d collectives repeats",
                    STP_SEQUENCE_MAX);
}

enum stp_status stp_job_step_traced(const struct stp_trace *trace,
                                    struct stp_job_step *step_ret,
                                    struct stp_error *err)
{
    const size_t n = trace->n_rows + 1;
    size_t *memory =
        stp_take(n, 2 * sizeof(size_t) + sizeof(uint64_t) + sizeof(uint8_t));
    struct sequence best = {0}, other = {0};
    struct calls calls = {0};
    enum stp_status status;

    best.starts = memory;
    other.starts = memory + n;
    calls.begin_ns = (uint64_t *)(memory + 2 * n);
    calls.keys = (uint8_t *)(calls.begin_ns + n);
    status = steps_measure(trace, &calls, &best, &other, step_ret, err);
    free(memory);
    return status;
}

struct stp_job_step stp_job_step_printed(double *times, size_t n)
{
    const size_t first = n > 1 ? steps_first(n) : 0;

    return (struct stp_job_step){
        .time = steps_trimmed_mean(times + first, n - first),
        .n_steps = n - first,
    };
}
