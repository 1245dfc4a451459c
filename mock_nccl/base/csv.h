/*
 * csv.h - reads a CSV file strictly
 *
 * '#' lines and blank lines are skipped. The first other line is the header: it
 * names the expected columns, in any order, and no others. Fields are neither
 * quoted nor trimmed. Every error names file, line and, if there is one,
 * column.
 */
#ifndef MOCK_CSV_H
#define MOCK_CSV_H

#include <stdbool.h>

#include "base/error.h"
#include "base/names.h"

struct mock_csv;

/* Opens 'path' and reads its header.  'columns' is kept. */
ncclResult_t mock_csv_open(const char *path, const struct mock_words *columns,
                           struct mock_csv **csv_ret);
/* Like mock_csv_open(), but the columns whose bits are set in 'optional' may be
 * absent, and the columns in 'ignored' (NULL: none) may be present. */
ncclResult_t mock_csv_open_some(const char *path,
                                const struct mock_words *columns,
                                unsigned optional,
                                const struct mock_words *ignored,
                                struct mock_csv **csv_ret);
/* True if the file has the column; false for numbers of no column. */
bool mock_csv_has(const struct mock_csv *csv, int column);
void mock_csv_close(struct mock_csv *csv);

/* Reads the next row; *row_ret is false after the last. */
ncclResult_t mock_csv_next(struct mock_csv *csv, bool *row_ret);

/* The line that the row is on, from 1. */
int mock_csv_line(const struct mock_csv *csv);

/* Fields of the row, by index in 'columns'. A text is never empty. */
ncclResult_t mock_csv_text(const struct mock_csv *csv, int column,
                           const char **text_ret);
ncclResult_t mock_csv_int(const struct mock_csv *csv, int column, long long min,
                          long long max, long long *number_ret);
ncclResult_t mock_csv_positive(const struct mock_csv *csv, int column,
                               double *number_ret);
/* The index of a word of 'list', or -1 for 'extra' (if not NULL). */
ncclResult_t mock_csv_word(const struct mock_csv *csv, int column,
                           const struct mock_words *list, const char *extra,
                           int *number_ret);

/* mock_fail() with file and line before the sentence. */
ncclResult_t mock_csv_fail(const struct mock_csv *csv, int line,
                           const char *fmt, ...) MOCK_PRINTF(3, 4);

#endif /* MOCK_CSV_H */
