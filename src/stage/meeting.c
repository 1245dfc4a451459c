#include "stage/meeting.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "agree/segment.h"
#include "store/clock.h"

enum { NO = 1, YES = 2 }; /* 0: there is no vote, no outcome yet */

struct meeting_row { /* which its rank alone writes */
    uint64_t part[STP_N_PARTS];
    uint64_t process;
    _Atomic uint32_t vote[STP_N_VOTES]; /* the first: written after these */
};

struct meeting_board {
    _Atomic uint32_t outcome[STP_N_VOTES];
    struct meeting_row rows[];
};

struct stp_meeting {
    struct stp_segment *segment;
    struct meeting_board *board;
    int n_ranks, rank;
};

enum stp_status stp_meeting_join(const struct stp_guest *guest,
                                 struct stp_meeting **meeting_ret,
                                 struct stp_error *err)
{
    const size_t n = (size_t)guest->n_ranks;
    const struct stp_segment_key key = {.comm_id = guest->key,
                                        .n_ranks = n,
                                        .n_bytes =
                                            sizeof(struct meeting_board) +
                                            n * sizeof(struct meeting_row)};
    struct stp_meeting *meeting = calloc(1, sizeof(*meeting));
    struct meeting_row *row;
    uint32_t place;
    enum stp_status status;

    if (meeting == NULL)
        return stp_nomem(err);
    status = stp_segment_join(&key, &meeting->segment, &place, err);
    if (status != STP_OK) {
        free(meeting);
        return status;
    }
    meeting->n_ranks = guest->n_ranks;
    meeting->rank = guest->rank;
    meeting->board = stp_segment_memory(meeting->segment);
    row = &meeting->board->rows[guest->rank];
    for (int i = 0; i < STP_N_PARTS; i++)
        row->part[i] = guest->part[i];
    row->process = guest->process;
    stp_segment_enter(meeting->segment);
    *meeting_ret = meeting;
    return STP_OK;
}

static uint32_t meeting_read(const struct stp_meeting *meeting, int rank,
                             int vote)
{
    return atomic_load(&meeting->board->rows[rank].vote[vote]);
}

/* The first part in which a rank differs from this one; STP_N_PARTS:
 * none. */
static int meeting_find_part(const struct stp_meeting *meeting, int rank)
{
    const struct meeting_row *rows = meeting->board->rows;
    int part = 0;

    while (part < STP_N_PARTS &&
           rows[rank].part[part] == rows[meeting->rank].part[part])
        part++;
    return part;
}

/* YES, NO, or 0 as long as a vote is missing. */
static uint32_t meeting_count(const struct stp_meeting *meeting, int vote)
{
    uint32_t all = YES;

    for (int r = 0; r < meeting->n_ranks; r++) {
        const uint32_t one = meeting_read(meeting, r, vote);

        if (one == NO || (one == YES && vote == STP_VOTE_HELLO &&
                          meeting_find_part(meeting, r) < STP_N_PARTS))
            return NO;
        if (one == 0)
            all = 0;
    }
    return all;
}

void stp_meeting_cast(struct stp_meeting *meeting, int vote, bool is_yes)
{
    atomic_store(&meeting->board->rows[meeting->rank].vote[vote],
                 is_yes ? YES : NO);
}

bool stp_meeting_wait(struct stp_meeting *meeting, int vote, unsigned wait_ms)
{
    _Atomic uint32_t *outcome = &meeting->board->outcome[vote];
    struct timespec pause = {.tv_nsec = 20000};
    const int64_t end_ms = stp_now_ms() + wait_ms;
    uint32_t open = 0, count;

    while ((count = meeting_count(meeting, vote)) == 0 &&
           atomic_load(outcome) == 0 && stp_now_ms() < end_ms) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 1000000)
            pause.tv_nsec += pause.tv_nsec / 4;
    }
    atomic_compare_exchange_strong(outcome, &open, count == YES ? YES : NO);
    return atomic_load(outcome) == YES;
}

bool stp_meeting_explain(const struct stp_meeting *meeting, int vote,
                         char *text, size_t size)
{
    static const char *const differs[STP_N_PARTS] = {
        [STP_PART_BUILD] = "another release of libsteptune-stage.so or NCCL",
        [STP_PART_RULES] = "other rules (STEPTUNE_STAGE_FILE)",
        [STP_PART_SETTINGS] = ("other settings (STEPTUNE_STAGE_MEMORY, "
                               "STEPTUNE_GPU, NCCL_HOSTID, "
                               "NCCL_WORKLOAD_OVERLAP)"),
    };
    static const char *const steps[] = {
        "could not split the communicator", "could not register the memory",
        ("takes no symmetric kernel (GPUs may lack peer access), or keeps no "
         "order of graphs")};
    int missing = -1;

    for (int r = 0; r < meeting->n_ranks; r++) {
        const uint32_t one = meeting_read(meeting, r, vote);
        const int part = one != 0 ? meeting_find_part(meeting, r) : 0;

        if (one == 0)
            missing = missing < 0 ? r : missing;
        else if (part < STP_N_PARTS) {
            snprintf(text, size, "rank %d has %s than rank %d", r,
                     differs[part], meeting->rank);
            return true;
        } else if (one == NO) {
            snprintf(text, size, "rank %d %s", r,
                     vote == STP_VOTE_HELLO ? "cannot"
                     : vote == STP_VOTE_MEMORY
                         ? "could not allocate the memory"
                         : steps[(vote - STP_VOTE_TWINS) % 3]);
            return vote != STP_VOTE_HELLO;
        }
    }
    snprintf(text, size,
             "rank %d did not come in time: it has no libsteptune-stage.so or "
             "no STEPTUNE_STAGE_FILE, another user, /dev/shm or host, or is "
             "gone",
             missing);
    return true;
}

int stp_meeting_count_here(const struct stp_meeting *meeting)
{
    const struct meeting_row *rows = meeting->board->rows;
    int n = 0;

    for (int r = 0; r < meeting->n_ranks; r++)
        n += rows[r].process == rows[meeting->rank].process;
    return n;
}

void stp_meeting_leave(struct stp_meeting *meeting)
{
    if (meeting == NULL)
        return;
    stp_segment_leave(meeting->segment);
    free(meeting);
}
