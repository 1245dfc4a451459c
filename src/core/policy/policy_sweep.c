/* Rules with equal collective, algorithm, protocol, numPipeOps and regBuff form
 * a class. Only the first rule of a class in file order that covers a size can
 * win there, so that while the sweep goes up through the sorted ends of all
 * rules, a heap per class is all it has to keep. */
#include "core/policy/policy_sweep.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "core/names.h"

/* The second bounds the time that goes into rules which cannot win: 1 s. */
enum { MAX_CANDIDATES = 1 << 22, MAX_SEEN = 1 << 27 };
enum { N_WIDER = 3 };

#define NONE UINT32_MAX

/* A rule that can match.  Its place among the items is its rank. */
struct item {
    uint64_t first, last; /* sizes */
    uint32_t rule;
    uint32_t class;
};

struct class
{
    uint64_t key;
    int coll;
    uint32_t n;     /* items in its heap */
    uint32_t *heap; /* part of one array that all heaps share */
    uint32_t first; /* its first item that covers the current size, or NONE */
    uint32_t wider[N_WIDER]; /* classes that match whatever this one does */
};

/* An item starts at this size, or has ended just before it. */
struct event {
    uint64_t at;
    uint32_t item;
    bool starts;
};

struct sweep {
    const struct stp_policy *policy;
    struct item *items;
    uint32_t n_items;
    struct class *classes; /* the first stays empty and stands for "none" */
    uint32_t n_classes;
    uint32_t *slots; /* hash table of class numbers; 0: free */
    unsigned slot_bits;
    uint32_t *heaps;
    struct event *events, *scratch; /* of one collective */
    uint32_t *touched; /* classes with an event at the current size */
    uint32_t n_touched;
    uint32_t *live; /* the 'first' of every class, in file order */
    uint32_t n_live;
    struct stp_segments out;
    size_t n_segments;
    size_t capacity; /* of out.candidates */
    size_t n_seen;   /* live items looked at for all segments so far */
};

/* ---- rules that can match, and their sizes ---- */

/* The sizes for which 'rule' can win in 'shape', or false if there are none. */
static bool policy_narrow_range(const struct stp_rule *rule,
                                const struct stp_shape *shape,
                                struct item *item)
{
    const struct stp_range *share = &rule->bytes_per_rank;
    const uint64_t n = shape->n_ranks;
    struct stp_range bytes = {0, UINT64_MAX};

    if (!stp_range_has(&rule->nodes, shape->n_nodes) ||
        !stp_range_has(&rule->ranks, shape->n_ranks) ||
        !stp_pair_exists(rule->coll, rule->algo, rule->proto))
        return false;
    if (rule->gpu != NULL &&
        (shape->gpu == NULL || strcmp(rule->gpu, shape->gpu) != 0))
        return false;
    /* A message matches if its share for one of 'n' ranks, rounded down, lies
     * in 'share'; there may be no such size below 2^64. */
    if (share->min > UINT64_MAX / n)
        return false;
    bytes.min = share->min * n;
    if (share->max < UINT64_MAX / n)
        bytes.max = share->max * n + (n - 1);
    item->first = rule->bytes.min > bytes.min ? rule->bytes.min : bytes.min;
    item->last = rule->bytes.max < bytes.max ? rule->bytes.max : bytes.max;
    return item->first <= item->last;
}

/* ---- classes ---- */

static uint64_t policy_class_key(const struct stp_rule *rule, int n_pipe_ops,
                                 int reg_buff)
{
    int pair =
        (rule->coll * NCCL_NUM_ALGORITHMS + rule->algo) * NCCL_NUM_PROTOCOLS +
        rule->proto;

    return (uint64_t)pair << 34 | (uint64_t)(reg_buff + 1) << 32 |
           (uint32_t)n_pipe_ops;
}

