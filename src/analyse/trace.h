/*
 * trace.h - a sequence of collectives, as recorded from a job or written by
 * hand
 *
 * A CSV file: '#' lines, a header line that names the columns in any order, and
 * a row a collective.
 *
 *   collective   broadcast, reduce, allgather, reducescatter, allreduce
 *   bytes        as a tuner counts them
 *   group        rows that follow each other with the same number ran in one
 *                ncclGroup; empty: by itself                        (optional)
 *   regBuff      0 or 1                                             (optional)
 *   expect       what must come of it: ALGORITHM/PROTOCOL,
 *                ALGORITHM/PROTOCOL/CHANNELS with the channels that run, or
 *                auto for NCCL's own choice; empty: anything        (optional)
 *   t_ns comm nRanks numPipeOps
 *                of a recording; not used here                      (optional)
 *
 * The lines "# machine: NAME", "# policy: FILE" (beside the trace) and
 * "# nccl: VERSION" say on what, with which policy and in which NCCL it is to
 * be replayed.
 */
#ifndef STP_TRACE_H
#define STP_TRACE_H

#include "core/status.h"
#include "mock_nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

enum stp_expect_kind { STP_EXPECT_ANYTHING, STP_EXPECT_AUTO, STP_EXPECT_PAIR };

struct stp_expect {
    enum stp_expect_kind kind;
    int algo;
    int proto;
    int n_channels; /* 0: any */
};

struct stp_trace_row {
    struct mock_call call;
    uint64_t group; /* 0: by itself */
    struct stp_expect expect;
    unsigned line;
};

struct stp_trace {
    struct stp_trace_row *rows;
    size_t n_rows;
    size_t capacity;
    char machine[64];
    char policy[256];
    char nccl[16]; /* each "" if the trace does not say */
};

/* Reads the file 'path' into *trace_ret, to be freed with stp_trace_free(); or
 * leaves it untouched, with line, column and the word in *err. */
enum stp_status stp_trace_load(const char *path, struct stp_trace *trace_ret,
                               struct stp_error *err);

void stp_trace_free(struct stp_trace *trace);

#ifdef __cplusplus
}
#endif
#endif /* STP_TRACE_H */
