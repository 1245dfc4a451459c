#include "analyse/traces/traces.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/csv.h"

#define MAX_TRACE ((size_t)1 << 30)

enum stp_status stp_traces_read(const char *text, size_t len,
                                struct stp_trace *trace_ret,
                                struct stp_error *err)
{
    struct stp_trace_build b = {.trace = {.format = "execution trace"}};
    size_t blanks = 0;
    unsigned line;

    while (blanks < len && isspace((unsigned char)text[blanks]))
        blanks++;
    if (len > 262 && memcmp(text + 257, "ustar", 5) == 0)
        return stp_fail(err, STP_ERR_SYNTAX,
                        "a tar archive, expected a trace: unpack it, and name "
                        "a file of it");
    if (blanks < len && text[blanks] == '{')
        return stp_trace_finish(&b, stp_read_execution(&b, text, len, err),
                                trace_ret, err);
    if (len > 0 && !stp_csv_has_column(text, len, "collective", &line))
        return stp_fail_at(err, STP_ERR_SYNTAX, line, 0,
                           "a file of another format, expected a CSV file with "
                           "a column collective, or PyTorch's execution trace");
    return stp_trace_read_csv(text, len, trace_ret, err);
}

/* Replaces a text that gzip compressed, with a NUL behind it. */
static enum stp_status traces_inflate(char **text, size_t *len,
                                      struct stp_error *err)
{
    z_stream z = {.next_in = (Bytef *)*text, .avail_in = (uInt)*len};
    size_t capacity = (size_t)1 << 20;
    enum stp_status status = STP_OK;
    char *out = NULL;
    int rc = Z_OK;

    if (inflateInit2(&z, 16 + MAX_WBITS) != Z_OK)
        return stp_nomem(err);
    for (size_t n = 0; rc == Z_OK && status == STP_OK; n = z.total_out) {
        char *more = n < MAX_TRACE ? realloc(out, capacity + 1) : NULL;

        if (n >= MAX_TRACE)
            status = stp_fail(err, STP_ERR_LIMIT,
                              "more than %zu MiB when decompressed",
                              MAX_TRACE >> 20);
        else if (more == NULL)
            status = stp_nomem(err);
        else {
            out = more;
            z.next_out = (Bytef *)out + n;
            z.avail_out = (uInt)(capacity - n);
            rc = inflate(&z, Z_NO_FLUSH);
            capacity *= 2;
        }
    }
    inflateEnd(&z);
    if (status == STP_OK && rc != Z_STREAM_END)
        status = stp_fail(err, STP_ERR_SYNTAX,
                          "gzip cannot decompress this file: it is cut or "
                          "damaged");
    if (status != STP_OK) {
        free(out);
        return status;
    }
    free(*text);
    *text = out;
    *len = z.total_out;
    out[*len] = '\0';
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
    if (len > 2 && memcmp(text, "\x1f\x8b", 2) == 0)
        status = traces_inflate(&text, &len, err);
    STP_THEN(status, stp_traces_read(text, len, trace_ret, err));
    free(text);
    return status;
}
