/* store_folder.c - the engine whose keys are files in a folder that hosts share
 *
 * A file appears whole, by link() or rename(), which are atomic on NFS, too,
 * and begins with its own name: another key's, renamed, is refused.  A number,
 * or a value that grows, is changed under flock(), which is a lock of all hosts
 * on NFS and on Lustre (mounted with flock).  Closing a client removes the
 * files that are older than LIFETIME_S; a number's time is set so far into the
 * future that it has NUMBER_LIFETIME_S.  Hosts' clocks may differ by days: the
 * time is that of a file just written in the folder. */
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
#include <unistd.h>

#include "core/trust.h"
#include "store/clock.h"
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

/* Its lock would else live on in a child that this process has forked. */
static bool folder_close_file(int fd)
{
    flock(fd, LOCK_UN);
    return close(fd) == 0;
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

static bool folder_read_time(int folder, const char *name, int64_t *s_ret)
{
    struct statx st;

    if (statx(folder, name, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW, STATX_MTIME,
              &st) != 0)
        return false;
    *s_ret = st.stx_mtime.tv_sec;
    return true;
}

/* Closes a file that was written, which NFS tells errors of.  A number lives
 * longer from now on. */
static bool folder_end_write(struct stp_client *client, int fd, bool is_number,
                             bool is_good)
{
    struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}};
    int64_t now_s = 0;

    if (is_good && is_number) {
        is_good = folder_read_time(fd, "", &now_s);
        times[1].tv_sec = now_s + NUMBER_LIFETIME_S - LIFETIME_S;
        is_good = is_good && futimens(fd, times) == 0;
    }
    if (folder_close_file(fd) && is_good)
        return true;
    return folder_fail(client, "a file cannot be written");
}

/* Writes a file under its own name: a line of the name to be, and the value. */
static bool folder_write_temporary(struct stp_client *client, const char *line,
                                   const void *value, size_t size,
                                   bool is_number, char name[NAME])
{
    int64_t number = stp_now_ms();
    int fd;

    do
        snprintf(name, NAME, TEMPORARY "%d-%" PRId64, (int)getpid(), number++);
    while ((fd = openat(client->fd, name,
                        O_WRONLY | O_CREAT | O_EXCL | OPEN_FLAGS, 0600)) < 0 &&
           errno == EEXIST);
    if (fd < 0)
        return folder_fail(client, "no file can be made");
    if (folder_end_write(client, fd, is_number,
                         folder_write(fd, line, strlen(line)) &&
                             folder_write(fd, "\n", 1) &&
                             folder_write(fd, value, size)))
        return true;
    unlinkat(client->fd, name, 0);
    return false;
}

/* The time of the folder's server, by a file that is just written. */
static bool folder_now(struct stp_client *client, int64_t *now_s_ret)
{
    char name[NAME];
    bool is_known;

    if (!folder_write_temporary(client, "", "", 0, false, name))
        return false;
    is_known = folder_read_time(client->fd, name, now_s_ret);
    unlinkat(client->fd, name, 0);
    return is_known || folder_fail(client, "the time cannot be read");
}

