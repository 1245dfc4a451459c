/* gains.c - what a policy changes, and what that gains, in a few lines */
#include <stdio.h>
#include <string.h>

#include "analyse/verify.h"
#include "core/names.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/words.h"

enum { GAIN_RUNS = 80 };

/* Sizes in a row, of one collective or of one workload, that a policy changes.
 */
struct gain_range {
    const struct stp_point *first;
    const struct stp_point *last;
    const struct stp_point *best; /* the largest gain: at a size that was not
                                     interpolated, if there is one */
    char runs[GAIN_RUNS];         /* what NCCL runs there, in this order */
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

/* "ring/ll, ring/ll128": without channels, each once, as far as there is room.
 */
static void gain_add_run(const struct stp_comparison *c, char runs[GAIN_RUNS])
{
    const size_t len = strlen(runs);
    char name[STP_RAN_NAME];
    size_t n;

    stp_ran_name(c->ran_algo, c->ran_proto, 0, name);
    n = strlen(name);
    for (const char *s = runs; (s = strstr(s, name)) != NULL; s += n)
        if (s[n] == '\0' || s[n] == ',')
            return;
    snprintf(runs + len, GAIN_RUNS - len, "%s%s", len > 0 ? ", " : "", name);
}

static bool gain_is_changed(const struct stp_point *p)
{
    return stp_verify_point(p) != STP_VERDICT_SAME;
}

/* Takes the range that begins at point '*i', and moves '*i' behind it. */
static struct gain_range gain_take_range(const struct stp_comparisons *all,
                                         size_t *i)
{
    struct gain_range g = {.first = &all->points[*i]};

    do {
        const struct stp_point *p = &all->points[(*i)++];

        g.last = p;
        if (gain_is_better(p, g.best))
            g.best = p;
        gain_add_run(stp_verify_arm(p), g.runs);
    } while (*i < all->n_points && gain_is_changed(&all->points[*i]) &&
             stp_point_alike(g.first, &all->points[*i]));
    return g;
}

static void gain_put(const struct gain_range *g, bool has_ranks,
                     struct stp_table *t)
{
    const struct stp_comparison *c = stp_verify_arm(g->best);
    char from[32], to[32], at[32], interval[STP_INTERVAL];

    stp_size_name(g->first->n_bytes, from);
    stp_size_name(g->last->n_bytes, to);
    stp_size_name(g->best->n_bytes, at);
    stp_interval_text(&c->gain, interval);
    stp_table_row(t);
    stp_put_subject(g->first, t);
    stp_table_count(t, NULL, has_ranks ? "ranks" : NULL, g->first->n_ranks);
    stp_table_text(t, "from", "%s", from);
    stp_table_text(t, "to", "%s", to);
    stp_table_text(t, "<runs", "%s", g->runs);
    stp_table_text(t, "best gain", "%.3fx", c->gain.gain);
    stp_table_text(t, "95% interval", "%s", interval);
    stp_table_text(t, "at", "%s", at);
    stp_table_text(t, "?<times", "%s", stp_source_name(c->source));
}

static enum stp_status gain_print_ranges(const struct stp_comparisons *all,
                                         FILE *fp, struct stp_error *err)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    const bool has_ranks = stp_have_ranks(all);
    bool has_rows = false;
    enum stp_status status;

    for (size_t i = 0; i < all->n_points;)
        if (gain_is_changed(&all->points[i])) {
            const struct gain_range g = gain_take_range(all, &i);

            gain_put(&g, has_ranks, &t);
            has_rows = true;
        } else {
            i++;
        }
    if (!has_rows)
        return STP_OK;
    fputs("Where the policy changes what NCCL runs:\n\n", fp);
    status = stp_table_end(&t, fp, err);
    fputc('\n', fp);
    return status;
}

enum stp_status stp_print_gains(const struct stp_comparisons *verdicts,
                                FILE *fp, struct stp_error *err)
{
    const struct stp_verdict_count count = stp_count_verdicts(verdicts);
    enum stp_status status = gain_print_ranges(verdicts, fp, err);

    if (status == STP_OK && count.n_slower > 0) {
        fputs("Slower than NCCL's own choice:\n\n", fp);
        status = stp_print_verdicts(verdicts, STP_VERDICTS_SLOWER, fp, err);
    } else if (status == STP_OK) {
        stp_print_verdict_count(&count, fp);
    }
    return status;
}
