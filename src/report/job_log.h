/* job_log.h - what NCCL logged of a job
 *
 * With NCCL_DEBUG=INFO NCCL says what it found and decided, a line a fact.  One
 * file may hold the lines of several ranks and hosts in any order, behind the
 * prefixes of launchers and between lines of other programs, which count for
 * nothing.  A table has the facts, with the versions of NCCL that log them, as
 * its source of 2.21 to 2.32 has them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "core/text.h"

/* Facts whose values are asked for. */
enum stp_log_key {
    STP_LOG_SAID,       /* any other */
    STP_LOG_VERSION,    /* "27.5" of 2.27.5, "+cuda12.9" */
    STP_LOG_GPU,        /* rank, host, device, name: nccl-tests' line */
    STP_LOG_VARIABLE,   /* name without "NCCL_", value */
    STP_LOG_RANK,       /* rank, ranks */
    STP_LOG_SHAPE,      /* rank, ranks, nodes, ranks of the node */
    STP_LOG_TUNER,      /* name of a plugin */
    STP_LOG_CPU,        /* architecture, vendor: NCCL's numbers */
    STP_LOG_PCI,        /* GB/s, to where */
    STP_LOG_LINKS,      /* GB/s of a GPU's fastest path, of all its links */
    STP_LOG_RING_GRAPH, /* "", crossNic, channels, GB/s of one within a node, to
                           the network, paths likewise, sameChannels */
    STP_LOG_NVLS_GRAPH, /* likewise */
    STP_LOG_TREE_GRAPH, /* pattern, crossNic ... */
    STP_LOG_CHANNELS,   /* of collectives, CollNet, NVLS, p2p, a peer */
    STP_LOG_TABLE,      /* begins that of trees and rings */
    STP_LOG_COSTS,      /* GB/s of all-reduce: tree, ring by protocol */
    STP_LOG_RAN,        /* collective, bytes, algorithm, protocol, channels */
    STP_LOG_ASKED,      /* collective, bytes */
    STP_LOG_BEST,       /* both, algorithm, protocol, kernel, channels */
    STP_LOG_WARNING,    /* text */
    STP_LOG_FAILURE,    /* text of others */
};

enum stp_log_scope {
    STP_LOG_OF_NONE, /* not printed */
    STP_LOG_OF_JOB,
    STP_LOG_OF_COMM,
    STP_LOG_OF_CALL, /* decisions */
};

/* A line that NCCL logs.  In 'line' blanks stand for any number of them; %w is
 * a word, up to what follows it there; %u a number, %l the rest of the line, %t
 * if it may be a transport, %* as little as fits, %0 nothing: each is a value
 * of the fact.  %~ is as little as fits, %s a word, which are none. */
struct stp_log_row {
    enum stp_log_key key;
    enum stp_log_scope scope;
    const char *subsystem;      /* of NCCL_DEBUG_SUBSYS; "": any, WARN: a level,
                                   TEXT: lines that NCCL does not log */
    unsigned char since, until; /* 2.21 to 2.32 */
    const char *line;
    const char *what; /* with '?' said to be unknown where it lacks */
    const char *says; /* $1 is the first value; $1? is on or off; $1# a number,
                         $1@ one that sorts; $1/ a transport without devices;
                         $1c, $1a, $1p the name of a collective, algorithm and
                         protocol; tabs part the columns of decisions */
};
extern const struct stp_log_row stp_log_rows[]; /* the first that fits counts;
                                                   line NULL ends them */

enum { STP_LOG_VALUES = 8, STP_LOG_ANY = 0 };

struct stp_log_fact {
    const struct stp_log_row *row;
    unsigned line; /* of the file, from 1 */
    unsigned rank; /* place in 'ranks', from 1; 0: of none that the log tells */
    unsigned shape;           /* likewise in 'shapes' */
    struct stp_field thread;  /* "HOST:PID:TID [0]"; "" of lines without it */
    struct stp_field message; /* behind "NCCL INFO " */
    struct stp_field value[STP_LOG_VALUES]; /* "" where it has none */
};

