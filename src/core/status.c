#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"

#undef stp_fail /* as the analyser has them */
#undef stp_fail_at
#undef stp_nomem

static enum stp_status error_fill(struct stp_error *err, enum stp_status status,
                                  unsigned line, unsigned column,
                                  const char *fmt, va_list va)
{
    char text[STP_ERROR_TEXT];

    if (err == NULL)
        return status;
    err->line = line;
    err->column = column;
    vsnprintf(text, sizeof(text), fmt, va);
    stp_printable(text, strlen(text), err->text, sizeof(err->text));
    return status;
}

enum stp_status stp_fail(struct stp_error *err, enum stp_status status,
                         const char *fmt, ...)
{
    va_list va;

    va_start(va, fmt);
    status = error_fill(err, status, 0, 0, fmt, va);
    va_end(va);
    return status;
}

enum stp_status stp_fail_at(struct stp_error *err, enum stp_status status,
                            unsigned line, unsigned column, const char *fmt,
                            ...)
{
    va_list va;

    va_start(va, fmt);
    status = error_fill(err, status, line, column, fmt, va);
    va_end(va);
    return status;
}

enum stp_status stp_nomem(struct stp_error *err)
{
    return stp_fail(err, STP_ERR_NOMEM, "out of memory");
}

void stp_error_string(const struct stp_error *err, const char *path, char *buf,
                      size_t size)
{
    if (err->line == 0)
        snprintf(buf, size, "%s: %s", path, err->text);
    else if (err->column == 0)
        snprintf(buf, size, "%s:%u: %s", path, err->line, err->text);
    else
        snprintf(buf, size, "%s:%u:%u: %s", path, err->line, err->column,
                 err->text);
}

enum stp_status stp_fail_in(struct stp_error *err, enum stp_status status,
                            const char *path)
{
    char text[2 * STP_ERROR_TEXT];

    stp_error_string(err, path, text, sizeof(text));
    return stp_fail(err, status, "%s", text);
}
