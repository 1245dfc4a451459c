/* check_text.c - the text of a policy: where findings stand, and fixes */
#include "analyse/check/check.h"

#include <stdlib.h>
#include <string.h>

#include "core/policy/policy_columns.h"
#include "core/qsort.h"
#include "core/text.h"
#include "launch/take.h"

/* Where a walk through the text is, and its current line. */
struct lines {
    const char *next, *end;
    enum stp_policy_kind kind;
    const struct stp_column *columns[STP_N_COLUMNS]; /* in the file's order */
    size_t n_columns;
    bool past_header;

    const char *line;
    size_t len;      /* without the line end */
    size_t rule_len; /* without the comment, either */
    unsigned number; /* from 1 */
    struct stp_field fields[STP_N_COLUMNS];
    size_t n_fields;
};

/* Begins before the first line of a text that has been parsed. */
static void lines_begin(struct lines *lines, enum stp_policy_kind kind,
                        const char *csv, size_t len)
{
    memset(lines, 0, sizeof(*lines));
    lines->kind = kind;
    lines->end = csv + len;
    lines->next = stp_past_bom(csv, &len);
    lines->n_columns = stp_policy_formats[kind].max_plain;
    for (size_t i = 0; i < lines->n_columns; i++)
        lines->columns[i] = &stp_columns[i];
}

/* Goes to the next line; false at the end. */
static bool lines_next(struct lines *lines)
{
    const char *comment;

    lines->line = stp_next_line(&lines->next, lines->end, &lines->len);
    if (lines->line == NULL)
        return false;
    lines->number++;
    comment = memchr(lines->line, '#', lines->len);
    lines->rule_len =
        comment != NULL ? (size_t)(comment - lines->line) : lines->len;
    lines->n_fields =
        stp_split(lines->line, lines->rule_len, lines->fields, STP_N_COLUMNS);
    if (lines->past_header || lines->fields[0].len == 0)
        return true;
    lines->past_header = true;
    if (stp_column_find(lines->kind, &lines->fields[0]) == NULL)
        return true;
    lines->n_columns = lines->n_fields;
    for (size_t i = 0; i < lines->n_columns; i++)
        lines->columns[i] = stp_column_find(lines->kind, &lines->fields[i]);
    return true;
}

/* The rule's field of that column, or NULL if the file leaves it out. */
static const struct stp_field *lines_find_field(const struct lines *lines,
                                                const char *column)
{
    for (size_t i = 0; i < lines->n_columns && i < lines->n_fields; i++)
        if (strcmp(lines->columns[i]->name, column) == 0)
            return &lines->fields[i];
    return NULL;
}

/* No two findings of one kind and column are about one rule. */
static int text_compare_findings(const void *a, const void *b)
{
    const struct stp_finding *x = a, *y = b;

    STP_RETURN_ORDER(STP_ORDER(x->line, y->line));
    STP_RETURN_ORDER(STP_ORDER(x->column, y->column));
    return (int)x->kind - (int)y->kind;
}

void stp_findings_place(struct stp_findings *findings, const char *csv,
                        size_t len)
{
    struct lines lines;
    size_t i = 0;

    STP_SORT(findings->at, findings->n, text_compare_findings);
    lines_begin(&lines, findings->policy_kind, csv, len);
    while (i < findings->n && lines_next(&lines))
        for (; i < findings->n && findings->at[i].line == lines.number; i++) {
            struct stp_finding *f = &findings->at[i];
            const struct stp_field *field =
                f->field != NULL ? lines_find_field(&lines, f->field) : NULL;

            f->column = (field != NULL ? field : lines.fields)->column;
        }
    STP_SORT(findings->at, findings->n, text_compare_findings);
}

struct text {
    char *at;
    size_t len;
};

static void text_add(struct text *text, const char *s, size_t len)
{
    memcpy(text->at + text->len, s, len);
    text->len += len;
}

/* The first finding about the current line with that fix; or NULL. */
static const struct stp_finding *text_find_fix(const struct stp_finding *at,
                                               size_t n, enum stp_fix fix)
{
    for (size_t i = 0; i < n; i++)
        if (at[i].fix == fix)
            return &at[i];
    return NULL;
}

/* The line with its end, as it is to be. */
static void text_add_line(struct text *text, const struct lines *lines,
                          const struct stp_finding *at, size_t n)
{
    const struct stp_finding *end = text_find_fix(at, n, STP_FIX_END);
    static const char bits[] = "# bits:";
    const char *s = lines->line;

    if (text_find_fix(at, n, STP_FIX_DROP) != NULL) {
        s += lines->rule_len;
        if (lines->rule_len == lines->len)
            return;
        /* Behind a rule it was a comment; in a line of its own it is none. */
        if ((size_t)(lines->next - s) >= strlen(bits) &&
            memcmp(s, bits, strlen(bits)) == 0)
            text_add(text, "#", 1);
    } else if (end != NULL) {
        const struct stp_field *field = lines_find_field(lines, end->field);

        text_add(text, s, (size_t)(field->s - s));
        text_add(text, "inf", strlen("inf"));
        s = field->s + field->len;
    }
    text_add(text, s, (size_t)(lines->next - s));
}

char *stp_check_fix(const char *csv, size_t len,
                    const struct stp_findings *findings, size_t *len_ret)
{
    /* no field grows: each is at least as long as what replaces it */
    struct text text = {.at = stp_take(len + 1, 1)};
    struct lines lines;
    size_t i = 0;

    lines_begin(&lines, findings->policy_kind, csv, len);
    text_add(&text, csv, (size_t)(lines.next - csv));
    while (lines_next(&lines)) {
        const struct stp_finding *of_line =
            i < findings->n ? &findings->at[i] : NULL;
        size_t n = 0;

        for (; i < findings->n && findings->at[i].line == lines.number; i++)
            n++;
        text_add_line(&text, &lines, of_line, n);
    }
    text.at[text.len] = '\0';
    *len_ret = text.len;
    return text.at;
}
