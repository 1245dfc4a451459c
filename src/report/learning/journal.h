/* journal.h - the decisions and rewards that a learning plugin wrote
 *
 * A journal is the CSV of STEPTUNE_JOURNAL, to which all processes of a job,
 * and of jobs after it, append lines. */
#pragma once

#include "core/learn/learner.h"
#include "core/stats.h"

enum { STP_JOURNAL_MAX = 1 << 30 }; /* bytes of a file */

/* A line.  Gains are 0 where there is none, and may be infinite. */
struct stp_journal_line {
    double t_us; /* of a clock of the host */
    uint64_t comm;
    uint64_t n_nodes;
    uint64_t n_ranks;
    enum stp_learn_kind kind;
    uint64_t call; /* of the communicator: how many there were before */
    int coll;      /* ncclFunc_t; -1: it is of no message, nor of an arm */
    struct stp_range bytes;
    struct stp_bandit_arm arm;
    double value; /* times in microseconds */
    double scale; /* by which it was multiplied for that */
    struct stp_gain gain;
};

struct stp_journal_lines {
    struct stp_journal_line *all;
    size_t n;
};

/* Reads the 'len' bytes at 'text', to be freed with stp_journal_free(), but
 * leaves out lines that begin before the byte 'from', which an earlier job
 * wrote.  A last line without an end, of a job that was killed, is left out; a
 * text without lines is valid.  STP_ERR_SYNTAX with the line of any other
 * error, or STP_ERR_NOMEM; *lines_ret is untouched then. */
enum stp_status stp_journal_read(const char *text, size_t len, size_t from,
                                 struct stp_journal_lines *lines_ret,
                                 struct stp_error *err);

/* Like stp_journal_read(), but of the file at 'path'; no file is like an empty
 * one.  STP_ERR_IO, too, also if it is no regular file. */
enum stp_status stp_journal_load(const char *path, size_t from,
                                 struct stp_journal_lines *lines_ret,
                                 struct stp_error *err);

/* The bytes of the file at 'path', to which a job will append; 0 if there is
 * none.  A last line without an end is cut off, as the job's first line would
 * stand behind it. */
size_t stp_journal_prepare(const char *path);

void stp_journal_free(struct stp_journal_lines *lines);
