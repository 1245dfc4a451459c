#include "core/utf8.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

size_t stp_utf8_len(const char *text, size_t len)
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
    const unsigned char *s = (const unsigned char *)text;

    if (*s < 0x80)
        return 1;
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

/* Whether the character is one that terminals obey: U+0000 to U+001F, but for
 * the tab, and U+007F to U+009F. */
static bool text_is_control(const char *s, size_t len)
{
    const unsigned char first = (unsigned char)s[0];

    return len == 1 ? (first < 0x20 && first != '\t') || first == 0x7f
                    : first == 0xc2 && (unsigned char)s[1] < 0xa0;
}

void stp_printable(const char *s, size_t len, char *buf, size_t size)
{
    size_t used = 0;

    for (size_t i = 0, n; i < len; i += n) {
        char hex[5];
        const char *shown = s + i;
        size_t n_shown = n = stp_utf8_len(shown, len - i);

        if (n == 0 || text_is_control(shown, n)) {
            n = 1;
            n_shown = (size_t)snprintf(hex, sizeof(hex), "\\x%02X",
                                       (unsigned)(unsigned char)s[i]);
            shown = hex;
        }
        if (used + n_shown >= size)
            break;
        memcpy(buf + used, shown, n_shown);
        used += n_shown;
    }
    if (size > 0)
        buf[used] = '\0';
}
