/*
 * fork.h - one run as processes forked from this one
 *
 * This process only looks after them.  It must have one thread, and nothing
 * that does not survive a fork, such as an initialised CUDA.
 */
#ifndef STP_FORK_H
#define STP_FORK_H

#include "launch/world.h"

struct stp_fork {
    unsigned n; /* processes, 1 to STP_MAX_PROCESSES */

    /*
     * What each of them does, in a world named "fork" whose local ranks are its
     * ranks; that is closed afterwards.  Returns the exit status.  Whoever
     * returns another than 0 has said why, or knows that another one does:
     * nobody adds a word.
     */
    int (*body)(void *user, const struct stp_world *world);
    void *user; /* as it is at the fork */

    /* Once one has failed: how long the others may go on, to say what they know
     * of it, before SIGTERM, and how long from there to SIGKILL.  0: 1000 and
     * 2000. */
    unsigned moment_ms, term_ms;
};

/*
 * Runs the processes and waits until the last is gone.  One has failed when its
 * body returns another status than 0, and when it ends otherwise.
 *
 * STP_OK: the bodies have said what there is to say; *exit_ret is what rank 0's
 * returned, or if that is 0 or it did not return, the first other status than 0
 * of a body.  STP_ERR_DEVICE: one ended otherwise, and *err says which and how:
 * killed by a signal, by calling exit(), or without being able to write its
 * output.  STP_ERR_STOPPED: it was a signal that this process got, too.
 * STP_ERR_LIMIT: they could not be started.  *exit_ret is untouched on failure.
 *
 * While they run, this process passes SIGINT, SIGTERM and SIGHUP on, but what a
 * terminal sends to all anyway.  If it is killed, they are, too.  They end with
 * _exit(), after flushing standard I/O.
 */
enum stp_status stp_fork_run(const struct stp_fork *plan, int *exit_ret,
                             struct stp_error *err);

#endif /* STP_FORK_H */
