/* compare_output.c - what a run of a compared job printed */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "core/text.h"

enum { LAST_LINES = 12 };

const char *stp_compare_compile(const char *pattern, regex_t *regex_ret)
{
    static char why[160];
    int failed = regcomp(regex_ret, pattern, REG_EXTENDED | REG_NEWLINE);

    if (failed != 0) {
        regerror(failed, regex_ret, why, sizeof(why));
        return why;
    }
    if (regex_ret->re_nsub >= 1)
        return NULL;
    regfree(regex_ret);
    return "it has no group such as ([0-9.]+)";
}

enum stp_status stp_compare_find_numbers(const char *text, const regex_t *regex,
                                         double **numbers_ret, size_t *n_ret,
                                         struct stp_error *err)
{
    double *numbers = NULL;
    size_t n = 0, capacity = 0;
    regmatch_t match[2];
    int flags = 0;

    while (regexec(regex, text, 2, match, flags) == 0) {
        double number;

        if (n == capacity) {
            double *more;

            capacity = capacity > 0 ? 2 * capacity : 64;
            more = realloc(numbers, capacity * sizeof(*numbers));
            if (more == NULL) {
                free(numbers);
                return stp_nomem(err);
            }
            numbers = more;
        }
        number = NAN;
        if (match[1].rm_so >= 0)
            stp_parse_double(text + match[1].rm_so,
                             (size_t)(match[1].rm_eo - match[1].rm_so),
                             &number);
        numbers[n++] = number;
        /* an empty match goes on behind the next character */
        if (match[0].rm_eo == match[0].rm_so && text[match[0].rm_eo] == '\0')
            break;
        flags = match[0].rm_eo > 0 && text[match[0].rm_eo - 1] == '\n'
                    ? 0
                    : REG_NOTBOL;
        text += match[0].rm_eo + (match[0].rm_eo == match[0].rm_so);
    }
    *numbers_ret = numbers;
    *n_ret = n;
    return STP_OK;
}

void stp_compare_find_nccl(const char *text, char version[STP_COMPARE_NCCL])
{
    static const char said[] = "NCCL version ";
    const char *at = strstr(text, said);

    version[0] = '\0';
    if (at == NULL)
        return;
    at += strlen(said);
    snprintf(version, STP_COMPARE_NCCL, "%.*s", (int)strcspn(at, " \r\n"), at);
}

bool stp_compare_is_wrong(const char *text)
{
    static const char failed[] = "FAILED", values[] = "Out of bounds values ";
    const char *end = text + strlen(text);
    const char *line;
    size_t len;
    bool is_wrong = false;

    while (!is_wrong && (line = stp_next_line(&text, end, &len)) != NULL) {
        const char *at = strstr(line, values);

        is_wrong =
            at != NULL && at < line + len && len >= strlen(failed) &&
            strncmp(line + len - strlen(failed), failed, strlen(failed)) == 0;
    }
    return is_wrong;
}

void stp_compare_print_output(const char *text)
{
    FILE *fp = stp_guard_output(STDERR_FILENO);
    const char *end = text + strlen(text);
    const char *at = end > text && end[-1] == '\n' ? end - 1 : end;
    int n = 0;
    const char *line;
    size_t len;

    while (at > text && (at[-1] != '\n' || ++n < LAST_LINES))
        at--;
    while (fp != NULL && (line = stp_next_line(&at, end, &len)) != NULL)
        fprintf(fp, "  | %.*s\n", (int)len, line);
    if (fp != NULL)
        fclose(fp);
}
