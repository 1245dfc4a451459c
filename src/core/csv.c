#include "core/csv.h"
#include "core/looks.h"
#include "core/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    const struct stp_csv_format *format;
    const struct stp_csv_column *order[STP_CSV_COLUMNS];
    size_t n_order; /* 0: no header yet */
    unsigned line;
    struct stp_error *err;
    const char *text;
    size_t len;
};

/* ---- fields ---- */

static void csv_store_whole(void *out, size_t size, int64_t value)
{
    const int32_t narrow = (int32_t)value;

    if (size == sizeof(narrow))
        memcpy(out, &narrow, sizeof(narrow));
    else
        memcpy(out, &value, sizeof(value));
}

bool stp_csv_read_field(const struct stp_csv_column *c,
                        const struct stp_field *f, void *row)
{
    void *out = (char *)row + c->offset;
    uint64_t whole;

    if (c->column_into != 0)
        *(unsigned *)((char *)row + c->column_into) = f->column;
    if (c->none != NULL && stp_field_is(f, c->none)) {
        if (c->kind >= STP_CSV_NUMBER)
            *(double *)out = c->none_value;
        else
            csv_store_whole(out, c->size, c->none_value);
        return true;
    }
    switch (c->kind) {
    case STP_CSV_OWN:
        return c->read(f, row);
    case STP_CSV_SKIP:
        return true;
    case STP_CSV_FIELD:
        *(struct stp_field *)out = *f;
        return true;
    case STP_CSV_TEXT:
        if (f->len >= c->size)
            return false;
        memcpy(out, f->s, f->len);
        ((char *)out)[f->len] = '\0';
        return true;
    case STP_CSV_WORD:
        return (*(int *)out = c->from_name(f->s, f->len)) >= 0;
    case STP_CSV_FLAG:
        *(bool *)out = stp_field_is(f, "1");
        return *(bool *)out || stp_field_is(f, "0");
    case STP_CSV_WHOLE:
        if (!stp_parse_u64(f->s, f->len, &whole) || whole < c->min ||
            whole > c->max)
            return false;
        csv_store_whole(out, c->size, (int64_t)whole);
        return true;
    case STP_CSV_SIZE:
        return stp_parse_size(f->s, f->len, out);
    case STP_CSV_NUMBER:
        return stp_parse_double(f->s, f->len, out);
    case STP_CSV_FROM_0:
        return stp_parse_double(f->s, f->len, out) && *(double *)out >= 0;
    case STP_CSV_POSITIVE:
        return stp_parse_double(f->s, f->len, out) && *(double *)out > 0;
    }
    return false;
}

/* ---- lines ---- */

const struct stp_csv_column *stp_csv_find(const struct stp_csv_column *columns,
                                          size_t n_columns,
                                          const struct stp_field *name)
{
    for (size_t i = 0; i < n_columns; i++)
        if (stp_field_is(name, columns[i].name))
            return &columns[i];
    return NULL;
}

static bool csv_has_column(const struct reader *r,
                           const struct stp_csv_column *column)
{
    for (size_t i = 0; i < r->n_order; i++)
        if (r->order[i] == column)
            return true;
    return false;
}

static enum stp_status csv_read_header(struct reader *r,
                                       const struct stp_field *f, size_t n)
{
    const struct stp_csv_column *columns = r->format->columns;
    char names[STP_ERROR_TEXT / 2] = "";
    size_t len = 0, n_shown = 0, n_known = 0;

    for (; n_shown < r->format->n_columns &&
           len + strlen(columns[n_shown].name) + 8 < sizeof(names);
         n_shown++)
        len += (size_t)snprintf(names + len, sizeof(names) - len, "%s%s",
                                n_shown > 0 ? ", " : "", columns[n_shown].name);
    for (size_t i = 0; i < n; i++)
        n_known += i < STP_CSV_COLUMNS &&
                   stp_csv_find(columns, r->format->n_columns, &f[i]) != NULL;
    for (size_t i = 0; i < n && i < STP_CSV_COLUMNS; i++) {
        const struct stp_csv_column *column =
            stp_csv_find(columns, r->format->n_columns, &f[i]);

        if (n_known == 0) {
            stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                        "no table of %s, expected a line that names columns: "
                        "%s%s",
                        r->format->what, names,
                        n_shown < r->format->n_columns ? ", ..." : "");
            return stp_refuse_kind(r->text, r->len, r->format->what, r->err);
        }
        if (column == NULL || csv_has_column(r, column))
            return stp_fail_at(
                r->err, STP_ERR_SYNTAX, r->line, f[i].column,
                "header with '%.*s', expected each at most once of %s%s",
                STP_SHOWN(&f[i]), names,
                n_shown < r->format->n_columns ? ", ..." : "");
        r->order[r->n_order++] = column;
    }
    for (size_t i = 0; i < r->format->n_columns; i++)
        if (columns[i].required && !csv_has_column(r, &columns[i]))
            return stp_fail_at(r->err, STP_ERR_SYNTAX, r->line, 1,
                               "header without the column %s", columns[i].name);
    return STP_OK;
}

