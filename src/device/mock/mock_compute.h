/* mock_compute.h - how long compute takes on a recorded machine */
#pragma once

#include "device/device.h"

struct mock_machine; /* mock_nccl.h */

/* A time and its worth: STP_SOURCE_RECORDED, INTERPOLATED or MODELLED. */
struct stp_mock_compute {
    double us;
    enum stp_source source;
};

/* The time of '*gemm' on each GPU of the machine, not overlapped.  In bf16
 * that of overlap.csv where it has this product, and in proportion between two
 * that differ in k alone or a little beyond them.  All else is modelled: the
 * same proportion further beyond, else a launch, and the operations at a part
 * of the peak rate that NVIDIA states for GPUs of this compute capability.
 *
 * STP_ERR_RANGE for a type that these GPUs do not multiply, or a side of 0. */
enum stp_status stp_mock_gemm(const struct mock_machine *machine,
                              const struct stp_gemm *gemm,
                              struct stp_mock_compute *compute_ret,
                              struct stp_error *err);

/* STP_ERR_RANGE where stp_mock_gemm() returns it; looks for no time. */
enum stp_status stp_mock_check_gemm(const struct mock_machine *machine,
                                    const struct stp_gemm *gemm,
                                    struct stp_error *err);

/* Whether these GPUs have TF32: from compute capability 8.0 on. */
bool stp_mock_has_tf32(const struct mock_machine *machine);

/* stp_mock_gemm() of F32 in TF32, modelled at half the rate of F16.
 * STP_ERR_RANGE where there is none. */
enum stp_status stp_mock_gemm_tf32(const struct mock_machine *machine,
                                   const struct stp_gemm *gemm,
                                   struct stp_mock_compute *compute_ret,
                                   struct stp_error *err);

/* A kernel that reads and writes 'n_bytes' of memory in all, and computes next
 * to nothing: modelled, a launch and the bytes at a part of the rate that
 * NVIDIA states for the memory. */
struct stp_mock_compute stp_mock_kernel(const struct mock_machine *machine,
                                        double n_bytes);

/* Bytes of a GPU's memory, as its name says; 0: not known. */
uint64_t stp_mock_memory(const struct mock_machine *machine);
