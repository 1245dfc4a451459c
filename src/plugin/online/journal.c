#include "plugin/online/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "core/names.h"

enum { ROOM = 16384, LINE = 512 };

struct stp_journal {
    int fd;
    uint64_t comm_id;
    size_t n_ranks;
    size_t n_nodes;
    const char *reward_unit;
    size_t length; /* of what is not written yet: whole lines */
    char text[ROOM];
};

/* The first process writes the head; the others find a file that is not empty.
 */
static void journal_write_head(int fd)
{
    flock(fd, LOCK_EX);
    if (lseek(fd, 0, SEEK_END) == 0 &&
        write(fd, STP_JOURNAL_HEAD, strlen(STP_JOURNAL_HEAD)) < 0)
        errno = 0; /* the lines will fail, too, and are only a journal */
    flock(fd, LOCK_UN);
}

enum stp_status stp_journal_open(const char *path,
                                 const struct stp_comm_info *info,
                                 enum stp_learn_objective objective,
                                 struct stp_journal **journal_ret,
                                 struct stp_error *err)
{
    struct stp_journal *journal = calloc(1, sizeof(*journal));

    if (journal == NULL)
        return stp_nomem(err);
    journal->comm_id = info->comm_id;
    journal->n_ranks = info->shape.n_ranks;
    journal->n_nodes = info->shape.n_nodes;
    journal->reward_unit = objective == STP_LEARN_FILE ? "ms" : "us";
    journal->fd =
        open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
    if (journal->fd < 0) {
        free(journal);
        return stp_fail(err, STP_ERR_IO, "cannot write '%.200s': %s", path,
                        strerror(errno));
    }
    journal_write_head(journal->fd);
    *journal_ret = journal;
    return STP_OK;
}

void stp_journal_flush(struct stp_journal *journal)
{
    if (journal->length > 0 &&
        write(journal->fd, journal->text, journal->length) < 0)
        errno = 0; /* a full disk must not harm the job */
    journal->length = 0;
}

void stp_journal_close(struct stp_journal *journal)
{
    if (journal == NULL)
        return;
    stp_journal_flush(journal);
    close(journal->fd);
    free(journal);
}

/* "allgather,3670016,4194303,ring,ll128,16"; "auto" for NCCL's own choice. */
static void journal_describe_arm(const struct stp_learned *learned,
                                 char text[160])
{
    if (learned->coll < 0)
        snprintf(text, 160, ",,,,,");
    else if (learned->arm.algo < 0)
        snprintf(text, 160, "%s,%" PRIu64 ",%" PRIu64 ",auto,auto,",
                 stp_coll_name(learned->coll), learned->bytes.min,
                 learned->bytes.max);
    else
        snprintf(text, 160, "%s,%" PRIu64 ",%" PRIu64 ",%s,%s,%d",
                 stp_coll_name(learned->coll), learned->bytes.min,
                 learned->bytes.max, stp_algo_name(learned->arm.algo),
                 stp_proto_name(learned->arm.proto), learned->arm.n_channels);
}

static const char *journal_unit(const struct stp_journal *journal,
                                enum stp_learn_kind kind)
{
    static const char *const units[STP_N_LEARN_KINDS] = {
        [STP_LEARN_STEPPED] = "us",
        [STP_LEARN_PERIOD] = "calls",
        [STP_LEARN_NOISY] = "steps",
    };

    if (kind == STP_LEARN_REWARD)
        return journal->reward_unit;
    return units[kind] != NULL ? units[kind] : "";
}

void stp_journal_write(struct stp_journal *journal, uint64_t t_ns,
                       const struct stp_learn_event *event,
                       const struct stp_learned *learned)
{
    char arm[160];
    char gain[96] = ",,";
    int n;

    if (journal->length + LINE > ROOM)
        stp_journal_flush(journal);
    journal_describe_arm(learned, arm);
    if (event->gain > 0.0)
        snprintf(gain, sizeof(gain), "%.5f,%.5f,%.5f", event->gain,
                 event->gain_low, event->gain_high);
    n = snprintf(journal->text + journal->length, LINE,
                 "%.3f,%016" PRIx64 ",%zu,%zu,%s,%" PRIu64 ",%s,%.6g,%s,%s\n",
                 (double)t_ns / 1e3, journal->comm_id, journal->n_nodes,
                 journal->n_ranks, stp_learn_kind_name(event->kind),
                 event->call, arm, event->value, gain,
                 journal_unit(journal, event->kind));
    if (n > 0 && n < LINE)
        journal->length += (size_t)n;
}
