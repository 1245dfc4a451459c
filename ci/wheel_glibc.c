/* wheel_glibc.c - functions that glibc has after 2.28, for programs of the wheel */
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Until 2.32 stat() and its like were inline functions (x86-64: the kernel's
 * struct stat is glibc's). */
static long stat_at(int fd, const char *path, struct stat *st, int flags)
{
    return syscall(SYS_newfstatat, fd, path, st, flags);
}

int stat(const char *path, struct stat *st)
{
    return (int)stat_at(AT_FDCWD, path, st, 0);
}

int lstat(const char *path, struct stat *st)
{
    return (int)stat_at(AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

int fstat(int fd, struct stat *st)
{
    return (int)stat_at(fd, "", st, AT_EMPTY_PATH);
}

/* libexpat's seed of hashes. */
void arc4random_buf(void *bytes, size_t n)
{
    if (getrandom(bytes, n, 0) != (ssize_t)n)
        abort();
}

/* The heap in use, as the contract of plugins hashes it. */
struct mallinfo2 mallinfo2(void)
{
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
    const struct mallinfo old = mallinfo();

    return (struct mallinfo2){.uordblks = (unsigned)old.uordblks};
}
