#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analyse/bandwidth.h"
#include "analyse/replay/replay.h"
#include "analyse/steadiness.h"
#include "analyse/verify.h"
#include "core/dtype.h"
#include "core/names.h"
#include "report/policy_file.h"
#include "report/results/results.h"
#include "report/table.h"
#include "report/words.h"

static void add_interval(struct stp_table *t, const struct stp_gain *g)
{
    char text[STP_INTERVAL];

    stp_interval_text(g, text);
    stp_table_add(t, "%s", text);
}

/* ---- sweep ---- */

/* What of a sweep's data is worth a column. */
struct shown {
    bool ranks;
    bool type;
    bool op;
    bool place;
};

static struct shown sweep_shows(const struct stp_comparisons *all)
{
    struct shown s = {0};

    for (size_t i = 0; i < all->n_points; i++) {
        const struct stp_point *p = &all->points[i];

        s.ranks |= p->n_ranks != all->points[0].n_ranks;
        s.type |= p->type != STP_TYPE_BF16;
        s.op |= stp_coll_reduces(p->coll) && p->op != STP_OP_SUM;
        s.place |= p->in_place != all->points[0].in_place;
    }
    return s;
}

/* The cells that all rows of a point begin with. */
static void add_sweep_point(struct stp_table *t, const struct stp_point *p,
                            struct shown shown)
{
    stp_table_add(t, "%s", stp_coll_name(p->coll));
    stp_table_add(t, "%" PRIu64, p->n_bytes);
    if (shown.ranks)
        stp_table_add(t, "%u", p->n_ranks);
    if (shown.type)
        stp_table_add(t, "%s", stp_type_name(p->type));
    if (shown.op)
        stp_table_add(t, "%s",
                      stp_coll_reduces(p->coll) ? stp_op_name(p->op) : "-");
    if (shown.place)
        stp_table_add(t, p->in_place ? "in" : "out of");
}

static void add_sweep_auto(struct stp_table *t, const struct stp_point *p)
{
    char ran[STP_RAN_NAME];

    stp_ran_name(p->auto_algo, p->auto_proto, p->auto_channels, ran);
    stp_table_add(t, "auto");
    stp_table_add(t, "%.2f", p->auto_us);
    stp_table_add(t, "%.2f", stp_algbw(p->n_bytes, p->auto_us));
    stp_table_add(t, "1");
    stp_table_add(t, " ");
    stp_table_add(t, "%s", ran);
    stp_table_add(t, "%s", stp_source_name(p->source));
}

static void add_sweep_arm(struct stp_table *t, const struct stp_point *p,
                          const struct stp_comparison *c)
{
    char arm[STP_ARM_NAME];
    char ran[STP_RAN_NAME];

    stp_arm_name(&c->arm, arm);
    stp_ran_name(c->ran_algo, c->ran_proto, c->ran_channels, ran);
    stp_table_add(t, "%s", arm);
    stp_table_add(t, "%.2f", c->us);
    stp_table_add(t, "%.2f", stp_algbw(p->n_bytes, c->us));
    stp_table_add(t, "%.3f", c->gain.gain);
    add_interval(t, &c->gain);
    stp_table_add(t, "%s", ran);
    stp_table_add(t, "%s", stp_source_name(c->source));
}

static struct stp_table *begin_sweep(struct shown shown)
{
    char headings[160];

    snprintf(headings, sizeof(headings),
             "<collective|bytes%s%s%s%s|<arm|us|algbw GB/s|gain|95%% interval|"
             "<ran as|<times",
             shown.ranks ? "|ranks" : "", shown.type ? "|<type" : "",
             shown.op ? "|<op" : "", shown.place ? "|<place" : "");
    return stp_table_create(headings);
}

enum stp_status stp_print_sweep(const struct stp_comparisons *comparisons,
                                FILE *fp, struct stp_error *err)
{
    struct shown shown = sweep_shows(comparisons);
    struct stp_table *t = begin_sweep(shown);

    for (size_t i = 0; t != NULL && i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];

        add_sweep_point(t, p, shown);
        add_sweep_auto(t, p);
        for (size_t a = 0; a < p->n_arms; a++) {
            add_sweep_point(t, p, shown);
            add_sweep_arm(t, p, &p->arms[a]);
        }
    }
    return stp_table_finish(t, fp, err);
}

