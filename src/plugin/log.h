/*
 * log.h - lines for NCCL's log
 *
 * Paths and words of files are whatever their author likes: a line for the log
 * holds neither line ends nor what a terminal obeys.
 */
#ifndef STP_PLUGIN_LOG_H
#define STP_PLUGIN_LOG_H

#include "core/status.h"
#include "nccl_tuner_abi.h"

/* Logs a line about 'file' and 'line' of the source.  'log' NULL: nothing. */
void stp_log(ncclDebugLogger_t log, ncclDebugLogLevel level, const char *file,
             int line, const char *fmt, ...) STP_PRINTF(5, 6);

#endif /* STP_PLUGIN_LOG_H */
