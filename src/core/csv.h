/* csv.h - tables with a header line, read strictly
 *
 * '#' lines are comments, empty lines are skipped, the first other line names
 * the columns in any order, and every line after it is a row with as many
 * fields.  A field that cannot be read refuses the whole text, with line and
 * column. */
#pragma once

#include <stdio.h>

#include "core/text.h"

enum { STP_CSV_COLUMNS = 40 };

/* How a field is read into the row's member at 'offset'. */
enum stp_csv_kind {
    STP_CSV_OWN,      /* by the column's own function, into the whole row */
    STP_CSV_SKIP,     /* any text, into nothing */
    STP_CSV_FIELD,    /* any text, into a struct stp_field */
    STP_CSV_TEXT,     /* a text shorter than 'size', into a char[] */
    STP_CSV_WORD,     /* a word that 'from_name' knows, into an int */
    STP_CSV_FLAG,     /* 0 or 1, into a bool */
    STP_CSV_WHOLE,    /* digits, 'min' to 'max', into an integer of 'size' */
    STP_CSV_SIZE,     /* bytes with an optional K, M or G, into a uint64_t */
    STP_CSV_NUMBER,   /* any finite number, into a double */
    STP_CSV_FROM_0,   /* a number from 0, into a double */
    STP_CSV_POSITIVE, /* a number above 0, into a double */
};

struct stp_csv_column {
    const char *name;
    const char *expected; /* for the message about a field that is refused */
    bool required;
    enum stp_csv_kind kind;
    size_t offset, size; /* of the member; see STP_CSV_INTO() */
    uint64_t min, max;
    int (*from_name)(const char *word, size_t len);
    const char *none;   /* a text that stands for 'none_value'; NULL: none */
    int none_value;     /* of a word or a number */
    size_t column_into; /* offset of an unsigned that is set to the field's
                           column, for later messages; 0: not wanted */
    bool (*read)(const struct stp_field *field, void *row);

    /* For the writer of such rows: words, digits after the point of numbers
     * (0: as many as matter), and a function for what no kind can write. */
    const char *(*name_of)(int value);
    int decimals;
    void (*write)(const void *row, FILE *fp);
};

/* The member of struct 'row' that a column is read into. */
#define STP_CSV_INTO(row, member)                                              \
    .offset = offsetof(struct row, member),                                    \
    .size = sizeof(((struct row *)0)->member)

struct stp_csv_format {
    const char *what; /* name of the rows in messages: "measurements" */
    const struct stp_csv_column *columns;
    size_t n_columns; /* at most STP_CSV_COLUMNS */

    /* A new row, of the line from 1, with its defaults; NULL without memory. */
    void *(*begin_row)(void *user, unsigned line);

    /* Called when all fields are read; NULL for nothing to do.  A status other
     * than STP_OK ends the reading, with the reason in *err. */
    enum stp_status (*end_row)(void *user, void *row, struct stp_error *err);

    /* Called for every comment, from its '#'; NULL to skip them. */
    void (*comment)(void *user, const char *line, size_t len);
};

/* Reads the 'len' bytes at 'text', of which there must be at least one row.
 * STP_ERR_SYNTAX, or STP_ERR_NOMEM; rows that were read stay with 'user'. */
enum stp_status stp_csv_read(const struct stp_csv_format *format, void *user,
                             const char *text, size_t len,
                             struct stp_error *err);

/* The column of that name, or NULL. */
const struct stp_csv_column *stp_csv_find(const struct stp_csv_column *columns,
                                          size_t n_columns,
                                          const struct stp_field *name);

/* Reads one field into the row; false if the column refuses it. */
bool stp_csv_read_field(const struct stp_csv_column *column,
                        const struct stp_field *field, void *row);

/* Whether the header names this column; *line_ret is the header's line. */
bool stp_csv_has_column(const char *text, size_t len, const char *name,
                        unsigned *line_ret);

/* If the comment begins with 'key', such as "# gpu: ", copies the rest into
 * 'value', printable and cut to 'size'. */
void stp_csv_value(const char *line, size_t len, const char *key, char *value,
                   size_t size);