/* Where the number of the class with this key stands or would stand. */
static uint32_t *policy_class_slot(const struct sweep *s, uint64_t key)
{
    uint32_t mask = ((uint32_t)1 << s->slot_bits) - 1;
    uint32_t i = (uint32_t)(key * 0x9E3779B97F4A7C15u >> (64 - s->slot_bits));

    while (s->slots[i] != 0 && s->classes[s->slots[i]].key != key)
        i = (i + 1) & mask;
    return &s->slots[i];
}

static void policy_collect_items(struct sweep *s, const struct stp_shape *shape)
{
    size_t n = stp_policy_size(s->policy);

    s->classes[0] = (struct class){.coll = -1, .first = NONE};
    s->n_classes = 1;
    for (size_t i = 0; i < n; i++) {
        const struct stp_rule *rule = stp_policy_rule(s->policy, i);
        struct item *item = &s->items[s->n_items];
        uint32_t *slot;
        uint64_t key;

        if (!policy_narrow_range(rule, shape, item))
            continue;
        key = policy_class_key(rule, rule->n_pipe_ops, rule->reg_buff);
        slot = policy_class_slot(s, key);
        if (*slot == 0) {
            *slot = s->n_classes++;
            s->classes[*slot] =
                (struct class){.key = key, .coll = rule->coll, .first = NONE};
        }
        item->rule = (uint32_t)i;
        item->class = *slot;
        s->classes[item->class].n++;
        s->n_items++;
    }
}

/* A class that is not there has the number 0, whose 'first' stays NONE. */
static void policy_link_classes(struct sweep *s)
{
    uint32_t *heap = s->heaps;

    for (uint32_t i = 0; i < s->n_items; i++) {
        const struct stp_rule *rule =
            stp_policy_rule(s->policy, s->items[i].rule);
        struct class *c = &s->classes[s->items[i].class];
        int pipe = rule->n_pipe_ops, reg = rule->reg_buff;

        if (c->heap != NULL)
            continue;
        c->heap = heap;
        heap += c->n;
        c->n = 0;
        if (reg != -1)
            c->wider[0] =
                *policy_class_slot(s, policy_class_key(rule, pipe, -1));
        if (pipe != -1)
            c->wider[1] =
                *policy_class_slot(s, policy_class_key(rule, -1, reg));
        if (pipe != -1 && reg != -1)
            c->wider[2] = *policy_class_slot(s, policy_class_key(rule, -1, -1));
    }
}

/* ---- the heap of a class: the lowest item is at the top ---- */

static void policy_heap_pop(struct class *c)
{
    uint32_t item = c->heap[--c->n], i = 0, child;

    for (; (child = 2 * i + 1) < c->n; i = child) {
        if (child + 1 < c->n && c->heap[child + 1] < c->heap[child])
            child++;
        if (item < c->heap[child])
            break;
        c->heap[i] = c->heap[child];
    }
    c->heap[i] = item;
}

/* ---- the sweep ---- */

/* One pass of a radix sort, stable, by the byte at 'shift'. */
static void policy_sort_by_byte(struct sweep *s, uint32_t n, unsigned shift)
{
    uint32_t place[256] = {0}, total = 0;
    struct event *sorted = s->scratch;

    for (uint32_t i = 0; i < n; i++)
        place[s->events[i].at >> shift & 255]++;
    for (int i = 0; i < 256; i++) {
        uint32_t count = place[i];

        place[i] = total;
        total += count;
    }
    for (uint32_t i = 0; i < n; i++)
        sorted[place[s->events[i].at >> shift & 255]++] = s->events[i];
    s->scratch = s->events;
    s->events = sorted;
}

