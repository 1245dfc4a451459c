/* symmetric.h - NCCL's predictions for symmetric windows: of kernels and copies
 *
 * Follows queryModel_lsa() of NCCL 2.29.7 and 2.30.7 (src/sym_kernels.cc) and
 * of 2.31.2 (src/tuning/sym_model.cc), on one node, of buffers aligned alike to
 * 16 bytes.  Omitted: kernels between nodes, and NCCL_SYM_KERNEL,
 * NCCL_SYM_CTAS, NCCL_SYM_TMA_ENABLE and NCCL_SYM_NOWIN_ENABLE. */
#pragma once

#include "mock_nccl.h"
#include "model/cost_model.h"

/* Collectives that one kernel would run. */
struct mock_symmetric_work {
    int coll;
    bool fp8;
    size_t n_bytes;   /* of one rank and all collectives, each rounded up */
    size_t max_bytes; /* of the largest, not rounded */
    int n_works;
    enum mock_windows windows;
};

/* Whether the GPUs of a node can write to all of them at once. */
bool mock_symmetric_has_multicast(const struct mock_model *model);

/* The bytes of one rank as kernels count them. */
size_t mock_symmetric_round(size_t share_bytes);

/* Fills in the kernels that can run the work, in NCCL's order; there are at
 * most MOCK_MAX_SYMMETRIC. Returns their number. */
size_t mock_symmetric_list(const struct mock_model *model,
                           const struct mock_symmetric_work *work,
                           struct mock_symmetric_kernel *kernels_ret);

/* The kernel that NCCL prefers, each charged for its blocks; NULL of none. */
const struct mock_symmetric_kernel *
mock_symmetric_pick(const struct mock_model *model,
                    const struct mock_symmetric_kernel *kernels, size_t n);

/* ---- allgathers by the GPUs' copy engines ---- */

/* They follow ncclCeAgLatencyUs() of NCCL 2.31.2 (src/tuning/ce_model.cc), out
 * of place, with CUDA drivers before 13.4. */

/* Fills in the ways of copying 'share_bytes' of each rank, in NCCL's order;
 * there are at most MOCK_MAX_COPIES. Returns their number. */
size_t mock_copy_list(const struct mock_model *model, size_t share_bytes,
                      bool captured, struct mock_copy *copies_ret);

/* The one that NCCL prefers. */
const struct mock_copy *mock_copy_pick(const struct mock_copy *copies,
                                       size_t n);
