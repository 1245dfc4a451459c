/*
 * channels.h - on how many channels one collective runs
 */
#ifndef MOCK_CHANNELS_H
#define MOCK_CHANNELS_H

#include "cost_model.h"

/* What is to be scheduled. */
struct mock_work {
    int coll;
    int algo;
    int proto;
    size_t n_bytes; /* as a tuner counts them */
    size_t element_size;
};

/* NCCL's own count for this size. */
int mock_default_channels(const struct mock_model *model, int algo, int proto,
                          size_t n_bytes);

/* What NCCL's signed 8-bit field keeps of a tuner's count. */
int mock_channel_field(int n_channels);

/* Who moves what: one channel the least, some the middle, one the rest. */
struct mock_schedule {
    int n_channels;
    size_t element_bytes; /* of one element over all ranks */
    size_t lo;            /* elements */
    size_t mid;           /* of each channel between */
    size_t hi;
};

/* 'max_channels' is NCCL's own count or what its field kept; never 0. */
void mock_schedule(const struct mock_model *model, const struct mock_work *work,
                   int max_channels, struct mock_schedule *schedule_ret);

#endif /* MOCK_CHANNELS_H */
