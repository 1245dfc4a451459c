/* learning.c - the verdicts of a journal */
#include "report/learning/learning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/qsort.h"
#include "core/stats.h"
#include "report/take.h"

enum { LEAST_FOR_MEDIAN = 4 };          /* blocks */
static const double least_stall = 0.01; /* of a window, that is taken for one */

/* Returns the order of lines or keys: large communicators first. */
#define ORDER_KEYS(a, b)                                                       \
    do {                                                                       \
        STP_RETURN_ORDER(STP_ORDER((b)->n_ranks, (a)->n_ranks));               \
        STP_RETURN_ORDER(STP_ORDER((a)->n_nodes, (b)->n_nodes));               \
        STP_RETURN_ORDER(STP_ORDER((a)->coll, (b)->coll));                     \
        STP_RETURN_ORDER(STP_ORDER((a)->bytes.min, (b)->bytes.min));           \
        STP_RETURN_ORDER(STP_ORDER((a)->bytes.max, (b)->bytes.max));           \
        return 0;                                                              \
    } while (0)

static int learning_order_lines(const void *pa, const void *pb)
{
    const struct stp_journal_line *const *a = pa;
    const struct stp_journal_line *const *b = pb;

    ORDER_KEYS(*a, *b);
}

static int learning_order_line_key(const void *pa, const void *pb)
{
    const struct stp_journal_line *a = pa;
    const struct stp_learning_key *b = pb;

    ORDER_KEYS(a, b);
}

size_t stp_learning_find_arm(const struct stp_learning_key *key,
                             const struct stp_bandit_arm *arm)
{
    size_t i = 0;

    while (i < key->n_arms && !(key->arms[i].arm.algo == arm->algo &&
                                key->arms[i].arm.proto == arm->proto &&
                                key->arms[i].arm.n_channels == arm->n_channels))
        i++;
    return i;
}

static void learning_add(double log_gain, struct stp_learning_blocks *blocks)
{
    const double off = log_gain - blocks->log_gain;

    blocks->log_gain += off / (double)++blocks->n;
    blocks->log_ss += off * (log_gain - blocks->log_gain);
}

/* Sums up the set's blocks without those that are further from the median than
 * five standard deviations, by the median: stalls of the GPUs, as the plugin
 * takes them. */
static void learning_leave_out_stalls(struct stp_learning_set *set)
{
    const size_t n = set->n_log_gains;
    struct stp_summary all;
    double *sizes, most;

    if (n < LEAST_FOR_MEDIAN)
        return;
    STP_TAKE(sizes, n);
    stp_summarise(set->log_gains, n, &all);
    for (size_t i = 0; i < n; i++)
        sizes[i] = fabs(set->log_gains[i] - all.median);
    most = fmax(5 * stp_robust_stddev(sizes, n), least_stall);
    free(sizes);
    set->blocks = (struct stp_learning_blocks){0};
    for (size_t i = 0; i < n; i++)
        if (fabs(set->log_gains[i] - all.median) <= most)
            learning_add(set->log_gains[i], &set->blocks);
}

static void learning_add_time(struct stp_learning_key *key,
                              const struct stp_journal_line *line,
                              struct stp_learning_set *set)
{
    size_t i = stp_learning_find_arm(key, &line->arm);
    struct stp_learning_arm *arm = &key->arms[i];

    key->n_times++;
    if (i == STP_BANDIT_ARMS)
        return;
    if (i == key->n_arms)
        key->arms[key->n_arms++] = (struct stp_learning_arm){.arm = line->arm};
    arm->n++;
    arm->mean += (line->value - arm->mean) / (double)arm->n;

    /* A block's first line has the time of the arm that it is compared with,
     * its second line that of the other arm, and the gain. */
    if (line->kind == STP_LEARN_BLOCK && !(line->gain > 0)) {
        set->base = line->arm;
        set->base_us = line->value;
    } else if (line->kind == STP_LEARN_BLOCK) {
        size_t base = stp_learning_find_arm(key, &set->base);
        bool is_tried = set->base.algo >= 0 && base < key->n_arms;

        set->lost_us += STP_BLOCK_WINDOWS / 2 * (line->value - set->base_us);
        set->end_us = line->t_us;

        learning_add(log(line->gain) +
                         (is_tried ? key->arms[base].blocks.log_gain : 0),
                     &arm->blocks);
    }
}

