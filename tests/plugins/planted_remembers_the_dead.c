/* planted_remembers_the_dead.c - leaves a note while it lives, and does not
 * start where it finds that of a rank that was killed */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "planted.h"

enum { PATH = 512 };

/* That of its policy. */
static void folder_path(char path[PATH])
{
    const char *policy = getenv("NCCL_TUNER_CONFIG_FILE");
    const char *slash = policy != NULL ? strrchr(policy, '/') : NULL;

    snprintf(path, PATH, "%.*s", slash != NULL ? (int)(slash - policy) : 1,
             slash != NULL ? policy : ".");
}

/* Of this process, among those that were started together. */
static void note_path(char path[PATH], long pid)
{
    char folder[PATH];

    folder_path(folder);
    snprintf(path, PATH, "%.400s/note-%ld-%ld", folder, (long)getpgrp(), pid);
}

/* Removes the note of a process that is gone. */
static int find_dead(void)
{
    struct dirent *entry;
    long group, pid;
    char path[PATH];
    int found = 0;
    DIR *dir;

    folder_path(path);
    dir = opendir(path);
    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        if (sscanf(entry->d_name, "note-%ld-%ld", &group, &pid) != 2 ||
            group != (long)getpgrp() || kill((pid_t)pid, 0) == 0)
            continue;
        note_path(path, pid);
        unlink(path);
        found = 1;
    }
    if (dir != NULL)
        closedir(dir);
    return found;
}

static ncclResult_t init(struct planted *self)
{
    int dead = find_dead();
    char path[PATH];

    note_path(path, (long)getpid());
    self->number = open(path, O_WRONLY | O_CREAT, 0600);
    close((int)self->number);
    return dead ? ncclSystemError : ncclSuccess;
}

static void finalize(struct planted *self)
{
    char path[PATH];

    note_path(path, (long)getpid());
    unlink(path);
    free(self);
}

PLANTED_TUNER("remembers the dead", init, planted_ask, finalize);
