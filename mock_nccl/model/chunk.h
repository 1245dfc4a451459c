/*
 * chunk.h - the chunk size in which NCCL moves data, which a v6 tuner can
 * change
 *
 * Follows calcCollChunking() of NCCL 2.30.7, for buffers of NCCL's own sizes
 * without user registration.
 */
#ifndef MOCK_CHUNK_H
#define MOCK_CHUNK_H

#include "model/channels.h"

/* Sets the initial chunk sizes of NVLS and NVLS Tree. The model must have its
 * ranks, nodes and compute capability. */
void mock_set_nvls_chunks(struct mock_model *model,
                          const struct mock_graph *nvls);

/*
 * NCCL's own chunk size for 'n_bytes' on 'n_channels', before rounding to
 * grains. *max_ret is the limit of NCCL's buffers.
 */
size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, int n_channels,
                          size_t n_bytes, size_t *max_ret);

/* The grain: NCCL rounds chunks down to its multiples. */
size_t mock_chunk_grain(int proto);

#endif /* MOCK_CHUNK_H */
