/* sweep.c - a sweep's measurements, and its arms against NCCL's own choice */
#include <inttypes.h>
#include <math.h>

#include "analyse/bandwidth.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/json.h"
#include "report/policy_file.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/terminal.h"
#include "report/words.h"

/* The columns that tell points from each other, or from the usual data. */
struct sweep_columns {
    bool ranks, type, op, place, bits;
};

static struct sweep_columns sweep_columns_of(const struct stp_comparisons *all)
{
    struct sweep_columns shown = {0};

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];

        shown.ranks |= p->n_ranks != all->points[0].n_ranks;
        shown.type |= p->type != STP_TYPE_BF16;
        shown.op |= stp_coll_reduces(p->coll) && p->op != STP_OP_SUM;
        shown.place |= p->in_place != all->points[0].in_place;
        for (size_t a = 0; a < p->n_arms; a++)
            shown.bits |= p->arms[a].bits != STP_BITS_UNKNOWN;
    }
    return shown;
}

static void sweep_put_point(const struct stp_point *p,
                            const struct sweep_columns *shown,
                            struct stp_table *t)
{
    stp_table_row(t);
    stp_table_text(t, "<collective", "%s", stp_coll_name(p->coll));
    stp_table_count(t, NULL, "bytes", p->n_bytes);
    stp_table_count(t, NULL, shown->ranks ? "ranks" : NULL, p->n_ranks);
    stp_table_word(t, NULL, shown->type ? "<type" : NULL,
                   stp_type_name(p->type));
    stp_table_word(t, NULL, shown->op ? "<op" : NULL,
                   stp_coll_reduces(p->coll) ? stp_op_name(p->op) : NULL);
    stp_table_word(t, NULL, shown->place ? "<place" : NULL,
                   p->in_place ? "in" : "out of");
}

static void sweep_put_arm(const struct stp_point *p,
                          const struct stp_comparison *c,
                          const struct sweep_columns *shown,
                          struct stp_table *t)
{
    sweep_put_point(p, shown, t);
    stp_put_arm(c, p->n_bytes, t);
    stp_table_word(t, NULL, shown->bits ? "<bits" : NULL,
                   stp_bits_name(c->bits));
}

/* AUTO is the arm of a point against which there is no gain. */
void stp_put_arm(const struct stp_comparison *c, uint64_t n_bytes,
                 struct stp_table *t)
{
    bool is_auto = c->arm.kind == STP_ARM_AUTO;

    stp_table_word(t, "arm", "<arm", STP_ARM_TEXT(&c->arm));
    stp_table_number(t, "us", "us", c->us, 2);
    stp_table_number(t, NULL, "?algbw GB/s", stp_algbw(n_bytes, c->us), 2);
    if (t->format == STP_TABLE_JSON)
        stp_table_gain(t, &c->gain);
    stp_table_number(t, NULL, "gain", is_auto ? 1 : c->gain.gain,
                     is_auto ? 0 : 3);
    stp_table_word(t, NULL, "95% interval",
                   is_auto ? " " : STP_INTERVAL_TEXT(&c->gain));
    stp_table_ran_kernel(t, "ran", "?<ran as", c->ran_kernel, c->ran_algo,
                         c->ran_proto, c->ran_channels);
    stp_table_word(t, "source", "<times",
                   stp_source_words(c->source, c->single_pass));
}

void stp_print_sweep(const struct stp_comparisons *comparisons, FILE *fp)
{
    const struct sweep_columns shown = sweep_columns_of(comparisons);
    static const struct stp_point no_point;
    static const struct stp_comparison no_arm;
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);

    if (stp_table_headings(&t))
        sweep_put_arm(&no_point, &no_arm, &shown, &t);
    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison own = {.arm = {.kind = STP_ARM_AUTO},
                                           .ran_algo = p->auto_algo,
                                           .ran_proto = p->auto_proto,
                                           .ran_channels = p->auto_channels,
                                           .us = p->auto_us,
                                           .source = p->source,
                                           .single_pass = p->single_pass,
                                           .bits = STP_BITS_SAME};

        sweep_put_arm(p, &own, &shown, &t);
        for (size_t a = 0; a < p->n_arms; a++)
            sweep_put_arm(p, &p->arms[a], &shown, &t);
    }
    stp_table_end(&t, fp);
}

