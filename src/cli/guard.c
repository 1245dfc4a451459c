/* guard.c - output without control characters
 *
 * Names in measurements, policies, journals and machines, arguments and
 * variables may hold escape sequences, and are printed anywhere.  All of it
 * passes here. */
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

/* As fopencookie() has it: returns 'size', or 0 if it failed. */
static ssize_t guard_write(void *cookie, const char *s, size_t size)
{
    struct guard *g = cookie;
    const size_t len = g->n_begun + size;
    char *text = malloc(len + HEX * len + 1);
    char *shown = text + len;
    size_t used = 0, done = 0, n;

    if (text == NULL)
        return 0;
    memcpy(text, g->begun, g->n_begun);
    memcpy(text + g->n_begun, s, size);
    g->n_begun = guard_count_begun(text, len);
    memcpy(g->begun, text + len - g->n_begun, g->n_begun);
    /* all but the ends of lines is made printable */
    for (size_t i = 0; i < len - g->n_begun; i += n + 1) {
        const char *end = memchr(text + i, '\n', len - g->n_begun - i);

        n = end != NULL ? (size_t)(end - text) - i : len - g->n_begun - i;
        stp_printable(text + i, n, shown + used, HEX * n + 1);
        used += strlen(shown + used);
        if (end != NULL)
            shown[used++] = '\n';
    }
    while (done < used) {
        const ssize_t written = write(g->fd, shown + done, used - done);

        if (written < 0 && errno != EINTR)
            break;
        done += written > 0 ? (size_t)written : 0;
    }
    free(text);
    return done == used ? (ssize_t)size : 0;
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
