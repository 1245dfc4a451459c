/* train_results.h - results of the training benchmark, read back
 *
 * Plain numbers and words, with no tie to models or engines: for tables and
 * charts, and for a matrix that is resumed. */
#pragma once

#include <stdio.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/source.h"

#define STP_TRAIN_AMP "amp" /* bf16 or fp16, as PyTorch chose */

#define STP_TRAIN_UNKNOWN (UINT64_C(1) << 63) /* exact in a double */

/* One configuration that was trained.  Times are in seconds, those of
 * the slowest rank.  Words are terminated, and cut if they are too long. */
struct stp_train_run {
    /* Members that define the run, all known but to files of the notebook. */
    char mode[16];         /* "single", "naive", "interleaved", "bucketed" or
                              "sharded" */
    char size[32];         /* of the model: "base" */
    char precision[8];     /* "fp32", "tf32", "bf16", "fp16" or "fp64";
                              STP_TRAIN_AMP */
    char gradients[8];     /* likewise: the type that they are sent as */
    char gpu[96];          /* model of the GPU, or of the CPU */
    char made_by[640];     /* machine and libraries, in a line */
    unsigned n_gpus;       /* from 1 */
    unsigned ga;           /* micro-batches of a step, from 1 */
    unsigned batch;        /* samples of a step, of all GPUs; 0: unknown */
    unsigned n_samples;    /* of an epoch; 0: unknown */
    unsigned warmup;       /* steps; UINT32_MAX: unknown */
    double rate;           /* 0: unknown */
    uint64_t seed;         /* or STP_TRAIN_UNKNOWN, as the next two */
    uint64_t bucket_bytes; /* of mode bucketed; 0 in others */
    uint64_t first_bucket_bytes;

    enum stp_source source; /* of the times, the worst of all in them */

    /* Results. */
    uint64_t n_params;
    unsigned n_epochs;     /* from 1 */
    double *epoch_s;       /* n_epochs, above 0 */
    double *comm_s;        /* n_epochs: collectives, added up; NaN: unknown */
    double *exposed_s;     /* n_epochs: in which compute waited; NaN: unknown */
    double *losses;        /* n_epochs: means over steps; NaN without data */
    double accuracy;       /* share; NaN without data */
    double throughput;     /* samples a second; NaN: unknown */
    unsigned n_skipped;    /* steps, of fp16, for an overflow */
    double loss_scale;     /* of fp16, the last; 1 in others */
    double traced_comm_ms; /* communication of a step that was traced; NaN */
    double hidden_share;   /* of that, overlapped with compute; NaN: nothing
                              to hide, or no trace */

    /* Derived from all runs: stp_train_derive(). */
    double speed_up;      /* throughput over that of one GPU; NaN: there is no
                             such run */
    double efficiency;    /* speed_up / n_gpus; NaN likewise */
    double exposed_share; /* of the time, 0 to 1; NaN: unknown */
};

/* Free with stp_train_runs_free(). */
struct stp_train_runs {
    struct stp_train_run *runs;
    size_t n, capacity;
};

/* Adds a run, which becomes theirs. */
void stp_train_runs_add(struct stp_train_runs *runs,
                        const struct stp_train_run *run);

/* Whether it is one of them, with the same times of epochs. */
bool stp_train_runs_have(const struct stp_train_runs *runs,
                         const struct stp_train_run *run);

void stp_train_run_free(struct stp_train_run *run);
void stp_train_runs_free(struct stp_train_runs *runs);

/* Whether all that defines them is equal, n_epochs too. */
bool stp_train_same(const struct stp_train_run *a,
                    const struct stp_train_run *b);

/* Adds up one of the run's lists of seconds an epoch. */
double stp_train_sum(const struct stp_train_run *run, const double *seconds);

/* Whether it computed in sixteen bits beside master weights. */
bool stp_train_is_mixed(const struct stp_train_run *run);

/* Derives the last members of all runs.  Speed-ups are over the mean of the
 * runs on one GPU of the same model, with the same size, precision, gradients,
 * batch and ga. */
void stp_train_derive(struct stp_train_runs *runs);

/* Prints one run, epoch by epoch. */
void stp_train_print_run(const struct stp_train_run *run, FILE *fp);

/* A line a run.  "-" is for an unknown value. */
void stp_train_print_summary(const struct stp_train_runs *runs, FILE *fp);

/* Prints a table for each model of GPU, below its name and its machine. */
void stp_train_print_models(const struct stp_train_runs *runs, FILE *fp);
