/* The top bits of a size, through an index, give the entry that it belongs to
 * or one of the few beside it.  An entry holds its first candidate if that is a
 * plain one, so that most lookups read an octave, two words of the index and an
 * entry, whatever the number of rules. */
#include "core/policy/policy.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/policy/policy_sweep.h"
#include "core/rng.h"

enum { N_OCTAVES = 64, CACHE_LINE = 64 };

/* Up to this many entries the index has twice the buckets: searching less is
 * worth more than the room, as long as all stays in the inner caches. */
enum { MAX_ROOMY = 1 << 14 };

/* The sizes from 2^e to 2^(e+1) - 1, and 0 with 1, cut into buckets of 2^shift
 * bytes: about as many as entries start there. */
struct octave {
    uint32_t base; /* its first bucket */
    uint32_t shift;
};

/* The sizes from 'start' to the next entry's.  A plain candidate asks nothing
 * of numPipeOps, and its chunk is of whole KiB: others do not fit here. */
struct entry {
    uint64_t start;
    uint32_t line; /* from here on, of the first candidate if that is plain */
    uint32_t algo : 3;
    uint32_t proto : 2;
    uint32_t n_channels : 7;
    uint32_t reg_buff : 2; /* 0, 1 or ANY_REG_BUFF */
    uint32_t chunk_kib : 15;
    uint32_t is_plain : 1;
    uint32_t has_list : 1; /* another candidate, or the first, is not here */
};

enum { ANY_REG_BUFF = 2 };

static_assert(sizeof(struct entry) == 16, "four a cache line");
static_assert(NCCL_NUM_ALGORITHMS <= 8 && NCCL_NUM_PROTOCOLS <= 4 &&
                  STP_MAX_CHANNELS < 1 << 7 && STP_MAX_CHUNK >> 10 < 1 << 15,
              "the bits of an entry");

/* All candidates of an entry, for when its own is not enough. */
struct list {
    uint32_t n;
    uint32_t from;
};

/* One collective.  index[b] is the entry in which bucket b begins; one more
 * element closes the last bucket. */
struct table {
    const struct entry *entries;
    const uint32_t *index;
    const struct list *lists; /* as many as entries */
    uint32_t n_entries;
    struct octave octaves[N_OCTAVES];
};

/* The start of one block of memory, in which all lies that it points to. */
struct stp_compiled {
    const struct stp_candidate *candidates;
    size_t n_rules;
    uint64_t hash;
    unsigned reg_buff_line;
    struct table tables[NCCL_NUM_TUNED_FUNCS];
};

/* ---- lookup ---- */

static inline unsigned policy_octave_of(uint64_t n_bytes)
{
    return 63 - (unsigned)__builtin_clzll(n_bytes | 1);
}

/* The last entry that does not start above 'n_bytes'.  Few buckets hold more
 * than two: the step ahead of the loop saves the branch that would tell one
 * from two, which nothing can predict. */
static inline const struct entry *policy_find_entry(const struct table *table,
                                                    uint64_t n_bytes)
{
    unsigned e = policy_octave_of(n_bytes);
    const struct octave *octave = &table->octaves[e];
    uint64_t below = n_bytes & (((uint64_t)1 << e) - 1);
    const uint32_t *bucket =
        &table->index[octave->base + (below >> octave->shift)];
    const struct entry *entry = &table->entries[bucket[0]];
    uint32_t n = bucket[1] - bucket[0] + 1;
    uint32_t half = n / 2;

    entry += entry[half].start <= n_bytes ? half : 0;
    for (n -= half; n > 1; n -= half) {
        half = n / 2;
        entry += entry[half].start <= n_bytes ? half : 0;
    }
    return entry;
}

/* A cost that is not a number is not at least 0. */
static inline bool policy_candidate_is_allowed(const struct stp_cost_view *view,
                                               int algo, int proto)
{
    return algo < view->n_algo && proto < view->n_proto &&
           view->cost[algo * view->n_proto + proto] >= 0;
}

static bool policy_search_list(const struct stp_candidate *c,
                               const struct stp_candidate *end,
                               const struct stp_query *query,
                               const struct stp_cost_view *view,
                               struct stp_choice *choice_ret)
{
    for (; c < end; c++) {
        if ((c->n_pipe_ops != -1 && c->n_pipe_ops != query->n_pipe_ops) ||
            (c->reg_buff != -1 && c->reg_buff != query->reg_buff) ||
            !policy_candidate_is_allowed(view, c->algo, c->proto))
            continue;
        choice_ret->algo = c->algo;
        choice_ret->proto = c->proto;
        choice_ret->n_channels = c->n_channels;
        choice_ret->chunk_bytes = c->chunk_bytes;
        choice_ret->line = c->line;
        return true;
    }
    return false;
}

