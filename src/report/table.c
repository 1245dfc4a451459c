#include "report/table.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef char cell[STP_TABLE_CELL];

struct stp_table {
    size_t n_columns;
    bool left[STP_TABLE_COLUMNS];
    int width[STP_TABLE_COLUMNS];
    cell *cells; /* headings first */
    size_t n_cells;
    size_t capacity;
    bool lost;
};

struct stp_table *stp_table_create(const char *headings)
{
    struct stp_table *t = calloc(1, sizeof(*t));

    if (t == NULL)
        return NULL;
    t->n_columns = STP_TABLE_COLUMNS; /* until they are counted */
    while (t->n_cells < STP_TABLE_COLUMNS) {
        size_t len = strcspn(headings, "|");

        t->left[t->n_cells] = *headings == '<';
        if (*headings == '<')
            stp_table_add(t, "%.*s", (int)len - 1, headings + 1);
        else
            stp_table_add(t, "%.*s", (int)len, headings);
        if (headings[len] == '\0' || t->lost)
            break;
        headings += len + 1;
    }
    t->n_columns = t->n_cells > 0 ? t->n_cells : 1;
    return t;
}

static bool grow(struct stp_table *t)
{
    size_t capacity = t->capacity ? 2 * t->capacity : 256;
    cell *cells = realloc(t->cells, capacity * sizeof(*cells));

    if (cells == NULL)
        return false;
    t->cells = cells;
    t->capacity = capacity;
    return true;
}

void stp_table_add(struct stp_table *table, const char *fmt, ...)
{
    size_t column = table->n_cells % table->n_columns;
    int width;
    va_list va;

    if (table->n_cells == table->capacity && !grow(table)) {
        table->lost = true;
        return;
    }
    va_start(va, fmt);
    vsnprintf(table->cells[table->n_cells], STP_TABLE_CELL, fmt, va);
    va_end(va);
    width = (int)strlen(table->cells[table->n_cells]);
    if (width > table->width[column])
        table->width[column] = width;
    table->n_cells++;
}

static void print_cell(const struct stp_table *t, size_t i, FILE *fp)
{
    size_t column = i % t->n_columns;
    bool last = column + 1 == t->n_columns;

    if (t->left[column])
        fprintf(fp, "%-*s", last ? 0 : t->width[column], t->cells[i]);
    else
        fprintf(fp, "%*s", t->width[column], t->cells[i]);
    fputs(last ? "\n" : "  ", fp);
}

bool stp_table_print(const struct stp_table *table, FILE *fp)
{
    size_t n = table->n_cells - table->n_cells % table->n_columns;

    for (size_t i = 0; i < n; i++)
        print_cell(table, i, fp);
    return !table->lost;
}

void stp_table_free(struct stp_table *table)
{
    if (table == NULL)
        return;
    free(table->cells);
    free(table);
}

enum stp_status stp_table_finish(struct stp_table *table, FILE *fp,
                                 struct stp_error *err)
{
    bool whole = table != NULL && stp_table_print(table, fp);

    stp_table_free(table);
    return whole ? STP_OK : stp_nomem(err);
}
