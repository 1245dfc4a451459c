#define _GNU_SOURCE /* memmem() */
#include "report/plain.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/room.h"
#include "core/text.h"

/* Characters as web pages write them and, behind a backslash, JSON. */
static const struct {
    const char *written, *plain;
} signs[] = {
    {"&lt;", "<"},        {"&gt;", ">"},        {"&amp;", "&"},
    {"&quot;", "\""},     {"&apos;", "'"},      {"&nbsp;", " "},
    {"&#60;", "<"},       {"&#62;", ">"},       {"&#38;", "&"},
    {"&#34;", "\""},      {"&#39;", "'"},       {"&#x27;", "'"},
    {"&#160;", " "},      {"\xC2\xA0", " "},    {"\xE2\x80\xAF", " "},
    {"\xE2\x80\x8B", ""}, {"\xEF\xBB\xBF", ""}, {"\\n", "\n"},
    {"\\t", "\t"},        {"\\\"", "\""},       {"\\\\", "\\"},
    {"\\/", "/"},         {"\\u003c", "<"},     {"\\u003e", ">"},
    {"\\u0026", "&"},
};

/* Whether what is at 's' begins so. */
static bool plain_begins(const char *s, const char *end, const char *words)
{
    const size_t n = strlen(words);

    return (size_t)(end - s) >= n && memcmp(s, words, n) == 0;
}

/* The end of a text of JSON, at its quotation mark. */
static const char *plain_find_quote(const char *s, const char *end)
{
    while (s < end && *s != '"')
        s += 1 + (*s == '\\' && s + 1 < end);
    return s;
}

static const char *plain_skip(const char *s, const char *end, const char *what)
{
    while (s < end && *s != '\0' && strchr(what, *s) != NULL)
        s++;
    return s;
}

/* A line of JSON is left with its text: that under a key by which collectors
 * keep lines, or all of the line.  False if it is no such line. */
static bool plain_open_json(const char **s, const char **end)
{
    static const char *const keys[] = {"log",         "message", "msg",
                                       "text",        "MESSAGE", "_raw",
                                       "textPayload", "body",    "line"};
    const char *at = plain_skip(*s, *end, " \t[,"), *quote;
    const char *text = NULL, *text_end = NULL;
    int best = STP_N_OF(keys), key = -1; /* of the value at 'at', or -1 */

    if (at == *end || (*at != '{' && *at != '"'))
        return false;
    quote = plain_find_quote(at + 1, *end);
    if (*at == '"' &&
        (*end - quote < 2 || (*end - quote == 2 && quote[1] == ','))) {
        *s = at + 1;
        *end = quote;
        return true;
    }
    while ((at = memchr(at, '"', (size_t)(*end - at))) != NULL) {
        quote = plain_find_quote(++at, *end);
        if (key >= 0 && key < best) {
            best = key;
            text = at;
            text_end = quote;
        }
        key = stp_find_word(keys, STP_N_OF(keys), at, (size_t)(quote - at));
        at = plain_skip(quote + (quote < *end), *end, " \t");
        if (at == *end || *at != ':')
            key = -1;
        else
            at = plain_skip(at + 1, *end, " \t");
        if (at == *end || *at != '"')
            key = -1;
    }
    if (text == NULL)
        return false;
    *s = text;
    *end = text_end;
    return true;
}

/* The bytes of a colour, or of what else a terminal is told, at 's'. */
static size_t plain_measure_colour(const char *s, const char *end, bool is_json)
{
    const char *at = s + (is_json && plain_begins(s, end, "\\u001b[") ? 7
                          : plain_begins(s, end, "\x1b[")             ? 2
                                                                      : 0);

    if (at == s)
        return 0;
    while (at < end && *at >= ' ' && *at < '@')
        at++;
    return (size_t)(at - s) + (at < end && *at >= '@');
}

/* Puts the line from 's' to 'end' at 'out', which is not behind it; returns the
 * end of what is there. */
static char *plain_put_line(const char *s, const char *end, char *out)
{
    static const char repeated[] = " [repeated ", across[] = "x across cluster";
    const bool is_json = plain_open_json(&s, &end);
    char *const begin = out;
    const char *ray = memmem(s, (size_t)(end - s), repeated, 11);

    if (ray != NULL &&
        memmem(ray, (size_t)(end - ray), across, sizeof(across) - 1) != NULL)
        end = ray;
    if (!is_json && s < end && end[-1] == '"' &&
        memmem(s, (size_t)(end - s), ",\"", 2) != NULL)
        end--; /* of CSV */
    while (s < end) {
        const size_t colour = *s == '\\' || *s == '\x1b'
                                  ? plain_measure_colour(s, end, is_json)
                                  : 0;
        size_t i = 0, n = STP_N_OF(signs);

        if (colour > 0) {
            s += colour;
            continue;
        }
        if (memchr(is_json ? "&\xC2\xE2\xEF\\" : "&\xC2\xE2\xEF", *s,
                   4 + is_json) == NULL)
            i = n;
        while (i < n && !plain_begins(s, end, signs[i].written))
            i++;
        if (i == n) {
            *out++ = *s++;
            continue;
        }
        s += strlen(signs[i].written);
        if (signs[i].plain[0] != '\0')
            *out++ = signs[i].plain[0];
    }
    while (out > begin && memchr(" \t\r\n", out[-1], 4) != NULL)
        out--;
    return out;
}

size_t stp_plain(char *text, size_t len)
{
    const char *const end = text + len, *s = text, *line;
    char *out = text;
    size_t n;

    while ((line = stp_next_line(&s, end, &n)) != NULL) {
        const bool is_ended = s[-1] == '\n';

        out = plain_put_line(line, line + n, out);
        if (is_ended)
            *out++ = '\n';
    }
    return (size_t)(out - text);
}

enum stp_status stp_plain_copy(const char *text, size_t *len, char **copy_ret,
                               struct stp_error *err)
{
    char *copy = malloc(*len + 1);

    if (copy == NULL)
        return stp_nomem(err);
    *len = stp_plain(memcpy(copy, text, *len), *len);
    *copy_ret = copy;
    return STP_OK;
}
