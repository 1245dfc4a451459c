#include "report/html.h"

#include <string.h>

static const char replacement[] = "\xef\xbf\xbd"; /* U+FFFD */

/* The entity of a character that is markup, the replacement of a control
 * character, or NULL. */
static const char *html_entity(unsigned char c)
{
    switch (c) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    default:
        return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f ? replacement
                                                                 : NULL;
    }
}

/* The length of the UTF-8 sequence of two or more bytes at 's'; 0: invalid. */
static size_t html_sequence(const unsigned char *s, size_t len)
{
    /* By the first byte: the length, and the range of the second byte. */
    static const struct {
        unsigned char first, last, n, low, high;
    } forms[] = {
        {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f},
        {0xee, 0xef, 3, 0x80, 0xbf}, {0xf0, 0xf0, 4, 0x90, 0xbf},
        {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };

    for (size_t f = 0; f < sizeof(forms) / sizeof(forms[0]); f++) {
        size_t n = forms[f].n;

        if (*s < forms[f].first || *s > forms[f].last)
            continue;
        if (len < n || s[1] < forms[f].low || s[1] > forms[f].high)
            return 0;
        for (size_t i = 2; i < n; i++)
            if (s[i] < 0x80 || s[i] > 0xbf)
                return 0;
        return n;
    }
    return 0;
}

void stp_html_bytes(const char *text, size_t len, FILE *fp)
{
    const unsigned char *s = (const unsigned char *)text;

    for (size_t i = 0; i < len;) {
        const char *word = html_entity(s[i]);
        size_t n = s[i] < 0x80 ? 1 : html_sequence(&s[i], len - i);

        if (word == NULL && n > 0)
            fwrite(&s[i], 1, n, fp);
        else
            fputs(word != NULL ? word : replacement, fp);
        i += n > 0 ? n : 1;
    }
}

void stp_html_text(const char *text, FILE *fp)
{
    stp_html_bytes(text, strlen(text), fp);
}
