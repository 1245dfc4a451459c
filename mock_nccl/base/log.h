/* log.h - NCCL's logger, for mock_nccl's own lines and for tuners */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "nccl_tuner_abi.h"

/* An ncclDebugLogger_t.  Lines longer than NCCL's buffer are cut. */
void mock_log(ncclDebugLogLevel level, unsigned long flags, const char *file,
              int line, const char *fmt, ...) NCCL_ABI_PRINTF;

/* False if nobody receives lines of the level, none need be formatted. */
bool mock_log_is_enabled(ncclDebugLogLevel level);

#define MOCK_INFO(flags, ...)                                                  \
    mock_log(NCCL_LOG_INFO, (flags), __FILE__, __LINE__, __VA_ARGS__)
#define MOCK_WARN(...)                                                         \
    mock_log(NCCL_LOG_WARN, ~0ul, __FILE__, __LINE__, __VA_ARGS__)

/* The text that replaces a <word>. */
struct mock_blank {
    const char *word;
    const char *text;
};

/* Replaces the <words> of 'text', each of which must be among the 'n' blanks;
 * the line is cut to 'size'. */
void mock_fill(char *line_ret, size_t size, const char *text,
               const struct mock_blank *blanks, size_t n);
