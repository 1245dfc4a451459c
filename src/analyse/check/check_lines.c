#include "analyse/check/check_lines.h"

#include <string.h>

void stp_policy_lines_begin(struct stp_policy_lines *lines, const char *csv,
                            size_t len)
{
    memset(lines, 0, sizeof(*lines));
    lines->next = csv;
    lines->end = csv + len;
    if (len >= 3 && memcmp(csv, "\xEF\xBB\xBF", 3) == 0)
        lines->next += 3;
    for (size_t i = 0; i < STP_N_PLAIN_COLUMNS; i++)
        lines->columns[i] = &stp_columns[i];
    lines->n_columns = STP_N_PLAIN_COLUMNS;
}

static void read_header(struct stp_policy_lines *lines)
{
    if (lines->past_header || lines->fields[0].len == 0)
        return;
    lines->past_header = true;
    if (stp_column_find(&lines->fields[0]) == NULL)
        return;
    lines->n_columns = lines->n_fields;
    for (size_t i = 0; i < lines->n_columns; i++)
        lines->columns[i] = stp_column_find(&lines->fields[i]);
}

bool stp_policy_lines_next(struct stp_policy_lines *lines)
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
    read_header(lines);
    return true;
}

const struct stp_field *
stp_policy_lines_field(const struct stp_policy_lines *lines, const char *column)
{
    for (size_t i = 0; i < lines->n_columns && i < lines->n_fields; i++)
        if (strcmp(lines->columns[i]->name, column) == 0)
            return &lines->fields[i];
    return NULL;
}
