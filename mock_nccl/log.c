#include "log.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#include "mock_nccl.h"

enum { LINE_SIZE = 1024 }; /* NCCL's */

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

void mock_log(ncclDebugLogLevel level, unsigned long flags, const char *file,
              int line, const char *fmt, ...)
{
    char text[LINE_SIZE];
    va_list args;

    (void)file; /* NCCL prints both for warnings only */
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
