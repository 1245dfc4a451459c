/* trace_json.h - a rank's trace for chrome://tracing and ui.perfetto.dev
 *
 * Chrome's trace event format: {"traceEvents": [...]}.  A process is a rank, a
 * thread one of its streams, by name; a complete event ("ph": "X") is a kernel
 * or a collective ("cat": "compute" or "communication"), or a stream's part of
 * a range of a step ("range"), which encloses those.  "ts" and "dur" are in
 * microseconds of the engine's clock.  "otherData" has the machine. */
#pragma once

#include "device/engine.h"

/* Prints spans sorted by begin into the file trace_rankN.json of 'folder',
 * whole or not at all; the folder is made if there is none.  STP_ERR_IO,
 * STP_ERR_NOMEM. */
enum stp_status stp_trace_save(const struct stp_spans *spans,
                               const struct stp_device_info *info,
                               const char *folder, struct stp_error *err);
