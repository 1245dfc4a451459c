#include "core/learn/history.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct stp_history {
    _Atomic uint64_t n_calls;
    _Atomic uint8_t keys[STP_HISTORY_CALLS];
};

struct stp_history *stp_history_new(void)
{
    return calloc(1, sizeof(struct stp_history));
}

void stp_history_free(struct stp_history *history)
{
    free(history);
}

uint64_t stp_history_add(struct stp_history *history, uint8_t key)
{
    uint64_t n = atomic_load_explicit(&history->n_calls, memory_order_relaxed);

    atomic_store_explicit(&history->keys[n % STP_HISTORY_CALLS], key,
                          memory_order_relaxed);
    atomic_store_explicit(&history->n_calls, n + 1, memory_order_release);
    return n;
}

uint64_t stp_history_calls(const struct stp_history *history)
{
    return atomic_load_explicit(&history->n_calls, memory_order_acquire);
}

bool stp_history_copy(const struct stp_history *history, uint64_t first,
                      size_t n, uint8_t *keys_ret)
{
    if (first + n > stp_history_calls(history))
        return false;
    for (size_t i = 0; i < n; i++)
        keys_ret[i] = atomic_load_explicit(
            &history->keys[(first + i) % STP_HISTORY_CALLS],
            memory_order_relaxed);
    /* A call under way may have overwritten one more. */
    atomic_thread_fence(memory_order_acquire);
    return stp_history_calls(history) - first < STP_HISTORY_CALLS;
}

/* Counts, for each length of a sequence in turn, how many calls repeat: by the
 * repeats that shorter ones have shown (Gusfield's Z algorithm), so that all of
 * it takes some 'n' steps, on a launch path. */
size_t stp_sequence_find(const uint8_t *keys, size_t n, size_t least)
{
    size_t repeats[STP_SEQUENCE_MAX + 1]; /* calls that are p before as they
                                             are, from the last one on */
    size_t from = 0, to = 0; /* the repeats that reach farthest back */

    for (size_t p = 1; p <= STP_SEQUENCE_MAX; p++) {
        size_t needed = p * STP_SEQUENCE_REPEATS, k = 0;

        if (needed < least)
            needed = least;
        if (needed > n)
            return 0;
        if (p < to)
            k = repeats[p - from] < to - p ? repeats[p - from] : to - p;
        while (p + k < n && keys[n - 1 - k] == keys[n - 1 - p - k])
            k++;
        repeats[p] = k;
        if (p + k > to) {
            from = p;
            to = p + k;
        }
        if (p + k >= needed)
            return p;
    }
    return 0;
}

bool stp_sequence_holds(const uint8_t *keys, size_t n, size_t n_calls)
{
    return n <= n_calls || memcmp(keys + n_calls, keys, n - n_calls) == 0;
}
