#include "plugin/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/utf8.h"
#include "plugin/settings.h"

enum { N_LINE = STP_PATH_SIZE + 1024 }; /* a path, and what is said of it */

void stp_log(ncclDebugLogger_t log, ncclDebugLogLevel level, const char *file,
             int line, const char *fmt, ...)
{
    char text[N_LINE];
    char printable[2 * N_LINE];
    const char *s = text;
    va_list va;

    if (log == NULL)
        return;
    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    while (' ' <= *s && *s <= '~') /* as nearly all lines are throughout */
        s++;
    if (*s != '\0') {
        stp_printable(text, strlen(text), printable, sizeof(printable));
        s = printable;
    } else
        s = text;
    log(level, NCCL_INIT | NCCL_TUNING, file, line, "%s", s);
}
