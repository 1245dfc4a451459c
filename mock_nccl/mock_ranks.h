/*
 * mock_ranks.h - all ranks of a communicator, playing one script
 *
 * NCCL compares nothing between ranks, and hangs if they choose differently.
 * Here every collective of every rank is compared with that of the rank that
 * came to it first.
 */
#ifndef MOCK_RANKS_H
#define MOCK_RANKS_H

#include "mock_nccl.h"

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mock_ranks; /* opaque */

/* Where the ranks live. */
enum mock_layout {
    MOCK_ONE_THREAD, /* all in one thread, which is the caller's */
    MOCK_THREADS,    /* in one process, a thread each */
    MOCK_PROCESSES,  /* a process each, forked from the caller's */
};

struct mock_ranks_options {
    enum mock_layout layout;
    uint64_t comm_id; /* as mock_comm_create() takes it */

    /* All inits at the same time, a thread or process each, as
     * ncclCommInitAll() and grouped inits have it even for one thread.  Else
     * one after the other, in rank order. */
    bool at_once;

    /* NULL, or: called before each rank's init, in the rank's own thread or
     * process; what it does to the environment holds for that init.  Not with
     * 'at_once' unless the ranks are processes. */
    void (*before_init)(void *user, int rank);
    void *user;
};

/*
 * A communicator with all its ranks, as many as the machine has GPUs.  'nccl'
 * and 'machine' must outlive it.  Errors as mock_comm_create(), naming the
 * rank; *ranks_ret is untouched then.
 *
 * A process a rank needs a caller without other threads, and an 'nccl' that has
 * not loaded its tuner yet: each process then loads its own.  What a process
 * logs does not reach mock_set_log()'s sink of the caller.
 */
ncclResult_t mock_ranks_create(struct mock_nccl *nccl,
                               const struct mock_machine *machine,
                               const struct mock_ranks_options *options,
                               struct mock_ranks **ranks_ret);

/*
 * Children, in the same threads or processes; to be destroyed before or after
 * their parent, in any order.  All ranks of the parent call ncclCommSplit():
 * the first ones, as many as 'machine' has GPUs, with 'color', the rest with
 * NCCL_SPLIT_NOCOLOR.
 */
ncclResult_t mock_ranks_split(struct mock_ranks *parent,
                              const struct mock_machine *machine, int color,
                              struct mock_ranks **child_ret);
/* ncclCommShrink(), which leaves out the last ranks. */
ncclResult_t mock_ranks_shrink(struct mock_ranks *parent,
                               const struct mock_machine *machine,
                               struct mock_ranks **child_ret);

/* Finalizes in NCCL's order: rank 0, then the last down to rank 1. */
void mock_ranks_destroy(struct mock_ranks *ranks);
int mock_ranks_count(const struct mock_ranks *ranks);

/* What every rank does next: a group, or one collective. */
struct mock_step {
    const struct mock_call *calls;
    size_t n; /* >= 1 */
};

struct mock_script {
    const struct mock_step *steps;
    size_t n_steps;

    /* NULL, or: changes a call of a step for one rank, in what NCCL lets ranks
     * differ (reg_buff).  Runs in the caller's thread. */
    void (*vary)(void *user, int rank, size_t step, struct mock_call *call);

    /* NULL, or: called in the rank's own thread or process before its step: to
     * stall it, or to change what it reads.  A process has what 'user' pointed
     * to when it was forked. */
    void (*before_step)(void *user, int rank, size_t step);

    /* NULL, or: told what call 'i' of a step came to on the rank that got there
     * first.  Runs in the caller's thread. */
    void (*decided)(void *user, size_t step, size_t i,
                    const struct mock_outcome *outcome);
    void *user; /* for all three */

    /* NULL, or: a rank that ends before one of its steps.  A process is killed;
     * in a thread it takes no further part, in this play or a later one.  The
     * others play on. */
    const struct mock_death *death;

    /* All ranks run at the same time and as fast as they can, rather than in
     * turn.  For threads and processes. */
    bool at_once;
};

struct mock_death {
    int rank;
    size_t step;
};

/*
 * Plays the script on all ranks, one step of one rank after the other, in a
 * random order that 'seed' decides; each rank keeps the script's order, and may
 * run ahead of the others as far as it likes: of four seeds one gives every
 * turn to any rank, one plays the whole script rank after rank, and two are in
 * between.  Fails at the first step that a
 * rank does differently from the rank that came to it first, in algorithm,
 * protocol, channels or chunk size: the error names step, ranks and choices.
 * Also fails if a collective does, if a process ends, or if one does not come
 * back from a step within 10 s.
 */
ncclResult_t mock_ranks_play(struct mock_ranks *ranks,
                             const struct mock_script *script, uint64_t seed);

/* ---- clocks ---- */

/*
 * What clock_gettime(), gettimeofday() and time() add in this thread, in
 * nanoseconds: a tuner that decides by its own clock is caught by ranks whose
 * clocks differ.  Holds for code that resolves these symbols in a program that
 * links mock_nccl, plugins included; back to 0 after each step of
 * mock_ranks_play().
 */
void mock_clock_shift(int64_t ns);

/*
 * What these functions tell in this thread instead, in nanoseconds and without
 * moving: virtual time, whatever the clock's beginning is.  Below 0 the
 * machine's clocks are back.  mock_clock_shift() adds to it.
 */
void mock_clock_set(int64_t ns);

#ifdef __cplusplus
}
#endif
#endif /* MOCK_RANKS_H */