enum stp_status stp_csv_read(const struct stp_csv_format *format, void *user,
                             const char *text, size_t len,
                             struct stp_error *err)
{
    struct reader r = {.format = format, .err = err, .text = text, .len = len};
    struct stp_field fields[STP_CSV_COLUMNS];
    const char *s = stp_past_bom(text, &len), *end = s + len;
    const char *line;
    size_t n, n_rows = 0;
    void *row;
    enum stp_status status = STP_OK;

    while (status == STP_OK && (line = stp_next_line(&s, end, &n)) != NULL) {
        r.line++;
        if (n > 0 && line[0] == '#') {
            if (format->comment != NULL)
                format->comment(user, line, n);
            continue;
        }
        if (memchr(line, '\0', n) != NULL)
            return stp_fail_at(err, STP_ERR_SYNTAX, r.line, 1,
                               "NUL bytes in the line, expected text");
        n = stp_split(line, n, fields, STP_CSV_COLUMNS);
        if (n == 1 && fields[0].len == 0)
            continue;
        if (r.n_order == n && stp_field_is(&fields[0], r.order[0]->name))
            return stp_fail_at(err, STP_ERR_SYNTAX, r.line, 1,
                               "a second header, expected rows of one table");
        if (r.n_order == 0) {
            status = csv_read_header(&r, fields, n);
            continue;
        }
        if (n != r.n_order)
            return stp_fail_at(
                err, STP_ERR_SYNTAX, r.line, 1,
                "%zu fields, expected %zu as in the header%s", n, r.n_order,
                s == end && end[-1] != '\n' ? ": the file is cut in this line"
                                            : "");
        row = format->begin_row(user, r.line);
        if (row == NULL)
            return stp_nomem(err);
        for (size_t i = 0; i < n; i++)
            if (!stp_csv_read_field(r.order[i], &fields[i], row))
                return stp_fail_at(err, STP_ERR_SYNTAX, r.line,
                                   fields[i].column, "%s '%.*s', expected %s",
                                   r.order[i]->name, STP_SHOWN(&fields[i]),
                                   r.order[i]->expected);
        n_rows++;
        if (format->end_row != NULL)
            status = format->end_row(user, row, err);
    }
    if (status == STP_OK && n_rows == 0)
        status =
            stp_fail_at(err, STP_ERR_SYNTAX, r.line, 0,
                        "no %s, expected a header line and rows", format->what);
    return status;
}

bool stp_csv_has_column(const char *text, size_t len, const char *name,
                        unsigned *line_ret)
{
    struct stp_field fields[STP_CSV_COLUMNS];
    const char *s = stp_past_bom(text, &len), *end = s + len;
    const char *line;
    size_t n = 0;

    *line_ret = 0;
    do {
        line = stp_next_line(&s, end, &n);
        ++*line_ret;
    } while (line != NULL && (n == 0 || line[0] == '#'));
    if (line == NULL)
        return false;
    n = stp_split(line, n, fields, STP_CSV_COLUMNS);
    for (size_t i = 0; i < n && i < STP_CSV_COLUMNS; i++)
        if (stp_field_is(&fields[i], name))
            return true;
    return false;
}

void stp_csv_value(const char *line, size_t len, const char *key, char *value,
                   size_t size)
{
    size_t n = strlen(key);

    if (len > n && memcmp(line, key, n) == 0)
        stp_printable(line + n, len - n, value, size);
}
