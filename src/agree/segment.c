#define _GNU_SOURCE /* statx(): fstat() is a newer symbol in newer glibcs */
#include "agree/segment.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agree/process_lock.h"
#include "core/trust.h"

#define FOLDER "/dev/shm/"
#define LAYOUT "6" /* of the memory; another release may have another */

/* Other ranks hold a lock for microseconds: two seconds are plenty. */
enum { N_TRIES = 20000, POLL_NS = 100000, N_NAME = 96, HEADER_BYTES = 64 };

/* Never waits: the name may be another user's device or FIFO. */
enum { SEGMENT_OPEN = O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY };

/* In front of the shared memory.  New memory is all zero. */
struct segment_header {
    _Atomic uint32_t n_places; /* taken by ranks that have joined or will */
    _Atomic uint32_t n_joined;
    _Atomic uint32_t n_left;
};

_Static_assert(sizeof(struct segment_header) <= HEADER_BYTES, "it fits");

struct stp_segment {
    struct stp_segment *next;
    struct segment_header *header;
    size_t n_mapped;
    size_t n_ranks;
    size_t n_users; /* ranks of this process */
    bool
        is_parents; /* of the process that forked this one: not to be touched */
    int fd;         /* with its lock; -1 once the name is gone */
    char path[N_NAME];
};

static struct {
    struct stp_process_lock lock;
    bool is_watched; /* fork() is */
    struct stp_segment *all;
} process;

static enum stp_status segment_fail(struct stp_error *err, const char *action,
                                    const char *path, int error)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s %s: %s", action, path,
                    strerror(error));
}

/* ---- the file ---- */

/* A lock of the open file, not of the process: it ends with the last process
 * that has the file open so. */
static bool segment_try_lock(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Whether the file is this user's, and no other user can open it. */
static bool segment_check_owner(int fd, struct statx *st, const char **why_ret)
{
    struct stp_file_facts file;
    enum stp_trust trust;

    if (statx(fd, "", AT_EMPTY_PATH,
              STATX_TYPE | STATX_MODE | STATX_UID | STATX_NLINK | STATX_SIZE,
              st) != 0) {
        *why_ret = strerror(errno);
        return false;
    }
    file = (struct stp_file_facts){st->stx_mode, st->stx_uid};
    trust = stp_trust_file(&file, NULL, STP_USE_PRIVATE, geteuid());
    *why_ret = stp_trust_text(trust);
    return trust == STP_TRUSTED;
}

/* Removes the files of dead jobs. An empty file may belong to a process that
 * has just made it, which then finds it without a name and makes another. */
static void segment_remove_dead(void)
{
    DIR *folder = opendir(FOLDER);
    char prefix[32];
    char path[sizeof(FOLDER) + NAME_MAX];
    struct dirent *entry;

    if (folder == NULL)
        return;
    snprintf(prefix, sizeof(prefix), "steptune-%u-", (unsigned)geteuid());
    while ((entry = readdir(folder)) != NULL) {
        const char *why;
        struct statx st;
        int fd;

        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof(path), FOLDER "%s", entry->d_name);
        fd = open(path, SEGMENT_OPEN);
        if (fd < 0)
            continue;
        if (segment_try_lock(fd, F_WRLCK) &&
            segment_check_owner(fd, &st, &why) && st.stx_nlink > 0)
            unlink(path);
        close(fd);
    }
    closedir(folder);
}

/* Allocates the file now, not by a SIGBUS later; and without SIGXFSZ, which a
 * file above the process's limit would raise. */
static int segment_allocate(int fd, size_t n_bytes)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
        limit.rlim_cur != RLIM_INFINITY && n_bytes > limit.rlim_cur)
        return EFBIG;
    return posix_fallocate(fd, 0, (off_t)n_bytes);
}

/* Tries once; *is_in stays false if the file was just made or removed. */
static enum stp_status segment_try_open(int fd, const char *path,
                                        size_t n_bytes, bool *is_in,
                                        struct stp_error *err)
{
    bool is_alone = segment_try_lock(fd, F_WRLCK);
    bool is_locked = is_alone || segment_try_lock(fd, F_RDLCK);
    int error = errno;
    const char *why;
    struct statx st;

