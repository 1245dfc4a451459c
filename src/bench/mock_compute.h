/*
 * mock_compute.h - how long compute takes on a recorded machine
 */
#ifndef STP_MOCK_COMPUTE_H
#define STP_MOCK_COMPUTE_H

#include "bench/device.h"

#ifdef __cplusplus
extern "C" {
#endif

struct mock_machine; /* mock_nccl.h */

/* A time, and how much it is worth: STP_SOURCE_RECORDED, INTERPOLATED or
 * MODELLED. */
struct stp_mock_compute {
    double us;
    enum stp_source source;
};

/*
 * The time of '*gemm' on each GPU of the machine, nothing beside it.  In bf16
 * that of overlap.csv where it has this product, and in proportion between two
 * that differ in k alone or a little beyond them.  All else is modelled: the
 * same proportion further beyond, else a launch, and the operations at a part
 * of the peak rate that NVIDIA states for GPUs of this compute capability.
 *
 * STP_ERR_RANGE for a type that these GPUs do not multiply, or a side of 0.
 */
enum stp_status stp_mock_gemm(const struct mock_machine *machine,
                              const struct stp_gemm *gemm,
                              struct stp_mock_compute *compute_ret,
                              struct stp_error *err);

/* The same of an elementwise kernel over vectors of 'n_bytes': modelled, a
 * launch and what goes through memory at a part of the rate that NVIDIA states
 * for it. */
struct stp_mock_compute stp_mock_elementwise(const struct mock_machine *machine,
                                             uint64_t n_bytes);

#ifdef __cplusplus
}
#endif
#endif /* STP_MOCK_COMPUTE_H */
