/* child.h - child processes that run code of this program */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Starts a child, in a process group of its own if 'has_group', whose buffers
 * of output are empty, and which is killed when the thread that starts it ends,
 * as by SIGKILL.  Returns 0 in the child, and -1 and errno if there is none. */
pid_t stp_child_start(bool has_group);

/* Within a child: the file gets its standard output and error, and its input is
 * empty.  False and errno if that cannot be. */
bool stp_child_redirect(const char *output);

/* Awaits a child's end.  Returns what waitpid() says of it; -1 if somebody else
 * awaited it. */
int stp_child_await(pid_t child);

/* The name of the signal that ended a child, or NULL if none did. */
const char *stp_child_crash(int wait_status);
