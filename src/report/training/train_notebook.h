/*
 * train_notebook.h - results of the PyTorch notebook that this benchmark
 * follows
 *
 * Its file is a list with an object a run, whose keys ours have, too: mode,
 * n_gpus, n_params, model_size, use_amp, grad_accum_steps, epoch_times, losses,
 * comm_times (of dp_naive alone), final_accuracy, gpu_name, and sums.  It does
 * not say the batch, samples, learning rate or seed, nor which type of sixteen
 * bits use_amp took: those are unknown, and use_amp is precision "amp".  Modes
 * are single_gpu, dp_naive, dp_interleaved and ddp_builtin for our single,
 * naive, interleaved and bucketed; sharded is not among them.
 */
#ifndef STP_TRAIN_NOTEBOOK_H
#define STP_TRAIN_NOTEBOOK_H

#include <cjson/cJSON.h>

#include "report/training/train_results.h"

/* Puts the notebook's word in the place of our mode, or ours in the place of
 * the notebook's; any other word stays. */
void stp_notebook_write_mode(struct stp_train_run *run);
void stp_notebook_read_mode(struct stp_train_run *run);

/* Whether the notebook wrote the row: it does not say what it was made by. */
bool stp_notebook_wrote(const cJSON *row);

/* A run of which nothing is known, to read the notebook's keys into. */
struct stp_train_run stp_notebook_run(void);

/* Completes a run of 'row' of which the notebook's keys were read: the lists
 * that it lacks, of unknown numbers but where nothing was communicated, and the
 * words.  STP_ERR_NOMEM. */
enum stp_status stp_notebook_complete(const cJSON *row,
                                      struct stp_train_run *run,
                                      struct stp_error *err);

/* Whether the notebook's format can say all of the run that it shows: it was
 * measured with data, under NCCL's own choice, in fp32, bf16 or fp16. */
bool stp_notebook_has(const struct stp_train_run *run);

#endif /* STP_TRAIN_NOTEBOOK_H */
