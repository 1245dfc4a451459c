/* train_matrix.h - what is to be trained, one configuration after the other */
#pragma once

#include "train/train.h"

enum { STP_TRAIN_LIST = 16 }; /* entries of a list, at most */

/* All combinations of these lists, each of one entry or more, none twice. */
struct stp_train_matrix {
    struct stp_train_config base; /* the rest of each configuration */
    const struct stp_train_model *models[STP_TRAIN_LIST];
    unsigned n_models;
    unsigned gpus[STP_TRAIN_LIST]; /* counts of GPUs, from 1 */
    unsigned n_gpus;
    int precisions[STP_TRAIN_LIST]; /* enum stp_precision */
    unsigned n_precisions;
    unsigned accumulate[STP_TRAIN_LIST];
    unsigned n_accumulate;
    unsigned micro_batch; /* samples of a micro-batch, of all ranks, so that a
                             step has as many times more; 0: a step has those
                             of 'base' */
    int modes[STP_TRAIN_LIST]; /* enum stp_train_mode */
    unsigned n_modes;
};

struct stp_train_job {
    struct stp_train_config config;
    unsigned n_gpus;
};

/* Free with stp_train_jobs_free(). */
struct stp_train_jobs {
    struct stp_train_job *jobs;
    size_t n;
};

/* Lists what to train: by counts of GPUs, on each by sizes, precisions,
 * micro-batches and modes, in the order of the lists.
 *
 * On one GPU there is nothing to communicate: every mode is single there, which
 * is listed once, and on more there is no single.  16-bit gradients are those
 * of precisions that have them, unless there is only one precision.  There may
 * be nothing to train. STP_ERR_NOMEM, STP_ERR_LIMIT, STP_ERR_RANGE for steps of
 * more samples than an epoch has; *jobs_ret is untouched then. */
enum stp_status stp_train_plan(const struct stp_train_matrix *matrix,
                               struct stp_train_jobs *jobs_ret,
                               struct stp_error *err);

void stp_train_jobs_free(struct stp_train_jobs *jobs);

enum { STP_TRAIN_SKIPPED = 200 };

/* Writes which modes stp_train_plan() left out and where, in one line without
 * newline; "" for none. */
void stp_train_skipped(const struct stp_train_matrix *matrix,
                       char text[STP_TRAIN_SKIPPED]);

enum { STP_TRAIN_JOB_NAME = 120 };

/* "base, 4 ranks, bucketed, bf16, ga 4". */
void stp_train_job_name(const struct stp_train_job *job,
                        char name[STP_TRAIN_JOB_NAME]);
