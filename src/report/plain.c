#define _GNU_SOURCE /* memmem(), memrchr() */
#include "report/plain.h"

#include <limits.h>
#include <stdbool.h>
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

/* Keys by which collectors and Ansible keep lines, best first; N_KEYS stands
 * for none, of a list's. */
static const char *const keys[] = {
    "log",         "message", "msg",  "text",         "MESSAGE", "_raw",
    "textPayload", "body",    "line", "stdout_lines", "stdout",  "lines"};
enum { N_KEYS = STP_N_OF(keys) };

/* Where texts of a line of JSON are looked for. */
struct plain_json {
    const char *at, *end;
    bool is_list;
    int key; /* of the text that may be at 'at', or -1 */
};

/* Finds the next text that has a key; false: there is none. */
static bool plain_next_text(struct plain_json *j, const char **s,
                            const char **end, int *key_ret)
{
    while ((j->at = memchr(j->at, '"', (size_t)(j->end - j->at))) != NULL) {
        const char *const begin = j->at + 1;
        const char *const quote = plain_find_quote(begin, j->end);
        const char *dot = memrchr(begin, '.', (size_t)(quote - begin));
        const int key = j->key;

        j->at = plain_skip(quote + (quote < j->end), j->end, " \t");
        if (j->at < j->end && *j->at == ':') { /* Ansible: "out.stdout_lines" */
            dot = dot != NULL ? dot + 1 : begin;
            j->key = stp_find_word(keys, N_KEYS, dot, (size_t)(quote - dot));
            j->at = plain_skip(j->at + 1, j->end, " \t");
            j->is_list = j->at < j->end && *j->at == '[';
            j->at = plain_skip(j->at + j->is_list, j->end, " \t");
            if (j->at == j->end || *j->at != '"')
                j->key = -1;
            continue;
        }
        if (!j->is_list || j->at == j->end || *j->at != ',')
            j->key = -1;
        if (key >= 0) {
            *s = begin;
            *end = quote;
            *key_ret = key;
            return true;
        }
    }
    return false;
}

/* Begins the texts of a line of JSON, those under the best key it has, or of
 * what Ansible says behind "ok: [HOST] => "; false if it is no such line. */
static bool plain_open_json(const char *s, const char *end,
                            struct plain_json *json_ret, int *key_ret)
{
    const char *at = memmem(s, (size_t)(end - s), " => {", 5), *quote;
    struct plain_json j = {.end = end, .key = -1};
    int key;

    at = plain_skip(at != NULL ? at + 4 : s, end, " \t[,");
    if (at == end || (*at != '{' && *at != '"'))
        return false;
    quote = plain_find_quote(at + 1, end);
    j.is_list = memchr(s, '[', (size_t)(at - s)) != NULL;
    if (*at == '"' &&
        (j.is_list || end - quote < 2 || (end - quote == 2 && quote[1] == ',')))
        j.key = N_KEYS;
    j.at = at;
    *json_ret = j;
    *key_ret = INT_MAX;
    while (plain_next_text(&j, &s, &end, &key))
        *key_ret = key < *key_ret ? key : *key_ret;
    return *key_ret < INT_MAX;
}

/* Puts what is from 's' to 'end' at 'out', which is not behind it; returns the
 * end of what is there. */
static char *plain_put(const char *s, const char *end, bool is_json, char *out)
{
    static const char repeated[] = " [repeated ", across[] = "x across cluster";
    char *const begin = out;
    const char *ray = memmem(s, (size_t)(end - s), repeated, 11);

    if (ray != NULL &&
        memmem(ray, (size_t)(end - ray), across, sizeof(across) - 1) != NULL)
        end = ray;
    if (!is_json && s < end && end[-1] == '"' &&
        memmem(s, (size_t)(end - s), ",\"", 2) != NULL)
        end--; /* of CSV */
    while (s < end) {
        size_t i = 0, n = STP_N_OF(signs);

        /* a colour, or what else a terminal is told */
        if (plain_begins(s, end, "\x1b[") ||
            (is_json && plain_begins(s, end, "\\u001b["))) {
            s += *s == '\\' ? 7 : 2;
            while (s < end && *s >= ' ' && *s < '@')
                s++;
            s += s < end && *s >= '@';
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

/* Likewise of a line, which is several if it is JSON of several texts. */
static char *plain_put_line(const char *s, const char *end, char *out)
{
    char *const begin = out;
    struct plain_json json;
    int best, key;

    if (!plain_open_json(s, end, &json, &best))
        return plain_put(s, end, false, out);
    while (plain_next_text(&json, &s, &end, &key))
        if (key == best) {
            if (out > begin)
                *out++ = '\n';
            out = plain_put(s, end, true, out);
        }
    return out;
}

size_t stp_plain(char *text, size_t len)
{
    const char *const end = text + len, *s = text, *line;
    char *out = text;
    const bool has_lf = memchr(text, '\n', len) != NULL;
    size_t n;

    /* A CR alone becomes the end of a line: in a text without LF, and before
     * NCCL's lines, as a progress bar has more of them. */
    for (char *cr = text, *next;
         (cr = memchr(cr, '\r', (size_t)(end - cr))) != NULL; cr = next) {
        for (next = cr + 1; next < end && *next != '\r' && *next != '\n';)
            next++;
        if (!has_lf || memmem(cr, (size_t)(next - cr), "NCCL ", 5) != NULL)
            *cr = '\n';
    }
    while ((line = stp_next_line(&s, end, &n)) != NULL) {
        const bool is_ended = s[-1] == '\n';

        out = plain_put_line(line, line + n, out);
        if (is_ended)
            *out++ = '\n';
    }
    return (size_t)(out - text);
}