/* ---- statistics ---- */

enum stp_status stp_print_steadiness(const struct stp_comparisons *comparisons,
                                     FILE *fp, struct stp_error *err)
{
    struct stp_steadiness steadiness;
    enum stp_status status;

    if (comparisons->n_points == 0)
        return STP_OK;
    status = stp_steadiness_of(comparisons, comparisons, &steadiness, err);
    if (status == STP_OK)
        stp_steadiness_write(&steadiness, fp);
    return status;
}

/* ---- verdicts ---- */

/* "allreduce", or "overlap x 8, ratio 1" of iterations. */
static void add_verdict_of(struct stp_table *t, const struct stp_point *p)
{
    const struct stp_workload *w = &p->work;

    if (w->mode == STP_MODE_ALONE)
        stp_table_add(t, "%s", stp_coll_name(p->coll));
    else if (w->ratio != 0)
        stp_table_add(t, "%s x %u, ratio %g", stp_mode_name(w->mode), w->layers,
                      w->ratio);
    else
        stp_table_add(t, "%s x %u, %u x %u x %u", stp_mode_name(w->mode),
                      w->layers, w->gemm.m, w->gemm.n, w->gemm.k);
}

static void add_verdict(struct stp_table *t, const struct stp_point *p,
                        const struct stp_comparison *c, bool ranks)
{
    enum stp_verdict verdict = stp_verify_point(p);
    char alone[STP_RAN_NAME];
    char tuned[STP_RAN_NAME] = "NCCL's own";

    stp_ran_name(p->auto_algo, p->auto_proto, p->auto_channels, alone);
    if (verdict != STP_VERDICT_SAME)
        stp_ran_name(c->ran_algo, c->ran_proto, c->ran_channels, tuned);
    add_verdict_of(t, p);
    stp_table_add(t, "%" PRIu64, p->n_bytes);
    if (ranks)
        stp_table_add(t, "%u", p->n_ranks);
    stp_table_add(t, "%.2f", p->auto_us);
    stp_table_add(t, "%.2f", c->us);
    stp_table_add(t, "%.3f", c->gain.gain);
    add_interval(t, &c->gain);
    stp_table_add(t, "%s", alone);
    stp_table_add(t, "%s", tuned);
    stp_table_add(t, "%s", stp_verdict_name(verdict));
    stp_table_add(t, "%s", stp_source_name(c->source));
}

enum stp_status stp_print_verdicts(const struct stp_comparisons *comparisons,
                                   FILE *fp, struct stp_error *err)
{
    bool ranks = sweep_shows(comparisons).ranks;
    char headings[160];
    struct stp_table *t;

    snprintf(headings, sizeof(headings),
             "<collective|bytes%s|AUTO us|tuned us|gain|95%% interval|<AUTO|"
             "<choice|<verdict|<times",
             ranks ? "|ranks" : "");
    t = stp_table_create(headings);

    for (size_t i = 0; t != NULL && i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        const struct stp_comparison *c = stp_verify_arm(p);

        if (c != NULL)
            add_verdict(t, p, c, ranks);
    }
    return stp_table_finish(t, fp, err);
}

/* Whether 'p' may be named as the best: one at which somebody measured. */
static bool is_measured(const struct stp_point *p)
{
    return p->source <= STP_SOURCE_RECORDED;
}

struct stp_verdict_count
stp_count_verdicts(const struct stp_comparisons *comparisons)
{
    struct stp_verdict_count n = {0};
    double best = 1;
    double most = 1;
    double sum = 0;

    for (size_t i = 0; i < comparisons->n_points; i++) {
        const struct stp_point *p = &comparisons->points[i];
        enum stp_verdict verdict = stp_verify_point(p);
        double gain = 1;

        n.n_same += verdict == STP_VERDICT_SAME;
        n.n_faster += verdict == STP_VERDICT_FASTER;
        n.n_unsure += verdict == STP_VERDICT_UNSURE;
        n.n_slower += verdict == STP_VERDICT_SLOWER;
        if (verdict != STP_VERDICT_SAME)
            gain = stp_verify_arm(p)->gain.gain;
        if (gain > best && is_measured(p)) {
            best = gain;
            n.best = p;
        }
        most = fmax(most, gain);
        sum += log(gain);
    }
    n.mean_gain =
        comparisons->n_points ? exp(sum / (double)comparisons->n_points) : 1;
    n.is_best_of_all = best >= most;
    return n;
}

