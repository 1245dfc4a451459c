#include "analyse/traces/traces.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "analyse/traces/execution.h"
#include "core/csv.h"

#define MAX_TRACE ((size_t)1 << 30)

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

enum stp_status stp_traces_read(const char *text, size_t len,
                                struct stp_trace *trace_ret,
                                struct stp_error *err)
{
    struct stp_trace_build b = {.trace = {.format = "execution trace"}};
    unsigned line;

    if (traces_is_tar(text, len))
        return stp_fail(err, STP_ERR_SYNTAX,
                        "a tar archive, expected a trace: unpack it, and name "
                        "a file of it");
    if (traces_is_json(text, len))
        return stp_trace_finish(&b, stp_read_execution(&b, text, len, err),
                                trace_ret, err);
    if (len > 0 && !stp_csv_has_column(text, len, "collective", &line))
        return stp_fail_at(err, STP_ERR_SYNTAX, line, 0,
                           "a file of another format, expected a CSV file with "
                           "a column collective, or PyTorch's execution trace");
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
