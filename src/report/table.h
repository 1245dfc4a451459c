/*
 * table.h - tables of text with aligned columns
 */
#ifndef STP_TABLE_H
#define STP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "core/status.h"

enum { STP_TABLE_COLUMNS = 16, STP_TABLE_CELL = 80 };

struct stp_table; /* opaque */

/* A table with these column headings, at most STP_TABLE_COLUMNS, separated by
 * '|'; a heading that begins with '<' is left-aligned, the others right.  NULL
 * without memory. */
struct stp_table *stp_table_create(const char *headings);

/* Sets the next cell, row by row; longer text is cut. */
void stp_table_add(struct stp_table *table, const char *fmt, ...)
    STP_PRINTF(2, 3);

/* Prints headings and rows, two spaces between columns, none behind the
 * last.  False if some cell was lost for want of memory. */
bool stp_table_print(const struct stp_table *table, FILE *fp);

void stp_table_free(struct stp_table *table);

/* Prints and frees 'table', NULL if memory ran out before: STP_ERR_NOMEM. */
enum stp_status stp_table_finish(struct stp_table *table, FILE *fp,
                                 struct stp_error *err);

#endif /* STP_TABLE_H */
