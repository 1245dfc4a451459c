#include "plugin/online/recent.h"

/* A decision: bytes in 43 bits, 3 of the collective, 7 of the key, 3 and 2 of
 * algorithm and protocol (0: NCCL's own choice), 5 of the arm, and a 1. */
static uint64_t recent_word(const struct stp_observed_call *call,
                            const struct stp_query *query)
{
    return query->n_bytes << 21 | ((uint64_t)query->coll & 7) << 18 |
           (uint64_t)call->key << 11 | (uint64_t)(call->arm.algo + 1) << 8 |
           ((uint64_t)call->arm.proto & 3) << 6 | (uint64_t)call->index << 1 |
           1;
}

/* NCCL asks about all of a group, then launches it.  A question from before
 * that is not launched by then never will be: it was simulated or captured, or
 * the profiler was off. */
void stp_recent_ask(struct stp_recent *recent,
                    const struct stp_observed_call *call,
                    const struct stp_query *query)
{
    unsigned at = atomic_load_explicit(&recent->n, memory_order_relaxed);

    if (atomic_load_explicit(&recent->is_launching, memory_order_relaxed)) {
        atomic_store_explicit(&recent->is_launching, false,
                              memory_order_relaxed);
        atomic_store_explicit(&recent->first, at, memory_order_relaxed);
    }
    atomic_store_explicit(&recent->words[at % STP_RECENT_QUESTIONS],
                          recent_word(call, query), memory_order_relaxed);
    atomic_store_explicit(&recent->n, at + 1, memory_order_release);
}

void stp_recent_skip(struct stp_recent *recent)
{
    if (!atomic_load_explicit(&recent->is_launching, memory_order_relaxed))
        atomic_store_explicit(&recent->is_launching, true,
                              memory_order_relaxed);
}

/* 8 bits each of the algorithm that runs, the key, the channels and the arm. */
static uint32_t recent_token(uint64_t word, const struct stp_launch *launch)
{
    return (uint32_t)(launch->algo & 0xff) << 24 |
           (uint32_t)(word >> 11 & 0x7f) << 16 |
           (uint32_t)(launch->n_channels & 0xff) << 8 |
           (uint32_t)(word >> 1 & 0x1f);
}

/* How well a decision fits a launch: 0 not at all, for another message or
 * because NCCL need not follow; 2 if the arm's pair is launched. */
static int recent_fit(uint64_t word, const struct stp_launch *launch)
{
    bool is_own = (word >> 8 & 7) == 0;

    if (word == 0 ||
        word >> 18 != (launch->n_bytes << 3 | ((uint64_t)launch->coll & 7)))
        return 0;
    if (is_own)
        return 1;
    return (int)(word >> 8 & 7) - 1 == launch->algo &&
                   (int)(word >> 6 & 3) == launch->proto
               ? 2
               : 0;
}

/* Takes the oldest of the best fits.  Each is for one launch. */
bool stp_recent_launched(struct stp_recent *recent,
                         const struct stp_launch *launch, uint32_t *token_ret)
{
    unsigned end = atomic_load_explicit(&recent->n, memory_order_acquire);
    unsigned i = atomic_load_explicit(&recent->first, memory_order_relaxed);
    unsigned at = 0;
    uint64_t found = 0;

    atomic_store_explicit(&recent->is_launching, true, memory_order_relaxed);
    if (end - i > STP_RECENT_QUESTIONS)
        i = end - STP_RECENT_QUESTIONS;
    for (; i != end; i++) {
        uint64_t word = atomic_load_explicit(
            &recent->words[i % STP_RECENT_QUESTIONS], memory_order_relaxed);

        if (recent_fit(word, launch) > recent_fit(found, launch)) {
            found = word;
            at = i % STP_RECENT_QUESTIONS;
        }
    }
    if (found == 0)
        return false;
    *token_ret = recent_token(found, launch);
    return atomic_compare_exchange_strong(&recent->words[at], &found, 0);
}
