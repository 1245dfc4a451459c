#include "plugin/online/recorder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "core/dtype.h"
#include "core/names.h"
#include "plugin/entry.h"
#include "plugin/file.h"
#include "plugin/log.h"
#include "plugin/online/clock.h"
#include "plugin/online/online_settings.h"
#include "agree/process_lock.h"
#include "plugin/online/service.h"

enum {
    N_RECORDS = 1 << 14, /* that wait to be written */
    FULL = N_RECORDS / 4 * 3,
    ROOM = 1 << 16, /* bytes that are written at once */
    LINE = 256,     /* a line has at most 200 */
    /* Channels' events come late and out of order, and some are lost. They
     * count as lost once this many later collectives of the communicator have
     * ended. */
    N_LATER = 64,
    N_LOOKED_AT = 1024,
};

/* A launch that is to be written. */
struct record {
    _Atomic uint64_t number; /* from 1; 0: there is none here */
    struct stp_traced_launch what;
    uint64_t host_ns;
    _Atomic uint64_t begin_ns; /* 0: not known; as the next two */
    _Atomic uint64_t end_ns;
    _Atomic unsigned n_ended; /* channels */
};

/* One a process; all 0 at first. */
static struct {
    struct stp_process_lock life; /* of opening and closing; before 'lock' */
    struct stp_process_lock lock; /* of what follows, and of writing */
    size_t n_users;
    int fd;
    bool is_lock_kept; /* of the file, by another process */
    bool is_inline;    /* no thread writes, but the launch path */
    bool has_told_limit, has_told_error;
    uint64_t trace_calls; /* launches of this trace, at most */
    int error;            /* of the first write that failed; 0: none has */
    ncclDebugLogger_t log;
    struct stp_task task;
    _Atomic uint64_t most; /* where the head stops; 0: no trace is recorded */
    _Atomic uint64_t n_groups; /* of ncclGroup */
    _Atomic uint64_t n_lost;   /* launches that found no room */
    _Atomic uint64_t head;     /* launches */
    _Atomic uint64_t tail;     /* of them written */
    struct record records[N_RECORDS];
    size_t length;
    char text[ROOM];
} recorder;

static void recorder_lock(void)
{
    if (!stp_process_lock(&recorder.lock))
        return;
    /* in a new process, whose parent has the trace */
    if (recorder.n_users > 0)
        close(recorder.fd);
    recorder.n_users = 0;
    recorder.length = 0;
    atomic_store(&recorder.most, 0);
    atomic_store(&recorder.head, 0);
    atomic_store(&recorder.tail, 0);
    for (size_t i = 0; i < N_RECORDS; i++)
        atomic_store_explicit(&recorder.records[i].number, 0,
                              memory_order_relaxed);
}

static void recorder_unlock(void)
{
    pthread_mutex_unlock(&recorder.lock.mutex);
}

/* ---- from NCCL ---- */

bool stp_recorder_wants(void)
{
    return atomic_load_explicit(&recorder.head, memory_order_relaxed) <
           atomic_load_explicit(&recorder.most, memory_order_relaxed);
}

uint64_t stp_recorder_new_group(void)
{
    return atomic_fetch_add_explicit(&recorder.n_groups, 1,
                                     memory_order_relaxed) +
           1;
}

static void recorder_run(void *unused);

uint64_t stp_recorder_launched(const struct stp_traced_launch *launched)
{
    uint64_t at = atomic_load_explicit(&recorder.head, memory_order_relaxed);
    struct stp_entry entry;
    struct record *record;

    do { /* takes the next place */
        if (at >= atomic_load_explicit(&recorder.most, memory_order_relaxed))
            return 0;
        if (at - atomic_load_explicit(&recorder.tail, memory_order_acquire) >=
            N_RECORDS) {
            atomic_fetch_add_explicit(&recorder.n_lost, 1,
                                      memory_order_relaxed);
            return 0;
        }
    } while (!atomic_compare_exchange_weak(&recorder.head, &at, at + 1));
    record = &recorder.records[at % N_RECORDS];
    record->what = *launched;
    record->host_ns = stp_now_ns();
    atomic_store_explicit(&record->begin_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&record->end_ns, 0, memory_order_relaxed);
    atomic_store_explicit(&record->n_ended, 0, memory_order_relaxed);
    atomic_store_explicit(&record->number, at + 1, memory_order_release);
    /* In virtual time the launch path writes the records: a thread would be too
     * slow, and would write at random times. */
    if (recorder.is_inline && at % (N_RECORDS / 4) == 0) {
        stp_entry_begin(&entry);
        recorder_run(NULL);
        stp_entry_end(&entry);
    }
    return at + 1;
}

