#define _GNU_SOURCE /* statx(): fstat() is a newer symbol in newer glibcs */
#include "agree/same.h"

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
#include <unistd.h>

/* What the ranks share.  New memory is all zero. */
struct segment {
    _Atomic uint64_t value;     /* of whoever came first */
    _Atomic uint64_t differing; /* the bits in which another one differs */
    _Atomic uint32_t n_joined;
    _Atomic uint32_t n_left;
};

/* It in this process, whose ranks share one mapping: there can be more ranks
 * than the kernel allows mappings. */
struct stp_same {
    struct stp_same *next;
    struct segment *segment;
    size_t n_ranks;
    size_t n_users; /* ranks of this process */
    char path[96];
};

static struct {
    pthread_mutex_t lock;
    struct stp_same *all;
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static enum stp_status cannot(struct stp_error *err, const char *what,
                              const char *path, int error)
{
    return stp_fail(err, STP_ERR_IO, 0, 0, "cannot %s %s: %s", what, path,
                    strerror(error));
}

/* Nobody else may have put it there, or be able to write to it. */
static bool is_ours(int fd)
{
    struct statx st;

    return statx(fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_MODE | STATX_UID,
                 &st) == 0 &&
           S_ISREG(st.stx_mode) && (st.stx_mode & 0077) == 0 &&
           st.stx_uid == geteuid();
}

static enum stp_status map(int fd, struct stp_same *same, struct stp_error *err)
{
    void *memory;
    int error;

    if (!is_ours(fd))
        return cannot(err, "trust", same->path, EPERM);
    /* Room now, not a SIGBUS later. */
    error = posix_fallocate(fd, 0, sizeof(struct segment));
    if (error != 0)
        return cannot(err, "allocate", same->path, error);
    memory = mmap(NULL, sizeof(struct segment), PROT_READ | PROT_WRITE,
                  MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED)
        return cannot(err, "map", same->path, errno);
    same->segment = memory;
    return STP_OK;
}

static enum stp_status open_segment(struct stp_same *same,
                                    struct stp_error *err)
{
    int fd = open(same->path, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    enum stp_status status;

    if (fd < 0)
        return cannot(err, "open", same->path, errno);
    status = map(fd, same, err);
    close(fd);
    return status;
}

static void leave_value(struct stp_same *same, uint64_t value)
{
    struct segment *s = same->segment;
    uint64_t first = 0;

    if (!atomic_compare_exchange_strong(&s->value, &first, value))
        atomic_fetch_or(&s->differing, first ^ value);
    /* All are here: nobody needs the name any more. */
    if (atomic_fetch_add(&s->n_joined, 1) + 1 == same->n_ranks)
        unlink(same->path);
}

/* One that is still to be joined: a full one may be an older communicator's. */
static struct stp_same *find(const char *path)
{
    for (struct stp_same *same = process.all; same != NULL; same = same->next)
        if (strcmp(same->path, path) == 0 &&
            atomic_load(&same->segment->n_joined) < same->n_ranks)
            return same;
    return NULL;
}

static enum stp_status add(const char *path, size_t n_ranks,
                           struct stp_same **same_ret, struct stp_error *err)
{
    struct stp_same *same = calloc(1, sizeof(*same));
    enum stp_status status;

    if (same == NULL)
        return stp_fail(err, STP_ERR_NOMEM, 0, 0, "out of memory");
    same->n_ranks = n_ranks;
    snprintf(same->path, sizeof(same->path), "%s", path);
    status = open_segment(same, err);
    if (status != STP_OK) {
        free(same);
        return status;
    }
    same->next = process.all;
    process.all = same;
    *same_ret = same;
    return STP_OK;
}

static void drop(struct stp_same *same)
{
    struct stp_same **link = &process.all;

    while (*link != same)
        link = &(*link)->next;
    *link = same->next;
    munmap(same->segment, sizeof(*same->segment));
    free(same);
}

enum stp_status stp_same_join(uint64_t comm_id, size_t n_ranks, uint64_t value,
                              struct stp_same **same_ret, struct stp_error *err)
{
    char path[sizeof((*same_ret)->path)];
    struct stp_same *same;
    enum stp_status status = STP_OK;

    snprintf(path, sizeof(path), "/dev/shm/steptune-%u-%016" PRIx64 "-%zu",
             (unsigned)geteuid(), comm_id, n_ranks);
    pthread_mutex_lock(&process.lock);
    same = find(path);
    if (same == NULL)
        status = add(path, n_ranks, &same, err);
    if (status == STP_OK) {
        same->n_users++;
        leave_value(same, value);
        *same_ret = same;
    }
    pthread_mutex_unlock(&process.lock);
    return status;
}

uint64_t stp_same_differing(const struct stp_same *same)
{
    return atomic_load(&same->segment->differing);
}

bool stp_same_all(const struct stp_same *same)
{
    return stp_same_differing(same) == 0;
}

void stp_same_leave(struct stp_same *same)
{
    uint32_t n_left;
    uint32_t n_joined;

    if (same == NULL)
        return;
    pthread_mutex_lock(&process.lock);
    n_left = atomic_fetch_add(&same->segment->n_left, 1) + 1;
    n_joined = atomic_load(&same->segment->n_joined);
    /* With all ranks here the name is gone since they joined, and may be
     * another communicator's now. */
    if (n_left == n_joined && n_joined < same->n_ranks)
        unlink(same->path);
    if (--same->n_users == 0)
        drop(same);
    pthread_mutex_unlock(&process.lock);
}
