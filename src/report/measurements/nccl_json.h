/*
 * nccl_json.h - the JSON that nccl-tests write with -J FILE, from 2.17 on
 *
 * An object with "nccl_version", "args" (of which the first is the program),
 * "env", "config" (with "iterations", "nthreads", "ngpus" and "devices") and
 * "results": a row a size, as in the text, with "out_of_place" and "in_place"
 * and, by --per-iter, percentiles beside them.
 *
 * A process has an entry under "devices" for the first of its ranks only.
 */
#ifndef STP_NCCL_JSON_H
#define STP_NCCL_JSON_H

#include "bench/measurement.h"
#include "report/measurements/nccl_log.h"

/* Whether the text looks like such JSON. */
bool stp_nccl_json_is(const char *text, size_t len);

/* As stp_nccl_text_read(), of JSON.  *settings_ret, unless NULL, comes from
 * "env".  STP_ERR_SYNTAX with line and column if it is not JSON, and with the
 * result and its key if a value means nothing; or STP_ERR_NOMEM. */
enum stp_status stp_nccl_json_read(const char *text, size_t len, int coll,
                                   struct stp_dataset *data,
                                   struct stp_nccl_settings *settings_ret,
                                   struct stp_error *err);

#endif /* STP_NCCL_JSON_H */
