/* spans.c - traces of when collectives ran: PyTorch's profiler and flight
 * recorder, NCCL Inspector
 *
 * Times are those of one GPU, in microseconds.  Its collectives are in stream
 * comm.  Compute is the time in which kernels ran that are not NCCL's, with the
 * gaps between them: a GPU that waits for its host counts as computing.  A gap
 * in which the last collective ended is none up to that end: compute waited. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "analyse/traces/reading.h"
#include "core/qsort.h"
#include "device/device.h"
#include "launch/take.h"

enum { MAX_COMPUTE_US = 10000000 }; /* in a longer pause a job does nothing */

struct span {
    double begin; /* of a step first on the host, then on the GPU */
    double end;
    double correlation; /* of a kernel with its launch; below 0: none */
    double number;      /* of a step, or the place in the file */
    unsigned line;
    bool is_collective;
    struct read_coll coll;
};

/* STP_OK. */
static enum stp_status span_add(struct span_list *list, const struct span *span)
{
    STP_TAKE_ROOM(list->items, list->n, list->capacity);
    list->items[list->n++] = *span;
    return STP_OK;
}

/* A collective by the names of it and of its type, with the elements that a
 * rank has before and after it. */
static enum stp_status span_add_collective(struct reading *r, struct span *span,
                                           const char *name, const char *type,
                                           double n_in, double n_out,
                                           size_t group)
{
    struct read_coll *coll = &span->coll;

    coll->coll = stp_read_coll(name);
    coll->type = stp_read_type(type, strlen(type));
    if (coll->coll < 0 || coll->type < 0)
        return stp_read_skip(r, name, "", span->line);
    coll->n_in = n_in * (double)stp_type_size(coll->type);
    coll->n_out = n_out * (double)stp_type_size(coll->type);
    coll->group = group;
    span->number = (double)r->spans.n;
    span->is_collective = r->has_collectives = true;
    return span_add(&r->spans, span);
}

/* ---- PyTorch's profiler ---- */

enum stp_status stp_profiler_job(struct reading *r, unsigned line,
                                 const cJSON *json)
{
    size_t place;

    return stp_read_group(r, "of the job", stp_read_number(json, "world_size"),
                          0, "", &place);
}

enum stp_status stp_profiler_event(struct reading *r, unsigned line,
                                   const cJSON *json)
{
    const char *cat = stp_read_word(json, "cat");
    const char *name = stp_read_word(json, "name");
    const cJSON *args = cJSON_GetObjectItemCaseSensitive(json, "args");
    const char *coll = stp_read_word(args, "Collective name");
    const char *ranks = stp_read_word(args, "Process Group Ranks");
    struct span span = {.begin = stp_read_number(json, "ts"),
                        .correlation = stp_read_number(args, "correlation"),
                        .line = line};
    const bool is_kernel = strcasecmp(cat, "kernel") == 0;
    size_t group;

    span.end = span.begin + fmax(0, stp_read_number(json, "dur"));
    if (span.begin < 0)
        return STP_OK;
    if (strncmp(name, "ProfilerStep#", 13) == 0 &&
        strcmp(cat, "user_annotation") == 0) {
        span.number = strtod(name + 13, NULL);
        return span_add(&r->steps, &span);
    }
    if (!is_kernel && coll[0] != '\0' && r->host_line == 0)
        r->host_line = line;
    if (!is_kernel)
        return strstr(name, "aunch") != NULL && span.correlation >= 0
                   ? span_add(&r->launches,
                              &(struct span){.begin = span.correlation,
                                             .end = span.begin})
                   : STP_OK;
    if (coll[0] == '\0')
        return strncmp(name, "nccl", 4) == 0
                   ? stp_read_skip(r, name, " without arguments", line)
                   : span_add(&r->spans, &span);
    name = stp_read_word(args, "Process Group Name");
    STP_TRY(stp_read_group(r, name[0] != '\0' ? name : ranks,
                           stp_read_number(args, "Group size"), 0, ranks,
                           &group));
    return span_add_collective(r, &span, coll, stp_read_word(args, "dtype"),
                               stp_read_number(args, "In msg nelems"),
                               stp_read_number(args, "Out msg nelems"), group);
}

/* ---- PyTorch's flight recorder ---- */

