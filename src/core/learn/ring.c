#include "core/learn/ring.h"

#include <stdatomic.h>
#include <stdlib.h>

/* Each end has a cache line that the other end's writes do not touch. */
struct stp_ring {
    _Alignas(64) _Atomic uint32_t n_put;
    uint32_t seen_taken; /* n_taken when the ring last seemed full */
    _Alignas(64) _Atomic uint32_t n_taken;
    _Alignas(64) struct stp_note notes[STP_RING_SIZE];
};

struct stp_ring *stp_ring_new(void)
{
    struct stp_ring *ring = aligned_alloc(64, sizeof(*ring));

    if (ring == NULL)
        return NULL;
    atomic_init(&ring->n_put, 0);
    atomic_init(&ring->n_taken, 0);
    ring->seen_taken = 0;
    return ring;
}

void stp_ring_free(struct stp_ring *ring)
{
    free(ring);
}

bool stp_ring_put(struct stp_ring *ring, const struct stp_note *note)
{
    uint32_t at = atomic_load_explicit(&ring->n_put, memory_order_relaxed);

    if (at - ring->seen_taken >= STP_RING_SIZE)
        ring->seen_taken =
            atomic_load_explicit(&ring->n_taken, memory_order_acquire);
    if (at - ring->seen_taken >= STP_RING_SIZE)
        return false;
    ring->notes[at % STP_RING_SIZE] = *note;
    atomic_store_explicit(&ring->n_put, at + 1, memory_order_release);
    return true;
}

uint32_t stp_ring_count(const struct stp_ring *ring)
{
    return atomic_load_explicit(&ring->n_put, memory_order_acquire) -
           atomic_load_explicit(&ring->n_taken, memory_order_relaxed);
}

bool stp_ring_take(struct stp_ring *ring, struct stp_note *note_ret)
{
    uint32_t at = atomic_load_explicit(&ring->n_taken, memory_order_relaxed);

    if (at == atomic_load_explicit(&ring->n_put, memory_order_acquire))
        return false;
    *note_ret = ring->notes[at % STP_RING_SIZE];
    atomic_store_explicit(&ring->n_taken, at + 1, memory_order_release);
    return true;
}
