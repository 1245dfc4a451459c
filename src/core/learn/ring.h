/* ring.h - notes from the threads that launch to the thread that learns
 *
 * One thread puts, one takes; neither waits.  When the ring is full, notes are
 * lost: the taker must not assume that it saw all. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { STP_RING_SIZE = 1024 }; /* a power of two */

enum stp_note_kind {
    STP_NOTE_NONE,
    STP_NOTE_SET,    /* 'arm' of 'key' is in force from 'call' on */
    STP_NOTE_TRIAL,  /* 'arm' of 'key', or of all keys, takes turns with the
                        incumbent from 'call' on, in 'n_blocks' blocks */
    STP_NOTE_WINDOW, /* windows have 'n_calls' calls; of a schedule, whose calls
                        repeat a 'sequence' up to 'call' */
    STP_NOTE_BROKE,  /* 'call' was not the sequence's */
    STP_NOTE_ENDED,  /* the sequence has no arm left to try */
    STP_NOTE_TIME,   /* 'call', of 'key' with 'arm', began on the GPU at t_ns */
    STP_NOTE_END,    /* 'call' ended on the GPU at t_ns */
};

struct stp_note {
    uint8_t kind; /* enum stp_note_kind */
    uint8_t key;
    uint8_t arm;
    union {
        uint8_t n_blocks;
        uint8_t n_channels; /* of STP_NOTE_TIME */
    };
    uint8_t pattern;   /* of STP_NOTE_TRIAL: struct stp_trial's */
    uint16_t sequence; /* calls */
    uint32_t n_calls;  /* of STP_NOTE_TRIAL, too */
    uint64_t call;     /* number */
    uint64_t t_ns;
    uint64_t host_ns; /* of STP_NOTE_TIME: the launch, by the host's clock; 0:
                         not known */
};

struct stp_ring; /* opaque: it holds atomics, which C++ cannot read */

struct stp_ring *stp_ring_new(void); /* NULL: out of memory */
void stp_ring_free(struct stp_ring *ring);

/* False if it is full. */
bool stp_ring_put(struct stp_ring *ring, const struct stp_note *note);

/* Notes in it; to the thread that takes, at least. */
uint32_t stp_ring_count(const struct stp_ring *ring);

/* False if it is empty. */
bool stp_ring_take(struct stp_ring *ring, struct stp_note *note_ret);
