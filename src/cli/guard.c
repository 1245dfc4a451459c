/* guard.c - output without what a terminal obeys
 *
 * Names in measurements, policies, journals and machines, arguments and
 * variables may hold escape sequences, and are printed in many places.  All of
 * it passes here.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/utf8.h"

enum {
    HEX = 4,     /* what stp_printable() makes of a byte, "\x1B" */
    LONGEST = 4, /* character of UTF-8 */
};

struct guard {
    int fd;
    char begun[3]; /* of a character that is written in two parts */
    size_t n_begun;
};

static bool guard_write_all(int fd, const char *s, size_t len)
{
    while (len > 0) {
        const ssize_t n = write(fd, s, len);

        if (n < 0 && errno != EINTR)
            return false;
        s += n > 0 ? n : 0;
        len -= n > 0 ? (size_t)n : 0;
    }
    return true;
}

/* How many bytes at the end of the text begin a character that goes on. */
static size_t guard_count_begun(const char *s, size_t len)
{
    for (size_t n = 1; n < LONGEST && n <= len; n++) {
        const unsigned char c = (unsigned char)s[len - n];
        const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;

        if (c < 0x80 || c >= 0xc0)
            return whole > n ? n : 0;
    }
    return 0;
}

/* All but the ends of lines. */
static size_t guard_make_printable(const char *s, size_t len, char *shown)
{
    size_t used = 0;

    for (const char *end = s + len; s < end;) {
        const char *line = memchr(s, '\n', (size_t)(end - s));
        const size_t n = (size_t)((line != NULL ? line : end) - s);

        stp_printable(s, n, shown + used, HEX * n + 1);
        used += strlen(shown + used);
        if (line != NULL)
            shown[used++] = '\n';
        s += n + (line != NULL);
    }
    return used;
}

/* As fopencookie() has it: returns 'size', or 0 if it failed. */
static ssize_t guard_write(void *cookie, const char *s, size_t size)
{
    struct guard *g = cookie;
    const size_t len = g->n_begun + size;
    char *text = malloc(len + HEX * len + 1);
    char *shown = text + len;
    bool done;

    if (text == NULL)
        return 0;
    memcpy(text, g->begun, g->n_begun);
    memcpy(text + g->n_begun, s, size);
    g->n_begun = guard_count_begun(text, len);
    memcpy(g->begun, text + len - g->n_begun, g->n_begun);
    done = guard_write_all(g->fd, shown,
                           guard_make_printable(text, len - g->n_begun, shown));
    free(text);
    return done ? (ssize_t)size : 0;
}

/* 'fd' is that of standard output or of standard error. */
FILE *stp_guard_output(int fd)
{
    static struct guard guards[STDERR_FILENO + 1];
    const cookie_io_functions_t functions = {.write = guard_write};
    FILE *fp;

    guards[fd] = (struct guard){.fd = fd};
    fp = fopencookie(&guards[fd], "w", functions);
    if (fp != NULL && isatty(fd))
        setvbuf(fp, NULL, _IOLBF, 0);
    return fp;
}
