/* board.h - the words in shared memory that hold a communicator's decisions,
 * and the steps by which its ranks read and extend them
 *
 * An epoch is decided by the compare-and-swap that moves 'head' to it, hence
 * once.  A head holds its epoch, the decision, whether the board is frozen, and
 * the parity of the last proposal that was taken.
 *
 * - Before a rank decides epoch n it ensures that the ring holds the head of
 *   n-1, so a rank that finds the head beyond its own epoch finds its epoch in
 *   the ring.
 * - A slot is overwritten only after an epoch was decided that needs it, and
 *   that epoch is only decided when every rank's 'progress' is past the slot's
 *   contents.  Otherwise the board is frozen from that epoch on, which is a
 *   decision as others are.  'floor' is not above any rank's progress, and
 *   saves reading all of them each time.
 * - A proposal is pending if its parity is not head's.  The compare-and-swap
 *   that moves head to its parity takes it, hence once.  A new proposal is put
 *   only where none is pending, so the proposal that a rank read while head was
 *   the value it expects is the pending one when the swap succeeds.
 * - No access waits or is repeated: a rank that fails to move head does so
 *   because another rank moved it.
 *
 * Epochs are 31 bits wide and wrap; ranks are never further apart than the
 * ring is long.
 *
 * Each access touches shared memory at most once, so that a test that runs
 * ranks access by access, in any order, sees every possible outcome. */
#pragma once

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

/* All zero at first; changed by stp_board_access() alone. */
struct stp_board {
    struct stp_board_line
        head; /* {epoch:31, parity:1, frozen:1, decision:31} */
    struct stp_board_line proposal; /* {sequence:32, decision:32} */
    struct stp_board_line floor;    /* an epoch */
    uint64_t ring[STP_BOARD_SLOTS];
    struct stp_board_line progress[STP_BOARD_RANKS]; /* epochs; the memory ends
                                                        with the last rank's */
};

/* The bytes that a board of 'n_ranks' needs. */
size_t stp_board_bytes(size_t n_ranks);

/* One rank's step; members without a comment belong to board.c. */
struct stp_board_step {
    uint32_t rank;     /* below n_ranks */
    uint32_t n_ranks;  /* 1 to STP_BOARD_RANKS */
    uint32_t n_slots;  /* of the ring: a power of two to STP_BOARD_SLOTS */
    uint32_t epoch;    /* the rank's last, 0 at first */
    uint32_t decision; /* for that epoch; or the proposal */
    bool is_frozen;    /* from that epoch on */
    bool is_put;       /* the proposal is on the board */

    uint32_t stage;
    uint32_t i;
    uint32_t lag;
    uint64_t head;
    uint64_t old;
    uint64_t next;
};

/* Begins the step to the next epoch. */
void stp_board_begin_epoch(struct stp_board_step *step);

/* Begins the step that puts the proposal 'decision' if none is pending. */
void stp_board_begin_proposal(struct stp_board_step *step, uint32_t decision);

/* Performs one access; false after the step's last. */
bool stp_board_access(struct stp_board_step *step, struct stp_board *board);

/* Whether the last proposal was not taken yet. */
bool stp_board_is_pending(const struct stp_board *board);
