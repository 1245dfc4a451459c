/* study.c - the study's tables */
#include "report/charts/study.h"

#include <inttypes.h>
#include <math.h>

#include "analyse/bandwidth.h"
#include "core/dtype.h"
#include "report/charts/plot_parts.h"

/* ---- every size ---- */

static void write_point(const struct stp_labelled *l,
                        const struct stp_curve_point *p, FILE *fp)
{
    const struct stp_measurement *m = &l->curve->like;

    fprintf(fp,
            "| %s | %u | %u | %s | %s | %s | %" PRIu64
            " | %.2f | %.2f | %.2f | %.2f | %.2f | %.3f | %.3f | %u | ",
            l->series, m->n_ranks, m->n_nodes, stp_type_name(m->type),
            stp_op_name(m->op), m->in_place ? "in" : "out of", p->n_bytes,
            p->us.mean, p->us.median, p->us.p95, p->us.p99, p->us.min,
            stp_algbw(p->n_bytes, p->us.mean),
            stp_busbw(m->coll, m->n_ranks, p->n_bytes, p->us.mean),
            p->n_rounds);
    if (p->n_wrong >= 0)
        fprintf(fp, "%" PRId64, p->n_wrong);
    else
        fputs("not checked", fp);
    fprintf(fp, " | %s |\n", stp_source_name(m->source));
}

enum stp_status stp_study_write_results(const struct stp_curves *curves,
                                        FILE *fp, struct stp_error *err)
{
    struct stp_labelled_set set;
    enum stp_status status = stp_pick_study(curves, &set, err);

    if (status != STP_OK)
        return status;
    fputs(
        "# All-reduce: every backend, number of processes and size\n\n"
        "| backend | processes | nodes | type | op | place | bytes | mean us | "
        "median us | p95 us | p99 us | min us | algbw GB/s | busbw GB/s | "
        "rounds | wrong | times |\n"
        "|---|--:|--:|---|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|---|"
        "\n",
        fp);
    for (size_t i = 0; i < set.n; i++)
        for (size_t k = 0; k < set.all[i].curve->n_points; k++)
            write_point(&set.all[i], &set.all[i].curve->points[k], fp);
    stp_labelled_free(&set);
    return STP_OK;
}

/* ---- every configuration ---- */

static void write_100mb(const struct stp_curve *c, FILE *fp)
{
    const struct stp_curve_point *p = stp_study_100mb(c);

    if (p != NULL)
        fprintf(fp, " | %.3f | ", p->us.mean / 1e3);
    else
        fputs(" | - | ", fp);
}

static void write_config(const struct stp_labelled *l, FILE *fp)
{
    const struct stp_curve *c = l->curve;
    const struct stp_measurement *m = &c->like;
    struct stp_bandwidth_peak peak = stp_bandwidth_peak(c);
    char first[32], last[32], at[32];
    double worst = 0;
    double fastest = INFINITY;

    for (size_t i = 0; i < c->n_points; i++) {
        worst = fmax(worst, c->points[i].noise);
        fastest = fmin(fastest, c->points[i].us.mean);
    }
    stp_size_text(c->points[0].n_bytes, first);
    stp_size_text(c->points[c->n_points - 1].n_bytes, last);
    stp_size_text(peak.n_bytes, at);
    fprintf(fp, "| %s | %u | %zu (%s to %s) | %.2f", l->series, m->n_ranks,
            c->n_points, first, last, fastest);
    write_100mb(c, fp);
    fprintf(fp, "%.3f (%s) | %.1f%% |\n", peak.gbps, at, worst * 100);
}

enum stp_status stp_study_write_summary(const struct stp_curves *curves,
                                        FILE *fp, struct stp_error *err)
{
    struct stp_labelled_set set;
    enum stp_status status = stp_pick_study(curves, &set, err);

    if (status != STP_OK)
        return status;
    fputs(
        "# All-reduce: backends and numbers of processes\n\n"
        "| backend | processes | sizes | shortest us | about 100 MB, ms | peak "
        "busbw GB/s (at) | noisiest size |\n"
        "|---|--:|---|--:|--:|--:|--:|\n",
        fp);
    for (size_t i = 0; i < set.n; i++)
        write_config(&set.all[i], fp);
    fputs("\nNoise is the standard deviation of the rounds' means over their "
          "mean.\n",
          fp);
    stp_labelled_free(&set);
    return STP_OK;
}
