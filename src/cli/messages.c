/* messages.c - errors, warnings and progress on standard error, and guarded
 * output */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analyse/explain/variables.h"
#include "cli/cli.h"
#include "core/text.h"
#include "core/utf8.h"
#include "launch/stop.h"
#include "mock_nccl.h"
#include "report/terminal.h"
#include "store/clock.h"

const char *stp_command_name = "steptune";

int stp_complain(const char *fmt, ...)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];
    char shown[sizeof(text)];
    va_list va;

    va_start(va, fmt);
    vsnprintf(text, sizeof(text), fmt, va);
    va_end(va);
    stp_printable(text, strlen(text), shown, sizeof(shown));
    stp_progress_clear();
    /* One call writes the whole line, so that lines of processes do not mix. */
    fprintf(stderr, "%s: %s\n", stp_command_name, shown);
    return STP_EXIT_FAILED;
}

int stp_complain_error(const char *path, const struct stp_error *err)
{
    char text[STP_CLI_PATH + STP_ERROR_TEXT];

    if (path == NULL)
        return stp_complain("%s", err->text);
    stp_error_string(err, path, text, sizeof(text));
    return stp_complain("%s", text);
}

void stp_print_played_version(const char *nccl)
{
    size_t newest = 0;

    if (nccl == NULL || !mock_release_is_newer(nccl))
        return;
    while (mock_release_name(newest + 1) != NULL)
        newest++;
    stp_complain("NCCL %s is newer than Steptune knows, and is played as %s",
                 nccl, mock_release_name(newest));
}

void stp_print_unplayed(void)
{
    static bool has_told;
    struct stp_variable v;
    char names[1024] = "";

    for (size_t i = 0; stp_variable_at(i, &v); i++)
        if (getenv(v.name) != NULL && v.plays[0] != '\0' &&
            strcmp(v.plays, "graph") != 0 && strcmp(v.plays, "says") != 0)
            stp_append(names, sizeof(names), "%s%s",
                       names[0] != '\0' ? ", " : "", v.name);
    if (names[0] != '\0' && !has_told)
        stp_complain("%s: set here, but without effect on a recorded machine; "
                     "`steptune explain` shows what it would be",
                     names);
    has_told = true;
}

enum { BAR = 20, REDRAW_MS = 100, TIME_TEXT = 48 };

/* The state of the progress bar on the terminal. */
struct progress {
    const char *counted; /* NULL: nothing yet */
    size_t total;
    size_t done, first_done; /* now, and when it was first told */
    int64_t first_ms, drawn_ms;
    bool is_drawn;
};

static struct progress progress;

void stp_progress_clear(void)
{
    if (progress.is_drawn)
        fputs("\r\033[K", stderr);
    progress.is_drawn = false;
}

/* Draws the bar, with the time left by the pace since the first call, before
 * which there is none. */
static void progress_draw(struct progress *p, int64_t now_ms)
{
    static const char bar[] = "####################";
    const int filled = (int)(BAR * p->done / p->total);
    const size_t columns = stp_terminal_columns(stderr);
    const int64_t n = (int64_t)(p->done - p->first_done);
    long long left_s;
    char time_left[TIME_TEXT] = "";
    char line[256];

    if (n > 0 && now_ms - p->first_ms >= REDRAW_MS) {
        left_s = 1 + (now_ms - p->first_ms) * (int64_t)(p->total - p->done) /
                         n / 1000;
        if (left_s >= 3600)
            snprintf(time_left, TIME_TEXT, ", %lld h %lld min left",
                     left_s / 3600, left_s / 60 % 60);
        else if (left_s >= 60)
            snprintf(time_left, TIME_TEXT, ", %lld min %lld s left",
                     left_s / 60, left_s % 60);
        else
            snprintf(time_left, TIME_TEXT, ", %lld s left", left_s);
    }
    snprintf(line, sizeof(line), "[%.*s%*s] %zu of %zu %s%s", filled, bar,
             BAR - filled, "", p->done, p->total, p->counted, time_left);
    fprintf(stderr, "\r%.*s\033[K",
            columns > 1 ? (int)columns - 1 : (int)sizeof(line), line);
    p->drawn_ms = now_ms;
    p->is_drawn = true;
}

bool stp_progress(void *user, size_t done, size_t total)
{
    struct progress *p = &progress;
    const char *counted = user != NULL ? (const char *)user : "sizes";
    int64_t now_ms;

    if (!isatty(STDERR_FILENO))
        return !stp_stop_requested();
    now_ms = stp_now_ms();
    if (p->counted != counted || p->total != total || done <= p->done)
        *p = (struct progress){.counted = counted,
                               .total = total,
                               .first_done = done,
                               .first_ms = now_ms,
                               .is_drawn = p->is_drawn};
    p->done = done;
    if (done >= total)
        stp_progress_clear();
    else if (!p->is_drawn || now_ms - p->drawn_ms >= REDRAW_MS)
        progress_draw(p, now_ms);
    return !stp_stop_requested();
}

/* ---- output without control characters ----
 *
 * Names in measurements, policies, journals and machines, arguments and
 * variables may hold escape sequences, and are printed anywhere.  All of it
 * passes here. */

enum {
    HEX = 4,     /* what stp_printable() makes of a byte, "\x1B" */
    LONGEST = 4, /* character of UTF-8 */
};

struct guard {
    int fd;
    char begun[3]; /* of a character that is written in two parts */
    size_t n_begun;
};

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
    g->n_begun = 0;
    for (n = 1; n < LONGEST && n <= len; n++) {
        const unsigned char c = (unsigned char)text[len - n];
        const size_t whole = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc2 ? 2 : 1;

        if (c >= 0x80 && c < 0xc0)
            continue;
        g->n_begun = whole > n ? n : 0;
        break;
    }
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