static void learning_take_line(struct stp_learning_key *key,
                               const struct stp_journal_line *line,
                               struct stp_learning_set *set)
{
    switch (line->kind) {
    case STP_LEARN_TRIAL:
        key->n_trials++;
        break;
    case STP_LEARN_BLOCK:
    case STP_LEARN_REWARD:
        learning_add_time(key, line, set);
        break;
    case STP_LEARN_SETTLED:
        key->is_settled = true;
        key->with = line->arm;
        key->gain = (struct stp_gain){
            .gain = line->gain, .low = line->gain_low, .high = line->gain_high};
        break;
    case STP_LEARN_INCUMBENT:
        /* The arm with which the key settled was dropped, or lost a re-test. */
        if (line->arm.algo < 0 && key->is_settled && key->with.algo >= 0) {
            key->is_settled = false;
            key->with.algo = -1;
            key->gain = (struct stp_gain){0};
        }
        break;
    case STP_LEARN_BUSY:
        if (set->step_us > 0)
            key->busy = fmax(key->busy, fmin(line->value / set->step_us, 1));
        break;
    case STP_LEARN_BOUND:
        key->n_tried = (size_t)fmin(fmax(line->value, 0), STP_BANDIT_ARMS);
        key->bound = (struct stp_gain){
            .gain = line->gain, .low = line->gain_low, .high = line->gain_high};
        break;
    default:
        break;
    }
}

/* Makes a key of each kind of message, sorted: a journal may have as many as it
 * has lines. */
static void learning_make_keys(const struct stp_journal_lines *lines,
                               struct stp_learning *l)
{
    const struct stp_journal_line **sorted =
        stp_take(lines->n, sizeof(*sorted));
    size_t n = 0, n_keys = 0;

    for (size_t i = 0; i < lines->n; i++)
        if (lines->all[i].coll >= 0)
            sorted[n++] = &lines->all[i];
    if (n > 0)
        qsort(sorted, n, sizeof(*sorted), learning_order_lines);
    for (size_t i = 0; i < n; i++)
        if (i == 0 || learning_order_lines(&sorted[i - 1], &sorted[i]) != 0)
            sorted[n_keys++] = sorted[i];
    STP_TAKE(l->keys, n_keys);
    for (; l->n < n_keys; l->n++)
        l->keys[l->n] =
            (struct stp_learning_key){.n_nodes = sorted[l->n]->n_nodes,
                                      .n_ranks = sorted[l->n]->n_ranks,
                                      .coll = sorted[l->n]->coll,
                                      .bytes = sorted[l->n]->bytes,
                                      .with.algo = -1,
                                      .busy = -1};
    free(sorted);
}

static void set_clear(struct stp_learning_set *set)
{
    set->n_log_gains = 0;
    set->blocks = (struct stp_learning_blocks){0};
    set->window_us = 0;
    set->is_dropped = false;
}

static void set_put_arm(struct stp_learning_set *set,
                        const struct stp_journal_line *line)
{
    size_t i = 0;

    set_clear(set);
    while (i < set->n_arms && (set->arms[i].coll != line->coll ||
                               set->arms[i].bytes.min != line->bytes.min))
        i++;
    if (i < set->n_arms) {
        set->n_arms--;
        memmove(&set->arms[i], &set->arms[i + 1],
                (set->n_arms - i) * sizeof(set->arms[0]));
    }
    if (line->arm.algo < 0 || set->n_arms == STP_BANDIT_KEYS)
        return;
    set->arms[set->n_arms].coll = line->coll;
    set->arms[set->n_arms].bytes = line->bytes;
    set->arms[set->n_arms++].arm = line->arm;
}

