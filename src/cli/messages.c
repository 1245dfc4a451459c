/* messages.c - errors, warnings and progress on standard error */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "core/utf8.h"
#include "launch/stop.h"

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
    /* of one process in one go */
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

void stp_progress_clear(void)
{
    if (isatty(STDERR_FILENO))
        fputs("\r\033[K", stderr);
}

bool stp_progress(void *user, size_t done, size_t total)
{
    static const char bar[] = "########################################";
    const int width = (int)sizeof(bar) - 1;
    int filled = (int)((size_t)width * done / total);

    if (isatty(STDERR_FILENO))
        fprintf(stderr, "\r[%.*s%*s] %zu of %zu %s%s", filled, bar,
                width - filled, "", done, total,
                user != NULL ? (const char *)user : "sizes",
                done == total ? "\n" : "");
    return !stp_stop_wished();
}
