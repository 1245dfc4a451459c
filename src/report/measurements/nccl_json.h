/*
 * nccl_json.h - the JSON that nccl-tests write with -J FILE, from 2.17 on
 *
 * An object with "nccl_version", "args" (of which the first is the program),
 * "env", "config" (with "iterations", "nthreads", "ngpus" and "devices") and
 * "results": a row a size, as in the text, with "out_of_place" and "in_place"
 * and, by --per-iter, percentiles beside them.
 */
#ifndef STP_NCCL_JSON_H
#define STP_NCCL_JSON_H

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"
#include "report/measurements/nccl_log.h"

/* Whether the text looks like such JSON. */
bool stp_nccl_json_is(const char *text, size_t len);

/*
 * Rewrites the JSON as text of nccl-tests, without rounding any number:
 * *text_ret, of *len_ret bytes, to be freed with free().  The last *n_rows_ret
 * lines are the results.  *settings_ret comes from "env".  STP_ERR_SYNTAX with
 * line and column if it is not JSON, or STP_ERR_NOMEM.
 */
enum stp_status stp_nccl_json_to_text(const char *json, size_t json_len,
                                      char **text_ret, size_t *len_ret,
                                      unsigned *n_rows_ret,
                                      struct stp_nccl_settings *settings_ret,
                                      struct stp_error *err);

#endif /* STP_NCCL_JSON_H */
