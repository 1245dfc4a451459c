/* gains.c - what a policy changes, and what that gains, in a few lines */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "analyse/verify.h"
#include "core/policy/memory_policy.h"
#include "launch/take.h"
#include "report/results/memory_rules.h"
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

/* The first rule that can decide the point; NULL if there is none. */
static const struct stp_rule *gain_find_rule(const struct stp_policy *policy,
                                             const char *gpu,
                                             const struct stp_point *p)
{
    const struct stp_memory_query query = {.coll = p->coll,
                                           .n_bytes = p->n_bytes,
                                           .n_ranks = p->n_ranks,
                                           .n_nodes = p->n_nodes,
                                           .overlaps =
                                               p->work.mode != STP_MODE_ALONE,
                                           .gpu = gpu,
                                           .captured = p->graph};

    return stp_memory_policy_match(policy, &query);
}

/* Prints a row for each rule that changes what NCCL runs, and for each size at
 * which no rule does.  The best size of a rule is one that was not
 * interpolated, if there is one. */
static void gain_print_ranges(const struct stp_device_info *info,
                              const struct stp_comparisons *all,
                              const struct stp_policy *policy,
                              const char *heading, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    const bool has_ranks = stp_have_ranks(info, all);
    const struct stp_point *const end = all->points + all->n_points;
    bool has_rows = false;

    for (const struct stp_point *p = all->points, *next; p < end; p = next) {
        const struct stp_rule *rule = gain_find_rule(policy, info->gpu, p);
        const struct stp_range bytes = {p->n_bytes, p->n_bytes};
        const struct stp_point *best = p;
        const struct stp_comparison *c = stp_verify_arm(p);
        char from[32], to[32];

        next = p + 1;
        if (stp_verify_point(p) == STP_VERDICT_SAME)
            continue;
        for (; rule != NULL && next < end && stp_point_alike(p, next) &&
               (stp_verify_point(next) == STP_VERDICT_SAME ||
                gain_find_rule(policy, info->gpu, next) == rule);
             next++) {
            const struct stp_comparison *d = stp_verify_arm(next);

            if (stp_verify_point(next) != STP_VERDICT_SAME &&
                (gain_is_seen(next) != gain_is_seen(best)
                     ? gain_is_seen(next)
                     : d->gain.gain > c->gain.gain)) {
                best = next;
                c = d;
            }
        }
        stp_range_names(rule != NULL ? &rule->bytes : &bytes, from, to);
        stp_table_row(&t);
        stp_put_subject(p, &t);
        stp_table_count(&t, NULL, has_ranks ? "ranks" : NULL, p->n_ranks);
        stp_table_text(&t, "from", "%s", from);
        stp_table_text(&t, "to", "%s", to);
        stp_table_ran_kernel(&t, NULL, "<runs", c->ran_kernel, c->ran_algo,
                             c->ran_proto, 0);
        stp_table_text(&t, "gain", "%.3fx", c->gain.gain);
        stp_table_word(&t, NULL, "95% interval", STP_INTERVAL_TEXT(&c->gain));
        stp_table_word(&t, NULL, "?at", STP_SIZE_NAME(best->n_bytes));
        stp_table_word(&t, NULL, "<times",
                       stp_source_words(c->source, c->single_pass));
        has_rows = true;
    }
    if (!has_rows)
        return;
    stp_print_paragraph(heading != NULL ? heading : GAIN_HEADING, fp);
    fputc('\n', fp);
    stp_table_end(&t, fp);
    fputc('\n', fp);
}

enum stp_status stp_print_gains(const struct stp_device_info *info,
                                const struct stp_comparisons *verdicts,
                                const char *path, const char *heading, FILE *fp,
                                struct stp_error *err)
{
    const struct stp_verdict_count count = stp_count_verdicts(verdicts);
    struct stp_policy *policy = NULL;

    STP_TRY(stp_policy_load_any(path, &policy, err));
    gain_print_ranges(info, verdicts, policy, heading, fp);
    stp_policy_free(policy);
    if (count.n_slower > 0) {
        fprintf(fp, "Slower than %s:\n\n", STP_AUTO_WORDS(info->tuner));
        stp_print_verdicts(info, verdicts, STP_VERDICTS_SLOWER, fp);
    } else {
        stp_print_verdict_count(info->tuner, verdicts, fp);
    }
    return STP_OK;
}

/* Sizes in a row at which one of the three kinds of policy wins. */
struct gain_choice {
    const struct stp_point *first, *last, *best;
    const struct stp_comparison *by_kind[STP_N_POLICY_KINDS]; /* at 'best' */
    int kind;                                                 /* that wins */
    bool graph;
};