/* NULL if it was written already. */
static struct record *recorder_find(uint64_t number)
{
    struct record *record = &recorder.records[(number - 1) % N_RECORDS];

    return number != 0 && atomic_load_explicit(&record->number,
                                               memory_order_acquire) == number
               ? record
               : NULL;
}

void stp_recorder_began(uint64_t number, uint64_t ns)
{
    struct record *record = recorder_find(number);
    uint64_t first;

    if (record == NULL)
        return;
    first = atomic_load_explicit(&record->begin_ns, memory_order_relaxed);
    while ((first == 0 || ns < first) &&
           !atomic_compare_exchange_weak(&record->begin_ns, &first, ns))
        ;
}

void stp_recorder_ended(uint64_t number, uint64_t ns)
{
    struct record *record = recorder_find(number);
    uint64_t last;

    if (record == NULL)
        return;
    last = atomic_load_explicit(&record->end_ns, memory_order_relaxed);
    while (ns > last &&
           !atomic_compare_exchange_weak(&record->end_ns, &last, ns))
        ;
    atomic_fetch_add_explicit(&record->n_ended, 1, memory_order_release);
}

/* ---- the file ---- */

static bool record_has_ended(const struct record *record)
{
    const unsigned n =
        atomic_load_explicit(&record->n_ended, memory_order_acquire);

    return n > 0 && n >= record->what.n_channels;
}

/* Whether a record's missing times count as lost, as N_LATER later launches
 * have theirs. */
static bool recorder_is_late(uint64_t at, uint64_t head)
{
    const struct record *record = &recorder.records[at % N_RECORDS];

    if (head - at >= FULL)
        return true;
    for (uint64_t i = at + N_LATER; i < head && i < at + N_LOOKED_AT; i++) {
        const struct record *later = &recorder.records[i % N_RECORDS];

        if (atomic_load_explicit(&later->number, memory_order_acquire) ==
                i + 1 &&
            later->what.comm_id == record->what.comm_id &&
            record_has_ended(later))
            return true;
    }
    return false;
}

static void recorder_flush(void)
{
    stp_file_append(recorder.fd, recorder.text, recorder.length,
                    &recorder.error);
    recorder.length = 0;
}

/* "NUMBER", or nothing for 0. */
static const char *recorder_print_number(uint64_t number, char text[24])
{
    text[0] = '\0';
    if (number > 0)
        snprintf(text, 24, "%" PRIu64, number);
    return text;
}

static void recorder_print(const struct record *record)
{
    const struct stp_traced_launch *what = &record->what;
    /* processes number their groups apart */
    const uint64_t of_process =
        what->group == 0 ? 0 : (uint64_t)getpid() << 32 | (uint32_t)what->group;
    char group[24], begin[24], end[24];

    if (recorder.length + LINE > ROOM)
        recorder_flush();
    recorder.length += (size_t)snprintf(
        recorder.text + recorder.length, LINE,
        "%" PRIu64 ",%ld,%016" PRIx64 ",%zu,%s,%d,%s,%" PRIu64 ",%s,%s,%s\n",
        record->host_ns, (long)getpid(), what->comm_id, what->n_ranks,
        recorder_print_number(of_process, group), what->is_graph,
        stp_coll_name(what->coll), what->n_bytes,
        what->type >= 0 ? stp_type_name(what->type) : "",
        recorder_print_number(atomic_load(&record->begin_ns), begin),
        recorder_print_number(atomic_load(&record->end_ns), end));
}

/* Writes the launches that ended, in order, or all of them. Under the lock. */
static void recorder_write(bool is_last)
{
    const uint64_t head =
        atomic_load_explicit(&recorder.head, memory_order_acquire);
    uint64_t at = atomic_load_explicit(&recorder.tail, memory_order_relaxed);

    for (; at < head; at++) {
        struct record *record = &recorder.records[at % N_RECORDS];

        if (atomic_load_explicit(&record->number, memory_order_acquire) !=
            at + 1)
            break; /* its launch is being noted */
        if (!is_last && !record_has_ended(record) &&
            !recorder_is_late(at, head))
            break;
        recorder_print(record);
        atomic_store_explicit(&record->number, 0, memory_order_relaxed);
        atomic_store_explicit(&recorder.tail, at + 1, memory_order_release);
    }
    recorder_flush();
}

/* Logs once that the trace is full, and that it cannot be written. Under the
 * lock. */
