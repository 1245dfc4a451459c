/* train.h - the training benchmark: a multilayer perceptron, data-parallel
 *
 * It shows how a mode of communication changes real training.  The model has
 * ReLU between its layers, softmax and cross-entropy behind the last; training
 * is plain SGD on synthetic data.  Every rank has all weights, and its part of
 * every batch; after each step the weights of all ranks are alike again. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "device/engine.h"

enum { STP_TRAIN_LAYERS = 8 }; /* at most, of weights */

struct stp_train_model {
    const char *name;
    unsigned n_layers;                    /* of weights, from 1 */
    unsigned width[STP_TRAIN_LAYERS + 1]; /* [0]: features, [n_layers]:
                                             classes */
};

/* tiny, base, large and xlarge. */
extern const struct stp_train_model stp_train_models[];
extern const unsigned stp_train_n_models;

/* NULL for any other name. */
const struct stp_train_model *stp_train_find_model(const char *name);

/* Weights and biases. */
uint64_t stp_train_n_params(const struct stp_train_model *model);

/* How gradients are summed over all ranks. */
enum stp_train_mode {
    STP_TRAIN_SINGLE,      /* not at all: there is one rank */
    STP_TRAIN_NAIVE,       /* after the backward pass, an all-reduce for each
                              parameter tensor, nothing beside it */
    STP_TRAIN_INTERLEAVED, /* beside the backward pass, one for each layer as
                              soon as its gradient is there */
    STP_TRAIN_BUCKETED,    /* the same, in buckets */
    STP_TRAIN_SHARDED,     /* reduce-scatter of all; each rank updates its part
                              of the weights; all-gather */
    STP_TRAIN_N_MODES,
};

enum stp_precision {
    STP_PRECISION_FP32,
    STP_PRECISION_TF32, /* products of fp32 in TF32 */
    STP_PRECISION_BF16, /* weights, activations; fp32 master weights */
    STP_PRECISION_FP16, /* the same, with dynamic loss scaling */
    STP_PRECISION_FP64, /* for tests */
    STP_N_PRECISIONS,
};

/* Their words: "naive", "bf16".  Static storage; -1 for any other. */
const char *stp_train_mode_name(int mode);
int stp_train_mode_from_name(const char *name, size_t len);
const char *stp_precision_name(int precision);
int stp_precision_from_name(const char *name, size_t len);

struct stp_train_config {
    const struct stp_train_model *model;
    enum stp_train_mode mode;
    enum stp_precision precision;
    bool half_gradients;   /* gradients are kept and sent in the sixteen bits of
                              bf16 or fp16, else in fp32, as PyTorch's AMP */
    unsigned batch;        /* samples of a step, of all ranks */
    unsigned accumulate;   /* micro-batches of a step, of which only the last
                              communicates */
    unsigned n_samples;    /* of an epoch: a multiple of 'batch' */
    unsigned n_epochs;     /* from 1 */
    unsigned warmup;       /* steps before the first, without update */
    bool trace;            /* some more steps behind the last, traced */
    double rate;           /* of learning, above 0 */
    uint64_t bucket_bytes; /* a bucket is full from here on */
    uint64_t first_bucket_bytes; /* the first, that of the last layers */
    uint64_t seed;               /* of data and weights */
    bool (*go_on)(void *user);   /* asked every few steps, in virtual time
                                    every epoch, on every rank: any no ends it
                                    with STP_ERR_STOPPED; or NULL */
    void *user;
};

/* Sets the defaults: model base, bucketed, fp32, 65,536 samples in batches of
 * 4096, 5 epochs, rate 0.01, seed 42, buckets of 25 MiB and first 1 MiB. */
void stp_train_default(struct stp_train_config *config_ret);

/* Checks that 'n_ranks' can train the configuration; STP_ERR_RANGE says what
 * was expected. */
enum stp_status stp_train_check(const struct stp_train_config *config,
                                unsigned n_ranks, struct stp_error *err);

/* Times of an epoch, those of the slowest rank. */
struct stp_train_epoch {
    double seconds;
    double comm_s;          /* collectives of gradients and weights, added up */
    double exposed_s;       /* what the main stream waited for them */
    double loss;            /* mean over the steps; NaN without data */
    enum stp_source source; /* of the times, the worst of all in them */
};

/* Free with stp_train_result_free(). */
struct stp_train_result {
    unsigned n_epochs; /* complete */
    struct stp_train_epoch *epochs;
    unsigned n_steps;
    double *losses;     /* of each step, over all ranks and micro-batches */
    double accuracy;    /* share of the samples, at the end; NaN without data */
    double total_s;     /* of the epochs */
    double throughput;  /* samples a second */
    unsigned n_skipped; /* steps, for an overflow */
    double last_loss_scale; /* 1 without scaling */
    struct stp_spans spans; /* what ran on this rank in the steps traced, by
                               begin */
    unsigned n_traced;      /* steps */
};

/* Runs one configuration on an open engine, which all ranks call, each with its
 * own.  A failure that is not a rank's death is that of all: rank 0 says why,
 * the others return STP_ERR_STOPPED or the same.  The engine's memory is
 * released.
 *
 * STP_ERR_RANGE as stp_train_check(), or for a type that the engine lacks;
 * STP_ERR_NOTHING if the engine cannot trace; STP_ERR_NOMEM; STP_ERR_LIMIT for
 * a loss that is not finite, and *err says in which step. *result_ret is
 * untouched on failure. */
enum stp_status stp_train_measure(const struct stp_engine *engine,
                                  const struct stp_train_config *config,
                                  struct stp_train_result *result_ret,
                                  struct stp_error *err);

void stp_train_result_free(struct stp_train_result *result);
