/*
 * records_row.h - one row of timings.csv or overlap.csv
 */
#ifndef MOCK_RECORDS_ROW_H
#define MOCK_RECORDS_ROW_H

#include "base/csv.h"
#include "machine/records.h"

/* Opens such a file. */
ncclResult_t mock_record_open(const char *path, bool is_overlap,
                              struct mock_csv **csv_ret);

/*
 * Reads the row that mock_csv_next() came to.  *wanted_ret is false for one of
 * overlap.csv that says nothing of a known pair beside a product in bf16: of
 * what `steptune iterate` writes, other modes, computes and types, what a tuner
 * chose, and arms of which nobody knows what ran.
 */
ncclResult_t mock_record_read(const struct mock_csv *csv, bool is_overlap,
                              const struct mock_model *model,
                              struct mock_record *record, bool *wanted_ret);

#endif /* MOCK_RECORDS_ROW_H */