struct stp_gain stp_learning_gain_of(const struct stp_learning_blocks *blocks)
{
    const double n = (double)blocks->n;
    double half;

    if (blocks->n < 2)
        return (struct stp_gain){0};
    half = stp_t975(blocks->n - 1) * sqrt(blocks->log_ss / (n - 1) / n);
    return (struct stp_gain){.gain = exp(blocks->log_gain),
                             .low = exp(blocks->log_gain - half),
                             .high = exp(blocks->log_gain + half)};
}

/* More calls than a job makes; a file may say anything. */
static const double max_calls = 1e18;

void stp_learning_sum(const struct stp_journal_lines *lines,
                      struct stp_learning *learning_ret)
{
    struct stp_learning l = {0};
    double begin_us = INFINITY;

    learning_make_keys(lines, &l);
    for (size_t i = 0; i < lines->n; i++) {
        const struct stp_journal_line *line = &lines->all[i];
        struct stp_learning_key *key = NULL;
        struct stp_learning_set *set;
        size_t at = 0; /* the set of the line's communicator */

        while (at < l.n_sets && l.sets[at].comm != line->comm)
            at++;
        if (at == l.n_sets) {
            STP_TAKE_ROOM(l.sets, l.n_sets, l.sets_capacity);
            l.sets[l.n_sets++] =
                (struct stp_learning_set){.comm = line->comm,
                                          .n_nodes = line->n_nodes,
                                          .n_ranks = line->n_ranks,
                                          .base.algo = -1};
        }
        set = &l.sets[at];

        l.n_blocks += line->kind == STP_LEARN_BLOCK && line->gain > 0;
        l.has_graphs |= line->kind == STP_LEARN_GRAPHS;
        if (line->kind == STP_LEARN_ALONE && line->value > (double)l.n_alone)
            l.n_alone = (uint64_t)fmin(line->value, max_calls);
        l.trials_us = fmax(l.trials_us, line->t_us - begin_us);
        switch (line->kind) {
        case STP_LEARN_STEP:
            set->step_us = line->value;
            set->step_gain = fmax(line->gain, 1);
            break;
        case STP_LEARN_PLAN:
            set->has_plan = true;
            set->plan_us = line->value;
            set->plan_gain = line->gain;
            break;
        case STP_LEARN_TRIAL:
            if (set->begin_us == 0)
                set->begin_us = line->t_us;
            break;
        case STP_LEARN_HOST:
            set->at_once = line->value;
            break;
        case STP_LEARN_WINDOW:
            begin_us = fmin(begin_us, line->t_us);
            set_clear(set);
            break;
        case STP_LEARN_INCUMBENT:
            if (!set->is_dropped || line->arm.algo >= 0)
                set_put_arm(set, line);
            break;
        case STP_LEARN_SET:
            if (!(line->gain > 0 && isfinite(line->gain)))
                break;
            STP_TAKE_ROOM(set->log_gains, set->n_log_gains,
                          set->log_gains_capacity);
            set->log_gains[set->n_log_gains++] = log(line->gain);
            learning_add(log(line->gain), &set->blocks);
            set->window_us +=
                (line->value - set->window_us) / (double)set->blocks.n;
            break;
        case STP_LEARN_DROPPED:
            set->is_dropped = true;
            set->n_arms -= set->n_arms > 0;
            break;
        default:
            break;
        }
        if (line->coll >= 0 && l.n > 0)
            key = bsearch(line, l.keys, l.n, sizeof(*l.keys),
                          learning_order_line_key);
        if (key != NULL)
            learning_take_line(key, line, set);
    }
    for (size_t i = 0; i < l.n_sets; i++)
        learning_leave_out_stalls(&l.sets[i]);
    *learning_ret = l;
}

void stp_learning_free(struct stp_learning *learning)
{
    for (size_t i = 0; i < learning->n_sets; i++)
        free(learning->sets[i].log_gains);
    free(learning->keys);
    free(learning->sets);
    *learning = (struct stp_learning){0};
}
