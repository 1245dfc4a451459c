/* channels.h - the number of channels of a collective, and its chunks */
#pragma once

#include "mock_nccl.h"
#include "model/graphs.h"
#include "model/cost_model.h"

/* A collective that NCCL schedules on channels. */
struct mock_work {
    int coll;
    int algo;
    int proto;
    size_t n_bytes; /* as getCollInfo counts them */
    size_t element_size;
};

/* NCCL's own channel count for this size. */
int mock_default_channels(const struct mock_model *model, int algo, int proto,
                          size_t n_bytes);

/* NCCL's signed 8-bit copy of a tuner's channel count. */
int mock_channel_field(int n_channels);

/* The elements of each channel, NCCL's countLo, countMid and countHi: of the
 * first channel, of each channel between, and of the last. */
struct mock_schedule {
    int n_channels;
    int n_together; /* channels that share each part: 1, but all of them with
                       CollNet */
    int first;      /* first channel */
    size_t element_bytes; /* bytes of an element over all ranks */
    size_t lo;
    size_t mid;
    size_t hi; /* 0: the first channel is the only one */
};

/* Kinds of collectives that share channels in a group, in the order in which
 * NCCL schedules them. */
enum mock_kind {
    MOCK_KIND_PLAIN,
    MOCK_KIND_NVLS,
    MOCK_KIND_COLLNET, /* each collective has all its channels for itself; so in
                          the next kind */
    MOCK_KIND_COLLNET_NVLS,
    MOCK_N_KINDS,
};
enum mock_kind mock_kind_of(const struct mock_model *model, int algo);

/* Whether PAT moves data within nodes by NVLS: several ranks a node. */
bool mock_pat_is_by_nvls(const struct mock_model *model);

/* The channels that the collectives of one kind in a group share. Each
 * collective begins on the channel where the previous one ended, or on the next
 * if that channel has its share. With CollNet
 * each collective has a lane of its own, with the count as it is. */
struct mock_lane {
    bool alone;       /* the lane belongs to one collective (CollNet) */
    int limit;        /* number of channels of the communicator */
    size_t traffic;   /* traffic of all announced collectives, bytes */
    int max_channels; /* sum of the channel counts of the announced collectives,
                         at most the limit; NCCL fails where it is 0 */
    size_t per_channel; /* bytes per channel */
    int channel;        /* the next channel */
    size_t used;        /* bytes that are already on it */
};

/* An empty lane for collectives with this algorithm. */
struct mock_lane mock_lane_of(const struct mock_model *model, int algo);

/* Announces a collective: all are announced before the first is scheduled.
 * 'max_channels' is NCCL's own count or its copy of the tuner's; never 0. */
void mock_lane_add(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work, int max_channels);

/* Schedules the next collective, in the order of the announcements. */
void mock_schedule(struct mock_lane *lane, const struct mock_model *model,
                   const struct mock_work *work,
                   struct mock_schedule *schedule_ret);

/* Bytes over the links that NCCL computes for a rank's share of a collective,
 * without LL's factor of 4. */
size_t mock_traffic(const struct mock_model *model,
                    const struct mock_call *call);

/* Bytes of a rank's share, which NCCL's log lines contain; of a call without
 * defaults, too. */
size_t mock_share_bytes(const struct mock_model *model,
                        const struct mock_call *call);

/* The chunk size in which NCCL moves data, which a v6 tuner can change, follows
 * calcCollChunking() of NCCL 2.30.7, for buffers without user registration. */

/* Sets the buffers' sizes, and the initial chunk sizes of NVLS and NVLS Tree.
 * The model must have its ranks, nodes and compute capability. */
void mock_set_chunks(struct mock_model *model, const struct mock_graph *nvls,
                     const char *const *variables);

/* NCCL's own chunk size for 'n_bytes' on 'n_channels', before rounding to
 * grains. *max_ret is the limit of NCCL's buffers. */
size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, int n_channels,
                          size_t n_bytes, size_t *max_ret);

/* The grain: NCCL rounds chunks down to its multiples. */
size_t mock_chunk_grain(int proto);
