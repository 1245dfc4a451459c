/*
 * train_keys.h - a run of the training benchmark as a JSON object, both ways
 */
#ifndef STP_TRAIN_KEYS_H
#define STP_TRAIN_KEYS_H

#include <cjson/cJSON.h>

#include "core/status.h"
#include "report/training/train_results.h"

/* Adds what there is to say of a run to the object 'row'. */
void stp_train_write_row(cJSON *row, const struct stp_train_run *run);

/*
 * Reads the 'n'th row, from 0, into *run_ret, to be freed with
 * stp_train_run_free().  STP_ERR_SYNTAX says which key of which row is not
 * there or means nothing, and what was expected; STP_ERR_NOMEM.  *run_ret is
 * untouched on failure.
 */
enum stp_status stp_train_read_row(const cJSON *row, size_t n,
                                   struct stp_train_run *run_ret,
                                   struct stp_error *err);

#endif /* STP_TRAIN_KEYS_H */
