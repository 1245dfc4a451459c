/* tuner.h - calls a tuner of any version, as NCCL's shims do */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { MOCK_OLDEST_TUNER = 2, MOCK_NEWEST_TUNER = 7 };

struct mock_tuner {
    int version;        /* MOCK_OLDEST_TUNER to MOCK_NEWEST_TUNER */
    const void *symbol; /* the tuner's ncclTuner_vN_t */

    /* NCCL uses a tuner of its own version directly and wraps older ones.  A
     * wrapper has no finalize until an init has succeeded, and calling it would
     * crash.  By the functions below alone: threads share it. */
    bool has_finalize;
};

static inline bool mock_tuner_has_finalize(const struct mock_tuner *tuner)
{
    return __atomic_load_n(&tuner->has_finalize, __ATOMIC_SEQ_CST);
}

static inline void mock_tuner_set_finalize(struct mock_tuner *tuner, bool has)
{
    __atomic_store_n(&tuner->has_finalize, has, __ATOMIC_SEQ_CST);
}

struct mock_init_args {
    uint64_t comm_id;
    size_t n_ranks;
    size_t n_nodes;
    ncclNvlDomainInfo_v5_t domains;
    ncclTunerConstants_v7_t *constants; /* edited in place */
};

struct mock_ask_args {
    ncclFunc_t coll;
    size_t n_bytes;
    int n_pipe_ops;
    int reg_buff;
    int n_algos;
    float *table; /* flat, n_algos x NCCL_NUM_PROTOCOLS; edited in place */
    bool collnet; /* whether CollNet and NVLS support the collective, for
                     mock_tuner_ask_pair() only */
    bool nvls;
};

/* The tuner's name, or "(null)". */
const char *mock_tuner_name(const struct mock_tuner *tuner);

/* False if a function that NCCL calls without a check is NULL. */
bool mock_tuner_is_complete(const struct mock_tuner *tuner);

ncclResult_t mock_tuner_init(struct mock_tuner *tuner,
                             struct mock_init_args *args, void **context);
ncclResult_t mock_tuner_ask(const struct mock_tuner *tuner, void *context,
                            const struct mock_ask_args *args, int *n_channels);
/* For a v2 tuner only, which may leave its arguments unchanged. */
ncclResult_t mock_tuner_ask_pair(const struct mock_tuner *tuner, void *context,
                                 const struct mock_ask_args *args, int *algo,
                                 int *proto, int *n_channels);
ncclResult_t mock_tuner_finalize(const struct mock_tuner *tuner, void *context);

/* True for a v6 tuner with getChunkSize. */
bool mock_tuner_has_chunks(const struct mock_tuner *tuner);
ncclResult_t mock_tuner_chunk(const struct mock_tuner *tuner, void *context,
                              ncclFunc_t coll, size_t n_bytes, int algo,
                              int proto, int n_channels, size_t *chunk);
