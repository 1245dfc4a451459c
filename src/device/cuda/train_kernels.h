/* train_kernels.h - the kernels of training on a GPU other than GEMMs
 *
 * Operations of engine.h, which defines them; all run in 'stream' of the
 * current device, whose memory the pointers name, and return at once.
 * cudaErrorNotSupported for types without a kernel. A call without elements
 * only loads its kernel, so that none is loaded later, beside a collective that
 * waits for other GPUs. */
#pragma once

#include <cuda_runtime_api.h>
#include <stdint.h>

#include "device/engine.h"

/* Loads all of them on the current device. */
cudaError_t stp_train_kernels_load(void);

cudaError_t stp_train_cross_entropy(const struct stp_cross_entropy *loss,
                                    cudaStream_t stream);

/* All kinds but ZERO and SUBTRACT; 'scratch' is as below. */
cudaError_t stp_train_kernel(const struct stp_kernel *kernel, void *scratch,
                             uint64_t scratch_bytes, cudaStream_t stream);

/* STP_KERNEL_COLUMN_SUM.  Sums of parts of the matrix go through 'scratch', of
 * which a row of the matrix in F32 (F64: in F64) is enough, 32 are best.  Sums
 * are the same every time. */
cudaError_t stp_train_column_sum(const struct stp_kernel *kernel, void *scratch,
                                 uint64_t scratch_bytes, cudaStream_t stream);

/* Copies are of type F32, F16 or BF16 if w is of F32; of F64 all are. */
cudaError_t stp_train_update(const struct stp_update *update,
                             cudaStream_t stream);

/* The rest of a product's epilogue that the library lacks: adds 'bias' unless
 * that is NULL, and turns numbers below 0 into 0 if asked. */
struct stp_train_epilogue {
    unsigned m, n;
    int type;   /* of the bias */
    int type_c; /* 'type' or F32 */
    bool relu;
    void *c;
    const void *bias;
};
cudaError_t stp_train_epilogue(const struct stp_train_epilogue *epilogue,
                               cudaStream_t stream);
