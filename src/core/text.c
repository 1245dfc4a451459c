#include "core/text.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The longest double that printf("%f") writes has 317 bytes. */
enum { DOUBLE_MAX_LEN = 320 };

/* isdigit() and isspace() would ask the locale. */
static bool text_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static bool text_is_blank(char c)
{
    return c == ' ' || c == '\t';
}

size_t stp_split(const char *line, size_t len, struct stp_field *fields,
                 size_t max)
{
    const char *s = line, *end = line + len;
    size_t n = 0;

    for (;; s++) {
        const char *stop;

        while (s < end && text_is_blank(*s))
            s++;
        stop = s;
        while (stop < end && *stop != ',')
            stop++;
        if (n < max) {
            const char *last = stop;

            while (last > s && text_is_blank(last[-1]))
                last--;
            fields[n].s = s;
            fields[n].len = (size_t)(last - s);
            fields[n].column = (unsigned)(s - line) + 1;
        }
        n++;
        if (stop == end)
            return n;
        s = stop;
    }
}

bool stp_field_is(const struct stp_field *field, const char *word)
{
    return strlen(word) == field->len &&
           memcmp(word, field->s, field->len) == 0;
}

int stp_find_word(const char *const *words, int n, const char *word, size_t len)
{
    for (int i = 0; i < n; i++)
        if (strlen(words[i]) == len && memcmp(words[i], word, len) == 0)
            return i;
    return -1;
}

const char *stp_past_bom(const char *text, size_t *len)
{
    const size_t n = *len >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0 ? 3 : 0;

    *len -= n;
    return text + n;
}

const char *stp_next_line(const char **s, const char *end, size_t *len_ret)
{
    const char *line = *s;
    const char *lf;
    size_t len;

    if (line == end)
        return NULL;
    lf = memchr(line, '\n', (size_t)(end - line));
    len = (size_t)((lf != NULL ? lf : end) - line);
    *s = line + len + (lf != NULL);
    if (lf != NULL && len > 0 && line[len - 1] == '\r')
        len--;
    *len_ret = len;
    return line;
}

bool stp_parse_u64(const char *s, size_t len, uint64_t *value_ret)
{
    uint64_t value = 0;

    if (len == 0)
        return false;
    for (size_t i = 0; i < len; i++) {
        uint64_t digit = (uint64_t)s[i] - '0';

        if (!text_is_digit(s[i]) || value > (UINT64_MAX - digit) / 10)
            return false;
        value = value * 10 + digit;
    }
    *value_ret = value;
    return true;
}

bool stp_parse_size(const char *s, size_t len, uint64_t *value_ret)
{
    static const char suffixes[] = "KkMmGg";
    const char *suffix = len > 0 ? memchr(suffixes, s[len - 1], 6) : NULL;
    const int shift =
        suffix != NULL ? 10 * (int)((suffix - suffixes) / 2 + 1) : 0;
    uint64_t value;

    if (!stp_parse_u64(s, shift != 0 ? len - 1 : len, &value) ||
        value > UINT64_MAX >> shift)
        return false;
    *value_ret = value << shift;
    return true;
}

static const char *text_skip_digits(const char *s, const char *end)
{
    while (s < end && text_is_digit(*s))
        s++;
    return s;
}

/* -digits.digits(e+-digits): strtod() alone takes "inf", "nan", "0x1p3", " 1"
 * and "1x" as well. */
static bool text_looks_decimal(const char *s, const char *end)
{
    const char *digits = s + (s < end && *s == '-');

    s = text_skip_digits(digits, end);
    if (s == digits)
        return false;
    if (s < end && *s == '.') {
        digits = s + 1;
        s = text_skip_digits(digits, end);
        if (s == digits)
            return false;
    }
    if (s < end && (*s == 'e' || *s == 'E')) {
        digits = s + 1;
        digits += digits < end && (*digits == '-' || *digits == '+');
        s = text_skip_digits(digits, end);
        if (s == digits)
            return false;
    }
    return s == end;
}

bool stp_parse_double(const char *s, size_t len, double *value_ret)
{
    char buf[DOUBLE_MAX_LEN + 1];
    locale_t c_locale, old;
    double value;

    if (len > DOUBLE_MAX_LEN || !text_looks_decimal(s, s + len))
        return false;
    memcpy(buf, s, len);
    buf[len] = '\0';
    /* an application may have a locale whose decimal point is a comma */
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (c_locale == (locale_t)0)
        return false;
    old = uselocale(c_locale);
    value = strtod(buf, NULL);
    uselocale(old);
    freelocale(c_locale);
    if (!isfinite(value))
        return false;
    *value_ret = value;
    return true;
}

enum stp_status stp_read_file(const char *path, size_t max, char **text_ret,
                              size_t *len_ret, struct stp_error *err)
{
    FILE *fp = fopen(path, "rb");
    size_t len = 0, size = 0, n;
    char *text = NULL;
    enum stp_status status = STP_OK;

    if (fp == NULL)
        return stp_fail(err, STP_ERR_IO, "cannot be opened: %s",
                        strerror(errno));
    /* glibc before 2.33 does not export fstat() */
    do {
        if (size - len < 2) {
            char *bigger = realloc(text, size = size > 0 ? 2 * size : 1 << 16);

            if (bigger == NULL) {
                status = stp_nomem(err);
                break;
            }
            text = bigger;
        }
        n = fread(text + len, 1, size - len - 1, fp);
        len += n;
    } while (n > 0 && len <= max);
    if (status == STP_OK && len > max)
        status =
            stp_fail(err, STP_ERR_LIMIT,
                     "is larger than %zu bytes, the most that is read", max);
    else if (status == STP_OK && ferror(fp))
        status = errno == EISDIR
                     ? stp_fail(err, STP_ERR_IO, "is a directory")
                     : stp_fail(err, STP_ERR_IO, "cannot be read: %s",
                                strerror(errno));
    fclose(fp);
    if (status != STP_OK) {
        free(text);
        return status;
    }
    text[len] = '\0';
    *text_ret = text;
    *len_ret = len;
    return STP_OK;
}

void stp_append(char *buf, size_t size, const char *fmt, ...)
{
    const size_t len = strlen(buf);
    va_list va;

    va_start(va, fmt);
    vsnprintf(buf + len, size - len, fmt, va);
    va_end(va);
}

const char *stp_base_name(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}
