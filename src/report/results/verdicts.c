/* verdicts.c - a policy's gain over NCCL's own choice, size by size */
#include <inttypes.h>
#include <math.h>

#include "analyse/verify.h"
#include "core/names.h"
#include "core/text.h"
#include "report/json.h"
#include "report/results/results.h"
#include "report/results/tune_report.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

void stp_put_workload(const struct stp_workload *work, bool has_gemm,
                      struct stp_table *t)
{
    stp_table_word(t, "mode", NULL, stp_mode_name(work->mode));
    stp_table_word(t, "compute", NULL, stp_compute_name(work->compute));
    stp_table_count(t, "layers", NULL, work->layers);
    stp_table_number(t, "ratio", NULL, work->ratio, STP_TABLE_SHORT);
    stp_table_count(t, has_gemm ? "m" : NULL, NULL, work->gemm.m);
    stp_table_count(t, has_gemm ? "n" : NULL, NULL, work->gemm.n);
    stp_table_count(t, has_gemm ? "k" : NULL, NULL, work->gemm.k);
}

/* "allreduce", or of iterations "overlap x 8, ratio 1" and, as those may have
 * any collective, "sequential allreduce x 1, ratio 1"; ", captured" behind. */
static void verdict_name_subject(const struct stp_point *p, char name[64])
{
    const struct stp_workload *w = &p->work;
    const bool is_sequential = w->mode == STP_MODE_SEQUENTIAL;

    if (w->mode == STP_MODE_ALONE) {
        snprintf(name, 64, "%s", stp_coll_name(p->coll));
        return;
    }
    snprintf(name, 64, "%s%s%s x %u, ", stp_mode_name(w->mode),
             is_sequential ? " " : "",
             is_sequential ? stp_coll_name(p->coll) : "", w->layers);
    if (w->ratio != 0)
        stp_append(name, 64, "ratio %g", w->ratio);
    else
        stp_append(name, 64, "%u x %u x %u", w->gemm.m, w->gemm.n, w->gemm.k);
    if (p->graph)
        stp_append(name, 64, ", captured");
}

void stp_put_subject(const struct stp_point *p, struct stp_table *t)
{
    char subject[64];

    verdict_name_subject(p, subject);
    stp_table_word(t, "collective", NULL, stp_coll_name(p->coll));
    stp_table_text(t, "<collective", "%s", subject);
}

void stp_put_verdict(const struct stp_point *p, const struct stp_comparison *c,
                     const char *tuner, bool has_ranks, struct stp_table *t)
{
    const bool is_same =
        c == NULL || stp_verify_comparison(p, c) == STP_VERDICT_SAME;
    const char *words = stp_verdict_words(p, c);
    const char *source = c != NULL ? stp_source_name(c->source) : NULL;
    static const struct stp_comparison none = {
        .us = NAN, .gain = {NAN, NAN, NAN, 0}, .ran_algo = -1, .ran_proto = -1};

    c = c != NULL ? c : &none;
    stp_table_row(t);
    stp_put_subject(p, t);
    stp_table_count(t, "bytes", "bytes", p->n_bytes);
    stp_table_count(t, "nRanks", has_ranks ? "ranks" : NULL, p->n_ranks);
    stp_table_flag(t, p->graph ? "graph" : NULL, NULL, p->graph);
    if (p->work.mode != STP_MODE_ALONE)
        stp_put_workload(&p->work, false, t);
    stp_table_number(t, "auto_us", "?AUTO us", p->auto_us, 2);
    stp_table_number(t, "tuned_us", "?tuned us", c->us, 2);
    stp_table_gain(t, &c->gain);
    stp_table_number(t, "auto_noise", NULL, p->noise, 6);
    stp_table_ran(t, "auto", "?<AUTO", p->auto_algo, p->auto_proto,
                  p->auto_channels);
    stp_table_word(t, NULL, is_same ? "?<choice" : NULL,
                   tuner[0] != '\0' ? "as AUTO" : "NCCL's own");
    stp_table_ran_kernel(t, "choice", is_same ? NULL : "?<choice",
                         c->ran_kernel, c->ran_algo, c->ran_proto,
                         c->ran_channels);
    stp_table_word(t, "verdict", "<verdict", words);
    stp_table_word(t, "source", NULL, source);
    stp_table_word(t, NULL, "<times",
                   stp_source_words(c->source, c->single_pass));
}

bool stp_have_ranks(const struct stp_device_info *info,
                    const struct stp_comparisons *all)
{
    bool has_ranks = false;

    for (size_t i = 0; i < all->n_points; i++)
        has_ranks |= all->points[i].n_ranks != info->n_ranks;
    return has_ranks;
}

static void verdict_put_all(const struct stp_device_info *info,
                            const struct stp_comparisons *all,
                            enum stp_verdicts_shown shown, struct stp_table *t)
{
    static const struct stp_point no_point;
    static const struct stp_comparison no_arm;
    const bool has_ranks = stp_have_ranks(info, all);

