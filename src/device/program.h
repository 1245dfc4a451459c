/* program.h - the work that was noted and is yet to run */
#pragma once

#include "device/device.h"

enum stp_work_kind {
    STP_WORK_COLLECTIVE,
    STP_WORK_GROUP_BEGIN,
    STP_WORK_GROUP_END,
    STP_WORK_GEMM,
    STP_WORK_ELEMENTWISE,
    STP_WORK_RECORD,
    STP_WORK_WAIT,
    STP_WORK_TASK, /* an engine's other work */
};

/* One piece of work; members that its kind does not need are 0. */
struct stp_work {
    enum stp_work_kind kind;
    unsigned stream;
    unsigned event;
    struct stp_collective collective;
    struct stp_gemm gemm;
    uint64_t n_bytes; /* of each vector of an elementwise kernel */
    size_t task;      /* which of the engine's */
    unsigned split;   /* of a collective that an engine notes */
    bool is_plain;    /* so is this: no setup registers its buffers */
};

/* Begin with zeros; free with stp_program_free(). */
struct stp_program {
    struct stp_work *notes;
    size_t n_notes;
    size_t capacity;
    unsigned n_events; /* one more than the highest event recorded */
    bool in_group;
    bool ran; /* the next note is the first of another program */
};

/* Appends; to an empty program if the last one ran.  STP_ERR_RANGE for a stream
 * that is not there, a wait for an event that no earlier note records, work
 * that cannot be in a group, and a group that cannot be; STP_ERR_NOMEM. */
enum stp_status stp_program_add(struct stp_program *program,
                                const struct stp_work *work,
                                struct stp_error *err);

/* To be called where it runs first: empties it if it ran before and nothing was
 * noted since. */
void stp_program_begin(struct stp_program *program);

void stp_program_free(struct stp_program *program);
