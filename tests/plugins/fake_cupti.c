/*
 * fake_cupti.c - replaces libcupti on machines without a GPU
 *
 * fake_cupti_launch() adds a kernel that ran; a flush delivers the records. The
 * clock always shows 1,000,000,000 ns, and a stream's number is its address.
 */
#include <cupti.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_RECORDS = 64, MAX_OPEN = 8 };

/* A record as CUPTI writes it; the second of a pair. */
struct launched {
    CUpti_ActivityExternalCorrelation range;
    CUpti_ActivityKernel9 kernel;
};

static struct {
    CUpti_BuffersCallbackRequestFunc give;
    CUpti_BuffersCallbackCompleteFunc take;
    unsigned n_enabled;
    uint64_t open[MAX_OPEN];
    unsigned n_open;
    struct launched launched[MAX_RECORDS];
    unsigned n_launched;
    uint32_t correlation;
    bool broken;
} fake;

EXPORT void fake_cupti_break(bool broken);
EXPORT unsigned fake_cupti_enabled(void);
EXPORT void fake_cupti_launch(const char *name, uint32_t gpu, uint32_t stream,
                              uint64_t begin_ns, uint64_t end_ns);

/* Nothing can be enabled. */
EXPORT void fake_cupti_break(bool broken)
{
    fake.broken = broken;
}

EXPORT unsigned fake_cupti_enabled(void)
{
    return fake.n_enabled;
}

EXPORT void fake_cupti_launch(const char *name, uint32_t gpu, uint32_t stream,
                              uint64_t begin_ns, uint64_t end_ns)
{
    struct launched *l = &fake.launched[fake.n_launched++];

    memset(l, 0, sizeof(*l));
    l->range.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
    l->range.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
    l->range.externalId = fake.n_open > 0 ? fake.open[fake.n_open - 1] : 0;
    l->range.correlationId = l->kernel.correlationId = ++fake.correlation;
    l->kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
    l->kernel.name = name;
    l->kernel.deviceId = gpu;
    l->kernel.streamId = stream;
    l->kernel.start = begin_ns;
    l->kernel.end = end_ns;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    (void)kind;
    if (fake.broken)
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    fake.n_enabled++;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    (void)kind;
    fake.n_enabled--;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult
cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc give,
                               CUpti_BuffersCallbackCompleteFunc take)
{
    fake.give = give;
    fake.take = take;
    return CUPTI_SUCCESS;
}

/* A buffer is a list of struct launched. */
EXPORT CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t nbytes,
                                              CUpti_Activity **record)
{
    uint8_t *last = (uint8_t *)*record;
    size_t at;

    if (last == NULL) {
        *record = (CUpti_Activity *)buffer;
        return CUPTI_SUCCESS;
    }
    at = (size_t)(last - buffer);
    at += at % sizeof(struct launched) == 0
              ? offsetof(struct launched, kernel)
              : sizeof(struct launched) - offsetof(struct launched, kernel);
    *record = (CUpti_Activity *)(buffer + at);
    return at < nbytes ? CUPTI_SUCCESS : CUPTI_ERROR_MAX_LIMIT_REACHED;
}

EXPORT CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    size_t nbytes = fake.n_launched * sizeof(fake.launched[0]);
    size_t size = 0;
    size_t max = 0;
    uint8_t *buffer;

    (void)flag;
    if (nbytes == 0)
        return CUPTI_SUCCESS;
    fake.give(&buffer, &size, &max);
    memcpy(buffer, fake.launched, nbytes);
    fake.n_launched = 0;
    fake.take(NULL, 0, buffer, size, nbytes);
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPushExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    (void)kind;
    fake.open[fake.n_open++] = id;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityPopExternalCorrelationId(
    CUpti_ExternalCorrelationKind kind, uint64_t *last)
{
    (void)kind;
    if (fake.n_open == 0)
        return CUPTI_ERROR_QUEUE_EMPTY;
    *last = fake.open[--fake.n_open];
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetTimestamp(uint64_t *ns)
{
    *ns = 1000000000;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream,
                                      uint8_t per_thread, uint32_t *id)
{
    (void)context;
    (void)per_thread;
    *id = (uint32_t)(uintptr_t)stream;
    return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    (void)result;
    *text = "a fake error";
    return CUPTI_SUCCESS;
}
