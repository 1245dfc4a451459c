/* train_json.h - results of the training benchmark as JSON
 *
 * A list with an object a run, in times of seconds, of the keys that
 * train_json.c lists, and derived from all runs speed_up, scaling_efficiency
 * and exposed_comm_share.
 *
 * The PyTorch notebook that this benchmark follows writes the same list, with
 * fewer keys.  It does not say the batch, samples, learning rate or seed, nor
 * which type of sixteen bits use_amp took: those are unknown, and use_amp is
 * precision "amp".  Its modes are single_gpu, dp_naive, dp_interleaved and
 * ddp_builtin for our single, naive, interleaved and bucketed; sharded is not
 * among them. */
#pragma once

#include <stdio.h>

#include "core/status.h"
#include "report/folder.h"
#include "report/training/train_results.h"
#include "train/train.h"

/* One training; owns none of it. */
struct stp_train_report {
    const struct stp_train_config *config;
    const struct stp_train_result *result;
    const struct stp_device_info *info; /* of any rank's engine */
};

/* Finds the members that define the run of a training. */
void stp_train_describe(const struct stp_train_report *report,
                        struct stp_train_run *run_ret);

/* Adds the run of a training, and derives what follows from all. */
void stp_train_runs_take(struct stp_train_runs *runs,
                         const struct stp_train_report *report);

/* Prints the runs. */
void stp_train_print_json(const struct stp_train_runs *runs, FILE *fp);

/* The path of "benchmark_results_GPU.json" in 'folder', for results of GPUs of
 * this model; NULL: of "benchmark_results.json". */
void stp_train_file_path(const char *folder, const char *gpu,
                         char path[STP_FOLDER_PATH]);

/* Writes the runs, all of one model of GPU, into that file, whole or not at
 * all, and those of which the notebook's format can say all also into
 * benchmark_results.json, with its words for modes, unless the notebook's own
 * is there; the folder is made if there is none.  STP_ERR_IO, STP_ERR_NOMEM. */
enum stp_status stp_train_save(const struct stp_train_runs *runs,
                               const char *folder, struct stp_error *err);

/* Reads the file at 'path', which stp_train_save() or the notebook wrote, and
 * derives the rest.  STP_ERR_SYNTAX says where it is not JSON, or which run has
 * which key that means nothing and what was expected; STP_ERR_IO,
 * STP_ERR_NOMEM, STP_ERR_LIMIT.  The text of *err does not name the file;
 * *runs_ret is untouched on failure. */
enum stp_status stp_train_read(const char *path,
                               struct stp_train_runs *runs_ret,
                               struct stp_error *err);

/* The same out of the 'len' bytes at 'text'. */
enum stp_status stp_train_read_json(const char *text, size_t len,
                                    struct stp_train_runs *runs_ret,
                                    struct stp_error *err);
