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
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FOLDER "/dev/shm/"

/* What others do under a lock takes microseconds: two seconds are plenty. */
enum { N_TRIES = 20000, NAP_NS = 100000, N_NAME = 96, HEADER_BYTES = 64 };

/* In front of what the ranks share.  New memory is all zero. */
struct header {
    _Atomic uint64_t value;     /* of whoever came first */
    _Atomic uint64_t differing; /* the bits in which another one differs */
    _Atomic uint32_t n_come;    /* have a place, and are about to have joined */
    _Atomic uint32_t n_joined;
    _Atomic uint32_t n_left;
};

_Static_assert(sizeof(struct header) <= HEADER_BYTES, "it fits");

struct stp_segment {
    struct stp_segment *next;
    struct header *header;
    size_t n_mapped;
    size_t n_ranks;
    size_t n_users; /* ranks of this process */
    int fd;         /* with its lock; -1 once nobody needs the name */
    char path[N_NAME];
};

static struct {
    pthread_mutex_t lock;
    struct stp_segment *all;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum stp_status cannot(struct stp_error *err, const char *what,
                              const char *path, int error)
{
    return stp_fail(err, STP_ERR_IO, "cannot %s %s: %s", what, path,
                    strerror(error));
}

/* ---- the file ---- */

/* A lock of the open file, not of the process: it ends with the last process
 * that has the file open so. */
static bool try_lock(int fd, short type)
{
    struct flock lock = {.l_type = type, .l_whence = SEEK_SET};

    return fcntl(fd, F_OFD_SETLK, &lock) == 0;
}

/* Nobody else may have put it there, or be able to write to it. */
static bool is_ours(int fd, struct statx *st)
{
    return statx(fd, "", AT_EMPTY_PATH,
                 STATX_TYPE | STATX_MODE | STATX_UID | STATX_NLINK | STATX_SIZE,
                 st) == 0 &&
           S_ISREG(st->stx_mode) && (st->stx_mode & 0077) == 0 &&
           st->stx_uid == geteuid();
}

/* Removes what a dead job left.  An empty one may be about to be begun. */
static void remove_if_dead(const char *path)
{
    int fd = open(path, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    struct statx st;

    if (fd < 0)
        return;
    if (try_lock(fd, F_WRLCK) && is_ours(fd, &st) && st.stx_nlink > 0 &&
        st.stx_size > 0)
        unlink(path);
    close(fd);
}

static void remove_all_dead(void)
{
    DIR *folder = opendir(FOLDER);
    char prefix[32];
    char path[sizeof(FOLDER) + NAME_MAX];
    struct dirent *entry;

    if (folder == NULL)
        return;
    snprintf(prefix, sizeof(prefix), "steptune-%u-", (unsigned)geteuid());
    while ((entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, sizeof(path), FOLDER "%s", entry->d_name);
        remove_if_dead(path);
    }
    closedir(folder);
}

/* With the lock to ourselves: a new file, or one whose processes are all dead.
 * The latter is not begun anew, but loses its name. */
static enum stp_status begin(int fd, const struct statx *st, const char *path,
                             size_t n_bytes, bool *is_in, struct stp_error *err)
{
    int error;

    if (st->stx_nlink == 0)
        return STP_OK;
    if (st->stx_size > 0) {
        unlink(path);
        return STP_OK;
    }
    /* Room now, not a SIGBUS later. */
    error = posix_fallocate(fd, 0, (off_t)n_bytes);
    if (error != 0) {
        unlink(path);
        return cannot(err, "allocate", path, error);
    }
    *is_in = try_lock(fd, F_RDLCK);
    return STP_OK;
}

/* Others are in it. */
static enum stp_status enter(const struct statx *st, const char *path,
                             size_t n_bytes, bool *is_in, struct stp_error *err)
{
    if (st->stx_nlink == 0)
        return STP_OK;
    if (st->stx_size != n_bytes)
        return cannot(err, "share", path, EINVAL);
    *is_in = true;
    return STP_OK;
}

/* One try; *is_in stays false if the file was just made or removed. */
static enum stp_status try_open(int fd, const char *path, size_t n_bytes,
                                bool *is_in, struct stp_error *err)
{
    bool is_alone = try_lock(fd, F_WRLCK);
    bool is_locked = is_alone || try_lock(fd, F_RDLCK);
    int error = errno;
    struct statx st;

    if (!is_ours(fd, &st))
        return cannot(err, "trust", path, EPERM);
    if (is_alone)
        return begin(fd, &st, path, n_bytes, is_in, err);
    if (is_locked)
        return enter(&st, path, n_bytes, is_in, err);
    if (error == EAGAIN || error == EACCES)
        return STP_OK;
    return cannot(err, "lock", path, error);
}

static enum stp_status open_file(const char *path, size_t n_bytes, int *fd_ret,
                                 struct stp_error *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int i = 0; i < N_TRIES; i++) {
        int fd = open(path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        bool is_in = false;
        enum stp_status status;

        if (fd < 0)
            return cannot(err, "open", path, errno);
        status = try_open(fd, path, n_bytes, &is_in, err);
        if (is_in) {
            *fd_ret = fd;
            return STP_OK;
        }
        close(fd);
        if (status != STP_OK)
            return status;
        nanosleep(&nap, NULL);
    }
    return cannot(err, "lock", path, EBUSY);
}

/* ---- this process's part ---- */

static enum stp_status map(struct stp_segment *segment, struct stp_error *err)
{
    void *memory;
    enum stp_status status =
        open_file(segment->path, segment->n_mapped, &segment->fd, err);

    if (status != STP_OK)
        return status;
    memory = mmap(NULL, segment->n_mapped, PROT_READ | PROT_WRITE, MAP_SHARED,
                  segment->fd, 0);
    if (memory == MAP_FAILED) {
        status = cannot(err, "map", segment->path, errno);
        close(segment->fd);
        return status;
    }
    segment->header = memory;
    return STP_OK;
}

static enum stp_status add(const char *path, const struct stp_segment_key *key,
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
    status = map(segment, err);
    if (status != STP_OK) {
        free(segment);
        return status;
    }
    segment->next = process.all;
    process.all = segment;
    *segment_ret = segment;
    return STP_OK;
}

static void close_file(struct stp_segment *segment)
{
    if (segment->fd >= 0)
        close(segment->fd);
    segment->fd = -1;
}

static void drop(struct stp_segment *segment)
{
    struct stp_segment **link = &process.all;

    while (*link != segment)
        link = &(*link)->next;
    *link = segment->next;
    close_file(segment);
    munmap(segment->header, segment->n_mapped);
    free(segment);
}

/* A place in one that is still to be joined: a full one may be an older
 * communicator's. */
static bool take_place(struct stp_segment *segment, uint32_t *index_ret)
{
    uint32_t n_come = atomic_load(&segment->header->n_come);

    while (n_come < segment->n_ranks)
        if (atomic_compare_exchange_weak(&segment->header->n_come, &n_come,
                                         n_come + 1)) {
            *index_ret = n_come;
            return true;
        }
    return false;
}

static struct stp_segment *find_place(const char *path, uint32_t *index_ret)
{
    for (struct stp_segment *s = process.all; s != NULL; s = s->next)
        if (strcmp(s->path, path) == 0 && take_place(s, index_ret))
            return s;
    return NULL;
}

/* The last place of a file may be taken, and its name still there for a moment:
 * then there is none in it, and one in the next. */
static enum stp_status add_place(const char *path,
                                 const struct stp_segment_key *key,
                                 struct stp_segment **segment_ret,
                                 uint32_t *index_ret, struct stp_error *err)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int i = 0; i < N_TRIES; i++) {
        enum stp_status status = add(path, key, segment_ret, err);

        if (status != STP_OK || take_place(*segment_ret, index_ret))
            return status;
        drop(*segment_ret);
        nanosleep(&nap, NULL);
    }
    return cannot(err, "join", path, EBUSY);
}