/* Brings 'live' up to date after the events at a size.  False: no change. */
static bool policy_update_live(struct sweep *s, uint64_t at)
{
    uint32_t n_changed = 0, n_kept = 0;

    for (uint32_t i = 0; i < s->n_touched; i++) {
        struct class *c = &s->classes[s->touched[i]];
        const uint32_t old = c->first;

        while (c->n > 0 && s->items[c->heap[0]].last < at)
            policy_heap_pop(c);
        c->first = c->n > 0 ? c->heap[0] : NONE;
        if (c->first != old)
            s->touched[n_changed++] = s->touched[i];
    }
    s->n_touched = 0;
    if (n_changed == 0)
        return false;

    for (uint32_t i = 0; i < s->n_live; i++)
        if (s->classes[s->items[s->live[i]].class].first == s->live[i])
            s->live[n_kept++] = s->live[i];
    s->n_live = n_kept;
    for (uint32_t i = 0; i < n_changed; i++) {
        const uint32_t item = s->classes[s->touched[i]].first;
        uint32_t k = s->n_live;

        if (item == NONE)
            continue;
        for (s->n_live++; k > 0 && s->live[k - 1] > item; k--)
            s->live[k] = s->live[k - 1];
        s->live[k] = item;
    }
    return true;
}

/* Makes the segment that starts at 'at', of what is live but for items where an
 * earlier one wins wherever they could, unless it would be as the one before
 * it; a collective's first has none before it. */
static enum stp_status policy_add_segment(struct sweep *s, uint64_t at,
                                          struct stp_error *err)
{
    const size_t needed = s->out.n_candidates + s->n_live;
    struct stp_segment *segment = &s->out.at[s->n_segments];
    struct stp_candidate *candidates = s->out.candidates;

    if (needed > s->capacity) {
        candidates = realloc(candidates, 2 * needed * sizeof(*candidates));
        if (candidates == NULL)
            return stp_nomem(err);
        s->out.candidates = candidates;
        s->capacity = 2 * needed;
    }
    segment->start = at;
    segment->from = (uint32_t)s->out.n_candidates;
    for (uint32_t i = 0; i < s->n_live; i++) {
        const struct item *item = &s->items[s->live[i]];
        const struct stp_rule *rule = stp_policy_rule(s->policy, item->rule);
        bool is_dead = false;

        for (int w = 0; w < N_WIDER; w++)
            is_dead |=
                s->classes[s->classes[item->class].wider[w]].first < s->live[i];
        if (!is_dead)
            candidates[s->out.n_candidates++] = (struct stp_candidate){
                .line = rule->line,
                .chunk_bytes = rule->chunk_bytes,
                .n_pipe_ops = rule->n_pipe_ops,
                .algo = (uint8_t)rule->algo,
                .proto = (uint8_t)rule->proto,
                .n_channels = (uint8_t)rule->n_channels,
                .reg_buff = (int8_t)rule->reg_buff,
            };
    }
    segment->n = (uint32_t)s->out.n_candidates - segment->from;
    if (at > 0 && segment->n == segment[-1].n &&
        memcmp(&candidates[segment->from], &candidates[segment[-1].from],
               segment->n * sizeof(*candidates)) == 0)
        s->out.n_candidates = segment->from;
    else
        s->n_segments++;
    s->n_seen += s->n_live;
    if (s->out.n_candidates > MAX_CANDIDATES || s->n_seen > MAX_SEEN)
        return stp_fail(err, STP_ERR_LIMIT,
                        "rules overlap so much that their ranges would need "
                        "more than %d entries",
                        MAX_CANDIDATES);
    return STP_OK;
}

/* Lists the events of a collective by size; returns how many there are. */
static uint32_t policy_list_events(struct sweep *s, int coll)
{
    uint64_t varying = 0;
    bool sorted = true;
    uint32_t n = 0;

    for (uint32_t i = 0; i < s->n_items; i++) {
        const struct item *item = &s->items[i];

        if (s->classes[item->class].coll != coll)
            continue;
        s->events[n++] = (struct event){item->first, i, true};
        if (item->last < UINT64_MAX)
            s->events[n++] = (struct event){item->last + 1, i, false};
    }
    for (uint32_t i = 1; i < n; i++) {
        varying |= s->events[i].at ^ s->events[i - 1].at;
        sorted = sorted && s->events[i - 1].at <= s->events[i].at;
    }
    for (unsigned shift = 0; shift < 64 && !sorted; shift += 8)
        if (varying >> shift & 255)
            policy_sort_by_byte(s, n, shift);
    return n;
}

