#include "report/results/golden.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"
#include "core/text.h"
#include "core/utf8.h"
#include "report/table.h"
#include "report/words.h"

enum {
    MAX_SHOWN = 10,
    MAX_APART = 1000, /* lines until two texts meet again */
};

/* ---- writing ---- */

static void golden_put(const struct stp_explained *from,
                       const struct stp_explained *to, struct stp_table *t)
{
    stp_table_row(t);
    stp_table_word(t, "collective", NULL, stp_coll_name(from->coll));
    stp_table_count(t, "min_bytes", NULL, from->min_bytes);
    stp_table_count(t, "max_bytes", NULL, to->max_bytes);
    stp_table_word(t, "auto_algorithm", NULL,
                   stp_algo_name(from->auto_pick.algo));
    stp_table_word(t, "auto_protocol", NULL,
                   stp_proto_name(from->auto_pick.proto));
    stp_table_word(t, "algorithm", NULL, stp_algo_name(from->pick.algo));
    stp_table_word(t, "protocol", NULL, stp_proto_name(from->pick.proto));
    stp_table_number(t, "asked_channels", NULL, from->asked_channels, 0);
    stp_table_number(t, "min_channels", NULL, from->min_channels, 0);
    stp_table_number(t, "max_channels", NULL, to->max_channels, 0);
    stp_table_word(t, "decided_by", NULL, stp_decider_name(from->decider));
}

enum stp_status stp_golden_text(const struct stp_explanation *explanation,
                                const char *machine, uint64_t max_bytes,
                                char **text_ret, struct stp_error *err)
{
    static const struct stp_explained none;
    const struct stp_explained *ranges = explanation->ranges;
    struct stp_table t = stp_table_begin(STP_TABLE_CSV);
    char *text = NULL;
    size_t len;
    FILE *fp = open_memstream(&text, &len);
    enum stp_status status;

    if (fp == NULL)
        return stp_nomem(err);
    fprintf(fp,
            "# steptune explain: what a tuner plugin decides on %s, up to "
            "%" PRIu64 " bytes\n",
            machine, max_bytes);
    if (stp_table_headings(&t))
        golden_put(&none, &none, &t);
    for (size_t i = 0, first = 0; i < explanation->n_ranges; i++) {
        const struct stp_explained *a = &ranges[i], *b = &ranges[i + 1];

        if (i + 1 < explanation->n_ranges && a->coll == b->coll &&
            a->auto_pick.algo == b->auto_pick.algo &&
            a->auto_pick.proto == b->auto_pick.proto &&
            a->pick.algo == b->pick.algo && a->pick.proto == b->pick.proto &&
            a->asked_channels == b->asked_channels && a->decider == b->decider)
            continue;
        golden_put(&ranges[first], &ranges[i], &t);
        first = i + 1;
    }
    status = stp_table_end(&t, fp, err);
    if (fclose(fp) != 0 || status != STP_OK) {
        free(text);
        return stp_nomem(err);
    }
    *text_ret = text;
    return STP_OK;
}

/* ---- comparing ---- */

/* The lines of a text that are still to be compared. */
struct golden_rest {
    struct stp_golden_line *lines;
    size_t n;
};

static struct golden_rest golden_split(const char *text, char sign,
                                       struct stp_golden_line *lines)
{
    const char *end = text + strlen(text);
    struct golden_rest r = {lines, 0};
    const char *s;
    size_t len;

    while ((s = stp_next_line(&text, end, &len)) != NULL) {
        r.lines[r.n] = (struct stp_golden_line){sign, r.n + 1, s, len};
        r.n++;
    }
    return r;
}

static size_t golden_max_lines(const char *text)
{
    size_t n = 1; /* without an end */

    for (; *text != '\0'; text++)
        n += *text == '\n';
    return n;
}

/* Skips as few lines of both as it takes until they are at the same one, or at
 * their ends. The skipped lines go to the change, *a's first. */
static void golden_skip(struct golden_rest *a, struct golden_rest *b,
                        struct stp_golden_change *change)
{
    size_t i = a->n, j = b->n;

    for (size_t apart = 0; apart <= MAX_APART && i == a->n; apart++)
        for (size_t k = 0; k <= apart; k++)
            if (k < a->n && apart - k < b->n &&
                a->lines[k].len == b->lines[apart - k].len &&
                memcmp(a->lines[k].s, b->lines[apart - k].s, a->lines[k].len) ==
                    0) {
                i = k;
                j = apart - k;
                break;
            }
    for (size_t k = 0; k < i; k++)
        change->lines[change->n++] = a->lines[k];
    for (size_t k = 0; k < j; k++)
        change->lines[change->n++] = b->lines[k];
    *a = (struct golden_rest){a->lines + i, a->n - i};
    *b = (struct golden_rest){b->lines + j, b->n - j};
}

enum stp_status stp_golden_compare(const char *expected, const char *got,
                                   struct stp_golden_change *change_ret,
                                   struct stp_error *err)
{
    const size_t max_a = golden_max_lines(expected);
    const size_t max = max_a + golden_max_lines(got);
    struct stp_golden_line *lines = calloc(2 * max, sizeof(*lines));
    struct stp_golden_change change = {lines, 0};

    if (lines == NULL)
        return stp_nomem(err);

    struct golden_rest a = golden_split(expected, '-', lines + max);
    struct golden_rest b = golden_split(got, '+', lines + max + max_a);

    while (a.n > 0 || b.n > 0) {
        golden_skip(&a, &b, &change);
        if (a.n > 0) { /* the same line */
            a.lines++, a.n--;
            b.lines++, b.n--;
        }
    }

    *change_ret = change;
    return STP_OK;
}

void stp_golden_change_free(struct stp_golden_change *change)
{
    free(change->lines);
    memset(change, 0, sizeof(*change));
}

/* ---- printing ---- */

enum stp_status stp_print_golden_change(const struct stp_golden_change *change,
                                        const char *path, bool is_json,
                                        FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_result(is_json);

    if (!is_json) {
        char shown[4096];

        if (change->n == 0)
            fprintf(fp, "%s: nothing has changed\n", path);
        else
            fprintf(fp, "%s: %zu %s\n", path, change->n,
                    change->n == 1 ? "line differs" : "lines differ");
        for (size_t i = 0; i < change->n && i < MAX_SHOWN; i++) {
            const struct stp_golden_line *line = &change->lines[i];

            stp_printable(line->s, line->len, shown, sizeof(shown));
            fprintf(fp, "%c%zu: %s\n", line->sign, line->number, shown);
        }
        if (change->n > MAX_SHOWN)
            fprintf(fp, "... and %zu more\n", change->n - MAX_SHOWN);
    }
    stp_table_word(&t, "golden", NULL, path);
    stp_table_flag(&t, "same", NULL, change->n == 0);
    stp_table_rows(&t, "differences");
    for (size_t i = 0; i < change->n && is_json; i++) {
        const struct stp_golden_line *line = &change->lines[i];
        char *text = strndup(line->s, line->len);

        stp_table_row(&t);
        stp_table_word(&t, "in", NULL, line->sign == '-' ? "golden" : "now");
        stp_table_count(&t, "line", NULL, line->number);
        stp_table_word(&t, "text", NULL, text);
        free(text);
    }
    return stp_table_end(&t, fp, err);
}