/* Gives a key that has no file this value.  *is_new_ret: it had none. */
static bool folder_create(struct stp_client *client, const char *name,
                          const void *value, size_t size, bool is_number,
                          bool *is_new_ret)
{
    char temporary[NAME];
    bool is_good;

    if (!folder_write_temporary(client, name, value, size, is_number,
                                temporary))
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

/* Reads over the line that a file begins with. */
static bool folder_skip_name(struct stp_client *client, int fd,
                             const char *name)
{
    const size_t n = strlen(name);
    char line[NAME];

    if (read(fd, line, n + 1) == (ssize_t)n + 1 && memcmp(line, name, n) == 0 &&
        line[n] == '\n')
        return true;
    snprintf(client->why, sizeof(client->why),
             "the file of a key cannot be used: it does not begin with its "
             "name %.120s",
             name);
    return false;
}

/* Opens and locks a file, of which its value is read or written next; *fd_ret
 * is -1 if there is none. */
static bool folder_open_locked(struct stp_client *client, const char *name,
                               int flags, int operation, int *fd_ret)
{
    bool is_gone = true;

    while (is_gone) {
        errno = ETIMEDOUT;
        if (stp_now_ms() >= client->deadline_ms)
            return stp_client_fail(client);
        *fd_ret = openat(client->fd, name, flags | OPEN_FLAGS);
        if (*fd_ret < 0)
            return errno == ENOENT ||
                   folder_fail(client, "a file cannot be opened");
        if (!folder_lock(client, *fd_ret, operation, &is_gone) ||
            (!is_gone && !folder_skip_name(client, *fd_ret, name))) {
            folder_close_file(*fd_ret);
            return false;
        }
        if (is_gone)
            folder_close_file(*fd_ret);
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
    int fd = -1;

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
    folder_close_file(fd);
    return n == 0;
}

/* ---- operations ---- */

static bool folder_open(struct stp_client *client,
                        const struct stp_store_address *address)
{
    struct statx st;
    struct stp_file_facts facts;

    client->fd = open(address->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (client->fd < 0 || !folder_read_facts(client->fd, &st, &facts)) {
        snprintf(client->why, sizeof(client->why), "%s", strerror(errno));
        return false;
    }
    if ((facts.mode & (S_IWOTH | S_ISVTX)) != S_IWOTH)
        return true;
    snprintf(client->why, sizeof(client->why),
             "all users may write the folder and rename the files of others "
             "there, expected a folder that they may not write (chmod o-w), or "
             "one with the sticky bit (chmod +t)");
    return false;
}

static void folder_close(struct stp_client *client)
{
    int64_t now_s = 0; /* nothing is old if it is not known */
    DIR *entries;
    const struct dirent *entry;
    int64_t s;

    if (client->fd < 0)
        return;
    folder_now(client, &now_s);
    entries = fdopendir(client->fd);
    if (entries == NULL)
        close(client->fd);
    while (entries != NULL && (entry = readdir(entries)) != NULL)
        if ((strncmp(entry->d_name, PREFIX, strlen(PREFIX)) == 0 ||
             strncmp(entry->d_name, TEMPORARY, strlen(TEMPORARY)) == 0) &&
            folder_read_time(client->fd, entry->d_name, &s) &&
            s < now_s - LIFETIME_S)
            unlinkat(client->fd, entry->d_name, 0);
    if (entries != NULL)
        closedir(entries);
    client->fd = -1;
}

static bool folder_set(struct stp_client *client, const char *name,
                       const void *value, size_t size)
{
    char temporary[NAME];

    if (!folder_write_temporary(client, name, value, size, false, temporary))
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

static bool folder_put(struct stp_client *client, enum stp_store_query query,
                       const char *key, const void *value, size_t size)
{
    char name[NAME];
    int fd;

    if (!folder_name(client, key, name))
        return false;
    if (query == STP_SET)
        return folder_set(client, name, value, size);
    return folder_change(client, name, value, size, false, &fd) &&
           (fd < 0 || folder_end_write(client, fd, false,
                                       lseek(fd, 0, SEEK_END) >= 0 &&
                                           folder_write(fd, value, size)));
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

/* Adds to the number that comes next in a file that is open.  A unit that began
 * 'stale_ms' ago, and is incomplete, is left for the next. */
static bool folder_add_to(struct stp_client *client, int fd, int64_t number,
                          int64_t *sum_ret)
{
    const off_t at = lseek(fd, 0, SEEK_CUR);
    int64_t now_s, then_s, sum;
    char text[NUMBER_TEXT] = "";
    char *end;
    int n;

    if (pread(fd, text, sizeof(text) - 1, at) < 0)
        return false;
    sum = strtoll(text, &end, 10);
    errno = EINVAL;
    if (end == text || *end != '\0')
        return false;
    if (client->unit > 0 && sum % client->unit != 0) {
        if (!folder_now(client, &now_s) || !folder_read_time(fd, "", &then_s))
            return false;
        then_s -= NUMBER_LIFETIME_S - LIFETIME_S;
        if ((now_s - then_s) * 1000 > client->stale_ms)
            sum += client->unit - sum % client->unit;
    }
    *sum_ret = sum + number;
    n = snprintf(text, sizeof(text), "%" PRId64, *sum_ret);
    return number == 0 ||
           (pwrite(fd, text, (size_t)n, at) == n && ftruncate(fd, at + n) == 0);
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
           folder_end_write(client, fd, number != 0,
                            folder_add_to(client, fd, number, sum_ret));
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
    .put = folder_put,
    .check = folder_check,
    .add = folder_add,
    .del = folder_delete,
    .get = folder_get,
    .compare_set = folder_compare_set,
};
