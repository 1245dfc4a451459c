#include "device/cuda/cuda_trace.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>

#include "device/host.h"

#ifdef STP_HAVE_CUPTI

#include <cupti.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#include "core/room.h"
#include "device/cuda/cuda_name.h"
#include "device/dl_table.h"

enum { BUFFER = 1 << 20, ALIGNMENT = 8 };

/* libcupti's functions, by the names they have here. */
#define FUNCTIONS(X)                                                           \
    X(enable, cuptiActivityEnable)                                             \
    X(disable, cuptiActivityDisable)                                           \
    X(register_callbacks, cuptiActivityRegisterCallbacks)                      \
    X(next, cuptiActivityGetNextRecord)                                        \
    X(flush, cuptiActivityFlushAll)                                            \
    X(push, cuptiActivityPushExternalCorrelationId)                            \
    X(pop, cuptiActivityPopExternalCorrelationId)                              \
    X(now, cuptiGetTimestamp)                                                  \
    X(stream_id, cuptiGetStreamIdEx)                                           \
    X(text, cuptiGetResultString)

struct api {
#define MEMBER(member, function) __typeof__(&(function)) member;
    FUNCTIONS(MEMBER)
};

static const struct stp_dl_symbol functions[] = {
#define SYMBOL(member, function) {#function, offsetof(struct api, member)},
    FUNCTIONS(SYMBOL)};

/* Records of a launch, by the driver or the runtime, and of the kernel or copy
 * it launched have one correlation; those of the range come with the former
 * alone. */
static const CUpti_ActivityKind kinds[] = {
    CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
    CUPTI_ACTIVITY_KIND_RUNTIME,
    CUPTI_ACTIVITY_KIND_DRIVER,
    CUPTI_ACTIVITY_KIND_MEMCPY,
    CUPTI_ACTIVITY_KIND_MEMSET,
    CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
};

enum { N_KINDS = STP_N_OF(kinds) };

static const CUpti_ExternalCorrelationKind ours =
    CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;

/* Something that ran on a GPU. */
struct record {
    uint32_t gpu;
    uint32_t stream; /* CUPTI's number of it */
    uint32_t correlation;
    enum stp_span_kind kind;
    char name[STP_SPAN_NAME];
    uint64_t begin_ns; /* of CUPTI's clock */
    uint64_t end_ns;
};

/* A launched kernel or copy, and the place of its range in parts[], from 1. */
struct link {
    uint32_t correlation;
    uint64_t part;
};

/* The process's: CUPTI calls us without a pointer of ours. */
static struct {
    pthread_mutex_t users; /* taken before the other: of beginnings and ends */
    struct api api;
    bool is_open;
    unsigned n_users;
    pthread_mutex_t lock; /* of the lists */
    struct record *records;
    size_t n_records, record_room;
    struct link *links;
    size_t n_links, link_room;
    struct stp_part *parts;
    size_t n_parts, part_room;
} the = {.users = PTHREAD_MUTEX_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER};

static enum stp_status cupti_check(CUptiResult result, const char *call,
                                   struct stp_error *err)
{
    const char *text = "an unknown error";

    if (result == CUPTI_SUCCESS)
        return STP_OK;
    the.api.text(result, &text);
    return stp_fail(
        err, STP_ERR_DEVICE,
        "no trace: %s: %s (does another profiler trace this process?)", call,
        text);
}

/* ---- records, from CUPTI's thread or within a flush ---- */

/* Without memory a record is lost. */
static void cupti_keep(const struct record *record)
{
    if (STP_ROOM(the.records, the.n_records, the.record_room))
        the.records[the.n_records++] = *record;
}

static void cupti_keep_any(const CUpti_Activity *activity)
{
    const void *any = activity; /* later versions of a record begin alike */
    const CUpti_ActivityKernel9 *k = any;
    const CUpti_ActivityMemcpy5 *m = any;
    const CUpti_ActivityMemset4 *f = any;
    const CUpti_ActivityExternalCorrelation *e = any;
    struct record record;

    switch (activity->kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        record = (struct record){.gpu = k->deviceId,
                                 .stream = k->streamId,
                                 .correlation = k->correlationId,
                                 .begin_ns = k->start,
                                 .end_ns = k->end};
        stp_cuda_kernel_name(k->name, record.name, sizeof(record.name));
        record.kind = strstr(record.name, "nccl") != NULL
                          ? STP_SPAN_COMMUNICATION
                          : STP_SPAN_COMPUTE;
        cupti_keep(&record);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        cupti_keep(&(struct record){.gpu = m->deviceId,
                                    .stream = m->streamId,
                                    .correlation = m->correlationId,
                                    .name = "copy",
                                    .begin_ns = m->start,
                                    .end_ns = m->end});
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        cupti_keep(&(struct record){.gpu = f->deviceId,
                                    .stream = f->streamId,
                                    .correlation = f->correlationId,
                                    .name = "fill",
                                    .begin_ns = f->start,
                                    .end_ns = f->end});
        break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        if (e->externalKind == ours &&
            STP_ROOM(the.links, the.n_links, the.link_room))
            the.links[the.n_links++] = (struct link){
                .correlation = e->correlationId, .part = e->externalId};
        break;
    default:
        break;
    }
}

