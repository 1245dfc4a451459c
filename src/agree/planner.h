/*
 * planner.h - how one host takes part in plans, on which all hosts of a
 * communicator agree through a key-value store
 *
 * One host leads: it alone proposes.  Keys of plan N, which follow
 * "plan/N/" in the store:
 *
 *   plan     struct stp_plan, of the leader
 *   acks     the ranks of all hosts that acknowledged it
 *   acked    "all" once these are all ranks, or "abort": the leader awaits it
 *   verdict  "commit" or "abort: REASON", written once, by compare-and-set
 *   known    a copy of it, which those await that acknowledged: a
 *            compare-and-set wakes nobody in PyTorch's older server
 *
 * 1. The leader puts the plan on its own board (plan_board.h), ahead of its
 *    ranks by twice the margin or more, then into the store.
 * 2. Each host puts it on its board, too.  If its ranks are not ahead by the
 *    margin, it asks for "abort"; else it adds them to 'acks'.  From now on
 *    they wait where the plan begins.
 * 3. Once all acknowledged, and while its ranks are ahead by the margin, the
 *    leader asks for "commit".  What the store then holds is the verdict.
 *
 * The leader alone asks for "commit": until it does, it may drop a plan when it
 * likes.  A host that acknowledged, and does not hear, asks for "abort"; what
 * the store then holds is the verdict, too.
 *
 * A host that acknowledged, or a leader that asked, and lost the store is in
 * doubt.  It connects again until its ranks give up waiting.  A store that has
 * no such plan any more was restarted, and has forgotten: then nobody can know.
 * A host that is not in doubt and loses the store takes part no more, so that
 * nothing is ever committed again.
 *
 * The keys of a plan are deleted once all hosts acknowledged the next, as each
 * then knows the verdict.
 *
 * Pure but for the board: no clock, no socket.  One thread at a time.
 */
#ifndef STP_PLANNER_H
#define STP_PLANNER_H

#include "agree/plan_board.h"

enum {
    STP_PLANNER_NAP_MS = 10,
    STP_PLANNER_TRIES = 8,  /* plans in a row that were dropped: the leader
                               proposes no more */
    STP_PLAN_VERDICT = 128, /* bytes */
    STP_PLANNER_WHY = 192,
};

struct stp_planner_host {
    struct stp_plan_board *board;
    size_t n_own;          /* ranks of this host */
    size_t n_ranks;        /* of the communicator */
    bool leads;            /* one host does */
    bool acknowledges;     /* all ranks of all hosts take part; else the planner
                              is over when it begins */
    unsigned timeout_ms;   /* for all to acknowledge, and for a verdict */
    unsigned margin_ms;    /* between a verdict and the plan, at least */
    unsigned margin_calls; /* likewise */
    char name[60];         /* of the host, for messages */
};

/* What the planner wants of the store, or of the clock. */
enum stp_plan_ask {
    STP_PLAN_NAP,         /* sleep for STP_PLANNER_NAP_MS */
    STP_PLAN_CONNECT,     /* again */
    STP_PLAN_SET,         /* 'value' */
    STP_PLAN_ADD,         /* 'number'; the sum */
    STP_PLAN_GET,         /* wait for 'key' for 'wait_ms', -1: for ever */
    STP_PLAN_CHECK,       /* whether 'key' is there: 0 or 1 */
    STP_PLAN_COMPARE_SET, /* 'value' if there is none; the one there is */
    STP_PLAN_DELETE,
    STP_PLAN_END, /* nothing more: it is over */
};

struct stp_plan_request {
    enum stp_plan_ask ask;
    uint64_t plan; /* whose keys */
    const char *key;
    const void *value;
    size_t size;
    uint64_t number;
    int64_t wait_ms;
};

/* Of a request that failed nothing is known; the connection is of no more use.
 */
struct stp_plan_reply {
    bool is_ok;
    const void *value; /* of GET and COMPARE_SET */
    size_t size;
    uint64_t number; /* of ADD and CHECK */
    const char *why; /* it failed */
};

struct stp_planner {
    const struct stp_planner_host *host;
    uint32_t stage; /* planner.c's */
    struct stp_plan plan;
    char verdict[STP_PLAN_VERDICT]; /* that this host asks for, or knows */
    char lost[STP_PLANNER_WHY];     /* why the last request failed */
    bool is_put;                    /* on this host's board, undecided */
    bool is_in_doubt;               /* others may know a verdict */
    uint64_t oldest;                /* plan whose keys are in the store */
    unsigned next_key;              /* of that plan, to delete */

    /* The leader's. */
    bool has_proposal;
    struct stp_plan proposal; /* 'n' and 'words' */
    unsigned epoch_calls;     /* as it was proposed */
    unsigned ahead;           /* margins from now to a plan: 2, or more after
                                 plans that came too late */
    unsigned n_dropped;       /* plans in a row */
    bool was_dropped;         /* the last plan */
    double rate;              /* epochs a millisecond, at most */
    int64_t rate_ms;          /* when it was looked for last */
    uint64_t rate_epoch;

    uint64_t n_plans[5];       /* by enum stp_plan_state */
    char why[STP_PLANNER_WHY]; /* it is over; "": hushed */
};

/* 'host' lives as long. */
void stp_planner_begin(struct stp_planner *planner,
                       const struct stp_planner_host *host);

/* The next request; 'now_ms' of any clock that does not go back. */
void stp_planner_ask(struct stp_planner *planner, int64_t now_ms,
                     struct stp_plan_request *request_ret);

/* What came of it. */
void stp_planner_take(struct stp_planner *planner,
                      const struct stp_plan_reply *reply);

/* The leader's next proposals, 1 to STP_PLAN_WORDS, taken in epochs of which
 * those before have 'epoch_calls'.  False if the last plan is not decided. */
bool stp_planner_propose(struct stp_planner *planner, const uint32_t *words,
                         size_t n, unsigned epoch_calls);

/* Whether it proposes and takes no more, nor ever will. */
bool stp_planner_is_over(const struct stp_planner *planner);

/* Ends it: the rank that speaks makes no more calls, so no rank of this host
 * will come to a plan that is not decided yet. */
void stp_planner_hush(struct stp_planner *planner);

#endif /* STP_PLANNER_H */
