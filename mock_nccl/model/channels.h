/*
 * channels.h - on how many channels one collective runs
 */
#ifndef MOCK_CHANNELS_H
#define MOCK_CHANNELS_H

#include "mock_nccl.h"
#include "model/graphs.h"
#include "model/model.h"

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
    int n_together;       /* channels that share each part: 1, but for CollNet
                             all of them */
    int first;            /* of them */
    size_t element_bytes; /* of one element over all ranks */
    size_t lo;            /* elements */
    size_t mid;           /* of each channel between */
    size_t hi;
};

/* What shares channels in a group, in the order in which NCCL schedules. */
enum mock_kind {
    MOCK_KIND_PLAIN,
    MOCK_KIND_NVLS,
    MOCK_KIND_COLLNET, /* shares channels with no other kind, nor does the next
                        */
    MOCK_KIND_COLLNET_NVLS,
    MOCK_N_KINDS,
};
enum mock_kind mock_kind_of(const struct mock_model *model, int algo);

/*
 * The channels that collectives of one group share, of one kind.  Each takes up
 * where the one before it left off.  With CollNet there is a lane for each, and
 * it takes the count as it is.
 */
struct mock_lane {
    bool alone;         /* CollNet */
    int limit;          /* channels that there are */
    size_t traffic;     /* of all that will be scheduled, bytes */
    int max_channels;   /* of all, at most the limit */
    size_t per_channel; /* bytes that a channel is given */
    int channel;        /* the next one */
    size_t used;        /* bytes that it already has */
};

/* An empty lane for collectives with this algorithm. */
struct mock_lane mock_lane_of(const struct mock_model *model, int algo);

/* Announces a collective: all are announced before the first is scheduled.
 * 'max_channels' is NCCL's own count or what its field kept; never 0. */
void mock_lane_add(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work, int max_channels);

/* Schedules the next collective, in the order in which they were announced. */
void mock_schedule(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work,
                   struct mock_schedule *schedule_ret);

/* Bytes over the links, as NCCL weighs a rank's share of a collective, without
 * LL's factor of 4. */
size_t mock_traffic(const struct mock_model *model, int coll, size_t n_bytes,
                    size_t element_size);

/* Bytes of a rank's share, which is what NCCL's messages have. */
size_t mock_share_bytes(const struct mock_model *model, int coll,
                        size_t n_bytes, size_t element_size);

#endif /* MOCK_CHANNELS_H */
