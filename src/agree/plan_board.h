/*
 * plan_board.h - the words in shared memory by which the ranks of one host take
 * plans, on which all hosts of a communicator agree (planner.h)
 *
 * A plan says which proposals are taken in the epochs first, first + 1 and so
 * on; in all others nothing changes.  Plans are numbered from 1, and taken in
 * that order.
 *
 * - A rank that enters an epoch says so before it looks for a plan, and a host
 *   that acknowledges a plan puts it there before it looks where its ranks are:
 *   so no rank passes the first epoch of a plan without seeing it, or the host
 *   sees the rank and refuses.
 * - A rank whose epoch is in a plan that is acknowledged and not decided waits.
 *   If it waits too long the plan is LOST for the whole host: it is not known
 *   whether others take it.
 * - A plan's slot is used again once all ranks have passed the plan.
 *
 * As in board.h each access touches shared memory once, but for words that
 * change only while no rank may read them.
 */
#ifndef STP_PLAN_BOARD_H
#define STP_PLAN_BOARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { STP_PLAN_WORDS = 32, STP_PLAN_SLOTS = 2 };

enum stp_plan_state {
    STP_PLAN_NONE,
    STP_PLAN_ACKNOWLEDGED,
    STP_PLAN_COMMITTED,
    STP_PLAN_DROPPED,
    STP_PLAN_LOST,
};

struct stp_plan {
    uint64_t number; /* from 1 */
    uint64_t first;  /* epoch; epochs count from 1 */
    uint32_t margin; /* epochs before 'first' by which it must be known */
    uint32_t n;      /* of words, 1 to STP_PLAN_WORDS */
    uint32_t words[STP_PLAN_WORDS]; /* proposals */
};

/* Changed by the functions below alone. */
struct stp_plan_slot {
    uint64_t state; /* {number:61, enum stp_plan_state:3} */
    uint64_t first;
    uint32_t n;
    uint32_t words[STP_PLAN_WORDS];
};

/* A rank's, on a cache line of its own. */
struct stp_plan_line {
    uint64_t epoch;  /* that it has entered */
    uint64_t passed; /* the last plan that it needs no more */
    uint64_t unused[6];
};

/* All zero at first. */
struct stp_plan_board {
    struct stp_plan_slot slots[STP_PLAN_SLOTS];
    struct stp_plan_line lines[]; /* of the host's ranks */
};

/* The bytes that a board of 'n_ranks' needs. */
size_t stp_plan_board_bytes(size_t n_ranks);

/* ---- a rank enters its next epoch ---- */

struct stp_plan_step {
    uint32_t rank;  /* on this host */
    uint64_t epoch; /* the rank's last, 0 at first */
    uint64_t next;  /* the plan that it looks for, less 1 */
    uint32_t word;  /* of that epoch; 0: nothing changes */
    uint32_t stage; /* plan_board.c's */
};

enum stp_plan_access {
    STP_PLAN_MORE,  /* accesses are to follow */
    STP_PLAN_DONE,  /* 'word' is known */
    STP_PLAN_DOUBT, /* it is not decided; the next access looks again */
    STP_PLAN_FAILED /* it cannot be known; for good */
};

void stp_plan_begin_epoch(struct stp_plan_step *step);
enum stp_plan_access stp_plan_access(struct stp_plan_step *step,
                                     struct stp_plan_board *board);

/* The rank waits no longer: if the plan is still not decided, it is LOST. */
void stp_plan_lose(const struct stp_plan_step *step,
                   struct stp_plan_board *board);

/* ---- for the host, one thread at a time ---- */

/* The last epoch that a rank has entered. */
uint64_t stp_plan_epoch(const struct stp_plan_board *board, size_t n_ranks);

/* Whether all ranks have passed the plan whose slot that number needs. */
bool stp_plan_has_room(const struct stp_plan_board *board, size_t n_ranks,
                       uint64_t number);

/* Whether all ranks are 'margin' epochs before the plan's first. */
bool stp_plan_is_ahead(const struct stp_plan_board *board, size_t n_ranks,
                       const struct stp_plan *plan);

/* Puts a plan, for which there is room, as acknowledged. */
void stp_plan_put(struct stp_plan_board *board, const struct stp_plan *plan);

/* Decides a plan that was put: COMMITTED, DROPPED or LOST.  Returns what it is:
 * LOST if that came before. */
enum stp_plan_state stp_plan_decide(struct stp_plan_board *board,
                                    uint64_t number, enum stp_plan_state state);

#endif /* STP_PLAN_BOARD_H */