    if (stp_table_headings(t))
        stp_put_verdict(&no_point, &no_arm, info->tuner, has_ranks, t);
    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];
        const struct stp_comparison *c = stp_verify_arm(p);

        if (c != NULL && (shown == STP_VERDICTS_ALL ||
                          stp_verify_point(p) == STP_VERDICT_SLOWER))
            stp_put_verdict(p, c, info->tuner, has_ranks, t);
    }
}

struct stp_verdict_count
stp_count_verdicts(const struct stp_comparisons *comparisons)
{
    struct stp_verdict_count n = {.mean_gain = 1};
    double best = 1;
    double sum = 0;

    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        enum stp_verdict verdict = stp_verify_point(p);
        double gain = 1;
        size_t k;

        n.n_same += verdict == STP_VERDICT_SAME;
        n.n_faster += verdict == STP_VERDICT_FASTER;
        n.n_unsure += verdict == STP_VERDICT_UNSURE;
        n.n_slower += verdict == STP_VERDICT_SLOWER;
        n.n_equal += verdict == STP_VERDICT_EQUAL;
        if (verdict != STP_VERDICT_SAME) {
            gain = stp_verify_arm(p)->gain.gain;
            n.n_by_model += stp_is_by_model(p, stp_verify_arm(p));
        }
        n.n_workloads += p->work.mode != STP_MODE_ALONE;
        for (k = 0; k < i && comparisons->points[k].n_bytes != p->n_bytes; k++)
            ;
        n.n_sizes += k == i; /* no point before has this size */
        if (gain > best && !stp_source_is_estimate(stp_verify_arm(p)->source)) {
            best = gain;
            n.best = p;
        }
        sum += log(gain);
    }
    if (comparisons->n_points > 0)
        n.mean_gain = exp(sum / (double)comparisons->n_points);
    return n;
}

/* Says how NCCL alone compares with AUTO, which asks a tuner. */
static void verdict_print_nccl(const char *tuner,
                               const struct stp_comparisons *comparisons,
                               FILE *out)
{
    static const struct stp_arm nccl = {.kind = STP_ARM_NCCL};
    size_t n = 0, n_of[STP_VERDICT_EQUAL + 1] = {0};
    struct stp_paragraph paragraph;
    double sum = 0;
    FILE *fp;

    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison *c = stp_point_arm(p, &nccl);
        enum stp_verdict verdict;

        if (c == NULL)
            continue;
        verdict = stp_verify_comparison(p, c);
        n++;
        n_of[verdict]++;
        sum += verdict == STP_VERDICT_SAME ? 0 : log(c->gain.gain);
    }
    if (n == 0)
        return;
    fp = stp_paragraph_begin(&paragraph, out);
    fprintf(fp,
            "NCCL alone, without %s's tuner, at %zu of these sizes: %zu "
            "faster, %zu as %s, %zu unsure or equal, %zu slower; geometric "
            "mean of all gains %.3f",
            tuner, n, n_of[STP_VERDICT_FASTER], n_of[STP_VERDICT_SAME],
            STP_AUTO_WORDS(tuner),
            n_of[STP_VERDICT_UNSURE] + n_of[STP_VERDICT_EQUAL],
            n_of[STP_VERDICT_SLOWER], exp(sum / (double)n));
    stp_paragraph_end(&paragraph);
}

void stp_print_verdict_count(const char *tuner,
                             const struct stp_comparisons *comparisons,
                             FILE *out)
{
    const struct stp_verdict_count count = stp_count_verdicts(comparisons);
    const char *own_choice = tuner[0] != '\0' ? "AUTO's" : "NCCL's own";
    const struct stp_point *wide;
    size_t n_wide;
    const double least = stp_verify_least_gain(comparisons, &wide, &n_wide);
    const size_t n = comparisons->n_points;
    struct stp_paragraph paragraph;
    FILE *fp = stp_paragraph_begin(&paragraph, out);
    char subject[64];
    const struct stp_point *best = count.best;
    size_t n_sure;

    if (count.n_workloads > 0)
        fprintf(fp, "%zu workload%s of %zu size%s", n, STP_S(n), count.n_sizes,
                STP_S(count.n_sizes));
    else
        fprintf(fp, "%zu size%s", n, STP_S(n));
    fprintf(fp, ": %zu faster, %zu as %s, %zu unsure, %zu slower",
            count.n_faster, count.n_same, STP_AUTO_WORDS(tuner), count.n_unsure,
            count.n_slower);
    if (count.n_equal > 0)
        fprintf(fp, ", %zu equal", count.n_equal);
    if (count.n_by_model > 0)
        fprintf(fp, "; %zu of these verdicts by the model alone",
                count.n_by_model);

    fprintf(fp, "; geometric mean of all gains %.3f", count.mean_gain);
    if (best != NULL) {
        verdict_name_subject(best, subject);
        fprintf(fp, ", best %.3f (%s, %" PRIu64 " bytes, %s)",
                stp_verify_arm(best)->gain.gain, subject, best->n_bytes,
                stp_source_name(stp_verify_arm(best)->source));
    }
    stp_paragraph_end(&paragraph);
    verdict_print_nccl(tuner, comparisons, out);

    /* Each verdict is of one size; this bounds the loss at any of them. */
    n_sure = n - count.n_same - count.n_by_model - n_wide;
    if (count.n_slower > 0 || n_sure + n_wide == 0)
        return;
    fp = stp_paragraph_begin(&paragraph, out);
    if (n_sure > 0 && least >= 1)
        fprintf(fp, "Every choice that is not %s is faster", own_choice);
    else if (n_sure > 0)
        fprintf(fp,
                "No choice that is not %s is slower by more than %.1f percent",
                own_choice, (1 - least) * 100);
    if (n_sure > 0)
        fprintf(fp, ", with 95 percent confidence in all of them together%s",
                n_wide > 0 ? ", but for " : ".");
    if (n_wide > 0) {
        const struct stp_gain *gain = &stp_verify_arm(wide)->gain;

        verdict_name_subject(wide, subject);
        fprintf(fp,
                "%zu %s an interval too wide to tell, or none: the least of "
                "these gains is %s, %" PRIu64 " bytes, %.3fx (%s).",
                n_wide,
                n_sure > 0   ? "with"
                : n_wide > 1 ? "choices have"
                             : "choice has",
                subject, wide->n_bytes, gain->gain,
                isinf(gain->high) && gain->n_pairs > 1
                    ? "no interval"
                    : STP_INTERVAL_TEXT(gain));
    }
    stp_paragraph_end(&paragraph);
}

