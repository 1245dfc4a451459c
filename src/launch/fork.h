/* fork.h - one run as processes forked from this one
 *
 * This process only supervises them.  It must have a single thread, and no
 * state that does not survive a fork, such as an initialised CUDA. */
#pragma once

#include "launch/world.h"

struct stp_fork {
    unsigned n; /* processes, 1 to STP_MAX_PROCESSES */

    /* The work of each process, in a world named "fork" whose local ranks are
     * its ranks; the world is closed afterwards.  Returns the exit status.  A
     * body that returns another one than 0 has printed the reason, or knows
     * that another process does: stp_fork_run() adds no message. */
    int (*body)(void *user, const struct stp_world *world);
    void *user; /* as it is at the fork */

    /* Time from the failure of a process to SIGTERM for the others, in which
     * they can report it, and from SIGTERM to SIGKILL.  0: 1000 and 2000. */
    unsigned moment_ms, term_ms;
};

/* Runs the processes and waits until the last is gone.  A process has failed if
 * its body returns another status than 0, or if it ends before that.
 *
 * STP_OK: all bodies have returned, or printed the reason; *exit_ret is the
 * status of rank 0's body, or if that is 0 or it did not return, the first
 * other status than 0 of a body.  STP_ERR_DEVICE: a process was killed by a
 * signal, called exit(), or could not write its output; *err says which and
 * how. STP_ERR_STOPPED: it was killed by a signal that this process got, too.
 * STP_ERR_LIMIT: they could not be started.  *exit_ret is untouched on failure.
 *
 * While they run, this process passes SIGINT, SIGTERM and SIGHUP on to them,
 * except those from a terminal, which reach all processes.  If this process is
 * killed, they are, too.  They end with
 * _exit(), after flushing standard I/O. */
enum stp_status stp_fork_run(const struct stp_fork *plan, int *exit_ret,
                             struct stp_error *err);
