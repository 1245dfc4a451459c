/* learning.c - the verdicts of a journal */
#include "report/learning/learning.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/qsort.h"
#include "core/stats.h"
#include "launch/take.h"

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

void stp_learning_pool(const struct stp_learning_blocks *blocks,
                       struct stp_learning_blocks *sum)
{
    const double off = blocks->log_gain - sum->log_gain;
    const double n_sum = (double)sum->n, n = (double)blocks->n;

    if (blocks->n == 0)
        return;
    sum->log_ss += blocks->log_ss + off * off * n_sum * n / (n_sum + n);
    sum->log_gain += off * n / (n_sum + n);
    sum->n += blocks->n;
}

/* Sums up 'n' blocks, in any order, without those that are further from the
 * median than five standard deviations, by the median: stalls of the GPUs, as
 * the plugin takes them. */
static struct stp_learning_blocks learning_sum_blocks(double *log_gains,
                                                      size_t n)
{
    struct stp_learning_blocks blocks = {0};
    struct stp_summary all = {0};
    double *sizes, most = INFINITY;

    if (n >= LEAST_FOR_MEDIAN) {
        STP_TAKE(sizes, n);
        stp_summarise(log_gains, n, &all);
        for (size_t i = 0; i < n; i++)
            sizes[i] = fabs(log_gains[i] - all.median);
        most = fmax(5 * stp_robust_stddev(sizes, n), least_stall);
        free(sizes);
    }
    for (size_t i = 0; i < n; i++)
        if (fabs(log_gains[i] - all.median) <= most)
            stp_learning_pool(&(struct stp_learning_blocks){1, log_gains[i], 0},
                              &blocks);
    return blocks;
}

/* A block of windows in which arms of a key took turns. */
struct turn {
    uint32_t key, set, at; /* their numbers, and the line's */
    uint16_t arm, base;    /* of the key; STP_BANDIT_ARMS: NCCL's own choice */
    double log_gain;
};

/* All of a journal, which is summed up into 'l'. */
struct turns {
    struct stp_learning *l;
    struct turn *all;
    size_t n, capacity;
};

static int turns_order(const void *pa, const void *pb)
{
    const struct turn *a = pa, *b = pb;

    STP_RETURN_ORDER(STP_ORDER(a->key, b->key));
    STP_RETURN_ORDER(STP_ORDER(a->set, b->set));
    return STP_ORDER(a->at, b->at);
}

/* Adds the blocks of one communicator to the key's arms.  What an arm gained
 * over another one counts with what that gains there or, if nobody knows, on
 * communicators before: in the order in which arms were first tried, and then
 * again, as an arm may be compared with one that was tried later. */
static void turns_add(const struct turn *all, size_t n,
                      struct stp_learning_key *key)
{
    struct stp_learning_blocks here[STP_BANDIT_ARMS + 1] = {{0}};
    double *log_gains;

    STP_TAKE(log_gains, n);
    for (int pass = 0; pass < 2; pass++) {
        bool is_done[STP_BANDIT_ARMS] = {false};

        for (size_t i = 0; i < n; i++) {
            const uint16_t arm = all[i].arm;
            size_t n_gains = 0;

            if (is_done[arm])
                continue;
            is_done[arm] = true;
            for (size_t k = i; k < n; k++) {
                const uint16_t base = all[k].base;
                const struct stp_learning_blocks *of =
                    base == STP_BANDIT_ARMS || here[base].n > 0
                        ? &here[base]
                        : &key->arms[base].blocks;

                if (all[k].arm == arm && (base == STP_BANDIT_ARMS || of->n > 0))
                    log_gains[n_gains++] = all[k].log_gain + of->log_gain;
            }
            here[arm] = learning_sum_blocks(log_gains, n_gains);
            if (pass == 1)
                stp_learning_pool(&here[arm], &key->arms[arm].blocks);
        }
    }
    free(log_gains);
}

static void turns_sum(struct turns *turns)
{
    STP_SORT(turns->all, turns->n, turns_order);
    for (size_t i = 0, n; i < turns->n; i += n) {
        const struct turn *first = &turns->all[i];

        for (n = 1; i + n < turns->n && first[n].key == first->key &&
                    first[n].set == first->set;)
            n++;
        turns_add(first, n, &turns->l->keys[first->key]);
    }
    free(turns->all);
}