    if (!segment_check_owner(fd, &st, &why))
        return stp_fail(err, STP_ERR_IO, "cannot trust %s: %s", path, why);
    if (!is_locked && error != EAGAIN && error != EACCES)
        return segment_fail(err, "lock", path, error);
    if (!is_locked || st.stx_nlink == 0)
        return STP_OK;
    if (is_alone && st.stx_size > 0) { /* its processes are all dead */
        unlink(path);
        return STP_OK;
    }
    if (!is_alone && st.stx_size < HEADER_BYTES)
        return segment_fail(err, "share", path, EINVAL);
    /* Grows a file that is new, or that ranks with less room made. */
    error = st.stx_size < n_bytes ? segment_allocate(fd, n_bytes) : 0;
    if (error != 0) {
        if (is_alone)
            unlink(path);
        return segment_fail(err, "allocate", path, error);
    }
    *is_in = !is_alone || segment_try_lock(fd, F_RDLCK);
    return STP_OK;
}

static enum stp_status segment_open_file(const char *path, size_t n_bytes,
                                         int *fd_ret, struct stp_error *err)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};

    for (int i = 0; i < N_TRIES; i++) {
        int fd = open(path, SEGMENT_OPEN | O_CREAT, 0600);
        bool is_in = false;
        enum stp_status status;

        if (fd < 0)
            return segment_fail(err, "open", path, errno);
        status = segment_try_open(fd, path, n_bytes, &is_in, err);
        if (is_in) {
            *fd_ret = fd;
            return STP_OK;
        }
        close(fd);
        if (status != STP_OK)
            return status;
        nanosleep(&pause, NULL);
    }
    return segment_fail(err, "lock", path, EBUSY);
}

/* ---- the segments of this process ---- */

static void segment_close_file(struct stp_segment *segment)
{
    const int fd = segment->fd;

    segment->fd = -1; /* first: a child may be forked now */
    if (fd >= 0)
        close(fd);
}

/* A child's copies of descriptors would keep locks beyond its parent's end. */
static void segment_lock(void)
{
    if (!stp_process_lock(&process.lock))
        return;
    for (struct stp_segment *s = process.all; s != NULL; s = s->next) {
        s->is_parents = true;
        segment_close_file(s);
    }
    process.all = NULL;
}

static void segment_unlock(void)
{
    pthread_mutex_unlock(&process.lock.mutex);
}

static void segment_leave_to_parent(void)
{
    segment_lock();
    segment_unlock();
}

static enum stp_status segment_add(const char *path,
                                   const struct stp_segment_key *key,
                                   struct stp_segment **segment_ret,
                                   struct stp_error *err)
{
    struct stp_segment *segment = calloc(1, sizeof(*segment));
    enum stp_status status;

    if (segment == NULL)
        return stp_nomem(err);
    segment->n_ranks = key->n_ranks;
    segment->n_mapped = HEADER_BYTES + key->n_bytes;
    snprintf(segment->path, sizeof(segment->path), "%s", path);
    status = segment_open_file(path, segment->n_mapped, &segment->fd, err);
    if (status == STP_OK) {
        segment->header = mmap(NULL, segment->n_mapped, PROT_READ | PROT_WRITE,
                               MAP_SHARED, segment->fd, 0);
        if (segment->header == MAP_FAILED) {
            status = segment_fail(err, "map", path, errno);
            close(segment->fd);
        }
    }
    if (status != STP_OK) {
        free(segment);
        return status;
    }
    segment->next = process.all;
    process.all = segment;
    *segment_ret = segment;
    return STP_OK;
}

static void segment_drop(struct stp_segment *segment)
{
    struct stp_segment **link = &process.all;

    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    segment_close_file(segment);
    munmap(segment->header, segment->n_mapped);
    free(segment);
}

