/*
 * board.h - the words in shared memory from which ranks read what is decided,
 * and the steps by which they do
 *
 * An epoch is decided by the compare-and-swap that moves 'head' to it, hence
 * once.  A head says its epoch, the decision, whether all is frozen, and the
 * parity of the last wish that was taken.
 *
 * - Before a rank decides epoch n it sees to it that the ring has the head of
 *   n-1, so whoever finds the head beyond its own epoch finds that one in the
 *   ring.
 * - A slot is overwritten only after an epoch was decided that needs it, and
 *   that is only decided when every rank says in 'progress' that it has done
 *   with what the slot holds; otherwise all is frozen from that epoch on, which
 *   is a decision as others are.  'floor' is not above any rank's progress, and
 *   saves asking all of them each time.
 * - A wish waits if its parity is not head's.  Taking it is moving head to its
 *   parity: the same compare-and-swap, hence once.  A new one is put only where
 *   none waits, so the wish that a rank read while head was what it expects
 *   head to be still is the one that waits when it succeeds.
 * - No step waits or is tried again: a rank that fails to move head does so
 *   because another moved it.
 *
 * Epochs are 31 bits wide and wrap; ranks are never further apart than the
 * ring is long.
 *
 * Each step touches shared memory at most once, so that a test which runs
 * ranks step by step, in any order, sees all that can happen.
 */
#ifndef STP_BOARD_H
#define STP_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STP_BOARD_SLOTS = 1024, STP_BOARD_RANKS = 1024 };

#define STP_BOARD_DECISION UINT64_C(0x7fffffff)
#define STP_BOARD_FROZEN   (UINT64_C(1) << 31)
#define STP_BOARD_PARITY   (UINT64_C(1) << 32)
#define STP_BOARD_EPOCHS   UINT32_C(0x7fffffff) /* the largest */

/* A word on a cache line of its own. */
struct stp_board_line {
    uint64_t word;
    uint64_t unused[7];
};

/* All zero at first; changed by stp_turn_step() alone. */
struct stp_board {
    struct stp_board_line
        head; /* {epoch:31, parity:1, frozen:1, decision:31} */
    struct stp_board_line wish;  /* {sequence:32, decision:32} */
    struct stp_board_line floor; /* an epoch */
    uint64_t ring[STP_BOARD_SLOTS];
    struct stp_board_line progress[STP_BOARD_RANKS]; /* epochs; the last is that
                                                        of the last rank */
};

/* How much of a board 'n_ranks' need. */
size_t stp_board_bytes(size_t n_ranks);

/* One rank's affairs; what has no comment is the steps' own. */
struct stp_turn {
    uint32_t rank;     /* below n_ranks */
    uint32_t n_ranks;  /* 1 to STP_BOARD_RANKS */
    uint32_t n_slots;  /* of the ring: a power of two to STP_BOARD_SLOTS */
    uint32_t epoch;    /* that it came to last, 0 at first */
    uint32_t decision; /* for that epoch; or to be put as a wish */
    bool is_frozen;    /* from that epoch on */
    bool is_put;       /* the wish is in the mailbox */

    uint32_t stage;
    uint32_t i;
    uint32_t lag;
    uint64_t head;
    uint64_t old;
    uint64_t next;
};

/* Sets out for the next epoch. */
void stp_turn_advance(struct stp_turn *turn);

/* Sets out to put a wish, 'decision', where none waits. */
void stp_turn_wish(struct stp_turn *turn, uint32_t decision);

/* One step; false when there is none left. */
bool stp_turn_step(struct stp_turn *turn, struct stp_board *board);

/* Whether the last wish that was put was not taken. */
bool stp_board_is_waiting(const struct stp_board *board);

#endif /* STP_BOARD_H */