static void learning_add_time(struct turns *turns, struct stp_learning_key *key,
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
    if (line->kind == STP_LEARN_BLOCK && !(line->gain.gain > 0)) {
        set->base = line->arm;
        set->base_us = line->value;
    } else if (line->kind == STP_LEARN_BLOCK && isfinite(line->gain.gain)) {
        const size_t base = stp_learning_find_arm(key, &set->base);

        set->lost_us += STP_BLOCK_WINDOWS / 2 * (line->value - set->base_us);
        set->end_us = line->t_us;
        STP_TAKE_ROOM(turns->all, turns->n, turns->capacity);
        turns->all[turns->n] = (struct turn){
            .key = (uint32_t)(key - turns->l->keys),
            .set = (uint32_t)(set - turns->l->sets),
            .at = (uint32_t)turns->n,
            .arm = (uint16_t)i,
            .base = set->base.algo < 0 || base == key->n_arms ? STP_BANDIT_ARMS
                                                              : (uint16_t)base,
            .log_gain = log(line->gain.gain)};
        turns->n++;
    }
}

static void learning_take_line(struct turns *turns,
                               struct stp_learning_key *key,
                               const struct stp_journal_line *line,
                               struct stp_learning_set *set)
{
    switch (line->kind) {
    case STP_LEARN_TRIAL:
        key->n_trials++;
        break;
    case STP_LEARN_BLOCK:
    case STP_LEARN_REWARD:
        learning_add_time(turns, key, line, set);
        break;
    case STP_LEARN_SETTLED:
        key->is_settled = true;
        key->with = line->arm;
        key->gain = line->gain;
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
        key->bound = line->gain;
        break;
    case STP_LEARN_UNTRIED:
        key->n_untried = (size_t)fmin(fmax(line->value, 0), STP_BANDIT_ARMS);
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
    STP_SORT(sorted, n, learning_order_lines);
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
    set->n_log_gains = set->n_broken = 0;
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

/* An arm in force on a communicator has won there, though the job ended before
 * its key was settled. */
static void learning_put_in_force(struct stp_learning *l,
                                  const struct stp_learning_set *set)
{
    for (size_t i = 0; i < set->n_arms && l->n > 0; i++) {
        const struct stp_journal_line kind = {.n_nodes = set->n_nodes,
                                              .n_ranks = set->n_ranks,
                                              .coll = set->arms[i].coll,
                                              .bytes = set->arms[i].bytes};
        struct stp_learning_key *key = bsearch(
            &kind, l->keys, l->n, sizeof(*l->keys), learning_order_line_key);
        const size_t at = key != NULL && key->with.algo < 0
                              ? stp_learning_find_arm(key, &set->arms[i].arm)
                              : STP_BANDIT_ARMS;

        if (at == STP_BANDIT_ARMS || at == key->n_arms ||
            key->arms[at].blocks.n < 2)
            continue;
        key->is_settled = false;
        key->with = set->arms[i].arm;
        key->gain = stp_learning_gain_of(&key->arms[at].blocks);
    }
}

/* More calls than a job makes; a file may say anything. */
static const double max_calls = 1e18;

void stp_learning_sum(const struct stp_journal_lines *lines,
                      struct stp_learning *learning_ret)
{
    struct stp_learning l = {0};
    struct turns turns = {.l = &l};
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

        l.n_blocks += line->kind == STP_LEARN_BLOCK && line->gain.gain > 0;
        l.has_graphs |= line->kind == STP_LEARN_GRAPHS;
        if (line->kind == STP_LEARN_ALONE && line->value > (double)l.n_alone)
            l.n_alone = (uint64_t)fmin(line->value, max_calls);
        l.trials_us = fmax(l.trials_us, line->t_us - begin_us);
        switch (line->kind) {
        case STP_LEARN_STEP:
            set->step_us = line->value;
            set->step_gain = fmax(line->gain.gain, 1);
            break;
        case STP_LEARN_PLAN:
            set->has_plan = true;
            set->plan_us = line->value;
            set->plan_gain = line->gain.gain;
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
            if (!(line->gain.gain > 0 && isfinite(line->gain.gain))) {
                set->n_broken++;
                break;
            }
            STP_TAKE_ROOM(set->log_gains, set->n_log_gains,
                          set->log_gains_capacity);
            set->log_gains[set->n_log_gains++] = log(line->gain.gain);
            set->window_us +=
                (line->value - set->window_us) / (double)set->n_log_gains;
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
            learning_take_line(&turns, key, line, set);
    }
    for (size_t i = 0; i < l.n_sets; i++)
        l.sets[i].blocks =
            learning_sum_blocks(l.sets[i].log_gains, l.sets[i].n_log_gains);
    turns_sum(&turns);
    for (size_t i = 0; i < l.n_sets; i++)
        learning_put_in_force(&l, &l.sets[i]);
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
