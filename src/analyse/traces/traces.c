#define _GNU_SOURCE /* versionsort() */
#include "analyse/traces/traces.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/traces/reading.h"
#include "core/looks.h"
#include "core/csv.h"
#include "core/utf8.h"
#include "launch/take.h"

#define TRACES                                                                 \
    "a CSV file with a column collective, or a trace of PyTorch or NCCL "      \
    "Inspector in JSON"

enum { PART = 1 << 16, MAX_EVENT = 64 << 20, MAX_TABLE = 1 << 30 };

/* A file, which gzip may have compressed. */
struct source {
    gzFile file;
    const char *s; /* the next byte of the part that is in memory */
    const char *end;
    unsigned line; /* of the next byte */
    bool is_damaged;
    char *kept; /* bytes that were read and are kept */
    size_t n_kept;
    size_t capacity;
    size_t max_kept; /* 0: none are kept now */
    enum stp_status status;
    struct stp_error *err;
    char part[PART];
};

/* Events by key, and the format that has them; NULL where several have it. */
static const struct event_kind {
    const char *key; /* of the list in which they are, or theirs */
    const char *format;
    stp_event *take;
} kinds[] = {
    {"nodes", "execution trace", stp_execution_node},
    {"distributedInfo", NULL, stp_profiler_job},
    {"traceEvents", "profiler's trace", stp_profiler_event},
    {"", "profiler's trace", stp_profiler_event},
    {"pg_config", NULL, stp_read_groups},
    {"entries", "flight recorder", stp_flight_entry},
    {"header", NULL, stp_inspector_header},
    {"coll_perf", "NCCL Inspector", stp_inspector_call},
    {"p2p_perf", "NCCL Inspector", stp_inspector_call},
};

static void source_keep(struct source *src, char c)
{
    if (src->n_kept == src->max_kept)
        src->status = stp_fail_at(src->err, STP_ERR_LIMIT, src->line, 0,
                                  "more than %zu MiB", src->max_kept >> 20);
    else
        STP_TAKE_ROOM(src->kept, src->n_kept, src->capacity);
    if (src->status == STP_OK)
        src->kept[src->n_kept++] = c;
}

/* The next byte; -1 at the end, or after a failure. */
static int source_next(struct source *src)
{
    if (src->s == src->end) {
        const int n = gzread(src->file, src->part, PART);
        int error = Z_OK;

        gzerror(src->file, &error);
        src->is_damaged |= error != Z_OK && error != Z_STREAM_END;
        src->s = src->part;
        src->end = src->part + (n > 0 ? n : 0);
    }
    if (src->s == src->end || src->status != STP_OK)
        return -1;
    if (src->max_kept > 0)
        source_keep(src, *src->s);
    src->line += *src->s == '\n';
    return (unsigned char)*src->s++;
}

/* Takes the events of a file: objects that an object holds under a key, or that
 * are items of a list there or of a list that is the file.  Brackets are
 * counted and texts passed by; all else is left to cJSON, an event at a time.
 * What is whole before the end of a file that was cut is taken. */
static void traces_scan(struct source *src, struct reading *r)
{
    const struct event_kind *kind = NULL; /* of the event that is open */
    bool in_text = false, is_escaped = false;
    unsigned depth = 0, begin = 0, line = 0;
    char outer[2] = "", key[16];
    size_t n_key = 0;
    int c;

    while ((c = source_next(src)) >= 0) {
        if (in_text) {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            if (in_text && depth == 1 && n_key < sizeof(key))
                key[n_key++] = (char)c;
        } else if (c == '"') {
            in_text = true;
            n_key = depth == 1 ? 0 : n_key;
        } else if (c == '{' || c == '[') {
            const bool is_item =
                depth == 2 && outer[0] == '{' && outer[1] == '[';

            if (depth == 0 || outer[0] == '[')
                n_key = 0;
            for (size_t i = 0; i < STP_N_OF(kinds) && kind == NULL &&
                               c == '{' && (depth == 1 || is_item);
                 i++)
                if (strlen(kinds[i].key) == n_key &&
                    memcmp(kinds[i].key, key, n_key) == 0) {
                    kind = &kinds[i];
                    line = src->line;
                    begin = depth;
                    src->max_kept = MAX_EVENT;
                    src->n_kept = 0;
                    source_keep(src, '{');
                }
            if (depth < 2)
                outer[depth] = (char)c;
            depth++;
        } else if ((c == '}' || c == ']') && depth > 0 && --depth == begin &&
                   kind != NULL) {
            cJSON *json = cJSON_ParseWithLength(src->kept, src->n_kept);

            if (kind->format != NULL)
                snprintf(r->b->trace.format, sizeof(r->b->trace.format), "%s",
                         kind->format);
            src->status =
                json != NULL
                    ? kind->take(r, line, json)
                    : stp_read_skip(r, "event", " that is not JSON", line);
            cJSON_Delete(json);
            src->max_kept = 0;
            kind = NULL;
        }
    }
    if (depth > 0 || src->is_damaged)
        r->b->trace.cut_line = src->line;
}

