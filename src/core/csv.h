/*
 * csv.h - tables with a header line, read strictly
 *
 * '#' lines are comments, empty lines are skipped, the first other line names
 * the columns in any order, and every line after it is a row with as many
 * fields.  What does not read refuses the whole text, with line and column.
 */
#ifndef STP_CSV_H
#define STP_CSV_H

#include "core/text.h"

enum { STP_CSV_COLUMNS = 40 };

struct stp_csv_column {
    const char *name;
    /* Reads a field into the row; false if it means nothing. */
    bool (*read)(const struct stp_field *field, void *row);
    bool required;
    const char *expected; /* for the message, if it means nothing */
};

struct stp_csv_format {
    const char *what; /* the rows are, for messages: "measurements" */
    const struct stp_csv_column *columns;
    size_t n_columns; /* at most STP_CSV_COLUMNS */

    /* A new row, of the line from 1; NULL if memory is out. */
    void *(*begin_row)(void *user, unsigned line);

    /* Called when all fields are read; NULL for nothing to do.  What is not
     * STP_OK ends the reading, with the reason in *err. */
    enum stp_status (*end_row)(void *user, void *row, struct stp_error *err);

    /* Called for every comment, from its '#'; NULL to skip them. */
    void (*comment)(void *user, const char *line, size_t len);
};

/* Reads the 'len' bytes at 'text', of which there must be at least one row.
 * STP_ERR_SYNTAX, or STP_ERR_NOMEM; rows that were read stay with 'user'. */
enum stp_status stp_csv_read(const struct stp_csv_format *format, void *user,
                             const char *text, size_t len,
                             struct stp_error *err);

/* If the comment begins with 'key', such as "# gpu: ", copies what follows into
 * 'value', cut to 'size'. */
void stp_csv_value(const char *line, size_t len, const char *key, char *value,
                   size_t size);

#endif /* STP_CSV_H */