static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *size, size_t *max)
{
    *buffer = aligned_alloc(ALIGNMENT, BUFFER);
    *size = *buffer != NULL ? BUFFER : 0;
    *max = 0; /* as many as fit */
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream,
                                 uint8_t *buffer, size_t size, size_t valid)
{
    CUpti_Activity *record = NULL;

    pthread_mutex_lock(&the.lock);
    while (valid > 0 && the.api.next(buffer, valid, &record) == CUPTI_SUCCESS)
        cupti_keep_any(record);
    pthread_mutex_unlock(&the.lock);
    free(buffer);
}

/* ---- opening it ---- */

/* The library stays open. */
static enum stp_status cupti_open_cupti(struct stp_error *err)
{
    const char *path = getenv("STEPTUNE_CUPTI");
    const char *home = getenv("CUDA_HOME");
    char name[32], place[512];
    enum stp_status status;
    void *library;

    if (the.is_open)
        return STP_OK;
    snprintf(name, sizeof(name), "libcupti.so.%d", CUDART_VERSION / 1000);
    snprintf(place, sizeof(place), "%.400s/extras/CUPTI/lib64/%s",
             home != NULL ? home : "/usr/local/cuda", name);
    if (path != NULL && path[0] != '\0')
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    else if ((library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) == NULL)
        library = dlopen(place, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return stp_fail(err, STP_ERR_NOTHING,
                        "no CUPTI, which traces take: %s (STEPTUNE_CUPTI can "
                        "name the file)",
                        dlerror());
    status = stp_dl_find(library, "CUPTI", functions, STP_N_OF(functions),
                         &the.api, err);
    the.is_open = status == STP_OK;
    return status;
}

static void cupti_disable(unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        the.api.disable(kinds[i]);
}

static enum stp_status cupti_begin(struct stp_error *err)
{
    enum stp_status status;

