#include "agree/times.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "agree/segment.h"

/* 0 is of no collective.  It is written last, and is 0 while the others are
 * written: who reads it twice alike has read what belongs to it. */
struct slot {
    _Atomic uint64_t id;
    _Atomic uint64_t begin_ns;
    _Atomic uint64_t end_ns;
    uint64_t unused;
};

struct stp_times {
    struct stp_segment *segment;
    size_t n_ranks;
    uint32_t row;
    struct slot (*rows)[STP_TIMES_SLOTS];
};

enum stp_status stp_times_join(uint64_t comm_id, size_t n_ranks,
                               struct stp_times **times_ret,
                               struct stp_error *err)
{
    const struct stp_segment_key key = {.suffix = "-times",
                                        .comm_id = comm_id,
                                        .n_ranks = n_ranks,
                                        .n_bytes = n_ranks * STP_TIMES_SLOTS *
                                                   sizeof(struct slot)};
    struct stp_times *t = calloc(1, sizeof(*t));
    enum stp_status status;

    if (t == NULL)
        return stp_nomem(err);
    status = stp_segment_join(&key, 1, &t->segment, &t->row, err);
    if (status != STP_OK) {
        free(t);
        return status;
    }
    t->n_ranks = n_ranks;
    t->rows = stp_segment_memory(t->segment);
    *times_ret = t;
    return STP_OK;
}

bool stp_times_complete(const struct stp_times *times)
{
    return stp_segment_is_full(times->segment);
}

static uint64_t word_of(struct stp_times_id id)
{
    return id.number << 4 | (id.coll & 7) << 1 | 1;
}

/* Those of different functions lie apart. */
static size_t place_of(struct stp_times_id id)
{
    return (id.number + (uint64_t)id.coll * (STP_TIMES_SLOTS / 5)) %
           STP_TIMES_SLOTS;
}

void stp_times_put(struct stp_times *times, struct stp_times_id id,
                   const struct stp_rank_time *one)
{
    struct slot *slot = &times->rows[times->row][place_of(id)];

    atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
    atomic_store_explicit(&slot->begin_ns, one->begin_ns, memory_order_release);
    atomic_store_explicit(&slot->end_ns, one->end_ns, memory_order_release);
    atomic_store_explicit(&slot->id, word_of(id), memory_order_release);
}

static bool read_slot(struct slot *slot, uint64_t word,
                      struct stp_rank_time *time_ret)
{
    if (atomic_load_explicit(&slot->id, memory_order_acquire) != word)
        return false;
    time_ret->begin_ns =
        atomic_load_explicit(&slot->begin_ns, memory_order_acquire);
    time_ret->end_ns =
        atomic_load_explicit(&slot->end_ns, memory_order_acquire);
    return atomic_load_explicit(&slot->id, memory_order_relaxed) == word;
}

bool stp_times_get(const struct stp_times *times, struct stp_times_id id,
                   struct stp_rank_times *all_ret)
{
    struct stp_rank_times all = {0};

    for (size_t r = 0; r < times->n_ranks; r++) {
        struct stp_rank_time one;

        if (!read_slot(&times->rows[r][place_of(id)], word_of(id), &one))
            return false;
        stp_rank_times_add(&all, &one);
    }
    *all_ret = all;
    return true;
}

void stp_times_leave(struct stp_times *times)
{
    if (times == NULL)
        return;
    stp_segment_leave(times->segment);
    free(times);
}
