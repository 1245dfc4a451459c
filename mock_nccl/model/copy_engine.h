/*
 * copy_engine.h - NCCL's prediction for allgathers by the GPUs' copy engines
 *
 * Follows ncclCeAgLatencyUs() of NCCL 2.31.2 (src/tuning/ce_model.cc), out of
 * place, with CUDA drivers before 13.4.
 */
#ifndef MOCK_COPY_ENGINE_H
#define MOCK_COPY_ENGINE_H

#include "mock_nccl.h"
#include "model/model.h"

/* Fills in the ways of copying 'share_bytes' of each rank, in NCCL's order;
 * there are at most MOCK_MAX_COPIES. Returns their number. */
size_t mock_copy_list(const struct mock_model *model, size_t share_bytes,
                      bool captured, struct mock_copy *copies_ret);

/* The one that NCCL prefers. */
const struct mock_copy *mock_copy_pick(const struct mock_copy *copies,
                                       size_t n);

#endif /* MOCK_COPY_ENGINE_H */
