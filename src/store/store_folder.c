/*
 * store_folder.c - the engine whose keys are files in a folder that hosts share
 *
 * A file appears whole, by link() or rename(), which are atomic on NFS, too.  A
 * number, or a value that grows, is changed under flock(), which is a lock of
 * all hosts on NFS and on Lustre (mounted with flock).  Closing a client
 * removes the files that are older than LIFETIME_S; a number's time
 * is set so far into the future that it has NUMBER_LIFETIME_S.
 */
#define _GNU_SOURCE /* statx(): fstat() is a newer symbol in newer glibcs */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/trust.h"
#include "store/store_client.h"

enum {
    NAME = 256,
    NUMBER_TEXT = 24,

    LIFETIME_S = 24 * 3600, /* of keys, which outlive a job */

    /* A number counts what other keys are about, and outlives them. */
    NUMBER_LIFETIME_S = 2 * LIFETIME_S,
};

#define TEMPORARY ".steptune-"
#define PREFIX    "%2Fsteptune%2F" /* of all names */

enum {
    OPEN_FLAGS = O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
};

static bool folder_fail(struct stp_client *client, const char *what)
{
    snprintf(client->why, sizeof(client->why), "%s: %s", what, strerror(errno));
    return false;
}

/* ---- files ---- */

/* The name of a key's file: the key, with %XX for slashes. */
static bool folder_name(struct stp_client *client, const char *key,
                        char name[NAME])
{
    const char *parts[] = {client->prefix, key};
    size_t n = 0;

    for (size_t i = 0; i < 2; i++)
        for (const char *s = parts[i]; *s != '\0'; s++) {
            const char *code = *s == '/' ? "%2F" : *s == '%' ? "%25" : NULL;
            const size_t size = code != NULL ? 3 : 1;

            errno = ENAMETOOLONG;
            if (n + size >= NAME)
                return folder_fail(client, key);
            memcpy(name + n, code != NULL ? code : s, size);
            n += size;
        }
    name[n] = '\0';
    return true;
}

static bool folder_write(int fd, const void *data, size_t size)
{
    for (size_t n_written = 0; n_written < size;) {
        ssize_t n = write(fd, (const char *)data + n_written, size - n_written);

        if (n < 0 && errno != EINTR)
            return false;
        n_written += n < 0 ? 0 : (size_t)n;
    }
    return true;
}

/* Writes a file under a name of its own. */
static bool folder_write_temporary(struct stp_client *client, const void *value,
                                   size_t size, bool is_number, char name[NAME])
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    bool is_written;
    int fd;

    clock_gettime(CLOCK_REALTIME, &times[1]);
    do
        snprintf(name, NAME, TEMPORARY "%d-%ld", (int)getpid(),
                 times[1].tv_nsec++);
    while ((fd = openat(client->fd, name,
                        O_WRONLY | O_CREAT | O_EXCL | OPEN_FLAGS, 0600)) < 0 &&
           errno == EEXIST);
    if (fd < 0)
        return folder_fail(client, "no file can be made");
    times[1].tv_sec += NUMBER_LIFETIME_S - LIFETIME_S;
    times[1].tv_nsec = 0;
    is_written = folder_write(fd, value, size) &&
                 (!is_number || futimens(fd, times) == 0);
    if (close(fd) == 0 && is_written)
        return true;
    folder_fail(client, "a file cannot be written");
    unlinkat(client->fd, name, 0);
    return false;
}

/* Gives a key that has no file this value.  *is_new_ret: it had none. */
static bool folder_create(struct stp_client *client, const char *name,
                          const void *value, size_t size, bool is_number,
                          bool *is_new_ret)
{
    char temporary[NAME];
    bool is_good;

    if (!folder_write_temporary(client, value, size, is_number, temporary))
        return false;
    *is_new_ret = linkat(client->fd, temporary, client->fd, name, 0) == 0;
    is_good = *is_new_ret || errno == EEXIST ||
              folder_fail(client, "a file cannot be linked");
    unlinkat(client->fd, temporary, 0);
    return is_good;
}

static bool folder_read_facts(int fd, struct statx *st,
                              struct stp_file_facts *facts)
{
    if (statx(fd, "", AT_EMPTY_PATH,
              STATX_TYPE | STATX_MODE | STATX_UID | STATX_NLINK, st) != 0)
        return false;
    *facts = (struct stp_file_facts){st->stx_mode, st->stx_uid};
    return true;
}

