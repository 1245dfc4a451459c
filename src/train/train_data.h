/*
 * train_data.h - the numbers that training begins with
 *
 * They depend on nothing but the seed: not on the ranks, nor on who asks.
 */
#ifndef STP_TRAIN_DATA_H
#define STP_TRAIN_DATA_H

#include "train/train_plan.h"

/* Feature 'i' of all features of all samples: of a normal distribution, mean 0
 * and variance 1 (Box and Muller, 1958). */
double stp_train_feature(uint64_t seed, uint64_t i);

/* From 0 to n_classes - 1, each as likely. */
int32_t stp_train_label(uint64_t seed, uint64_t sample, unsigned n_classes);

/* Element 'i' of the flat array, which is of a tensor of 'layer': uniform
 * between plus and minus 1 / sqrt(inputs), PyTorch's default. */
double stp_train_weight(uint64_t seed, const struct stp_train_model *model,
                        unsigned layer, uint64_t i);

#endif /* STP_TRAIN_DATA_H */
