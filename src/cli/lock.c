/* lock.c - outputs that one process at a time may write */
#define _DEFAULT_SOURCE /* usleep() */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/stop.h"

enum { PATIENCE_MS = 30000, LOOK_MS = 20 };

/* Whether the holder is gone, or on its way: a process that was killed, or its
 * children, may take seconds to let go of GPUs, and of its files behind them.
 */
static bool lock_is_left(const char *holder)
{
    enum { EXITING = 0x4 }; /* Linux's PF_EXITING, of many years */
    unsigned flags = 0;
    char path[64], state = '\0';
    long pid;
    FILE *fp;

    if (sscanf(holder, "process %ld", &pid) != 1)
        return false;
    snprintf(path, sizeof(path), "/proc/%ld/stat", pid);
    fp = fopen(path, "re");
    if (fp == NULL)
        return errno == ENOENT;
    if (fscanf(fp, "%*d (%*[^)]) %c %*d %*d %*d %*d %*d %u", &state, &flags) !=
        2)
        state = 'X';
    fclose(fp);
    return state == 'Z' || state == 'X' || (flags & EXITING) != 0;
}

enum stp_status stp_lock_take(const char *path, bool waits,
                              struct stp_lock *lock_ret, struct stp_error *err)
{
    struct stp_lock lock;
    struct stat held, named;
    char holder[128]; /* in words, which the file holds */
    bool is_held = false;
    ssize_t n;
    int failed, waited_ms = 0;

    if (snprintf(lock.path, sizeof(lock.path), "%s.lock", path) >=
        (int)sizeof(lock.path))
        return stp_fail(err, STP_ERR_IO, "the path '%.60s...' is too long",
                        path);
    while (!is_held) {
        lock.file = open(lock.path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        /* A lock that cannot be made is no fault: the output will say why. */
        if (lock.file < 0)
            break;
        do
            failed = flock(lock.file, waits ? LOCK_EX : LOCK_EX | LOCK_NB);
        while (failed != 0 && errno == EINTR);
        if (failed != 0 && errno == EWOULDBLOCK) {
            n = pread(lock.file, holder, sizeof(holder) - 1, 0);
            holder[n > 0 ? n : 0] = '\0';
            close(lock.file);
            if (lock_is_left(holder) && waited_ms < PATIENCE_MS &&
                !stp_stop_requested()) {
                if (waited_ms == 0)
                    stp_complain("waiting up to 30 s for '%s' of %s, which "
                                 "was killed, or is of another host",
                                 lock.path, holder);
                usleep(LOOK_MS * 1000);
                waited_ms += LOOK_MS;
                continue;
            }
            return stp_fail(err, STP_ERR_IO,
                            "%s is writing the same files and holds '%.160s': "
                            "let it end, or name another output",
                            n > 0 ? holder : "another process", lock.path);
        }
        /* A file system without locks is written without.  A holder removes the
         * file before it lets go: who waited holds a file without a name. */
        is_held =
            failed != 0 ||
            (fstat(lock.file, &held) == 0 && stat(lock.path, &named) == 0 &&
             held.st_dev == named.st_dev && held.st_ino == named.st_ino);
        if (!is_held)
            close(lock.file);
    }
    if (lock.file >= 0)
        stp_stop_remember_file(lock.path);
    if (lock.file >= 0 && ftruncate(lock.file, 0) == 0)
        dprintf(lock.file, "process %ld (%s)", (long)getpid(),
                stp_command_name);
    *lock_ret = lock;
    return STP_OK;
}

void stp_lock_release(const struct stp_lock *lock)
{
    if (lock->file < 0)
        return;
    unlink(lock->path);
    stp_stop_forget_file(lock->path);
    close(lock->file);
}
