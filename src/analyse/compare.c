#include "analyse/compare.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/order.h"
#include "analyse/wrong.h"
#include "core/names.h"
#include "launch/take.h"

typedef const struct stp_measurement *row;

/* Rows in the order of points, then arms with AUTO first, then rounds. */
struct sorted {
    row *rows;
    size_t n;
    row *checks;      /* the same, as stp_order_checks() has them */
    double *baseline; /* scratch: a value a round of one arm */
    double *times;
    unsigned *rounds;
};

static int compare_order_points(row a, row b)
{
    STP_RETURN_ORDER(stp_order_kinds(a, b));
    return STP_ORDER(a->n_bytes, b->n_bytes);
}

static int compare_order_rows(const void *pa, const void *pb)
{
    row a = *(const row *)pa;
    row b = *(const row *)pb;

    STP_RETURN_ORDER(compare_order_points(a, b));
    STP_RETURN_ORDER(stp_order_arms(a, b));
    return STP_ORDER(a->round, b->round);
}

/* The end of the run of rows from 'i' that 'compare' calls equal. */
static size_t compare_find_end(const struct sorted *s, size_t i, size_t end,
                               int (*compare)(row, row))
{
    size_t j = i + 1;

    while (j < end && compare(s->rows[i], s->rows[j]) == 0)
        j++;
    return j;
}

/* The mean over the rows of [i, end) that are of round 'round'; 0 if none. */
static double compare_average_round(const struct sorted *s, size_t i,
                                    size_t end, unsigned round)
{
    double sum = 0;
    unsigned n = 0;

    for (; i < end; i++) {
        const double us = s->rows[i]->us.median;

        if (s->rows[i]->round == round && us > 0) {
            sum += us;
            n++;
        }
    }
    return n > 0 ? sum / n : 0;
}

static void compare_worsen(const struct sorted *s, size_t i, size_t end,
                           enum stp_source *source, bool *single_pass)
{
    for (; i < end; i++) {
        *source = stp_source_worst(*source, s->rows[i]->source);
        *single_pass |= s->rows[i]->single_pass;
    }
}

/* The times of the arm [i, end) in rounds that AUTO, [first, auto_end), has,
 * too, over those of AUTO.  *us_ret is their mean; 0 if there are none. */
static struct stp_gain compare_get_gain(const struct sorted *s, size_t first,
                                        size_t auto_end, size_t i, size_t end,
                                        double *us_ret)
{
    size_t n = 0;

    for (size_t j = i; j < end; j++) {
        unsigned round = s->rows[j]->round;

        if (j > i && round == s->rows[j - 1]->round)
            continue;
        s->baseline[n] = compare_average_round(s, first, auto_end, round);
        s->times[n] = compare_average_round(s, i, end, round);
        s->rounds[n] = round;
        n += s->baseline[n] > 0 && s->times[n] > 0;
    }
    *us_ret = n > 0 ? stp_mean(s->times, n) : 0;
    return stp_paired_gain(s->baseline, s->times, n);
}

struct stp_gain stp_gain_of_source(struct stp_gain gain, enum stp_source source,
                                   bool single_pass)
{
    if (source == STP_SOURCE_MODELLED ||
        (source != STP_SOURCE_MEASURED && single_pass)) {
        gain.low = 0;
        gain.high = INFINITY;
    }
    return gain;
}

/* Joins what the rows of a size say of an arm there. */
static enum stp_bits compare_find_bits(const struct sorted *s, row m)
{
    enum stp_bits bits = STP_BITS_UNKNOWN;
    struct stp_measurement first = *m; /* in the order of the checks */
    row like = &first;
    size_t begin = 0, end = s->n;

    first.arm = (struct stp_arm){.kind = STP_ARM_AUTO};
    if (m->work.mode == STP_MODE_FSDP)
        first.coll = ncclFuncReduceScatter;
    while (begin < end) {
        const size_t middle = begin + (end - begin) / 2;

        if (stp_order_checks(&s->checks[middle], &like) < 0)
            begin = middle + 1;
        else
            end = middle;
    }
    for (; begin < s->n && s->checks[begin]->n_bytes == m->n_bytes; begin++)
        bits = stp_join_bits(bits, m, s->checks[begin]);
    return bits;
}

