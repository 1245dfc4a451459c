/* messages.c - errors, warnings and progress on standard error */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
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
