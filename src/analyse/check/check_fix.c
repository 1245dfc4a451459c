/* check_fix.c - a policy's text without what can be put right by itself */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/check/check.h"
#include "analyse/check/check_lines.h"

enum { LONGEST_WORD = 8 }; /* "inf", or a number of channels */

struct text {
    char *at;
    size_t len;
};

static void add(struct text *text, const char *s, size_t len)
{
    memcpy(text->at + text->len, s, len);
    text->len += len;
}

/* The findings about the current line, of which 'fix' is one; or NULL. */
static const struct stp_finding *find(const struct stp_finding *at, size_t n,
                                      enum stp_fix fix)
{
    for (size_t i = 0; i < n; i++)
        if (at[i].fix == fix)
            return &at[i];
    return NULL;
}

/* What the field becomes: 'word' if it is to be another; else NULL. */
static const char *new_word(const struct stp_policy_lines *lines,
                            const struct stp_field *field,
                            const struct stp_finding *at, size_t n,
                            char word[LONGEST_WORD])
{
    const struct stp_finding *cut = find(at, n, STP_FIX_CHANNELS);
    const struct stp_finding *end = find(at, n, STP_FIX_END);

    if (cut != NULL && field == stp_policy_lines_field(lines, cut->field)) {
        snprintf(word, LONGEST_WORD, "%d", cut->n_channels);
        return word;
    }
    if (end != NULL && field == stp_policy_lines_field(lines, end->field))
        return "inf";
    return NULL;
}

/* The line with its end, as it is to be. */
static void add_line(struct text *text, const struct stp_policy_lines *lines,
                     const struct stp_finding *at, size_t n)
{
    const char *s = lines->line;
    char buffer[LONGEST_WORD];

    if (find(at, n, STP_FIX_DROP) != NULL) {
        s += lines->rule_len;
        if (lines->rule_len == lines->len)
            return;
    } else if (n > 0) {
        for (size_t i = 0; i < lines->n_fields; i++) {
            const struct stp_field *field = &lines->fields[i];
            const char *word = new_word(lines, field, at, n, buffer);

            if (word == NULL)
                continue;
            add(text, s, (size_t)(field->s - s));
            add(text, word, strlen(word));
            s = field->s + field->len;
        }
    }
    add(text, s, (size_t)(lines->next - s));
}

enum stp_status stp_check_fix(const char *csv, size_t len,
                              const struct stp_findings *findings,
                              char **text_ret, size_t *len_ret,
                              struct stp_error *err)
{
    /* no field grows: each is at least as long as what replaces it */
    struct text text = {.at = malloc(len + 1)};
    struct stp_policy_lines lines;
    size_t i = 0;

    if (text.at == NULL)
        return stp_nomem(err);
    stp_policy_lines_begin(&lines, csv, len);
    add(&text, csv, (size_t)(lines.next - csv));
    while (stp_policy_lines_next(&lines)) {
        const struct stp_finding *of_line =
            i < findings->n ? &findings->at[i] : NULL;
        size_t n = 0;

        for (; i < findings->n && findings->at[i].line == lines.number; i++)
            n++;
        add_line(&text, &lines, of_line, n);
    }
    text.at[text.len] = '\0';
    *text_ret = text.at;
    *len_ret = text.len;
    return STP_OK;
}
