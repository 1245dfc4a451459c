/* compare_output.c - what a run of a compared job printed */
#define _GNU_SOURCE /* memrchr() */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/compare/compare.h"
#include "core/text.h"

enum {
    PIECE = 4096, /* bytes of a line that are looked at together */
    MAX_TIMES = 1 << 20,
    LAST_LINES = 12,
    LAST_BYTES = 1 << 14, /* that these lines are looked for in */
};

/* The part of a line that expressions see. */
struct piece {
    FILE *fp;
    size_t n;     /* bytes of 'text' */
    size_t end;   /* of the piece in it; what is behind belongs to the next */
    bool goes_on; /* the line does not end with this piece */
    char text[PIECE + 1];
};

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

/* Reads on up to the end of a line, which a carriage return is, too, or cuts a
 * longer one at a blank. */
static bool piece_next(struct piece *p)
{
    int c = 0;

    p->n -= p->end;
    memmove(p->text, p->text + p->end, p->n);
    while (p->n < PIECE && (c = getc_unlocked(p->fp)) != EOF && c != '\n' &&
           c != '\r' && c != '\0')
        p->text[p->n++] = (char)c;
    p->end = p->n;
    p->goes_on = p->n == PIECE;
    if (p->goes_on) {
        const char *blank = memrchr(p->text, ' ', PIECE);

        blank = blank != NULL ? blank : memrchr(p->text, ',', PIECE);
        p->end = blank != NULL ? (size_t)(blank - p->text) + 1 : PIECE;
    }
    return c != EOF || p->n > 0;
}

/* Takes the numbers of the first group, wherever a piece matches: finite ones
 * as times, or the last one, NAN for what is no finite number, as the loss. */
static void piece_match(const char *text, const regex_t *regex, int flags,
                        bool are_times, struct stp_compare_found *found)
{
    regmatch_t match[2];

    while (regexec(regex, text, 2, match, flags) == 0) {
        double number = NAN;

        if (match[1].rm_so >= 0)
            stp_parse_double(text + match[1].rm_so,
                             (size_t)(match[1].rm_eo - match[1].rm_so),
                             &number);
        if (!are_times) {
            found->has_loss = true;
            found->loss = number;
        } else if (!isnan(number) && found->n < MAX_TIMES) {
            found->times[found->n++] = number;
        }
        /* an empty match goes on behind the next character */
        text += match[0].rm_eo;
        if (match[0].rm_eo == match[0].rm_so && *text++ == '\0')
            break;
        flags |= REG_NOTBOL;
    }
}

enum stp_status stp_compare_read_output(const char *path,
                                        const regex_t *step_time,
                                        const regex_t *loss,
                                        struct stp_compare_found *found,
                                        struct stp_error *err)
{
    static const char said[] = "NCCL version ", failed[] = "FAILED";
    struct piece p = {.fp = fopen(path, "re")};
    int flags = 0;

    *found = (struct stp_compare_found){
        .times = calloc(MAX_TIMES, sizeof(double)), .loss = NAN};
    if (found->times == NULL || p.fp == NULL) {
        if (p.fp != NULL)
            fclose(p.fp);
        return stp_fail(err, STP_ERR_IO, "cannot read '%.140s'", path);
    }
    while (piece_next(&p)) {
        const char kept = p.text[p.end];
        const char *at;

        p.text[p.end] = '\0';
        at = found->nccl[0] == '\0' ? strstr(p.text, said) : NULL;
        if (at != NULL)
            snprintf(found->nccl, STP_COMPARE_NCCL, "%.*s",
                     (int)strcspn(at + strlen(said), " "), at + strlen(said));
        found->is_wrong |= strstr(p.text, "Out of bounds values ") != NULL &&
                           p.end >= strlen(failed) &&
                           strcmp(p.text + p.end - strlen(failed), failed) == 0;
        flags |= p.goes_on ? REG_NOTEOL : 0;
        if (step_time != NULL)
            piece_match(p.text, step_time, flags, true, found);
        piece_match(p.text, loss, flags, false, found);
        flags = p.goes_on ? REG_NOTBOL : 0;
        p.text[p.end] = kept;
    }
    fclose(p.fp);
    return STP_OK;
}

void stp_compare_print_output(const char *path)
{
    FILE *out = stp_guard_output(STDERR_FILENO), *in = fopen(path, "re");
    char text[LAST_BYTES];
    const char *at, *end, *line;
    size_t len;
    int n = 0;

    if (in != NULL && fseek(in, -LAST_BYTES, SEEK_END) != 0)
        rewind(in); /* it is shorter */
    end = text + (in != NULL ? fread(text, 1, LAST_BYTES, in) : 0);
    at = end > text && end[-1] == '\n' ? end - 1 : end;
    while (at > text && (at[-1] != '\n' || ++n < LAST_LINES))
        at--;
    while (out != NULL && (line = stp_next_line(&at, end, &len)) != NULL)
        fprintf(out, "  | %.*s\n", (int)len, line);
    if (out != NULL)
        fclose(out);
    if (in != NULL)
        fclose(in);
}