/* Fails for what another user may have laid there. */
static bool folder_trusts(struct stp_client *client, int fd, struct statx *st)
{
    struct stp_file_facts file, folder;
    enum stp_trust trust;
    struct statx folder_st;

    if (!folder_read_facts(fd, st, &file) ||
        !folder_read_facts(client->fd, &folder_st, &folder))
        return folder_fail(client, "a file cannot be read");
    trust = stp_trust_file(&file, &folder, STP_USE_FOUND, geteuid());
    if (trust != STP_TRUSTED)
        snprintf(client->why, sizeof(client->why),
                 "the file of a key cannot be used: %s", stp_trust_text(trust));
    return trust == STP_TRUSTED;
}

/* Locks a file.  *is_gone_ret: another has its name by now, or none. */
static bool folder_lock(struct stp_client *client, int fd, int operation,
                        bool *is_gone_ret)
{
    struct statx st;
    unsigned nap_ms = 1;

    while (flock(fd, operation | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR)
            return folder_fail(client, "a file cannot be locked");
        if (!stp_client_sleep(client, &nap_ms))
            return false;
    }
    if (!folder_trusts(client, fd, &st))
        return false;
    *is_gone_ret = st.stx_nlink == 0;
    return true;
}

/* Opens and locks a file; *fd_ret is -1 if there is none. */
static bool folder_open_locked(struct stp_client *client, const char *name,
                               int flags, int operation, int *fd_ret)
{
    bool is_gone = true;

    while (is_gone) {
        *fd_ret = openat(client->fd, name, flags | OPEN_FLAGS);
        if (*fd_ret < 0)
            return errno == ENOENT ||
                   folder_fail(client, "a file cannot be opened");
        if (!folder_lock(client, *fd_ret, operation, &is_gone)) {
            close(*fd_ret);
            return false;
        }
        if (is_gone)
            close(*fd_ret);
    }
    return true;
}

/* The value, unless there is none. */
static bool folder_read(struct stp_client *client, const char *name,
                        void *value, size_t max, size_t *size_ret,
                        bool *is_there_ret)
{
    size_t size = 0;
    ssize_t n = 1;
    char more;
    int fd;

    if (!folder_open_locked(client, name, O_RDONLY, LOCK_SH, &fd))
        return false;
    *is_there_ret = fd >= 0;
    if (fd < 0)
        return true;
    while (n > 0 || (n < 0 && errno == EINTR)) {
        n = size < max ? read(fd, (char *)value + size, max - size)
                       : read(fd, &more, 1);
        size += n > 0 ? (size_t)n : 0;
        if (size > max) {
            errno = EMSGSIZE;
            n = -1;
        }
    }
    *size_ret = size;
    if (n < 0)
        stp_client_fail(client);
    close(fd);
    return n == 0;
}

/* ---- operations ---- */

