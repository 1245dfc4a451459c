/* mock_ranks.h - all ranks of a communicator, which run one script
 *
 * NCCL compares nothing between ranks, and hangs if they choose differently.
 * Here every collective of every rank is compared with the same collective of
 * the rank that reached it first. */
#ifndef MOCK_RANKS_H
#define MOCK_RANKS_H

#include "mock_nccl.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mock_ranks; /* opaque */

/* The threads or processes of the ranks. */
enum mock_layout {
    MOCK_ONE_THREAD, /* all ranks in the caller's thread */
    MOCK_THREADS,    /* one process, a thread per rank */
    MOCK_PROCESSES,  /* a process per rank, forked from the caller's */
};

struct mock_ranks_options {
    enum mock_layout layout;
    uint64_t comm_id; /* commId, see mock_comm_create() */

    /* All inits run at the same time, in a thread or process per rank, as
     * ncclCommInitAll() and grouped inits do even within one thread. Otherwise
     * ranks init in order. */
    bool at_once;

    /* NULL, or a function that is called before each rank's init, in the rank's
     * own thread or process; its changes to the environment hold for that init.
     * With 'at_once' only if the ranks are processes. */
    void (*before_init)(void *user, int rank);
    void *user;
};

/* Creates a communicator with all its ranks, one per GPU of the machine. 'nccl'
 * and 'machine' must outlive it. Returns the errors of mock_comm_create(),
 * which name the rank; *ranks_ret is then untouched.
 *
 * With a process per rank the caller must have no other threads, and 'nccl'
 * must not have loaded its tuner yet: each process loads its own.
 * mock_set_log()'s sink of the caller does not receive the log of the
 * processes. */
ncclResult_t mock_ranks_create(struct mock_nccl *nccl,
                               const struct mock_machine *machine,
                               const struct mock_ranks_options *options,
                               struct mock_ranks **ranks_ret);

/* Creates a child in the same threads or processes; it can be destroyed before
 * or after its parent. All ranks of the parent call ncclCommSplit(): the first
 * ranks, as many as 'machine' has GPUs, with 'color', the rest with
 * NCCL_SPLIT_NOCOLOR. */
ncclResult_t mock_ranks_split(struct mock_ranks *parent,
                              const struct mock_machine *machine, int color,
                              struct mock_ranks **child_ret);

/* Creates the children of one ncclCommSplit() in which rank r of the parent
 * passes colors[r], or NCCL_SPLIT_NOCOLOR if that is below 0. Ranks keep their
 * order. Each color must be that of as many ranks as 'machine' has GPUs.
 * mock_ranks_play() runs a script in all the children, ranks of different
 * children in any order, and compares the ranks of each child. The parent must
 * not be such children itself. */
ncclResult_t mock_ranks_split_colors(struct mock_ranks *parent,
                                     const struct mock_machine *machine,
                                     const int *colors,
                                     struct mock_ranks **children_ret);

/* Creates a child by ncclCommShrink(), which excludes the last ranks. */
ncclResult_t mock_ranks_shrink(struct mock_ranks *parent,
                               const struct mock_machine *machine,
                               struct mock_ranks **child_ret);

/* Finalizes the ranks in NCCL's order: rank 0, then from the last to rank 1. */
void mock_ranks_destroy(struct mock_ranks *ranks);

/* A step of every rank: a group, or one collective. */
struct mock_step {
    const struct mock_call *calls;
    size_t n; /* >= 1 */
};

struct mock_script {
    const struct mock_step *steps;
    size_t n_steps;
    size_t n_apart; /* of these steps, from the first on, are no groups: their
                       collectives follow one another */

    /* NULL, or a function that changes a call of a step for one rank, in
     * attributes that may differ between ranks (reg_buff). It runs in the
     * caller's thread. */
    void (*vary)(void *user, int rank, size_t step, struct mock_call *call);

    /* NULL, or a function that runs in the rank's own thread or process before
     * its step: to delay the rank, or to change its input. A process has a copy
     * of *user from the time of its fork. */
    void (*before_step)(void *user, int rank, size_t step);

    /* NULL, or a function that runs there before each collective or group, of
     * which it receives the first call. */
    void (*before_call)(void *user, int rank, const struct mock_call *call);

    /* NULL, or a function that receives the outcome of call 'i' of a step from
     * the rank that reached it first; of several children, one from each. It
     * runs in the caller's thread. */
    void (*decided)(void *user, size_t step, size_t i,
                    const struct mock_outcome *outcome);
    void *user; /* argument of all these functions */

    /* NULL, or a rank that ends before one of its steps. A process is killed; a
     * thread takes no further part in this script and later ones. The other
     * ranks continue. */
    const struct mock_death *death;

    /* All ranks run concurrently at full speed rather than in turn. For threads
     * and processes. */
    bool at_once;
};

struct mock_death {
    int rank;
    size_t step;
};

/* Runs the script on all ranks, one step of one rank at a time, in a random
 * order that 'seed' determines; each rank keeps the script's order, and may run
 * any number of steps ahead of the others. Of four seeds one draws a rank for
 * every step, one runs the whole script rank after rank, and two are in
 * between. Fails at the first step whose algorithm, protocol, channels or chunk
 * size differ from those of the rank that reached it first: the error names
 * step, ranks and choices. Also fails if a collective fails, if a process ends,
 * or if a step takes longer than 10 s. */
ncclResult_t mock_ranks_play(struct mock_ranks *ranks,
                             const struct mock_script *script, uint64_t seed);

/* ---- clocks ---- */

/* Sets a number of nanoseconds that clock_gettime(), gettimeofday() and time()
 * add in this thread: different clocks per rank expose a tuner that decides by
 * its own clock. Affects all code of a program that links mock_nccl, plugins
 * included; each step of mock_ranks_play() resets it to 0. */
void mock_clock_shift(int64_t ns);

/* Sets a constant time in nanoseconds that these functions return in this
 * thread: virtual time, on any of their clocks. A value below 0 restores the
 * machine's clocks. mock_clock_shift() adds to it. */
void mock_clock_set(int64_t ns);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_RANKS_H */
