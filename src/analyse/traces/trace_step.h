/* trace_step.h - a step of a traced job, on the ranks of a device */
#pragma once

#include "analyse/replay/trace.h"
#include "bench/traced_step.h"

/* The part of a trace that is played, and its place. */
struct stp_trace_step {
    struct stp_traced_step work;
    unsigned number;  /* the step's, in the job */
    unsigned n_steps; /* that the trace has; 0: only what is before them */
    size_t n_gemms;
    struct stp_rank_groups *groups; /* of each communicator of the trace on the
                                       device; size 0: all its ranks */
    bool *is_used;                  /* each of them, by this step */
};

/* Leaves the rows of the first row's process, and compute before them: others
 * recorded their own communicators, beside these. */
void stp_trace_keep_process(struct stp_trace *trace);

/* Takes the step of the most rows and, of several such steps, the last: the
 * first may be one that warms up. The trace is of one process. One that does
 * not number steps has one in the sequence of collectives that its end repeats,
 * or in all rows.
 *
 * The largest communicators have all 'n_ranks' ranks, the others
 * stp_rank_groups_cut() of theirs.  Bytes are rounded up to what the ranks of a
 * group can share.  'type' is that of GEMMs and of collectives of floats; below
 * 0 the trace's.
 *
 * STP_ERR_RANGE for a communicator that those ranks cannot have.  Free with
 * stp_trace_step_free(). */
enum stp_status stp_trace_step_make(const struct stp_trace *trace,
                                    unsigned n_ranks, int type,
                                    struct stp_trace_step *step_ret,
                                    struct stp_error *err);

void stp_trace_step_free(struct stp_trace_step *step);

/* The largest collective of any step, with room for rounding up. */
uint64_t stp_trace_max_bytes(const struct stp_trace *trace);
