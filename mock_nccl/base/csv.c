#include "base/csv.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_COLUMNS = 64, MAX_FIELDS = 64 };

struct mock_csv {
    FILE *file;
    char *path;
    const struct mock_field *columns;
    int n_columns;
    int n_header; /* number of fields of the header line */
    int n_line;
    char *line; /* getline()'s; fields point into it */
    size_t line_size;
    int n_fields;
    char *fields[MAX_COLUMNS];
    int place[MAX_FIELDS]; /* index of each column's field; -1: absent */
};

ncclResult_t mock_csv_fail(const struct mock_csv *csv, const char *fmt, ...)
{
    char text[512];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return mock_refuse("%s:%d: %s", csv->path, csv->n_line, text);
}

int mock_csv_line(const struct mock_csv *csv)
{
    return csv->n_line;
}

/* Reads a line that is neither a comment nor blank; false at the end. */
static bool csv_read_line(struct mock_csv *csv)
{
    ssize_t len;

    while ((len = getline(&csv->line, &csv->line_size, csv->file)) >= 0) {
        if (csv->n_line++ == 0 && strncmp(csv->line, "\xEF\xBB\xBF", 3) == 0)
            memmove(csv->line, csv->line + 3, (size_t)(len -= 3) + 1);
        while (len > 0 &&
               (csv->line[len - 1] == '\n' || csv->line[len - 1] == '\r'))
            csv->line[--len] = '\0';
        if (len > 0 && csv->line[0] != '#')
            return true;
    }
    return false;
}

static ncclResult_t csv_split(struct mock_csv *csv)
{
    char *field = csv->line;

    csv->n_fields = 0;
    for (;;) {
        char *comma = strchr(field, ',');

        if (csv->n_fields == MAX_COLUMNS)
            return mock_csv_fail(csv, "more than %d fields", MAX_COLUMNS);
        csv->fields[csv->n_fields++] = field;
        if (comma == NULL)
            return ncclSuccess;
        *comma = '\0';
        field = comma + 1;
    }
}

static ncclResult_t csv_read_header(struct mock_csv *csv)
{
    ncclResult_t rc;

    if (!csv_read_line(csv))
        return mock_refuse("%s: empty, no header line", csv->path);
    rc = csv_split(csv);
    csv->n_header = csv->n_fields;
    for (int c = 0; c < csv->n_columns; c++)
        csv->place[c] = -1;
    for (int f = 0; rc == ncclSuccess && f < csv->n_fields; f++) {
        const char *name = csv->fields[f];
        int c = 0;

        while (c < csv->n_columns && strcmp(csv->columns[c].name, name) != 0)
            c++;
        if (c == csv->n_columns)
            return mock_csv_fail(csv, "unknown column '%s'", name);
        if (csv->place[c] >= 0)
            return mock_csv_fail(csv, "two columns '%s'", name);
        csv->place[c] = f;
    }
    for (int c = 0; rc == ncclSuccess && c < csv->n_columns; c++)
        if (csv->place[c] < 0 && !csv->columns[c].optional)
            rc = mock_csv_fail(csv, "no column '%s'", csv->columns[c].name);
    return rc;
}

ncclResult_t mock_csv_open(const char *path, const struct mock_field *fields,
                           int n_fields, struct mock_csv **csv_ret)
{
    struct mock_csv *csv = calloc(1, sizeof(*csv));
    ncclResult_t rc = ncclSuccess;

    if (csv == NULL || (csv->path = strdup(path)) == NULL)
        rc = mock_fail_memory();
    else if ((csv->file = fopen(path, "r")) == NULL)
        rc = mock_fail(ncclSystemError, "%s: %s", path, strerror(errno));
    if (rc == ncclSuccess) {
        csv->columns = fields;
        csv->n_columns = n_fields;
        rc = csv_read_header(csv);
    }
    if (rc != ncclSuccess) {
        mock_csv_close(csv);
        return rc;
    }
    *csv_ret = csv;
    return ncclSuccess;
}

void mock_csv_close(struct mock_csv *csv)
{
    if (csv == NULL)
        return;
    if (csv->file != NULL)
        fclose(csv->file);
    free(csv->line);
    free(csv->path);
    free(csv);
}

