/* explanation.c - NCCL's choice with and without a plugin, range by range */
#include "core/names.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

static void explanation_put(const struct stp_explained *x, const char *policy,
                            bool alone, struct stp_table *t)
{
    const char *const heading = alone ? NULL : "<decided by";
    const bool is_rule =
        x->decider == STP_DECIDER_RULE && t->format != STP_TABLE_CSV;
    char channels[32];

    snprintf(channels, sizeof(channels),
             x->min_channels == x->max_channels ? "%d" : "%d to %d",
             x->min_channels, x->max_channels);
    stp_table_row(t);
    stp_table_word(t, "collective", "<collective", stp_coll_name(x->coll));
    stp_table_count(t, "min_bytes", "from bytes", x->min_bytes);
    stp_table_count(t, "max_bytes", "to bytes", x->max_bytes);
    stp_table_ran(t, "auto", alone ? NULL : "?<AUTO", x->auto_pick.algo,
                  x->auto_pick.proto, 0);
    stp_table_ran(t, NULL, alone ? "<runs" : "<choice", x->pick.algo,
                  x->pick.proto, 0);
    stp_table_ran(t, "choice", NULL, x->pick.algo, x->pick.proto,
                  x->asked_channels);
    stp_table_number(t, "min_channels", NULL, x->min_channels, 0);
    stp_table_number(t, "max_channels", NULL, x->max_channels, 0);
    stp_table_word(t, NULL, "?channels", channels);
    stp_table_word(t, "decided_by", NULL, stp_decider_name(x->decider));
    stp_table_word(t, is_rule ? "policy" : NULL, NULL, policy);
    stp_table_count(t, is_rule ? "line" : NULL, NULL, x->line);
    if (heading == NULL)
        return;
    if (is_rule)
        stp_table_text(t, heading, "%s:%u", policy, x->line);
    else if (x->decider == STP_DECIDER_NCCL)
        stp_table_text(t, heading, "NCCL");
    else if (x->asked_channels != 0)
        stp_table_text(t, heading, "%s, asks for %d channels",
                       stp_decider_name(x->decider), x->asked_channels);
    else
        stp_table_text(t, heading, "%s", stp_decider_name(x->decider));
}

void stp_put_explanation(const struct stp_explanation *explanation,
                         const char *policy, bool has_table, bool alone,
                         struct stp_table *whole, FILE *out)
{
    const bool has_all = has_table || whole != NULL || alone;
    const size_t n = explanation->n_ranges;
    struct stp_table text = stp_table_begin(STP_TABLE_TEXT);
    struct stp_table *t = whole != NULL ? whole : &text;
    struct stp_paragraph paragraph;
    size_t n_shown = 0;
    FILE *fp;

    if (t->format == STP_TABLE_JSON) {
        stp_table_count(t, "sizes_asked", NULL, explanation->n_sizes);
        stp_table_rows(t, "ranges");
    }
    for (size_t i = 0; i < n; i++)
        if (has_all || explanation->ranges[i].decider != STP_DECIDER_NCCL) {
            explanation_put(&explanation->ranges[i], policy, alone, t);
            n_shown++;
        }
    if (whole != NULL)
        return;
    stp_table_end(t, out);
    if (n_shown > 0)
        fputc('\n', out);
    fp = stp_paragraph_begin(&paragraph, out);
    if (n_shown == 0)
        fprintf(fp,
                "NCCL's own choice stands at each size asked, in %zu ranges, "
                "which --table prints. ",
                n);
    else if (n_shown < n)
        fprintf(fp,
                "%zu of %zu ranges; NCCL's own choice stands at each size "
                "asked in the others, which --table prints, too. ",
                n_shown, n);
    fprintf(fp,
            "%s was asked about each collective at %zu sizes: powers of two, "
            "64 sizes "
            "an octave, decimal numbers%s, their neighbours, and 256 at "
            "random. Switch points between two of them were found by "
            "bisection.",
            alone ? "NCCL" : "The tuner", explanation->n_sizes,
            policy != NULL ? ", the policy's range ends" : "");
    stp_paragraph_end(&paragraph);
}
