/* train_plan.h - where parameters lie, which are sent together, and the numbers
 * that training begins with
 *
 * All parameters are in one flat array, and so are their gradients, in the
 * order of the layers: tensor 2l is the weights of layer l (outputs x inputs),
 * 2l + 1 its bias.  Between two there may be elements that stay 0, so that each
 * begins aligned. */
#pragma once

#include "train/train.h"

enum { STP_TRAIN_TENSORS = 2 * STP_TRAIN_LAYERS };

struct stp_train_span {
    uint64_t first; /* element of the flat array */
    uint64_t n;
};

struct stp_train_layout {
    unsigned n_tensors;
    struct stp_train_span tensors[STP_TRAIN_TENSORS];
    uint64_t n;     /* elements of the flat array */
    uint64_t shard; /* of each rank: n / n_ranks */
};

/* Lays out a model that was checked. */
void stp_train_lay_out(const struct stp_train_model *model, unsigned n_ranks,
                       struct stp_train_layout *layout_ret);

/* The part of the flat array that one collective sends once the backward pass
 * has finished 'tensor'. It goes from the last tensor to the first. */
struct stp_train_chunk {
    struct stp_train_span span;
    unsigned tensor;
};

/* The collectives of a step in their order, at most STP_TRAIN_TENSORS, into
 * chunks_ret[].  Returns how many: one a tensor for naive, one a layer for
 * interleaved, one a bucket for bucketed, and none for single and sharded.
 *
 * A bucket takes tensors whole, from the last to the first, and is full when it
 * has as many bytes of gradients as config says, or more: as those of PyTorch's
 * DistributedDataParallel. */
unsigned stp_train_chunks(const struct stp_train_config *config,
                          const struct stp_train_layout *layout,
                          struct stp_train_chunk *chunks_ret);

/* Types of the engine, enum stp_type. */
int stp_train_type(const struct stp_train_config *config);
int stp_train_master_type(const struct stp_train_config *config);
int stp_train_gradient_type(const struct stp_train_config *config);

/* ---- data: of the seed alone, whichever rank asks ---- */

/* Feature 'i' of all features of all samples: of a normal distribution, mean 0
 * and variance 1 (Box and Muller, 1958). */
double stp_train_feature(uint64_t seed, uint64_t i);

/* From 0 to n_classes - 1, each as likely. */
int32_t stp_train_label(uint64_t seed, uint64_t sample, unsigned n_classes);

/* Element 'i' of the flat array, which is of a tensor of 'layer': uniform
 * between plus and minus 1 / sqrt(inputs), PyTorch's default. */
double stp_train_weight(uint64_t seed, const struct stp_train_model *model,
                        unsigned layer, uint64_t i);