void stp_print_verdict_count(const struct stp_verdict_count *count, FILE *fp)
{
    fprintf(fp,
            "%zu sizes: %zu faster, %zu as NCCL's own choice, %zu unsure, %zu "
            "slower; geometric mean of the gains %.3f",
            count->n_same + count->n_faster + count->n_unsure + count->n_slower,
            count->n_faster, count->n_same, count->n_unsure, count->n_slower,
            count->mean_gain);
    if (count->best != NULL)
        fprintf(fp, ", best%s %.3f (%s, %" PRIu64 " bytes)",
                count->is_best_of_all ? "" : " at a measured size",
                stp_verify_arm(count->best)->gain.gain,
                stp_coll_name(count->best->coll), count->best->n_bytes);
    fprintf(fp, "\n");
}

/* ---- rules ---- */

static void add_rule(struct stp_table *t, const struct stp_derived_rule *rule)
{
    double low = INFINITY;
    double high = 0;
    char arm[STP_ARM_NAME];

    for (size_t i = 0; i < rule->n_points; i++) {
        double gain = stp_derived_evidence(rule, &rule->points[i])->gain.gain;

        low = fmin(low, gain);
        high = fmax(high, gain);
    }
    stp_arm_name(&rule->arm, arm);
    stp_table_add(t, "%s", stp_coll_name(rule->coll));
    stp_table_add(t, "%" PRIu64, rule->min_bytes);
    if (rule->max_bytes == STP_DERIVE_NO_END)
        stp_table_add(t, "inf");
    else
        stp_table_add(t, "%" PRIu64, rule->max_bytes);
    stp_table_add(t, "%u", rule->n_nodes);
    stp_table_add(t, "%u", rule->n_ranks);
    stp_table_add(t, "%s", arm);
    stp_table_add(t, "%zu", rule->n_points);
    stp_table_add(t, "%.3f to %.3f", low, high);
}

enum stp_status stp_print_rules(const struct stp_derived *derived, FILE *fp,
                                struct stp_error *err)
{
    struct stp_table *t =
        stp_table_create("<collective|min bytes|max bytes|nodes|ranks|<choice|"
                         "sizes|gains");

    for (size_t i = 0; t != NULL && i < derived->n_rules; i++)
        add_rule(t, &derived->rules[i]);
    return stp_table_finish(t, fp, err);
}

/* ---- explanation ---- */

static void add_range(struct stp_table *t, const struct stp_explained *x,
                      const char *policy)
{
    char alone[STP_RAN_NAME];
    char tuned[STP_RAN_NAME];

    stp_ran_name(x->auto_pick.algo, x->auto_pick.proto, 0, alone);
    stp_ran_name(x->pick.algo, x->pick.proto, 0, tuned);
    stp_table_add(t, "%s", stp_coll_name(x->coll));
    stp_table_add(t, "%" PRIu64, x->min_bytes);
    stp_table_add(t, "%" PRIu64, x->max_bytes);
    stp_table_add(t, "%s", alone);
    stp_table_add(t, "%s", tuned);
    if (x->min_channels == x->max_channels)
        stp_table_add(t, "%d", x->min_channels);
    else
        stp_table_add(t, "%d to %d", x->min_channels, x->max_channels);
    if (x->decider == STP_DECIDER_RULE)
        stp_table_add(t, "%s:%u", policy, x->line);
    else if (x->decider == STP_DECIDER_PLUGIN && x->asked_channels != 0)
        stp_table_add(t, "plugin, asks for %d channels", x->asked_channels);
    else
        stp_table_add(t, x->decider == STP_DECIDER_NCCL ? "NCCL" : "plugin");
}

enum stp_status stp_print_explanation(const struct stp_explanation *explanation,
                                      const char *policy, FILE *fp,
                                      struct stp_error *err)
{
    struct stp_table *t =
        stp_table_create("<collective|from bytes|to bytes|<AUTO|<choice|"
                         "channels|<decided by");

