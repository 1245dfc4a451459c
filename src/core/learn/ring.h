/*
 * ring.h - notes from the thread that launches to the thread that learns
 *
 * One thread puts, one takes; neither waits.  When the ring is full, notes are
 * lost: the taker must not assume that it saw all.
 */
#ifndef STP_RING_H
#define STP_RING_H

#include <stdbool.h>
#include <stdint.h>

enum {
    STP_RING_SIZE = 1024, /* a power of two */
    STP_RING_SPARE = 16,  /* of it, that calls leave to other notes */
};

enum stp_note_kind {
    STP_NOTE_CALL,  /* of 'key', at t_ns on the host's clock */
    STP_NOTE_BEGAN, /* 'arm' of 'key' is in force for the calls that follow */
    STP_NOTE_RAN,   /* a collective with 'arm' was over at t_ns on the GPU's */
    STP_NOTE_TOOK,  /* a collective that ran with 'arm': us on the GPU, or its
                       per-function sequence number */
};

struct stp_note {
    uint8_t kind; /* enum stp_note_kind */
    uint8_t key;
    uint8_t arm;
    uint8_t n_channels; /* of STP_NOTE_TOOK, as what follows */
    int8_t algo;        /* of the run */
    union {
        uint64_t t_ns;
        uint64_t number;
        double us;
    };
};

struct stp_ring; /* opaque: it holds atomics, which C++ cannot read */

struct stp_ring *stp_ring_new(void); /* NULL: out of memory */
void stp_ring_free(struct stp_ring *ring);

/* False if it is full; to a call it is so STP_RING_SPARE notes earlier. */
bool stp_ring_put(struct stp_ring *ring, const struct stp_note *note);

/* False if it is empty. */
bool stp_ring_take(struct stp_ring *ring, struct stp_note *note_ret);

#endif /* STP_RING_H */
