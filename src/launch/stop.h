/*
 * stop.h - the wish to stop, by SIGINT or SIGTERM
 *
 * The first is kept until whoever works looks; a second one ends the process at
 * once.  Who sends to a whole group sends to a launcher and its processes,
 * which then get the launcher's as well: that is no second one, in whatever
 * order and by whatever threads they are taken.
 */
#ifndef STP_STOP_H
#define STP_STOP_H

#include <stdbool.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* From here on this process stops so; there was no wish yet. */
void stp_stop_begin(void);

/* Whether there is a wish since stp_stop_begin().  Any thread. */
bool stp_stop_wished(void);

/* For a launcher: sends on the signal 'number' that it got, the 'nth' of them,
 * from 1.  With sigqueue(), so that the process can tell (si_code SI_QUEUE). */
void stp_stop_pass_on(pid_t process, int number, unsigned nth);

#ifdef __cplusplus
}
#endif
#endif /* STP_STOP_H */
