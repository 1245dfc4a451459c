#define _GNU_SOURCE /* statx(): fstat() is a newer symbol in newer glibcs */
#include "plugin/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/trust.h"

enum {
    REFUSED = 4095, /* in errno, above what Linux has: + enum stp_trust */
    STATX_LOOK = STATX_TYPE | STATX_MODE | STATX_UID,
    NULL_MAJOR = 1, /* the numbers of /dev/null */
    NULL_MINOR = 3,
    PIECE = 64 << 10, /* bytes that a file of unknown size may have at first */
    N_TRIES = 500,    /* to lock a file; other ranks lock it for milliseconds */
    POLL_NS = 1000000,
};

/* ---- opening ---- */

static struct stp_file_facts file_facts(const struct statx *st)
{
    return (struct stp_file_facts){st->stx_mode, st->stx_uid};
}

/* The folder of a file, or of the link to it.  Where it cannot be looked at,
 * all users may be able to write it. */
static struct stp_file_facts file_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char *folder =
        slash != NULL ? strndup(path, (size_t)(slash + 1 - path)) : strdup(".");
    struct stp_file_facts facts = {.mode = S_IFDIR | S_IWOTH};
    struct statx st;

    if (folder != NULL &&
        statx(AT_FDCWD, folder, 0, STATX_MODE | STATX_UID, &st) == 0)
        facts = file_facts(&st);
    free(folder);
    return facts;
}

/* 0, or the errno with which the file or link is refused. */
static int file_check(const struct statx *st, const char *path,
                      enum stp_use use)
{
    const struct stp_file_facts file = file_facts(st);
    enum stp_trust trust;

    if (S_ISCHR(st->stx_mode) && st->stx_rdev_major == NULL_MAJOR &&
        st->stx_rdev_minor == NULL_MINOR)
        return 0;
    trust = stp_trust_file(&file, NULL, use, geteuid());
    if (trust == STP_TRUST_ASK_FOLDER) {
        /* A file that a symbolic link leads to counts with its own folder. */
        char *real = S_ISLNK(file.mode) ? NULL : realpath(path, NULL);
        const struct stp_file_facts folder =
            file_folder(real != NULL ? real : path);

        free(real);
        trust = stp_trust_file(&file, &folder, use, geteuid());
    }
    if (trust == STP_TRUST_IS_FOLDER)
        return EISDIR;
    return trust == STP_TRUSTED ? 0 : REFUSED + (int)trust;
}

/* Opens the file and stores its size; -1 with errno. */
static int file_open(const char *path, int flags, struct statx *st_ret)
{
    const int all = flags | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
    const bool is_read = (flags & O_ACCMODE) == O_RDONLY;
    /* Another user may have laid a file that is written, or one with a bare
     * name, such as the default: it is looked up wherever the job runs. */
    const enum stp_use use =
        is_read && strchr(path, '/') != NULL ? STP_USE_NAMED : STP_USE_FOUND;
    int error = 0, fd = -1;

    /* A look before a file is opened for writing: a FIFO's reader would notice
     * that, and a device may begin to work.  The same for files that are only
     * read would cost each init a microsecond. */
    if (!is_read && statx(AT_FDCWD, path, 0, STATX_LOOK, st_ret) == 0)
        error = file_check(st_ret, path, use);
    if (error == 0) {
        fd = open(path, all | O_NOFOLLOW, 0644);
        /* EACCES: a kernel that protects links refuses a stranger's at once. */
        if (fd < 0 && (errno == ELOOP || errno == EACCES) &&
            (flags & O_NOFOLLOW) == 0 &&
            statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW, STATX_LOOK, st_ret) ==
                0) {
            /* A symbolic link is followed if nobody else can have laid it. */
            error =
                S_ISLNK(st_ret->stx_mode) ? file_check(st_ret, path, use) : 0;
            if (error == 0)
                fd = open(path, all, 0644);
        }
        if (fd < 0 && error == 0) /* ENXIO: a socket, or no device behind it */
            error = errno == ENXIO ? REFUSED + STP_TRUST_IRREGULAR : errno;
    }
    if (fd >= 0) {
        if (statx(fd, "", AT_EMPTY_PATH, STATX_LOOK | STATX_SIZE, st_ret) != 0)
            error = errno;
        else
            error = file_check(st_ret, path, use);
        if (error == 0)
            return fd;
        close(fd);
    }
    errno = error;
    return -1;
}

