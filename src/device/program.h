/* program.h - the work that was noted and is yet to run */
#pragma once

#include "device/device.h"
#include "device/span.h"

enum stp_work_kind {
    STP_WORK_COLLECTIVE,
    STP_WORK_GROUP_BEGIN,
    STP_WORK_GROUP_END,
    STP_WORK_GEMM,
    STP_WORK_ELEMENTWISE,
    STP_WORK_RECORD,
    STP_WORK_WAIT,
    /* An engine's, by addresses; from PRODUCT on they are compute. */
    STP_WORK_TRANSFER,
    STP_WORK_PRODUCT,
    STP_WORK_CROSS_ENTROPY,
    STP_WORK_UPDATE,
    STP_WORK_KERNEL,
};

/* One piece of work; members that its kind does not need are 0. */
struct stp_work {
    enum stp_work_kind kind;
    unsigned stream;
    unsigned event;
    struct stp_collective collective;
    struct stp_gemm gemm;
    uint64_t n_bytes; /* of each vector of an elementwise kernel */
    size_t task;      /* of a traced step, which has its time */
    union {
        struct stp_transfer transfer;
        struct stp_product product;
        struct stp_cross_entropy cross_entropy;
        struct stp_update update;
        struct stp_kernel kernel;
    } as;
    struct stp_part range; /* of a trace, in which an engine noted it */
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

/* Appends a span for each note, which does not end yet. */
enum stp_status stp_program_add_spans(const struct stp_program *program,
                                      struct stp_spans *spans,
                                      struct stp_error *err);

void stp_program_free(struct stp_program *program);
