/*
 * trace.h - a sequence of collectives, as recorded from a job or written by
 * hand
 *
 * A CSV file: '#' lines, a header line that names the columns in any order, and
 * a row a collective.  All columns but the first two are optional, and so are
 * their fields.
 *
 *   collective   broadcast, reduce, allgather, reducescatter, allreduce
 *   bytes        as a tuner counts them
 *   group        rows that follow each other with the same number ran in one
 *                ncclGroup, one of each communicator's; empty: by itself
 *   regBuff      0 or 1; empty: 1 if captured, else 0
 *   expect       the required choice: ALGORITHM/PROTOCOL,
 *                ALGORITHM/PROTOCOL/CHANNELS with the channels that run, or
 *                auto for NCCL's own choice; empty: anything
 *   comm         the communicator, any word
 *   nRanks       ranks of the communicator, the same on all of its rows; empty:
 *                as many as the machine has, or the parent of a split
 *   create       how this row's communicator came to be, just before the row:
 *                init, split COMM or shrink COMM with the word of another one,
 *                whose first nRanks ranks it has; empty: init on its first row,
 *                nothing on others.  A word that is used already now means the
 *                new communicator, and the old one is destroyed
 *   capture      K >= 1: captured into a CUDA graph, with its group, which is
 *                then launched K times; 0 or empty: an ordinary launch
 *   type         i8 u8 i32 u32 i64 u64 f16 bf16 f32 f64 fp8e4m3 fp8e5m2;
 *                empty: bf16
 *   op           sum prod min max avg premulsum; empty: sum
 *   numPipeOps   of a row without group, the number passed to the tuner: a
 *                recorded call is the sum of a run, whose group is not to be
 *                seen; in a group, the number that NCCL must compute; empty:
 *                NCCL's
 *   begin_ns     of a recording: when it began and ended on the rank's GPU, by
 *   end_ns       the GPU's clock; empty: not known
 *   t_ns         of a recording, not used here, as the next two: the host's
 *   process      clock at the launch; the process that recorded it; and 1 if a
 *   graph        CUDA graph launched it, else 0
 *
 * The lines "# machine: NAME", "# policy: FILE" (beside the trace) and
 * "# nccl: VERSION" name the machine, the policy and the NCCL version of the
 * replay.
 */
#ifndef STP_TRACE_H
#define STP_TRACE_H

#include "core/status.h"
#include "mock_nccl.h"

enum stp_expect_kind { STP_EXPECT_ANYTHING, STP_EXPECT_AUTO, STP_EXPECT_PAIR };

struct stp_expect {
    enum stp_expect_kind kind;
    int algo;
    int proto;
    int n_channels; /* 0: any */
};

enum { STP_COMM_NAME = 32 };

enum stp_creation { STP_INIT, STP_SPLIT, STP_SHRINK };

/* A communicator, from its creation on. */
struct stp_trace_comm {
    char name[STP_COMM_NAME]; /* "" without a column 'comm' */
    enum stp_creation creation;
    size_t parent;   /* place of an earlier one, of a child */
    size_t replaces; /* place of the one that had the name; its own: none */
    int n_ranks;     /* 0 if the trace does not say */
    unsigned line;   /* that it is created before */
};

struct stp_trace_row {
    struct mock_call call; /* n_pipe_ops is 0 if the trace does not say */
    size_t comm;           /* place in 'comms' */
    uint64_t group;        /* 0: by itself */
    unsigned n_launches;   /* of its graph; 0: not captured */
    struct stp_expect expect;
    uint64_t begin_ns; /* on the GPU, by its clock; 0: not known */
    uint64_t end_ns;
    unsigned line;
};

struct stp_trace {
    struct stp_trace_row *rows;
    size_t n_rows;
    struct stp_trace_comm *comms; /* in the order of their creation */
    size_t n_comms;
    char machine[64];
    char policy[256];
    char nccl[16]; /* each "" if the trace does not say */
};

/* Reads the file 'path' into *trace_ret, to be freed with stp_trace_free(); or
 * leaves it untouched, with line, column and the word in *err. */
enum stp_status stp_trace_load(const char *path, struct stp_trace *trace_ret,
                               struct stp_error *err);

void stp_trace_free(struct stp_trace *trace);

#endif /* STP_TRACE_H */
