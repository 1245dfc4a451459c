// fork() for tests that kill their children.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace fork_or_exit
{

// A parent that gets no child ends: kill() takes a pid of -1 for all processes.
inline pid_t Fork()
{
    const pid_t pid = fork();
    if (pid < 0) {
        perror("cannot start a process");
        exit(1);
    }
    return pid;
}

} // namespace fork_or_exit
