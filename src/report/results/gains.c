/* gains.c - what a policy changes, and what that gains, in a few lines */
#include <stdio.h>

#include "analyse/verify.h"
#include "core/names.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

#define GAIN_HEADING                                                           \
    "Where the policy changes what NCCL runs, and the largest gain there:"

/* Sizes in a row, of one collective or of one workload, at which NCCL runs the
 * same with a policy, and something else without. */
struct gain_range {
    const struct stp_point *first;
    const struct stp_point *last;
    const struct stp_point *best; /* the largest gain: at a size that was not
                                     interpolated, if there is one */
};

static bool gain_is_seen(const struct stp_point *p)
{
    return stp_verify_arm(p)->source <= STP_SOURCE_RECORDED;
}

static bool gain_is_better(const struct stp_point *p,
                           const struct stp_point *best)
{
    if (best == NULL || gain_is_seen(p) != gain_is_seen(best))
        return best == NULL || gain_is_seen(p);
    return stp_verify_arm(p)->gain.gain > stp_verify_arm(best)->gain.gain;
}

static bool gain_is_changed(const struct stp_point *p)
{
    return stp_verify_point(p) != STP_VERDICT_SAME;
}

/* Whether a point goes on with what another begins. */
static bool gain_is_same_range(const struct stp_point *a,
                               const struct stp_point *b)
{
    const struct stp_comparison *x = stp_verify_arm(a);
    const struct stp_comparison *y = stp_verify_arm(b);

    return gain_is_changed(b) && stp_point_alike(a, b) &&
           x->ran_algo == y->ran_algo && x->ran_proto == y->ran_proto;
}

static enum stp_status gain_print_ranges(const struct stp_device_info *info,
                                         const struct stp_comparisons *all,
                                         const char *heading, FILE *fp,
                                         struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    const bool has_ranks = stp_have_ranks(info, all);
    bool has_rows = false;
    enum stp_status status;

    for (size_t i = 0; i < all->n_points;)
        if (gain_is_changed(&all->points[i])) {
            /* Takes the range that begins at point '*i', and moves '*i' behind
             * it. */
            struct gain_range g = {.first = &all->points[*&i]};

            do {
                g.last = &all->points[(i)++];
                if (gain_is_better(g.last, g.best))
                    g.best = g.last;
            } while (i < all->n_points &&
                     gain_is_same_range(g.first, &all->points[*&i]));

            const struct stp_comparison *c = stp_verify_arm(g.best);
            char from[32], to[32], at[32], interval[STP_INTERVAL];

            stp_size_name(g.first->n_bytes, from);
            stp_size_name(g.last->n_bytes, to);
            stp_size_name(g.best->n_bytes, at);
            stp_interval_text(&c->gain, interval);
            stp_table_row(&t);
            stp_put_subject(g.first, &t);
            stp_table_count(&t, NULL, has_ranks ? "ranks" : NULL,
                            g.first->n_ranks);
            stp_table_text(&t, "from", "%s", from);
            stp_table_text(&t, "to", "%s", to);
            stp_table_ran_kernel(&t, NULL, "<runs", c->ran_kernel, c->ran_algo,
                                 c->ran_proto, 0);
            stp_table_text(&t, "gain", "%.3fx", c->gain.gain);
            stp_table_text(&t, "95% interval", "%s", interval);
            stp_table_text(&t, "?at", "%s", at);
            stp_table_text(&t, "<times", "%s", stp_source_name(c->source));

            has_rows = true;
        } else {
            i++;
        }
    if (!has_rows)
        return STP_OK;
    stp_print_paragraph(heading != NULL ? heading : GAIN_HEADING, fp);
    fputc('\n', fp);
    status = stp_table_end(&t, fp, err);
    fputc('\n', fp);
    return status;
}

enum stp_status stp_print_gains(const struct stp_device_info *info,
                                const struct stp_comparisons *verdicts,
                                const char *heading, FILE *fp,
                                struct stp_error *err)
{
    const struct stp_verdict_count count = stp_count_verdicts(verdicts);
    enum stp_status status =
        gain_print_ranges(info, verdicts, heading, fp, err);

    if (status == STP_OK && count.n_slower > 0) {
        fputs("Slower than NCCL's own choice:\n\n", fp);
        status =
            stp_print_verdicts(info, verdicts, STP_VERDICTS_SLOWER, fp, err);
    } else if (status == STP_OK) {
        stp_print_verdict_count(&count, fp);
        stp_print_verdicts_together(verdicts, &count, fp);
    }
    return status;
}
