/* trainer.h - a model on an engine: its memory, and one step
 *
 * stp_train_measure() is made of it.  A trainer is one rank's and thread's. */
#pragma once

#include "train/train_plan.h"

enum {
    STP_TRAIN_WINDOW = 16, /* steps between two synchronise(), at most */
    STP_TRAIN_PAIRS = STP_TRAIN_WINDOW * (STP_TRAIN_TENSORS + 2),
};

/* Two events, and what is between them. */
struct stp_train_pair {
    unsigned from, to;
    bool comm;    /* a collective of gradients or weights */
    bool exposed; /* the main stream waits */
};

/* ---- dynamic loss scaling ----
 *
 * Gradients of fp16 are computed of a loss times a factor, so that small ones
 * are not 0.  It halves with each overflow, and doubles after many without
 * (Micikevicius et al., Mixed Precision Training, ICLR 2018), by the numbers of
 * PyTorch's GradScaler. */

enum { STP_LOSS_SCALE_START = 65536, STP_LOSS_SCALE_PATIENCE = 2000 };

struct stp_loss_scale {
    double scale;       /* a power of 2 */
    unsigned n_good;    /* steps in a row since it last changed */
    unsigned n_skipped; /* steps, in all */
};

void stp_loss_scale_begin(struct stp_loss_scale *s);

/* Tells the scale that a step is over. 'overflow': its gradients were not all
 * finite, and it must not have changed any weight. */
void stp_loss_scale_update(struct stp_loss_scale *s, bool overflow);

/* ---- the trainer ---- */

/* Addresses are the engine's. */
struct stp_trainer {
    struct stp_engine engine;
    struct stp_device_info info;
    struct stp_train_config config;
    struct stp_train_layout layout;
    struct stp_train_chunk chunks[STP_TRAIN_TENSORS];
    unsigned n_chunks;
    unsigned rows;   /* of a micro-batch on one rank */
    unsigned share;  /* of a batch on one rank */
    uint64_t n_rows; /* samples on this rank */
    int type;        /* of weights, features, outputs */
    int master_type;
    int gradient_type;

    void *weights;   /* flat */
    void *master;    /* flat; 'weights' if they are of its type */
    void *gradients; /* flat */
    void *staging;   /* of numbers on their way from the host to another type;
                        NULL: none is needed */
    void *features;  /* n_rows x width[0] */
    int32_t *labels; /* n_rows */
    void *outputs[STP_TRAIN_LAYERS + 1]; /* of layer l - 1: rows x width[l] */
    void *deltas[2]; /* gradients of outputs, turn and turn about */
    double *losses;  /* of a window's steps, and one more that says how many
                        ranks want to stop; in the end times of epochs */
    double *correct; /* answers, and the same */
    float *found;    /* whether a gradient is not finite */

    struct stp_loss_scale scale;
    unsigned n_events; /* since the last synchronise() */
    struct stp_train_pair pairs[STP_TRAIN_PAIRS];
    unsigned n_pairs;
    unsigned sent; /* chunks of this step */

    enum stp_status status; /* the first failure, for good, and why */
    struct stp_error err;
};

/* Calls an operation of the engine unless one failed before. */
#define STP_DO(t, op, ...)                                                     \
    do {                                                                       \
        if ((t)->status == STP_OK)                                             \
            (t)->status =                                                      \
                (t)->engine.ops->op((t)->engine.self, __VA_ARGS__, &(t)->err); \
    } while (0)

/* Notes work of this kind; more arguments set members of stp_work. */
#define STP_NOTE(t, of_kind, ...)                                              \
    STP_DO(t, note,                                                            \
           (&(struct stp_work){.kind = STP_WORK_##of_kind, __VA_ARGS__}))

/* Notes that 'nbytes' become 0. */
void stp_trainer_zero(struct stp_trainer *t, void *address, uint64_t nbytes);

/* The address of element 'i' behind 'address'; NULL stays NULL. */
void *stp_trainer_at(void *address, int type, uint64_t i);

/* Takes memory.  All ranks call it.  The trainer needs no end: its memory is
 * the engine's, to be released.  Failures as stp_train_measure()'s. */
enum stp_status stp_trainer_begin(struct stp_trainer *t,
                                  const struct stp_engine *engine,
                                  const struct stp_train_config *config,
                                  struct stp_error *err);

/* Fills in data and weights.  All ranks call it. */
void stp_trainer_fill(struct stp_trainer *t);

/* Notes a forward pass over 'rows' samples of this rank from 'row' on. */
void stp_trainer_forward(struct stp_trainer *t, uint64_t row);

/* Notes a whole step on the batch that is this rank's from sample 'row' on: its
 * micro-batches, communication and, if asked, the update.  The loss of this
 * rank's part is added to losses[slot]. */
void stp_trainer_step(struct stp_trainer *t, uint64_t row, unsigned slot,
                      bool update);

/* Runs what was noted. */
void stp_trainer_synchronise(struct stp_trainer *t);

/* Numbers events from 0 again, once those of synchronise() were read. */
void stp_trainer_forget(struct stp_trainer *t);

/* All-reduces 'n' elements in place. */
void stp_trainer_reduce(struct stp_trainer *t, unsigned stream, int type,
                        int op, uint64_t n, void *data);