static void come_in(struct stp_segment *segment, uint64_t value)
{
    struct header *h = segment->header;
    uint64_t first = 0;

    segment->n_users++;
    if (!atomic_compare_exchange_strong(&h->value, &first, value))
        atomic_fetch_or(&h->differing, first ^ value);
    if (atomic_fetch_add(&h->n_joined, 1) + 1 < segment->n_ranks)
        return;
    /* All are here: nobody needs the name any more. */
    unlink(segment->path);
    close_file(segment);
}

enum stp_status stp_segment_join(const struct stp_segment_key *key,
                                 uint64_t value,
                                 struct stp_segment **segment_ret,
                                 uint32_t *index_ret, struct stp_error *err)
{
    char path[N_NAME];
    struct stp_segment *segment;
    uint32_t index = 0;
    enum stp_status status = STP_OK;

    snprintf(path, sizeof(path), FOLDER "steptune-%u-%016" PRIx64 "-%zu%s",
             (unsigned)geteuid(), key->comm_id, key->n_ranks, key->suffix);
    pthread_mutex_lock(&process.lock);
    segment = find_place(path, &index);
    if (segment == NULL)
        status = add_place(path, key, &segment, &index, err);
    if (status == STP_OK) {
        if (index == 0)
            remove_all_dead();
        come_in(segment, value);
        *segment_ret = segment;
        *index_ret = index;
    }
    pthread_mutex_unlock(&process.lock);
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
    pthread_mutex_lock(&process.lock);
    close_file(segment);
    pthread_mutex_unlock(&process.lock);
    return true;
}

uint64_t stp_segment_differing(const struct stp_segment *segment)
{
    return atomic_load(&segment->header->differing);
}

void stp_segment_leave(struct stp_segment *segment)
{
    uint32_t n_left;
    uint32_t n_joined;

    if (segment == NULL)
        return;
    pthread_mutex_lock(&process.lock);
    n_left = atomic_fetch_add(&segment->header->n_left, 1) + 1;
    n_joined = atomic_load(&segment->header->n_joined);
    /* With all ranks here the name is gone since they joined, and may be
     * another communicator's now. */
    if (n_left == n_joined && n_joined < segment->n_ranks)
        unlink(segment->path);
    if (--segment->n_users == 0)
        drop(segment);
    pthread_mutex_unlock(&process.lock);
}