/* A rank of a communicator. */
struct stp_log_rank {
    struct stp_field thread;                     /* that made it */
    unsigned number, n_ranks, n_nodes, per_node; /* 0 nodes: not told */
    unsigned shape;
};

/* Communicators of as many ranks on as many nodes. */
struct stp_log_shape {
    unsigned n_ranks, n_nodes, per_node;
    unsigned n_logged; /* ranks in the log, of all of them */
};

struct stp_job_log {
    char *text;                 /* that values point into */
    unsigned n_lines;           /* that are NCCL's */
    struct stp_log_fact *facts; /* thread by thread, whose lines follow each
                                   other as in the file */
    size_t n_facts, facts_capacity;
    struct stp_log_rank *ranks;
    size_t n_ranks, ranks_capacity;
    struct stp_log_shape *shapes;
    size_t n_shapes, shapes_capacity;
    struct stp_field host; /* for stp_log_find() */
    char unread[400];      /* compressed files of a folder; "": none */
};

/* A line of the log without the prefixes of launchers. */
struct stp_log_message {
    struct stp_field thread; /* where NCCL's begins; "" if it is cut off */
    const char *s;           /* behind "NCCL INFO " */
    const char *end;         /* of it: of the line, or where another begins */
    bool is_torn;            /* another begins in it, nobody knows where */
    bool is_warning;
};

/* Finds "HOST:PID:TID [DEVICE] NCCL LEVEL ", or with "FILE:LINE " or "FILE:LINE
 * (FUNCTION) " before NCCL, or less of it.  *known is a host that begun a line
 * before, by which hosts are told that stand against something else; "" to
 * begin with.  Returns where it begins; 'len', with .s NULL, if nowhere. */
size_t stp_log_find(const char *line, size_t len, struct stp_field *known,
                    struct stp_log_message *message);

/* Which fact a message states that goes up to 'end', without line and rank; or
 * a line that is no log, which its .s is.  False: none. */
bool stp_log_read(const struct stp_log_message *message, bool is_log,
                  const char *end, struct stp_log_fact *fact_ret);

/* Reads a text, which *log_ret keeps.  STP_ERR_SYNTAX if NCCL logged none of
 * it, or STP_ERR_NOMEM; the text is still the caller's then. */
enum stp_status stp_job_log_read(char *text, size_t len,
                                 struct stp_job_log *log_ret,
                                 struct stp_error *err);

/* All files of a folder are read as one, but for compressed ones. */
enum stp_status stp_job_log_load(const char *path, struct stp_job_log *log_ret,
                                 struct stp_error *err);
void stp_job_log_free(struct stp_job_log *log);

/* The fact after 'after', NULL for the first; of a shape, or STP_LOG_ANY. */
const struct stp_log_fact *stp_log_next(const struct stp_job_log *log,
                                        enum stp_log_key key, unsigned shape,
                                        const struct stp_log_fact *after);

/* Whether the fact's line begins as 'line' says, as in struct stp_log_row. */
bool stp_log_fits(const struct stp_log_fact *fact, const char *line);

/* A value as a number; NAN if it is none. */
double stp_log_number(const struct stp_log_fact *fact, int i);

/* The number of a name of NCCL's, in any case, or of a number below 'n'; -1 if
 * it is neither. */
int stp_log_word(const struct stp_field *word, int n,
                 int (*from_name)(const char *, size_t));

/* NCCL's minor version, 27 of 2.27.5; 0 if the log does not tell. */
unsigned stp_log_minor(const struct stp_job_log *log);

/* Why the log has no such fact: "NCCL 2.21 does not log it", or which lines are
 * missing. */
void stp_log_lacks(const struct stp_job_log *log, const struct stp_log_row *row,
                   char *text, size_t size);
