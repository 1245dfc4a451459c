#include "base/log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "mock_nccl.h"

enum { LINE_SIZE = 1024 }; /* size of NCCL's buffer */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static mock_log_sink log_sink;
static void *log_user;
static ncclDebugLogLevel log_level;

void mock_set_log(mock_log_sink sink, void *user)
{
    pthread_mutex_lock(&lock);
    log_sink = sink;
    log_user = user;
    log_level = NCCL_LOG_INFO;
    pthread_mutex_unlock(&lock);
}

void mock_set_log_level(ncclDebugLogLevel level)
{
    pthread_mutex_lock(&lock);
    log_level = level < NCCL_LOG_INFO ? level : NCCL_LOG_INFO;
    pthread_mutex_unlock(&lock);
}

bool mock_log_is_enabled(ncclDebugLogLevel level)
{
    bool is_heard;

    pthread_mutex_lock(&lock);
    is_heard = log_sink != NULL && level <= log_level;
    pthread_mutex_unlock(&lock);
    return is_heard;
}

void mock_log(ncclDebugLogLevel level, unsigned long flags, const char *file,
              int line, const char *fmt, ...)
{
    char text[LINE_SIZE];
    va_list args;

    pthread_mutex_lock(&lock);
    if (log_sink != NULL && level <= log_level) {
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        log_sink(log_user, level, flags, text);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- texts with blanks ---- */

void mock_fill(char *line_ret, size_t size, const char *text,
               const struct mock_blank *blanks, size_t n)
{
    size_t used = 0;

    line_ret[0] = '\0';
    while (*text != '\0' && used < size) {
        size_t len = strcspn(text, "<");
        const char *word;

        used += (size_t)snprintf(line_ret + used, size - used, "%.*s", (int)len,
                                 text);
        text += len;
        if (*text == '\0' || used >= size)
            break;
        len = strcspn(++text, ">");
        word = "?";
        for (size_t i = 0; i < n; i++)
            if (strlen(blanks[i].word) == len &&
                memcmp(blanks[i].word, text, len) == 0)
                word = blanks[i].text;
        used += (size_t)snprintf(line_ret + used, size - used, "%s", word);
        text += len + 1;
    }
}