/* Finds what each kind of policy runs at a point, and which is fastest; -1:
 * NCCL's own choice.  In graphs the policy itself was timed. */
static int gain_choose(const struct stp_memory_situation *s,
                       const struct stp_point *p,
                       const struct stp_comparison *by_kind[STP_N_POLICY_KINDS])
{
    static const struct stp_arm by_policy = {.kind = STP_ARM_PLUGIN};
    struct stp_derive_terms terms = s->terms;
    int best = -1;

    for (int k = 0; k < STP_N_POLICY_KINDS; k++) {
        const struct stp_comparison *c;

        terms.kind = (enum stp_policy_kind)k;
        c = stp_derive_choice(p, &terms);
        if (c == NULL && k == STP_POLICY_OF_ARMS) {
            c = stp_point_arm(p, &by_policy);
            c = c != NULL && c->gain.low >= 1 + terms.min_gain ? c : NULL;
        }
        by_kind[k] = c;
        if (c != NULL && (best < 0 || c->gain.gain > by_kind[best]->gain.gain))
            best = k;
    }
    return best;
}

static size_t gain_list_choices(const struct stp_memory_situation *s,
                                struct gain_choice *choices, size_t n)
{
    const struct stp_comparisons *all = s->comparisons;

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        struct gain_choice *c = n > 0 ? &choices[n - 1] : NULL;
        struct gain_choice here = {
            .first = p, .last = p, .best = p, .graph = s->graph};

        here.kind = gain_choose(s, p, here.by_kind);
        if (here.kind < 0 || p->in_place)
            continue;
        if (c != NULL && c->last == p - 1 && c->kind == here.kind &&
            stp_point_alike(c->last, p)) {
            if (here.by_kind[here.kind]->gain.gain >
                c->by_kind[c->kind]->gain.gain) {
                here.first = c->first;
                *c = here;
            }
            c->last = p;
        } else {
            choices[n++] = here;
        }
    }
    return n;
}

void stp_print_choices(const char *tuner,
                       const struct stp_memory_situations *stages, size_t most,
                       FILE *fp)
{
    static const char *const words[STP_N_POLICY_KINDS] = {"rule", "register",
                                                          "stage"};
    const struct stp_memory_situation *all = stages->all;
    struct gain_choice *choices =
        stp_take(all[0].comparisons->n_points + all[1].comparisons->n_points,
                 sizeof(*choices));
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    size_t n = gain_list_choices(&all[0], choices, 0), n_left = 0;
    struct stp_paragraph paragraph;
    bool has_captured = false;

    n = gain_list_choices(&all[1], choices, n);
    if (n == 0) {
        free(choices);
        return;
    }
    fprintf(stp_paragraph_begin(&paragraph, fp),
            "Which is fastest: a rule, which any job follows; staging, by "
            "`steptune run --stage`; or registering, in an application that "
            "does (gains over %s):",
            STP_AUTO_WORDS(tuner));
    stp_paragraph_end(&paragraph);
    fputc('\n', fp);
    for (size_t i = 0; i < n; i++) {
        const struct gain_choice *c = &choices[i];
        const struct stp_comparison *win = c->by_kind[c->kind];
        size_t n_better = 0;

        for (size_t k = 0; k < n; k++)
            n_better +=
                choices[k].by_kind[choices[k].kind]->gain.gain > win->gain.gain;
        n_left += n_better >= most;
        if (n_better >= most)
            continue;
        has_captured |= c->graph;
        stp_table_row(&t);
        stp_put_subject(c->best, &t);
        stp_table_word(&t, NULL, "?<when", c->graph ? "captured" : "launched");
        stp_table_word(&t, NULL, "from", STP_SIZE_NAME(c->first->n_bytes));
        stp_table_word(&t, NULL, "to", STP_SIZE_NAME(c->last->n_bytes));
        stp_table_word(&t, NULL, "<fastest", words[c->kind]);
        stp_table_word(&t, NULL, "<as", STP_ARM_TEXT(&win->arm));
        stp_table_word(&t, NULL, "at", STP_SIZE_NAME(c->best->n_bytes));
        for (int k = 0; k < STP_N_POLICY_KINDS; k++)
            stp_table_number(&t, words[k], words[k],
                             c->by_kind[k] != NULL ? c->by_kind[k]->gain.gain
                                                   : (double)NAN,
                             3);
    }
    free(choices);
    stp_table_end(&t, fp);
    if (n_left > 0)
        fprintf(fp, "%zu more range%s less, and the report has all.\n", n_left,
                n_left == 1 ? " of sizes gains" : "s of sizes gain");
    if (has_captured)
        fputs("Captured iterations were timed without registered memory.\n",
              fp);
}
