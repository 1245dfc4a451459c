#include "report/html.h"

#include "core/text.h"
#include "core/utf8.h"

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

void stp_html_text(const char *text, size_t len, FILE *fp)
{
    for (size_t i = 0; i < len;) {
        const char *word = html_entity((unsigned char)text[i]);
        size_t n = stp_utf8_len(&text[i], len - i);

        if (word == NULL && n > 0)
            fwrite(&text[i], 1, n, fp);
        else
            fputs(word != NULL ? word : replacement, fp);
        i += n > 0 ? n : 1;
    }
}
