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

static bool gain_is_seen(const struct stp_point *p)
{
    return stp_verify_arm(p)->source <= STP_SOURCE_RECORDED;
}

static bool gain_is_changed(const struct stp_point *p)
{
    return stp_verify_point(p) != STP_VERDICT_SAME;
}

/* Prints a row for each range: sizes in a row, of one collective or of one
 * workload, at which NCCL runs the same with a policy, and something else
 * without.  The best of them is at a size that was not interpolated, if there
 * is one. */
static enum stp_status gain_print_ranges(const struct stp_device_info *info,
                                         const struct stp_comparisons *all,
                                         const char *heading, FILE *fp,
                                         struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    const bool has_ranks = stp_have_ranks(info, all);
    const struct stp_point *const end = all->points + all->n_points;
    bool has_rows = false;
    enum stp_status status;

    for (const struct stp_point *p = all->points, *next; p < end; p = next) {
        const struct stp_point *best = p;
        const struct stp_comparison *c = stp_verify_arm(p);
        const struct stp_comparison *first = c;
        char from[32], to[32], at[32], interval[STP_INTERVAL];

        next = p + 1;
        if (!gain_is_changed(p))
            continue;
        for (; next < end && gain_is_changed(next) && stp_point_alike(p, next);
             next++) {
            const struct stp_comparison *d = stp_verify_arm(next);

            if (d->ran_algo != first->ran_algo ||
                d->ran_proto != first->ran_proto)
                break;
            if (gain_is_seen(next) != gain_is_seen(best)
                    ? gain_is_seen(next)
                    : d->gain.gain > c->gain.gain) {
                best = next;
                c = d;
            }
        }
        stp_size_name(p->n_bytes, from);
        stp_size_name(next[-1].n_bytes, to);
        stp_size_name(best->n_bytes, at);
        stp_interval_text(&c->gain, interval);
        stp_table_row(&t);
        stp_put_subject(p, &t);
        stp_table_count(&t, NULL, has_ranks ? "ranks" : NULL, p->n_ranks);
        stp_table_text(&t, "from", "%s", from);
        stp_table_text(&t, "to", "%s", to);
        stp_table_ran_kernel(&t, NULL, "<runs", c->ran_kernel, c->ran_algo,
                             c->ran_proto, 0);
        stp_table_text(&t, "gain", "%.3fx", c->gain.gain);
        stp_table_text(&t, "95% interval", "%s", interval);
        stp_table_text(&t, "?at", "%s", at);
        stp_table_text(&t, "<times", "%s", stp_source_name(c->source));
        has_rows = true;
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
        stp_print_verdict_count(verdicts, fp);
    }
    return status;
}