/* Takes a place in a segment unless full: it may be an older one then. */
static bool segment_take_place(struct stp_segment *segment, uint32_t *index_ret)
{
    uint32_t n_places = atomic_load(&segment->header->n_places);

    while (n_places < segment->n_ranks)
        if (atomic_compare_exchange_weak(&segment->header->n_places, &n_places,
                                         n_places + 1)) {
            *index_ret = n_places;
            return true;
        }
    return false;
}

void stp_segment_enter(struct stp_segment *segment)
{
    segment_lock();
    if (atomic_fetch_add(&segment->header->n_joined, 1) + 1 ==
        segment->n_ranks) {
        /* All ranks have joined: the name is of no more use. */
        unlink(segment->path);
        segment_close_file(segment);
    }
    segment_unlock();
}

/* Takes a place in a segment of this process, or in a new one. */
static enum stp_status segment_join_path(const char *path,
                                         const struct stp_segment_key *key,
                                         struct stp_segment **segment_ret,
                                         uint32_t *index_ret,
                                         struct stp_error *err)
{
    const struct timespec pause = {.tv_nsec = POLL_NS};

    for (struct stp_segment *s = process.all; s != NULL; s = s->next)
        if (s->n_mapped >= HEADER_BYTES + key->n_bytes &&
            strcmp(s->path, path) == 0 && segment_take_place(s, index_ret)) {
            *segment_ret = s;
            return STP_OK;
        }
    /* The name of a full file exists for a moment after its last place is
     * taken; the next file has a place. */
    for (int i = 0; i < N_TRIES; i++) {
        enum stp_status status = segment_add(path, key, segment_ret, err);

        if (status != STP_OK || segment_take_place(*segment_ret, index_ret))
            return status;
        segment_drop(*segment_ret);
        nanosleep(&pause, NULL);
    }
    return segment_fail(err, "join", path, EBUSY);
}

enum stp_status stp_segment_join(const struct stp_segment_key *key,
                                 struct stp_segment **segment_ret,
                                 uint32_t *index_ret, struct stp_error *err)
{
    char path[N_NAME];
    struct stp_segment *segment = NULL;
    uint32_t index = 0;
    enum stp_status status;

    snprintf(path, sizeof(path),
             FOLDER "steptune-%u-%016" PRIx64 "-%zu-" LAYOUT,
             (unsigned)geteuid(), key->comm_id, key->n_ranks);
    segment_lock();
    if (!process.is_watched)
        pthread_atfork(NULL, NULL, segment_leave_to_parent);
    process.is_watched = true;
    status = segment_join_path(path, key, &segment, &index, err);
    if (status == STP_OK) {
        if (index == 0)
            segment_remove_dead();
        segment->n_users++;
        *segment_ret = segment;
        *index_ret = index;
    }
    segment_unlock();
    return status;
}

void *stp_segment_memory(const struct stp_segment *segment)
{
    return (char *)segment->header + HEADER_BYTES;
}

bool stp_segment_is_full(struct stp_segment *segment)
{
    if (atomic_load(&segment->header->n_joined) < segment->n_ranks)
        return false;
    segment_lock();
    segment_close_file(segment);
    segment_unlock();
    return true;
}

size_t stp_segment_n_joined(const struct stp_segment *segment)
{
    return atomic_load(&segment->header->n_joined);
}

void stp_segment_leave(struct stp_segment *segment)
{
    uint32_t n_left;
    uint32_t n_joined;

    if (segment == NULL)
        return;
    segment_lock();
    if (segment->is_parents) {
        segment_unlock();
        return;
    }
    n_left = atomic_fetch_add(&segment->header->n_left, 1) + 1;
    n_joined = atomic_load(&segment->header->n_joined);
    /* Once all ranks have joined the name is gone, and may be another
     * communicator's now. */
    if (n_left == n_joined && n_joined < segment->n_ranks)
        unlink(segment->path);
    if (--segment->n_users == 0)
        segment_drop(segment);
    segment_unlock();
}
