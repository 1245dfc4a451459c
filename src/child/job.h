/* job.h - runs a user's command as a job, and awaits its end
 *
 * Requests to stop this process, and other signals, go to the job, which
 * decides what to make of them: this process reports afterwards. They stay
 * blocked here from the first job on, but for a hangup that is ignored. A job
 * with an output of its own is killed STP_JOB_STOP_MS after such a request, and
 * all that it started ends with it. Where this process is killed, a command
 * gets SIGTERM, and a body is killed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/status.h"

/* Blocks them already, and SIGPIPE, for a process that makes files for its job:
 * what comes before the job begins goes to the job. */
void stp_job_hold_signals(void);

/* Whether this process has the variable, and it is not empty. */
bool stp_job_has(const char *name);

struct stp_job_variable {
    const char *name;
    const char *value; /* NULL: it is not set */
};

/* Sets variables in this process, which the jobs that it starts inherit.
 * STP_ERR_NOMEM. */
enum stp_status stp_job_set(const struct stp_job_variable *variables, size_t n,
                            struct stp_error *err);

/* As shells have it. */
enum { STP_JOB_NOT_RUN = 126, STP_JOB_NOT_FOUND = 127, STP_JOB_SIGNAL = 128 };

struct stp_job {
    char **argv;             /* the command; NULL behind the last */
    int (*body)(void *user); /* what a child of this process does, and its exit
                                status, where there is no 'argv'; a request to
                                stop kills it */
    const struct stp_job_variable *variables; /* of the job alone */
    size_t n_variables;
    const char *output; /* the file that gets what it prints, while its input is
                           empty and it runs in a process group of its own;
                           NULL: all of that is this process's */
    bool is_whole;    /* without one: a signal that a process sends to this one
                         goes to the job, then to what that leaves behind, which
                         is killed after STP_JOB_GRACE_S */
    bool is_aside;    /* without one, what it prints goes to standard error */
    unsigned limit_s; /* after so long it is sent SIGTERM; 0: no limit */
    bool (*goes_on)(void *user); /* called each second until the job is to end,
                                    as false says, or the limit; or NULL */
    void *user;
    /* NULL, or is told what is still there STP_JOB_SAY_S after the job was
     * asked to end: the job, then what that left behind. */
    int (*say)(const char *fmt, ...);
};

/* Writes the command in one printable line, as one types it into a shell: words
 * that need quotes have them, $'' where they have control characters.  Cut if
 * it is longer. */
enum { STP_JOB_COMMAND = 4000 /* STP_MAX_LINE holds it in a comment */ };
void stp_job_print_command(char *const *argv, char text[STP_JOB_COMMAND]);

/* A file as one of these words. */
#define STP_JOB_WORD(file) stp_job_word(file, (char[STP_JOB_COMMAND]){0})
const char *stp_job_word(const char *file, char text[STP_JOB_COMMAND]);

struct stp_job_end {
    int status;      /* as a shell has it */
    double wall_s;   /* from its start to its end */
    int signal;      /* the last one that asked this process to stop; 0: none */
    bool is_limited; /* the limit ended it, or goes_on() */
};

/* Runs the job and awaits its end.  Once the limit is reached, and the job is
 * there STP_JOB_GRACE_S later, it is killed.
 *
 * STP_ERR_IO if the output cannot be written, STP_ERR_DEVICE if no process can
 * be started; and STP_ERR_NOTHING if the command cannot be run: then the end
 * has STP_JOB_NOT_RUN or STP_JOB_NOT_FOUND.  On the first two *end_ret is
 * untouched. */
enum {
    STP_JOB_GRACE_S = 40, /* torchrun gives its workers 30 */
    STP_JOB_SAY_S = 5,
    STP_JOB_STOP_MS = 700,
    STP_JOB_OUTPUT = 1 << 30, /* bytes that a caller's goes_on() allows */
};
enum stp_status stp_job_run(const struct stp_job *job,
                            struct stp_job_end *end_ret, struct stp_error *err);
