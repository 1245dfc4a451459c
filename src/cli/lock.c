/* lock.c - outputs that one process at a time may write */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/stop.h"

enum stp_status stp_lock_take(const char *path, bool waits,
                              struct stp_lock *lock_ret, struct stp_error *err)
{
    struct stp_lock lock;
    struct stat held, named;
    char holder[128]; /* in words, which the file holds */
    bool is_held = false;
    ssize_t n;
    int failed;

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
