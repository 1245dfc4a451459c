/* nccl_text.h - the text that NVIDIA's nccl-tests print, written and read
 *
 * Written as version 2.19 lays it out, so that what reads all_reduce_perf's
 * output reads ours: '#' lines, and a row a size, with the times out of place,
 * then in place.  An allgather and a reducescatter count the elements of one
 * rank, but their size is that of all.  N/A stands for what was not measured or
 * not checked.  Several sections, such as collectives or arms, may follow each
 * other.  Before the first row, and where it changes, a line of ours says where
 * the times of the rows below are from, and how many were taken:
 *
 *   # Source: recorded, single pass, 50 iterations in 1 round */
#pragma once

#include <stdio.h>

#include "bench/measurement.h"
#include "device/device.h"
#include "report/measurements/nccl_log.h"

/* ---- writing, piece by piece ---- */

/* A run, as the lines at the top of its text describe it. */
struct stp_nccl_text_run {
    const char *version; /* of this program */
    unsigned n_threads;  /* a process */
    unsigned n_gpus;     /* a thread */
    uint64_t min_bytes;
    uint64_t max_bytes;
    double factor;       /* from size to size; 0: 'step' */
    uint64_t step_bytes; /* likewise; 0 as well: the sizes have several */
    unsigned warmup;
    unsigned iters;     /* of a round */
    unsigned agg_iters; /* collectives an NCCL group; 1: none */
    unsigned check;     /* iterations of which every element is */
    unsigned graph;     /* launches of a CUDA graph */
    unsigned rounds;
    bool up_to; /* 'iters' are the most, and of large sizes there are fewer */
};

/* One place of a row. */
struct stp_nccl_text_place {
    double us;       /* 0: not measured */
    int64_t n_wrong; /* -1: not checked */
};

/* The origin of a row's times, as the line before it says. */
struct stp_nccl_text_times {
    enum stp_source source; /* the worst of both places */
    uint64_t iters;         /* of all rounds, of the place that has fewer */
    unsigned rounds;
    bool single_pass; /* some of them */
};

struct stp_nccl_text_row {
    int coll;
    uint64_t n_bytes; /* as a tuner counts them */
    int type;
    int op;
    unsigned root;
    unsigned n_ranks;
    struct stp_nccl_text_place out_of_place;
    struct stp_nccl_text_place in_place;
    struct stp_nccl_text_times times;
};

/* Sums over the rows so far, for the lines at the bottom.  Begin with 0. */
struct stp_nccl_text_total {
    struct stp_nccl_text_times times; /* that the last line said; 0 rounds: none
                                         did */
    double busbw;                     /* sum */
    unsigned n_busbw;                 /* of so many times */
    unsigned n_failed; /* those of which some element was wrong */
};

/* The collective of a test's name such as "all_reduce_perf", which may have an
 * ending such as "_mpi"; more of another test's, and -1 of any other word. */
int stp_nccl_text_find_program(const char *word, size_t len);

/* Version, options, and a line a rank. */
void stp_nccl_text_write_head(const struct stp_nccl_text_run *run, int coll,
                              const struct stp_device *device, FILE *fp);

/* The line that a further collective or arm begins with; the columns' names are
 * to follow. */
void stp_nccl_text_write_section(int coll, const struct stp_arm *arm, FILE *fp);

/* The three lines that name the columns. */
void stp_nccl_text_write_columns(FILE *fp);

/* A row, which is added to *total. */
void stp_nccl_text_write_row(const struct stp_nccl_text_row *row,
                             struct stp_nccl_text_total *total, FILE *fp);

/* Writes the sums of errors and bandwidths, after the last section. */
void stp_nccl_text_write_foot(const struct stp_nccl_text_total *total, int coll,
                              FILE *fp);

/* One row out of the measurements that differ from 'like' in round and place
 * alone: means of rounds' means, and the most wrong elements of any round. */
struct stp_nccl_text_row
stp_nccl_text_collapse(const struct stp_dataset *data,
                       const struct stp_measurement *like);

/* ---- reading ---- */