/* Fills a point from the rows [first, end), its arms into 'arms'. */
static void compare_point(const struct sorted *s, size_t first, size_t end,
                          struct stp_comparisons *out, struct stp_point *p,
                          struct stp_comparison *arms)
{
    row m = s->rows[first]; /* of AUTO */
    size_t auto_end = compare_find_end(s, first, end, stp_order_arms);
    size_t n = 0, third;

    for (size_t j = first; j < auto_end; j++)
        if (j == first || s->rows[j]->round != s->rows[j - 1]->round)
            s->times[n++] =
                compare_average_round(s, first, auto_end, s->rows[j]->round);
    *p = (struct stp_point){.coll = m->coll,
                            .n_nodes = m->n_nodes,
                            .n_ranks = m->n_ranks,
                            .type = m->type,
                            .op = m->op,
                            .root = m->root,
                            .in_place = m->in_place,
                            .graph = m->graph,
                            .work = m->work,
                            .n_bytes = m->n_bytes};
    p->auto_us = stp_mean(s->times, n);
    p->noise = stp_stddev(s->times, n) / p->auto_us;
    p->n_rounds = n;
    third = n / 3;
    if (third > 0)
        p->drift =
            stp_mean(s->times + n - third, third) / stp_mean(s->times, third) -
            1;
    p->auto_algo = m->ran_algo;
    p->auto_proto = m->ran_proto;
    p->auto_channels = m->ran_channels;
    compare_worsen(s, first, auto_end, &p->source, &p->single_pass);
    p->arms = arms;
    for (size_t i = auto_end; i < end;) {
        size_t j = compare_find_end(s, i, end, stp_order_arms);
        struct stp_comparison *c = &arms[p->n_arms];

        memset(c, 0, sizeof(*c));
        c->arm = s->rows[i]->arm;
        c->ran_algo = s->rows[i]->ran_algo;
        c->ran_proto = s->rows[i]->ran_proto;
        c->ran_channels = s->rows[i]->ran_channels;
        memcpy(c->ran_kernel, s->rows[i]->ran_kernel, sizeof(c->ran_kernel));
        compare_worsen(s, first, auto_end, &c->source, &c->single_pass);
        compare_worsen(s, i, j, &c->source, &c->single_pass);
        c->bits = compare_find_bits(s, s->rows[i]);
        c->gain = compare_get_gain(s, first, auto_end, i, j, &c->us);
        /* its rounds are no more than its rows, which begin there */
        c->round_us = &out->round_us[i];
        c->rounds = &out->rounds[i];
        memcpy(&out->round_us[i], s->times,
               c->gain.n_pairs * sizeof(*s->times));
        memcpy(&out->rounds[i], s->rounds,
               c->gain.n_pairs * sizeof(*s->rounds));
        c->gain = stp_gain_of_source(c->gain, c->source, c->single_pass);
        if (c->gain.n_pairs > 0)
            p->n_arms++;
        i = j;
    }
}

enum stp_status stp_compare(const struct stp_dataset *data,
                            struct stp_comparisons *comparisons_ret,
                            struct stp_error *err)
{
    struct stp_comparisons out = {0};
    const size_t n = data->n_rows;
    struct sorted s = {0};
    enum stp_status status = STP_OK;
    size_t n_arms = 0;

