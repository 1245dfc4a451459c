/*
 * chunk.h - the chunk size that NCCL moves data in, which a v6 tuner may change
 */
#ifndef MOCK_CHUNK_H
#define MOCK_CHUNK_H

#include "channels.h"

/*
 * NCCL's own choice for one channel that moves 'n_bytes', before it is rounded
 * to grains.  *max_ret is what NCCL's buffers allow.
 */
size_t mock_default_chunk(const struct mock_model *model,
                          const struct mock_work *work, size_t n_bytes,
                          size_t *max_ret);

/* What NCCL rounds chunks down to. */
size_t mock_chunk_grain(int proto);

#endif /* MOCK_CHUNK_H */
