#include "analyse/traces/traces.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/traces/formats.h"
#include "core/csv.h"

#define MAX_TRACE ((size_t)1 << 30)

/* ---- what readers share ---- */

int stp_trace_word(const struct stp_trace_word *words, const char *s,
                   size_t len)
{
    for (; words->name != NULL; words++)
        if (strlen(words->name) == len && memcmp(words->name, s, len) == 0)
            return words->coll;
    return STP_NO_WORD;
}

enum stp_status stp_trace_add_gemm(struct stp_trace_build *b,
                                   const uint64_t sides[3], int type,
                                   const struct stp_trace_place *place,
                                   struct stp_error *err)
{
    const uint64_t most = (uint64_t)1 << 30;
    const struct stp_trace_compute compute = {
        .gemm = {(unsigned)sides[0], (unsigned)sides[1], (unsigned)sides[2],
                 type},
        .place = *place};

    for (int i = 0; i < 3; i++)
        if (sides[i] == 0 || sides[i] > most)
            return stp_fail_at(err, STP_ERR_SYNTAX, place->line, 0,
                               "a GEMM with a side of 0, or above 2^30");
    return stp_trace_add_compute(b, &compute, err);
}

/* ---- which format it is ---- */

static bool traces_is_tar(const char *text, size_t len)
{
    return len > 262 && memcmp(text + 257, "ustar", 5) == 0;
}

static bool traces_is_json(const char *text, size_t len)
{
    while (len > 0 && isspace((unsigned char)*text)) {
        text++;
        len--;
    }
    return len > 0 && *text == '{';
}

/* A header with comm_type is on the first line, or below one of ranks; lines
 * with # are none. */
static bool traces_is_aicb(const char *text, size_t len)
{
    const char *end = text + len;
    const char *s = text;
    unsigned line;
    size_t n;

    while (s < end && *s == '#')
        stp_next_line(&s, end, &n);
    if (s < end && *s == '[')
        stp_next_line(&s, end, &n);
    return stp_csv_has_column(s, (size_t)(text + len - s), "comm_type", &line);
}

/* The second line is a number, and the first begins with a word in capitals. */
static bool traces_is_simai(const char *text, size_t len)
{
    const char *s = text;
    size_t n = 0;
    const char *line = stp_next_line(&s, text + len, &n);
    struct stp_field field;
    uint64_t layers;

    if (line == NULL || n < 2 || !isupper((unsigned char)line[0]) ||
        !isupper((unsigned char)line[1]) || memchr(line, ',', n) != NULL)
        return false;
    line = stp_next_line(&s, text + len, &n);
    return line != NULL && stp_split(line, n, &field, 1) == 1 &&
           stp_parse_u64(field.s, field.len, &layers);
}

enum stp_status stp_traces_read(const char *text, size_t len,
                                struct stp_trace *trace_ret,
                                struct stp_error *err)
{
    static const struct {
        const char *name;
        bool (*is)(const char *text, size_t len);
        enum stp_status (*read)(struct stp_trace_build *b, const char *text,
                                size_t len, struct stp_error *err);
    } formats[] = {
        {"execution trace", traces_is_json, stp_read_execution},
        {"AICB workload", traces_is_aicb, stp_read_aicb},
        {"SimAI workload", traces_is_simai, stp_read_simai},
    };

    if (traces_is_tar(text, len))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "a tar archive, expected a trace: unpack it, and name "
                        "a file of it");
    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        struct stp_trace_build b = {.trace = {.n_rows = 0}};

        if (!formats[i].is(text, len))
            continue;
        snprintf(b.trace.format, sizeof(b.trace.format), "%s", formats[i].name);
        return stp_trace_finish(&b, formats[i].read(&b, text, len, err),
                                trace_ret, err);
    }
    return stp_trace_read_csv(text, len, trace_ret, err);
}

/* ---- files ---- */

static bool traces_is_gzip(const char *text, size_t len)
{
    return len > 2 && memcmp(text, "\x1f\x8b", 2) == 0;
}

/* Inflates the stream into *out_ret, which grows, with a NUL behind it. */
static enum stp_status traces_inflate(z_stream *z, char **out_ret,
                                      size_t *len_ret, struct stp_error *err)
{
    size_t capacity = (size_t)1 << 20;
    char *out = NULL;
    int rc = Z_OK;

    for (size_t len = 0; rc == Z_OK; len = z->total_out) {
        char *more = len < MAX_TRACE ? realloc(out, capacity + 1) : NULL;

        if (more == NULL) {
            free(out);
            return len < MAX_TRACE
                       ? stp_nomem(err)
                       : stp_fail(err, STP_ERR_LIMIT,
                                  "more than %zu MiB when decompressed",
                                  MAX_TRACE >> 20);
        }
        out = more;
        z->next_out = (Bytef *)out + len;
        z->avail_out = (uInt)(capacity - len);
        rc = inflate(z, Z_NO_FLUSH);
        capacity *= 2;
    }
    if (rc != Z_STREAM_END) {
        free(out);
        return stp_fail(err, STP_ERR_SYNTAX,
                        "gzip cannot decompress this file: it is cut or "
                        "damaged");
    }
    *len_ret = z->total_out;
    out[*len_ret] = '\0';
    *out_ret = out;
    return STP_OK;
}

/* Replaces a compressed text. */
static enum stp_status traces_gunzip(char **text, size_t *len,
                                     struct stp_error *err)
{
    z_stream z = {.next_in = (Bytef *)*text, .avail_in = (uInt)*len};
    char *out = NULL;
    enum stp_status status;

    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return stp_nomem(err);
    status = traces_inflate(&z, &out, len, err);
    inflateEnd(&z);
    if (status != STP_OK)
        return status;
    free(*text);
    *text = out;
    return STP_OK;
}

enum stp_status stp_traces_load(const char *path, struct stp_trace *trace_ret,
                                struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status = stp_read_file(path, MAX_TRACE, &text, &len, err);

    if (status != STP_OK)
        return status;
    if (traces_is_gzip(text, len))
        status = traces_gunzip(&text, &len, err);
    STP_THEN(status, stp_traces_read(text, len, trace_ret, err));
    free(text);
    return status;
}