static enum stp_status policy_sweep_collective(struct sweep *s, int coll,
                                               struct stp_error *err)
{
    const uint32_t n_events = policy_list_events(s, coll);
    const struct item *items = s->items;
    uint64_t at = 0;
    uint32_t i = 0;

    s->n_live = 0;
    s->out.begin[coll] = (uint32_t)s->n_segments;
    do {
        for (; i < n_events && s->events[i].at == at; i++) {
            const uint32_t item = s->events[i].item;
            struct class *c = &s->classes[items[item].class];

            s->touched[s->n_touched++] = items[item].class;
            /* One that an earlier of its class outlives is never the first. */
            if (s->events[i].starts &&
                (c->n == 0 || item < c->heap[0] ||
                 items[c->heap[0]].last < items[item].last)) {
                uint32_t k = c->n++;

                for (; k > 0 && item < c->heap[(k - 1) / 2]; k = (k - 1) / 2)
                    c->heap[k] = c->heap[(k - 1) / 2];
                c->heap[k] = item;
            }
        }
        if (policy_update_live(s, at) || at == 0)
            STP_TRY(policy_add_segment(s, at, err));
        at = i < n_events ? s->events[i].at : 0;
    } while (i < n_events);
    return STP_OK;
}

void stp_segments_free(struct stp_segments *segments)
{
    free(segments->at);
    free(segments->candidates);
}

enum stp_status stp_sweep(const struct stp_policy *policy,
                          const struct stp_shape *shape,
                          struct stp_segments *segments_ret,
                          struct stp_error *err)
{
    /* Every rule may be a class of its own, starts once and ends once, and each
     * end may begin a segment. */
    const size_t n = stp_policy_size(policy) + 1;
    struct sweep s = {.policy = policy, .capacity = n, .slot_bits = 4};
    enum stp_status status = STP_OK;

    while ((size_t)1 << s.slot_bits < 2 * n)
        s.slot_bits++;
    s.slots = calloc((size_t)1 << s.slot_bits, sizeof(*s.slots));
    s.items = malloc(n * sizeof(*s.items));
    s.classes = malloc(n * sizeof(*s.classes));
    s.heaps = malloc(n * sizeof(*s.heaps));
    s.events = malloc(2 * n * sizeof(*s.events));
    s.scratch = malloc(2 * n * sizeof(*s.scratch));
    s.touched = malloc(n * sizeof(*s.touched));
    s.live = malloc(n * sizeof(*s.live));
    s.out.at = malloc((2 * n + NCCL_NUM_TUNED_FUNCS) * sizeof(*s.out.at));
    s.out.candidates = malloc(n * sizeof(*s.out.candidates));
    if (s.slots == NULL || s.items == NULL || s.classes == NULL ||
        s.heaps == NULL || s.events == NULL || s.scratch == NULL ||
        s.touched == NULL || s.live == NULL || s.out.at == NULL ||
        s.out.candidates == NULL)
        status = stp_nomem(err);
    if (status == STP_OK) {
        policy_collect_items(&s, shape);
        policy_link_classes(&s);
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS && status == STP_OK; c++)
        status = policy_sweep_collective(&s, c, err);
    s.out.begin[NCCL_NUM_TUNED_FUNCS] = (uint32_t)s.n_segments;
    s.out.n_rules = s.n_items;
    if (status == STP_OK)
        *segments_ret = s.out;
    else
        stp_segments_free(&s.out);
    free(s.slots);
    free(s.items);
    free(s.classes);
    free(s.heaps);
    free(s.events);
    free(s.scratch);
    free(s.touched);
    free(s.live);
    return status;
}
