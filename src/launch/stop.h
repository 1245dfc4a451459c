/*
 * stop.h - requests to stop, by SIGINT or SIGTERM
 *
 * The first request is kept until the running command looks at it; a second one
 * ends the process at once.  One request may come as several signals: a signal
 * to a process group reaches a launcher and its processes, which then get the
 * launcher's as well, and timeout(1) signals a process and its group.  So a
 * signal within STP_STOP_SAME_MS of the first is no second request, unless it
 * comes from a terminal, which sends once.
 */
#ifndef STP_STOP_H
#define STP_STOP_H

#include <stdbool.h>

enum { STP_STOP_SAME_MS = 1000 };

/* Installs the handlers, and forgets earlier requests. */
void stp_stop_begin(void);

/* Whether a request has come since stp_stop_begin().  For any thread. */
bool stp_stop_wished(void);

#endif /* STP_STOP_H */
