/* trace.h - a sequence of collectives and compute, as recorded from a job or
 * written by hand
 *
 * A CSV file, whose columns steptune-replay(1) (cli/man/replay.h2m) describes.
 * (Traces of others: analyse/traces.) */
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