bool stp_compiled_lookup(const struct stp_compiled *compiled,
                         const struct stp_query *query,
                         const struct stp_cost_view *view,
                         struct stp_choice *choice_ret)
{
    const struct stp_candidate *from;
    const struct table *table;
    const struct entry *entry;
    const struct list *list;

    if ((unsigned)query->coll >= NCCL_NUM_TUNED_FUNCS)
        return false;
    table = &compiled->tables[query->coll];
    entry = policy_find_entry(table, query->n_bytes);
    if (entry->is_plain &&
        (entry->reg_buff == ANY_REG_BUFF ||
         (int)entry->reg_buff == query->reg_buff) &&
        policy_candidate_is_allowed(view, entry->algo, entry->proto)) {
        choice_ret->algo = entry->algo;
        choice_ret->proto = entry->proto;
        choice_ret->n_channels = entry->n_channels;
        choice_ret->chunk_bytes = (uint32_t)entry->chunk_kib << 10;
        choice_ret->line = entry->line;
        return true;
    }
    if (!entry->has_list)
        return false;
    list = &table->lists[entry - table->entries];
    from = &compiled->candidates[list->from];
    return policy_search_list(from, from + list->n, query, view, choice_ret);
}

uint64_t stp_compiled_next_break(const struct stp_compiled *compiled, int coll,
                                 uint64_t n_bytes)
{
    const struct table *table;
    const struct entry *next;

    if ((unsigned)coll >= NCCL_NUM_TUNED_FUNCS)
        return UINT64_MAX;
    table = &compiled->tables[coll];
    next = policy_find_entry(table, n_bytes) + 1;
    if (next == table->entries + table->n_entries)
        return UINT64_MAX;
    return next->start;
}

uint64_t stp_compiled_hash(const struct stp_compiled *compiled)
{
    return compiled->hash;
}

unsigned stp_compiled_reg_buff_line(const struct stp_compiled *compiled)
{
    return compiled->reg_buff_line;
}

size_t stp_compiled_size(const struct stp_compiled *compiled)
{
    return compiled->n_rules;
}

void stp_compiled_free(struct stp_compiled *compiled)
{
    free(compiled);
}

/* ---- index ---- */

static uint32_t policy_n_buckets(const struct octave *octave, unsigned e)
{
    return (uint32_t)1 << (e - octave->shift);
}

/* Cuts up the octaves for the segments that start in them, and returns the
 * number of elements in the index. */
static uint32_t policy_plan_index(struct table *table,
                                  const struct stp_segment *at)
{
    unsigned spare = table->n_entries <= MAX_ROOMY ? 1 : 0;
    uint32_t n_starts[N_OCTAVES] = {0};
    uint32_t n = 0;

    for (uint32_t i = 0; i < table->n_entries; i++)
        n_starts[policy_octave_of(at[i].start)]++;
    for (unsigned e = 0; e < N_OCTAVES; e++) {
        const unsigned length =
            n_starts[e] == 0 ? 0 : 32 - (unsigned)__builtin_clz(n_starts[e]);
        const unsigned bits = length + spare;

        table->octaves[e].base = n;
        table->octaves[e].shift = bits < e ? e - bits : 0;
        n += policy_n_buckets(&table->octaves[e], e);
    }
    return n + 1;
}

static void policy_fill_index(const struct table *table, uint32_t *index)
{
    uint32_t entry = 0;

    for (unsigned e = 0; e < N_OCTAVES; e++) {
        const struct octave *octave = &table->octaves[e];
        uint64_t start = e > 0 ? (uint64_t)1 << e : 0;

        for (uint32_t i = 0; i < policy_n_buckets(octave, e); i++) {
            uint64_t first = start + ((uint64_t)i << octave->shift);

            while (entry + 1 < table->n_entries &&
                   table->entries[entry + 1].start <= first)
                entry++;
            *index++ = entry;
        }
    }
    *index = table->n_entries - 1;
}

/* ---- compile ---- */