int stp_file_open(const char *path, int flags)
{
    struct statx st;

    return file_open(path, flags, &st);
}

const char *stp_file_strerror(int error)
{
    return error > REFUSED ? stp_trust_text((enum stp_trust)(error - REFUSED))
                           : strerror(error);
}

int stp_file_create(char *path)
{
    return mkostemp(path, O_CLOEXEC);
}

/* ---- locking ---- */

/* Takes the lock if it is free; a file system without locks counts as free. */
static bool file_try_lock(int fd)
{
    return flock(fd, LOCK_EX | LOCK_NB) == 0 ||
           (errno != EWOULDBLOCK && errno != EINTR);
}

bool stp_file_lock(int fd, bool *is_kept)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};
    int n_tries = __atomic_load_n(is_kept, __ATOMIC_RELAXED) ? 1 : N_TRIES;
    bool is_locked = file_try_lock(fd);

    while (!is_locked && --n_tries > 0) {
        nanosleep(&pause, NULL);
        is_locked = file_try_lock(fd);
    }
    __atomic_store_n(is_kept, !is_locked, __ATOMIC_RELAXED);
    return is_locked;
}

void stp_file_append(int fd, const char *text, size_t length, int *error)
{
    while (length > 0 && *error == 0) {
        const ssize_t n = write(fd, text, length);

        if (n < 0 && errno != EINTR)
            *error = errno;
        text += n > 0 ? n : 0;
        length -= n > 0 ? (size_t)n : 0;
    }
}

void stp_file_write_head(int fd, const char *head, bool *is_kept, int *error)
{
    stp_file_lock(fd, is_kept);
    if (lseek(fd, 0, SEEK_END) == 0)
        stp_file_append(fd, head, strlen(head), error);
    flock(fd, LOCK_UN);
}

/* ---- reading ---- */

/* Reads up to the end, or 'n_known' bytes if that is not 0: the size of any
 * file but one that a file system makes up. Returns -1 with errno, or more than
 * 'max' if there are more bytes. *text_ret is to be freed in any case. */
static ssize_t file_read_up_to(int fd, size_t n_known, size_t max,
                               char **text_ret)
{
    size_t size = 0, len = 0;
    ssize_t n;

    do {
        if (size - len < 2) {
            char *bigger;

            size = size > 0 ? 2 * size : (n_known > 0 ? n_known : PIECE) + 2;
            bigger = realloc(*text_ret, size);
            if (bigger == NULL)
                return -1;
            *text_ret = bigger;
        }
        n = read(fd, *text_ret + len, size - len - 1);
        if (n > 0)
            len += (size_t)n;
    } while (n > 0 ? len <= max && len != n_known : n < 0 && errno == EINTR);
    (*text_ret)[len] = '\0';
    return n < 0 ? -1 : (ssize_t)len;
}

enum stp_status stp_file_read(const char *path, size_t max, char **text_ret,
                              size_t *len_ret, struct stp_error *err)
{
    struct statx st;
    int fd = file_open(path, O_RDONLY, &st);
    char *text = NULL;
    ssize_t n;
    int error;

    if (fd < 0 && errno == EISDIR)
        return stp_fail(err, STP_ERR_IO, "is a directory");
    if (fd < 0)
        return stp_fail(err, STP_ERR_IO, "cannot be opened: %s",
                        stp_file_strerror(errno));
    n = st.stx_size > max ? (ssize_t)max + 1
                          : file_read_up_to(fd, st.stx_size, max, &text);
    error = errno;
    close(fd);
    if (n >= 0 && (size_t)n <= max) {
        *text_ret = text;
        *len_ret = (size_t)n;
        return STP_OK;
    }
    free(text);
    if (n >= 0)
        return stp_fail(err, STP_ERR_LIMIT,
                        "is larger than %zu bytes, the most that is read", max);
    return stp_fail(err, STP_ERR_IO, "cannot be read: %s", strerror(error));
}

enum stp_status stp_file_load_policy(enum stp_policy_kind kind,
                                     const char *path,
                                     struct stp_policy **policy_ret,
                                     struct stp_error *err)
{
    char *text;
    size_t len;
    enum stp_status status;

    STP_TRY(stp_file_read(path, STP_MAX_FILE, &text, &len, err));
    status = stp_policy_parse(kind, text, len, policy_ret, err);
    free(text);
    return status;
}