    for (size_t i = 0; t != NULL && i < explanation->n_ranges; i++)
        add_range(t, &explanation->ranges[i], policy);
    return stp_table_finish(t, fp, err);
}

/* ---- replay ---- */

/* A row, to be counted with those like it. */
struct counted {
    const struct stp_trace_row *row;
    const struct stp_replayed *got;
    uint64_t n_calls;
};

static int compare_what(const struct counted *a, const struct counted *b)
{
    const struct mock_call *x = &a->row->call;
    const struct mock_call *y = &b->row->call;

    if (x->coll != y->coll)
        return x->coll < y->coll ? -1 : 1;
    if (x->n_bytes != y->n_bytes)
        return x->n_bytes < y->n_bytes ? -1 : 1;
    return memcmp(a->got, b->got, sizeof(*a->got));
}

/* Those that are alike by their place in the trace. */
static int compare_like(const void *pa, const void *pb)
{
    const struct counted *a = pa;
    const struct counted *b = pb;
    int order = compare_what(a, b);

    return order != 0 ? order : (a->row > b->row) - (a->row < b->row);
}

static int compare_place(const void *pa, const void *pb)
{
    const struct counted *a = pa;
    const struct counted *b = pb;

    return (a->row > b->row) - (a->row < b->row);
}

/* One for all rows that are alike, in the order of the first of each. */
static struct counted *count_rows(const struct stp_trace *trace,
                                  const struct stp_replay *replay,
                                  size_t *n_ret)
{
    struct counted *rows = calloc(trace->n_rows + 1, sizeof(*rows));
    size_t n = 0;

    if (rows == NULL)
        return NULL;
    for (size_t i = 0; i < trace->n_rows; i++) {
        const struct stp_trace_row *row = &trace->rows[i];

        rows[i] = (struct counted){row, &replay->rows[i],
                                   row->n_launches > 0 ? row->n_launches : 1};
    }
    qsort(rows, trace->n_rows, sizeof(*rows), compare_like);
    for (size_t i = 0; i < trace->n_rows; i++) {
        if (n > 0 && compare_what(&rows[n - 1], &rows[i]) == 0)
            rows[n - 1].n_calls += rows[i].n_calls;
        else
            rows[n++] = rows[i];
    }
    qsort(rows, n, sizeof(*rows), compare_place);
    *n_ret = n;
    return rows;
}

/* Ranks are told where they are not the same for all. */
static void add_replayed(struct stp_table *t, const struct stp_replay *replay,
                         const struct counted *counted)
{
    const struct stp_trace_row *row = counted->row;
    const struct stp_replayed *got = counted->got;
    char alone[STP_RAN_NAME] =
        "-"; /* without bytes or others there is no choice */
    char tuned[STP_RAN_NAME] = "-";

    if (got->auto_algo >= 0)
        stp_ran_name(got->auto_algo, got->auto_proto, 0, alone);
    if (got->algo >= 0)
        stp_ran_name(got->algo, got->proto, 0, tuned);
    stp_table_add(t, "%s", stp_coll_name((int)row->call.coll));
    stp_table_add(t, "%zu", row->call.n_bytes);
    if (replay->mixed)
        stp_table_add(t, "%d", got->n_ranks);
    stp_table_add(t, "%" PRIu64, counted->n_calls);
    stp_table_add(t, "%s", alone);
    stp_table_add(t, "%s", tuned);
    stp_table_add(t, "%d", got->n_channels);
}

enum stp_status stp_print_replay(const struct stp_trace *trace,
                                 const struct stp_replay *replay, FILE *fp,
                                 struct stp_error *err)
{
    struct stp_table *t = stp_table_create(
        replay->mixed ? "<collective|bytes|ranks|calls|<AUTO|<choice|channels"
                      : "<collective|bytes|calls|<AUTO|<choice|channels");
    size_t n = 0;
    struct counted *rows = count_rows(trace, replay, &n);
    bool counted = rows != NULL;

    for (size_t i = 0; t != NULL && i < n; i++)
        add_replayed(t, replay, &rows[i]);
    free(rows);
    if (counted)
        return stp_table_finish(t, fp, err);
    stp_table_free(t);
    return stp_nomem(err);
}