static size_t policy_round_up(size_t n)
{
    return (n + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

/* Takes room for 'n_bytes' off the block. */
static void *policy_take_memory(char **block, size_t n_bytes)
{
    void *room = *block;

    *block += policy_round_up(n_bytes);
    return room;
}

static void policy_fill_table(struct table *table, uint32_t n_index,
                              const struct stp_segments *from, uint32_t begin,
                              char **block)
{
    uint32_t n = table->n_entries;
    struct entry *entries = policy_take_memory(block, n * sizeof(*entries));
    struct list *lists = policy_take_memory(block, n * sizeof(*lists));
    uint32_t *index = policy_take_memory(block, n_index * sizeof(*index));

    for (uint32_t i = 0; i < n; i++) {
        const struct stp_segment *segment = &from->at[begin + i];

        const struct stp_candidate *first = &from->candidates[segment->from];
        struct entry *e = &entries[i];

        *e =
            (struct entry){.start = segment->start, .has_list = segment->n > 0};
        if (segment->n > 0 && first->n_pipe_ops == -1 &&
            first->chunk_bytes % 1024 == 0) {
            e->has_list = segment->n > 1;
            e->is_plain = 1;
            e->line = first->line;
            e->algo = first->algo & 7;
            e->proto = first->proto & 3;
            e->n_channels = first->n_channels & 127;
            e->reg_buff =
                first->reg_buff < 0 ? ANY_REG_BUFF : first->reg_buff & 1;
            e->chunk_kib = first->chunk_bytes >> 10 & 32767;
        }
        lists[i] = (struct list){.n = segment->n, .from = segment->from};
    }
    table->entries = entries;
    table->lists = lists;
    policy_fill_index(table, index);
    table->index = index;
}

static uint64_t policy_hash_segments(const struct stp_segments *from)
{
    uint64_t hash = 0;

    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        hash = stp_hash(hash, from->begin[c + 1] - from->begin[c]);
        for (uint32_t i = from->begin[c]; i < from->begin[c + 1]; i++) {
            const struct stp_segment *segment = &from->at[i];

            hash = stp_hash(stp_hash(hash, segment->start), segment->n);
            for (uint32_t k = 0; k < segment->n; k++) {
                const struct stp_candidate *a =
                    &from->candidates[segment->from + k];

                hash = stp_hash(hash, (uint64_t)a->chunk_bytes << 32 |
                                          (uint64_t)a->algo << 24 |
                                          (uint64_t)a->proto << 16 |
                                          (uint64_t)a->n_channels << 8 |
                                          (uint64_t)(a->reg_buff + 1));
                hash = stp_hash(hash, (uint32_t)a->n_pipe_ops);
            }
        }
    }
    return hash != 0 ? hash : 1;
}

static struct stp_compiled *policy_pack_tables(const struct stp_segments *from)
{
    struct stp_compiled plan = {.n_rules = from->n_rules,
                                .hash = policy_hash_segments(from)};
    struct stp_compiled *compiled;
    size_t candidates_size = from->n_candidates * sizeof(*from->candidates);
    size_t size =
        policy_round_up(sizeof(plan)) + policy_round_up(candidates_size);
    uint32_t n_index[NCCL_NUM_TUNED_FUNCS];
    char *block;

    for (size_t i = 0; i < from->n_candidates; i++) {
        const struct stp_candidate *a = &from->candidates[i];

        if (a->reg_buff != -1 &&
            (plan.reg_buff_line == 0 || a->line < plan.reg_buff_line))
            plan.reg_buff_line = a->line;
    }
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++) {
        struct table *table = &plan.tables[c];

        table->n_entries = from->begin[c + 1] - from->begin[c];
        n_index[c] = policy_plan_index(table, &from->at[from->begin[c]]);
        size += policy_round_up(table->n_entries * sizeof(struct entry)) +
                policy_round_up(table->n_entries * sizeof(struct list)) +
                policy_round_up(n_index[c] * sizeof(uint32_t));
    }
    block = aligned_alloc(CACHE_LINE, size);
    if (block == NULL)
        return NULL;
    compiled = policy_take_memory(&block, sizeof(*compiled));
    *compiled = plan;
    for (int c = 0; c < NCCL_NUM_TUNED_FUNCS; c++)
        policy_fill_table(&compiled->tables[c], n_index[c], from,
                          from->begin[c], &block);
    compiled->candidates = memcpy(policy_take_memory(&block, candidates_size),
                                  from->candidates, candidates_size);
    return compiled;
}

enum stp_status stp_policy_compile(const struct stp_policy *policy,
                                   const struct stp_shape *shape,
                                   struct stp_compiled **compiled_ret,
                                   struct stp_error *err)
{
    struct stp_segments segments;
    struct stp_compiled *compiled;

    STP_TRY(stp_sweep(policy, shape, &segments, err));
    compiled = policy_pack_tables(&segments);
    stp_segments_free(&segments);
    if (compiled == NULL)
        return stp_nomem(err);
    *compiled_ret = compiled;
    return STP_OK;
}
