#include "report/training/trace_json.h"

#include "report/file.h"
#include "report/folder.h"
#include "report/json.h"

enum { N_THREADS = STP_N_STREAMS + 1 };

static const char *const trace_threads[N_THREADS] = {
    [STP_STREAM_MAIN] = "compute stream",
    [STP_STREAM_COMM] = "communication stream",
    [STP_N_STREAMS] = "host",
};

static const char *const trace_kinds[] = {
    [STP_SPAN_COMPUTE] = "compute",
    [STP_SPAN_COMMUNICATION] = "communication",
    [STP_SPAN_RANGE] = "range",
};

static cJSON *trace_add_event(cJSON *list, const char *ph, unsigned rank,
                              unsigned thread, const char *name)
{
    cJSON *event = stp_json_row(list);

    cJSON_AddStringToObject(event, "ph", ph);
    cJSON_AddStringToObject(event, "name", name);
    stp_json_number(event, "pid", rank);
    stp_json_number(event, "tid", thread);
    return event;
}

static void trace_add_name(cJSON *list, unsigned rank, unsigned thread,
                           const char *what, const char *name)
{
    cJSON *event = trace_add_event(list, "M", rank, thread, what);

    cJSON_AddStringToObject(cJSON_AddObjectToObject(event, "args"), "name",
                            name);
}

static void trace_add_span(cJSON *list, unsigned rank,
                           const struct stp_span *span)
{
    cJSON *event = trace_add_event(list, "X", rank, span->stream, span->name);
    cJSON *args;

    cJSON_AddStringToObject(event, "cat", trace_kinds[span->kind]);
    stp_json_number(event, "ts", span->begin_us);
    stp_json_number(event, "dur", span->end_us - span->begin_us);
    args = cJSON_AddObjectToObject(event, "args");
    if (span->range.name != NULL)
        cJSON_AddStringToObject(args, "range", span->range.name);
}

/* Adds a stream's part of a range as one event, before the events in it:
 * viewers need that order for events that begin at the same time. */
static void trace_add_ranges(cJSON *list, const struct stp_spans *spans,
                             unsigned rank, unsigned stream)
{
    struct stp_span open = {.kind = STP_SPAN_RANGE, .stream = stream};

    for (size_t i = 0; i < spans->n; i++) {
        const struct stp_span *s = &spans->all[i];

        if (s->stream != stream || s->kind == STP_SPAN_RANGE)
            continue;
        if (open.range.number != s->range.number) {
            if (open.range.name != NULL)
                trace_add_span(list, rank, &open);
            open.range = s->range;
            open.begin_us = s->begin_us;
            snprintf(open.name, sizeof(open.name), "%s",
                     s->range.name != NULL ? s->range.name : "");
        }
        open.end_us = s->end_us;
    }
    if (open.range.name != NULL)
        trace_add_span(list, rank, &open);
}

enum stp_status stp_trace_save(const struct stp_spans *spans,
                               const struct stp_device_info *info,
                               const char *folder, struct stp_error *err)
{
    cJSON *root, *list, *other;
    char path[STP_FOLDER_PATH], rank[32];
    struct stp_file file;

    STP_TRY(stp_folder_make(folder, err));
    snprintf(path, sizeof(path), "%s/trace_rank%u.json", folder, info->rank);
    STP_TRY(stp_file_begin(path, &file, err));
    root = cJSON_CreateObject();
    list = cJSON_AddArrayToObject(root, "traceEvents");
    other = cJSON_AddObjectToObject(root, "otherData");
    cJSON_AddStringToObject(root, "displayTimeUnit", "ms");
    cJSON_AddStringToObject(other, "made_by", info->what);
    cJSON_AddStringToObject(other, "gpu_name", info->processor);
    snprintf(rank, sizeof(rank), "rank %u", info->rank);
    trace_add_name(list, info->rank, 0, "process_name", rank);
    for (unsigned i = 0; i < N_THREADS; i++)
        trace_add_name(list, info->rank, i, "thread_name", trace_threads[i]);
    for (unsigned i = 0; i < STP_N_STREAMS; i++)
        trace_add_ranges(list, spans, info->rank, i);
    for (size_t i = 0; i < spans->n; i++)
        trace_add_span(list, info->rank, &spans->all[i]);
    stp_json_finish(root, file.fp);
    return stp_file_commit(&file, err);
}