    pthread_mutex_lock(&the.users);
    status = cupti_open_cupti(err);
    if (the.n_users == 0) {
        unsigned n = 0;

        STP_THEN(status, cupti_check(the.api.register_callbacks(give_buffer,
                                                                take_buffer),
                                     "cuptiActivityRegisterCallbacks", err));
        for (; n < N_KINDS && status == STP_OK; n++)
            status = cupti_check(the.api.enable(kinds[n]),
                                 "cuptiActivityEnable", err);
        if (n > 0 && status != STP_OK)
            cupti_disable(n - 1);
    }
    the.n_users += status == STP_OK;
    pthread_mutex_unlock(&the.users);
    return status;
}

static void cupti_end(void)
{
    pthread_mutex_lock(&the.users);
    if (--the.n_users == 0) {
        cupti_disable(N_KINDS);
        the.api.flush(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
        pthread_mutex_lock(&the.lock);
        /* Spans that no rank took are dropped. */
        free(the.records);
        free(the.links);
        free(the.parts);
        the.records = NULL;
        the.links = NULL;
        the.parts = NULL;
        the.n_records = the.record_room = 0;
        the.n_links = the.link_room = 0;
        the.n_parts = the.part_room = 0;
        pthread_mutex_unlock(&the.lock);
    }
    pthread_mutex_unlock(&the.users);
}

/* ---- a trace ---- */

enum stp_status stp_cuda_trace_begin(struct stp_cuda_trace *trace, int gpu,
                                     const cudaStream_t stream[STP_N_STREAMS],
                                     struct stp_error *err)
{
    enum stp_status status = STP_OK;

    STP_TRY(cupti_begin(err));
    for (unsigned i = 0; i < STP_N_STREAMS; i++)
        STP_THEN(status, cupti_check(the.api.stream_id(NULL, stream[i], 0,
                                                       &trace->stream_id[i]),
                                     "cuptiGetStreamIdEx", err));
    if (status != STP_OK) {
        cupti_end();
        return status;
    }
    trace->gpu = gpu;
    the.api.now(&trace->origin_ns);
    trace->origin_us = stp_host_now_us(NULL);
    trace->on = true;
    return STP_OK;
}

static double trace_host_us(const struct stp_cuda_trace *t, uint64_t ns)
{
    return t->origin_us + ((double)ns - (double)t->origin_ns) / 1e3;
}

/* Takes the finished records of a stream, each with the range it was launched
 * in; those that are not finished are forgotten. */
static enum stp_status trace_take(const struct stp_cuda_trace *t,
                                  unsigned stream, struct stp_spans *spans,
                                  struct stp_error *err)
{
    enum stp_status status =
        cupti_check(the.api.flush(0), "cuptiActivityFlushAll", err);
    size_t kept = 0;

    pthread_mutex_lock(&the.lock);
    for (size_t i = 0; i < the.n_records; i++) {
        const struct record *r = &the.records[i];
        struct stp_span span = {.stream = stream,
                                .kind = r->kind,
                                .begin_us = trace_host_us(t, r->begin_ns),
                                .end_us = trace_host_us(t, r->end_ns)};

        if (r->gpu != (uint32_t)t->gpu || r->stream != t->stream_id[stream]) {
            the.records[kept++] = *r;
            continue;
        }
        for (size_t k = 0; k < the.n_links && span.range.name == NULL; k++)
            if (the.links[k].correlation == r->correlation &&
                the.links[k].part >= 1 && the.links[k].part <= the.n_parts)
                span.range = the.parts[the.links[k].part - 1];
        memcpy(span.name, r->name, sizeof(span.name));
        if (r->end_ns != 0)
            STP_THEN(status, stp_spans_add(spans, &span, err));
    }
    the.n_records = kept;
    pthread_mutex_unlock(&the.lock);
    return status;
}

enum stp_status stp_cuda_trace_end(struct stp_cuda_trace *trace,
                                   struct stp_spans *spans,
                                   struct stp_error *err)
{
    enum stp_status status = STP_OK;

    if (!trace->on)
        return STP_OK;
    for (unsigned i = 0; i < STP_N_STREAMS; i++)
        STP_THEN(status, trace_take(trace, i, spans, err));
    for (size_t i = 0; i < trace->host.n; i++)
        STP_THEN(status, stp_spans_add(spans, &trace->host.all[i], err));
    stp_spans_free(&trace->host);
    cupti_end();
    trace->on = false;
    return status;
}

/* Launches of this thread are in the range from now on, until the pop. */
static void trace_push(struct stp_part range)
{
    uint64_t id = 0; /* no range, or no memory; else a number from 1 */

    pthread_mutex_lock(&the.lock);
    if (range.name != NULL && STP_ROOM(the.parts, the.n_parts, the.part_room)) {
        the.parts[the.n_parts++] = range;
        id = the.n_parts;
    }
    pthread_mutex_unlock(&the.lock);
    the.api.push(ours, id);
}

static void trace_pop(void)
{
    uint64_t last;

    the.api.pop(ours, &last);
}

#else /* built without CUPTI: no trace is ever on */

enum stp_status stp_cuda_trace_begin(struct stp_cuda_trace *trace, int gpu,
                                     const cudaStream_t stream[STP_N_STREAMS],
                                     struct stp_error *err)
{
    (void)trace, (void)gpu, (void)stream;
    return stp_fail(err, STP_ERR_NOTHING,
                    "no traces of GPUs: this was built without CUPTI");
}

enum stp_status stp_cuda_trace_end(struct stp_cuda_trace *trace,
                                   struct stp_spans *spans,
                                   struct stp_error *err)
{
    (void)trace, (void)spans, (void)err;
    return STP_OK;
}

#define trace_push(range) (void)(range)
#define trace_pop()       (void)0

#endif

/* Without memory the host's ranges are cut short. */
void stp_cuda_trace_range(struct stp_cuda_trace *t, const char *name)
{
    struct stp_span span = {.stream = STP_N_STREAMS, .kind = STP_SPAN_RANGE};

    if (name != NULL) {
        nvtxRangePushA(name);
        stp_ranges_mark(&t->ranges, name);
        if (t->ranges.n <= STP_OPEN_RANGES)
            t->begun_us[t->ranges.n - 1] = stp_host_now_us(NULL);
        if (t->on)
            trace_push(stp_ranges_now(&t->ranges));
        return;
    }
    if (t->ranges.n == 0)
        return;
    span.range = stp_ranges_now(&t->ranges);
    if (t->on)
        trace_pop();
    if (t->on && span.range.name != NULL) {
        span.begin_us = t->begun_us[t->ranges.n - 1];
        span.end_us = stp_host_now_us(NULL);
        snprintf(span.name, sizeof(span.name), "%s", span.range.name);
        stp_spans_add(&t->host, &span, NULL);
    }
    stp_ranges_mark(&t->ranges, NULL);
    nvtxRangePop();
}
