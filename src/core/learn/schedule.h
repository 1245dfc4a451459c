/* schedule.h - which arm each call runs on several hosts, the same on all ranks
 *
 * What a call runs depends on the rules, which all ranks compared before the
 * first decision (stp_schedule_hash()), and on the communicator's calls so far,
 * which all ranks make alike; on nothing else.  So nothing is said while the
 * job runs, and nothing can be missed.
 *
 * The schedule looks for the sequence that the calls repeat (history.h), after
 * 64 calls and, where there is none, after twice as many each time.  Then it
 * waits for the calls that are timed before all trials, and lays out rounds.
 * In a round up to four keys try an arm each, in the same 8 blocks of 4 windows
 * (trial.h): all change arms together within a block, and in patterns from
 * block to block that are orthogonal, so that their gains can be told apart
 * (windows.h).  A window is the least multiple of the sequence of at least 32
 * calls, and 120 where a short sequence may hide a longer rhythm.  A round in
 * whose blocks the calls often broke the sequence is made again, after another
 * search, with two keys and shorter windows.  When each key of the sequence has
 * tried each arm, in as many passes as the rules say, the schedule has ended,
 * until it finds a sequence with keys that have not: a run of equal calls may
 * be a part of a step.
 *
 * NCCL's times of arms, its cost table, decide nothing: they have parts that a
 * rank sees for itself (NCCL_NET_OVERHEAD, NCCL_NTHREADS, early versions the
 * CPU), and NCCL itself runs well as long as the least entry is in one place.
 * The entries that it rules out are another matter: they follow from what its
 * ranks exchange and from NCCL_ALGO, NCCL_PROTO and the like, by which NCCL
 * alone would hang if they differed.  An arm that a key's first table rules out
 * is not tried.
 *
 * Pure: no clock, no environment, no I/O.  Only stp_schedule_open() allocates.
 * One thread at a time, but for the functions of a const schedule that say
 * otherwise. */
#pragma once

#include "core/learn/bandit.h"
#include "core/learn/evidence.h"
#include "core/learn/ring.h"

enum {
    STP_SCHEDULE_MATES = 4,     /* keys of a round, at most */
    STP_SCHEDULE_SAMPLES = 256, /* calls that are timed before the trials, at
                                   least */
};

struct stp_schedule_rules {
    struct stp_bandit_rules bandit; /* seed, n_passes (1 or more), min_gain and
                                       arms: without any, ring and tree, each
                                       with all protocols */
    bool same_bits;      /* nothing is tried for collectives that reduce */
    struct stp_shape of; /* the communicator's */
    /* By earlier runs: arms that gain nothing beyond doubt are not tried. Read
     * by stp_schedule_open() alone. */
    struct stp_evidence_list evidence;
};

struct stp_schedule; /* opaque */

/* Fills *schedule_ret, to be freed with stp_schedule_close(); or STP_ERR_NOMEM.
 */
enum stp_status stp_schedule_open(const struct stp_schedule_rules *rules,
                                  struct stp_schedule **schedule_ret,
                                  struct stp_error *err);
void stp_schedule_close(struct stp_schedule *schedule); /* NULL is allowed */

/* A hash of all that decides, in any thread: equal for two ranks only if they
 * run the same arms in the same calls. */
uint64_t stp_schedule_hash(const struct stp_schedule *schedule);

/* The rules with their arms, by their numbers less 1, in any thread. */
const struct stp_bandit_rules *
stp_schedule_get_rules(const struct stp_schedule *schedule);

/* Whether an arm, from 1, is to be tried for such messages; in any thread. */
bool stp_schedule_tries(const struct stp_schedule *schedule, int coll,
                        uint64_t n_bytes, unsigned arm);

/* A call, and the news that the schedule has with it. */
struct stp_schedule_turn {
    unsigned arm;  /* its number; 0: what runs anyway */
    bool is_timed; /* a window begins with it, or the last one ended before */
    enum stp_note_kind news; /* STP_NOTE_NONE, or what an observer is to note:
                                WINDOW, TRIAL of a round, BROKE or ENDED */
};

/* Counts the next call, of key 'key': keys are numbered as they appear, and
 * STP_BANDIT_KEYS is none.  'allowed' has a bit an arm, the first in the
 * lowest: those that NCCL allows; that of a key's first call counts. */
struct stp_schedule_turn stp_schedule_call(struct stp_schedule *schedule,
                                           unsigned key, int coll,
                                           uint64_t n_bytes, uint32_t allowed);

/* The calls until the next that is timed, 0: the next call; UINT32_MAX outside
 * of rounds. */
uint32_t stp_schedule_next_timed(const struct stp_schedule *schedule);

/* A round, from the call that brought news of it on. */
struct stp_schedule_round {
    uint64_t first_call;
    unsigned n_calls;  /* of a window */
    unsigned sequence; /* calls */
    unsigned n;
    struct {
        unsigned key;
        unsigned arm;
        unsigned pattern; /* struct stp_trial's */
    } mates[STP_SCHEDULE_MATES];
};
const struct stp_schedule_round *
stp_schedule_get_round(const struct stp_schedule *schedule);
