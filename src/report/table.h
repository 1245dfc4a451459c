/* table.h - results, described once, as text, Markdown, CSV and JSON
 *
 * The rows of a result go into a table value by value, each with its key in CSV
 * and JSON and its heading in text and Markdown.  A value without a key or a
 * heading (NULL) is left out there.  All rows have the same columns but in
 * JSON. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cjson/cJSON.h>

#include "core/stats.h"
#include "core/status.h"

enum { STP_TABLE_COLUMNS = 48, STP_TABLE_CELL = 112 };

enum stp_table_format {
    STP_TABLE_TEXT, /* aligned columns, two spaces between them */
    STP_TABLE_MARKDOWN,
    STP_TABLE_CSV,
    STP_TABLE_JSON,
};

struct stp_table {
    enum stp_table_format format;
    cJSON *root; /* of JSON that is printed in the end */
    cJSON *list; /* of JSON */
    cJSON *row;
    char (*cells)[STP_TABLE_CELL]; /* of other formats: headings, then rows */
    size_t n_cells;
    size_t capacity;
    size_t n_columns;
    bool is_left[STP_TABLE_COLUMNS];
    bool is_spare[STP_TABLE_COLUMNS]; /* left out of narrow terminals */
    bool is_first;                    /* the row gives the headings, too */
    bool is_headings;                 /* and is none */
    bool wants_no_row; /* the next row is none, but gives the headings */
};

/* An empty table of another format than JSON, for stp_table_end(). */
struct stp_table stp_table_begin(enum stp_table_format format);

/* A result as text or, if 'is_json', as an object of JSON, for stp_table_end().
 * Values before the first row, of which text has none, are the object's; from
 * stp_table_rows() on those of rows in a new array of it. */
struct stp_table stp_table_result(bool is_json);
void stp_table_rows(struct stp_table *table, const char *key);

/* JSON, which needs no end: rows for a new array of 'object'; one row, which is
 * a new object of 'object'. */
struct stp_table stp_table_array(cJSON *object, const char *key);
struct stp_table stp_table_member(cJSON *object, const char *key);

/* Begins a row.  Returns its JSON object, to which more may be added; NULL in
 * other formats. */
cJSON *stp_table_row(struct stp_table *table);

/* For a result that may have no rows, before the first: the next row is not
 * printed, but gives the headings.  False: JSON needs none. */
bool stp_table_headings(struct stp_table *table);

/* Add a value to the row.  A heading that begins with '<' is left-aligned; one
 * with '?' before that is of a column that may be left out.  An
 * unknown value is null in JSON, empty in CSV and "-" elsewhere.  Cells longer
 * than STP_TABLE_CELL are cut, and printable in all but JSON. */

/* A word; NULL: unknown. */
void stp_table_word(struct stp_table *table, const char *key,
                    const char *heading, const char *word);

/* A whole number. */
void stp_table_count(struct stp_table *table, const char *key,
                     const char *heading, uint64_t n);

/* A number with so many digits after the point, STP_TABLE_SHORT: as many as it
 * takes, up to 9; not finite: unknown. */
enum { STP_TABLE_SHORT = -1 };
void stp_table_number(struct stp_table *table, const char *key,
                      const char *heading, double value, int digits);

/* true or false in JSON, "yes" or nothing in text; left out in CSV. */
void stp_table_flag(struct stp_table *table, const char *key,
                    const char *heading, bool flag);

/* An algorithm, a protocol and channels, such as "ring/ll128/16"; a negative
 * algorithm: unknown.  An object in JSON; in CSV three columns, whose names
 * begin with the key. */
void stp_table_ran(struct stp_table *table, const char *key,
                   const char *heading, int algo, int proto, int n_channels);

/* The same, or the kernel that ran instead of them, unless it is "": in JSON a
 * further member of the object. */
void stp_table_ran_kernel(struct stp_table *table, const char *key,
                          const char *heading, const char *kernel, int algo,
                          int proto, int n_channels);

/* A gain and its interval under these headings; in JSON gain, gain_low,
 * gain_high and rounds. */
void stp_table_gain(struct stp_table *table, const struct stp_gain *gain);

/* A cell of text and Markdown alone. */
void stp_table_text(struct stp_table *table, const char *heading,
                    const char *fmt, ...) STP_PRINTF(3, 4);

/* Prints and frees the table.  Text that is wider than the terminal that 'fp'
 * is loses columns that may be left out, the last first, and says so; elsewhere
 * it is whole. */
void stp_table_end(struct stp_table *table, FILE *fp);

void stp_table_free(struct stp_table *table);
