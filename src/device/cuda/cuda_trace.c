#include "device/cuda/cuda_trace.h"

#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "device/cuda/cuda_cupti.h"

static double trace_now_us(void)
{
    struct timespec now = {0};

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

enum stp_status stp_cuda_trace_begin(struct stp_cuda_trace *trace, int gpu,
                                     const cudaStream_t stream[STP_N_STREAMS],
                                     struct stp_error *err)
{
    enum stp_status status = stp_cupti_begin(err);

    if (status != STP_OK)
        return status;
    for (unsigned i = 0; i < STP_N_STREAMS && status == STP_OK; i++)
        status = stp_cupti_stream(stream[i], &trace->stream_id[i], err);
    if (status != STP_OK) {
        stp_cupti_end();
        return status;
    }
    trace->gpu = gpu;
    trace->origin_ns = stp_cupti_now();
    trace->origin_us = trace_now_us();
    trace->on = true;
    return STP_OK;
}

/* ---- spans ---- */

struct taking {
    const struct stp_cuda_trace *trace;
    unsigned stream;
    struct stp_spans *spans;
};

static double trace_host_us(const struct stp_cuda_trace *t, uint64_t ns)
{
    return t->origin_us + ((double)ns - (double)t->origin_ns) / 1e3;
}

static enum stp_status trace_take(void *user,
                                  const struct stp_cupti_record *record,
                                  struct stp_part range, struct stp_error *err)
{
    const struct taking *taking = user;
    struct stp_span span = {
        .stream = taking->stream,
        .kind = record->kind,
        .range = range,
        .begin_us = trace_host_us(taking->trace, record->begin_ns),
        .end_us = trace_host_us(taking->trace, record->end_ns)};

    memcpy(span.name, record->name, sizeof(span.name));
    return stp_spans_add(taking->spans, &span, err);
}

enum stp_status stp_cuda_trace_end(struct stp_cuda_trace *trace,
                                   struct stp_spans *spans,
                                   struct stp_error *err)
{
    struct taking taking = {.trace = trace, .spans = spans};
    enum stp_status status = STP_OK;

    if (!trace->on)
        return STP_OK;
    for (; taking.stream < STP_N_STREAMS && status == STP_OK; taking.stream++)
        status = stp_cupti_take((uint32_t)trace->gpu,
                                trace->stream_id[taking.stream], trace_take,
                                &taking, err);
    for (size_t i = 0; i < trace->host.n && status == STP_OK; i++)
        status = stp_spans_add(spans, &trace->host.all[i], err);
    stp_spans_free(&trace->host);
    stp_cupti_end();
    trace->on = false;
    return status;
}

/* ---- ranges ---- */

/* Without memory the host's ranges are cut short. */
void stp_cuda_trace_range(struct stp_cuda_trace *t, const char *name)
{
    struct stp_span span = {.stream = STP_N_STREAMS, .kind = STP_SPAN_RANGE};

    if (name != NULL) {
        nvtxRangePushA(name);
        stp_ranges_tell(&t->ranges, name);
        if (t->ranges.n <= STP_OPEN_RANGES)
            t->begun_us[t->ranges.n - 1] = trace_now_us();
        if (t->on)
            stp_cupti_push(stp_ranges_now(&t->ranges));
        return;
    }
    if (t->ranges.n == 0)
        return;
    span.range = stp_ranges_now(&t->ranges);
    if (t->on)
        stp_cupti_pop();
    if (t->on && span.range.name != NULL) {
        span.begin_us = t->begun_us[t->ranges.n - 1];
        span.end_us = trace_now_us();
        snprintf(span.name, sizeof(span.name), "%s", span.range.name);
        stp_spans_add(&t->host, &span, NULL);
    }
    stp_ranges_tell(&t->ranges, NULL);
    nvtxRangePop();
}
