/*
 * train_keys.h - runs of the training benchmark as JSON, both ways
 */
#ifndef STP_TRAIN_KEYS_H
#define STP_TRAIN_KEYS_H

#include <cjson/cJSON.h>

#include "core/status.h"
#include "report/training/train_results.h"

/* Adds a run's keys to the object 'row'. */
void stp_train_write_row(cJSON *row, const struct stp_train_run *run);

/*
 * Reads the file at 'path', which stp_train_save() wrote, and derives the
 * rest.  STP_ERR_SYNTAX says where it is not JSON, or which run has which
 * key that means nothing and what was expected; STP_ERR_IO, STP_ERR_NOMEM,
 * STP_ERR_LIMIT.  The text of *err does not name the file; *runs_ret is
 * untouched on failure.
 */
enum stp_status stp_train_read(const char *path,
                               struct stp_train_runs *runs_ret,
                               struct stp_error *err);

/* The same out of the 'len' bytes at 'text'. */
enum stp_status stp_train_read_json(const char *text, size_t len,
                                    struct stp_train_runs *runs_ret,
                                    struct stp_error *err);

#endif /* STP_TRAIN_KEYS_H */