ncclResult_t mock_csv_next(struct mock_csv *csv, bool *row_ret)
{
    ncclResult_t rc;

    if (!csv_read_line(csv)) {
        if (ferror(csv->file))
            return mock_fail(ncclSystemError, "%s: cannot be read: %s",
                             csv->path, strerror(errno));
        *row_ret = false;
        return ncclSuccess;
    }
    rc = csv_split(csv);
    if (rc == ncclSuccess && csv->n_fields != csv->n_header)
        rc = mock_csv_fail(csv, "%d fields instead of %d", csv->n_fields,
                           csv->n_header);
    *row_ret = true;
    return rc;
}

/* ---- fields ---- */

bool mock_csv_has(const struct mock_csv *csv, int field)
{
    return field < csv->n_columns && csv->place[field] >= 0;
}

bool mock_csv_is(const struct mock_csv *csv, int field, const char *word)
{
    return mock_csv_has(csv, field) &&
           strcmp(csv->fields[csv->place[field]], word) == 0;
}

ncclResult_t mock_csv_word(const struct mock_csv *csv, int field,
                           int *number_ret)
{
    const struct mock_field *column = &csv->columns[field];
    const char *text = csv->fields[csv->place[field]];
    char all[256] = ""; /* "a, b, c" */
    size_t used = 0;
    const int number = mock_word_find(column->words, text);

    if (number >= 0 ||
        (column->extra != NULL && strcmp(text, column->extra) == 0)) {
        *number_ret = number;
        return ncclSuccess;
    }
    for (int i = 0; i < column->words->n_words && used < sizeof(all); i++)
        used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s",
                                 i > 0 ? ", " : "", column->words->words[i]);
    if (column->extra != NULL && used < sizeof(all))
        snprintf(all + used, sizeof(all) - used, ", %s", column->extra);
    return mock_csv_fail(csv, "column '%s': '%s' is none of %s", column->name,
                         text, all);
}

static ncclResult_t csv_read_text(const struct mock_csv *csv, int field,
                                  char *text_ret)
{
    const struct mock_field *column = &csv->columns[field];
    const char *text = csv->fields[csv->place[field]];
    int number;

    if (column->words != NULL)
        MOCK_TRY(mock_csv_word(csv, field, &number));
    if ((long long)strlen(text) < column->min ||
        (long long)strlen(text) >= column->max)
        return mock_csv_fail(csv,
                             "column '%s' has %zu characters, expected %lld to "
                             "%lld",
                             column->name, strlen(text), column->min,
                             column->max - 1);
    strcpy(text_ret, text);
    return ncclSuccess;
}

/* Reads a number into the member, which is at 'at'. */
static ncclResult_t csv_read_number(const struct mock_csv *csv, int field,
                                    void *at)
{
    const struct mock_field *column = &csv->columns[field];
    const bool is_time = column->kind == MOCK_FIELD_TIME;
    const char *text = csv->fields[csv->place[field]];
    char *end;
    long long whole = 0;
    double time = 0;
    bool is_valid;

    if (is_time && column->optional && text[0] == '\0')
        return ncclSuccess;
    errno = 0;
    if (is_time)
        time = strtod(text, &end);
    else
        whole = strtoll(text, &end, 10);
    is_valid = is_time
                   ? isfinite(time) && time > 0
                   : errno == 0 && whole >= column->min && whole <= column->max;
    if (!is_valid || !isdigit((unsigned char)text[0]) || *end != '\0')
        return is_time ? mock_csv_fail(csv,
                                       "column '%s': '%s' is not a number "
                                       "above 0",
                                       column->name, text)
                       : mock_csv_fail(csv,
                                       "column '%s': '%s' is not a whole "
                                       "number from %lld to %lld",
                                       column->name, text, column->min,
                                       column->max);
    if (is_time)
        *(double *)at = time;
    else if (column->kind == MOCK_FIELD_INT)
        *(int *)at = (int)whole;
    else
        *(size_t *)at = (size_t)whole;
    return ncclSuccess;
}

ncclResult_t mock_csv_read(const struct mock_csv *csv, void *row)
{
    ncclResult_t rc = ncclSuccess;

    for (int f = 0; f < csv->n_columns && rc == ncclSuccess; f++) {
        void *at = (char *)row + csv->columns[f].at;

        if (!mock_csv_has(csv, f) || csv->columns[f].kind == MOCK_FIELD_OTHER)
            continue;
        if (csv->columns[f].kind == MOCK_FIELD_TEXT)
            rc = csv_read_text(csv, f, at);
        else if (csv->columns[f].kind == MOCK_FIELD_WORD)
            rc = mock_csv_word(csv, f, at);
        else
            rc = csv_read_number(csv, f, at);
    }
    return rc;
}