static enum stp_status traces_read_json(struct source *src,
                                        struct stp_trace *trace_ret)
{
    struct stp_trace_build b = {.slots = NULL};
    struct reading r = {.b = &b, .err = src->err};
    enum stp_status status;

    traces_scan(src, &r);
    status = src->status;
    STP_THEN(status, stp_execution_finish(&r));
    STP_THEN(status, stp_spans_finish(&r));
    if (status == STP_OK && b.trace.format[0] == '\0')
        status = stp_fail(src->err, STP_ERR_SYNTAX,
                          "JSON without an item of nodes, traceEvents or "
                          "entries and without coll_perf, expected PyTorch's "
                          "execution trace, profiler's trace or flight "
                          "recorder, or NCCL Inspector's lines");
    free(r.groups);
    free(r.nodes);
    free(r.spans.items);
    free(r.launches.items);
    free(r.steps.items);
    return stp_trace_finish(&b, status, trace_ret, src->err);
}

/* Reads a table; one whose end gzip lost is read up to its last whole line. */
static enum stp_status traces_read_table(struct source *src,
                                         struct stp_trace *trace_ret)
{
    const char *text;
    unsigned line;

    src->max_kept = MAX_TABLE;
    while (source_next(src) >= 0)
        ;
    text = src->kept != NULL ? src->kept : "";
    while (src->is_damaged && src->n_kept > 0 && text[src->n_kept - 1] != '\n')
        src->n_kept--;
    STP_TRY(src->status);
    if (src->n_kept > 0 &&
        !stp_csv_has_column(text, src->n_kept, "collective", &line)) {
        stp_fail_at(src->err, STP_ERR_SYNTAX, line, 0,
                    "a file of another format, expected " TRACES);
        return stp_refuse_kind(text, src->n_kept, TRACES, src->err);
    }
    STP_TRY(stp_trace_read_csv(text, src->n_kept, trace_ret, src->err));
    trace_ret->cut_line = src->is_damaged ? src->line : 0;
    return STP_OK;
}

static bool source_begins(const struct source *src, size_t at,
                          const char *bytes)
{
    const size_t len = (size_t)(src->end - src->s);

    return len >= at + strlen(bytes) &&
           memcmp(src->s + at, bytes, strlen(bytes)) == 0;
}

/* Reads it as what its first bytes say, and releases what it kept. */
static enum stp_status traces_read_any(struct source *src,
                                       struct stp_trace *trace_ret)
{
    enum stp_status status;
    const char *s;

    if (source_next(src) >= 0) {
        src->s--; /* it is in the part */
        src->line = 1;
        if (source_begins(src, 0, "\xEF\xBB\xBF"))
            src->s += 3;
    } else if (src->is_damaged) {
        return stp_fail(src->err, STP_ERR_SYNTAX,
                        "gzip cannot decompress this file: it is cut or "
                        "damaged");
    }
    if (source_begins(src, 257, "ustar") || source_begins(src, 0, "PK\3\4"))
        return stp_fail(src->err, STP_ERR_SYNTAX,
                        "an archive, expected a trace: unpack it, and name a "
                        "file of it");
    if (source_begins(src, 0, "\x80"))
        return stp_fail(
            src->err, STP_ERR_SYNTAX,
            "a pickle, as PyTorch's flight recorder dumps it, expected JSON: "
            "python3 -c 'import json,pickle,sys; "
            "json.dump(pickle.load(sys.stdin.buffer),sys.stdout)' <FILE "
            ">FILE.json");
    for (s = src->s; s < src->end && strchr(" \t\r\n", *s) != NULL;)
        s++;
    status =
        s < src->end &&
                (*s == '{' ||
                 (*s == '[' && memchr(s, '{', (size_t)(src->end - s)) != NULL))
            ? traces_read_json(src, trace_ret)
            : traces_read_table(src, trace_ret);
    free(src->kept);
    return status;
}

static enum stp_status traces_load_file(const char *path,
                                        struct stp_trace *trace_ret,
                                        struct stp_error *err)
{
    struct source src = {.file = gzopen(path, "rb"), .line = 1, .err = err};
    enum stp_status status;

    if (src.file == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot be opened: %s",
                        strerror(errno));
    status = traces_read_any(&src, trace_ret);
    gzclose(src.file);
    return status;
}

enum stp_status stp_traces_load(const char *path, struct stp_trace *trace_ret,
                                struct stp_error *err)
{
    struct dirent **files = NULL;
    const int n = scandir(path, &files, NULL, versionsort);
    enum stp_status status =
        n < 0 ? traces_load_file(path, trace_ret, err)
              : stp_fail(err, STP_ERR_IO, "a folder without a file");

    for (int i = 0; i < n; i++) {
        const char *name = files[i]->d_name;
        char file[4096];

        snprintf(file, sizeof(file), "%s/%s", path, name);
        if (status != STP_OK && name[0] != '.') {
            status = traces_load_file(file, trace_ret, err);
            if (status == STP_OK)
                stp_printable(name, strlen(name), trace_ret->file,
                              sizeof(trace_ret->file));
        }
        free(files[i]);
    }
    free(files);
    return status;
}
