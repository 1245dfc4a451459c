#include "plugin/online/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/names.h"
#include "plugin/file.h"
#include "agree/process_lock.h"

/* A line has at most 158 bytes of its arm, 95 of gains, and 140 others. */
enum { ROOM = 4096, LINE = 512 };

/* A file, which the journals of a process share. */
struct file {
    struct file *next;
    int fd;
    struct statx id;
    size_t n_users;
    pid_t pid; /* of the process that opened it */
};

struct stp_journal {
    struct file *file;
    uint64_t comm_id;
    size_t n_ranks;
    size_t n_nodes;
    int error;     /* of the first write that failed; 0: none has */
    size_t length; /* of what is not written yet: whole lines */
    char text[ROOM];
};

static struct stp_process_lock lock;
static struct file *files; /* under the lock */
static bool is_lock_kept;  /* of a journal, by another process */

static void journal_lock_files(void)
{
    if (stp_process_lock(&lock))
        files = NULL;
}

/* Under the lock; NULL: out of memory.  Takes 'fd'. */
static struct file *journal_take_file(int fd, int *error)
{
    struct statx id;
    bool is_known = statx(fd, "", AT_EMPTY_PATH, STATX_INO, &id) == 0;
    struct file *file = is_known ? files : NULL;

    while (file != NULL && (file->id.stx_ino != id.stx_ino ||
                            file->id.stx_dev_major != id.stx_dev_major ||
                            file->id.stx_dev_minor != id.stx_dev_minor))
        file = file->next;
    if (file == NULL) {
        file = calloc(1, sizeof(*file));
        if (file == NULL) {
            close(fd);
            return NULL;
        }
        stp_file_write_head(fd, STP_JOURNAL_HEAD, &is_lock_kept, error);
        file->fd = fd;
        file->id = id;
        file->pid = getpid();
        file->next = files;
        files = file;
    } else
        close(fd);
    file->n_users++;
    return file;
}

enum stp_status stp_journal_open(const char *path,
                                 const struct stp_comm_info *info,
                                 struct stp_journal **journal_ret,
                                 struct stp_error *err)
{
    struct stp_journal *journal = calloc(1, sizeof(*journal));
    int fd;

    if (journal == NULL)
        return stp_nomem(err);
    journal->comm_id = info->comm_id;
    journal->n_ranks = info->shape.n_ranks;
    journal->n_nodes = info->shape.n_nodes;
    fd = stp_file_open(path, O_WRONLY | O_APPEND | O_CREAT);
    if (fd < 0) {
        free(journal);
        return stp_fail(err, STP_ERR_IO, "cannot write '%.140s': %s", path,
                        stp_file_strerror(errno));
    }
    journal_lock_files();
    journal->file = journal_take_file(fd, &journal->error);
    pthread_mutex_unlock(&lock.mutex);
    if (journal->file == NULL) {
        free(journal);
        return stp_nomem(err);
    }
    *journal_ret = journal;
    return STP_OK;
}

void stp_journal_flush(struct stp_journal *journal)
{
    stp_file_append(journal->file->fd, journal->text, journal->length,
                    &journal->error);
    journal->length = 0;
}

int stp_journal_error(const struct stp_journal *journal)
{
    return journal->error;
}

void stp_journal_close(struct stp_journal *journal)
{
    struct file *file, **link;

    if (journal == NULL)
        return;
    file = journal->file;
    if (file->pid == getpid())
        stp_journal_flush(journal);
    journal_lock_files();
    if (--file->n_users == 0) {
        for (link = &files; *link != NULL && *link != file;)
            link = &(*link)->next;
        if (*link == file) /* a parent's file is not in the list */
            *link = file->next;
        close(file->fd);
        free(file);
    }
    pthread_mutex_unlock(&lock.mutex);
    free(journal);
}

/* Units of the values of events; NULL: none. */
static const char *const units[STP_N_LEARN_KINDS] = {
    [STP_LEARN_WINDOW] = "calls", [STP_LEARN_TRIAL] = "calls",
    [STP_LEARN_BLOCK] = "us",     [STP_LEARN_REWARD] = "ms",
    [STP_LEARN_ALONE] = "calls",  [STP_LEARN_SET] = "us",
    [STP_LEARN_STEP] = "us",      [STP_LEARN_BUSY] = "us",
    [STP_LEARN_PLAN] = "us",
};

void stp_journal_write(struct stp_journal *journal, uint64_t t_ns,
                       const struct stp_learn_event *event,
                       const struct stp_learned *learned)
{
    const char *unit = units[event->kind];
    char message[80] = ",,", arm[80] = ",,", gain[96] = ",,";

    if (journal->length + LINE > ROOM)
        stp_journal_flush(journal);
    if (learned->coll >= 0) {
        snprintf(message, sizeof(message), "%s,%" PRIu64 ",%" PRIu64,
                 stp_coll_name(learned->coll), learned->bytes.min,
                 learned->bytes.max);
        snprintf(arm, sizeof(arm), "auto,auto,"); /* NCCL's own choice */
        if (learned->arm.algo >= 0)
            snprintf(
                arm, sizeof(arm), "%s,%s,%d", stp_algo_name(learned->arm.algo),
                stp_proto_name(learned->arm.proto), learned->arm.n_channels);
    }
    if (event->gain > 0.0)
        snprintf(gain, sizeof(gain), "%.5f,%.5f,%.5f", event->gain,
                 event->gain_low, event->gain_high);
    journal->length += (size_t)snprintf(
        journal->text + journal->length, LINE,
        "%.3f,%016" PRIx64 ",%zu,%zu,%s,%" PRIu64 ",%s,%s,%.6g,%s,%s\n",
        (double)t_ns / 1e3, journal->comm_id, journal->n_nodes,
        journal->n_ranks, stp_learn_kind_name(event->kind), event->call,
        message, arm, event->value, gain, unit != NULL ? unit : "");
}
