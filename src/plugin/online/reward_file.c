#define _GNU_SOURCE /* statx(): fstat() is a newer symbol in newer glibcs */
#include "plugin/online/reward_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/trust.h"
#include "plugin/file.h"

enum { BUFFER = 16 << 10 };

/* A reason is of enum stp_trust, or one of these. */
enum { MISSING = STP_N_TRUSTS, UNREADABLE, N_REASONS };

struct stp_reward_file {
    char *path;
    int fd; /* -1: not open */
    uint64_t offset;
    bool was_open;
    bool is_told[N_REASONS];
    uint64_t n_skipped;
    struct stp_reward_log log;
};

enum stp_status stp_reward_file_open(const char *path,
                                     struct stp_reward_file **file_ret,
                                     struct stp_error *err)
{
    struct stp_reward_file *file = calloc(1, sizeof(*file));
    char *copy = strdup(path);

    if (file == NULL || copy == NULL) {
        free(file);
        free(copy);
        return stp_nomem(err);
    }
    file->path = copy;
    file->fd = -1;
    *file_ret = file;
    return STP_OK;
}

void stp_reward_file_close(struct stp_reward_file *file)
{
    if (file == NULL)
        return;
    if (file->fd >= 0)
        close(file->fd);
    free(file->path);
    free(file);
}

static int reward_check_file(const struct statx *st)
{
    const struct stp_file_facts file = {st->stx_mode, st->stx_uid};

    return (int)stp_trust_file(&file, NULL, STP_USE_OWN, geteuid());
}

static bool reward_stat(int fd, struct statx *st)
{
    return statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, st) == 0;
}

/* Reads up to the end, but at most *n_left_ret bytes, which it counts. */
static int reward_read_file(struct stp_reward_file *file, size_t *n_left_ret,
                            stp_reward_sink sink, void *user)
{
    char buffer[BUFFER];
    struct statx st;

    if (!reward_stat(file->fd, &st))
        return UNREADABLE;
    if (st.stx_size < file->offset) {
        file->offset = 0;
        stp_reward_log_restart(&file->log);
    }
    while (*n_left_ret > 0) {
        size_t want = *n_left_ret < BUFFER ? *n_left_ret : BUFFER;
        ssize_t n = pread(file->fd, buffer, want, (off_t)file->offset);

        if (n < 0)
            return UNREADABLE;
        if (n == 0)
            break;
        file->offset += (uint64_t)n;
        *n_left_ret -= (size_t)n;
        stp_reward_log_feed(&file->log, buffer, (size_t)n, sink, user);
    }
    return STP_TRUSTED;
}

/* The rest of the open file, then the file that was at the path before that. */
static int reward_read_all(struct stp_reward_file *file, stp_reward_sink sink,
                           void *user)
{
    size_t n_left = STP_REWARD_PIECE;
    int found = UNREADABLE, reason = STP_TRUSTED;
    bool is_same = false;
    struct statx st, old;
    int fd;

    /* The path is checked without an open: the end of a FIFO would notice. */
    if (statx(AT_FDCWD, file->path, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS,
              &st) == 0)
        found = reward_check_file(&st);
    else if (errno == ENOENT)
        found = MISSING;
    if (found == STP_TRUSTED && file->fd >= 0)
        is_same = reward_stat(file->fd, &old) && old.stx_ino == st.stx_ino &&
                  old.stx_dev_major == st.stx_dev_major &&
                  old.stx_dev_minor == st.stx_dev_minor;
    if (file->fd >= 0)
        reason = reward_read_file(file, &n_left, sink, user);
    if (reason != STP_TRUSTED || n_left == 0)
        return reason;
    if (found != STP_TRUSTED || is_same)
        return found;

    /* The path may name another file by now than when it was checked. */
    fd = stp_file_open(file->path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0)
        return errno == ENOENT ? MISSING : UNREADABLE;
    reason = reward_stat(fd, &st) ? reward_check_file(&st) : UNREADABLE;
    if (reason != STP_TRUSTED) {
        close(fd);
        return reason;
    }
    if (file->fd >= 0)
        close(file->fd);
    file->fd = fd;
    file->offset = 0;
    stp_reward_log_restart(&file->log);

    /* Only the end of a long backlog is read, from the next line on: the byte
     * before that end tells whether a line begins there. */
    if (!file->was_open && st.stx_size > STP_REWARD_BACKLOG) {
        file->offset = st.stx_size - STP_REWARD_BACKLOG - 1;
        file->n_skipped = file->offset;
        file->log.is_too_long = true;
    }
    file->was_open = true;
    return reward_read_file(file, &n_left, sink, user);
}

enum stp_status stp_reward_file_read(struct stp_reward_file *file,
                                     stp_reward_sink sink, void *user,
                                     struct stp_error *err)
{
    int reason = reward_read_all(file, sink, user);
    int error = errno;

    if (reason == STP_TRUSTED || reason == MISSING || file->is_told[reason])
        return STP_OK;
    file->is_told[reason] = true;
    return stp_fail(
        err, STP_ERR_IO, "the reward file '%.120s' cannot be %s: %s",
        file->path, reason == UNREADABLE ? "read" : "used",
        reason == UNREADABLE ? stp_file_strerror(error)
                             : stp_trust_text((enum stp_trust)reason));
}

const struct stp_reward_log *
stp_reward_file_log(const struct stp_reward_file *file)
{
    return &file->log;
}

uint64_t stp_reward_file_skipped(const struct stp_reward_file *file)
{
    return file->n_skipped;
}
