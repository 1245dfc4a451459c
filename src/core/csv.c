#include "core/csv.h"

#include <stdio.h>
#include <string.h>

enum { SHOWN = 60 }; /* bytes of an offending word */

struct reader {
    const struct stp_csv_format *format;
    void *user;
    const struct stp_csv_column *order[STP_CSV_COLUMNS];
    size_t n_order; /* 0: no header yet */
    size_t n_rows;
    unsigned line;
    struct stp_error *err;
};

static int shown(const struct stp_field *f)
{
    return f->len < SHOWN ? (int)f->len : SHOWN;
}

static enum stp_status no_memory(const struct reader *r)
{
    return stp_nomem(r->err);
}

static const struct stp_csv_column *find_column(const struct reader *r,
                                                const struct stp_field *f)
{
    for (size_t i = 0; i < r->format->n_columns; i++)
        if (stp_field_is(f, r->format->columns[i].name))
            return &r->format->columns[i];
    return NULL;
}

static bool has_column(const struct reader *r,
                       const struct stp_csv_column *column)
{
    for (size_t i = 0; i < r->n_order; i++)
        if (r->order[i] == column)
            return true;
    return false;
}

static enum stp_status refuse_column(const struct reader *r,
                                     const struct stp_field *f)
{
    char names[STP_ERROR_TEXT] = "";
    size_t len = 0;

    for (size_t i = 0; i < r->format->n_columns && len < sizeof(names); i++)
        len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                i > 0 ? ", " : "", r->format->columns[i].name);
    return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, f->column,
                       "header with '%.*s', expected each at most once of %s",
                       shown(f), f->s, names);
}

static enum stp_status read_header(struct reader *r, const struct stp_field *f,
                                   size_t n)
{
    for (size_t i = 0; i < n && i < STP_CSV_COLUMNS; i++) {
        const struct stp_csv_column *column = find_column(r, &f[i]);

        if (column == NULL || has_column(r, column))
            return refuse_column(r, &f[i]);
        r->order[r->n_order++] = column;
    }
    for (size_t i = 0; i < r->format->n_columns; i++)
        if (r->format->columns[i].required &&
            !has_column(r, &r->format->columns[i]))
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                               "header without the column %s",
                               r->format->columns[i].name);
    return STP_OK;
}

static enum stp_status read_row(struct reader *r, const struct stp_field *f,
                                size_t n)
{
    void *row = NULL;

    if (n != r->n_order)
        return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                           "%zu fields, expected %zu as in the header", n,
                           r->n_order);
    row = r->format->begin_row(r->user, r->line);
    if (row == NULL)
        return no_memory(r);
    for (size_t i = 0; i < n; i++)
        if (!r->order[i]->read(&f[i], row))
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, f[i].column,
                               "%s '%.*s', expected %s", r->order[i]->name,
                               shown(&f[i]), f[i].s, r->order[i]->expected);
    r->n_rows++;
    return r->format->end_row != NULL ? r->format->end_row(r->user, row, r->err)
                                      : STP_OK;
}

static enum stp_status read_line(struct reader *r, const char *line, size_t len)
{
    struct stp_field fields[STP_CSV_COLUMNS];
    size_t n;

    if (len > 0 && line[0] == '#') {
        if (r->format->comment != NULL)
            r->format->comment(r->user, line, len);
        return STP_OK;
    }
    n = stp_split(line, len, fields, STP_CSV_COLUMNS);
    if (n == 1 && fields[0].len == 0)
        return STP_OK;
    return r->n_order == 0 ? read_header(r, fields, n) : read_row(r, fields, n);
}

enum stp_status stp_csv_read(const struct stp_csv_format *format, void *user,
                             const char *text, size_t len,
                             struct stp_error *err)
{
    struct reader r = {.format = format, .user = user, .err = err};
    const char *s = text;
    const char *line;
    size_t n;
    enum stp_status status = STP_OK;

    while (status == STP_OK &&
           (line = stp_next_line(&s, text + len, &n)) != NULL) {
        r.line++;
        status = read_line(&r, line, n);
    }
    if (status == STP_OK && r.n_rows == 0)
        status =
            stp_fail_at(err, STP_ERR_SYNTAX, r.line, 0,
                        "no %s, expected a header line and rows", format->what);
    return status;
}

void stp_csv_value(const char *line, size_t len, const char *key, char *value,
                   size_t size)
{
    size_t n = strlen(key);

    if (len > n && memcmp(line, key, n) == 0)
        snprintf(value, size, "%.*s", (int)(len - n), line + n);
}
