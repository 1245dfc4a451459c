/* csv.h - reads a CSV file strictly
 *
 * '#' lines and blank lines are skipped. The first other line is the header: it
 * names the expected columns, in any order, and no others. Fields are neither
 * quoted nor trimmed. Every error names file, line and, if there is one,
 * column. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/names.h"

struct mock_csv;

/* A column, and the member of the row's struct that it fills. */
struct mock_field {
    const char *name;
    enum {
        MOCK_FIELD_OTHER, /* the caller reads it, or nobody */
        MOCK_FIELD_TEXT,  /* char[max]; one of 'words' unless that is NULL; not
                             empty if min is above 0 */
        MOCK_FIELD_WORD,  /* int, the index of one of 'words'; -1 for 'extra' */
        MOCK_FIELD_INT,   /* int, from min to max */
        MOCK_FIELD_SIZE,  /* size_t, from min to max */
        MOCK_FIELD_TIME,  /* double, above 0 */
    } kind;
    size_t at; /* offset of the member */
    long long min;
    long long max;
    const struct mock_words *words;
    const char *extra; /* or NULL */
    bool optional;     /* the file may lack the column, and a row a time */
};

/* Opens 'path' and reads its header. 'fields' is kept. */
ncclResult_t mock_csv_open(const char *path, const struct mock_field *fields,
                           int n_fields, struct mock_csv **csv_ret);
void mock_csv_close(struct mock_csv *csv);

/* Moves to the next row; *row_ret is false after the last. */
ncclResult_t mock_csv_next(struct mock_csv *csv, bool *row_ret);

/* The line that the row is on, from 1. */
int mock_csv_line(const struct mock_csv *csv);

/* Fills the members of the row's columns in *row, a struct as the fields
 * describe it. */
ncclResult_t mock_csv_read(const struct mock_csv *csv, void *row);

/* One field of the row, by index in 'fields': whether the file has it, whether
 * it has it and it is 'word', and the index of its word. */
bool mock_csv_has(const struct mock_csv *csv, int field);
bool mock_csv_is(const struct mock_csv *csv, int field, const char *word);
ncclResult_t mock_csv_word(const struct mock_csv *csv, int field,
                           int *number_ret);

/* mock_fail() with file and line before the sentence. */
ncclResult_t mock_csv_fail(const struct mock_csv *csv, const char *fmt, ...)
    MOCK_PRINTF(2, 3);