void stp_print_unfollowed(const struct stp_comparisons *comparisons, FILE *fp)
{
    const struct stp_verdict_count n = stp_count_verdicts(comparisons);

    if (n.n_same == 0 || n.n_same < comparisons->n_points)
        return;
    stp_print_paragraph("The plugin chose nothing else than NCCL at any of "
                        "these sizes: the rules name what NCCL chooses anyway, "
                        "or the plugin followed none of them, and "
                        "NCCL_DEBUG=INFO tells why.",
                        fp);
}

void stp_print_verdicts(const struct stp_device_info *info,
                        const struct stp_comparisons *comparisons,
                        enum stp_verdicts_shown shown, FILE *fp)
{
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    verdict_put_all(info, comparisons, shown, &t);
    stp_table_end(&t, fp);
    fputc('\n', fp);
    stp_print_verdict_count(info->tuner, comparisons, fp);
}

void stp_print_verdicts_json(const struct stp_device_info *info,
                             const char *policy_hash,
                             const struct stp_comparisons *comparisons,
                             FILE *fp)
{
    struct stp_table t = stp_table_result(true);

    stp_table_word(&t, "machine", NULL, info->what);
    stp_json_tuner(t.root, info->tuner);
    stp_table_word(&t, "policy_hash", NULL, policy_hash);
    stp_table_rows(&t, "sizes");
    verdict_put_all(info, comparisons, STP_VERDICTS_ALL, &t);
    stp_table_end(&t, fp);
}

/* The policy that was verified, and its gains under 'key'. */
static void verdict_json_policy(const struct stp_device_info *info,
                                cJSON *object, const char *path,
                                const char *hash,
                                const struct stp_derived *derived,
                                const char *key,
                                const struct stp_comparisons *comparisons)
{
    struct stp_table rows;

    stp_json_word(object, "policy", path);
    stp_json_word(object, "policy_hash", hash);
    stp_json_number(object, "n_rules", (double)derived->n_rules);
    rows = stp_table_array(object, key);
    verdict_put_all(info, comparisons, STP_VERDICTS_ALL, &rows);
}

void stp_print_tuning_json(const struct stp_tune_report *report, FILE *fp)
{
    const struct stp_tune_overlap *o = report->overlap;
    struct stp_table t = stp_table_result(true);
    struct stp_table rows;

    stp_table_word(&t, "machine", NULL, report->info->what);
    stp_json_tuner(t.root, report->info->tuner);
    stp_table_word(&t, "run", NULL, report->run);
    verdict_json_policy(report->info, t.root, report->policy_path,
                        report->policy_hash, report->derived, "sizes",
                        report->verdicts);
    rows = stp_table_array(t.root, "steps");
    verdict_put_all(report->info, report->steps, STP_VERDICTS_ALL, &rows);
    if (o != NULL)
        verdict_json_policy(report->info,
                            cJSON_AddObjectToObject(t.root, "overlap"),
                            o->policy_path, o->policy_hash, o->derived,
                            "iterations", o->verdicts);
    if (report->memory != NULL) {
        rows = stp_table_array(t.root, "memory");
        stp_put_memory_rules(report->memory, &rows);
    }
    if (report->stage != NULL) {
        rows = stp_table_array(t.root, "stage");
        stp_put_memory_rules(report->stage, &rows);
    }
    stp_table_end(&t, fp);
}