static void recorder_log(void)
{
    const uint64_t most = atomic_load(&recorder.most);

    if (!recorder.has_told_limit && most > 0 &&
        atomic_load(&recorder.tail) >= most) {
        recorder.has_told_limit = true;
        stp_log(recorder.log, NCCL_LOG_WARN, __FILE__, __LINE__,
                "%s: the trace has %" PRIu64
                " collectives of this process, as many as STEPTUNE_TRACE_CALLS "
                "allows; no more are recorded",
                STP_TUNER_NAME, recorder.trace_calls);
    }
    if (!recorder.has_told_error && recorder.error != 0) {
        recorder.has_told_error = true;
        stp_log(recorder.log, NCCL_LOG_WARN, __FILE__, __LINE__,
                "%s: the trace ends early: %s", STP_TUNER_NAME,
                stp_file_strerror(recorder.error));
    }
}

static void recorder_run(void *unused)
{
    recorder_lock();
    if (recorder.n_users > 0) {
        recorder_write(false);
        recorder_log();
    }
    recorder_unlock();
}

/* ---- life ---- */

/* Under the lock.  At the end of the process NCCL may be gone: no log. */
static void recorder_finish(void *unused)
{
    const uint64_t n_lost = atomic_exchange(&recorder.n_lost, 0);

    recorder_write(true);
    if (n_lost > 0)
        recorder.length =
            (size_t)snprintf(recorder.text, LINE,
                             "# lost: %" PRIu64 " collectives of process %ld\n",
                             n_lost, (long)getpid());
    recorder_flush();
}

static void recorder_finish_at_exit(void *unused)
{
    recorder_lock();
    if (recorder.n_users > 0)
        recorder_finish(unused);
    atomic_store(&recorder.most, 0);
    recorder_unlock();
}

/* Under the lock, for the first communicator. */
static enum stp_status recorder_begin(const struct stp_online_settings *set,
                                      struct stp_error *err)
{
    recorder.fd = stp_file_open(set->trace, O_WRONLY | O_APPEND | O_CREAT);
    if (recorder.fd < 0)
        return stp_fail(err, STP_ERR_IO, "cannot write '%.140s': %s",
                        set->trace, stp_file_strerror(errno));
    recorder.error = 0;
    recorder.has_told_error = false;
    stp_file_write_head(recorder.fd, STP_TRACE_HEAD, &recorder.is_lock_kept,
                        &recorder.error);
    recorder.is_inline = set->is_inline;
    recorder.has_told_limit = false;
    recorder.trace_calls = set->trace_calls;
    recorder.task = (struct stp_task){
        .run = set->is_inline ? NULL : recorder_run,
        .finish = recorder_finish_at_exit,
    };
    return STP_OK;
}

bool stp_recorder_open(uint64_t comm_id, int rank, ncclDebugLogger_t log)
{
    struct stp_online_settings set;
    struct stp_entry entry;
    struct stp_error err;
    enum stp_status status;
    bool is_first;

    if (rank != 0 || stp_setting("STEPTUNE_TRACE") == NULL)
        return false;
    stp_entry_begin(&entry);
    status = stp_online_settings_read(comm_id, &set, &err);
    stp_process_lock(&recorder.life);
    recorder_lock();
    is_first = recorder.n_users == 0;
    if (status == STP_OK && is_first)
        status = recorder_begin(&set, &err);
    recorder_unlock();
    /* Not under the lock: when the process ends, the service holds its own lock
     * and calls recorder_finish_at_exit(), which takes this one. */
    if (status == STP_OK && is_first) {
        status = stp_service_add(&recorder.task, &err);
        if (status != STP_OK)
            close(recorder.fd);
    }
    recorder_lock();
    if (status == STP_OK) {
        if (is_first)
            atomic_store(&recorder.most,
                         atomic_load(&recorder.head) + set.trace_calls);
        recorder.n_users++;
        recorder.log = log;
    }
    recorder_unlock();
    pthread_mutex_unlock(&recorder.life.mutex);
    stp_entry_end(&entry);
    if (status != STP_OK)
        stp_log(log, NCCL_LOG_WARN, __FILE__, __LINE__, "%s: no trace: %s",
                STP_TUNER_NAME, err.text);
    return status == STP_OK;
}

void stp_recorder_close(void)
{
    struct stp_entry entry;
    bool is_last;

    stp_entry_begin(&entry);
    stp_process_lock(&recorder.life);
    recorder_lock();
    is_last = recorder.n_users == 1;
    if (recorder.n_users > 1) /* 0 in a child of the process that opened it */
        recorder.n_users--;
    recorder_unlock();
    if (is_last) {
        stp_service_remove(&recorder.task); /* which may take the lock */
        recorder_lock();
        recorder.n_users = 0;
        recorder_finish(NULL);
        recorder_log();
        atomic_store(&recorder.most, 0);
        close(recorder.fd);
        recorder_unlock();
    }
    pthread_mutex_unlock(&recorder.life.mutex);
    stp_entry_end(&entry);
}