static bool folder_open(struct stp_client *client,
                        const struct stp_store_address *address)
{
    client->fd = open(address->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (client->fd >= 0)
        return true;
    snprintf(client->why, sizeof(client->why), "%s", strerror(errno));
    return false;
}

static bool folder_is_old(int folder, const char *name)
{
    struct statx st;

    return (strncmp(name, PREFIX, strlen(PREFIX)) == 0 ||
            strncmp(name, TEMPORARY, strlen(TEMPORARY)) == 0) &&
           statx(folder, name, AT_SYMLINK_NOFOLLOW, STATX_MTIME, &st) == 0 &&
           st.stx_mtime.tv_sec < time(NULL) - LIFETIME_S;
}

static void folder_close(struct stp_client *client)
{
    DIR *entries = client->fd >= 0 ? fdopendir(client->fd) : NULL;
    const struct dirent *entry;

    if (entries == NULL && client->fd >= 0)
        close(client->fd);
    if (entries != NULL) {
        while ((entry = readdir(entries)) != NULL)
            if (folder_is_old(client->fd, entry->d_name))
                unlinkat(client->fd, entry->d_name, 0);
        closedir(entries);
    }
    client->fd = -1;
}

static bool folder_set(struct stp_client *client, const char *key,
                       const void *value, size_t size)
{
    char name[NAME], temporary[NAME];

    if (!folder_name(client, key, name) ||
        !folder_write_temporary(client, value, size, false, temporary))
        return false;
    if (renameat(client->fd, temporary, client->fd, name) == 0)
        return true;
    folder_fail(client, "a file cannot be renamed");
    unlinkat(client->fd, temporary, 0);
    return false;
}

/* Opens a key's file to change it, with a lock, or makes it with this value:
 * then *fd_ret is -1. */
static bool folder_change(struct stp_client *client, const char *name,
                          const void *value, size_t size, bool is_number,
                          int *fd_ret)
{
    bool is_new = false;

    *fd_ret = -1;
    while (*fd_ret < 0 && !is_new)
        if (!folder_open_locked(client, name, O_RDWR, LOCK_EX, fd_ret) ||
            (*fd_ret < 0 &&
             !folder_create(client, name, value, size, is_number, &is_new)))
            return false;
    return true;
}

/* Closes a file that was changed; NFS tells of errors then. */
static bool folder_end_change(struct stp_client *client, int fd, bool is_good)
{
    if (close(fd) == 0 && is_good)
        return true;
    return folder_fail(client, "a file cannot be changed");
}

static bool folder_append(struct stp_client *client, const char *key,
                          const void *value, size_t size)
{
    char name[NAME];
    int fd;

    if (!folder_name(client, key, name) ||
        !folder_change(client, name, value, size, false, &fd))
        return false;
    return fd < 0 || folder_end_change(client, fd,
                                       lseek(fd, 0, SEEK_END) >= 0 &&
                                           folder_write(fd, value, size));
}

static bool folder_check(struct stp_client *client, const char *key,
                         bool *is_there_ret)
{
    char name[NAME];

    if (!folder_name(client, key, name))
        return false;
    *is_there_ret = faccessat(client->fd, name, F_OK, 0) == 0;
    return *is_there_ret || errno == ENOENT ||
           folder_fail(client, "a file cannot be found");
}

/* Adds to the number in a file that is open. */
static bool folder_add_to(int fd, int64_t number, int64_t *sum_ret)
{
    const struct timespec times[2] = {
        {.tv_nsec = UTIME_OMIT},
        {.tv_sec = time(NULL) + NUMBER_LIFETIME_S - LIFETIME_S}};
    char text[NUMBER_TEXT] = "";
    char *end;
    int n;

    if (pread(fd, text, sizeof(text) - 1, 0) < 0)
        return false;
    *sum_ret = strtoll(text, &end, 10) + number;
    errno = EINVAL;
    if (end == text || *end != '\0')
        return false;
    n = snprintf(text, sizeof(text), "%" PRId64, *sum_ret);
    return number == 0 || (pwrite(fd, text, (size_t)n, 0) == n &&
                           ftruncate(fd, n) == 0 && futimens(fd, times) == 0);
}

static bool folder_add(struct stp_client *client, const char *key,
                       int64_t number, int64_t *sum_ret)
{
    char name[NAME], text[NUMBER_TEXT];
    const int n = snprintf(text, sizeof(text), "%" PRId64, number);
    int fd;

    if (!folder_name(client, key, name) ||
        !folder_change(client, name, text, (size_t)n, true, &fd))
        return false;
    *sum_ret = number;
    return fd < 0 ||
           folder_end_change(client, fd, folder_add_to(fd, number, sum_ret));
}

static bool folder_delete(struct stp_client *client, const char *key)
{
    char name[NAME];

    return folder_name(client, key, name) &&
           (unlinkat(client->fd, name, 0) == 0 || errno == ENOENT ||
            folder_fail(client, "a file cannot be removed"));
}

static bool folder_get(struct stp_client *client, const char *key, void *value,
                       size_t max, size_t *size_ret)
{
    char name[NAME];
    bool is_there = false;
    unsigned nap_ms = 1;

    if (!folder_name(client, key, name))
        return false;
    while (folder_read(client, name, value, max, size_ret, &is_there))
        if (is_there || !stp_client_sleep(client, &nap_ms))
            return is_there;
    return false;
}

static bool folder_compare_set(struct stp_client *client, const char *key,
                               const void *value, size_t size, void *now,
                               size_t max, size_t *now_size_ret)
{
    char name[NAME];
    bool is_there = false, is_new;

    if (!folder_name(client, key, name))
        return false;
    while (!is_there)
        if (!folder_create(client, name, value, size, false, &is_new) ||
            !folder_read(client, name, now, max, now_size_ret, &is_there))
            return false;
    return true;
}

const struct stp_store_ops stp_store_folder = {
    .open = folder_open,
    .close = folder_close,
    .set = folder_set,
    .append = folder_append,
    .check = folder_check,
    .add = folder_add,
    .del = folder_delete,
    .get = folder_get,
    .compare_set = folder_compare_set,
};
