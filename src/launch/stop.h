/*
 * stop.h - the wish to stop, by SIGINT or SIGTERM
 *
 * The first is kept until whoever works looks; a second one ends the process at
 * once.  One wish may come as several signals: who sends to a group sends to a
 * launcher and its processes, which then get the launcher's as well, and some
 * send to a process and its group, as timeout(1) does.  So what comes within
 * STP_STOP_SAME_MS of the first is no second one, but from a terminal it is: a
 * terminal sends once.
 */
#ifndef STP_STOP_H
#define STP_STOP_H

#include <stdbool.h>

enum { STP_STOP_SAME_MS = 1000 };

/* From here on this process stops so; there was no wish yet. */
void stp_stop_begin(void);

/* Whether there is a wish since stp_stop_begin().  Any thread. */
bool stp_stop_wished(void);

#endif /* STP_STOP_H */
