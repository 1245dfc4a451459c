/* trace_build.h - a trace that a reader fills, row by row */
#pragma once

#include "analyse/replay/trace.h"

/* All zero to begin with. */
struct stp_trace_build {
    struct stp_trace trace;
    size_t row_capacity;
    size_t compute_capacity;
    size_t skip_capacity;
    size_t comm_capacity; /* a power of 2 */
    size_t *slots; /* twice as many: a hash table of names, with the place of
                      the newest communicator of each, plus 1 */
};

/* The newest communicator of that name; n_comms if there is none. */
size_t stp_trace_find_comm(const struct stp_trace_build *b, const char *name);

/* Append a copy; a communicator is then the newest of its name.  Its 'replaces'
 * is set here, its list of colors is the trace's from then on, and its place is
 * returned. */
size_t stp_trace_add_comm(struct stp_trace_build *b,
                          const struct stp_trace_comm *comm);
void stp_trace_add_row(struct stp_trace_build *b,
                       const struct stp_trace_row *row);
/* Its 'row' is set here. */
void stp_trace_add_compute(struct stp_trace_build *b,
                           const struct stp_trace_compute *compute);

/* Longer compute is played as several pieces of at most this. */
enum { STP_MAX_COMPUTE_US = 2000 };

/* Appends compute of a time, in pieces; less than 1 us is none. */
enum stp_status stp_trace_add_time(struct stp_trace_build *b, double us,
                                   const struct stp_trace_place *place,
                                   struct stp_error *err);

/* Counts a row that cannot be played; names are cut. */
void stp_trace_add_skip(struct stp_trace_build *b, const char *name, size_t len,
                        unsigned line);

/* Hands the trace over, or frees it after a failure 'status', which is
 * returned.  A trace without a row is STP_ERR_SYNTAX. */
enum stp_status stp_trace_finish(struct stp_trace_build *b,
                                 enum stp_status status,
                                 struct stp_trace *trace_ret,
                                 struct stp_error *err);
