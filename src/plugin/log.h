/* log.h - lines for NCCL's log
 *
 * Paths and words of files may hold any bytes: a line for the log has no line
 * ends and no control characters. */
#pragma once

#include "core/status.h"
#include "nccl_tuner_abi.h"

/* Logs a line about 'file' and 'line' of the source.  'log' NULL: nothing. */
void stp_log(ncclDebugLogger_t log, ncclDebugLogLevel level, const char *file,
             int line, const char *fmt, ...) STP_PRINTF(5, 6);
