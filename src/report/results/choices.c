/* choices.c - NCCL's own choices, of several versions and under variables */
#include <string.h>

#include "core/names.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/words.h"

enum { LABELS = 256 }; /* bytes of "2.24 to 2.27", or of a label */

static const char *choices_name(const struct stp_overlay_pick *p,
                                char name[STP_RAN_NAME])
{
    return p->pick.algo < 0 ? "fails"
                            : stp_ran_name(p->pick.algo, p->pick.proto,
                                           p->asked_channels, name);
}

/* The end of the cases from 'i' on that choose alike. */
static size_t choices_end(const struct stp_overlay_row *row, size_t n, size_t i)
{
    size_t end = i + 1;

    while (end < n &&
           memcmp(&row->picks[i], &row->picks[end], sizeof(row->picks[0])) == 0)
        end++;
    return end;
}

/* "2.24 to 2.27", "from 2.28" or "2.31". */
static const char *choices_span(const struct stp_choice_cases *c, size_t i,
                                size_t end, char text[LABELS])
{
    if (end == i + 1)
        snprintf(text, LABELS, "%.20s", c->labels[i]);
    else if (end == c->n && i > 0)
        snprintf(text, LABELS, "from %.20s", c->labels[i]);
    else
        snprintf(text, LABELS, "%.20s to %.20s", c->labels[i],
                 c->labels[end - 1]);
    return text;
}

void stp_print_versions(const struct stp_choice_cases *c, FILE *fp)
{
    const struct stp_overlay_row *row = &c->overlay.rows[0];
    char name[STP_RAN_NAME], span[LABELS];

    for (size_t i = 0, end; i < c->n; i = end) {
        end = choices_end(row, c->n, i);
        fprintf(fp, "%s%s: %s", i > 0 ? "; " : "",
                choices_span(c, i, end, span),
                choices_name(&row->picks[i], name));
    }
    fputs(".\n", fp);
}

/* A row a run of versions that choose alike, or one with a column a case. */
static void choices_put(const struct stp_choice_cases *c,
                        const struct stp_overlay_row *row, struct stp_table *t)
{
    char name[STP_RAN_NAME], span[LABELS + 1];

    for (size_t i = 0, end; i < c->n; i = end) {
        const struct stp_overlay_pick *p = &row->picks[i];

        end = c->are_versions ? choices_end(row, c->n, i) : i + 1;
        if (i == 0 || c->are_versions || t->format == STP_TABLE_JSON) {
            stp_table_row(t);
            stp_table_word(t, "collective", "<collective",
                           stp_coll_name(row->coll));
            stp_table_count(t, "min_bytes", "from bytes", row->min_bytes);
            stp_table_count(t, "max_bytes", "to bytes", row->max_bytes);
            stp_table_word(t, c->are_versions ? "first" : "case", NULL,
                           c->labels[i]);
            stp_table_word(t, c->are_versions ? "last" : NULL, NULL,
                           c->labels[end - 1]);
            stp_table_ran(t, "choice", NULL, p->pick.algo, p->pick.proto,
                          p->asked_channels);
            stp_table_word(t, p->pick.algo < 0 ? "fault" : NULL, NULL,
                           c->cases[i].fault);
        }
        if (c->are_versions)
            stp_table_word(t, NULL, "<NCCL", choices_span(c, i, end, span));
        snprintf(span, sizeof(span), "<%s",
                 c->are_versions ? "runs" : c->labels[i]);
        stp_table_word(t, NULL, span, choices_name(p, name));
    }
}

void stp_put_choices(const struct stp_choice_cases *c, struct stp_table *json,
                     FILE *fp)
{
    const char *key = c->are_versions ? "versions" : c->key;
    struct stp_table t = json != NULL ? stp_table_array(json->root, key)
                                      : stp_table_begin(STP_TABLE_TEXT);
    size_t n_shown = 0;

    for (size_t i = 0; i < c->overlay.n_rows; i++) {
        const struct stp_overlay_row *row = &c->overlay.rows[i];

        if (!c->has_all && choices_end(row, c->n, 0) == c->n)
            continue;
        choices_put(c, row, &t);
        n_shown++;
    }
    if (json != NULL)
        return;
    if (n_shown == 0)
        fprintf(fp, "%s%s %s %s decide alike.\n",
                c->are_versions ? "NCCL " : "", c->labels[0],
                c->are_versions ? "to" : "and", c->labels[c->n - 1]);
    else
        stp_table_end(&t, fp);
    for (size_t i = 0; i < c->n; i++)
        if (c->cases[i].fault[0] != '\0')
            fprintf(fp, "%s%s: %s\n", i == 0 ? "\n" : "", c->labels[i],
                    c->cases[i].fault);
}
