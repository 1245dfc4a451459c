/* train_engines.h - the engines of a count of GPUs, a thread each */
#pragma once

#include "cli/cli.h"
#include "launch/thread_pool.h"
#include "train/train.h"

/* All ranks of this process, each with a thread of its own if there are
 * several. The seam for GPUs: CPUs have one. */
struct stp_train_engines {
    const struct stp_world *world; /* outlives it */
    unsigned n;
    struct stp_engines engines;
    struct stp_thread_pool *pool; /* NULL for one */
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
