/* thread.h - a thread that calls a function once, or periodically until it is
 * stopped */
#pragma once

#include "core/status.h"

struct stp_thread; /* opaque */

enum { STP_THREAD_ONCE = -1 };

/* Calls 'body' every 'ms' milliseconds, or once at once, within a struct
 * stp_entry.  Takes no signals.  With NULL for 'thread_ret' nobody stops it: it
 * runs once, for as long as it takes, and this library stays loaded until then.
 * STP_ERR_NOMEM. */
enum stp_status stp_thread_start(void (*body)(void *user), void *user, int ms,
                                 struct stp_thread **thread_ret,
                                 struct stp_error *err);

/* Waits until it has ended.  NULL is allowed; in a child of the process that
 * started it, where it does not run, it only frees. */
void stp_thread_stop(struct stp_thread *thread);
