/*
 * train.h - what the parts of `steptune train` share
 */
#ifndef STP_CLI_TRAIN_H
#define STP_CLI_TRAIN_H

#include "cli/cli.h"
#include "launch/crew.h"
#include "report/training/train_json.h"
#include "train/train_matrix.h"

enum stp_train_place {
    STP_TRAIN_ON_CPUS, /* each rank a process */
    STP_TRAIN_ON_GPUS, /* threads of one, or processes that others started */
    STP_TRAIN_ON_RECORDED, /* in virtual time, one engine for all ranks */
};

struct stp_train_options {
    enum stp_train_place place;
    struct stp_machine_options machine;
    struct stp_run_options run;
    struct stp_train_matrix matrix; /* n_gpus 0: not given */
    double bucket_mib;
    const char *policy; /* or NULL */
    const char *plugin; /* or NULL: ours, if there is a policy */
    const char *output; /* folder, or NULL */
    bool fresh;         /* discard the results in that folder */
};

/* Reads options, or ends the program as argp does. */
void stp_train_parse(int argc, char **argv, struct stp_train_options *o_ret);

/* ---- the engines of one count of GPUs ---- */

/* All ranks of this process, each with a thread of its own if there are
 * several. The seam for GPUs: CPUs have one. */
struct stp_train_engines {
    const struct stp_world *world; /* outlives it */
    unsigned n;
    struct stp_engine *engines;
    struct stp_crew *crew; /* NULL for one */
};

/* Opens 'n_local' ranks of this process, several only in a world of one.  All
 * processes of options->world call it; statuses as stp_open_engines(). */
enum stp_status stp_train_engines_open(const struct stp_open_options *options,
                                       unsigned n_local,
                                       struct stp_train_engines *engines_ret,
                                       struct stp_error *err);

/* stp_train_measure() on all ranks, which write the traces that were asked for
 * into folder 'traces'.  The result, and the reason of a failure, are
 * those of the first rank here. */
enum stp_status stp_train_engines_run(struct stp_train_engines *engines,
                                      const struct stp_train_config *config,
                                      const char *traces,
                                      struct stp_train_result *result_ret,
                                      struct stp_error *err);

void stp_train_engines_close(struct stp_train_engines *engines);

/* ---- one start of the command ---- */

enum { STP_TRAIN_TUNER = 96, STP_TRAIN_PAIR = 40 };

/* Results are rank 0's. */
struct stp_train_session {
    const struct stp_train_options *o;
    const struct stp_world *world;
    struct stp_train_jobs jobs;
    const char *plugin;          /* path, or NULL */
    char tuner[STP_TRAIN_TUNER]; /* see struct stp_train_run */
    char pair[STP_TRAIN_PAIR];
    struct stp_train_runs runs; /* all of the file */
    size_t *order;              /* those that were asked for, in 'runs' */
    size_t n_order;
    size_t n_done;  /* jobs that are in 'runs' */
    size_t n_there; /* of those, before this start */
    size_t n_failed;
    bool is_loaded;
};

/* Whether only this training cannot be, and another may. */
bool stp_train_is_its_own(enum stp_status status);

/*
 * Trains one job, unless it is there already, and keeps the result: in the
 * file, too.  All processes of 'part', whose engines these are, call it.  What
 * stp_train_is_its_own() is said, counted, and no failure of this function;
 * STP_ERR_STOPPED after a signal.
 */
enum stp_status stp_train_one(struct stp_train_session *s,
                              const struct stp_world *part,
                              struct stp_train_engines *engines,
                              const struct stp_train_job *job,
                              struct stp_error *err);

#endif /* STP_CLI_TRAIN_H */