/* The elements of all tensors, of which a list under 'key' has the sides. */
static double flight_elements(const cJSON *entry, const char *key)
{
    const cJSON *tensor, *side;
    double sum = 0;

    cJSON_ArrayForEach(tensor, cJSON_GetObjectItemCaseSensitive(entry, key))
    {
        double n = 1;

        cJSON_ArrayForEach(side, tensor) n *= cJSON_GetNumberValue(side);
        sum += n;
    }
    return sum >= 0 ? sum : 0;
}

enum stp_status stp_flight_entry(struct reading *r, unsigned line,
                                 const cJSON *json)
{
    const char *name = stp_read_word(json, "profiling_name");
    const char *group = cJSON_GetStringValue(cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(json, "process_group"), 0));
    const char *type = cJSON_GetStringValue(cJSON_GetArrayItem(
        cJSON_GetObjectItemCaseSensitive(json, "input_dtypes"), 0));
    struct span span = {.line = line};
    size_t place;

    STP_TRY(stp_read_group(r, group != NULL ? group : "", 0, 0, "", &place));
    return span_add_collective(r, &span, name[0] != '\0' ? name : "nameless",
                               type != NULL ? type : "",
                               flight_elements(json, "input_sizes"),
                               flight_elements(json, "output_sizes"), place);
}

/* ---- NCCL Inspector ---- */

/* Which communicator's the next collective is.  A process may run several ranks
 * of it: those of the first are read. */
enum stp_status stp_inspector_header(struct reading *r, unsigned line,
                                     const cJSON *json)
{
    const double rank = stp_read_number(json, "rank");

    STP_TRY(stp_read_group(r, stp_read_word(json, "id"),
                           stp_read_number(json, "n_ranks"), 0, "", &r->group));
    if (r->groups[r->group].rank < 0)
        r->groups[r->group].rank = rank;
    r->is_other_rank = r->groups[r->group].rank != rank;
    return STP_OK;
}

/* A collective of bytes that each rank has at least, or a send or receive. */
enum stp_status stp_inspector_call(struct reading *r, unsigned line,
                                   const cJSON *json)
{
    const double n = stp_read_number(json, "coll_msg_size_bytes") / 2;
    const char *name = stp_read_word(json, "coll");
    const cJSON *kernels = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(json, "event_trace_ts"),
        "kernel_events");
    struct span span = {.line = line};
    const cJSON *kernel;

    if (name[0] == '\0')
        name = stp_read_word(json, "p2p");
    if (r->is_other_rank)
        return STP_OK;
    if (r->n_groups == 0)
        return stp_read_skip(r, name, " without header", line);
    cJSON_ArrayForEach(kernel, kernels) /* one a channel */
    {
        const double begin = stp_read_number(kernel, "kernel_start_ts");

        if (begin > 0 && (span.begin == 0 || begin < span.begin))
            span.begin = begin;
        span.end = fmax(span.end, stp_read_number(kernel, "kernel_stop_ts"));
    }
    if (span.begin == 0 && r->spans.n > 0) /* it is not timed */
        span.begin = span.end = r->spans.items[r->spans.n - 1].end;
    return span_add_collective(r, &span, name, "bfloat16", n, n, r->group);
}

/* ---- steps ---- */

static int span_compare(const void *pa, const void *pb)
{
    const struct span *a = pa;
    const struct span *b = pb;

    STP_RETURN_ORDER(STP_ORDER(a->begin, b->begin));
    STP_RETURN_ORDER(STP_ORDER(a->is_collective, b->is_collective));
    return STP_ORDER(a->number, b->number);
}

/* The host is ahead of the GPU: a step begins there with the first kernel that
 * was launched in it, or with the next step if none was. */
