/* history.h - the last calls of a communicator, and the sequence they repeat
 *
 * The launch path adds the key of each call; another thread reads.  Neither
 * waits.  A training step makes the same collectives in the same order, so that
 * calls repeat: windows of a multiple of the repeating sequence hold the same
 * collectives, and their times can be compared. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STP_HISTORY_CALLS = 1 << 13, /* that are remembered */
    STP_SEQUENCE_MAX = 512,      /* calls of a sequence */
    STP_SEQUENCE_REPEATS = 3,    /* of a sequence, before it counts as one */
};

struct stp_history; /* opaque: it holds atomics, which C++ cannot read */

struct stp_history *stp_history_new(void); /* NULL: out of memory */
void stp_history_free(struct stp_history *history);

/* Adds a call; returns its number, from 0.  One thread at a time. */
uint64_t stp_history_add(struct stp_history *history, uint8_t key);

/* The calls so far. */
uint64_t stp_history_calls(const struct stp_history *history);

/* Copies the keys of 'n' calls from call 'first' on; false if not all of them
 * are there, yet or any more. */
bool stp_history_copy(const struct stp_history *history, uint64_t first,
                      size_t n, uint8_t *keys_ret);

/* The calls of the shortest sequence that the last of 'n' calls repeat, 0 if
 * there is none: at least STP_SEQUENCE_REPEATS times, over at least 'least'
 * calls.  'n' at most STP_HISTORY_CALLS. */
size_t stp_sequence_find(const uint8_t *keys, size_t n, size_t least);

/* Whether 'n' calls repeat every 'n_calls' calls throughout. */
bool stp_sequence_holds(const uint8_t *keys, size_t n, size_t n_calls);
