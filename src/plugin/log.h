/*
 * log.h - lines for NCCL's log
 *
 * Paths and words of files are whatever their author likes: a line for the log
 * holds neither line ends nor what a terminal obeys.
 */
#ifndef STP_PLUGIN_LOG_H
#define STP_PLUGIN_LOG_H

#include <stddef.h>

#include "core/status.h"
#include "nccl_tuner_abi.h"

/* Copies 'text', as much of it as 'size' bytes hold with the NUL: printable
 * ASCII and well-formed UTF-8 as they are, control characters and all other
 * bytes as \xNN. */
void stp_make_printable(const char *text, char *buf, size_t size);

/* Logs a line about 'file' and 'line' of the source.  'log' NULL: nothing. */
void stp_log(ncclDebugLogger_t log, ncclDebugLogLevel level, const char *file,
             int line, const char *fmt, ...) STP_PRINTF(5, 6);

#endif /* STP_PLUGIN_LOG_H */
