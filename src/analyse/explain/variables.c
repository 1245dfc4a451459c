#include "analyse/explain/variables.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

extern const char stp_nccl_variables[]; /* variables.txt */

static size_t variable_take(const char **at, char *text, size_t size)
{
    const size_t len = strcspn(*at, "|\n");

    snprintf(text, size, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == '|');
    return len;
}

bool stp_variable_at(size_t i, struct stp_variable *row_ret)
{
    const char *at = stp_nccl_variables;
    struct stp_variable v;
    char first[8], last[8];

    for (; *at == '#' || i > 0; at++) {
        i -= *at != '#';
        at += strcspn(at, "\n");
        if (*at == '\0')
            return false;
    }
    if (variable_take(&at, v.name, sizeof(v.name)) == 0)
        return false;
    variable_take(&at, first, sizeof(first));
    variable_take(&at, last, sizeof(last));
    v.first = atoi(first);
    v.last = atoi(last);
    variable_take(&at, v.kind, sizeof(v.kind));
    variable_take(&at, v.plays, sizeof(v.plays));
    variable_take(&at, v.does, sizeof(v.does));
    variable_take(&at, v.off, sizeof(v.off));
    variable_take(&at, v.path, sizeof(v.path));
    variable_take(&at, v.arms, sizeof(v.arms));
    *row_ret = v;
    return true;
}

bool stp_variable_is(const struct stp_variable *v, const char *kind)
{
    const size_t len = strcspn(v->kind, " ");

    return strlen(kind) == len && memcmp(v->kind, kind, len) == 0;
}

const char *stp_variable_words(const struct stp_variable *v)
{
    const char *words = v->kind + strcspn(v->kind, " ");

    return words + (*words == ' ');
}

/* NCCL reads a distance by its name, in capitals, or by a digit. */
static const char levels[] = "LOC,NVL,NVB,C2C,PIX,PXB,P2C,PXN,PHB,SYS";

bool stp_words_have(const char *words, const char *word, size_t len,
                    bool exactly)
{
    for (const char *w = words; *w != '\0';) {
        const size_t n = strcspn(w, ",");

        if (n == len && (exactly ? strncmp(w, word, len) == 0
                                 : strncasecmp(w, word, len) == 0))
            return true;
        w += n + (w[n] == ',');
    }
    return false;
}

long long stp_variable_number(const char *value)
{
    return strtoll(value, NULL, 0);
}

bool stp_variable_is_off(const struct stp_variable *v, const char *value)
{
    const long long n = stp_variable_number(value);

    if (v->off[0] == '\0' || value[0] == '\0')
        return false;
    if (strcmp(v->off, "LOC") == 0) /* no distance, or a digit for it */
        return strcmp(value, "LOC") == 0 ||
               (isdigit((unsigned char)value[0]) && n == 0);
    return strcmp(v->off, "not0") == 0 ? n != 0 : n == atoll(v->off);
}

static bool variable_misreads_number(const char *words, const char *value,
                                     char *text)
{
    long long n, least, most;
    char *end, beyond[8] = "";

    errno = 0;
    n = strtoll(value, &end, 0);
    if (errno == ERANGE)
        snprintf(text, STP_VARIABLE_TEXT,
                 "NCCL takes its default, since the number is too large");
    else if (end[strspn(end, " \t\r")] != '\0')
        snprintf(text, STP_VARIABLE_TEXT, "NCCL reads it as %lld%s", n,
                 end == value ? "" : ", and not what follows the digits");
    else if (sscanf(words, "%*d %lld..%lld %7s", &least, &most, beyond) < 2 ||
             (n >= least && n <= most) || n == atoll(words))
        return false;
    else if (beyond[0] == 'l' || (beyond[0] == 'm' && n > most))
        snprintf(text, STP_VARIABLE_TEXT,
                 "NCCL takes it as %lld, expected %lld to %lld", most, least,
                 most);
    else
        snprintf(text, STP_VARIABLE_TEXT, "NCCL %s, expected %lld to %lld",
                 beyond[0] == 'd'    ? "hands it to the adapter unchecked"
                 : beyond[0] == '\0' ? "does not check it"
                                     : "passes over it",
                 least, most);
    return true;
}

/* NCCL takes the least or the most instead of what lies beyond, and the most
 * of what is no multiple of a warp; from 0 down its own number. */
static bool variable_misreads_threads(const char *words, const char *value,
                                      char *text)
{
    const long long n = stp_variable_number(value), least = atoll(words);
    const long long most = atoll(words + strcspn(words, ",") + 1);
    long long taken = n;

    if (variable_misreads_number("", value, text))
        return true;
    if (n > 0 && (n % 32 != 0 || n > most))
        taken = most;
    else if (n > 0 && n < least)
        taken = least;
    snprintf(text, STP_VARIABLE_TEXT,
             "NCCL takes %lld, expected a multiple of 32 from %lld to %lld",
             taken, least, most);
    return taken != n;
}

/* Words between separators, behind a '^' that excepts them. */
static bool variable_misreads_list(const char *words, const char *value,
                                   const char *separators, char *text)
{
    for (const char *at = value + (*value == '^'); *at != '\0';) {
        const size_t len = strcspn(at, separators);

        if (len > 0 && !stp_words_have(words, at, len, false)) {
            snprintf(text, STP_VARIABLE_TEXT,
                     "NCCL passes over '%.*s', expected %.180s",
                     (int)(len < 32 ? len : 32), at, words);
            return true;
        }
        at += len + (at[len] != '\0');
    }
    return false;
}

bool stp_variable_is_misread(const struct stp_variable *v, const char *value,
                             char text[STP_VARIABLE_TEXT])
{
    const char *words = stp_variable_words(v);
    const bool exactly = stp_variable_is(v, "exact");
    const bool is_digit = isdigit((unsigned char)value[0]);

    if (value[0] == '\0')
        return false;
    if (stp_variable_is(v, "int"))
        return variable_misreads_number(words, value, text);
    if (stp_variable_is(v, "threads"))
        return variable_misreads_threads(words, value, text);
    if (stp_variable_is(v, "list"))
        return variable_misreads_list(words, value, ",", text);
    if (stp_variable_is(v, "bits") && !is_digit)
        return variable_misreads_list(words, value, "|", text);
    if (stp_variable_is(v, "numbers")) {
        if (value[strspn(value, "0123456789- \t")] == '\0')
            return false;
        snprintf(text, STP_VARIABLE_TEXT,
                 "NCCL reads numbers between blanks, and none after another "
                 "letter");
        return true;
    }
    if (stp_variable_is(v, "level"))
        words = levels;
    else if (!exactly && !stp_variable_is(v, "one"))
        return false;
    if ((words == levels && is_digit) ||
        stp_words_have(words, value, strlen(value), exactly || words == levels))
        return false;
    snprintf(text, STP_VARIABLE_TEXT, "NCCL passes over it, expected %s",
             words);
    return true;
}
