#include "plugin/log.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "plugin/settings.h"

enum { N_LINE = STP_PATH_SIZE + 1024 }; /* a path, and what is said of it */

/* The bytes of the character at 's' if it is shown as it is, else 0: a control
 * character (also U+0080 to U+009F), or no well-formed UTF-8. */
static size_t log_shown_bytes(const unsigned char *s)
{
    uint32_t code = s[0] & 0x1fu;
    size_t n = 2;

    if (s[0] < 0x80)
        return ' ' <= s[0] && s[0] <= '~';
    if (s[0] < 0xc2 || s[0] > 0xf4)
        return 0;
    if (s[0] >= 0xe0) {
        n = s[0] < 0xf0 ? 3 : 4;
        code = s[0] & (n == 3 ? 0x0fu : 0x07u);
    }
    for (size_t i = 1; i < n; i++) {
        if ((s[i] & 0xc0) != 0x80) /* the NUL at the end is none, too */
            return 0;
        code = code << 6 | (s[i] & 0x3fu);
    }
    if (code < 0xa0 || (n == 3 && code < 0x800) || (n == 4 && code < 0x10000) ||
        (code >= 0xd800 && code <= 0xdfff) || code > 0x10ffff)
        return 0;
    return n;
}

void stp_make_printable(const char *text, char *buf, size_t size)
{
    static const char digits[] = "0123456789ABCDEF";
    const unsigned char *s = (const unsigned char *)text;
    size_t len = 0;

    while (*s != '\0') {
        const char escaped[4] = {'\\', 'x', digits[*s >> 4], digits[*s & 15]};
        size_t n_shown = log_shown_bytes(s);
        size_t n = n_shown != 0 ? n_shown : sizeof(escaped);

        if (n >= size - len)
            break;
        memcpy(buf + len, n_shown != 0 ? (const char *)s : escaped, n);
        len += n;
        s += n_shown != 0 ? n_shown : 1;
    }
    buf[len] = '\0';
}

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
        stp_make_printable(text, printable, sizeof(printable));
        s = printable;
    } else
        s = text;
    log(level, NCCL_INIT | NCCL_TUNING, file, line, "%s", s);
}
