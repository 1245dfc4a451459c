#include "child/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t stp_child_start(bool has_group)
{
    const pid_t parent = getpid();
    pid_t child;

    fflush(NULL);
    child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) /* it died before that */
            _exit(EXIT_FAILURE);
    }
    if (child >= 0 && has_group)
        setpgid(child, child); /* in both, since either may come first */
    return child;
}

bool stp_child_redirect(const char *output)
{
    int in = open("/dev/null", O_RDONLY);
    int out = open(output, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0666);

    return in >= 0 && out >= 0 && dup2(in, STDIN_FILENO) >= 0 &&
           dup2(out, STDOUT_FILENO) >= 0 && dup2(out, STDERR_FILENO) >= 0 &&
           (in <= STDERR_FILENO || close(in) == 0) &&
           (out <= STDERR_FILENO || close(out) == 0);
}

int stp_child_await(pid_t child)
{
    int status;

    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

const char *stp_child_crash(int wait_status)
{
    return wait_status >= 0 && WIFSIGNALED(wait_status)
               ? strsignal(WTERMSIG(wait_status))
               : NULL;
}
