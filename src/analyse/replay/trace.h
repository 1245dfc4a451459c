/* trace.h - a sequence of collectives and compute, as recorded from a job or
 * written by hand
 *
 * A CSV file: '#' lines, of which "# machine: NAME", "# policy: FILE" (beside
 * the trace) and "# nccl: VERSION" are for the replay, a header line that names
 * the columns in any order, and a row a collective or a piece of compute.  All
 * columns but the first two are optional, and so are their fields.  (Traces of
 * others: analyse/traces.)
 *
 *   collective   its name, or compute
 *   bytes        as a tuner counts them; empty for compute
 *   group        rows that follow each other with the same number ran in one
 *                ncclGroup, one of each communicator's; empty: by itself
 *   regBuff      0, or 1 for buffers that are registered, of a group one by
 *                one; empty: 1 if captured, else 0
 *   expect       the required choice: ALGORITHM/PROTOCOL, and /CHANNELS that
 *                run, or auto for NCCL's own; empty: anything
 *   comm         the communicator, any word
 *   nRanks       its ranks, the same on all of its rows; empty: as many as the
 *                machine has, or the parent of a split
 *   create       how this row's communicator came to be, just before the row:
 *                init, split COMM or shrink COMM with the word of another one,
 *                whose first nRanks ranks it has; empty: init on its first row,
 *                nothing on others.  A word that is used already now means the
 *                new communicator, and the old one is destroyed
 *   ranks        with split: the ranks of COMM that each color has, colors
 *                separated by / and ranks by +, as 0+2/1+3; N-M are ranks N to
 *                M, N-M:S every S-th of them.  All colors are communicators of
 *                this word, and each runs all of its rows.  Empty: one, of the
 *                first nRanks ranks
 *   capture      K >= 1: captured into a CUDA graph, with its group, which is
 *                then launched K times; 0 or empty: an ordinary launch
 *   type, op     empty: bf16, sum
 *   numPipeOps   of a row without group, the number passed to the tuner: a
 *                recorded call is the sum of a run, whose group is not to be
 *                seen; in a group, the number that NCCL must compute
 *   begin_ns, end_ns   of a recording: by the rank's GPU; the time from the end
 *                of the row above to the begin is compute
 *   process      of a recording; compute is that of the first row's process
 *   m, n, k      of compute: a GEMM of these sides, of 'type'
 *   us           of compute without them: microseconds; less than 1 is none
 *   stream       main, where all compute is, or comm: a collective in comm
 *                begins after all that is above it in main and runs at the same
 *                time as what follows in main; empty: main
 *   wait         1: this row, and those of main after it, wait for all that is
 *                above it in comm
 *   step         number of the job's step; 0: once, before the first step;
 *                empty: as the row above, of the first row 1 */
#pragma once

#include "core/status.h"
#include "device/call.h"
#include "device/device.h"
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
    int n_ranks;     /* 0 if the trace does not say; of each color */
    unsigned line;   /* that it is created before */

    /* The colors of a split whose parts all run its rows. By rule: ranks that
     * are 'stride' apart are together, n_ranks of them or, if that is 0, as
     * many as there are. Or by list: color[r] is that of the parent's rank r,
     * below 0 for none, and none for ranks from n_listed on. */
    unsigned stride; /* 0: not by rule */
    int *color;      /* NULL: not by list */
    int n_listed;
};

/* The groups of '*groups' among 'n_ranks' ranks, so that each rank is in one:
 * those of the trace or, where there are not so many ranks, smaller ones.  The
 * size becomes the largest divisor of 'n_ranks' up to the size, and then the
 * stride the largest divisor of the number of groups up to the stride.  Size 0
 * asks for as many ranks as the stride leaves, or for all if it leaves one. */
struct stp_rank_groups stp_rank_groups_cut(const struct stp_rank_groups *groups,
                                           unsigned n_ranks);

/* Where a row is in the job. */
struct stp_trace_place {
    unsigned stream; /* STP_STREAM_MAIN or STP_STREAM_COMM */
    bool waits;      /* main waits for comm before it */
    unsigned step;   /* 0: before the first step */
    unsigned line;
};

struct stp_trace_row {
    struct mock_call call; /* n_pipe_ops is 0 if the trace does not say */
    size_t comm;           /* place in 'comms' */
    uint64_t group;        /* 0: by itself */
    unsigned n_launches;   /* of its graph; 0: not captured */
    struct stp_expect expect;
    uint64_t begin_ns; /* on the GPU, by its clock; 0: not known */
    uint64_t end_ns;
    uint64_t process; /* that recorded it; 0: not known */
    int type;         /* enum stp_type, and the operation: enum stp_op */
    int op;
    struct stp_trace_place place;
};

/* Compute of main. */
struct stp_trace_compute {
    size_t row;           /* that comes next; n_rows: none */
    double us;            /* 0: of the GEMM */
    struct stp_gemm gemm; /* all 0: of the time */
    struct stp_trace_place place;
};

/* Rows of a name that cannot be played. */
struct stp_trace_skip {
    char name[64];
    size_t n;
    unsigned line; /* the first of them */
};

struct stp_trace {
    char format[48];   /* of the file: "steptune CSV" or "execution trace" */
    unsigned cut_line; /* with which the file ends too early; 0: it is whole */
    char file[64];     /* of a folder; "" if that was not named */
    struct stp_trace_row *rows;
    size_t n_rows;
    struct stp_trace_compute *computes;
    size_t n_computes;
    struct stp_trace_skip *skips;
    size_t n_skips;
    struct stp_trace_comm *comms; /* in the order of their creation */
    size_t n_comms;
    bool has_steps; /* the file says which step rows are of */
    char machine[64];
    char policy[256];
    char nccl[16]; /* each "" if the trace does not say */
};

/* Reads the CSV text into *trace_ret, to be freed with stp_trace_free(); or
 * leaves it untouched, with line, column and the word in *err. */
enum stp_status stp_trace_read_csv(const char *text, size_t len,
                                   struct stp_trace *trace_ret,
                                   struct stp_error *err);

void stp_trace_free(struct stp_trace *trace);
