/* kernels.h - the data of device/pattern.h on a GPU, and work bound by memory
 *
 * All run in 'stream' of the current device, whose memory the pointers name,
 * and return at once. */
#pragma once

#include <cuda_runtime_api.h>

#include "device/pattern.h"

/* Writes 'n' elements of the input of 'rank', or 'n' that are no output. */
cudaError_t stp_kernel_fill(const struct stp_pattern *pattern, unsigned rank,
                            bool poison, void *data, uint64_t n,
                            cudaStream_t stream);

/* Adds to *found, on the GPU, what is found in 'n' elements that are to be the
 * output of 'rank'. */
cudaError_t stp_kernel_examine(const struct stp_pattern *pattern, unsigned rank,
                               const void *data, uint64_t n,
                               struct stp_found *found, cudaStream_t stream);

/* x[i] - y[i] into y[i], of 'n' floats: as much work as their sum, but done
 * twice it is undone, so that data stay the same however often it runs. */
cudaError_t stp_kernel_elementwise(const float *x, float *y, uint64_t n,
                                   cudaStream_t stream);