static void spans_place_steps(struct reading *r)
{
    struct span *steps = r->steps.items;
    size_t step = 0; /* how many have begun on the host */

    for (size_t i = 0; i < r->steps.n; i++)
        steps[i].end = INFINITY;
    for (size_t i = 0; i < r->spans.n; i++) {
        const struct span *span = &r->spans.items[i];
        const struct span key = {.begin = span->correlation};
        const struct span *launch =
            r->launches.n == 0 ? NULL
                               : bsearch(&key, r->launches.items, r->launches.n,
                                         sizeof(key), span_compare);
        const double begin = launch != NULL ? launch->end : span->begin;

        if (launch == NULL && r->launches.n > 0)
            continue; /* it may have begun long after its launch */
        while (step > 0 && steps[step - 1].begin > begin)
            step--;
        while (step < r->steps.n && steps[step].begin <= begin)
            step++;
        if (step > 0)
            steps[step - 1].end = fmin(steps[step - 1].end, span->begin);
    }
    for (size_t i = r->steps.n; i-- > 0;)
        steps[i].begin = i + 1 < r->steps.n
                             ? fmin(steps[i].end, steps[i + 1].begin)
                             : steps[i].end;
}

/* ---- rows ---- */

struct walk {
    struct reading *r;
    struct stp_trace_place place;
    double now;      /* what is before it in stream main has been seen */
    double compute;  /* of that, what is not yet a row */
    double comm_end; /* of the collectives so far */
    bool waits;      /* the next row, for those */
};

static enum stp_status walk_flush(struct walk *w)
{
    const double us = fmin(w->compute, MAX_COMPUTE_US);

    w->compute = 0;
    if (us < 1)
        return STP_OK;
    w->place.waits = w->waits;
    w->place.stream = STP_STREAM_MAIN;
    w->waits = false;
    return stp_trace_add_time(w->r->b, us, &w->place, w->r->err);
}

/* Goes on to a time until which nothing ran in stream main. */
static enum stp_status walk_advance(struct walk *w, double to)
{
    if (to <= w->now)
        return STP_OK;
    w->now = w->now == 0 ? to : w->now; /* times begin here */
    if (w->comm_end > 0 && w->comm_end >= w->now && w->comm_end <= to) {
        STP_TRY(walk_flush(w));
        w->waits = true;
        w->now = w->comm_end;
    }
    w->compute += to - w->now;
    w->now = to;
    return STP_OK;
}

/* Makes rows of the compute up to a time; a kernel may go on behind it. */
static enum stp_status walk_cut(struct walk *w, double at)
{
    double behind;

    STP_TRY(walk_advance(w, at));
    behind = fmin(w->now - at, w->compute);
    w->compute -= behind;
    STP_TRY(walk_flush(w));
    w->compute = behind;
    return STP_OK;
}

enum stp_status stp_spans_finish(struct reading *r)
{
    struct walk w = {.r = r, .place = {.step = r->steps.n == 0}};
    struct span last = {.begin = 0}; /* what follows the last step */
    size_t step = 0;

    for (size_t i = 0; i < r->steps.n; i++)
        last.begin = fmax(last.begin, r->steps.items[i].end);
    if (r->steps.n > 0)
        span_add(&r->steps, &last);
    r->b->trace.has_steps |= r->steps.n > 0;
    STP_SORT(r->steps.items, r->steps.n, span_compare);
    STP_SORT(r->launches.items, r->launches.n, span_compare);
    STP_SORT(r->spans.items, r->spans.n, span_compare);
    spans_place_steps(r);
    if (!r->has_collectives && r->host_line > 0)
        stp_read_skip(r, "collectives", " on the host alone", r->host_line);
    w.now = r->spans.n > 0 ? r->spans.items[0].begin : 0;
    for (size_t i = 0; i < r->spans.n; i++) {
        const struct span *span = &r->spans.items[i];

        for (; step < r->steps.n && r->steps.items[step].begin <= span->begin;
             step++) {
            STP_TRY(walk_cut(&w, r->steps.items[step].begin));
            w.place.step = (unsigned)fmax(
                w.place.step + 1, fmin(r->steps.items[step].number, INT32_MAX));
        }
        w.place.line = span->line;
        if (!span->is_collective) {
            STP_TRY(walk_advance(&w, span->begin));
            w.compute += fmax(0, span->end - w.now);
            w.now = fmax(w.now, span->end);
            continue;
        }
        STP_TRY(walk_cut(&w, span->begin));
        w.place.waits = w.waits; /* not so what overlaps it */
        w.place.stream = STP_STREAM_COMM;
        w.waits = false;
        w.comm_end = fmax(w.comm_end, span->end);
        STP_TRY(stp_read_row(r, &span->coll, &w.place));
    }
    return walk_flush(&w);
}
