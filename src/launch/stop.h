/* stop.h - requests to stop, by SIGINT, SIGTERM or SIGHUP
 *
 * The first request is kept until the running command looks at it; a second one
 * ends the process at once.  One request may come as several signals: a signal
 * to a process group reaches a launcher and its processes, which then get the
 * launcher's as well, and timeout(1) signals a process and its group.  So a
 * signal within STP_STOP_SAME_MS of the first is no second request, unless it
 * comes from a terminal, which sends once; SIGHUP comes from a terminal that is
 * closed after its shell has sent it, too.
 *
 * A signal that ends the process removes its temporary files first. */
#pragma once

#include <stdbool.h>

enum { STP_STOP_SAME_MS = 1000 };

/* Installs the handlers, and forgets earlier requests.  SIGHUP stays ignored
 * where it is, as under nohup. */
void stp_stop_begin(void);

/* Whether a request has come since stp_stop_begin().  For any thread. */
bool stp_stop_requested(void);

/* Marks the file 'path' as temporary: a signal that ends this process, in
 * whatever command, removes it. Files beyond STP_STOP_FILES at a time, and
 * paths longer than PATH_MAX, are left where they are. */
enum { STP_STOP_FILES = 16 };
void stp_stop_remember_file(const char *path);

/* Removes those of this process, which is to end now. */
void stp_stop_remove_files(void);

/* It is not there any more. */
void stp_stop_forget_file(const char *path);
