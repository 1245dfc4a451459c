#include "core/nearest.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { LONGEST = 40, SHORTEST = 2, BEGINNING = 3 };

/* A word of a list, and how far the written one is from it. */
struct candidate {
    const char *s;
    size_t len;
    unsigned n_edits;
};

/* isalnum() and tolower() would ask the locale. */
static char nearest_lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool nearest_is_part(char c)
{
    c = nearest_lower(c);
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_' || c == '.';
}

static unsigned nearest_least(unsigned a, unsigned b, unsigned c)
{
    unsigned least = a < b ? a : b;

    return c < least ? c : least;
}

static unsigned nearest_rate(const char *word, size_t len,
                             const struct candidate *c)
{
    /* Both are at most LONGEST bytes.  A swap of neighbours is one edit. */
    const size_t m = c->len;
    unsigned rows[3][LONGEST + 1] = {{0}};

    if (len >= BEGINNING && len < m && memcmp(word, c->s, len) == 0)
        return 1;
    for (size_t k = 1; k <= m; k++)
        rows[0][k] = (unsigned)k;
    for (size_t i = 1; i <= len; i++) {
        unsigned *row = rows[i % 3];
        const unsigned *above = rows[(i + 2) % 3];

        row[0] = (unsigned)i;
        for (size_t k = 1; k <= m; k++) {
            bool same =
                nearest_lower(word[i - 1]) == nearest_lower(c->s[k - 1]);

            row[k] = nearest_least(above[k] + 1, row[k - 1] + 1,
                                   above[k - 1] + !same);
            if (i > 1 && k > 1 && word[i - 1] == c->s[k - 2] &&
                word[i - 2] == c->s[k - 1])
                row[k] =
                    nearest_least(row[k], row[k], rows[(i + 1) % 3][k - 2] + 1);
        }
    }
    return rows[len % 3][m];
}

/* The next word of the list behind '*s'; false at its end. */
static bool nearest_next(const char **s, struct candidate *c)
{
    while (**s != '\0' && !nearest_is_part(**s))
        ++*s;
    c->s = *s;
    while (nearest_is_part(**s))
        ++*s;
    c->len = (size_t)(*s - c->s);
    return c->len > 0;
}

static const char *nearest_skip_sentence(const char *words)
{
    for (const char *of; (of = strstr(words, " of ")) != NULL;)
        words = of + 4;
    return words;
}

const char *stp_hint_nearest(const char *word, size_t len, const char *words,
                             char hint[STP_HINT])
{
    struct candidate best = {.n_edits = len / 3 > 1 ? (unsigned)len / 3 : 1};
    struct candidate c;

    hint[0] = '\0';
    words = nearest_skip_sentence(words);
    while (len >= SHORTEST && len <= LONGEST && nearest_next(&words, &c)) {
        if (c.len > LONGEST || (c.len == 3 && memcmp(c.s, "and", 3) == 0) ||
            (c.len == 2 && memcmp(c.s, "or", 2) == 0))
            continue;
        c.n_edits = nearest_rate(word, len, &c);
        if (c.n_edits < best.n_edits + (best.s == NULL))
            best = c;
    }
    if (best.s != NULL)
        snprintf(hint, STP_HINT, "; did you mean '%.*s'?", (int)best.len,
                 best.s);
    return hint;
}