/* After "# ", before the program's name; from version 2.17 on. */
#define STP_NCCL_TEXT_STARTING "Collective test starting: "

/* Reads the 'len' bytes at 'text' into *data, which is empty: output of any
 * version of the five tests, of NCCL's or RCCL's, as text, CSV or JSON, several
 * runs one after the other, or of the writer.  Any text may stand before,
 * between and behind what is read: data->said says what was left out or cut,
 * which runs failed, and what the text does not say.  Times are measured, but
 * in text of the writer what it says, else modelled.  Each pass over the same
 * sizes is a round; the median is the mean, and percentiles are not known,
 * where the text says no more.  The log of NCCL (nccl_log.h) and RCCL's columns
 * say which pairs ran; rows of 0 bytes are skipped, and so are tables behind a
 * run. Errors above those that nccl-tests allow are a wrong element, and so is
 * each row of a run that failed and does not say where.
 *
 * Nodes are NCCL's if it logs them, else hosts.  Of a list of ranks that was
 * cut, the ranks are 'n_ranks', unless that is 0, or those of NCCL's log, or as
 * many as the highest number tells; without a list they are what counts or all
 * bandwidths tell.  A contradiction of these is refused; the first bandwidth or
 * count that contradicts size and time is data->doubt.
 *
 * 'coll' is the collective (ncclFunc_t) of text that does not say it; -1 for
 * what redop, root, count and bandwidths tell.  *settings_ret, unless NULL, is
 * how NCCL was set up, as far as the log or the JSON says.
 *
 * STP_ERR_SYNTAX with line and column, STP_ERR_NOMEM; *data is empty then. */
enum stp_status stp_nccl_text_read(const char *text, size_t len, int coll,
                                   unsigned n_ranks, struct stp_dataset *data,
                                   struct stp_nccl_settings *settings_ret,
                                   struct stp_error *err);

/* Whether the text is for stp_nccl_text_read(), and neither a table nor JSON of
 * ours. */
bool stp_nccl_text_is(const char *text, size_t len);

/* Whether the text looks like the JSON of nccl-tests: of NVIDIA's -J FILE an
 * object with "version", "nccl_version", "args", "env", "config" and "results",
 * a row a size, with percentiles by --per-iter; of RCCL's -Z json objects of a
 * place each. */
bool stp_nccl_json_is(const char *text, size_t len);

/* Rewrites it as text of nccl-tests, without rounding any number: *text_ret, of
 * *len_ret bytes, to be freed with free() in any case, in which results follow
 * the line of columns.  Adds what "env" says to *settings.  STP_ERR_SYNTAX with
 * line and column if it is not JSON. */
enum stp_status stp_nccl_json_to_text(const char *json, size_t json_len,
                                      char **text_ret, size_t *len_ret,
                                      struct stp_nccl_settings *settings,
                                      struct stp_error *err);

/* ---- one file a run of one arm ---- */

/* nccl-tests do not name the arm.  The user does (--arm), or NCCL's log between
 * the rows (nccl_log.h), or the environment in the JSON:
 *
 *   NCCL_ALGO or NCCL_PROTO was set    that is forced
 *   one pair at every size             that pair
 *   several algorithms and protocols,
 *   and no tuner plugin                NCCL's own choice
 *
 * All else is refused: a file of one algorithm and several protocols may be of
 * either.  Our own text names its arms.
 *
 * Appends the rows of the 'len' bytes at 'text' to *data, its passes as further
 * rounds of 'arm', or if that is NULL of the arm that is found.  Runs of
 * different arms were not interleaved: they are of single passes.
 * 'coll' and 'n_ranks' are as for stp_nccl_text_read().
 *
 * STP_ERR_SYNTAX with line and column; STP_ERR_RANGE if the arm cannot be told,
 * or is not what NCCL ran; or STP_ERR_NOMEM.  *data is as it was then. */
enum stp_status stp_nccl_text_add(const char *text, size_t len, int coll,
                                  unsigned n_ranks, const struct stp_arm *arm,
                                  struct stp_dataset *data,
                                  struct stp_error *err);