void stp_print_sweep_best(const char *tuner,
                          const struct stp_comparisons *comparisons, FILE *out)
{
    const struct sweep_columns shown = sweep_columns_of(comparisons);
    struct stp_table t = stp_table_begin(STP_TABLE_TEXT);
    const struct stp_point *most = NULL;
    double gain = 1;
    size_t n_faster = 0; /* beyond doubt */
    size_t n = 0;
    struct stp_paragraph paragraph;
    FILE *fp;

    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison *best = NULL; /* the largest gain */

        for (size_t a = 0; a < p->n_arms; a++)
            if (best == NULL || p->arms[a].gain.gain > best->gain.gain)
                best = &p->arms[a];
        if (best == NULL)
            continue;
        n++;
        sweep_put_point(p, &shown, &t);
        stp_table_number(&t, NULL, "AUTO us", p->auto_us, 2);
        stp_table_number(&t, NULL, "?algbw GB/s",
                         stp_algbw(p->n_bytes, p->auto_us), 2);
        stp_table_ran(&t, NULL, "?<AUTO", p->auto_algo, p->auto_proto,
                      p->auto_channels);
        stp_table_word(&t, NULL, "<best arm", STP_ARM_TEXT(&best->arm));
        stp_table_number(&t, NULL, "?us", best->us, 2);
        stp_table_gain(&t, &best->gain);
        stp_table_word(&t, NULL, "<times",
                       stp_source_words(best->source, best->single_pass));
        stp_table_word(&t, NULL, shown.bits ? "<bits" : NULL,
                       stp_bits_name(best->bits));
        if (!(best->gain.low > 1) || stp_ran_as_auto(p, best))
            continue;
        n_faster++;
        if (best->gain.gain > gain) {
            gain = best->gain.gain;
            most = p;
        }
    }
    stp_table_end(&t, out);
    stp_print_steadiness(comparisons, out);
    fputc('\n', out);
    fp = stp_paragraph_begin(&paragraph, out);
    fprintf(fp,
            "%zu of %zu sizes have an arm that is faster than %s beyond doubt",
            n_faster, n, STP_AUTO_WORDS(tuner));
    if (most != NULL)
        fprintf(fp, ", by up to %.3fx (%s, %" PRIu64 " bytes)", gain,
                stp_coll_name(most->coll), most->n_bytes);
    fputs("; --format table prints every arm.", fp);
    stp_paragraph_end(&paragraph);
}

void stp_print_steadiness(const struct stp_comparisons *comparisons, FILE *fp)
{
    struct stp_steadiness steadiness;
    struct stp_paragraph paragraph;

    if (comparisons->n_points == 0)
        return;
    steadiness = stp_steadiness_of(comparisons, comparisons);
    stp_steadiness_write(&steadiness, stp_paragraph_begin(&paragraph, fp));
    stp_paragraph_end(&paragraph);
}

void stp_print_sweep_json(const struct stp_dataset *data, FILE *fp)
{
    struct stp_table t = stp_table_result(true);
    const bool knows_bits = stp_dataset_knows_bits(data);

    stp_json_origin(t.root, data);
    stp_table_rows(&t, "measurements");
    for (size_t i = 0; i < data->n_rows; i++) {
        /* Iterations have other work in them, and no bandwidth. */
        const struct stp_measurement *m = &data->rows[i];
        bool is_alone = m->work.mode == STP_MODE_ALONE;

        stp_table_row(&t);
        stp_table_word(&t, "collective", NULL, stp_coll_name(m->coll));
        stp_table_count(&t, "bytes", NULL, m->n_bytes);
        stp_table_count(&t, "round", NULL, m->round);
        stp_table_word(&t, "arm", NULL, STP_ARM_TEXT(&m->arm));
        stp_table_count(&t, "nNodes", NULL, m->n_nodes);
        stp_table_count(&t, "nRanks", NULL, m->n_ranks);
        stp_table_count(&t, "iters", NULL, m->iters);
        stp_table_number(&t, "mean_us", NULL, m->us.mean, 3);
        stp_table_number(&t, "median_us", NULL, m->us.median, 3);
        stp_table_number(&t, "p95_us", NULL, m->us.p95, 3);
        stp_table_number(&t, "p99_us", NULL, m->us.p99, 3);
        stp_table_number(&t, "min_us", NULL, m->us.min, 3);
        stp_table_number(&t, is_alone ? "algbw_gbps" : NULL, NULL,
                         stp_algbw(m->n_bytes, m->us.mean), 2);
        stp_table_number(&t, is_alone ? "busbw_gbps" : NULL, NULL,
                         stp_busbw(m->coll, m->n_ranks, m->n_bytes, m->us.mean),
                         2);
        stp_table_ran_kernel(&t, "ran", NULL, m->ran_kernel, m->ran_algo,
                             m->ran_proto, m->ran_channels);
        stp_table_word(&t, "source", NULL, stp_source_name(m->source));
        stp_table_flag(&t, "single_pass", NULL, m->single_pass);
        stp_table_word(&t, "type", NULL, stp_type_name(m->type));
        stp_table_word(&t, "op", NULL,
                       stp_coll_reduces(m->coll) ? stp_op_name(m->op) : NULL);
        stp_table_count(&t, "root", NULL, m->root);
        stp_table_flag(&t, "in_place", NULL, m->in_place);
        stp_table_flag(&t, m->graph ? "graph" : NULL, NULL, m->graph);
        stp_table_number(&t, "n_wrong", NULL,
                         m->n_wrong < 0 ? NAN : (double)m->n_wrong, 0);
        if (knows_bits)
            stp_table_word(&t, "bits", NULL,
                           m->bits != STP_BITS_UNKNOWN ? stp_bits_name(m->bits)
                                                       : NULL);
        if (!is_alone) {
            stp_put_workload(&m->work, true, &t);
            stp_table_number(&t, "compute_us", NULL, m->work.compute_us, 3);
            stp_table_number(&t, "alone_us", NULL, m->alone_us, 3);
        }
    }
    stp_table_end(&t, fp);
}
