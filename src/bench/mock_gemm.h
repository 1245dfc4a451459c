/*
 * mock_gemm.h - how long a matrix product takes on a recorded machine
 */
#ifndef STP_MOCK_GEMM_H
#define STP_MOCK_GEMM_H

#include "bench/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mock_machine; /* mock_nccl.h */

/*
 * Microseconds of '*gemm' on each GPU of the machine, nothing beside it.  In
 * bf16 that of overlap.csv where it has this product, and in proportion between
 * two that differ in k alone.  All else is modelled: a launch, and the
 * operations at a part of the peak rate that NVIDIA states for GPUs of this
 * compute capability.
 *
 * STP_ERR_RANGE for a type that these GPUs do not multiply, or a side of 0.
 */
enum stp_status stp_mock_gemm_us(const struct mock_machine *machine,
                                 const struct stp_gemm *gemm, double *us_ret,
                                 struct stp_error *err);

#ifdef __cplusplus
}
#endif
#endif /* STP_MOCK_GEMM_H */
