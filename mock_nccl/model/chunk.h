/*
 * chunk.h - the chunk size that NCCL moves data in, which a v6 tuner may change
 *
 * As calcCollChunking() of NCCL 2.30.7, for buffers of NCCL's own sizes that
 * the user has not registered.
 */
#ifndef MOCK_CHUNK_H
#define MOCK_CHUNK_H

#include "model/channels.h"

/* Sets what NVLS and NVLS Tree start from.  The model has its ranks, nodes and
 * compute capability. */
void mock_set_nvls_chunks(struct mock_model *model,
                          const struct mock_graph *nvls);

/*
 * NCCL's own choice for 'n_channels' that move 'n_bytes' together, before it is
 * rounded to grains.  *max_ret is what NCCL's buffers allow.
 */
size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, int n_channels,
                          size_t n_bytes, size_t *max_ret);

/* What NCCL rounds chunks down to. */
size_t mock_chunk_grain(int proto);

#endif /* MOCK_CHUNK_H */