    STP_TAKE(s.rows, n);
    STP_TAKE(s.checks, n);
    STP_TAKE(s.baseline, n);
    STP_TAKE(s.times, n);
    STP_TAKE(s.rounds, n);
    STP_TAKE(out.points, n);
    STP_TAKE(out.arms, n);
    STP_TAKE(out.round_us, n);
    STP_TAKE(out.rounds, n);
    s.n = stp_right_rows(data, true, s.rows);
    memcpy(s.checks, s.rows, s.n * sizeof(*s.rows));
    STP_SORT(s.rows, s.n, compare_order_rows);
    STP_SORT(s.checks, s.n, stp_order_checks);
    for (size_t i = 0, end; i < s.n && status == STP_OK; i = end) {
        struct stp_point *p = &out.points[out.n_points++];
        row m = s.rows[i];
        const bool is_alone = m->work.mode == STP_MODE_ALONE;

        end = compare_find_end(&s, i, s.n, compare_order_points);
        if (m->arm.kind != STP_ARM_AUTO)
            status =
                stp_fail(err, STP_ERR_SYNTAX,
                         "%s%s%s of %" PRIu64
                         " bytes%s has no row of the arm auto to compare with",
                         is_alone ? "" : stp_mode_name(m->work.mode),
                         is_alone ? "" : " of ", stp_coll_name(m->coll),
                         m->n_bytes, m->in_place ? " in place" : "");
        else
            compare_point(&s, i, end, &out, p, &out.arms[n_arms]);
        n_arms += p->n_arms;
    }
    free(s.rows);
    free(s.checks);
    free(s.baseline);
    free(s.times);
    free(s.rounds);
    if (status == STP_OK)
        *comparisons_ret = out;
    else
        stp_comparisons_free(&out);
    return status;
}

const struct stp_comparison *stp_point_arm(const struct stp_point *point,
                                           const struct stp_arm *arm)
{
    for (size_t i = 0; i < point->n_arms; i++)
        if (stp_arm_equal(&point->arms[i].arm, arm))
            return &point->arms[i];
    return NULL;
}

struct stp_gain stp_gain_over_arm(const struct stp_comparison *one,
                                  const struct stp_comparison *other)
{
    const size_t most = one->gain.n_pairs;
    double *baseline = stp_take(2 * most, sizeof(*baseline));
    double *times = baseline + most;
    struct stp_gain gain = {.gain = 1, .low = 0, .high = INFINITY};
    size_t n = 0, j = 0;

    for (size_t i = 0; i < most; i++) {
        while (j < other->gain.n_pairs && other->rounds[j] < one->rounds[i])
            j++;
        if (j == other->gain.n_pairs || other->rounds[j] != one->rounds[i])
            continue;
        baseline[n] = other->round_us[j];
        times[n++] = one->round_us[i];
    }
    if (n > 0)
        gain = stp_paired_gain(baseline, times, n);
    free(baseline);
    return stp_gain_of_source(gain,
                              stp_source_worst(one->source, other->source),
                              one->single_pass || other->single_pass);
}

bool stp_ran_as_auto(const struct stp_point *point,
                     const struct stp_comparison *arm)
{
    return arm->arm.chunk_bytes == 0 && arm->ran_algo >= 0 &&
           arm->ran_algo == point->auto_algo &&
           arm->ran_proto == point->auto_proto &&
           arm->ran_channels == point->auto_channels;
}

bool stp_point_alike(const struct stp_point *a, const struct stp_point *b)
{
    return a->coll == b->coll && a->n_nodes == b->n_nodes &&
           a->n_ranks == b->n_ranks && a->type == b->type && a->op == b->op &&
           a->root == b->root && a->in_place == b->in_place &&
           a->graph == b->graph && stp_workload_order(&a->work, &b->work) == 0;
}

void stp_keep_same_bits(struct stp_comparisons *comparisons)
{
    for (size_t i = 0; i < comparisons->n_points; i++) {
        struct stp_point *p = &comparisons->points[i];
        struct stp_comparison *arms =
            comparisons->arms + (p->arms - comparisons->arms);
        const size_t n = p->n_arms;

        p->n_arms = 0;
        for (size_t a = 0; a < n; a++)
            if (arms[a].bits == STP_BITS_SAME ||
                (arms[a].bits == STP_BITS_UNKNOWN &&
                 !stp_coll_reduces(p->coll)))
                arms[p->n_arms++] = arms[a];
    }
}

void stp_comparisons_free(struct stp_comparisons *comparisons)
{
    free(comparisons->points);
    free(comparisons->arms);
    free(comparisons->round_us);
    free(comparisons->rounds);
    memset(comparisons, 0, sizeof(*comparisons));
}
