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

void mock_set_log(mock_log_sink sink, void *user)
{
    pthread_mutex_lock(&lock);
    log_sink = sink;
    log_user = user;
    pthread_mutex_unlock(&lock);
}

bool mock_log_has_sink(void)
{
    bool has_sink;

    pthread_mutex_lock(&lock);
    has_sink = log_sink != NULL;
    pthread_mutex_unlock(&lock);
    return has_sink;
}

void mock_log(ncclDebugLogLevel level, unsigned long flags, const char *file,
              int line, const char *fmt, ...)
{
    char text[LINE_SIZE];
    va_list args;

    (void)file; /* NCCL prints file and line for warnings only */
    (void)line;
    if (level > NCCL_LOG_INFO)
        return;
    pthread_mutex_lock(&lock);
    if (log_sink != NULL) {
        va_start(args, fmt);
        vsnprintf(text, sizeof(text), fmt, args);
        va_end(args);
        log_sink(log_user, level, flags, text);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- texts with blanks ---- */

static const char *log_find(const struct mock_blank *blanks, size_t n,
                            const char *word, size_t len)
{
    for (size_t i = 0; i < n; i++)
        if (strlen(blanks[i].word) == len &&
            memcmp(blanks[i].word, word, len) == 0)
            return blanks[i].text;
    return "?";
}

void mock_fill(char *line_ret, size_t size, const char *text,
               const struct mock_blank *blanks, size_t n)
{
    size_t used = 0;

    line_ret[0] = '\0';
    while (*text != '\0' && used < size) {
        size_t len = strcspn(text, "<");

        used += (size_t)snprintf(line_ret + used, size - used, "%.*s", (int)len,
                                 text);
        text += len;
        if (*text == '\0' || used >= size)
            break;
        len = strcspn(++text, ">");
        used += (size_t)snprintf(line_ret + used, size - used, "%s",
                                 log_find(blanks, n, text, len));
        text += len + 1;
    }
}
